"""Integrated gradients where hidden units make the logits: the bound, its lemmas, their mutants."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.theory import path_quadrature as quadrature
from limelight.theory.attention import logits_and_slopes, unit_logits
from limelight.theory.integrated_gradients import integrated_gradients
from limelight.theory.logit_path import LogitBounds, LogitPath, UnitPath
from limelight.theory.path_quadrature import DerivativeBounds
from limelight.theory.table_rounding import unit_logit_error
from path_integrals import integral_by_tanh_sinh

LOGIT = DerivativeBounds(lambda psi: np.ones((*psi.shape, 1)), curvature=0.0)
K, T, D_H = 2, 3, 5
seeds = st.integers(0, 2**32 - 1)


def random_path(seed, size, *, linear=0.0):
    """Logits by units that are given numbers of about ``size``, and a linear part beside them."""
    rng = np.random.default_rng(seed)
    start, end = size * rng.normal(size=(2, 1, K, T, D_H))
    base, logit = linear * rng.normal(size=(2, 1, K, T))
    return LogitPath(base, logit, UnitPath(np.arange(T), start, end, rng.normal(size=(K, D_H))))


def random_values(seed):
    return np.random.default_rng([seed, 1]).normal(size=(2, 1, 1, K, T))


def ig(path, u, base_u, *, tolerance=1e-11):
    return integrated_gradients(
        path,
        u,
        base_u,
        output_gradient=np.ones_like,
        explained_value=lambda f: f[..., 0],
        derivative_bounds=LOGIT,
        tolerance=tolerance,
    )


def integral_by_quadrature(path, u, base_u, **how):
    units = (path.units.end[0], path.units.start[0], path.units.weight)
    return integral_by_tanh_sinh(
        path.end[0], path.start[0], u[0, 0], base_u[0, 0], units=units, **how
    )


def integral_by_mpmath(path, u, base_u):
    """Oracle: the integral of the definition in 30 digits, by Gauss–Legendre on four parts."""

    def numbers(x):
        return [mpmath.mpf(float(value)) for value in np.ravel(x)]

    scores = []
    with mpmath.workdps(30):
        for t in range(T):
            total = mpmath.mpf(0)
            for k in range(K):
                w = numbers(path.units.weight[k])
                h, y = (
                    [numbers(x[0, k, s]) for s in range(T)]
                    for x in (path.units.start, path.units.end)
                )
                ell, ell_end = numbers(path.start[0, k]), numbers(path.end[0, k])
                v, v_end = numbers(base_u[0, 0, k]), numbers(u[0, 0, k])

                def integrand(x, t=t, w=w, h=h, y=y, ell=ell, ell_end=ell_end, v=v, v_end=v_end):
                    def logit(s, z):
                        arguments = (a + z * (b - a) for a, b in zip(h[s], y[s], strict=True))
                        own_value = ell[s] + z * (ell_end[s] - ell[s])
                        return own_value + mpmath.fsum(
                            c * mpmath.tanh(value) for c, value in zip(w, arguments, strict=True)
                        )

                    g = [mpmath.exp(logit(s, x)) for s in range(T)]
                    value = [v[s] + x * (v_end[s] - v[s]) for s in range(T)]
                    f = mpmath.fdot(g, value) / mpmath.fsum(g)
                    slope = mpmath.diff(lambda z: logit(t, z), x)
                    return g[t] / mpmath.fsum(g) * (v_end[t] - v[t] + slope * (value[t] - f))

                total += mpmath.quad(
                    integrand, mpmath.linspace(0, 1, 5), method="gauss-legendre", maxdegree=4
                )
            scores.append(float(total / K))
    return np.array(scores)


def test_scores_are_within_the_bound_of_thirty_digits():
    path, (u, base_u) = random_path(7, 1.0, linear=1.0), random_values(7)
    result = ig(path, u, base_u)
    oracle = integral_by_mpmath(path, u, base_u)
    assert np.abs(result.scores[0].sum(axis=0) - oracle).max() <= result.bound[0] < 1e-10
    np.testing.assert_allclose(
        integral_by_quadrature(path, u, base_u).astype(float), oracle, rtol=1e-12
    )


@given(seeds, st.floats(-1.5, 1.3), st.sampled_from([0.0, 5.0]), st.sampled_from([1e-4, 1e-11]))
@settings(max_examples=12, deadline=None)
def test_scores_of_random_units_are_within_the_bound(seed, decades, linear, tolerance):
    path, (u, base_u) = random_path(seed, 10**decades, linear=linear), random_values(seed)
    result = ig(path, u, base_u, tolerance=tolerance)
    off = result.scores[0].sum(axis=0) - integral_by_quadrature(path, u, base_u)
    assert max(np.abs(off).max(), abs(off.sum())) <= result.bound[0]
    assert result.gap[0] <= result.bound[0] + 1e-12
    assert result.quadrature[0] <= max(tolerance, result.bound[0] - result.quadrature[0])


def sudden_unit(steepness=1500.0, where=0.345):
    """One head, two positions: a unit of small weight that switches on a thousandth of the way."""
    start = np.array([[[[-steepness * where], [0.0]]]])
    end = np.array([[[[steepness * (1 - where)], [0.0]]]])
    units = UnitPath(np.arange(2), start, end, np.array([[0.02]]))
    values = np.array([[[[400.0, -100.0]]]]), np.array([[[[300.0, -100.0]]]])
    return LogitPath(np.zeros((1, 1, 2)), np.zeros((1, 1, 2)), units), *values


def test_a_unit_that_switches_between_the_nodes_is_not_overlooked():
    path, u, base_u = sudden_unit()
    result = ig(path, u, base_u)
    exact = integral_by_quadrature(path, u, base_u, halvings=15)
    assert np.abs(result.scores[0, 0] - exact).max() <= result.bound[0] < 1e-6
    assert result.nodes > 1000  # dot products whose slopes have this range, 30, need 96


def test_a_bound_that_takes_units_for_linear_fails(monkeypatch):
    """Negative control: φ = HS/2 and no poles, which is right for dot products alone."""

    def linear(self, H):
        level = REACH(self, 0 * H)
        return LogitBounds(
            H[:, None] * self.slope_range / 2, level.slope_deviation, level.max_slope
        )

    monkeypatch.setattr(LogitPath, "bounds", linear)
    monkeypatch.setattr(LogitPath, "max_unit_change", np.zeros((1, 1)))
    path, u, base_u = sudden_unit()
    result = ig(path, u, base_u)
    exact = integral_by_quadrature(path, u, base_u, halvings=15)
    assert np.abs(result.scores[0, 0] - exact).max() > 1e4 * result.bound[0]


REACH = LogitPath.bounds


def off_the_line(path, H, seed):
    """Logits and slopes at random points of the strip |Im x| ≤ H, its edge among them."""
    rng = np.random.default_rng([seed, 2])
    x = rng.uniform(-2, 3, 400) + 1j * H * np.append(rng.uniform(-1, 1, 200), np.ones(200))
    units = path.units
    y = (units.end - units.start)[0]
    # Where a unit is given 0 it leans most: points over these are the hardest.
    zeros = (-units.start[0] / y).ravel()
    x = np.append(x, zeros + 1j * H)[:, None, None]
    moved = (path.end - path.start)[0]
    h = units.start[0] + x[..., None] * y
    w, t = units.weight[:, None], np.tanh(h)
    logit = path.start[0] + x * moved + (w * t).sum(axis=-1)
    return logit, moved + (w * y * (1 - t * t)).sum(axis=-1)


@given(seeds, st.floats(0.02, 0.97), st.sampled_from([0.0, 3.0]))
@settings(max_examples=25, deadline=None)
def test_logits_off_the_real_line_stay_within_their_reach(seed, share, linear):
    path = random_path(seed, 1.0, linear=linear)
    H = share * np.pi / (path.slope_range + 2 * path.max_unit_change).max()
    reach = path.bounds(np.array([H]))
    assert (reach.phase < np.pi / 2).all()  # no pole below the height that is chosen
    logit, slope = off_the_line(path, H, seed)
    more = 1 + 1e-12
    assert (np.ptp(logit.imag, axis=-1) <= 2 * reach.phase * more).all()
    assert (np.abs(slope).max(axis=-1) <= reach.max_slope * more).all()
    g = np.exp(logit - logit.real.max(axis=-1, keepdims=True))
    total = np.abs(g).sum(axis=-1) / np.abs(g.sum(axis=-1))
    assert (total <= more / np.cos(reach.phase)).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_reach_is_attained_where_units_switch_together(share):
    """Two positions whose units pass 0 at the same x, one upwards and one downwards."""
    y, w = 3.0, 0.7
    half = np.array([y / 2, -y / 2])[None, None, :, None]
    path = LogitPath(
        np.zeros((1, 1, 2)),
        np.zeros((1, 1, 2)),
        UnitPath(np.arange(2), -half, half, np.array([[w]])),
    )
    H = share * np.pi / 2 / y
    logit = w * np.tanh(1j * H * np.array([y, -y]))
    reach = path.bounds(np.array([H]))
    assert np.ptp(logit.imag) == pytest.approx(2 * reach.phase[0, 0], rel=1e-12)
    slope = w * y * (1 - np.tanh(1j * H * y) ** 2)
    assert abs(slope) == pytest.approx(reach.max_slope[0, 0], rel=1e-12)


def test_without_the_tangent_a_logit_leaves_its_reach():
    """Negative control: over a zero of a unit, Im tanh is tan θ, and not θ."""
    path = random_path(3, 1.0)
    H = 0.9 * np.pi / (path.slope_range + 2 * path.max_unit_change).max()
    units = path.units
    only = UnitPath(units.positions, *(x[..., :1] for x in units[1:]))
    value = replace(path, units=only)
    logit, slope = off_the_line(value, H, 0)
    leaning = np.abs(logit.imag).max(axis=(0, -1))
    assert (leaning > H * value.max_unit_change * np.abs(only.weight[:, 0])).all()
    assert (np.abs(slope).max(axis=(0, -1)) > value.bounds(np.zeros(1)).max_slope).all()


@given(seeds, st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_a_logit_of_units_rounds_within_its_bound(seed, d_h):
    rng = np.random.default_rng(seed)
    h, w = 3 * rng.normal(size=(2, d_h))
    with mpmath.workdps(30):
        exact = mpmath.fsum(
            mpmath.mpf(float(a)) * mpmath.tanh(mpmath.mpf(float(b)))
            for a, b in zip(w, h, strict=True)
        )
        off = abs(mpmath.mpf(float(unit_logits(h, w))) - exact)
    assert off <= unit_logit_error(w) < 1e-11


def test_nothing_is_known_beyond_the_pole_of_a_unit():
    path = random_path(3, 1.0)
    beyond = path.bounds(np.pi / 2 / path.max_unit_change.max(axis=-1))
    assert np.isinf(beyond.phase).any()


def test_units_that_hardly_move_are_dot_products():
    path, (u, base_u) = random_path(5, 1e-9), random_values(5)
    read = (path.units.weight[:, None] * path.units.start).sum(axis=-1)
    read_end = (path.units.weight[:, None] * path.units.end).sum(axis=-1)
    linear = LogitPath(1e9 * read, 1e9 * read_end)
    close = replace(path, units=path.units._replace(weight=1e9 * path.units.weight))
    assert (
        close.slope_range >= linear.slope_range
    ).all()  # units may undo each other; the bound adds them up
    np.testing.assert_allclose(
        ig(close, u, base_u).scores, ig(linear, u, base_u).scores, rtol=1e-5, atol=1e-7
    )


def test_places_whose_units_stand_still_may_be_left_out():
    path, (u, base_u) = random_path(13, 1.0, linear=1.0), random_values(13)
    units, still = path.units, [1]
    units.end[:, :, still] = units.start[:, :, still]
    constant = unit_logits(units.start, units.weight[:, None])[..., still]
    start, end = path.start.copy(), path.end.copy()
    start[..., still] += constant
    end[..., still] += constant
    places = np.array([0, 2])
    moving = UnitPath(places, *(x[:, :, places] for x in units[1:3]), units.weight)
    less = ig(LogitPath(start, end, moving), u, base_u)
    full = ig(path, u, base_u)
    np.testing.assert_allclose(less.scores, full.scores, rtol=1e-12, atol=1e-14)
    assert less.quadrature == pytest.approx(full.quadrature)
    empty = UnitPath(places[:0], *(x[:, :, :0] for x in units[1:3]), units.weight)
    linear = ig(LogitPath(start, end), u, base_u)
    np.testing.assert_array_equal(ig(LogitPath(start, end, empty), u, base_u).scores, linear.scores)


def test_where_panels_end_the_bound_says_what_is_proven(monkeypatch):
    path, u, base_u = sudden_unit()
    monkeypatch.setattr(quadrature, "MAX_PANELS", 3)
    result = ig(path, u, base_u)
    exact = integral_by_quadrature(path, u, base_u, halvings=15)
    assert 1e-3 < np.abs(result.scores[0, 0] - exact).max() <= result.bound[0]


@pytest.mark.parametrize("linear", [0.0, 2.0])
def test_torch_gives_the_same_numbers(linear):
    path, (u, base_u) = random_path(11, 2.0, linear=linear), random_values(11)
    tensors = LogitPath(
        torch.tensor(path.start),
        torch.tensor(path.end),
        UnitPath(*(torch.tensor(x) for x in path.units)),
    )
    result = integrated_gradients(
        tensors,
        torch.tensor(u),
        torch.tensor(base_u),
        output_gradient=torch.ones_like,
        explained_value=lambda f: f[..., 0],
        derivative_bounds=LOGIT,
        tolerance=1e-11,
    )
    np.testing.assert_allclose(result.scores.numpy(), ig(path, u, base_u).scores, rtol=1e-9)


def test_logits_that_move_are_those_of_units_and_their_slopes():
    rng = np.random.default_rng(2)
    h, y, weight = rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    gained, faster = logits_and_slopes(h, weight, y)
    step = 1e-6
    beyond, before = (unit_logits(h + sign * step * y, weight) for sign in (1, -1))
    np.testing.assert_array_equal(gained, unit_logits(h, weight))
    np.testing.assert_allclose(faster, (beyond - before) / (2 * step), rtol=1e-7, atol=1e-8)


@given(seeds, st.floats(0.05, 0.5))
@settings(max_examples=20)
def test_slopes_leave_their_center_by_at_most_the_bound(seed, height):
    """The center is that of the linear part, the same for all positions of a head."""
    path = random_path(seed, 0.3, linear=1.0)
    bounds = path.bounds(np.full((1, 1), height))
    change = path.end - path.start
    center = (change.max(axis=-1, keepdims=True) + change.min(axis=-1, keepdims=True)) / 2
    rng, y = np.random.default_rng(seed), path.units.end - path.units.start
    largest = np.zeros((1, K))
    for x in rng.random(8) + 1j * height * np.array([-1, -0.5, 0, 0.5, 1, 1, -1, 0.9]):
        at_x = path.units.start + x * y
        slope = change + (path.units.weight[:, None] * y / np.cosh(at_x) ** 2).sum(axis=-1)
        deviation, size = abs(slope - center).max(axis=-1), abs(slope).max(axis=-1)
        assert (deviation <= bounds.slope_deviation[0] * (1 + 1e-12)).all()
        assert (size <= bounds.max_slope[0] * (1 + 1e-12)).all()
        largest = np.maximum(largest, deviation)
    assert (largest > 0.1 * bounds.slope_deviation[0]).all()  # the bound is no empty one
