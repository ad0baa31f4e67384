"""``limelight serve``, ``limelight export`` and ``limelight summarize``."""

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from limelight.cli.console import (
    FIGURES,
    output_console,
    print_stderr,
    received_signals,
    remove_partial_files,
    write_result,
)
from limelight.cli.groups import FEATURES, INPUT, MODEL, OUTPUT, SERVER
from limelight.cli.options import (
    Method,
    OutputFile,
    OutputOptions,
    WholeNumber,
    WholeNumberOrNone,
    parse_features,
)
from limelight.errors import InputError
from limelight.files import is_device, write_atomically
from limelight.models import load
from limelight.results.summary import RunComparison, RunSummary

if TYPE_CHECKING:
    from limelight.serving import Serving


def serve(
    *,
    run: Annotated[Path | None, Parameter(group=INPUT)] = None,
    judgment: Annotated[Path | None, Parameter(group=INPUT)] = None,
    model: Annotated[tuple[str, ...], Parameter(group=MODEL)] = (),
    learned: Annotated[Path | None, Parameter(group=MODEL)] = None,
    template: Annotated[str | None, Parameter(group=MODEL)] = None,
    max_new_tokens: Annotated[WholeNumberOrNone, Parameter(group=MODEL)] = None,
    device: Annotated[str | None, Parameter(group=MODEL)] = None,
    features: Annotated[str | None, Parameter(group=FEATURES)] = None,
    port: Annotated[WholeNumberOrNone, Parameter(group=SERVER)] = None,
    host: Annotated[str, Parameter(group=SERVER)] = "127.0.0.1",
    seconds: Annotated[float, Parameter(group=SERVER)] = 120,
    open: Annotated[bool, Parameter(group=SERVER)] = False,
    anyway: Annotated[bool, Parameter(group=SERVER)] = False,
) -> None:
    """Open a web page to explain texts or to browse a data set.

    Press Ctrl-C to end it.

    Parameters
    ----------
    run
        Folder that "limelight explain-data" wrote.
    judgment
        JSON file that "limelight judge --output FILE.json" wrote.
    model
        Folder of the model, or "hub:owner/name". Repeat to compare two models. Default: the IMDB
        sentiment model of this package.
    learned
        Folder that "limelight learn" wrote for the model. The page shows its scores at once, and
        replaces them by sampled Shapley values.
    template
        Language models: the prompt, with {text} in place of the text. Default: the chat template
        of the model. The page then also takes documents and pasted chats.
    max_new_tokens
        Language models: the maximum number of tokens in an answer. Default: 64.
    device
        Device to compute on, such as "cpu" or "cuda". Default: a GPU for a Hugging Face model if
        there is one, otherwise the CPU.
    features
        Features that the page scores first: "words", "positions", "sentences", "paragraphs",
        "lines", "tokens" or a function of yours as module:function. Default: words, and documents,
        messages or sentences for answers.
    port
        Port of the server. Default: a free port.
    host
        Address of the server. Default: only this machine can open the page.
    seconds
        Time limit per explanation, in seconds.
    open
        Open the page in a browser.
    anyway
        Allow a run or a judgment of a different model. Every page then says so.
    """
    from limelight import serve as start_server  # raises an error if an extra is missing

    keywords: dict[str, Any] = {"template": template, "max_new_tokens": max_new_tokens}
    if not model and (template, max_new_tokens) != (None, None):
        raise InputError(
            "--template and --max-new-tokens need a language model. Add --model FOLDER."
        )
    with start_server(
        [load(path, device=device, **keywords) for path in model] or None,
        run=run,
        judgment=judgment,
        learned=learned,
        features=parse_features(features),
        host=host,
        port=port,
        seconds=seconds,
        anyway=anyway,
    ) as server:
        try:
            _print_address(server, host)
            if open:
                import webbrowser

                webbrowser.open(server.url)
            while server.is_running:
                if received_signals:  # its exception was lost, so raise it again
                    signal.raise_signal(received_signals[0])
                time.sleep(0.2)
        except KeyboardInterrupt as stop:
            if type(stop) is not KeyboardInterrupt:  # SIGTERM, which `main` handles
                raise
            print_stderr("Stopped.")


def _print_address(server: "Serving", host: str) -> None:
    """Print the address of the page, and how to stop the server."""
    output_console().print(server.url, soft_wrap=True)
    hint = "Open this address in a browser. Press Ctrl-C to end the server."
    if not server.is_local:
        hint += f" Everyone who can reach {host} and knows the address can use the model."
        if host in ("0.0.0.0", "::"):  # noqa: S104  (not an address that a browser can open)
            hint += f" On another machine, replace {host} by the IP address of this machine."
    for sentence in (hint, *server.warnings):
        print_stderr(sentence)


def export(
    *,
    model: Annotated[Path | None, Parameter(group=MODEL)] = None,
    output: OutputFile,
    precision: Annotated[Literal["float32", "float16"], Parameter(group=OUTPUT)] = "float32",
    title: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    text: Annotated[str | None, Parameter(group=OUTPUT)] = None,
) -> None:
    """Write a model as an offline web page that explains while you type.

    Parameters
    ----------
    model
        Folder that "limelight train" wrote. Default: the IMDB sentiment model of this package.
    output
        The .html file to write. It needs neither Python nor a network.
    precision
        Precision of the numbers in the file. "float16" halves its size, and the page shows the
        larger error bounds.
    title
        Heading of the page.
    text
        Text that the page starts with.
    """
    from limelight.live import live_page

    if output.suffix.lower() not in (".html", ".htm") and not is_device(output):
        raise InputError(f"the name of the web page must end in .html, not '{output}'.")
    options = {"title": title, "text": text}
    keywords = {name: value for name, value in options.items() if value is not None}
    page = live_page(load(model), precision=precision, **keywords)
    remove_partial_files(output)
    write_atomically(output, page)
    size = len(page.encode()) / 1e6
    print_stderr(f"{output}: {size:.1f} MB. Open it in a browser.")


def summarize(
    run: Annotated[Path, Parameter(group=INPUT)],
    *,
    against: Annotated[Path | None, Parameter(group=INPUT)] = None,
    labels: Annotated[str | None, Parameter(group=INPUT)] = None,
    by: Annotated[str, Parameter(group=INPUT)] = "length",
    method: Method = None,
    top: Annotated[WholeNumber, Parameter(group=OUTPUT)] = 20,
    representatives: Annotated[WholeNumber, Parameter(group=OUTPUT)] = 8,
    scores: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    out: OutputOptions = OutputOptions(),  # noqa: B008  (it is frozen)
) -> None:
    """Summarize the explanations of a data set: important words, mistakes, groups of texts.

    Parameters
    ----------
    run
        Folder that "limelight explain-data" wrote.
    against
        Another folder of explanations: show the differences between the two. --by, --top and
        --representatives do not apply then.
    labels
        Class of each label in the data: the classes in the order of the label numbers, as in
        World,Sports, or pairs, as in neg=negative,pos=positive.
    by
        Group the texts by "length", by "label", or by a column of the data, such as a time.
        "none": no groups. If your data have a column "length" or "none", write "built-in length"
        or "built-in none" for the other meaning.
    method
        Show only this method of the run. Default: all methods.
    top
        Number of words for each class, of phrases, and of mistakes.
    representatives
        Number of representative texts.
    scores
        Also write the score of every word of every text to this .csv file.
    """
    from limelight.runs import Run

    form = out.form
    if form in FIGURES:
        raise InputError(f"a summary can be terminal, json, csv or html, not {form}.")
    if against is not None:
        defaults = {"by": "length", "top": 20, "representatives": 8}
        values = {"by": by, "top": top, "representatives": representatives}
        for option, value in values.items():
            if value != defaults[option]:
                raise InputError(f"give --{option} or --against, not both.")
    if scores is not None and scores.suffix.lower() != ".csv" and not is_device(scores):
        raise InputError(f"--scores writes CSV, so its file must end in .csv, not '{scores.name}'.")
    opened = Run(run, labels=labels)
    result: RunSummary | RunComparison
    if against is not None:
        result = opened.compare(Run(against), method)
    else:
        has_none_column = "none" in opened.record.data.columns.carried
        ungrouped = by == "built-in none" or (by == "none" and not has_none_column)
        group_column = None if ungrouped else by
        result = opened.summary(method, by=group_column, top=top, representatives=representatives)
    write_result(result, form, out.output)
    if scores is not None:
        remove_partial_files(scores)
        opened.to_csv(scores)
