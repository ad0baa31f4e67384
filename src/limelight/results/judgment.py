"""Which explanation may be trusted on a model: areas between chance and ceiling, over texts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.results.mixins import FigureMixin, HtmlMixin, TableMixin, by_name
from limelight.results.table import Table, plain_rows
from limelight.results.values import (
    check_schema,
    each_value,
    plain_value,
    read_value,
    written_value,
)
from limelight.shapes import Float, Int
from limelight.text import name_of_one, one_line

Interval = tuple[float, float]
_SCHEMA = "limelight.judgment/2"  # which is the first key of a file


def shown_end(x: float) -> str:
    """Return an end of an interval with three decimals, or with more where they would all be 0.

    So 0 is in an interval as it is shown exactly where it is in the interval.
    """
    digits = next((k for k in range(3, 12) if round(x, k)), 3)
    return f"{x:z.{digits}f}".replace("-", "−")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCurve:
    """The explained number after the first words of an order are gone, read at even steps.

    Kept as bytes, little-endian 16-bit numbers of words and 32-bit values: a data set has millions
    of points, which as objects would fill the memory, and bytes can be neither changed nor unequal
    to themselves.
    """

    order: bytes
    values: bytes

    @staticmethod
    def of(order: Int[np.ndarray, " d"], values: Float[np.ndarray, " steps"]) -> "RemovalCurve":
        """Return the curve of words ``order``, whose first value is that of the whole text."""
        most = float(np.finfo("<f4").max)  # what is larger could be drawn nowhere
        points = np.clip(values, -most, most).astype("<f4")
        return RemovalCurve(order=order.astype("<u2").tobytes(), values=points.tobytes())

    def __post_init__(self) -> None:
        if len(self.order) % 2 or len(self.values) % 4 or not self.values:
            raise InputError("a curve is 2 bytes for each word and 4 bytes for each value.")
        if not np.isfinite(self.points).all():
            raise InputError("the values of a curve must be finite numbers.")

    @property
    def words(self) -> Int[np.ndarray, " d"]:
        """The words, first removed first, by their place in the list of words."""
        return np.frombuffer(self.order, "<u2").astype(np.int64)

    @property
    def points(self) -> Float[np.ndarray, " steps"]:
        """The explained number: of the whole text, then after every step."""
        return np.frombuffer(self.values, "<f4").astype(np.float64)

    @property
    def removed(self) -> Int[np.ndarray, " steps"]:
        """How many words are gone at each point: evenly spread from none to all."""
        steps = len(self.values) // 4 - 1
        return np.linspace(0, len(self.order) // 2, steps + 1).round().astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreeingPair:
    """Two methods, or one with two seeds: means over texts with 95 % intervals.

    An interval is None where fewer than ten texts have the measure.
    ``rank`` is Spearman's correlation of the orders of the words, by size where one of the two has
    no signs; ``sign`` the part of the words with the same sign; ``top`` the part of the strongest
    words that both name. None where no text has one.
    """

    methods: tuple[str, str]
    texts: int = 0
    rank: float | None = None
    rank_interval: Interval | None = None
    sign: float | None = None
    sign_interval: Interval | None = None
    top: float | None = None
    top_interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodAgreement:
    """Every pair of methods, and in ``again`` each sampled method against another seed of itself.

    ``strongest`` is how many words ``top`` is about, ``chance`` what guesses share of them.
    """

    pairs: tuple[AgreeingPair, ...] = ()
    again: tuple[AgreeingPair, ...] = ()
    strongest: int = 0
    chance: float | None = None

    def pair(self, first: str, second: str) -> AgreeingPair:
        """Return what is known of two methods, or of one and another seed of it."""
        for one in self.again if first == second else self.pairs:
            if set(one.methods) == {first, second}:
                return one
        raise KeyError((first, second))


FIRST_SENTENCE = (
    "Plausible is not faithful: these numbers say whether people would mark the same words, not "
    "whether the model relies on them."
)


TIE_ORDERS = 64  # random orders of tied words that chance and ties are averaged over


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """One measure on one text: of every method, of guessing, and of people.

    ``chance`` is the mean over orders of the words; None where nothing is known of it.
    ``rationale`` is what the rationale itself reaches as scores of words (the part of each word's
    occurrences that is marked): less than 1 where a word is marked in one place and not in
    another. ``annotators`` is what annotators reach against each other.

    Chance ties all words. If words are tied and one of them occurs more than once, a number is the
    mean over 64 random orders of the tied words. ``stderr`` has the standard errors of such means;
    None where a number is exact.
    """

    chance: float | None = None
    rationale: float | None = None
    annotators: float | None = None
    methods: tuple[float | None, ...] = ()
    stderr: "Values | None" = None


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


MARKED = ("precision", "r_precision", "token_f1", "iou_precision", "iou_recall")  # the measures


@dataclass(frozen=True, slots=True, kw_only=True)
class PlausibleMethod:
    """One method over all texts, means with 95 % intervals.

    ``precision`` is average precision, ``above`` what it has more than guessing on the same texts.
    An interval is None where fewer than ten texts have the measure. Each ``…_stderr`` is the
    standard error that the drawn orders of tied words cause; None where there is none. That of
    ``above`` is an upper limit. The intervals over texts contain these errors.
    """

    method: str
    texts: int = 0
    precision: float | None = None
    precision_interval: Interval | None = None
    precision_stderr: float | None = None
    above: float | None = None
    above_interval: Interval | None = None
    above_stderr: float | None = None
    r_precision: float | None = None
    r_precision_interval: Interval | None = None
    r_precision_stderr: float | None = None
    token_f1: float | None = None
    token_f1_interval: Interval | None = None
    token_f1_stderr: float | None = None
    iou_f1: float | None = None
    iou_f1_interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """How much larger the share of the first method is, on the texts that both explain.

    Of plausibility it is the average precision. ``won`` is the part of the texts on which the first
    has the larger area, or precision, a tie being half of one. ``interval`` and ``p`` are of this
    pair alone, ``p_holm`` is corrected for the number of pairs. ``simultaneous`` is an interval
    that holds for all pairs at once, and ``p_simultaneous`` of the same test. Each p is below 0.05
    exactly where 0 is outside its interval. All five are None where fewer than ten texts have both
    methods or fewer than six of them differ.
    """

    methods: tuple[str, str]
    difference: float
    interval: Interval | None
    p: float | None
    p_holm: float | None
    won: float
    simultaneous: Interval | None = None
    p_simultaneous: float | None = None

    @property
    def differs(self) -> bool:
        """Whether the two can be told apart: 0 is not in the interval of all pairs at once."""
        return self.simultaneous is not None and self.simultaneous[0] > 0


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
    pairs: tuple[JudgedPair, ...] = ()
    texts: tuple[MarkedText, ...] = ()
    share: float = 0.0
    verdict: str = ""
    notices: tuple[str, ...] = ()

    def __getitem__(self, method: str) -> PlausibleMethod:
        return by_name((*self.methods, *self.references), method)

    def ranked(self) -> list[PlausibleMethod]:
        """Return the methods, the most plausible first and those without a number last."""
        return sorted(self.methods, key=lambda m: (m.precision is None, -(m.precision or 0.0)))


# Dictionaries by method and nothing that is empty: a file of a thousand texts stays small.
class _Stored(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Declared as a file has it: what has its default is left out."""


class Measure(_Stored, frozen=True, kw_only=True):
    """Areas of the orders of the methods on one text.

    ``chance`` is the mean over all orders, ``stderr`` its standard error, None where it is exact.
    ``ceiling`` is what no order exceeds, or the best that was found.
    """

    chance: float
    stderr: float | None = None
    ceiling: float
    areas: dict[str, float]


class TextColumn(_Stored, frozen=True, kw_only=True):
    """Another measure of the methods on one text; ``errors`` are those of what was sampled."""

    values: dict[str, float]
    errors: dict[str, float] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodColumn:
    """The mean of a :class:`TextColumn` over ``texts`` texts, with a 95 % interval over them.

    ``interval`` is None below ten texts. ``sampling`` is the standard error that comes from
    sampling within the texts.
    """

    name: str
    value: float
    interval: Interval | None = None
    texts: int = 0
    sampling: float | None = None


# Of what the ceiling of a text is known, from the weakest on.
CEILING_KINDS = ("best found", "checked", "proven")


class JudgedText(_Stored, frozen=True, kw_only=True):
    """What was found on one text; ``reason`` says why nothing was.

    ``chance``, ``stderr``, ``ceiling`` and ``areas`` are those of deletion, other measures stand
    beside. ``ceiling_kind`` is one of :data:`CEILING_KINDS`: a "checked" ceiling rests on removals
    that were tried on the text. ``best`` names the order that stands for the ceiling where it is
    the "best found": a method, or "greedy", the order that takes the best word next, whose area is
    ``greedy`` (None where there was no time for all of it). ``reasons`` has a sentence for each
    method that has no scores. A text ``has_room`` where its ceiling lies above its chance; the
    others cannot tell a method from guessing. ``curves`` has the curve of each method, of the words
    ``words``.
    """

    id: int
    d: int = 0
    target: str = ""
    full: float = 0.0
    chance: float | None = None
    stderr: float | None = None
    ceiling: float | None = None
    ceiling_kind: str = ""
    best: str = ""
    greedy: float | None = None
    has_room: bool = False
    areas: dict[str, float] | None = None
    insertion: Measure | None = None
    change: Measure | None = None
    ties: dict[str, int] = {}
    reasons: dict[str, str] = {}
    notices: tuple[str, ...] = ()
    reason: str | None = None
    columns: dict[str, TextColumn] = {}
    words: tuple[str, ...] = ()
    curves: dict[str, RemovalCurve] = {}

    @property
    def deletion(self) -> Measure | None:
        """The measure that shares are made of; None where nothing was found."""
        if self.chance is None or self.ceiling is None or self.areas is None:
            return None
        return Measure(
            chance=self.chance, stderr=self.stderr, ceiling=self.ceiling, areas=self.areas
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMethod:
    """One method over all texts: ``share`` 0 is chance, 1 is the ceiling, with a 95 % interval.

    Every interval is None below ten texts. ``insertion`` and ``change`` are shares of the other
    two measures. ``won`` is the part of the texts on which no other method has a larger area.
    ``sampling`` is the standard error of the share that comes from sampled chance within the
    texts, None where chance is exact. ``columns`` are other measures, which
    ``method["additivity"]`` finds by name. ``reason`` says why a method has no share.
    """

    method: str
    label: str
    signed: bool = True
    share: float | None = None
    interval: Interval | None = None
    insertion: float | None = None
    insertion_interval: Interval | None = None
    change: float | None = None
    change_interval: Interval | None = None
    won: float | None = None
    texts: int = 0
    tied: int = 0
    sampling: float | None = None
    reason: str | None = None
    columns: tuple[MethodColumn, ...] = ()

    def __getitem__(self, column: str) -> MethodColumn:
        return by_name(self.columns, column, "name")


class JudgedColumn(NamedTuple):
    """One measure: what it ``means`` and is to be warned of, and in which direction it is better.

    ``short`` is for the heading of a narrow column. In ``means``, {word} and {words} stand for what
    a feature is called.
    """

    label: str
    short: str
    means: str
    better: Literal["larger", "smaller"] = "larger"


_DELETES = "Removed {words} are deleted, or replaced if the model needs something in their place"
_PROBABILITY = "It has neither chance nor ceiling, and probabilities near 0 and 1 hide most changes"
COLUMNS: Mapping[str, JudgedColumn] = {
    "additivity": JudgedColumn(
        "additivity",
        "additivity",
        "Correlation between the sum of the scores of some {words} and what removing them together "
        "takes away, over random sets of {words}. It asks for the sizes of the scores, not only "
        "for their order.",
    ),
    "lds": JudgedColumn(
        "LDS",
        "LDS",
        "Linear datamodelling score, as ContextCite reports it: Spearman's rank correlation "
        "between the sum of the scores of the {words} that are kept and the explained number, "
        "where every {word} is kept or not with probability ½. With half of the {words} gone, no "
        "text is like the whole one that was explained.",
    ),
    **{
        f"top_{k}_drop": JudgedColumn(
            f"drop without top {k}",
            f"top {k} drop",
            "By how much the explained number, of an answer its log-probability, falls "
            f"without the {f'{k} strongest {{words}}' if k > 1 else 'strongest {word}'}. It has "
            "neither chance nor ceiling: how far it can fall differs from text to text.",
        )
        for k in (1, 3, 5)
    },
    "loo_tau": JudgedColumn(
        "τ with leave-one-out",
        "loo tau",
        "Kendall's rank correlation (τ-b) with what removing each {word} alone takes away. It "
        "calls the method best that is nearest to leave-one-out, which need not be faithful "
        "itself.",
    ),
    "stability": JudgedColumn(
        "stability",
        "stability",
        "Spearman's rank correlation with the same method under another seed, for methods that "
        "sample.",
    ),
    "sanity": JudgedColumn(
        "same with shuffled weights",
        "sanity",
        "Spearman's rank correlation of the sizes of the scores with those for a model whose "
        "weights are shuffled. Near 0: the explanation depends on what the model has learned; "
        "near 1: it would be the same had the model learned nothing.",
        "smaller",
    ),
    "eraser_comprehensiveness": JudgedColumn(
        "ERASER comprehensiveness",
        "ERASER c",
        "As ERASER computes it: the probability lost without the top 1, 5, 10, 20 and 50 % of the "
        f"{{words}}, averaged. {_DELETES}. {_PROBABILITY}; in short texts the first bins are the "
        "same {word}.",
    ),
    "eraser_sufficiency": JudgedColumn(
        "ERASER sufficiency",
        "ERASER s",
        "As ERASER computes it: the probability lost when only the top 1, 5, 10, 20 and 50 % of "
        f"the {{words}} are left, averaged. {_PROBABILITY}; texts of so few {{words}} are like "
        "none the model has seen.",
        "smaller",
    ),
    "ferret_comprehensiveness": JudgedColumn(
        "ferret aopc_compr",
        "ferret c",
        "As ferret computes it by default: the probability lost without the positively scored "
        "among the top 10, 20, … 100 % of the {words}, averaged over those of the ten steps that "
        "remove something new. Each method is averaged over thresholds of its own: one that calls "
        "few {words} positive is judged by small removals only, which can turn the order of two "
        "methods around.",
    ),
    "ferret_sufficiency": JudgedColumn(
        "ferret aopc_suff",
        "ferret s",
        "As ferret computes it by default: the probability lost when only the positively scored "
        "among the top 10, 20, … 100 % of the {words} are left, averaged over those of the ten "
        "steps that keep something new. Each method is averaged over thresholds of its own, as in "
        "ferret's comprehensiveness.",
        "smaller",
    ),
}


class Judgment(
    HtmlMixin,
    FigureMixin,
    TableMixin,
    _Stored,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag=_SCHEMA,
):
    """How faithful methods are to a model on some texts, with intervals over the texts.

    ``greedy`` is the share of the greedy order: how near an order that there is comes to the
    ceiling. No interval and no p-value is computed from fewer than ten texts: there each is
    None. ``verdict`` names no best method below six texts. ``apart`` counts texts whose ceiling
    is their chance; they are in no share. ``second`` judges the same scores with removed words
    replaced in another way, where that was asked for. ``agreement`` says how alike the methods
    are, ``plausibility`` whether people would mark the same words, where rationales were given.
    """

    _terminal = "judgment.judgment_text"
    _page = "judgment.judgment_page"
    _fragment = "judgment.judgment_fragment"
    _figure = "figures.judgment_figure"

    texts: tuple[JudgedText, ...]
    methods: tuple[JudgedMethod, ...]
    pairs: tuple[JudgedPair, ...]
    greedy: float | None
    greedy_interval: Interval | None
    verdict: str
    notices: tuple[str, ...]
    settings: dict[str, Any]
    model: str
    version: str
    second: "Judgment | None" = None
    agreement: MethodAgreement | None = None
    plausibility: Plausibility | None = None

    def __post_init__(self) -> None:
        if not self.texts or not self.methods:
            raise InputError("a judgment needs at least one text and one method.")
        msgspec.structs.force_setattr(self, "settings", plain_value(self.settings, "settings"))
        names = [one.method for one in self.methods]
        if len(set(names)) < len(names):
            raise InputError("it names a method twice.")
        for what, part in (("second", self.second), ("plausibility", self.plausibility)):
            if part is not None and (
                [one.method for one in part.methods] != names or len(part.texts) != len(self.texts)
            ):
                raise InputError(f"its {what!r} must have the same methods and texts.")
        for text in self.texts:
            if any(own.words.max(initial=-1) >= len(text.words) for own in text.curves.values()):
                raise InputError("a curve removes words that its text does not have.")
        marked = () if self.plausibility is None else self.plausibility.texts
        for value in (getattr(one, name) for one in marked for name in MARKED):
            if value is not None and len(value.methods) != len(names):
                raise InputError(f"marked words must be held against all {len(names)} methods.")

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the judgment as JSON, without loss."""
        from limelight.results.codec import encoded

        return encoded(self._each_setting(written_value), indent)

    @classmethod
    def from_json(cls, content: str | bytes) -> "Judgment":
        """Return the judgment that :meth:`to_json` wrote."""
        from limelight.results.codec import decoded

        found = decoded(content, cls)
        # msgspec asks for the schema only where there are several.
        check_schema(content, _SCHEMA, "this is not a limelight judgment")
        return found._each_setting(read_value)

    def _each_setting(self, how: Callable[[Any], Any]) -> "Judgment":
        second = None if self.second is None else self.second._each_setting(how)
        return msgspec.structs.replace(self, settings=each_value(how, self.settings), second=second)

    @property
    def has_intervals(self) -> bool:
        """Whether any share has an interval; fewer than ten texts give none."""
        return any(method.interval is not None for method in self.methods)

    @property
    def noun(self) -> str:
        """What one of the units is called that go: "word", "sentence", …"""
        return name_of_one(str(self.settings.get("features", "words")))

    @property
    def judged(self) -> tuple[JudgedText, ...]:
        """The texts that shares are made of."""
        return tuple(text for text in self.texts if text.has_room)

    @property
    def apart(self) -> int:
        """How many texts were judged but cannot tell any method from guessing."""
        return sum(text.reason is None and not text.has_room for text in self.texts)

    @property
    def ceiling_kind(self) -> str:
        """What the shares are shares of: "proven" or "checked" ceilings, or the "best found"."""
        kinds = {text.ceiling_kind for text in self.texts if text.ceiling_kind}
        # The weakest of all texts: a mean of proven and other ceilings proves nothing.
        return min(kinds, key=CEILING_KINDS.index, default="best found")

    @property
    def ceiling_name(self) -> str:
        """What a share of 1 is called: "ceiling", or "best found" if no limit is known."""
        return "best found" if self.ceiling_kind == "best found" else "ceiling"

    def ranked(self) -> list[JudgedMethod]:
        """Return the methods, the most faithful first and those without a share last."""
        return sorted(self.methods, key=lambda m: (m.share is None, -(m.share or 0.0)))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, method: str) -> JudgedMethod:
        return by_name(self.methods, method)

    def __repr__(self) -> str:
        shown = [
            f"{one_line(m.method, 16)} {m.share:z.3f}" for m in self.ranked() if m.share is not None
        ]
        return f"<Judgment of {len(self)} texts: {one_line(', '.join(shown), 140)}>"

    def _table(self) -> Table:
        """Return one row per text and method."""
        rows = []
        for number, text in enumerate(self.texts):
            for i, one in enumerate(self.methods):
                name, judged = one.method, text.deletion is not None
                row = {
                    "text": text.id,
                    "method": name,
                    "d": text.d,
                    "target": text.target,
                    "full": text.full if judged else None,
                    "chance": text.chance,
                    "ceiling": text.ceiling,
                    "ceiling_kind": text.ceiling_kind,
                    "greedy": text.greedy,
                    "area": (text.areas or {}).get(name),
                    "insertion": text.insertion and text.insertion.areas.get(name),
                    "change": text.change and text.change.areas.get(name),
                    **dict.fromkeys(COLUMNS),
                    **{k: own.values.get(name) for k, own in text.columns.items() if k in COLUMNS},
                    "reason": text.reason or text.reasons.get(name),
                }
                if self.plausibility is not None:
                    marked, none = (
                        self.plausibility.texts[number],
                        Values(methods=(None,) * (i + 1)),
                    )
                    for column, values in (
                        ("average_precision", marked.precision or none),
                        ("r_precision", marked.r_precision or none),
                    ):
                        stderr = values.stderr or none
                        row |= {
                            column: values.methods[i],
                            f"{column}_stderr": stderr.methods[i],
                            f"{column}_chance": values.chance,
                            f"{column}_chance_stderr": stderr.chance,
                        }
                    f1 = marked.token_f1 or none
                    row |= {
                        "token_f1": f1.methods[i],
                        "token_f1_stderr": (f1.stderr or none).methods[i],
                        "rationale_reason": marked.reason,
                    }
                rows.append(row)
        return plain_rows(rows[0], [list(row.values()) for row in rows])
