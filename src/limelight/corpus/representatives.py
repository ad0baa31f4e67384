r"""A few texts that stand for a run: the submodular pick of Ribeiro, Singh and Guestrin (2016).

Each text shows its ``SHOWN`` strongest words. The importance of word j is
:math:`I_j = \sqrt{\sum_i |x_{ij}|}`, and texts S cover :math:`c(S) = \sum_{j \in \cup S} I_j`, a
monotone submodular function; so taking the text that adds most, again and again, covers at least
:math:`1 - 1/e \approx 63 \%` of what any S of the same size covers (Nemhauser, Wolsey and Fisher,
1978), among the texts that are looked at: ``MOST`` of them, evenly spread over the run.
"""

__all__ = ["MOST", "SHOWN", "Candidates", "Picked", "greedy_cover"]

from typing import NamedTuple, final

import numpy as np

from limelight.corpus.shard_words import ShardWords
from limelight.shapes import Float, Int

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
