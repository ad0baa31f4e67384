r"""Whether the paper's theorems hold where words are patches of a picture.

What was to be counted as a finding was written down before any number was looked at:

*Theorem 4.1, and every exact value.* They carry over if the largest distance to another road (the
gradient by autograd through full self-attention; Shapley values, LIME, Banzhaf values and leaving
one out by all 4,096 sets of 12 patches, from the pixels) is at most 1e-9 of the largest score.

*Theorem 5.1, corrected.* A text has T = T_max^ε tokens in its window and padding after them; the
relative error is then proven to fall like T_max^{ε−1}. A picture has no padding. So the theory says
of the slope of log error over log T_max: 0 where all patches are scored and the mean patch does not
weigh what a patch weighs (ε = 1), −½ where √T of the patches are scored and the others stay, and −1
for the mean field, with all patches scored. Each is as predicted if the slope, fitted to the median
error of random models at 16 to 1,024 patches, lies within 0.2 of that, and Eq. 19 as printed is not
a limit if its error at 1,024 patches is above 0.1. (The rule first said mean; a trial of 40 models
showed that a few with very uneven weights, of which the theorem does not speak, decide a mean. The
median took its place before the measurement that is stored.)
"""

__all__ = ["RATES", "SIDES", "formula_errors", "measure_theorems"]

import math
from functools import partial
from typing import Any

import numpy as np
import torch

from limelight import explain
from limelight.sampling.all_masks import lime_from_all_masks, shapley_values_from_all_masks
from limelight.text import build_features
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.lime import lime
from limelight.theory.ratio_game import combine_outputs
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.images.reference_classifier import (
    ReferencePatchClassifier,
    random_images,
    random_patch_classifier,
)
from limelight_reproduction.setting import Setting
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field
from limelight_reproduction.theory.paper import lime_theorem

SIDES = (4, 8, 16, 32)  # of a grid: 16 to 1,024 patches
# What is measured of each way to score: the formula, whether all patches are scored, the slope.
RATES = {
    "first_order": ("corrected first order, all patches", 0.0),
    "region": ("corrected first order, √T patches", -0.5),
    "mean_field": ("mean field, all patches", -1.0),
}
_FORMS = {"eq19": lime_theorem, "first_order": lime_first_order}
_MODELS, _QUICK_MODELS = 100, 10


def measure_theorems(setting: Setting) -> Numbers:
    """Return distances to autograd and to all subsets, and errors by the number of patches."""
    rng = np.random.default_rng([setting.seed, 29])
    count = _QUICK_MODELS if setting.quick else _MODELS
    distances = [_distances(rng) for _ in range(count)]
    errors = []
    for done, side in enumerate(SIDES):
        setting.tick(done, len(SIDES))
        errors.append(np.median([formula_errors(rng, side) for _ in range(count)], axis=0))
    names = ("eq19", *RATES)
    by_patches = dict(zip(names, np.transpose(errors), strict=True))
    patches = np.array(SIDES) ** 2
    return round_for_json(
        {
            "models": count,
            "distances": {name: max(one[name] for one in distances) for name in distances[0]},
            "patches": patches,
            "errors": by_patches,
            "slopes": {
                name: float(np.polyfit(np.log(patches), np.log(by_patches[name]), 1)[0])
                for name in names
            },
        }
    )


def _distances(rng: np.random.Generator) -> dict[str, float]:
    """Return the largest distance of each method to the other road, over its largest score."""
    model = random_patch_classifier(rng, (3, 4))
    (picture,) = random_images(rng, model, 1)
    several: list[Any] = [picture]
    whole = ReferencePatchClassifier(model)
    model_input = model.read(picture)
    features = build_features(model_input, "patches")
    target = model.classes.index(explain(model, several, "loo")[0].target)
    e = whole.embedded(torch.tensor(picture.pixels[None] / 255)).requires_grad_()
    whole(e)[0, target].backward()
    aim = np.eye(len(model.classes))[[target]]
    roads = {
        "gradient": (
            model.compute_tables([model_input], [features]).gradient(aim)[0],
            e.grad[0].numpy(),
        )
    }
    keep = enumerate_masks(len(features))
    f = whole.removed(picture.pixels, keep)[:, target : target + 1]
    known = {tuple(row): value for row, value in zip(keep.tolist(), f, strict=True)}

    def game(asked: np.ndarray) -> np.ndarray:
        return np.array([known[tuple(row)] for row in asked.tolist()])

    d = len(features)
    expected = {
        "shapley": shapley_values_from_all_masks(game, d)[0],
        "lime": lime_from_all_masks(game, d).scores[0],
        "loo": (game(np.ones((1, d), bool)) - game(~np.eye(d, dtype=bool)))[:, 0],
    }
    for name, values in expected.items():
        given: dict[str, Any] = {} if name == "loo" else {"tolerance": 1e-12}
        roads[name] = (explain(model, several, name, scale="score", **given)[0].scores, values)
    return {
        name: float(np.abs(found - other).max() / np.abs(other).max())
        for name, (found, other) in roads.items()
    }


def formula_errors(rng: np.random.Generator, side: int) -> list[float]:
    """Return the relative L2 distance to exact LIME (ν = ∞) of Eq. 19 and of the three in RATES."""
    model = random_patch_classifier(rng, (side, side))
    (picture,) = random_images(rng, model, 1)
    model_input = model.read(picture)
    found = []
    patches = np.arange(side * side)
    some = np.where(np.isin(patches, rng.permutation(patches)[:side]), patches, -1)
    for unit in ("patches", some):
        features = build_features(model_input, unit)
        game = combine_outputs(model.compute_tables([model_input], [features]).game, np.eye(2)[[0]])
        exact = lime(game, bandwidth=math.inf, tolerance=1e-7).scores
        forms: dict[str, Any] = {
            **_FORMS,
            "mean_field": partial(lime_mean_field, bandwidth=math.inf),
        }
        found.append(
            {
                name: float(np.linalg.norm(form(game) - exact) / np.linalg.norm(exact))
                for name, form in forms.items()
            }
        )
    whole, region = found
    return [whole["eq19"], whole["first_order"], region["first_order"], whole["mean_field"]]
