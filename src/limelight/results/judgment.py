"""Judgments of methods: how faithful and plausible their explanations are, over several texts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.results.mixins import FigureMixin, HtmlMixin, JsonMixin, TableMixin, find_by_name
from limelight.results.schema import check_schema
from limelight.results.table import Table, plain_table
from limelight.results.values import (
    decode_value,
    encode_value,
    map_values,
    plain_value,
)
from limelight.shapes import Float, Int
from limelight.text import feature_noun, truncate_line

Interval = tuple[float, float]
_SCHEMA = "limelight.judgment/2"  # the first key of a file


def format_interval_end(x: float) -> str:
    """Return an end of an interval with three decimals, or more if they would all be 0.

    The printed interval then contains 0 exactly if the interval does.
    """
    digits = next((k for k in range(3, 12) if round(x, k)), 3)
    return f"{x:z.{digits}f}".replace("-", "−")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCurve:
    """The explained number as words are removed in an order, measured at even steps.

    The numbers are bytes: the indices of words are little-endian 16-bit integers and the values
    32-bit floats. A data set has millions of points, which would fill the memory as objects. Bytes
    cannot be changed and always equal themselves.
    """

    order: bytes
    values: bytes

    @staticmethod
    def from_arrays(
        order: Int[np.ndarray, " d"], values: Float[np.ndarray, " steps"]
    ) -> "RemovalCurve":
        """Return the curve of an order of words. The first value belongs to the whole text."""
        largest = float(np.finfo("<f4").max)  # larger values could not be drawn
        points = np.clip(values, -largest, largest).astype("<f4")
        return RemovalCurve(order=order.astype("<u2").tobytes(), values=points.tobytes())

    def __post_init__(self) -> None:
        if len(self.order) % 2 or len(self.values) % 4 or not self.values:
            raise InputError("a curve must have 2 bytes for each word and 4 bytes for each value.")
        if not np.isfinite(self.points).all():
            raise InputError("the values of a curve must be finite numbers.")

    @property
    def words(self) -> Int[np.ndarray, " d"]:
        """The indices of the words in the order of their removal."""
        return np.frombuffer(self.order, "<u2").astype(np.int64)

    @property
    def points(self) -> Float[np.ndarray, " steps"]:
        """The explained number of the whole text and after each step."""
        return np.frombuffer(self.values, "<f4").astype(np.float64)

    @property
    def removed_counts(self) -> Int[np.ndarray, " steps"]:
        """The number of removed words at each point, evenly spaced from none to all."""
        steps = len(self.values) // 4 - 1
        return np.linspace(0, len(self.order) // 2, steps + 1).round().astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAgreement:
    """Agreement of two methods, or of one method with two seeds, as means over texts.

    * ``rank``: Spearman's correlation of the orders of the words, by size if one of the two has no
      signs.
    * ``sign``: share of the words with the same sign.
    * ``top``: share of the strongest words that both methods name.

    A measure is None if no text has it. Its 95 % interval is None if fewer than ten texts have it.
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
    """The agreement of every pair of methods.

    ``reseeded_pairs`` compares each sampled method with itself under another seed. ``top`` of a
    pair counts the ``top_count`` strongest words, of which guesses share ``chance``.
    """

    pairs: tuple[PairAgreement, ...] = ()
    reseeded_pairs: tuple[PairAgreement, ...] = ()
    top_count: int = 0
    chance: float | None = None

    def pair(self, first: str, second: str) -> PairAgreement:
        """Return the agreement of two methods, or of a method with another seed of itself."""
        for pair in self.reseeded_pairs if first == second else self.pairs:
            if set(pair.methods) == {first, second}:
                return pair
        raise KeyError((first, second))


PLAUSIBILITY_CAVEAT = (
    "Plausible is not faithful: these numbers say whether people would mark the same words, not "
    "whether the model relies on them."
)


TIE_ORDERS = 64  # number of random orders of tied words, over which chance and ties are averaged


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureValues:
    """One measure of plausibility on one text: of every method, of guessing and of people.

    * ``chance``: the mean over orders of the words, or None.
    * ``rationale``: the value of the rationale as scores of words. The score of a word is the
      share of its occurrences that are marked. The value is below 1 if a word is marked at one
      occurrence and not at another.
    * ``annotators``: the value of annotators against each other.
    * ``methods``: one value per method.
    * ``stderr``: standard errors of these values, None if a value is exact.

    Chance ties all words. If words are tied and one of them occurs more than once, a value is the
    mean over 64 random orders of the tied words, with a standard error.
    """

    chance: float | None = None
    rationale: float | None = None
    annotators: float | None = None
    methods: tuple[float | None, ...] = ()
    stderr: "MeasureValues | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPlausibility:
    """The measures of plausibility on one text.

    ``words`` counts occurrences, and ``marked`` is the share of them that people marked.
    ``iou_precision`` and ``iou_recall`` are ERASER's for spans. Their F1 is computed over all
    texts. ``reason`` says why a text has no measures.
    """

    id: int
    words: int = 0
    marked: float = 0.0
    annotators: int = 0
    precision: MeasureValues | None = None
    r_precision: MeasureValues | None = None
    token_f1: MeasureValues | None = None
    iou_precision: MeasureValues | None = None
    iou_recall: MeasureValues | None = None
    reason: str | None = None


# The fields of a TextPlausibility that are measures.
PLAUSIBILITY_MEASURES = ("precision", "r_precision", "token_f1", "iou_precision", "iou_recall")


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodPlausibility:
    """The plausibility of one method over all texts, as means with 95 % intervals.

    ``precision`` is the average precision, and ``above_chance`` its difference to guessing on the
    same texts. An interval is None if fewer than ten texts have the measure. Each ``…_stderr`` is
    the standard error caused by sampled orders of tied words, or None. That of ``above_chance`` is
    an upper limit. The intervals over texts contain these errors.
    """

    method: str
    texts: int = 0
    precision: float | None = None
    precision_interval: Interval | None = None
    precision_stderr: float | None = None
    above_chance: float | None = None
    above_chance_interval: Interval | None = None
    above_chance_stderr: float | None = None
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
    """The difference of two methods on the texts that both explain.

    * ``difference``: the share of the first method minus the share of the second. For
      plausibility, the difference of average precision.
    * ``won``: share of the texts on which the first method has the larger area or precision. A tie
      counts one half.
    * ``interval``, ``p``: for this pair only. ``p_holm`` is corrected for the number of pairs.
    * ``simultaneous``, ``p_simultaneous``: interval and p-value of one test of all pairs.

    Each p-value is below 0.05 exactly if 0 is outside its interval. All five are None if fewer
    than ten texts have both methods or fewer than six of these differ.
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
        """Whether the two methods are significantly different, by the test of all pairs."""
        return self.simultaneous is not None and self.simultaneous[0] > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plausibility:
    """The agreement of methods with the words that people marked.

    * ``references``: the values that methods are compared with. They are "chance", "rationale"
      (the rationale as scores of words) and "annotators", if there are several annotators.
    * ``share``: share of a text that people mark. It sets how many positions ERASER's measures
      use.
    * ``pairs``: differences of average precision.
    """

    methods: tuple[MethodPlausibility, ...]
    references: tuple[MethodPlausibility, ...]
    pairs: tuple[JudgedPair, ...] = ()
    texts: tuple[TextPlausibility, ...] = ()
    share: float = 0.0
    verdict: str = ""
    warnings: tuple[str, ...] = ()

    def __getitem__(self, method: str) -> MethodPlausibility:
        return find_by_name((*self.methods, *self.references), method)

    def rank_methods(self) -> list[MethodPlausibility]:
        """Return the methods in falling order of plausibility, methods without a value last."""
        return sorted(self.methods, key=lambda m: (m.precision is None, -(m.precision or 0.0)))


# Dictionaries by method, without empty fields, so that a file of a thousand texts stays small.
class _FileRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A value with the fields of its file. A file leaves out fields that have their default."""


class Measure(_FileRecord, frozen=True, kw_only=True):
    """Areas of the orders of the methods on one text.

    ``chance`` is the mean over all orders, and ``stderr`` its standard error, None if it is exact.
    ``ceiling`` is a limit that no order exceeds, or the area of the best order found.
    """

    chance: float
    stderr: float | None = None
    ceiling: float
    areas: dict[str, float]


class TextColumn(_FileRecord, frozen=True, kw_only=True):
    """A further measure of the methods on one text.

    ``errors`` are the standard errors of values that were sampled.
    """

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


# The kinds of ceilings, from the weakest to the strongest.
CEILING_KINDS = ("best found", "checked", "proven")


class JudgedText(_FileRecord, frozen=True, kw_only=True):
    """The measures of faithfulness on one text.

    * ``full``: the explained number of the whole text of ``d`` words.
    * ``chance``, ``stderr``, ``ceiling``, ``areas``: of deletion. ``insertion``, ``change`` and
      ``columns`` are other measures.
    * ``ceiling_kind``: one of :data:`CEILING_KINDS`. A "checked" ceiling rests on trials that
      removed words of the text.
    * ``best``: the order whose area is the ceiling, if that is the "best found": a method, or
      "greedy", the order that takes the best word next.
    * ``greedy``: the area of the greedy order, None if it was not finished in time.
    * ``has_room``: whether the ceiling lies above chance. Without room, no method can differ from
      guessing.
    * ``ties``: number of words with tied scores, by method.
    * ``reasons``: a sentence for each method without scores.
    * ``reason``: why the text has no measures.
    * ``curves``: the curve of each method. Its indices refer to ``words``.
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
    warnings: tuple[str, ...] = ()
    reason: str | None = None
    columns: dict[str, TextColumn] = {}
    words: tuple[str, ...] = ()
    curves: dict[str, RemovalCurve] = {}

    @property
    def deletion(self) -> Measure | None:
        """The measure that shares are computed from, or None if the text has no measures."""
        if self.chance is None or self.ceiling is None or self.areas is None:
            return None
        return Measure(
            chance=self.chance, stderr=self.stderr, ceiling=self.ceiling, areas=self.areas
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMethod:
    """The faithfulness of one method over all texts.

    * ``share``: 0 is chance and 1 is the ceiling. ``interval`` is its 95 % interval.
    * ``insertion``, ``change``: shares of these two measures, with intervals.
    * ``won``: share of the texts on which no other method has a larger area.
    * ``texts``, ``tied``: number of texts in the share, and of texts with tied scores.
    * ``sampling``: the standard error of the share from sampled chance within texts, None if
      chance is exact.
    * ``columns``: further measures. ``method["additivity"]`` finds one by name.
    * ``reason``: why the method has no share.

    Every interval is None below ten texts.
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
        return find_by_name(self.columns, column, "name")


class MeasureDescription(NamedTuple):
    """The description of a measure: its label, its meaning with caveats, and the better direction.

    ``short_label`` is for the heading of a narrow column. In ``meaning``, {word} and {words} stand
    for the noun of the features.
    """

    label: str
    short_label: str
    meaning: str
    better: Literal["larger", "smaller"] = "larger"


_DELETION = "Removed {words} are deleted, or replaced if the model needs something in their place"
_PROBABILITY = "It has neither chance nor ceiling, and probabilities near 0 and 1 hide most changes"
COLUMNS: Mapping[str, MeasureDescription] = {
    "additivity": MeasureDescription(
        "additivity",
        "additivity",
        "Correlation between the sum of the scores of some {words} and what removing them together "
        "takes away, over random sets of {words}. It asks for the sizes of the scores, not only "
        "for their order.",
    ),
    "lds": MeasureDescription(
        "LDS",
        "LDS",
        "Linear datamodelling score, as ContextCite reports it: Spearman's rank correlation "
        "between the sum of the scores of the {words} that are kept and the explained number, "
        "where every {word} is kept or not with probability ½. With half of the {words} gone, no "
        "text is like the whole one that was explained.",
    ),
    **{
        f"top_{k}_drop": MeasureDescription(
            f"drop without top {k}",
            f"top {k} drop",
            "By how much the explained number, of an answer its log-probability, falls "
            f"without the {f'{k} strongest {{words}}' if k > 1 else 'strongest {word}'}. It has "
            "neither chance nor ceiling: how far it can fall differs from text to text.",
        )
        for k in (1, 3, 5)
    },
    "loo_tau": MeasureDescription(
        "τ with leave-one-out",
        "loo tau",
        "Kendall's rank correlation (τ-b) with what removing each {word} alone takes away. It "
        "calls the method best that is nearest to leave-one-out, which need not be faithful "
        "itself.",
    ),
    "stability": MeasureDescription(
        "stability",
        "stability",
        "Spearman's rank correlation with the same method under another seed, for methods that "
        "sample.",
    ),
    "sanity": MeasureDescription(
        "same with shuffled weights",
        "sanity",
        "Spearman's rank correlation of the sizes of the scores with those for a model whose "
        "weights are shuffled. Near 0: the explanation depends on what the model has learned; "
        "near 1: it would be the same had the model learned nothing.",
        "smaller",
    ),
    "eraser_comprehensiveness": MeasureDescription(
        "ERASER comprehensiveness",
        "ERASER c",
        "As ERASER computes it: the probability lost without the top 1, 5, 10, 20 and 50 % of the "
        f"{{words}}, averaged. {_DELETION}. {_PROBABILITY}; in short texts the first bins are the "
        "same {word}.",
    ),
    "eraser_sufficiency": MeasureDescription(
        "ERASER sufficiency",
        "ERASER s",
        "As ERASER computes it: the probability lost when only the top 1, 5, 10, 20 and 50 % of "
        f"the {{words}} are left, averaged. {_PROBABILITY}; texts of so few {{words}} are like "
        "none the model has seen.",
        "smaller",
    ),
    "ferret_comprehensiveness": MeasureDescription(
        "ferret aopc_compr",
        "ferret c",
        "As ferret computes it by default: the probability lost without the positively scored "
        "among the top 10, 20, … 100 % of the {words}, averaged over those of the ten steps that "
        "remove something new. Each method is averaged over thresholds of its own: one that calls "
        "few {words} positive is judged by small removals only, which can turn the order of two "
        "methods around.",
    ),
    "ferret_sufficiency": MeasureDescription(
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
    JsonMixin,
    _FileRecord,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag=_SCHEMA,
):
    """The faithfulness of methods to a model on several texts, with intervals over the texts.

    * ``pairs``: the differences of all pairs of methods.
    * ``greedy``: the share of the greedy order. It shows how near an existing order comes to the
      ceiling.
    * ``verdict``: a sentence. Below six texts it names no best method.
    * ``second``: the judgment of the same scores with a second replacement, if there is one.
    * ``agreement``: the agreement of the methods with each other.
    * ``plausibility``: the agreement with the words that people marked, if there are rationales.

    Below ten texts every interval and every p-value is None.
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
    warnings: tuple[str, ...]
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
        names = [row.method for row in self.methods]
        if len(set(names)) < len(names):
            raise InputError("it names a method twice.")
        for field, part in (("second", self.second), ("plausibility", self.plausibility)):
            if part is not None and (
                [row.method for row in part.methods] != names or len(part.texts) != len(self.texts)
            ):
                raise InputError(f"its {field!r} must have the same methods and texts.")
        for text in self.texts:
            if any(
                curve.words.max(initial=-1) >= len(text.words) for curve in text.curves.values()
            ):
                raise InputError("a curve removes words that its text does not have.")
        marked_texts = () if self.plausibility is None else self.plausibility.texts
        for value in (
            getattr(text, name) for text in marked_texts for name in PLAUSIBILITY_MEASURES
        ):
            if value is not None and len(value.methods) != len(names):
                raise InputError(
                    f"the marked words must be compared with all {len(names)} methods."
                )

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the judgment as JSON, without loss."""
        from limelight.results.codec import encode_record

        return encode_record(self._map_settings(encode_value), indent)

    @classmethod
    def from_json(cls, content: str | bytes) -> "Judgment":
        """Return the judgment that :meth:`to_json` wrote."""
        from limelight.results.codec import decode_record

        judgment = decode_record(content, cls)
        # msgspec requires the schema only for a union of several types.
        check_schema(content, _SCHEMA, "this is not a limelight judgment")
        return judgment._map_settings(decode_value)

    def _map_settings(self, convert: Callable[[Any], Any]) -> "Judgment":
        """Return the judgment with ``convert`` applied to its settings and those of ``second``."""
        second = None if self.second is None else self.second._map_settings(convert)
        settings = map_values(convert, self.settings)
        return msgspec.structs.replace(self, settings=settings, second=second)

    @property
    def has_intervals(self) -> bool:
        """Whether any share has an interval. Fewer than ten texts give none."""
        return any(method.interval is not None for method in self.methods)

    @property
    def feature_noun(self) -> str:
        """The noun for a removed feature: "word", "sentence", …"""
        return feature_noun(str(self.settings.get("features", "words")))

    @property
    def texts_with_room(self) -> tuple[JudgedText, ...]:
        """The texts whose ceiling lies above chance. Shares are means over these."""
        return tuple(text for text in self.texts if text.has_room)

    @property
    def texts_without_room(self) -> int:
        """The number of judged texts whose ceiling is chance. They are in no share."""
        return sum(text.reason is None and not text.has_room for text in self.texts)

    @property
    def ceiling_kind(self) -> str:
        """How certain the ceilings of the shares are: the least certain kind among the texts.

        "proven" is a theorem, "checked" a theorem whose conditions were tested on the text, and
        "best found" the best of all orders that were tried.
        """
        kinds = {text.ceiling_kind for text in self.texts if text.ceiling_kind}
        # The weakest of all texts: a mean of proven and other ceilings proves nothing.
        return min(kinds, key=CEILING_KINDS.index, default="best found")

    @property
    def ceiling_name(self) -> str:
        """The name of a share of 1: "ceiling", or "best found" if there is no proven limit."""
        return "best found" if self.ceiling_kind == "best found" else "ceiling"

    def rank_methods(self) -> list[JudgedMethod]:
        """Return the methods in falling order of faithfulness, methods without a share last."""
        return sorted(self.methods, key=lambda m: (m.share is None, -(m.share or 0.0)))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, method: str) -> JudgedMethod:
        return find_by_name(self.methods, method)

    def __repr__(self) -> str:
        shares = [
            f"{truncate_line(m.method, 16)} {m.share:z.3f}"
            for m in self.rank_methods()
            if m.share is not None
        ]
        return f"<Judgment of {len(self)} texts: {truncate_line(', '.join(shares), 140)}>"

    def _table(self) -> Table:
        """Return one row per text and method."""
        rows = []
        for number, text in enumerate(self.texts):
            for i, method in enumerate(self.methods):
                name, is_judged = method.method, text.deletion is not None
                row = {
                    "text": text.id,
                    "method": name,
                    "d": text.d,
                    "target": text.target,
                    "full": text.full if is_judged else None,
                    "chance": text.chance,
                    "ceiling": text.ceiling,
                    "ceiling_kind": text.ceiling_kind,
                    "greedy": text.greedy,
                    "area": (text.areas or {}).get(name),
                    "insertion": text.insertion and text.insertion.areas.get(name),
                    "change": text.change and text.change.areas.get(name),
                    **dict.fromkeys(COLUMNS),
                    **{
                        key: column.values.get(name)
                        for key, column in text.columns.items()
                        if key in COLUMNS
                    },
                    "reason": text.reason or text.reasons.get(name),
                }
                if self.plausibility is not None:
                    marked_text = self.plausibility.texts[number]
                    no_values = MeasureValues(methods=(None,) * (i + 1))
                    for column, values in (
                        ("average_precision", marked_text.precision or no_values),
                        ("r_precision", marked_text.r_precision or no_values),
                    ):
                        stderr = values.stderr or no_values
                        row |= {
                            column: values.methods[i],
                            f"{column}_stderr": stderr.methods[i],
                            f"{column}_chance": values.chance,
                            f"{column}_chance_stderr": stderr.chance,
                        }
                    f1 = marked_text.token_f1 or no_values
                    row |= {
                        "token_f1": f1.methods[i],
                        "token_f1_stderr": (f1.stderr or no_values).methods[i],
                        "rationale_reason": marked_text.reason,
                    }
                rows.append(row)
        return plain_table(rows[0], [list(row.values()) for row in rows])
