"""Whole data sets: explained shard by shard, on one machine or many, and stored in a folder."""

from limelight.progress import Estimate, RunProgress
from limelight.runs.engines import RayActors
from limelight.runs.job import explain_data
from limelight.runs.run import Run

__all__ = ["Estimate", "RayActors", "Run", "RunProgress", "explain_data"]
