"""Words whose scores differ between texts: wrong ones and right, a slice and the rest."""

__all__ = ["differing_mistakes", "differing_slices"]

from typing import TYPE_CHECKING

import numpy as np

from limelight.corpus.mistakes import Compared, compared_words
from limelight.corpus.run_tally import RunTally
from limelight.corpus.word_sums import Moments
from limelight.judging.statistics import holm
from limelight.results.summary import DifferingWord

if TYPE_CHECKING:
    from limelight.corpus.second_walk import SecondWalk

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
