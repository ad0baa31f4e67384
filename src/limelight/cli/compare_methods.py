"""``limelight compare``."""

__all__ = ["compare"]

from typing import Annotated

from cyclopts import Parameter

from limelight import verbs
from limelight.cli.question import Question, number_or_name
from limelight.cli.result import only, show, write
from limelight.results.table import explanations_csv


def compare(
    *text: str,
    methods: Annotated[str | None, Parameter(name=["--methods", "-m"])] = None,
    question: Question = Question(),  # noqa: B008  (it is frozen)
) -> None:
    """Show what several methods say about the same text, and where they disagree.

    Parameters
    ----------
    text
        The text to explain; "-" reads standard input.
    methods
        Names from "limelight methods", separated by commas; by default the paper's seven and
        shapley on the paper's classifier, and on other models shapley, lime, lrp, ig, loo and
        alpha-avg, as far as the model allows them.
    """
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    form = question.form
    answers = question.asked(
        verbs.compare,
        text,
        methods=names,
        target=number_or_name(question.target),
        against=number_or_name(question.against),
        attention=form == "html",
    )
    comparisons = (comparison for _, comparison in answers)
    match form:
        case "terminal":
            show(comparisons, question.output, go_on=answers.how_to_go_on)
        case "json":
            parts = (c.to_json() + "\n" for c in comparisons)
            write(parts, question.output, go_on=answers.how_to_go_on)
        case "csv":
            rows = ((i, e) for i, comparison in answers for e in comparison)
            write(explanations_csv(rows), question.output, go_on=answers.how_to_go_on)
        case "html":
            write([only(comparisons, form).as_html()], question.output)
        case _:
            from limelight.render.figures import coloured_sentence, save_figure

            save_figure(coloured_sentence(only(comparisons, form)), str(question.output))
    answers.finish(said=form in ("terminal", "json", "html"))
