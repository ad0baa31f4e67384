"""Effective attention as an explanation, and a probe of syntax in the heads of a deep model.

The rules were written before the measurement. Effective attention is a better (worse) order if the
interval of the difference of the shares lies above ``GAIN`` (below −``GAIN``). A head knows a
relation if, on sentences that did not choose it, its accuracy exceeds that of the best offset by at
least ``MARGIN``, with the lower end of the interval above 0, and if no head of the network with
shuffled weights does so.
"""

__all__ = ["EXPERIMENT", "judge_order", "judge_probe", "probe_sentences"]

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from limelight import explain, game, judge
from limelight.explainers import prepare_batch
from limelight_reproduction.deep.layer_values import score_last_layer
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

GAIN, MARGIN = 0.02, 0.1
TEXTS, QUICK_TEXTS = 120, 8
DEEP_TEXTS, QUICK_DEEP_TEXTS = 20, 3
WORDS = 50  # of a review for MiniLM: more subwords than the 32 columns of the values of a head
BUDGET, ORDERS = "300 calls", 5
NAMES = ("alpha-avg", "effective-attention")
OFFSETS = range(-12, 13)


def measure_shipped(setting: Setting) -> Numbers:
    """Judge attention and effective attention of the shipped model."""
    import limelight_reproduction.methods.projected_attention  # noqa: F401  (it is registered)

    model = setting.shipped_model
    count = QUICK_TEXTS if setting.quick else TEXTS
    texts = list_texts(setting.sample_texts("imdb", "test", count))
    judgment = judge(model, texts, list(NAMES), seed=setting.seed, progress=False)
    rows = []
    for text, judged in zip(texts, judgment.texts, strict=True):
        if not judged.has_room or judged.areas is None:
            continue
        room = float(judged.ceiling or 0) - float(judged.chance or 0)
        shares = {name: (judged.areas[name] - float(judged.chance or 0)) / room for name in NAMES}
        values = np.abs(explain(model, text, "shapley", progress=False).scores)
        scores = {name: explain(model, text, name, progress=False).scores for name in NAMES}
        rows.append(_compare(scores, shares, values))
    return _summarize(rows, setting.seed)


def measure_deep(setting: Setting) -> Numbers:
    """Judge attention and effective attention of the last layer of the deep model."""
    model, rows = setting.text_classifier, []
    count = QUICK_DEEP_TEXTS if setting.quick else DEEP_TEXTS
    for i, review in enumerate(list_texts(setting.sample_texts("imdb", "test", count))):
        setting.tick(i, count)
        text = " ".join(review.split()[:WORDS])
        e = explain(model, text, "shapley", budget=BUDGET, progress=False)
        attention, effective = NAMES
        scores = {
            attention: explain(model, text, attention, progress=False).scores,
            effective: score_last_layer(prepare_batch(model, [text])),
        }
        text_game, d = game(model, text), len(e.scores)
        rng = np.random.default_rng([setting.seed, i])
        random_areas = [_deletion_area(text_game, rng.permutation(d)) for _ in range(ORDERS)]
        chance = float(np.mean(random_areas))
        room = max(_deletion_area(text_game, np.argsort(-e.scores)) - chance, 1e-9)
        shares = {
            name: (_deletion_area(text_game, np.argsort(-s)) - chance) / room
            for name, s in scores.items()
        }
        rows.append(_compare(scores, shares, np.abs(e.scores)))
    return _summarize(rows, setting.seed)


def _deletion_area(text_game: Any, order: np.ndarray) -> float:
    """Return the mean loss of the log-odds while words are removed in an order."""
    d = len(order)
    keep = np.ones((d + 1, d), bool)
    for step, word in enumerate(order, start=1):
        keep[step:, word] = False
    outputs = text_game(keep)
    value = outputs[:, -1] - outputs[:, 0]
    return float(value[0] - value[1:].mean())


def _compare(
    scores: Mapping[str, np.ndarray], shares: Mapping[str, float], values: np.ndarray
) -> dict[str, float | None]:
    """Return the numbers of one text."""
    alpha, effective = (scores[name] for name in NAMES)
    numbers: dict[str, float | None] = {"alike": rank_correlation(alpha, effective)}
    for name in NAMES:
        numbers[f"{name} share"] = float(shares[name])
        numbers[f"{name} rank"] = rank_correlation(np.abs(scores[name]), values)
    numbers["gain"] = float(shares[NAMES[1]] - shares[NAMES[0]])
    return numbers


def _summarize(rows: Sequence[Mapping[str, float | None]], seed: int) -> Numbers:
    """Return means over texts with their intervals."""
    means = {name: mean_interval([row[name] for row in rows], seed=seed) for name in rows[0]}
    return round_for_json({"texts": len(rows)} | means, digits=4)


class ProbeSentence(NamedTuple):
    """A sentence with a relation: the word that attends, and the word that it depends on."""

    words: tuple[str, ...]
    source: int
    target: int


_NOUNS = ("actor", "teacher", "doctor", "author", "farmer", "pilot")
_PHRASES = (
    "", "near the {}", "behind the old {}", "next to the very tall {}", "that the {} saw",
    "who met the young {} yesterday",
)  # fmt: skip
_ADJECTIVES = ("", "old", "very old", "tall and quiet")
_VERBS = ("sings", "runs", "laughs", "waits")


def probe_sentences() -> dict[str, list[ProbeSentence]]:
    """Return sentences with a verb and its subject, and with a determiner and its noun."""
    subjects, nouns = [], []
    for noun, other, phrase, verb in itertools.product(_NOUNS, _NOUNS, _PHRASES, _VERBS):
        if noun != other:
            words = f"the {noun} {phrase.format(other)} {verb} every day .".split()
            subjects.append(ProbeSentence(tuple(words), words.index(verb), 1))
    for noun, adjectives, phrase, verb in itertools.product(
        _NOUNS, _ADJECTIVES, _PHRASES[:4], _VERBS
    ):
        words = f"the {adjectives} {noun} {phrase.format('house')} {verb} .".split()
        nouns.append(ProbeSentence(tuple(words), 0, words.index(noun)))
    # Templates without a second noun repeat.
    relations = {"verb → subject": subjects, "determiner → noun": nouns}
    return {name: list(dict.fromkeys(sentences)) for name, sentences in relations.items()}


def measure_probe(setting: Setting) -> Numbers:
    """Measure how often each head attends most to the word of a relation."""
    model: Any = setting.text_classifier
    networks = {"MiniLM": model, "shuffled": model.shuffle_weights(setting.seed)}
    relations: dict[str, Any] = {}
    for relation, sentences in probe_sentences().items():
        rng = np.random.default_rng([setting.seed, 5])
        rows = rng.permutation(len(sentences))[: 40 if setting.quick else 300]
        chosen = [sentences[i] for i in rows]
        half = len(chosen) // 2
        offset = max(OFFSETS, key=lambda k: _count_offset(chosen[:half], k))
        by_offset = [float(s.source + offset == s.target) for s in chosen[half:]]
        relations[relation] = {"sentences": len(chosen) - half, "offset": offset}
        relations[relation]["best offset"] = mean_interval(by_offset, seed=setting.seed)
        for name, network in networks.items():
            hits = np.array([_head_hits(network, s) for s in chosen])  # n L H
            best = np.unravel_index(hits[:half].sum(axis=0).argmax(), hits.shape[1:])
            by_head = hits[half:, best[0], best[1]].astype(float)
            gains = (by_head - by_offset).tolist()
            relations[relation][name] = {
                "head": [int(best[0]) + 1, int(best[1]) + 1],
                "accuracy": mean_interval(by_head.tolist(), seed=setting.seed),
                "gain": mean_interval(gains, seed=setting.seed),
            }
    return round_for_json({"relations": relations}, digits=4)


def _count_offset(sentences: Sequence[ProbeSentence], offset: int) -> int:
    """Count the sentences whose target has a fixed distance from its source."""
    return sum(s.source + offset == s.target for s in sentences)


def _head_hits(model: Any, sentence: ProbeSentence) -> np.ndarray:
    """Return whether each head of each layer attends most to the target, among all words."""
    model_input = model.read(" ".join(sentence.words))
    token = model.token_positions(model_input)
    (attention,) = model.attention(model_input)
    belongs = (token[:, None] == np.arange(len(sentence.words))).astype(float)
    # From the first subword of the source; words other than the source compete.
    source = int(np.flatnonzero(token == sentence.source)[0])
    received = attention.alpha[:, :, source] @ belongs
    received[..., sentence.source] = -1
    hits: np.ndarray = received.argmax(axis=-1) == sentence.target
    return hits


def judge_order(gain: Interval) -> str:
    """Judge the order of effective attention from the gain of its share."""
    _, low, high = gain
    if low >= GAIN:
        return "better"
    if high <= -GAIN:
        return "worse"
    return "as good" if low > -GAIN and high < GAIN else "undecided"


def judge_probe(relation: Mapping[str, Any]) -> str:
    """Judge whether a head knows a relation."""

    def exceeds(gain: Interval) -> bool:
        return gain[0] >= MARGIN and gain[1] > 0

    if exceeds(relation["shuffled"]["gain"]):
        return "undecided: a network with shuffled weights does it too"
    return "yes" if exceeds(relation["MiniLM"]["gain"]) else "no"


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    shipped, deep = numbers["shipped"], numbers["minilm"]
    relations = numbers["probe"]["relations"]
    return Findings(
        headline=(
            f"Effective attention changes the share of attention by "
            f"{format_interval(shipped['gain'])} on the shipped model and by "
            f"{format_interval(deep['gain'])} on MiniLM."
        ),
        verdicts=[
            Verdict(
                claim="Is effective attention (Brunner et al., 2020) a better order? (our "
                "question)",
                holds=f"{judge_order(shipped['gain'])}; MiniLM: {judge_order(deep['gain'])}",
                number=f"gain of the share {format_interval(shipped['gain'])}; MiniLM "
                f"{format_interval(deep['gain'])}",
                parts=("shipped", "minilm"),
            ),
            *(
                Verdict(
                    claim=f"Has MiniLM a head for {name} (Clark et al., 2019)? (our question)",
                    holds=judge_probe(relation),
                    number=f"layer {relation['MiniLM']['head'][0]}, head "
                    f"{relation['MiniLM']['head'][1]}: "
                    f"{format_interval(relation['MiniLM']['accuracy'])} right, the best offset "
                    f"{format_interval(relation['best offset'])}, shuffled weights "
                    f"{format_interval(relation['shuffled']['accuracy'])}",
                    parts=("probe",),
                )
                for name, relation in relations.items()
            ),
        ],
        measured=[
            f"{shipped['texts']} reviews on the shipped model, and the first {WORDS} words of "
            f"{deep['texts']} reviews on MiniLM, last layer. The share of MiniLM is relative to "
            f"the order of Shapley values ({BUDGET}).",
            "The probe uses sentences from templates, because we have no parsed text. One half "
            "chooses the head and the offset, the other half measures them.",
        ],
        meaning=(
            "Effective attention leaves out what a head cannot pass on. It still knows no sign "
            "and no class."
        ),
        table=Table(
            columns=("model", "share of α-avg", "share of effective α", "α-avg and |Shapley|",
                     "effective α and |Shapley|", "both orders"),
            rows=[
                [label, *(format_interval(part[name]) for name in (
                    "alpha-avg share", "effective-attention share", "alpha-avg rank",
                    "effective-attention rank", "alike"))]
                for label, part in (("shipped model", shipped), ("MiniLM", deep))
            ],
        ),
    )  # fmt: skip


EXPERIMENT = Experiment(
    name="heads",
    title="Effective attention, and syntax in heads",
    paper="Related work: attention is not identifiable, and heads of deep models follow syntax.",
    parts=(
        Part(name="shipped", measure=measure_shipped),
        Part(
            name="minilm", measure=measure_deep, needs=("text-model",),
            reads=("imdb test", "text model"),
        ),
        Part(name="probe", measure=measure_probe, needs=("text-model",), reads=("text model",)),
    ),
    findings=_findings,
)  # fmt: skip
