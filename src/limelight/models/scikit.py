"""scikit-learn pipelines as models, without an import of scikit-learn."""

from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.fingerprints import pipeline_fingerprint
from limelight.models.functions import Function, wrap_function
from limelight.models.linear import parse_linear_pipeline
from limelight.models.scikit_classes import unwrap_estimator

_OUTPUT_METHODS = ("predict_proba", "decision_function", "predict")  # the most informative first


def wrap_scikit(pipeline: Any, **options: Any) -> Function:
    """Return a fitted scikit-learn pipeline as a model, with the options of `limelight.wrap`.

    A bag of words under a linear classifier is explained exactly, by the sums of its classifier.
    Every other pipeline is called for its probabilities.

    Raises
    ------
    InputError
        If the pipeline is not fitted, does not take texts, or has several outputs with classes.
    """
    for name in sorted({"images", "tags"} & options.keys()):
        raise InputError(f"{name} is for functions, not for scikit-learn models. Leave {name} out.")
    pipeline = unwrap_estimator(pipeline)
    classes = getattr(pipeline, "classes_", None)
    last = unwrap_estimator(pipeline[-1]) if hasattr(pipeline, "steps") else pipeline
    # A regressor has no classes. If it is fitted, it has a number of columns.
    if classes is None and not (hasattr(last, "predict") and hasattr(last, "n_features_in_")):
        raise InputError("the scikit-learn model has no classes_. Fit it first.")
    if isinstance(classes, list) and any(np.ndim(column) for column in classes):
        raise InputError(
            f"the scikit-learn model has {len(classes)} outputs, each with its own classes. Wrap "
            "one of them, limelight.wrap(lambda texts: model.predict_proba(texts)[0], "
            "classes=[…]), or fit a OneVsRestClassifier."
        )
    name = type(pipeline).__name__
    # Of the pipeline, because its methods belong to scikit-learn and hold no weights.
    fingerprint = pipeline_fingerprint(pipeline)
    names = ["prediction"] if classes is None else [str(name) for name in classes]
    function_options = {
        "classes": names,
        "name": name,
        "known_fingerprint": fingerprint,
        **options,
    }
    method_name = next(method for method in _OUTPUT_METHODS if hasattr(pipeline, method))
    method = getattr(pipeline, method_name)
    # A classifier without a vectorizer gets a clear error here, before the first text.
    test_inputs = [("a text", "another") if options.get("pairs") else "a text"]
    try:
        method(test_inputs)
    except (ValueError, TypeError, AttributeError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(
            f"the scikit-learn model must take texts, but {type(pipeline).__name__} does not "
            f"({reason}). Put a vectorizer before it: make_pipeline(TfidfVectorizer(), model)."
        ) from None
    # With these options the pipeline is sampled. Only multi_label may repeat what it predicts.
    sampling_options = {"scale", "mask", "words", "pairs", "multi_label"} & options.keys()
    has_labels = classes is not None and method_name != "predict"
    if has_labels and np.ndim(pipeline.predict(test_inputs)) == 2:
        # It predicts a row of labels, each of which is a yes or no.
        function_options = {"multi_label": True, **function_options}
        sampling_options -= {"multi_label"}
    linear_fields = "of its options" if sampling_options else parse_linear_pipeline(pipeline)
    if isinstance(linear_fields, str):
        # A distance to a plane is no log-odds, and its softmax is no probability.
        scale = "probability" if method_name == "predict_proba" else "score"
        return wrap_function(
            method, **{"scale": scale, "sampling_reason": linear_fields, **function_options}
        )
    # The outputs are now its scores, and not the log-odds of probabilities.
    function_options["name"] = options.get("name", f"{name} {method_name}")
    return wrap_function(**{**function_options, **linear_fields})
