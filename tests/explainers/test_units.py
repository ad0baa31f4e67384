"""Every method on every unit, against the model itself: each mask is asked by hand."""

import re
from functools import cache
from itertools import pairwise
from math import comb

import numpy as np
import pytest

import limelight
from limelight.text import tokenize

from tiny_transformers import tiny

TEXT = "A superb film.\nThe plot is bad!\n\nGood film."
PARTED = [(0, 5), (5, 8), (15, 27)]  # "A sup", "erb", "The plot is "


def bigrams(text):
    """Two and two words, which leaves some signs between them."""
    return [match.span() for match in re.finditer(r"\w+ \w+", text)]


WHOLE = ("words", "positions", "sentences", "paragraphs", "lines")
UNITS = {**{name: name for name in WHOLE}, "splitter": bigrams, "spans": [(0, 8), (15, 27)]}


def contextual_outputs(text):
    """A function that hears who stands beside whom, and no white space."""
    weight = {"superb": 2.0, "bad": -1.5, "good": 1.0, "film": 0.3, "!": -0.4, "sup": 0.7}
    read = [weight.get(value.lower(), 0.1) for value in re.findall(r"\w+|[^\w\s]", text)]
    return sum(read) + 0.5 * sum(a * b for a, b in pairwise(read))


def without(text, gone, instead=" "):
    """Blank the characters that are gone, or put a word where a touched token stood."""
    return "".join(instead if i in gone else c for i, c in enumerate(text))


@cache
def shipped_model():
    model = limelight.load()

    def ask(gone):
        tokens = tokenize(TEXT)
        return " ".join(
            "qqzzq" if gone & set(range(*span)) else string
            for string, span in zip(tokens.strings, tokens.spans, strict=True)
        )

    return model, lambda masks: model.logits([ask(gone) for gone in masks])[:, 0]


@cache
def bert():
    import torch

    network, tokenizer = tiny("bert", labels=2)
    read = tokenizer(TEXT, return_offsets_mapping=True)

    def ask(masks):
        ids = [
            [4 if gone & set(range(*at)) else i for i, at in zip(*read_pair, strict=True)]
            for gone in masks
            for read_pair in [(read["input_ids"], read["offset_mapping"])]
        ]
        with torch.no_grad():
            logits = network(torch.tensor(ids)).logits.double().numpy()
            return logits[:, 1] - logits[:, 0]

    return limelight.wrap(network, tokenizer=tokenizer), ask


@cache
def function():
    model = limelight.wrap(
        lambda texts: np.array([[0.0, contextual_outputs(text)] for text in texts]),
        classes=["bad", "good"],
        scale="logit",
    )
    return model, lambda masks: np.array(
        [contextual_outputs(without(TEXT, gone)) for gone in masks]
    )


@cache
def pipeline():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["superb film", "bad plot", "the good film is superb", "a bad film", "the plot is bad"]
    reference = make_pipeline(TfidfVectorizer(norm="l1"), LogisticRegression()).fit(
        texts, [1, 0, 1, 0, 0]
    )
    request = lambda masks: reference.decision_function([without(TEXT, gone) for gone in masks])  # noqa: E731
    return limelight.wrap(reference), request


FAMILIES = {"shipped": shipped_model, "bert": bert, "function": function, "pipeline": pipeline}


@cache
def all_masks(family, unit):
    """Return masks of all subsets of units, and what the model itself says to each."""
    model, ask = FAMILIES[family]()
    e = limelight.explain(model, TEXT, "loo", features=UNITS[unit])
    masks = (np.arange(2 ** len(e))[:, None] >> np.arange(len(e))) & 1 > 0
    places = [{i for span in spans for i in range(*span)} for spans in e.spans]
    gone = [set().union(*(places[j] for j in np.flatnonzero(~row))) for row in masks]
    return masks, ask(gone)


def shapley(masks, v):
    d = masks.shape[1]
    sizes, sets = masks.sum(axis=1), np.arange(len(masks))
    weight = np.array([1 / (d * comb(d - 1, s)) if s < d else 0.0 for s in sizes])
    return [((v[sets | 1 << j] - v) * weight * ~masks[:, j]).sum() for j in range(d)]


def banzhaf(masks, v):
    return [v[masks[:, j]].mean() - v[~masks[:, j]].mean() for j in range(masks.shape[1])]


def loo(masks, v):
    last = len(masks) - 1
    return [v[last] - v[last ^ 1 << j] for j in range(masks.shape[1])]


def lime(masks, v):
    d = masks.shape[1]
    s = d - masks.sum(axis=1)
    weight = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * 0.25**2))
    weight *= (s > 0) / np.array([comb(d, size) for size in s])
    design = np.column_stack([np.ones(len(masks)), masks]) * np.sqrt(weight)[:, None]
    return np.linalg.lstsq(design, v * np.sqrt(weight), rcond=None)[0][1:]


REMOVING = {"shapley": shapley, "banzhaf": banzhaf, "loo": loo, "lime": lime}
ADDING = ("alpha-avg", "alpha-grad", "gxi", "lrp", "ig", "g-avg", "generic-attention", "rollout")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", REMOVING)
def test_removing_units_is_asking_the_model_without_them(family, unit, method):
    model, _ = FAMILIES[family]()
    masks, v = all_masks(family, unit)
    assert len(set(v.tolist())) > 1
    e = limelight.explain(model, TEXT, method, features=UNITS[unit])
    game = limelight.game(model, TEXT, features=UNITS[unit])
    outputs = game(masks)
    played = outputs[:, -1] if family != "bert" else outputs[:, 1] - outputs[:, 0]
    np.testing.assert_allclose(played, v, atol=2e-5)
    room = e.bound if e.stderr is None else 5 * e.stderr.max()
    np.testing.assert_allclose(e.scores, REMOVING[method](masks, v), atol=2e-5 + (room or 0))
    if len(e) < 9:  # few units are asked in all subsets, as few words are
        assert e.stderr is None
    if family in ("shipped", "pipeline"):
        assert e.bound < 1e-5


@pytest.mark.parametrize("unit", ["words", "sentences", "paragraphs", "lines", "splitter", "spans"])
@pytest.mark.parametrize("method", ADDING)
@pytest.mark.parametrize("family", ["shipped", "bert"])
def test_what_tokens_have_adds_up_in_their_unit(family, method, unit):
    if method == "ig" and unit not in WHOLE:
        pytest.skip("its path begins at a text without the units, and so keeps what lies between")
    model, _ = FAMILIES[family]()
    single = limelight.explain(model, TEXT, method, features="positions")
    e = limelight.explain(model, TEXT, method, features=UNITS[unit])
    for spans, score in zip(e.spans, e.scores, strict=True):
        inside = [any(a <= at < b for a, b in spans) for ((at, _),) in single.spans]
        room = 2e-5 if method != "ig" else 1e-3  # whose steps on the path may differ
        np.testing.assert_allclose(score, single.scores[inside].sum(), atol=room)


@pytest.mark.parametrize("unit", ["sentences", "splitter"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_other_method_takes_units_too(family, unit):
    model, _ = FAMILIES[family]()
    for row in limelight.methods(model):
        # zoom has units of its own: sentences, then words
        if row.reason_unavailable is not None or row.id in (*REMOVING, *ADDING, "zoom"):
            continue
        e = limelight.explain(model, TEXT, row.id, features=UNITS[unit])
        assert len(e) == len(limelight.explain(model, TEXT, "loo", features=UNITS[unit]))
        assert e.feature_kind == ("sentences" if unit == "sentences" else f"{__name__}:bigrams")
        again = limelight.Explanation.from_json(e.to_json())
        assert (again.feature_kind, again.spans) == (e.feature_kind, e.spans)


def test_units_may_part_words_where_the_model_can_lose_a_part():
    model, ask = function()
    e = limelight.explain(model, TEXT, "loo", features=PARTED)
    assert e.features == ("A sup", "erb", "The plot is ")
    keep = ask([set()])[0] - np.array([contextual_outputs(TEXT[:a] + TEXT[b:]) for a, b in PARTED])
    np.testing.assert_allclose(e.scores, keep, atol=1e-12)
    e = limelight.explain(shipped_model()[0], TEXT, "loo", features=PARTED)
    assert e.features == ("A superb", "The plot is ")
    assert "The 3 units have 2 scores." in e.warnings[0]
    network, tokenizer = tiny("bert")
    word = limelight.wrap(network, tokenizer=tokenizer)
    e = limelight.explain(word, "predictable film", "loo", features=[(0, 7), (7, 11), (12, 16)])
    assert e.features == ("predict", "able", "film")
