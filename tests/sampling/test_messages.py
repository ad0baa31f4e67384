"""Wrong calls of sampling, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
import math

import numpy as np
import pytest

from limelight.errors import InputError
from limelight.sampling.conformal import conformal_threshold
from limelight.sampling.masks import removed_count_probabilities
from limelight.sampling.regression import select_features
from limelight.sampling.sample import Sample, make_lime_sampler
from messages import wrong_calls
from shape_checks import no_type_checks


def draw_sample(outputs, d=4, count=4):
    """Return a sample of a game with these outputs for all masks except the complete text."""
    sample = Sample(
        lambda keep: np.zeros((1, 1)) if len(keep) == 1 else outputs,
        make_lime_sampler(d),
        np.random.default_rng(0),
        d=d,
        row0=True,
    )
    sample.grow(count)
    return sample


INPUT_ERRORS = {
    "conformal_threshold([1.0], 0)": "alpha must be between 0 and 1, not 0",
    "conformal_threshold([1.0], 1)": "alpha must be between 0 and 1, not 1",
    "conformal_threshold([1.0], math.nan)": "alpha must be between 0 and 1, not nan",
    "conformal_threshold([1.0], '5 %')": "alpha must be a number",
    "conformal_threshold([1.0, math.nan], 0.5)": "a list of finite numbers",
    "conformal_threshold([[1.0], [2.0]], 0.5)": "a list of finite numbers",
    "conformal_threshold(['a'], 0.5)": "a list of numbers",
    "conformal_threshold([], 0.05)": (
        "needs at least 19 benign scores, not 0. Add benign conversations"
    ),
    "make_lime_sampler(3, bandwidth=0.0)": r"bandwidth must be positive, not 0\.0\.",
    "removed_count_probabilities(3, 'unifrm', 0.25)": (
        r"unknown sizes: 'unifrm'\. Did you mean 'uniform'"
    ),
    "select_features(draw_sample(np.zeros((3, 1))).moments.center(), 0, count=2, method='lasso')": (
        r"unknown feature_selection: 'lasso'\. Choose from: auto, forw"
    ),
    "draw_sample(np.zeros((1, 1)))": r"3 rows of numbers for 3 masks, not the shape \(1, 1\)\.",
    "draw_sample(np.zeros(3))": r"3 rows of numbers for 3 masks, not the shape \(3,\)\.",
    "draw_sample(np.array([[0.0], [np.nan], [np.inf]]))": (
        r"finite numbers, not 2 infinite or NaN of 3\."
    ),
}


@wrong_calls({InputError: INPUT_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    with no_type_checks(), pytest.raises(error, match=message):
        eval(call)
