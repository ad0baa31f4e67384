"""``limelight serve``, ``limelight export`` and ``limelight summarize``."""

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from limelight.cli.console import FIGURES, clean_up_beside, heard, output_console, put_one, tell
from limelight.cli.options import (
    Cutter,
    OutputFile,
    OutputOptions,
    WholeNumber,
    WholeNumberOrNone,
    units_of,
)
from limelight.errors import InputError
from limelight.files import is_device, write_whole
from limelight.models import load
from limelight.results.summary import RunComparison, RunSummary

if TYPE_CHECKING:
    from limelight.serving import Serving


def serve(
    *,
    model: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    run: Path | None = None,
    judgement: Path | None = None,
    learned: Path | None = None,
    template: str | None = None,
    max_new_tokens: WholeNumberOrNone = None,
    features: str | None = None,
    cutter: Cutter = None,
    port: WholeNumberOrNone = None,
    host: str = "127.0.0.1",
    seconds: float = 120,
    open: Annotated[bool, Parameter(negative=())] = False,
    anyway: Annotated[bool, Parameter(negative=())] = False,
    device: str | None = None,
) -> None:
    """Open a page on this machine: type a text and see, or look through a data set.

    Ctrl-C ends it.

    Parameters
    ----------
    model
        Folder of the model, or "hub:owner/name"; the IMDB model of the package if none is given.
        Given twice, two models are compared.
    run
        Folder of a run, which "limelight explain --data … --output FOLDER" wrote.
    judgement
        JSON file of a judgement, which "limelight judge --output FILE.json" wrote.
    learned
        Folder of a method, which "limelight learn --output FOLDER" wrote for the model: its scores
        are shown at once, and sampled Shapley values when they are there.
    template
        What a language model is asked, with {text} where the typed text goes: the page shows what
        it answers, and which sentences made it write that.
    max_new_tokens
        How many tokens such an answer has at most; by default 64.
    features
        What is scored at first: "words", "positions", "sentences", "paragraphs", "lines" or
        "tokens"; the page offers the others too. By default words, of answers sentences.
    port
        By default one that is free.
    host
        Address to serve on; by default only this machine can open the page.
    seconds
        What a question may take before it is given up.
    open
        Open the page in the browser.
    anyway
        Serve a run or a judgement beside a model that it is not about; every page then says so.
    device
        Where to compute, as torch names it, such as "cuda".
    """
    from limelight import serve as served  # says which extra is missing, if one is

    asked: dict[str, Any] = {"template": template, "max_new_tokens": max_new_tokens}
    if (not model and template is not None) or (template is None and max_new_tokens is not None):
        raise InputError(
            "--max-new-tokens goes with --template, and that with --model FOLDER, a language model."
        )
    with served(
        [load(place, device=device, **asked) for place in model] or None,
        run=run,
        judgement=judgement,
        learned=learned,
        features=units_of(features, cutter),
        host=host,
        port=port,
        seconds=seconds,
        anyway=anyway,
    ) as page:
        try:
            _announce(page, host)
            if open:
                import webbrowser

                webbrowser.open(page.url)
            while page.running:
                if heard:  # and nobody has stopped
                    signal.raise_signal(heard[0])
                time.sleep(0.2)
        except KeyboardInterrupt as stop:
            if type(stop) is not KeyboardInterrupt:  # somebody else ends the process
                raise
            tell("Stopped.")


def _announce(page: "Serving", host: str) -> None:
    output_console().print(page.url, soft_wrap=True)
    said = "Open this address in a browser; Ctrl-C ends it."
    if not page.is_local:
        said += f" Whoever reaches {host} and has the address can use the model."
        if host in ("0.0.0.0", "::"):  # noqa: S104  (all addresses, and so none that others can open)
            said += f" On another machine, put the IP address of this one in place of {host}."
    for sentence in (said, *page.notices):
        tell(sentence)


def export(
    *,
    output: OutputFile,
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
    clean_up_beside(output)
    write_whole(output, page)
    size = len(page.encode()) / 1e6
    tell(f"{output}: {size:.1f} MB, open it in a browser")


def summarize(
    run: Path,
    *,
    method: Annotated[str | None, Parameter(name=["--method", "-m"])] = None,
    by: str = "length",
    top: WholeNumber = 20,
    representatives: WholeNumber = 8,
    against: Path | None = None,
    labels: str | None = None,
    out: OutputOptions = OutputOptions(),  # noqa: B008  (it is frozen)
) -> None:
    """Say what drives a model over a whole data set: words, mistakes, slices.

    Parameters
    ----------
    run
        Folder of a run, which "limelight explain --data … --output FOLDER" wrote.
    method
        Show only this method of the run; by default each has its own view.
    by
        What the texts are sliced by: "length", "label", a column that was carried along, or "none".
        By a column of times, slices show drift. If your data have a column "length" or "none", it
        is taken. Write "built-in length" or "built-in none" for the other.
    top
        Words on either side, phrases and mistakes that are shown.
    representatives
        Representative texts that are picked.
    against
        Folder of another run: show what differs from it instead.
    labels
        Which class a label is, where labels are numbers or other names than the classes have: the
        classes in the order of the numbers, "World,Sports", or "neg=negative,pos=positive".
    """
    from limelight.runs import Run

    form = out.form
    if form in FIGURES:
        raise InputError(f"a summary is written as terminal, json, csv or html; got {form}.")
    opened = Run(run, labels=labels)
    result: RunSummary | RunComparison
    if against is not None:
        result = opened.compare(Run(against), method)
    else:
        usual = "none" not in opened.record.data.columns.carried
        sliced = None if by == "built-in none" or (usual and by == "none") else by
        result = opened.summary(method, by=sliced, top=top, representatives=representatives)
    put_one(result, form, out.output)
