"""Exact LIME and Shapley values, against the `lime` and `shap` packages on the same model.

    python benchmarks/perturbation.py

(The file is not called lime.py, for the package of that name would then be this file.)
"""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import shap
import torch
from lime.lime_text import LimeTextExplainer

import limelight
from limelight.models.attention import AttentionClassifier, padded_ids
from limelight.text import token_strings
from limelight_reproduction.one_layer.full_attention import FullAttention
from measuring import interleaved, on_cores, seconds
from results import Measure, command_line, report
from reviews import Reviews, reviews

SIZES = (16, 32, 64, 128, 255, 512, 1024, 2048)


def main() -> None:
    """Measure LIME and Shapley against the packages, and growth with the number of words."""
    arguments = command_line(__doc__ or "").parse_args()
    smoke = arguments.smoke
    on_cores(1)
    torch.set_num_threads(1)
    model = limelight.load()
    data = reviews(model, count=16 if smoke else None)
    # The packages find tokens in the text again: single spaces between them leave no doubt where.
    inside = token_strings(data.median(T_max=model.T_max))[: 12 if smoke else model.T_max - 1]
    text = " ".join(inside)
    measures = [
        *against_lime(model, text, samples=50 if smoke else 5000, rounds=1 if smoke else 5),
        *against_shap(model, text, rounds=1 if smoke else 5),
        *hundred_words(model, data, repeats=1 if smoke else 15),
        *growth(model, data, sizes=SIZES[:2] if smoke else SIZES, repeats=1 if smoke else 5),
    ]
    report("perturbation", measures, arguments, data=data.source)


def against_lime(
    model: AttentionClassifier, text: str, *, samples: int, rounds: int
) -> Iterator[Measure]:
    """The exact limit, and the package with bow=False, where UNK takes a word's place."""
    d, T = len(set(text.split())), len(text.split())
    module = FullAttention.from_classifier(model)
    ask = partial(lime_package, text, samples=samples)
    words = partial(limelight.explain, model, text, "lime")
    positions = partial(words, features="positions")
    taken = interleaved(
        {"words": words, "positions": positions, "package": partial(ask, both_logits(model))},
        rounds=rounds,
        times={"words": 5, "positions": 5},
    )
    # Once: it takes a minute, and nothing is warmed up by a first call.
    taken["torch"] = seconds(
        partial(ask, partial(_module_logits, model, module)), repeats=1, warm=False
    )
    median = {name: 1000 * float(np.median(values)) for name, values in taken.items()}
    best = {name: 1000 * float(values.min()) for name, values in taken.items()}
    exact = words()
    labels = {
        "words": (f"lime, exact, {d} words", f"bound {exact.bound:.1g}"),
        "positions": (f"lime, exact, {T} positions", f"bound {positions().bound:.1g}"),
        "package": (f"lime package, {samples} samples, our predictions", ""),
        "torch": (f"lime package, {samples} samples, torch module", "full attention, one run"),
    }
    for name, (what, note) in labels.items():
        yield _time(f"lime_{name}", what, median[name], best[name], note=note)
    for other, wanted in (("package", 100), ("torch", 1000)):
        for ours in ("words", "positions"):
            yield Measure(
                id=f"lime_speedup_{other}_{ours}",
                what=f"exact lime of {ours} over the {labels[other][0]}",
                value=median[other] / median[ours],
                best=best[other] / best[ours],
                unit="×",
                at_least=wanted,
            )
    drawn = ask(both_logits(model))
    error = np.abs(drawn - positions().scores)
    yield Measure(
        id="lime_package_error",
        what="lime package, largest error of a score",
        value=float(error.max()),
        note=f"its sampling noise; largest score {np.abs(positions().scores).max():.2g}",
    )


def both_logits(model: AttentionClassifier) -> Callable[[list[str]], np.ndarray]:
    """Return our fastest predictions, with a column for each of the two classes."""

    def predict(texts: list[str]) -> np.ndarray:
        f = model.logits(texts)
        return np.concatenate([-f, f], axis=1)

    return predict


def _module_logits(
    model: AttentionClassifier, module: FullAttention, texts: list[str]
) -> np.ndarray:
    rows = [model.vocabulary.encode(token_strings(text)[: model.T_max - 1]) for text in texts]
    ids = torch.from_numpy(padded_ids(rows, T_max=model.T_max)).long()
    with torch.inference_mode():
        f = torch.cat([module(batch) for batch in ids.split(1)]).numpy()  # its fastest
    return np.concatenate([-f, f], axis=1)


def lime_package(
    text: str, predict: Callable[[list[str]], np.ndarray], *, samples: int
) -> np.ndarray:
    """Return the package's coefficient of every token of the text."""
    explainer = LimeTextExplainer(
        class_names=["negative", "positive"],
        bow=False,
        mask_string="UNK",
        split_expression=str.split,
        random_state=0,
    )
    d = len(text.split())
    found = explainer.explain_instance(text, predict, num_samples=samples, num_features=d)
    scores = np.zeros(d)
    for place, score in found.as_map()[1]:
        scores[place] = score
    return scores


def against_shap(model: AttentionClassifier, text: str, *, rounds: int) -> Iterator[Measure]:
    """Exact Shapley values of positions, and shap's default for texts at its default budget."""
    ours = partial(limelight.explain, model, text, "shapley", features="positions")
    words = partial(limelight.explain, model, text, "shapley")
    theirs = partial(shap_package, model, text)
    taken = interleaved(
        {"positions": ours, "words": words, "package": theirs},
        rounds=rounds,
        times={"positions": 5, "words": 5},
    )
    median = {name: 1000 * float(np.median(values)) for name, values in taken.items()}
    best = {name: 1000 * float(values.min()) for name, values in taken.items()}
    exact, found = ours(), theirs()
    T, d = len(text.split()), len(set(text.split()))
    off, size = np.abs(found - exact.scores), np.abs(exact.scores).max()
    bound = f"bound {exact.bound:.1g}; largest score {size:.2g}"
    yield _time("shapley_words", f"shapley, exact, {d} words", median["words"], best["words"])
    yield _time(
        "shapley_positions", f"shapley, exact, {T} positions", median["positions"],
        best["positions"], note=bound,
    )  # fmt: skip
    yield _time(
        "shapley_package", "shap.Explainer with a text masker, our predictions",
        median["package"], best["package"], note="partition explainer, 500 evaluations",
    )  # fmt: skip
    yield Measure(
        id="shapley_speedup",
        what="exact shapley of positions over shap",
        value=median["package"] / median["positions"],
        best=best["package"] / best["positions"],
        unit="×",
        at_least=20,
    )
    yield Measure(
        id="shapley_bound", what="shapley, proven bound on our error", value=float(exact.bound or 0)
    )
    yield Measure(
        id="shapley_package_error",
        what="shap, largest error of a score against the exact value",
        value=float(off.max()),
        note=f"relative L2 {np.linalg.norm(off) / np.linalg.norm(exact.scores):.0%}",
    )


def shap_package(model: AttentionClassifier, text: str) -> np.ndarray:
    """Return shap's value of every token of the text, UNK in the place of what it hides."""
    masker = shap.maskers.Text(_with_places, mask_token="UNK", collapse_mask_token=False)
    explainer = shap.Explainer(lambda texts: model.logits(list(texts))[:, 0], masker)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return explainer([text], silent=True).values[0]


def _with_places(text: str, return_offsets_mapping: bool = True) -> dict[str, Any]:
    """Split at spaces, each token with the space before it: shap's mask starts with one too."""
    tokens = text.split()
    ends = np.cumsum([len(token) + 1 for token in tokens]) - 1
    places = [
        (max(0, int(end) - len(token) - 1), int(end))
        for token, end in zip(tokens, ends, strict=True)
    ]
    return {"input_ids": tokens, **({"offset_mapping": places} if return_offsets_mapping else {})}


def hundred_words(model: AttentionClassifier, data: Reviews, *, repeats: int) -> Iterator[Measure]:
    """A review of 100 distinct words, at two tolerances."""
    text = min(data.texts, key=lambda text: abs(len(set(token_strings(text)[:255])) - 100))
    for tolerance, guide in ((1e-6, 10), (1e-9, 25)):
        work = partial(limelight.explain, model, text, "lime", tolerance=tolerance)
        taken = 1000 * seconds(work, repeats=repeats)
        found = work()
        yield _time(
            f"lime_100_{tolerance:.0e}",
            f"lime, {len(found.features)} words, tolerance {tolerance:.0e}",
            float(np.median(taken)),
            float(taken.min()),
            below=guide,
            note=f"bound {found.bound:.1g}",
        )


def growth(
    model: AttentionClassifier, data: Reviews, *, sizes: tuple[int, ...], repeats: int
) -> Iterator[Measure]:
    """Exact LIME of d positions; beyond 255 with a larger window than the model was trained for."""
    tokens = [token for text in data.texts[:40] for token in token_strings(text)]
    for d in sizes:
        wide = model if d < model.T_max else replace(model, T_max=d + 1)
        text = " ".join(tokens[i % len(tokens)] for i in range(d))
        wide.logits([text])
        work = partial(limelight.explain, wide, text, "lime", features="positions")
        start = time.process_time()
        found = work()
        first = time.process_time() - start
        taken = 1000 * seconds(work, repeats=repeats, warm=False)
        yield _time(
            f"growth_{d}",
            f"lime, {d} positions",
            float(np.median(taken)),
            float(taken.min()),
            below=3000 if d == 2048 else None,
            note=f"bound {found.bound:.1g}; the first time {1000 * first:.0f} ms, nodes included",
        )


def _time(id: str, what: str, value: float, best: float, **more: Any) -> Measure:
    return Measure(id=id, what=what, value=value, best=best, unit="ms", **more)


if __name__ == "__main__":
    main()
