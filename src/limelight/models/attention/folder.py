"""Folders of models: ``config.json``, ``vocab.txt`` and ``model.safetensors``, without pickle.

``config.json`` contains the SHA-256 of the other two files, so that a folder with files of two
models raises an error.
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
# A folder may come from anybody, so the size of each file is limited.
_MAX_BYTES = {"config.json": 1 << 24, "vocab.txt": 1 << 28, "model.safetensors": 1 << 36}
_LARGEST_INTEGER = 2**53  # what a float64 can count to
FILES = tuple(_MAX_BYTES)
_FIELD_TYPES: dict[str, type | tuple[type, ...]] = {
    "T_max": int,
    "position_base": (int, float),
    "position_scale": (int, float),
    "classes": list,
    "tokenizer": str,
}


def save_folder(model: AttentionClassifier, path: str | os.PathLike[str]) -> None:
    """Write a model to a folder, from which :func:`limelight.load` reads it.

    If writing fails, an older model in the folder stays. A process that is killed can leave files
    of two models, and then loading the folder raises an error.

    Parameters
    ----------
    model
        The model.
    path
        A new or empty folder, or a folder with a model, which is replaced.

    Raises
    ------
    InputError
        If ``path`` is a file, or a folder with other files, or if another process is writing to it.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load()
    >>> limelight.save_folder(model, "my-model")
    >>> limelight.load("my-model").classes
    ('negative', 'positive')
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"'{folder}' is a file, not a folder. Choose another name.")
    if model.background is not None:
        raise InputError(
            "a folder cannot store the background of a model. Save model.with_background(None)."
        )
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder, "another process is saving a model to"):
        try:
            remove_abandoned_parts(folder)
            names = {file.name for file in folder.iterdir() if not is_temporary_name(file.name)}
            if other := names - set(FILES):
                raise InputError(
                    f"the folder '{folder}' contains other files ({min(other)!r}). Choose a new "
                    "or empty folder."
                )
            write_files(model, folder)
        except BaseException:
            with contextlib.suppress(OSError):  # it holds files
                for empty in created:
                    empty.rmdir()
            raise


def write_files(model: AttentionClassifier, folder: Path) -> None:
    """Write the files of ``model`` into ``folder`` without changing other files."""
    weights = {name: np.ascontiguousarray(array) for name, array in model_weights(model).items()}
    contents = {
        "vocab.txt": "".join(f"{word}\n" for word in model.vocabulary.words).encode(),
        "model.safetensors": tensors_to_bytes(weights),
    }
    digests = {name: _digest(content) for name, content in contents.items()}
    config = {"format": FORMAT, **model.config, "sha256": digests}
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    # The configuration is written first: with it, the files of an older model raise an error.
    write_files_atomically(folder, {"config.json": text.encode(), **contents})


def is_incomplete_folder(folder: Path) -> bool:
    """Tell whether files of a model are missing in a folder, or belong to different models.

    Return False for a configuration that cannot be read or has another format, because the folder
    may belong to another program.
    """
    if not all((folder / name).is_file() for name in FILES):
        return True
    try:
        digests = _parse_config(_read_content(folder, "config.json"))["sha256"]
        return any(_digest(_read_content(folder, name)) != digests[name] for name in digests)
    except InputError:
        return False


def load_folder(path: str | os.PathLike[str]) -> AttentionClassifier:
    """Return the model of a folder, after checking all shapes and values.

    Raises
    ------
    InputError
        If there is no such folder, or its model is damaged or has unusable weights.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"there is no model folder at '{folder}'. Check the path.")
    try:
        config = _parse_config(_read_content(folder, "config.json"))
        contents = {name: _read_content(folder, name) for name in FILES[1:]}
        for name, digest in config.pop("sha256").items():
            if _digest(contents[name]) != digest:
                raise InputError(
                    f"{name} was changed, or belongs to another config.json. Copy or train the "
                    "model again."
                )
        # Not by splitlines: a word may contain a line end of another kind.
        words = contents["vocab.txt"].decode("utf-8").removesuffix("\n").split("\n")
        # From bytes, whose number is limited, and not from the file.
        weights = tensors_from_bytes(contents["model.safetensors"])
        if missing := [name for name in WEIGHTS if name not in weights]:
            raise InputError(f"model.safetensors lacks {', '.join(missing)}.")
        settings = {name: config.pop(name) for name in _FIELD_TYPES}
        options = _pop_options(config, weights)
        classes = tuple(settings.pop("classes"))
        for name in ("position_base", "position_scale"):
            settings[name] = float(settings[name])
        model_class: type[AttentionClassifier] = AttentionClassifier
        if "patch_size" in options:
            from limelight.models.attention.patches import PatchClassifier

            model_class = PatchClassifier
        # The other entries of the configuration are the record of the training.
        return model_class(
            **{name: weights[name] for name in WEIGHTS},
            **options,
            vocabulary=Vocabulary(tuple(words)),
            classes=classes,
            **settings,
            record=config,
        )
    except (SafetensorError, KeyError, UnicodeDecodeError) as error:
        raise InputError(
            f"the model folder '{folder}' is damaged ({error}). Copy or train it again."
        ) from None
    except InputError as error:
        raise InputError(f"the model folder '{folder}' cannot be used: {error}") from None


def _pop_options(config: dict[str, Any], weights: dict[str, np.ndarray]) -> dict[str, Any]:
    """Remove the options of the classifier from ``config``; return them with their weights."""
    options: dict[str, Any] = {name: weights[name] for name in OPTIONS if name in weights}
    choices = {"skip": (None, *SKIPS), "head_embeddings": (False, True), "attention": ATTENTIONS}
    for name, usable in choices.items():
        options[name] = config.pop(name, usable[0])
        if options[name] not in usable or type(options[name]) not in map(type, usable):  # 1 == True
            raise _unusable_error(name, options[name])
    patches = config.pop("patches", None)
    return options if patches is None else options | _parse_patches(patches, weights)


def _parse_patches(patches: Any, weights: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the additional fields of a model of images."""
    if missing := [name for name in PATCHES[:-1] if name not in weights]:
        raise InputError(f"model.safetensors lacks {', '.join(missing)}.")
    if not isinstance(patches, dict) or set(patches) != {"size", "grid", "channels", "removal"}:
        raise _unusable_error("patches", patches)
    fields = {name: tuple(x) if isinstance(x, list) else x for name, x in patches.items()}
    if any(not isinstance(fields[name], tuple) for name in ("size", "grid")):
        raise _unusable_error("patches", patches)
    patch_weights = {name: weights[name] for name in PATCHES if name in weights}
    return {"patch_size": fields.pop("size"), **fields, **patch_weights}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_content(folder: Path, name: str) -> bytes:
    """Read a file of the folder, at most as many bytes as a valid file has."""
    try:
        return read_bounded_bytes(folder / name, _MAX_BYTES[name])
    except FileNotFoundError:
        raise InputError(f"{name} is missing.") from None


def _parse_config(content: bytes) -> dict[str, Any]:
    """Return the configuration of a folder, after checking its format and fields."""
    config = parse_json(content, "config.json")
    format_name = config.pop("format", None) if isinstance(config, dict) else None
    if format_name != FORMAT:
        raise InputError(f"config.json must have the format {FORMAT!r}, not {format_name!r}.")
    digests = config.get("sha256")
    if not isinstance(digests, dict) or set(digests) != set(FILES[1:]):
        raise InputError(f"config.json must have the SHA-256 of {' and '.join(FILES[1:])}.")
    for name, field_type in _FIELD_TYPES.items():
        if name not in config:
            raise InputError(f"config.json lacks {name!r}.")
        value = config[name]
        is_huge = isinstance(value, int) and abs(value) > _LARGEST_INTEGER
        # True is an int in Python, but no number in a configuration.
        if is_huge or not isinstance(value, field_type) or isinstance(value, bool):
            raise _unusable_error(name, value)
    if not all(isinstance(name, str) for name in config["classes"]):
        raise InputError("config.json must list its classes as strings.")
    for name in config["classes"]:
        if not name.isascii() and LONE_SURROGATE.search(name):
            raise InputError(f"config.json has a lone surrogate in the class name {name!r}.")
    return config


def _unusable_error(name: str, value: Any) -> InputError:
    """Return the error for an option of ``config.json`` with an unusable value."""
    # Truncated: a file may contain a number of four thousand digits.
    return InputError(f"config.json has an unusable {name!r}: {truncate_line(repr(value))}.")
