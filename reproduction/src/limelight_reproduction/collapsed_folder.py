r"""The paper's classifier in a fifth of its size: what its heads read of every word.

A head reads an embedding along one key direction and C value directions, so that of every word
K + C·K numbers matter to a prediction and to its explanations. The folder keeps these in float16,
and the weights of the heads. Loading puts every word at the point nearest to the origin that is
read so,

.. math:: E' = M R^{+\top} \quad\text{with}\quad M = E R^\top ,

where the rows of R are the directions and R⁺ is its pseudoinverse. What [cls] attends to, every
output, and the gradient at every word are then as before; what *other* tokens attend to is not,
except among the words that are kept whole.
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
_READING = ("T_max", "position_base", "position_scale", "tokenizer")


def is_collapsed(folder: Path) -> bool:
    """Whether ``folder`` holds a model in this form."""
    try:
        return bool(json.loads((folder / "config.json").read_text("utf-8")).get("format") == FORMAT)
    except (OSError, ValueError, AttributeError):
        return False


def save_collapsed(model: AttentionClassifier, folder: Path, *, whole: Sequence[str] = ()) -> None:
    """Write ``model`` to ``folder``; [cls], UNK and the words of ``whole`` keep all they have."""
    rows = np.unique([CLS, UNK, *model.vocabulary.encode(whole)])
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
    """Return the model in ``folder``, its words at the nearest points that are read as they were.

    A model of these embeddings is a model like any other, and exact methods are exact for it.
    """
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        words = (folder / "vocab.txt").read_text("utf-8").removesuffix("\n").split("\n")
        arrays = tensors_from_bytes((folder / "model.safetensors").read_bytes())
        model = _with_embedding(_empty(arrays), arrays, config, words)
        rows, R = arrays["whole_rows"], _directions(model)
        points = arrays["read"].astype(np.float64) @ np.linalg.pinv(R).T
        return _with_embedding(_filled(points, rows, arrays), arrays, config, words)
    except (OSError, KeyError, ValueError, IndexError, SafetensorError) as error:
        raise InputError(
            f"the collapsed model in '{folder}' cannot be read ({error}); copy it again."
        ) from None


def _directions(model: AttentionClassifier) -> Float[np.ndarray, "R d_e"]:
    """Return the key direction of every head, then its value directions, class by class."""
    found = model.directions
    return np.concatenate([found.key, *found.value])


def _empty(arrays: dict[str, Any]) -> Float[np.ndarray, "V d_e"]:
    """Return embeddings in which the whole rows alone are known: the directions need [cls]."""
    points = np.zeros((len(arrays["read"]), arrays["whole_embedding"].shape[1]))
    return _filled(points, arrays["whole_rows"], arrays)


def _filled(
    points: Float[np.ndarray, "V d_e"], rows: Int[np.ndarray, " n"], arrays: dict[str, Any]
) -> Float[np.ndarray, "V d_e"]:
    points[rows] = arrays["whole_embedding"]
    return points.astype(np.float32)


def _with_embedding(
    embedding: Float[np.ndarray, "V d_e"],
    arrays: dict[str, Any],
    config: dict[str, Any],
    words: list[str],
) -> AttentionClassifier:
    record = {k: v for k, v in config.items() if k not in (*_READING, "classes", "format")}
    return AttentionClassifier(
        embedding=embedding,
        **{name: arrays[name] for name in _HEADS},
        **{name: config[name] for name in _READING},
        vocabulary=Vocabulary(tuple(words)),
        classes=tuple(config["classes"]),
        record=record | {"collapsed": True},
    )
