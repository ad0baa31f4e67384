"""The number of samples that LIME needs on a text: function, result and command."""

__all__ = ["SamplingPlan", "plan"]

from limelight_reproduction.planning.needed_samples import plan
from limelight_reproduction.planning.sampling_plan import SamplingPlan
