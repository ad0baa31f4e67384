"""Train counting models from different starts, and measure their two solutions."""

__all__ = ["measure"]

from typing import Any

import numpy as np
import torch

from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.histogram.copies_trained import (
    Words,
    accuracies,
    encode_words,
    gradient_norms,
    train_copies,
)
from limelight_reproduction.histogram.counting_model import (
    KINDS,
    Weights,
    attention,
    initial_weights,
    losses,
    outputs,
    trainable_mask,
)
from limelight_reproduction.histogram.task import WORD, draw_words, letter_numbers
from limelight_reproduction.setting import Setting

# Numbers of training steps.
_WARM_UP, _TRAINING, _RETRAINING = 1500, 3500, 500
_QUICK_WARM_UP, _QUICK_TRAINING, _QUICK_RETRAINING = 1000, 1800, 200
_TRAINING_WORDS, _TEST_WORDS = 5000, 2000
_PERTURBATION = 0.1  # noise added to a solution, relative to the size of each kind of weight
_LINE_SHARES = np.linspace(0, 1, 21)


def measure(setting: Setting) -> Numbers:
    """Train from every start, first with masked weights, then with all, and compare the results."""
    rng = np.random.default_rng([setting.seed, 5])
    seeds = 1 if setting.quick else 3
    kinds = [kind for kind in KINDS for _ in range(seeds)]
    warm_up_steps, training_steps, retraining_steps = (
        (_QUICK_WARM_UP, _QUICK_TRAINING, _QUICK_RETRAINING)
        if setting.quick
        else (_WARM_UP, _TRAINING, _RETRAINING)
    )
    train_words = encode_words(draw_words(rng, _TRAINING_WORDS))
    test_words = encode_words(draw_words(rng, _TEST_WORDS))
    ticks = iter(range(1, warm_up_steps + training_steps + retraining_steps + 1))

    def tick() -> None:
        """Report one more step."""
        setting.tick(next(ticks), warm_up_steps + training_steps + retraining_steps)

    initial = _stack_copies(
        [initial_weights(kind, setting.seed + i % seeds) for i, kind in enumerate(kinds)]
    )
    masks = _stack_copies([trainable_mask(kind) for kind in kinds])
    warmed_up = train_copies(
        initial, train_words, steps=warm_up_steps, rate=2e-2, rng=rng, mask=masks, tick=tick
    )
    final = train_copies(
        warmed_up, train_words, steps=training_steps, rate=1e-2, rng=rng, tick=tick
    )
    retrained = train_copies(
        _perturb_weights(final, rng),
        train_words,
        steps=retraining_steps,
        rate=2e-3,
        rng=rng,
        tick=tick,
    )
    return {
        "steps": warm_up_steps + training_steps,
        "warm_up": warm_up_steps,
        "kick": _PERTURBATION,
        "kinds": kinds,
        "begun": round_for_json({"gradient": gradient_norms(initial, train_words)}),
        "warm": round_for_json(_measure_copies(warmed_up, train_words, test_words)),
        "found": round_for_json(_measure_copies(final, train_words, test_words)),
        "back": round_for_json(_measure_copies(retrained, train_words, test_words)),
        "along": round_for_json(_measure_lines(final, retrained, train_words, kinds)),
        "example": round_for_json(_measure_example(final, kinds)),
        "patterns": round_for_json(_measure_patterns(final, test_words, kinds), 3),
    }


def _stack_copies(copies: list[Weights]) -> Weights:
    return {name: torch.stack([copy[name] for copy in copies]) for name in copies[0]}


def _perturb_weights(weights: Weights, rng: np.random.Generator) -> Weights:
    """Add noise to the weights, in proportion to the size of each kind of weight."""
    perturbed = {}
    for name, weight in weights.items():
        size = weight.flatten(1).pow(2).mean(1).sqrt().reshape(-1, *[1] * (weight.dim() - 1))
        noise = torch.from_numpy(rng.standard_normal(weight.shape).astype(np.float32))
        perturbed[name] = weight + _PERTURBATION * size * noise
    return perturbed


def _measure_copies(weights: Weights, train_words: Words, test_words: Words) -> Numbers:
    """Return losses, accuracy, gradient norm and attention statistics of every copy."""
    with torch.no_grad():
        loss, penalty = losses(weights, *train_words)
        alpha = attention(weights, test_words.letters)
    return {
        "loss": loss.tolist(),
        "penalty": penalty.tolist(),
        "accuracy": accuracies(weights, test_words),
        "gradient": gradient_norms(weights, train_words),
        "over words": alpha.var(dim=3).mean((1, 2)).sqrt().tolist(),
        "over places": alpha.mean(3).flatten(1).std(1).tolist(),
        "same letter": _same_letter_ratio(alpha, test_words),
    }


def _same_letter_ratio(alpha: Any, words: Words) -> list[float]:
    """Return the mean attention to the same letter over that to other letters, for every copy.

    The attention of a position to itself is not counted.
    """
    same = torch.einsum("ivn,jvn->ijn", words.letters, words.letters).bool()
    different_positions = ~torch.eye(len(same), dtype=torch.bool)[:, :, None]
    return [
        float(copy_alpha[same & different_positions].mean() / copy_alpha[~same].mean())
        for copy_alpha in alpha
    ]


def _first_copy(kinds: list[str], kind: str) -> int:
    return kinds.index(kind)


def _measure_lines(final: Weights, retrained: Weights, words: Words, kinds: list[str]) -> Numbers:
    """Return the loss on straight lines between solutions and to their perturbed copies."""
    positional, semantic = _first_copy(kinds, "positional"), _first_copy(kinds, "semantic")
    ends = {
        "between": (_select_copy(final, positional), _select_copy(final, semantic)),
        "positional": (_select_copy(final, positional), _select_copy(retrained, positional)),
        "semantic": (_select_copy(final, semantic), _select_copy(retrained, semantic)),
    }
    return {
        "share": _LINE_SHARES,
        **{name: _line_losses(*pair, words) for name, pair in ends.items()},
    }


def _select_copy(weights: Weights, number: int) -> Weights:
    return {name: weight[number : number + 1] for name, weight in weights.items()}


def _line_losses(a: Weights, b: Weights, words: Words) -> list[float]:
    between = {
        name: torch.cat([torch.lerp(a[name], b[name], float(share)) for share in _LINE_SHARES])
        for name in a
    }
    with torch.no_grad():
        return [
            float(losses(_select_copy(between, i), *words)[0]) for i in range(len(_LINE_SHARES))
        ]


def _measure_example(weights: Weights, kinds: list[str]) -> Numbers:
    """Return attention and counts of the example word in both solutions."""
    word = encode_words(letter_numbers(WORD)[None])
    with torch.no_grad():
        alpha, logit = attention(weights, word.letters), outputs(weights, word.letters)
    return {
        kind: {
            "attention": alpha[_first_copy(kinds, kind), :, :, 0].numpy(),
            "counts": (1 + logit[_first_copy(kinds, kind), :, :, 0].argmax(dim=1)).tolist(),
        }
        for kind in KINDS[:2]
    }


def _measure_patterns(weights: Weights, words: Words, kinds: list[str]) -> Numbers:
    """Return the mean and the standard deviation over words of every entry of the attention."""
    with torch.no_grad():
        alpha = attention(weights, words.letters)
    return {
        kind: {
            "mean": alpha[_first_copy(kinds, kind)].mean(-1).numpy(),
            "deviation": alpha[_first_copy(kinds, kind)].std(-1).numpy(),
        }
        for kind in KINDS[:2]
    }
