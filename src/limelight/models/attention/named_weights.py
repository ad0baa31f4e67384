"""The weights of a classifier by name: those that every one has, and those that are options.

Options are biases of queries, keys and values, a skip connection (from the mean of the window, or
from [cls]), embeddings of their own for every head, and additive attention. All of them leave a
token's logits and values functions of the token alone, so that a model with them still collapses
into tables.
"""

__all__ = [
    "ATTENTIONS",
    "OPTIONS",
    "SKIPS",
    "WEIGHTS",
    "fingerprint_of",
    "is_plain",
    "options_of",
    "shuffled_weights",
    "weights_of",
    "wide_weights",
]

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from limelight.shapes import Float
from limelight.text import Vocabulary

WEIGHTS = ("embedding", "W_q", "W_k", "W_v", "W_l")
OPTIONS = ("b_q", "b_k", "b_v", "W_s", "w_a")
SKIPS = ("mean", "cls")
ATTENTIONS = ("dot-product", "additive")


def weights_of(model: Any) -> dict[str, np.ndarray]:
    """Return the weights that ``model`` has, in the order of their names above."""
    found = {name: getattr(model, name) for name in (*WEIGHTS, *OPTIONS)}
    return {name: array for name, array in found.items() if array is not None}


def is_plain(model: Any) -> bool:
    """Whether ``model`` is the paper's, without any option."""
    return not (model.skip or model.head_embeddings) and set(weights_of(model)) == set(WEIGHTS)


def options_of(model: Any) -> dict[str, Any]:
    """Return what ``config.json`` says of a model with options; dot products go without saying."""
    found = {"skip": model.skip, "head_embeddings": model.head_embeddings}
    additive = model.attention == "additive"
    return found | ({"attention": model.attention} if additive else {})


def wide_weights(model: Any) -> dict[str, Float[np.ndarray, "..."]]:
    """Return W_q, W_k, W_v, W_l in float64, each reading the whole embedding.

    Where every head has embeddings of its own, a row of ``embedding`` holds those of all heads one
    after another, and head i reads part i alone: zeros elsewhere.
    """
    found = {name: getattr(model, name).astype(np.float64) for name in WEIGHTS[1:]}
    if not model.head_embeddings:
        return found
    for name in ("W_q", "W_k", "W_v"):
        K, rows, d_e = found[name].shape
        wide = np.zeros((K, rows, K, d_e))
        wide[np.arange(K), :, np.arange(K)] = found[name]
        found[name] = wide.reshape(K, rows, K * d_e)
    return found


def fingerprint_of(
    config: Mapping[str, Any], vocabulary: Vocabulary, weights: Mapping[str, np.ndarray]
) -> str:
    """Return the SHA-256 of configuration, vocabulary and weights."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    digest.update("\n".join(vocabulary.words).encode())
    for name, array in weights.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def shuffled_weights(weights: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Return the numbers of every weight in random places."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.permutation(array.ravel()).reshape(array.shape) for name, array in weights.items()
    }
