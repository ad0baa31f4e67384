"""What ``explain`` and ``compare`` take by name."""

__all__ = ["Keywords", "Question"]

from collections.abc import Collection, Sequence
from typing import TypedDict

from limelight.explainers.budget import BudgetGiven
from limelight.explainers.progress import Progress
from limelight.explainers.settings import Settings


class Question(TypedDict, total=False):
    """What is asked about a text, whatever the method."""

    features: str | Sequence[int]
    scale: str
    protect: Collection[str]
    side: str | None
    window: str | int | None
    budget: BudgetGiven | None
    progress: Progress | None


class Keywords(Question, Settings, total=False):
    """What may be given by name: the question, and settings of the methods."""
