"""Leave-one-out: what f loses when word j alone is removed. Closed form, O(d)."""

from limelight.shapes import Array, Float
from limelight.theory.heavy_form import ends, heavy_form
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame, Valued, heads_mean


def leave_one_out(game: RatioGame) -> Valued:
    """f(all) − f(all but j), mean over heads. Any d ≥ 1.

    The bound holds rounding only, and the error of the game. Computed on f − c with c the middle of
    the range of f.
    """
    xp = array_namespace(game.a)
    form = heavy_form(game)
    kept = xp.astype(form.kept_is_heavy, form.delta.dtype)
    D, step = form.delta * kept, form.step * kept[:, None, :]
    full, _ = ends(form)
    # f without j is summed afresh: where j holds nearly everything, D − a_j would lose every digit.
    less_D = without_each(D) + form.delta * (1 - kept)
    less_N = without_each(step) + form.step * (1 - kept)[:, None, :]
    scores = full[..., None] - form.value(less_N, less_D)
    # Four sums of d terms, N and D of both texts, and the few operations that put them together.
    rounding = 2.0**-52 * (4 * game.d + 16) * 4 * form.magnitude
    return Valued(*heads_mean(game, scores, rounding + 2 * form.error))


def without_each(x: Float[Array, "*G d"]) -> Float[Array, "*G d"]:
    """Σ_{k ≠ j} x_k for every j, from sums before and after j."""
    xp = array_namespace(x)
    zero = xp.zeros_like(x[..., :1])
    before = xp.cumulative_sum(xp.concat([zero, x[..., :-1]], axis=-1), axis=-1)
    after = xp.flip(xp.cumulative_sum(xp.flip(x, axis=-1), axis=-1), axis=-1)
    return before + xp.concat([after[..., 1:], zero], axis=-1)
