"""``limelight compare``."""

__all__ = ["compare"]

from typing import Annotated

from cyclopts import Parameter

from limelight import verbs
from limelight.cli.question_options import Asking, QuestionOptions
from limelight.cli.result import only, show, write
from limelight.results.table import explanations_csv


def compare(
    *text: str,
    methods: Annotated[str | None, Parameter(name=["--methods", "-m"])] = None,
    question: QuestionOptions = QuestionOptions(),  # noqa: B008  (it is frozen)
    asking: Asking = Asking(),  # noqa: B008
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
    form = asking.form
    asked = question.keywords()
    answers = asking.asked(verbs.compare, text, methods=names, attention=form == "html", **asked)
    comparisons = (comparison for _, comparison in answers)
    match form:
        case "terminal":
            show(comparisons, asking.output, go_on=answers.how_to_go_on)
        case "json":
            parts = (c.to_json() + "\n" for c in comparisons)
            write(parts, asking.output, go_on=answers.how_to_go_on)
        case "csv":
            rows = ((i, e) for i, comparison in answers for e in comparison)
            write(explanations_csv(rows), asking.output, go_on=answers.how_to_go_on)
        case "html":
            write([only(comparisons, form).as_html()], asking.output)
        case _:
            from limelight.pages.figures import coloured_sentence, save_figure

            save_figure(coloured_sentence(only(comparisons, form)), str(asking.output))
    answers.finish(said=form in ("terminal", "json", "html"))
