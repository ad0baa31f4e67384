"""What a method finds in a reading, by its settings object."""

from limelight.explainers.registry import configured


def findings(settings, reading):
    """Return one finding per document, computed in the way that the model allows."""
    chosen = configured(settings, reading.model, {})
    for features in reading.features if chosen.way.feasible is not None else ():
        chosen.way.feasible(chosen.settings, len(features))
    return chosen.way.explain(chosen.settings, reading)
