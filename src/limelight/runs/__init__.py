"""Whole data sets: explained shard by shard, on one machine or many, and stored in a folder."""

from limelight.runs.estimate import Estimate, RunProgress
from limelight.runs.ray_actors import RayActors
from limelight.runs.run import Run
from limelight.runs.verb import explain_data

__all__ = ["Estimate", "RayActors", "Run", "RunProgress", "explain_data"]
