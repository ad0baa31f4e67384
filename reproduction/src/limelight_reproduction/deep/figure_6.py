"""Figure 6 and Appendix E: LIME against attention in a classifier of six layers and six heads."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from limelight import Model, evaluate, explain
from limelight_reproduction.deep.appendix_e import (
    ABSOLUTE,
    AGAIN,
    MODEL,
    PLAIN,
    REPORTED,
    REPORTED_ABSOLUTE,
    RUNS,
    SIGNED,
    findings,
    group_correlations,
)
from limelight_reproduction.deep.sampled_lime import sampled_lime
from limelight_reproduction.document import list_texts
from limelight_reproduction.drawing import BLUE, GREY, INK, VERMILLION, canvas, style_axes
from limelight_reproduction.experiment import Experiment, Numbers, Part, round_for_json
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import correlation

READS = ("imdb train", "review")
SAMPLES, TEXTS = 5000, 500
_NAMED = 8  # words named in the scatter


def _measure(setting: Setting) -> Numbers:
    from limelight_reproduction.deep.networks import load_or_train  # needs torch

    model = load_or_train(setting, MODEL)
    data = setting.sample_texts("imdb", "test", 10 if setting.quick else TEXTS)
    rows = []
    for i, text in enumerate(list_texts(data)):
        setting.tick(i, len(data))
        rows.append(_correlations(setting, model, text, i))
    output, signed, absolute = zip(*rows, strict=True)
    return round_for_json(
        {
            "accuracy": evaluate(model, setting.texts("imdb", "test")).accuracy,
            "texts": len(data),
            "samples": SAMPLES,
            "document": _document(setting, model),
            "output": output,
            "signed": signed,
            "absolute": absolute,
        },
        digits=4,
    )


def _measure_again(setting: Setting, name: str) -> Numbers:
    """Measure only the document, with a network that was trained again or in another way."""
    from limelight_reproduction.deep.networks import load_or_train

    model = load_or_train(setting, name)
    accuracy = evaluate(model, setting.texts("imdb", "test")).accuracy
    return round_for_json({"accuracy": accuracy, "document": _document(setting, model)}, digits=4)


def _document(setting: Setting, model: Model) -> Numbers:
    """Return five runs of LIME under deletion and under replacement, and the attention."""
    text = setting.review.text
    attention = explain(model, text, "alpha-avg", layer="first")
    alpha = attention.scores
    numbers: Numbers = {
        "review": setting.review.number,
        "words": attention.features,
        "alpha": alpha,
        "output": attention.prediction[model.classes[-1]],
    }
    for replacement in ("delete", "unk"):
        runs = np.array(
            [
                sampled_lime(
                    model, text, samples=SAMPLES, replacement=replacement,
                    rng=np.random.default_rng([setting.seed, 6, run]),
                ).scores[0]
                for run in range(RUNS)
            ]
        )  # fmt: skip
        mean = runs.mean(axis=0)
        numbers[replacement] = {
            "mean": mean,
            "sd": runs.std(axis=0, ddof=1),
            "signed": correlation(alpha, mean),
            "absolute": correlation(alpha, np.abs(mean)),
        }
    return numbers


def _correlations(
    setting: Setting, model: Model, text: str, number: int
) -> tuple[float, float | None, float | None]:
    """Return the output, ρ(α, LIME) and ρ(α, |LIME|) of one text, LIME under deletion."""
    model_input = model.read(text)
    output = float(model.outputs([model_input])[0, -1])
    if len(set(model_input.tokens.strings)) < 2:
        return output, None, None
    alpha = explain(model, text, "alpha-avg", layer="first").scores
    fit = sampled_lime(
        model, text, samples=SAMPLES, replacement="delete",
        rng=np.random.default_rng([setting.seed, 66, number]),
    )  # fmt: skip
    beta = fit.scores[0]
    return output, correlation(alpha, beta), correlation(alpha, np.abs(beta))


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    training = numbers[MODEL]
    document = training["document"]
    alpha, lime = np.array(document["alpha"]), document["delete"]
    mean, sd = np.array(lime["mean"]), np.array(lime["sd"])
    figure, (document_axes, review_axes) = canvas(8.6, 3.6, columns=2)
    document_axes.errorbar(
        alpha, mean, yerr=sd, fmt="o", color=BLUE, ecolor=GREY, markersize=3, linewidth=1
    )
    document_axes.axhline(0, color=GREY, linewidth=0.8)
    for j in np.argsort(-np.abs(mean))[:_NAMED]:
        document_axes.annotate(
            document["words"][j], (alpha[j], mean[j]), xytext=(4, 2),
            textcoords="offset points", fontsize=7, color=INK, parse_math=False,
        )  # fmt: skip
    style_axes(
        document_axes,
        title=f"the document: ρ = {lime['signed']:.3f}, with |LIME| {lime['absolute']:.3f}",
        x="α-avg of the first layer",
        y=f"LIME, mean and deviation of {RUNS} runs",
    )
    groups, bins = group_correlations(training), np.linspace(-1, 1, 41)
    for name, color in ((SIGNED, BLUE), (ABSOLUTE, VERMILLION)):
        review_axes.hist(groups[name], bins, color=color, alpha=0.6, label=name)
    review_axes.legend(fontsize=8, frameon=False)
    style_axes(review_axes, title=f"{training['texts']} test reviews", x="Pearson's ρ", y="reviews")
    yield (
        "figure-6",
        "Left: LIME against attention on the document of Figure 4. Right: their correlation on "
        "many reviews.",
        figure,
    )


EXPERIMENT = Experiment(
    name="figure-6",
    title="Figure 6 and Appendix E: six layers, six heads",
    paper=(
        "A classifier with 6 layers and 6 heads (82.22 % on IMDB). On one document LIME's "
        f"coefficients and α-avg of the first layer have Pearson correlation {REPORTED}, in "
        f"absolute values {REPORTED_ABSOLUTE}; error bars are five runs of LIME."
    ),
    parts=(
        Part(name=MODEL, measure=_measure, needs=("gpu",), reads=READS, stages=2, version=2),
        *(
            Part(
                name=name,
                measure=partial(_measure_again, name=name),
                needs=("gpu",),
                reads=READS,
                version=2,
            )
            for name in (*AGAIN, *PLAIN)
        ),
    ),
    findings=findings,
    figures=_figures,
)
