"""Words, subwords and characters as features of a deep model.

The rules were written before the measurement. Scores agree if the rank correlation of summed scores
with those of words has an interval above ``AGREED``. An order is as good as that of words if the
interval of the difference of their shares lies within ``SHARE`` of 0.
"""

__all__ = ["EXPERIMENT", "judge_agreement", "judge_order"]

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limelight import Model, explain, game, wrap
from limelight.shapes import Float
from limelight_reproduction.document import list_texts
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
    round_for_json,
)
from limelight_reproduction.intervals import Interval, format_interval, mean_interval
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import rank_correlation

AGREED, SHARE = 0.8, 0.1
TEXTS, QUICK_TEXTS = 24, 4
BUDGET = "300 calls"
FEWEST, MOST = 7, 14  # words of a sentence
ORDERS = 6  # random orders, whose mean is chance
MASKS = 150  # of LIME
UNITS = {"words": "words", "subwords": "subwords", "characters": "characters"}

Spans = list[tuple[int, int]]


def measure(setting: Setting) -> Numbers:
    """Compare the three kinds of features on short sentences."""
    classifier = setting.text_classifier
    texts = [
        text
        for text in list_texts(setting.sample_texts("sst2", "test", 400))
        if FEWEST <= len(text.split()) <= MOST
    ][: QUICK_TEXTS if setting.quick else TEXTS]
    rows = []
    for i, text in enumerate(texts):
        setting.tick(i, len(texts))
        rows.append(_measure_text(classifier, text, np.random.default_rng([setting.seed, i])))

    def interval(kind: str, name: str) -> Interval:
        return mean_interval([row[kind][name] for row in rows], seed=setting.seed)

    return round_for_json(
        {
            "texts": len(rows),
            "units": {
                kind: {name: interval(kind, name) for name in rows[0][kind]} for kind in UNITS
            },
        },
        digits=4,
    )


def _measure_text(
    classifier: Model, text: str, rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Return agreement, share and the sampling of LIME for each kind of features."""
    words: Spans = []
    for word in text.split():
        start = text.index(word, words[-1][1] if words else 0)
        words.append((start, start + len(word)))
    spans: dict[str, Spans] = {
        "words": words,
        "subwords": _split_subwords(classifier, text),
        "characters": [(i, i + 1) for i, letter in enumerate(text) if not letter.isspace()],
    }
    scores, models = {}, {kind: _wrap_with_spans(classifier, kind, s) for kind, s in spans.items()}
    for kind, model in models.items():
        e = explain(model, text, "shapley", features="positions", budget=BUDGET, progress=False)
        scores[kind] = _sum_per_word(e.scores, spans[kind], words)
    word_game = game(models["words"], text, features="positions")
    d = len(words)
    areas = {kind: _deletion_area(word_game, np.argsort(-s)) for kind, s in scores.items()}
    random_areas = [_deletion_area(word_game, rng.permutation(d)) for _ in range(ORDERS)]
    chance = float(np.mean(random_areas))
    room = max(areas["words"] - chance, 1e-9)
    rows = {}
    for kind, model in models.items():
        e = explain(
            model, text, "lime", features="positions", samples=MASKS, sizes="uniform",
            progress=False,
        )  # fmt: skip
        intact, kept_class = _describe_masks(game(model, text, features="positions"), spans[kind],
                                             words, rng)  # fmt: skip
        rows[kind] = {
            "features": float(len(spans[kind])),
            "rank": rank_correlation(scores[kind], scores["words"]) or 0.0,
            "share": float((areas[kind] - chance) / room),
            "r2": float(e.diagnostics["r2"]),
            "intact": intact,
            "kept class": kept_class,
        }
    return rows


def _split_subwords(classifier: Any, text: str) -> Spans:
    """Return the spans of the subword tokens of the classifier."""
    encoded = classifier.tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    return [(int(start), int(end)) for start, end in encoded["offset_mapping"] if end > start]


def _wrap_with_spans(classifier: Any, kind: str, spans: Spans) -> Model:
    """Return the classifier as a function whose words are the spans of one text."""

    def predict(texts: Sequence[str]) -> Float[np.ndarray, "n 2"]:
        """Return the logits; a text without letters is a single space."""
        return classifier.logits([text if text.strip() else "." for text in texts])

    return wrap(
        predict, classes=classifier.classes, scale="logit", words=lambda _: spans, name=kind
    )


def _sum_per_word(
    scores: Float[np.ndarray, " n"], spans: Spans, words: Spans
) -> Float[np.ndarray, " d"]:
    """Add the scores of the parts of each word."""
    starts = np.array([start for start, _ in words])
    index = np.searchsorted(starts, [start for start, _ in spans], side="right") - 1
    return np.bincount(index, weights=scores, minlength=len(words))


def _deletion_area(word_game: Any, order: np.ndarray) -> float:
    """Return the mean loss of the log-odds while words are removed in an order."""
    d = len(order)
    keep = np.ones((d + 1, d), bool)
    for step, word in enumerate(order, start=1):
        keep[step:, word] = False
    outputs = word_game(keep)
    value = outputs[:, -1] - outputs[:, 0]
    return float(value[0] - value[1:].mean())


def _describe_masks(
    unit_game: Any, spans: Spans, words: Spans, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the share of intact words in LIME's masks, and of masks with the same class."""
    n = len(spans)
    sizes = rng.integers(1, n + 1, MASKS)
    keep = np.argsort(np.argsort(rng.random((MASKS, n)), axis=1), axis=1) >= sizes[:, None]
    counts = _sum_per_word(np.ones(n), spans, words)
    kept_counts = np.stack([_sum_per_word(mask.astype(float), spans, words) for mask in keep])
    full = unit_game(np.ones((1, n), bool))[0].argmax()
    same = unit_game(keep).argmax(axis=1) == full
    return float((kept_counts == counts).mean()), float(same.mean())


def judge_agreement(rank: Interval) -> str:
    """Judge the agreement of scores from its interval."""
    return "yes" if rank[1] >= AGREED else "no" if rank[2] < AGREED else "undecided"


def judge_order(share: Interval) -> str:
    """Judge an order from its share, in which the order of words has 1."""
    _, low, high = share
    if low > 1 - SHARE and high < 1 + SHARE:
        return "as good"
    return "worse" if high < 1 else "better" if low > 1 else "undecided"


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    units = numbers["minilm"]["units"]
    subwords, characters = units["subwords"], units["characters"]
    return Findings(
        headline=(
            "On MiniLM, scores of characters, added up per word, have a rank correlation of "
            f"{format_interval(characters['rank'])} with scores of words, and those of subwords "
            f"{format_interval(subwords['rank'])}."
        ),
        verdicts=[
            Verdict(
                claim=f"Do {kind} give a deep model the scores of words? (our question)",
                holds=f"{judge_agreement(units[kind]['rank'])}; the order is "
                f"{judge_order(units[kind]['share'])}",
                number=f"rank correlation {format_interval(units[kind]['rank'])}, "
                f"{format_interval(units[kind]['share'])} of the gain of the order of words",
            )
            for kind in ("subwords", "characters")
        ],
        measured=[
            f"{numbers['minilm']['texts']} sentences of SST-2 with {FEWEST} to {MOST} words, "
            f"Shapley values with {BUDGET}, removed features deleted. In LIME's masks, "
            + ", ".join(
                f"{units[kind]['intact'][0]:.0%} of the words are intact for {label}"
                for kind, label in UNITS.items()
            )
            + "."
        ],
        meaning=(
            "If characters are removed, the tokenizer cuts the rest of a word into other subwords. "
            "So most masks show the model strings that are no words."
        ),
        table=Table(
            columns=("features", "number", "rank correlation with words", "share", "LIME's R²",
                     "intact words", "same class"),
            rows=[
                [label, f"{units[kind]['features'][0]:.0f}",
                 *(format_interval(units[kind][name])
                   for name in ("rank", "share", "r2", "intact", "kept class"))]
                for kind, label in UNITS.items()
            ],
        ),
    )  # fmt: skip


EXPERIMENT = Experiment(
    name="units",
    title="Words, subwords and characters on a deep model",
    paper="Section 7 asks how the tokenizer changes what LIME samples.",
    parts=(
        Part(
            name="minilm",
            measure=measure,
            needs=("text-model",),
            reads=("text model", "sst2 test"),
        ),
    ),
    findings=_findings,
)
