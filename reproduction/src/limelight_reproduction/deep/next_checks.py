"""Agreement of attention with gradients and LIME in deeper models and on other data."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from limelight import Model, evaluate, explain
from limelight_reproduction.deep.sampled_lime import sampled_lime
from limelight_reproduction.document import list_texts
from limelight_reproduction.drawing import BLUE, GREEN, GREY, ORANGE, VERMILLION, canvas, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
    round_for_json,
)
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import quartiles, rank_correlation, summarize_spread

DEPTHS = (1, 2, 4, 6)
REPEATS = (1, 2)
ONCE = tuple(f"imdb-{n}" for n in DEPTHS)
AGAIN = tuple(f"imdb-{n}-again-{repeat}" for n in DEPTHS for repeat in REPEATS)
MODELS = (
    *ONCE, *AGAIN,
    "imdb-2-relu", "imdb-2-identity", "imdb-2-pieces",
    "sst2-1", "sst2-6", "ag_news-1", "ag_news-6",
)  # fmt: skip
PAIRS = {
    "first_g": "α of the first layer and G-l1",
    "last_g": "α of the last layer and G-l1",
    "mean_g": "α, mean over layers, and G-l1",
    "first_lime": "α of the first layer and |LIME|",
    "last_lime": "α of the last layer and |LIME|",
    "mean_lime": "α, mean over layers, and |LIME|",
    "gxi_lime": "G×I and LIME",
    "lime_lime": "LIME and LIME again, new samples",
}
LAYERS = ("first", "last", "mean")
TEXTS, SAMPLES = 300, 2000


def _measure(setting: Setting, name: str) -> Numbers:
    from limelight_reproduction.deep.networks import PLANS, load_or_train  # needs torch

    model, plan = load_or_train(setting, name), PLANS[name]
    data = setting.sample_texts(plan.data, "test", 10 if setting.quick else TEXTS)
    rows = []
    for i, text in enumerate(list_texts(data)):
        setting.tick(i, len(data))
        rows.append(_measure_text(setting, model, text, i))
    return round_for_json(
        {
            "data": plan.data,
            "layers": plan.shape.layers,
            "activation": plan.shape.activation,
            "pieces": plan.pieces,
            "accuracy": evaluate(model, setting.texts(plan.data, "test")).accuracy,
            "texts": len(data),
            "samples": SAMPLES,
            "lime_r2": quartiles([r2 for _, r2 in rows]),
            "spearman": summarize_spread([pairs for pairs, _ in rows]),
        },
        digits=4,
    )


def _measure_text(
    setting: Setting, model: Model, text: str, number: int
) -> tuple[dict[str, float | None], float | None]:
    """Return the rank correlations of one text, and the R² of LIME."""
    if len(set(model.read(text).tokens.strings)) < 3:
        return dict.fromkeys(PAIRS), None
    alpha = {layer: explain(model, text, "alpha-avg", layer=layer).scores for layer in LAYERS}
    g, gxi = (explain(model, text, method, scale="score").scores for method in ("g-l1", "gxi"))
    lime, second_lime = (
        sampled_lime(
            model, text, samples=SAMPLES, replacement="unk",
            rng=np.random.default_rng([setting.seed, number, run]),
        )
        for run in range(2)
    )  # fmt: skip
    beta = lime.scores[0]
    row = {f"{layer}_g": rank_correlation(a, g) for layer, a in alpha.items()}
    row |= {f"{layer}_lime": rank_correlation(a, np.abs(beta)) for layer, a in alpha.items()}
    row["gxi_lime"] = rank_correlation(gxi, beta)
    row["lime_lime"] = rank_correlation(beta, second_lime.scores[0])
    return row, float(lime.r2[0])


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    names = [name for name in MODELS if name not in AGAIN]
    figure, axes = canvas(7.6, 0.9 + 0.42 * len(names))
    styles = {
        "first_g": (BLUE, "o"),
        "last_g": (GREEN, "s"),
        "first_lime": (ORANGE, "P"),
        "last_lime": (VERMILLION, "D"),
        "gxi_lime": (GREY, "^"),
    }
    for k, (pair, (color, marker)) in enumerate(styles.items()):
        low, middle, high = np.array([numbers[name]["spearman"][pair] for name in names]).T
        heights = np.arange(len(names)) + 0.15 * (k - 2)
        axes.hlines(heights, low, high, color=color, linewidth=1.4, alpha=0.7)
        axes.plot(middle, heights, marker, color=color, markersize=5, label=PAIRS[pair])
        for name in AGAIN:
            height = heights[names.index(_first_training(name))]
            axes.plot(
                numbers[name]["spearman"][pair][1], height, marker, color=color, markersize=5,
                markerfacecolor="white",
            )  # fmt: skip
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(np.arange(len(names)), [_network_label(numbers[name]) for name in names])
    axes.invert_yaxis()
    axes.set_xlim(-0.2, 1.02)
    axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, frameon=False)
    style_axes(axes, x="Spearman's rank correlation over the words of a text")
    yield (
        "next-checks",
        "Rank correlations per text: median (mark) and quartiles (line), for every network; hollow "
        f"marks are the medians of {len(REPEATS)} more trainings.",
        figure,
    )


def _first_training(name: str) -> str:
    """Return the name of the training that ``name`` repeats."""
    return name.partition("-again-")[0]


def _network_label(network: Numbers) -> str:
    """Return a label with the data set, the layers, and differences from the other networks."""
    data = {"imdb": "IMDB", "sst2": "SST-2", "ag_news": "AG News"}[network["data"]]
    differences = ", pieces" if network["pieces"] else ""
    differences += "" if network["activation"] == "gelu" else f", {network['activation']}"
    return f"{data}, {network['layers']} layer{'s' if network['layers'] > 1 else ''}{differences}"


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    def over_depth(pair: str) -> str:
        """Join the ranges of a correlation over the depths."""
        return ", ".join(f"{low:.2f}–{high:.2f}" for low, high in _ranges(numbers, pair))

    shallowest, deepest = numbers["imdb-1"], numbers["imdb-6"]
    accuracies = [numbers[name]["accuracy"] for name in (*ONCE, *AGAIN)]
    shallow_range, *_, deep_range = _ranges(numbers, "last_lime")
    return Findings(
        headline=(
            f"The last layer's attention and |LIME| have rank correlation {shallow_range[0]:.2f}–"
            f"{shallow_range[1]:.2f} with one layer and {deep_range[0]:.2f}–{deep_range[1]:.2f} "
            f"with {deepest['layers']} (IMDB, medians over reviews, {1 + len(REPEATS)} trainings "
            "each)."
        ),
        verdicts=[
            Verdict(
                claim="Attention may not go with gradients and LIME in deeper models (left open)",
                holds=f"{'so it is' if deep_range[1] < shallow_range[0] else 'not so'}: the "
                "correlation of the last layer's attention with |LIME| "
                f"{_falls(numbers, 'last_lime')}",
                number=f"{shallow_range[0]:.2f}–{shallow_range[1]:.2f} at one layer, "
                f"{deep_range[0]:.2f}–{deep_range[1]:.2f} at {deepest['layers']}",
            )
        ],
        measured=(
            f"Networks of {', '.join(map(str, DEPTHS))} layers with skip connections, layer norms "
            f"and perceptrons, each trained {1 + len(REPEATS)} times on IMDB, reach "
            f"{min(accuracies):.1%} to {max(accuracies):.1%}. Below, ranges are over these "
            f"trainings, and every number is a median over {shallowest['texts']} test texts.",
            f"α-avg of the last layer and G-l1: {over_depth('last_g')}; and |LIME|: "
            f"{over_depth('last_lime')}.",
            f"α-avg of the first layer, which the paper looks at, and G-l1: "
            f"{over_depth('first_g')}; and |LIME|: {over_depth('first_lime')}.",
            f"G×I and LIME, with their signs: {over_depth('gxi_lime')}.",
            f"LIME replaces words by UNK and draws {shallowest['samples']} samples; two runs of "
            f"it agree to {shallowest['spearman']['lime_lime'][1]:.2f} at one layer and "
            f"{deepest['spearman']['lime_lime'][1]:.2f} at six (with their signs), which limits "
            "every number that LIME takes part in.",
            _describe_other_networks(numbers),
        ),
        meaning=_meaning(numbers),
        table=Table(
            columns=("network", "accuracy", *PAIRS.values(), "R² of LIME"),
            rows=[
                [
                    _network_label(network := numbers[name]) + (", again" if name in AGAIN else ""),
                    f"{network['accuracy']:.2%}",
                    *(network["spearman"][pair][1] for pair in PAIRS),
                    network["lime_r2"][1],
                ]
                for name in MODELS
            ],
        ),
    )


def _ranges(numbers: Mapping[str, Numbers], pair: str) -> list[tuple[float, float]]:
    """Return the lowest and the highest median over the trainings of each depth."""
    ranges = []
    for n in DEPTHS:
        names = [name for name in MODELS if _first_training(name) == f"imdb-{n}"]
        medians = [numbers[name]["spearman"][pair][1] for name in names]
        ranges.append((min(medians), max(medians)))
    return ranges


def _describe_other_networks(numbers: Mapping[str, Numbers]) -> str:
    """Describe the networks on other data sets and with other activations."""

    def median(name: str, pair: str) -> str:
        """Format the median of a correlation."""
        return f"{numbers[name]['spearman'][pair][1]:.2f}"

    by_data = "; ".join(
        f"{data} {median(f'{name}-1', 'last_lime')} and {median(f'{name}-6', 'last_lime')}"
        for name, data in (("sst2", "SST-2"), ("ag_news", "AG News (four classes)"))
    )
    by_activation = ", ".join(
        f"{label} {median(name, 'last_lime')}"
        for name, label in (
            ("imdb-2", "gelu"),
            ("imdb-2-relu", "relu"),
            ("imdb-2-identity", "none"),
            ("imdb-2-pieces", "gelu with words cut into pieces"),
        )
    )
    return (
        f"α-avg of the last layer and |LIME| at one and six layers: {by_data}. At two layers on "
        f"IMDB, by activation: {by_activation}."
    )


def _meaning(numbers: Mapping[str, Numbers]) -> str:
    (shallow_low, _), *_, (_, deep_high) = _ranges(numbers, "last_lime")
    by_activation = [
        numbers[name]["spearman"]["last_lime"][1]
        for name in ("imdb-2", "imdb-2-relu", "imdb-2-identity")
    ]
    activation_range = max(by_activation) - min(by_activation)
    matters = "less" if activation_range < shallow_low - deep_high else "no less"
    first_layer_is_higher = all(
        first_low > last_high
        for pair in ("g", "lime")
        for (first_low, _), (_, last_high) in zip(
            _ranges(numbers, f"first_{pair}")[1:], _ranges(numbers, f"last_{pair}")[1:], strict=True
        )
    )
    first_layer = (
        "The first layer's attention, which still sees words, keeps more of both at every depth."
        if first_layer_is_higher
        else "The first layer's attention does not keep more of it at every depth."
    )
    return (
        "The authors warn that the correlation of attention with gradients may not hold in deeper "
        f"models. For the last layer's attention, which is over vectors that have already mixed "
        f"the words, the correlation with gradients {_falls(numbers, 'last_g')}, and that with "
        f"LIME {_falls(numbers, 'last_lime')}. {first_layer} The activation matters {matters} than "
        "depth."
    )


def _falls(numbers: Mapping[str, Numbers], pair: str) -> str:
    """Say at which depth all trainings fall below the trainings of one layer, if at any."""
    (lowest, _), *deeper = _ranges(numbers, pair)
    below = [high < lowest for _, high in deeper]
    if not below[-1]:
        return "does not fall with depth"
    start = next(i for i in range(len(below)) if all(below[i:]))
    return f"falls from {DEPTHS[1 + start]} layers on"


EXPERIMENT = Experiment(
    name="next-checks",
    title="Deeper models, other data, other networks",
    paper=(
        "Left open: whether attention goes with gradients and LIME in models with more layers, "
        "skip connections, layer norms and non-linearities, on other data, with more classes, and "
        "where words are cut into pieces."
    ),
    parts=tuple(
        Part(
            name=name,
            measure=partial(_measure, name=name),
            needs=("gpu",),
            reads=tuple(f"{name.partition('-')[0]} {part}" for part in ("train", "test")),
            stages=2,
        )
        for name in MODELS
    ),
    findings=_findings,
    figures=_figures,
)
