"""The rows of the table that says where methods disagree."""

__all__ = [
    "Disagreement",
    "against_reference",
    "reference",
    "strongest_disagreements",
    "unranked",
]

from dataclasses import dataclass
from itertools import combinations
from typing import final

from limelight.results import Comparison

REFERENCES = ("lime", "shapley", "ig")
TOP = 3


@final
@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two methods: rank correlation, features of opposite sign, features in both top threes.

    The first two are None where they are not defined (constant scores, scores without sign), all
    three where the scores of one method are nothing but rounding.
    """

    first: str
    second: str
    rank_correlation: float | None
    sign_conflicts: int | None
    shared_top: int | None
    top: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        parts = []
        if self.rank_correlation is not None:
            parts.append(f"rank correlation {self.rank_correlation:+.2f}")
        if self.sign_conflicts:
            words = "word" if self.sign_conflicts == 1 else "words"
            parts.append(f"{self.sign_conflicts} {words} of opposite sign")
        if self.shared_top is not None:
            parts.append(f"{self.shared_top} of the top {self.top} shared")
        return ", ".join(parts)


def reference(c: Comparison) -> int:
    """Return the method that the others are held against.

    LIME, Shapley or integrated gradients, which add up to something; else the first with signs.
    """
    methods, noise = [e.method for e in c], c.agreement.noise
    with_signs = [j for j, e in enumerate(c) if e.signed and e.method not in noise]
    known = [methods.index(name) for name in REFERENCES if name in methods and name not in noise]
    return next(iter(known + with_signs), 0)


def against_reference(c: Comparison) -> list[Disagreement]:
    """Return one row per method but the reference, in the order of the comparison."""
    chosen = reference(c)
    return [_row(c, i, chosen) for i in range(len(c.explanations)) if i != chosen]


def unranked(c: Comparison) -> str | None:
    """Say which methods take no part, because their scores are nothing but rounding."""
    labels = [e.label for e in c if e.method in c.agreement.noise]
    if not labels:
        return None
    peak = max(float(abs(e.scores).max()) for e in c if e.method in c.agreement.noise)
    return (
        f"Not ranked: {', '.join(labels)}. No score there is larger than {peak:.0e}, which is "
        "rounding, and an order of rounding errors says nothing."
    )


def strongest_disagreements(c: Comparison, count: int = 3) -> list[Disagreement]:
    """Return the pairs of lowest rank correlation; ties go to the more sign conflicts."""
    rows = [_row(c, i, j) for i, j in combinations(range(len(c.explanations)), 2)]
    known = [row for row in rows if row.rank_correlation is not None]
    known.sort(key=lambda row: (row.rank_correlation, -(row.sign_conflicts or 0)))
    return known[:count]


def _row(c: Comparison, i: int, j: int) -> Disagreement:
    a, features = c.agreement, c.explanations[0].features
    return Disagreement(
        c.explanations[i].label,
        c.explanations[j].label,
        a.rank_correlation[i][j],
        a.sign_conflicts[i][j],
        a.top3_overlap[i][j],
        min(TOP, len(features)),
    )
