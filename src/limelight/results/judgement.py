"""Which explanation may be trusted on a model: areas between chance and ceiling, over texts."""

__all__ = [
    "Interval",
    "JudgedMethod",
    "JudgedPair",
    "JudgedText",
    "Judgement",
    "Measure",
    "MethodColumn",
    "TextColumn",
]

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from limelight.errors import InputError
from limelight.results.method_agreement import MethodAgreement
from limelight.results.plausibility import Plausibility
from limelight.results.removal_curve import RemovalCurve
from limelight.text import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

Interval = tuple[float, float]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Areas of the orders of all methods on one text, None where a method has none.

    ``chance`` is the mean over all orders, ``stderr`` its standard error, None where it is exact.
    ``ceiling`` is what no order exceeds, or the best that was found.
    """

    chance: float
    stderr: float | None
    ceiling: float
    areas: tuple[float | None, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumn:
    """Another measure of all methods on one text, None where a method has none.

    ``errors`` are standard errors of what was sampled; empty where nothing was.
    """

    name: str
    values: tuple[float | None, ...]
    errors: tuple[float | None, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MethodColumn:
    """The mean of a :class:`TextColumn` over ``texts`` texts, with a 95 % interval over them.

    ``sampling`` is the standard error that comes from sampling within the texts.
    """

    name: str
    value: float
    interval: Interval | None = None
    texts: int = 0
    sampling: float | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedText:
    """What was found on one text; ``reason`` says why nothing was.

    ``best`` names the order that stands for the ceiling where none is proven: a method, or
    "greedy", the order that takes the best word next, whose area is ``greedy`` (None where there
    was no time for all of it). ``reasons`` has a sentence for each method that has no scores. A
    text ``has_room`` where its ceiling lies above its chance; the others cannot tell a method from
    guessing. ``curves`` has the curve of each method, of the words ``words``.
    """

    id: int
    d: int = 0
    target: str = ""
    full: float = 0.0
    ceiling_kind: str = ""
    best: str = ""
    greedy: float | None = None
    has_room: bool = False
    deletion: Measure | None = None
    insertion: Measure | None = None
    change: Measure | None = None
    ties: tuple[int, ...] = ()
    reasons: tuple[str | None, ...] = ()
    notices: tuple[str, ...] = ()
    reason: str | None = None
    columns: tuple[TextColumn, ...] = ()
    words: tuple[str, ...] = ()
    curves: tuple[RemovalCurve | None, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMethod:
    """One method over all texts: ``share`` 0 is chance, 1 is the ceiling, with a 95 % interval.

    ``insertion`` and ``change`` are shares of the other two measures. ``won`` is the part of the
    texts on which no other method has a larger area. ``sampling`` is the standard error of the
    share that comes from sampled chance within the texts, None where chance is exact. ``columns``
    are other measures, which ``method["additivity"]`` finds by name. ``reason`` says why a method
    has no share.
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
        for one in self.columns:
            if one.name == column:
                return one
        raise KeyError(column)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """How much larger the share of the first method is, on the texts that both explain.

    ``won`` is the part of the texts on which the first has the larger area, a tie being half of
    one; ``p_holm`` is corrected for the number of pairs.
    """

    methods: tuple[str, str]
    difference: float
    interval: Interval
    p: float
    p_holm: float
    won: float


@final
@dataclass(frozen=True, kw_only=True, eq=True)
class Judgement:
    """How faithful methods are to a model on some texts, with intervals over the texts.

    ``greedy`` is the share of the greedy order: how near an order that there is comes to the
    ceiling. ``apart`` counts texts whose ceiling is their chance; they are in no share. ``second``
    judges the same scores with removed words replaced in another way, where that was asked for.
    ``agreement`` says how alike the methods are, ``plausibility`` whether people would mark the
    same words, where rationales were given.
    """

    texts: tuple[JudgedText, ...]
    methods: tuple[JudgedMethod, ...]
    pairs: tuple[JudgedPair, ...] = ()
    greedy: float | None = None
    greedy_interval: Interval | None = None
    verdict: str
    notices: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    version: str = ""
    second: "Judgement | None" = None
    agreement: MethodAgreement | None = None
    plausibility: Plausibility | None = None

    def __post_init__(self) -> None:
        if not self.texts or not self.methods:
            raise InputError("a judgement needs at least one text and one method.")
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return partial(Judgement, **own | {"settings": dict(self.settings)}), ()

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
        """What the shares are shares of: "proven" ceilings, or the "best found"."""
        kinds = {text.ceiling_kind for text in self.texts if text.ceiling_kind}
        return "proven" if kinds == {"proven"} else "best found"

    @property
    def ceiling_name(self) -> str:
        """What a share of 1 is called: a ceiling only where it is proven."""
        return "ceiling" if self.ceiling_kind == "proven" else "best found"

    def ranked(self) -> list[JudgedMethod]:
        """Return the methods, the most faithful first and those without a share last."""
        return sorted(self.methods, key=lambda m: (m.share is None, -(m.share or 0.0)))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, method: str) -> JudgedMethod:
        for one in self.methods:
            if one.method == method:
                return one
        raise KeyError(method)

    def __repr__(self) -> str:
        shown = [
            f"{one_line(m.method, 16)} {m.share:.3f}" for m in self.ranked() if m.share is not None
        ]
        return f"<Judgement of {len(self)} texts: {one_line(', '.join(shown), 140)}>"

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the judgement as JSON, without loss."""
        from limelight.results.judgement_json import judgement_to_json

        return judgement_to_json(self, indent=indent)

    @staticmethod
    def from_json(content: str | bytes) -> "Judgement":
        """Return the judgement that :meth:`to_json` wrote."""
        from limelight.results.judgement_json import judgement_from_json

        return judgement_from_json(content)

    def to_csv(self) -> str:
        """Return one row per text and method as CSV."""
        from limelight.results.judgement_json import judgement_to_csv

        return judgement_to_csv(self)

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per text and method."""
        from limelight.results.judgement_json import judgement_frame

        return judgement_frame(self)

    def as_html(self) -> str:
        """Return one self-contained HTML page."""
        from limelight.render.html_judgement import judgement_page

        return judgement_page(self)

    def save_html(self, path: "str | Path") -> None:
        """Write :meth:`as_html` to a file, whole or not at all."""
        from limelight.files import write_whole

        write_whole(path, self.as_html())

    def save_figure(self, path: "str | Path") -> None:
        """Write the shares from chance to ceiling as .png, .svg or .pdf (extra ``plots``)."""
        from limelight.render.figures import save_figure
        from limelight.render.judgement_figure import judgement_figure

        save_figure(judgement_figure(self), path)

    def _repr_html_(self) -> str:
        from limelight.render.html_judgement import judgement_fragment

        return judgement_fragment(self)

    def __rich__(self) -> "RenderableType":
        from limelight.render.terminal_judgement import judgement_text

        return judgement_text(self)
