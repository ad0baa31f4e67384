"""Taggers, extractive answers and functions of spans, against direct calls of their networks."""

import re
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import torch
from all_subsets import lime_by_subsets, shapley_by_subsets
from tokenizers import processors
from transformers import AutoModelForQuestionAnswering, AutoModelForTokenClassification, pipeline

import limelight
from limelight import InputError
from limelight.models.hugging_face.lrp import FrozenWeights
from limelight.models.hugging_face.tags import decode_tags

from tiny_transformers import tiny, unusual

BIO = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG")
BILOU = ("O", *(f"{letter}-{name}" for name in ("PER", "ORG") for letter in "BILU"))
BIOES = ("O", *(f"{letter}-{name}" for name in ("PER", "ORG") for letter in "BIES"))
TEXT = "the superb predictable film but a bad plot is good."
SPAN = (4, 22)  # superb predictable: one piece, and two
FAMILIES = ("bert", "distilbert", "roberta", "electra", "deberta-v2", "modernbert")
families = pytest.mark.parametrize("family", FAMILIES)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def make_network(family="bert", tags=BIO, kind=AutoModelForTokenClassification):
    labels = {"labels": 2} if kind is AutoModelForQuestionAnswering else {}
    network, tokenizer = unusual(family) if family == "modernbert" else tiny(family, **labels)
    config = network.config
    if kind is AutoModelForTokenClassification:
        config.id2label = dict(enumerate(tags))
        config.label2id = {tag: i for i, tag in enumerate(tags)}
    torch.manual_seed(3)
    return kind.from_config(config).eval().double(), tokenizer


@cache
def tagger(*given, **more):
    """Shared: wrapping checks a network, and no test here changes it."""
    network, tokenizer = make_network(*given, **more)
    return limelight.wrap(network, tokenizer=tokenizer), network, tokenizer


class Direct:
    """The mean over pieces of one tag each, from the network itself, its words masked by hand."""

    def __init__(self, network, tokenizer, text, tag_of_word, *, first=False):
        encoded = tokenizer(text, return_offsets_mapping=True)
        self.network, self.mask = network, tokenizer.mask_token_id
        self.ids, self.word = torch.tensor(encoded["input_ids"]), encoded.word_ids()
        tags = network.config.label2id
        places = [(i, word) for i, word in enumerate(self.word) if word in tag_of_word]
        if first:
            places = [(i, word) for i, word in places if self.word.index(word) == i]
        self.at = [(i, tags[tag_of_word[word]]) for i, word in places]

    def number(self, logits):
        return sum(logits[:, i, tag] for i, tag in self.at) / len(self.at)

    def values(self, removed):
        """The number with each set of words removed."""
        rows = self.ids.repeat(len(removed), 1)
        for row, words in zip(rows, removed, strict=True):
            for i, word in enumerate(self.word):
                if word in words:
                    row[i] = self.mask
        with torch.no_grad():
            result = self.number(self.network(rows, torch.ones_like(rows)).logits)
        return result.numpy()

    def times_input(self):
        """The gradient of the number times the embedded text, at each word."""
        table = self.network.get_input_embeddings()
        arguments = table(self.ids[None]).detach().requires_grad_()
        hook = table.register_forward_hook(lambda *_: arguments.clone())
        logits = self.network(self.ids[None], torch.ones_like(self.ids[None])).logits
        hook.remove()
        (slope,) = torch.autograd.grad(self.number(logits).sum(), arguments)
        products = (slope * arguments).sum(-1)[0].detach().numpy()
        count = 1 + max(word for word in self.word if word is not None)
        return np.array([
            sum(p for p, w in zip(products, self.word, strict=True) if w == word)
            for word in range(count)
        ])  # fmt: skip


def all_subsets(direct, words):
    """Every mask of ``words``, true where one stays, and the number for each."""
    masks = np.array(list(product([False, True], repeat=len(words))))
    removed = [{w for w, keep in zip(words, row, strict=True) if not keep} for row in masks]
    return masks, direct.values(removed)


@families
def test_methods_that_remove_words_match_direct_calls_of_the_network(family):
    model, network, tokenizer = tagger(family)
    direct = Direct(network, tokenizer, TEXT, {1: "B-ORG", 2: "I-ORG"})
    other_values = [0, *range(3, 11)]
    masks, values = all_subsets(direct, other_values)
    request = {"at": SPAN, "target": "ORG"}
    e = limelight.explain(model, TEXT, "shapley", **request)
    assert e.features == ("the", "film", "but", "a", "bad", "plot", "is", "good", ".")
    assert e.prediction["ORG"] == pytest.approx(values[-1], abs=1e-9)
    assert e.base_value == pytest.approx(values[0], abs=1e-9)
    np.testing.assert_allclose(e.scores, shapley_by_subsets(masks, values), atol=1e-8)
    assert not np.allclose(
        e.scores, shapley_by_subsets(masks, direct.values([set()] * 512)), atol=1e-8
    )
    result = limelight.explain(model, TEXT, "lime", **request).scores
    np.testing.assert_allclose(result, lime_by_subsets(masks, values)[1:], atol=1e-7)
    single = values[-1] - direct.values([{word} for word in other_values])
    np.testing.assert_allclose(
        limelight.explain(model, TEXT, "loo", **request).scores, single, atol=1e-8
    )


@families
def test_gradients_and_relevances_match_autograd_on_the_network(family):
    model, network, tokenizer = tagger(family)
    direct = Direct(network, tokenizer, TEXT, {1: "B-ORG", 2: "I-ORG"})
    request = {"at": SPAN, "target": "ORG", "protect_span": False}
    result = limelight.explain(model, TEXT, "gxi", **request).scores
    np.testing.assert_allclose(result, direct.times_input(), atol=1e-8)
    with FrozenWeights():
        reference = direct.times_input()
    np.testing.assert_allclose(
        limelight.explain(model, TEXT, "lrp", **request).scores, reference, atol=1e-8
    )
    assert not np.allclose(result, reference, atol=1e-3)
    protected = limelight.explain(model, TEXT, "gxi", at=SPAN, target="ORG").scores
    np.testing.assert_allclose(protected, np.delete(result, [1, 2]), atol=1e-12)


@pytest.mark.parametrize(
    ("tags", "requests", "read"),
    [
        (BIO, {"target": "B-ORG"}, ("B-ORG", "B-ORG")),
        (BIO, {"target": "PER"}, ("B-PER", "I-PER")),
        (BIO, {"target": "ORG", "first_subwords": True}, ("B-ORG", "I-ORG")),
        (BILOU, {"target": "PER"}, ("B-PER", "L-PER")),
        (("O", "PER", "ORG"), {"target": "ORG"}, ("ORG", "ORG")),
        (("O", "I-PER", "I-ORG"), {"target": "ORG"}, ("I-ORG", "I-ORG")),
        (("O", "B-ORG", "I-ORG", "E-ORG", "S-ORG"), {"target": "ORG"}, ("B-ORG", "E-ORG")),
        (("O", "MISC", "B-ORG", "I-ORG"), {"target": "ORG"}, ("B-ORG", "I-ORG")),
        (("O", "MISC", "B-ORG", "I-ORG"), {"target": "MISC"}, ("MISC", "MISC")),
    ],
)
def test_a_type_is_read_as_its_scheme_says_and_a_tag_at_every_piece(tags, requests, read):
    model, network, tokenizer = tagger("bert", tags)
    words = dict(zip((1, 2), read, strict=True))
    first = requests.get("first_subwords", False)
    direct = Direct(network, tokenizer, TEXT, words, first=first)
    e = limelight.explain(model, TEXT, "loo", at=SPAN, **requests)
    assert e.prediction[requests["target"]] == pytest.approx(direct.values([set()])[0], abs=1e-9)
    reference = direct.values([set()])[0] - direct.values([{word} for word in (0, *range(3, 11))])
    other = limelight.explain(model, TEXT, "loo", at=SPAN, **requests, against="O").scores
    outside = Direct(network, tokenizer, TEXT, {1: "O", 2: "O"}, first=first)
    gone = outside.values([set()])[0] - outside.values([{w} for w in (0, *range(3, 11))])
    np.testing.assert_allclose(other, reference - gone, atol=1e-9)
    # Of two classes, a type and "O", the logit is the output less that of "O".
    two = len(e.classes) == 2
    np.testing.assert_allclose(e.scores, reference - gone if two else reference, atol=1e-9)


def test_a_word_of_its_own_is_read_as_unit_or_as_beginning():
    model, network, tokenizer = tagger("bert", BILOU)
    direct = Direct(network, tokenizer, TEXT, {3: "U-ORG"})
    result = limelight.explain(model, TEXT, "loo", at="film", target="ORG").prediction["ORG"]
    assert result == pytest.approx(direct.values([set()])[0], abs=1e-9)


@pytest.mark.parametrize(
    ("words", "tags", "spans"),
    [
        ("O B-ORG I-ORG O I-PER", BIO, [(1, 2, "ORG"), (4, 4, "PER")]),
        ("B-ORG B-ORG I-PER", BIO, [(0, 0, "ORG"), (1, 1, "ORG"), (2, 2, "PER")]),
        ("U-PER U-PER B-ORG I-ORG L-ORG I-ORG", BILOU,
         [(0, 0, "PER"), (1, 1, "PER"), (2, 4, "ORG"), (5, 5, "ORG")]),
        ("ORG ORG O ORG", ("O", "ORG"), [(0, 1, "ORG"), (3, 3, "ORG")]),
        ("NN NN VB", ("NN", "VB"), [(0, 0, "NN"), (1, 1, "NN"), (2, 2, "VB")]),
        ("O O", BIO, []),
        # IOB1: B- only between two neighbors of one type
        ("I-ORG I-ORG B-ORG O I-PER", BIO, [(0, 1, "ORG"), (2, 2, "ORG"), (4, 4, "PER")]),
        ("S-ORG B-ORG I-ORG E-ORG I-ORG S-PER", BIOES,
         [(0, 0, "ORG"), (1, 3, "ORG"), (4, 4, "ORG"), (5, 5, "PER")]),
        ("B-ORG M-ORG E-ORG S-ORG", ("O", "B-ORG", "M-ORG", "E-ORG", "S-ORG"),
         [(0, 2, "ORG"), (3, 3, "ORG")]),
        ("I-ORG I-ORG I-PER O I-PER", ("O", "I-ORG", "I-PER"),
         [(0, 1, "ORG"), (2, 2, "PER"), (4, 4, "PER")]),
        # a tag outside the scheme is a type itself
        ("B-ORG I-ORG MISC MISC O MISC", ("MISC", *BIO),
         [(0, 1, "ORG"), (2, 3, "MISC"), (5, 5, "MISC")]),
        ("E-MAIL E-MAIL B-ORG", ("E-MAIL", *BIO), [(0, 1, "E-MAIL"), (2, 2, "ORG")]),
        ("S-BAR NN S-BAR", ("S-BAR", "NN"), [(0, 0, "S-BAR"), (1, 1, "NN"), (2, 2, "S-BAR")]),
        # "O" by another name
        ("0 B-ORG 0 I-ORG", ("0", "B-ORG", "I-ORG"), [(1, 1, "ORG"), (3, 3, "ORG")]),
        ("None ORG ORG none ORG", ("None", "none", "ORG"), [(1, 2, "ORG"), (4, 4, "ORG")]),
        ("0 1 0", ("0", "1"), [(0, 0, "0"), (1, 1, "1"), (2, 2, "0")]),
    ],
)  # fmt: skip
def test_tags_of_words_become_spans(words, tags, spans):
    assert decode_tags(words.split(), tags) == spans


def test_all_spans_share_their_calls():
    model, *_ = tagger.__wrapped__("roberta")  # of its own: what it is asked is counted
    spans = model.spans(TEXT)
    assert len(spans) > 2
    value = limelight.explain_spans(model, TEXT, "shapley")
    request = model.engine.items
    assert len(value) == len(spans)
    words = {w for s in spans for w in TEXT[s.start : s.end].split()}
    again, _, _ = tagger.__wrapped__("roberta")
    e = limelight.explain(again, TEXT, "shapley", at=0, protect=sorted(words))
    assert request <= 1.2 * again.engine.items
    np.testing.assert_allclose(value[0].scores, e.scores, atol=1e-9)
    assert [e.target for e in value] == [s.tag for s in spans]
    relevance = limelight.explain_spans(model, TEXT, "lrp")
    for e, s, together in zip(value, spans, relevance, strict=True):
        assert (e.query.start, e.query.end) == (s.start, s.end)
        single = limelight.explain(model, TEXT, "lrp", at=(s.start, s.end), target=s.tag)
        score = dict(zip(single.features, single.scores, strict=True))
        for word, result in zip(together.features, together.scores, strict=True):
            assert result == pytest.approx(score[word], abs=1e-9)


def test_repeated_words_stay_apart():
    model, network, tokenizer = tagger()
    text = "bad film is bad film"
    places = [
        limelight.explain(model, text, "loo", at=at, target="ORG") for at in ((0, 3), (12, 15))
    ]
    assert [e.target_phrase for e in places] == ["ORG at “bad” (0:3)", "ORG at “bad” (12:15)"]
    assert places[0].features == ("film", "is", "bad")  # the other one is not protected
    assert places[0].spans[2] == ((12, 15),)
    for e, word in zip(places, (0, 3), strict=True):
        direct = Direct(network, tokenizer, text, {word: "B-ORG"})
        gone = direct.values([set()])[0] - direct.values([{1, 4}, {2}, {3 - word}])
        np.testing.assert_allclose(dict(e.as_list())["bad"], gone[2], atol=1e-9)
    e = limelight.explain(model, text, "loo", at=(0, 3), target="ORG", features="positions")
    assert e.features == ("film", "is", "bad", "film")


def test_a_span_that_the_cut_goes_through_is_left_out_and_the_others_are_explained():
    model, network, tokenizer = tagger("bert", ("NN", "VB"))  # every word is a span
    words = ["film"] * (model.max_length - 3) + [
        "predictable",
        "film",
    ]  # of two pieces, the last is cut
    result = limelight.explain_spans(model, " ".join(words), "gxi", protect_span=False)
    assert len(result) == model.max_length - 3
    assert result[-1].query.end == len(" ".join(words[:-2]))
    assert "Spans that are cut through are left out" in result[0].warnings[0]
    read = tokenizer(
        " ".join(words), truncation=True, max_length=model.max_length, return_tensors="pt"
    )
    with torch.no_grad():
        reference = network(read["input_ids"], read["attention_mask"]).logits[0, len(result)]
    assert list(result[-1].prediction.values()) == pytest.approx(reference.tolist(), abs=1e-9)


def test_the_explained_span_is_never_removed():
    model, *_ = tagger()
    for replacement in ("delete", "pad"):
        request = {"at": "bad", "protect_span": False, "target": "ORG"}
        with pytest.raises(InputError, match="puts nothing in their place"):
            limelight.explain(model, "bad film", "loo", replacement=replacement, **request)
    e = limelight.explain(
        model, "the bad film", "loo", at="bad", target="ORG", replacement="delete"
    )
    direct = tagger()[1:]
    for word, remaining, at in (("the", "bad film", 0), ("film", "the bad", 1)):
        full = Direct(*direct, "the bad film", {1: "B-ORG"}).values([set()])[0]
        gone = full - Direct(*direct, remaining, {at: "B-ORG"}).values([set()])[0]
        assert dict(e.as_list())[word] == pytest.approx(gone, abs=1e-9)


def test_a_folder_and_a_pipeline_are_the_same_model(tmp_path):
    network, tokenizer = make_network()
    network = network.float()
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = limelight.load(tmp_path)
    piped = limelight.wrap(pipeline("ner", model=network, tokenizer=tokenizer, device="cpu"))
    assert repr(loaded.spans(TEXT)) == repr(piped.spans(TEXT))  # tags and scores too
    rows = limelight.predict(loaded, [TEXT, "film"])
    assert [row["tag"] for row in rows[0]["spans"]] == [span.tag for span in loaded.spans(TEXT)]
    results = [limelight.explain(m, TEXT, "loo", at="film", target="ORG") for m in (loaded, piped)]
    np.testing.assert_array_equal(results[0].scores, results[1].scores)
    assert limelight.Explanation.from_json(results[0].to_json()) == results[0]
    assert '"query":{"span":[23,27]}' in results[0].to_json()


def answering_model():
    network, tokenizer = make_network(kind=AutoModelForQuestionAnswering)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.model_input_names = ["input_ids", "attention_mask", "token_type_ids"]
    return limelight.wrap(network, tokenizer=tokenizer), network, tokenizer


def test_the_log_odds_of_an_answer_match_direct_calls_of_the_network():
    model, network, tokenizer = answering_model()
    pair = ("is the film good", "the predictable plot is bad but good")
    encoded = tokenizer(*pair, return_tensors="pt")
    words = list(zip(encoded.sequence_ids(), encoded.word_ids(), strict=True))
    first, last = words.index((1, 1)), words.index((1, 2))  # predictable plot: three pieces

    def log_odds(removed):
        ids = encoded["input_ids"].clone()
        for i, word in enumerate(words):
            if word in removed:
                ids[0, i] = tokenizer.mask_token_id
        with torch.no_grad():
            out = network(**{**encoded, "input_ids": ids})
        p = out.start_logits.softmax(-1)[0, first] * out.end_logits.softmax(-1)[0, last]
        return float(torch.log(p / (1 - p)))

    e = limelight.explain(model, pair, "loo", at="predictable plot")
    other_values = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 3), (1, 4), (1, 5), (1, 6)]
    full = log_odds([])
    assert e.prediction == {"answer": pytest.approx(full, abs=1e-9)}
    np.testing.assert_allclose(e.scores, [full - log_odds([w]) for w in other_values], atol=1e-9)
    (best,) = model.spans(pair) or [None]
    if best is not None:
        assert best.start > len(pair[0])
    chance = limelight.explain(model, pair, "loo", at="predictable plot", scale="probability")
    assert chance.base_value is not None
    with pytest.raises(InputError, match=r"Give a pair, \(question, passage\)"):
        limelight.explain(model, "one text", "loo", at="text")


NAMES = re.compile(r"\b(Jordan|Acme)\b")


def rule_spans(texts):
    """ORG where "Inc" stands, surer by a river; a place else."""
    return [
        [
            (m.start(), m.end(), "ORG" if "Inc" in text else "LOC", 0.4 + 0.2 * ("river" in text))
            for m in NAMES.finditer(text)
        ]
        for text in texts
    ]


def test_a_function_of_spans_gets_the_position_of_the_span_in_the_masked_text():
    model = limelight.wrap(rule_spans, tags=["ORG", "LOC"])
    text = "by the river Jordan works at Acme Inc"
    e = limelight.explain(model, text, "loo", at="Jordan")
    assert e.target_phrase == "ORG at “Jordan”"

    def log_odds(p):
        p = min(max(p, 1e-3), 1 - 1e-3)
        return np.log(p / (1 - p))

    reference = dict.fromkeys(e.features, 0.0)
    reference |= {"river": log_odds(0.6) - log_odds(0.4), "Inc": log_odds(0.6) - log_odds(0.0)}
    assert dict(e.as_list()) == pytest.approx(reference)
    assert e.prediction["O"] == pytest.approx(log_odds(0.4))
    plain = limelight.wrap(rule_spans, tags=["ORG", "LOC"], scale="score")
    e = limelight.explain(plain, text, "loo", at="Jordan")
    assert dict(e.as_list())["Inc"] == pytest.approx(0.6)
    pair = [{(0, 6, "ORG", 0.5), (0, 6, "LOC", 0.9)}, {(0, 11, "ORG", 0.7)}]
    overlapping = limelight.wrap(
        lambda texts: [pair[0] | pair[1] for _ in texts], tags=["ORG", "LOC"]
    )
    result = limelight.explain_spans(overlapping, "Jordan Acme is bad", "loo")
    assert [(e.target, e.query.end) for e in result] == [("LOC", 6), ("ORG", 6), ("ORG", 11)]
    assert result[1].prediction["ORG"] == pytest.approx(log_odds(0.7))  # the surest that covers it


def test_a_function_may_find_a_part_of_a_word():
    model = limelight.wrap(rule_spans, tags=["ORG", "LOC"])
    text = "Acme's river by xInc"
    (e,) = limelight.explain_spans(model, text, "loo")
    assert e.features == ("'s", "river", "by", "xInc")
    reference = [rule_spans([text.replace(word, "")])[0][0] for word in e.features]
    assert [tag for _, _, tag, _ in reference] == ["ORG", "ORG", "ORG", "LOC"]
    assert dict(e.as_list())["'s"] == 0.0
    assert dict(e.as_list())["river"] == pytest.approx(np.log(0.6 / 0.4) - np.log(0.4 / 0.6))
    pair = [(0, 5, "ORG", 0.5), (4, 5, "ORG", 1.0)]
    spaced = limelight.wrap(lambda texts: [pair for _ in texts], tags=["ORG"])
    assert [(span.start, span.end) for span in spaced.spans("Acme is bad")] == [(0, 4)]


def test_a_tagger_has_no_outputs_of_a_whole_text():
    model, *_ = tagger()
    for value in (model, limelight.wrap(lambda texts: [[] for _ in texts], tags=["ORG"])):
        for ask in (value.logits, value.predict_proba, lambda t, m=value: m.outputs([m.read(*t)])):
            with pytest.raises(InputError, match="has outputs for a span, not for a text"):
                ask(["the bad film"])
    with pytest.raises(InputError, match="a tagger reads single texts"):
        limelight.predict(model, ("the bad", "film"))
    (warning,) = model.read("film " * 40).warnings
    assert "window='auto' (--window auto)" in warning


def test_all_spans_may_be_scored_too():
    model, *_ = tagger()
    text = "the superb film"
    result = limelight.explain_spans(model, text, "loo", protect_span=False, target="ORG")
    assert len(result) == len(model.spans(text)) > 0
    for e in result:
        single = limelight.explain(
            model, text, "loo", at=(e.query.start, e.query.end), target="ORG", protect_span=False
        )
        np.testing.assert_allclose(e.scores, single.scores, atol=1e-9)


def test_a_run_for_a_full_tag_takes_other_processes(tmp_path):
    network, tokenizer = make_network()
    network.float().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    model, heard = limelight.load(tmp_path / "model"), []
    request = {"target": "B-ORG", "protect_span": False}
    data = {"text": ["the superb film", "a bad plot is good"]}
    index, target = (
        limelight.explain_data(
            model,
            data,
            "loo",
            output=tmp_path / str(n),
            workers=n,
            progress=heard.append,
            **request,
        )
        for n in (None, 1)
    )
    assert [p.done for p in heard if p.finding] == [0, 1] * 2
    assert [e.target_phrase for e in index] == [e.target_phrase for e in target]
    for value, other in zip(index, target, strict=True):
        np.testing.assert_allclose(value.scores, other.scores, rtol=1e-6)
        start, end = value.query.start, value.query.end
        single = limelight.explain(model, value.text, "loo", at=(start, end), **request)
        np.testing.assert_allclose(value.scores, single.scores, atol=1e-5)


class Entity(NamedTuple):
    start_char: int
    end_char: int
    label_: str


class LooksLikeSpacy:
    """What is asked of a pipeline of spaCy."""

    def __init__(self):
        self.pipe_labels = {"tagger": ["NN"], "ner": ["ORG", "LOC"]}
        self.meta = {"lang": "en", "name": "rules", "version": "1"}

    def __call__(self, text):
        return SimpleNamespace(ents=[Entity(*value[:3]) for value in rule_spans([text])[0]])


def test_a_pipeline_of_spacy_finds_spans_with_a_score_of_one():
    model = limelight.wrap(LooksLikeSpacy())
    assert model.classes == ("O", "ORG", "LOC")
    assert model.fingerprint.startswith("spacy en rules 1 ")
    assert limelight.wrap(LooksLikeSpacy()).fingerprint == model.fingerprint
    e = limelight.explain(model, "Jordan works at Acme Inc", "shapley", at="Jordan")
    assert e.scale == "score"
    assert dict(e.as_list()) == pytest.approx({"Inc": 1.0, "works": 0.0, "at": 0.0, "Acme": 0.0})


def test_no_span_is_no_explanation_and_one_needs_no_name():
    model = limelight.wrap(rule_spans, tags=["ORG", "LOC"])
    assert len(limelight.explain_spans(model, "a bad film")) == 0
    assert "no span" in limelight.explain_spans(model, "a bad film").to_html()
    with pytest.raises(InputError, match=r"the model finds no span in this text. Choose one"):
        limelight.explain(model, "a bad film")
    assert limelight.explain(model, "Jordan is bad").target_phrase == "LOC at “Jordan”"
    with pytest.raises(InputError, match="at needs a model that finds spans"):
        limelight.explain(limelight.load(), "a bad film", at="film")
    with pytest.raises(InputError, match="explain_spans needs a model that finds spans"):
        limelight.explain_spans(limelight.load(), "a bad film")


def test_a_run_has_a_row_for_every_span_and_goes_on(tmp_path):
    model = limelight.wrap(rule_spans, tags=["ORG", "LOC"])
    texts = ["by the river Jordan works at Acme Inc", "a bad film", "Jordan is bad", ""]
    data = {"text": texts, "source": list("abcd")}
    for _ in range(2):
        run = limelight.explain_data(model, data, "loo", output=tmp_path / "run", progress=False)
    assert [e.target_phrase for e in run] == ["ORG at “Jordan”", "ORG at “Acme”", "LOC at “Jordan”"]
    assert run.texts()["source"].to_pylist() == ["a", "a", "c", "d"]
    assert run.failed == 1
    single = limelight.explain(model, texts[0], "loo", at="Acme")
    np.testing.assert_allclose(run.explanation(1).scores, single.scores, rtol=1e-6)
    assert run.explanation(1).query == single.query
    data = {"text": texts[:1] * 2, "place": ["Acme", "13:19"]}
    named = limelight.explain_data(
        model, data, "loo", output=tmp_path / "named", at_column="place", progress=False
    )
    assert [e.target_phrase for e in named] == ["ORG at “Acme”", "ORG at “Jordan”"]
    # Each span is compared with itself, and not with the first one of its text.
    pair = run.compare(named)
    assert (pair.texts, pair.only_first, pair.only_second) == (2, 2, 0)
    assert not pair.changed_texts.rows


def test_labels_of_texts_do_not_apply_to_spans():
    model = limelight.wrap(rule_spans, tags=["ORG", "LOC"])
    data = {"text": ["by the river Jordan works at Acme Inc", "Jordan is bad"], "label": ["+", "-"]}
    table = pa.table(data)
    assert not any("label" in warning for warning in limelight.judge(model, table, "loo").warnings)
    with pytest.raises(
        InputError, match=r"labels \(--labels\) does not apply, because this model finds spans"
    ):
        limelight.judge(model, table, "loo", labels=["ORG", "LOC"])
    with pytest.raises(
        InputError, match=r"evaluate needs a classifier, and this model .* finds spans"
    ):
        limelight.evaluate(model, table)


def test_spans_are_judged_one_by_one():
    model, *_ = tagger()
    texts = [TEXT, "a superb film", "the plot is bad"]
    spans = [(i, s) for i, text in enumerate(texts) for s in model.spans(text)]
    judgment = limelight.judge(model, texts, methods=["loo", "lrp"], columns=["sanity"])
    assert len(judgment.texts) == len(spans)
    assert all(text.reason is None for text in judgment.texts)
    for judged, (i, span) in zip(judgment.texts, spans, strict=True):
        e = limelight.explain(model, texts[i], "loo", at=(span.start, span.end))
        assert judged.full == pytest.approx(e.prediction[judged.target], abs=1e-6)


def test_labels_and_rationales_of_a_text_go_with_each_of_its_spans():
    model = limelight.wrap(rule_spans, tags=["ORG", "LOC"])
    data = {
        "text": ["a bad film", "by the river Jordan works at Acme Inc"],
        "label": ["LOC", "ORG"],
    }
    marked = [[[0, 1]], [[7, 12]]]  # "river" of the second text
    judgment = limelight.judge(model, data, ["loo"], columns=[], rationales=marked)
    assert [text.target for text in judgment.texts] == ["ORG", "ORG"]
    assert len(judgment.plausibility.texts) == 2
    with pytest.raises(InputError, match="finds no span in these texts"):
        limelight.judge(model, ["a bad film"], ["loo"])


def test_a_stored_explanation_is_judged_at_its_span():
    def water_spans(texts):
        """A river speaks for the first name alone, the sea for the second."""
        return [
            [
                (m.start(), m.end(), "LOC", 0.3 + 0.6 * (water in text))
                for m, water in zip(NAMES.finditer(text), ("river", "sea"), strict=False)
            ]
            for text in texts
        ]

    model, text = limelight.wrap(water_spans, tags=["LOC"]), "by river Jordan and by sea Jordan"
    stored = [limelight.explain(model, text, "loo", at=i) for i in (0, 1)]
    judgment = limelight.judge(model, [text], {"stored": stored}, columns=[])
    assert [value.reasons for value in judgment.texts] == [{}, {}]
    for e in stored:
        single = limelight.judge(model, [text], {"stored": [e]}, columns=[])
        assert sorted(map(str, (element.reasons.get("stored") for element in single.texts))) == [
            "None",
            "there is no stored explanation of this span of the text.",
        ]
