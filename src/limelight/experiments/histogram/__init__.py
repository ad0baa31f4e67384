"""The Histogram task of the authors' talk: two solutions of one layer of attention."""

from limelight.experiments.histogram.report import EXPERIMENT

__all__ = ["EXPERIMENT"]
