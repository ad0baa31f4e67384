"""Pictures: what of the paper holds where words are patches, in one layer and in a transformer."""

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


def as_predicted(of: Numbers) -> bool:
    """Whether every slope lies within 0.2 of what the theory says."""
    return all(abs(of["slopes"][name] - slope) <= _CLOSE for name, (_, slope) in RATES.items())


def ranks_alike(interval: Sequence[float]) -> str:
    """Say by the rule whether attention ranks patches as another method does."""
    _, low, high = interval
    return "yes" if low >= LIKE else "no" if high <= UNLIKE else "in part"


def less_faithful(of: Numbers) -> str:
    """Say by the rule whether attention goes less far than Shapley values."""
    (_, low, high), (_, least, most) = of["shares"]["alpha-avg"], of["shares"]["shapley"]
    return "holds" if high < least else "the other way" if low > most else "not shown"


def position_or_content(interval: Sequence[float]) -> str:
    """Say by the rule what attention follows when patches change places."""
    _, low, high = interval
    return "position" if low > 0 else "content" if high < 0 else "neither more"


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Apply the rules, which stand in the modules that measure."""
    theory, one, six = (numbers[name] for name in ("theorems", *_MODELS))
    worst = max(theory["distances"].values())
    slopes = theory["slopes"]
    both = {name: numbers[name] for name in _MODELS}
    carried = "hold" if worst <= _NEAR else "do not all hold"
    return Findings(
        headline=(
            f"Over patches the paper's exact statements {carried} (largest distance to another "
            f"road {worst:.0e}); attention ranks patches as |Shapley values| do to "
            f"{format_interval(one['rho']['shapley'])} in one layer and {format_interval(six['rho']['shapley'])} in six."
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
                    "only where few of the patches are scored: a picture has no padding"
                    if as_predicted(theory)
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
                    claim=f"Does attention rank patches as |Shapley values| do, {said}? "
                    "(our question)",
                    holds=ranks_alike(both[part]["rho"]["shapley"]),
                    number=f"ρ {format_interval(both[part]['rho']['shapley'])}; with |LIME| "
                    f"{format_interval(both[part]['rho']['lime'])}",
                    parts=(part,),
                )
                for part, said in _MODELS.items()
            ),
            *(
                Verdict(
                    claim=f"Is attention less faithful than Shapley values, {said}? (our question)",
                    holds=less_faithful(both[part]),
                    number=f"share {format_interval(both[part]['shares']['alpha-avg'])} against "
                    f"{format_interval(both[part]['shares']['shapley'])}",
                    parts=(part,),
                )
                for part, said in _MODELS.items()
            ),
            Verdict(
                claim="What does attention follow when patches change places? (our question)",
                holds="; ".join(
                    f"{position_or_content(both[part]['rho']['moved'])} in {said}"
                    for part, said in _MODELS.items()
                ),
                number="ρ with the place less ρ with the patch: "
                + "; ".join(format_interval(of["rho"]["moved"]) for of in both.values()),
                parts=tuple(_MODELS),
            ),
        ],
        measured=[
            _theory(theory),
            *(_model(both[part], said) for part, said in _MODELS.items()),
            _lime(one),
        ],
        meaning=_meaning(theory, both),
        table=Table(
            columns=("model", "method", "share of the way", "from", "to"),
            rows=[
                [said, _NAMES[name], *both[part]["shares"][name]]
                for part, said in _MODELS.items()
                for name in JUDGED
            ],
            digits=2,
        ),
    )


def _theory(of: Numbers) -> str:
    errors = of["errors"]
    return (
        f"Random models over patches ({of['models']} of each size): the median distance to exact "
        f"LIME (ν = ∞) goes from {errors['first_order'][0]:.2f} at {of['patches'][0]} patches to "
        f"{errors['first_order'][-1]:.2f} at {of['patches'][-1]:,} for the corrected first order, "
        f"from {errors['region'][0]:.2f} to {errors['region'][-1]:.3f} where √T of the patches are "
        f"scored, from {errors['mean_field'][0]:.3f} to {errors['mean_field'][-1]:.4f} for the "
        f"mean field, and from {errors['eq19'][0]:.2f} to {errors['eq19'][-1]:.2f} for Eq. 19 as "
        "printed."
    )


def _model(of: Numbers, said: str) -> str:
    rho, exact = of["rho"], of["rho"]["again"][0] == 1
    way = "the proven ceiling, which none need reach" if exact else "the best order found"
    shares = ", ".join(f"{_NAMES[name]} {format_interval(of['shares'][name])}" for name in JUDGED)
    noise = (
        ""
        if exact
        else f" (two runs of sampled Shapley values have {format_interval(rho['again'])} with each other)"
    )
    return (
        f"Fashion-MNIST, {said}, {of['pictures']} test pictures of 7 × 7 patches, accuracy "
        f"{_percent(of['right'])}: the rank correlation of α-avg with |Shapley values| is "
        f"{format_interval(rho['shapley'])} in the median picture{noise}, with |LIME| {format_interval(rho['lime'])}. "
        f"The most attended patch is among the three strongest in {_percent(of['strong'])} and "
        f"speaks for the decision in {_percent(of['for'])}. Shares of the way from a random order "
        f"of removal to {way}: {shares}, the greedy order {format_interval(of['greedy'])}. "
        "With the patches in random order the accuracy is "
        f"{_percent(of['right_shuffled'])}; attention then has {format_interval(rho['place'])} with what the "
        f"same place had and {format_interval(rho['patch'])} with what the same patch had. The place alone "
        f"says {of['by_place']:.0%} of the variance of attention."
    )


def _lime(of: Numbers) -> str:
    far = of["distance"]
    return (
        "Distance to exact LIME (ν = 0.25) on the trained one-layer model, relative, in the median "
        f"picture: Eq. 19 as printed {format_interval(far['eq19'])}, corrected first order "
        f"{format_interval(far['first_order'])}, mean field {format_interval(far['mean_field'])}."
    )


def _percent(share: Sequence[float]) -> str:
    return f"{share[0]:.0%} [{share[1]:.0%}, {share[2]:.0%}]"


def _meaning(theory: Numbers, both: Mapping[str, Numbers]) -> str:
    one, six = both.values()
    rate = (
        "Theorem 5.1 does not become exact as pictures get finer: its regime needs a window "
        "that is mostly padding, and a picture has none, so removing all patches moves the "
        "denominator by a factor that stays. The mean field keeps that factor, and its error falls "
        "as the number of patches grows."
        if as_predicted(theory)
        else "The errors by number of patches are not those that the theory predicts, which we "
        "cannot explain."
    )
    return (
        "An image is a text whose words are patches that never repeat: whatever is said of one "
        "picture at a time carries over with its proof, bounds included "
        f"([patches](theorems/patches.md)). {rate} What attention is worth is a question of the "
        "model here, too: on the way from a random order to the best one it goes "
        f"{one['shares']['alpha-avg'][0]:.2f} in one layer and "
        f"{six['shares']['alpha-avg'][0]:.2f} in six, where Shapley values go "
        f"{one['shares']['shapley'][0]:.2f} and {six['shares']['shapley'][0]:.2f}. The "
        "two scales differ, a ceiling that is proven and the best order found, so compare methods "
        "within a model. Pictures in random order are foreign to both models, and say what "
        "attention follows, not how it is used. One data set, one training of each: other pictures "
        "may give other numbers, and the command is the same."
    )


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    of = numbers["one-layer"]["figure"]
    figure, grid = canvas(11.5, 1.9, columns=1 + len(SHOWN))
    grid[0].imshow(np.array(of["pixels"]), cmap="gray")
    style_axes(grid[0], title=of["target"])
    for axes, name in zip(grid[1:], SHOWN, strict=True):
        scores = np.array(of["scores"][name]).reshape(7, 7)
        most, signed = np.abs(scores).max(), name in of["signed"]
        axes.imshow(
            scores, cmap="PuOr_r" if signed else "Blues", vmin=-most if signed else 0, vmax=most
        )
        style_axes(axes, title=of["labels"][name])
    for axes in grid:
        axes.set_xticks([])
        axes.set_yticks([])
    yield (
        "images-figure-1",
        f"Figure 1 over patches: seven explainers of one test picture, class {of['target']}. "
        "Purple speaks against the class, orange for it; methods without signs are blue.",
        figure,
    )
    figure, axes = canvas(11.5, 3.2)
    runs, order = np.array(of["runs"]), np.argsort(of["values"]["exact"])[::-1]
    axes.boxplot(
        runs[:, order], positions=np.arange(len(order)), widths=0.7, showfliers=False,
        patch_artist=True, boxprops={"facecolor": "#dfe5ea", "edgecolor": GREY, "linewidth": 0.8},
        medianprops={"color": INK, "linewidth": 0.9}, whiskerprops={"color": GREY},
        capprops={"color": GREY}, manage_ticks=False,
    )  # fmt: skip
    looks = {
        "eq19": (VERMILLION, "x", "Eq. 19 as printed"),
        "first_order": (ORANGE, "+", "first order, corrected"),
        "exact": (GREEN, "o", "exact"),
    }
    for name, (color, marker, label) in looks.items():
        filled = {"markerfacecolor": "none"} if marker == "o" else {}
        axes.plot(
            np.arange(len(order)), np.array(of["values"][name])[order], marker, color=color,
            markersize=5, linestyle="none", label=label, **filled,
        )  # fmt: skip
    axes.set_xticks([])
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.legend(fontsize=8, frameon=False)
    style_axes(axes, x="patches, by their exact coefficient", y="coefficient")
    yield (
        "images-figure-4",
        f"Figure 4 over patches: boxes are {RUNS} runs of LIME on the same picture, marks are what "
        "theory says.",
        figure,
    )
    figure, axes = canvas(5.6, 3.2)
    theory = numbers["theorems"]
    lines = {"eq19": ("Eq. 19 as printed, all patches", GREY)} | {
        name: (label, color)
        for (name, (label, _)), color in zip(RATES.items(), (ORANGE, BLUE, GREEN), strict=True)
    }
    for name, (label, color) in lines.items():
        axes.loglog(theory["patches"], theory["errors"][name], "o-", color=color, label=label)
    axes.legend(fontsize=7, frameon=False)
    style_axes(axes, x="patches", y="relative distance to exact LIME")
    yield (
        "images-rate",
        "How far first-order formulas and the mean field are from exact LIME, by the number of "
        "patches, on random models.",
        figure,
    )


EXPERIMENT = Experiment(
    name="images",
    title="Pictures: words that are patches",
    paper=(
        "The paper is about texts. Its authors were asked whether the results hold for vision "
        "transformers."
    ),
    parts=(
        Part(name="theorems", measure=measure_theorems, reads=(), version=2),
        Part(
            name="one-layer",
            measure=measure_one_layer,
            needs=("pictures",),
            reads=("fashion_mnist train", "fashion_mnist test"),
            stages=2,
            version=2,
        ),
        Part(
            name="six-layers",
            measure=measure_deep,
            needs=("gpu", "pictures", "picture-model"),
            quick_needs=("pictures", "picture-model"),
            reads=("fashion_mnist test",),
        ),
    ),
    figures=_figures,
    findings=findings,
)
