"""The core install has no SciPy: 110 MB for one quantile."""

import importlib
import sys

import numpy as np
import pytest

from limelight.errors import MissingExtraError
from limelight.explainers.attention import maximum_flows
from limelight.sampling.anchors import clopper_pearson_interval

LAYERS = np.full((2, 3, 3), 1 / 3)


@pytest.fixture
def no_scipy(monkeypatch):
    for name in [*sys.modules, "scipy", "scipy.sparse", "scipy.sparse.csgraph", "scipy.special"]:
        if name.partition(".")[0] == "scipy":
            monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_scipy")
def test_confidence_limits_of_a_proportion_need_no_scipy():
    with pytest.raises(ImportError):
        importlib.import_module("scipy.special")
    low, high = clopper_pearson_interval(3, 9, delta=0.1)
    assert 0 < low < 3 / 9 < high < 1


@pytest.mark.usefixtures("no_scipy")
def test_attention_flow_says_in_one_sentence_what_to_install():
    with pytest.raises(MissingExtraError, match="attention flow needs scipy."):
        maximum_flows(LAYERS, np.eye(3)[0])


def test_attention_flow_is_computed_where_scipy_is():
    assert maximum_flows(LAYERS, np.eye(3)[0]) == pytest.approx([1.0] * 3, abs=1e-5)
