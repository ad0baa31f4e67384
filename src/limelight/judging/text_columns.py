"""What stands beside the share on one text: other measures of the same scores."""

__all__ = ["ON_REQUEST", "USUAL", "text_columns", "wanted_columns"]

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from limelight.errors import InputError, nearest
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.judging.additivity import Sets, additivity, drawn_sets
from limelight.judging.grounds import Ground
from limelight.judging.literature import eraser_sets, ferret_sets
from limelight.judging.rank_agreement import kendall_tau
from limelight.judging.scores_of_texts import OfText
from limelight.judging.tied_words import strongest_first
from limelight.results.comparison import rank_correlation
from limelight.results.judgement import TextColumn
from limelight.shapes import Bool, Float

USUAL = ("additivity", "loo_tau", "stability", "eraser", "ferret")
ON_REQUEST = ("sanity",)  # it explains everything once more
_SETS, _SETS_ASKED = 2048, 256  # of words, for additivity; fewer where the model has to be asked

# Scores of one text by method: None where a method has none.
Scores = Sequence[Float[np.ndarray, " _"] | None]
Value = tuple[float, float | None] | None  # with its standard error, None where it is exact


def wanted_columns(columns: str | Collection[str] | None) -> frozenset[str]:
    """Return the names of the columns that ``columns`` asks for: None the usual ones, or "all"."""
    if columns is None:
        return frozenset(USUAL)
    every = (*USUAL, *ON_REQUEST)
    if columns == "all":
        return frozenset(every)
    given = [columns] if isinstance(columns, str) else list(columns)
    for name in given:
        if name not in every:
            raise InputError(nearest("column", name, ["all", *every]))
    return frozenset(given)


def text_columns(
    wanted: Collection[str],
    one: Reading,
    ground: Ground,
    of_text: OfText,
    *,
    signed: Sequence[bool],
    replacement: str,
    rng: np.random.Generator,
) -> tuple[TextColumn, ...]:
    """Return the wanted columns of one text."""
    found: list[TextColumn] = []
    scores = of_text.scores
    if "additivity" in wanted:
        most = _SETS if one.collapses else _SETS_ASKED
        found.append(_additivities(ground, scores, signed, drawn_sets(ground.d, rng, most=most)))
    if "loo_tau" in wanted:
        found.append(_taus(ground, scores, signed))
    if {"eraser", "ferret"} & set(wanted) and one.model.link != "none":
        found += _from_the_literature(wanted, one, scores, signed, replacement)
    if "stability" in wanted:
        found.append(_column("stability", _agreeing(scores, of_text.again, signed)))
    if "sanity" in wanted:
        sizes = [False] * len(scores)
        found.append(_column("sanity", _agreeing(scores, of_text.shuffled, sizes)))
    return tuple(found)


def _column(name: str, values: Sequence[Value]) -> TextColumn:
    errors = tuple(None if value is None else value[1] for value in values)
    return TextColumn(
        name=name,
        values=tuple(None if value is None else value[0] for value in values),
        errors=errors if any(error is not None for error in errors) else (),
    )


def _additivities(ground: Ground, scores: Scores, signed: Sequence[bool], sets: Sets) -> TextColumn:
    drops = ground.full - ground.values(~sets.removed)
    # Sizes without signs cannot add up to a fall and a rise.
    return _column(
        "additivity",
        [
            additivity(own, sets, drops) if own is not None and has_sign else None
            for own, has_sign in zip(scores, signed, strict=True)
        ],
    )


def _taus(ground: Ground, scores: Scores, signed: Sequence[bool]) -> TextColumn:
    alone = ground.full - ground.values(~np.eye(ground.d, dtype=bool))

    def tau(own: Float[np.ndarray, " _"], has_sign: bool) -> Value:
        found = kendall_tau(own, alone) if has_sign else kendall_tau(np.abs(own), np.abs(alone))
        return None if found is None else (found, None)

    return _column(
        "loo_tau",
        [
            None if own is None else tau(own, has_sign)
            for own, has_sign in zip(scores, signed, strict=True)
        ],
    )


def _from_the_literature(
    wanted: Collection[str],
    one: Reading,
    scores: Scores,
    signed: Sequence[bool],
    replacement: str,
) -> Iterator[TextColumn]:
    """Yield two columns for each of the packages asked for."""
    targets = replace(one.targets, scale="probability", against=None)  # of the class alone
    aimed = replace(one, targets=targets)
    deleting = "delete" if "delete" in one.model.replacements else replacement
    game = TargetGame(aimed, deleting)
    full = float(aimed.targets.value(one.outputs)[0])
    ordered = [
        None if own is None else strongest_first(own, signed=has_sign)
        for own, has_sign in zip(scores, signed, strict=True)
    ]
    for package, sets_of in (
        ("eraser", lambda _, order: eraser_sets(order)),
        ("ferret", ferret_sets),
    ):
        if package not in wanted:
            continue
        sets = [
            None if own is None or order is None else sets_of(own, order)
            for own, order in zip(scores, ordered, strict=True)
        ]
        lost, kept = _losses(game, full, sets)
        yield _column(f"{package}_comprehensiveness", lost)
        yield _column(f"{package}_sufficiency", kept)


def _losses(
    game: Callable[[Bool[np.ndarray, "n d"]], Float[np.ndarray, "n 1"]],
    full: float,
    sets: Sequence[Bool[np.ndarray, "_ d"] | None],
) -> tuple[list[Value], list[Value]]:
    """Return the mean loss without the sets of each method, and with nothing but them."""
    known = [own for own in sets if own is not None and len(own)]
    if not known:
        return [None] * len(sets), [None] * len(sets)
    removed = np.concatenate(known)  # all methods in one question
    losses = full - game(np.concatenate([~removed, removed]))[:, 0]
    without, alone = np.split(losses, 2)
    lost: list[Value] = []
    kept: list[Value] = []
    start = 0
    for own in sets:
        if own is None or not len(own):
            lost.append(None)
            kept.append(None)
            continue
        part = slice(start, start := start + len(own))
        lost.append((float(without[part].mean()), None))
        kept.append((float(alone[part].mean()), None))
    return lost, kept


def _agreeing(scores: Scores, others: Scores, signed: Sequence[bool]) -> list[Value]:
    """Return the rank correlation of each method's scores with its other ones, if it has any."""
    found: list[Value] = []
    for own, other, has_sign in zip(scores, others, signed, strict=True):
        if own is None or other is None:
            found.append(None)
            continue
        sizes = (own, other) if has_sign else (np.abs(own), np.abs(other))
        rho = rank_correlation(*sizes)
        found.append(None if rho is None else (rho, None))
    return found
