"""The summary of a run: what drives the model, method by method and class by class."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.data.labels import below_chance
from limelight.errors import InputError, check_count, nearest
from limelight.results import Explanation
from limelight.results.summary import (
    DifferingWord,
    MistakenText,
    Part,
    RepresentativeText,
    RunSlice,
    RunSummary,
    SummarizedView,
    SummarizedWord,
)
from limelight.runs.rows import stored_names
from limelight.runs.statistics import FEWEST, Moments, compared_words, corrected, share_of, shrunken
from limelight.runs.words import RunWords, opened_words, summarized_words
from limelight.shapes import Int
from limelight.text import unit_name

if TYPE_CHECKING:
    from limelight.runs.run import Run

_DIFFERING = 12  # words between right and wrong texts; of a slice, those that differ most
_OF_A_SLICE = 3
_STRONGEST = 5  # words of a mistake


def summarized(
    run: "Run", *, method: str | None, by: str | None, top: int, representatives: int
) -> RunSummary:
    """Return the summary of a run; ``by`` says what it is sliced by, None for no slices."""
    # Before a database is opened, which may take a while to read.
    check_count("top", top)
    check_count("representatives", representatives)
    with opened_words(run, method) as words:
        # Before the sums, which are made for each slice.
        slices = sliced(words, by)
        words.add_up(slices.numbers)
        views = tuple(_views(words, slices, top, representatives))
        notices = tuple(_notices(words))
    return RunSummary(
        name=str(run.path),
        texts=len(run),
        total=run.total,
        failed=words.failed,
        classes=run.classes,
        scale=run.scale,
        views=views,
        notices=notices,
        model=run.record.model.fingerprint,
        version=run.record.version,
        units=unit_name(run.record.question.features),
    )


def _notices(words: RunWords) -> Iterator[str]:
    run, failed = words.run, words.failed
    if not run.finished:
        yield f"The run is not finished: {len(run):,} of {run.total:,} texts are in it."
    if failed:
        rows = "1 row holds" if failed == 1 else f"{failed:,} rows hold"
        yield f"{rows} an error instead of scores and {'takes' if failed == 1 else 'take'} no part."
    # A notice names eight of them: where ids stand in the column, a million would be read for that.
    labels = words.tables.table("SELECT DISTINCT label FROM stored LIMIT 1000")["label"]
    without = " What is said about mistakes is without these texts."
    yield from run.labels.notices(labels.to_pylist(), without)
    # Each text once: methods and classes of it share one prediction.
    found = words.tables.columns("""SELECT count(*) FILTER (wrong = 0) AS right, count(*) AS texts
        FROM (SELECT any_value(wrong) AS wrong FROM rows WHERE wrong < 2 GROUP BY row)""")
    right, texts = (int(found[name][0]) for name in ("right", "texts"))
    if (doubt := below_chance(right, texts, len(run.classes))) is not None:
        yield doubt


def _views(
    words: RunWords, slices: "Slices", top: int, representatives: int
) -> Iterator[SummarizedView]:
    methods = {one.id: one for one in words.run.record.methods}
    chosen = {
        v: words.leading(v, top, signed=methods[view.method].signed)
        for v, view in words.views.items()
    }
    examples, phrases = words.examples(chosen), words.phrases()
    mistakes, picked = _mistakes(words, top), _representatives(words, representatives)
    for v, view in words.views.items():
        method, moments, sides = methods[view.method], words.moments(v), chosen[v]
        names, shown = [words.words[i] for i in sides], [examples.get((v, i), ()) for i in sides]
        both = list(
            zip(summarized_words(moments, names, list(sides), shown), sides.values(), strict=True)
        )
        compared, differing = _differing(words, v)
        yield SummarizedView(
            method=method.id,
            label=method.label,
            signed=method.signed,
            target=view.target,
            against=view.against,
            texts=int(words.outcomes(v).sum()),
            vocabulary=int((moments.texts > 0).sum()),
            supporting=tuple(one for one, side in both if side > 0),
            opposing=tuple(one for one, side in both if side < 0),
            phrases=_phrases(*phrases[v], top),
            right=_right(words.outcomes(v)),
            mistakes=tuple(mistakes[v]),
            compared=compared,
            differing=differing,
            representatives=tuple(picked[v]),
            sliced_by=slices.by,
            slices=tuple(_slices(words, slices.names, v)),
        )


def _phrases(names: list[str], moments: Moments, top: int) -> tuple[SummarizedWord, ...]:
    """Return the phrases of enough texts, the strongest first."""
    # Phrases are a population of their own: their means are not drawn towards those of words.
    size = shrunken(moments).strength
    able = np.flatnonzero((moments.texts >= FEWEST) & (size > 0))
    kept = able[np.argsort(-size[able], kind="stable")][:top].tolist()
    return summarized_words(moments, [names[i] for i in kept], kept, [()] * len(kept))


def _right(outcomes: Int[np.ndarray, "C 3"]) -> Part | None:
    # Texts without a known label are neither.
    right, wrong = (int(outcomes[:, k].sum()) for k in (0, 1))
    return share_of(right, right + wrong) if right + wrong else None


def _mistakes(words: RunWords, most: int) -> dict[int, list[MistakenText]]:
    """Return the most confident mistakes of each view."""
    # Of equal confidence the first in the data: the list is the same every time.
    found = words.tables.table(f"""SELECT n, row, view, predicted, labelled, confidence
        FROM {words.rows} WHERE wrong = 1
        QUALIFY row_number() OVER (PARTITION BY view ORDER BY confidence DESC, row) <= {most}
        ORDER BY confidence DESC, row""").to_pylist()
    classes, margin = words.run.classes, words.run.record.model.link == "none"
    stored = _stored(words, [one["n"] for one in found])
    mistakes: dict[int, list[MistakenText]] = {v: [] for v in words.views}
    for one in found:
        id, explanation = stored[one["n"]]
        wrong = classes[one["predicted"]]
        mistakes[one["view"]].append(
            MistakenText(
                row=one["row"],
                id=id,
                predicted=wrong,
                label=classes[one["labelled"]],
                confidence=one["confidence"],
                margin=margin,
                explanation=explanation,
                words=() if explanation is None else _spoke_for(explanation, wrong),
            )
        )
    return mistakes


def _representatives(words: RunWords, count: int) -> dict[int, list[RepresentativeText]]:
    """Return the texts picked for every view, in the order in which they were."""
    picked, several = words.representatives(count), words.run.record.rows_per_text
    stored = _stored(words, [n for found in picked.values() for n, _ in found])
    return {
        v: [
            RepresentativeText(
                row=n // several, id=stored[n][0], covered=covered, explanation=stored[n][1]
            )
            for n, covered in found
        ]
        for v, found in picked.items()
    }


def _stored(words: RunWords, wanted: list[int]) -> dict[int, tuple[str, Explanation | None]]:
    """Return the ids and explanations of these rows; None for one whose text is not stored."""
    n = np.array(wanted, dtype=np.int64)
    words.tables.put("asked", pa.table({"n": n, "row": n // words.run.record.rows_per_text}))
    # By the number of the text whole shards are passed over; that of the row is computed.
    query = """SELECT r.* REPLACE (named AS features)
        FROM rows r JOIN asked a ON r.row = a.row AND r.n = a.n"""
    found: dict[int, tuple[str, Explanation | None]] = {}
    for row in words.tables.table(query).to_pylist():
        text = row["text"]
        explained = None if text is None else words.run.explanation_of_row(row, text)
        found[row["n"]] = row["id"], explained
    return found


def _differing(words: RunWords, v: int) -> tuple[int, tuple[DifferingWord, ...]]:
    """Return how many words were compared between right and wrong texts, and those that differ.

    Texts of one predicted class are compared with one another, and p is corrected for all classes.
    """
    groups = [
        (name, compared_words(*(words.moments(v, predicted=c, wrong=k) for k in (0, 1))))
        for c, name in enumerate(words.run.classes)
    ]
    compared = sum(len(found.word) for _, found in groups)
    return compared, tuple(corrected(words.words, groups)[:_DIFFERING])


def _slices(words: RunWords, names: Sequence[str], v: int) -> Iterator[RunSlice]:
    """Yield the slices that have texts, each with the words that score otherwise elsewhere."""
    run, target, every, groups = words.run, words.views[v].target, words.moments(v), []
    for s, name in enumerate(names):
        here = words.moments(v, slice=s)
        # Sums are additive: what the other texts have is the rest.
        rest = Moments(*(a - b for a, b in zip(every, here, strict=True)))
        groups.append((name, compared_words(rest, here)))
    # Corrected over all slices, of which the reader sees all.
    sure = corrected(words.words, groups)
    for s, name in enumerate(names):
        outcomes = words.outcomes(v, slice=s)
        called = outcomes[run.classes.index(target)].sum() if target in run.classes else 0
        # A slice may have texts that this method could not explain.
        if texts := int(outcomes.sum()):
            yield RunSlice(
                name=name,
                texts=texts,
                target=share_of(int(called), texts),
                right=_right(outcomes),
                differing=tuple(one for one in sure if one.group == name)[:_OF_A_SLICE],
            )


_VIEW = {"method": pa.string(), "target": pa.string()}
_TEXT = {"row": pa.int64(), "id": pa.string()}
_CALLED = {"predicted": pa.string(), "label": pa.string(), "confidence": pa.float64()}
_MISTAKES = _TEXT | _CALLED | {"words": pa.list_(pa.string())}
_REPRESENTATIVES = _TEXT | {"covered": pa.float64(), "text": pa.string()}
_SLICES = (
    {"slice": pa.string(), "texts": pa.int64()}
    | {"predicted": pa.int64(), "predicted_low": pa.float64(), "predicted_high": pa.float64()}
    | {"right": pa.int64(), "labelled": pa.int64()}
    | {"right_low": pa.float64(), "right_high": pa.float64(), "differing": pa.list_(pa.string())}
)


def _table(
    words: RunWords, found: Mapping[int, Iterable[dict[str, Any]]], columns: dict[str, pa.DataType]
) -> pa.Table:
    """Return what was found of views as a table."""
    about = {v: {"method": one.method, "target": one.aim} for v, one in words.views.items()}
    rows = [about[v] | row for v, several in found.items() for row in several]
    return pa.Table.from_pylist(rows, pa.schema(_VIEW | columns))


def mistakes_of_run(run: "Run", method: str, *, most: int) -> pa.Table:
    """Return the most confident mistakes of every view."""
    check_count("most", most)
    with opened_words(run, method) as words:
        found = _mistakes(words, most)
    rows = {v: [{x: getattr(one, x) for x in _MISTAKES} for one in found[v]] for v in found}
    return _table(words, rows, _MISTAKES)


def _spoke_for(e: Explanation, wrong: str) -> tuple[str, ...]:
    """Return the words that spoke most for the wrong class, which is the predicted one.

    A method without signs does not say what they spoke for: they are those of the largest scores.
    What speaks against one of several classes speaks for no other, and there are none then.
    """
    if not e.signed:
        return tuple(word for word, _ in e.top(_STRONGEST))
    other = (e.against is None and len(e.classes or ()) == 2) or e.against == wrong
    side = 1 if e.target == wrong else -1 if other else 0
    order = np.argsort(-side * e.scores, kind="stable")[:_STRONGEST]
    return tuple(e.features[j] for j in order if side * e.scores[j] > 0)


def representatives_of_run(run: "Run", method: str, *, count: int) -> pa.Table:
    """Return the texts picked for every view, in the order in which they were."""
    check_count("count", count)
    with opened_words(run, method) as words:
        words.add_up()
        found = _representatives(words, count)
    names = [*_TEXT, "covered"]
    rows = {
        v: [
            {name: getattr(one, name) for name in names}
            | {"text": None if one.explanation is None else one.explanation.text}
            for one in several
        ]
        for v, several in found.items()
    }
    return _table(words, rows, _REPRESENTATIVES)


def slices_of_run(run: "Run", by: str, method: str) -> pa.Table:
    """Return one row per view and slice, shares with Wilson's intervals."""
    with opened_words(run, method) as words:
        slices = sliced(words, by)
        words.add_up(slices.numbers)
    return _table(
        words,
        {v: map(_slice_row, _slices(words, slices.names, v)) for v in words.views},
        _SLICES,
    )


def _slice_row(one: RunSlice) -> dict[str, Any]:
    row: dict[str, Any] = {"slice": one.name, "texts": one.texts}
    for name, part in (("predicted", one.target), ("right", one.right)):
        if part is not None:
            row |= {name: part.count, f"{name}_low": part.low, f"{name}_high": part.high}
    words = [word.word for word in one.differing]
    return row | {"labelled": one.right and one.right.of, "differing": words}


LENGTH = "length"  # how many features a text has
BUILT_IN = "built-in "  # before a name that a column of the data has too
_MOST, _RANGES = 12, 6
_MISSING, _OTHERS = "(no value)", "(others)"


class Slices(NamedTuple):
    """The names of slices, and a table that has the ``slice`` of each text or of each row."""

    by: str | None = None
    names: Sequence[str] = ()
    numbers: pa.Table | None = None


def sliced(words: RunWords, by: str | None) -> Slices:
    """Return slices by "length", "label" or a column that is carried along, or by nothing.

    A column of the data wins over "length" and "label": "built-in length" is never a column, and
    labels also have the name of their column. Arrow reads the column: its kinds of numbers and
    times say how ranges are named.
    """
    if by is None:
        return Slices()
    run = words.run
    data = run.record.data.columns
    columns: dict[str, str | None] = {LENGTH: None}
    if data.label:
        columns |= {"label": "label", data.label: "label"}
    # Under the names that they have in the data, and under those of `Run.texts` and `Run.sql`.
    stored = stored_names(data.carried)
    columns |= dict(zip(stored, stored, strict=True))
    columns |= dict(zip(data.carried, stored, strict=True))
    if columns[LENGTH] is not None:
        columns[BUILT_IN + LENGTH] = None
    if by not in columns and by != BUILT_IN + LENGTH:
        raise InputError(nearest("column to slice by", by, list(columns)))
    if (column := columns.get(by)) is None:
        table = words.tables.table(f"SELECT n, len(scores)::BIGINT AS value FROM {words.rows}")
    else:
        # Any row of a text has its column: the first is taken.
        several = run.record.rows_per_text
        parts = [
            _plain(table[column].combine_chunks()[::several]) for table in run.tables([column])
        ]
        # By the plan, not by a column: shards that are not there have no texts.
        texts = np.concatenate([run.record.texts_of(number) for number in run.shards])
        table = pa.table({"row": texts, "value": pa.chunked_array(parts)})
    names, numbers = _cut(table["value"])
    return Slices(by, names, table.set_column(1, "slice", pa.array(numbers)))


def _cut(values: pa.ChunkedArray) -> tuple[list[str], Int[np.ndarray, " n"]]:
    """Return the names of slices, and for each of the values the number of the one it is in.

    Many numbers or times are cut into ranges that have equally many of them; else each value is a
    slice, and the less frequent of many values are one together.
    """
    counted = pc.value_counts(values.drop_null())
    if pa.types.is_string(values.type) and len(counted) > _MOST:
        with contextlib.suppress(pa.ArrowInvalid):  # in csv, numbers are strings too
            return _cut(values.cast(pa.float64()))
    distinct = counted.field("values")
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal
    # Booleans and words are not ranges of anything.
    ordered = any(is_kind(values.type) for is_kind in kinds)
    edges = _edges(values) if ordered and len(distinct) > _MOST else ()
    if len(edges) > 2:
        # The names say where the cuts are, so that edges are rounded before anything is cut.
        shown = [_shown(edge, values.type) for edge in edges]
        names = [f"{a} to below {b}" for a, b in itertools.pairwise(shown)]
        names[-1] = f"{shown[-2]} to {shown[-1]}"
        place = np.searchsorted(edges, _numbers(values), side="right")
        # The largest value is in the last range, whose upper end is part of it.
        numbers = np.clip(place - 1, 0, len(edges) - 2)
    else:
        counts = np.asarray(counted.field("counts"))
        # Numbers in their order, words by how often they occur.
        order = np.argsort(_numbers(distinct) if ordered else -counts, kind="stable")
        kept = distinct.take(pa.array(order[:_MOST]))
        names = [*map(str, kept.to_pylist()), *[_OTHERS] * (len(distinct) > _MOST)]
        numbers = np.asarray(pc.index_in(values, kept).fill_null(len(kept))).astype(np.int64)
    if values.null_count:
        numbers = np.where(np.asarray(values.is_null()), len(names), numbers)
        names.append(_MISSING)
    return names, numbers


def _edges(values: pa.ChunkedArray) -> Any:
    """Return where ranges of as many values each begin and end."""
    # Infinite values have no quantiles, but must be in the first or last range.
    every = _numbers(values.drop_null())
    edges = np.unique(np.quantile(every[np.isfinite(every)], np.linspace(0, 1, _RANGES + 1)))
    # Times are shown to the second, and need no rounding.
    edges = edges if pa.types.is_temporal(values.type) else np.unique(_readable(edges))
    edges[[0, -1]] = min(edges[0], every.min()), max(edges[-1], every.max())
    return edges


def _plain(values: Any) -> Any:
    """Return a column as values that can be compared; of lists and the like, what they print."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):  # NaN is no value either
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    nested = pa.types.is_nested(values.type)
    return pa.array(map(str, values.to_pylist()), pa.string()) if nested else values


def _numbers(values: Any) -> Any:
    """Return numbers, or times as numbers in their order; NaN where there is none."""
    if pa.types.is_temporal(values.type):
        kind = values.type if pa.types.is_time(values.type) else pa.timestamp("us")
        values = values.cast(kind).cast(pa.int64())
    # Whole numbers beyond 2^53 are rounded: that is near enough for an order of slices.
    return np.asarray(values.cast(pa.float64(), safe=False).fill_null(np.nan))


def _readable(edges: Any) -> Any:
    """Return edges with as many digits as tell them from their neighbours, the outer ones outwards.

    Texts are cut where the name of a slice says, and not at the quantile that was rounded.
    """
    gaps = np.diff(edges)
    if len(edges) < 3 or not np.isfinite(gaps).all():
        return edges
    nearest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
    digits = -np.floor(np.log10(nearest / 3)).astype(int)  # a sixth of a gap moves an edge at most
    rounding: list[Any] = [np.floor, *[np.round] * (len(edges) - 2), np.ceil]
    # Rounded once more: 0.1 is no whole number of its units, and the product would show it.
    return np.array(
        [
            np.round(one(edge * 10.0**k) / 10.0**k, max(k, 0))
            for one, edge, k in zip(rounding, edges, digits.tolist(), strict=True)
        ]
    )


def _shown(edge: float, kind: pa.DataType) -> str:
    if not pa.types.is_temporal(kind) or pa.types.is_time(kind):
        return f"{edge:.12g}"
    return str(np.datetime64(int(edge), "us").astype("datetime64[s]")).replace("T00:00:00", "")
