"""Which summary of attention to read: α-avg, α-max, or weighed by the norm of what it carries."""

__all__ = ["EXPERIMENT", "norm_based"]

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from limelight import AttentionClassifier, explain
from limelight_reproduction.document import strings
from limelight_reproduction.drawing import BLUE, GREEN, ORANGE, canvas, plain
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    compact,
    on_both_models,
)
from limelight_reproduction.one_layer.collapsed_texts import CollapsedTexts, collapsed_texts
from limelight_reproduction.one_layer.subjects import MODELS, paper_first
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import quartiles, rank_correlation

TEXTS, QUICK_TEXTS, _CHUNK = 1000, 150, 50
SUMMARIES = {"alpha-avg": "α-avg", "alpha-max": "α-max", "norm": "‖αv‖"}
AGAINST = {"lime": "|LIME|", "loo": "|leave-one-out|"}


def norm_based(seen: CollapsedTexts) -> list[np.ndarray]:
    """Return ‖Σ_i α_t u_t‖/K of every word, over the outputs (Kobayashi et al., 2020).

    It is the length of the vector that a token adds to the model's outputs; for a single output it
    is its absolute value. Places of a word are added up.
    """
    added = (seen.alpha[:, None] * seen.arrays.u).mean(axis=2)
    return seen.pooled(np.linalg.norm(added, axis=1)[:, 1:])


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Return the rank correlations of each summary with removal, and with one another."""
    texts = strings(setting.some_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS))
    rows: list[dict[str, float | None]] = []
    for start in range(0, len(texts), _CHUNK):
        setting.tick(start, len(texts))
        rows += _rows(model, texts[start : start + _CHUNK])
    pairs = [f"{s} {a}" for s in SUMMARIES for a in AGAINST] + ["alpha-avg alpha-max"]
    return compact(
        {
            "texts": len(rows),
            "pairs": {pair: quartiles([row[pair] for row in rows]) for pair in pairs},
            "same_top": float(np.mean([row["top"] for row in rows])),
        },
        digits=4,
    )


def _rows(model: AttentionClassifier, texts: Sequence[str]) -> list[dict[str, float | None]]:
    seen = collapsed_texts(model, texts)
    target = model.classes[-1]
    scores = {
        name: [abs(one.scores) for one in explain(model, list(texts), name, target=target)]
        for name in ("alpha-avg", "alpha-max", "lime", "loo")
    } | {"norm": norm_based(seen)}
    rows = []
    for i in range(len(texts)):
        one = {name: of[i] for name, of in scores.items()}
        row = {f"{s} {a}": rank_correlation(one[s], one[a]) for s in SUMMARIES for a in AGAINST}
        row["alpha-avg alpha-max"] = rank_correlation(one["alpha-avg"], one["alpha-max"])
        row["top"] = float(one["alpha-avg"].argmax() == one["alpha-max"].argmax())
        rows.append(row)
    return rows


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.4, 2.9, columns=2)
    colours = dict(zip(SUMMARIES, (BLUE, ORANGE, GREEN), strict=True))
    for axes, (name, said) in zip(grid, MODELS.items(), strict=True):
        for at, (summary, label) in enumerate(SUMMARIES.items()):
            for place, against in enumerate(AGAINST):
                low, middle, high = numbers[name]["pairs"][f"{summary} {against}"]
                y = place + 0.2 * (at - 1)
                axes.hlines(y, low, high, color=colours[summary], linewidth=2, alpha=0.5)
                axes.plot(
                    [middle], [y], "o", color=colours[summary], label=None if place else label
                )
        axes.set_yticks(range(len(AGAINST)), list(AGAINST.values()))
        axes.set_xlim(0, 1)
        axes.legend(fontsize=8, frameon=False, loc="lower left")
        plain(axes, title=said, x="rank correlation, median and quartiles")
    yield (
        "attention-summaries",
        "How three summaries of attention rank words beside LIME and leave-one-out.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    paper = numbers["paper"]["pairs"]
    avg, most, norm = (paper[f"{name} lime"][1] for name in SUMMARIES)
    return Findings(
        headline=(
            f"On the paper's recipe ‖αv‖ has rank correlation {norm:.2f} with |LIME|, α-avg "
            f"{avg:.2f} and α-max {most:.2f}."
        ),
        verdicts=[
            Verdict(
                claim="How heads are summarised matters: α-avg or α-max (Section 3)",
                holds="little for ranks" if abs(avg - most) < 0.1 else "it does",
                number=f"with |LIME| {avg:.2f} and {most:.2f}; the same first word in "
                f"{numbers['paper']['same_top']:.0%} of the reviews",
            ),
            Verdict(
                claim="The norm of α v tells more than α (Kobayashi et al., 2020)",
                holds="holds" if norm > max(avg, most) else "does not hold here",
                number=f"{norm:.2f} with |LIME|, α-avg {avg:.2f}",
            ),
        ],
        measured=[_sentence(part, of) for part, of in paper_first(numbers)],
        meaning=_meaning(numbers),
        table=Table(
            columns=("model", "summary", "with", "lower quartile", "median", "upper quartile"),
            rows=[
                [f"the {MODELS[part]}", label, against, *of["pairs"][f"{name} {key}"]]
                for part, of in paper_first(numbers)
                for name, label in SUMMARIES.items()
                for key, against in AGAINST.items()
            ],
        ),
    )


def _sentence(part: str, of: Numbers) -> str:
    told = "; ".join(
        f"{label} {of['pairs'][f'{name} lime'][1]:.2f} with |LIME| and "
        f"{of['pairs'][f'{name} loo'][1]:.2f} with |leave-one-out|"
        for name, label in SUMMARIES.items()
    )
    return (
        f"The {MODELS[part]}, {of['texts']:,} test reviews, median rank correlations over the "
        f"words: {told}. α-avg and α-max have {of['pairs']['alpha-avg alpha-max'][1]:.2f} with "
        f"each other and name the same first word in {of['same_top']:.0%}."
    )


def _meaning(numbers: Mapping[str, Numbers]) -> str:
    gain = {
        part: of["pairs"]["norm lime"][1] - of["pairs"]["alpha-avg lime"][1]
        for part, of in paper_first(numbers)
    }
    return (
        "How the heads are summed up hardly matters, what attention carries does: to first order a "
        "word's coefficient is its attention times what its value adds to the mean, α_t (u_t − f), "
        "and the norm sees the second factor, too. It raises the rank correlation with |LIME| by "
        f"{gain['paper']:.2f} with the paper's recipe and by {gain['shipped']:.2f} with the "
        "shipped model, at the price of one forward pass, as α itself. When any of them can be "
        "relied on is the next question."
    )


EXPERIMENT = Experiment(
    name="attention-summaries",
    title="Which attention: α-avg, α-max or norm-based",
    paper=(
        "α-avg and α-max summarise the heads (Section 3); others weigh attention by the norm of "
        "what it carries (Kobayashi et al., 2020)."
    ),
    parts=on_both_models(measure),
    findings=_findings,
    figures=_figures,
)
