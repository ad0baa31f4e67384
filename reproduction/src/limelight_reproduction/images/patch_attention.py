r"""Whether attention says of patches what LIME and Shapley values say, in one layer and in six.

What was to be counted as a finding was written down before any number was looked at. Pictures are
drawn from Fashion-MNIST's test pictures; the class is the one that is predicted, its logit the
output, and a removed patch becomes the mean patch (one layer) or the mean color (six layers).

*Ranks.* ρ of a picture: the rank correlation over its patches of α-avg with the absolute Shapley
value, and with the absolute LIME coefficient. With the interval of the median over pictures,
attention ranks patches as they do if all of it is at least 0.8, it does not if all of it is at most
0.5, and does so in part otherwise. Sampled values are noisy: ρ of two independent runs stands
beside it.

*Faithfulness.* The share of the way from a random order of removal to the ceiling (one layer) or to
the best order that was found (six), by `limelight.judge`. Attention is less faithful than Shapley
values if its interval ends before theirs begins.

*Position or content.* The patches of each picture are put in random order, and attention is asked
again. Over patches it is rank-correlated with the attention that the same *place* had before, and
with the attention that the same *patch* had before. Position matters more than content if the
interval of the median difference of the two lies above 0, and less if it lies below 0.

*The first patch*, as for texts: is the most attended one among the three strongest by |Shapley|,
and does it speak for the decision?
"""

__all__ = ["JUDGED", "LIKE", "RUNS", "SHOWN", "UNLIKE", "measure_deep", "measure_one_layer"]

from collections.abc import Sequence
from typing import Any

import numpy as np

from limelight import Model, explain, judge
from limelight.models.attention import PatchClassifier
from limelight.shapes import Float, Int
from limelight.text import ImageInput, build_features
from limelight.theory.lime import lime
from limelight.theory.ratio_game import combine_outputs
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
_SIDE = 7  # patches in a row of a picture, for both models


def measure_one_layer(setting: Setting) -> Numbers:
    """Return what is asked above of the paper's classifier, and Figures 1 and 4 over patches."""
    model, data = setting.patch_classifier, _drawn(setting)
    found = _measured(setting, model, data, {})
    return round_for_json(
        {
            **found,
            "distance": _distances(model, data.texts, setting.seed),
            "figure": _figure(model, data.texts[0], setting.seed),
            "sizes": model.sizes,
        },
        digits=4,
    )


def measure_deep(setting: Setting) -> Numbers:
    """Return what is asked above of a Hugging Face model of pictures."""
    few = {"pairs": 2, "samples": 200} if setting.quick else {"pairs": 8, "samples": 1000}
    return round_for_json(
        {**_measured(setting, setting.image_classifier, _drawn(setting), few), **few}, digits=4
    )


def _drawn(setting: Setting) -> Any:
    return setting.sample_texts(
        "fashion_mnist", "test", QUICK_PICTURES if setting.quick else PICTURES
    )


def _measured(setting: Setting, model: Model, data: Any, few: dict[str, int]) -> Numbers:
    rows: list[dict[str, Any]] = []
    rng = np.random.default_rng([setting.seed, 31])
    for start in range(0, len(data), _CHUNK):
        setting.tick(start, len(data))
        rows += _rows(model, data.texts[start : start + _CHUNK], few, rng, setting.seed)
    names = {name: i for i, name in enumerate(model.classes)}
    label = [model.classes[i] for i in data.labels]
    medians = ("shapley", "lime", "again", "place", "patch", "moved")
    judged = judge(model, list(data.texts), JUDGED, seed=setting.seed, **_settings(few))
    alpha = np.array([row["alpha"] for row in rows])
    return {
        "pictures": len(rows),
        "classes": len(names),
        "right": wilson_share([row["told"] == own for row, own in zip(rows, label, strict=True)]),
        "right_shuffled": wilson_share(
            [row["told_shuffled"] == own for row, own in zip(rows, label, strict=True)]
        ),
        "rho": {
            name: median_interval([row[name] for row in rows], seed=setting.seed)
            for name in medians
        },
        # Of the variance of attention over pictures and patches, what the place alone says.
        "by_place": 1 - float(((alpha - alpha.mean(axis=0)) ** 2).mean() / alpha.var()),
        "strong": wilson_share([row["strong"] for row in rows]),
        "for": wilson_share([row["for"] for row in rows]),
        "shares": {one.method: [one.share, *(one.interval or ())] for one in judged.methods},
        "greedy": [judged.greedy, *(judged.greedy_interval or ())],
    }


def _settings(few: dict[str, int]) -> Any:
    return few


def wilson_share(hits: Sequence[Any]) -> list[float]:
    """Return a share and its 95 % interval."""
    count = int(np.sum(np.array(hits, bool)))
    return [count / len(hits), *wilson_interval(count, len(hits))]


def _rows(
    model: Model, pictures: Sequence[ImageInput], few: dict[str, int], rng: Any, seed: int
) -> list[dict[str, Any]]:
    orders = [rng.permutation(_SIDE * _SIDE) for _ in pictures]
    moved = [shuffle_patches(one, order) for one, order in zip(pictures, orders, strict=True)]
    alpha, after = (_explained(model, given, "alpha-avg") for given in (pictures, moved))
    pairs, samples = ({name: few[name]} if few else {} for name in ("pairs", "samples"))
    first_run, second_run = ({"seed": seed + k} if few else {} for k in (0, 1))
    value = _explained(model, pictures, "shapley", **first_run, **pairs)
    again = _explained(model, pictures, "shapley", **second_run, **pairs) if few else value
    coefficient = _explained(model, pictures, "lime", **samples)
    rows = []
    for i, order in enumerate(orders):
        a, b, v = alpha[i].scores, after[i].scores, np.abs(value[i].scores)
        place, patch = _rank(b, a), _rank(b, a[order])
        first = int(np.argmax(a))
        rows.append(
            {
                "shapley": _rank(a, v),
                "lime": _rank(a, np.abs(coefficient[i].scores)),
                "again": _rank(v, np.abs(again[i].scores)),
                "place": place,
                "patch": patch,
                "moved": place - patch,
                "strong": first in np.argsort(-v, kind="stable")[:_STRONGEST],
                "for": value[i].scores[first] > 0,
                "told": max(alpha[i].prediction, key=alpha[i].prediction.__getitem__),
                "told_shuffled": max(after[i].prediction, key=after[i].prediction.__getitem__),
                "alpha": a,
            }
        )
    return rows


def _explained(model: Model, pictures: Sequence[ImageInput], method: str, **given: Any) -> Any:
    several: list[Any] = list(pictures)
    return explain(model, several, method, scale="score", **given)


def _rank(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float:
    return rank_correlation(x, y) or 0.0


def shuffle_patches(picture: ImageInput, order: Int[np.ndarray, " T"]) -> ImageInput:
    """Return the picture whose patch at place t is the one that was at ``order[t]``."""
    height, width, channels = picture.pixels.shape
    high, wide = height // _SIDE, width // _SIDE
    apart = picture.pixels.reshape(_SIDE, high, _SIDE, wide, channels).swapaxes(1, 2)
    mixed = apart.reshape(_SIDE * _SIDE, high, wide, channels)[order]
    whole = mixed.reshape(_SIDE, _SIDE, high, wide, channels).swapaxes(1, 2)
    return ImageInput(np.ascontiguousarray(whole.reshape(picture.pixels.shape)), picture.name)


_FORMS = {
    "eq19": lime_theorem,
    "first_order": lime_first_order,
    "mean_field": lime_mean_field,
}


def _games(model: PatchClassifier, pictures: Sequence[ImageInput]) -> Any:
    inputs = [model.read(one) for one in pictures]
    target = np.eye(model.sizes["C"])[model.outputs(inputs).argmax(axis=1)]
    features = [build_features(one, "patches") for one in inputs]
    return combine_outputs(model.compute_tables(inputs, features).game, target)


def _distances(
    model: PatchClassifier, pictures: Sequence[ImageInput], seed: int
) -> dict[str, list[float]]:
    """Return the median over pictures of the relative L2 distance of formulas to exact LIME."""
    found: dict[str, list[float]] = {name: [] for name in _FORMS}
    for start in range(0, len(pictures), _CHUNK):
        game = _games(model, pictures[start : start + _CHUNK])
        exact = lime(game, tolerance=1e-5).scores[:, 0]
        for name, form in _FORMS.items():
            far = np.linalg.norm(form(game)[:, 0] - exact, axis=-1)
            found[name] += (far / np.linalg.norm(exact, axis=-1)).tolist()
    return {name: median_interval(values, seed=seed) for name, values in found.items()}


def _figure(model: PatchClassifier, picture: ImageInput, seed: int) -> Numbers:
    """Return what Figures 1 and 4 show of one picture."""
    found = {name: _explained(model, [picture], name)[0] for name in SHOWN}
    runs = [
        _explained(model, [picture], "lime-sampled", samples=_SAMPLES, seed=seed * RUNS + run)[
            0
        ].scores
        for run in range(RUNS)
    ]
    game = _games(model, [picture])
    return {
        "pixels": picture.pixels[:, :, 0],
        "target": found["lime"].target,
        "scores": {name: one.scores for name, one in found.items()},
        "labels": {name: one.label for name, one in found.items()},
        "signed": [name for name, one in found.items() if one.signed],
        "runs": runs,
        "values": {name: _FORMS[name](game)[0, 0] for name in ("eq19", "first_order")}
        | {"exact": found["lime"].scores},
    }
