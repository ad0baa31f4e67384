"""Figure 6 and Appendix E: LIME against attention in a classifier of six layers and six heads."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from limelight.experiments.document import the_document
from limelight.experiments.drawing import BLUE, GREY, INK, VERMILLION, canvas, plain
from limelight.experiments.experiment import Experiment, Findings, Numbers, Part, Table, compact
from limelight.experiments.setting import Setting
from limelight.experiments.spread import correlation, quartiles

MODEL = "imdb-6"
RUNS, SAMPLES, TEXTS = 5, 5000, 500
_NAMED = 8  # words named in the scatter


def _measure(setting: Setting) -> Numbers:
    from limelight.experiments.deep.models import accuracy, trained

    model = trained(setting, MODEL)
    number, text = the_document(setting)
    document = {"review": number} | _document(setting, model, text)
    data = setting.some_texts("imdb", "test", 10 if setting.quick else TEXTS)
    rows = []
    for i, one in enumerate(data.texts):
        setting.tick(i, len(data))
        rows.append(_correlations(setting, model, one, i))
    output, signed, absolute = zip(*rows, strict=True)
    return compact(
        {
            "accuracy": accuracy(model, setting.texts("imdb", "test")),
            "texts": len(data),
            "samples": SAMPLES,
            "document": document,
            "output": output,
            "signed": signed,
            "absolute": absolute,
        },
        digits=4,
    )


def _document(setting: Setting, model: Any, text: str) -> Numbers:
    """Return five runs of LIME under deletion and under replacement, and the attention."""
    from limelight.experiments.deep import scores

    read = scores.seen(model, text)
    alpha = scores.attention_scores(model, read)[0]
    found: Numbers = {
        "words": read.words,
        "alpha": alpha,
        "output": scores.outputs(model, read.window)[0, 1],
    }
    for name, delete in (("delete", True), ("unk", False)):
        runs = np.array(
            [
                scores.lime_scores(
                    model, read, 1, samples=SAMPLES, delete=delete,
                    rng=np.random.default_rng([setting.seed, 6, run]),
                ).scores[0]
                for run in range(RUNS)
            ]
        )  # fmt: skip
        mean = runs.mean(axis=0)
        found[name] = {
            "mean": mean,
            "sd": runs.std(axis=0, ddof=1),
            "signed": correlation(alpha, mean),
            "absolute": correlation(alpha, np.abs(mean)),
        }
    return found


def _correlations(
    setting: Setting, model: Any, text: str, number: int
) -> tuple[float, float | None, float | None]:
    """Return the output, ρ(α, LIME) and ρ(α, |LIME|) of one text, LIME under deletion."""
    from limelight.experiments.deep import scores

    read = scores.seen(model, text)
    alpha = scores.attention_scores(model, read)[0]
    fit = scores.lime_scores(
        model, read, 1, samples=SAMPLES, delete=True,
        rng=np.random.default_rng([setting.seed, 66, number]),
    )  # fmt: skip
    beta = fit.scores[0]
    output = float(scores.outputs(model, read.window)[0, 1])
    return output, correlation(alpha, beta), correlation(alpha, np.abs(beta))


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    of = numbers[MODEL]
    document = of["document"]
    alpha, lime = np.array(document["alpha"]), document["delete"]
    mean, sd = np.array(lime["mean"]), np.array(lime["sd"])
    figure, (left, right) = canvas(8.6, 3.6, columns=2)
    left.errorbar(alpha, mean, yerr=sd, fmt="o", color=BLUE, ecolor=GREY, markersize=3, linewidth=1)
    left.axhline(0, color=GREY, linewidth=0.8)
    for j in np.argsort(-np.abs(mean))[:_NAMED]:
        left.annotate(
            document["words"][j], (alpha[j], mean[j]), xytext=(4, 2), textcoords="offset points",
            fontsize=7, color=INK, parse_math=False,
        )  # fmt: skip
    plain(
        left,
        title=f"the document: ρ = {lime['signed']:.3f}, with |LIME| {lime['absolute']:.3f}",
        x="α-avg of the first layer",
        y="LIME, mean and deviation of 5 runs",
    )
    signed, absolute = np.array(of["signed"]), np.array(of["absolute"])
    bins = np.linspace(-1, 1, 41)
    right.hist(signed, bins, color=BLUE, alpha=0.6, label="α and LIME")
    right.hist(absolute, bins, color=VERMILLION, alpha=0.6, label="α and |LIME|")
    right.legend(fontsize=8, frameon=False)
    plain(right, title=f"{of['texts']} test reviews", x="Pearson's ρ", y="reviews")
    yield (
        "figure-6",
        "Left: LIME against attention on the document of Figure 4. Right: their correlation on "
        "many reviews.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    of = numbers[MODEL]
    delete, unk = of["document"]["delete"], of["document"]["unk"]
    signed, absolute = (np.array(of[key], dtype=float) for key in ("signed", "absolute"))
    negative = np.array(of["output"]) < 0
    spread = {
        "α and LIME, all": signed,
        "α and LIME, classified negative": signed[negative],
        "α and LIME, classified positive": signed[~negative],
        "α and |LIME|, all": absolute,
    }
    rows = [[name, len(x), *quartiles(x.tolist())] for name, x in spread.items()]
    middle = {name: quartiles(x.tolist())[1] for name, x in spread.items()}
    return Findings(
        measured=(
            f"Our 6-layer, 6-head classifier reaches {of['accuracy']:.2%} on the test set.",
            f"On the document (T = 99, d = 71, f = {of['document']['output']:.2f}) ρ is "
            f"{delete['signed']:.3f}, and {delete['absolute']:.3f} with absolute values; with UNK "
            f"in place of removed words {unk['signed']:.3f} and {unk['absolute']:.3f}.",
            f"Over {of['texts']} test reviews the median ρ is {middle['α and LIME, all']:.3f}: "
            f"{middle['α and LIME, classified negative']:.3f} for reviews classified as negative, "
            f"{middle['α and LIME, classified positive']:.3f} for the others; with absolute values "
            f"{middle['α and |LIME|, all']:.3f}.",
        ),
        meaning=_meaning(middle),
        table=Table(columns=("pair", "reviews", "lower quartile", "median", "upper"), rows=rows),
    )


def _meaning(middle: Mapping[str, float]) -> str:
    low, high = (middle[f"α and LIME, classified {c}"] for c in ("negative", "positive"))
    follows = low < -0.1 and high > 0.1
    size = middle["α and |LIME|, all"]
    strength = "strong" if size > 0.6 else "moderate" if size > 0.3 else "weak"
    return (
        "The authors put the negative sign down to the document's class. Over many reviews the "
        f"sign of ρ {'does follow' if follows else 'does not follow'} the predicted class. The "
        f"relation of attention to |LIME| is {strength} in the median review, and the spread over "
        "reviews is wide: one document is too few to tell."
    )


EXPERIMENT = Experiment(
    name="figure-6",
    title="Figure 6 and Appendix E: six layers, six heads",
    paper=(
        "A classifier with 6 layers and 6 heads (82.22 % on IMDB). On one document LIME's "
        "coefficients and α-avg of the first layer have Pearson correlation −0.424, in absolute "
        "values 0.672; error bars are five runs of LIME."
    ),
    parts=(Part(name=MODEL, measure=_measure, needs="gpu"),),
    findings=_findings,
    figures=_figures,
)
