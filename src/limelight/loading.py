"""Models by path."""

__all__ = ["load"]

import os
from functools import cache
from pathlib import Path

from limelight.model import AttentionClassifier, load_folder

SHIPPED = Path(__file__).parent / "shipped" / "imdb"


def load(path: str | os.PathLike[str] | None = None) -> AttentionClassifier:
    """Return the model in the folder ``path``, or the IMDB sentiment model of this package."""
    return _shipped() if path is None else load_folder(path)


@cache
def _shipped() -> AttentionClassifier:
    return load_folder(SHIPPED)
