"""What results do alike: show themselves, become a page, rows and a file, each in one place.

A result inherits what it can do and names who does it, a module and a function::

    class Comparison(Shown, Tabular, Stored):
        _terminal = "terminal.comparison_text"  # of ``limelight.rendering``: the value to a renderable
        _record = "codec.ComparisonRecord"       # of ``limelight.results``: both ways to JSON

        def _table(self) -> Table:                # for ``to_csv`` and ``to_frame``
            ...

``Page`` is ``Shown`` with a whole page beside: ``_page`` and ``_fragment`` are functions of the
value to HTML. Names stand here instead of imports because pages are a layer above results, and
because a value that nobody looks at should load nothing that draws.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from limelight.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from limelight.results.table import Table


T = TypeVar("T", bound="JsonMixin")


def import_member(package: str, name: str) -> Any:
    """Return what ``name``, "module.function", is in a package of this library."""
    module, _, member = name.partition(".")
    return getattr(import_module(f"limelight.{package}.{module}"), member)


def by_name(several: Iterable[Any], name: str, field: str = "method") -> Any:
    """Return the one of ``several`` whose ``field`` is ``name``; a KeyError where none is."""
    for one in several:
        if getattr(one, field) == name:
            return one
    raise KeyError(name)


class TerminalMixin:
    """Shows itself on a terminal, and in a notebook where it has a ``_fragment``."""

    __slots__ = ()
    _terminal: ClassVar[str]
    _fragment: ClassVar[str] = ""

    def __rich__(self) -> "RenderableType":
        return import_member("rendering", self._terminal)(self)

    def _repr_html_(self) -> str | None:
        # None makes a notebook print the value as Python would.
        return import_member("rendering", self._fragment)(self) if self._fragment else None


class HtmlMixin(TerminalMixin):
    """Becomes one HTML page."""

    __slots__ = ()
    _page: ClassVar[str]

    def to_html(self, *, fragment: bool = False) -> str:
        """Return one self-contained HTML page, or a ``fragment`` to put into another page.

        A fragment has no script and styles that touch nothing around it: for apps and mails.
        """
        if not fragment:
            return import_member("rendering", self._page)(self)
        if (found := self._repr_html_()) is None:
            raise InputError(f"a {type(self).__name__} has no fragment, only a page.")
        return found

    def as_html(self) -> str:
        """Return :meth:`to_html`, under the name that the ``lime`` package has for it."""
        return self.to_html()

    def save_html(self, path: "str | Path") -> None:
        """Write :meth:`to_html` to a file, whole or not at all."""
        from limelight.files import write_whole

        write_whole(path, self.to_html())


class FigureMixin:
    """Becomes a figure, by a function ``_figure`` of ``limelight.rendering``."""

    __slots__ = ()
    _figure: ClassVar[str]

    def save_figure(self, path: "str | Path") -> None:
        """Write the figure as .png, .svg or .pdf (extra ``plots``)."""
        import_member("rendering", "figures.save_figure")(
            import_member("rendering", self._figure)(self), path
        )


class TableMixin:
    """Becomes rows, as its ``_table`` has them."""

    __slots__ = ()

    def _table(self) -> "Table":
        raise NotImplementedError

    def to_csv(self) -> str:
        """Return the rows as CSV with a header."""
        return self._table().to_csv()

    def to_frame(self) -> Any:
        """Return the rows as a pandas data frame."""
        return self._table().to_frame()


class JsonMixin:
    """Becomes JSON and comes back from it, as its ``_record`` says."""

    __slots__ = ()
    _record: ClassVar[str]

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the value as JSON, without loss."""
        from limelight.results.codec import encoded

        return encoded(import_member("results", self._record).of(self), indent)

    @classmethod
    def from_json(cls: type[T], content: str | bytes) -> T:
        """Return the value that :meth:`to_json` wrote."""
        from limelight.results.codec import decoded

        return decoded(content, import_member("results", cls._record)).value()
