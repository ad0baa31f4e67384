"""What a method finds in a reading, by its settings object."""

from limelight.explainers.registry import configure_method


def findings(settings, reading):
    """Return one finding per document, computed in the way that the model allows."""
    method = configure_method(settings, reading.model, {})
    for features in reading.features if method.implementation.cost.check is not None else ():
        method.implementation.cost.check(method.settings, len(features))
    return method.implementation.explain(method.settings, reading)
