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
    image_model: Path | None = None,
    text_model: Path | None = None,
) -> None:
    """Run the paper's experiments again, and write a report with figures, tables and numbers.

    A run that was interrupted continues when you repeat the command. The report is written again
    after every experiment. If a part needs a GPU, a model or a data set that is missing, its
    numbers come from the results that the package includes. The run lists these parts before it
    starts, and the report marks them.

    Parameters
    ----------
    data
        Folder with IMDB's train and test files (.parquet, .csv, .jsonl) or aclImdb, or with folders
        imdb, sst2, ag_news and sick.
    output
        Folder for report.html, results.json, figures, tables and trained models. Numbers in it are
        kept if they were measured on the same models and texts.
    quick
        Use fewer texts and samples: less than ten minutes on two cores.
    only
        Experiments to run ("figure-4"), or parts of them ("figure-4.shipped").
    seed
        Seed of all random choices.
    device
        "cpu" or "cuda". By default a GPU is used if there is one.
    paper_model
        Folder of a model from `limelight train --recipe paper`. By default the included one is
        used.
    pair_model
        Folder of a Hugging Face classifier of sentence pairs with the classes contradiction,
        neutral and entailment. SICK's train and test files must be in the folder sick of the data.
    image_model
        Folder of a Hugging Face image classifier with Fashion-MNIST's classes. The train and test
        files must be in the folder fashion_mnist of the data.
    text_model
        Folder of a Hugging Face classifier of film reviews, such as MiniLM. Its network must be a
        BERT.
    """
    from limelight_reproduction import runner  # it loads torch, which --help does not need

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
            image_model=image_model,
            text_model=text_model,
            progress=progress,
            on_plan=lambda plan: print(plan, file=sys.stderr, flush=True),
        )
    print(page)


@contextlib.contextmanager
def _open_progress() -> Iterator[Callable[["PartProgress"], None]]:
    """Yield a progress callback that moves bars on a terminal, or prints a line per part."""
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

        def update_bars(progress: "PartProgress") -> None:
            """Update both bars."""
            completed = progress.number - 1 + progress.share
            bar.update(run, completed=completed, total=progress.parts)
            bar.update(part, description=progress.part, completed=progress.share, total=1.0)

        yield update_bars


class _LinePrinter:
    """Prints a line for every finished part, and one for the current part every ten seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, progress: "PartProgress") -> None:
        if progress.is_finished or time.monotonic() - self._last > _LINE_INTERVAL:
            self._last = time.monotonic()
            share = f"{progress.share:.0%}"
            state = _SOURCE_PHRASES[progress.source] if progress.is_finished else share
            line = f"{progress.number}/{progress.parts} {progress.part}: {state}"
            print(line, file=sys.stderr, flush=True)
