"""What attention is for: trained freely, held uniform, with W_ℓ held, and against itself."""

__all__ = ["EXPERIMENT"]

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from limelight_reproduction.drawing import BLUE, GREEN, ORANGE, VERMILLION, canvas, plain
from limelight_reproduction.experiment import Experiment, Findings, Numbers, Part, Table, Verdict
from limelight_reproduction.intervals import Interval, over_trainings
from limelight_reproduction.questions.controls_judged import needed, reached, trainable_away
from limelight_reproduction.setting import Setting

CONTROLS = {
    "free": "everything trained",
    "others": "the same with another seed",
    "uniform": "attention held uniform",
    "fixed": "W_ℓ held at its random start",
}
HOW = {"jsd": "JSD", "kl": "KL, as Wiegreffe and Pinter's"}


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, (left, right) = canvas(9.0, 3.2, columns=2)
    lost = [(said, _lost(of, kind)) for said, of, kind in _losses(numbers)]
    for y, (_said, (middle, low, high)) in enumerate(lost):
        left.hlines(y, 100 * low, 100 * high, color=BLUE, linewidth=2, alpha=0.5)
        left.plot([100 * middle], [y], "o", color=BLUE)
    left.set_yticks(range(len(lost)), [said for said, _ in lost])
    left.axvline(0, color=ORANGE, linewidth=0.7)
    left.invert_yaxis()
    plain(left, x="points of accuracy lost, 95 % interval")
    of, kinds = numbers["adversary"], numbers["held"]["kinds"]
    for how, colour in (("jsd", VERMILLION), ("kl", GREEN)):
        curve = [one for one in of["adversaries"] if one["divergence"] == how]
        right.plot(
            [np.mean(one["jsd"]) for one in curve], [np.mean(one["tvd"]) for one in curve], "o-",
            color=colour, markersize=4, label=f"adversaries, {HOW[how].split(',')[0]} in the loss",
        )  # fmt: skip
    right.plot(of["others"]["jsd"], of["others"]["tvd"], "^", color=BLUE, label="another seed")
    right.plot(kinds["uniform"]["jsd"], kinds["uniform"]["tvd"], "s", color=ORANGE, label="uniform")
    right.set_xlim(0, math.log(2) * 1.02)
    right.set_ylim(0, None)
    right.legend(fontsize=7, frameon=False)
    plain(right, x="JSD from the first attention", y="TVD from the first predictions")
    yield (
        "controls",
        "What it costs to hold something; and how far attention can be trained away, at which "
        "price in predictions, beside the same model with another seed and with uniform attention.",
        figure,
    )


def _losses(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, Numbers, str]]:
    for part, said in (("held", ""), ("held-paper", ", paper's recipe")):
        for kind in ("uniform", "fixed"):
            yield CONTROLS[kind] + said, numbers[part], kind


def _lost(of: Numbers, kind: str) -> Interval:
    one = of["kinds"][kind]
    return over_trainings(one["lost"], one["text_error"])


def _points(interval: Interval) -> str:
    middle, low, high = (100 * x for x in interval)
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    held, paper, of, words = (numbers[part.name] for part in EXPERIMENT.parts)
    uniform, fixed = (_lost(held, kind) for kind in ("uniform", "fixed"))
    free = np.mean(held["kinds"]["free"]["accuracy"])
    return Findings(
        headline=(
            f"Attention held uniform costs {_points(uniform)} points of accuracy (of {free:.1%}), "
            f"W_ℓ held at random {_points(fixed)}; a model trained to attend elsewhere "
            f"{_as_far(of)}."
        ),
        verdicts=[
            Verdict(
                claim="Attention is needed for the task (Wiegreffe and Pinter's first control)",
                holds=_on_both(needed(uniform), needed(_lost(paper, "uniform"))),
                number=f"uniform costs {_points(uniform)} points of {free:.1%}; by the paper's "
                f"recipe {_points(_lost(paper, 'uniform'))} of "
                f"{np.mean(paper['kinds']['free']['accuracy']):.1%}",
            ),
            Verdict(
                claim="The last layer W_ℓ needs training",
                holds=_on_both(needed(fixed), needed(_lost(paper, "fixed"))),
                number=f"held at random it costs {_points(fixed)} points; by the paper's recipe "
                f"{_points(_lost(paper, 'fixed'))}",
            ),
            Verdict(
                claim="A model can be trained to predict the same and attend elsewhere",
                holds=trainable_away(of["adversaries"], of["others"]),
                number=_reach(of["adversaries"], of["others"], "jsd"),
            ),
            Verdict(
                claim="… and to attend to other words, [cls] and padding left out",
                holds=trainable_away(_on_words(words), words["others"], by="words"),
                number=_reach(_on_words(words), words["others"], "words"),
            ),
        ],
        measured=[_of_held(held, "a shortened recipe"), _of_held(paper, "the paper's recipe"),
                  *_of_adversaries(of), *_of_words(words)],
        meaning=_MEANING,
        table=_table(numbers),
    )  # fmt: skip


def _on_both(short: str, paper: str) -> str:
    return short if short == paper else f"{short}; by the paper's recipe: {paper}"


def _as_far(of: Numbers) -> str:
    far = [0.0 if one is None else one["jsd"] for one in reached(of["adversaries"], of["others"])]
    return (
        f"gets to a JSD of {min(far):.2f} to {max(far):.2f} (of {math.log(2):.2f}) while it "
        "predicts as another seed does"
    )


def _on_words(words: Numbers) -> list[Numbers]:
    return [one for one in words["adversaries"] if one["divergence"] == "words"]


def _reach(adversaries: Sequence[Numbers], line: Numbers, by: str) -> str:
    seeds = f"another seed JSD {np.mean(line[by]):.2f}, TVD {np.mean(line['tvd']):.3f}"
    known = [one for one in reached(adversaries, line, by=by) if one is not None]
    if not known:
        return f"none predicts the same; {seeds}"
    spans = {name: [one[name] for one in known] for name in (by, "tvd", "accuracy")}
    return (
        f"JSD {_span(spans[by])} at TVD {_span(spans['tvd'], 3)} and accuracy "
        f"{min(spans['accuracy']):.1%} to {max(spans['accuracy']):.1%} "
        f"(first models {min(line['accuracy']):.1%} to {max(line['accuracy']):.1%}); {seeds}"
    )


def _span(values: Sequence[float], digits: int = 2) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def _of_held(of: Numbers, recipe: str) -> str:
    kinds = of["kinds"]
    return (
        f"Trained by {recipe} on {of['training']:,} reviews with {of['words']:,} words, "
        f"{of['seeds']} seeds each, and tested on {of['test']:,}: "
        + ", ".join(
            f"{CONTROLS[kind]} {np.mean(kinds[kind]['accuracy']):.2%}"
            for kind in ("free", "uniform", "fixed")
        )
        + f". Lost with uniform attention {_points(_lost(of, 'uniform'))} points, with W_ℓ held "
        f"{_points(_lost(of, 'fixed'))} (95 % intervals over texts and seeds, paired). Rank "
        "correlation of α-avg with |LIME| in the median review: "
        + ", ".join(
            f"{np.mean(kinds[kind]['alpha_lime']):.2f} ({CONTROLS[kind]})"
            for kind in ("free", "uniform", "fixed")
        )
        + "; of LIME with that of the first model: "
        + ", ".join(
            f"{np.mean(kinds[kind]['lime_lime']):.2f} ({CONTROLS[kind]})"
            for kind in ("others", "uniform", "fixed")
        )
        + "."
    )


def _of_adversaries(of: Numbers) -> Iterator[str]:
    (imitator,) = (one for one in of["adversaries"] if one["weight"] == 0)
    yield (
        f"Adversaries minimise TVD − λ·divergence from a first model, {of['seeds']} first models "
        f"for each λ. With λ = 0 they imitate: TVD {np.mean(imitator['tvd']):.3f}, where the first "
        f"model and another seed are {np.mean(of['others']['tvd']):.3f} apart (JSD of their "
        f"attention {np.mean(of['others']['jsd']):.3f})."
    )
    for i, one in enumerate(reached(of["adversaries"], of["others"])):
        if one is None:
            yield f"First model {i}: no adversary predicts as another seed does."
            continue
        yield (
            f"First model {i}: the adversary that attends farthest and predicts the same is that "
            f"of λ = {one['weight']} ({one['divergence'].upper()}): JSD {one['jsd']:.3f}, TVD "
            f"{one['tvd']:.3f}, accuracy {one['accuracy']:.2%}."
        )


def _of_words(of: Numbers) -> Iterator[str]:
    (window,) = (one for one in of["adversaries"] if one["divergence"] == "jsd")
    first, least, most = (
        np.mean(one["on_words"])
        for one in (of["others"], window, max(_on_words(of), key=lambda one: one["weight"]))
    )
    yield (
        f"Where attention goes, with {of['training']:,} reviews to train on: the first models give "
        f"{first:.0%} of it to the words of a review, the adversary of the window (λ = "
        f"{window['weight']}) {least:.0%}; its attention has JSD {np.mean(window['jsd']):.2f} over "
        f"the window and {np.mean(window['words']):.2f} over the words alone, and ranks words as "
        f"the first model's to {window['alpha_alpha']:.2f}."
    )
    yield (
        "Adversaries of the attention over words: "
        + "; ".join(
            f"λ = {one['weight']}: JSD {np.mean(one['words']):.2f}, TVD {np.mean(one['tvd']):.3f}, "
            f"accuracy {np.mean(one['accuracy']):.1%}, ranks as the first model's "
            f"{one['alpha_alpha']:.2f}, as its own |LIME| {one['alpha_lime']:.2f}"
            for one in _on_words(of)
        )
        + (
            f" (another seed: JSD {np.mean(of['others']['words']):.2f}, TVD "
            f"{np.mean(of['others']['tvd']):.3f}; the last has {most:.0%} of its "
            "attention on words)."
        )
    )


def _table(numbers: Mapping[str, Numbers]) -> Table:
    rows: list[list[Any]] = []
    for part, said in (("held", ""), ("held-paper", ", paper's recipe")):
        for kind, label in CONTROLS.items():
            one = numbers[part]["kinds"][kind]
            rows.append([label + said, *_means(one), np.mean(one.get("alpha_lime", np.nan)),
                         np.mean(one["lime_lime"])])  # fmt: skip
    for one in numbers["adversary"]["adversaries"]:
        label = f"adversary, λ = {one['weight']} ({one['divergence'].upper()})"
        rows.append([label, *_means(one), one["alpha_lime"], one["lime_lime"]])
    for one in numbers["adversary-words"]["adversaries"]:
        what = {"words": "JSD over words"}.get(one["divergence"], "JSD")
        label = f"adversary, fewer reviews, λ = {one['weight']} ({what})"
        rows.append([label, *_means(one), one["alpha_lime"], one["lime_lime"]])
    return Table(
        columns=(
            "model", "accuracy", "TVD from the first", "JSD of attention", "α-avg and |LIME|",
            "LIME and the first model's",
        ),
        rows=[["–" if x != x else x for x in row] for row in rows],
    )  # fmt: skip


def _means(one: Numbers) -> list[float]:
    return [float(np.mean(one[name])) for name in ("accuracy", "tvd", "jsd")]


_MEANING = (
    "Wiegreffe and Pinter ask whether attention does anything before asking whether it explains, "
    "and let only a trained model stand against it: their plot has the divergence of attention on "
    "one axis and the distance of predictions on the other, and what counts is how the adversaries "
    "lie to the same model trained with another seed."
)


def _held(setting: Setting) -> Numbers:
    from limelight_reproduction.questions.controls_measured import held  # needs torch

    return held(setting)


def _held_as_printed(setting: Setting) -> Numbers:
    from limelight_reproduction.questions.controls_measured import held  # needs torch

    return held(setting, as_printed=True)


def _away(setting: Setting) -> Numbers:
    from limelight_reproduction.questions.controls_measured import away  # needs torch

    return away(setting)


def _away_on_words(setting: Setting) -> Numbers:
    from limelight_reproduction.questions.controls_measured import away_on_words  # needs torch

    return away_on_words(setting)


EXPERIMENT = Experiment(
    name="controls",
    title="Attention held, and attention trained away: Wiegreffe and Pinter's controls",
    paper=(
        "Section 1.1 names the objection of Wiegreffe and Pinter (2019): attention must be needed "
        "for the task, and what replaces it must be trained, not chosen."
    ),
    parts=(
        Part(name="held", measure=_held),
        Part(name="held-paper", measure=_held_as_printed, needs=("gpu",)),
        Part(name="adversary", measure=_away, needs=("gpu",)),
        Part(name="adversary-words", measure=_away_on_words, needs=("gpu",)),
    ),
    findings=_findings,
    figures=_figures,
)
