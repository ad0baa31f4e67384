"""Which explanation may be trusted on a model: faithfulness between chance and ceiling."""

from limelight.judging.judge_methods import judge
from limelight.results.judgment import Judgment

__all__ = ["Judgment", "judge"]
