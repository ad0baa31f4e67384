"""What a method finds in a reading, by its settings object."""

from limelight.explainers.registry import configure_method


def findings(settings, batch):
    """Return one finding per document, computed in the way that the model allows."""
    method = configure_method(settings, batch.model, {})
    for features in batch.features if method.implementation.cost.check is not None else ():
        method.implementation.cost.check(method.settings, len(features))
    return method.implementation.explain(method.settings, batch)
