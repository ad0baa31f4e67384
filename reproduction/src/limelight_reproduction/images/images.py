"""Images: the paper's results for features that are patches, in one layer and in a transformer."""

__all__ = ["EXPERIMENT", "findings"]

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from limelight_reproduction.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    VERMILLION,
    canvas,
    style_axes,
)
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
)
from limelight_reproduction.images.patch_attention import (
    JUDGED,
    LIKE,
    RUNS,
    SHOWN,
    UNLIKE,
    measure_deep,
    measure_one_layer,
)
from limelight_reproduction.images.patch_theorems import RATES, measure_theorems
from limelight_reproduction.intervals import format_interval

_NAMES = dict(zip(JUDGED, ("α-avg", "α-max", "G-l1", "G×I", "LIME", "Shapley values"), strict=True))
_MODELS = {"one-layer": "one layer", "six-layers": "six layers"}
_NEAR, _CLOSE = 1e-9, 0.2


def is_as_predicted(theory: Numbers) -> bool:
    """Whether every slope differs from the predicted slope by at most 0.2."""
    return all(abs(theory["slopes"][name] - slope) <= _CLOSE for name, (_, slope) in RATES.items())


def judge_ranks(interval: Sequence[float]) -> str:
    """Judge whether attention ranks patches as another method does."""
    _, low, high = interval
    return "yes" if low >= LIKE else "no" if high <= UNLIKE else "in part"


def judge_faithfulness(model: Numbers) -> str:
    """Judge whether attention is less faithful than Shapley values."""
    _, low, high = model["shares"]["alpha-avg"]
    _, shapley_low, shapley_high = model["shares"]["shapley"]
    if high < shapley_low:
        return "holds"
    return "the other way" if low > shapley_high else "not shown"


def judge_position(interval: Sequence[float]) -> str:
    """Judge whether attention follows positions or patches when patches change places."""
    _, low, high = interval
    return "position" if low > 0 else "content" if high < 0 else "neither more"


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Return the findings by the rules in the docstrings of the measuring modules."""
    theory, one_layer, six_layers = (numbers[name] for name in ("theorems", *_MODELS))
    worst = max(theory["distances"].values())
    slopes = theory["slopes"]
    models = {name: numbers[name] for name in _MODELS}
    verb = "hold" if worst <= _NEAR else "do not all hold"
    return Findings(
        headline=(
            f"Over patches the paper's exact statements {verb} (largest distance to another "
            f"road {worst:.0e}); attention ranks patches as |Shapley values| do to "
            f"{format_interval(one_layer['rho']['shapley'])} in one layer and "
            f"{format_interval(six_layers['rho']['shapley'])} in six."
        ),
        verdicts=[
            Verdict(
                claim="Do Theorem 4.1 and the exact values hold for patches? (our question)",
                holds="holds" if worst <= _NEAR else "no",
                number=f"distance to autograd {theory['distances']['gradient']:.0e}, to all sets "
                f"of 12 patches {worst:.0e}, relative",
                parts=("theorems",),
            ),
            Verdict(
                claim="Does Theorem 5.1, corrected, become exact with more patches? (our question)",
                holds=(
                    "only where few of the patches are scored: an image has no padding"
                    if is_as_predicted(theory)
                    else "not as the theory predicts"
                ),
                number="; ".join(
                    f"{label}: slope {slopes[name]:+.2f}, predicted {slope:+.1f}"
                    for name, (label, slope) in RATES.items()
                ),
                parts=("theorems",),
            ),
            *(
                Verdict(
                    claim=f"Does attention rank patches as |Shapley values| do, {label}? "
                    "(our question)",
                    holds=judge_ranks(models[part]["rho"]["shapley"]),
                    number=f"ρ {format_interval(models[part]['rho']['shapley'])}; with |LIME| "
                    f"{format_interval(models[part]['rho']['lime'])}",
                    parts=(part,),
                )
                for part, label in _MODELS.items()
            ),
            *(
                Verdict(
                    claim=f"Is attention less faithful than Shapley values, {label}? (our "
                    "question)",
                    holds=judge_faithfulness(models[part]),
                    number=f"share {format_interval(models[part]['shares']['alpha-avg'])} against "
                    f"{format_interval(models[part]['shares']['shapley'])}",
                    parts=(part,),
                )
                for part, label in _MODELS.items()
            ),
            Verdict(
                claim="What does attention follow when patches change places? (our question)",
                holds="; ".join(
                    f"{judge_position(models[part]['rho']['moved'])} in {label}"
                    for part, label in _MODELS.items()
                ),
                number="ρ with the place less ρ with the patch: "
                + "; ".join(format_interval(model["rho"]["moved"]) for model in models.values()),
                parts=tuple(_MODELS),
            ),
        ],
        measured=[
            _describe_theory(theory),
            *(_describe_model(models[part], label) for part, label in _MODELS.items()),
            _describe_distances(one_layer),
        ],
        meaning=_meaning(theory, models),
        table=Table(
            columns=("model", "method", "share of the way", "from", "to"),
            rows=[
                [label, _NAMES[name], *models[part]["shares"][name]]
                for part, label in _MODELS.items()
                for name in JUDGED
            ],
            digits=2,
        ),
    )


def _describe_theory(theory: Numbers) -> str:
    """Describe the errors of the formulas on random models."""
    errors = theory["errors"]
    return (
        f"Random models over patches ({theory['models']} of each size): the median distance to "
        f"exact LIME (ν = ∞) goes from {errors['first_order'][0]:.2f} at {theory['patches'][0]} "
        f"patches to {errors['first_order'][-1]:.2f} at {theory['patches'][-1]:,} for the "
        f"corrected first order, from {errors['region'][0]:.2f} to {errors['region'][-1]:.3f} "
        f"where √T of the patches are scored, from {errors['mean_field'][0]:.3f} to "
        f"{errors['mean_field'][-1]:.4f} for the mean field, and from {errors['eq19'][0]:.2f} to "
        f"{errors['eq19'][-1]:.2f} for Eq. 19 as printed."
    )


def _describe_model(model: Numbers, label: str) -> str:
    """Describe the attention of a trained model."""
    rho, is_exact = model["rho"], model["rho"]["again"][0] == 1
    best_order = "the proven ceiling, which none need reach" if is_exact else "the best order found"
    shares = ", ".join(
        f"{_NAMES[name]} {format_interval(model['shares'][name])}" for name in JUDGED
    )
    noise = (
        ""
        if is_exact
        else f" (two runs of sampled Shapley values have {format_interval(rho['again'])} with each "
        "other)"
    )
    return (
        f"Fashion-MNIST, {label}, {model['pictures']} test images of 7 × 7 patches, accuracy "
        f"{_percent(model['right'])}: the rank correlation of α-avg with |Shapley values| is "
        f"{format_interval(rho['shapley'])} in the median image{noise}, with |LIME| "
        f"{format_interval(rho['lime'])}. The most attended patch is among the three strongest in "
        f"{_percent(model['strong'])} and speaks for the decision in {_percent(model['for'])}. "
        f"Shares of the way from a random order of removal to {best_order}: {shares}, the greedy "
        f"order {format_interval(model['greedy'])}. With the patches in random order the accuracy "
        f"is {_percent(model['right_shuffled'])}; attention then has "
        f"{format_interval(rho['place'])} with what the same place had and "
        f"{format_interval(rho['patch'])} with what the same patch had. The place alone says "
        f"{model['by_place']:.0%} of the variance of attention."
    )


def _describe_distances(model: Numbers) -> str:
    """Describe the distances of the formulas to exact LIME on the trained model."""
    distance = model["distance"]
    return (
        "Distance to exact LIME (ν = 0.25) on the trained one-layer model, relative, in the median "
        f"image: Eq. 19 as printed {format_interval(distance['eq19'])}, corrected first order "
        f"{format_interval(distance['first_order'])}, mean field "
        f"{format_interval(distance['mean_field'])}."
    )


def _percent(share: Sequence[float]) -> str:
    return f"{share[0]:.0%} [{share[1]:.0%}, {share[2]:.0%}]"


def _meaning(theory: Numbers, models: Mapping[str, Numbers]) -> str:
    one_layer, six_layers = (model["shares"] for model in models.values())
    rate = (
        "Theorem 5.1 does not become exact as images get finer: its regime needs a window "
        "that is mostly padding, and an image has none, so removing all patches moves the "
        "denominator by a factor that stays. The mean field keeps that factor, and its error falls "
        "as the number of patches grows."
        if is_as_predicted(theory)
        else "The errors by number of patches are not those that the theory predicts, which we "
        "cannot explain."
    )
    return (
        "An image is a text whose words are patches that never repeat: whatever is said of one "
        "image at a time carries over with its proof, bounds included "
        f"([patches](theorems/patches.md)). {rate} What attention is worth is a question of the "
        "model here, too: on the way from a random order to the best one it goes "
        f"{one_layer['alpha-avg'][0]:.2f} in one layer and "
        f"{six_layers['alpha-avg'][0]:.2f} in six, where Shapley values go "
        f"{one_layer['shapley'][0]:.2f} and {six_layers['shapley'][0]:.2f}. The "
        "two scales differ, a ceiling that is proven and the best order found, so compare methods "
        "within a model. Images in random order are foreign to both models, and say what "
        "attention follows, not how it is used. One data set, one training of each: other images "
        "may give other numbers, and the command is the same."
    )


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    image = numbers["one-layer"]["figure"]
    yield (
        "images-figure-1",
        f"Figure 1 over patches: seven explainers of one test image, class {image['target']}. "
        "Purple speaks against the class, orange for it; methods without signs are blue.",
        _draw_explanations(image),
    )
    yield (
        "images-figure-4",
        f"Figure 4 over patches: boxes are {RUNS} runs of LIME on the same image, marks are what "
        "theory says.",
        _draw_runs(image),
    )
    yield (
        "images-rate",
        "How far first-order formulas and the mean field are from exact LIME, by the number of "
        "patches, on random models.",
        _draw_errors(numbers["theorems"]),
    )


def _draw_explanations(image: Numbers) -> Any:
    """Draw an image and its scores by all methods."""
    figure, grid = canvas(11.5, 1.9, columns=1 + len(SHOWN))
    grid[0].imshow(np.array(image["pixels"]), cmap="gray")
    style_axes(grid[0], title=image["target"])
    for axes, name in zip(grid[1:], SHOWN, strict=True):
        scores = np.array(image["scores"][name]).reshape(7, 7)
        limit, signed = np.abs(scores).max(), name in image["signed"]
        axes.imshow(
            scores, cmap="PuOr_r" if signed else "Blues", vmin=-limit if signed else 0, vmax=limit
        )
        style_axes(axes, title=image["labels"][name])
    for axes in grid:
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def _draw_runs(image: Numbers) -> Any:
    """Draw the runs of LIME on an image as boxes, and the formulas as marks."""
    figure, axes = canvas(11.5, 3.2)
    runs, order = np.array(image["runs"]), np.argsort(image["values"]["exact"])[::-1]
    axes.boxplot(
        runs[:, order], positions=np.arange(len(order)), widths=0.7, showfliers=False,
        patch_artist=True, boxprops={"facecolor": "#dfe5ea", "edgecolor": GREY, "linewidth": 0.8},
        medianprops={"color": INK, "linewidth": 0.9}, whiskerprops={"color": GREY},
        capprops={"color": GREY}, manage_ticks=False,
    )  # fmt: skip
    styles = {
        "eq19": (VERMILLION, "x", "Eq. 19 as printed"),
        "first_order": (ORANGE, "+", "first order, corrected"),
        "exact": (GREEN, "o", "exact"),
    }
    for name, (color, marker, label) in styles.items():
        face = {"markerfacecolor": "none"} if marker == "o" else {}
        axes.plot(
            np.arange(len(order)), np.array(image["values"][name])[order], marker, color=color,
            markersize=5, linestyle="none", label=label, **face,
        )  # fmt: skip
    axes.set_xticks([])
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.legend(fontsize=8, frameon=False)
    style_axes(axes, x="patches, by their exact coefficient", y="coefficient")
    return figure


def _draw_errors(theory: Numbers) -> Any:
    """Draw the errors of the formulas on random models by the number of patches."""
    figure, axes = canvas(5.6, 3.2)
    lines = {"eq19": ("Eq. 19 as printed, all patches", GREY)} | {
        name: (label, color)
        for (name, (label, _)), color in zip(RATES.items(), (ORANGE, BLUE, GREEN), strict=True)
    }
    for name, (label, color) in lines.items():
        axes.loglog(theory["patches"], theory["errors"][name], "o-", color=color, label=label)
    axes.legend(fontsize=7, frameon=False)
    style_axes(axes, x="patches", y="relative distance to exact LIME")
    return figure


EXPERIMENT = Experiment(
    name="images",
    title="Images: words that are patches",
    paper=(
        "The paper is about texts. Its authors were asked whether the results hold for vision "
        "transformers."
    ),
    parts=(
        Part(name="theorems", measure=measure_theorems, reads=(), version=2),
        Part(
            name="one-layer",
            measure=measure_one_layer,
            needs=("images",),
            reads=("fashion_mnist train", "fashion_mnist test"),
            stages=2,
            version=2,
        ),
        Part(
            name="six-layers",
            measure=measure_deep,
            needs=("gpu", "images", "image-model"),
            quick_needs=("images", "image-model"),
            reads=("fashion_mnist test",),
        ),
    ),
    figures=_figures,
    findings=findings,
)
