"""What attention is for: trained freely, held uniform, with W_ℓ held, and against itself."""

__all__ = ["EXPERIMENT"]

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from limelight_reproduction.experiment import Experiment, Findings, Numbers, Part, Table, Verdict
from limelight_reproduction.intervals import Interval
from limelight_reproduction.questions.controls_drawn import CONTROLS, figures
from limelight_reproduction.questions.controls_judged import (
    lost,
    needed,
    reached,
    trainable_away,
)
from limelight_reproduction.setting import Setting


def _change(lost: Interval) -> str:
    """Return the change of accuracy in points: what is lost, with the other sign."""
    middle, low, high = (-100 * x for x in lost)
    return f"{middle:+.1f} ({high:+.1f} to {low:+.1f})"


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    held, paper, of, words = (numbers[part.name] for part in EXPERIMENT.parts)
    uniform, fixed = (lost(held, kind) for kind in ("uniform", "fixed"))
    free = np.mean(held["kinds"]["free"]["accuracy"])
    return Findings(
        headline=(
            f"Attention held uniform changes the accuracy of {free:.1%} by {_change(uniform)} "
            f"points, W_ℓ held at random by {_change(fixed)}; a model trained to attend elsewhere "
            f"{_as_far(of)}."
        ),
        verdicts=[
            Verdict(
                claim="Attention is needed for the task (Wiegreffe and Pinter's first control)",
                holds=_on_both(needed(uniform), needed(lost(paper, "uniform"))),
                number=f"held uniform {_change(uniform)} points on {free:.1%}; by the paper's "
                f"recipe {_change(lost(paper, 'uniform'))} on "
                f"{np.mean(paper['kinds']['free']['accuracy']):.1%}",
                parts=("held", "held-paper"),
            ),
            Verdict(
                claim="Does the last layer W_ℓ need training? (our question)",
                holds=_on_both(needed(fixed), needed(lost(paper, "fixed"))),
                number=f"held at random {_change(fixed)} points; by the paper's recipe "
                f"{_change(lost(paper, 'fixed'))}",
                parts=("held", "held-paper"),
            ),
            Verdict(
                claim="A model can be trained to predict the same and attend elsewhere",
                holds=trainable_away(of["adversaries"], of["others"]),
                number=_reach(of["adversaries"], of["others"], "jsd"),
                parts=("adversary",),
            ),
            Verdict(
                claim="A model can be trained to predict the same and attend to other words, [cls] "
                "and padding left out",
                holds=trainable_away(_on_words(words), words["others"], by="words"),
                number=_reach(_on_words(words), words["others"], "words"),
                parts=("adversary-words",),
            ),
        ],
        measured=[_of_held(held, "a shortened recipe"), _of_held(paper, "the paper's recipe"),
                  *_of_adversaries(of), *_of_words(words)],
        meaning=_meaning(uniform, of, words),
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
        + f". Uniform attention changes that by {_change(lost(of, 'uniform'))} points, W_ℓ held "
        f"by {_change(lost(of, 'fixed'))} (95 % intervals over texts and seeds, paired). Rank "
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


def _meaning(uniform: Interval, of: Numbers, words: Numbers) -> str:
    said = needed(uniform)
    own = [one["alpha_lime"] for one in of["adversaries"]]
    return (
        "Wiegreffe and Pinter ask whether attention does anything before asking whether it "
        "explains, and let only a trained model stand against it. "
        + (
            "Here attention helps. "
            if said == "it is"
            else "Whether it helps is undecided with so few trainings and texts. "
            if said == "undecided"
            else "Here an average over all words does as well, so that attention has little to "
            "explain by itself: what a word says is in its value. "
        )
        + "Their plot has the divergence of attention on one axis and the distance of predictions "
        "on the other, and what counts is how adversaries lie to the same model trained with "
        "another seed. Trained for long enough, with λ growing from 0, they move their attention "
        "over the window far at predictions nearer than another seed's. What moves with it is what "
        f"the model uses: α-avg of an adversary still has {min(own):.2f} to {max(own):.2f} with "
        "its own |LIME|. A part of it leaves the words for [cls] and padding, which no explanation "
        "shows; hence the adversaries of the attention over words alone, which were trained on "
        f"{words['training']:,} reviews only. They were added after those of the window, and "
        "trained twice: weights of 0.1 and 0.3 over 10 epochs reached a JSD of 0.05 to 0.10 at "
        "the same predictions, and what is shown is the second training. Take it as weaker than "
        "what the window shows."
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


_READ = ("imdb train", "imdb test")

EXPERIMENT = Experiment(
    name="controls",
    title="Attention held, and attention trained away: Wiegreffe and Pinter's controls",
    paper=(
        "Section 1.1 names the objection of Wiegreffe and Pinter (2019): attention must be needed "
        "for the task, and what replaces it must be trained, not chosen."
    ),
    parts=(
        Part(name="held", measure=_held, reads=_READ),
        Part(name="held-paper", measure=_held_as_printed, needs=("gpu",), reads=_READ),
        Part(name="adversary", measure=_away, needs=("gpu",), reads=_READ, stages=2),
        Part(name="adversary-words", measure=_away_on_words, needs=("gpu",), reads=_READ, stages=2),
    ),
    findings=_findings,
    figures=figures,
)
