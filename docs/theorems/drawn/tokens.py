"""Figures about attention, gradients and the ratio game."""

__all__ = [
    "draw_attention",
    "draw_cls_gradient",
    "draw_path_bounds",
    "draw_replacement_and_deletion",
]

import numpy as np

from drawn.games import SHORT, UNREPEATED, review, review_game
from drawn.picture import Picture, below, legend, logarithmic, panels, share
from limelight.rendering.figures import color_map
from limelight.text import UNK
from limelight.theory.attention import attention, max_attention, mean_attention
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.gradient import gradient
from limelight.theory.integrated_gradients import IntegratedGradients, integrated_gradients
from limelight.theory.lime import lime
from limelight.theory.logit_path import LogitPath
from limelight.theory.path_quadrature import DerivativeBounds
from limelight.theory.ratio_game import value
from limelight_reproduction.drawing import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    VERMILLION,
    canvas,
    style_axes,
)


def draw_attention() -> Picture:
    """Draw the attention of [cls] in every head, its mean and maximum, and LIME scores."""
    batch = review(SHORT, "positions")
    words = list(batch.inputs[0].tokens.strings)
    T = len(words)
    alpha = attention(batch.collapsed_inputs.logit)[0][:, 1 : 1 + T]
    scores = lime(review_game(SHORT, "positions")).scores[0]
    figure, (top, middle, bottom) = canvas(5.6, 5.0, rows=3)
    heads = len(alpha)
    top.pcolormesh(alpha, cmap=color_map("neutral"), vmin=0)
    top.set_yticks(np.arange(heads) + 0.5, labels=[str(i + 1) for i in range(heads)])
    style_axes(top, title=f"attention α of [cls], white 0, dark {alpha.max():.2f}", y="head")
    at = np.arange(T) + 0.5
    middle.bar(at - 0.2, mean_attention(alpha), 0.4, color=BLUE, label="α-avg")
    middle.bar(at + 0.2, max_attention(alpha), 0.4, color=ORANGE, label="α-max")
    style_axes(middle, y="attention")
    legend(middle, loc="upper left")
    bottom.bar(at, scores, 0.6, color=[VERMILLION if s < 0 else BLUE for s in scores])
    bottom.axhline(0, color=INK, linewidth=0.8)
    style_axes(bottom, y="exact LIME")
    for axes in (top, middle, bottom):
        axes.set_xlim(0, T)
        axes.set_xticks(at, labels=words, rotation=40, ha="right", fontsize=8)
        axes.label_outer()
    against = int(np.argmin(scores))
    return Picture(
        figure=figure,
        alt="A heat map of the attention of every head over the tokens of a sentence, bars of its "
        "mean and largest over heads, and bars of LIME scores, some of them negative.",
        numbers=(words[against],),
    )


def draw_cls_gradient() -> Picture:
    """Draw errors of the gradient against complex steps, with and without the query."""
    errors = _row_errors()
    figure, (left_axes, right_axes) = panels(
        ("random model, relative error", "position (0 is [cls])", ""),
        ("shipped model, size of ∇f at [cls]", "", "L2 norm"),
    )
    open_mark = {"markersize": 6, "fillstyle": "none"}
    for (name, error), mark in zip(errors.items(), (("x", VERMILLION), ("o", BLUE)), strict=True):
        left_axes.plot(np.maximum(error, 1e-17), mark[0], color=mark[1], label=name, **open_mark)
    left_axes.set_ylim(1e-17, 10)
    logarithmic(left_axes, "y")
    legend(left_axes, loc="center right")
    norms = _cls_norms()
    right_axes.bar(list(norms), list(norms.values()), 0.5, color=[VERMILLION, BLUE])
    printed, ours = errors.values()
    return Picture(
        figure=figure,
        alt="Left: relative errors at rounding level at every position, except for the printed "
        "formula at position 0. Right: two bars for the row of [cls] on the shipped model.",
        numbers=(below(float(ours.max())), share(float(printed[0]))),
    )


def _row_errors() -> dict[str, np.ndarray]:
    """Compute the relative errors of both forms at every position of a random model."""
    rng = np.random.default_rng(0)
    T, d_e, K, d_att = 11, 13, 3, 5
    e = rng.normal(size=(T, d_e))
    W_q, W_k, W_v = rng.normal(size=(3, K, d_att, d_e)) / np.sqrt(d_e)
    W_l = rng.normal(size=(K, d_att))
    numeric = np.empty((T, d_e))
    for t, j in np.ndindex(T, d_e):
        moved = e.astype(complex)
        moved[t, j] += 1e-30j
        numeric[t, j] = _output(moved, W_q, W_k, W_v, W_l).imag / 1e-30
    query = np.einsum("kad,kae->kde", W_q, W_k) / np.sqrt(d_att)
    key = np.einsum("d,kde->ke", e[0], query)
    read = {"e": e, "key": key, "value": np.einsum("ko,koe->ke", W_l, W_v)}
    alpha, u = attention(key @ e.T), read["value"] @ e.T
    return {
        name: np.linalg.norm(gradient(alpha, u, query=q, **read) - numeric, axis=1)
        / np.linalg.norm(numeric, axis=1)
        for name, q in (("as printed", 0 * query), ("with the query path", query))
    }


def _output(e, W_q, W_k, W_v, W_l):  # type: ignore[no-untyped-def]
    """Compute the mean over heads of W_ℓ Σ_t α_t v_t, also for complex tokens."""
    logit = np.einsum("kad,d,kae,te->kt", W_q, e[0], W_k, e) / np.sqrt(W_q.shape[1])
    g = np.exp(logit - logit.real.max())
    heads = np.einsum("kt,te,koe,ko->k", g, e, W_v, W_l) / g.sum(axis=1)
    return heads.mean()


def _cls_norms() -> dict[str, float]:
    batch = review(SHORT)
    at_the_text = batch.collapsed_inputs.gradient_arguments(batch.target_gradient)
    query = at_the_text["query"]
    rows = {"as printed": 0 * query, "with the query path": query}
    return {
        name: float(np.linalg.norm(gradient(**(at_the_text | {"query": q}))[0, 0]))
        for name, q in rows.items()
    }


def draw_path_bounds() -> Picture:
    """Draw the proven error and the gap of the quadrature against its nodes."""
    figure, axes = panels(("", "Gauss–Legendre nodes", "error"), width=5.2)
    colors = dict(zip((4, 16, 80, 400), (BLUE, PURPLE, ORANGE, VERMILLION), strict=True))
    nodes_needed = {}
    for swing, color in colors.items():
        results = _integrate(swing)
        nodes = [ig.nodes for ig in results]
        bounds, gaps = (
            [float(x[0]) for x in xs]
            for xs in zip(*((i.quadrature, i.gap) for i in results), strict=True)
        )
        nodes_needed[swing] = next(
            n for n, bound in zip(nodes, bounds, strict=True) if bound < 1e-9
        )
        axes.plot(nodes, bounds, "-", color=color, label=f"swing of logits {swing}")
        axes.plot(nodes, np.maximum(gaps, 1e-17), "o", color=color, markersize=3)
    axes.axhline(1e-9, color=GREY, linestyle=":", linewidth=0.9)
    axes.set_ylim(1e-18, 1e4)
    logarithmic(axes)
    axes.set_xticks([32, 128, 512, 2048], labels=["32", "128", "512", "2048"])
    legend(axes)
    return Picture(
        figure=figure,
        alt="Proven error against nodes on logarithmic axes for four swings of the logits: steep "
        "lines, each further to the right; the gaps to completeness lie below them as dots.",
        numbers=(str(nodes_needed[4]), str(nodes_needed[400])),
    )


def _integrate(swing: float) -> list[IntegratedGradients]:
    """Compute integrated gradients for tolerances from 1 to 1e-14, each number of nodes once."""
    rng = np.random.default_rng(5)
    logit, base = swing / 2 * rng.uniform(-1, 1, (2, 1, 2, 11))
    u, base_u = rng.normal(size=(2, 1, 1, 2, 11))
    results = [
        integrated_gradients(
            LogitPath(base, logit),
            u,
            base_u,
            output_gradient=np.ones_like,
            explained_value=lambda f: f[..., 0],
            derivative_bounds=DerivativeBounds(lambda psi: np.ones((*psi.shape, 1)), curvature=0.0),
            tolerance=tolerance,
        )
        for tolerance in 10.0 ** -np.arange(15)
    ]
    return list({ig.nodes: ig for ig in results}.values())


def draw_replacement_and_deletion() -> Picture:
    """Draw forward passes against the formula, for replaced and for deleted words."""
    text = " ".join(UNREPEATED.split()[:6])
    batch, game = review(text), review_game(text)
    model_input, feature_index = batch.inputs[0], batch.features[0].feature_index
    keep = enumerate_masks(game.d)[1:]  # something is kept, so that a text is left after deletion
    kept_tokens = keep[:, feature_index]
    formula = value(game, keep)[0]
    passes = {
        "replaced by UNK": [np.where(row, model_input.encoding.ids, UNK) for row in kept_tokens],
        "deleted, later words move up": [model_input.encoding.ids[row] for row in kept_tokens],
    }
    figure, axes = panels(("", "formula f(Z)", "forward pass − formula"), width=4.6, height=3.4)
    axes.axhline(0, color=GREY, linewidth=0.8)
    largest_errors = []
    for (name, rows), (mark, color) in zip(
        passes.items(), (("o", BLUE), ("x", VERMILLION)), strict=True
    ):
        f = batch.model.logits_of_ids(rows)[:, 0]
        axes.plot(
            formula, f - formula, mark, color=color, markersize=3, fillstyle="none", label=name
        )
        largest_errors.append(float(np.abs(f - formula).max()))
    legend(axes)
    return Picture(
        figure=figure,
        alt="Forward pass minus formula for all sets: 0 where words are replaced, scattered "
        "around 0 where they are deleted.",
        numbers=(
            str(len(keep)),
            str(game.d),
            below(largest_errors[0], least=1e-9),
            f"{largest_errors[1]:.2g}",
        ),
    )
