"""``limelight data``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from limelight.cli.console import error_console
from limelight.data import imdb


def data(
    name: Literal["imdb"],
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    url: str | None = None,
) -> None:
    """Download a public data set, check it, and unpack it.

    Run the same command again to continue a download that was interrupted.

    Parameters
    ----------
    name
        The data set: "imdb", 50,000 film reviews (Maas et al. 2011, 84 MB).
    output
        Folder in which the data set's own folder is put.
    url
        Another place to download the same file from; it is checked all the same.
    """
    archive = imdb.IMDB if url is None else replace(imdb.IMDB, url=url)
    console = error_console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
        tasks = {"download": bar.add_task("download"), "unpack": bar.add_task("unpack", total=None)}

        def report(stage: str, done: int, total: int) -> None:
            bar.update(tasks[stage], completed=done, total=total)

        fetch = {"imdb": imdb.fetch_imdb}[name]
        folder = fetch(output, archive=archive, progress=report)
    print(folder)
