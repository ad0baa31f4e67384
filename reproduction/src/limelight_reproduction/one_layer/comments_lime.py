"""Statistics on documents that decide the comments of section 5 on LIME and attention."""

__all__ = ["LOWEST", "PAIRS", "attention_products", "lime_statistics"]

from dataclasses import replace
from typing import Any

import numpy as np

from limelight.shapes import Float
from limelight.theory.gradient import gradient_summary, gradient_times_input
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame
from limelight_reproduction.one_layer.collapsed_texts import CollapsedTexts
from limelight_reproduction.spread import adjusted_r2, correlation, rank_correlation

PAIRS = (("lime", "gxi"), ("lime", "g-avg"), ("lime", "alpha u"), ("gxi", "alpha u"))
LOWEST = 0.1  # share of a document's words that count as nearest to UNK, by |α u − α_h u_h|
STEPS = 9  # number of values of α_t, from 0 to twice its original value, at most 0.95


def lime_statistics(texts: CollapsedTexts) -> list[dict[str, float | None]]:
    """Return the statistics of every document. As in LIME, features must be words."""
    games = texts.games
    beta = lime(games).scores[:, 0]
    top_words = np.argmax(_word_attention(games).mean(axis=1), axis=-1)
    without_value, without_attention = (
        _lime_with_zero_value(games, top_words),
        _lime_with_zero_attention(games, top_words),
    )
    equal_to_unknown = _lime_with_value_of_unknown(games, top_words)
    linearity = _linearity(games, top_words)
    gxi = texts.pool_features(_gradient_times_input(texts))
    g_avg = texts.pool_features(gradient_summary(texts.token_gradient, "mean"))
    rows = []
    for i, features in enumerate(texts.features):
        d, word = len(features), int(top_words[i])
        alpha, alpha_u, unknown = (x[i, :, :d] for x in attention_products(games))
        scores = {
            "lime": beta[i, :d],
            "gxi": gxi[i],
            "g-avg": g_avg[i],
            "alpha u": alpha_u.mean(axis=0),
        }
        rows.append(
            {
                **_correlations(scores),
                **_remainder_correlations(scores),
                "r2 from alpha": adjusted_r2(alpha, scores["lime"]),
                "r2 from alpha u": adjusted_r2(alpha_u, scores["lime"]),
                "r2 of moving alpha": linearity[i],
                **_statistics_near_unknown(
                    scores["lime"], alpha, np.abs(alpha_u - unknown).mean(axis=0)
                ),
                "untouched": _coefficient_share(scores["lime"], word),
                "no value": _coefficient_share(without_value[i, :d], word),
                "rank of no value": _rank(without_value[i, :d], word),
                "influence without value": _share_of_largest(
                    abs(without_value[i, word] - without_attention[i, word]), without_value[i, :d]
                ),
                "value of unknown": _coefficient_share(equal_to_unknown[i, :d], word),
            }
        )
    return rows


def _correlations(scores: dict[str, Float[np.ndarray, " d"]]) -> dict[str, float | None]:
    correlations: dict[str, float | None] = {}
    for x, y in PAIRS:
        correlations[f"pearson {x} ~ {y}"] = correlation(scores[x], scores[y])
        correlations[f"spearman {x} ~ {y}"] = rank_correlation(scores[x], scores[y])
    return correlations


def _remainder_correlations(
    scores: dict[str, Float[np.ndarray, " d"]],
) -> dict[str, float | None]:
    """Correlate LIME with G×I after their common term α_t u_t is removed from both scores.

    "without": the multiple of α_t u_t that fits best is removed, since the paper calls the common
    term "proportional to" it. "less": α_t u_t itself is subtracted.
    """
    lime_scores, gxi, term = scores["lime"], scores["gxi"], scores["alpha u"]
    remainders = {
        "without": (_residual(lime_scores, term), _residual(gxi, term)),
        "less": (lime_scores - term, gxi - term),
    }
    correlations: dict[str, float | None] = {}
    for operation, (x, y) in remainders.items():
        correlations[f"pearson lime ~ gxi {operation} alpha u"] = correlation(x, y)
        correlations[f"spearman lime ~ gxi {operation} alpha u"] = rank_correlation(x, y)
    return correlations


def _residual(
    scores: Float[np.ndarray, " d"], term: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """Return ``scores`` minus their mean and minus their best multiple of ``term``."""
    scores, term = scores - scores.mean(), term - term.mean()
    squared_norm = float(term @ term)
    return scores - (scores @ term / squared_norm) * term if squared_norm else scores


def _gradient_times_input(texts: CollapsedTexts) -> Float[np.ndarray, "n T"]:
    head_scores = gradient_times_input(texts.alpha, texts.u, texts.logit)
    return head_scores.mean(axis=1)[:, 1:]


def _denominators(
    games: RatioGame,
) -> tuple[Float[np.ndarray, "n K 1"], Float[np.ndarray, "n K 1"]]:
    """Return the denominators of the full document and of the document without words."""
    full, empty = (games.D0 + x.sum(axis=-1) for x in (games.a, games.b))
    return full[..., None], empty[..., None]


def _word_attention(games: RatioGame) -> Float[np.ndarray, "n K d"]:
    """Return α of every word, summed over its positions."""
    return games.a / _denominators(games)[0]


def attention_products(games: RatioGame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return α, α u and α_h u_h of every word and head."""
    full, empty = _denominators(games)
    return games.a / full, games.A[:, 0] / full, games.B[:, 0] / empty


def _lime_with_numerator(
    games: RatioGame, word: np.ndarray, A: Float[np.ndarray, "n K"]
) -> Float[np.ndarray, "n d"]:
    """Return LIME with another numerator A_j = Σ g_t u_t for one word per document."""
    changed = games.A.copy()
    changed[np.arange(len(word)), 0, :, word] = A
    return lime(replace(games, A=changed)).scores[:, 0]


def _lime_with_zero_value(games: RatioGame, word: np.ndarray) -> Float[np.ndarray, "n d"]:
    """Return LIME if W_ℓ v_t = 0 for the word and its attention stays: comment (iii)."""
    return _lime_with_numerator(games, word, np.zeros((len(word), games.K)))


def _lime_with_zero_attention(games: RatioGame, word: np.ndarray) -> Float[np.ndarray, "n d"]:
    """Return LIME if W_ℓ v_t = 0 and α_t = 0 for the word. Its replacement stays the same."""
    rows, a, A = np.arange(len(word)), games.a.copy(), games.A.copy()
    a[rows, :, word], A[rows, 0, :, word] = 0, 0
    return lime(replace(games, a=a, A=A)).scores[:, 0]


def _lime_with_value_of_unknown(games: RatioGame, word: np.ndarray) -> Float[np.ndarray, "n d"]:
    """Return LIME if α_t u_t = α_{h,t} u_{h,t} for the word in every head: comment (iv)."""
    full, empty = _denominators(games)
    unknown = games.B[np.arange(len(word)), 0, :, word]
    return _lime_with_numerator(games, word, unknown * (full / empty)[..., 0])


def _linearity(games: RatioGame, word: np.ndarray) -> list[float | None]:
    """Return R² of an affine fit to LIME's coefficient as a function of α_t, with u_t fixed.

    ``word`` is the number of a word in each document. The game is that of the head that attends to
    this word most.
    """
    rows = np.arange(len(word))
    alpha = _word_attention(games)[rows, :, word]
    head = alpha.argmax(axis=1)

    def select_head(x: np.ndarray, axis: int) -> np.ndarray:
        """Select the head of every document on an axis."""
        index = head.reshape(-1, *[1] * (x.ndim - 1))
        return np.take_along_axis(x, index, axis=axis)

    game = RatioGame(
        D0=select_head(games.D0, 1),
        a=select_head(games.a, 1),
        b=select_head(games.b, 1),
        N0=select_head(games.N0, 2),
        A=select_head(games.A, 2),
        B=select_head(games.B, 2),
        sizes=games.sizes,
    )
    weight, other_weights = game.a[rows, 0, word], game.D0[:, 0] + game.a[:, 0].sum(-1)
    other_weights, u = other_weights - weight, game.A[rows, 0, 0, word] / weight
    targets = np.linspace(0, np.minimum(2 * alpha[rows, head], 0.95), STEPS)
    coefficients = []
    for target in targets:
        a, A = game.a.copy(), game.A.copy()
        a[rows, 0, word] = target / (1 - target) * other_weights
        A[rows, 0, 0, word] = a[rows, 0, word] * u
        coefficients.append(lime(replace(game, a=a, A=A)).scores[rows, 0, word])
    pairs = zip(targets.T, np.transpose(coefficients), strict=True)
    return [adjusted_r2(x[None], y) for x, y in pairs]


def _statistics_near_unknown(
    beta: Float[np.ndarray, " d"],
    alpha: Float[np.ndarray, "K d"],
    gap: Float[np.ndarray, " d"],
) -> dict[str, float | None]:
    """Return statistics of the words whose attention × value is nearest to that of UNK."""
    lowest = np.argsort(gap, kind="stable")[: max(1, round(LOWEST * len(gap)))]
    mean = alpha.mean(axis=0)
    return {
        "lime near unknown": _share_of_largest(np.median(np.abs(beta[lowest])), beta),
        "lime of a word": _share_of_largest(np.median(np.abs(beta)), beta),
        "attention near unknown": float(np.median(mean[lowest]) / np.median(mean)),
    }


def _coefficient_share(beta: Float[np.ndarray, " d"], word: int) -> float | None:
    """Return the absolute coefficient of a word as a share of the document's largest."""
    return _share_of_largest(abs(beta[word]), beta)


def _share_of_largest(size: Any, beta: Float[np.ndarray, " d"]) -> float | None:
    """Return ``size`` as a share of the largest coefficient, or None if all are 0."""
    largest = np.abs(beta).max()
    return float(size / largest) if largest else None


def _rank(beta: Float[np.ndarray, " d"], word: int) -> float:
    """Return the rank of a word by absolute coefficient. The strongest word has rank 1."""
    return 1.0 + float(np.count_nonzero(np.abs(beta) > abs(beta[word])))
