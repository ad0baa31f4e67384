"""Labelled texts: reading them, fetching them, measuring a model on them. No torch."""

from limelight.datasets.evaluation import Evaluation, evaluate, wilson_interval
from limelight.datasets.labelled import LabelledTexts
from limelight.datasets.labelled_files import read_labelled

__all__ = [
    "Evaluation",
    "LabelledTexts",
    "evaluate",
    "read_labelled",
    "wilson_interval",
]
