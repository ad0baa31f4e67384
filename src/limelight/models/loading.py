"""Models by path or hub id, the shipped one, and anything that classifies texts, wrapped."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, overload
from weakref import WeakKeyDictionary

from limelight.errors import InputError, MissingExtraError
from limelight.files import parse_json, read_bounded_bytes
from limelight.models.attention import AttentionClassifier, load_folder
from limelight.models.functions import wrap_function, wrap_image_function
from limelight.models.protocol import Model, check_model
from limelight.text import Span, truncate_line

SHIPPED = Path(__file__).parents[1] / "shipped" / "imdb"
_HUB, _OWNED = "hub:", re.compile(r"[\w.-]+/[\w.-]+")  # owner/name
# Two letters at least before the colon: "C:model" is a path of Windows.
_OBJECT = re.compile(r"(?!hub:)[A-Za-z_][\w.]+:[A-Za-z_][\w.]*")  # module:object
_MOST_CONFIG = 1 << 24  # bytes
_Asked = Mapping[str, Any] | None  # how a language model is asked, by name


class ModelSource(NamedTuple):
    """What ``load`` was given, with an absolute path: enough to load the same model elsewhere."""

    path: str | None
    device: str | None
    asked: _Asked = None

    def loaded(self) -> Model:
        """Return the model from there."""
        return load(self.path, device=self.device, **self.asked or {})


# Beside the models and not in them: one may be frozen, or anybody's class.
_SOURCES: WeakKeyDictionary[Any, ModelSource] = WeakKeyDictionary()


def model_source(model: Model) -> ModelSource | None:
    """Return where ``model`` was loaded from; None for one that was made or wrapped in memory."""
    return _SOURCES.get(model)


def copy_source(model: Model, other: Model) -> Model:
    """Return ``model``, made of ``other`` for a question: who loads the one can make the other."""
    if other in _SOURCES:
        _SOURCES[model] = _SOURCES[other]
    return model


@overload
def load(path: None = None, *, device: str | None = None) -> AttentionClassifier: ...
@overload
def load(
    path: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    template: Any = None,
    labels: Any = None,
    max_new_tokens: int | None = None,
    per_token: bool = False,
) -> Model: ...
def load(
    path: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    template: Any = None,
    labels: Any = None,
    max_new_tokens: int | None = None,
    per_token: bool = False,
) -> Model:
    """Return a model that can be explained; without a path, the one that comes with limelight.

    A model or a function that is in memory already goes to :func:`limelight.wrap`.

    Parameters
    ----------
    path
        A folder: ours, or a Hugging Face model (extra ``hf``): a sequence classifier, a token
        classifier, or one of extractive answers. A scikit-learn pipeline that skops has stored is a
        file "….skops". "hub:owner/name" is a
        model on the Hugging Face hub; nothing else uses the network. "module:object" imports a
        model, or what :func:`wrap` takes, from a Python module, which may lie in the current
        folder; its code is run.
    device
        Where to compute, as torch names it: "cuda", "cuda:1", "cpu". By default our own classifier
        uses NumPy and needs no torch, and a Hugging Face model a GPU if there is one.
    template, labels, max_new_tokens, per_token
        How a language model is asked: see :func:`limelight.wrap`. Without ``labels`` it is
        explained why it writes what it writes.
    """
    asked = _given(template, labels, max_new_tokens, per_token)
    model = _loaded(path, device, asked)
    place = None if path is None else os.fspath(path)
    if place is not None and not (place.startswith(_HUB) or _OBJECT.fullmatch(place)):
        # Absolute: another process, which may load it again, need not stand in the same folder.
        place = str(Path(place).resolve())
    _SOURCES[model] = ModelSource(place, device, asked)
    return model


def _given(template: Any, labels: Any, max_new_tokens: Any, per_token: Any) -> _Asked:
    """Return how a language model is asked, as far as anything is said about that."""
    given = {"template": template, "labels": labels, "max_new_tokens": max_new_tokens}
    said = {name: value for name, value in given.items() if value is not None}
    said |= {} if per_token is False else {"per_token": per_token}
    if said and template is None and labels is None:
        raise InputError(
            f"{min(said)} is about an answer that a language model writes; add template "
            "(--template), what it is asked, with {text} in it."
        )
    return said or None


def _loaded(path: str | os.PathLike[str] | None, device: str | None, asked: _Asked) -> Model:
    if asked is not None and path is None:
        raise InputError("template and labels are about a language model; give its path (--model).")
    if path is None:
        return _shipped().to_device(device)
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"load takes a path or a name; got {type(path).__name__}. A model in memory goes to "
            "limelight.wrap."
        )
    name, folder = os.fspath(path), Path(path)
    # A folder may bear such a name, and nothing of a folder is run.
    if _OBJECT.fullmatch(name) and not folder.exists():
        found = import_object(name, "model")
        return found if hasattr(found, "capabilities") else wrap(found)
    if name.startswith(_HUB):
        if not _OWNED.fullmatch(hub_id := name.removeprefix(_HUB)):
            raise InputError(f"a hub id is written {_HUB}owner/name; got '{name}'.")
        return _pretrained(hub_id, network=True, device=device, asked=asked)
    if folder.suffix == ".skops" and asked is None and not folder.is_dir():
        return wrap(_of_skops(folder))
    if not folder.is_dir() and _OWNED.fullmatch(str(folder)):
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
    return load_folder(folder).to_device(device)


def import_object(name: str, what: str) -> Any:
    """Return ``object`` of "module:object"; the module may lie in the current folder."""
    module, _, path = name.partition(":")
    here = str(Path.cwd())
    try:
        # Where `python -m` would look; a command that was installed has its own folder there.
        if here not in sys.path:
            sys.path.insert(0, here)
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InputError(f"there is no {what} '{name}': {error}.") from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the module of a user may do anything
        why = f"{type(error).__name__}: {truncate_line(str(error), 120).rstrip('.')}"
        raise InputError(
            f"the module of '{name}' failed while it was imported ({why}). Run it with Python "
            "to see where."
        ) from error
    return found


def _of_skops(file: Path) -> Any:
    """Return the pipeline of a file of skops, which runs no code that it does not know."""
    try:
        from skops.io import get_untrusted_types
        from skops.io import load as loaded
    except ImportError:
        raise InputError(f"the file '{file}' needs skops; run: pip install skops.") from None
    try:
        if not (unknown := get_untrusted_types(file=file)):
            return loaded(file)
    except Exception as error:  # a missing or damaged file, or one of another version
        said = f"{type(error).__name__}: {truncate_line(str(error), 120).rstrip('.')}"
        raise InputError(f"there is no pipeline that skops reads at '{file}' ({said}).") from None
    raise InputError(
        f"the file '{file}' holds types that skops does not trust: {', '.join(unknown)}. If you "
        "do, call skops.io.load(file, trusted=[…]) in a module of your own, and give its object: "
        "module:object."
    )


# Once: its tables are made when first needed, and kept with it.
@cache
def _shipped() -> AttentionClassifier:
    return load_folder(SHIPPED)


def _pretrained(name: str, *, network: bool, device: str | None, asked: _Asked) -> Model:
    try:
        from limelight.models.hugging_face.loading import from_pretrained
    except ImportError:
        raise MissingExtraError(
            f"the Hugging Face model '{name}' needs torch and transformers", "hf"
        ) from None
    return from_pretrained(name, allow_download=network, device=device, prompt_options=asked)


def _is_hugging_face(folder: Path) -> bool:
    try:
        config = parse_json(read_bounded_bytes(folder / "config.json", _MOST_CONFIG), "config.json")
    except (OSError, InputError):
        return False  # then it is ours, or nobody's, and its reader says what is wrong
    return isinstance(config, dict) and "format" not in config and "model_type" in config


def wrap(
    anything: Any,
    *,
    tokenizer: Any = None,
    processor: Any = None,
    template: Any = None,  # what is not a template or labels is refused in a sentence
    labels: Any = None,
    max_new_tokens: int | None = None,
    per_token: bool = False,
    classes: Sequence[str] | None = None,
    scale: str = "probability",
    multi_label: bool = False,
    mask: str | None = None,
    words: Callable[[str], Sequence[Span]] | None = None,
    batch_size: int = 256,
    name: str = "",
    pairs: bool = False,
    tags: Sequence[str] | None = None,
    images: bool = False,
) -> Model:
    """Return any classifier as a model that can be explained.

    Parameters
    ----------
    anything
        A Hugging Face model (with its ``tokenizer`` or ``processor``), a ``transformers.pipeline``,
        a fitted scikit-learn pipeline that takes texts, a spaCy pipeline that names entities, or a
        function from a list of texts to one row of scores per text, one column per class. One
        column may stand for two classes: it is then the second's. A limelight model comes back as
        it is.
    tokenizer
        The fast tokenizer that belongs to a Hugging Face model.
    processor
        The image processor that belongs to a Hugging Face model of images.
    template
        What a language model is asked: a string with {text} in it, or a list of chat messages, one
        of which has it. What it writes next is its answer, and what is explained is the
        log-probability of that, or of another: ``explain(model, text, answer="…")``.
    labels
        Makes a causal language model a classifier: the word that stands for each class, in the
        order of the classes, such as {"negative": "bad", "positive": "good"}; each must be one
        token.
    max_new_tokens
        How many tokens an answer of the model has at most; by default 64.
    per_token
        Explain the mean log-probability of the tokens of an answer instead of their sum.
    classes
        Names of the classes of a function, in the order of its columns; of a "score" that belongs
        to no class, such as a rating, its one name. For a zero-shot pipeline, its candidate labels.
    scale
        What the scores of a function are: "probability" (rows sum to one), "logit", or a "score"
        that is neither, such as a margin: larger is more, and there are no probabilities.
    multi_label
        Each class is a yes or no of its own, so rows need not sum to one.
    mask
        What to put in place of a removed word, such as "[MASK]"; None deletes it.
    words
        Function from a text to the (start, end) of its words, in order; by default runs of
        letters and digits, and each punctuation mark.
    batch_size
        How many texts the function gets at a time, at most.
    name
        What to call the model in stored results, before a digest of all that its answers depend on;
        by default the name of the function.
    pairs
        The function takes a list of pairs, tuples of two texts, such as a premise and a
        hypothesis; ``explain(model, (first, second))`` then explains one of them.
    tags
        The function finds spans: from a list of texts to a list of (start, end, tag, score) for
        each, with scores from 0 to 1; these are all tags that it gives. What is explained is the
        log-odds of the score of a tag at a place, or with ``scale="score"`` the score itself. Of a
        spaCy pipeline the tags are known, and a span that it finds has the score 1.
    images
        The function takes a list of images, arrays of 8 bits (height, width, 1 or 3 channels).
    """
    # Before any of them is bound anew: options are what was given.
    given = locals()
    options = {
        name: given[name]
        for name, one in inspect.signature(wrap).parameters.items()
        if name != "anything" and given[name] is not one.default
    }
    if not images:
        options.pop("images", None)
    if hasattr(anything, "capabilities"):
        return _with_nothing(check_model(anything), options)
    if getattr(anything, "task", None) == "zero-shot-classification":
        from limelight.models.hugging_face.zero_shot import wrap_zero_shot

        return wrap_zero_shot(anything, options)
    networks = ("tokenizer", "processor", "template", "labels", "max_new_tokens", "per_token")
    of_networks = {name: options.pop(name) for name in networks if name in options}
    # Known by what they have: importing transformers to ask for their classes would take seconds.
    if tokenizer is None and hasattr(anything, "tokenizer") and hasattr(anything, "model"):
        processor = processor or getattr(anything, "image_processor", None)
        anything, tokenizer = anything.model, anything.tokenizer  # a transformers.pipeline
    if hasattr(anything, "config") and hasattr(anything, "get_input_embeddings"):
        from limelight.models.hugging_face.loading import from_objects

        asked = _given(template, labels, max_new_tokens, per_token)
        return _with_nothing(from_objects(anything, tokenizer or processor, asked), options)
    for name in of_networks:
        raise InputError(f"{name} belongs to a Hugging Face model; got {type(anything).__name__}.")
    if images and callable(anything):
        return wrap_image_function(anything, options)
    # Not at the top: who loads a folder needs none of this.
    from limelight.models.spans import wrap_spacy, wrap_span_function

    if callable(anything) and hasattr(anything, "pipe_labels"):  # of spaCy, or much like it
        return wrap_spacy(anything, **options)
    if tags is not None and callable(anything):
        return wrap_span_function(anything, **options)
    if any(hasattr(anything, name) for name in ("predict_proba", "decision_function", "predict")):
        from limelight.models.scikit import wrap_scikit  # not for models that are loaded

        return wrap_scikit(anything, **options)
    if callable(anything):
        return wrap_function(anything, **options)
    raise InputError(
        "wrap takes a Hugging Face model, a transformers pipeline, a scikit-learn pipeline, or a "
        f"function from a list of texts to scores; got {type(anything).__name__}."
        + (" For a path or a name use limelight.load." if isinstance(anything, str) else "")
    )


def _with_nothing(model: Model, options: Mapping[str, Any]) -> Model:
    """Refuse options that a model does not need, since it knows them itself."""
    for name in options:
        raise InputError(f"{name} is for functions; {model!r} needs no such option.")
    return model
