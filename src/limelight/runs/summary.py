"""The summary of a run: what drives the model, method by method and class by class."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.data.labels import below_chance
from limelight.errors import InputError, nearest
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
from limelight.runs.rows import explanation_of, stored_names
from limelight.runs.sql import database, literal
from limelight.runs.statistics import FEWEST, Moments, compared_words, corrected, share_of, shrunken
from limelight.runs.words import RunWords, summarized_words
from limelight.shapes import Int
from limelight.text import unit_name

if TYPE_CHECKING:
    from limelight.runs.run import Run

_DIFFERING = 12  # words between right and wrong texts; of a slice, those that differ most
_OF_A_SLICE = 3
_STRONGEST = 5  # words of a mistake
_Stored = Mapping[int, tuple[str, Explanation | None]]


def summarized(
    run: "Run", *, method: str | None, by: str | None, top: int, representatives: int
) -> RunSummary:
    """Return the summary of a run; ``by`` says what it is sliced by, None for no slices."""
    _check_count("top", top)
    _check_count("representatives", representatives)
    with _words(run, method) as words:
        failed = _failed(words, method)
        slices, numbers = (None, None) if by is None else sliced(words, by)
        words.add_up(numbers)
        views = _views(words, slices, top, representatives)
        notices = tuple(_notices(words, failed))
    return RunSummary(
        name=str(run.path),
        texts=len(run),
        total=run.total,
        failed=failed,
        classes=run.classes,
        scale=run.record.question.scale,
        views=views,
        notices=notices,
        model=run.record.model.fingerprint,
        version=run.record.version,
        units=unit_name(run.record.question.features),
    )


@contextlib.contextmanager
def _words(run: "Run", method: str | None) -> Iterator[RunWords]:
    """Open the words of a run, whose sums are not made yet; refuse one without any."""
    with database(run) as tables:
        words = RunWords(tables, run, method)
        if not words.views:
            why = _why_none(run, _failed(words, method))
            raise InputError(f"'{run.path}' holds no explanations: {why}")
        yield words


def _check_count(name: str, given: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InputError(f"{name} must be a whole number from 1; got {given!r}.")


def _failed(words: RunWords, method: str | None) -> int:
    only = "" if method is None else f"AND method = {literal(method)}"
    query = f"SELECT count(*) AS rows FROM stored WHERE error IS NOT NULL {only}"
    return int(words.tables.columns(query)["rows"][0])


def _why_none(run: "Run", failed: int) -> str:
    if not run.shards:
        return "no shard is finished yet; start the run again."
    return f"all {failed:,} rows failed; see Run.errors()." if failed else "it is empty."


def _notices(words: RunWords, failed: int) -> Iterable[str]:
    run = words.run
    if not run.finished:
        yield f"The run is not finished: {len(run):,} of {run.total:,} texts are in it."
    if failed:
        rows = f"{failed:,} row{'s' * (failed > 1)}"
        yield f"{rows} hold an error instead of scores and take no part."
    labels = words.tables.table("SELECT DISTINCT label FROM stored LIMIT 1000")["label"]
    without = " What is said about mistakes is without these texts."
    yield from run.labels.notices(labels.to_pylist(), without)
    found = words.tables.columns("""SELECT count(*) FILTER (wrong = 0) AS right, count(*) AS texts
        FROM (SELECT any_value(wrong) AS wrong FROM rows WHERE wrong < 2 GROUP BY row)""")
    right, texts = (int(found[name][0]) for name in ("right", "texts"))
    if (doubt := below_chance(right, texts, len(run.classes))) is not None:
        yield doubt


def _views(
    words: RunWords, slices: "Slices | None", top: int, representatives: int
) -> tuple[SummarizedView, ...]:
    methods = {one.id: one for one in words.run.record.methods}
    chosen = {
        v: words.leading(v, top, signed=methods[view.method].signed)
        for v, view in enumerate(words.views)
    }
    examples = words.examples(chosen)
    mistakes = _mistakes(words, top)
    picked = words.representatives(representatives)
    wanted = [one["n"] for one in mistakes] + [n for several in picked for n, _ in several]
    stored, phrases = _stored(words, wanted), words.phrases()
    found = []
    for v, view in enumerate(words.views):
        method, moments, sides = methods[view.method], words.moments(v), chosen[v]
        names, shown = [words.words[i] for i in sides], [examples.get((v, i), ()) for i in sides]
        both = list(
            zip(summarized_words(moments, names, list(sides), shown), sides.values(), strict=True)
        )
        compared, differing = _differing(words, v)
        found.append(
            SummarizedView(
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
                mistakes=tuple(_mistake(words, one, stored) for one in mistakes if one["v"] == v),
                compared=compared,
                differing=differing,
                representatives=tuple(
                    RepresentativeText(
                        row=n // words.run.record.rows_per_text,
                        id=stored[n][0],
                        covered=covered,
                        explanation=stored[n][1],
                    )
                    for n, covered in picked[v]
                ),
                sliced_by=None if slices is None else slices.by,
                slices=() if slices is None else _slices(words, slices, v),
            )
        )
    return tuple(found)


def _phrases(names: list[str], moments: Moments, top: int) -> tuple[SummarizedWord, ...]:
    """Return the phrases of enough texts, the strongest first."""
    size = shrunken(moments).strength
    able = np.flatnonzero((moments.texts >= FEWEST) & (size > 0))
    kept = able[np.argsort(-size[able], kind="stable")][:top].tolist()
    return summarized_words(moments, [names[i] for i in kept], kept, [()] * len(kept))


def _right(outcomes: Int[np.ndarray, "C 3"]) -> Part | None:
    right, wrong = (int(outcomes[:, k].sum()) for k in (0, 1))
    return share_of(right, right + wrong) if right + wrong else None


def _mistakes(words: RunWords, most: int) -> list[dict[str, Any]]:
    """Return the most confident mistakes of each view, as rows with its place ``v``."""
    found = words.tables.table(f"""SELECT n, row, view, predicted, labelled, confidence
        FROM {words.rows} WHERE wrong = 1
        QUALIFY row_number() OVER (PARTITION BY view ORDER BY confidence DESC, row) <= {most}
        ORDER BY view, confidence DESC, row""")
    return [one | {"v": words.place(one["view"])} for one in found.to_pylist()]


def _mistake(words: RunWords, one: Mapping[str, Any], stored: _Stored) -> MistakenText:
    id, explanation = stored[one["n"]]
    wrong = words.run.classes[one["predicted"]]
    return MistakenText(
        row=one["row"],
        id=id,
        predicted=wrong,
        label=words.run.classes[one["labelled"]],
        confidence=one["confidence"],
        margin=words.run.record.model.link == "none",
        explanation=explanation,
        words=() if explanation is None else _spoke_for(explanation, wrong),
    )


def _stored(words: RunWords, wanted: Iterable[int]) -> _Stored:
    """Return the ids and explanations of these rows; None for one whose text is not stored."""
    n = np.unique(np.fromiter(wanted, dtype=np.int64))
    words.tables.put("asked", pa.table({"n": n, "row": n // words.run.record.rows_per_text}))
    # By the number of the text whole shards are passed over; that of the row is computed.
    query = """SELECT r.* REPLACE (named AS features)
        FROM rows r JOIN asked a ON r.row = a.row AND r.n = a.n"""
    return {
        row["n"]: (
            row["id"],
            None
            if row["text"] is None
            else explanation_of(row, words.run.record, text=row["text"]),
        )
        for row in words.tables.table(query).to_pylist()
    }


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


def _slices(words: RunWords, slices: "Slices", v: int) -> tuple[RunSlice, ...]:
    """Return the slices that have texts, each with the words that score otherwise elsewhere."""
    run, target, every, groups = words.run, words.views[v].target, words.moments(v), []
    for s, name in enumerate(slices.names):
        here = words.moments(v, slice=s)
        rest = Moments(*(a - b for a, b in zip(every, here, strict=True)))
        groups.append((name, compared_words(rest, here)))
    sure = corrected(words.words, groups)
    found = []
    for s, name in enumerate(slices.names):
        outcomes = words.outcomes(v, slice=s)
        if not (texts := int(outcomes.sum())):
            continue
        called = int(outcomes[run.classes.index(target)].sum()) if target in run.classes else 0
        differing = tuple(one for one in sure if one.group == name)[:_OF_A_SLICE]
        part = share_of(called, texts)
        right = _right(outcomes)
        found.append(
            RunSlice(name=name, texts=texts, target=part, right=right, differing=differing)
        )
    return tuple(found)


_ROW = {"method": pa.string(), "target": pa.string(), "row": pa.int64(), "id": pa.string()}
_MISTAKES = pa.schema(
    _ROW
    | {"predicted": pa.string(), "label": pa.string(), "confidence": pa.float64()}
    | {"words": pa.list_(pa.string())}
)
_REPRESENTATIVES = pa.schema(_ROW | {"covered": pa.float64(), "text": pa.string()})
_PREDICTED = {
    "predicted": pa.int64(),
    "predicted_low": pa.float64(),
    "predicted_high": pa.float64(),
}
_RIGHT = {"labelled": pa.int64(), "right_low": pa.float64(), "right_high": pa.float64()}
_SLICES = pa.schema(
    {"method": pa.string(), "target": pa.string(), "slice": pa.string(), "texts": pa.int64()}
    | _PREDICTED
    | {"right": pa.int64(), **_RIGHT, "differing": pa.list_(pa.string())}
)


def mistakes_of_run(run: "Run", method: str, *, most: int) -> pa.Table:
    """Return the most confident mistakes of every view."""
    _check_count("most", most)
    with _words(run, method) as words:
        found = sorted(_mistakes(words, most), key=lambda one: one["v"])
        stored = _stored(words, [one["n"] for one in found])
    rows = []
    for view, one in ((words.views[one["v"]], _mistake(words, one, stored)) for one in found):
        about = {name: getattr(one, name) for name in _MISTAKES.names[2:]}
        rows.append(about | {"method": view.method, "target": view.aim})
    return pa.Table.from_pylist(rows, _MISTAKES)


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
    _check_count("count", count)
    with _words(run, method) as words:
        words.add_up()
        picked = words.representatives(count)
        stored = _stored(words, [n for several in picked for n, _ in several])
    rows = [
        {
            "method": view.method,
            "target": view.aim,
            "row": n // run.record.rows_per_text,
            "id": stored[n][0],
            "covered": covered,
            "text": None if (shown := stored[n][1]) is None else shown.text,
        }
        for view, several in zip(words.views, picked, strict=True)
        for n, covered in several
    ]
    return pa.Table.from_pylist(rows, _REPRESENTATIVES)


def slices_of_run(run: "Run", by: str, method: str) -> pa.Table:
    """Return one row per view and slice, shares with Wilson's intervals."""
    with _words(run, method) as words:
        slices, numbers = sliced(words, by)
        words.add_up(numbers)
    rows = [
        {"method": view.method, "target": view.aim, "slice": one.name, "texts": one.texts}
        | _part("predicted", one.target)
        | _part("right", one.right)
        | {"labelled": one.right and one.right.of}
        | {"differing": [word.word for word in one.differing]}
        for v, view in enumerate(words.views)
        for one in _slices(words, slices, v)
    ]
    return pa.Table.from_pylist(rows, _SLICES)


def _part(name: str, part: Part | None) -> dict[str, Any]:
    if part is None:
        return {}
    return {name: part.count, f"{name}_low": part.low, f"{name}_high": part.high}


LENGTH = "length"  # how many features a text has
_MOST, _RANGES = 12, 6
_MISSING, _OTHERS = "(no value)", "(others)"


@dataclass(frozen=True, kw_only=True)
class Slices:
    """How texts fall into slices: by ``values`` of a column, or between ``edges``."""

    by: str
    names: tuple[str, ...]
    values: tuple[Any, ...] | None = None
    edges: Any = None

    def numbers(self, column: Any) -> Int[np.ndarray, " n"]:
        """Return the slice of each value of ``column``, −1 for none."""
        missing = np.asarray(pc.is_null(column))
        if self.values is None:
            place = np.searchsorted(self.edges, _numbers(column), side="right")
            found = np.clip(place - 1, 0, len(self.edges) - 2)
        else:
            placed = pc.index_in(column, pa.array(self.values, column.type))
            others = self.names.index(_OTHERS) if _OTHERS in self.names else -1
            found = np.asarray(placed.fill_null(others)).astype(np.int64)
        none = self.names.index(_MISSING) if _MISSING in self.names else -1
        return np.where(missing, none, found)


def sliced(words: RunWords, by: str) -> tuple[Slices, pa.Table]:
    """Return slices by "length", "label" or a column that is carried along, and that of each row.

    Arrow reads the column: its kinds of numbers and times say how ranges are named.
    """
    run = words.run
    data = run.record.data.columns
    choices = [LENGTH, *(["label"] if data.label else []), *data.carried]
    if by not in choices:
        raise InputError(nearest("column to slice by", by, choices))
    if by == LENGTH:
        table = words.tables.table(f"SELECT n, len(scores)::BIGINT AS words FROM {words.rows}")
        n, parts, several = table["n"], [table["words"].combine_chunks()], 1
    else:
        stored = dict(zip(data.carried, stored_names(data.carried), strict=True))
        column, several = by if by == "label" else stored[by], run.record.rows_per_text
        parts = [_plain(table[column].combine_chunks()) for table in run.tables([column])]
        first = [run.record.texts_of(number).start * several for number in run.shards]
        rows = [np.arange(a, a + len(part)) for a, part in zip(first, parts, strict=True)]
        n = np.concatenate(rows)
    slices = _cut(by, pa.chunked_array([part[::several] for part in parts]))
    numbers = np.concatenate([slices.numbers(part) for part in parts])
    return slices, pa.table({"n": n, "slice": numbers})


def _cut(by: str, values: pa.ChunkedArray) -> Slices:
    counted = pc.value_counts(values.drop_null())
    distinct = counted.field("values")
    missing = (_MISSING,) if values.null_count else ()
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal
    ordered = any(is_kind(values.type) for is_kind in kinds)
    if ordered and len(distinct) > _MOST:
        every = _numbers(values.drop_null())
        finite = every[np.isfinite(every)]
        edges = np.unique(np.quantile(finite, np.linspace(0, 1, _RANGES + 1)))
        edges = edges if pa.types.is_temporal(values.type) else np.unique(_readable(edges))
        edges[[0, -1]] = min(edges[0], every.min()), max(edges[-1], every.max())
        if len(edges) > 2:
            ranges = (*_range_names(edges, values.type), *missing)
            return Slices(by=by, names=ranges, edges=edges)
    if ordered:
        order = np.argsort(_numbers(distinct), kind="stable")
    else:
        order = np.argsort(-np.asarray(counted.field("counts")), kind="stable")
    kept = distinct.take(pa.array(order[:_MOST])).to_pylist()
    others = (_OTHERS,) if len(distinct) > _MOST else ()
    names = (*map(str, kept), *others, *missing)
    return Slices(by=by, names=names, values=tuple(kept))


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
        values = values.cast(
            pa.timestamp("us") if not pa.types.is_time(values.type) else values.type
        )
        values = values.cast(pa.int64())
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


def _range_names(edges: Any, kind: pa.DataType) -> list[str]:
    shown = [_shown(edge, kind) for edge in edges]
    pairs = list(itertools.pairwise(shown))
    return [f"{a} to below {b}" for a, b in pairs[:-1]] + [f"{pairs[-1][0]} to {pairs[-1][1]}"]


def _shown(edge: float, kind: pa.DataType) -> str:
    if not pa.types.is_temporal(kind) or pa.types.is_time(kind):
        return f"{edge:.12g}"
    return str(np.datetime64(int(edge), "us").astype("datetime64[s]")).replace("T00:00:00", "")
