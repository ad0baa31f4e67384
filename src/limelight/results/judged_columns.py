"""Measures that stand beside the share: what each is called, what it means and where it fails."""

__all__ = ["COLUMNS", "JudgedColumn", "described_column"]

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedColumn:
    """One measure; ``better`` says in which direction, "" where neither is."""

    name: str
    label: str
    short: str  # for the heading of a narrow column
    means: str
    better: Literal["larger", "smaller"]
    flaw: str = ""


_DELETES = "Words are deleted, or replaced where the model cannot do without them"
_PROBABILITY = "It has neither chance nor ceiling, and probabilities near 0 and 1 hide most changes"

COLUMNS: Mapping[str, JudgedColumn] = MappingProxyType(
    {
        one.name: one
        for one in (
            JudgedColumn(
                name="additivity",
                label="additivity",
                short="additivity",
                means="Correlation between the sum of the scores of some words and what removing "
                "them together takes away, over random sets of words. It asks for the sizes of "
                "the scores, not only for their order.",
                better="larger",
            ),
            JudgedColumn(
                name="loo_tau",
                label="τ with leave-one-out",
                short="loo tau",
                means="Kendall's rank correlation (τ-b) with what removing each word alone takes "
                "away.",
                better="larger",
                flaw="It calls the method best that is nearest to leave-one-out, which need not "
                "be faithful itself.",
            ),
            JudgedColumn(
                name="stability",
                label="stability",
                short="stability",
                means="Spearman's rank correlation with the same method under another seed, for "
                "methods that sample.",
                better="larger",
            ),
            JudgedColumn(
                name="sanity",
                label="same with shuffled weights",
                short="sanity",
                means="Spearman's rank correlation of the sizes of the scores with those for a "
                "model whose weights are shuffled. Near 0: the explanation depends on what the "
                "model has learned; near 1: it would be the same had the model learned nothing.",
                better="smaller",
            ),
            JudgedColumn(
                name="eraser_comprehensiveness",
                label="ERASER comprehensiveness",
                short="ERASER c",
                means="As ERASER computes it: the probability lost without the top 1, 5, 10, 20 "
                f"and 50 % of the words, averaged. {_DELETES}.",
                better="larger",
                flaw=f"{_PROBABILITY}; in short texts the first bins are the same one word.",
            ),
            JudgedColumn(
                name="eraser_sufficiency",
                label="ERASER sufficiency",
                short="ERASER s",
                means="As ERASER computes it: the probability lost when only the top 1, 5, 10, 20 "
                "and 50 % of the words are left, averaged.",
                better="smaller",
                flaw=f"{_PROBABILITY}; texts of so few words are like none the model has seen.",
            ),
            JudgedColumn(
                name="ferret_comprehensiveness",
                label="ferret aopc_compr",
                short="ferret c",
                means="As ferret computes it by default: the probability lost without the "
                "positively scored among the top 10, 20, … 100 % of the words, averaged over those "
                "of the ten steps that remove something new.",
                better="larger",
                flaw="Each method is averaged over thresholds of its own: one that calls few words "
                "positive is judged by small removals only, which can turn the order of two "
                "methods around.",
            ),
            JudgedColumn(
                name="ferret_sufficiency",
                label="ferret aopc_suff",
                short="ferret s",
                means="As ferret computes it by default: the probability lost when only the "
                "positively scored among the top 10, 20, … 100 % of the words are left, averaged "
                "over those of the ten steps that keep something new.",
                better="smaller",
                flaw="Each method is averaged over thresholds of its own, as in ferret's "
                "comprehensiveness.",
            ),
        )
    }
)


def described_column(name: str) -> JudgedColumn:
    """Return what the column ``name`` is; one that a newer version wrote has its name alone."""
    return COLUMNS.get(name) or JudgedColumn(
        name=name, label=name, short=name, means="", better="larger"
    )
