"""Does attention still go with gradients and LIME in deeper models, other data, other networks?"""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from limelight.experiments.correlation import quartiles, spearman
from limelight.experiments.drawing import BLUE, GREEN, GREY, ORANGE, VERMILLION, canvas, plain
from limelight.experiments.experiment import Experiment, Findings, Numbers, Part, Table, compact
from limelight.experiments.setting import Setting

MODELS = (
    "imdb-1", "imdb-2", "imdb-4", "imdb-6",
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
TEXTS, SAMPLES = 300, 2000


def _measure(setting: Setting, name: str) -> Numbers:
    from limelight.experiments.deep.models import MODELS, accuracy, trained

    model, described = trained(setting, name), MODELS[name]
    data = setting.some_texts(described.data, "test", 10 if setting.quick else TEXTS)
    found: dict[str, list[float]] = {pair: [] for pair in PAIRS}
    linear = []
    for i, text in enumerate(data.texts):
        setting.tick(i, len(data))
        row, r = _one(setting, model, text, i)
        linear.append(r)
        for pair, value in row.items():
            found[pair].append(value)
    shape = described.shape
    return compact(
        {
            "data": described.data,
            "layers": shape.layers,
            "activation": shape.activation,
            "pieces": described.pieces,
            "accuracy": accuracy(model, setting.texts(described.data, "test")),
            "texts": len(data),
            "samples": SAMPLES,
            "lime_r2": quartiles(linear),
            "spearman": {pair: quartiles(values) for pair, values in found.items()},
        },
        digits=4,
    )


def _one(setting: Setting, model: Any, text: str, number: int) -> tuple[dict[str, float], float]:
    """Return the rank correlations of one text, and how linear the model is around it (R²)."""
    from limelight.experiments.deep import scores

    read = scores.seen(model, text)
    if len(read.words) < 3:
        return dict.fromkeys(PAIRS, float("nan")), float("nan")
    f = scores.outputs(model, read.window)[0]
    target = 1 if len(f) == 2 else int(f.argmax())
    alpha = scores.attention_scores(model, read)
    g, gxi = scores.gradient_scores(model, read, target)
    lime, again = (
        scores.lime_scores(
            model, read, target, samples=SAMPLES, delete=False,
            rng=np.random.default_rng([setting.seed, number, run]),
        )
        for run in range(2)
    )  # fmt: skip
    beta = lime.scores[0]
    pairs = {"first": alpha[0], "last": alpha[-1], "mean": alpha.mean(axis=0)}
    row = {f"{layer}_g": spearman(a, g) for layer, a in pairs.items()}
    row |= {f"{layer}_lime": spearman(a, np.abs(beta)) for layer, a in pairs.items()}
    row |= {"gxi_lime": spearman(gxi, beta), "lime_lime": spearman(beta, again.scores[0])}
    return row, float(lime.r2[0])


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    names = [name for name in MODELS if name in numbers]
    figure, axes = canvas(7.6, 0.9 + 0.42 * len(names))
    shown = {
        "first_g": (BLUE, "o"),
        "last_g": (GREEN, "s"),
        "first_lime": (ORANGE, "P"),
        "last_lime": (VERMILLION, "D"),
        "gxi_lime": (GREY, "^"),
    }
    for k, (pair, (colour, marker)) in enumerate(shown.items()):
        low, middle, high = np.array([numbers[name]["spearman"][pair] for name in names]).T
        place = np.arange(len(names)) + 0.15 * (k - 2)
        axes.hlines(place, low, high, color=colour, linewidth=1.4, alpha=0.7)
        axes.plot(middle, place, marker, color=colour, markersize=5, label=PAIRS[pair])
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(np.arange(len(names)), [_described(numbers[name]) for name in names])
    axes.invert_yaxis()
    axes.set_xlim(-0.2, 1.02)
    axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, frameon=False)
    yield (
        "next-checks",
        "Rank correlations per text: median (mark) and quartiles (line), for every network.",
        (plain(axes, x="Spearman's rank correlation over the words of a text"), figure)[1],
    )


def _described(of: Numbers) -> str:
    data = {"imdb": "IMDB", "sst2": "SST-2", "ag_news": "AG News"}[of["data"]]
    more = ", pieces" if of["pieces"] else ""
    more += "" if of["activation"] == "gelu" else f", {of['activation']}"
    return f"{data}, {of['layers']} layer{'s' if of['layers'] > 1 else ''}{more}"


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    def middle(name: str, pair: str) -> float:
        return numbers[name]["spearman"][pair][1]

    depth = [name for name in ("imdb-1", "imdb-2", "imdb-4", "imdb-6") if name in numbers]
    first, last = depth[0], depth[-1]

    def over_depth(pair: str) -> str:
        return ", ".join(f"{middle(name, pair):.2f}" for name in depth)

    layers = ", ".join(str(numbers[name]["layers"]) for name in depth)
    rows = [
        [
            _described(of),
            f"{of['accuracy']:.2%}",
            *(of["spearman"][pair][1] for pair in PAIRS),
            of["lime_r2"][1],
        ]
        for name in MODELS
        if (of := numbers.get(name))
    ]
    return Findings(
        measured=(
            f"IMDB, {layers} layers with skip connections, layer norms and perceptrons: the median "
            f"rank correlation of the last layer's α-avg with G-l1 is {over_depth('last_g')}; with "
            f"|LIME| it is {over_depth('last_lime')}.",
            f"The first layer's α-avg, which the paper looks at: {over_depth('first_g')} with G-l1 "
            f"and {over_depth('first_lime')} with |LIME|.",
            "Signed, G×I and LIME: " + over_depth("gxi_lime") + ". Two runs of LIME itself agree "
            f"to {middle(first, 'lime_lime'):.2f} at one layer and "
            f"{middle(last, 'lime_lime'):.2f} at {numbers[last]['layers']}, which limits every "
            "number that LIME takes part in.",
            f"Each is a median over {numbers[first]['texts']} test texts; LIME replaces words by "
            f"UNK and draws {numbers[first]['samples']} samples.",
        ),
        meaning=_meaning(middle),
        table=Table(columns=("network", "accuracy", *PAIRS.values(), "R² of LIME"), rows=rows),
    )


def _meaning(middle: Any) -> str:
    fall = middle("imdb-1", "first_g") - middle("imdb-6", "first_g")
    kept = "falls" if fall > 0.1 else "rises" if fall < -0.1 else "hardly changes"
    with_lime = middle("imdb-6", "first_lime")
    return (
        "The paper says that the correlation of attention with gradients may not hold in deeper "
        f"models. From one layer to six, that of the first layer's attention {kept} by "
        f"{abs(fall):.2f}, and its correlation with |LIME| is {with_lime:.2f} there. Activation, "
        "data set, number of classes and pieces of words are in the table; each network was "
        "trained once, so differences of a few hundredths mean nothing."
    )


EXPERIMENT = Experiment(
    name="next-checks",
    title="Deeper models, other data, other networks",
    paper=(
        "Left open: whether attention goes with gradients and LIME in models with more layers, "
        "skip connections, layer norms and non-linearities, on other data, with more classes, and "
        "where words are cut into pieces."
    ),
    parts=tuple(
        Part(name=name, measure=partial(_measure, name=name), needs="gpu") for name in MODELS
    ),
    findings=_findings,
    figures=_figures,
)
