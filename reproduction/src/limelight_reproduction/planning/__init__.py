"""How many samples LIME needs on a text: a value, the function and the command that make it."""

__all__ = ["SamplingPlan", "plan"]

from limelight_reproduction.planning.needed_samples import plan
from limelight_reproduction.planning.sampling_plan import SamplingPlan
