"""Summaries of attention: α-avg, α-max, and norms of α times the value."""

__all__ = ["EXPERIMENT", "read_out_norms", "value_norms"]

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from limelight import AttentionClassifier, explain
from limelight_reproduction.document import list_texts
from limelight_reproduction.drawing import BLUE, GREEN, ORANGE, VERMILLION, canvas, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
    round_for_json,
)
from limelight_reproduction.intervals import (
    Interval,
    format_interval,
    mean_interval,
    median_interval,
)
from limelight_reproduction.one_layer.collapsed_texts import CollapsedTexts, collapse_texts
from limelight_reproduction.one_layer.subjects import MODELS
from limelight_reproduction.setting import BUNDLED_SEED, Setting
from limelight_reproduction.spread import quartiles, rank_correlation

TEXTS, QUICK_TEXTS, _CHUNK = 1000, 100, 50
SUMMARIES = {"alpha-avg": "α-avg", "alpha-max": "α-max", "read-out": "‖W_ℓ αv‖"}
VALUES = {"value": "‖αv‖"}  # only for models with full weights
REMOVALS = {"lime": "|LIME|", "loo": "|leave-one-out|"}
LITTLE = 0.1  # difference of rank correlations


def read_out_norms(collapsed: CollapsedTexts) -> list[np.ndarray]:
    """Return ‖Σ_i W_ℓ α_t v_t‖/K of every word: the norm of the contribution to the outputs.

    This is the norm of Kobayashi et al. (2020), with the read-out W_ℓ as the matrix after the
    heads. For a single output it is an absolute value. The positions of a word are summed.
    """
    contributions = (collapsed.alpha[:, None] * collapsed.arrays.u).mean(axis=2)
    return collapsed.pool_features(np.linalg.norm(contributions, axis=1)[:, 1:])


def value_norms(collapsed: CollapsedTexts) -> list[np.ndarray]:
    """Return ‖α_t v_t‖ of every word. v_t joins the values of all heads, before W_ℓ.

    A model in collapsed form has only W_ℓ v_t, so its values are not known.
    """
    model = collapsed.model
    e = model.embedding[collapsed.arrays.ids].astype(np.float64) + model.positions
    squares = [
        ((e @ np.asarray(W_v, float).T) ** 2).sum(axis=2) * collapsed.alpha[:, i] ** 2
        for i, W_v in enumerate(model.W_v)
    ]
    return collapsed.pool_features(np.sqrt(np.sum(squares, axis=0))[:, 1:])


def measure(setting: Setting, model: AttentionClassifier, *, values: bool = False) -> Numbers:
    """Measure the rank correlations of the summaries with LIME and leave-one-out."""
    texts = list_texts(
        setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS)
    )
    names = SUMMARIES | (VALUES if values else {})
    rows: list[dict[str, float | None]] = []
    for start in range(0, len(texts), _CHUNK):
        setting.tick(start, len(texts))
        rows += _rows(model, texts[start : start + _CHUNK], names)
    removal_pairs = [f"{summary} {removal}" for summary in names for removal in REMOVALS]
    pairs = [*removal_pairs, "alpha-avg alpha-max"]

    def median_gain(summary: str, removal: str) -> Interval:
        """Return the median gain of a summary over α-avg."""
        correlations = [(row[f"{summary} {removal}"], row[f"alpha-avg {removal}"]) for row in rows]
        gains = [
            None if rho is None or alpha_rho is None else rho - alpha_rho
            for rho, alpha_rho in correlations
        ]
        return median_interval(gains, seed=setting.seed)

    return round_for_json(
        {
            "texts": len(rows),
            "pairs": {pair: quartiles([row[pair] for row in rows]) for pair in pairs},
            "median": {
                pair: median_interval([row[pair] for row in rows], seed=setting.seed)
                for pair in pairs
            },
            "gained": {pair: median_gain(*pair.split()) for pair in removal_pairs},
            "same_top": mean_interval([row["top"] for row in rows], seed=setting.seed),
        },
        digits=4,
    )


def _rows(
    model: AttentionClassifier, texts: Sequence[str], names: Mapping[str, str]
) -> list[dict[str, float | None]]:
    """Return the rank correlations of the summaries ``names`` for every text."""
    collapsed = collapse_texts(model, texts)
    request: dict[str, Any] = {"target": model.classes[-1], "scale": "score"}
    scores = {
        name: [
            abs(explanation.scores) for explanation in explain(model, list(texts), name, **request)
        ]
        for name in ("alpha-avg", "alpha-max", "lime", "loo")
    } | {"read-out": read_out_norms(collapsed)}
    if "value" in names:
        scores["value"] = value_norms(collapsed)
    rows = []
    for i in range(len(texts)):
        sizes = {name: method_scores[i] for name, method_scores in scores.items()}
        row = {
            f"{summary} {removal}": rank_correlation(sizes[summary], sizes[removal])
            for summary in names
            for removal in REMOVALS
        }
        row["alpha-avg alpha-max"] = rank_correlation(sizes["alpha-avg"], sizes["alpha-max"])
        row["top"] = float(sizes["alpha-avg"].argmax() == sizes["alpha-max"].argmax())
        rows.append(row)
    return rows


def _measure_values(setting: Setting) -> Numbers:
    """Measure the same on a model of the paper's recipe with full weights."""
    return measure(setting, setting.train_recipe_model(BUNDLED_SEED), values=True)


def judge_summary(gain: Interval) -> str:
    """Judge whether α-max differs from α-avg, from the median gain with |LIME|."""
    _, low, high = gain
    if low > -LITTLE and high < LITTLE:
        return "little for ranks"
    return "it does" if low >= LITTLE or high <= -LITTLE else "undecided"


def judge_norm(gain: Interval) -> str:
    """Judge whether a norm ranks words more as |LIME| does than α-avg, from the median gain."""
    _, low, high = gain
    return "holds" if low > 0 else "does not hold here" if high < 0 else "no difference shown"


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.4, 3.1, columns=2)
    names = SUMMARIES | VALUES
    colors = dict(zip(names, (BLUE, ORANGE, GREEN, VERMILLION), strict=True))
    for axes, (part, model_label) in zip(grid, _FULL_MODELS.items(), strict=True):
        for row, (summary, label) in enumerate(names.items()):
            for group, removal in enumerate(REMOVALS):
                low, middle, high = numbers[part]["pairs"][f"{summary} {removal}"]
                y = group + 0.16 * (row - 1.5)
                axes.hlines(y, low, high, color=colors[summary], linewidth=2, alpha=0.5)
                axes.plot([middle], [y], "o", color=colors[summary], label=None if group else label)
        axes.set_yticks(range(len(REMOVALS)), list(REMOVALS.values()))
        axes.set_xlim(0, 1)
        axes.legend(fontsize=8, frameon=False, loc="lower left")
        style_axes(axes, title=model_label, x="rank correlation, median and quartiles")
    yield (
        "attention-summaries",
        "How summaries of attention rank words beside LIME and leave-one-out.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    paper, shipped = numbers["values"], numbers["shipped"]
    median, gain = paper["median"], paper["gained"]
    return Findings(
        headline=(
            "On the paper's recipe ‖αv‖ has rank correlation "
            f"{format_interval(median['value lime'], 3)} with |LIME|, ‖W_ℓ αv‖ "
            f"{format_interval(median['read-out lime'], 3)}, α-avg "
            f"{format_interval(median['alpha-avg lime'], 3)} and α-max "
            f"{format_interval(median['alpha-max lime'], 3)}."
        ),
        verdicts=[
            Verdict(
                claim="How heads are summarised matters: α-avg or α-max (Section 3)",
                holds=judge_summary(gain["alpha-max lime"]),
                number=f"with |LIME| {format_interval(median['alpha-avg lime'], 3)} and "
                f"{format_interval(median['alpha-max lime'], 3)}; in a review α-max has "
                f"{_format_gain(gain['alpha-max lime'])} on α-avg; the same first word in "
                f"{_format_share(paper['same_top'])} of the reviews",
            ),
            Verdict(
                claim="The norm of α v tells more than α (Kobayashi et al., 2020)",
                holds=judge_norm(gain["value lime"]),
                number=f"{format_interval(median['value lime'], 3)} with |LIME|, α-avg "
                f"{format_interval(median['alpha-avg lime'], 3)}, in a review "
                f"{_format_gain(gain['value lime'])}; shipped model "
                f"{_format_gain(shipped['gained']['value lime'])}",
            ),
            Verdict(
                claim="Does the norm of what is read of it, W_ℓ α v, do so? (our question)",
                holds=judge_norm(gain["read-out lime"]),
                number=f"{format_interval(median['read-out lime'], 3)}, in a review "
                f"{_format_gain(gain['read-out lime'])}; shipped model "
                f"{_format_gain(shipped['gained']['read-out lime'])}",
            ),
        ],
        measured=[_describe_model(part, numbers[part]) for part in _FULL_MODELS],
        meaning=_meaning(numbers),
        table=Table(
            columns=(
                "model", "summary", "with", "median rank correlation", "lower quartile",
                "upper quartile", "in a review, over α-avg",
            ),
            rows=[
                [f"the {model_label}", label, removal_label,
                 format_interval(model["median"][pair], 3), model["pairs"][pair][0],
                 model["pairs"][pair][2], _format_gain(model["gained"][pair])]
                for part, model_label in _FULL_MODELS.items()
                for model in (numbers[part],)
                for summary, label in (SUMMARIES | VALUES).items()
                for removal, removal_label in REMOVALS.items()
                if (pair := f"{summary} {removal}")
            ],
        ),
    )  # fmt: skip


# The parts with full weights. "paper" is the same model in collapsed form.
_FULL_MODELS = {"values": MODELS["paper"], "shipped": MODELS["shipped"]}


def _format_gain(interval: Interval) -> str:
    middle, low, high = interval
    return f"{middle:+.3f} ({low:+.3f} to {high:+.3f})"


def _format_share(interval: Interval) -> str:
    middle, low, high = interval
    return f"{middle:.0%} ({low:.0%} to {high:.0%})"


def _describe_model(part: str, numbers: Numbers) -> str:
    """Describe the correlations of a model."""
    pairs = "; ".join(
        f"{label} {format_interval(numbers['median'][f'{name} lime'], 3)} with |LIME| and "
        f"{format_interval(numbers['median'][f'{name} loo'], 3)} with |leave-one-out|"
        for name, label in (SUMMARIES | VALUES).items()
    )
    return (
        f"The {_FULL_MODELS[part]}, {numbers['texts']:,} test reviews, median rank correlations "
        f"over the words with 95 % intervals over reviews: {pairs}. α-avg and α-max have "
        f"{numbers['pairs']['alpha-avg alpha-max'][1]:.2f} with each other and name the same first "
        f"word in {_format_share(numbers['same_top'])}."
    )


def _meaning(numbers: Mapping[str, Numbers]) -> str:
    full, collapsed = (numbers[part]["median"]["read-out lime"][0] for part in ("values", "paper"))
    return (
        "Kobayashi et al. measure the length of what attention carries, α times the transformed "
        "value. ‖αv‖ takes the values of all heads as they are, side by side; ‖W_ℓ αv‖ takes them "
        "after the read-out, which here stands where their models have a matrix that joins the "
        "heads, and knows the classes. Both have the factor that attention lacks: to first order "
        "a word's coefficient is its attention times what its value adds to the mean, "
        "α_t (u_t − f). Values need a model's full weights; with the collapsed ones that travel "
        f"with the reproduction ‖W_ℓ αv‖ is {collapsed:.2f} (full weights {full:.2f})."
    )


EXPERIMENT = Experiment(
    name="attention-summaries",
    title="Which attention: α-avg, α-max or norm-based",
    paper=(
        "α-avg and α-max summarise the heads (Section 3); others weigh attention by the norm of "
        "what it carries (Kobayashi et al., 2020)."
    ),
    parts=(
        Part(name="shipped", measure=lambda s: measure(s, s.shipped_model, values=True), version=3),
        Part(name="paper", measure=lambda s: measure(s, s.recipe_model), version=3),
        Part(
            name="values",
            measure=_measure_values,
            needs=("gpu",),
            stages=2,
            reads=("imdb train", "imdb test"),
        ),
    ),
    findings=_findings,
    figures=_figures,
)
