"""Every text of a run as one row of a few columns: what a table of texts shows and sorts by."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from limelight.runs.sql import Database, database, entries
from limelight.shapes import Float, Int
from limelight.text import one_line

if TYPE_CHECKING:
    from limelight.runs.run import Run

OPENING = 80  # characters of a text that a row shows


class RunColumns(NamedTuple):
    """One entry per text that has an explanation, in the order of the data.

    ``row`` is the number of the text. ``predicted`` and ``label`` are numbers of classes, −1 where
    they are not known; ``said`` is the label as the data have it. ``confidence`` is that of the
    predicted class, ``words`` the number of words that have a score. ``disagreement`` is 1 less the
    rank correlation of the sizes of two methods' scores, its mean over the pairs of methods; NaN
    where there are no two. ``word`` and ``text`` are one entry per word and text: the number of the
    word in ``vocabulary`` and the place of the text in the columns above.
    """

    row: Int[np.ndarray, " n"]
    id: list[str]
    opening: list[str]
    predicted: Int[np.ndarray, " n"]
    label: Int[np.ndarray, " n"]
    said: list[str | None]
    confidence: Float[np.ndarray, " n"]
    words: Int[np.ndarray, " n"]
    disagreement: Float[np.ndarray, " n"]
    vocabulary: list[str]
    word: Int[np.ndarray, " m"]
    text: Int[np.ndarray, " m"]

    def texts_with(self, word: str) -> Int[np.ndarray, " k"]:
        """Return the places of the texts that have ``word``, in any case of letters."""
        wanted = word.casefold()
        numbers = [i for i, one in enumerate(self.vocabulary) if one.casefold() == wanted]
        return np.unique(self.text[np.isin(self.word, numbers)])


def run_columns(run: "Run", report: Callable[[float], None] = lambda _: None) -> RunColumns:
    """Return the columns of ``run``, read shard by shard; ``report`` hears how far that is."""
    known: dict[str, int] = {}
    parts, before, shards = list[dict[str, Any]](), 0, run.shards
    with database(run) as tables:
        for done, number in enumerate(shards, start=1):
            part = _of_shard(tables, run, run.record.texts_of(number), known, before)
            before += len(part["row"])
            parts.append(part)
            report(done / len(shards))
        parts = parts or [_of_shard(tables, run, range(0), known, 0)]
    lists = {"id", "opening", "said"}
    joined: dict[str, Any] = {
        name: [x for part in parts for x in part[name]]
        if name in lists
        else np.concatenate([part[name] for part in parts])
        for name in parts[0]
    }
    return RunColumns(**joined, vocabulary=list(known))


def _of_shard(
    tables: Database, run: "Run", texts: range, known: dict[str, int], before: int
) -> dict[str, Any]:
    """Return the columns of one shard; ``before`` texts come before it."""
    here = f"(SELECT * FROM rows WHERE row >= {texts.start} AND row < {texts.stop})"
    rows = tables.table(f"""SELECT n, row, id, text, label, predicted, labelled, confidence, target,
        against FROM {here} ORDER BY n""")
    words = tables.table(f"SELECT n, word, score FROM ({entries(run.record, here)}) ORDER BY entry")
    at = np.searchsorted(np.asarray(rows["n"]), np.asarray(words["n"]))
    lengths = np.bincount(at, minlength=len(rows))
    row, first = np.unique(np.asarray(rows["row"]), return_index=True)
    place = np.full(len(rows), -1)
    place[first] = np.arange(len(first))
    of_first = np.flatnonzero(place[at] >= 0)
    named = words["word"].combine_chunks().dictionary_encode()
    numbers = [known.setdefault(word, len(known)) for word in named.dictionary.to_pylist()]
    shown = rows.take(pa.array(first))
    return {
        "row": row,
        "id": shown["id"].to_pylist(),
        "opening": [one_line(text or "", OPENING) for text in shown["text"].to_pylist()],
        "predicted": np.asarray(shown["predicted"]),
        "label": np.asarray(shown["labelled"]),
        "said": shown["label"].to_pylist(),
        "confidence": np.asarray(shown["confidence"]),
        "words": lengths[first],
        "disagreement": _disagreement(rows, at, np.abs(np.asarray(words["score"])), lengths, row),
        "word": np.array(numbers, dtype=np.int64)[np.asarray(named.indices)[of_first]],
        "text": before + place[at[of_first]],
    }


def _disagreement(
    rows: pa.Table,
    at: Int[np.ndarray, " m"],
    size: Float[np.ndarray, " m"],
    lengths: Int[np.ndarray, " n"],
    texts: Int[np.ndarray, " t"],
) -> Float[np.ndarray, " t"]:
    """Return, for each text, the mean of 1 − ρ over its pairs of rows that explain one class."""
    row, ranks = np.asarray(rows["row"]), _unit_ranks(at, size, len(lengths))
    starts = np.cumsum(lengths) - lengths
    targets, others = (rows[name].to_pylist() for name in ("target", "against"))
    aims = np.array([hash(aim) for aim in zip(targets, others, strict=True)])
    total, pairs = np.zeros(len(texts)), np.zeros(len(texts))
    most = int(np.unique(row, return_counts=True)[1].max(initial=0))
    for apart in range(1, most):
        one, other = np.arange(len(lengths) - apart), np.arange(apart, len(lengths))
        same = (row[one] == row[other]) & (aims[one] == aims[other])
        same &= (lengths[one] == lengths[other]) & (lengths[one] > 1)
        one, other = one[same], other[same]
        found = _dots(ranks, starts[one], starts[other], lengths[one])
        known = np.isfinite(found)
        text = np.searchsorted(texts, row[one[known]])
        np.add.at(total, text, 1 - found[known])
        np.add.at(pairs, text, 1)
    return np.divide(total, pairs, out=np.full(len(texts), np.nan), where=pairs > 0)


def _unit_ranks(
    at: Int[np.ndarray, " m"], size: Float[np.ndarray, " m"], rows: int
) -> Float[np.ndarray, " m"]:
    """Return mean ranks within each row, centred and of length 1; NaN where all are equal."""
    order = np.lexsort((size, at))
    sorted_at, sorted_size = at[order], size[order]
    new = np.ones(len(at), bool)
    new[1:] = (sorted_at[1:] != sorted_at[:-1]) | (sorted_size[1:] != sorted_size[:-1])
    group = np.cumsum(new) - 1
    place = np.bincount(group, weights=np.arange(len(at))) / np.maximum(np.bincount(group), 1)
    ranks = np.empty(len(at))
    ranks[order] = place[group]
    count = np.maximum(np.bincount(at, minlength=rows), 1)
    ranks -= (np.bincount(at, weights=ranks, minlength=rows) / count)[at]
    norm = np.sqrt(np.bincount(at, weights=ranks**2, minlength=rows))
    with np.errstate(invalid="ignore", divide="ignore"):
        return ranks / norm[at]


def _dots(
    values: Float[np.ndarray, " m"],
    one: Int[np.ndarray, " p"],
    other: Int[np.ndarray, " p"],
    lengths: Int[np.ndarray, " p"],
) -> Float[np.ndarray, " p"]:
    """Return the products of two stretches of ``values`` for each pair."""
    if not len(one):
        return np.zeros(0)
    ends = np.cumsum(lengths)
    inside = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    product = values[np.repeat(one, lengths) + inside] * values[np.repeat(other, lengths) + inside]
    return np.add.reduceat(product, ends - lengths)
