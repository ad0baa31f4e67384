"""`AttentionClassifier`: its weights, tables, games and folder format."""

from typing import TYPE_CHECKING, Any

from limelight.models.attention.classifier import AttentionClassifier
from limelight.models.attention.folder import load_folder, save_folder
from limelight.models.attention.inputs import encode_text, padded_ids
from limelight.models.attention.tables import Tables

if TYPE_CHECKING:
    from limelight.models.attention.patches import PatchClassifier

__all__ = [
    "AttentionClassifier",
    "PatchClassifier",
    "Tables",
    "encode_text",
    "load_folder",
    "padded_ids",
    "save_folder",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Models of texts, such as the shipped one, do not need the module of images.
    if name == "PatchClassifier":
        from limelight.models.attention.patches import PatchClassifier

        return PatchClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
