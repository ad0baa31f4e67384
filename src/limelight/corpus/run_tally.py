"""One walk over a run: everything that its words, mistakes and representatives are made of."""

__all__ = ["RunTally", "tallied"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np

from limelight.corpus.mistakes import ConfidentMistakes
from limelight.corpus.phrases import PhraseCounts
from limelight.corpus.representatives import Candidates
from limelight.corpus.shard_words import ShardWords, View, Vocabulary, words_of_shards
from limelight.corpus.word_sums import Moments, WordSums
from limelight.errors import InputError, nearest
from limelight.shapes import Int

if TYPE_CHECKING:
    from limelight.corpus.stored_run import Run

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
