"""A model as a folder: ``config.json``, ``vocab.txt``, ``model.safetensors``. Never pickle.

``config.json`` has the SHA-256 of the other two files, so that a folder with files of two models is
refused.
"""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as tensors_from_bytes
from safetensors.numpy import save as tensors_to_bytes

from limelight.errors import InputError
from limelight.files import (
    folder_lock,
    is_temporary_name,
    parse_json,
    read_bounded_bytes,
    remove_abandoned_parts,
    write_files_atomically,
)
from limelight.models.attention.classifier import AttentionClassifier
from limelight.models.attention.patches import PatchClassifier
from limelight.models.attention.weights import (
    ATTENTIONS,
    OPTIONS,
    PATCHES,
    SKIPS,
    WEIGHTS,
    model_weights,
)
from limelight.text import Vocabulary, truncate_line
from limelight.text.characters import LONE_SURROGATE

FORMAT = "limelight.attention/3"
# A folder may come from anybody: nothing of it is read without a limit.
_MOST_BYTES = {"config.json": 1 << 24, "vocab.txt": 1 << 28, "model.safetensors": 1 << 36}
_LARGEST_INTEGER = 2**53  # what a float64 can count to
FILES = tuple(_MOST_BYTES)
_READING: dict[str, type | tuple[type, ...]] = {
    "T_max": int,
    "position_base": (int, float),
    "position_scale": (int, float),
    "classes": list,
    "tokenizer": str,
}


def save_folder(model: AttentionClassifier, path: str | os.PathLike[str]) -> None:
    """Write ``model`` to the folder ``path``; if that fails, an older model there stays.

    The folder is new or empty, or holds a model, which is replaced; anything else is left alone.
    A process that is killed can leave files of two models, which `load_folder` refuses.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"'{folder}' is a file, not a folder; choose another name.")
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder, "another process is saving a model to"):
        try:
            remove_abandoned_parts(folder)
            names = {file.name for file in folder.iterdir() if not is_temporary_name(file.name)}
            if other := names - set(FILES):
                raise InputError(
                    f"the folder '{folder}' holds other files ({min(other)!r}); choose a new or "
                    "empty one."
                )
            write_files(model, folder)
        except BaseException:
            with contextlib.suppress(OSError):  # it holds files
                for empty in created:
                    empty.rmdir()
            raise


def write_files(model: AttentionClassifier, folder: Path) -> None:
    """Write the files of ``model`` into ``folder`` and leave every other file there alone."""
    weights = {name: np.ascontiguousarray(array) for name, array in model_weights(model).items()}
    contents = {
        "vocab.txt": "".join(f"{word}\n" for word in model.vocabulary.words).encode(),
        "model.safetensors": tensors_to_bytes(weights),
    }
    digests = {name: _digest(content) for name, content in contents.items()}
    config = {"format": FORMAT, **model.config, "sha256": digests}
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    # The configuration takes its place first: the files of an older model are refused from then on.
    write_files_atomically(folder, {"config.json": text.encode(), **contents})


def is_incomplete_folder(folder: Path) -> bool:
    """Return whether files of a model are missing in ``folder``, or belong to different models.

    A configuration that cannot be read, or has another format, may be the work of somebody else:
    then the answer is False.
    """
    if not all((folder / name).is_file() for name in FILES):
        return True
    try:
        digests = _config(_content(folder, "config.json"))["sha256"]
        return any(_digest(_content(folder, name)) != digests[name] for name in digests)
    except InputError:
        return False


def load_folder(path: str | os.PathLike[str]) -> AttentionClassifier:
    """Return the model stored in the folder ``path``, every shape and value checked."""
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"there is no model folder at '{folder}'; check the path.")
    try:
        config = _config(_content(folder, "config.json"))
        contents = {name: _content(folder, name) for name in FILES[1:]}
        for name, digest in config.pop("sha256").items():
            if _digest(contents[name]) != digest:
                raise InputError(
                    f"{name} belongs to another config.json, or was changed; copy or train the "
                    "model again."
                )
        # Not by splitlines: a word may hold a line end of another kind.
        words = contents["vocab.txt"].decode("utf-8").removesuffix("\n").split("\n")
        # Of bytes, whose number was limited, and not of the file.
        weights = tensors_from_bytes(contents["model.safetensors"])
        if missing := [name for name in WEIGHTS if name not in weights]:
            raise InputError(f"model.safetensors lacks {', '.join(missing)}.")
        batch = {name: config.pop(name) for name in _READING}
        options = _options(config, weights)
        classes = tuple(batch.pop("classes"))
        for name in ("position_base", "position_scale"):
            batch[name] = float(batch[name])
        kind = PatchClassifier if "patch_size" in options else AttentionClassifier
        # What is left of the configuration is what training recorded.
        return kind(
            **{name: weights[name] for name in WEIGHTS},
            **options,
            vocabulary=Vocabulary(tuple(words)),
            classes=classes,
            **batch,
            record=config,
        )
    except (SafetensorError, KeyError, UnicodeDecodeError) as error:
        raise InputError(
            f"the model folder '{folder}' is damaged ({error}); copy or train it again."
        ) from None
    except InputError as error:
        raise InputError(f"the model folder '{folder}' cannot be used: {error}") from None


def _options(config: dict[str, Any], weights: dict[str, np.ndarray]) -> dict[str, Any]:
    """Remove the options of the classifier from ``config``; return them with their weights."""
    found: dict[str, Any] = {name: weights[name] for name in OPTIONS if name in weights}
    choices = {"skip": (None, *SKIPS), "head_embeddings": (False, True), "attention": ATTENTIONS}
    for name, usable in choices.items():
        found[name] = config.pop(name, usable[0])
        if found[name] not in usable or type(found[name]) not in map(type, usable):  # 1 == True
            raise _unusable(name, found[name])
    patches = config.pop("patches", None)
    return found if patches is None else found | _patches(patches, weights)


def _patches(said: Any, weights: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return what a folder of a model of images has besides."""
    if missing := [name for name in PATCHES[:-1] if name not in weights]:
        raise InputError(f"model.safetensors lacks {', '.join(missing)}.")
    if not isinstance(said, dict) or set(said) != {"size", "grid", "channels", "removal"}:
        raise _unusable("patches", said)
    found = {name: tuple(x) if isinstance(x, list) else x for name, x in said.items()}
    if any(not isinstance(found[name], tuple) for name in ("size", "grid")):
        raise _unusable("patches", said)
    own = {name: weights[name] for name in PATCHES if name in weights}
    return {"patch_size": found.pop("size"), **found, **own}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _content(folder: Path, name: str) -> bytes:
    try:
        return read_bounded_bytes(folder / name, _MOST_BYTES[name])
    except FileNotFoundError:
        raise InputError(f"{name} is missing.") from None


def _config(content: bytes) -> dict[str, Any]:
    """Return the configuration, after checking that it is one of ours."""
    config = parse_json(content, "config.json")
    form = config.pop("format", None) if isinstance(config, dict) else None
    if form != FORMAT:
        raise InputError(f"config.json must have the format {FORMAT!r}; it has {form!r}.")
    digests = config.get("sha256")
    if not isinstance(digests, dict) or set(digests) != set(FILES[1:]):
        raise InputError(f"config.json must have the SHA-256 of {' and '.join(FILES[1:])}.")
    for name, kind in _READING.items():
        if name not in config:
            raise InputError(f"config.json lacks {name!r}.")
        given = config[name]
        huge = isinstance(given, int) and abs(given) > _LARGEST_INTEGER
        # True is an int to Python, and no number to a reader.
        if huge or not isinstance(given, kind) or isinstance(given, bool):
            raise _unusable(name, given)
    if not all(isinstance(name, str) for name in config["classes"]):
        raise InputError("config.json must list its classes as strings.")
    for name in config["classes"]:
        if not name.isascii() and LONE_SURROGATE.search(name):
            raise InputError(f"config.json has half a character in the class name {name!r}.")
    return config


def _unusable(name: str, value: Any) -> InputError:
    # In a line: a file may hold a number of four thousand digits.
    return InputError(f"config.json has an unusable {name!r}: {truncate_line(repr(value))}.")
