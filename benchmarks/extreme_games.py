"""Every number that carries a bound, on random games of attention, against 60-digit enumeration.

Logits reach ±700, values from 1e-305 to 1e200, kernels any width, penalties and row 0 come and go.
A number outside its bound, or one that is no number, is a violation; a refusal in a sentence and an
infinite bound are counted. Needs mpmath.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mpf

from limelight.errors import DomainError
from limelight.theory.banzhaf import banzhaf
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.faithfulness import (
    certified_full_value,
    deletion_area,
    deletion_curves,
    greedy_order,
    random_removal_mean,
    size_extremes,
)
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.lime_fit import lime_fit
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.owen import owen
from limelight.theory.ratio_game import RatioGame
from limelight.theory.shapley import shapley
from limelight_reproduction.studies.attention_pooling import pooling_game
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field, shapley_mean_field
from limelight_reproduction.theory.paper import lime_theorem
from limelight_reproduction.theory.second_order import (
    distance_bound,
    lime_distance_bound,
    lime_second_order,
    shapley_second_order,
)
from results import Measure, command_line, report

DIGITS = 60
WEIGHING = 700, 150  # digits of a regression: its weights span 220 decades, or few
ASKED = 0.25  # the chance of every question but LIME's, which all games are asked
GAMES = 10_000
_WRITTEN = 500  # games after which the result is written: all of them take an hour
Numbers = list[Any]  # of mpmath


class Case(NamedTuple):
    """A game by its logits and values, and the settings of the LIME that is asked of it."""

    logit: np.ndarray
    value: np.ndarray
    removed_logit: np.ndarray | None
    removed_value: np.ndarray | None
    groups: np.ndarray
    skip: np.ndarray | None
    lime: dict[str, Any]
    tolerance: float
    fit: bool  # whether R², which takes longer than all else, is asked too

    @property
    def game(self) -> RatioGame:
        """The game as the library takes it."""
        return pooling_game(
            self.logit,
            self.value,
            removed_logit=self.removed_logit,
            removed_value=self.removed_value,
            groups=self.groups,
            skip=self.skip,
        )

    @property
    def d(self) -> int:
        """Number of words."""
        return int(self.groups.max()) + 1


def random_case(rng: np.random.Generator) -> Case:
    """Draw a game of 2 to 5 words; many have one position that outweighs all others."""
    d, K = int(rng.choice([2, 2, 3, 3, 4, 5])), int(rng.choice([1, 1, 2, 3]))
    groups = rng.permutation([-1, *range(d), *rng.integers(-1, d, rng.integers(0, 3))])
    shape = (K, len(groups))
    size = 10.0 ** rng.choice([0] * 9 + [-30, -90, -200, -300, 90, 200])
    offset = rng.choice([0.0, 0.0, 1.0, 1e6])
    vanish = rng.random() < 0.3
    equal = rng.random() < 0.1

    def values() -> np.ndarray:
        return size * (rng.normal(size=shape) + offset)

    logit = _logits(rng, shape)
    gone = None if vanish else logit.copy() if equal else _logits(rng, shape)
    bandwidth = rng.choice([0.25, 0.25, np.inf, 10.0 ** rng.uniform(-1.5, 1)])
    return Case(
        logit=logit,
        value=values()[None],
        removed_logit=gone,
        removed_value=None if vanish else values()[None],
        groups=groups,
        skip=values()[:1] if rng.random() < 0.1 else None,
        lime={
            "bandwidth": float(bandwidth),
            "penalty": float(rng.choice([0.0, 0.0, 1e-9, 1e-3, 1.0, 1e3])),
            "rows": [None, None, 10, 5000][rng.integers(4)],
        },
        tolerance=float(rng.choice([1e-3, 1e-6, 1e-6, 1e-9])),
        fit=bool(rng.random() < 0.1),
    )


def _logits(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    reach = rng.choice([1.0, 10.0, 40.0, 150.0, 330.0, 400.0, 700.0])
    if rng.random() < 0.5:
        return rng.uniform(-reach, reach, shape)
    spikes = rng.random(shape) < 0.3
    return np.where(spikes, rng.choice([-reach, reach], shape), rng.normal(size=shape))


def outputs(case: Case) -> Numbers:
    """f of every set of words, in the order of `enumerate_masks`."""
    K, T = case.logit.shape
    ell, u = case.logit.tolist(), case.value[0].tolist()
    kept = [[(mpmath.exp(ell[k][t]), mpf(u[k][t])) for t in range(T)] for k in range(K)]
    gone = [[(mpf(0), mpf(0))] * T] * K
    if case.removed_logit is not None and case.removed_value is not None:
        ell, u = case.removed_logit.tolist(), case.removed_value[0].tolist()
        gone = [[(mpmath.exp(ell[k][t]), mpf(u[k][t])) for t in range(T)] for k in range(K)]
    skip = [mpf(0)] * T if case.skip is None else list(map(mpf, case.skip[0].tolist()))
    found = []
    for keep in enumerate_masks(case.d):
        stays = [group < 0 or keep[group] for group in case.groups]
        total = mpmath.fsum(x for x, stay in zip(skip, stays, strict=True) if stay)
        for k in range(K):
            cells = [(kept if stay else gone)[k][t] for t, stay in enumerate(stays)]
            D = mpmath.fsum(g for g, _ in cells)
            total += mpmath.fsum(g * x for g, x in cells) / D / K
        found.append(total)
    return found


class Fit(NamedTuple):
    """A line through all masks."""

    scores: Numbers
    intercept: Any
    r2: Any


def regression(f: Numbers, d: int, *, bandwidth: float, penalty: float, rows: int | None) -> Fit:
    """LIME's limit by the normal equations of all masks: scores, intercept, R²."""
    with mpmath.workdps(WEIGHING[bandwidth >= 0.2]):
        keep = enumerate_masks(d)
        of_size = [mpf(0) if rows is None else mpf(1) / rows]
        for s in range(1, d + 1):
            far = 0 if math.isinf(bandwidth) else (1 - mpmath.sqrt(1 - mpf(s) / d)) / bandwidth
            of_size.append(mpmath.exp(-(far**2) / 2) / (d * math.comb(d, s)))
        weight = [of_size[s] for s in (d - keep.sum(axis=1)).tolist()]
        columns = [[mpf(1)] * len(f), *([mpf(int(x)) for x in keep[:, j]] for j in range(d))]
        gram = mpmath.matrix(d + 1, d + 1)
        right = mpmath.matrix(d + 1, 1)
        for i, x in enumerate(columns):
            weighed = [w * v for w, v in zip(weight, x, strict=True)]
            right[i] = mpmath.fdot(weighed, f)
            for j, y in enumerate(columns):
                gram[i, j] = mpmath.fdot(weighed, y)
            gram[i, i] += mpf(penalty) if i else 0
        beta = mpmath.lu_solve(gram, right)
        mass = mpmath.fsum(weight)
        mean = right[0] / mass
        left = total = mpf(0)
        for n, (w, y) in enumerate(zip(weight, f, strict=True)):
            line = mpmath.fdot(list(beta), [x[n] for x in columns])
            left, total = left + w * (y - line) ** 2, total + w * (y - mean) ** 2
        # An f that does not vary in sixty digits is met by a constant; the rest is their rounding.
        varies = total > mass * (mpf(10) ** (5 - DIGITS) * max(map(abs, f))) ** 2
        return Fit(list(beta)[1:], beta[0], 1 - left / total if varies else mpf(1))


def mean_marginal_contributions(f: Numbers, d: int, weight: Callable[[int], Any]) -> Numbers:
    """Σ over the sets S of other words of weight(|S|) (f(S ∪ j) − f(S))."""
    return [
        mpmath.fsum(
            weight(S.bit_count()) * (f[S | 1 << j] - f[S]) for S in range(2**d) if not S >> j & 1
        )
        for j in range(d)
    ]


def mixed_changes(f: Numbers, d: int, weight: Callable[[int], Any]) -> Numbers:
    """The same of pairs, in the order of a matrix, 0 on the diagonal."""
    found = []
    for i in range(d):
        for j in range(d):
            both = 1 << i | 1 << j
            found.append(
                mpmath.fsum(
                    weight(S.bit_count()) * (f[S | both] - f[S | 1 << i] - f[S | 1 << j] + f[S])
                    for S in range(2**d)
                    if not S & both
                )
                if i != j
                else mpf(0)
            )
    return found


def owen_values(f: Numbers, d: int) -> Numbers:
    """Owen values of the words 0 and 1 as one group, the others as another."""
    own = {j: 3 if j < 2 else 2**d - 4 for j in range(d)}
    found = []
    for j in range(d):
        group, other = own[j], (2**d - 1) & ~own[j]
        many, words = (2 if other else 1), group.bit_count()
        total = mpf(0)
        for there in {0, other}:
            for S in range(2**d):
                if S & ~group or S >> j & 1:
                    continue
                ways = many * words * math.comb(words - 1, S.bit_count())
                total += (f[S | there | 1 << j] - f[S | there]) / mpf(ways)
        found.append(total)
    return found


class Claim(NamedTuple):
    """Numbers of the library with their bound, and what they should be."""

    what: str
    found: np.ndarray
    bound: float
    exact: Numbers


def claims(case: Case) -> Iterator[Callable[[], list[Claim]]]:
    """Yield what is asked of a game, one after another: each may be refused by itself."""
    game, d = case.game, case.d
    with mpmath.workdps(DIGITS):
        f = outputs(case)
        line = regression(f, d, **case.lime)

    def plain() -> Numbers:
        only = {"bandwidth": case.lime["bandwidth"], "penalty": 0.0, "rows": None}
        return (line if only == case.lime else regression(f, d, **only)).scores

    def values() -> Numbers:
        return mean_marginal_contributions(f, d, lambda s: 1 / mpf(d * math.comb(d - 1, s)))

    def swings() -> Numbers:
        return mean_marginal_contributions(f, d, lambda _: 1 / mpf(2 ** (d - 1)))

    precise = {"tolerance": case.tolerance}

    def valued(what: str, found: Any, exact: Numbers) -> list[Claim]:
        return [Claim(what, np.ravel(found.scores), float(found.bound[0]), exact)]

    def near(what: str, scores: Any, bound: Any, exact: Numbers) -> list[Claim]:
        return [Claim(what, np.ravel(scores), float(bound[0]), exact)]

    def fitted(what: str, found: Any) -> list[Claim]:
        scores, bound, intercept, of_intercept = found
        return [
            Claim(what, np.ravel(scores), float(bound[0]), line.scores),
            Claim(f"{what}: intercept", intercept, float(of_intercept[0]), [line.intercept]),
        ]

    yield lambda: fitted("lime", lime(game, **case.lime, **precise))
    yield lambda: fitted("lime by recurrence", lime_by_recurrence(game, **case.lime, **precise))
    if case.fit:
        yield lambda: near("R² of lime", *lime_fit(game, **case.lime), [line.r2])
    yield lambda: valued("shapley", shapley(game, **precise), values())
    yield lambda: valued("banzhaf", banzhaf(game, **precise), swings())
    whole, (n,) = f[-1], {len(f) - 1}
    yield lambda: valued("loo", leave_one_out(game), [whole - f[n ^ 1 << j] for j in range(d)])
    groups = np.minimum(np.arange(d) // 2, 1)
    yield lambda: valued("owen", owen(game, groups, **precise), owen_values(f, d))
    for what, solve, weight in (
        ("shapley", shapley_interactions, lambda s: 1 / mpf((d - 1) * math.comb(d - 2, s))),
        ("banzhaf", banzhaf_interactions, lambda _: 1 / mpf(2 ** (d - 2))),
    ):
        yield lambda what=what, solve=solve, weight=weight: valued(
            f"interactions, {what}", solve(game, **precise), mixed_changes(f, d, weight)
        )
    yield lambda: valued("lime, second order", lime_second_order(game, **case.lime), line.scores)
    for what, formula in (("lime, first order", lime_first_order), ("lime, Eq. 19", lime_theorem)):
        yield lambda what=what, formula=formula: near(
            what,
            formula(game),
            lime_distance_bound(formula(game), game, **case.lime),
            line.scores,
        )
    width = {"bandwidth": case.lime["bandwidth"]}
    yield lambda: near(
        "lime, mean field",
        lime_mean_field(game, **width),
        lime_distance_bound(lime_mean_field(game, **width), game, **width),
        plain(),
    )
    yield lambda: valued("shapley, second order", shapley_second_order(game), values())
    yield lambda: near(
        "shapley, mean field",
        shapley_mean_field(game),
        distance_bound(shapley_mean_field(game), shapley_second_order(game)),
        values(),
    )
    yield lambda: _judged(game, f, d)


def _judged(game: RatioGame, f: Numbers, d: int) -> list[Claim]:
    """What a judge takes for chance and ceiling, and the area of the greedy order."""
    own, mean = certified_full_value(game), random_removal_mean(game)
    low, high = size_extremes(game)
    by_size = [[f[S] for S in range(2**d) if d - S.bit_count() == k] for k in range(1, d + 1)]
    exact = mpmath.fsum(mpmath.fsum(some) / len(some) for some in by_size) / d
    least, most = ([end(some) for some in by_size] for end in (min, max))
    order = greedy_order(game)
    area = deletion_area(deletion_curves(game, order[None]))
    left, curve = 2**d - 1, []
    for j in order.tolist():
        left &= ~(1 << j)
        curve.append(f[left])
    # What an order does is summed without a bound of its own: that of f(N) serves d sums of it.
    rounding = (d + 1) * float(own.bound)
    return [
        Claim("f(N)", np.ravel(own.value), float(own.bound), [f[-1]]),
        Claim("chance", np.ravel(mean.value), float(mean.bound), [exact]),
        Claim(
            "ceiling",
            np.maximum(0, [float(x - y) for x, y in zip(map(mpf, low), least, strict=True)]),
            0.0,
            [mpf(0)] * d,
        ),
        Claim(
            "ceiling",
            np.maximum(0, [float(y - x) for x, y in zip(map(mpf, high), most, strict=True)]),
            0.0,
            [mpf(0)] * d,
        ),
        Claim("greedy area", area, rounding, [f[-1] - mpmath.fsum(curve) / d]),
        Claim("greedy step", np.zeros(1), rounding, [_regret(f, d, order.tolist())]),
    ]


def _regret(f: Numbers, d: int, order: list[int]) -> Any:
    """How much lower f could have been after any one step of the order, at most."""
    left, worst = 2**d - 1, mpf(0)
    for j in order:
        best = min(f[left & ~(1 << i)] for i in range(d) if left >> i & 1)
        left &= ~(1 << j)
        worst = max(worst, f[left] - best)
    return worst


class Tally(NamedTuple):
    """What came of one kind of number."""

    held: Counter
    worst: dict[str, float]
    wrong: list[str]


def tried(numbers: Iterable[int], tally: Tally | None = None) -> Tally:
    """Ask everything of the games with these seeds, and count it to what is known."""
    tally = tally or Tally(Counter(), {}, [])
    for number in numbers:
        case = random_case(np.random.default_rng([number, 23]))
        with np.errstate(all="ignore"):
            _try(case, number, tally)
    return tally


def _try(case: Case, number: int, tally: Tally) -> None:
    try:
        asked = list(claims(case))
    except DomainError:
        tally.held["game", "refused"] += 1
        return
    chance = np.random.default_rng([number, 24]).random(len(asked))
    for ask, drawn in zip(asked, chance, strict=True):
        if drawn > ASKED and ask is not asked[0]:
            continue
        try:
            with mpmath.workdps(DIGITS):
                made = ask()
        except DomainError:
            tally.held["question", "refused"] += 1
            continue
        for what, found, bound, exact in made:
            outcome = _outcome(found, bound, exact, what, tally)
            tally.held[what, outcome] += 1
            if outcome == "violated":
                tally.wrong.append(f"{number} {what}: {found} ± {bound:.3g}, {_short(exact)}")
                print(tally.wrong[-1], flush=True)


def _outcome(found: np.ndarray, bound: float, exact: Numbers, what: str, tally: Tally) -> str:
    if not np.isfinite(found).all() or math.isnan(bound):
        return "violated"
    if math.isinf(bound):
        return "unbounded"
    with mpmath.workdps(DIGITS):
        off = max(abs(mpf(x) - y) for x, y in zip(map(float, found), exact, strict=True))
        # A bound is a double itself, rounded to nearest.
        share = float(off / (mpf(bound) * (1 + mpf(2) ** -50))) if bound else math.inf * bool(off)
    share = 0.0 if math.isnan(share) else share
    tally.worst[what] = max(tally.worst.get(what, 0.0), share)
    return "held" if share <= 1 else "violated"


def _short(exact: Numbers) -> str:
    return " ".join(mpmath.nstr(x, 6) for x in exact)


def main() -> None:
    """Try the games, and say what was wrong."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--games", type=int, default=GAMES)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first game")
    arguments = parser.parse_args()
    games = 4 if arguments.smoke else arguments.games
    tally = Tally(Counter(), {}, [])
    for start in range(0, games, _WRITTEN):
        some = range(start, min(start + _WRITTEN, games))
        tried((arguments.first + n for n in some), tally)
        data = f"{some.stop:,} random games"
        report("extreme_games", list(_measures(tally)), arguments, data=data)


def _measures(tally: Tally) -> Iterator[Measure]:
    by = tally.held
    total = sum(count for (_, outcome), count in by.items() if outcome == "violated")
    yield Measure(id="violations", what="numbers outside their bounds", value=total, below=1)
    yield Measure(
        id="refused",
        what="questions refused in a sentence",
        value=by["question", "refused"],
        note=f"and {by['game', 'refused']} whole games",
    )
    for what in sorted({what for what, outcome in by if outcome != "refused"}):
        held, free, off = (by[what, x] for x in ("held", "unbounded", "violated"))
        yield Measure(
            id=what.replace(" ", "_").replace(",", "").replace(":", ""),
            what=f"{what}: largest error over bound",
            value=tally.worst.get(what, 0.0),
            note=f"{held} held, {free} with an infinite bound, {off} violated",
        )


if __name__ == "__main__":
    main()
