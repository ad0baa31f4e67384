"""The experiments, in the order of the paper."""

__all__ = ["EXPERIMENTS"]

from limelight.experiments.deep import figure_6, next_checks
from limelight.experiments.experiment import Experiment
from limelight.experiments.one_layer import error, figure_4

EXPERIMENTS: tuple[Experiment, ...] = (
    figure_4.EXPERIMENT,
    error.EXPERIMENT,
    figure_6.EXPERIMENT,
    next_checks.EXPERIMENT,
)
