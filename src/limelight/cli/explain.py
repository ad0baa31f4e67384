"""``limelight explain``."""

__all__ = ["explain"]

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.result import (
    chosen_format,
    only,
    parsed_settings,
    progress_shown,
    show,
    write,
)
from limelight.cli.texts import given_texts
from limelight.explainers import explain as explanations_of
from limelight.explanation import Explanation
from limelight.explanation.table import explanations_csv
from limelight.loading import load


def explain(
    *text: str,
    method: Annotated[str, Parameter(name=["--method", "-m"])] = "lime",
    target: Annotated[str | None, Parameter(name=["--target", "-t"])] = None,
    features: str = "words",
    scale: str = "logit",
    protect: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    set: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    file: Annotated[Path | None, Parameter(name=["--file", "-f"])] = None,
    lines: Annotated[bool, Parameter(negative=())] = False,
    model: Path | None = None,
    format: str | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Show which words of a text move the model, by one method.

    Parameters
    ----------
    text
        The text to explain; "-" reads standard input.
    method
        A name from "limelight methods".
    target
        Class to explain, by name or number, or "predicted" or "all"; by default the last of two
        classes, else the predicted one.
    features
        "words": all occurrences of a word together; "positions": every token by itself;
        "sentences".
    scale
        Explain the "logit" of the class or its "probability".
    protect
        Word that stays as it is and gets no score. May be repeated.
    set
        Setting of the method, as name=value. May be repeated.
    file
        Read the text from this file.
    lines
        Take every line of the file or of standard input as a text of its own.
    model
        Folder of the model, ours or a Hugging Face classifier, or "hub:owner/name"; the IMDB
        sentiment model of the package if none is given.
    format
        "terminal", "json" (one object per line), "html", "csv", or a bar chart (of pairs, a heat
        map) as "png", "svg" or "pdf"; by default what the name of the output file says, else
        "terminal".
    output
        Write to this file instead of standard output.
    """
    form = chosen_format(format, output)
    texts = given_texts(text, file, lines=lines)
    with progress_shown(len(texts)) as progress:
        found = explanations_of(
            load(model),
            texts,
            method,
            target=class_given(target),
            features=features,
            output=scale,
            protect=protect,
            progress=progress,
            **parsed_settings(set),
        )
    numbered = _numbered(found)
    explanations = [e for _, e in numbered]
    match form:
        case "terminal":
            show(explanations, output)
        case "json":
            write("".join(e.to_json() + "\n" for e in explanations), output)
        case "csv":
            write(explanations_csv(numbered), output)
        case "html":
            write(only(explanations, form).as_html(), output)
        case _:
            from limelight.render.figures import bar_chart, interaction_heatmap, save_figure

            one = only(explanations, form)
            save_figure(
                bar_chart(one) if one.pairs is None else interaction_heatmap(one), str(output)
            )


def class_given(target: str | None) -> str | int | None:
    """Return a target as the library takes it: digits are a class number."""
    return int(target) if target is not None and target.lstrip("-").isdecimal() else target


def _numbered(
    found: list[Explanation] | list[list[Explanation]],
) -> list[tuple[int, Explanation]]:
    """Return every explanation with the number of its text, which several classes may share."""
    rows = [row if isinstance(row, list) else [row] for row in found]
    return [(number, e) for number, row in enumerate(rows) for e in row]
