r"""The paper's classifier in a fifth of its size: only the numbers that its heads read.

A head reads an embedding along one key direction and C value directions. So only K + C·K numbers
of every word matter to a prediction and to its explanations. The folder contains these numbers in
float16, and the weights of the heads. For every word, loading computes the point nearest to the
origin with the same numbers,

.. math:: E' = M R^{+\top} \quad\text{with}\quad M = E R^\top ,

where the rows of R are the directions and R⁺ is its pseudoinverse. The attention of [cls], all
outputs, and the gradient at every word stay the same. The attention of *other* tokens changes,
except among the words whose full embeddings are saved.
"""

__all__ = ["FORMAT", "is_collapsed", "load_collapsed", "save_collapsed"]

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as tensors_from_bytes
from safetensors.numpy import save as tensors_to_bytes

from limelight import AttentionClassifier, InputError
from limelight.files import atomic_folder
from limelight.shapes import Float, Int
from limelight.text import CLS, UNK, Vocabulary

FORMAT = "limelight.collapsed/1"
_HEADS = ("W_q", "W_k", "W_v", "W_l")
_INPUT_SETTINGS = ("T_max", "position_base", "position_scale", "tokenizer")


def is_collapsed(folder: Path) -> bool:
    """Whether ``folder`` contains a collapsed model."""
    try:
        return bool(json.loads((folder / "config.json").read_text("utf-8")).get("format") == FORMAT)
    except (OSError, ValueError, AttributeError):
        return False


def save_collapsed(
    model: AttentionClassifier, folder: Path, *, full_words: Sequence[str] = ()
) -> None:
    """Write ``model`` to ``folder`` in collapsed form.

    Full embeddings are saved only for [cls], UNK and ``full_words``.
    """
    rows = np.unique([CLS, UNK, *model.vocabulary.encode(full_words)])
    E = model.embedding.astype(np.float64)
    arrays = {name: np.asarray(getattr(model, name), np.float32) for name in _HEADS}
    arrays |= {
        "read": (E @ _directions(model).T).astype(np.float16),
        "whole_rows": rows.astype(np.int32),
        "whole_embedding": E[rows].astype(np.float32),
    }
    with atomic_folder(folder) as part:
        config = model.config | {"format": FORMAT}
        (part / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
        (part / "vocab.txt").write_text("\n".join(model.vocabulary.words) + "\n", "utf-8")
        (part / "model.safetensors").write_bytes(tensors_to_bytes(arrays))


def load_collapsed(folder: Path) -> AttentionClassifier:
    """Load a collapsed model, with embeddings that give the same outputs as the original ones.

    Exact methods are exact for the loaded model, as for any other model.
    """
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        words = (folder / "vocab.txt").read_text("utf-8").removesuffix("\n").split("\n")
        arrays = tensors_from_bytes((folder / "model.safetensors").read_bytes())
        model = _build_model(_initial_embedding(arrays), arrays, config, words)
        rows, R = arrays["whole_rows"], _directions(model)
        points = arrays["read"].astype(np.float64) @ np.linalg.pinv(R).T
        return _build_model(_insert_full_rows(points, rows, arrays), arrays, config, words)
    except (OSError, KeyError, ValueError, IndexError, SafetensorError) as error:
        raise InputError(
            f"the collapsed model in '{folder}' cannot be read ({error}). Copy it again."
        ) from None


def _directions(model: AttentionClassifier) -> Float[np.ndarray, "R d_e"]:
    """Return the key directions of all heads, then their value directions for each class."""
    directions = model.directions
    return np.concatenate([directions.key, *directions.value])


def _initial_embedding(arrays: dict[str, Any]) -> Float[np.ndarray, "V d_e"]:
    """Return embeddings that are zero except in the full rows.

    They are enough for the directions of the heads, which depend on [cls].
    """
    points = np.zeros((len(arrays["read"]), arrays["whole_embedding"].shape[1]))
    return _insert_full_rows(points, arrays["whole_rows"], arrays)


def _insert_full_rows(
    points: Float[np.ndarray, "V d_e"], rows: Int[np.ndarray, " n"], arrays: dict[str, Any]
) -> Float[np.ndarray, "V d_e"]:
    """Insert the saved full embeddings into ``points``."""
    points[rows] = arrays["whole_embedding"]
    return points.astype(np.float32)


def _build_model(
    embedding: Float[np.ndarray, "V d_e"],
    arrays: dict[str, Any],
    config: dict[str, Any],
    words: list[str],
) -> AttentionClassifier:
    """Build the classifier from its embeddings and the saved weights and settings."""
    record = {
        key: value
        for key, value in config.items()
        if key not in (*_INPUT_SETTINGS, "classes", "format")
    }
    return AttentionClassifier(
        embedding=embedding,
        **{name: arrays[name] for name in _HEADS},
        **{name: config[name] for name in _INPUT_SETTINGS},
        vocabulary=Vocabulary(tuple(words)),
        classes=tuple(config["classes"]),
        record=record | {"collapsed": True},
    )
