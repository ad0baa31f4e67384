"""What stands beside the share on one text: other measures of the same scores."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError, nearest
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.judging.areas import Ground
from limelight.judging.candidates import OfText
from limelight.judging.orders import strongest_first
from limelight.results.comparison import rank_correlation
from limelight.results.judgement import TextColumn
from limelight.shapes import Bool, Float, Int
from limelight.theory.enumeration import all_keeps


class Sets(NamedTuple):
    """Sets of words to remove, and what each weighs; ``exact`` where they are all there are."""

    removed: Bool[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    exact: bool


def drawn_sets(d: int, rng: np.random.Generator, *, most: int) -> Sets:
    """Return sets S whose size is uniform on 0..d, and uniform among the sets of that size.

    It is the law by which a random order removes words. All sets where ``most`` allow it, else
    ``most`` drawn ones, each with its complement, which makes the mean of linear terms exact.
    """
    # E[x f] and E[f]² follow from E_p f on ratio games, but E[f²] needs the double sums of LIME's
    # R², seconds a text; a few thousand masks cost milliseconds there, and their error is known.
    if 2**d <= most:
        removed = ~all_keeps(d)
        size = removed.sum(axis=1)
        per_size = np.array([math.comb(d, k) for k in range(d + 1)], dtype=float)
        return Sets(removed, 1 / ((d + 1) * per_size[size]), exact=True)
    half = rng.integers(0, d + 1, size=most // 2)
    place = np.argsort(rng.random((most // 2, d)), axis=1)
    removed = place < half[:, None]
    both = np.concatenate([removed, ~removed])
    return Sets(both, np.full(len(both), 1 / len(both)), exact=False)


def additivity(
    scores: Float[np.ndarray, " d"], sets: Sets, drops: Float[np.ndarray, " n"]
) -> tuple[float, float | None] | None:
    """Return the correlation of Σ_{j∈S} scores_j with f(N) − f(N ∖ S), and its standard error.

    The error is that of its linear part, (z z' − ρ (z² + z'²)/2) for standardised z and z', and
    None where all sets were seen. None where either side is constant.
    """
    w, sums = sets.weights, sets.removed @ scores
    x, y = sums - w @ sums, drops - w @ drops
    norm = math.sqrt(float(w @ x**2) * float(w @ y**2))
    if norm <= 1e-12 * (float(np.abs(sums).max()) * float(np.abs(drops).max()) or 1.0):
        return None
    rho = float(np.clip((w @ (x * y)) / norm, -1.0, 1.0))
    if sets.exact:
        return rho, None
    zx, zy = x / math.sqrt(float(w @ x**2)), y / math.sqrt(float(w @ y**2))
    linear = zx * zy - rho * (zx**2 + zy**2) / 2
    return rho, float(linear.std()) / math.sqrt(len(w))


_ERASER_BINS = (0.01, 0.05, 0.1, 0.2, 0.5)
_FERRET_SHARES = np.arange(0.1, 1.1, 0.1)


def eraser_sets(order: Int[np.ndarray, " d"]) -> Bool[np.ndarray, "bins d"]:
    """The top 1, 5, 10, 20 and 50 % of the words, rounded up: every bin holds a word."""
    place = np.argsort(order)
    counts = np.ceil(np.array(_ERASER_BINS) * len(order) - 1e-9)
    return place[None, :] < counts[:, None]


def ferret_sets(
    scores: Float[np.ndarray, " d"], order: Int[np.ndarray, " d"]
) -> Bool[np.ndarray, "steps d"]:
    """The words of positive score among the top 10, 20, … 100 %, rounded down.

    A step that adds no word is left out, and so is one of no words at all where the text is short:
    how many steps there are depends on how many words a method calls positive.
    """
    place = np.argsort(order)
    counts = (_FERRET_SHARES * len(order)).astype(int)
    sets = (place[None, :] < counts[counts > 0, None]) & (scores > 0)
    new = np.ones(len(sets), bool)
    new[1:] = (sets[1:] != sets[:-1]).any(axis=1)
    return sets[new]


def kendall_tau(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return Kendall's τ-b, pairs tied in one list counted for neither side; None for a constant.

    τ_b = Σ_{i<j} sign(x_i − x_j) sign(y_i − y_j) / √(pairs untied in x · pairs untied in y).
    """
    a, b = (np.sign(z[:, None] - z[None, :]) for z in (x, y))
    norm = np.sqrt(np.count_nonzero(a) * float(np.count_nonzero(b)))
    return float(np.sum(a * b) / norm) if norm else None


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
        most = _SETS_ASKED if one.remembers else _SETS
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
