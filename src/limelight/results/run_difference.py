"""Two runs side by side: the words and texts whose scores changed most."""

__all__ = ["ChangedText", "RunDifference"]

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, final

from limelight.results.run_summary import DifferingWord, Part
from limelight.results.table import csv_line

if TYPE_CHECKING:
    from rich.console import RenderableType

_WORDS = (
    "word", "group", "first", "second", "difference", "low", "high", "p_holm", "first_texts",
)  # fmt: skip


@final
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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifference:
    """What differs between the runs ``first`` and ``second``, on the texts that both explain.

    ``words`` have in ``group`` the class whose scores they are, and means over the texts of both
    runs that have the word; only those whose paired differences are not chance by Holm's test are
    in it. ``shares`` says that scores are shares of a text's total size, as between two methods,
    whose scores have no common unit. ``apart`` counts texts that only one of the runs has, and
    ``predictions`` those whose predicted class changed.
    """

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

    def to_json(self, *, indent: int | None = None) -> str:
        """Return everything as JSON, schema ``limelight.difference/1``."""
        content = {"schema": "limelight.difference/1"} | asdict(self)
        return json.dumps(content, ensure_ascii=True, indent=indent)

    def to_csv(self) -> str:
        """Return one row per word that changed as CSV."""
        rows = [[getattr(one, name) for name in _WORDS] for one in self.words]
        names = [{"group": "target", "first_texts": "texts"}.get(name, name) for name in _WORDS]
        return "".join(map(csv_line, [names, *rows]))

    def as_html(self) -> str:
        """Return one self-contained HTML page."""
        from limelight.render.html_difference import difference_page

        return difference_page(self)

    def __rich__(self) -> "RenderableType":
        from limelight.render.terminal_difference import difference_text

        return difference_text(self)
