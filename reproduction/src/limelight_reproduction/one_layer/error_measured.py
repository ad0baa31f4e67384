"""Measure the error of Eq. 19 against the `lime` package, divided into steps."""

__all__ = [
    "RUNS",
    "SHIPPED_EXACT_TEXTS",
    "SHIPPED_TEXTS",
    "STEPS",
    "VALUES",
    "authors_distances",
    "decompose_error",
    "measure",
    "measure_authors_protocol",
    "measure_seed",
    "noise_of_mean",
]

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limelight import AttentionClassifier
from limelight.shapes import Float
from limelight.text import token_strings
from limelight_reproduction.document import keep_letters_and_digits, list_texts
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.one_layer.lime_values import (
    UNSAMPLED,
    compute_unsampled_values,
    run_lime,
)
from limelight_reproduction.setting import Setting

RUNS, TEXTS = 5, 200
SHIPPED_TEXTS = SEED_TEXTS = 500
# The authors' number is over the whole test set. To compare with it, the standard error must be
# small beside a difference of 0.03, which 100 reviews could not decide.
AUTHORS_TEXTS = 2000
EXACT_TEXTS = 1000  # without sampling: enough for a standard error below 0.01
SHIPPED_EXACT_TEXTS = 25_000  # the test set
QUICK_TEXTS, QUICK_EXACT, QUICK_AUTHORS = 20, 500, 60
VALUES = {
    "eq19": "Eq. 19 as printed",
    "first_order": "first order, corrected",
    "wide": "exact, infinite bandwidth",
    "exact": "exact, bandwidth 0.25",
    "delete": f"words deleted (mean of {RUNS - 1} runs)",
    "lime": "one run of LIME",
}
STEPS = {
    "first_order": "the two slips",
    "wide": "first order",
    "exact": "bandwidth",
    "delete": "deletion",
    "lime": "sampling noise",
}


def decompose_error(values: Mapping[str, Float[np.ndarray, " d"]]) -> dict[str, Any]:
    r"""Divide the difference between Eq. 19 and LIME on one text into steps.

    ``values`` are the coefficients by Eq. 19, by LIME, and in between (see ``VALUES``). The
    difference e is the sum of the steps s. In the result, ``step`` has ‖s‖, ``left`` has the
    distance of each value from LIME, and ``share`` has s·e/‖e‖². The shares add up to 1.
    """
    path = [np.asarray(values[name]) for name in VALUES]
    difference = path[-1] - path[0]
    steps = dict(zip(STEPS, np.diff(path, axis=0), strict=True))
    squared_norm = float(difference @ difference)
    return {
        "left": {
            name: float(np.linalg.norm(path[-1] - value))
            for name, value in zip(VALUES, path, strict=True)
        },
        "step": {name: float(np.linalg.norm(step)) for name, step in steps.items()},
        "share": {name: float(step @ difference) / squared_norm for name, step in steps.items()},
    }


def measure(
    setting: Setting,
    model: AttentionClassifier,
    *,
    sampled_texts: int = TEXTS,
    exact_texts: int = EXACT_TEXTS,
) -> Numbers:
    """Measure the steps from Eq. 19 to LIME, and exact values on a larger number of reviews.

    Parameters
    ----------
    setting
        The run. A quick run replaces both numbers of texts by small ones.
    model
        The classifier to explain.
    sampled_texts
        Number of test reviews on which LIME is sampled.
    exact_texts
        Number of test reviews on which only exact values and formulas are compared.

    Returns
    -------
    Means and standard deviations of every distance, by name.
    """
    reviews = setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else sampled_texts)
    texts = list_texts(reviews)
    values_by_text = dict(compute_unsampled_values(model, texts))
    rows: list[dict[str, Any]] = []
    for i, values in values_by_text.items():
        setting.tick(len(rows), len(values_by_text))
        runs, unk = (
            run_lime(model, texts[i], runs=RUNS, replacement=replacement, seed=setting.seed)
            for replacement in ("delete", "unk")
        )
        coefficients = values | {"delete": runs[1:].mean(axis=0), "lime": runs[0]}
        rows.append(
            decompose_error(coefficients)
            | {
                "mean_of_runs": float(np.linalg.norm(runs.mean(axis=0) - values["eq19"])),
                "unk_left": float(np.linalg.norm(unk.mean(axis=0) - values["exact"])),
                "unk_noise": noise_of_mean(unk),
                "norm": float(np.linalg.norm(runs.mean(axis=0))),
                "words": len(runs[0]),
            }
        )
    return round_for_json(
        {
            "texts": len(rows),
            "words": float(np.mean([row["words"] for row in rows])),
            "norm": _mean_and_deviation([row["norm"] for row in rows]),
            "protocol": _mean_and_deviation([row["left"]["eq19"] for row in rows]),
            "protocol_mean_of_runs": _mean_and_deviation([row["mean_of_runs"] for row in rows]),
            "unk_left": _mean_and_deviation([row["unk_left"] for row in rows]),
            "unk_noise": _mean_and_deviation([row["unk_noise"] for row in rows]),
            "left": {n: _mean_and_deviation([row["left"][n] for row in rows]) for n in VALUES},
            "step": {n: _mean_and_deviation([row["step"][n] for row in rows]) for n in STEPS},
            "share": {n: _mean_and_deviation([row["share"][n] for row in rows]) for n in STEPS},
            "errors": [row["left"]["eq19"] for row in rows],
            "every": _measure_exact_distances(setting, model, exact_texts),
        },
        digits=4,
    )


def measure_authors_protocol(setting: Setting) -> Numbers:
    """Measure the distance from Eq. 19 to LIME by the authors' protocol, for the paper's recipe.

    In the result, ``quarters`` has four groups of reviews by length, each with the median number of
    tokens and the mean distance.
    """
    count = QUICK_AUTHORS if setting.quick else AUTHORS_TEXTS
    texts = list_texts(setting.sample_texts("imdb", "test", count))
    distances, tokens, norms = np.transpose(authors_distances(setting, setting.recipe_model, texts))
    by_length = np.array_split(np.argsort(tokens, kind="stable"), 4)
    return round_for_json(
        {
            "texts": len(distances),
            "protocol": _mean_and_deviation(distances),
            "norm": _mean_and_deviation(norms),
            "quarters": [[np.median(tokens[rows]), distances[rows].mean()] for rows in by_length],
        },
        digits=4,
    )


def authors_distances(
    setting: Setting, model: AttentionClassifier, texts: Sequence[str]
) -> list[tuple[float, int, float]]:
    """Measure every text by the authors' protocol.

    Texts are reduced to letters and digits and end after 255 tokens, so that no token moves into
    the window when words are deleted. The distance is that of Eq. 19 to the mean of five runs.

    Returns
    -------
    For each text the distance, the number of tokens and the norm of LIME's coefficients. The texts
    are not in their original order.
    """
    short_texts = [
        " ".join(token_strings(keep_letters_and_digits(text))[: model.T_max - 1]) for text in texts
    ]
    values = dict(compute_unsampled_values(model, short_texts))
    rows: list[tuple[float, int, float]] = []
    for i, text_values in values.items():
        setting.tick(len(rows), len(values))
        lime_runs = run_lime(
            model, short_texts[i], runs=RUNS, replacement="delete", seed=setting.seed
        )
        mean = lime_runs.mean(axis=0)
        distance, norm = (float(np.linalg.norm(x)) for x in (mean - text_values["eq19"], mean))
        rows.append((distance, len(short_texts[i].split()), norm))
    return rows


def _measure_exact_distances(
    setting: Setting, model: AttentionClassifier, exact_texts: int
) -> Numbers:
    """Measure the distances between the values that need no sampling."""
    count = QUICK_EXACT if setting.quick else exact_texts
    texts = list_texts(setting.sample_texts("imdb", "test", count))
    pairs = [(name, "exact") for name in UNSAMPLED[:-1]] + [
        ("eq19", "wide"),
        ("first_order", "wide"),
    ]
    distances: dict[str, list[float]] = {f"{a}-{b}": [] for a, b in pairs}
    for i, (_, values) in enumerate(compute_unsampled_values(model, texts)):
        if i % 100 == 0:
            setting.tick(i, len(texts))
        for a, b in pairs:
            distances[f"{a}-{b}"].append(float(np.linalg.norm(values[a] - values[b])))
    return {"texts": len(distances["eq19-exact"])} | {
        pair: _mean_and_deviation(x) for pair, x in distances.items()
    }


def _mean_and_deviation(values: Sequence[float] | Float[np.ndarray, " n"]) -> list[float]:
    """Return the mean and the standard deviation."""
    return [float(np.mean(values)), float(np.std(values))]


def noise_of_mean(runs: Float[np.ndarray, "runs d"]) -> float:
    """Estimate the norm of the sampling noise in the mean of ``runs`` from their spread."""
    return float(np.linalg.norm(runs.std(axis=0, ddof=1)) / len(runs) ** 0.5)


def measure_seed(setting: Setting, seed: int) -> Numbers:
    """Measure the distance of Eq. 19 to one run of LIME for one seed of the paper's recipe."""
    model = setting.train_recipe_model(seed)
    text_count = QUICK_TEXTS if setting.quick else SEED_TEXTS
    texts = list_texts(setting.sample_texts("imdb", "test", text_count))
    values = dict(compute_unsampled_values(model, texts))
    distances: list[float] = []
    for i, text_values in values.items():
        setting.tick(len(distances), len(values))
        (run,) = run_lime(model, texts[i], runs=1, replacement="delete", seed=setting.seed)
        distances.append(float(np.linalg.norm(run - text_values["eq19"])))
    return round_for_json(
        {"texts": len(distances), "protocol": _mean_and_deviation(distances)}, digits=4
    )
