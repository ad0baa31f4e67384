"""Classifiers with scikit-learn's methods, without importing scikit-learn."""

__all__ = ["from_scikit"]

from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.functions import Function, wrapped_function
from limelight.models.object_fingerprint import object_fingerprint


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
    probe = ("a text", "another") if options.get("pairs") else "a text"
    _check_reads_texts(pipeline, answer or pipeline.decision_function, probe)
    if answer is not None:
        return wrapped_function(answer, **{"scale": "probability", **named})

    def decision(texts: list[Any]) -> Any:
        found = pipeline.decision_function(texts)
        return found[:, None] if found.ndim == 1 else found

    # A distance to a plane is not a log-odds: its softmax would be a probability in name only.
    return wrapped_function(decision, **{"scale": "score", **named})


def _check_reads_texts(pipeline: Any, answer: Any, probe: Any) -> None:
    try:
        answer([probe])
    except (ValueError, TypeError, AttributeError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(
            f"the scikit-learn model must take texts; {type(pipeline).__name__} does not "
            f"({reason}). Put a vectorizer before it: make_pipeline(TfidfVectorizer(), model)."
        ) from None
