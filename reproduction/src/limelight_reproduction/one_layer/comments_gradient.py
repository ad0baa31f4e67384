"""What section 4 says about gradients and attention in words, measured on documents."""

__all__ = ["PAIRS", "TYPICAL", "gradient_statistics", "negative_heads"]

import numpy as np

from limelight.shapes import Float
from limelight.theory.attention import head_outputs, max_attention, mean_attention
from limelight.theory.gradient import gradient_summary, gradient_times_input
from limelight.theory.leave_one_out import leave_one_out
from limelight_reproduction.one_layer.collapsed_texts import CollapsedTexts
from limelight_reproduction.spread import correlation, rank_correlation

PAIRS = (
    ("alpha-avg", "g-avg"),
    ("alpha-avg", "|g-avg|"),
    ("alpha-avg", "g-l1"),
    ("alpha-avg", "g-l2"),
    ("alpha-max", "g-l1"),
    ("alpha-max", "g-l2"),
)
TYPICAL = 0.1  # a value is typical where the rest of Eq. 14 is at most this share of its main term


def gradient_statistics(texts: CollapsedTexts) -> list[dict[str, float | None]]:
    """Return the statistics of every document; features must be positions, as in Theorem 4.1."""
    scores = _scores(texts)
    effect = leave_one_out(texts.games).scores[:, 0]
    atypical = _atypical(texts)
    found: list[dict[str, float | None]] = []
    for i, features in enumerate(texts.features):
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


def _scores(texts: CollapsedTexts) -> dict[str, Float[np.ndarray, "n T"]]:
    """Return the scores of every token after [cls], padding included, by method."""
    T = texts.token_gradient.shape[1]
    g_avg, g_l1, g_l2 = (
        gradient_summary(texts.token_gradient, how) for how in ("mean", "l1", "l2")
    )
    gxi = gradient_times_input(texts.alpha, texts.u, texts.logit).mean(axis=1)
    return {
        "alpha-avg": mean_attention(texts.alpha)[:, 1 : T + 1],
        "alpha-max": max_attention(texts.alpha)[:, 1 : T + 1],
        "g-avg": g_avg,
        "|g-avg|": np.abs(g_avg),
        "g-l1": g_l1,
        "g-l2": g_l2,
        "gxi": gxi[:, 1 : T + 1],
    }


def _atypical(texts: CollapsedTexts) -> Float[np.ndarray, "n K T"]:
    """Return ‖(u_t − f_i) W_kᵀq/√d_att‖ / ‖W_vᵀW_ℓᵀ‖: the rest of Eq. 14 beside its main term."""
    alpha, u = texts.alpha, texts.u
    rest = np.abs(u - head_outputs(alpha, u)[..., None])[..., 1:]
    key = np.linalg.norm(texts.model.directions.key, axis=-1)[:, None]
    value = np.linalg.norm(texts.value, axis=-1)[:, None]
    return rest * key / value


def negative_heads(texts: CollapsedTexts) -> int:
    """Return in how many heads the mean of W_vᵀW_ℓᵀ, G-avg of a typical value, is negative."""
    return int(np.count_nonzero(texts.value.mean(axis=-1) < 0))
