"""Repairs of Eq. 19 on trained weights, and their distances to LIME."""

__all__ = ["EXPERIMENT", "FORMS"]

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from limelight import AttentionClassifier
from limelight.shapes import Float
from limelight.text import token_strings
from limelight.theory.lime import lime
from limelight_reproduction.document import list_texts
from limelight_reproduction.drawing import BLUE, VERMILLION, canvas, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    parts_for_both_models,
    round_for_json,
)
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.one_layer.subjects import MODELS, order_paper_first
from limelight_reproduction.setting import Setting
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field
from limelight_reproduction.theory.paper import lime_theorem

TEXTS, QUICK_TEXTS, _CHUNK = 500, 150, 50
FORMS = {
    "eq19": "Eq. 19",
    "constant": "constant 1, not centered",
    "first_order": "constant 1, centered at f",
    "mean_field": "mean field",
}
_PRINTED = 1.5


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Measure the distance of each formula to exact LIME with bandwidth 0.25, with its error.

    ``fitting`` has the constants that, in place of 3/2, bring Eq. 19 closest in each review.
    """
    sampled_texts = list_texts(
        setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS)
    )
    texts = [text for text in sampled_texts if len(set(token_strings(text)[: model.T_max - 1])) > 1]
    distances: dict[str, list[float]] = {name: [] for name in FORMS}
    sizes, fitting = [], []
    for start in range(0, len(texts), _CHUNK):
        setting.tick(start, len(texts))
        collapsed = collapse_texts(model, texts[start : start + _CHUNK])
        exact = lime(collapsed.games, tolerance=1e-5).scores[:, 0]
        forms = _forms(collapsed.games)
        for i, d in enumerate(map(len, collapsed.features)):
            beta = exact[i, :d]
            for name, scores in forms.items():
                distances[name].append(float(np.linalg.norm(scores[i, :d] - beta)))
            plain_form = forms["constant"][i, :d]
            sizes.append(float(np.linalg.norm(beta)))
            fitting.append(float(plain_form @ beta / (plain_form @ plain_form)))
    return round_for_json(
        {
            "texts": len(sizes),
            "norm": _mean_with_error(sizes),
            "far": {name: _mean_with_error(values) for name, values in distances.items()},
            "fitting": np.quantile(fitting, [0.25, 0.5, 0.75]),
        },
        digits=4,
    )


def _forms(games: Any) -> dict[str, Float[np.ndarray, "n d"]]:
    """Return the scores of each formula for the games of several texts."""
    printed = lime_theorem(games)
    forms = {
        "eq19": printed,
        "constant": printed / _PRINTED,
        "first_order": lime_first_order(games),
        "mean_field": lime_mean_field(games),
    }
    return {name: scores[:, 0] for name, scores in forms.items()}


def _mean_with_error(values: list[float]) -> list[float]:
    """Return the mean and its standard error."""
    return [float(np.mean(values)), float(np.std(values) / np.sqrt(max(len(values) - 1, 1)))]


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.4, 2.4, columns=2)
    heights = np.arange(len(FORMS))
    for axes, (part, model) in zip(grid, order_paper_first(numbers), strict=True):
        distances = [model["far"][name][0] for name in FORMS]
        colors = [VERMILLION, *[BLUE] * (len(distances) - 1)]
        axes.barh(heights, distances, color=colors, height=0.6)
        for height, value in zip(heights, distances, strict=True):
            axes.text(value + 0.01, height, f"{value:.3f}", va="center", fontsize=8)
        axes.set_yticks(heights, list(FORMS.values()))
        axes.invert_yaxis()
        axes.set_xlim(0, 1.2 * max(distances))
        title = f"the {MODELS[part]}, {model['texts']} reviews"
        style_axes(axes, title=title, x="mean L2 distance")
    grid[1].set_yticklabels([])
    yield "repairs", "Mean distance of four forms to exact LIME with bandwidth 0.25.", figure


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    paper, shipped = (numbers[part]["far"] for part in ("paper", "shipped"))
    return Findings(
        headline=(
            f"From exact LIME (words replaced by UNK) Eq. 19 is {paper['eq19'][0]:.3f} away with "
            f"the paper's recipe, without its factor 3/2 {paper['constant'][0]:.3f}, centered "
            f"besides {paper['first_order'][0]:.3f}; with the shipped model "
            f"{shipped['eq19'][0]:.3f}, {shipped['constant'][0]:.3f} and "
            f"{shipped['first_order'][0]:.3f}."
        ),
        verdicts=[
            Verdict(
                claim="The first order has the factor 3/2 (Theorem 5.1)",
                holds="no, it is 1; on trained weights neither is right",
                number=f"with 3/2 and with 1 {paper['eq19'][0]:.2f} and {paper['constant'][0]:.2f} "
                f"from LIME, shipped model {shipped['eq19'][0]:.2f} and "
                f"{shipped['constant'][0]:.2f}",
            )
        ],
        measured=[_describe_model(part, model) for part, model in order_paper_first(numbers)],
        meaning=(
            "The two slips of Eq. 19 are errors of the first order, and in the theorem's own "
            "regime mending them mends it. Trained weights are not in that regime: removing words "
            "moves the denominator, which a first order at the full text holds fixed. Where it "
            "lowers the denominator, each remaining word counts for more than 1/D(all) says, by up "
            "to a factor 3, so that a constant above 1 helps for a reason that is not in the "
            "proof; and f(all) lies far from the mean of f over masks, so that centring there "
            "overshoots. The mean field takes both into account; it is nearly exact where no word "
            "owns the denominator and no better than the others where one does."
        ),
        table=Table(
            columns=("model", "form", "mean L2 distance to LIME", "standard error"),
            rows=[
                [f"the {MODELS[part]}", label, *model["far"][name]]
                for part, model in order_paper_first(numbers)
                for name, label in FORMS.items()
            ],
        ),
    )


def _describe_model(part: str, numbers: Numbers) -> str:
    """Describe the distances of the formulas on a model."""
    distances = ", ".join(
        f"{label} {numbers['far'][name][0]:.3f} ± {numbers['far'][name][1]:.3f}"
        for name, label in FORMS.items()
    )
    low, middle, high = numbers["fitting"]
    return (
        f"The {MODELS[part]}, {numbers['texts']} test reviews, mean L2 distance to exact LIME with "
        f"bandwidth 0.25 (± standard error), whose own length is {numbers['norm'][0]:.2f}: "
        f"{distances}. In place of 3/2 the constant that fits best is {middle:.2f} in the median "
        f"review, {low:.2f} to {high:.2f} in half of them."
    )


EXPERIMENT = Experiment(
    name="repairs",
    title="Which repair of Eq. 19 helps on trained weights",
    paper="Theorem 5.1 has the factor 3/2 and no centring, for documents that fill a small part "
    "of a large window.",
    parts=parts_for_both_models(measure, version=2),
    findings=_findings,
    figures=_figures,
)
