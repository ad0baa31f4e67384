"""The Histogram task of the authors' talk: two solutions of one layer of attention."""

from limelight_reproduction.histogram.solutions import EXPERIMENT

__all__ = ["EXPERIMENT"]
