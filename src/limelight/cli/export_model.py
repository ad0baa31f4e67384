"""``limelight export``."""

__all__ = ["export"]

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from limelight.cli.console import error_console
from limelight.errors import InputError
from limelight.files import is_device, write_whole
from limelight.models import load


def export(
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    model: Path | None = None,
    precision: Literal["float32", "float16"] = "float32",
    title: str | None = None,
    text: str | None = None,
) -> None:
    """Write a model as one offline page that predicts and explains exactly while you type.

    Parameters
    ----------
    output
        File to write, an .html page that needs neither Python nor a network.
    model
        Folder of a model made with "limelight train"; the IMDB sentiment model that comes with the
        package if none is given.
    precision
        Precision of the stored tables; "float16" is half the size, and the bounds on the page say
        what it costs.
    title
        Heading of the page.
    text
        The text that the page starts with.
    """
    from limelight.live import live_page

    if output.suffix.lower() not in (".html", ".htm") and not is_device(output):
        raise InputError(
            f"the output of export is a page; its name must end in .html; got '{output}'."
        )
    given = {"title": title, "text": text}
    said = {name: value for name, value in given.items() if value is not None}
    page = live_page(load(model), precision=precision, **said)
    write_whole(output, page)
    size = len(page.encode()) / 1e6
    error_console().print(f"{output}: {size:.1f} MB, open it in a browser", markup=False)
