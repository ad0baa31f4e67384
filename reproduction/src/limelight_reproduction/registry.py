"""The experiments, in the order of the paper."""

__all__ = ["EXPERIMENTS"]

from limelight_reproduction import histogram
from limelight_reproduction.deep import attention_heads, figure_6, next_checks, text_units
from limelight_reproduction.experiment import Experiment
from limelight_reproduction.images import images
from limelight_reproduction.one_layer import (
    accuracy,
    comments,
    error,
    figure_1,
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    jain_wallace,
)
from limelight_reproduction.questions import (
    controls,
    erasure,
    last_layer,
    lengths,
    multiplicity,
    refilling,
    reliability,
    repairs,
    replacements,
    seeds,
    sentence_pairs,
    summaries,
    words_or_pieces,
)

EXPERIMENTS: tuple[Experiment, ...] = (
    figure_1.EXPERIMENT,
    figure_2.EXPERIMENT,
    figure_3.EXPERIMENT,
    figure_4.EXPERIMENT,
    error.EXPERIMENT,
    figure_5.EXPERIMENT,
    comments.EXPERIMENT,
    accuracy.EXPERIMENT,
    seeds.EXPERIMENT,
    figure_6.EXPERIMENT,
    next_checks.EXPERIMENT,
    jain_wallace.EXPERIMENT,
    controls.EXPERIMENT,
    last_layer.EXPERIMENT,
    erasure.EXPERIMENT,
    summaries.EXPERIMENT,
    reliability.EXPERIMENT,
    repairs.EXPERIMENT,
    multiplicity.EXPERIMENT,
    lengths.EXPERIMENT,
    replacements.EXPERIMENT,
    refilling.EXPERIMENT,
    words_or_pieces.EXPERIMENT,
    text_units.EXPERIMENT,
    attention_heads.EXPERIMENT,
    sentence_pairs.EXPERIMENT,
    histogram.EXPERIMENT,
    images.EXPERIMENT,
)
