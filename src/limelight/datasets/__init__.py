"""Labelled and marked texts: reading them, fetching them, measuring a model on them. No torch."""

from limelight.datasets.evaluation import Evaluation, evaluate, wilson_interval
from limelight.datasets.labelled import LabelledTexts
from limelight.datasets.labelled_files import read_labelled
from limelight.datasets.rationale_files import RationaleTexts, read_rationales

__all__ = [
    "Evaluation",
    "LabelledTexts",
    "RationaleTexts",
    "evaluate",
    "read_labelled",
    "read_rationales",
    "wilson_interval",
]
