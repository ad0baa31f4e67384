"""Leave-one-out: the loss of f when only word j is removed. Closed form, O(d)."""

from limelight.shapes import Array, Float
from limelight.theory.heavy_form import full_and_empty_values, heavy_form
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import BoundedScores, RatioGame, mean_over_heads


def leave_one_out(game: RatioGame) -> BoundedScores:
    """Return f(all) − f(all but j) for every word j, the mean over heads.

    The bound covers rounding and the error of the game. The computation uses f − c, with c the
    middle of the range of f. Domain: d ≥ 1.
    """
    xp = array_namespace(game.a)
    form = heavy_form(game)
    kept_mask = xp.astype(form.kept_is_heavy, form.delta.dtype)
    D, step = form.delta * kept_mask, form.step * kept_mask[:, None, :]
    full, _ = full_and_empty_values(form)
    # f without j is summed again: where j has nearly all of D, D − a_j would lose every digit.
    D_without = leave_one_out_sums(D) + form.delta * (1 - kept_mask)
    N_without = leave_one_out_sums(step) + form.step * (1 - kept_mask)[:, None, :]
    scores = full[..., None] - form.value(N_without, D_without)
    # Four sums of d terms, N and D of both texts, and the few operations that put them together.
    rounding = 2.0**-52 * (4 * game.d + 16) * 4 * form.magnitude
    return BoundedScores(*mean_over_heads(game, scores, rounding + 2 * form.error))


def leave_one_out_sums(x: Float[Array, "*G d"]) -> Float[Array, "*G d"]:
    """Return Σ_{k ≠ j} x_k for every j, from the sums before and after j."""
    xp = array_namespace(x)
    zero = xp.zeros_like(x[..., :1])
    before = xp.cumulative_sum(xp.concat([zero, x[..., :-1]], axis=-1), axis=-1)
    after = xp.flip(xp.cumulative_sum(xp.flip(x, axis=-1), axis=-1), axis=-1)
    return before + xp.concat([after[..., 1:], zero], axis=-1)
