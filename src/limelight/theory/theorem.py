"""A row of the catalogue of theorems."""

__all__ = ["Theorem"]

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Theorem:
    """One result.

    ``function`` is "module:name", ``test`` is "path::name", ``page`` a path from the root.
    """

    id: str
    title: str
    source: str
    statement: str
    function: str
    test: str
    regime: str

    @property
    def page(self) -> str:
        """The page with statement, hypotheses, symbols, regime, figure, oracle and limits."""
        return f"docs/theorems/{self.id}.md"
