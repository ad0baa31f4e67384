"""Figure 3: the attention matrices of the heads, and how much the heads differ."""

__all__ = ["DIFFERENT", "EXPERIMENT", "head_statistics"]

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from limelight import AttentionClassifier
from limelight.rendering.figures import attention_figure
from limelight.shapes import Float
from limelight_reproduction.document import list_texts
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
from limelight_reproduction.one_layer.subjects import MODELS, SENTENCE
from limelight_reproduction.setting import Setting

REVIEWS, _CHUNK = 500, 64
DIFFERENT = 0.25  # two heads are different from this share of attention in different places


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Measure the attention on the sentence, and the differences of the heads."""
    model_input = model.read(SENTENCE)
    reviews = list_texts(setting.sample_texts("imdb", "test", REVIEWS))
    review_statistics = head_statistics(model, reviews)
    return round_for_json(
        {
            "tokens": ["[cls]", *model_input.tokens.strings],
            "attention": model.attention_matrices(model_input),
            "sentence": head_statistics(model, [SENTENCE])[0],
            "reviews": {
                key: np.mean([statistics[key] for statistics in review_statistics], axis=0)
                for key in review_statistics[0]
            },
            "documents": len(reviews),
        },
        4,
    )


def head_statistics(model: AttentionClassifier, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each text the statistics of the heads and of their differences."""
    chunks = [texts[i : i + _CHUNK] for i in range(0, len(texts), _CHUNK)]
    return [_statistics(alpha, T) for chunk in chunks for alpha, T in _cls_rows(model, chunk)]


def _cls_rows(model: AttentionClassifier, texts: Sequence[str]) -> list[tuple[np.ndarray, int]]:
    """Return each text's attention of [cls] over the window, and the start of its padding."""
    collapsed = collapse_texts(model, texts)
    padding_starts = [1 + len(model_input.tokens) for model_input in collapsed.inputs]
    return list(zip(collapsed.alpha, padding_starts, strict=True))


def _statistics(alpha: Float[np.ndarray, "K T_max"], T: int) -> dict[str, Any]:
    """Return statistics of the [cls] rows of the heads and of their differences.

    ``distance`` is the mean over pairs of heads of the total variation ½ Σ_t |α_t − α'_t|, which is
    the share of attention that two heads put in different places. ``effective`` is the exponential
    of the entropy: the number of positions over which the attention would be spread evenly.
    """
    pairs = list(combinations(alpha, 2))
    entropy = -(alpha * np.log(np.maximum(alpha, 1e-300))).sum(axis=1)
    return {
        "distance": float(np.mean([0.5 * np.abs(a - b).sum() for a, b in pairs])),
        "same_first": float(np.mean([a[1:T].argmax() == b[1:T].argmax() for a, b in pairs])),
        "cls": alpha[:, 0],
        "padding": alpha[:, T:].sum(axis=1),
        "effective": np.exp(entropy),
    }


def figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    """Draw the matrices of the heads for each model."""
    for name, label in MODELS.items():
        model_numbers = numbers[name]
        yield (
            f"figure-3-{name}",
            f"Attention of every token (row) to every token (column) in each head, {label}. The "
            "classifier uses the first row alone. What a row lacks to one goes to padding.",
            attention_figure(np.array(model_numbers["attention"]), model_numbers["tokens"]),
        )


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Describe the differences between the heads and the share of attention on padding."""
    measured = []
    for name, label in MODELS.items():
        sentence, reviews = numbers[name]["sentence"], numbers[name]["reviews"]
        measured.append(
            f"{label.capitalize()}: on the sentence two heads put {sentence['distance']:.0%} of "
            "their attention in different places (mean over pairs); on "
            f"{numbers[name]['documents']} test reviews {reviews['distance']:.0%}, and two heads "
            f"agree on the most attended word in {reviews['same_first']:.0%} of cases."
        )
        measured.append(
            f"{label.capitalize()}: of the [cls] row of a head, "
            f"{_describe_range(sentence['padding'])} go to padding on the sentence and "
            f"{_describe_range(reviews['padding'])} on reviews; on reviews a head spreads over "
            f"{_describe_range(reviews['effective'], '.0f')} positions, as counted by its entropy."
        )
    distances = {name: numbers[name]["reviews"]["distance"] for name in MODELS}
    return Findings(
        headline=(
            f"Two heads of the paper's recipe put {distances['paper']:.0%} of their attention in "
            f"different places; of the shipped model {distances['shipped']:.0%}."
        ),
        verdicts=[
            Verdict(
                claim="Each head looks at other parts of the document (Figure 3)",
                holds=_describe_verdict(distances),
                number=f"two heads put {distances['paper']:.0%} of their attention in different "
                f"places; shipped model {distances['shipped']:.0%}",
            )
        ],
        measured=measured,
        meaning=_meaning(numbers),
        table=_table(numbers),
    )


def _describe_verdict(distances: Mapping[str, float]) -> str:
    """Name the models whose heads differ."""
    different = [name for name, share in distances.items() if share >= DIFFERENT]
    if len(different) != 1:
        return f"holds on {'both models' if different else 'neither model'}"
    (other,) = set(distances).difference(different)
    return f"holds on the {MODELS[different[0]]}, does not on the {MODELS[other]}"


def _meaning(numbers: Mapping[str, Numbers]) -> str:
    distances = {name: numbers[name]["reviews"]["distance"] for name in MODELS}
    different = [MODELS[name] for name, share in distances.items() if share >= DIFFERENT]
    similar = [MODELS[name] for name, share in distances.items() if share < DIFFERENT]
    sentences = []
    if different:
        sentences.append(
            "Heads that look at different parts of the document, so that the summary over heads "
            f"matters, as the paper says: {', '.join(different)}."
        )
    if similar:
        sentences.append(
            f"Heads that look at the same places, so that they do little that one could not: "
            f"{', '.join(similar)}. Different heads are what training may find, not what the "
            "architecture forces."
        )
    return " ".join(
        [
            *sentences,
            f"(Different: at least {DIFFERENT:.0%} of the attention of two heads does not overlap "
            "on reviews.) The window is padded, and on a short text padding takes a large part of "
            "the attention, which no explanation by attention shows.",
        ]
    )


def _describe_range(values: list[float], form: str = ".0%") -> str:
    """Return the range over the heads in words."""
    return f"{min(values):{form}} to {max(values):{form}}"


def _table(numbers: Mapping[str, Numbers]) -> Table:
    columns = ["model", "head", "[cls] to itself", "to padding", "positions attended (e^entropy)"]
    rows = []
    for name, label in MODELS.items():
        reviews = numbers[name]["reviews"]
        heads = zip(reviews["cls"], reviews["padding"], reviews["effective"], strict=True)
        rows += [[label, i, *values] for i, values in enumerate(heads, start=1)]
    return Table(columns=columns, rows=rows)


EXPERIMENT = Experiment(
    name="figure-3",
    title="Figure 3: attention matrices of the heads",
    paper=(
        "The attention matrices of six heads on one document: each head focuses on other parts of "
        "it, so how their first rows are summarised matters."
    ),
    parts=parts_for_both_models(measure),
    figures=figures,
    findings=findings,
)
