"""The second walk over a run: what is known only once the words of all texts have been added up.

Phrases that may be frequent, slices, examples of the words that are shown, and the explanations of
the texts that were picked.
"""

__all__ = ["SecondWalk", "walked_again"]

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from limelight.corpus.phrases import carrying, phrases_of
from limelight.corpus.run_tally import RunTally
from limelight.corpus.shard_rows import explanation_of
from limelight.corpus.shard_words import ShardWords, Vocabulary, words_of_shards
from limelight.corpus.slices import SliceRule
from limelight.corpus.word_examples import WordExamples
from limelight.corpus.word_sums import WordSums
from limelight.results import Explanation
from limelight.shapes import Int

if TYPE_CHECKING:
    from limelight.corpus.stored_run import Run

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
