"""Anything that classifies texts, as a model that can be explained."""

__all__ = ["wrap"]

from collections.abc import Callable, Sequence
from typing import Any

from limelight.errors import InputError
from limelight.models.functions import wrapped_function
from limelight.models.protocol import Model
from limelight.models.scikit import from_scikit
from limelight.models.sound_model import checked_model
from limelight.text import Span

_DEFAULTS: dict[str, Any] = {
    "classes": None,
    "scale": "probability",
    "multi_label": False,
    "mask": None,
    "words": None,
    "batch_size": 256,
    "name": "",
    "pairs": False,
}


def wrap(
    anything: Any,
    *,
    tokenizer: Any = None,
    template: Any = None,  # what is not a template or labels is refused in a sentence
    labels: Any = None,
    classes: Sequence[str] | None = None,
    scale: str = "probability",
    multi_label: bool = False,
    mask: str | None = None,
    words: Callable[[str], Sequence[Span]] | None = None,
    batch_size: int = 256,
    name: str = "",
    pairs: bool = False,
) -> Model:
    """Return any classifier as a model that can be explained.

    Parameters
    ----------
    anything
        A Hugging Face model (with its ``tokenizer``), a ``transformers.pipeline``, a fitted
        scikit-learn pipeline that takes texts, or a function from a list of texts to one row of
        scores per text, one column per class. One column may stand for two classes: it is then
        the second's. A limelight model comes back as it is.
    tokenizer
        The fast tokenizer that belongs to a Hugging Face model.
    template
        What a causal language model is asked: a string with {text} in it, or a list of chat
        messages, one of which has it. What comes next is the answer.
    labels
        The word that stands for each class of a language model, in the order of the classes, such
        as {"negative": "bad", "positive": "good"}; each must be one token.
    classes
        Names of the classes of a function, in the order of its columns; of a "score" that belongs
        to no class, such as a rating, its one name.
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
        What to call the model in stored results; by default the name of the function.
    pairs
        The function takes a list of pairs, tuples of two texts, such as a premise and a
        hypothesis; ``explain(model, (first, second))`` then explains one of them.
    """
    given = (classes, scale, multi_label, mask, words, batch_size, name, pairs)
    options: dict[str, Any] = {
        option: value
        for (option, default), value in zip(_DEFAULTS.items(), given, strict=True)
        if value is not default
    }
    if hasattr(anything, "capabilities"):
        own = {"tokenizer": tokenizer, "template": template, "labels": labels}
        return _with_nothing(checked_model(anything), **own, **options)
    if tokenizer is None and hasattr(anything, "tokenizer") and hasattr(anything, "model"):
        anything, tokenizer = anything.model, anything.tokenizer  # a transformers.pipeline
    if hasattr(anything, "config") and hasattr(anything, "get_input_embeddings"):
        from limelight.models.hugging_face.pretrained import Asked, from_objects

        asked = None if template is None and labels is None else Asked(template, labels)
        return _with_nothing(from_objects(anything, tokenizer, asked), **options)
    for what, set_here in (("tokenizer", tokenizer), ("template", template), ("labels", labels)):
        if set_here is not None:
            raise InputError(
                f"{what} belongs to a Hugging Face model; got {type(anything).__name__}."
            )
    if hasattr(anything, "predict_proba") or hasattr(anything, "decision_function"):
        return from_scikit(anything, **options)
    if callable(anything):
        return wrapped_function(anything, **{"classes": None, **options})
    raise InputError(_unknown(anything))


def _with_nothing(model: Model, **options: Any) -> Model:
    """Refuse options that a model does not need, since it knows them itself."""
    set_here = [name for name, value in options.items() if value is not None]
    if set_here:
        raise InputError(f"{set_here[0]} is for functions; {model!r} needs no such option.")
    return model


def _unknown(anything: Any) -> str:
    kind = type(anything).__name__
    if hasattr(anything, "predict") and hasattr(anything, "fit"):
        return (
            f"{kind} has neither predict_proba nor decision_function. If it predicts a number, "
            "wrap it as a score: limelight.wrap(lambda texts: model.predict(texts)[:, None], "
            "classes=['score'], scale='score')."
        )
    return (
        "wrap takes a Hugging Face model, a transformers pipeline, a scikit-learn pipeline, or a "
        f"function from a list of texts to scores; got {kind}."
        + (" For a path or a name use limelight.load." if isinstance(anything, str) else "")
    )
