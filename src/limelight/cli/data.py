"""``limelight data``."""

from dataclasses import replace
from typing import Literal

from limelight.cli.console import ProgressShown
from limelight.cli.options import OutputFile
from limelight.data import imdb


def data(
    name: Literal["imdb"],
    *,
    output: OutputFile,
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
    with ProgressShown("download", estimated=True) as moved:

        def report(stage: str, done: int, total: int) -> None:
            moved(done, total, f"{stage} {done / 1e6:.0f} of {total / 1e6:.0f} MB")

        folder = {"imdb": imdb.fetch_imdb}[name](output, archive=archive, progress=report)
    print(folder)
