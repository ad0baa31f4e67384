"""From a run to its summary: two walks, then one view for every method and class."""

__all__ = ["summarized"]

from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.corpus.compared_groups import differing_mistakes, differing_slices
from limelight.corpus.phrases import FEWEST, phrase_words
from limelight.corpus.representatives import Picked
from limelight.corpus.run_tally import RunTally, tallied
from limelight.corpus.second_walk import SecondWalk, walked_again
from limelight.corpus.shares import share_of
from limelight.corpus.sided_words import phrase_name
from limelight.corpus.slices import slice_rule
from limelight.corpus.word_sums import Moments
from limelight.corpus.word_table import RARE, shrunken, strength, word_columns
from limelight.errors import InputError
from limelight.results.summary import (
    MistakenText,
    Part,
    RepresentativeText,
    RunSlice,
    RunSummary,
    SummarizedView,
    SummarizedWord,
)
from limelight.shapes import Int

if TYPE_CHECKING:
    from limelight.corpus.stored_run import Run

_DIFFERING = 12


def summarized(
    run: "Run", *, method: str | None, by: str | None, top: int, representatives: int
) -> RunSummary:
    """Return the summary of a run; ``by`` says what it is sliced by, None for no slices."""
    for name, given in (("top", top), ("representatives", representatives)):
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise InputError(f"{name} must be a whole number from 1; got {given!r}.")
    tally = tallied(run, method=method, phrases=True)
    if not tally.outcomes:
        raise InputError(f"'{run.path}' holds no explanations: {_why_none(run, tally)}")
    rule = None if by is None else slice_rule(run, by, tally.lengths)
    chosen = {view: _leading(run, tally, view, top) for view in range(len(tally.views))}
    picks = {
        view: tally.candidates.pick(view, tally.moments(view).size, representatives)
        for view in chosen
    }
    wanted = {(view, row) for view, pick in picks.items() for row in pick.rows}
    wanted |= {(view, one.row) for view in chosen for one in tally.mistakes.of(view)[:top]}
    walk = walked_again(run, tally, method=method, rule=rule, chosen=chosen, picked=wanted)
    views = [_view(run, tally, walk, v, chosen[v], picks[v], top) for v in chosen]
    return RunSummary(
        name=str(run.path),
        texts=len(run),
        total=run.total,
        failed=tally.failed,
        classes=run.classes,
        scale=run.record.question.scale,
        views=tuple(views),
        notices=tuple(_notices(run, tally)),
        model=run.record.model.fingerprint,
        version=run.record.version,
    )


def _why_none(run: "Run", tally: RunTally) -> str:
    if not run.shards:
        return "no shard is finished yet; start the run again."
    return (
        f"all {tally.failed:,} rows failed; see Run.errors()." if tally.failed else "it is empty."
    )


def _notices(run: "Run", tally: RunTally) -> list[str]:
    found = []
    if not run.finished:
        found.append(f"The run is not finished: {len(run):,} of {run.total:,} texts are in it.")
    if tally.failed:
        rows = f"{tally.failed:,} row{'s' * (tally.failed > 1)}"
        found.append(f"{rows} hold an error instead of scores and take no part.")
    labelled = sum(int(t[:, :2].sum()) for t in tally.outcomes.values())
    if run.record.data.columns.label is not None and not labelled:
        found.append(
            "No label is the name or the number of a class, so nothing is said about mistakes."
        )
    return found


def _signed(run: "Run", method: str) -> bool:
    return next(one.signed for one in run.record.methods if one.id == method)


def _leading(run: "Run", tally: RunTally, view: int, top: int) -> dict[int, int]:
    """Return the words furthest from 0 for certain, with the side they are on."""
    moments = tally.moments(view)
    found = shrunken(moments)
    size = strength(found)
    order = np.lexsort((-np.abs(found.mean), -size, moments.texts < RARE))
    sides = np.sign(found.mean).astype(int)
    signed = _signed(run, tally.views[view].method)
    chosen: dict[int, int] = {}
    for side in (1, -1) if signed else (1,):
        here = order[(sides[order] == side)] if signed else order
        chosen |= {int(i): side for i in here[:top] if size[i] > 0 or len(size) <= top}
    return chosen


def _view(
    run: "Run",
    tally: RunTally,
    walk: SecondWalk,
    v: int,
    chosen: dict[int, int],
    pick: Picked,
    top: int,
) -> SummarizedView:
    view, moments, names = tally.views[v], tally.moments(v), tally.vocabulary.words()
    leading = [names[i] for i in chosen]
    found = _summarized_words(moments, leading, list(chosen), lambda i: walk.examples.of(v, i))
    compared, differing = differing_mistakes(tally, v, _DIFFERING)
    method = next(one for one in run.record.methods if one.id == view.method)
    return SummarizedView(
        method=view.method,
        label=method.label,
        signed=method.signed,
        target=view.target,
        against=view.against,
        texts=tally.texts(v),
        vocabulary=int((moments.texts > 0).sum()),
        supporting=tuple(one for one, side in zip(found, chosen.values(), strict=True) if side > 0),
        opposing=tuple(one for one, side in zip(found, chosen.values(), strict=True) if side < 0),
        phrases=_phrases(run, tally, walk, v, top),
        right=_right(tally.outcomes[v]),
        mistakes=_mistakes(run, tally, walk, v, top),
        compared=compared,
        differing=differing,
        representatives=_representatives(walk, v, pick),
        sliced_by=None if walk.rule is None else walk.rule.by,
        slices=_slices(run, tally, walk, v),
    )


def _summarized_words(
    moments: Moments, names: list[str], chosen: list[int], examples: Any
) -> list[SummarizedWord]:
    columns = {
        name: values[chosen].tolist()
        for name, values in word_columns(moments, shrunken(moments)).items()
        if name != "total"
    }
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return [
        SummarizedWord(word=name, examples=examples(i), **row)
        for i, name, row in zip(chosen, names, rows, strict=True)
    ]


def _phrases(
    run: "Run", tally: RunTally, walk: SecondWalk, v: int, top: int
) -> tuple[SummarizedWord, ...]:
    """Return the phrases of enough texts, the strongest first."""
    keys = [int(key) for key in walk.phrases.words()]
    moments = walk.phrase_sums.moments([v], len(keys))
    size = strength(shrunken(moments))
    able = np.flatnonzero((moments.texts >= FEWEST) & (size > 0))
    kept = able[np.argsort(-size[able], kind="stable")][:top].tolist()
    known = tally.vocabulary.words()
    names = [
        phrase_name([known[word] for word in phrase_words(keys[i])], run.record.data.columns)
        for i in kept
    ]
    return tuple(_summarized_words(moments, names, kept, lambda _: ()))


def _right(outcomes: Int[np.ndarray, "C 3"]) -> Part | None:
    right, wrong = (int(outcomes[:, k].sum()) for k in (0, 1))
    return share_of(right, right + wrong) if right + wrong else None


def _mistakes(
    run: "Run", tally: RunTally, walk: SecondWalk, v: int, top: int
) -> tuple[MistakenText, ...]:
    return tuple(
        MistakenText(
            row=one.row,
            id=walk.picked[v, one.row][0],
            predicted=run.classes[one.predicted],
            label=run.classes[one.label],
            confidence=one.confidence,
            margin=run.record.model.link == "none",
            explanation=walk.picked[v, one.row][1],
        )
        for one in tally.mistakes.of(v)[:top]
    )


def _representatives(walk: SecondWalk, v: int, pick: Picked) -> tuple[RepresentativeText, ...]:
    return tuple(
        RepresentativeText(
            row=row, id=walk.picked[v, row][0], covered=covered, explanation=walk.picked[v, row][1]
        )
        for row, covered in zip(pick.rows, pick.covered, strict=True)
    )


def _slices(run: "Run", tally: RunTally, walk: SecondWalk, v: int) -> tuple[RunSlice, ...]:
    if walk.rule is None:
        return ()
    differing = differing_slices(tally, walk, v, 3)
    target = tally.views[v].target
    found = []
    for s, name in enumerate(walk.rule.names):
        outcomes = walk.outcomes.get((v, s))
        if outcomes is None or not (texts := int(outcomes.sum())):
            continue
        called = int(outcomes[run.classes.index(target)].sum()) if target in run.classes else 0
        found.append(
            RunSlice(
                name=name,
                texts=texts,
                target=share_of(called, texts),
                right=_right(outcomes),
                differing=differing[s],
            )
        )
    return tuple(found)
