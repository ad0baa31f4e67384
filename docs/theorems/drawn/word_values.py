"""Shapley, Banzhaf, leave-one-out and pairs: what words are worth in a ratio game."""

__all__ = ["added_up", "converging", "pairs", "stand_ins"]

import numpy as np

from drawn.games import LONG, SHORT, UNREPEATED, distance, review, review_game
from drawn.picture import Picture, below, exponent, legend, logarithmic, panels, share
from limelight.rendering.figures import canvas, color_map
from limelight.sampling.orders import ShapleySample, shapley_values_from_orders
from limelight.theory.banzhaf import banzhaf, mean_marginal_contributions
from limelight.theory.enumeration import shapley_interactions_by_enumeration
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


def converging() -> Picture:
    """Sampled Shapley values with standard errors around the exact ones, and their distance."""
    game, names = review_game(LONG), review(LONG).features[0].strings
    exact = shapley(game, tolerance=1e-9)
    counts = [8, 32, 128, 512]
    samples = [_sampled(game, n) for n in counts]
    figure, (left, right) = panels(
        ("± 2 standard errors", "pairs of orders", "sampled − exact"),
        ("all words", "pairs of orders", "relative L2 distance"),
    )
    words = np.argsort(-np.abs(exact.scores[0]))[:4]
    for shift, word, color in zip(
        (0.86, 0.95, 1.05, 1.16), words, (BLUE, ORANGE, GREEN, PURPLE), strict=True
    ):
        at = [shift * n for n in counts]
        off = [sample.values[0, word] - exact.scores[0, word] for sample in samples]
        errors = [2 * sample.stderr[0, word] for sample in samples]
        left.errorbar(at, off, errors, fmt="o", color=color, markersize=3, label=names[word])
    left.axhline(0, color=GREY, linewidth=0.8)
    logarithmic(left, "x")
    legend(left, loc="lower right", ncols=2)
    far = [distance(sample.values, exact.scores) for sample in samples]
    right.plot(counts, far, "o-", color=BLUE, markersize=4, label="sampled")
    rate = far[0] * np.sqrt(counts[0] / np.array(counts))
    right.plot(counts, rate, ":", color=GREY, label="1/√n")
    certified = float(exact.bound[0] / np.linalg.norm(exact.scores))
    right.axhline(certified, color=INK, linewidth=0.9, label="bound of the exact values")
    logarithmic(right)
    legend(right)
    whole = float((full_value(game) - empty_value(game))[0])
    gap = abs(exact.scores[0].sum() - whole)
    return Picture(
        figure=figure,
        alt="Left: sampled minus exact Shapley values of four words, with error bars that shrink "
        "around 0. Right: the distance falls like one over the root of the sample.",
        caption=f"A review of {game.d} words under the shipped model. {counts[-1]} pairs of orders "
        f"come within {share(far[-1])} of the exact values, with the exponent "
        f"{exponent(counts, far)}; the exact ones add up to f(all) − f(none) = {whole:.2f} within "
        f"{below(gap, least=1e-7)}.",
    )


def _sampled(game: RatioGame, pairs: int) -> ShapleySample:
    rng = np.random.default_rng(pairs)
    return shapley_values_from_orders(lambda keep: value(game, keep).T, game.d, rng, pairs=pairs)


def added_up() -> Picture:
    """Mean changes against the chance of removal: one curve holds three values of a word."""
    game, names = review_game(LONG), review(LONG).features[0].strings
    chances = np.linspace(0.01, 0.99, 50)
    curves = np.array([_changes(game, float(p)) for p in chances])
    values = {
        "leave-one-out": (ORANGE, "s", leave_one_out(game).scores[0]),
        "Banzhaf": (BLUE, "o", banzhaf(game).scores[0]),
        "Shapley": (GREEN, "D", shapley(game).scores[0]),
    }
    figure, (left, right) = panels(
        ("E[f | j kept] − E[f | j removed]", "chance p that another word is removed", ""),
        ("sum over words", "", ""),
    )
    words = np.argsort(-np.abs(values["Shapley"][2]))[:3]
    for word, style in zip(words, ("-", "--", "-."), strict=True):
        left.plot(chances, curves[:, word], style, color=INK, linewidth=1)
        left.annotate(names[word], (1.0, curves[-1, word]), fontsize=8, va="center")
        for p, name in ((0.0, "leave-one-out"), (0.5, "Banzhaf")):
            color, mark, scores = values[name]
            left.plot(p, scores[word], mark, color=color, markersize=5)
            left.lines[-1].set_label(name if word == words[0] else None)
    legend(left, loc="center right")
    left.set_xlim(-0.03, 1.25)
    whole = float((full_value(game) - empty_value(game))[0])
    sums = {name: float(score.sum()) for name, (_, _, score) in values.items()}
    right.bar(list(sums), list(sums.values()), 0.5, color=[c for c, _, _ in values.values()])
    right.axhline(whole, color=INK, linestyle="--", linewidth=1, label="f(all) − f(none)")
    right.set_ylim(0, 1.25 * whole)
    legend(right)
    return Picture(
        figure=figure,
        alt="Left: for three words the mean change over the chance of removal, with leave-one-out "
        "marked at 0 and Banzhaf at one half. Right: sums over words; only Shapley's meets the "
        "line f(all) − f(none).",
        caption=f"A review of {game.d} words under the shipped model: Banzhaf (circle) is the "
        "curve at p = 1/2, leave-one-out (square) its end at p = 0, Shapley the area below it. "
        f"Leave-one-out adds up to {sums['leave-one-out']:.2f}, Banzhaf to {sums['Banzhaf']:.2f}, "
        f"Shapley to f(all) − f(none) = {whole:.2f}.",
    )


def _changes(game: RatioGame, p: float) -> np.ndarray:
    """E_p[f | j kept] − E_p[f | j removed] for every word j."""
    coins = FAIR_COINS._replace(p=np.full(1, p))
    return np.asarray(mean_marginal_contributions(game, [coins], share=1e-7).scores[0])


def stand_ins() -> Picture:
    """A decisive word that is repeated under other names, and what removing one copy shows."""
    copies = np.arange(1, 13)
    totals: dict[str, list[float]] = {"leave-one-out": [], "Shapley": [], "f(all) − f(none)": []}
    off = 0.0
    for n in copies.tolist():
        game = _copies(n)
        single = leave_one_out(game).scores[0]
        keep = ~np.eye(n, dtype=bool)
        removed = full_value(game)[0] - value(game, keep)[0]
        off = max(off, float(np.abs(single - removed).max()))
        totals["leave-one-out"].append(float(single.sum()))
        totals["Shapley"].append(float(shapley(game, tolerance=1e-9).scores[0].sum()))
        totals["f(all) − f(none)"].append(float((full_value(game) - empty_value(game))[0]))
    figure, axes = panels(("", "words that say the same", "sum over these words"), width=5.2)
    styles = (("s-", VERMILLION), ("o", BLUE), ("--", INK))
    for (name, line), (style, color) in zip(totals.items(), styles, strict=True):
        axes.plot(copies, line, style, color=color, markersize=4, label=name)
    axes.set_ylim(0, None)
    legend(axes)
    seen = totals["leave-one-out"][-1] / totals["f(all) − f(none)"][-1]
    return Picture(
        figure=figure,
        alt="The sum of leave-one-out scores falls as more words say the same, while the sum of "
        "Shapley values follows f(all) − f(none).",
        caption="n words of the same weight and value in one head, 10 times heavier than what is "
        f"beside them. Each score agrees with f(all) − f(all but j) within {below(off)}; but of "
        f"{copies[-1]} words together leave-one-out sees {share(seen)} of what they do.",
    )


def _copies(n: int) -> RatioGame:
    a, b = np.full((1, n), 10.0), np.full((1, n), 0.1)
    return RatioGame(D0=np.ones(1), a=a, b=b, N0=np.zeros((1, 1)), A=a[None], B=0 * b[None])


def pairs() -> Picture:
    """Interactions of a short text as a matrix, and how they fall off in longer ones."""
    game, names = review_game(SHORT), review(SHORT).features[0].strings
    found = shapley_interactions(game, tolerance=1e-9)
    matrix = found.scores[0]
    figure, (left, right) = canvas(7.4, 3.3, columns=2)
    peak = float(np.abs(matrix).max())
    image = left.pcolormesh(
        matrix[::-1], cmap=color_map("signed").resampled(15), vmin=-peak, vmax=peak
    )
    figure.colorbar(image, ax=left, shrink=0.85).ax.tick_params(labelsize=8)
    at = np.arange(game.d) + 0.5
    style_axes(left, title="what pairs add (green) or take (red)")
    left.set_xticks(at, labels=names, rotation=90, fontsize=8)
    left.set_yticks(at, labels=names[::-1], fontsize=8)
    shares = {}
    for text, color in ((SHORT, BLUE), (UNREPEATED, ORANGE), (LONG, GREEN)):
        other = shapley_interactions(review_game(text)).scores[0]
        sizes = np.sort(np.abs(other[np.triu_indices(len(other), 1)]))[::-1]
        held = np.cumsum(sizes) / sizes.sum()
        shares[len(other)] = (len(sizes), int(np.searchsorted(held, 0.5)) + 1)
        shown = np.unique(np.geomspace(1, len(sizes), 60).astype(int))
        right.plot(shown, held[shown - 1], color=color, label=f"d = {len(other)}")
    logarithmic(right, "x")
    right.axhline(0.5, color=GREY, linestyle=":", linewidth=0.9)
    style_axes(right, title="", x="strongest pairs", y="share of Σ|I|")
    legend(right)
    off = float(np.abs(matrix - shapley_interactions_by_enumeration(game)[0]).max())
    d, (count, half) = list(shares.items())[-1]
    return Picture(
        figure=figure,
        alt="Left: a symmetric matrix of signed interactions between the words of a sentence. "
        "Right: the share of all interactions held by the strongest pairs, for three texts.",
        caption=f"Left: “{SHORT}” under the shipped model, within {below(off, least=1e-10)} of all "
        f"subsets. Right: a text of {d} words has {count} pairs, of which the {half} strongest "
        "hold half (dotted): show those.",
    )
