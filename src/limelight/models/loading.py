"""Load models from folders, files, modules and the Hugging Face hub, and wrap those in memory."""

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

from limelight.errors import InputError, MissingExtraError, suggest_keywords
from limelight.files import parse_json, read_bounded_bytes
from limelight.models.attention import AttentionClassifier, load_folder
from limelight.models.protocol import Model, check_model
from limelight.text import Span, truncate_line

SHIPPED = Path(__file__).parents[1] / "shipped" / "imdb"
_HUB, _HUB_ID = "hub:", re.compile(r"(?:[\w.-]+/)?[\w.-]+")  # owner/name, or an old name
# At least two letters before the colon, because "C:model" is a path of Windows.
_OBJECT = re.compile(r"(?!hub:)[A-Za-z_][\w.]+:[A-Za-z_][\w.]*")  # module:object
_MAX_CONFIG_BYTES = 1 << 24
_NETWORK_OPTIONS = (
    *("tokenizer", "processor", "template", "labels", "max_new_tokens", "per_token"),
)
# A module that takes ids of tokens needs a function around it.
_MODULE_ERROR = """{} is a module of torch that takes no texts. Write a function from texts to \
scores, and wrap it with its classes:

def predict(texts):
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    return network(batch["input_ids"], batch["attention_mask"]).detach()

model = limelight.wrap(predict, classes=["negative", "positive"], scale="logit")"""
# Options of `wrap` about the prompt of a language model, by name. None means no language model.
PromptOptions = Mapping[str, Any] | None


class ModelSource(NamedTuple):
    """The arguments of `load`, with an absolute path, to load the same model in another process."""

    path: str | None
    device: str | None
    prompt_options: PromptOptions = None
    background: Any = None

    def load(self) -> Model:
        """Load the model."""
        options = {"background": self.background, **(self.prompt_options or {})}
        return load(self.path, device=self.device, **options)


# Not an attribute of the models, because they may be frozen or belong to a class of the user.
_SOURCES: WeakKeyDictionary[Any, ModelSource] = WeakKeyDictionary()


def model_source(model: Model) -> ModelSource | None:
    """Return the source of a loaded model, or None for a model that was created in memory."""
    return _SOURCES.get(model)


def copy_source(model: Model, other: Model) -> Model:
    """Return ``model`` with the source of ``other``, from which it was derived for a request."""
    if other in _SOURCES:
        _SOURCES[model] = _SOURCES[other]
    return model


# The first overload gives the class of the model that comes with limelight.
@overload
def load(
    path: None = None, *, device: str | None = None, background: Any = None
) -> AttentionClassifier: ...
@overload
def load(
    path: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    background: Any = None,
    template: Any = None,
    labels: Any = None,
    max_new_tokens: int | None = None,
    per_token: bool = False,
) -> Model: ...
@suggest_keywords
def load(
    path: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    background: Any = None,
    template: Any = None,
    labels: Any = None,
    max_new_tokens: int | None = None,
    per_token: bool = False,
) -> Model:
    """Load a model. Without a path, load the sentiment classifier that comes with limelight.

    A model or a function in memory is passed to :func:`limelight.wrap` instead.

    Parameters
    ----------
    path
        One of these:

        * a folder of :func:`limelight.save_folder`,
        * a folder with a Hugging Face model (extra ``hf``): a sequence classifier, a token
          classifier, a model of extractive answers, an image classifier or a language model,
        * a file "….skops" with a scikit-learn pipeline,
        * "hub:owner/name", a model on the Hugging Face hub. Only this uses the internet.
        * "module:object", a model or an argument of :func:`limelight.wrap` in a Python module. The
          module may be in the current folder, and its code is run.
    device
        Device of torch, such as "cuda", "cuda:1" or "cpu". By default limelight's own classifier
        uses NumPy and needs no torch, and a Hugging Face model uses a GPU if there is one.
    background
        Texts for the replacement "refill" of an ``AttentionClassifier``: random words of them
        replace removed words, with their frequencies. Or a mapping from words to weights.
    template
        Prompt of a language model: see :func:`limelight.wrap`.
    labels
        Words of the classes of a language model: see :func:`limelight.wrap`. Without ``labels``
        the answers of the language model are explained.
    max_new_tokens
        Largest number of tokens of an answer, by default 64.
    per_token
        Explain the mean log-probability of the tokens of an answer instead of their sum.

    Returns
    -------
    The model, which can be passed to :func:`limelight.explain` and the other functions.

    Raises
    ------
    InputError
        If there is no such model, or it is damaged, or an option does not apply to it.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load()
    >>> model.classes
    ('negative', 'positive')
    >>> model.read("A superb film.").tokens.strings
    ('a', 'superb', 'film', '.')
    """
    prompt_options = _collect_prompt_options(template, labels, max_new_tokens, per_token)
    model = _load_model(path, device, prompt_options)
    if background is not None:
        model = _add_background(model, background)
    source_path = None if path is None else os.fspath(path)
    if source_path is not None and not (
        source_path.startswith(_HUB) or _OBJECT.fullmatch(source_path)
    ):
        # Absolute, because another process may have another current folder.
        source_path = str(Path(source_path).resolve())
    if isinstance(model, AttentionClassifier) and model.background is not None:
        # Another process needs the counts of the words, not the texts.
        background = model.background.words(model.vocabulary)
    _SOURCES[model] = ModelSource(source_path, device, prompt_options, background)
    return model


def _add_background(model: Model, background: Any) -> Model:
    """Return a model with background texts, which only an ``AttentionClassifier`` takes."""
    if not isinstance(model, AttentionClassifier):
        raise InputError(
            f"background needs an AttentionClassifier, not a {type(model).__name__}. Leave "
            "background out."
        )
    return model.with_background(background)


def _collect_prompt_options(
    template: Any, labels: Any, max_new_tokens: Any, per_token: Any
) -> PromptOptions:
    """Return the options about a language model that differ from their defaults, or None."""
    values = {"template": template, "labels": labels, "max_new_tokens": max_new_tokens}
    options = {name: value for name, value in values.items() if value is not None}
    options |= {} if per_token is False else {"per_token": per_token}
    if labels is not None and template is None:
        raise InputError(
            "labels need a template (--template), the prompt with {text} in it before the label."
        )
    return options or None


def _load_model(
    path: str | os.PathLike[str] | None, device: str | None, prompt_options: PromptOptions
) -> Model:
    """Return the model of a path, without its source."""
    if prompt_options is not None and path is None:
        raise InputError("template and labels need a language model. Give its path (--model).")
    if path is None:
        return _load_shipped().to_device(device)
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"load needs a path or a name, not {type(path).__name__}. Pass a model in memory to "
            "limelight.wrap."
        )
    name, folder = os.fspath(path), Path(path)
    # A folder may have such a name, and no code of a folder is run.
    if _OBJECT.fullmatch(name) and not folder.exists():
        imported = import_object(name, "model")
        return imported if hasattr(imported, "capabilities") else wrap(imported)
    if name.startswith(_HUB):
        if not _HUB_ID.fullmatch(hub_id := name.removeprefix(_HUB)):
            raise InputError(f"a hub id must be {_HUB}owner/name, not '{name}'.")
        return _load_hugging_face(
            hub_id, allow_download=True, device=device, options=prompt_options
        )
    if folder.suffix == ".skops" and prompt_options is None and not folder.is_dir():
        return wrap(_load_skops(folder))
    if folder.suffix.lower() == ".gguf":
        raise InputError(
            f"'{folder}' is a GGUF file. Load it with transformers: "
            f"AutoModelForCausalLM.from_pretrained(folder, gguf_file={folder.name!r}). Then pass "
            "the model and its tokenizer to limelight.wrap with template=."
        )
    if not folder.exists() and _HUB_ID.fullmatch(str(folder)):
        raise InputError(
            f"there is no model folder at '{folder}'. Check the path, or write '{_HUB}{folder}' "
            "if it is a model on the Hugging Face hub."
        )
    if _is_hugging_face(folder):
        return _load_hugging_face(name, allow_download=False, device=device, options=prompt_options)
    if prompt_options is not None:
        raise InputError(
            f"template and labels need a language model of Hugging Face, but '{folder}' is none."
        )
    return load_folder(folder).to_device(device)


def import_object(name: str, noun: str) -> Any:
    """Import ``object`` of "module:object"; the module may be in the current folder.

    Parameters
    ----------
    name
        A module and an object in it, such as "package.module:name".
    noun
        Noun for the object in error messages.

    Raises
    ------
    InputError
        If there is no such object, or the import of the module fails.
    """
    module, _, path = name.partition(":")
    folder = str(Path.cwd())
    try:
        # `python -m` searches the current folder, but an installed command searches its own.
        if folder not in sys.path:
            sys.path.insert(0, folder)
        imported: Any = import_module(module)
        for part in path.split("."):
            imported = getattr(imported, part)
    except (ImportError, AttributeError) as error:
        raise InputError(f"there is no {noun} '{name}': {error}.") from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a module of the user may raise any error
        reason = f"{type(error).__name__}: {truncate_line(str(error), 120).rstrip('.')}"
        raise InputError(
            f"the module of '{name}' failed while it was imported ({reason}). Run it with Python "
            "to see where."
        ) from error
    return imported


def _load_skops(file: Path) -> Any:
    """Return the pipeline in a file of skops, which runs no unknown code."""
    try:
        from skops.io import get_untrusted_types
        from skops.io import load as load_skops_file
    except ImportError:
        raise InputError(f"the file '{file}' needs skops. Run: pip install skops.") from None
    try:
        if not (unknown_types := get_untrusted_types(file=file)):
            return load_skops_file(file)
    except Exception as error:  # a missing or damaged file, or one of another version
        reason = f"{type(error).__name__}: {truncate_line(str(error), 120).rstrip('.')}"
        raise InputError(f"skops cannot read a pipeline from '{file}' ({reason}).") from None
    raise InputError(
        f"the file '{file}' has types that skops does not trust: {', '.join(unknown_types)}. If "
        "you do, call skops.io.load(file, trusted=[…]) in your own module, and give "
        "module:object."
    )


# Loaded once, because the model caches its tables.
@cache
def _load_shipped() -> AttentionClassifier:
    """Load the sentiment classifier that comes with limelight."""
    return load_folder(SHIPPED)


def _load_hugging_face(
    name: str, *, allow_download: bool, device: str | None, options: PromptOptions
) -> Model:
    """Return a model of transformers from a folder, or from the hub with ``allow_download``."""
    try:
        from limelight.models.hugging_face.loading import from_pretrained
    except ImportError:
        raise MissingExtraError(
            f"the Hugging Face model '{name}' needs torch and transformers", "hf"
        ) from None
    return from_pretrained(
        name, allow_download=allow_download, device=device, prompt_options=options
    )


def _is_hugging_face(folder: Path) -> bool:
    """Return whether a folder contains a model of transformers."""
    try:
        content = read_bounded_bytes(folder / "config.json", _MAX_CONFIG_BYTES)
        config = parse_json(content, "config.json")
    except (OSError, InputError):
        return False  # `load_folder` raises an error that names the problem
    return isinstance(config, dict) and "format" not in config and "model_type" in config


@suggest_keywords
def wrap(
    model: Any,
    *,
    tokenizer: Any = None,
    processor: Any = None,
    template: Any = None,  # checked later, with clear errors
    labels: Any = None,
    max_new_tokens: int = 64,
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
    other: str | None = None,
) -> Model:
    """Return a classifier in memory, or a function, as a model that can be explained.

    Parameters
    ----------
    model
        One of these:

        * a function from a list of texts to one row of scores per text, with one column per class.
          For two classes it may return a single column, the scores of the second class.
        * a fitted scikit-learn pipeline that takes texts,
        * a Hugging Face model with its ``tokenizer`` or ``processor``, or a
          ``transformers.pipeline``,
        * a spaCy pipeline that names entities,
        * a sentence encoder with a method ``encode``, such as a ``SentenceTransformer``, with the
          ``other`` text. The cosine similarity of the two texts is explained.
        * a limelight model, which is returned as it is.
    tokenizer
        Fast tokenizer of a Hugging Face model.
    processor
        Image processor of a Hugging Face model of images.
    template
        Prompt of a language model: a string that contains {text}, or a list of chat messages, one
        of which contains it. The model generates an answer, and the log-probability of this answer
        is explained, or that of another answer: ``explain(model, text, answer="…")``.
    labels
        The word of each class, which makes a causal language model a classifier, such as
        {"negative": "bad", "positive": "good"}. Each word must be one token.
    max_new_tokens
        Largest number of tokens of an answer.
    per_token
        Explain the mean log-probability of the tokens of an answer instead of their sum.
    classes
        Names of the classes of a function, in the order of its columns. For a "score" of no class,
        such as a rating, its name. For a zero-shot pipeline, its candidate labels.
    scale
        Scale of the scores of a function: "probability" (rows sum to one), "logit", or "score" for
        other numbers, such as a margin. A score has no probabilities.
    multi_label
        Each class is predicted independently of the others, so that rows need not sum to one.
    mask
        Replacement of a removed word, such as "[MASK]". None deletes the word.
    words
        Function from a text to the (start, end) of its words, in order. By default words are runs
        of letters and digits, and each punctuation mark is a word.
    batch_size
        Largest number of texts in one call of the function.
    name
        Name of the model in stored results, by default that of the function.
    pairs
        The function takes a list of pairs, which are tuples of two texts, such as a premise and a
        hypothesis. Then ``explain(model, (first, second))`` explains one of them.
    tags
        Names of the tags of a function that finds spans. It takes a list of texts, and returns a
        list of (start, end, tag, score) for each text, with scores from 0 to 1. The log-odds of
        the score of a tag at a span are explained, or with ``scale="score"`` the score. The tags of
        a spaCy pipeline are known, and each of its spans has the score 1.
    images
        The function takes a list of images, which are arrays of 8-bit integers with the shape
        (height, width, 1 or 3 channels).
    other
        Sentence encoders: the text with which each text is compared.

    Returns
    -------
    The model, which can be passed to :func:`limelight.explain` and the other functions.

    Raises
    ------
    InputError
        If ``model`` is none of these, or an option does not apply to it.

    Examples
    --------
    >>> import limelight
    >>> import numpy as np
    >>> def predict(texts):
    ...     positive = np.array([0.9 if "superb" in text else 0.2 for text in texts])
    ...     return np.stack([1 - positive, positive], axis=1)
    >>> classes = ["negative", "positive"]
    >>> model = limelight.wrap(predict, classes=classes, name="superb-counter")
    >>> model
    <Function superb-counter of negative | positive>
    >>> limelight.explain(model, "A superb film.", "loo").top(1)[0][0]
    'superb'
    """
    # Before any of these variables is changed.
    arguments = locals()
    options = {
        name: arguments[name]
        for name, parameter in inspect.signature(wrap).parameters.items()
        if name != "model" and arguments[name] is not parameter.default
    }
    if not images:
        options.pop("images", None)
    if hasattr(model, "capabilities"):
        return _reject_options(check_model(model), options)
    # Imported here, because loading a folder does not need this module.
    from limelight.models.functions import wrap_encoder, wrap_function, wrap_image_function

    if other is not None:
        return wrap_encoder(model, options)
    if getattr(model, "task", None) == "zero-shot-classification":
        from limelight.models.hugging_face.zero_shot import wrap_zero_shot

        return wrap_zero_shot(model, options)
    network_options = {name: options.pop(name) for name in _NETWORK_OPTIONS if name in options}
    # Recognized by their attributes, because an import of transformers would take seconds.
    if tokenizer is None and hasattr(model, "tokenizer") and hasattr(model, "model"):
        processor = processor or getattr(model, "image_processor", None)
        model, tokenizer = model.model, model.tokenizer  # a transformers.pipeline
    if hasattr(model, "config") and hasattr(model, "get_input_embeddings"):
        from limelight.models.hugging_face.loading import from_objects

        answer_length = network_options.get("max_new_tokens")  # None means the default
        prompt_options = _collect_prompt_options(template, labels, answer_length, per_token)
        network = from_objects(model, tokenizer or processor, prompt_options)
        return _reject_options(network, options)
    if not images and hasattr(model, "named_parameters") and not _takes_texts(model):
        if hasattr(model, "encode"):
            raise InputError(
                f"{type(model).__name__} returns vectors, not scores. Pass other= with the text "
                "to compare, as in wrap(encoder, other='a superb film')."
            )
        raise InputError(_MODULE_ERROR.format(type(model).__name__))
    for name in network_options:
        raise InputError(
            f"{name} is for Hugging Face models, not for {type(model).__name__}. Leave {name} out."
        )
    if images and callable(model):
        return wrap_image_function(model, options)
    from limelight.models.spans import wrap_spacy, wrap_span_function

    if callable(model) and hasattr(model, "pipe_labels"):  # a spaCy pipeline, or a similar one
        return wrap_spacy(model, **options)
    if tags is not None and callable(model):
        return wrap_span_function(model, **options)
    if any(hasattr(model, name) for name in ("predict_proba", "decision_function", "predict")):
        from limelight.models.scikit import wrap_scikit

        return wrap_scikit(model, **options)
    if callable(model):
        return wrap_function(model, **options)
    raise InputError(
        "wrap needs a Hugging Face model, a transformers pipeline, a scikit-learn pipeline, "
        f"or a function from a list of texts to scores, not {type(model).__name__}."
        + (" For a path or a name, use limelight.load." if isinstance(model, str) else "")
    )


def _takes_texts(module: Any) -> bool:
    """Return whether a module of torch can be called on a list of texts."""
    try:
        module(["a text"])
    except Exception:  # a module may raise any error
        return False
    return True


def _reject_options(model: Model, options: Mapping[str, Any]) -> Model:
    """Return ``model``; raise an error if there are options, which only functions need."""
    for name in options:
        raise InputError(f"{name} is for functions, not for {model!r}. Leave {name} out.")
    return model
