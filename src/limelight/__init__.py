"""Explains attention-based text classifiers, and says how far each number can be trusted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limelight.adapters import BlackBox, wrap
    from limelight.errors import DomainError, InputError
    from limelight.explainers import compare, explain
    from limelight.explanation import Comparison, Explanation
    from limelight.loading import load
    from limelight.model import AttentionClassifier, save_folder

__version__ = "0.1.0"

# Public names and where they live; each is imported when it is first used.
_HOME = {
    "AttentionClassifier": "limelight.model",
    "BlackBox": "limelight.adapters",
    "Comparison": "limelight.explanation",
    "DomainError": "limelight.errors",
    "Explanation": "limelight.explanation",
    "InputError": "limelight.errors",
    "compare": "limelight.explainers",
    "explain": "limelight.explainers",
    "load": "limelight.loading",
    "save_folder": "limelight.model",
    "wrap": "limelight.adapters",
}
__all__ = [  # noqa: RUF022  (the verbs first)
    "load",
    "wrap",
    "explain",
    "compare",
    "Explanation",
    "Comparison",
    "AttentionClassifier",
    "BlackBox",
    "save_folder",
    "InputError",
    "DomainError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'limelight' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
