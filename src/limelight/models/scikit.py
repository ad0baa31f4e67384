"""Classifiers with scikit-learn's methods, without importing scikit-learn."""

import copyreg
import hashlib
import re
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.functions import Function, wrapped_function
from limelight.models.linear import linear_pipeline
from limelight.models.scikit_classes import unwrapped

# Where in memory something is: vectorizers remember their stop words by that, and it differs from
# one process to the next, so that no run of such a pipeline could be resumed.
_PLACES = ("_stop_words_id",)
_ANSWERS = ("predict_proba", "decision_function", "predict")  # methods, the most telling first
_TABLES = (str, int, float, bytes, list, tuple, set, frozenset, dict, re.Pattern)


def object_fingerprint(thing: Any) -> str:
    """Return the SHA-256 of everything that ``thing`` holds: settings, arrays, words, functions.

    Nothing is serialised: the attributes are walked through, and an object of no known kind counts
    by its type and by the state that it shows. A function counts with what it finds in its module:
    other functions, and tables of words, numbers and patterns, but no objects of other kinds.
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
        # Its bytes would be addresses.
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
            # Strings in a set come in another order in every process.
            return sorted(thing, key=repr)
        case list() | tuple():
            return list(thing)
        case CodeType():
            # Not its file and line: a function that was moved is still the same.
            return [thing.co_code, thing.co_consts, thing.co_names]
        # A bound method answers by the object that it belongs to.
        case MethodType():
            return [thing.__func__, thing.__self__]
        # What a closure holds changes its answers as much as its code does.
        case FunctionType():
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            return [thing.__code__, thing.__defaults__, thing.__kwdefaults__, cells, _found(thing)]
        case BuiltinFunctionType() | type():
            return [thing.__module__, thing.__qualname__]
    try:  # what it would be made of again: attributes, of a compiled one arrays, of a pattern text
        reduced: Any = copyreg.dispatch_table.get(type(thing))
        made = thing.__reduce_ex__(2) if reduced is None else reduced(thing)
        return [made] if isinstance(made, str) else list(made[1:3])
    except Exception:  # a class may refuse, and counts by its type
        return [None]


def _found(function: FunctionType) -> dict[str, Any]:
    """Return what a function uses of its module and would be changed with."""
    # An object of another kind, a language model or a cache of a library, may change whenever it is
    # used, and a run could never go on with it.
    found = {name: function.__globals__.get(name) for name in _names(function.__code__)}
    return {
        name: one
        for name, one in found.items()
        if isinstance(one, _TABLES)
        or (isinstance(one, FunctionType) and one.__module__ == function.__module__)
    }


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def from_scikit(pipeline: Any, **options: Any) -> Function:
    """Return a fitted pipeline that takes texts; ``options`` are those of a function.

    One that is a bag of words under a linear classifier is explained by what its classifier adds
    up, and exactly; any other is asked for its probabilities.
    """
    for name in sorted({"images", "tags"} & options.keys()):
        raise InputError(f"{name} is for functions; a scikit-learn model scores texts.")
    pipeline = unwrapped(pipeline)
    classes = getattr(pipeline, "classes_", None)
    last = unwrapped(pipeline[-1]) if hasattr(pipeline, "steps") else pipeline
    # A regressor has no classes; one that was fitted knows its columns.
    if classes is None and not (hasattr(last, "predict") and hasattr(last, "n_features_in_")):
        raise InputError("the scikit-learn model has no classes_ yet; fit it before explaining it.")
    if isinstance(classes, list) and any(np.ndim(one) for one in classes):
        raise InputError(
            f"the scikit-learn model answers {len(classes)} questions at once, each with classes "
            "of its own; explain one of them: limelight.wrap(lambda texts: "
            "model.predict_proba(texts)[0], classes=[…]), or fit a OneVsRestClassifier."
        )
    name = f"{type(pipeline).__name__} {object_fingerprint(pipeline)}"
    names = ["prediction"] if classes is None else [str(name) for name in classes]
    named = {"classes": names, "name": name, **options}
    kind = next(one for one in _ANSWERS if hasattr(pipeline, one))
    answer = getattr(pipeline, kind)
    # A classifier without a vectorizer fails here, in a sentence, and not at the first text.
    tried = [("a text", "another") if options.get("pairs") else "a text"]
    try:
        answer(tried)
    except (ValueError, TypeError, AttributeError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(
            f"the scikit-learn model must take texts; {type(pipeline).__name__} does not "
            f"({reason}). Put a vectorizer before it: make_pipeline(TfidfVectorizer(), model)."
        ) from None
    # Options that only a function has; several labels must be the pipeline's own.
    own = {"scale", "mask", "words", "pairs", "multi_label"} & options.keys()
    if classes is not None and kind != "predict" and np.ndim(pipeline.predict(tried)) == 2:
        # It answers with a row of labels, each of which is a yes or no.
        named, own = {"multi_label": True, **named}, own - {"multi_label"}
    linear = "of its options" if own else linear_pipeline(pipeline)
    if isinstance(linear, str):
        # A distance to a plane is not a log-odds: its softmax would be a probability in name only.
        scale = "probability" if kind == "predict_proba" else "score"
        return wrapped_function(answer, **{"scale": scale, "asked_because": linear, **named})
    # Its scores, and no longer the log-odds of probabilities.
    named["name"] = options.get("name", f"{name} {kind}")
    return wrapped_function(**{**named, **linear})
