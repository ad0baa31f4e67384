"""Figure 6 and Appendix E: LIME against attention in a classifier of six layers and six heads."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from limelight import Model, evaluate, explain
from limelight_reproduction.deep.sampled_lime import sampled_lime
from limelight_reproduction.document import TOKENS, strings
from limelight_reproduction.drawing import BLUE, GREY, INK, VERMILLION, canvas, plain
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
    compact,
)
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import correlation, quartiles

MODEL = "imdb-6"
AGAIN = ("imdb-6-again-1", "imdb-6-again-2")
# As plain as the paper's Section 2 and Appendices E and F allow; and with skip connections alone.
PLAIN = {"imdb-6-plain": "without skip connections", "imdb-6-skip": "with skip connections"}
RUNS, SAMPLES, TEXTS = 5, 5000, 500
REPORTED, REPORTED_ABSOLUTE = "−0.424", "0.672"
SIGNED, ABSOLUTE = "α and LIME", "α and |LIME|"
REPORTED_ACCURACY = 0.8222
LEARNT = 0.6  # accuracy above which a network has learnt something
_NAMED = 8  # words named in the scatter


def _measure(setting: Setting) -> Numbers:
    from limelight_reproduction.deep.networks import trained  # needs torch

    model = trained(setting, MODEL)
    data = setting.some_texts("imdb", "test", 10 if setting.quick else TEXTS)
    rows = []
    for i, one in enumerate(strings(data)):
        setting.tick(i, len(data))
        rows.append(_correlations(setting, model, one, i))
    output, signed, absolute = zip(*rows, strict=True)
    return compact(
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
    """Return the document alone, under a network that was trained again or in another way."""
    from limelight_reproduction.deep.networks import trained

    model = trained(setting, name)
    right = evaluate(model, setting.texts("imdb", "test")).accuracy
    return compact({"accuracy": right, "document": _document(setting, model)}, digits=4)


def _document(setting: Setting, model: Model) -> Numbers:
    """Return five runs of LIME under deletion and under replacement, and the attention."""
    text = setting.review.text
    attention = explain(model, text, "alpha-avg", layer="first")
    alpha = attention.scores
    found: Numbers = {
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
        found[replacement] = {
            "mean": mean,
            "sd": runs.std(axis=0, ddof=1),
            "signed": correlation(alpha, mean),
            "absolute": correlation(alpha, np.abs(mean)),
        }
    return found


def _correlations(
    setting: Setting, model: Model, text: str, number: int
) -> tuple[float, float | None, float | None]:
    """Return the output, ρ(α, LIME) and ρ(α, |LIME|) of one text, LIME under deletion."""
    document = model.read(text)
    output = float(model.outputs([document])[0, -1])
    if len(set(document.tokens.strings)) < 2:
        return output, None, None
    alpha = explain(model, text, "alpha-avg", layer="first").scores
    fit = sampled_lime(
        model, text, samples=SAMPLES, replacement="delete",
        rng=np.random.default_rng([setting.seed, 66, number]),
    )  # fmt: skip
    beta = fit.scores[0]
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
        y=f"LIME, mean and deviation of {RUNS} runs",
    )
    groups, bins = _groups(of), np.linspace(-1, 1, 41)
    for name, colour in ((SIGNED, BLUE), (ABSOLUTE, VERMILLION)):
        right.hist(groups[name], bins, color=colour, alpha=0.6, label=name)
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
    document, groups = of["document"], _groups(of)
    delete, unk = document["delete"], document["unk"]
    middle = {name: quartiles(values)[1] for name, values in groups.items()}
    near = float(np.median([_lime(numbers, name)["absolute"] for name in (MODEL, *AGAIN)]))
    own = _as_class(numbers)
    by_class = ", ".join(
        f"{middle[name]:.3f} for reviews {name.partition(', ')[2]}"
        for name in groups
        if "," in name
    )
    return Findings(
        headline=(
            f"Attention of the first of six layers and |LIME| have correlation "
            f"{_of_trainings(numbers, 'absolute')} on the document in three trainings (the paper: "
            f"{REPORTED_ABSOLUTE}) and {middle[ABSOLUTE]:.3f} in the median review; with the sign "
            f"of LIME {_of_trainings(numbers, 'signed')} (the paper: {REPORTED}) and "
            f"{middle[SIGNED]:.3f}."
        ),
        verdicts=[
            Verdict(
                claim="In six layers attention of the first and |LIME| have correlation "
                f"{REPORTED_ABSOLUTE} on one review (Appendix E)",
                holds="similar" if abs(near - float(REPORTED_ABSOLUTE)) < 0.15 else "differs",
                number=f"{_of_trainings(numbers, 'absolute')}; median review "
                f"{middle[ABSOLUTE]:.3f}",
            ),
            Verdict(
                claim=f"With its sign it is {REPORTED}, since the document is negative",
                holds=f"{own} of {1 + len(AGAIN)} trainings have the sign of their class",
                number=_of_trainings(numbers, "signed"),
            ),
            Verdict(
                claim=f"Six layers of six heads reach {REPORTED_ACCURACY:.2%} (Appendix E)",
                holds="reproduced"
                if abs(numbers["imdb-6-plain"]["accuracy"] - REPORTED_ACCURACY) < 0.01
                else "not reproduced",
                number=f"{numbers['imdb-6-plain']['accuracy']:.2%} as plain as the appendix, "
                f"{of['accuracy']:.2%} with layer norms and dropout",
            ),
        ],
        measured=(
            f"Our 6-layer, 6-head classifier reaches {of['accuracy']:.2%} on the test set, where "
            "the authors have 82.22%. It differs from their Appendices E and F: every layer has "
            "layer norms, skip connections and a perceptron, and it is trained with dropout on "
            "30,000 words and one output, for 6 epochs of batches of 64.",
            _plainly(numbers),
            f"On the document (T = {TOKENS}, d = {len(document['words'])}, f = "
            f"{document['output']:.2f}) ρ is {delete['signed']:.3f}, and {delete['absolute']:.3f} "
            f"with absolute values; with UNK in place of removed words {unk['signed']:.3f} and "
            f"{unk['absolute']:.3f}.",
            _trained_again(numbers),
            f"Over {of['texts']} test reviews the median ρ is {middle[SIGNED]:.3f} ({by_class}); "
            f"with absolute values {middle[ABSOLUTE]:.3f}.",
        ),
        meaning=_meaning(numbers, groups),
        table=Table(
            columns=("pair", "reviews", "lower quartile", "median", "upper quartile"),
            rows=[[name, len(values), *quartiles(values)] for name, values in groups.items()],
        ),
    )


def _lime(numbers: Mapping[str, Numbers], name: str) -> Numbers:
    found: Numbers = numbers[name]["document"]["delete"]
    return found


def _as_class(numbers: Mapping[str, Numbers]) -> int:
    """Return in how many trainings ρ on the document has the sign of the class it is given."""
    documents = [numbers[name]["document"] for name in (MODEL, *AGAIN)]
    return sum((one["delete"]["signed"] < 0) == (one["output"] < 0) for one in documents)


def _of_trainings(numbers: Mapping[str, Numbers], key: str) -> str:
    found = [_lime(numbers, name)[key] for name in (MODEL, *AGAIN)]
    return ", ".join(f"{rho:.3f}" for rho in found)


def _trained_again(numbers: Mapping[str, Numbers]) -> str:
    told = []
    for name in AGAIN:
        document = numbers[name]["document"]
        lime = document["delete"]
        told.append(
            f"{lime['signed']:.3f} and {lime['absolute']:.3f} (f = {document['output']:.2f}, test "
            f"accuracy {numbers[name]['accuracy']:.2%})"
        )
    return f"The same network trained again gives {'; and again '.join(told)}."


def _plainly(numbers: Mapping[str, Numbers]) -> str:
    """Say what the networks give that have nothing but heads, trained as the paper says."""
    told = []
    for name, how in PLAIN.items():
        accuracy, document = numbers[name]["accuracy"], numbers[name]["document"]
        lime = document["delete"]
        found = (
            f"ρ {_shown(lime['signed'])}, with absolute values {_shown(lime['absolute'])} "
            f"(f = {document['output']:.2f})"
            if accuracy > LEARNT
            else "which is no better than chance"
        )
        told.append(f"{how} {accuracy:.2%} of the test set and {found}")
    return (
        "Six layers of heads with a linear map and nothing else, trained as Appendix F says (10 "
        f"epochs, batches of 16, AdamW at 1e-4, no dropout): {'; '.join(told)}."
    )


def _shown(rho: float | None) -> str:
    return "not defined" if rho is None else f"{rho:.3f}"


def _groups(of: Numbers) -> dict[str, list[float]]:
    """Return the correlations of all reviews and of each class, without those not defined."""
    pairs = list(zip(of["output"], of["signed"], strict=True))
    groups = {
        SIGNED: [rho for _, rho in pairs],
        f"{SIGNED}, classified negative": [rho for f, rho in pairs if f < 0],
        f"{SIGNED}, classified positive": [rho for f, rho in pairs if f >= 0],
        ABSOLUTE: of["absolute"],
    }
    known = {name: [x for x in values if x is not None] for name, values in groups.items()}
    return {name: values for name, values in known.items() if values}


def _meaning(numbers: Mapping[str, Numbers], groups: Mapping[str, list[float]]) -> str:
    of = numbers[MODEL]
    as_class = [
        (rho < 0) == (f < 0)
        for f, rho in zip(of["output"], of["signed"], strict=True)
        if rho is not None
    ]
    low, size, high = quartiles(groups[ABSOLUTE])
    strength = "strong" if size > 0.6 else "moderate" if size > 0.3 else "weak"
    return (
        "The authors put the negative sign down to the document's class. On the document the sign "
        f"of our ρ is that of the class which the network gives in {_as_class(numbers)} of "
        f"{1 + len(AGAIN)} "
        f"trainings; over many reviews it is for {np.mean(as_class):.0%}. The relation of "
        f"attention to |LIME| is {strength} in the median review, and half of the reviews lie "
        f"between {low:.2f} and {high:.2f}."
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
        Part(name=MODEL, measure=_measure, needs=("gpu",), version=2),
        *(
            Part(name=name, measure=partial(_measure_again, name=name), needs=("gpu",), version=2)
            for name in (*AGAIN, *PLAIN)
        ),
    ),
    findings=_findings,
    figures=_figures,
)
