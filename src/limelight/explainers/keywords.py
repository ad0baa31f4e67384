"""What ``explain`` and ``compare`` take by name."""

__all__ = ["Keywords"]

from collections.abc import Collection, Sequence

from limelight.explainers.budget import BudgetGiven
from limelight.explainers.progress import Progress
from limelight.explainers.settings import Settings


class Keywords(Settings, total=False):
    """What may be given by name: what is asked about a text, and settings of the methods."""

    features: str | Sequence[int]
    scale: str
    protect: Collection[str]
    side: str | None
    window: str | int | None
    budget: BudgetGiven | None
    progress: Progress | None
