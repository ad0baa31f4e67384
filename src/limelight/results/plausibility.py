"""Whether people would mark the words that methods name: not whether the model relies on them."""

__all__ = [
    "FIRST_SENTENCE",
    "MARKED_COLUMNS",
    "MarkedText",
    "Plausibility",
    "PlausibleMethod",
    "PlausiblePair",
    "Values",
    "marked_cells",
]

from dataclasses import dataclass
from typing import Any, final

Interval = tuple[float, float]
MARKED_COLUMNS = (
    "average_precision",
    "average_precision_chance",
    "r_precision",
    "r_precision_chance",
    "token_f1",
    "rationale_reason",
)
FIRST_SENTENCE = (
    "Plausible is not faithful: these numbers say whether people would mark the same words, not "
    "whether the model relies on them."
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """One measure on one text: of every method, of guessing, and of people.

    ``chance`` is exact, over all orders of the words; None where nothing is known of it.
    ``rationale`` is what the rationale itself reaches as scores of words (the part of each word's
    occurrences that is marked): less than 1 where a word is marked in one place and not in
    another. ``annotators`` is what annotators reach against each other.
    """

    chance: float | None = None
    rationale: float | None = None
    annotators: float | None = None
    methods: tuple[float | None, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedText:
    """What was found on one text; ``reason`` says why nothing was.

    ``words`` counts occurrences, ``marked`` is the part of them that people marked. The last two
    are ERASER's precision and recall of spans, whose F1 is taken over all texts.
    """

    id: int
    words: int = 0
    marked: float = 0.0
    annotators: int = 0
    precision: Values | None = None
    r_precision: Values | None = None
    token_f1: Values | None = None
    iou_precision: Values | None = None
    iou_recall: Values | None = None
    reason: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlausibleMethod:
    """One method over all texts, means with 95 % intervals.

    ``precision`` is average precision, ``above`` what it has more than guessing on the same texts.
    """

    method: str
    texts: int = 0
    precision: float | None = None
    precision_interval: Interval | None = None
    above: float | None = None
    above_interval: Interval | None = None
    r_precision: float | None = None
    r_precision_interval: Interval | None = None
    token_f1: float | None = None
    token_f1_interval: Interval | None = None
    iou_f1: float | None = None
    iou_f1_interval: Interval | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlausiblePair:
    """How much larger the average precision of the first method is, on the texts of both.

    ``won`` is the part of the texts on which it is larger, a tie being half of one; ``p_holm`` is
    corrected for the number of pairs.
    """

    methods: tuple[str, str]
    difference: float
    interval: Interval
    p: float
    p_holm: float
    won: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plausibility:
    """How well the words that methods name are those that people marked.

    ``references`` are what methods are held against: "chance", "rationale" (what the rationale
    itself reaches as scores of words), and "annotators" where there are several. ``share`` is the
    part of a text that people mark, which decides how many places ERASER's measures take. ``pairs``
    are differences of average precision.
    """

    methods: tuple[PlausibleMethod, ...]
    references: tuple[PlausibleMethod, ...]
    pairs: tuple[PlausiblePair, ...] = ()
    texts: tuple[MarkedText, ...] = ()
    share: float = 0.0
    verdict: str = ""
    notices: tuple[str, ...] = ()

    def __getitem__(self, method: str) -> PlausibleMethod:
        for one in (*self.methods, *self.references):
            if one.method == method:
                return one
        raise KeyError(method)

    def ranked(self) -> list[PlausibleMethod]:
        """Return the methods, the most plausible first and those without a number last."""
        return sorted(self.methods, key=lambda m: (m.precision is None, -(m.precision or 0.0)))


def marked_cells(found: Plausibility | None, text: int, method: int) -> dict[str, Any]:
    """Return one row of ``MARKED_COLUMNS``; nothing where there were no rationales."""
    if found is None:
        return {}
    marked = found.texts[text]
    precision, r_precision = marked.precision, marked.r_precision
    return {
        "average_precision": precision.methods[method] if precision else None,
        "average_precision_chance": precision.chance if precision else None,
        "r_precision": r_precision.methods[method] if r_precision else None,
        "r_precision_chance": r_precision.chance if r_precision else None,
        "token_f1": marked.token_f1.methods[method] if marked.token_f1 else None,
        "rationale_reason": marked.reason,
    }
