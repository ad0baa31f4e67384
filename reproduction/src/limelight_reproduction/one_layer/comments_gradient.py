"""What section 4 says about gradients and attention in words, measured on documents."""

__all__ = ["PAIRS", "TYPICAL", "gradient_statistics", "negative_heads"]

import numpy as np

from limelight_reproduction.spread import correlation
from limelight.explainers.games import ratio_games
from limelight.explainers.reading import Reading
from limelight.results.agreement import rank_correlation
from limelight.shapes import Float
from limelight.theory.attention import head_outputs, max_attention, mean_attention
from limelight.theory.gradient import gradient_summary, gradient_times_input
from limelight.theory.leave_one_out import leave_one_out

PAIRS = (
    ("alpha-avg", "g-avg"),
    ("alpha-avg", "|g-avg|"),
    ("alpha-avg", "g-l1"),
    ("alpha-avg", "g-l2"),
    ("alpha-max", "g-l1"),
    ("alpha-max", "g-l2"),
)
TYPICAL = 0.1  # a value is typical where the rest of Eq. 14 is at most this share of its main term


def gradient_statistics(reading: Reading) -> list[dict[str, float | None]]:
    """Return the statistics of every document; features must be positions, as in Theorem 4.1."""
    scores = _scores(reading)
    effect = leave_one_out(ratio_games(reading)).scores[:, 0]
    atypical = _atypical(reading)
    found: list[dict[str, float | None]] = []
    for i, features in enumerate(reading.features):
        T = len(features)
        here = {name: rows[i, :T] for name, rows in scores.items()}
        one: dict[str, float | None] = {}
        for x, y in PAIRS:
            one[f"pearson {x} ~ {y}"] = correlation(here[x], here[y])
            one[f"spearman {x} ~ {y}"] = rank_correlation(here[x], here[y])
        for name in ("g-avg", "gxi"):
            one[f"negative {name}"] = float(np.mean(here[name] < 0))
            one[f"sign as leave-one-out {name}"] = float(
                np.mean(np.sign(here[name]) == np.sign(effect[i, :T]))
            )
        one["typical"] = float(np.mean(atypical[i, :, :T] <= TYPICAL))
        found.append(one)
    return found


def _scores(reading: Reading) -> dict[str, Float[np.ndarray, "n T"]]:
    """Return the scores of every token behind [cls], padding included, by method."""
    T = reading.token_gradient.shape[1]
    g_avg, g_l1, g_l2 = (
        gradient_summary(reading.token_gradient, how) for how in ("mean", "l1", "l2")
    )
    gxi = gradient_times_input(reading.alpha, reading.target_u, reading.logit).mean(axis=1)
    return {
        "alpha-avg": mean_attention(reading.alpha)[:, 1 : T + 1],
        "alpha-max": max_attention(reading.alpha)[:, 1 : T + 1],
        "g-avg": g_avg,
        "|g-avg|": np.abs(g_avg),
        "g-l1": g_l1,
        "g-l2": g_l2,
        "gxi": gxi[:, 1 : T + 1],
    }


def _atypical(reading: Reading) -> Float[np.ndarray, "n K T"]:
    """Return ‖(u_t − f_i) W_kᵀq/√d_att‖ / ‖W_vᵀW_ℓᵀ‖: the rest of Eq. 14 beside its main term."""
    alpha, u = reading.alpha, reading.target_u
    rest = np.abs(u - head_outputs(alpha, u)[..., None])[..., 1:]
    key = np.linalg.norm(reading.model.directions.key, axis=-1)[:, None]
    value = np.linalg.norm(reading.target_value, axis=-1)[..., None]
    return rest * key / value


def negative_heads(reading: Reading) -> int:
    """Return in how many heads the mean of W_vᵀW_ℓᵀ, G-avg of a typical value, is negative."""
    return int(np.count_nonzero(reading.target_value[0].mean(axis=-1) < 0))
