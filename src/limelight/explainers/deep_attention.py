"""Attention of deep models: one layer, all layers rolled out, flow, and attention × gradient."""

__all__ = ["AttentionGradient", "DeepAttention", "Flow", "Rollout"]

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from limelight.adapters.model import Attended
from limelight.errors import InputError, MissingExtraError
from limelight.explainers.deep import deep_model, pooled
from limelight.explainers.scores import Scores
from limelight.explainers.texts import TextReading
from limelight.shapes import Float


@final
@dataclass(frozen=True, kw_only=True)
class DeepAttention:
    """Settings of the attention methods: the ``layer`` ("first", "last", a number, or "mean" over
    all) and how its heads are summarised.
    """

    over_heads: Literal["mean", "max"]
    layer: str | int = "last"

    def __call__(self, reading: TextReading) -> list[Scores]:
        """Score every feature by the attention that the classification head's token pays to it."""
        return [self._scores(one) for one in reading.apart()]

    def _scores(self, one: TextReading) -> Scores:
        found = deep_model(one).attended(one.documents[0])
        heads = mean_over_windows(found, lambda a: chosen_layer(_read_rows(a), self.layer))
        summary = heads.mean(axis=0) if self.over_heads == "mean" else heads.max(axis=0)
        return Scores(
            scores=pooled(one, summary),
            heads=pooled(one, heads),
            notices=(_where_it_goes(one, heads.mean(axis=0)),),
        )


@final
@dataclass(frozen=True, kw_only=True)
class AttentionGradient:
    """Settings of attention × gradient: the ``layer``, as for attention."""

    layer: str | int = "last"

    def __call__(self, reading: TextReading) -> list[Scores]:
        """Score every feature by Σ over heads of α ∂F/∂α where the classification head reads."""
        return [self._scores(one) for one in reading.apart()]

    def _scores(self, one: TextReading) -> Scores:
        windows = deep_model(one).attended(one.documents[0], one.targets.weights)
        # ∂F/∂α of a window holds its share of the mean already.
        heads = np.concatenate([self._product(found) for found in windows], axis=-1)
        return Scores(scores=pooled(one, heads.sum(axis=0)), heads=pooled(one, heads * len(heads)))

    def _product(self, found: Attended) -> Float[np.ndarray, "H T"]:
        read = (found.reads > 0).astype(np.float64)
        product = np.einsum("s,lhst->lht", read, found.alpha * found.gradient)
        return chosen_layer(product, self.layer)


@final
@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Settings of attention rollout (Abnar & Zuidema, 2020): none."""

    def __call__(self, reading: TextReading) -> list[Scores]:
        """Score every feature by the product over layers of (α + I)/2, mean over heads."""
        return [self._scores(one) for one in reading.apart()]

    def _scores(self, one: TextReading) -> Scores:
        mass = mean_over_windows(deep_model(one).attended(one.documents[0]), rolled_out)
        return Scores(scores=pooled(one, mass), notices=(_where_it_goes(one, mass),))


@final
@dataclass(frozen=True, kw_only=True)
class Flow:
    """Settings of attention flow (Abnar & Zuidema, 2020): none."""

    def __call__(self, reading: TextReading) -> list[Scores]:
        """Score every feature by the largest flow that its pieces can send to the head."""
        return [self._scores(one) for one in reading.apart()]

    def _scores(self, one: TextReading) -> Scores:
        flows = mean_over_windows(
            deep_model(one).attended(one.documents[0]),
            lambda found: largest_flows(with_residual(found.alpha), found.reads),
        )
        return Scores(scores=pooled(one, flows))


def mean_over_windows(
    windows: Iterable[Attended], score: Callable[[Attended], Float[np.ndarray, "*K t"]]
) -> Float[np.ndarray, "*K T"]:
    """Return the scores of all pieces: a window counts as one of ``windows``."""
    found = [score(one) for one in windows]
    return np.concatenate(found, axis=-1) / len(found)


def rolled_out(found: Attended) -> Float[np.ndarray, " T"]:
    """Return what reaches the classification head from every input, through all layers."""
    mass = found.reads
    for layer in with_residual(found.alpha)[::-1]:
        mass = mass @ layer
    return mass


def with_residual(alpha: Float[np.ndarray, "L H T T"]) -> Float[np.ndarray, "L T T"]:
    """Return (mean over heads + identity)/2: what a layer passes on, with its residual."""
    return (alpha.mean(axis=1) + np.eye(alpha.shape[-1])) / 2


def largest_flows(
    layers: Float[np.ndarray, "L T T"], reads: Float[np.ndarray, " T"]
) -> Float[np.ndarray, " T"]:
    """Return, for every input, the maximum flow from the read positions down to it.

    Capacities are the layers' weights, rounded to 1e-6; node (l, t) has the number l T + t.
    """
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import maximum_flow
    except ImportError:
        raise MissingExtraError("attention flow needs scipy", "hf") from None
    (L, T, _), scale = layers.shape, 1e6
    above, below = np.meshgrid(np.arange(T), np.arange(T), indexing="ij")
    start = np.concatenate([(layer + 1) * T + above.ravel() for layer in range(L)])
    end = np.concatenate([layer * T + below.ravel() for layer in range(L)])
    source = (L + 1) * T
    start = np.concatenate([start, np.full(T, source)])
    end = np.concatenate([end, L * T + np.arange(T)])
    # SciPy takes capacities as whole numbers of 32 bits: all that flows is about 1e6, which fits.
    # Older releases want indices of 32 bits too, and coo_array makes them 64 wide.
    capacity = np.rint(np.concatenate([layers.ravel(), reads]) * scale).astype(np.int32)
    graph = coo_array((capacity, (start, end)), shape=(source + 1, source + 1)).tocsr()
    graph.indices, graph.indptr = (x.astype(np.int32) for x in (graph.indices, graph.indptr))
    return np.array([maximum_flow(graph, source, t).flow_value / scale for t in range(T)])


def chosen_layer(layers: Float[np.ndarray, "L H T"], name: str | int) -> Float[np.ndarray, "H T"]:
    """Return the layer that ``name`` means: "first", "last", "mean", or a number from 0."""
    if name == "mean":
        return layers.mean(axis=0)
    count = len(layers)
    number = {"first": "0", "last": "-1"}.get(str(name), str(name))
    if not number.removeprefix("-").isdecimal() or not -count <= int(number) < count:
        raise InputError(
            f"layer must be 'first', 'last', 'mean' or a number from 0 to {count - 1}; "
            f"got {name!r}."
        )
    return layers[int(number)]


def _read_rows(found: Attended) -> Float[np.ndarray, "L H T"]:
    return np.einsum("s,lhst->lht", found.reads, found.alpha)


def _where_it_goes(one: TextReading, mass: Float[np.ndarray, " T"]) -> str:
    share = float(pooled(one, mass).sum() / mass.sum())
    return f"Of the attention {share:.0%} goes to the words, {1 - share:.0%} to other tokens."
