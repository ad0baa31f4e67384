"""Classifiers with scikit-learn's methods, without importing scikit-learn."""

import hashlib
from collections.abc import Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.functions import Function, wrapped_function

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
    """Return a fitted pipeline that takes texts; ``options`` are those of a function."""
    classes = getattr(pipeline, "classes_", None)
    if classes is None:
        raise InputError("the scikit-learn model has no classes_ yet; fit it before explaining it.")
    if isinstance(classes, list) and any(np.ndim(one) for one in classes):
        raise InputError(
            f"the scikit-learn model answers {len(classes)} questions at once, each with classes "
            "of its own; explain one of them: limelight.wrap(lambda texts: "
            "model.predict_proba(texts)[0], classes=[…]), or fit a OneVsRestClassifier."
        )
    last = pipeline[-1] if hasattr(pipeline, "steps") else pipeline
    if getattr(last, "multilabel_", False):
        options = {"multi_label": True, **options}
    name = f"{type(pipeline).__name__} {object_fingerprint(pipeline)}"
    named = {"classes": [str(name) for name in classes], "name": name, **options}
    answer = pipeline.predict_proba if hasattr(pipeline, "predict_proba") else None
    try:
        (answer or pipeline.decision_function)(
            [("a text", "another") if options.get("pairs") else "a text"]
        )
    except (ValueError, TypeError, AttributeError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(
            f"the scikit-learn model must take texts; {type(pipeline).__name__} does not "
            f"({reason}). Put a vectorizer before it: make_pipeline(TfidfVectorizer(), model)."
        ) from None
    if answer is not None:
        return wrapped_function(answer, **{"scale": "probability", **named})

    def decision(texts: list[Any]) -> Any:
        found = pipeline.decision_function(texts)
        return found[:, None] if found.ndim == 1 else found

    # A distance to a plane is not a log-odds: its softmax would be a probability in name only.
    return wrapped_function(decision, **{"scale": "score", **named})
