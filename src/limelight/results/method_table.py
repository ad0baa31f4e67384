"""The methods as a table: what each computes, for which models, with which settings."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from limelight.results.mixins import TableMixin, TerminalMixin, by_name
from limelight.results.table import Table, plain_rows


class SettingRow(NamedTuple):
    """One setting, its default, and what it means."""

    name: str
    default: Any
    meaning: str


class WayRow(NamedTuple):
    """One way to compute a method: what a model needs for it, and how exact it is."""

    needs: str | None
    exactness: str
    settings: tuple[SettingRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the way ready for JSON, its settings by name."""
        settings = {s.name: {"default": s.default, "means": s.meaning} for s in self.settings}
        return {"needs": self.needs, "exactness": self.exactness, "settings": settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFacts:
    """What a method is called, computes, sees and cannot see, and whether scores have a sign."""

    id: str
    label: str
    formula: str
    sees: str
    blind: str
    cost: str
    signed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRow(MethodFacts):
    """One method; ``refused`` says why the model that was asked about does not allow it."""

    ways: tuple[WayRow, ...]
    refused: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the row ready for JSON."""
        return asdict(self) | {"ways": [way.to_dict() for way in self.ways]}


class MethodTable(TerminalMixin, TableMixin, tuple[MethodRow, ...]):
    """Rows of methods, shown as a list in a terminal and as a table in a notebook."""

    __slots__ = ()
    _terminal = "terminal.method_list"
    _fragment = "html.method_html"

    def __getitem__(self, key: Any) -> Any:
        return by_name(self, key, "id") if isinstance(key, str) else super().__getitem__(key)

    def __repr__(self) -> str:
        usable = sum(row.refused is None for row in self)
        return f"<MethodTable of {len(self)} methods, {usable} usable>"

    def _table(self) -> Table:
        rows = [row.to_dict() for row in self]
        return plain_rows(rows[0] if rows else (), [list(row.values()) for row in rows])
