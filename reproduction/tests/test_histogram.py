"""The counting model against its definition, and a short training that finds both solutions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from limelight_reproduction.histogram import EXPERIMENT, copies_trained, solutions_measured
from limelight_reproduction.histogram.copies_trained import (
    accuracies,
    as_words,
    gradient_norms,
    trained,
)
from limelight_reproduction.histogram.counting_model import (
    KINDS,
    attention,
    held,
    losses,
    outputs,
    start,
)
from limelight_reproduction.histogram.task import (
    LENGTH,
    LETTERS,
    WORD,
    letters_of,
    occurrences,
    words,
)
from limelight_reproduction.setting import Setting

WORDS = words(np.random.default_rng(0), 3)


def two_copies():
    """Return two copies of the model with nothing at zero."""
    generator = torch.Generator().manual_seed(1)
    weights = {name: torch.stack([w, w]) for name, w in start("ordinary", 0).items()}
    return {
        name: w + 0.3 * torch.randn(w.shape, generator=generator) for name, w in weights.items()
    }


def counted(weights, word):
    """Oracle: one word of one copy, place by place, as the definition says it."""
    w = {name: weight.double().numpy() for name, weight in weights.items()}
    e = np.array([w["letter"][:, x] + w["position"][t, :, 0] for t, x in enumerate(word)])
    rows, logits = [], []
    for here in e:
        score = [(w["query"] @ here) @ (w["query"] @ there) for there in e]
        g = np.exp(np.array(score) / np.sqrt(len(w["query"])))
        rows.append(g / g.sum())
        z = here + rows[-1] @ e
        hidden = np.maximum(w["hidden"] @ z + w["hidden_bias"][:, 0], 0)
        logits.append(w["out"] @ hidden + w["out_bias"][:, 0])
    return np.array(rows), np.array(logits)


def test_the_talks_word_is_counted_as_in_the_talk():
    assert occurrences(letters_of(WORD)).tolist() == [1, 5, 1, 5, 3, 5, 3, 5, 3, 5]


def test_random_words_are_counted_like_strings():
    for word, counts in zip(WORDS, occurrences(WORDS), strict=True):
        text = "".join(LETTERS[x] for x in word)
        assert counts.tolist() == [text.count(letter) for letter in text]


def test_the_model_is_its_definition():
    weights, given = two_copies(), as_words(WORDS)
    alpha, logit = attention(weights, given.letters), outputs(weights, given.letters)
    for copy in range(2):
        for number, word in enumerate(WORDS):
            rows, wanted = counted({name: w[copy] for name, w in weights.items()}, word)
            np.testing.assert_allclose(alpha[copy, :, :, number], rows, rtol=2e-3, atol=1e-6)
            np.testing.assert_allclose(logit[copy, :, :, number], wanted, rtol=2e-3, atol=2e-3)


def test_the_loss_is_the_mean_log_probability_of_the_counts():
    weights, given = two_copies(), as_words(WORDS)
    entropy, _ = losses(weights, *given)
    chance = torch.log_softmax(outputs(weights, given.letters), dim=2)
    for copy in range(2):
        picked = [
            chance[copy, t, count - 1, n]
            for n, row in enumerate(occurrences(WORDS))
            for t, count in enumerate(row)
        ]
        np.testing.assert_allclose(entropy[copy], -np.mean(picked), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_of_a_start_sees_what_its_name_says(kind):
    weights = {name: w[None] for name, w in start(kind, 0).items()}
    alpha = attention(weights, as_words(words(np.random.default_rng(2), 50)).letters)
    over_words = float(alpha.var(dim=3).mean())
    assert (over_words < 1e-12) == (kind == "positional")
    same_letters = attention(weights, as_words(np.zeros((1, LENGTH), dtype=int)).letters)
    assert (float(same_letters.std()) < 1e-6) == (kind == "semantic")


def test_copies_are_trained_as_if_alone_and_held_weights_stay():
    given = as_words(words(np.random.default_rng(3), 40))
    both = {name: torch.stack([w, w + 0.01]) for name, w in start("positional", 0).items()}
    free = {name: torch.stack([w, w]) for name, w in held("positional").items()}
    alone = {name: w[1:] for name, w in both.items()}

    def after(weights, mask):
        rng = np.random.default_rng(4)
        return trained(weights, given, steps=5, rate=1e-2, rng=rng, free=mask)

    together, single = after(both, free), after(alone, {n: m[1:] for n, m in free.items()})
    for name, weight in together.items():
        np.testing.assert_allclose(weight[1], single[name][0], rtol=1e-4, atol=1e-5)
        still = free[name] == 0
        np.testing.assert_array_equal(weight[still], both[name][still])
    assert not np.allclose(after(both, None)["query"][free["query"] == 0], 0)


def test_training_lowers_loss_and_gradient_and_raises_accuracy():
    given = as_words(words(np.random.default_rng(5), 300))
    begun = {name: w[None] for name, w in start("positional", 0).items()}
    after = trained(begun, given, steps=150, rate=2e-2, rng=np.random.default_rng(6))
    assert accuracies(after, given)[0] > 0.6 > accuracies(begun, given)[0]
    assert gradient_norms(after, given)[0] < gradient_norms(begun, given)[0] / 3


@pytest.mark.slow
def test_both_solutions_are_found_and_shown(monkeypatch):
    """In fewer steps on fewer words than a quick run takes, half its time."""
    fewer = {"WARM_UP": 800, "FREE": 1200, "AGAIN": 100}
    for name, steps in fewer.items():
        monkeypatch.setattr(solutions_measured, f"_QUICK_{name}", steps)
    monkeypatch.setattr(solutions_measured, "_TRAINING_WORDS", 2000)
    monkeypatch.setattr(solutions_measured, "_TEST_WORDS", 500)
    monkeypatch.setattr(copies_trained, "_BATCH", 64)
    setting = Setting(data=Path("unused"), models=Path("unused"), quick=True)
    numbers = {part.name: part.measure(setting) for part in EXPERIMENT.parts}
    stored = json.loads(json.dumps(numbers))
    found = dict(zip(KINDS, stored["trained"]["found"]["same letter"], strict=True))
    right = dict(zip(KINDS, stored["trained"]["found"]["accuracy"], strict=True))
    assert found["positional"] < 2 < 10 < found["semantic"]
    assert min(right["positional"], right["semantic"]) > 0.95
    along = stored["trained"]["along"]
    assert max(along["between"]) > 10 * max(*along["positional"], *along["semantic"])
    findings = EXPERIMENT.findings(stored)
    assert "1 of 1 end with positional" in findings.measured[1]
    assert "1 of 1 end with semantic" in findings.measured[2]
    assert [name for name, _, _ in EXPERIMENT.figures(stored)] == [
        "histogram-attention",
        "histogram-way",
    ]
