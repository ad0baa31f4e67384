"""Models by path, by hub id, or the one that comes with this package."""

__all__ = ["SHIPPED", "ModelSource", "load", "source_of"]

import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, overload
from weakref import WeakKeyDictionary

from limelight.errors import InputError, MissingExtraError
from limelight.files import bounded_bytes, bounded_json
from limelight.models.attention import AttentionClassifier, load_folder
from limelight.models.protocol import Model

SHIPPED = Path(__file__).parents[1] / "shipped" / "imdb"
_HUB = "hub:"
_MOST_CONFIG = 1 << 24  # bytes
_Asked = tuple[Any, Any] | None  # template and labels of a language model


class ModelSource(NamedTuple):
    """What ``load`` was given, with an absolute path: enough to load the same model elsewhere."""

    path: str | None
    device: str | None
    template: Any = None
    labels: Any = None

    def loaded(self) -> Model:
        """Return the model from there."""
        return load(self.path, device=self.device, template=self.template, labels=self.labels)


_SOURCES: WeakKeyDictionary[Any, ModelSource] = WeakKeyDictionary()


def source_of(model: Model) -> ModelSource | None:
    """Return where ``model`` was loaded from; None for one that was made or wrapped in memory."""
    return _SOURCES.get(model)


@overload
def load(path: None = None, *, device: str | None = None) -> AttentionClassifier: ...
@overload
def load(
    path: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    template: Any = None,
    labels: Any = None,
) -> Model: ...
def load(
    path: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    template: Any = None,
    labels: Any = None,
) -> Model:
    """Return a model that can be explained; without a path, the one that comes with limelight.

    Parameters
    ----------
    path
        A folder: ours, or a Hugging Face sequence classifier (extra ``hf``). "hub:owner/name" is a
        model on the Hugging Face hub; nothing else uses the network.
    device
        Where to compute, as torch names it: "cuda", "cuda:1", "cpu". By default our own classifier
        uses NumPy and needs no torch, and a Hugging Face model a GPU if there is one.
    template
        What a causal language model is asked, with {text} in it: see :func:`limelight.wrap`.
    labels
        The word that stands for each class of a language model.

    A model or a function that is in memory already goes to :func:`limelight.wrap`.
    """
    asked = (template, labels)
    model = _loaded(path, device, None if asked == (None, None) else asked)
    place = None if path is None else os.fspath(path)
    if place is not None and not place.startswith(_HUB):
        place = str(Path(place).resolve())
    _SOURCES[model] = ModelSource(place, device, template, labels)
    return model


def _loaded(path: str | os.PathLike[str] | None, device: str | None, asked: _Asked) -> Model:
    if asked is not None and path is None:
        raise InputError("template and labels are about a language model; give its path.")
    if path is None:
        return _moved(_shipped(), device)
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"load takes a path or a name; got {type(path).__name__}. A model in memory goes to "
            "limelight.wrap."
        )
    name = os.fspath(path)
    if name.startswith(_HUB):
        return _from_hub(name.removeprefix(_HUB), device, asked)
    return _from_folder(Path(path), device, asked)


@cache
def _shipped() -> AttentionClassifier:
    return load_folder(SHIPPED)


def _moved(model: AttentionClassifier, device: str | None) -> AttentionClassifier:
    return model if device is None else model.on(device)


def _from_folder(folder: Path, device: str | None, asked: _Asked) -> Model:
    if not folder.is_dir() and re.fullmatch(r"[\w.-]+/[\w.-]+", str(folder)):
        raise InputError(
            f"there is no model folder at '{folder}'; check the path, or write '{_HUB}{folder}' "
            "if it is a model on the Hugging Face hub."
        )
    if _is_hugging_face(folder):
        return _pretrained(str(folder), network=False, device=device, asked=asked)
    if asked is not None:
        raise InputError(
            f"template and labels are about a language model; '{folder}' is not one of Hugging "
            "Face's."
        )
    return _moved(load_folder(folder), device)


def _from_hub(name: str, device: str | None, asked: _Asked) -> Model:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise InputError(f"a hub id is written {_HUB}owner/name; got '{_HUB}{name}'.")
    return _pretrained(name, network=True, device=device, asked=asked)


def _pretrained(name: str, *, network: bool, device: str | None, asked: _Asked) -> Model:
    try:
        from limelight.models.hugging_face.pretrained import Asked, from_pretrained
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"the Hugging Face model '{name}' needs torch and transformers", "hf"
        ) from None
    given = None if asked is None else Asked(*asked)
    return from_pretrained(name, network=network, device=device, asked=given)


def _is_hugging_face(folder: Path) -> bool:
    try:
        config = bounded_json(bounded_bytes(folder / "config.json", _MOST_CONFIG), "config.json")
    except (OSError, InputError):
        return False  # then it is ours, or nobody's, and its reader says what is wrong
    return isinstance(config, dict) and "format" not in config and "model_type" in config
