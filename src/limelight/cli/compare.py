"""``limelight compare``."""

__all__ = ["compare"]

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.explain import class_given
from limelight.cli.result import chosen_format, only, parsed_settings, progress_shown, show, write
from limelight.cli.texts import given_texts
from limelight.explainers import compare as comparisons_of
from limelight.explanation.table import explanations_csv
from limelight.loading import load


def compare(
    *text: str,
    methods: Annotated[str | None, Parameter(name=["--methods", "-m"])] = None,
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
    """Show what several methods say about the same text, and where they disagree.

    Parameters
    ----------
    text
        The text to explain; "-" reads standard input.
    methods
        Names from "limelight methods", with commas; by default the paper's seven and shapley.
    target
        Class to explain, by name or number, or "predicted"; by default the last of two classes,
        else the predicted one.
    features
        "words": all occurrences of a word together; "positions": every token by itself;
        "sentences".
    scale
        Explain the "logit" of the class or its "probability".
    protect
        Word that stays as it is and gets no score. May be repeated.
    set
        Setting for the methods that have it, as name=value. May be repeated.
    file
        Read the text from this file.
    lines
        Take every line of the file or of standard input as a text of its own.
    model
        Folder of the model, ours or a Hugging Face classifier, or "hub:owner/name"; the IMDB
        sentiment model of the package if none is given.
    format
        "terminal", "json" (one object per line), "html", "csv", or the coloured text as "png",
        "svg" or "pdf"; by default what the name of the output file says, else "terminal".
    output
        Write to this file instead of standard output.
    """
    form = chosen_format(format, output)
    texts = given_texts(text, file, lines=lines)
    with progress_shown(len(texts)) as progress:
        comparisons = comparisons_of(
            load(model),
            texts,
            methods=None if methods is None else [name.strip() for name in methods.split(",")],
            target=class_given(target),
            features=features,
            output=scale,
            protect=protect,
            progress=progress,
            attention=form == "html",
            **parsed_settings(set),
        )
    match form:
        case "terminal":
            show(comparisons, output)
        case "json":
            write("".join(c.to_json() + "\n" for c in comparisons), output)
        case "csv":
            write(explanations_csv((i, e) for i, c in enumerate(comparisons) for e in c), output)
        case "html":
            write(only(comparisons, form).as_html(), output)
        case _:
            from limelight.render.figures import coloured_sentence, save_figure

            save_figure(coloured_sentence(only(comparisons, form)), str(output))
