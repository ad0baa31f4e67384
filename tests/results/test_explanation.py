import json

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from limelight.results import (
    Anchor,
    Comparison,
    Explanation,
    Pairs,
    measure_agreement,
    rank_correlation,
)
from limelight.results import codec as written
from limelight.results.explanation import FEATURE_COLUMNS, explanations_csv

from schema_files import schema_file


def explanation(scores=(0.5, -0.25, 0.0), method="lime", **changes):
    features = tuple(f"word{j}" for j in range(len(scores)))
    text = " ".join(features)
    starts = [text.index(feature) for feature in features]
    fields = {
        "text": text,
        "features": features,
        "spans": tuple(((s, s + len(f)),) for s, f in zip(starts, features, strict=True)),
        "scores": np.array(scores),
        "method": method,
        "target": "positive",
        "prediction": {"positive": 1.25},
        "classes": ("negative", "positive"),
    }
    return Explanation(**(fields | changes))


def test_pairs_and_anchors_survive_json():
    e = explanation(
        pairs=Pairs(features=np.array([[0, 2]]), scores=np.array([0.5])),
        anchor=Anchor(features=(1,), precision=0.97, precision_interval=(0.9, 0.99), coverage=0.5),
    )
    again = Explanation.from_json(e.to_json())
    np.testing.assert_array_equal(again.pairs.features, [[0, 2]])
    assert again.anchor.precision_interval == (0.9, 0.99)


@pytest.mark.parametrize(
    ("name", "record"),
    [("explanation", written.ExplanationRecord), ("comparison", written.ComparisonRecord)],
)
def test_the_shipped_schema_is_the_one_that_is_read(name, record):
    assert (written.SCHEMAS / f"{name}.schema.json").read_bytes() == schema_file(record)


def test_what_is_written_is_valid_under_the_schema():
    e = explanation()
    c = Comparison(explanations=(e, explanation((1.0, 2.0, 3.0), "gxi")))
    for value, name in ((e, "explanation"), (c, "comparison")):
        schema = json.loads((written.SCHEMAS / f"{name}.schema.json").read_text())
        jsonschema.validate(json.loads(value.to_json()), schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(value.to_json()) | {"schema": "other/1"}, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(value.to_json()) | {"unknown": 1}, schema)


def test_an_explanation_is_frozen_and_leaves_the_callers_array_alone():
    scores = np.array([1.0, 2.0, 3.0])
    e = explanation(scores)
    with pytest.raises(ValueError, match="read-only"):
        e.scores[0] = 9
    with pytest.raises(TypeError):
        e.settings["a"] = 1
    scores[0] = 5
    assert e.scores[0] == 1


def test_the_strongest_come_first():
    e = explanation((0.5, -0.75, 0.0))
    assert e.top(1) == [("word1", -0.75)]
    assert e.as_list() == [("word1", -0.75), ("word0", 0.5), ("word2", 0.0)]
    assert e.as_map() == {1: [(1, -0.75), (0, 0.5), (2, 0.0)]}


def test_a_frame_and_csv_have_one_row_per_feature():
    e = explanation()
    frame = e.to_frame()
    assert list(frame.columns) == list(FEATURE_COLUMNS)
    assert len(frame) == 3
    lines = "".join(explanations_csv([(4, e)])).splitlines()
    assert lines[0] == ",".join(FEATURE_COLUMNS)
    assert lines[1] == "4,lime,positive,word0,0.5,,,0:5,"


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=9))
def test_rank_correlation_is_spearmans(pairs):
    x, y = np.array(pairs, dtype=float).T
    ours = rank_correlation(x, y)
    if ours is None:
        assert len(set(x)) == 1 or len(set(y)) == 1
    else:
        assert np.isclose(ours, spearmanr(x, y).statistic)


def test_agreement_counts_what_it_says():
    lime = explanation((0.5, -0.4, 0.1, 0.2))
    gxi = explanation((0.6, 0.3, -0.1, 0.2), "gxi")
    flat = explanation((1.0, 1.0, 1.0, 1.0), "alpha-avg", signed=False)
    a = Comparison(explanations=(lime, gxi, flat)).agreement
    assert a.methods == ("lime", "gxi", "alpha-avg")
    assert a.sign_conflicts == ((0, 2, None), (2, 0, None), (None, None, None))
    assert a.top3_overlap[0][1] == 3
    assert a.rank_correlation[0][2] is None
    assert a.rank_correlation[0][0] == 1


def test_a_score_of_zero_has_no_sign_to_conflict_with():
    value, other = explanation((0.0, 1.0, 2.0)), explanation((1.0, 2.0, -1.0), "gxi")
    assert measure_agreement([value, other]).sign_conflicts == ((0, 1), (1, 0))
