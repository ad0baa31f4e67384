"""`AttentionClassifier`: its weights, tables, games and folder format."""

from limelight.models.attention.classifier import AttentionClassifier
from limelight.models.attention.folder import load_folder, save_folder
from limelight.models.attention.inputs import encode_text, padded_ids
from limelight.models.attention.patches import PatchClassifier
from limelight.models.attention.tables import Tables

__all__ = [
    "AttentionClassifier",
    "PatchClassifier",
    "Tables",
    "encode_text",
    "load_folder",
    "padded_ids",
    "save_folder",
]  # fmt: skip
