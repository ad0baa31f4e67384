"""Several explanations of one text, side by side."""

__all__ = ["Comparison"]

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from limelight.errors import InputError
from limelight.results.agreement import Agreement, agreement
from limelight.results.equality import equal_fields
from limelight.results.explanation import Explanation
from limelight.shapes import Float
from limelight.text import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """One explanation per method, of the same text, target and features.

    ``attention`` holds, where the model has them, the attention matrices of its heads ([cls]
    first); they belong to the picture and are not stored in JSON. ``notices`` says which methods
    were left out and why.
    """

    explanations: tuple[Explanation, ...]
    attention: Float[np.ndarray, "K T T"] | None = None
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.explanations:
            raise InputError("a comparison needs at least one explanation; got none.")
        first = self.explanations[0]
        for other in self.explanations[1:]:
            for name in ("text", "target", "against", "features", "spans", "parts"):
                if getattr(other, name) != getattr(first, name):
                    raise InputError(
                        f"a comparison needs explanations of the same {name}; "
                        f"{first.method!r} and {other.method!r} differ."
                    )

    @property
    def text(self) -> str:
        """The text that all methods explain."""
        return self.explanations[0].text

    @cached_property
    def agreement(self) -> Agreement:
        """How far the methods agree, pair by pair."""
        return agreement(self.explanations)

    def __eq__(self, other: object) -> bool:
        return equal_fields(self, other)

    def __hash__(self) -> int:
        return hash(self.explanations)

    def __len__(self) -> int:
        return len(self.explanations)

    def __repr__(self) -> str:
        first, methods = self.explanations[0], ", ".join(e.method for e in self)
        return (
            f"<Comparison for {one_line(first.aim, 40)!r} of {one_line(self.text, 40)!r}: "
            f"{one_line(methods, 90)}>"
        )

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.explanations)

    def __getitem__(self, method: str) -> Explanation:
        for explanation in self.explanations:
            if explanation.method == method:
                return explanation
        raise KeyError(method)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the comparison as JSON, without loss, except for the attention matrices."""
        from limelight.results.json_format import comparison_to_json

        return comparison_to_json(self, indent=indent)

    @staticmethod
    def from_json(content: str | bytes) -> "Comparison":
        """Return the comparison that :meth:`to_json` wrote."""
        from limelight.results.json_format import comparison_from_json

        return comparison_from_json(content)

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per method and feature."""
        from limelight.results.table import frame_of

        return frame_of(self.explanations)

    def to_html(self, *, fragment: bool = False) -> str:
        """Return one self-contained HTML page, or a ``fragment`` to put into another page.

        A fragment has no script and styles that touch nothing around it: for apps and mails.
        """
        from limelight.render.html import comparison_fragment, comparison_page

        return comparison_fragment(self) if fragment else comparison_page(self)

    def as_html(self) -> str:
        """Return :meth:`to_html`, under the name that the ``lime`` package has for it."""
        return self.to_html()

    def save_html(self, path: "str | Path") -> None:
        """Write :meth:`to_html` to a file, whole or not at all."""
        from limelight.files import write_whole

        write_whole(path, self.to_html())

    def _repr_html_(self) -> str:
        return self.to_html(fragment=True)

    def __rich__(self) -> "RenderableType":
        from limelight.render.terminal import comparison_text

        return comparison_text(self)
