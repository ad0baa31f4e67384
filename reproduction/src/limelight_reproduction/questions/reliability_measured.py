r"""Signs that attention ranks the words of a text as Shapley values do.

The rules for the findings were written before the measurement.

*Outcome.* ρ of a review: the rank correlation over its words of α-avg with the absolute value of
the exact Shapley value (words replaced by UNK, the logit of the last class).

*Signs.* Each is known without removing a word, and has the direction in which ρ should go. To first
order a word's value is α (u − f). So attention ranks well if it differs between words and the
values u do not. Hence + for the spread of log α, − for the spread of log |u − f| (``values``), +
for the quotient of the two, − for the entropy of attention, and + for the rank correlation of α
with the norm of αv (``alike``). Two signs have no such reason: − for the number of words and + for
the margin of the decision.

*Rule.* The first half of the reviews gives each sign's median. A sign tells when attention can be
trusted if in the other half (1) its rank correlation with ρ has that direction and an interval away
from zero at 99 % (seven signs are tried), and (2) the reviews on its good side of the median have a
median ρ that is higher by at least 0.1. It is a finding if it does so on both models.

*Two more questions.* Is the most attended word among the three strongest by |Shapley|, and more
often if it has at least twice the attention of the next word? Does it support the decision?
"""

__all__ = ["ENOUGH", "JUDGED", "SIGNS", "TRUSTED_LEAD", "judge_signs", "measure"]

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limelight import AttentionClassifier, explain, judge
from limelight.shapes import Bool, Float
from limelight_reproduction.document import list_texts
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.one_layer.collapsed_texts import CollapsedTexts, collapse_texts
from limelight_reproduction.questions.summaries import read_out_norms
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import quartiles, rank_correlation

TEXTS, QUICK_TEXTS, _CHUNK = 2000, 200, 50
JUDGED_TEXTS, QUICK_JUDGED = 500, 50
# The direction in which ρ should go with each sign, and its name.
SIGNS: Mapping[str, tuple[int, str]] = {
    "attention": (+1, "spread of log α over the words"),
    "values": (-1, "spread of log |u − f|"),
    "quotient": (+1, "the first over the second"),
    "entropy": (-1, "entropy of α over that of even attention"),
    "alike": (+1, "rank correlation of α with ‖αv‖"),
    "words": (-1, "distinct words"),
    "margin": (+1, "margin of the decision"),
}
ENOUGH = 0.1  # difference of ρ between the sides of the median from which a sign counts
TRUSTED_LEAD = 2.0  # ratio of the attention of the first word to that of the second
_STRONGEST = 3
_NORMAL_99 = 2.5758
JUDGED = ("alpha-avg", "alpha-max", "g-l1", "gxi", "shapley")


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Measure ρ, its signs, the first word, and the shares of the methods."""
    texts = list_texts(
        setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS)
    )
    rows: list[dict[str, float]] = []
    for start in range(0, len(texts), _CHUNK):
        setting.tick(start, len(texts))
        rows += _rows(model, texts[start : start + _CHUNK])
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    leads = columns["lead"] >= TRUSTED_LEAD
    sure = columns["margin"] > np.median(columns["margin"])
    judged_texts = list(texts[: QUICK_JUDGED if setting.quick else JUDGED_TEXTS])
    judged = judge(model, judged_texts, JUDGED, seed=setting.seed)
    return round_for_json(
        {
            "texts": len(rows),
            "rho": quartiles(columns["rho"].tolist()),
            "norm_rho": quartiles(columns["norm_rho"].tolist()),
            "signs": judge_signs(columns),
            "first": {
                "leads": _count_by_group(columns["strong"], leads),
                "sure": _count_by_group(columns["for"], sure),
            },
            "judged": len(judged_texts),
            "shares": {
                judgment.method: [judgment.share, *(judgment.interval or ())]
                for judgment in judged.methods
            },
            "greedy": [judged.greedy, *(judged.greedy_interval or ())],
        },
        digits=4,
    )


def judge_signs(columns: Mapping[str, Float[np.ndarray, " n"]]) -> dict[str, dict[str, Any]]:
    """Apply the rule above to the reviews, whose order is random."""
    half = len(columns["rho"]) // 2
    rho = columns["rho"][half:]
    signs = {}
    for name, (direction, _) in SIGNS.items():
        column = columns[name]
        rank = rank_correlation(column[half:], rho) or 0.0
        # Fisher's interval; for ranks its standard error is that of Fieller et al. (1957).
        reach = _NORMAL_99 * np.sqrt(1.06 / max(len(rho) - 3, 1))
        center = np.arctanh(np.clip(rank, -0.999, 0.999))
        low, high = float(np.tanh(center - reach)), float(np.tanh(center + reach))
        good = direction * column[half:] > direction * np.median(column[:half])
        # A constant sign separates nothing. Then both sides are all reviews.
        is_split = 0 < good.sum() < len(rho)
        good_median, bad_median = (
            float(np.median(rho[rows] if is_split else rho)) for rows in (good, ~good)
        )
        has_direction = (low if direction > 0 else -high) > 0
        signs[name] = {
            "rank": rank,
            "interval": [low, high],
            "good": good_median,
            "bad": bad_median,
            "tells": bool(has_direction and good_median - bad_median >= ENOUGH),
        }
    return signs


def _count_by_group(
    hits: Float[np.ndarray, " n"], good: Bool[np.ndarray, " n"]
) -> dict[str, list[float | int]]:
    """Count the hits and the reviews of each group: all reviews, ``good`` ones, and the others."""
    groups = {"all": np.ones(len(hits), bool), "good": good, "bad": ~good}
    return {name: [float(hits[rows].sum()), int(rows.sum())] for name, rows in groups.items()}


def _rows(model: AttentionClassifier, texts: Sequence[str]) -> list[dict[str, float]]:
    """Return the outcome, the signs and the first word of every text with enough words."""
    collapsed = collapse_texts(model, texts)
    target = model.classes[-1]
    alpha, shapley = (
        [
            explanation.scores
            for explanation in explain(model, list(texts), name, target=target, scale="score")
        ]
        for name in ("alpha-avg", "shapley")
    )
    norms, outputs = read_out_norms(collapsed), model.logits(texts)
    margin = outputs[:, -1] - (outputs[:, 0] if outputs.shape[1] > 1 else 0.0)
    rows = []
    for i in range(len(texts)):
        attention, value = alpha[i], shapley[i]
        if len(attention) <= _STRONGEST:  # every word would be among the strongest
            continue
        first, second = np.argsort(-attention, kind="stable")[:2]
        strongest = np.argsort(-np.abs(value), kind="stable")[:_STRONGEST]
        rows.append(
            {
                "rho": rank_correlation(attention, np.abs(value)) or 0.0,
                "norm_rho": rank_correlation(norms[i], np.abs(value)) or 0.0,
                "lead": float(attention[first] / attention[second]),
                "strong": float(first in strongest),
                "for": float(value[first] * margin[i] > 0),
                "alike": rank_correlation(attention, norms[i]) or 0.0,
                "margin": float(abs(margin[i])),
                "words": float(len(attention)),
                **_spreads(collapsed, i, attention),
            }
        )
    return rows


def _spreads(
    collapsed: CollapsedTexts, i: int, attention: Float[np.ndarray, " d"]
) -> dict[str, float]:
    """Return the spread of attention and of the values over text ``i``, and the entropy."""
    T = 1 + len(collapsed.inputs[i].tokens)
    alpha, u = collapsed.alpha[i], collapsed.u[i]
    f = (alpha * u).sum(axis=1, keepdims=True)
    mean_alpha = alpha[:, 1:T].mean(axis=0)
    mean_value = np.abs((alpha * (u - f))[:, 1:T].mean(axis=0)) / mean_alpha
    attention_spread, value_spread = (
        float(np.log(np.maximum(x, 1e-12)).std()) for x in (mean_alpha, mean_value)
    )
    share = attention / attention.sum()
    return {
        "attention": attention_spread,
        "values": value_spread,
        "quotient": attention_spread / value_spread,
        "entropy": float(-(share * np.log(share)).sum() / np.log(len(share))),
    }
