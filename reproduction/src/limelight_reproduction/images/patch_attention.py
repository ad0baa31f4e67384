r"""Agreement of attention over image patches with LIME and Shapley values, in one and six layers.

The rules for the findings were written before the measurement. The images are drawn from the test
images of Fashion-MNIST. The target is the logit of the predicted class. A removed patch becomes the
mean patch (one layer) or the mean color (six layers).

*Ranks.* ρ of an image is the rank correlation over its patches of α-avg with the absolute Shapley
value, or with the absolute LIME coefficient. The rule uses the interval of the median over images.
Attention ranks patches as the other method does if the interval is at least 0.8, it does not if the
interval is at most 0.5, and it does in part otherwise. Sampled values are noisy, so the report also
has ρ of two independent runs.

*Faithfulness.* The share of the way from a random order of removal to the ceiling (one layer) or to
the best order that was found (six layers), by `limelight.judge`. Attention is less faithful than
Shapley values if its interval ends before theirs begins.

*Position or content.* The patches of each image are put in random order, and attention is computed
again. It is rank-correlated with the attention that the same *position* had before, and with the
attention that the same *patch* had before. Position matters more than content if the interval of
the median difference of the two lies above 0, and less if it lies below 0.

*The first patch.* As for texts: whether the most attended patch is among the three strongest by
|Shapley|, and whether it supports the decision.
"""

__all__ = [
    "JUDGED",
    "LIKE",
    "RUNS",
    "SHOWN",
    "UNLIKE",
    "judge_all",
    "measure_deep",
    "measure_one_layer",
]

from collections.abc import Sequence
from typing import Any

import numpy as np

from limelight import Explanation, Judgment, Model, explain, judge
from limelight.models.attention import PatchClassifier
from limelight.shapes import Float, Int
from limelight.text import ImageInput, build_features
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame, combine_outputs
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.intervals import median_interval
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import rank_correlation, wilson_interval
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field
from limelight_reproduction.theory.paper import lime_theorem

PICTURES, QUICK_PICTURES, _CHUNK = 500, 30, 25
LIKE, UNLIKE = 0.8, 0.5
JUDGED = ("alpha-avg", "alpha-max", "g-l1", "gxi", "lime", "shapley")
SHOWN = ("alpha-avg", "alpha-max", "lime", "g-avg", "g-l1", "g-l2", "gxi")
RUNS, _SAMPLES = 5, 5000
_STRONGEST = 3
_SIDE = 7  # patches in a row of an image, for both models
# Without a number of calls, `judge` chooses the images of a deep model by the speed of the machine.
_BUDGET = "1000000000 calls"


def measure_one_layer(setting: Setting) -> Numbers:
    """Measure the attention of the paper's classifier, and the numbers of Figures 1 and 4."""
    model, data = setting.patch_classifier, _sample_images(setting)
    numbers = _measure_attention(setting, model, data, {})
    return round_for_json(
        {
            **numbers,
            "distance": _distances(model, data.texts, setting.seed),
            "figure": _figure(model, data.texts[0], setting.seed),
            "sizes": model.sizes,
        },
        digits=4,
    )


def measure_deep(setting: Setting) -> Numbers:
    """Measure the attention of a Hugging Face model of images."""
    sizes = {"pairs": 2, "samples": 200} if setting.quick else {"pairs": 8, "samples": 1000}
    data = _sample_images(setting)
    numbers = _measure_attention(setting, setting.image_classifier, data, sizes)
    return round_for_json({**numbers, **sizes}, digits=4)


def _sample_images(setting: Setting) -> Any:
    return setting.sample_texts(
        "fashion_mnist", "test", QUICK_PICTURES if setting.quick else PICTURES
    )


def _measure_attention(setting: Setting, model: Model, data: Any, sizes: dict[str, int]) -> Numbers:
    """Measure ranks, shares and shuffled patches; ``sizes`` is empty for exact methods."""
    rows: list[dict[str, Any]] = []
    rng = np.random.default_rng([setting.seed, 31])
    for start in range(0, len(data), _CHUNK):
        setting.tick(start, len(data))
        rows += _rows(model, data.texts[start : start + _CHUNK], sizes, rng, setting.seed)
    names = {name: i for i, name in enumerate(model.classes)}
    labels = [model.classes[i] for i in data.labels]
    medians = ("shapley", "lime", "again", "place", "patch", "moved")
    judged = judge_all(model, data.texts, setting.seed, sizes)
    alpha = np.array([row["alpha"] for row in rows])
    return {
        "pictures": len(rows),
        "classes": len(names),
        "right": wilson_share(
            [row["prediction"] == label for row, label in zip(rows, labels, strict=True)]
        ),
        "right_shuffled": wilson_share(
            [row["shuffled_prediction"] == label for row, label in zip(rows, labels, strict=True)]
        ),
        "rho": {
            name: median_interval([row[name] for row in rows], seed=setting.seed)
            for name in medians
        },
        # The share of the variance of attention over images and patches due to the position.
        "by_place": 1 - float(((alpha - alpha.mean(axis=0)) ** 2).mean() / alpha.var()),
        "strong": wilson_share([row["strong"] for row in rows]),
        "for": wilson_share([row["for"] for row in rows]),
        "shares": {
            judgment.method: [judgment.share, *(judgment.interval or ())]
            for judgment in judged.methods
        },
        "greedy": [judged.greedy, *(judged.greedy_interval or ())],
    }


def judge_all(model: Model, inputs: Sequence[Any], seed: int, sizes: dict[str, int]) -> Judgment:
    """Judge the methods on all inputs; ``sizes`` is empty for exact methods."""
    settings: Any = sizes  # as Any, because `judge` has typed keywords
    budget = _BUDGET if sizes else None
    return judge(model, list(inputs), JUDGED, seed=seed, budget=budget, **settings)


def wilson_share(hits: Sequence[Any]) -> list[float]:
    """Return a share and its 95 % interval."""
    count = int(np.sum(np.array(hits, bool)))
    return [count / len(hits), *wilson_interval(count, len(hits))]


def _rows(
    model: Model, images: Sequence[ImageInput], sizes: dict[str, int], rng: Any, seed: int
) -> list[dict[str, Any]]:
    """Return the measurements of every image."""
    orders = [rng.permutation(_SIDE * _SIDE) for _ in images]
    shuffled_images = [
        shuffle_patches(image, order) for image, order in zip(images, orders, strict=True)
    ]
    attention = _explain(model, images, "alpha-avg")
    shuffled_attention = _explain(model, shuffled_images, "alpha-avg")
    pairs, samples = ({name: sizes[name]} if sizes else {} for name in ("pairs", "samples"))
    first_run, second_run = ({"seed": seed + k} if sizes else {} for k in (0, 1))
    shapley = _explain(model, images, "shapley", **first_run, **pairs)
    shapley_again = _explain(model, images, "shapley", **second_run, **pairs) if sizes else shapley
    coefficient = _explain(model, images, "lime", **samples)
    rows = []
    for i, order in enumerate(orders):
        alpha, shuffled_alpha = attention[i].scores, shuffled_attention[i].scores
        size = np.abs(shapley[i].scores)
        place, patch = _rank(shuffled_alpha, alpha), _rank(shuffled_alpha, alpha[order])
        first = int(np.argmax(alpha))
        rows.append(
            {
                "shapley": _rank(alpha, size),
                "lime": _rank(alpha, np.abs(coefficient[i].scores)),
                "again": _rank(size, np.abs(shapley_again[i].scores)),
                "place": place,
                "patch": patch,
                "moved": place - patch,
                "strong": first in np.argsort(-size, kind="stable")[:_STRONGEST],
                "for": shapley[i].scores[first] > 0,
                "prediction": _predicted_class(attention[i]),
                "shuffled_prediction": _predicted_class(shuffled_attention[i]),
                "alpha": alpha,
            }
        )
    return rows


def _predicted_class(explanation: Explanation) -> str:
    prediction = explanation.prediction
    return max(prediction, key=prediction.__getitem__)


def _explain(
    model: Model, images: Sequence[ImageInput], method: str, **settings: Any
) -> list[Explanation]:
    inputs: list[Any] = list(images)
    return explain(model, inputs, method, scale="score", **settings)


def _rank(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float:
    return rank_correlation(x, y) or 0.0


def shuffle_patches(image: ImageInput, order: Int[np.ndarray, " T"]) -> ImageInput:
    """Return the image whose patch at position t is the former patch at ``order[t]``."""
    height, width, channels = image.pixels.shape
    patch_height, patch_width = height // _SIDE, width // _SIDE
    grid = image.pixels.reshape(_SIDE, patch_height, _SIDE, patch_width, channels).swapaxes(1, 2)
    patches = grid.reshape(_SIDE * _SIDE, patch_height, patch_width, channels)[order]
    rows = patches.reshape(_SIDE, _SIDE, patch_height, patch_width, channels).swapaxes(1, 2)
    return ImageInput(np.ascontiguousarray(rows.reshape(image.pixels.shape)), image.name)


_FORMS = {
    "eq19": lime_theorem,
    "first_order": lime_first_order,
    "mean_field": lime_mean_field,
}


def _games(model: PatchClassifier, images: Sequence[ImageInput]) -> RatioGame:
    """Return the exact games of the images for their predicted classes."""
    inputs = [model.read(image) for image in images]
    target = np.eye(model.sizes["C"])[model.outputs(inputs).argmax(axis=1)]
    features = [build_features(model_input, "patches") for model_input in inputs]
    return combine_outputs(model.compute_tables(inputs, features).game, target)


def _distances(
    model: PatchClassifier, images: Sequence[ImageInput], seed: int
) -> dict[str, list[float]]:
    """Return the median over images of the relative L2 distance of formulas to exact LIME."""
    distances: dict[str, list[float]] = {name: [] for name in _FORMS}
    for start in range(0, len(images), _CHUNK):
        game = _games(model, images[start : start + _CHUNK])
        exact = lime(game, tolerance=1e-5).scores[:, 0]
        for name, form in _FORMS.items():
            distance = np.linalg.norm(form(game)[:, 0] - exact, axis=-1)
            distances[name] += (distance / np.linalg.norm(exact, axis=-1)).tolist()
    return {name: median_interval(values, seed=seed) for name, values in distances.items()}


def _figure(model: PatchClassifier, image: ImageInput, seed: int) -> Numbers:
    """Return the numbers that Figures 1 and 4 show for one image."""
    explanations = {name: _explain(model, [image], name)[0] for name in SHOWN}
    runs = [
        _explain(model, [image], "lime-sampled", samples=_SAMPLES, seed=seed * RUNS + run)[0].scores
        for run in range(RUNS)
    ]
    game = _games(model, [image])
    return {
        "pixels": image.pixels[:, :, 0],
        "target": explanations["lime"].target,
        "scores": {name: explanation.scores for name, explanation in explanations.items()},
        "labels": {name: explanation.label for name, explanation in explanations.items()},
        "signed": [name for name, explanation in explanations.items() if explanation.signed],
        "runs": runs,
        "values": {name: _FORMS[name](game)[0, 0] for name in ("eq19", "first_order")}
        | {"exact": explanations["lime"].scores},
    }
