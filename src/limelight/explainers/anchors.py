"""Anchors: a few words that hold the prediction, with how often they do."""

__all__ = ["ROWS", "Anchors"]

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.held import held_by
from limelight.explainers.method import Method, with_defaults
from limelight.explainers.perturbed import Perturbable
from limelight.explainers.scores import Scores
from limelight.explanation import Anchor
from limelight.sampling import (
    AnchorSearch,
    FoundAnchor,
    Holds,
    ReplacementScorer,
    clopper_pearson,
    coin_masks,
    expect,
    find_anchor,
    sign_bracket,
    text_rng,
)
from limelight.shapes import Bool, Float

_CHUNK = 4096


class _Precision(NamedTuple):
    value: float
    interval: tuple[float, float]
    method: str


@final
@dataclass(frozen=True, kw_only=True)
class Anchors:
    """Settings of anchors (Ribeiro et al., 2018).

    Held is the predicted class, whatever the target (of a model with several labels, whether the
    text has the target's), while every word outside the anchor is kept or removed by a fair coin.
    ``threshold``, ``delta``, ``slack``, ``batch``, ``beam`` and
    ``max_size`` steer the search; the precision that is reported comes from ``samples`` masks which
    the search never saw (from all masks where there are no more, and for one head from a rigorous
    bracket). The score of an anchor word is what precision loses when the anchor lets go of it,
    negative where what is held is not the target; words outside the anchor have 0.
    """

    threshold: float = 0.95
    delta: float = 0.05
    slack: float = 0.15
    batch: int = 100
    beam: int = 4
    max_size: int | None = None
    samples: int = 10_000
    max_samples: int = 1_000_000
    replacement: str = "unk"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("threshold", "delta", "slack"):
            if not 0 < (value := getattr(self, name)) < 1:
                raise InputError(f"{name} must lie between 0 and 1; got {value}.")
        for name in ("batch", "beam", "max_size", "samples", "max_samples"):
            if (count := getattr(self, name)) is not None and count < 1:
                raise InputError(f"{name} must be at least 1; got {count}.")
        if self.seed < 0:
            raise InputError(f"seed must be at least 0; got {self.seed}.")

    def asks(self, d: int) -> int:
        """Return how many masks of ``d`` features the model is asked, the search aside."""
        return min(self.samples, 2**d)

    def __call__(self, reading: Perturbable) -> list[Scores]:
        """Find an anchor for every document."""
        return [self._scores(one) for one in reading.apart()]

    def _scores(self, one: Perturbable) -> Scores:
        held = held_by(one)
        d = len(one.features[0])
        scorer = one.scorer(self.replacement)

        def holds(keep: Bool[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
            chunks = range(0, len(keep), _CHUNK)
            outputs = [scorer(keep[i : i + _CHUNK]) for i in chunks]
            return held(np.concatenate(outputs))

        rng = text_rng(self.seed, one.documents[0].text)
        found = find_anchor(holds, d, rng=rng, search=self._search())
        words = list(found.words)
        masks, every = _fresh_masks(d, words, self.samples, rng)
        precision = self._precision(holds(masks), every, _bracket(scorer, words, held.choice))
        gain, stderr = _gains(holds, masks, words, every)
        return Scores(
            scores=gain if held.for_target else -gain,
            stderr=None if every else stderr,
            anchor=Anchor(
                features=found.words,
                precision=precision.value,
                precision_interval=precision.interval,
                coverage=0.5 ** len(words),
            ),
            notices=held.notices + self._notices(found, precision),
            settings={
                "replacement": one.resolved(self.replacement),
                "holds": held.name,
                "precision_by": precision.method,
                "search_samples": found.spent,
            },
        )

    def _search(self) -> AnchorSearch:
        return AnchorSearch(
            threshold=self.threshold,
            delta=self.delta,
            slack=self.slack,
            batch=self.batch,
            beam=self.beam,
            max_size=self.max_size,
            max_samples=self.max_samples,
        )

    def _precision(
        self, held: Bool[np.ndarray, " n"], every: bool, bracket: tuple[float, float] | None
    ) -> _Precision:
        mean = float(held.mean())
        if every:
            return _Precision(mean, (mean, mean), "enumeration")
        if bracket is not None:
            return _Precision(sum(bracket) / 2, bracket, "bracket")
        interval = clopper_pearson(int(held.sum()), len(held), delta=self.delta)
        return _Precision(mean, interval, "sampling")

    def _notices(self, found: FoundAnchor, precision: _Precision) -> tuple[str, ...]:
        notices = []
        if not found.words and found.reached:
            notices.append(
                "The prediction holds without an anchor: it hardly depends on which words stay."
            )
        if precision.interval[0] < self.threshold:
            low, high = precision.interval
            notices.append(
                f"The precision lies in {low:.3f}–{high:.3f}, not surely above the threshold "
                f"{self.threshold:g}."
            )
        return tuple(notices)


def _fresh_masks(
    d: int, words: list[int], samples: int, rng: np.random.Generator
) -> tuple[Bool[np.ndarray, "n d"], bool]:
    """Return every mask that keeps ``words`` if there are at most ``samples``, else random ones."""
    free = [j for j in range(d) if j not in words]
    if len(free) > np.log2(samples):
        return coin_masks(d, samples, rng, held=words), False
    masks = np.ones((2 ** len(free), d), bool)
    masks[:, free] = np.arange(len(masks))[:, None] >> np.arange(len(free)) & 1
    return masks, True


def _gains(
    holds: Holds, masks: Bool[np.ndarray, "n d"], words: list[int], every: bool
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """What precision loses without each anchor word, which a fair coin would then remove.

    precision(A) − precision(A without j) = ½ [P(holds | A) − P(holds | A without j, j removed)].
    """
    gain, stderr = np.zeros(masks.shape[1]), np.zeros(masks.shape[1])
    expect(len(masks) * (1 + len(words)))
    held = holds(masks)
    for j in words:
        without = masks.copy()
        without[:, j] = False
        loss = (held.astype(float) - holds(without)) / 2
        gain[j] = loss.mean()
        # Losses that all agree are no certainty: one more of either kind might have come.
        seen = np.append(loss, (-0.5, 0.5))
        stderr[j] = 0.0 if every else seen.std() / np.sqrt(len(seen))
    return gain, stderr


def _bracket(scorer: Any, words: list[int], held: int) -> tuple[float, float] | None:
    """Rigorous bounds on the precision where the sign of one additive sum decides: one head."""
    if not isinstance(scorer, ReplacementScorer):
        return None
    _, C, K = scorer.tables.word_value.shape
    if K > 1 or C > 2:
        return None
    contrast = np.array([0.0, 1.0] if C == 1 else [0.0, -1.0, 1.0])
    kept, removed = (scorer.word_sums @ contrast).reshape(2, -1)
    at_random = np.ones(scorer.d, bool)
    at_random[words] = False
    start = scorer.fixed_sums @ contrast + kept[words].sum() + removed[at_random].sum()
    # What summing the tables' terms in floating point may have cost.
    terms = float(
        (np.abs(scorer.word_sums).sum(axis=0) + np.abs(scorer.fixed_sums)) @ abs(contrast)
    )
    slack = 2 * np.finfo(float).eps * len(scorer.ids) * terms
    low, high = sign_bracket(float(start), (kept - removed)[at_random], slack=slack)
    return (low, high) if held == 1 else (1 - high, 1 - low)


ROWS = (
    Method(
        id="anchors",
        label="Anchors",
        formula="shortest A with P(prediction holds | A kept, others by fair coin) ≥ threshold",
        sees="which words suffice for the predicted class, interactions included",
        blind="how strongly words pull, and anything below the threshold",
        cost="10⁴ to 10⁶ forward passes on the tables (a second)",
        explainer=Anchors,
        sampled=with_defaults(Anchors, replacement="auto", batch=50, samples=500, max_samples=2000),
    ),
)
