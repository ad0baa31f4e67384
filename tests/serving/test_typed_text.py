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


def encode_answer(model, text=TEXT, **asked):
    answer = explain_text(
        model, TextRequest(tab="t", panel="p", text=text, **asked), lambda *_: None
    )
    return msgspec.json.decode(msgspec.json.encode(answer))


@pytest.mark.parametrize("method", ["lime", "shapley", "loo", "alpha-avg", "gxi"])
def test_the_scores_are_those_of_explain(shipped, method):
    (output,) = encode_answer(shipped, methods=[method])["explanations"]
    explanation = limelight.explain(shipped, TEXT, method)
    assert limelight.Explanation.from_json(msgspec.json.encode(output)) == explanation


def test_the_prediction_is_there_without_any_method(shipped):
    message = encode_answer(shipped)["prediction"]
    chances = {value["name"]: value["probability"] for value in message["outcomes"]}
    assert chances == pytest.approx(
        dict(zip(shipped.classes, shipped.predict_proba([TEXT])[0], strict=True))
    )
    assert message["target"] == "positive"


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
    assert tuple(
        encode_answer(shipped, methods=methods)["prediction"]["openings"][kind]
    ) == opening_parts(list(c))
    assert f"{opening_parts(list(c))[2]}</p>" in c.to_html(fragment=True)


def test_what_is_shown_first_is_faithful_and_does_not_wait(shipped):
    pytest.importorskip("transformers", reason="a deep model (extra hf)")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    deep = limelight.wrap(network, tokenizer=tokenizer)
    models = {"exact": shipped, "deep": deep, "function": limelight.wrap(_half, classes=["a", "b"])}
    facts = {name: model_facts(ServedModel(name="", model=value)) for name, value in models.items()}
    first = {name: element["default_methods"] for name, element in facts.items()}
    assert first == {
        "exact": ["lime", "shapley", "alpha-avg"],
        "deep": ["shapley"],
        "function": ["shapley", "lime"],
    }
    previews = {name: element["preview"] for name, element in facts.items()}
    assert previews == {"exact": None, "deep": "lrp", "function": None}
    quick = {fact["id"] for fact in facts["deep"]["methods"] if fact["is_quick"]}
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
    own_value = ServedModel(name="", model=model, learned=learned)
    facts = model_facts(own_value)
    assert facts["default_methods"] == ["learned", "shapley"]
    (row,) = [fact for fact in facts["methods"] if fact["id"] == "learned"]
    assert row["is_quick"]
    page = serving(model, learned=tmp_path)
    for named in ("learned", "learned:/etc"):  # a page names no folder of this machine
        requests = {"tab": "t", "panel": "p", "text": "a superb film", "methods": [named]}
        request = urllib.request.Request(f"{page.url}text", msgspec.json.encode(requests))
        with urllib.request.urlopen(request) as answer:
            last = msgspec.json.decode(answer.read().splitlines()[-1])
        (output,) = last["result"]["explanations"]
        explanation = limelight.explain(model, "a superb film", learned)
        assert limelight.Explanation.from_json(msgspec.json.encode(output)) == explanation
    with pytest.raises(
        InputError, match=r"was learned from the model .* not from .* Serve that model"
    ):
        serving(limelight.wrap(_half, classes=["bad", "good"]), learned=learned)


def _tone(texts):
    return [[0.0, float(text.count("superb") - text.count("dull"))] for text in texts]


def _half(texts):
    return np.full((len(texts), 2), 0.5)


def test_a_word_that_is_removed_is_gone_and_the_rest_reads_well(shipped):
    output = encode_answer(shipped, methods=["loo"], changes=[("superb", 0, None)])
    assert output["text"] == "The plot is predictable, but the acting is."
    assert output["change"]["before"] == pytest.approx(
        encode_answer(shipped)["prediction"]["value"]
    )
    assert output["change"]["after"] == pytest.approx(
        encode_answer(shipped, output["text"])["prediction"]["value"]
    )
    assert output["explanations"][0]["text"] == output["text"]


def test_a_change_of_the_text_keeps_the_answer():
    pytest.importorskip("transformers", reason="a language model (extra hf)")
    folder = Path(__file__).resolve().parents[3] / "shared" / "models" / "gpt2-mini-imdb"
    if not folder.exists():
        pytest.skip("needs the shared models")
    model = limelight.load(folder, template="{text} In short:", max_new_tokens=6)
    assert model_facts(ServedModel(name="", model=model))["default_features"] == "auto"
    text, gone = "The plot is dull. The acting is awful. It rained.", "The acting is awful."
    request = {"methods": ["loo"], "features": "sentences"}
    before, after = (
        encode_answer(model, text, changes=c, **request) for c in ([], [[gone, 0, None]])
    )
    content = model.generate(text)
    assert before["prediction"]["openings"]["signed"][1] == f"“{content.text}”"
    assert [value["name"] for value in before["prediction"]["outcomes"]] == ["log-probability"]
    remaining = text.replace(f" {gone}", "")
    assert model.generate(remaining) != content  # it would write something else
    direct = limelight.explain(model, remaining, "loo", answer=content.text).prediction["answer"]
    assert after["change"]["after"] == pytest.approx(direct, abs=1e-4)
    scores = dict(limelight.explain(model, text, "loo").as_list())
    assert before["prediction"]["value"] - direct == pytest.approx(scores[gone], abs=1e-3)


def test_every_occurrence_goes_and_the_first_word_leaves_no_space(shipped):
    assert encode_answer(shipped, changes=[("the", 0, None)])["text"] == (
        "plot is predictable, but acting is superb."
    )


def test_removal_by_the_methods_is_what_leave_one_out_says(shipped):
    output = encode_answer(shipped, changes=[("superb", 0, None)])["change"]
    scores = dict(limelight.explain(shipped, TEXT, "loo").as_list())
    assert output["before"] - output["removed"] == pytest.approx(scores["superb"], rel=1e-9)
    assert output["replacement"] == "unk"


def test_a_replacement_stands_where_the_word_was(shipped):
    output = encode_answer(shipped, changes=[("superb", 0, "awful"), ("plot", 0, "story")])
    assert output["text"] == "The story is predictable, but the acting is awful."
    assert output["change"]["removed"] is None


def test_a_change_of_a_word_that_is_no_longer_there_changes_nothing(shipped):
    output = encode_answer(shipped, changes=[("gone", 0, None), ("the", 5, None)])
    assert output["text"] == TEXT
    assert output["change"]["after"] == output["change"]["before"]


def test_the_class_stays_the_same_for_the_changed_text(tiny_model):
    model = tiny_model(outputs=3)
    text = "w1 w2 w3 w4 w5"
    for word in ("w1", "w2", "w3"):
        plain = encode_answer(model, text)["prediction"]
        changed = encode_answer(model, text, changes=[(word, 0, None)])
        assert changed["prediction"]["target"] == plain["target"]


def test_protected_words_have_no_score_in_the_text_and_in_what_changes_make_of_it(shipped):
    for changes in ([], [("superb", 0, None)]):
        output = encode_answer(shipped, methods=["loo"], protect=["plot"], changes=changes)
        assert "plot" not in [value["text"] for value in output["explanations"][0]["features"]]


def test_a_protected_word_that_a_change_removes_is_no_error(shipped):
    output = encode_answer(
        shipped, methods=["loo"], protect=["story"], changes=[("superb", 0, None)]
    )
    assert output["text"].endswith("is.")


def test_a_method_that_is_not_defined_here_says_why_and_the_others_answer(shipped):
    output = encode_answer(shipped, "superb", methods=["lime-sampled", "loo"])
    assert [value["method"] for value in output["explanations"]] == ["loo"]
    assert "needs at least 2 features" in output["errors"]["lime-sampled"]


def test_half_a_character_is_shown_as_what_it_is(shipped):
    assert "\ufffd" in encode_answer(shipped, "good \ud83d film", methods=["loo"])["text"]


def test_sampled_methods_report_how_far_they_are(shipped):
    model = limelight.wrap(
        lambda texts: np.array([[0.5 + 0.1 * ("good" in t)] for t in texts]), classes=["no", "yes"]
    )
    heard = []
    question = TextRequest(tab="t", panel="p", text="a good film " * 4, methods=["shapley"])
    explain_text(model, question, lambda done, total: heard.append(done / total))
    assert heard[-1] == pytest.approx(1)
    assert heard == sorted(heard)


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


def make_request(text, **changes):
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
    questions = [make_request(text, methods=methods, scale=scale) for text in texts]
    together = msgspec.json.decode(msgspec.json.encode(explain_texts(shipped, questions)))
    for question, output in zip(questions, together, strict=True):
        single = explain_text(shipped, question, lambda *_: None)
        single = msgspec.json.decode(msgspec.json.encode(single))
        for value, other in zip(
            output.pop("explanations"), single.pop("explanations"), strict=True
        ):
            bound = (value.pop("bound") or 0) + (other.pop("bound") or 0) + 1e-12
            scores = [[f["score"] for f in e["features"]] for e in (value, other)]
            np.testing.assert_allclose(*scores, atol=bound)
            assert [f["spans"] for f in value["features"]] == [
                f["spans"] for f in other["features"]
            ]
            assert value["text"] == question.text
        # Sums over a batch are as long as its longest text: their last bits may differ.
        assert output["prediction"].pop("value") == pytest.approx(
            single["prediction"].pop("value"), abs=1e-12
        )
        for value, other in zip(
            output["prediction"].pop("outcomes"), single["prediction"].pop("outcomes"), strict=True
        ):
            assert value == pytest.approx(other, abs=1e-12)
        assert output == single


def test_only_questions_that_ask_the_same_are_alike():
    same = batch_kind(make_request("one text"))
    assert same == batch_kind(make_request("another text", tab="other", panel="other"))
    for change in (
        {"target": "negative"},
        {"scale": "probability"},
        {"methods": ["lime"]},
        {"protect": ["a"]},
        {"features": "positions"},
        {"model": 1},
    ):
        assert batch_kind(make_request("one text", **change)) != same
    assert batch_kind(make_request("one text", changes=[("one", 0, None)])) is None
    assert batch_kind(make_request(" ")) is None


def clauses(text):
    middle = text.index(",")
    return [(0, middle), (middle + 2, len(text))]


def test_a_splitter_has_a_name_and_splits_the_text(shipped):
    facts = model_facts(ServedModel(name="ours", model=shipped), clauses)
    assert facts["default_features"] == facts["features"][-1] == f"{__name__}:clauses"
    request = {
        "tab": "t",
        "panel": "p",
        "text": TEXT,
        "methods": ["loo"],
        "features": facts["default_features"],
    }
    question = parse_request(msgspec.json.encode(request), clauses)
    (output,) = explain_text(shipped, question, lambda *_: None)["explanations"]
    explanation = limelight.explain(shipped, TEXT, "loo", features=clauses)
    assert limelight.Explanation.from_json(bytes(output)) == explanation
    assert len(explanation) == 2
    with pytest.raises(InputError, match="features"):  # nobody served it
        explain_text(shipped, parse_request(msgspec.json.encode(request)), lambda *_: None)
