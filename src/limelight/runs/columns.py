"""The texts of a run as a table of sortable columns, one row per text."""

import itertools
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from limelight.results.comparison import centered_ranks, correlation
from limelight.runs.sql import Database, entries_sql, open_database, sql_literal
from limelight.shapes import Float, Int
from limelight.text import truncate_line

if TYPE_CHECKING:
    from limelight.runs.run import Run

OPENING = 80  # characters of a text that a row shows


def find_texts(run: "Run", word: str) -> Int[np.ndarray, " k"]:
    """Return the numbers of the texts that contain ``word``, ignoring case."""
    lowercase_words = "list_transform(named, lambda word: lower(word))"
    with open_database(run) as tables:
        columns = tables.columns(f"""SELECT DISTINCT row FROM rows
            WHERE list_contains({lowercase_words}, lower({sql_literal(word)})) ORDER BY row""")
    rows: Int[np.ndarray, " k"] = columns["row"]
    return rows


def text_columns(run: "Run", report: Callable[[float], None] = lambda _: None) -> pa.Table:
    """Return one row per text that has an explanation, in the order of the data.

    ``row`` is the number of the text. ``predicted`` and ``label`` are numbers of classes, −1 where
    they are not known; ``label_text`` is the label as the data have it. ``confidence`` is that of
    the predicted class, ``words`` the number of words that have a score. ``disagreement`` is 1 less
    the rank correlation of the sizes of two methods' scores, its mean over the pairs of methods;
    NaN where there are no two. Shards are read one by one, and ``report`` is called with the share
    that is done.
    """
    # By shard: entries of a million texts, sorted at once, would not fit into memory.
    shards = run.shards
    with open_database(run) as tables:
        # Of no shard, too, there are columns: empty ones, of the right types.
        parts = [_shard_columns(tables, run, range(0))]
        for count, shard in enumerate(shards, start=1):
            parts.append(_shard_columns(tables, run, run.record.text_numbers(shard)))
            report(count / len(shards))
    return pa.concat_tables(parts)


def _shard_columns(tables: Database, run: "Run", texts: range) -> pa.Table:
    """Return the columns of one shard."""
    stored = f"(SELECT * FROM rows WHERE row >= {texts.start} AND row < {texts.stop})"
    rows = tables.table(f"""SELECT n, row, id, text, query, label, predicted, labeled, confidence,
        target, against FROM {stored} ORDER BY n""")
    words = tables.table(f"SELECT n, score FROM ({entries_sql(run.record, stored)}) ORDER BY entry")
    # Both tables are in the order of n.
    row_of_word = np.searchsorted(np.asarray(rows["n"]), np.asarray(words["n"]))
    lengths, sizes = (
        np.bincount(row_of_word, minlength=len(rows)),
        np.abs(np.asarray(words["score"])),
    )
    # Once for each row, which is compared with those of all other methods.
    ranks = [centered_ranks(size) for size in np.split(sizes, np.cumsum(lengths))[:-1]]
    # The first row of each text stands for it: that of the first method and class.
    row, first = np.unique(np.asarray(rows["row"]), return_index=True)
    first_rows = rows.take(pa.array(first))
    texts_and_queries = zip(
        first_rows["text"].to_pylist(), first_rows["query"].to_pylist(), strict=True
    )
    openings = [
        truncate_line(_opening_text(text or "", query), OPENING)
        for text, query in texts_and_queries
    ]
    return pa.table(
        {
            "row": row,
            "id": first_rows["id"],
            "opening": pa.array(openings, pa.string()),
            "predicted": first_rows["predicted"],
            "label": first_rows["labeled"],
            "label_text": first_rows["label"],
            "confidence": first_rows["confidence"],
            "words": lengths[first],
            "disagreement": _disagreement(rows, ranks, row),
        }
    )


def _opening_text(text: str, query: str | None) -> str:
    """Return the question of a chat, because all prompts may begin with the same words."""
    if not query or '"question"' not in query:
        return text
    try:
        values = json.loads(query)
    except ValueError:  # of a shard that another program wrote
        return text
    question = values.get("question") if isinstance(values, dict) else None
    return question if isinstance(question, str) else text


def _disagreement(
    rows: pa.Table, ranks: Sequence[Float[np.ndarray, " _"]], texts: Int[np.ndarray, " t"]
) -> Float[np.ndarray, " t"]:
    """Compute for each text the mean of 1 − ρ over pairs of methods that explain the same class."""
    distances: dict[int, list[float]] = {text: [] for text in texts.tolist()}
    rankings: dict[tuple[Any, ...], list[Float[np.ndarray, " _"]]] = {}
    key_columns = (rows[name].to_pylist() for name in ("row", "target", "against"))
    for key, rank in zip(zip(*key_columns, strict=True), ranks, strict=True):
        rankings.setdefault(key, []).append(rank)
    for (text, *_), row_rankings in rankings.items():
        for ranks_a, ranks_b in itertools.combinations(row_rankings, 2):
            # Methods may have features of their own, and then there is nothing to correlate.
            if len(ranks_a) == len(ranks_b) and (rho := correlation(ranks_a, ranks_b)) is not None:
                distances[text].append(1 - rho)
    means = [
        np.mean(text_distances) if text_distances else np.nan
        for text_distances in distances.values()
    ]
    return np.array(means, dtype=np.float64)
