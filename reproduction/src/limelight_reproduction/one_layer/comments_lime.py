"""What section 5 says about LIME and attention in words, measured on documents."""

__all__ = ["LOWEST", "PAIRS", "lime_statistics"]

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
LOWEST = 0.1  # the share of a document's words with the smallest |α u − α_h u_h|
STEPS = 9  # values of α_t between 0 and twice its own, at most 0.95


def lime_statistics(texts: CollapsedTexts) -> list[dict[str, float | None]]:
    """Return the statistics of every document; features must be words, as in LIME."""
    games = texts.games
    beta = lime(games).scores[:, 0]
    attended = np.argmax(_attention(games).mean(axis=1), axis=-1)
    killed, unseen = _without_value(games, attended), _without_attention(games, attended)
    balanced = _like_unknown(games, attended)
    moved = _linearity(games, attended)
    gxi = texts.pooled(_gxi(texts))
    g_avg = texts.pooled(gradient_summary(texts.token_gradient, "mean"))
    found = []
    for i, features in enumerate(texts.features):
        d, word = len(features), int(attended[i])
        alpha, alpha_u, unknown = (x[i, :, :d] for x in _products(games))
        scores = {
            "lime": beta[i, :d],
            "gxi": gxi[i],
            "g-avg": g_avg[i],
            "alpha u": alpha_u.mean(axis=0),
        }
        found.append(
            {
                **_correlations(scores),
                **_remainder_correlations(scores),
                "r2 from alpha": adjusted_r2(alpha, scores["lime"]),
                "r2 from alpha u": adjusted_r2(alpha_u, scores["lime"]),
                "r2 of moving alpha": moved[i],
                **_near_unknown(scores["lime"], alpha, np.abs(alpha_u - unknown).mean(axis=0)),
                "untouched": _share(scores["lime"], word),
                "no value": _share(killed[i, :d], word),
                "rank of no value": _rank(killed[i, :d], word),
                "influence without value": _of_largest(
                    abs(killed[i, word] - unseen[i, word]), killed[i, :d]
                ),
                "value of unknown": _share(balanced[i, :d], word),
            }
        )
    return found


def _correlations(scores: dict[str, Float[np.ndarray, " d"]]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for x, y in PAIRS:
        found[f"pearson {x} ~ {y}"] = correlation(scores[x], scores[y])
        found[f"spearman {x} ~ {y}"] = rank_correlation(scores[x], scores[y])
    return found


def _remainder_correlations(
    scores: dict[str, Float[np.ndarray, " d"]],
) -> dict[str, float | None]:
    """Correlate what is left of LIME and of G×I when their common term α_t u_t is removed.

    "without": the multiple of α_t u_t that fits best is removed, since the paper calls the common
    term "proportional to" it. "less": α_t u_t itself is subtracted.
    """
    lime_scores, gxi, term = scores["lime"], scores["gxi"], scores["alpha u"]
    remainders = {
        "without": (_residual(lime_scores, term), _residual(gxi, term)),
        "less": (lime_scores - term, gxi - term),
    }
    correlations: dict[str, float | None] = {}
    for word, (x, y) in remainders.items():
        correlations[f"pearson lime ~ gxi {word} alpha u"] = correlation(x, y)
        correlations[f"spearman lime ~ gxi {word} alpha u"] = rank_correlation(x, y)
    return correlations


def _residual(
    scores: Float[np.ndarray, " d"], term: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """Return ``scores`` minus their mean and minus their best multiple of ``term``."""
    scores, term = scores - scores.mean(), term - term.mean()
    size = float(term @ term)
    return scores - (scores @ term / size) * term if size else scores


def _gxi(texts: CollapsedTexts) -> Float[np.ndarray, "n T"]:
    of_heads = gradient_times_input(texts.alpha, texts.u, texts.logit)
    return of_heads.mean(axis=1)[:, 1:]


def _totals(games: RatioGame) -> tuple[Float[np.ndarray, "n K 1"], Float[np.ndarray, "n K 1"]]:
    """Return the denominators of the whole document and of the one without any word."""
    full, empty = (games.D0 + x.sum(axis=-1) for x in (games.a, games.b))
    return full[..., None], empty[..., None]


def _attention(games: RatioGame) -> Float[np.ndarray, "n K d"]:
    """Return α of every word, all its places together."""
    return games.a / _totals(games)[0]


def _products(games: RatioGame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return α, α u and α_h u_h of every word and head."""
    full, empty = _totals(games)
    return games.a / full, games.A[:, 0] / full, games.B[:, 0] / empty


def _with_value(
    games: RatioGame, word: np.ndarray, A: Float[np.ndarray, "n K"]
) -> Float[np.ndarray, "n d"]:
    """Return LIME after the sum A_j = Σ g_t u_t of one word per document was changed."""
    changed = games.A.copy()
    changed[np.arange(len(word)), 0, :, word] = A
    return lime(replace(games, A=changed)).scores[:, 0]


def _without_value(games: RatioGame, word: np.ndarray) -> Float[np.ndarray, "n d"]:
    """Return LIME when W_ℓ v_t = 0 for the word, its attention untouched: comment (iii)."""
    return _with_value(games, word, np.zeros((len(word), games.K)))


def _without_attention(games: RatioGame, word: np.ndarray) -> Float[np.ndarray, "n d"]:
    """Return LIME when the word has W_ℓ v_t = 0 and α_t = 0, too; what replaces it is the same."""
    rows, a, A = np.arange(len(word)), games.a.copy(), games.A.copy()
    a[rows, :, word], A[rows, 0, :, word] = 0, 0
    return lime(replace(games, a=a, A=A)).scores[:, 0]


def _like_unknown(games: RatioGame, word: np.ndarray) -> Float[np.ndarray, "n d"]:
    """Return LIME when α_t u_t = α_{h,t} u_{h,t} for the word in every head: comment (iv)."""
    full, empty = _totals(games)
    unknown = games.B[np.arange(len(word)), 0, :, word]
    return _with_value(games, word, unknown * (full / empty)[..., 0])


def _linearity(games: RatioGame, word: np.ndarray) -> list[float | None]:
    """Return R² of an affine fit to a head's coefficient as its α_t moves, its value u_t kept.

    The word is the given one of each document, the head the one that attends to it most.
    """
    rows = np.arange(len(word))
    alpha = _attention(games)[rows, :, word]
    head = alpha.argmax(axis=1)

    def of_head(x: np.ndarray, axis: int) -> np.ndarray:
        index = head.reshape(-1, *[1] * (x.ndim - 1))
        return np.take_along_axis(x, index, axis=axis)

    one = RatioGame(
        D0=of_head(games.D0, 1),
        a=of_head(games.a, 1),
        b=of_head(games.b, 1),
        N0=of_head(games.N0, 2),
        A=of_head(games.A, 2),
        B=of_head(games.B, 2),
        sizes=games.sizes,
    )
    own, others = one.a[rows, 0, word], one.D0[:, 0] + one.a[:, 0].sum(-1)
    others, u = others - own, one.A[rows, 0, 0, word] / own
    targets = np.linspace(0, np.minimum(2 * alpha[rows, head], 0.95), STEPS)
    answers = []
    for target in targets:
        a, A = one.a.copy(), one.A.copy()
        a[rows, 0, word] = target / (1 - target) * others
        A[rows, 0, 0, word] = a[rows, 0, word] * u
        answers.append(lime(replace(one, a=a, A=A)).scores[rows, 0, word])
    pairs = zip(targets.T, np.transpose(answers), strict=True)
    return [adjusted_r2(x[None], y) for x, y in pairs]


def _near_unknown(
    beta: Float[np.ndarray, " d"],
    alpha: Float[np.ndarray, "K d"],
    gap: Float[np.ndarray, " d"],
) -> dict[str, float | None]:
    """Look at the words that attention × value can hardly tell from UNK."""
    lowest = np.argsort(gap, kind="stable")[: max(1, round(LOWEST * len(gap)))]
    mean = alpha.mean(axis=0)
    return {
        "lime near unknown": _of_largest(np.median(np.abs(beta[lowest])), beta),
        "lime of a word": _of_largest(np.median(np.abs(beta)), beta),
        "attention near unknown": float(np.median(mean[lowest]) / np.median(mean)),
    }


def _share(beta: Float[np.ndarray, " d"], word: int) -> float | None:
    """Return the coefficient of a word as a share of the document's largest, without signs."""
    return _of_largest(abs(beta[word]), beta)


def _of_largest(size: Any, beta: Float[np.ndarray, " d"]) -> float | None:
    """Return ``size`` as a share of the largest coefficient; None where all of them are 0."""
    largest = np.abs(beta).max()
    return float(size / largest) if largest else None


def _rank(beta: Float[np.ndarray, " d"], word: int) -> float:
    """Return the place of a word among all by absolute coefficient, 1 for the strongest."""
    return 1.0 + float(np.count_nonzero(np.abs(beta) > abs(beta[word])))
