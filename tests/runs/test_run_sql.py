"""A run is asked in SQL: two views, and nothing of the machine but its own shards."""

import shutil

import numpy as np
import pytest

import limelight
from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import pyarrow as pa

from limelight.runs import Run

from runs import make_run
from tiny_models import random_texts

TEXTS = [*random_texts(15, seed=5), "", "w1 w1 w2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    columns = {"stars": list(range(len(TEXTS))), "Predicted": ["it's"] * len(TEXTS)}
    labels = [i % 2 for i in range(len(TEXTS))]
    folder = tmp_path_factory.mktemp("it's a run")  # a quote is part of the path
    return make_run(folder, TEXTS, methods=("gxi", "loo"), labels=labels, columns=columns)


def test_words_have_one_row_per_text_method_and_word(run):
    rows = run.sql("SELECT row, method, word, score, occurrences FROM words ORDER BY ALL")
    assert isinstance(rows, pa.Table)
    expected = sorted(
        (row, method, word, float(score), len(spans))
        for row in range(len(TEXTS))
        if TEXTS[row]
        for method in run.methods
        for e in [run.explanation(row, method)]
        for word, score, spans in zip(e.features, e.scores, e.spans, strict=True)
    )
    assert [tuple(value.values()) for value in rows.to_pylist()] == expected
    assert (16, "loo", "w1", 2) in [(*element[:3], element[4]) for element in expected]


def test_texts_have_one_row_each_with_what_the_model_says(run):
    rows = run.sql("SELECT * FROM texts ORDER BY row").to_pylist()
    assert [row["text"] for row in rows] == TEXTS
    assert [row["stars"] for row in rows] == list(range(len(TEXTS)))
    assert {row["data.Predicted"] for row in rows} == {"it's"}
    for row in rows:
        if row["row"] == 15:
            assert "no words" in row["error"]
            assert row["predicted"] is None
            continue
        e = run.explanation(row["row"])
        odds = np.exp(list(e.prediction.values()))
        assert row["predicted"] == max(e.prediction, key=e.prediction.get)
        assert row["confidence"] == pytest.approx(odds.max() / odds.sum())


def test_columns_that_differ_by_case_only_are_two(tmp_path):
    columns = {"price": [1, 2], "Price": [3, 4], "PRICE": [5, 6]}
    run = make_run(tmp_path, ["w1 w2", "w2"], columns=columns)
    rows = run.sql('SELECT price, "data.Price", "data.data.PRICE" FROM texts ORDER BY row')
    assert [tuple(row.values()) for row in rows.to_pylist()] == [(1, 3, 5), (2, 4, 6)]


def test_the_same_query_gives_the_same_numbers_to_the_last_bit(run):
    query = "SELECT word, sum(score * score) AS size FROM words GROUP BY word ORDER BY word"
    assert run.sql(query) == run.sql(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('https://example.org/x.parquet')",
        "COPY (SELECT 1) TO 'made.csv'",
        "COPY (SELECT 1) TO '{shard}'",
        "ATTACH 'made.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 4",
        "SET enable_external_access = true",
        "CREATE TABLE made AS SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT * FROM TEXTS_OF_THIS_TEST",
        "",
    ],
)
def test_a_query_reaches_nothing_but_the_run(run, query, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TEXTS_OF_THIS_TEST = pa.table({"text": TEXTS})
    assert len(TEXTS_OF_THIS_TEST)
    before = [path.read_bytes() for path in run.paths]
    with pytest.raises(InputError) as refused:
        run.sql(query.format(shard=str(run.paths[0]).replace("'", "''")))
    message = str(refused.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert [path.read_bytes() for path in run.paths] == before
    assert not list(tmp_path.iterdir())


def test_duckdb_draws_no_bar_over_what_is_printed(run):
    # It writes on standard output, into JSON that somebody pipes, once a query takes seconds.
    rows = run.sql("SELECT current_setting('enable_progress_bar') AS bar")
    assert rows["bar"].to_pylist() == [False]


def test_a_run_without_shards_has_empty_views(run, tmp_path):
    (tmp_path / "run.json").write_bytes((run.path / "run.json").read_bytes())
    for view in ("texts", "words"):
        assert len(Run(tmp_path).sql(f"SELECT * FROM {view}")) == 0


def test_a_damaged_shard_is_named(run, tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "run.json").write_bytes((run.path / "run.json").read_bytes())
    (tmp_path / "shards" / "00000.parquet").write_bytes(b"PAR1 and nothing of use PAR1")
    for ask in (Run(tmp_path).summary, lambda: Run(tmp_path).sql("SELECT 1")):
        with pytest.raises(InputError, match=r"00000.parquet' is damaged"):
            ask()


@pytest.mark.parametrize("name", ["label=1", "target=w1", "row=0", "Method=gxi", "error=x"])
def test_the_name_of_a_folder_says_nothing_about_its_rows(tmp_path, run, name):
    folder = tmp_path / name
    shutil.copytree(run.path, folder)
    query = "SELECT row, method, target, word, score FROM words ORDER BY ALL"
    assert Run(folder).sql(query) == run.sql(query)
    labels = "SELECT row, label, error FROM texts ORDER BY row"
    assert Run(folder).sql(labels) == run.sql(labels)


def test_a_model_of_one_output_has_one_class(tmp_path):
    model = limelight.wrap(
        lambda texts: [[float(len(text))] for text in texts], classes=("score",), scale="score"
    )
    rows = limelight.explain_data(model, {"text": ["a b", "b c c"]}, "loo", output=tmp_path)
    assert rows.sql("SELECT DISTINCT predicted FROM texts")["predicted"].to_pylist() == ["score"]
    assert rows.summary().texts == 2


@pytest.mark.parametrize("query", [None, 5, b"SELECT 1", ["SELECT 1"], "SELECT '\ud800'", "", "\0"])
def test_sql_that_is_no_query_is_an_error(run, query):
    with pytest.raises(InputError):
        run.sql(query)
