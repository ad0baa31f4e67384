"""The methods as a table with their formulas, the models they work for, and their settings."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from limelight.results.mixins import TableMixin, TerminalMixin, find_by_name
from limelight.results.table import Table, plain_table


class SettingRow(NamedTuple):
    """A setting of a method with its default and its meaning."""

    name: str
    default: Any
    meaning: str


class ImplementationRow(NamedTuple):
    """An implementation of a method: the capability that it needs, and how exact it is."""

    needs: str | None
    exactness: str
    settings: tuple[SettingRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the implementation as plain values, with its settings by name."""
        settings = {s.name: {"default": s.default, "means": s.meaning} for s in self.settings}
        return {"needs": self.needs, "exactness": self.exactness, "settings": settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFacts:
    """The description of a method: name, formula, strengths, blind spots, cost and signs."""

    id: str
    label: str
    formula: str
    sees: str
    blind: str
    cost: str
    signed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRow(MethodFacts):
    """A method with its implementations.

    ``reason_unavailable`` says why the model of the table does not allow the method. It is None if
    the model allows it or the table has no model.
    """

    implementations: tuple[ImplementationRow, ...]
    reason_unavailable: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self) | {
            "implementations": [implementation.to_dict() for implementation in self.implementations]
        }


class MethodTable(TerminalMixin, TableMixin, tuple[MethodRow, ...]):
    """Methods as rows. A terminal shows them as a list, and a notebook as a table."""

    __slots__ = ()
    _terminal = "terminal.method_list"
    _fragment = "html.method_table_html"

    def __getitem__(self, key: Any) -> Any:
        return find_by_name(self, key, "id") if isinstance(key, str) else super().__getitem__(key)

    def __repr__(self) -> str:
        usable = sum(row.reason_unavailable is None for row in self)
        return f"<MethodTable of {len(self)} methods, {usable} usable>"

    def _table(self) -> Table:
        rows = [row.to_dict() for row in self]
        return plain_table(rows[0] if rows else (), [list(row.values()) for row in rows])
