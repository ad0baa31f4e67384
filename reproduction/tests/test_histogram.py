"""The counting model against its definition, and a short training that finds both solutions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from limelight_reproduction.histogram import EXPERIMENT, copies_trained, solutions_measured
from limelight_reproduction.histogram.copies_trained import (
    accuracies,
    encode_words,
    gradient_norms,
    train_copies,
)
from limelight_reproduction.histogram.counting_model import (
    KINDS,
    attention,
    initial_weights,
    losses,
    outputs,
    trainable_mask,
)
from limelight_reproduction.histogram.task import (
    LENGTH,
    LETTERS,
    WORD,
    count_occurrences,
    draw_words,
    letter_numbers,
)
from limelight_reproduction.setting import Setting

WORDS = draw_words(np.random.default_rng(0), 3)


def two_copies():
    """Return two equal copies of the model with random weights and no zeros."""
    generator = torch.Generator().manual_seed(1)
    weights = {name: torch.stack([w, w]) for name, w in initial_weights("ordinary", 0).items()}
    return {
        name: w + 0.3 * torch.randn(w.shape, generator=generator) for name, w in weights.items()
    }


def count_by_definition(weights, word):
    """Reference implementation: one word and one copy, position by position."""
    w = {name: weight.double().numpy() for name, weight in weights.items()}
    e = np.array([w["letter"][:, x] + w["position"][t, :, 0] for t, x in enumerate(word)])
    rows, logits = [], []
    for e_t in e:
        score = [(w["query"] @ e_t) @ (w["query"] @ e_s) for e_s in e]
        g = np.exp(np.array(score) / np.sqrt(len(w["query"])))
        rows.append(g / g.sum())
        z = e_t + rows[-1] @ e
        hidden = np.maximum(w["hidden"] @ z + w["hidden_bias"][:, 0], 0)
        logits.append(w["out"] @ hidden + w["out_bias"][:, 0])
    return np.array(rows), np.array(logits)


def test_the_talks_word_is_counted_as_in_the_talk():
    assert count_occurrences(letter_numbers(WORD)).tolist() == [1, 5, 1, 5, 3, 5, 3, 5, 3, 5]


def test_random_words_are_counted_like_strings():
    for word, counts in zip(WORDS, count_occurrences(WORDS), strict=True):
        text = "".join(LETTERS[x] for x in word)
        assert counts.tolist() == [text.count(letter) for letter in text]


def test_the_model_is_its_definition():
    weights, encoded = two_copies(), encode_words(WORDS)
    alpha, logit = attention(weights, encoded.letters), outputs(weights, encoded.letters)
    for copy in range(2):
        for number, word in enumerate(WORDS):
            rows, expected = count_by_definition(
                {name: w[copy] for name, w in weights.items()}, word
            )
            np.testing.assert_allclose(alpha[copy, :, :, number], rows, rtol=2e-3, atol=1e-6)
            np.testing.assert_allclose(logit[copy, :, :, number], expected, rtol=2e-3, atol=2e-3)


def test_the_loss_is_the_mean_log_probability_of_the_counts():
    weights, encoded = two_copies(), encode_words(WORDS)
    entropy, _ = losses(weights, *encoded)
    chance = torch.log_softmax(outputs(weights, encoded.letters), dim=2)
    for copy in range(2):
        picked = [
            chance[copy, t, count - 1, n]
            for n, row in enumerate(count_occurrences(WORDS))
            for t, count in enumerate(row)
        ]
        np.testing.assert_allclose(entropy[copy], -np.mean(picked), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_of_a_start_sees_what_its_name_says(kind):
    weights = {name: w[None] for name, w in initial_weights(kind, 0).items()}
    alpha = attention(weights, encode_words(draw_words(np.random.default_rng(2), 50)).letters)
    over_words = float(alpha.var(dim=3).mean())
    assert (over_words < 1e-12) == (kind == "positional")
    same_letters = attention(weights, encode_words(np.zeros((1, LENGTH), dtype=int)).letters)
    assert (float(same_letters.std()) < 1e-6) == (kind == "semantic")


def test_copies_are_trained_as_if_alone_and_held_weights_stay():
    encoded = encode_words(draw_words(np.random.default_rng(3), 40))
    two_copies = {
        name: torch.stack([w, w + 0.01]) for name, w in initial_weights("positional", 0).items()
    }
    masks = {name: torch.stack([w, w]) for name, w in trainable_mask("positional").items()}
    single_copy = {name: w[1:] for name, w in two_copies.items()}

    def train(weights, mask):
        rng = np.random.default_rng(4)
        return train_copies(weights, encoded, steps=5, rate=1e-2, rng=rng, mask=mask)

    trained_together, trained_alone = (
        train(two_copies, masks),
        train(single_copy, {n: m[1:] for n, m in masks.items()}),
    )
    for name, weight in trained_together.items():
        np.testing.assert_allclose(weight[1], trained_alone[name][0], rtol=1e-4, atol=1e-5)
        is_masked = masks[name] == 0
        np.testing.assert_array_equal(weight[is_masked], two_copies[name][is_masked])
    assert not np.allclose(train(two_copies, None)["query"][masks["query"] == 0], 0)


def test_training_lowers_loss_and_gradient_and_raises_accuracy():
    encoded = encode_words(draw_words(np.random.default_rng(5), 300))
    initial = {name: w[None] for name, w in initial_weights("positional", 0).items()}
    final = train_copies(initial, encoded, steps=150, rate=2e-2, rng=np.random.default_rng(6))
    assert accuracies(final, encoded)[0] > 0.6 > accuracies(initial, encoded)[0]
    assert gradient_norms(final, encoded)[0] < gradient_norms(initial, encoded)[0] / 3


@pytest.mark.slow
def test_both_solutions_are_found_and_shown(monkeypatch):
    """In fewer steps on fewer words than a quick run takes, half its time."""
    step_counts = {"WARM_UP": 800, "TRAINING": 1200, "RETRAINING": 100}
    for name, steps in step_counts.items():
        monkeypatch.setattr(solutions_measured, f"_QUICK_{name}", steps)
    monkeypatch.setattr(solutions_measured, "_TRAINING_WORDS", 2000)
    monkeypatch.setattr(solutions_measured, "_TEST_WORDS", 500)
    monkeypatch.setattr(copies_trained, "_BATCH", 64)
    setting = Setting(data=Path("unused"), models=Path("unused"), quick=True)
    numbers = {part.name: part.measure(setting) for part in EXPERIMENT.parts}
    stored = json.loads(json.dumps(numbers))
    ratios = dict(zip(KINDS, stored["trained"]["found"]["same letter"], strict=True))
    accuracies = dict(zip(KINDS, stored["trained"]["found"]["accuracy"], strict=True))
    assert ratios["positional"] < 2 < 10 < ratios["semantic"]
    assert min(accuracies["positional"], accuracies["semantic"]) > 0.95
    along = stored["trained"]["along"]
    assert max(along["between"]) > 10 * max(*along["positional"], *along["semantic"])
    findings = EXPERIMENT.findings(stored)
    assert "1 of 1 end with positional" in findings.measured[1]
    assert "1 of 1 end with semantic" in findings.measured[2]
    assert [name for name, _, _ in EXPERIMENT.figures(stored)] == [
        "histogram-attention",
        "histogram-way",
    ]
