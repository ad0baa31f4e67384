"""What attention is for: trained freely, held uniform, with W_ℓ held, and against itself."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from limelight import AttentionClassifier, evaluate, explain
from limelight_reproduction.document import strings
from limelight_reproduction.drawing import BLUE, VERMILLION, canvas, plain
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
from limelight_reproduction.spread import quartiles, rank_correlation

CONTROLS = {
    "free": "everything trained",
    "uniform": "attention held uniform",
    "fixed": "W_ℓ held at its random start",
    "adversary": "attention trained away from the first model's",
}
WEIGHTS, QUICK_WEIGHTS = (0.03, 0.1), (0.1,)
TEXTS, QUICK_TEXTS = 100, 50
TEST, QUICK_TEST = 5_000, 2_000


def _measure(setting: Setting) -> Numbers:
    from limelight_reproduction.questions.controlled_training import (  # needs torch
        HELD,
        adversary,
        classifier_of,
        controlled,
        prepared_texts,
    )

    prepared = prepared_texts(setting)
    networks = {held: controlled(setting, prepared, held) for held in HELD}
    models = {held: classifier_of(net, prepared) for held, net in networks.items()}
    found = {held: _described(setting, models["free"], model) for held, model in models.items()}
    against = {}
    for weight in QUICK_WEIGHTS if setting.quick else WEIGHTS:
        network = adversary(setting, prepared, networks["free"], weight)
        model = classifier_of(network, prepared)
        against[str(weight)] = _described(setting, models["free"], model)
    return compact(
        {"training": len(prepared.training), "held": found, "adversary": against}, digits=4
    )


def _described(
    setting: Setting, free: AttentionClassifier, model: AttentionClassifier
) -> dict[str, Any]:
    """Return the accuracy of a control, and what it has in common with the model that is free."""
    texts = strings(setting.some_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS))
    data = setting.some_texts("imdb", "test", QUICK_TEST if setting.quick else TEST)
    target = model.classes[-1]
    alpha, lime = (
        [abs(one.scores) for one in explain(model, texts, method, target=target)]
        for method in ("alpha-avg", "lime")
    )
    before = [one.scores for one in explain(free, texts, "lime", target=target)]
    after = [one.scores for one in explain(model, texts, "lime", target=target)]
    p, q = (one.predict_proba(texts) for one in (free, model))
    return {
        "accuracy": evaluate(model, data).accuracy,
        "tvd": float(np.abs(p - q).sum(axis=1).mean() / 2),
        "jsd": float(np.mean([_apart(free, model, text) for text in texts])),
        "alpha_lime": quartiles([rank_correlation(a, b) for a, b in zip(alpha, lime, strict=True)]),
        "lime_lime": quartiles(
            [rank_correlation(a, b) for a, b in zip(before, after, strict=True)]
        ),
    }


def _apart(free: AttentionClassifier, model: AttentionClassifier, text: str) -> float:
    """Return the Jensen–Shannon divergence of the attention of [cls], a mean over heads."""
    from limelight_reproduction.one_layer.collapsed_texts import collapsed_texts

    p, q = (collapsed_texts(one, [text]).alpha[0] for one in (free, model))
    middle = (p + q) / 2
    both = [x * np.log(np.maximum(x, 1e-300) / middle) for x in (p, q)]
    return float((both[0] + both[1]).sum(axis=1).mean() / 2)


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    of = numbers["trained"]
    figure, (left, right) = canvas(8.4, 2.9, columns=2)
    held = of["held"]
    names = list(held)
    left.barh(range(len(names)), [held[name]["accuracy"] for name in names], color=BLUE, height=0.5)
    left.set_yticks(range(len(names)), [CONTROLS[name] for name in names])
    left.set_xlim(0.5, 1)
    left.invert_yaxis()
    plain(left, x="accuracy on the test reviews")
    for weight, one in of["adversary"].items():
        right.plot([one["jsd"]], [one["tvd"]], "o", color=VERMILLION)
        right.annotate(
            f"λ = {weight}", (one["jsd"], one["tvd"]), xytext=(4, 4),
            textcoords="offset points", fontsize=8,
        )  # fmt: skip
    right.set_xlim(0, np.log(2))
    right.set_ylim(0, 0.5)
    plain(right, x="JSD from the first attention", y="TVD from the first predictions")
    yield (
        "controls",
        "Accuracy with something held; and how far attention can be trained away.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    of = numbers["trained"]
    held = of["held"]
    free, uniform, fixed = (held[name]["accuracy"] for name in ("free", "uniform", "fixed"))
    adversaries = of["adversary"].values()
    strongest = max(adversaries, key=lambda one: one["jsd"] - one["tvd"])
    rows = [
        [CONTROLS[name], one["accuracy"], one["tvd"], one["jsd"], one["alpha_lime"][1],
         one["lime_lime"][1]]
        for name, one in held.items()
    ] + [
        [f"{CONTROLS['adversary']}, λ = {weight}", one["accuracy"], one["tvd"], one["jsd"],
         one["alpha_lime"][1], one["lime_lime"][1]]
        for weight, one in of["adversary"].items()
    ]  # fmt: skip
    return Findings(
        headline=(
            f"Attention held uniform costs {100 * (free - uniform):.1f} points of accuracy "
            f"({free:.1%} to {uniform:.1%}), W_ℓ held at random {100 * (free - fixed):.1f}; a "
            f"model trained to attend elsewhere moves its attention by a JSD of "
            f"{strongest['jsd']:.2f} of 0.69 and its probabilities by {strongest['tvd']:.2f}."
        ),
        verdicts=[
            Verdict(
                claim="Attention is needed for the task (Wiegreffe and Pinter's first control)",
                holds="hardly" if free - uniform < 0.02 else "it is",
                number=f"uniform {uniform:.1%}, trained {free:.1%}",
            ),
            Verdict(
                claim="A model can be trained to predict the same and attend elsewhere",
                holds="it can" if strongest["tvd"] < 0.1 and strongest["jsd"] > 0.3 else "in part",
                number=f"JSD {strongest['jsd']:.2f}, TVD {strongest['tvd']:.2f}",
            ),
        ],
        measured=_measured(of),
        meaning=(
            "Wiegreffe and Pinter ask whether attention does anything before asking whether it "
            "explains. On whole reviews an average over all words does nearly as well, so that "
            "attention has little to explain by itself; what a word says is in its value. The last "
            "layer need not be trained either: W_ℓ W_v can point anywhere with W_ℓ fixed. And "
            "where a model is free to attend elsewhere, it can, at the price that the table shows; "
            "unlike Jain and Wallace's, these weights are what a model computes from the words."
        ),
        table=Table(
            columns=(
                "model", "accuracy", "TVD from the first", "JSD of attention",
                "α-avg and |LIME|", "LIME and the first model's",
            ),
            rows=rows,
        ),
    )  # fmt: skip


def _measured(of: Numbers) -> list[str]:
    held = of["held"]
    told = [
        f"Trained on {of['training']:,} reviews with 10,000 words (the paper's architecture, a "
        "larger rate): "
        + ", ".join(f"{CONTROLS[name]} {one['accuracy']:.2%}" for name, one in held.items())
        + ".",
        "Rank correlation of α-avg with |LIME| in the median review: "
        + ", ".join(f"{one['alpha_lime'][1]:.2f} ({CONTROLS[name]})" for name, one in held.items())
        + "; of LIME with that of the first model: "
        + ", ".join(
            f"{one['lime_lime'][1]:.2f} ({CONTROLS[name]})"
            for name, one in held.items()
            if name != "free"
        )
        + ".",
    ]
    for weight, one in of["adversary"].items():
        told.append(
            f"Trained to predict as the first model does and to attend elsewhere (λ = {weight}): "
            f"probabilities differ by {one['tvd']:.3f} (TVD), attention by {one['jsd']:.3f} (JSD, "
            f"of 0.693 at most); accuracy {one['accuracy']:.2%}; LIME of the two has rank "
            f"correlation {one['lime_lime'][1]:.2f}."
        )
    return told


EXPERIMENT = Experiment(
    name="controls",
    title="Attention held, and attention trained away: Wiegreffe and Pinter's controls",
    paper=(
        "Section 1.1 names the objection of Wiegreffe and Pinter (2019): attention must be needed "
        "for the task, and what replaces it must be trained, not chosen."
    ),
    parts=(Part(name="trained", measure=_measure, reads=("imdb train", "imdb test"), stages=4),),
    findings=_findings,
    figures=_figures,
)
