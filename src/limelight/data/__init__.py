"""Labelled and marked texts: reading them, fetching them, measuring a model on them. No torch."""

from limelight.data.columns import LabelledRows, read_rows, read_texts
from limelight.data.evaluation import Evaluation, evaluate
from limelight.data.labelled import LabelledTexts, read_labelled
from limelight.data.labels import wilson_interval
from limelight.data.rationales import RationaleTexts, read_rationales

__all__ = [
    "Evaluation", "LabelledRows", "LabelledTexts", "RationaleTexts", "evaluate", "read_labelled",
    "read_rationales", "read_rows", "read_texts", "wilson_interval",
]  # fmt: skip
