"""The weights of a classifier: their names, their shapes and the checks on them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from limelight.errors import InputError, unknown_name_message
from limelight.shapes import Float

WEIGHTS = ("embedding", "W_q", "W_k", "W_v", "W_l")
OPTIONS = ("b_q", "b_k", "b_v", "W_s", "w_a")
PATCHES = ("patch_mean", "patch_in", "patch_bias", "patch_out", "position_table")
SKIPS = ("mean", "cls")
ATTENTIONS = ("dot-product", "additive")


def model_weights(model: Any) -> dict[str, np.ndarray]:
    """Return the weights of ``model`` by name, in the order of the constants above."""
    # getattr has a default, because only models of images have the last ones.
    arrays = {name: getattr(model, name, None) for name in (*WEIGHTS, *OPTIONS, *PATCHES)}
    return {name: array for name, array in arrays.items() if array is not None}


def wide_weights(model: Any) -> dict[str, Float[np.ndarray, "..."]]:
    """Return W_q, W_k, W_v and W_l in float64, as maps of the complete embedding.

    If every head has its own embeddings, a row of ``embedding`` contains those of all heads in
    turn. Head i then has zeros outside part i.
    """
    weights = {name: getattr(model, name).astype(np.float64) for name in WEIGHTS[1:]}
    if not model.head_embeddings:
        return weights
    for name in ("W_q", "W_k", "W_v"):
        K, rows, d_e = weights[name].shape
        # The zeros make products K times slower, but no other code needs a case for such models.
        wide = np.zeros((K, rows, K, d_e))
        wide[np.arange(K), :, np.arange(K)] = weights[name]
        weights[name] = wide.reshape(K, rows, K * d_e)
    return weights


def shuffle_arrays(weights: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Shuffle the numbers inside each weight."""
    rng = np.random.default_rng(seed)
    arrays = {
        name: rng.permutation(array.ravel()).reshape(array.shape) for name, array in weights.items()
    }
    # The mean patch is not learned: it is the mean of the training images and defines removal.
    return arrays | {name: weights[name] for name in ("patch_mean",) if name in weights}


_HALF_EXPONENT = 0x7C00  # the bits of the exponent, which are all set for NaN and infinite numbers
_CHECKED_SIZE = 1 << 16  # numbers that are checked at a time
_MAX_TOKENS = 1 << 17  # a novel; a table has a row for each position


def _is_finite(array: np.ndarray) -> bool:
    """Return whether an array contains neither NaN nor infinite numbers."""
    if array.dtype != np.float16:
        return bool(np.isfinite(array).all())
    # np.isfinite converts each number of half precision, which takes ten times as long as this. In
    # parts: new memory for all exponents at once took five times as long as the check.
    bits = np.ravel(array).view(np.uint16)
    parts = (bits[i : i + _CHECKED_SIZE] for i in range(0, len(bits), _CHECKED_SIZE))
    return all(bool(((part & _HALF_EXPONENT) != _HALF_EXPONENT).all()) for part in parts)


def check_weights(model: Any) -> None:
    """Raise `InputError` if weights are not finite, or do not fit together or the vocabulary."""
    # W_q comes first, because it defines K and d_e for all others.
    letters = {
        "W_q": "K d_att d_e",
        "W_k": "K d_att d_e",
        "W_v": "K d_out d_e",
        "W_l": "K C d_out",
        "b_q": "K d_att",
        "b_k": "K d_att",
        "b_v": "K d_out",
        "w_a": "K d_att",
        "embedding": "V K·d_e" if model.head_embeddings else "V d_e",
        "W_s": "C K·d_e" if model.head_embeddings else "C d_e",
        "patch_mean": "p",
        "patch_in": "d_h p",
        "patch_bias": "d_h",
        "patch_out": "K·d_e d_h" if model.head_embeddings else "d_e d_h",
        "position_table": "T_max K·d_e" if model.head_embeddings else "T_max d_e",
    }
    if model.skip is not None and model.skip not in SKIPS:
        raise InputError(unknown_name_message("skip", model.skip, SKIPS))
    if (model.skip is None) != (model.W_s is None):
        raise InputError("a skip connection needs both its kind (skip) and its weights (W_s).")
    if model.attention not in ATTENTIONS:
        raise InputError(unknown_name_message("attention", model.attention, ATTENTIONS))
    if (model.attention == "additive") != (model.w_a is not None):
        raise InputError(
            "additive attention needs both its name (attention) and the weights of its hidden "
            "units (w_a)."
        )
    size: dict[str, int] = {"V": len(model.vocabulary), "T_max": model.T_max}
    for name, axes in letters.items():
        array: Any = getattr(model, name, None)
        if array is None and name not in WEIGHTS:
            continue
        if "K·d_e" in axes:
            size["K·d_e"] = size["K"] * size["d_e"]
        # A quantized export contains integers, which mean nothing without their scales.
        if array.dtype.kind != "f":
            raise InputError(f"{name} must have floating-point numbers, not {array.dtype}.")
        if array.ndim != len(axes.split()):
            raise InputError(f"{name} must have the axes ({axes}), not the shape {array.shape}.")
        for axis, length in zip(axes.split(), array.shape, strict=True):
            if size.setdefault(axis, length) != length:
                raise InputError(
                    f"{name} has shape {array.shape}, but its axis {axis} must be {size[axis]}."
                )
        if 0 in array.shape:
            raise InputError(
                f"{name} must have no empty axis ({axes}), but its shape is {array.shape}."
            )
        if not _is_finite(array):
            raise InputError(f"{name} contains NaN or infinite values. Train or export it again.")
    # A single output is the logit of two classes.
    outputs, classes = size["C"], len(model.classes)
    if classes != max(outputs, 2) or len(set(model.classes)) != classes:
        raise InputError(
            f"a model with {outputs} output(s) needs {max(outputs, 2)} distinct class names, not "
            f"{list(model.classes)}."
        )
    _check_positions(model)
    if model.tokenizer != (expected := type(model).tokenizer):
        raise InputError(f"the tokenizer must be {expected!r}, not {model.tokenizer!r}.")


def _check_positions(model: Any) -> None:
    """Raise `InputError` if the sinusoidal positions cannot be computed."""
    base, scale = model.position_base, model.position_scale
    # T_max / base bounds the angles. A comparison with NaN is False.
    is_usable = (
        base > 0 and np.isfinite(scale) and model.T_max / min(1.0, base) < 1e300 and base < np.inf
    )
    if not 2 <= model.T_max <= _MAX_TOKENS or not is_usable:
        raise InputError(
            f"T_max must be from 2 to {_MAX_TOKENS:,}, position_base positive, finite and not too "
            f"small, and position_scale finite, not {model.T_max}, {base} and {scale}."
        )
