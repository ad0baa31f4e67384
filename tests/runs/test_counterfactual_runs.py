"""Runs that store the counterfactual of each text."""

import json

import pytest

import limelight
from limelight import InputError

TEXTS = [
    "A superb film.",
    "The plot is predictable, but the acting is superb.",
    "Superb, a charming film with a good plot.",
    "bad awful",
    "Dull and long, but the plot is good.",
    "",
]


@pytest.fixture(scope="module")
def read_stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    data = {"text": TEXTS, "counterfactual": list("abcdef")}
    return limelight.explain_data(
        limelight.load(), data, ["loo", "lime"], output=folder, counterfactual=True, progress=False,
        workers=1,
    )  # fmt: skip


def test_a_run_stores_what_the_function_returns(read_stored):
    rows = read_stored.texts().to_pylist()
    assert len(rows) == len(TEXTS)
    results = limelight.counterfactual(limelight.load(), TEXTS[:-1])
    for row, c in zip(rows, results, strict=False):
        column = row["counterfactual"]
        names = ("size", "lower_bound", "certified_radius", "is_robust", "predicted_class_after")
        assert {name: column[name] for name in names} == {name: getattr(c, name) for name in names}
        assert column["removed"] == list(c.removed)
        assert column["removed_features"] == list(c.removed_features)
        assert column["error"] is None
    assert "no words" in rows[-1]["counterfactual"]["error"]
    assert [row["data.counterfactual"] for row in rows] == list("abcdef")


def test_sql_reads_the_fields_of_a_counterfactual(read_stored):
    query = "SELECT id FROM texts WHERE counterfactual.size = 1 ORDER BY row"
    results = limelight.counterfactual(limelight.load(), TEXTS[:-1])
    expected = [str(i) for i, c in enumerate(results) if c.size == 1]
    assert expected
    assert read_stored.sql(query)["id"].to_pylist() == expected


def test_the_summary_counts_texts_that_depend_on_a_single_word(read_stored):
    results = limelight.counterfactual(limelight.load(), TEXTS[:-1])
    summary = read_stored.summary()
    assert len(summary.decisions.records()) == 2  # one for each method
    for counts in summary.decisions.records():
        assert counts["texts"] == len(results)
        assert counts["single"] == sum(c.size == 1 for c in results)
        assert counts["robust"] == sum(c.is_robust for c in results) == 1
        assert counts["unsettled"] == 0
        assert counts["single_low"] < counts["single"] / counts["texts"] < counts["single_high"]
    sentence = f"{counts['single']} of 5 texts depend on a single word"
    assert sentence in summary.to_html()
    assert json.loads(summary.to_json())["decisions"][0]["single"] == counts["single"]


def test_a_run_continues_only_with_the_same_option(read_stored):
    data = {"text": TEXTS, "counterfactual": list("abcdef")}
    with pytest.raises(InputError, match="its counterfactual is True, not False"):
        limelight.explain_data(
            limelight.load(), data, ["loo", "lime"], output=read_stored.path, progress=False
        )


def test_a_run_without_the_option_has_no_such_column(tmp_path):
    run = limelight.explain_data(
        limelight.load(), TEXTS[:2], "loo", output=tmp_path / "run", progress=False
    )
    assert "counterfactual" not in run.texts().column_names
    assert "counterfactual" not in (tmp_path / "run" / "run.json").read_text()
    assert run.summary().decisions.records() == []


def test_the_same_run_has_the_same_bytes(read_stored, tmp_path):
    data = {"text": TEXTS, "counterfactual": list("abcdef")}
    again = limelight.explain_data(
        limelight.load(), data, ["loo", "lime"], output=tmp_path / "run", counterfactual=True,
        progress=False, workers=1,
    )  # fmt: skip
    for first, second in zip(read_stored.paths, again.paths, strict=True):
        assert first.read_bytes() == second.read_bytes()
