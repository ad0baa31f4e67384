"""Paths of attention through the layers of a deep model: one layer, rollout, maximum flow."""

__all__ = ["chosen_layer", "largest_flows", "mean_over_windows", "rolled_out", "with_residual"]

from collections.abc import Callable, Iterable

import numpy as np

from limelight.errors import InputError, MissingExtraError
from limelight.models import Attended
from limelight.shapes import Float


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
