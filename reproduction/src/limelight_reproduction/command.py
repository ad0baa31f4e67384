"""The command ``limelight reproduce``, which is registered as an entry point."""

__all__ = ["reproduce"]

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from limelight_reproduction.progress import PartProgress

_LINE_INTERVAL = 10  # seconds between two lines if the output is not a terminal
_SOURCE_PHRASES = {
    "measured": "measured",
    "kept": "kept from before",
    "stored": "from the stored results",
    "missing": "left out: it needs what is not here",
}


def reproduce(
    *,
    data: Path,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    quick: bool = False,
    only: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True)] = (),
    seed: int = 0,
    device: str | None = None,
    paper_model: Path | None = None,
    pair_model: Path | None = None,
    picture_model: Path | None = None,
) -> None:
    """Run the paper's experiments again and write a report: figures, tables, numbers, a page.

    A run that was interrupted continues when the same command is given again, and the report grows
    with every experiment. What needs a graphics card, or a model of sentence pairs, comes from the
    results that the package carries where there is none; the run says which beforehand, and the
    report marks it.

    Parameters
    ----------
    data
        Folder with IMDB's train and test files (.parquet, .csv, .jsonl) or aclImdb; or with folders
        imdb, sst2, ag_news and sick.
    output
        Folder for report.html, results.json, figures, tables and models that are trained. Numbers
        that it holds are kept where they were measured on the same models and the same texts.
    quick
        Fewer texts and samples: less than ten minutes on two cores.
    only
        Experiments to run: "figure-4", or one part of one: "figure-4.shipped".
    seed
        Seed of everything that is drawn.
    device
        "cpu" or "cuda"; the graphics card is used where there is one.
    paper_model
        Folder of a model that `limelight train --recipe paper` left; the one that the package
        carries if none is given.
    pair_model
        Folder of a Hugging Face classifier of sentence pairs with the classes contradiction,
        neutral and entailment; SICK's train and test files must be in the folder sick of the data.
    picture_model
        Folder of a Hugging Face classifier of pictures that knows Fashion-MNIST's classes, whose
        train and test files must be in the folder fashion_mnist of the data.
    """
    from limelight_reproduction import runner  # it loads torch, which --help can do without

    with _open_progress() as progress:
        page = runner.reproduce(
            data,
            output,
            quick=quick,
            only=only,
            seed=seed,
            device=device,
            paper_model=paper_model,
            pair_model=pair_model,
            picture_model=picture_model,
            progress=progress,
            on_plan=lambda plan: print(plan, file=sys.stderr, flush=True),
        )
    print(page)


@contextlib.contextmanager
def _open_progress() -> Iterator[Callable[["PartProgress"], None]]:
    """Yield a progress callback: it moves bars on a terminal, else it prints a line per part."""
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _LinePrinter()
        return
    columns = Progress.get_default_columns()
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        run = bar.add_task("all parts", total=None)
        part = bar.add_task("")

        def update_bars(at: "PartProgress") -> None:
            bar.update(run, completed=at.number - 1 + at.share, total=at.parts)
            bar.update(part, description=at.part, completed=at.share, total=1.0)

        yield update_bars


class _LinePrinter:
    """Prints a line for every part that ends, and every ten seconds a line for the current part."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, at: "PartProgress") -> None:
        if at.is_finished or time.monotonic() - self._last > _LINE_INTERVAL:
            self._last = time.monotonic()
            state = _SOURCE_PHRASES[at.source] if at.is_finished else f"{at.share:.0%}"
            print(f"{at.number}/{at.parts} {at.part}: {state}", file=sys.stderr, flush=True)
