"""Statistics on documents that decide the comments of section 4 on gradients and attention."""

__all__ = ["PAIRS", "TYPICAL", "count_negative_heads", "gradient_statistics"]

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
TYPICAL = 0.1  # a value is typical if the second term of Eq. 14 is at most this share of the first


def gradient_statistics(texts: CollapsedTexts) -> list[dict[str, float | None]]:
    """Return the statistics of every document. As in Theorem 4.1, features must be positions."""
    scores = _scores(texts)
    effect = leave_one_out(texts.games).scores[:, 0]
    ratio = _second_term_ratio(texts)
    rows: list[dict[str, float | None]] = []
    for i, features in enumerate(texts.features):
        T = len(features)
        document_scores = {name: values[i, :T] for name, values in scores.items()}
        row: dict[str, float | None] = {}
        for x, y in PAIRS:
            row[f"pearson {x} ~ {y}"] = correlation(document_scores[x], document_scores[y])
            row[f"spearman {x} ~ {y}"] = rank_correlation(document_scores[x], document_scores[y])
        for name in ("g-avg", "gxi"):
            row[f"negative {name}"] = float(np.mean(document_scores[name] < 0))
            row[f"sign as leave-one-out {name}"] = float(
                np.mean(np.sign(document_scores[name]) == np.sign(effect[i, :T]))
            )
        row["typical"] = float(np.mean(ratio[i, :, :T] <= TYPICAL))
        rows.append(row)
    return rows


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


def _second_term_ratio(texts: CollapsedTexts) -> Float[np.ndarray, "n K T"]:
    """Return ‖(u_t − f_i) W_kᵀq/√d_att‖ / ‖W_vᵀW_ℓᵀ‖, the second term of Eq. 14 over the first."""
    alpha, u = texts.alpha, texts.u
    deviation = np.abs(u - head_outputs(alpha, u)[..., None])[..., 1:]
    key = np.linalg.norm(texts.model.directions.key, axis=-1)[:, None]
    value = np.linalg.norm(texts.value, axis=-1)[:, None]
    return deviation * key / value


def count_negative_heads(texts: CollapsedTexts) -> int:
    """Count the heads with a negative mean of W_vᵀW_ℓᵀ, which is G-avg of a typical value."""
    return int(np.count_nonzero(texts.value.mean(axis=-1) < 0))
