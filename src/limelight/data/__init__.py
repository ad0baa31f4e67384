"""Labeled and marked texts: reading them, fetching them, measuring a model on them. No torch."""

from limelight.data.columns import LabeledRows, read_rows, read_texts
from limelight.data.evaluation import Evaluation, evaluate
from limelight.data.labeled import LabeledTexts, read_labeled
from limelight.data.labels import wilson_interval
from limelight.data.rationales import RationaleTexts, read_rationales

__all__ = [
    "Evaluation", "LabeledRows", "LabeledTexts", "RationaleTexts", "evaluate", "read_labeled",
    "read_rationales", "read_rows", "read_texts", "wilson_interval",
]  # fmt: skip
