"""Classifiers with scikit-learn's methods, without importing scikit-learn."""

from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.fingerprints import pipeline_fingerprint
from limelight.models.functions import Function, wrapped_function
from limelight.models.linear import linear_pipeline
from limelight.models.scikit_classes import unwrapped

_ANSWERS = ("predict_proba", "decision_function", "predict")  # methods, the most telling first


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
    name = type(pipeline).__name__
    # Of the pipeline and not of the methods of its classes, which belong to scikit-learn.
    known = pipeline_fingerprint(pipeline)
    names = ["prediction"] if classes is None else [str(name) for name in classes]
    named = {"classes": names, "name": name, "function_known": known, **options}
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
