"""The attention classifier: frozen arrays, collapsed tables, folder format."""

from limelight.model.classifier import AttentionClassifier, class_probabilities
from limelight.model.folder import load_folder, save_folder
from limelight.model.tables import Directions, Tables

__all__ = [
    "AttentionClassifier",
    "Directions",
    "Tables",
    "class_probabilities",
    "load_folder",
    "save_folder",
]
