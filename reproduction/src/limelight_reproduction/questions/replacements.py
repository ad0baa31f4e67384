"""What stands in the place of a removed word, and how much LIME depends on it."""

__all__ = ["EXPERIMENT", "REPLACEMENTS", "replaced_game"]

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
SAME, CLOSE = 0.95, 0.7  # rank correlations from which on two explanations are called so
REPLACEMENTS = {
    "unk": "UNK",
    "mean": "the mean embedding",
    "renormalise": "attention renormalised",
    "delete": "words deleted",
}

EXACT = ("unk", "mean", "renormalise")
SAID = REPLACEMENTS | {"unk sampled": "UNK, sampled"}
# The last is the control: the same value, sampled as deletion is.
PAIRS = (*(f"{a}, {b}" for a, b in combinations(REPLACEMENTS, 2)), "unk, unk sampled")


def replaced_game(seen: CollapsedTexts, how: str) -> RatioGame:
    """Return the game of one text, its last output alone, for a replacement that keeps its place.

    "unk" puts UNK there, "mean" the mean of all rows of the embedding, and "renormalise" takes the
    place out of attention: b = B = 0.
    """
    tables, K = seen.model.tables, seen.model.sizes["K"]
    places = np.flatnonzero(seen.arrays.position_features[0] >= 0)
    feature = seen.arrays.position_features[0, places]
    logit, u = seen.logit[0], seen.u[0]
    rows = slice(None) if how == "mean" else slice(UNK, UNK + 1)
    word = tables.word_logit[rows].mean(axis=0)
    worth = tables.word_value[rows, -1].mean(axis=0)
    new = (word + tables.position_logit[places]).T
    new_u = (worth + tables.position_value[places, -1]).T
    top = np.maximum(logit.max(axis=1), new.max(axis=1))[:, None]
    g, h = np.exp(logit - top), np.exp(new - top) * (how != "renormalise")
    others = np.setdiff1d(np.arange(logit.shape[1]), places)

    def summed(x: Float[np.ndarray, "K n"]) -> Float[np.ndarray, "K d"]:
        d = len(seen.features[0])
        return np.array([np.bincount(feature, weights=x[i], minlength=d) for i in range(K)])

    return RatioGame(
        D0=g[:, others].sum(axis=1),
        a=summed(g[:, places]),
        b=summed(h),
        N0=(g * u)[:, others].sum(axis=1)[None],
        A=summed((g * u)[:, places])[None],
        B=summed(h * new_u)[None],
    )


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Return how LIME with one replacement agrees with LIME with another, over reviews."""
    texts = list_texts(
        setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS)
    )
    rows = []
    for i, text in enumerate(texts):
        setting.tick(i, len(texts))
        rows.append(row(setting, model, text))
    return summary(setting, rows)


def row(setting: Setting, model: AttentionClassifier, text: str) -> dict[str, Any]:
    """Return what one review says: correlations for every pair, and those of halves of the runs."""
    seen = collapse_texts(model, [text])
    runs = QUICK_RUNS if setting.quick else RUNS
    values, moved = {}, {}
    for how in EXACT:
        game = replaced_game(seen, how)
        values[how] = lime(game, tolerance=1e-5).scores[0]
        moved[how] = float(full_value(game)[0] - empty_value(game)[0])
    sampled = {
        how: run_lime(model, text, runs=runs, replacement=how, seed=setting.seed)
        for how in ("delete", "unk")
    }
    play = model.game(seen.inputs[0], seen.features[0], "delete")
    keep = np.array([[True], [False]]) & np.ones((1, len(values["unk"])), bool)
    full, none = play(keep)[:, -1]
    moved["delete"] = float(full - none)
    values |= {"delete": sampled["delete"].mean(axis=0), "unk sampled": sampled["unk"].mean(axis=0)}
    found: dict[str, Any] = {"moved": moved, "runs": runs}
    for name, of in (("pearson", correlation), ("spearman", rank_correlation)):
        halves = {how: of(x[::2].mean(axis=0), x[1::2].mean(axis=0)) for how, x in sampled.items()}
        ceilings = {"delete": _ceiling(halves["delete"]), "unk sampled": _ceiling(halves["unk"])}
        found[name] = {pair: of(*(values[how] for how in pair.split(", "))) for pair in PAIRS}
        found[f"{name} corrected"] = {
            pair: None if x is None else x / ceilings.get(pair.split(", ")[1], 1.0)
            for pair, x in found[name].items()
        }
        found[f"{name} ceiling"] = ceilings
    found["top"] = {pair: _same_top(*(values[how] for how in pair.split(", "))) for pair in PAIRS}
    found["top ceiling"] = _same_top(*(sampled["delete"][i::2].mean(axis=0) for i in range(2)))
    return found


def _ceiling(halves: float | None) -> float:
    """Return how well the mean of all runs can agree with anything that does not sample.

    It is √ρ, ρ the reliability of that mean by Spearman and Brown from the correlation r of two
    halves of the runs, ρ = 2r/(1 + r). Dividing by it takes the noise out of a correlation (for
    ranks nearly so; the control is UNK, sampled, against its exact value).
    """
    r = max(halves or 0.0, 0.01)  # where halves say nothing, a correction would be all noise
    return math.sqrt(2 * r / (1 + r))


def _same_top(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(x).argmax() == np.abs(y).argmax())


def summary(setting: Setting, rows: Sequence[Mapping[str, Any]]) -> Numbers:
    """Return medians over reviews with their intervals."""

    def over(name: str, pair: str) -> Interval:
        return median_interval([one[name][pair] for one in rows], seed=setting.seed)

    kinds = ("pearson", "spearman", "pearson corrected", "spearman corrected")
    return round_for_json(
        {
            "texts": len(rows),
            "runs": rows[0]["runs"],
            **{name: {pair: over(name, pair) for pair in PAIRS} for name in kinds},
            "ceiling": {how: over("spearman ceiling", how) for how in ("delete", "unk sampled")},
            "top": {
                pair: mean_interval([one["top"][pair] for one in rows], seed=setting.seed)
                for pair in PAIRS
            },
            "top ceiling": mean_interval([one["top ceiling"] for one in rows], seed=setting.seed),
            "moved": {how: np.median([one["moved"][how] for one in rows]) for how in REPLACEMENTS},
        },
        digits=4,
    )


def one_explanation(corrected: Interval) -> str:
    """Say whether two replacements give one explanation, from a rank correlation without noise."""
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
    for axes, (name, said) in zip(grid, MODELS.items(), strict=True):
        square = np.eye(len(names))
        for i, j in combinations(range(len(names)), 2):
            pair = f"{names[i]}, {names[j]}"
            square[i, j] = square[j, i] = numbers[name]["spearman corrected"][pair][0]
        axes.imshow(square, cmap="Blues", vmin=0, vmax=1)
        for i, j in np.ndindex(square.shape):
            color = "white" if square[i, j] > 0.6 else "black"
            axes.text(j, i, f"{square[i, j]:.2f}", ha="center", va="center", color=color)
        axes.set_xticks(range(len(names)), short)
        axes.set_yticks(range(len(names)), short)
        style_axes(axes, title=f"{said}: rank correlation of LIME")
    yield (
        "replacement",
        "Rank correlation of LIME's coefficients with one replacement and another, the noise of "
        "the sampled one (deletion) taken out: medians.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    paper, shipped = (numbers[part]["spearman corrected"] for part in ("paper", "shipped"))
    others = [pair for pair in PAIRS if "sampled" not in pair]
    worst = min(others, key=lambda pair: paper[pair][0])
    a, b = (REPLACEMENTS[how] for how in worst.split(", "))
    rows = [
        [f"the {MODELS[part]}", *(SAID[how] for how in pair.split(", ")),
         format_interval(of["pearson"][pair]), format_interval(of["spearman"][pair]),
         f"{of['ceiling'][last][0]:.3f}" if (last := pair.split(", ")[1]) in of["ceiling"] else "–",
         format_interval(of["spearman corrected"][pair]), f"{of['top'][pair][0]:.0%}"]
        for part, of in order_paper_first(numbers)
        for pair in PAIRS
    ]  # fmt: skip
    return Findings(
        headline=(
            f"Of four ways to remove a word, LIME agrees least between two ({a}; {b}): rank "
            f"correlation {format_interval(paper[worst])} in the median review, without the noise "
            "of sampling."
        ),
        verdicts=[
            Verdict(
                claim="Theory replaces words by UNK, the package deletes them: one explanation",
                holds=one_explanation(paper["unk, delete"]),
                number=f"rank correlation {format_interval(paper['unk, delete'])}, noise taken "
                f"out; shipped model {format_interval(shipped['unk, delete'])}",
            )
        ],
        measured=[_sentence(part, of) for part, of in order_paper_first(numbers)],
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


def _sentence(part: str, of: Numbers) -> str:
    rank, clean = of["spearman"], of["spearman corrected"]
    return (
        f"The {MODELS[part]}, {of['texts']} test reviews, medians with 95 % intervals over "
        "reviews. With words deleted LIME samples: the value is a mean of "
        f"{of['runs']} runs of 5,000 samples. Rank correlation of LIME with UNK and with the mean "
        f"embedding {format_interval(rank['unk, mean'])}, with attention renormalised "
        f"{format_interval(rank['unk, renormalise'])}, with words deleted "
        f"{format_interval(rank['unk, delete'])}, of at most {of['ceiling']['delete'][0]:.2f} that "
        f"the noise allows: {format_interval(clean['unk, delete'])} without it. As a control the "
        f"same number of runs with UNK has {format_interval(rank['unk, unk sampled'])} with the "
        f"exact value, and {format_interval(clean['unk, unk sampled'])} with the noise taken out. "
        f"The strongest word is the same in {of['top']['unk, mean'][0]:.0%}, "
        f"{of['top']['unk, renormalise'][0]:.0%} and {of['top']['unk, delete'][0]:.0%} (in two "
        f"halves of the runs with deletion: {of['top ceiling'][0]:.0%}). Removing every word moves "
        "f by "
        + ", ".join(f"{of['moved'][how]:+.2f} ({said})" for how, said in REPLACEMENTS.items())
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
