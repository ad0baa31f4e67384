"""Taggers, extractive answers and functions of spans, against direct calls of their networks."""

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification

import limelight
from limelight.models.hugging_face.lrp import FrozenWeights
from limelight.theory.lime_weights import size_weight

from tiny_transformers import tiny, unusual

BIO = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG")
BILOU = ("O", *(f"{letter}-{name}" for name in ("PER", "ORG") for letter in "BILU"))
TEXT = "the superb predictable film but a bad plot is good."
SPAN = (4, 22)  # superb predictable: one piece, and two
FAMILIES = ("bert", "distilbert", "roberta", "electra", "deberta-v2", "modernbert")
families = pytest.mark.parametrize("family", FAMILIES)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def network_of(family="bert", tags=BIO, kind=AutoModelForTokenClassification):
    network, tokenizer = unusual(family) if family == "modernbert" else tiny(family)
    config = network.config
    if kind is AutoModelForTokenClassification:
        config.id2label = dict(enumerate(tags))
        config.label2id = {tag: i for i, tag in enumerate(tags)}
    torch.manual_seed(3)
    return kind.from_config(config).eval().double(), tokenizer


def tagger(*given, **more):
    network, tokenizer = network_of(*given, **more)
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
            found = self.number(self.network(rows, torch.ones_like(rows)).logits)
        return found.numpy()

    def times_input(self):
        """The gradient of the number times the embedded text, at each word."""
        table = self.network.get_input_embeddings()
        given = table(self.ids[None]).detach().requires_grad_()
        hook = table.register_forward_hook(lambda *_: given.clone())
        logits = self.network(self.ids[None], torch.ones_like(self.ids[None])).logits
        hook.remove()
        (slope,) = torch.autograd.grad(self.number(logits).sum(), given)
        products = (slope * given).sum(-1)[0].detach().numpy()
        count = 1 + max(word for word in self.word if word is not None)
        return np.array([
            sum(p for p, w in zip(products, self.word, strict=True) if w == word)
            for word in range(count)
        ])  # fmt: skip


def all_subsets(direct, words):
    """Every mask of ``words``, true where one stays, and the number for each."""
    masks = np.array(list(product([False, True], repeat=len(words))))
    removed = [{w for w, kept in zip(words, row, strict=True) if not kept} for row in masks]
    return masks, direct.values(removed)


def shapley(masks, values):
    d = masks.shape[1]
    game = {tuple(np.flatnonzero(row)): v for row, v in zip(masks, values, strict=True)}
    return np.array([
        sum(
            (game[tuple(sorted((*S, j)))] - game[S]) / (d * comb(d - 1, len(S)))
            for k in range(d)
            for S in combinations([i for i in range(d) if i != j], k)
        )
        for j in range(d)
    ])  # fmt: skip


def lime(masks, values):
    d = masks.shape[1]
    removed = d - masks.sum(axis=1)
    sets = np.array([comb(d, s) for s in range(d + 1)])
    weight = np.where(removed > 0, size_weight(d, 0.25)[removed] / sets[removed], 0.0)
    design = np.column_stack([np.ones(len(masks)), masks]) * np.sqrt(weight)[:, None]
    return np.linalg.lstsq(design, values * np.sqrt(weight), rcond=None)[0][1:]


@families
def test_methods_that_remove_words_match_direct_calls_of_the_network(family):
    model, network, tokenizer = tagger(family)
    direct = Direct(network, tokenizer, TEXT, {1: "B-ORG", 2: "I-ORG"})
    others = [0, *range(3, 11)]
    masks, values = all_subsets(direct, others)
    asked = {"at": SPAN, "target": "ORG"}
    e = limelight.explain(model, TEXT, "shapley", **asked)
    assert e.features == ("the", "film", "but", "a", "bad", "plot", "is", "good", ".")
    assert e.prediction["ORG"] == pytest.approx(values[-1], abs=1e-9)
    assert e.base_value == pytest.approx(values[0], abs=1e-9)
    np.testing.assert_allclose(e.scores, shapley(masks, values), atol=1e-8)
    assert not np.allclose(e.scores, shapley(masks, direct.values([set()] * 512)), atol=1e-8)
    found = limelight.explain(model, TEXT, "lime", **asked).scores
    np.testing.assert_allclose(found, lime(masks, values), atol=1e-7)
    alone = values[-1] - direct.values([{word} for word in others])
    np.testing.assert_allclose(
        limelight.explain(model, TEXT, "loo", **asked).scores, alone, atol=1e-8
    )


@families
def test_gradients_and_relevances_match_autograd_on_the_network(family):
    model, network, tokenizer = tagger(family)
    direct = Direct(network, tokenizer, TEXT, {1: "B-ORG", 2: "I-ORG"})
    asked = {"at": SPAN, "target": "ORG", "protect_span": False}
    found = limelight.explain(model, TEXT, "gxi", **asked).scores
    np.testing.assert_allclose(found, direct.times_input(), atol=1e-8)
    with FrozenWeights():
        known = direct.times_input()
    np.testing.assert_allclose(
        limelight.explain(model, TEXT, "lrp", **asked).scores, known, atol=1e-8
    )
    assert not np.allclose(found, known, atol=1e-3)
    protected = limelight.explain(model, TEXT, "gxi", at=SPAN, target="ORG").scores
    np.testing.assert_allclose(protected, np.delete(found, [1, 2]), atol=1e-12)
