"""What drives a model over a whole run, and what differs between two runs."""

import json
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from limelight.results.explanation import Explanation
from limelight.results.faces import Page, Tabular
from limelight.results.table import Table, plain_rows
from limelight.text import one_line
from limelight.text.characters import LONE_SURROGATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """``count`` of ``of`` texts, and the 95 % interval of that share (Wilson's)."""

    count: int
    of: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share; 0 of nothing."""
        return self.count / self.of if self.of else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A text in which a word scores: ``before`` and ``after`` are what stands around it there."""

    row: int
    id: str
    score: float
    before: str
    found: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizedWord:
    """A word or phrase over the texts that have it; ``low`` to ``high`` is its 95 % interval.

    ``mean`` is the plain mean over texts; ``shrunken`` is drawn towards the mean of all words, the
    more the fewer texts there are, and is what the interval lies around. ``positive`` is the share
    of its texts in which the score is above 0. A ``rare`` word is in fewer than five texts.
    """

    word: str
    texts: int
    occurrences: int
    mean: float
    mean_abs: float
    positive: float
    shrunken: float
    low: float
    high: float
    rare: bool
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingWord:
    """A word whose mean score differs between two groups of texts, second less first."""

    word: str
    group: str
    first: float
    first_texts: int
    second: float
    second_texts: int
    difference: float
    low: float
    high: float
    p_holm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MistakenText:
    """A text that is predicted ``predicted`` with ``confidence`` and labelled ``label``.

    ``confidence`` is a probability; for a model that has none it is a ``margin`` instead: how far
    the output of the predicted class lies above the next. ``words`` are those that spoke most for
    the predicted class; of a method without signs, those of the largest scores.
    """

    row: int
    id: str
    predicted: str
    label: str
    confidence: float
    explanation: Explanation | None
    margin: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RepresentativeText:
    """A text that was picked; ``covered`` is what it and those before it cover of importance."""

    row: int
    id: str
    covered: float
    explanation: Explanation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSlice:
    """The texts of one value, or range of values, of a column.

    ``target`` counts texts for which the view's class is predicted, ``right`` those whose label is
    what is predicted, None where no labels are known. ``differing`` are words whose scores differ
    most from those in all other texts.
    """

    name: str
    texts: int
    target: Part
    right: Part | None
    differing: tuple[DifferingWord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizedView:
    """One method and one class: nothing here is averaged over methods or classes.

    ``supporting`` and ``opposing`` are the words whose intervals lie furthest above and below 0;
    without signs all are in ``supporting``. ``compared`` words were tested between right and wrong
    predictions, of which ``differing`` has those that differ. ``slices`` are by ``sliced_by``.
    """

    method: str
    label: str
    signed: bool
    target: str
    against: str | None
    texts: int
    vocabulary: int
    supporting: tuple[SummarizedWord, ...]
    opposing: tuple[SummarizedWord, ...]
    phrases: tuple[SummarizedWord, ...]
    right: Part | None
    mistakes: tuple[MistakenText, ...]
    compared: int
    differing: tuple[DifferingWord, ...]
    representatives: tuple[RepresentativeText, ...]
    sliced_by: str | None = None
    slices: tuple[RunSlice, ...] = ()

    @property
    def aim(self) -> str:
        """What the scores speak for."""
        return self.target if self.against is None else f"{self.target} against {self.against}"


_WORD = (
    "word", "texts", "occurrences", "mean", "mean_abs", "positive", "shrunken", "low", "high",
    "rare",
)  # fmt: skip
_CHANGED = (
    "word", "group", "first", "second", "difference", "low", "high", "p_holm", "first_texts",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary(Page, Tabular):
    """What drives a model: one view for every method and explained class of a run."""

    _terminal = "summary.summary_text"
    _page = "summary.summary_page"

    name: str
    texts: int
    total: int
    failed: int
    classes: tuple[str, ...]
    scale: str
    views: tuple[SummarizedView, ...]
    notices: tuple[str, ...]
    model: str
    version: str
    units: str = "words"

    def __repr__(self) -> str:
        views = ", ".join(f"{view.method} for {one_line(view.aim, 20)}" for view in self.views)
        return f"<RunSummary of {self.texts:,} texts: {one_line(views, 120)}>"

    def to_json(self, *, indent: int | None = None) -> str:
        """Return everything as JSON, schema ``limelight.summary/1``.

        Explanations in it have their own schema.
        """
        content = {"schema": "limelight.summary/1"} | _of_units(_plain(self))
        # Texts of a run may hold half a character, which no encoder of a file would take.
        return LONE_SURROGATE.sub("\ufffd", json.dumps(content, ensure_ascii=False, indent=indent))

    def _table(self) -> Table:
        """Return one row per view and word shown; ``Run.words`` has all words."""
        rows: list[list[Any]] = []
        for view in self.views:
            size = "for" if view.signed else "size"
            kinds = ((size, view.supporting), ("against", view.opposing), ("phrase", view.phrases))
            for kind, several in kinds:
                about = [view.method, view.target, view.against or "", kind]
                rows += [[*about, *(getattr(one, name) for name in _WORD)] for one in several]
        return plain_rows(("method", "target", "against", "kind", *_WORD), rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedText:
    """A text of both runs; ``change`` is Σ|b − a| / (Σ|a| + Σ|b|) over its words, from 0 to 1."""

    row: int
    other_row: int
    id: str
    target: str
    change: float
    predicted: str
    other_predicted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifference(Page, Tabular):
    """What differs between the runs ``first`` and ``second``, on the texts that both explain.

    ``words`` have in ``group`` the class whose scores they are, and means over the texts of both
    runs that have the word; only those whose paired differences are not chance by Holm's test are
    in it. ``shares`` says that scores are shares of a text's total size, as between two methods,
    whose scores have no common unit. ``apart`` counts texts that only one of the runs has, and
    ``predictions`` those whose predicted class changed.
    """

    _terminal = "summary.difference_text"
    _page = "summary.difference_page"

    first: str
    second: str
    methods: tuple[str, str]
    texts: int
    apart: tuple[int, int]
    shares: bool
    compared: int
    predictions: Part
    words: tuple[DifferingWord, ...]
    changed: tuple[ChangedText, ...]
    units: str = "words"

    def to_json(self, *, indent: int | None = None) -> str:
        """Return everything as JSON, schema ``limelight.difference/1``."""
        content = {"schema": "limelight.difference/1"} | _of_units(asdict(self))
        return json.dumps(content, ensure_ascii=True, indent=indent)

    def _table(self) -> Table:
        rows = [[getattr(one, name) for name in _CHANGED] for one in self.words]
        names = {"group": "target", "first_texts": "texts"}
        return plain_rows([names.get(name, name) for name in _CHANGED], rows)


def _of_units(content: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the units are where they are words, as files of explanations do."""
    return {key: x for key, x in content.items() if (key, x) != ("units", "words")}


def _plain(value: Any) -> Any:
    if isinstance(value, Explanation):
        return json.loads(value.to_json())
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value
