"""Whole data sets: explained shard by shard, on one machine or many, and stored in a folder."""

from limelight.corpus.ray_actors import RayActors
from limelight.corpus.run_estimate import Estimate
from limelight.corpus.run_progress import RunProgress
from limelight.corpus.running import explain_data
from limelight.corpus.stored_run import Run

__all__ = ["Estimate", "RayActors", "Run", "RunProgress", "explain_data"]
