"""Abilities that several results share: terminal output, HTML pages, figures, tables and JSON.

A result inherits a mixin for each of its abilities and names the function that implements it, as
"module.function"::

    class Comparison(HtmlMixin, TableMixin, JsonMixin):
        _terminal = "terminal.comparison_text"  # limelight.rendering: to a renderable
        _page = "html.comparison_page"          # limelight.rendering: to HTML
        _record = "codec.ComparisonRecord"      # limelight.results: to JSON and back

        def _table(self) -> Table:              # for ``to_csv`` and ``to_frame``
            ...

:class:`HtmlMixin` is :class:`TerminalMixin` with a whole page. Names take the place of imports for
two reasons: pages are a layer above results, and a value that nobody looks at loads no code that
draws.
"""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from limelight.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from limelight.results.table import Table


T = TypeVar("T", bound="JsonMixin")


def import_member(package: str, name: str) -> Any:
    """Import "module.function" from a package of this library."""
    module, _, member = name.partition(".")
    return getattr(import_module(f"limelight.{package}.{module}"), member)


def find_by_name(values: Iterable[Any], name: str, field: str = "method") -> Any:
    """Return the first value whose ``field`` equals ``name``.

    Raise a KeyError if there is none.
    """
    for value in values:
        if getattr(value, field) == name:
            return value
    raise KeyError(name)


class TerminalMixin:
    """A result that prints itself on a terminal, and in a notebook if it has a ``_fragment``."""

    __slots__ = ()
    _terminal: ClassVar[str]
    _fragment: ClassVar[str] = ""

    def __rich__(self) -> "RenderableType":
        return import_member("rendering", self._terminal)(self)

    def _repr_html_(self) -> str | None:
        # None makes a notebook print the value as Python would.
        return import_member("rendering", self._fragment)(self) if self._fragment else None


class HtmlMixin(TerminalMixin):
    """A result that becomes one HTML page."""

    __slots__ = ()
    _page: ClassVar[str]

    def to_html(self, *, fragment: bool = False) -> str:
        """Return one self-contained HTML page, or a ``fragment`` to put into another page.

        A fragment has no script, and its styles touch nothing around it. It is for apps and mails.
        """
        if not fragment:
            return import_member("rendering", self._page)(self)
        if (html := self._repr_html_()) is None:
            raise InputError(f"a {type(self).__name__} has no fragment, only a page.")
        return html

    def as_html(self) -> str:
        """Return :meth:`to_html`, under the name that the ``lime`` package has for it."""
        return self.to_html()

    def save_html(self, path: str | Path) -> None:
        """Write :meth:`to_html` to a file atomically."""
        from limelight.files import write_atomically

        write_atomically(path, self.to_html())


class FigureMixin:
    """A result that becomes a figure by a function ``_figure`` of ``limelight.rendering``."""

    __slots__ = ()
    _figure: ClassVar[str]

    def save_figure(self, path: str | Path) -> None:
        """Write the figure as .png, .svg or .pdf (extra ``plots``)."""
        import_member("rendering", "figures.save_figure")(
            import_member("rendering", self._figure)(self), path
        )


class TableMixin:
    """A result that becomes rows, as its ``_table`` returns them."""

    __slots__ = ()

    def _table(self) -> "Table":
        raise NotImplementedError

    def to_csv(self) -> str:
        """Return the rows as CSV with a header."""
        return self._table().to_csv()

    def to_frame(self) -> Any:
        """Return the rows as a pandas data frame."""
        return self._table().to_frame()


class JsonOutputMixin:
    """A result that becomes JSON."""

    __slots__ = ()

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the value as JSON."""
        raise NotImplementedError

    def save_json(self, path: str | Path, *, indent: int | None = None) -> None:
        """Write :meth:`to_json` to a file atomically."""
        from limelight.files import write_atomically

        write_atomically(path, self.to_json(indent=indent))


class JsonMixin(JsonOutputMixin):
    """A result that becomes JSON and can be read from it, as its ``_record`` defines."""

    __slots__ = ()
    _record: ClassVar[str]

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the value as JSON, without loss."""
        from limelight.results.codec import encode_record

        return encode_record(import_member("results", self._record).from_result(self), indent)

    @classmethod
    def from_json(cls: type[T], content: str | bytes) -> T:
        """Return the value that :meth:`to_json` wrote."""
        from limelight.results.codec import decode_record

        return decode_record(content, import_member("results", cls._record)).to_result()

    @classmethod
    def load_json(cls: type[T], path: str | Path) -> T:
        """Read the value that :meth:`save_json` wrote to a file.

        Raises
        ------
        InputError
            If the file is missing, is no JSON, or has another schema or version of it.
        """
        from limelight.files import read_bounded_bytes
        from limelight.results.codec import MAX_BYTES

        try:
            content = read_bounded_bytes(Path(path), MAX_BYTES)
        except FileNotFoundError:
            raise InputError(f"there is no file {str(path)!r}.") from None
        except OSError as error:
            raise InputError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
        try:
            return cls.from_json(content)
        except InputError as error:
            raise InputError(f"{str(path)!r}: {error}") from None
