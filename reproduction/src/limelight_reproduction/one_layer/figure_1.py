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
    parts_for_both_models,
    round_for_json,
)
from limelight_reproduction.one_layer.subjects import MODELS, SENTENCE, TARGET
from limelight_reproduction.setting import Setting

METHODS = ("alpha-avg", "alpha-max", "lime", "g-avg", "g-l1", "g-l2", "gxi")
WORD, RIVAL = "questionable", "popular"
ATTENTION = ("alpha-avg", "alpha-max")
NEGATIVE = ("lime", "gxi")  # methods with a negative weight, according to the caption
TOP = 2  # number of strongest words that we call "highly significant"
_STATEMENTS = (  # the statements of the caption in the order of `broken_claims`
    f"“{WORD}” significant (by our measure, among the {TOP} strongest)",
    "only lime and G×I negative",
    f"attention alone puts “{RIVAL}” first",
)


def measure(_setting: Setting, model: AttentionClassifier) -> Numbers:
    """Score every word of the sentence for the positive class by all seven methods."""
    comparison = compare(model, SENTENCE, methods=METHODS, target=TARGET, scale="score")
    first = comparison[METHODS[0]]
    return round_for_json(
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
    """Draw the figure of the paper for each model."""
    for name, label in MODELS.items():
        yield (
            f"figure-1-{name}",
            f"Seven explainers of the {TARGET} class on one sentence, {label}. Green speaks for "
            "the class, orange against it; methods without signs are blue. The strongest word of "
            "each line is underlined.",
            colored_sentence(rebuild_comparison(numbers[name])),
        )


def rebuild_comparison(numbers: Numbers) -> Comparison:
    """Rebuild the explanations from stored numbers."""
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


def broken_claims(numbers: Numbers) -> dict[str, list[str]]:
    """Return each claim of the caption with the methods that contradict it."""
    i, rival = (numbers["words"].index(word) for word in (WORD, RIVAL))
    scores = {method: np.array(row) for method, row in numbers["scores"].items()}
    first = {method: int(np.argmax(np.abs(row))) for method, row in scores.items()}
    return {
        f"all seven find “{WORD}” highly significant, which we take to mean among the {TOP} "
        "strongest words": [m for m, row in scores.items() if word_rank(row, i) > TOP],
        f"only lime and G×I give “{WORD}” a negative weight": [
            m for m, row in scores.items() if (row[i] < 0) != (m in NEGATIVE)
        ],
        f"α-avg and α-max put “{RIVAL}” first, and no other method does": [
            m for m in scores if (first[m] == rival) != (m in ATTENTION)
        ],
    }


def word_rank(scores: np.ndarray, i: int) -> int:
    """Return the rank of a word by absolute score. The strongest word has rank 1."""
    return 1 + int(np.count_nonzero(np.abs(scores) > abs(scores[i])))


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Check the caption, claim by claim and model by model."""
    by_model = {name: broken_claims(numbers[name]) for name in MODELS}
    measured = []
    for claim in next(iter(by_model.values())):
        verdicts = [
            f"{MODELS[name].capitalize()}: "
            f"{_describe_verdict(methods[claim], numbers[name]['labels'])}"
            for name, methods in by_model.items()
        ]
        measured.append(f"The paper: {claim}. {'; '.join(verdicts)}.")
    for name, label in MODELS.items():
        logit = numbers[name]["logit"]
        measured.append(
            f"With the {label} the sentence has the logit {logit:+.2f} for the class {TARGET}, and "
            f"exact LIME gives “{WORD}” {_lime_score(numbers[name]):+.3f}."
        )
    confirmed_counts = {
        name: sum(not methods for methods in claims.values()) for name, claims in by_model.items()
    }
    total = len(_STATEMENTS)
    answers = "; ".join(
        f"{statement}: {'no' if methods else 'yes'}"
        for statement, methods in zip(_STATEMENTS, by_model["paper"].values(), strict=True)
    )
    return Findings(
        headline=f"Of the caption's {total} statements {confirmed_counts['paper']} hold word for "
        f"word on the paper's recipe and {confirmed_counts['shipped']} on the shipped model.",
        verdicts=[
            Verdict(
                claim="The three statements in the caption of Figure 1",
                holds=f"{confirmed_counts['paper']} of {total} on the paper's recipe",
                number=f"{answers}. On the shipped model, trained by another recipe, "
                f"{confirmed_counts['shipped']} of {total}",
            )
        ],
        measured=measured,
        meaning=_meaning(confirmed_counts),
        table=_table(numbers),
    )


def _lime_score(numbers: Numbers) -> float:
    return float(numbers["scores"]["lime"][numbers["words"].index(WORD)])


def _describe_verdict(broken_methods: list[str], labels: Mapping[str, str]) -> str:
    return (
        "holds" if not broken_methods else f"not for {', '.join(labels[m] for m in broken_methods)}"
    )


def _meaning(confirmed_counts: Mapping[str, int]) -> str:
    return (
        "The caption describes one training of the paper's recipe. On ours "
        f"{confirmed_counts['paper']} of its {len(_STATEMENTS)} statements hold word for word, on "
        f"the shipped model {confirmed_counts['shipped']}. What carries over is its point: the "
        "explainers disagree, and those without a sign cannot show that a word speaks against the "
        "class. G-avg, a mean over the arbitrary axes of the embedding, has a sign that need not "
        "mean anything. LIME is the exact limit here, with words replaced by UNK, so nothing in "
        "the picture is sampling noise."
    )


def _table(numbers: Mapping[str, Numbers]) -> Table:
    columns = ["method"]
    for label in MODELS.values():
        columns += [
            f"strongest word, {label}",
            f"score of “{WORD}”",
            f"its rank of {_word_count(numbers)}",
        ]
    rows = []
    for method in METHODS:
        row: list[Any] = [numbers["shipped"]["labels"][method]]
        for name in MODELS:
            scores = np.array(numbers[name]["scores"][method])
            i = numbers[name]["words"].index(WORD)
            row += [numbers[name]["words"][int(np.argmax(np.abs(scores)))], scores[i]]
            row += [word_rank(scores, i)]
        rows.append(row)
    return Table(columns=columns, rows=round_for_json(rows))


def _word_count(numbers: Mapping[str, Numbers]) -> int:
    return len(numbers["shipped"]["words"])


EXPERIMENT = Experiment(
    name="figure-1",
    title="Figure 1: seven explainers, one sentence",
    paper=(
        "Seven explainers on one sentence. All find “questionable” highly significant, only lime "
        "and G×I give it a negative weight, and α-avg and α-max alone put “popular” first."
    ),
    parts=parts_for_both_models(measure, reads=()),
    figures=figures,
    findings=findings,
)
