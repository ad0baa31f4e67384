"""Which summary of attention to read: α-avg, α-max, or weighed by the norm of what it carries."""

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
VALUES = {"value": "‖αv‖"}  # where the model's values are known, not only what is read of them
AGAINST = {"lime": "|LIME|", "loo": "|leave-one-out|"}
LITTLE = 0.1  # of a rank correlation


def read_out_norms(seen: CollapsedTexts) -> list[np.ndarray]:
    """Return ‖Σ_i W_ℓ α_t v_t‖/K of every word: the length of what a token adds to the outputs.

    That is the norm of Kobayashi et al. (2020) if the read-out W_ℓ is taken for the matrix after
    the heads that theirs includes; for a single output it is an absolute value. Places of a word
    are added up.
    """
    added = (seen.alpha[:, None] * seen.arrays.u).mean(axis=2)
    return seen.pool_features(np.linalg.norm(added, axis=1)[:, 1:])


def value_norms(seen: CollapsedTexts) -> list[np.ndarray]:
    """Return ‖α_t v_t‖ of every word, v_t the values of all heads side by side, before W_ℓ.

    A model in collapsed form has what W_ℓ reads of its values, and not the values.
    """
    model = seen.model
    e = model.embedding[seen.arrays.ids].astype(np.float64) + model.positions
    squares = [
        ((e @ np.asarray(W_v, float).T) ** 2).sum(axis=2) * seen.alpha[:, i] ** 2
        for i, W_v in enumerate(model.W_v)
    ]
    return seen.pool_features(np.sqrt(np.sum(squares, axis=0))[:, 1:])


def measure(setting: Setting, model: AttentionClassifier, *, values: bool = False) -> Numbers:
    """Return the rank correlations of each summary with removal, and with one another."""
    texts = list_texts(
        setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS)
    )
    names = SUMMARIES | (VALUES if values else {})
    rows: list[dict[str, float | None]] = []
    for start in range(0, len(texts), _CHUNK):
        setting.tick(start, len(texts))
        rows += _rows(model, texts[start : start + _CHUNK], names)
    pairs = [f"{s} {a}" for s in names for a in AGAINST] + ["alpha-avg alpha-max"]

    def gained(name: str, against: str) -> Interval:
        gain = [
            None if one is None or other is None else one - other
            for one, other in (
                (row[f"{name} {against}"], row[f"alpha-avg {against}"]) for row in rows
            )
        ]
        return median_interval(gain, seed=setting.seed)

    return round_for_json(
        {
            "texts": len(rows),
            "pairs": {pair: quartiles([row[pair] for row in rows]) for pair in pairs},
            "median": {
                pair: median_interval([row[pair] for row in rows], seed=setting.seed)
                for pair in pairs
            },
            "gained": {f"{s} {a}": gained(s, a) for s in names for a in AGAINST},
            "same_top": mean_interval([row["top"] for row in rows], seed=setting.seed),
        },
        digits=4,
    )


def _rows(
    model: AttentionClassifier, texts: Sequence[str], names: Mapping[str, str]
) -> list[dict[str, float | None]]:
    seen = collapse_texts(model, texts)
    target = model.classes[-1]
    asked: dict[str, Any] = {"target": target, "scale": "score"}
    scores = {
        name: [abs(one.scores) for one in explain(model, list(texts), name, **asked)]
        for name in ("alpha-avg", "alpha-max", "lime", "loo")
    } | {"read-out": read_out_norms(seen)}
    if "value" in names:
        scores["value"] = value_norms(seen)
    rows = []
    for i in range(len(texts)):
        one = {name: of[i] for name, of in scores.items()}
        row = {f"{s} {a}": rank_correlation(one[s], one[a]) for s in names for a in AGAINST}
        row["alpha-avg alpha-max"] = rank_correlation(one["alpha-avg"], one["alpha-max"])
        row["top"] = float(one["alpha-avg"].argmax() == one["alpha-max"].argmax())
        rows.append(row)
    return rows


def _whole_values(setting: Setting) -> Numbers:
    """Return the same of a model of the paper's recipe that has its values."""
    return measure(setting, setting.train_recipe_model(BUNDLED_SEED), values=True)


def summary_matters(gained: Interval) -> str:
    """Say whether it matters to take α-max, from the median gain over α-avg with |LIME|."""
    _, low, high = gained
    if low > -LITTLE and high < LITTLE:
        return "little for ranks"
    return "it does" if low >= LITTLE or high <= -LITTLE else "undecided"


def tells_more(gained: Interval) -> str:
    """Say whether a norm ranks words more as |LIME| does than α-avg, from the median gain."""
    _, low, high = gained
    return "holds" if low > 0 else "does not hold here" if high < 0 else "no difference shown"


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.4, 3.1, columns=2)
    names = SUMMARIES | VALUES
    colors = dict(zip(names, (BLUE, ORANGE, GREEN, VERMILLION), strict=True))
    for axes, (part, said) in zip(grid, _WHOLE.items(), strict=True):
        for at, (summary, label) in enumerate(names.items()):
            for place, against in enumerate(AGAINST):
                low, middle, high = numbers[part]["pairs"][f"{summary} {against}"]
                y = place + 0.16 * (at - 1.5)
                axes.hlines(y, low, high, color=colors[summary], linewidth=2, alpha=0.5)
                axes.plot([middle], [y], "o", color=colors[summary], label=None if place else label)
        axes.set_yticks(range(len(AGAINST)), list(AGAINST.values()))
        axes.set_xlim(0, 1)
        axes.legend(fontsize=8, frameon=False, loc="lower left")
        style_axes(axes, title=said, x="rank correlation, median and quartiles")
    yield (
        "attention-summaries",
        "How summaries of attention rank words beside LIME and leave-one-out.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    paper, shipped = numbers["values"], numbers["shipped"]
    median, gained = paper["median"], paper["gained"]
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
                holds=summary_matters(gained["alpha-max lime"]),
                number=f"with |LIME| {format_interval(median['alpha-avg lime'], 3)} and "
                f"{format_interval(median['alpha-max lime'], 3)}; in a review α-max has "
                f"{_signed(gained['alpha-max lime'])} on α-avg; the same first word in "
                f"{_share(paper['same_top'])} of the reviews",
            ),
            Verdict(
                claim="The norm of α v tells more than α (Kobayashi et al., 2020)",
                holds=tells_more(gained["value lime"]),
                number=f"{format_interval(median['value lime'], 3)} with |LIME|, α-avg "
                f"{format_interval(median['alpha-avg lime'], 3)}, in a review "
                f"{_signed(gained['value lime'])}; shipped model "
                f"{_signed(shipped['gained']['value lime'])}",
            ),
            Verdict(
                claim="Does the norm of what is read of it, W_ℓ α v, do so? (our question)",
                holds=tells_more(gained["read-out lime"]),
                number=f"{format_interval(median['read-out lime'], 3)}, in a review "
                f"{_signed(gained['read-out lime'])}; shipped model "
                f"{_signed(shipped['gained']['read-out lime'])}",
            ),
        ],
        measured=[_sentence(part, numbers[part]) for part in _WHOLE],
        meaning=_meaning(numbers),
        table=Table(
            columns=(
                "model", "summary", "with", "median rank correlation", "lower quartile",
                "upper quartile", "in a review, over α-avg",
            ),
            rows=[
                [f"the {said}", label, against, format_interval(of["median"][pair], 3), of["pairs"][pair][0],
                 of["pairs"][pair][2], _signed(of["gained"][pair])]
                for of, said in ((numbers[part], said) for part, said in _WHOLE.items())
                for name, label in (SUMMARIES | VALUES).items()
                for key, against in AGAINST.items()
                if (pair := f"{name} {key}")
            ],
        ),
    )  # fmt: skip


# The parts whose models have their values; "paper" is the same model in collapsed form.
_WHOLE = {"values": MODELS["paper"], "shipped": MODELS["shipped"]}


def _signed(interval: Interval) -> str:
    middle, low, high = interval
    return f"{middle:+.3f} ({low:+.3f} to {high:+.3f})"


def _share(interval: Interval) -> str:
    middle, low, high = interval
    return f"{middle:.0%} ({low:.0%} to {high:.0%})"


def _sentence(part: str, of: Numbers) -> str:
    pairs = "; ".join(
        f"{label} {format_interval(of['median'][f'{name} lime'], 3)} with |LIME| and "
        f"{format_interval(of['median'][f'{name} loo'], 3)} with |leave-one-out|"
        for name, label in (SUMMARIES | VALUES).items()
    )
    return (
        f"The {_WHOLE[part]}, {of['texts']:,} test reviews, median rank correlations over the "
        f"words with 95 % intervals over reviews: {pairs}. α-avg and α-max have "
        f"{of['pairs']['alpha-avg alpha-max'][1]:.2f} with each other and name the same first word "
        f"in {_share(of['same_top'])}."
    )


def _meaning(numbers: Mapping[str, Numbers]) -> str:
    paper, carried = (numbers[part]["median"]["read-out lime"][0] for part in ("values", "paper"))
    return (
        "Kobayashi et al. measure the length of what attention carries, α times the transformed "
        "value. ‖αv‖ takes the values of all heads as they are, side by side; ‖W_ℓ αv‖ takes them "
        "after the read-out, which here stands where their models have a matrix that joins the "
        "heads, and knows the classes. Both have the factor that attention lacks: to first order "
        "a word's coefficient is its attention times what its value adds to the mean, "
        "α_t (u_t − f). Values need a model's full weights; with the collapsed ones that travel "
        f"with the reproduction ‖W_ℓ αv‖ is {carried:.2f} (full weights {paper:.2f})."
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
            measure=_whole_values,
            needs=("gpu",),
            stages=2,
            reads=("imdb train", "imdb test"),
        ),
    ),
    findings=_findings,
    figures=_figures,
)
