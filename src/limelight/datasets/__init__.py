"""Labelled texts: reading them, fetching them, measuring a model on them. No torch."""

from limelight.datasets.labelled import LabelledTexts

__all__ = ["LabelledTexts"]
