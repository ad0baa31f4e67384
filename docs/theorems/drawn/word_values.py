"""Figures about Shapley and Banzhaf values, leave-one-out and pair interactions."""

__all__ = ["draw_banzhaf_values", "draw_interactions", "draw_shapley_samples", "draw_synonyms"]

import numpy as np

from drawn.games import LONG, SHORT, UNREPEATED, distance, review, review_game
from drawn.picture import Picture, legend, logarithmic, panels, share
from limelight.rendering.figures import canvas, color_map
from limelight.sampling.orders import ShapleySample, shapley_values_from_orders
from limelight.theory.banzhaf import banzhaf, mean_marginal_contributions
from limelight.theory.interactions import shapley_interactions
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.ratio_game import RatioGame, empty_value, full_value, value
from limelight.theory.removal_mixture import FAIR_COINS
from limelight.theory.shapley import shapley
from limelight_reproduction.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    VERMILLION,
    style_axes,
)


def draw_shapley_samples() -> Picture:
    """Draw sampled Shapley values with standard errors around the exact values."""
    game, names = review_game(LONG), review(LONG).features[0].strings
    exact = shapley(game, tolerance=1e-9)
    counts = [8, 32, 128, 512]
    samples = [_sample_shapley(game, n) for n in counts]
    figure, (left_axes, right_axes) = panels(
        ("± 2 standard errors", "pairs of orders", "sampled − exact"),
        ("all words", "pairs of orders", "relative L2 distance"),
    )
    words = np.argsort(-np.abs(exact.scores[0]))[:4]
    for shift, word, color in zip(
        (0.86, 0.95, 1.05, 1.16), words, (BLUE, ORANGE, GREEN, PURPLE), strict=True
    ):
        positions = [shift * n for n in counts]
        differences = [sample.values[0, word] - exact.scores[0, word] for sample in samples]
        errors = [2 * sample.stderr[0, word] for sample in samples]
        left_axes.errorbar(
            positions, differences, errors, fmt="o", color=color, markersize=3, label=names[word]
        )
    left_axes.axhline(0, color=GREY, linewidth=0.8)
    logarithmic(left_axes, "x")
    legend(left_axes, loc="lower right", ncols=2)
    distances = [distance(sample.values, exact.scores) for sample in samples]
    right_axes.plot(counts, distances, "o-", color=BLUE, markersize=4, label="sampled")
    rate = distances[0] * np.sqrt(counts[0] / np.array(counts))
    right_axes.plot(counts, rate, ":", color=GREY, label="1/√n")
    certified = float(exact.bound[0] / np.linalg.norm(exact.scores))
    right_axes.axhline(certified, color=INK, linewidth=0.9, label="bound of the exact values")
    logarithmic(right_axes)
    legend(right_axes)
    return Picture(
        figure=figure,
        alt="Left: sampled minus exact Shapley values of four words, with error bars that shrink "
        "around 0. Right: the distance falls like one over the root of the sample.",
    )


def _sample_shapley(game: RatioGame, pair_count: int) -> ShapleySample:
    rng = np.random.default_rng(pair_count)
    return shapley_values_from_orders(
        lambda keep: value(game, keep).T, game.d, rng, pairs=pair_count
    )


def draw_banzhaf_values() -> Picture:
    """Draw the mean change of the output by a word against the probability of removal."""
    game, names = review_game(LONG), review(LONG).features[0].strings
    chances = np.linspace(0.01, 0.99, 50)
    curves = np.array([_mean_changes(game, float(p)) for p in chances])
    values = {
        "leave-one-out": (ORANGE, "s", leave_one_out(game).scores[0]),
        "Banzhaf": (BLUE, "o", banzhaf(game).scores[0]),
        "Shapley": (GREEN, "D", shapley(game).scores[0]),
    }
    figure, (left_axes, right_axes) = panels(
        ("E[f | j kept] − E[f | j removed]", "chance p that another word is removed", ""),
        ("sum over words", "", ""),
    )
    words = np.argsort(-np.abs(values["Shapley"][2]))[:3]
    for word, style in zip(words, ("-", "--", "-."), strict=True):
        left_axes.plot(chances, curves[:, word], style, color=INK, linewidth=1)
        left_axes.annotate(names[word], (1.0, curves[-1, word]), fontsize=8, va="center")
        for p, name in ((0.0, "leave-one-out"), (0.5, "Banzhaf")):
            color, mark, scores = values[name]
            left_axes.plot(p, scores[word], mark, color=color, markersize=5)
            left_axes.lines[-1].set_label(name if word == words[0] else None)
    legend(left_axes, loc="center right")
    left_axes.set_xlim(-0.03, 1.25)
    total = float((full_value(game) - empty_value(game))[0])
    sums = {name: float(score.sum()) for name, (_, _, score) in values.items()}
    right_axes.bar(list(sums), list(sums.values()), 0.5, color=[c for c, _, _ in values.values()])
    right_axes.axhline(total, color=INK, linestyle="--", linewidth=1, label="f(all) − f(none)")
    right_axes.set_ylim(0, 1.25 * total)
    legend(right_axes)
    return Picture(
        figure=figure,
        alt="Left: for three words the mean change over the chance of removal, with leave-one-out "
        "marked at 0 and Banzhaf at one half. Right: sums over words; only Shapley's meets the "
        "line f(all) − f(none).",
    )


def _mean_changes(game: RatioGame, p: float) -> np.ndarray:
    """Compute E_p[f | j kept] − E_p[f | j removed] for every word j."""
    coins = FAIR_COINS._replace(p=np.full(1, p))
    return np.asarray(mean_marginal_contributions(game, [coins], share=1e-7).scores[0])


def draw_synonyms() -> Picture:
    """Draw the sums of scores for copies of a decisive word."""
    copies = np.arange(1, 13)
    totals: dict[str, list[float]] = {"leave-one-out": [], "Shapley": [], "f(all) − f(none)": []}
    for n in copies.tolist():
        game = _synonym_game(n)
        totals["leave-one-out"].append(float(leave_one_out(game).scores[0].sum()))
        totals["Shapley"].append(float(shapley(game, tolerance=1e-9).scores[0].sum()))
        totals["f(all) − f(none)"].append(float((full_value(game) - empty_value(game))[0]))
    figure, axes = panels(("", "words that say the same", "sum over these words"), width=5.2)
    styles = (("s-", VERMILLION), ("o", BLUE), ("--", INK))
    for (name, line), (style, color) in zip(totals.items(), styles, strict=True):
        axes.plot(copies, line, style, color=color, markersize=4, label=name)
    axes.set_ylim(0, None)
    legend(axes)
    seen_share = totals["leave-one-out"][-1] / totals["f(all) − f(none)"][-1]
    return Picture(
        figure=figure,
        alt="The sum of leave-one-out scores falls as more words say the same, while the sum of "
        "Shapley values follows f(all) − f(none).",
        numbers=(share(seen_share), str(copies[-1])),
    )


def _synonym_game(n: int) -> RatioGame:
    a, b = np.full((1, n), 10.0), np.full((1, n), 0.1)
    return RatioGame(D0=np.ones(1), a=a, b=b, N0=np.zeros((1, 1)), A=a[None], B=0 * b[None])


def draw_interactions() -> Picture:
    """Draw the interactions of a short text as a matrix, and their sorted sizes in three texts."""
    game, names = review_game(SHORT), review(SHORT).features[0].strings
    result = shapley_interactions(game, tolerance=1e-9)
    matrix = result.scores[0]
    figure, (left_axes, right_axes) = canvas(7.4, 3.3, columns=2)
    peak = float(np.abs(matrix).max())
    image = left_axes.pcolormesh(
        matrix[::-1], cmap=color_map("signed").resampled(15), vmin=-peak, vmax=peak
    )
    figure.colorbar(image, ax=left_axes, shrink=0.85).ax.tick_params(labelsize=8)
    positions = np.arange(game.d) + 0.5
    style_axes(left_axes, title="what pairs add (green) or take (red)")
    left_axes.set_xticks(positions, labels=names, rotation=90, fontsize=8)
    left_axes.set_yticks(positions, labels=names[::-1], fontsize=8)
    shares = {}
    for text, color in ((SHORT, BLUE), (UNREPEATED, ORANGE), (LONG, GREEN)):
        other = shapley_interactions(review_game(text)).scores[0]
        sizes = np.sort(np.abs(other[np.triu_indices(len(other), 1)]))[::-1]
        cumulative = np.cumsum(sizes) / sizes.sum()
        shares[len(other)] = (len(sizes), int(np.searchsorted(cumulative, 0.5)) + 1)
        ranks = np.unique(np.geomspace(1, len(sizes), 60).astype(int))
        right_axes.plot(ranks, cumulative[ranks - 1], color=color, label=f"d = {len(other)}")
    logarithmic(right_axes, "x")
    right_axes.axhline(0.5, color=GREY, linestyle=":", linewidth=0.9)
    style_axes(right_axes, title="", x="strongest pairs", y="share of Σ|I|")
    legend(right_axes)
    count, half = list(shares.values())[-1]
    return Picture(
        figure=figure,
        alt="Left: a symmetric matrix of signed interactions between the words of a sentence. "
        "Right: the share of all interactions held by the strongest pairs, for three texts.",
        numbers=(str(half), str(count)),
    )
