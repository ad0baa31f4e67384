"""Both solutions, found by training from different starts, and what tells them apart."""

__all__ = ["measured"]

from typing import Any

import numpy as np
import torch

from limelight_reproduction.experiment import Numbers, compact
from limelight_reproduction.histogram.copies_trained import (
    Words,
    accuracies,
    as_words,
    gradient_norms,
    trained,
)
from limelight_reproduction.histogram.counting_model import (
    KINDS,
    Weights,
    attention,
    held,
    losses,
    outputs,
    start,
)
from limelight_reproduction.histogram.task import WORD, letters_of, words
from limelight_reproduction.setting import Setting

_WARM_UP, _FREE, _AGAIN = 1500, 3500, 500
_QUICK_WARM_UP, _QUICK_FREE, _QUICK_AGAIN = 1000, 1800, 200
_TRAINING_WORDS, _TEST_WORDS = 5000, 2000
_KICK = 0.1  # noise put on a solution, relative to the size of each kind of weight
_ALONG = np.linspace(0, 1, 21)


def measured(setting: Setting) -> Numbers:
    """Train from every start, the last steps with nothing held, and compare where they end."""
    rng = np.random.default_rng([setting.seed, 5])
    seeds = 1 if setting.quick else 3
    kinds = [kind for kind in KINDS for _ in range(seeds)]
    warm_up, free, again = (
        (_QUICK_WARM_UP, _QUICK_FREE, _QUICK_AGAIN) if setting.quick else (_WARM_UP, _FREE, _AGAIN)
    )
    known, unseen = as_words(words(rng, _TRAINING_WORDS)), as_words(words(rng, _TEST_WORDS))
    ticks = iter(range(1, warm_up + free + again + 1))

    def tick() -> None:
        setting.tick(next(ticks), warm_up + free + again)

    begun = _stacked([start(kind, setting.seed + i % seeds) for i, kind in enumerate(kinds)])
    only = _stacked([held(kind) for kind in kinds])
    warm = trained(begun, known, steps=warm_up, rate=2e-2, rng=rng, free=only, tick=tick)
    found = trained(warm, known, steps=free, rate=1e-2, rng=rng, tick=tick)
    back = trained(_kicked(found, rng), known, steps=again, rate=2e-3, rng=rng, tick=tick)
    return {
        "steps": warm_up + free,
        "warm_up": warm_up,
        "kick": _KICK,
        "kinds": kinds,
        "begun": compact({"gradient": gradient_norms(begun, known)}),
        "warm": compact(_state(warm, known, unseen)),
        "found": compact(_state(found, known, unseen)),
        "back": compact(_state(back, known, unseen)),
        "along": compact(_lines(found, back, known, kinds)),
        "example": compact(_example(found, kinds)),
        "patterns": compact(_patterns(found, unseen, kinds), 3),
    }


def _stacked(copies: list[Weights]) -> Weights:
    return {name: torch.stack([copy[name] for copy in copies]) for name in copies[0]}


def _kicked(weights: Weights, rng: np.random.Generator) -> Weights:
    """Return the weights with noise of a share of their own size."""
    moved = {}
    for name, weight in weights.items():
        size = weight.flatten(1).pow(2).mean(1).sqrt().reshape(-1, *[1] * (weight.dim() - 1))
        noise = torch.from_numpy(rng.standard_normal(weight.shape).astype(np.float32))
        moved[name] = weight + _KICK * size * noise
    return moved


def _state(weights: Weights, known: Words, unseen: Words) -> Numbers:
    """Return, for every copy, how well it counts, how still it stands, and what it attends to."""
    with torch.no_grad():
        loss, penalty = losses(weights, *known)
        alpha = attention(weights, unseen.letters)
    return {
        "loss": loss.tolist(),
        "penalty": penalty.tolist(),
        "accuracy": accuracies(weights, unseen),
        "gradient": gradient_norms(weights, known),
        "over words": alpha.var(dim=3).mean((1, 2)).sqrt().tolist(),
        "over places": alpha.mean(3).flatten(1).std(1).tolist(),
        "same letter": _same_letter(alpha, unseen),
    }


def _same_letter(alpha: Any, unseen: Words) -> list[float]:
    """Return the attention between two places with the same letter over that with different ones.

    A place and itself are left out.
    """
    same = torch.einsum("ivn,jvn->ijn", unseen.letters, unseen.letters).bool()
    apart = ~torch.eye(len(same), dtype=torch.bool)[:, :, None]
    return [float(one[same & apart].mean() / one[~same].mean()) for one in alpha]


def _first(kinds: list[str], kind: str) -> int:
    return kinds.index(kind)


def _lines(found: Weights, back: Weights, known: Words, kinds: list[str]) -> Numbers:
    """Return the loss on straight lines: from one solution to the other, and to itself kicked."""
    positional, semantic = _first(kinds, "positional"), _first(kinds, "semantic")
    ends = {
        "between": (_copy(found, positional), _copy(found, semantic)),
        "positional": (_copy(found, positional), _copy(back, positional)),
        "semantic": (_copy(found, semantic), _copy(back, semantic)),
    }
    return {"share": _ALONG, **{name: _line(*pair, known) for name, pair in ends.items()}}


def _copy(weights: Weights, number: int) -> Weights:
    return {name: weight[number : number + 1] for name, weight in weights.items()}


def _line(a: Weights, b: Weights, known: Words) -> list[float]:
    between = {
        name: torch.cat([torch.lerp(a[name], b[name], float(share)) for share in _ALONG])
        for name in a
    }
    with torch.no_grad():
        return [float(losses(_copy(between, i), *known)[0]) for i in range(len(_ALONG))]


def _example(found: Weights, kinds: list[str]) -> Numbers:
    """Return attention and counts of the talk's word in either solution."""
    word = as_words(letters_of(WORD)[None])
    with torch.no_grad():
        alpha, logit = attention(found, word.letters), outputs(found, word.letters)
    return {
        kind: {
            "attention": alpha[_first(kinds, kind), :, :, 0].numpy(),
            "counts": (1 + logit[_first(kinds, kind), :, :, 0].argmax(dim=1)).tolist(),
        }
        for kind in KINDS[:2]
    }


def _patterns(found: Weights, unseen: Words, kinds: list[str]) -> Numbers:
    """Return the mean and the standard deviation over words of every entry of the attention."""
    with torch.no_grad():
        alpha = attention(found, unseen.letters)
    return {
        kind: {
            "mean": alpha[_first(kinds, kind)].mean(-1).numpy(),
            "deviation": alpha[_first(kinds, kind)].std(-1).numpy(),
        }
        for kind in KINDS[:2]
    }
