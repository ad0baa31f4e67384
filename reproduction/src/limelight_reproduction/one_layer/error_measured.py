"""The way from Eq. 19 to what the `lime` package returns, measured step by step."""

__all__ = [
    "RUNS",
    "SHIPPED_EXACT_TEXTS",
    "SHIPPED_TEXTS",
    "STEPS",
    "VALUES",
    "decomposition",
    "distances_of_authors",
    "measure",
    "measure_as_authors",
    "measure_seed",
    "noise_of_mean",
]

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limelight import AttentionClassifier
from limelight.shapes import Float
from limelight.text import token_strings
from limelight_reproduction.document import strings, stripped
from limelight_reproduction.experiment import Numbers, compact
from limelight_reproduction.one_layer.lime_values import EXACT, exact_values, lime_runs
from limelight_reproduction.setting import Setting

RUNS, TEXTS = 5, 200
SHIPPED_TEXTS = SEED_TEXTS = 500
# By the authors' protocol the number is compared with theirs, which is over the whole test set: its
# standard error must be small beside the difference of 0.03 that a hundred reviews left open.
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


def decomposition(values: Mapping[str, Float[np.ndarray, " d"]]) -> dict[str, Any]:
    r"""Return how the way from Eq. 19 to LIME divides into steps, for one text.

    With e the whole way and s the steps, e = Σ s; ``step`` is ‖s‖, ``left`` the distance ‖·‖ from
    LIME, and ``share`` is s·e/‖e‖², which adds up to one.
    """
    path = [np.asarray(values[name]) for name in VALUES]
    whole = path[-1] - path[0]
    steps = dict(zip(STEPS, np.diff(path, axis=0), strict=True))
    size = float(whole @ whole)
    return {
        "left": {
            name: float(np.linalg.norm(path[-1] - one))
            for name, one in zip(VALUES, path, strict=True)
        },
        "step": {name: float(np.linalg.norm(step)) for name, step in steps.items()},
        "share": {name: float(step @ whole) / size for name, step in steps.items()},
    }


def measure(
    setting: Setting,
    model: AttentionClassifier,
    *,
    sampled_texts: int = TEXTS,
    exact_texts: int = EXACT_TEXTS,
) -> Numbers:
    """Measure the steps from Eq. 19 to LIME, and over more reviews the values without sampling.

    Parameters
    ----------
    setting
        The run. If it is quick, its own small numbers of texts replace the two below.
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
    data = setting.some_texts("imdb", "test", QUICK_TEXTS if setting.quick else sampled_texts)
    texts = strings(data)
    sampled = dict(exact_values(model, texts))
    rows: list[dict[str, Any]] = []
    for i, values in sampled.items():
        setting.tick(len(rows), len(sampled))
        runs, unk = (
            lime_runs(model, texts[i], runs=RUNS, replacement=how, seed=setting.seed)
            for how in ("delete", "unk")
        )
        path = values | {"delete": runs[1:].mean(axis=0), "lime": runs[0]}
        rows.append(
            decomposition(path)
            | {
                "mean_of_runs": float(np.linalg.norm(runs.mean(axis=0) - values["eq19"])),
                "unk_left": float(np.linalg.norm(unk.mean(axis=0) - values["exact"])),
                "unk_noise": noise_of_mean(unk),
                "norm": float(np.linalg.norm(runs.mean(axis=0))),
                "words": len(runs[0]),
            }
        )
    return compact(
        {
            "texts": len(rows),
            "words": float(np.mean([row["words"] for row in rows])),
            "norm": _spread([row["norm"] for row in rows]),
            "protocol": _spread([row["left"]["eq19"] for row in rows]),
            "protocol_mean_of_runs": _spread([row["mean_of_runs"] for row in rows]),
            "unk_left": _spread([row["unk_left"] for row in rows]),
            "unk_noise": _spread([row["unk_noise"] for row in rows]),
            "left": {n: _spread([row["left"][n] for row in rows]) for n in VALUES},
            "step": {n: _spread([row["step"][n] for row in rows]) for n in STEPS},
            "share": {n: _spread([row["share"][n] for row in rows]) for n in STEPS},
            "errors": [row["left"]["eq19"] for row in rows],
            "every": _every(setting, model, exact_texts),
        },
        digits=4,
    )


def measure_as_authors(setting: Setting) -> Numbers:
    """Return the same distance by the authors' own protocol, for the paper's recipe.

    ``quarters`` are the reviews by length: the median number of tokens and the mean distance.
    """
    count = QUICK_AUTHORS if setting.quick else AUTHORS_TEXTS
    texts = strings(setting.some_texts("imdb", "test", count))
    left, tokens, size = np.transpose(distances_of_authors(setting, setting.paper, texts))
    by_length = np.array_split(np.argsort(tokens, kind="stable"), 4)
    return compact(
        {
            "texts": len(left),
            "protocol": _spread(left),
            "norm": _spread(size),
            "quarters": [[np.median(tokens[rows]), left[rows].mean()] for rows in by_length],
        },
        digits=4,
    )


def distances_of_authors(
    setting: Setting, model: AttentionClassifier, texts: Sequence[str]
) -> list[tuple[float, int, float]]:
    """Return the distance from Eq. 19 to LIME of every text by the authors' protocol.

    Texts keep letters and digits alone and end after 255 tokens, so that nothing moves into the
    window when words are deleted; and the distance is to the mean of five runs. With it come the
    number of tokens and the length of LIME's own coefficients. Texts are in another order.
    """
    cut = [" ".join(token_strings(stripped(text))[: model.T_max - 1]) for text in texts]
    values = dict(exact_values(model, cut))
    found: list[tuple[float, int, float]] = []
    for i, of in values.items():
        setting.tick(len(found), len(values))
        lime = lime_runs(model, cut[i], runs=RUNS, replacement="delete", seed=setting.seed)
        mean = lime.mean(axis=0)
        left, size = (float(np.linalg.norm(x)) for x in (mean - of["eq19"], mean))
        found.append((left, len(cut[i].split()), size))
    return found


def _every(setting: Setting, model: AttentionClassifier, exact_texts: int) -> Numbers:
    """Return the distances between the values that need no sampling, over more texts."""
    count = QUICK_EXACT if setting.quick else exact_texts
    texts = strings(setting.some_texts("imdb", "test", count))
    pairs = [(one, "exact") for one in EXACT[:-1]] + [("eq19", "wide"), ("first_order", "wide")]
    found: dict[str, list[float]] = {f"{a}-{b}": [] for a, b in pairs}
    for count, (_, values) in enumerate(exact_values(model, texts)):
        if count % 100 == 0:
            setting.tick(count, len(texts))
        for a, b in pairs:
            found[f"{a}-{b}"].append(float(np.linalg.norm(values[a] - values[b])))
    return {"texts": len(found["eq19-exact"])} | {pair: _spread(x) for pair, x in found.items()}


def _spread(values: Sequence[float] | Float[np.ndarray, " n"]) -> list[float]:
    """Return mean and standard deviation."""
    return [float(np.mean(values)), float(np.std(values))]


def noise_of_mean(runs: Float[np.ndarray, "runs d"]) -> float:
    """Return the length that the noise in the mean of ``runs`` has, as the runs themselves show."""
    return float(np.linalg.norm(runs.std(axis=0, ddof=1)) / len(runs) ** 0.5)


def measure_seed(setting: Setting, seed: int) -> Numbers:
    """Return the distance of Eq. 19 to one run of LIME, for another seed of the paper's recipe."""
    model = setting.paper_of_seed(seed)
    count = QUICK_TEXTS if setting.quick else SEED_TEXTS
    texts = strings(setting.some_texts("imdb", "test", count))
    values = dict(exact_values(model, texts))
    left: list[float] = []
    for i, of in values.items():
        setting.tick(len(left), len(values))
        (run,) = lime_runs(model, texts[i], runs=1, replacement="delete", seed=setting.seed)
        left.append(float(np.linalg.norm(run - of["eq19"])))
    return compact({"texts": len(left), "protocol": _spread(left)}, digits=4)
