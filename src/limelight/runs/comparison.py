r"""Two runs side by side: texts are matched by hash, and differences are paired by text.

For a text that both runs explain, :math:`a_j` and :math:`b_j` are the scores of word j. A word's
difference is the mean of :math:`b_j - a_j` over the texts in which both have the word, with the
interval and the test of a mean (Student's t), corrected by Holm. A text's change is
:math:`\sum_j |b_j - a_j| / \sum_j (|a_j| + |b_j|)` over the words of either: 0 where nothing
changed, 1 where every word changed sign or is in one of them only.

Scores of two methods have no common unit: between methods, :math:`a_j` stands for
:math:`a_j / \sum_k |a_k|` of its text.
"""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from limelight.errors import InputError, unknown_name_message
from limelight.results.summary import COMPARISON_COLUMNS, RunComparison, build_table
from limelight.runs.sql import Database, entries_sql, open_database, sql_literal
from limelight.runs.statistics import (
    WordMoments,
    compare_paired_words,
    differing_words,
    share_interval,
)
from limelight.text import feature_kind

if TYPE_CHECKING:
    from limelight.runs.run import Run

# Texts are the same where their hashes are, and the places of them that are asked about; of several
# in the second run its first counts.
_KEYS = """CREATE TEMP TABLE {}_keys AS
    SELECT row, any_value(text_hash) || coalesce(max(query), '') AS key
    FROM {}.stored GROUP BY row"""
_MATCHED = """CREATE TEMP TABLE matched AS SELECT a.row, b.row AS other_row FROM main_keys a
    JOIN (SELECT key, min(row) AS row FROM second_keys GROUP BY key) b USING (key)"""
_MATCHED_COUNT = """SELECT count(DISTINCT row) AS texts FROM {}.rows
    SEMI JOIN (FROM {}_keys SEMI JOIN {}_keys USING (key)) USING (row) WHERE method = {}"""
_PAIRS = """CREATE TEMP TABLE pairs AS
    SELECT a.n, b.n AS other_n, a.row, m.other_row, a.id, a.target, a.predicted,
        b.predicted AS other_predicted
    FROM rows a JOIN matched m ON a.row = m.row
    JOIN second.rows b ON b.row = m.other_row AND a.target = b.target
        AND a.against IS NOT DISTINCT FROM b.against
    WHERE a.method = {} AND b.method = {}"""
_JOINED = """CREATE TEMP TABLE joined AS
    SELECT n, word, coalesce(a.score, 0) AS a, coalesce(b.score, 0) AS b, a.entry,
        a.score IS NOT NULL AND b.score IS NOT NULL AS shared
    FROM ({}) a FULL JOIN ({}) b USING (n, word)"""
_CHANGED = """SELECT p.* EXCLUDE (n, other_n, predicted, other_predicted), gap / whole AS change,
        {}[predicted + 1] AS predicted, {}[other_predicted + 1] AS other_predicted
    FROM pairs p JOIN (
        SELECT n, sum(abs(b - a)) AS gap, sum(abs(a) + abs(b)) AS whole FROM joined GROUP BY n)
    USING (n)
    WHERE gap > 0 ORDER BY change DESC, row, n LIMIT {}"""


def compare_runs(
    first: "Run", second: "Run", method: str, other_method: str | None, *, top: int = 20
) -> RunComparison:
    """Compare the explanations of two runs.

    Parameters
    ----------
    first, second
        The runs, over the same features.
    method, other_method
        The method of each; without ``other_method`` the same, or the first of the second run.
    top
        How many words and texts are in the tables at most.

    Returns
    -------
    The words and the texts that changed most.

    Raises
    ------
    InputError
        If the runs have no explanations in common, or cannot be compared.
    """
    # The same method if it can be, for scores of two methods can be compared as shares only.
    second_method = other_method or (method if method in second.methods else second.methods[0])
    for run, name in ((first, method), (second, second_method)):
        if name not in run.methods:
            raise InputError(unknown_name_message(f"method of '{run.path}'", name, run.methods))
    (first_unit, first_splitter), (second_unit, other) = (
        (feature_kind(run.record.request.features), run.record.splitter) for run in (first, second)
    )
    # The fingerprint tells a splitter from another splitter of the same name.
    if (first_unit, first_splitter) != (second_unit, other):
        splitter = " of another splitter" if first_unit == second_unit else ""
        raise InputError(
            f"'{first.path}' explains {first_unit}, but '{second.path}' explains "
            f"{second_unit}{splitter}. Compare runs with the same features."
        )
    first_settings, second_settings = (run.record.generation or {} for run in (first, second))
    # Of settings that one model alone has, nothing can be said.
    for name in first_settings.keys() & second_settings.keys():
        if (first_value := first_settings[name]) != (second_value := second_settings[name]):
            raise InputError(
                f"the answers of '{first.path}' were generated with {name}={first_value!r}, but "
                f"of '{second.path}' with {second_value!r}. Compare runs with the same settings."
            )
    # Scores on two scales have no common unit either.
    shares = method != second_method or first.scale != second.scale
    with open_database(first, second=second) as tables:
        for name in ("main", "second"):
            tables.execute(_KEYS.format(name, name))
        tables.execute(_MATCHED)
        tables.execute(_PAIRS.format(sql_literal(method), sql_literal(second_method)))
        pairs = tables.columns("SELECT row, predicted, other_predicted FROM pairs")
        if not len(pairs["row"]):
            raise InputError(
                f"'{first.path}' and '{second.path}' have no text in common that both explain for "
                "the same class."
            )
        sides = ("main", "second", method), ("second", "main", second_method)
        # From either side: a text may be in one run twice.
        matched_counts = [
            int(
                tables.columns(_MATCHED_COUNT.format(schema, schema, other, sql_literal(name)))[
                    "texts"
                ][0]
            )
            for schema, other, name in sides
        ]
        tables.execute(
            _JOINED.format(
                _score_query(first, "rows", "n", shares),
                _score_query(second, "second.rows", "other_n", shares),
            )
        )
        tests, words = _test_words(tables)
        names = (f"({sql_literal(run.classes)}::VARCHAR[])" for run in (first, second))
        changed = tables.table(_CHANGED.format(*names, top)).to_pylist()
    # By name: two models may have their classes in other orders.
    predictions = [
        np.array(run.classes)[pairs[name]]
        for run, name in ((first, "predicted"), (second, "other_predicted"))
    ]
    texts, changes = len(pairs["row"]), int((predictions[0] != predictions[1]).sum())
    low, high = share_interval(changes, texts)
    differing = differing_words(words, tests).slice(0, top).to_pylist()
    rows = [word | {"target": word["group"], "texts": word["first_texts"]} for word in differing]
    return RunComparison(
        first=str(first.path),
        second=str(second.path),
        methods=(method, second_method),
        texts=texts,
        only_first=len(first) - matched_counts[0],
        only_second=len(second) - matched_counts[1],
        shares=shares,
        compared=sum(len(test) for _, test in tests),
        changed_predictions=changes,
        changed_low=low,
        changed_high=high,
        words=build_table(COMPARISON_COLUMNS["words"], rows),
        changed_texts=build_table(COMPARISON_COLUMNS["changed_texts"], changed),
        feature_kind=feature_kind(first.record.request.features),
    )


def _score_query(run: "Run", rows: str, n: str, shares: bool) -> str:
    """Return SQL for the word scores in texts of both runs, by row number of the first run."""
    word_entries = entries_sql(
        run.record, f"(SELECT r.* FROM {rows} r SEMI JOIN pairs p ON r.n = p.{n})"
    )
    divisor, size_join = "1", ""
    if shares:
        divisor = "CASE WHEN size > 0 THEN size ELSE 1 END"
        size_join = f"""JOIN (SELECT n, sum(abs(score)) AS size FROM ({word_entries})
            GROUP BY n) s ON e.n = s.n"""
    return f"""SELECT p.n, word, score / {divisor} AS score, entry
        FROM ({word_entries}) e JOIN pairs p ON e.n = p.{n} {size_join}"""


def _test_words(tables: Database) -> tuple[list[tuple[str, pa.Table]], list[str]]:
    """Return the paired tests of each explained class, and the words that they number."""
    # The squares of gaps, too: a paired test needs their spread, which the two sides do not give.
    sums = [
        f"sum({x}) AS {name}_total, sum({x} * {x}) AS {name}_square"
        for name, x in (("first", "a"), ("second", "b"), ("gap", "(b - a)"))
    ]
    columns = tables.columns(f"""SELECT target, word, count(*)::DOUBLE AS texts, {", ".join(sums)}
        FROM joined JOIN pairs USING (n) WHERE shared
        GROUP BY target, word ORDER BY min(entry)""")
    tests = []
    for target in dict.fromkeys(columns["target"].tolist()):
        # Words of other classes have no texts here, and are not compared.
        texts = columns["texts"] * (columns["target"] == target)
        zeros = [np.zeros(len(texts))] * 3
        moments = (
            WordMoments(texts, columns[f"{name}_total"], columns[f"{name}_square"], *zeros)
            for name in ("first", "second", "gap")
        )
        tests.append((target, compare_paired_words(*moments)))
    return tests, columns["word"].tolist()
