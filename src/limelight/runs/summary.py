"""From a run to its summary: two walks, then one view for every method and class."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import pyarrow as pa

from limelight.errors import InputError, nearest
from limelight.judging.statistics import holm
from limelight.results import Explanation
from limelight.results.summary import (
    DifferingWord,
    MistakenText,
    Part,
    RepresentativeText,
    RunSlice,
    RunSummary,
    SummarizedView,
    SummarizedWord,
)
from limelight.runs.groups import Compared, ConfidentMistakes, SliceRule, compared_words, slice_rule
from limelight.runs.phrases import FEWEST, PhraseCounts, carrying, phrase_words, phrases_of
from limelight.runs.rows import explanation_of
from limelight.runs.words import (
    RARE,
    SORTS,
    Moments,
    ShardWords,
    View,
    Vocabulary,
    WordExamples,
    WordSums,
    phrase_name,
    shrunken,
    strength,
    word_columns,
    word_table,
    words_of_shards,
)
from limelight.shapes import Float, Int

if TYPE_CHECKING:
    from limelight.runs.run import Run


_Z = 1.959963984540054


def share_of(count: int, of: int) -> Part:
    """Return ``count`` of ``of`` with Wilson's 95 % interval; of nothing it is all of [0, 1]."""
    if not of:
        return Part(count=0, of=0, low=0.0, high=1.0)
    p, z2 = count / of, _Z * _Z
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    reach = _Z / (1 + z2 / of) * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of))
    low = 0.0 if count == 0 else middle - reach
    return Part(count=count, of=of, low=low, high=1.0 if count == of else middle + reach)


MOST = 5000
SHOWN = 10


class Picked(NamedTuple):
    """Texts in the order in which they were taken, and the share of all importance covered.

    ``covered[k]`` is the share after the first k + 1 texts.
    """

    rows: list[int]
    covered: list[float]


@final
class Candidates:
    """The strongest words of texts that are evenly spread over a run, for every view."""

    def __init__(self, texts: int) -> None:
        self._every = max(1, -(-texts // MOST))
        self._rows: dict[int, list[Int[np.ndarray, " k"]]] = {}
        self._words: dict[int, list[Int[np.ndarray, "k shown"]]] = {}

    def add(self, shard: ShardWords) -> None:
        """Take in a shard."""
        chosen = np.flatnonzero(shard.row % self._every == 0)
        if not len(chosen):
            return
        rank = np.full(len(shard.row), -1)
        rank[chosen] = np.arange(len(chosen))
        inside = np.flatnonzero(rank[shard.at] >= 0)
        words = _strongest(
            rank[shard.at[inside]], shard.own[shard.word[inside]], shard.score[inside], len(chosen)
        )
        for view in np.unique(shard.view[chosen]).tolist():
            here = shard.view[chosen] == view
            self._rows.setdefault(view, []).append(shard.row[chosen][here])
            self._words.setdefault(view, []).append(words[here])

    def pick(self, view: int, size: Float[np.ndarray, " V"], count: int) -> Picked:
        """Return ``count`` texts of a view; ``size`` is the sum over texts of each word's |score|.

        Fewer come back where they cover all.
        """
        if view not in self._rows:
            return Picked([], [])
        rows = np.concatenate(self._rows[view])
        chosen, covered = greedy_cover(np.concatenate(self._words[view]), np.sqrt(size), count)
        return Picked(rows[chosen].tolist(), covered)


def _strongest(
    at: Int[np.ndarray, " m"], word: Int[np.ndarray, " m"], score: Float[np.ndarray, " m"], n: int
) -> Int[np.ndarray, "n shown"]:
    """Return the strongest words of each of ``n`` texts, −1 after the last; 0 is no score."""
    order = np.lexsort((word, -np.abs(score), at))
    order = order[score[order] != 0]
    texts = at[order]
    first = np.searchsorted(texts, np.arange(n))
    place = np.arange(len(order)) - first[texts]
    found = np.full((n, SHOWN), -1)
    kept = place < SHOWN
    found[texts[kept], place[kept]] = word[order][kept]
    return found


def greedy_cover(
    words: Int[np.ndarray, "n k"], weight: Float[np.ndarray, " V"], count: int
) -> tuple[list[int], list[float]]:
    """Return the texts that greedy choice takes and the share of Σ weight covered after each.

    Row i of ``words`` names what text i covers, each word once, −1 for none. Of equal texts the
    first is taken, and none that adds nothing.
    """
    left = np.append(weight, 0.0)  # the last one is what −1 finds
    shown = np.unique(words[words >= 0])
    whole = float(weight[shown].sum())
    chosen: list[int] = []
    covered: list[float] = []
    for _ in range(min(count, len(words))):
        gain = left[words].sum(axis=1)
        best = int(gain.argmax())
        if gain[best] <= 0:
            break
        left[words[best]] = 0.0
        chosen.append(best)
        covered.append(1 - float(left[shown].sum()) / whole)
    return chosen, covered


_MISTAKES = 100


@final
@dataclass(eq=False)
class RunTally:
    """Sums over the texts of a run; ``outcomes`` of a view counts texts.

    ``outcomes[view][c, k]`` are the texts for which class c is predicted, with k = 0 where that is
    right, 1 where it is wrong, 2 where no label is known. ``lengths[n]`` rows have n words.
    """

    classes: tuple[str, ...]
    candidates: Candidates
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    sums: WordSums = field(default_factory=WordSums)
    mistakes: ConfidentMistakes = field(default_factory=lambda: ConfidentMistakes(_MISTAKES))
    phrase_counts: PhraseCounts = field(default_factory=PhraseCounts)
    views: tuple[View, ...] = ()
    outcomes: dict[int, Int[np.ndarray, "C 3"]] = field(default_factory=dict)
    failed: int = 0
    lengths: Int[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def moments(
        self, view: int, *, predicted: int | None = None, wrong: int | None = None
    ) -> Moments:
        """Return the moments of a view's words: of all its texts, or of some outcomes."""
        asked = (predicted, wrong)
        keys = [
            key
            for key in self.sums.groups()
            if isinstance(key, tuple)
            and key[0] == view
            and all(want is None or want == is_ for want, is_ in zip(asked, key[1:], strict=True))
        ]
        return self.sums.moments(keys, len(self.vocabulary))

    def texts(self, view: int) -> int:
        """Return how many texts a view explains."""
        return int(self.outcomes[view].sum()) if view in self.outcomes else 0

    def add(self, shard: ShardWords, *, phrases: bool) -> None:
        """Take in a shard."""
        self.views, self.failed = shard.views, self.failed + shard.failed
        if not len(shard.row):
            return
        classes = len(self.classes)
        predicted = np.clip(shard.predicted, 0, None)
        outcome = np.where(shard.wrong < 0, 2, shard.wrong)
        joint = (shard.view * classes + predicted) * 3 + outcome
        counts = np.bincount(joint, minlength=len(self.views) * classes * 3)
        for view, table in enumerate(counts.reshape(-1, classes, 3)):
            self.outcomes[view] = self.outcomes.get(view, 0) + table
        there, group = np.unique(joint, return_inverse=True)
        keys = [(int(j) // 3 // classes, int(j) // 3 % classes, int(j) % 3) for j in there]
        self.sums.add(shard, group, keys)
        words = np.bincount(shard.at, minlength=len(shard.row))
        self.lengths = _added(self.lengths, np.bincount(words))
        self.mistakes.add(shard)
        self.candidates.add(shard)
        if phrases:
            self.phrase_counts.add(shard)


def _added(a: Int[np.ndarray, " n"], b: Int[np.ndarray, " m"]) -> Int[np.ndarray, " k"]:
    whole = np.zeros(max(len(a), len(b)), dtype=np.int64)
    whole[: len(a)] += a
    whole[: len(b)] += b
    return whole


def tallied(run: "Run", *, method: str | None = None, phrases: bool = False) -> RunTally:
    """Return the sums over a run, or over one of its methods."""
    if method is not None and method not in run.methods:
        raise InputError(nearest("method of this run", method, run.methods))
    tally = RunTally(classes=run.classes, candidates=Candidates(run.total))
    more = ("ends",) if phrases else ()
    for shard in words_of_shards(run, tally.vocabulary, counts=True, more=more, method=method):
        tally.add(shard, phrases=phrases)
    return tally


_SURE = 0.05


def differing_mistakes(
    tally: RunTally, view: int, most: int
) -> tuple[int, tuple[DifferingWord, ...]]:
    """Return how many words were compared between right and wrong texts, and those that differ.

    Texts of one predicted class are compared with one another, and p is corrected for all classes.
    """
    groups = [
        (name, compared_words(*(tally.moments(view, predicted=c, wrong=k) for k in (0, 1))))
        for c, name in enumerate(tally.classes)
    ]
    compared = sum(len(found.word) for _, found in groups)
    return compared, tuple(corrected(tally.vocabulary.words(), groups)[:most])


def differing_slices(
    tally: RunTally, walk: "SecondWalk", view: int, most: int
) -> list[tuple[DifferingWord, ...]]:
    """Return, for each slice, the words that score otherwise in it than in all other texts."""
    rule, size = walk.rule, len(tally.vocabulary)
    if rule is None:
        return []
    every = tally.moments(view)
    groups = []
    for s, name in enumerate(rule.names):
        here = walk.slice_sums.moments([(view, s)], size)
        rest = Moments(*(a - b for a, b in zip(every, here, strict=True)))
        groups.append((name, compared_words(rest, here)))
    sure = corrected(tally.vocabulary.words(), groups)
    return [tuple(one for one in sure if one.group == name)[:most] for name in rule.names]


def corrected(words: list[str], groups: list[tuple[str, Compared]]) -> list[DifferingWord]:
    """Return the words that differ, p < 0.05 by Holm over all groups, the largest gap first."""
    p = np.array(holm([x for _, found in groups for x in found.p.tolist()]))
    rows, place = [], 0
    for name, found in groups:
        own = p[place : place + len(found.word)]
        place += len(found.word)
        rows += [
            _differing(words, name, found, i, own[i]) for i in np.flatnonzero(own < _SURE).tolist()
        ]
    return sorted(rows, key=lambda one: -abs(one.difference))


def _differing(words: list[str], name: str, found: Compared, i: int, p: float) -> DifferingWord:
    return DifferingWord(
        word=words[found.word[i]],
        group=name,
        first=float(found.first[i]),
        first_texts=int(found.texts[0][i]),
        second=float(found.second[i]),
        second_texts=int(found.texts[1][i]),
        difference=float(found.difference[i]),
        low=float(found.low[i]),
        high=float(found.high[i]),
        p_holm=float(p),
    )


_EXPLAINED = (
    "id", "text", "starts", "ends", "stderr", "bound", "base_value", "intercept", "cut", "pairs",
    "anchor", "notices", "settings", "diagnostics",
)  # fmt: skip


@final
@dataclass(eq=False)
class SecondWalk:
    """What it finds; ``picked`` are explanations by view and row, None where no text is stored.

    ``outcomes[view, slice]`` counts texts as :class:`RunTally` does.
    """

    examples: WordExamples
    rule: SliceRule | None
    phrases: Vocabulary = field(default_factory=Vocabulary)
    phrase_sums: WordSums = field(default_factory=WordSums)
    slice_sums: WordSums = field(default_factory=lambda: WordSums(tests_only=True))
    outcomes: dict[tuple[int, int], Int[np.ndarray, "C 3"]] = field(default_factory=dict)
    picked: dict[tuple[int, int], tuple[str, Explanation | None]] = field(default_factory=dict)

    def slice_up(self, shard: ShardWords, classes: int) -> None:
        """Add a shard to the sums of its slices."""
        if self.rule is None:
            return
        group, slices = self.rule.group(shard.table), len(self.rule.names)
        keys = [(v, s) for v in range(len(shard.views)) for s in range(slices)]
        joint = np.where(group < 0, -1, shard.view * slices + group)
        self.slice_sums.add(shard, joint, keys)
        outcome = np.where(shard.wrong < 0, 2, shard.wrong)
        code = (joint * classes + np.clip(shard.predicted, 0, None)) * 3 + outcome
        counts = np.bincount(code[joint >= 0], minlength=len(keys) * classes * 3)
        for key, table in zip(keys, counts.reshape(-1, classes, 3), strict=True):
            self.outcomes[key] = self.outcomes.get(key, 0) + table


def walked_again(
    run: "Run",
    tally: RunTally,
    *,
    method: str | None,
    rule: SliceRule | None,
    chosen: Mapping[int, Mapping[int, int]],
    picked: Collection[tuple[int, int]],
) -> SecondWalk:
    """Return what the second walk finds.

    ``chosen`` are words to give examples of, by view; ``picked`` are views and rows.
    """
    walk = SecondWalk(WordExamples(chosen, tally.vocabulary.words()), rule)
    wanted = frozenset(picked)
    carried = {view: carrying(tally.moments(view)) for view in range(len(tally.views))}
    more = _EXPLAINED if rule is None else (*_EXPLAINED, rule.column)
    for shard in words_of_shards(run, tally.vocabulary, more=more, counts=True, method=method):
        if not len(shard.row):
            continue
        walk.slice_up(shard, len(run.classes))
        walk.examples.add(shard)
        phrased = phrases_of(shard, tally.phrase_counts, walk.phrases, carried)
        walk.phrase_sums.add(phrased, shard.view, list(range(len(shard.views))))
        for place, key in enumerate(zip(shard.view.tolist(), shard.row.tolist(), strict=True)):
            if key in wanted:
                walk.picked[key] = _explained(run, shard.table.slice(place, 1).to_pylist()[0])
    return walk


def _explained(run: "Run", row: dict[str, Any]) -> tuple[str, Explanation | None]:
    text = row["text"]
    return row["id"], None if text is None else explanation_of(row, run.record, text=text)


_DIFFERING = 12


def summarized(
    run: "Run", *, method: str | None, by: str | None, top: int, representatives: int
) -> RunSummary:
    """Return the summary of a run; ``by`` says what it is sliced by, None for no slices."""
    for name, given in (("top", top), ("representatives", representatives)):
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise InputError(f"{name} must be a whole number from 1; got {given!r}.")
    tally = tallied(run, method=method, phrases=True)
    if not tally.outcomes:
        raise InputError(f"'{run.path}' holds no explanations: {_why_none(run, tally)}")
    rule = None if by is None else slice_rule(run, by, tally.lengths)
    chosen = {view: _leading(run, tally, view, top) for view in range(len(tally.views))}
    picks = {
        view: tally.candidates.pick(view, tally.moments(view).size, representatives)
        for view in chosen
    }
    wanted = {(view, row) for view, pick in picks.items() for row in pick.rows}
    wanted |= {(view, one.row) for view in chosen for one in tally.mistakes.of(view)[:top]}
    walk = walked_again(run, tally, method=method, rule=rule, chosen=chosen, picked=wanted)
    views = [_view(run, tally, walk, v, chosen[v], picks[v], top) for v in chosen]
    return RunSummary(
        name=str(run.path),
        texts=len(run),
        total=run.total,
        failed=tally.failed,
        classes=run.classes,
        scale=run.record.question.scale,
        views=tuple(views),
        notices=tuple(_notices(run, tally)),
        model=run.record.model.fingerprint,
        version=run.record.version,
    )


def _why_none(run: "Run", tally: RunTally) -> str:
    if not run.shards:
        return "no shard is finished yet; start the run again."
    return (
        f"all {tally.failed:,} rows failed; see Run.errors()." if tally.failed else "it is empty."
    )


def _notices(run: "Run", tally: RunTally) -> list[str]:
    found = []
    if not run.finished:
        found.append(f"The run is not finished: {len(run):,} of {run.total:,} texts are in it.")
    if tally.failed:
        rows = f"{tally.failed:,} row{'s' * (tally.failed > 1)}"
        found.append(f"{rows} hold an error instead of scores and take no part.")
    labelled = sum(int(t[:, :2].sum()) for t in tally.outcomes.values())
    if run.record.data.columns.label is not None and not labelled:
        found.append(
            "No label is the name or the number of a class, so nothing is said about mistakes."
        )
    return found


def _signed(run: "Run", method: str) -> bool:
    return next(one.signed for one in run.record.methods if one.id == method)


def _leading(run: "Run", tally: RunTally, view: int, top: int) -> dict[int, int]:
    """Return the words furthest from 0 for certain, with the side they are on."""
    moments = tally.moments(view)
    found = shrunken(moments)
    size = strength(found)
    order = np.lexsort((-np.abs(found.mean), -size, moments.texts < RARE))
    sides = np.sign(found.mean).astype(int)
    signed = _signed(run, tally.views[view].method)
    chosen: dict[int, int] = {}
    for side in (1, -1) if signed else (1,):
        here = order[(sides[order] == side)] if signed else order
        chosen |= {int(i): side for i in here[:top] if size[i] > 0 or len(size) <= top}
    return chosen


def _view(
    run: "Run",
    tally: RunTally,
    walk: SecondWalk,
    v: int,
    chosen: dict[int, int],
    pick: Picked,
    top: int,
) -> SummarizedView:
    view, moments, names = tally.views[v], tally.moments(v), tally.vocabulary.words()
    leading = [names[i] for i in chosen]
    found = _summarized_words(moments, leading, list(chosen), lambda i: walk.examples.of(v, i))
    compared, differing = differing_mistakes(tally, v, _DIFFERING)
    method = next(one for one in run.record.methods if one.id == view.method)
    return SummarizedView(
        method=view.method,
        label=method.label,
        signed=method.signed,
        target=view.target,
        against=view.against,
        texts=tally.texts(v),
        vocabulary=int((moments.texts > 0).sum()),
        supporting=tuple(one for one, side in zip(found, chosen.values(), strict=True) if side > 0),
        opposing=tuple(one for one, side in zip(found, chosen.values(), strict=True) if side < 0),
        phrases=_phrases(run, tally, walk, v, top),
        right=_right(tally.outcomes[v]),
        mistakes=_mistakes(run, tally, walk, v, top),
        compared=compared,
        differing=differing,
        representatives=_representatives(walk, v, pick),
        sliced_by=None if walk.rule is None else walk.rule.by,
        slices=_slices(run, tally, walk, v),
    )


def _summarized_words(
    moments: Moments, names: list[str], chosen: list[int], examples: Any
) -> list[SummarizedWord]:
    columns = {
        name: values[chosen].tolist()
        for name, values in word_columns(moments, shrunken(moments)).items()
        if name != "total"
    }
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return [
        SummarizedWord(word=name, examples=examples(i), **row)
        for i, name, row in zip(chosen, names, rows, strict=True)
    ]


def _phrases(
    run: "Run", tally: RunTally, walk: SecondWalk, v: int, top: int
) -> tuple[SummarizedWord, ...]:
    """Return the phrases of enough texts, the strongest first."""
    keys = [int(key) for key in walk.phrases.words()]
    moments = walk.phrase_sums.moments([v], len(keys))
    size = strength(shrunken(moments))
    able = np.flatnonzero((moments.texts >= FEWEST) & (size > 0))
    kept = able[np.argsort(-size[able], kind="stable")][:top].tolist()
    known = tally.vocabulary.words()
    names = [
        phrase_name([known[word] for word in phrase_words(keys[i])], run.record.data.columns)
        for i in kept
    ]
    return tuple(_summarized_words(moments, names, kept, lambda _: ()))


def _right(outcomes: Int[np.ndarray, "C 3"]) -> Part | None:
    right, wrong = (int(outcomes[:, k].sum()) for k in (0, 1))
    return share_of(right, right + wrong) if right + wrong else None


def _mistakes(
    run: "Run", tally: RunTally, walk: SecondWalk, v: int, top: int
) -> tuple[MistakenText, ...]:
    return tuple(
        MistakenText(
            row=one.row,
            id=walk.picked[v, one.row][0],
            predicted=run.classes[one.predicted],
            label=run.classes[one.label],
            confidence=one.confidence,
            margin=run.record.model.link == "none",
            explanation=walk.picked[v, one.row][1],
        )
        for one in tally.mistakes.of(v)[:top]
    )


def _representatives(walk: SecondWalk, v: int, pick: Picked) -> tuple[RepresentativeText, ...]:
    return tuple(
        RepresentativeText(
            row=row, id=walk.picked[v, row][0], covered=covered, explanation=walk.picked[v, row][1]
        )
        for row, covered in zip(pick.rows, pick.covered, strict=True)
    )


def _slices(run: "Run", tally: RunTally, walk: SecondWalk, v: int) -> tuple[RunSlice, ...]:
    if walk.rule is None:
        return ()
    differing = differing_slices(tally, walk, v, 3)
    target = tally.views[v].target
    found = []
    for s, name in enumerate(walk.rule.names):
        outcomes = walk.outcomes.get((v, s))
        if outcomes is None or not (texts := int(outcomes.sum())):
            continue
        called = int(outcomes[run.classes.index(target)].sum()) if target in run.classes else 0
        found.append(
            RunSlice(
                name=name,
                texts=texts,
                target=share_of(called, texts),
                right=_right(outcomes),
                differing=differing[s],
            )
        )
    return tuple(found)


_STRONGEST = 5


def words_of_run(run: "Run", method: str, *, target: str | None, sort: str) -> pa.Table:
    """Return the table of words of a method, view after view."""
    if sort not in SORTS:
        raise InputError(nearest("way to sort words", sort, SORTS))
    tally = tallied(run, method=method)
    found = [view for view in tally.views if target is None or view.target == target]
    if target is not None and not found:
        raise InputError(nearest("class explained here", target, {v.target for v in tally.views}))
    names = tally.vocabulary.words()
    tables = [
        word_table(view, names, tally.moments(tally.views.index(view)), sort=sort) for view in found
    ]
    if not tables:
        raise InputError(f"'{run.path}' holds no explanations by {method}.")
    return pa.concat_tables(tables)


def mistakes_of_run(run: "Run", method: str, *, most: int) -> pa.Table:
    """Return the most confident mistakes of every view."""
    found = summarized(run, method=method, by=None, top=most, representatives=1)
    rows = [
        _about(view)
        | {
            "row": one.row,
            "id": one.id,
            "predicted": one.predicted,
            "label": one.label,
            "confidence": one.confidence,
            "words": _strongest_words(one.explanation),
        }
        for view in found.views
        for one in view.mistakes
    ]
    kinds = {"row": pa.int64(), "confidence": pa.float64(), "words": pa.list_(pa.string())}
    names = ("method", "target", "row", "id", "predicted", "label", "confidence", "words")
    return _table(rows, names, kinds)


def representatives_of_run(run: "Run", method: str, *, count: int) -> pa.Table:
    """Return the texts picked for every view, in the order in which they were."""
    found = summarized(run, method=method, by=None, top=1, representatives=count)
    rows = [
        _about(view)
        | {
            "row": one.row,
            "id": one.id,
            "covered": one.covered,
            "text": None if one.explanation is None else one.explanation.text,
        }
        for view in found.views
        for one in view.representatives
    ]
    kinds = {"row": pa.int64(), "covered": pa.float64()}
    return _table(rows, ("method", "target", "row", "id", "covered", "text"), kinds)


def slices_of_run(run: "Run", by: str, method: str) -> pa.Table:
    """Return one row per view and slice, shares with Wilson's intervals."""
    found = summarized(run, method=method, by=by, top=1, representatives=1)
    rows = [
        _about(view)
        | {"slice": one.name, "texts": one.texts}
        | _part("predicted", one.target)
        | _part("right", one.right)
        | {"differing": [word.word for word in one.differing]}
        for view in found.views
        for one in view.slices
    ]
    counts = dict.fromkeys(("texts", "predicted", "right", "labelled"), pa.int64())
    shares = [f"{name}_{end}" for name in ("predicted", "right") for end in ("low", "high")]
    kinds = counts | dict.fromkeys(shares, pa.float64()) | {"differing": pa.list_(pa.string())}
    names = ("method", "target", "slice", "texts", "predicted", *shares[:2], "right", "labelled")
    return _table(rows, (*names, *shares[2:], "differing"), kinds)


def _part(name: str, part: Part | None) -> dict[str, Any]:
    if part is None:
        return {}
    own = {"labelled": part.of} if name == "right" else {}
    return own | {name: part.count, f"{name}_low": part.low, f"{name}_high": part.high}


def _about(view: SummarizedView) -> dict[str, Any]:
    return {"method": view.method, "target": view.aim}


def _strongest_words(found: Explanation | None) -> list[str]:
    return [] if found is None else [word for word, _ in found.top(_STRONGEST)]


def _table(
    rows: Iterable[dict[str, Any]], names: tuple[str, ...], kinds: dict[str, Any]
) -> pa.Table:
    own = list(rows)
    return pa.table(
        {
            name: pa.array([row.get(name) for row in own], kinds.get(name, pa.string()))
            for name in names
        }
    )
