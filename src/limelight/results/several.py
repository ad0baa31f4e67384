"""Explanations of several texts."""

__all__ = ["Explanations"]

from typing import TYPE_CHECKING, final

from limelight.results.explanation import Explanation

if TYPE_CHECKING:
    from rich.console import RenderableType


@final
class Explanations(list[Explanation]):
    """A list of explanations that a notebook and a terminal show as one."""

    def _repr_html_(self) -> str:
        from limelight.render.html import explanations_fragment

        return explanations_fragment(self)

    def __rich__(self) -> "RenderableType":
        from limelight.render.terminal import explanations_text

        return explanations_text(self)
