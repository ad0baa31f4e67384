"""Classifiers with scikit-learn's methods, without importing scikit-learn."""

import hashlib
from collections.abc import Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.functions import Function, wrapped_function
from limelight.models.linear import linear_pipeline

# Where in memory something is: vectorizers remember their stop words by that, and it differs from
# one process to the next, so that no run of such a pipeline could be resumed.
_PLACES = ("_stop_words_id",)


def object_fingerprint(thing: Any) -> str:
    """Return the SHA-256 of everything that ``thing`` holds: settings, arrays, words, functions.

    Nothing is serialised: the attributes are walked through, and an object of no known kind counts
    by its type and by the state that it shows.
    """
    digest = hashlib.sha256()
    _add(digest, thing, [])
    return digest.hexdigest()


def _add(digest: Any, thing: Any, path: list[int]) -> None:
    # The type is part of it, and the end is marked: [1, [2]] and [[1], 2] hold the same numbers.
    digest.update(f"<{type(thing).__module__}.{type(thing).__qualname__}>".encode())
    if id(thing) in path:  # it holds itself
        return
    path.append(id(thing))
    match thing:
        case None | bool() | int() | float() | complex() | str() | np.generic():
            digest.update(repr(thing).encode("utf-8", "surrogatepass"))
        case bytes() | bytearray():
            digest.update(thing)
        case np.ndarray() if thing.dtype.hasobject:
            _add(digest, thing.tolist(), path)
        case np.ndarray():
            digest.update(f"{thing.dtype.descr}{thing.shape}".encode())
            digest.update(np.ascontiguousarray(thing).tobytes())
        case _:
            for part in _parts(thing):
                _add(digest, part, path)
    digest.update(b">")
    path.pop()


def _parts(thing: Any) -> list[Any]:
    """Return what a container, a function or an object consists of, in an order of its own."""
    match thing:
        case Mapping():
            by_key = sorted(thing.items(), key=lambda item: repr(item[0]))
            return [part for item in by_key if item[0] not in _PLACES for part in item]
        case set() | frozenset():
            return sorted(thing, key=repr)
        case list() | tuple():
            return list(thing)
        case CodeType():
            return [thing.co_code, thing.co_consts, thing.co_names]
        case MethodType():
            return [thing.__func__, thing.__self__]
        case FunctionType():
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            return [thing.__code__, thing.__defaults__, cells]
        case BuiltinFunctionType() | type():
            return [thing.__module__, thing.__qualname__]
    try:  # the state that an object shows, such as its attributes or, of a compiled one, arrays
        return [thing.__getstate__()]
    except Exception:  # a class may refuse, and counts by its type
        return [None]


def from_scikit(pipeline: Any, **options: Any) -> Function:
    """Return a fitted pipeline that takes texts; ``options`` are those of a function.

    One that is a bag of words under a linear classifier is explained by what its classifier adds
    up, and exactly; any other is asked for its probabilities.
    """
    classes = getattr(pipeline, "classes_", None)
    last = pipeline[-1] if hasattr(pipeline, "steps") else pipeline
    # A regressor has no classes; one that was fitted knows its columns.
    if classes is None and not (hasattr(last, "predict") and hasattr(last, "n_features_in_")):
        raise InputError("the scikit-learn model has no classes_ yet; fit it before explaining it.")
    if isinstance(classes, list) and any(np.ndim(one) for one in classes):
        raise InputError(
            f"the scikit-learn model answers {len(classes)} questions at once, each with classes "
            "of its own; explain one of them: limelight.wrap(lambda texts: "
            "model.predict_proba(texts)[0], classes=[…]), or fit a OneVsRestClassifier."
        )
    if getattr(last, "multilabel_", False):
        options = {"multi_label": True, **options}
    name = f"{type(pipeline).__name__} {object_fingerprint(pipeline)}"
    names = [_REGRESSED] if classes is None else [str(name) for name in classes]
    named = {"classes": names, "name": name, **options}
    kind = next(one for one in _ANSWERS if hasattr(pipeline, one))
    answer = getattr(pipeline, kind)
    _check_reads_texts(pipeline, answer, options)
    # Options that only a function has; several labels must be the pipeline's own.
    own = {"scale", "mask", "words", "pairs"} & options.keys()
    own |= {"multi_label"} & options.keys() if not getattr(last, "multilabel_", False) else set()
    linear = "of its options" if own else linear_pipeline(pipeline)
    if isinstance(linear, str):
        # A distance to a plane is not a log-odds: its softmax would be a probability in name only.
        scale = "probability" if kind == "predict_proba" else "score"
        return wrapped_function(answer, **{"scale": scale, "asked_because": linear, **named})
    scale = "score" if linear.link == "none" else "logit"
    named["name"] = f"{name} {kind}"  # its scores, and no longer the log-odds of probabilities
    more = {"scale": scale, "bag": linear.bag, "linked": linear.link}
    return wrapped_function(linear.outputs, **{**named, **more})


_REGRESSED = "prediction"
_ANSWERS = ("predict_proba", "decision_function", "predict")


def _check_reads_texts(pipeline: Any, answer: Any, options: Mapping[str, Any]) -> None:
    try:
        answer([("a text", "another") if options.get("pairs") else "a text"])
    except (ValueError, TypeError, AttributeError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(
            f"the scikit-learn model must take texts; {type(pipeline).__name__} does not "
            f"({reason}). Put a vectorizer before it: make_pipeline(TfidfVectorizer(), model)."
        ) from None
