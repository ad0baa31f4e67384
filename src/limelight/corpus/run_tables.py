"""What a run says over all texts, as plain Arrow tables."""

__all__ = ["mistakes_of_run", "representatives_of_run", "slices_of_run", "words_of_run"]

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from limelight.corpus.run_tally import tallied
from limelight.corpus.summarizing import summarized
from limelight.corpus.word_table import SORTS, word_table
from limelight.errors import InputError, nearest
from limelight.results import Explanation
from limelight.results.summary import Part, SummarizedView

if TYPE_CHECKING:
    from limelight.corpus.stored_run import Run

_STRONGEST = 5


def words_of_run(run: "Run", method: str, *, target: str | None, sort: str) -> pa.Table:
    """Return the table of words of a method, view after view."""
    if sort not in SORTS:
        raise InputError(nearest("way to sort words", sort, SORTS))
    tally = tallied(run, method=method)
    found = [view for view in tally.views if target is None or view.target == target]
    if target is not None and not found:
        raise InputError(nearest("class explained here", target, {v.target for v in tally.views}))
    names = tally.vocabulary.words()
    tables = [
        word_table(view, names, tally.moments(tally.views.index(view)), sort=sort) for view in found
    ]
    if not tables:
        raise InputError(f"'{run.path}' holds no explanations by {method}.")
    return pa.concat_tables(tables)


def mistakes_of_run(run: "Run", method: str, *, most: int) -> pa.Table:
    """Return the most confident mistakes of every view."""
    found = summarized(run, method=method, by=None, top=most, representatives=1)
    rows = [
        _about(view)
        | {
            "row": one.row,
            "id": one.id,
            "predicted": one.predicted,
            "label": one.label,
            "confidence": one.confidence,
            "words": _strongest(one.explanation),
        }
        for view in found.views
        for one in view.mistakes
    ]
    kinds = {"row": pa.int64(), "confidence": pa.float64(), "words": pa.list_(pa.string())}
    names = ("method", "target", "row", "id", "predicted", "label", "confidence", "words")
    return _table(rows, names, kinds)


def representatives_of_run(run: "Run", method: str, *, count: int) -> pa.Table:
    """Return the texts picked for every view, in the order in which they were."""
    found = summarized(run, method=method, by=None, top=1, representatives=count)
    rows = [
        _about(view)
        | {
            "row": one.row,
            "id": one.id,
            "covered": one.covered,
            "text": None if one.explanation is None else one.explanation.text,
        }
        for view in found.views
        for one in view.representatives
    ]
    kinds = {"row": pa.int64(), "covered": pa.float64()}
    return _table(rows, ("method", "target", "row", "id", "covered", "text"), kinds)


def slices_of_run(run: "Run", by: str, method: str) -> pa.Table:
    """Return one row per view and slice, shares with Wilson's intervals."""
    found = summarized(run, method=method, by=by, top=1, representatives=1)
    rows = [
        _about(view)
        | {"slice": one.name, "texts": one.texts}
        | _part("predicted", one.target)
        | _part("right", one.right)
        | {"differing": [word.word for word in one.differing]}
        for view in found.views
        for one in view.slices
    ]
    counts = dict.fromkeys(("texts", "predicted", "right", "labelled"), pa.int64())
    shares = [f"{name}_{end}" for name in ("predicted", "right") for end in ("low", "high")]
    kinds = counts | dict.fromkeys(shares, pa.float64()) | {"differing": pa.list_(pa.string())}
    names = ("method", "target", "slice", "texts", "predicted", *shares[:2], "right", "labelled")
    return _table(rows, (*names, *shares[2:], "differing"), kinds)


def _part(name: str, part: Part | None) -> dict[str, Any]:
    if part is None:
        return {}
    own = {"labelled": part.of} if name == "right" else {}
    return own | {name: part.count, f"{name}_low": part.low, f"{name}_high": part.high}


def _about(view: SummarizedView) -> dict[str, Any]:
    return {"method": view.method, "target": view.aim}


def _strongest(found: Explanation | None) -> list[str]:
    return [] if found is None else [word for word, _ in found.top(_STRONGEST)]


def _table(
    rows: Iterable[dict[str, Any]], names: tuple[str, ...], kinds: dict[str, Any]
) -> pa.Table:
    own = list(rows)
    return pa.table(
        {
            name: pa.array([row.get(name) for row in own], kinds.get(name, pa.string()))
            for name in names
        }
    )
