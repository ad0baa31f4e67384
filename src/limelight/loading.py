"""Models by path, by hub id, or as the objects that other libraries made."""

__all__ = ["load"]

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from limelight.errors import InputError
from limelight.model import AttentionClassifier, load_folder

if TYPE_CHECKING:
    from limelight.adapters import Model

SHIPPED = Path(__file__).parent / "shipped" / "imdb"
_HUB = "hub:"


@overload
def load(path: None = None, *, model: None = None) -> AttentionClassifier: ...
@overload
def load(
    path: str | os.PathLike[str] | None = None, *, model: Any = None, tokenizer: Any = None
) -> "AttentionClassifier | Model": ...
def load(
    path: str | os.PathLike[str] | None = None, *, model: Any = None, tokenizer: Any = None
) -> "AttentionClassifier | Model":
    """Return a model that can be explained; without arguments the one of this package.

    Parameters
    ----------
    path
        A folder: ours, or a Hugging Face sequence classifier (extra ``hf``). "hub:owner/name" is a
        model of the Hugging Face hub, and the only thing for which the network may be used.
    model
        A Hugging Face model (with its ``tokenizer``), a ``transformers.pipeline``, or a fitted
        scikit-learn pipeline that takes texts; what can be explained already comes back as it
        is. For a function, see :func:`limelight.wrap`.
    tokenizer
        The fast tokenizer that belongs to ``model``.
    """
    if path is not None and model is not None:
        raise InputError("load takes a path or a model; got both.")
    if model is not None:
        return _adapted(model, tokenizer)
    if tokenizer is not None:
        raise InputError("load takes a tokenizer together with a model; got no model.")
    if path is None:
        return _shipped()
    name = os.fspath(path)
    if name.startswith(_HUB):
        return _from_hub(name.removeprefix(_HUB))
    return _from_folder(Path(path))


@cache
def _shipped() -> AttentionClassifier:
    return load_folder(SHIPPED)


def _from_folder(folder: Path) -> "AttentionClassifier | Model":
    if not folder.is_dir() and re.fullmatch(r"[\w.-]+/[\w.-]+", str(folder)):
        raise InputError(
            f"there is no model folder at '{folder}'; check the path, or write '{_HUB}{folder}' "
            "if it is a model of the Hugging Face hub."
        )
    if _is_hugging_face(folder):
        from limelight.adapters.pretrained import from_pretrained

        return from_pretrained(str(folder), network=False)
    return load_folder(folder)


def _from_hub(name: str) -> "Model":
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise InputError(f"a hub id is written {_HUB}owner/name; got '{_HUB}{name}'.")
    from limelight.adapters.pretrained import from_pretrained

    return from_pretrained(name, network=True)


def _is_hugging_face(folder: Path) -> bool:
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "format" not in config and "model_type" in config


def _adapted(model: Any, tokenizer: Any) -> "AttentionClassifier | Model":
    if isinstance(model, AttentionClassifier):
        return model
    if hasattr(model, "sees_inside"):
        return _own_adapter(model)
    if tokenizer is None and hasattr(model, "tokenizer") and hasattr(model, "model"):
        model, tokenizer = model.model, model.tokenizer  # a transformers.pipeline
    if hasattr(model, "config") and hasattr(model, "get_input_embeddings"):
        from limelight.adapters.pretrained import from_objects

        return from_objects(model, tokenizer)
    if hasattr(model, "predict_proba") or hasattr(model, "decision_function"):
        from limelight.adapters import from_scikit

        return from_scikit(model)
    if hasattr(model, "predict") and hasattr(model, "fit"):
        raise InputError(
            f"{type(model).__name__} has neither predict_proba nor decision_function. If it "
            "predicts a number, wrap it as a score: limelight.wrap(lambda texts: "
            "model.predict(texts)[:, None], classes=['score'], scale='score')."
        )
    raise InputError(
        "load takes a Hugging Face model, a transformers pipeline or a scikit-learn pipeline; "
        f"got {type(model).__name__}. For a function use limelight.wrap(function, classes=[…])."
    )


def _own_adapter(model: Any) -> "Model":
    from limelight.adapters import DeepModel, Model

    kind = DeepModel if model.sees_inside else Model
    needed = {name for part in (Model, kind) for name in vars(part) if not name.startswith("_")}
    if missing := sorted(name for name in needed if not hasattr(model, name)):
        raise InputError(
            f"{type(model).__name__} has sees_inside, as adapters have, but lacks "
            f"{', '.join(missing)}; see limelight.adapters.{kind.__name__}."
        )
    adapter: Model = model
    return adapter
