"""Replacements of a removed word, and how much LIME depends on them."""

__all__ = ["EXPERIMENT", "REPLACEMENTS", "replacement_game"]

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from limelight import AttentionClassifier
from limelight.shapes import Float
from limelight.text import UNK
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame, empty_value, full_value
from limelight_reproduction.document import list_texts
from limelight_reproduction.drawing import canvas, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    parts_for_both_models,
    round_for_json,
)
from limelight_reproduction.intervals import (
    Interval,
    format_interval,
    mean_interval,
    median_interval,
)
from limelight_reproduction.one_layer.collapsed_texts import CollapsedTexts, collapse_texts
from limelight_reproduction.one_layer.lime_values import run_lime
from limelight_reproduction.one_layer.subjects import MODELS, order_paper_first
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import correlation, rank_correlation

TEXTS, QUICK_TEXTS = 120, 14
RUNS, QUICK_RUNS = 24, 12  # of LIME under deletion, the only one that must sample
SAME, CLOSE = 0.95, 0.7  # rank correlations from which two explanations are the same, or close
REPLACEMENTS = {
    "unk": "UNK",
    "mean": "the mean embedding",
    "renormalise": "attention renormalised",
    "delete": "words deleted",
}

EXACT = ("unk", "mean", "renormalise")
LABELS = REPLACEMENTS | {"unk sampled": "UNK, sampled"}
# The last is the control: the same value, sampled as deletion is.
PAIRS = (*(f"{a}, {b}" for a, b in combinations(REPLACEMENTS, 2)), "unk, unk sampled")


def replacement_game(collapsed: CollapsedTexts, replacement: str) -> RatioGame:
    """Return the game of one text for a replacement that keeps its position, with the last output.

    "unk" replaces a word by UNK, "mean" by the mean of all rows of the embedding, and "renormalise"
    removes the position from attention: b = B = 0.
    """
    tables, K = collapsed.model.tables, collapsed.model.sizes["K"]
    positions = np.flatnonzero(collapsed.arrays.position_features[0] >= 0)
    feature = collapsed.arrays.position_features[0, positions]
    logit, u = collapsed.logit[0], collapsed.u[0]
    rows = slice(None) if replacement == "mean" else slice(UNK, UNK + 1)
    word_logit = tables.word_logit[rows].mean(axis=0)
    word_value = tables.word_value[rows, -1].mean(axis=0)
    new_logit = (word_logit + tables.position_logit[positions]).T
    new_u = (word_value + tables.position_value[positions, -1]).T
    top = np.maximum(logit.max(axis=1), new_logit.max(axis=1))[:, None]
    g = np.exp(logit - top)
    h = np.exp(new_logit - top) * (replacement != "renormalise")
    fixed = np.setdiff1d(np.arange(logit.shape[1]), positions)

    def sum_by_feature(x: Float[np.ndarray, "K n"]) -> Float[np.ndarray, "K d"]:
        """Sum the values of the positions of each feature."""
        d = len(collapsed.features[0])
        return np.array([np.bincount(feature, weights=x[i], minlength=d) for i in range(K)])

    return RatioGame(
        D0=g[:, fixed].sum(axis=1),
        a=sum_by_feature(g[:, positions]),
        b=sum_by_feature(h),
        N0=(g * u)[:, fixed].sum(axis=1)[None],
        A=sum_by_feature((g * u)[:, positions])[None],
        B=sum_by_feature(h * new_u)[None],
    )


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Measure the agreement of LIME with every two replacements, over reviews."""
    texts = list_texts(
        setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS)
    )
    rows = []
    for i, text in enumerate(texts):
        setting.tick(i, len(texts))
        rows.append(measure_text(setting, model, text))
    return summarize_rows(setting, rows)


def measure_text(setting: Setting, model: AttentionClassifier, text: str) -> dict[str, Any]:
    """Measure the correlations of one text for every pair, and those of halves of the runs."""
    collapsed = collapse_texts(model, [text])
    runs = QUICK_RUNS if setting.quick else RUNS
    values, moved = {}, {}
    for name in EXACT:
        game = replacement_game(collapsed, name)
        values[name] = lime(game, tolerance=1e-5).scores[0]
        moved[name] = float(full_value(game)[0] - empty_value(game)[0])
    sampled = {
        name: run_lime(model, text, runs=runs, replacement=name, seed=setting.seed)
        for name in ("delete", "unk")
    }
    deletion_game = model.game(collapsed.inputs[0], collapsed.features[0], "delete")
    keep = np.array([[True], [False]]) & np.ones((1, len(values["unk"])), bool)
    full_output, empty_output = deletion_game(keep)[:, -1]
    moved["delete"] = float(full_output - empty_output)
    values |= {"delete": sampled["delete"].mean(axis=0), "unk sampled": sampled["unk"].mean(axis=0)}
    row: dict[str, Any] = {"moved": moved, "runs": runs}
    for name, correlate in (("pearson", correlation), ("spearman", rank_correlation)):
        halves = {
            replacement: correlate(x[::2].mean(axis=0), x[1::2].mean(axis=0))
            for replacement, x in sampled.items()
        }
        ceilings = {"delete": _ceiling(halves["delete"]), "unk sampled": _ceiling(halves["unk"])}
        row[name] = {pair: correlate(*_pair_values(values, pair)) for pair in PAIRS}
        row[f"{name} corrected"] = {
            pair: None if x is None else x / ceilings.get(pair.split(", ")[1], 1.0)
            for pair, x in row[name].items()
        }
        row[f"{name} ceiling"] = ceilings
    row["top"] = {pair: _same_top(*_pair_values(values, pair)) for pair in PAIRS}
    row["top ceiling"] = _same_top(*(sampled["delete"][i::2].mean(axis=0) for i in range(2)))
    return row


def _pair_values(values: Mapping[str, np.ndarray], pair: str) -> list[np.ndarray]:
    """Return the values of the two replacements that ``pair`` names."""
    return [values[name] for name in pair.split(", ")]


def _ceiling(halves: float | None) -> float:
    """Return the largest correlation that the mean of all runs can have with an exact value.

    It is √ρ. The reliability ρ = 2r/(1 + r) of the mean follows from the correlation r of two
    halves of the runs (Spearman and Brown). Dividing a correlation by √ρ corrects it for noise, for
    ranks approximately. The control is UNK, sampled, against its exact value.
    """
    r = max(halves or 0.0, 0.01)  # without a correlation of the halves, a correction is noise
    return math.sqrt(2 * r / (1 + r))


def _same_top(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(x).argmax() == np.abs(y).argmax())


def summarize_rows(setting: Setting, rows: Sequence[Mapping[str, Any]]) -> Numbers:
    """Return medians over reviews with their intervals."""

    def median(name: str, pair: str) -> Interval:
        """Return the median of a number over reviews."""
        return median_interval([row[name][pair] for row in rows], seed=setting.seed)

    kinds = ("pearson", "spearman", "pearson corrected", "spearman corrected")
    return round_for_json(
        {
            "texts": len(rows),
            "runs": rows[0]["runs"],
            **{name: {pair: median(name, pair) for pair in PAIRS} for name in kinds},
            "ceiling": {
                name: median("spearman ceiling", name) for name in ("delete", "unk sampled")
            },
            "top": {
                pair: mean_interval([row["top"][pair] for row in rows], seed=setting.seed)
                for pair in PAIRS
            },
            "top ceiling": mean_interval([row["top ceiling"] for row in rows], seed=setting.seed),
            "moved": {
                name: np.median([row["moved"][name] for row in rows]) for name in REPLACEMENTS
            },
        },
        digits=4,
    )


def judge_agreement(corrected: Interval) -> str:
    """Judge whether two replacements give one explanation, from a correlation without noise."""
    _, low, high = corrected
    if low >= SAME:
        return "the same"
    if low >= CLOSE:
        return "close, not the same" if high < SAME else "close"
    return "different" if high < CLOSE else "undecided"


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(9.0, 3.6, columns=2)
    names = list(REPLACEMENTS)
    short = ["UNK", "mean", "renormalised", "deleted"]
    for axes, (part, label) in zip(grid, MODELS.items(), strict=True):
        correlations = np.eye(len(names))
        for i, j in combinations(range(len(names)), 2):
            pair = f"{names[i]}, {names[j]}"
            median = numbers[part]["spearman corrected"][pair][0]
            correlations[i, j] = correlations[j, i] = median
        axes.imshow(correlations, cmap="Blues", vmin=0, vmax=1)
        for i, j in np.ndindex(correlations.shape):
            color = "white" if correlations[i, j] > 0.6 else "black"
            axes.text(j, i, f"{correlations[i, j]:.2f}", ha="center", va="center", color=color)
        axes.set_xticks(range(len(names)), short)
        axes.set_yticks(range(len(names)), short)
        style_axes(axes, title=f"{label}: rank correlation of LIME")
    yield (
        "replacement",
        "Rank correlation of LIME's coefficients with one replacement and another, the noise of "
        "the sampled one (deletion) taken out: medians.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    paper, shipped = (numbers[part]["spearman corrected"] for part in ("paper", "shipped"))
    pairs = [pair for pair in PAIRS if "sampled" not in pair]
    worst = min(pairs, key=lambda pair: paper[pair][0])
    first, second = (REPLACEMENTS[name] for name in worst.split(", "))
    rows = [
        [f"the {MODELS[part]}", *(LABELS[name] for name in pair.split(", ")),
         format_interval(model["pearson"][pair]), format_interval(model["spearman"][pair]),
         _format_ceiling(model, pair),
         format_interval(model["spearman corrected"][pair]), f"{model['top'][pair][0]:.0%}"]
        for part, model in order_paper_first(numbers)
        for pair in PAIRS
    ]  # fmt: skip
    return Findings(
        headline=(
            f"Of four ways to remove a word, LIME agrees least between two ({first}; {second}): "
            f"rank correlation {format_interval(paper[worst])} in the median review, without the "
            "noise of sampling."
        ),
        verdicts=[
            Verdict(
                claim="Theory replaces words by UNK, the package deletes them: one explanation",
                holds=judge_agreement(paper["unk, delete"]),
                number=f"rank correlation {format_interval(paper['unk, delete'])}, noise taken "
                f"out; shipped model {format_interval(shipped['unk, delete'])}",
            )
        ],
        measured=[_describe_model(part, model) for part, model in order_paper_first(numbers)],
        meaning=(
            "A replacement that keeps its place leaves positions alone and differs in what the "
            "place still says: UNK has a value and an attention of its own, the mean embedding has "
            "others, and a renormalised place has none. Deletion also moves every later word, and "
            "words beyond the window into it; its LIME is not known exactly, so that runs are "
            "averaged, and two such averages do not agree fully with each other. The table shows "
            "how far they do: the ceiling is what the average can have with any exact value, and a "
            "correlation divided by it is what would be left without noise. An explanation must "
            "say which replacement it used; ours do."
        ),
        table=Table(
            columns=(
                "model", "one replacement", "another", "correlation", "rank correlation",
                "its ceiling", "noise taken out", "same strongest word",
            ),
            rows=rows,
        ),
    )  # fmt: skip


def _format_ceiling(model: Numbers, pair: str) -> str:
    """Format the ceiling of the second replacement of a pair; "–" if it is exact."""
    second = pair.split(", ")[1]
    return f"{model['ceiling'][second][0]:.3f}" if second in model["ceiling"] else "–"


def _describe_model(part: str, numbers: Numbers) -> str:
    """Describe the agreement of the replacements on a model."""
    rank, corrected = numbers["spearman"], numbers["spearman corrected"]
    return (
        f"The {MODELS[part]}, {numbers['texts']} test reviews, medians with 95 % intervals over "
        "reviews. With words deleted LIME samples: the value is a mean of "
        f"{numbers['runs']} runs of 5,000 samples. Rank correlation of LIME with UNK and with the "
        f"mean embedding {format_interval(rank['unk, mean'])}, with attention renormalised "
        f"{format_interval(rank['unk, renormalise'])}, with words deleted "
        f"{format_interval(rank['unk, delete'])}, of at most {numbers['ceiling']['delete'][0]:.2f} "
        f"that the noise allows: {format_interval(corrected['unk, delete'])} without it. As a "
        f"control the same number of runs with UNK has {format_interval(rank['unk, unk sampled'])} "
        f"with the exact value, and {format_interval(corrected['unk, unk sampled'])} with the "
        f"noise taken out. The strongest word is the same in {numbers['top']['unk, mean'][0]:.0%}, "
        f"{numbers['top']['unk, renormalise'][0]:.0%} and {numbers['top']['unk, delete'][0]:.0%} "
        f"(in two halves of the runs with deletion: {numbers['top ceiling'][0]:.0%}). Removing "
        "every word moves f by "
        + ", ".join(
            f"{numbers['moved'][name]:+.2f} ({label})" for name, label in REPLACEMENTS.items()
        )
        + " in the median review."
    )


EXPERIMENT = Experiment(
    name="replacement",
    title="What replaces a removed word",
    paper=(
        "The analysis replaces removed words by UNK; the official package, called as the authors "
        "call it, deletes them."
    ),
    parts=parts_for_both_models(measure, version=3),
    findings=_findings,
    figures=_figures,
)
