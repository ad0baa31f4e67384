r"""Whether anything tells beforehand that attention ranks the words of a text as Shapley values do.

What was to be counted as a finding was written down before any number was looked at:

*Outcome.* ρ of a review: the rank correlation over its words of α-avg with the absolute value of
the exact Shapley value (words replaced by UNK, the logit of the last class).

*Signs*, each known without removing a word, with the direction in which ρ should go. To first order
a word's value is α (u − f): attention ranks rightly where attention differs between words and what
it carries does not. Hence + for the spread of log α, − for the spread of log |u − f| (``values``),
+ for the quotient of the two, − for the entropy of attention, + for the rank correlation of α with
the norm of what it carries (``alike``); and, from hearsay, − for the number of words and + for the
margin of the decision.

*Rule.* The first half of the reviews gives each sign's median. A sign tells when attention can be
trusted if in the other half (1) its rank correlation with ρ has that direction and an interval away
from zero at 99 % (seven signs are tried), and (2) the reviews on its good side of the median have a
median ρ that is higher by at least 0.1. It is a finding if it does so on both models.

*Two questions besides.* Is the most attended word among the three strongest by |Shapley|, and more
often where it gets at least twice the attention of the next one? Does it speak for the decision?
"""

__all__ = ["ENOUGH", "JUDGED", "SIGNS", "TRUSTED_LEAD", "judged_signs", "measure"]

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
ENOUGH = 0.1  # by which ρ must be higher on the good side of the median
TRUSTED_LEAD = 2.0  # times the attention of the next word
_STRONGEST = 3
_NORMAL_99 = 2.5758
JUDGED = ("alpha-avg", "alpha-max", "g-l1", "gxi", "shapley")


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Return ρ, what each sign tells of it, what the first word is, and judged shares."""
    texts = list_texts(
        setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS)
    )
    rows: list[dict[str, float]] = []
    for start in range(0, len(texts), _CHUNK):
        setting.tick(start, len(texts))
        rows += _rows(model, texts[start : start + _CHUNK])
    of = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    leads = of["lead"] >= TRUSTED_LEAD
    sure = of["margin"] > np.median(of["margin"])
    few = list(texts[: QUICK_JUDGED if setting.quick else JUDGED_TEXTS])
    found = judge(model, few, JUDGED, seed=setting.seed)
    return round_for_json(
        {
            "texts": len(rows),
            "rho": quartiles(of["rho"].tolist()),
            "norm_rho": quartiles(of["norm_rho"].tolist()),
            "signs": judged_signs(of),
            "first": {"leads": _shares(of["strong"], leads), "sure": _shares(of["for"], sure)},
            "judged": len(few),
            "shares": {one.method: [one.share, *(one.interval or ())] for one in found.methods},
            "greedy": [found.greedy, *(found.greedy_interval or ())],
        },
        digits=4,
    )


def judged_signs(of: Mapping[str, Float[np.ndarray, " n"]]) -> dict[str, dict[str, Any]]:
    """Apply the rule above to the reviews, whose order is random."""
    half = len(of["rho"]) // 2
    rho = of["rho"][half:]
    found = {}
    for name, (direction, _) in SIGNS.items():
        rank = rank_correlation(of[name][half:], rho) or 0.0
        # Fisher's interval; for ranks its standard error is that of Fieller et al. (1957).
        reach = _NORMAL_99 * np.sqrt(1.06 / max(len(rho) - 3, 1))
        center = np.arctanh(np.clip(rank, -0.999, 0.999))
        low, high = float(np.tanh(center - reach)), float(np.tanh(center + reach))
        good = direction * of[name][half:] > direction * np.median(of[name][:half])
        # A sign that is the same everywhere divides nothing: both sides are the whole then.
        inside, outside = (
            float(np.median(rho[rows] if 0 < good.sum() < len(rho) else rho))
            for rows in (good, ~good)
        )
        tells = (low if direction > 0 else -high) > 0 and inside - outside >= ENOUGH
        found[name] = {
            "rank": rank,
            "interval": [low, high],
            "good": inside,
            "bad": outside,
            "tells": bool(tells),
        }
    return found


def _shares(hit: Float[np.ndarray, " n"], good: Bool[np.ndarray, " n"]) -> dict[str, Any]:
    """Return in how many reviews ``hit`` holds: all, where ``good`` holds, where not."""
    groups = {"all": np.ones(len(hit), bool), "good": good, "bad": ~good}
    return {name: [float(hit[g].sum()), int(g.sum())] for name, g in groups.items()}


def _rows(model: AttentionClassifier, texts: Sequence[str]) -> list[dict[str, float]]:
    seen = collapse_texts(model, texts)
    target = model.classes[-1]
    alpha, shapley = (
        [one.scores for one in explain(model, list(texts), name, target=target, scale="score")]
        for name in ("alpha-avg", "shapley")
    )
    norms, outputs = read_out_norms(seen), model.logits(texts)
    margin = outputs[:, -1] - (outputs[:, 0] if outputs.shape[1] > 1 else 0.0)
    rows = []
    for i in range(len(texts)):
        a, value = alpha[i], shapley[i]
        if len(a) <= _STRONGEST:  # every word would be among the strongest
            continue
        first, second = np.argsort(-a, kind="stable")[:2]
        strongest = np.argsort(-np.abs(value), kind="stable")[:_STRONGEST]
        rows.append(
            {
                "rho": rank_correlation(a, np.abs(value)) or 0.0,
                "norm_rho": rank_correlation(norms[i], np.abs(value)) or 0.0,
                "lead": float(a[first] / a[second]),
                "strong": float(first in strongest),
                "for": float(value[first] * margin[i] > 0),
                "alike": rank_correlation(a, norms[i]) or 0.0,
                "margin": float(abs(margin[i])),
                "words": float(len(a)),
                **_spreads(seen, i, a),
            }
        )
    return rows


def _spreads(seen: CollapsedTexts, i: int, words: Float[np.ndarray, " d"]) -> dict[str, float]:
    """Return how uneven attention and what it carries are over one text."""
    T = 1 + len(seen.inputs[i].tokens)
    alpha, u = seen.alpha[i], seen.u[i]
    f = (alpha * u).sum(axis=1, keepdims=True)
    place = alpha[:, 1:T].mean(axis=0)
    carried = np.abs((alpha * (u - f))[:, 1:T].mean(axis=0)) / place
    attention, values = (float(np.log(np.maximum(x, 1e-12)).std()) for x in (place, carried))
    share = words / words.sum()
    return {
        "attention": attention,
        "values": values,
        "quotient": attention / values,
        "entropy": float(-(share * np.log(share)).sum() / np.log(len(share))),
    }
