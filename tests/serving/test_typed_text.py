"""What the page shows of a text is what the library says, and a change is what it says it is."""

import urllib.request
from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

import limelight
from limelight.errors import InputError
from limelight.serving.app import ServedModel, model_facts
from limelight.serving.texts import (
    MAX_CHARACTERS,
    TextRequest,
    batch_kind,
    explain_text,
    explain_texts,
    opening_parts,
    parse_request,
)

TEXT = "The plot is predictable, but the acting is superb."


def shown(model, text=TEXT, **asked):
    answer = explain_text(
        model, TextRequest(tab="t", panel="p", text=text, **asked), lambda *_: None
    )
    return msgspec.json.decode(msgspec.json.encode(answer))


@pytest.mark.parametrize("method", ["lime", "shapley", "loo", "alpha-avg", "gxi"])
def test_the_scores_are_those_of_explain(shipped, method):
    (told,) = shown(shipped, methods=[method])["explanations"]
    found = limelight.explain(shipped, TEXT, method)
    assert limelight.Explanation.from_json(msgspec.json.encode(told)) == found


def test_the_prediction_is_there_without_any_method(shipped):
    said = shown(shipped)["prediction"]
    chances = {one["name"]: one["probability"] for one in said["outcomes"]}
    assert chances == pytest.approx(
        dict(zip(shipped.classes, shipped.predict_proba([TEXT])[0], strict=True))
    )
    assert said["target"] == "positive"


@pytest.mark.parametrize(
    ("kind", "methods"),
    [
        ("signed", ["loo"]),
        ("unsigned", ["alpha-avg"]),
        ("one-sided", ["generic-attention"]),
        ("signed unsigned", ["loo", "alpha-avg"]),
        ("signed one-sided", ["loo", "generic-attention"]),
        ("signed unsigned one-sided", ["loo", "alpha-avg", "generic-attention"]),
    ],
)
def test_the_page_opens_with_the_sentence_of_the_reports(shipped, kind, methods):
    c = limelight.compare(shipped, TEXT, methods=methods)
    assert tuple(shown(shipped, methods=methods)["prediction"]["openings"][kind]) == opening_parts(
        list(c)
    )
    assert f"{opening_parts(list(c))[2]}</p>" in c.to_html(fragment=True)


def test_what_is_shown_first_is_faithful_and_does_not_wait(shipped):
    pytest.importorskip("transformers", reason="a deep model (extra hf)")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    deep = limelight.wrap(network, tokenizer=tokenizer)
    models = {"exact": shipped, "deep": deep, "function": limelight.wrap(_half, classes=["a", "b"])}
    facts = {name: model_facts(ServedModel(name="", model=one)) for name, one in models.items()}
    first = {name: one["default_methods"] for name, one in facts.items()}
    assert first == {
        "exact": ["lime", "shapley", "alpha-avg"],
        "deep": ["shapley", "lrp"],
        "function": ["shapley", "lime"],
    }
    quick = {one["id"] for one in facts["deep"]["methods"] if one["is_quick"]}
    assert "lrp" in quick
    assert "shapley" not in quick


def test_a_learned_method_is_shown_first_and_by_no_folder(serving, tmp_path, request):
    pytest.importorskip("torch", reason="a method is learned with torch")
    request.getfixturevalue("briefly")
    words = ["superb", "dull", "film", "plot", "music"]
    rng = np.random.default_rng(0)
    texts = sorted({" ".join(rng.choice(words, 6)) for _ in range(40)})
    model = limelight.wrap(_tone, classes=["bad", "good"], scale="logit")
    learned = limelight.learn(model, texts, output=tmp_path, judged=0)
    own = ServedModel(name="", model=model, learned=learned)
    facts = model_facts(own)
    assert facts["default_methods"] == ["learned", "shapley"]
    (row,) = [one for one in facts["methods"] if one["id"] == "learned"]
    assert row["is_quick"]
    page = serving(model, learned=tmp_path)
    for named in ("learned", "learned:/etc"):  # a page names no folder of this machine
        asked = {"tab": "t", "panel": "p", "text": "a superb film", "methods": [named]}
        request = urllib.request.Request(f"{page.url}text", msgspec.json.encode(asked))
        with urllib.request.urlopen(request) as answer:
            last = msgspec.json.decode(answer.read().splitlines()[-1])
        (told,) = last["result"]["explanations"]
        found = limelight.explain(model, "a superb film", learned)
        assert limelight.Explanation.from_json(msgspec.json.encode(told)) == found
    with pytest.raises(
        InputError, match=r"was learned from the model .* not from .* Serve that model"
    ):
        serving(limelight.wrap(_half, classes=["bad", "good"]), learned=learned)


def _tone(texts):
    return [[0.0, float(text.count("superb") - text.count("dull"))] for text in texts]


def _half(texts):
    return np.full((len(texts), 2), 0.5)


def test_a_word_that_is_removed_is_gone_and_the_rest_reads_well(shipped):
    told = shown(shipped, methods=["loo"], changes=[("superb", 0, None)])
    assert told["text"] == "The plot is predictable, but the acting is."
    assert told["change"]["before"] == pytest.approx(shown(shipped)["prediction"]["value"])
    assert told["change"]["after"] == pytest.approx(
        shown(shipped, told["text"])["prediction"]["value"]
    )
    assert told["explanations"][0]["text"] == told["text"]


def test_a_change_of_the_text_keeps_the_answer():
    pytest.importorskip("transformers", reason="a language model (extra hf)")
    folder = Path(__file__).resolve().parents[3] / "shared" / "models" / "gpt2-mini-imdb"
    if not folder.exists():
        pytest.skip("needs the shared models")
    model = limelight.load(folder, template="{text} In short:", max_new_tokens=6)
    assert model_facts(ServedModel(name="", model=model))["default_features"] == "sentences"
    text, gone = "The plot is dull. The acting is awful. It rained.", "The acting is awful."
    asked = {"methods": ["loo"], "features": "sentences"}
    before, after = (shown(model, text, changes=c, **asked) for c in ([], [[gone, 0, None]]))
    written = model.generate(text)
    assert before["prediction"]["openings"]["signed"][1] == f"“{written.text}”"
    assert [one["name"] for one in before["prediction"]["outcomes"]] == ["log-probability"]
    left = text.replace(f" {gone}", "")
    assert model.generate(left) != written  # it would write something else
    direct = limelight.explain(model, left, "loo", answer=written.text).prediction["answer"]
    assert after["change"]["after"] == pytest.approx(direct, abs=1e-4)
    scores = dict(limelight.explain(model, text, "loo").as_list())
    assert before["prediction"]["value"] - direct == pytest.approx(scores[gone], abs=1e-3)


def test_every_occurrence_goes_and_the_first_word_leaves_no_space(shipped):
    assert shown(shipped, changes=[("the", 0, None)])["text"] == (
        "plot is predictable, but acting is superb."
    )


def test_removal_by_the_methods_is_what_leave_one_out_says(shipped):
    told = shown(shipped, changes=[("superb", 0, None)])["change"]
    scores = dict(limelight.explain(shipped, TEXT, "loo").as_list())
    assert told["before"] - told["removed"] == pytest.approx(scores["superb"], rel=1e-9)
    assert told["replacement"] == "unk"


def test_a_replacement_stands_where_the_word_was(shipped):
    told = shown(shipped, changes=[("superb", 0, "awful"), ("plot", 0, "story")])
    assert told["text"] == "The story is predictable, but the acting is awful."
    assert told["change"]["removed"] is None


def test_a_change_of_a_word_that_is_no_longer_there_changes_nothing(shipped):
    told = shown(shipped, changes=[("gone", 0, None), ("the", 5, None)])
    assert told["text"] == TEXT
    assert told["change"]["after"] == told["change"]["before"]


def test_the_class_stays_the_same_for_the_changed_text(tiny_model):
    model = tiny_model(outputs=3)
    text = "w1 w2 w3 w4 w5"
    for word in ("w1", "w2", "w3"):
        plain = shown(model, text)["prediction"]
        changed = shown(model, text, changes=[(word, 0, None)])
        assert changed["prediction"]["target"] == plain["target"]


def test_protected_words_have_no_score_in_the_text_and_in_what_changes_make_of_it(shipped):
    for changes in ([], [("superb", 0, None)]):
        told = shown(shipped, methods=["loo"], protect=["plot"], changes=changes)
        assert "plot" not in [one["text"] for one in told["explanations"][0]["features"]]


def test_a_protected_word_that_a_change_removes_is_no_error(shipped):
    told = shown(shipped, methods=["loo"], protect=["story"], changes=[("superb", 0, None)])
    assert told["text"].endswith("is.")


def test_a_method_that_is_not_defined_here_says_why_and_the_others_answer(shipped):
    told = shown(shipped, "superb", methods=["lime-sampled", "loo"])
    assert [one["method"] for one in told["explanations"]] == ["loo"]
    assert "needs at least 2 features" in told["errors"]["lime-sampled"]


def test_a_text_without_words_raises_an_error(shipped):
    with pytest.raises(InputError, match="no words left"):
        shown(shipped, "superb", changes=[("superb", 0, None)])


def test_half_a_character_is_shown_as_what_it_is(shipped):
    assert "\ufffd" in shown(shipped, "good \ud83d film", methods=["loo"])["text"]


def test_sampled_methods_report_how_far_they_are(shipped):
    model = limelight.wrap(
        lambda texts: np.array([[0.5 + 0.1 * ("good" in t)] for t in texts]), classes=["no", "yes"]
    )
    heard = []
    question = TextRequest(tab="t", panel="p", text="a good film " * 4, methods=["shapley"])
    explain_text(model, question, lambda done, total: heard.append(done / total))
    assert heard[-1] == pytest.approx(1)
    assert heard == sorted(heard)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"tab": 1}', b'{"tab":"t","panel":"p","text":"x","more":1}', b"\xff"],
)
def test_an_invalid_request_raises_an_error(body):
    with pytest.raises(InputError, match="this is not a request of the page"):
        parse_request(body)


def test_a_text_that_is_too_long_raises_an_error():
    def asked(length):
        return msgspec.json.encode({"tab": "t", "panel": "p", "text": "a" * length})

    assert len(parse_request(asked(MAX_CHARACTERS)).text) == MAX_CHARACTERS
    with pytest.raises(InputError) as caught:
        parse_request(asked(MAX_CHARACTERS + 1))
    assert str(caught.value) == (
        "the page explains texts of at most 100,000 characters, but this one has "
        "100,001. For longer texts, use limelight explain --file."
    )


def asked(text, **changes):
    return TextRequest(
        **{"tab": "t", "panel": "p", "text": text, "methods": ["lime", "gxi"], **changes}
    )


@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_texts_that_are_answered_together_have_the_answers_that_each_has_alone(shipped, scale):
    methods = ["shapley", "lime", "alpha-avg"] if scale == "logit" else ["gxi", "alpha-avg"]
    texts = [
        TEXT,
        "a dull film and a long one",
        "good and good again",
        "<b>superb</b> \U0001f600 acting",
    ]
    questions = [asked(text, methods=methods, scale=scale) for text in texts]
    together = msgspec.json.decode(msgspec.json.encode(explain_texts(shipped, questions)))
    for question, told in zip(questions, together, strict=True):
        alone = explain_text(shipped, question, lambda *_: None)
        alone = msgspec.json.decode(msgspec.json.encode(alone))
        for one, other in zip(told.pop("explanations"), alone.pop("explanations"), strict=True):
            bound = (one.pop("bound") or 0) + (other.pop("bound") or 0) + 1e-12
            scores = [[f["score"] for f in e["features"]] for e in (one, other)]
            np.testing.assert_allclose(*scores, atol=bound)
            assert [f["spans"] for f in one["features"]] == [f["spans"] for f in other["features"]]
            assert one["text"] == question.text
        # Sums over a batch are as long as its longest text: their last bits may differ.
        assert told["prediction"].pop("value") == pytest.approx(
            alone["prediction"].pop("value"), abs=1e-12
        )
        for one, other in zip(
            told["prediction"].pop("outcomes"), alone["prediction"].pop("outcomes"), strict=True
        ):
            assert one == pytest.approx(other, abs=1e-12)
        assert told == alone


def test_only_questions_that_ask_the_same_are_alike():
    same = batch_kind(asked("one text"))
    assert same == batch_kind(asked("another text", tab="other", panel="other"))
    for change in (
        {"target": "negative"},
        {"scale": "probability"},
        {"methods": ["lime"]},
        {"protect": ["a"]},
        {"features": "positions"},
        {"model": 1},
    ):
        assert batch_kind(asked("one text", **change)) != same
    assert batch_kind(asked("one text", changes=[("one", 0, None)])) is None
    assert batch_kind(asked(" ")) is None


def test_a_text_outside_the_domain_of_a_method_is_evaluated_alone(shipped):
    with pytest.raises(InputError, match="at least 2 features"):
        explain_texts(
            shipped, [asked(text, methods=["lime-sampled"]) for text in ("two words", "one")]
        )


def clauses(text):
    middle = text.index(",")
    return [(0, middle), (middle + 2, len(text))]


def test_a_splitter_has_a_name_and_splits_the_text(shipped):
    facts = model_facts(ServedModel(name="ours", model=shipped), clauses)
    assert facts["default_features"] == facts["features"][-1] == f"{__name__}:clauses"
    asked = {
        "tab": "t",
        "panel": "p",
        "text": TEXT,
        "methods": ["loo"],
        "features": facts["default_features"],
    }
    question = parse_request(msgspec.json.encode(asked), clauses)
    (told,) = explain_text(shipped, question, lambda *_: None)["explanations"]
    found = limelight.explain(shipped, TEXT, "loo", features=clauses)
    assert limelight.Explanation.from_json(bytes(told)) == found
    assert len(found) == 2
    with pytest.raises(InputError, match="features"):  # nobody served it
        explain_text(shipped, parse_request(msgspec.json.encode(asked)), lambda *_: None)


def test_unknown_features_raise_an_error_before_the_page_is_served(shipped):
    with pytest.raises(InputError, match="Did you mean 'sentences'"):
        limelight.serve(shipped, features="sentence")
