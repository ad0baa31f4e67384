"""The paper's attention classifier: frozen arrays, collapsed tables, games, folder format."""

from limelight.models.attention.classifier import AttentionClassifier
from limelight.models.attention.folder import load_folder, save_folder
from limelight.models.attention.inputs import padded_ids, read_document
from limelight.models.attention.patches import PatchClassifier
from limelight.models.attention.tables import Tables

__all__ = [
    "AttentionClassifier", "PatchClassifier", "Tables", "load_folder", "padded_ids",
    "read_document", "save_folder",
]  # fmt: skip
