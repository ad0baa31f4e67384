"""Random words instead of UNK: how often the sign of a score changes.

The rule for the verdict was written before the measurement: signs depend on the replacement if at
least ``MANY`` of them change, and hardly do if fewer than ``FEW`` change. The interval decides.
"""

__all__ = ["EXPERIMENT", "FEW", "MANY", "judge_signs"]

import time
from collections.abc import Mapping

import numpy as np

from limelight import AttentionClassifier, explain
from limelight_reproduction.document import list_texts
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    parts_for_both_models,
    round_for_json,
)
from limelight_reproduction.intervals import Interval, format_interval, mean_interval
from limelight_reproduction.one_layer.subjects import MODELS, order_paper_first
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import rank_correlation

MANY, FEW = 0.25, 0.1  # shares of the signs
TEXTS, QUICK_TEXTS = 120, 10
BACKGROUND = 2_000  # training reviews
METHODS = {"shapley": "Shapley values", "lime": "LIME", "banzhaf": "Banzhaf values"}


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Compare the scores with refills and with UNK, over reviews."""
    background = setting.sample_texts("imdb", "train", BACKGROUND)
    model = model.with_background(list_texts(background))
    count = QUICK_TEXTS if setting.quick else TEXTS
    texts = list_texts(setting.sample_texts("imdb", "test", count))
    rows: dict[str, dict[str, list[float | None]]] = {}
    for i, text in enumerate(texts):
        setting.tick(i, len(texts))
        for method in METHODS:
            start = time.perf_counter()
            refilled = explain(model, text, method, replacement="refill", progress=False)
            seconds = time.perf_counter() - start
            unk = explain(model, text, method, progress=False)
            # A score within its bound has no sign.
            bounds = float(refilled.bound or 0), float(unk.bound or 0)
            has_sign = (np.abs(refilled.scores) > bounds[0]) & (np.abs(unk.scores) > bounds[1])
            differs = np.sign(refilled.scores) != np.sign(unk.scores)
            size = np.abs(refilled.scores) + np.abs(unk.scores)
            for name, value in {
                "signs": float(differs[has_sign].mean()),
                "strong": float(size[differs & has_sign].sum() / size.sum()),
                "rank": rank_correlation(refilled.scores, unk.scores),
                "certain": float(has_sign.mean()),
                "bound": bounds[0],
                "seconds": seconds,
                "words": float(len(unk.scores)),
            }.items():
                rows.setdefault(method, {}).setdefault(name, []).append(value)
    return round_for_json(
        {
            "texts": len(texts),
            "background": BACKGROUND,
            "background words": len(model.background.ids) if model.background else 0,
            "methods": {
                method: {
                    **{
                        name: mean_interval(values[name], seed=setting.seed)
                        for name in ("signs", "strong", "rank", "certain")
                    },
                    "largest bound": max(x for x in values["bound"] if x is not None),
                    "median seconds": float(np.median(np.array(values["seconds"], float))),
                    "median words": float(np.median(np.array(values["words"], float))),
                }
                for method, values in rows.items()
            },
        },
        digits=4,
    )


def judge_signs(signs: Interval) -> str:
    """Judge from the share of signs that change."""
    _, low, high = signs
    if low >= MANY:
        return "yes"
    return "hardly" if high < FEW else "in part"


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    paper, shipped = (numbers[part]["methods"]["shapley"] for part in ("paper", "shipped"))
    share = format_interval(paper["signs"])
    return Findings(
        headline=(
            f"With random words instead of UNK, a share of {share} of the signs of Shapley values "
            f"changes on the paper's recipe, and {format_interval(shipped['signs'])} on the "
            "shipped model."
        ),
        verdicts=[
            Verdict(
                claim="Do signs depend on UNK, as comment 5 (iv) warns? (our question)",
                holds=f"{judge_signs(paper['signs'])}; shipped model: "
                f"{judge_signs(shipped['signs'])}",
                number=f"{share} of the signs of Shapley values change; shipped model "
                f"{format_interval(shipped['signs'])}",
            )
        ],
        measured=[
            f"{numbers['paper']['texts']} test reviews of each model, means with 95 % intervals "
            "over reviews. Removed words become random words of "
            f"{numbers['paper']['background']:,} training reviews. Scores are exact, with "
            f"errors below {max(model['methods'][method]['largest bound'] for model in numbers.values() for method in METHODS):.0e}."  # noqa: E501
        ],
        meaning=(
            "A score compares a word with its replacement. On the paper's recipe UNK has a value "
            "of its own, so a sign may come from UNK and not from the word."
        ),
        table=Table(
            columns=("model", "method", "signs that differ", "their part of all scores",
                     "rank correlation", "seconds", "words"),
            rows=[
                [f"the {MODELS[part]}", label, format_interval(row["signs"]),
                 format_interval(row["strong"]), format_interval(row["rank"]),
                 row["median seconds"], f"{row['median words']:.0f}"]
                for part, model in order_paper_first(numbers)
                for method, label in METHODS.items()
                for row in [model["methods"][method]]
            ],
            digits=2,
        ),
    )  # fmt: skip


EXPERIMENT = Experiment(
    name="refilling",
    title="Random words instead of UNK",
    paper="Comment (iv) on Theorem 5.1 calls for a careful choice of the replacement token.",
    parts=parts_for_both_models(measure, version=1, reads=("imdb train", "imdb test")),
    findings=_findings,
)
