"""Which explanation may be trusted on a model: faithfulness between chance and ceiling."""

from limelight.judging.verb import judge
from limelight.results.judgement import Judgement

__all__ = ["Judgement", "judge"]
