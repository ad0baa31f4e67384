"""Certified decisions: each claim is compared with all sets of words."""

import math
import os
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from tests.theory.ratio_games import peaked_game, random_game

from limelight.theory import decisions
from limelight.theory.decisions import bound_margin, certify_removals, find_sufficient_set
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.ratio_game import RatioGame, full_value, head_values, value

COUNT = int(os.environ.get("EXAMPLES", "12"))  # games of each kind; 500 takes ten minutes


def positive(game):
    """Change the sign of a game whose value for the complete text is negative."""
    sign = float(np.sign(full_value(game)[0])) or 1.0
    offset = None if game.offset is None else sign * game.offset
    return replace(game, N0=sign * game.N0, A=sign * game.A, B=sign * game.B, offset=offset)


def without_weights(game):
    """Remove all weights of the first head, whose value is then 0."""
    heads = (np.arange(game.K) > 0).astype(float)
    D = {name: getattr(game, name) * heads[:, None] for name in ("a", "b", "A", "B")}
    return replace(game, D0=game.D0 * heads, N0=game.N0 * heads, **D)


def several_heads(rng, d):
    """A game of two to six heads, peaked or with weights of any size."""
    seed, K = int(rng.integers(2**32)), int(rng.integers(2, 7))
    if rng.random() < 0.5:
        return [random_game(seed, d=d, K=K, C=1, ratio=10 ** rng.uniform(0, 5))]
    return [peaked_game(seed, d=d, K=K, T_max=d + int(rng.integers(0, 200)))]


def single_head(rng, d):
    """A game of one head."""
    return [random_game(int(rng.integers(2**32)), d=d, K=1, C=1, ratio=10 ** rng.uniform(0, 5))]


def counted_words(rng, d, *, power, intercept, classes=1):
    """Linear classifiers of word vectors of length 1: removed words leave nothing behind."""
    x = rng.exponential(size=d) * (rng.random(d) < 0.95)
    x[0] = 1.0
    weight = np.zeros(1) if power == 1 and rng.random() < 0.3 else x ** (1 / power)
    D0 = np.ones(1) if not weight.any() else np.zeros(1)
    fixed = rng.random() < 0.2  # a column that is never removed
    a = (weight if weight.any() else np.zeros(d))[None]
    games = []
    for _ in range(classes):
        w = rng.normal(size=d) + rng.normal() * 0.5
        games.append(
            RatioGame(
                D0=D0 + 0.5 * fixed,
                a=a,
                b=np.zeros((1, d)),
                N0=np.full((1, 1), 0.3 * fixed * rng.normal()),
                A=(x * w)[None, None],
                B=np.zeros((1, 1, d)),
                offset=np.array([0.6 * rng.normal()]) if intercept else None,
                power=power,
            )
        )
    return games


KINDS = {
    "one head": single_head,
    "two to six heads": several_heads,
    "power ½": lambda rng, d: counted_words(rng, d, power=0.5, intercept=False),
    "power ½ and an intercept": lambda rng, d: counted_words(rng, d, power=0.5, intercept=True),
    "norm l1 and an intercept": lambda rng, d: counted_words(rng, d, power=1.0, intercept=True),
    "four classes, power ½": lambda rng, d: counted_words(
        rng, d, power=0.5, intercept=True, classes=3
    ),
    "four classes, several heads": lambda rng, d: several_heads(rng, d) + several_heads(rng, d),
    "another power": lambda rng, d: counted_words(rng, d, power=0.7, intercept=True),
    "several heads of power ½": lambda rng, d: [
        replace(positive(several_heads(rng, d)[0]), power=0.5)
    ],
    "a head without weights": lambda rng, d: [without_weights(several_heads(rng, d)[0])],
}
# There is no search for these, only bounds.
BOUNDED = {"another power", "several heads of power ½"}


def random_margins(kind, count, *, most):
    """Yield games of a kind with positive margins, and all margins with the sets of kept words."""
    rng = np.random.default_rng(list(KINDS).index(kind))
    for _ in range(count):
        games = [positive(game) for game in KINDS[kind](rng, int(rng.integers(1, most + 1)))]
        if min(float(full_value(game)[0]) for game in games) < 1e-9:
            continue
        keep = enumerate_masks(games[0].d)
        yield games, keep, np.min([value(game, keep)[0] for game in games], axis=0)


def test_no_single_word_makes_the_worst_removal_worse():
    moved = 0
    for seed in range(30):
        game = positive(random_game(seed, d=8, K=4, C=1))
        margin = decisions._prepare_margin(game)
        removed = decisions._find_worst_removal(margin)
        toggled = removed ^ np.eye(8, dtype=bool)
        worst = value(game, ~removed[None])[0, 0]
        assert worst <= value(game, ~toggled)[0].min() + 1e-9
        moved += (removed != (margin.linear_form()[1] < 0)).any()
    assert moved > 3  # the start of the search is changed


@pytest.mark.parametrize("kind", KINDS)
def test_removals_agree_with_all_sets_of_words(kind):
    settled = 0
    total = 0
    for games, keep, f in random_margins(kind, COUNT, most=14 if COUNT > 100 else 10):
        d, sizes = games[0].d, (~keep).sum(axis=1)
        certificate = certify_removals(games, seconds=math.inf)
        check_removals(certificate, sizes, f, keep)
        # Where all margins are far from 0 the result must be settled.
        if np.abs(f).min() > 1e-9:
            total += 1
            settled += certificate.is_settled
            assert certificate.limit is None
            least = sizes[f < 0].min(initial=d + 1)
            if kind not in BOUNDED:
                assert certificate.lower_bound == least
                assert certificate.is_settled
    if kind != "power ½":  # without any word its margin is 0
        assert settled > 0.2 * total > 0


def check_removals(certificate, sizes, f, keep):
    """Assert that no claim of a certificate contradicts the margins of all sets."""
    d = keep.shape[1]
    assert np.all(f[sizes < certificate.lower_bound] > -1e-12)
    assert certificate.is_robust == (certificate.lower_bound == d + 1)
    if certificate.is_robust:
        assert certificate.removed is None
        assert np.all(f > -1e-12)
    if certificate.removed is not None:
        mask = np.ones(d, bool)
        mask[list(certificate.removed)] = False
        assert f[(keep == mask).all(axis=1)] < 0
        assert len(certificate.removed) >= certificate.lower_bound


@pytest.mark.parametrize("kind", KINDS)
def test_sufficient_sets_agree_with_all_sets_of_words(kind):
    smallest = 0
    for games, keep, f in random_margins(kind, COUNT, most=12 if COUNT > 100 else 8):
        words = find_sufficient_set(games, seconds=math.inf)
        assert is_sufficient(words.features, keep, f)
        assert words.is_subset_minimal or not words.is_smallest
        if np.abs(f).min() <= 1e-9:
            continue
        if words.is_subset_minimal:
            for j in words.features:
                assert not is_sufficient(set(words.features) - {j}, keep, f)
        if words.is_smallest:
            assert len(words.features) == smallest_sufficient_size(keep, f)
        if kind not in BOUNDED:
            assert words.is_smallest
            smallest += 1
    assert smallest > 2 or kind in BOUNDED or kind == "power ½"


def is_sufficient(features, keep, f):
    """Return whether the margin is positive for every set that keeps the features."""
    return bool(np.all(f[keep[:, sorted(features)].all(axis=1)] > -1e-12))


def smallest_sufficient_size(keep, f):
    """Find the smallest size of a sufficient set among all sets of words."""
    d = keep.shape[1]
    # A set is sufficient if every larger set has a positive margin: a minimum over supersets.
    lowest = f.copy()
    bits = keep @ (1 << np.arange(d))
    at = np.empty(2**d, int)
    at[bits] = np.arange(2**d)
    for j in range(d):
        without = np.flatnonzero(~keep[:, j])
        with_j = at[bits[without] | (1 << j)]
        lowest[without] = np.minimum(lowest[without], lowest[with_j])
    return int(keep.sum(axis=1)[lowest > -1e-12].min())


@pytest.mark.parametrize("K", [1, 2, 6])
def test_the_joint_bound_lies_between_the_separate_bounds_and_the_minimum(K):
    for seed in range(COUNT):
        game = positive(random_game(seed, d=7, K=K, C=1))
        keep = enumerate_masks(7)
        f, sizes = value(game, keep)[0], (~keep).sum(axis=1)
        minimum = np.array([f[sizes <= k].min() for k in range(1, 8)])
        heads = head_values(game, keep)[0]
        separate = np.array([heads[:, sizes <= k].min(axis=1).mean() for k in range(1, 8)])
        joint, room = bound_margin(game), 1e-9 * np.abs(f).max()
        assert np.all(joint <= minimum)
        assert np.all(separate - room <= joint)
        if K == 1:
            np.testing.assert_allclose(joint, minimum, rtol=0, atol=room)


@pytest.mark.parametrize("kind", ["one head", "two to six heads", "power ½ and an intercept"])
def test_a_bound_that_is_too_high_contradicts_the_margins(kind, monkeypatch):
    # Negative control: the checks above must fail for bounds that are wrong by a little.
    bound_nodes, lows = decisions._bound_nodes, decisions._SingleHead._lows

    def wrong_nodes(terms, nodes):
        bounds = bound_nodes(terms, nodes)
        return bounds._replace(low=bounds.low + 0.3)

    def wrong_lows(margin, intervals, kept_words):
        low, gains = lows(margin, intervals, kept_words)
        return low + 0.3, gains

    monkeypatch.setattr(decisions, "_bound_nodes", wrong_nodes)
    monkeypatch.setattr(decisions._SingleHead, "_lows", wrong_lows)
    wrong = 0
    for games, keep, f in random_margins(kind, 60, most=7):
        certificate = certify_removals(games, seconds=math.inf)
        try:
            check_removals(certificate, (~keep).sum(axis=1), f, keep)
        except AssertionError:
            wrong += 1
    assert wrong > 1


@pytest.mark.parametrize("exponent", [-17, -16, -15, -13, -11, -8])
@pytest.mark.parametrize("K", [1, 3])
def test_margins_within_rounding_of_zero_are_not_decided_wrongly(exponent, K):
    # The margin without two words is ± 10^exponent. Exact arithmetic gives its sign.
    for seed in range(6):
        game = positive(random_game(seed, d=6, K=K, C=1))
        removed = [1, 4]
        keep = np.ones((1, 6), bool)
        keep[0, removed] = False
        shift = value(game, keep)[0, 0] + (-1) ** seed * 10.0**exponent
        # f − shift: subtract from N the shift times D, term by term, in double precision.
        game = replace(
            game,
            N0=game.N0 - shift * game.D0,
            A=game.A - shift * game.a,
            B=game.B - shift * game.b,
        )
        if float(full_value(game)[0]) < 1e-6:
            continue
        certificate = certify_removals([game], seconds=math.inf)
        exact = {
            tuple(np.flatnonzero(~row)): exact_value(game, row) for row in enumerate_masks(game.d)
        }
        for words, f in exact.items():
            assert f > 0 or len(words) >= certificate.lower_bound
        if certificate.removed is not None:
            assert exact[certificate.removed] < 0
        words = find_sufficient_set([game], seconds=math.inf).features
        assert all(f > 0 for removed, f in exact.items() if not set(removed) & set(words))


def exact_value(game, keep):
    """Return the mean of N/D with rational arithmetic."""
    total = Fraction(0)
    for i in range(game.K):
        N, D = Fraction(float(game.N0[0, i])), Fraction(float(game.D0[i]))
        for j, is_kept in enumerate(keep):
            A, a = (game.A, game.a) if is_kept else (game.B, game.b)
            N, D = N + Fraction(float(A[0, i, j])), D + Fraction(float(a[i, j]))
        total += N / D
    return total / game.K


@pytest.mark.parametrize("exponent", [-17, -15, -12, -9])
def test_roots_within_rounding_of_zero_are_not_decided_wrongly(exponent):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        (game,) = counted_words(rng, 5, power=0.5, intercept=True)
        keep = np.ones((1, 5), bool)
        keep[0, [0, 3]] = False
        f = float(value(game, keep)[0, 0])
        game = replace(game, offset=game.offset - f + (-1) ** seed * 10.0**exponent)
        if float(full_value(game)[0]) < 1e-6:
            continue
        certificate = certify_removals([game], seconds=math.inf)
        with mpmath.workdps(50):
            for row in enumerate_masks(5):
                f, words = many_digits(game, row), tuple(np.flatnonzero(~row))
                assert f > 0 or len(words) >= certificate.lower_bound
                assert f < 0 or words != certificate.removed


def many_digits(game, keep):
    """Return N/√D plus the offset with 50 digits."""
    N, D = mpmath.mpf(float(game.N0[0, 0])), mpmath.mpf(float(game.D0[0]))
    for j in np.flatnonzero(keep):
        N, D = N + mpmath.mpf(float(game.A[0, 0, j])), D + mpmath.mpf(float(game.a[0, j]))
    return mpmath.mpf(float(game.offset[0])) + (N / mpmath.sqrt(D) if D > 0 else 0)


def test_an_error_of_the_game_makes_claims_weaker():
    for seed in range(10):
        game = positive(random_game(seed, d=6, K=3, C=1))
        full = float(full_value(game)[0])
        error = np.full((1, 3), full / 2)
        plain, careful = (
            certify_removals([x], seconds=math.inf) for x in (game, replace(game, error=error))
        )
        assert careful.lower_bound <= plain.lower_bound
        f = value(game, enumerate_masks(6))[0]
        if careful.is_robust:
            assert f.min() > full / 2
        if careful.removed is not None:
            keep = np.ones((1, 6), bool)
            keep[0, list(careful.removed)] = False
            assert value(game, keep)[0, 0] < -full / 2


def test_equal_words_do_not_exceed_the_size():
    base = positive(random_game(3, d=1, K=4, C=1, ratio=1))
    repeated = {name: np.repeat(getattr(base, name), 12, axis=-1) for name in ("a", "b", "A", "B")}
    game = replace(base, **repeated)
    for shift in np.linspace(-2, 2, 9):
        moved = positive(replace(game, N0=game.N0 + shift))
        keep = enumerate_masks(12)
        f, sizes = value(moved, keep)[0], (~keep).sum(axis=1)
        certificate = certify_removals([moved], seconds=math.inf)
        assert certificate.lower_bound == sizes[f < 0].min(initial=13)


def test_a_limit_ends_the_search_with_a_valid_interval():
    game = positive(peaked_game(5, d=60, K=6))
    complete = certify_removals([game], seconds=math.inf)
    for nodes in (0, 1, 3, 10):
        certificate = certify_removals([game], seconds=math.inf, nodes=nodes)
        assert certificate.lower_bound <= complete.lower_bound
        assert certificate.is_settled or certificate.limit == "nodes"
        again = certify_removals([game], seconds=math.inf, nodes=nodes)
        assert again == certificate
        words = find_sufficient_set([game], seconds=math.inf, nodes=nodes)
        assert not words.is_smallest or words.limit is None
        # The complete text is always sufficient.
        assert 0 < len(words.features) <= 60 or complete.is_robust


def test_the_result_does_not_depend_on_the_scale_or_on_constants():
    for seed in range(5):
        game = positive(random_game(seed, d=9, K=4, C=1))
        before = certify_removals([game], seconds=math.inf)
        scaled = replace(
            game,
            **{name: 1e30 * getattr(game, name) for name in ("D0", "a", "b", "N0", "A", "B")},
        )
        after = certify_removals([scaled], seconds=math.inf)
        assert after[:3] == before[:3]
