"""Whole data sets: explained shard by shard, on one machine or many, and stored in a folder."""

from limelight.corpus.stored_run import Run

__all__ = ["Run"]
