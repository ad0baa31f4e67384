"""Figure 1: seven explainers on one sentence."""

__all__ = ["EXPERIMENT", "METHODS"]

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from limelight import AttentionClassifier, Comparison, Explanation, compare
from limelight.rendering.figures import colored_sentence
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    compact,
    on_both_models,
)
from limelight_reproduction.one_layer.subjects import MODELS, SENTENCE, TARGET
from limelight_reproduction.setting import Setting

METHODS = ("alpha-avg", "alpha-max", "lime", "g-avg", "g-l1", "g-l2", "gxi")
WORD, RIVAL = "questionable", "popular"
ATTENTION = ("alpha-avg", "alpha-max")
NEGATIVE = ("lime", "gxi")  # those that the caption names
TOP = 2  # what we take "highly significant" to mean: among this many strongest words
_SHORT = (  # the statements of the caption in the order of `claims`
    f"“{WORD}” significant (by our measure, among the {TOP} strongest)",
    "only lime and G×I negative",
    f"attention alone puts “{RIVAL}” first",
)


def measure(_setting: Setting, model: AttentionClassifier) -> Numbers:
    """Score every word of the sentence for the positive class by all seven methods."""
    comparison = compare(model, SENTENCE, methods=METHODS, target=TARGET, scale="score")
    first = comparison[METHODS[0]]
    return compact(
        {
            "words": list(first.features),
            "logit": first.prediction[TARGET],
            "scores": {e.method: e.scores for e in comparison},
            "labels": {e.method: e.label for e in comparison},
            "signed": [e.method for e in comparison if e.signed],
            "lime_bound": comparison["lime"].bound,
        }
    )


def figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    """Draw the picture of the paper for each model."""
    for name, said in MODELS.items():
        yield (
            f"figure-1-{name}",
            f"Seven explainers of the {TARGET} class on one sentence, {said}. Green speaks for "
            "the class, orange against it; methods without signs are blue. The strongest word of "
            "each line is underlined.",
            colored_sentence(shown(numbers[name])),
        )


def shown(numbers: Numbers) -> Comparison:
    """Return the explanations again, from the numbers that were stored."""
    spans = [tuple(m.span() for m in re.finditer(rf"\b{w}\b", SENTENCE)) for w in numbers["words"]]
    return Comparison(
        explanations=tuple(
            Explanation(
                text=SENTENCE,
                features=tuple(numbers["words"]),
                spans=tuple(spans),
                scores=np.array(scores),
                method=method,
                target=TARGET,
                prediction={TARGET: numbers["logit"]},
                label=numbers["labels"][method],
                signed=method in numbers["signed"],
            )
            for method, scores in numbers["scores"].items()
        )
    )


def claims(numbers: Numbers) -> dict[str, list[str]]:
    """Return each claim of the caption with the methods that break it."""
    at, other = (numbers["words"].index(word) for word in (WORD, RIVAL))
    scores = {method: np.array(row) for method, row in numbers["scores"].items()}
    first = {method: int(np.argmax(np.abs(row))) for method, row in scores.items()}
    return {
        f"all seven find “{WORD}” highly significant, which we take to mean among the {TOP} "
        "strongest words": [m for m, row in scores.items() if rank(row, at) > TOP],
        f"only lime and G×I give “{WORD}” a negative weight": [
            m for m, row in scores.items() if (row[at] < 0) != (m in NEGATIVE)
        ],
        f"α-avg and α-max put “{RIVAL}” first, and no other method does": [
            m for m in scores if (first[m] == other) != (m in ATTENTION)
        ],
    }


def rank(scores: np.ndarray, at: int) -> int:
    """Return the place of a word among all by absolute score, 1 for the strongest."""
    return 1 + int(np.count_nonzero(np.abs(scores) > abs(scores[at])))


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Check the caption, claim by claim and model by model."""
    by_model = {name: claims(numbers[name]) for name in MODELS}
    measured = []
    for claim in next(iter(by_model.values())):
        verdicts = [
            f"{MODELS[name].capitalize()}: {_verdict(broken[claim], numbers[name]['labels'])}"
            for name, broken in by_model.items()
        ]
        measured.append(f"The paper: {claim}. {'; '.join(verdicts)}.")
    for name, said in MODELS.items():
        logit = numbers[name]["logit"]
        measured.append(
            f"With the {said} the sentence has the logit {logit:+.2f} for the class {TARGET}, and "
            f"exact LIME gives “{WORD}” {_lime(numbers[name]):+.3f}."
        )
    held = {
        name: sum(not broken for broken in of_model.values()) for name, of_model in by_model.items()
    }
    total = len(_SHORT)
    return Findings(
        headline=f"Of the caption's {total} statements {held['paper']} hold word for word on the "
        f"paper's recipe and {held['shipped']} on the shipped model.",
        verdicts=[
            Verdict(
                claim="The three statements in the caption of Figure 1",
                holds=f"{held['paper']} of {total} on the paper's recipe",
                number="; ".join(
                    f"{short}: {'yes' if not broken else 'no'}"
                    for short, broken in zip(_SHORT, by_model["paper"].values(), strict=True)
                )
                + ". On the shipped model, trained by another recipe, "
                f"{held['shipped']} of {total}",
            )
        ],
        measured=measured,
        meaning=_meaning(held),
        table=_table(numbers),
    )


def _lime(of: Numbers) -> float:
    return float(of["scores"]["lime"][of["words"].index(WORD)])


def _verdict(broken: list[str], labels: Mapping[str, str]) -> str:
    return "holds" if not broken else f"not for {', '.join(labels[m] for m in broken)}"


def _meaning(held: Mapping[str, int]) -> str:
    return (
        f"The caption describes one training of the paper's recipe. On ours {held['paper']} of its "
        f"{len(_SHORT)} statements hold word for word, on the shipped model {held['shipped']}. "
        "What carries over is its point: the explainers disagree, and those without a sign cannot "
        "show that a word speaks against the class. G-avg, a mean over the arbitrary axes of the "
        "embedding, has a sign that need not mean anything. LIME is the exact limit here, with "
        "words replaced by UNK, so nothing in the picture is sampling noise."
    )


def _table(numbers: Mapping[str, Numbers]) -> Table:
    columns = ["method"]
    for said in MODELS.values():
        columns += [
            f"strongest word, {said}",
            f"score of “{WORD}”",
            f"its rank of {_count(numbers)}",
        ]
    rows = []
    for method in METHODS:
        row: list[Any] = [numbers["shipped"]["labels"][method]]
        for name in MODELS:
            scores = np.array(numbers[name]["scores"][method])
            at = numbers[name]["words"].index(WORD)
            row += [numbers[name]["words"][int(np.argmax(np.abs(scores)))], scores[at]]
            row += [rank(scores, at)]
        rows.append(row)
    return Table(columns=columns, rows=compact(rows))


def _count(numbers: Mapping[str, Numbers]) -> int:
    return len(numbers["shipped"]["words"])


EXPERIMENT = Experiment(
    name="figure-1",
    title="Figure 1: seven explainers, one sentence",
    paper=(
        "Seven explainers on one sentence. All find “questionable” highly significant, only lime "
        "and G×I give it a negative weight, and α-avg and α-max alone put “popular” first."
    ),
    parts=on_both_models(measure, reads=()),
    figures=figures,
    findings=findings,
)
