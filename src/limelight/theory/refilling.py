r"""Random refilling: a removed word is replaced by random words, and the values stay exact.

Every position t of a removed word gets an independent draw W of a distribution Q. The value of a
set S of kept words is v(S) = E_W f. This is no ratio game, because b_t(W) is random. But 1/D =
∫ e^{−λD} dλ still factorizes: in `conditionals`, a removed word only has another factor and another
value at every node λ,

    M_t(λ) = E[e^{−λ b_t(W)}],    B̃_t(λ) = E[b_t(W) u_t(W) e^{−λ b_t(W)}] / M_t(λ).

With b_t(w) = κ_t g_w and u_t(w) = x_w + y_t, both are values of E[e^{−μg}], E[g e^{−μg}] and
E[x g e^{−μg}] at μ = λκ_t, three functions of each head. `compress_words` replaces thousands of
words by a few hundred nodes for these functions, and every relative error is bounded at the λ and t
that are used. Statement and proof: ``docs/theorems/refilling.md``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Unpack

import numpy as np

from limelight.errors import DomainError
from limelight.shapes import Bool, Float, Int
from limelight.theory.lime import lime_plan
from limelight.theory.lime_recurrence import chain_regression
from limelight.theory.lime_weights import (
    TOLERANCES,
    LimeLimit,
    RegressionSettings,
    lime_design,
)
from limelight.theory.ratio_game import BoundedScores
from limelight.theory.reciprocal_sum import ReciprocalSum, check_tolerance, reciprocal_sum
from limelight.theory.removal_mixture import FAIR_COINS, RemovalMixture, uniform_mixture
from limelight.theory.subset_chain import ChainSteps
from limelight.theory.table_rounding import ROUNDING

_BIN = 0.5  # width of a bin of logits; from 0.4 to 0.8 about as many nodes reach 1e-10
_ORDERS = (8, 12, 17, 24)  # nodes per bin, tried in turn
_MAX_SPREAD = 600.0  # of the logits of words, so that no weight is denormal
_CELLS = 2**20  # exponentials at a time
_FINE = 1e-5  # tolerances below never succeed with the first number of nodes
_SHARE = 1 / 16  # of the tolerance, for the nodes that replace the words


@dataclass(frozen=True, slots=True, eq=False)
class WordNodes:
    """A few nodes that replace the words of a distribution, for one head.

    The words are sorted into bins by their weight g = exp(x − max x). A bin with at most ``order``
    words has these words as nodes. Any other bin has ``order`` Chebyshev nodes, whose weights are
    means of Lagrange polynomials.
    """

    top: float  # the largest logit, of which g = 1
    least: float  # the smallest g
    order: int
    g: Float[np.ndarray, " n"]
    mass: Float[np.ndarray, " n"]
    value: Float[np.ndarray, "C n"]  # means of (x − center) times a Lagrange polynomial
    center: Float[np.ndarray, " C"]  # the middle of the values x of the words
    low: Float[np.ndarray, " bins"]  # the smallest g of each bin with Chebyshev nodes
    high: Float[np.ndarray, " bins"]
    bin_mass: Float[np.ndarray, " bins"]
    value_low: Float[np.ndarray, " C"]
    value_high: Float[np.ndarray, " C"]


def compress_words(
    logit: Float[np.ndarray, " n"],
    value: Float[np.ndarray, "C n"],
    probability: Float[np.ndarray, " n"],
    *,
    order: int,
) -> WordNodes:
    """Return nodes that replace the words of a distribution for one head.

    Parameters
    ----------
    logit, value
        The parts of the logit and of the values that belong to each word.
    probability
        The positive probability of each word.
    order
        The number of Chebyshev nodes of a bin.

    Raises
    ------
    DomainError
        If the logits are spread over more than 600.
    """
    top = float(logit.max())
    if top - float(logit.min()) > _MAX_SPREAD:
        raise DomainError(
            f"random refilling needs logits of words within {_MAX_SPREAD:g} of each other. Use "
            "another replacement, such as 'unk'."
        )
    weights = np.exp(logit - top)
    value_low, value_high = value.min(axis=1), value.max(axis=1)
    center = (value_low + value_high) / 2
    value = value - center[:, None]
    number = np.floor((top - logit) / _BIN).astype(np.int64)
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    bins: list[tuple[float, float, float]] = []
    for rows in np.split(
        np.argsort(number, kind="stable"), np.cumsum(np.unique(number, return_counts=True)[1])[:-1]
    ):
        g, q, u = weights[rows], probability[rows], value[:, rows]
        low, high = float(g.min()), float(g.max())
        if len(rows) <= order:
            parts.append((g, q, q * u))
            continue
        if low == high:
            parts.append((g[:1], q.sum(keepdims=True), (q * u).sum(axis=1, keepdims=True)))
            continue
        x = np.clip((2 * g - (low + high)) / (high - low), -1, 1)
        nodes = np.cos(np.pi * (np.arange(order) + 0.5) / order)
        # L_i(x) = Σ_k (2 − δ_k0) T_k(x_i) T_k(x)/m. Rows are contiguous, so that NumPy sums pairs.
        terms = np.ascontiguousarray(np.polynomial.chebyshev.chebvander(x, order - 1).T)
        basis = np.polynomial.chebyshev.chebvander(nodes, order - 1) / order
        basis[:, 1:] *= 2
        moments = np.stack([(terms * row).sum(axis=1) for row in (q, *(q * u))])
        mass, *values = moments @ basis.T
        parts.append((low + (high - low) * (1 + nodes) / 2, mass, np.stack(values)))
        bins.append((low, high, float(q.sum())))
    bin_low, bin_high, bin_mass = np.array(bins).reshape(-1, 3).T
    return WordNodes(
        top=top,
        least=float(weights.min()),
        order=order,
        g=np.concatenate([g for g, _, _ in parts]),
        mass=np.concatenate([mass for _, mass, _ in parts]),
        value=np.concatenate([values for _, _, values in parts], axis=1),
        low=bin_low,
        high=bin_high,
        bin_mass=bin_mass,
        center=center,
        value_low=value_low,
        value_high=value_high,
    )


class TiltedMeans(NamedTuple):
    """E[e^{−μ(g − min g)}] and the means of g and of x g under that tilt, at each μ.

    The errors are relative to E[e^{−μg}] and to E[g e^{−μg}]. Those of ``mean_value``, the mean of
    (x − center) g, have the factor max|x − c| if (center − c) times ``mean_g`` is added to it.
    """

    factor: Float[np.ndarray, " n"]
    mean_g: Float[np.ndarray, " n"]
    mean_value: Float[np.ndarray, "C n"]
    factor_error: Float[np.ndarray, " n"]
    mean_error: Float[np.ndarray, " n"]


def tilted_means(nodes: WordNodes, mu: Float[np.ndarray, " n"]) -> TiltedMeans:
    """Return the moments of a distribution of words under the tilts e^{−μg}, with their errors.

    On a bin from l to h, interpolation at m Chebyshev nodes is off by at most 2 ((h − l)/4)^m/m!
    times the largest m-th derivative: μ^m e^{−μl} for e^{−μg}, and (μ^m h + m μ^{m−1}) e^{−μl} for
    g e^{−μg}.
    """
    m, count = nodes.order, len(nodes.g)
    g, size = nodes.g, np.abs(nodes.mass)
    half = np.maximum((nodes.value_high - nodes.value_low) / 2, np.finfo(np.float64).tiny)
    size_g = np.maximum(size, (np.abs(nodes.value) / half[:, None]).max(axis=0)) * g
    columns = np.stack([nodes.mass, nodes.mass * g, size, size_g, *(nodes.value * g)]).T
    rows = max(1, _CELLS // max(count, 1))
    sums = np.concatenate(
        [
            np.exp(np.multiply.outer(-mu[i : i + rows], g - nodes.least)) @ columns
            for i in range(0, len(mu), rows)
        ]
    ).T
    factor, mean_g, size, size_g = sums[:4]
    spread = mu[:, None] * (nodes.high - nodes.low) / 4
    # In logarithms, since a power of μ may overflow where its exponential underflows.
    log_tail = m * np.log(np.maximum(spread, 1e-300)) - math.lgamma(m + 1)
    log_tail += np.multiply.outer(-mu, nodes.low - nodes.least) + np.log(2 * nodes.bin_mass)
    tail = np.exp(np.minimum(log_tail, 600))
    error = tail.sum(axis=1)
    error_g = (tail * (nodes.high + m / np.maximum(mu, 1e-300)[:, None])).sum(axis=1)
    # An exponent −z has an error of 3 roundings, and z e^{−z} is below 40 e^{−z} or below 1e-15.
    # A weight of a node has an error of m² + 64 roundings, in units of the mass of its bin.
    steps = ROUNDING * (count + 4 * 40 + 2 * m * m + 128)
    error += steps * (size + 1e-15)
    error_g += steps * (size_g + 1e-15 * nodes.least)
    with np.errstate(divide="ignore", invalid="ignore"):
        return TiltedMeans(
            factor,
            mean_g / factor,
            sums[4:] / factor,
            np.where(factor > error, error / (factor - error), np.inf),
            np.where(mean_g > error_g, error_g / (mean_g - error_g), np.inf),
        )


@dataclass(frozen=True, slots=True, eq=False)
class RefillGame:
    """v(S) = E_W f of one text: words outside S are refilled at each of their T positions.

    Kept words and fixed positions are those of a `RatioGame`, in units of e^top for the largest
    logit of each head. ``words`` returns the nodes of all heads for an order.
    """

    D0: Float[np.ndarray, " K"]
    a: Float[np.ndarray, "K d"]
    N0: Float[np.ndarray, "C K"]
    A: Float[np.ndarray, "C K d"]
    words: Callable[[int], Sequence[WordNodes]]
    scale: Float[np.ndarray, "K T"]  # κ_t
    position_value: Float[np.ndarray, "C K T"]  # y_t
    group: Int[np.ndarray, " T"]  # the word at each position
    error: Float[np.ndarray, "C K"]
    _forms: dict[float, list["RefillForm"]] = field(default_factory=dict)

    @property
    def d(self) -> int:
        """Return the number of words."""
        return int(self.a.shape[-1])

    def forms(self, tolerance: float) -> list["RefillForm"]:
        """Return the form of each head, in which 1/D and words have errors up to a tolerance.

        Below about 1e-9, rounding errors of many positions may exceed it. The bounds contain them.

        Raises
        ------
        DomainError
            If the words cannot be replaced by nodes with finite errors.
        """
        if tolerance not in self._forms:
            heads = range(len(self.D0))
            self._forms[tolerance] = [_fit_form(self, k, tolerance) for k in heads]
        return self._forms[tolerance]

    def value(
        self, keep: Bool[np.ndarray, "n d"], *, tolerance: float
    ) -> tuple[Float[np.ndarray, "n C"], Float[np.ndarray, " C"]]:
        """Return v(S) for each row of ``keep``, and a bound on the errors."""
        forms = self.forms(tolerance)
        bounds = [_value_bound(form) for form in forms]
        return refilled_values(forms, keep), np.mean(bounds, axis=0)


class RefillForm(NamedTuple):
    """One head in units of D_min, with the factors of kept and of removed words at Q nodes λ.

    |f − c| ≤ ``half_range`` for every set of words and every refill. ``relative_error`` bounds the
    error of v from 1/D and from the nodes of the words, in units of ``half_range``.
    """

    weight: Float[np.ndarray, " Q"]  # w e^{−λ}
    rule: ReciprocalSum
    n0: Float[np.ndarray, " C"]
    keep_factor: Float[np.ndarray, "Q d"]
    keep_value: Float[np.ndarray, "C 1 d"]
    drop_factor: Float[np.ndarray, "Q d"]
    drop_value: Float[np.ndarray, "C Q d"]
    c: Float[np.ndarray, " C"]
    half_range: Float[np.ndarray, " C"]
    magnitude: Float[np.ndarray, " C"]
    error: Float[np.ndarray, " C"]
    relative_error: float
    rounding: float  # of one sum over the nodes, in units of the magnitude


def _fit_form(game: RefillGame, k: int, tolerance: float) -> RefillForm:
    """Return the form of head ``k`` with as few nodes of words as the tolerance allows."""
    for order in _ORDERS[1:] if tolerance < _FINE else _ORDERS:
        form = _head_form(game, k, game.words(order)[k], tolerance)
        if form.relative_error <= (1 + _SHARE) * tolerance:
            break
    if not math.isfinite(form.relative_error):
        raise DomainError(
            "random refilling cannot bound its errors for this text, because the words of the "
            "background differ too much. Use another background or another replacement."
        )
    return form


def _value_bound(form: RefillForm) -> Float[np.ndarray, " C"]:
    """Return a bound on the error of v(S) of one head."""
    return form.half_range * form.relative_error + form.magnitude * form.rounding + form.error


def _head_form(game: RefillGame, k: int, nodes: WordNodes, tolerance: float) -> RefillForm:
    """Return the form of head ``k`` with these nodes of words."""
    d, T = game.d, len(game.group)
    scale = game.scale[k]
    sums = partial(np.bincount, game.group, minlength=d)
    least, most = sums(scale * nodes.least), sums(scale)  # the largest g is 1
    light = np.minimum(game.a[k], least)
    smallest = game.D0[k] + light.sum()
    largest = game.D0[k] + np.maximum(game.a[k], most).sum()
    rule = reciprocal_sum(max(1.0, largest / smallest), tolerance)
    lam = rule.nodes
    # The range of all values that a text can contain.
    y = game.position_value[:, k]
    low, high = nodes.value_low + y.min(axis=1), nodes.value_high + y.max(axis=1)
    N, D = [game.N0[:, k, None], game.A[:, k]], [game.D0[k, None], game.a[k]]
    with np.errstate(divide="ignore", invalid="ignore"):
        u = np.concatenate([np.where(g > 0, n / g, 0 * n) for n, g in zip(N, D, strict=True)], 1)
    low, high = np.minimum(low, u.min(axis=1)), np.maximum(high, u.max(axis=1))
    c, half_range = (low + high) / 2, (high - low) / 2
    magnitude = half_range + np.abs(c)
    moments = tilted_means(nodes, np.multiply.outer(lam, scale / smallest).ravel())
    factor, mean_g, factor_error, mean_error = (
        x.reshape(-1, T) for x in (moments.factor, moments.mean_g, *moments[3:])
    )
    mean_value = moments.mean_value.reshape(len(c), -1, T)
    drop_value = (mean_value + (y + (nodes.center - c)[:, None])[:, None] * mean_g) * (
        scale / smallest
    )
    group_sums = (np.arange(d)[:, None] == game.group).astype(np.float64).T
    with np.errstate(divide="ignore"):
        log_factor = np.log(factor) @ group_sums
    products = np.exp(np.log1p(factor_error).sum(axis=1)) * (1 + mean_error.max(axis=1))
    node_error = float((products - 1).max())
    steps = 8 * d + 4 * T + len(lam) + 64
    return RefillForm(
        weight=rule.weights * np.exp(-lam),
        rule=rule,
        n0=(game.N0[:, k] - c * game.D0[k]) / smallest,
        keep_factor=np.exp(np.multiply.outer(-lam, (game.a[k] - light) / smallest)),
        keep_value=((game.A[:, k] - c[:, None] * game.a[k]) / smallest)[:, None],
        drop_factor=np.exp(np.multiply.outer(-lam, (least - light) / smallest) + log_factor),
        drop_value=drop_value @ group_sums,
        c=c,
        half_range=half_range + ROUNDING * (d + T + 8) * magnitude,
        magnitude=magnitude,
        error=game.error[:, k],
        relative_error=rule.error + node_error * rule.condition,
        # A logarithm of a factor has an error of the size of the logarithm, which is below 60 per
        # position where the factor matters.
        rounding=ROUNDING * (steps + 64 * T) * rule.condition,
    )


def refilled_values(
    forms: Sequence[RefillForm], keep: Bool[np.ndarray, "n d"]
) -> Float[np.ndarray, "n C"]:
    """Return v(S), the mean over heads, for each row of ``keep`` (True: the word is kept)."""
    kept_mask = keep.astype(np.float64)
    total = np.zeros((len(kept_mask), len(forms[0].c)))
    for form in forms:
        with np.errstate(divide="ignore"):
            log_keep, log_drop = np.log(form.keep_factor), np.log(form.drop_factor)
        # 0 times a logarithm of 0 is no number. e^{−745} is the smallest positive number.
        log_keep, log_drop = np.maximum(log_keep, -1e4), np.maximum(log_drop, -1e4)
        P = form.weight * np.exp(kept_mask @ log_keep.T + (1 - kept_mask) @ log_drop.T)
        for i, n0 in enumerate(form.n0):
            R = n0 + kept_mask @ form.keep_value[i].T + (1 - kept_mask) @ form.drop_value[i].T
            total[:, i] += (P * R).sum(axis=1) + form.c[i]
    return total / len(forms)


class _Conditionals(NamedTuple):
    """Σ_m weight_m of E_p[f − c], of E_p[f − c | j kept] and of E_p[f − c | j removed]."""

    total: Float[np.ndarray, " C"]
    if_kept: Float[np.ndarray, "C d"]
    if_removed: Float[np.ndarray, "C d"]


def _conditionals(
    form: RefillForm,
    p_nodes: Float[np.ndarray, " M"],
    *,
    total_weight: Float[np.ndarray, " M"],
    kept_weight: Float[np.ndarray, " M"],
    removed_weight: Float[np.ndarray, " M"],
) -> _Conditionals:
    """Return the sums of expectations over removal probabilities, with a weight for each."""
    sums = _Conditionals(np.zeros_like(form.n0), *np.zeros((2, *form.keep_value[:, 0].shape)))
    keep, drop = form.keep_factor, form.drop_factor
    step = form.keep_value - form.drop_value
    weights = zip(total_weight, kept_weight, removed_weight, strict=True)
    for p, (w, w_kept, w_removed) in zip(p_nodes, weights, strict=True):
        phi = (1 - p) * keep + p * drop
        # If both factors underflow, the product of all factors is 0 too.
        phi = np.maximum(phi, np.finfo(np.float64).tiny)
        t, tau = keep / phi, drop / phi
        P = form.weight * np.prod(phi, axis=1)
        mean = (1 - p) * t * form.keep_value + p * tau * form.drop_value
        R = (form.n0[:, None] + mean.sum(axis=-1))[..., None]
        sums.total[...] += w * (P * R[..., 0]).sum(axis=1)
        sums.if_kept[...] += w_kept * np.einsum("q,cqd->cd", P, t * (R + p * tau * step))
        sums.if_removed[...] += w_removed * np.einsum(
            "q,cqd->cd", P, tau * (R - (1 - p) * t * step)
        )
    return sums


def refilled_shapley(game: RefillGame, *, tolerance: float = 1e-6) -> list[BoundedScores]:
    """Return the Shapley values of v for each head.

    ``tolerance`` is relative to the range of the values u of the words. Domain: d ≥ 1.
    """
    check_tolerance(tolerance)
    mixture = uniform_mixture(game.d, weight=1 / game.d, tolerance=0.4 * tolerance)
    return _mean_effects(game, mixture, share=0.45 * tolerance)


def refilled_banzhaf(game: RefillGame, *, tolerance: float = 1e-6) -> list[BoundedScores]:
    """Return the Banzhaf values of v for each head. ``tolerance`` is as in `refilled_shapley`."""
    check_tolerance(tolerance)
    return _mean_effects(game, FAIR_COINS, share=0.9 * tolerance)


def _mean_effects(
    game: RefillGame, mixture: RemovalMixture, *, share: float
) -> list[BoundedScores]:
    """Return Σ_m ω_m (E_p[v | j kept] − E_p[v | j removed]) for each head, with a bound."""
    residual, mass = mixture.total_residual, mixture.mass + mixture.total_residual
    results = []
    for form in game.forms(share):
        omega = mixture.omega
        sums = _conditionals(
            form, mixture.p, total_weight=omega, kept_weight=omega, removed_weight=omega
        )
        bound = 2 * form.half_range * (residual + form.relative_error * mass)
        rounding = form.rounding + ROUNDING * len(omega)
        bound = bound + 2 * form.magnitude * rounding * mass + 2 * form.error
        results.append(BoundedScores(sums.if_kept - sums.if_removed, bound))
    return results


def refilled_leave_one_out(game: RefillGame, *, tolerance: float = 1e-6) -> list[BoundedScores]:
    """Return v(all) − v(all but j) for each head. ``tolerance`` is as in `refilled_shapley`."""
    check_tolerance(tolerance)
    masks = np.concatenate([np.ones((1, game.d), bool), ~np.eye(game.d, dtype=bool)])
    results = []
    for form in game.forms(0.9 * tolerance):
        values = refilled_values([form], masks).T
        results.append(BoundedScores(values[:, :1] - values[:, 1:], 2 * _value_bound(form)))
    return results


def refilled_lime(
    game: RefillGame, *, tolerance: float = 1e-6, **settings: Unpack[RegressionSettings]
) -> list[LimeLimit]:
    """Return the limit of LIME for each head, as `lime.lime` does for ratio games.

    ``tolerance`` is as in `refilled_shapley`. Domain: d ≥ 2.
    """
    check_tolerance(tolerance)
    design = lime_design(game.d, **settings)
    plan = lime_plan(game.d, tolerance=tolerance, **settings)
    if not plan.meets(tolerance):
        share = 2 * tolerance / design.combined_error_factor()
        return [_lime_by_recurrence(form, game.d, **settings) for form in game.forms(share)]
    amplification = float((plan.reciprocal_factor / TOLERANCES).max())
    first, last = plan.corrections
    ends = np.stack([np.ones(game.d, bool), np.zeros(game.d, bool)])
    p, omega = plan.mixture.p, plan.mixture.omega
    results = []
    for form in game.forms(tolerance / max(amplification, 1e-300)):
        sums = _conditionals(
            form, p, total_weight=omega, kept_weight=omega * (1 - p), removed_weight=0 * omega
        )
        full, empty = refilled_values([form], ends) - form.c
        kept_sums = sums.if_kept + (first * full)[:, None]
        total = sums.total + first * full + last * empty
        mean = design.m1 / design.m0
        effects = kept_sums - mean * total[:, None]
        beta = effects - design.pull * effects.sum(axis=-1, keepdims=True)
        beta = beta / (design.V + design.penalty)
        intercept = total / design.m0 - mean * beta.sum(axis=-1) + form.c
        bounds = [
            form.half_range * (residual + form.relative_error * reciprocal)
            + form.magnitude * (form.rounding + ROUNDING * len(p)) * round_off
            + form.error * factor
            for residual, reciprocal, round_off, factor in zip(
                plan.mixture_factor,
                plan.reciprocal_factor,
                plan.rounding_factor,
                plan.game_factor,
                strict=True,
            )
        ]
        results.append(LimeLimit(beta, bounds[0], intercept, bounds[1]))
    return results


def _lime_by_recurrence(
    form: RefillForm, d: int, **settings: Unpack[RegressionSettings]
) -> LimeLimit:
    """Return the limit of one head by dynamic programming, for few words and small bandwidths."""
    sizes = np.ones(d + 1)
    position = {float(node): q for q, node in enumerate(form.rule.nodes)}
    factor = form.half_range * form.relative_error + form.error
    limits = []
    # The recurrence takes values that do not depend on the node, so each node is a call.
    for lam, q in position.items():

        def chain_steps(nodes: Float[np.ndarray, " L"], q: int = q) -> ChainSteps:
            """Return the steps of the chain at the node ``q``."""
            return ChainSteps(
                keep_factor=form.keep_factor[q : q + 1, :, None],
                keep_value=form.keep_value[:, 0, :, None],
                drop_factor=form.drop_factor[q : q + 1],
                drop_value=form.drop_value[:, q],
                tail_factor=np.ones_like(nodes[:, None] * sizes),
                tail_value=form.n0[:, None] * sizes,
            )

        limits.append(
            chain_regression(
                lime_design(d, **settings),
                form.rule._replace(nodes=np.array([lam]), weights=form.rule.weights[q : q + 1]),
                chain_steps,
                form.weight[q : q + 1],
                f_error=factor / len(position),
                magnitude=form.magnitude,
            )
        )
    scores, bounds, intercepts, intercept_bounds = (
        np.sum(column, axis=0) for column in zip(*limits, strict=True)
    )
    return LimeLimit(scores, bounds, intercepts + form.c, intercept_bounds)
