"""``limelight explain`` and ``limelight compare``."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from limelight import verbs
from limelight.cli.data_run import DataRun
from limelight.cli.options import Asking, QuestionOptions
from limelight.cli.output import only, show, write
from limelight.cli.texts import Answers
from limelight.errors import InputError
from limelight.results import Explanation
from limelight.results.explanation import explanations_csv


def explain(
    *text: str,
    method: Annotated[str | None, Parameter(name=["--method", "-m"])] = None,
    all_classes: Annotated[bool, Parameter(negative=())] = False,
    question: QuestionOptions = QuestionOptions(),  # noqa: B008  (it is frozen)
    asking: Asking = Asking(),  # noqa: B008
    data_run: DataRun = DataRun(),  # noqa: B008
) -> None:
    """Show which words of a text move the model, by one method; or of a whole data set, by several.

    Parameters
    ----------
    text
        The text to explain; "-" reads standard input.
    method
        A name from "limelight methods"; by default lime where that is exact, on models that have
        to be asked shapley. With --data several, separated by commas.
    all_classes
        Explain every class of the model, one after another, instead of the target.
    """
    if all_classes and question.target is not None:
        raise InputError("give --target or --all-classes, not both.")
    if all_classes and question.against is not None:
        raise InputError("give --against or --all-classes, not both.")
    if data_run.given(text, asking):
        data_run.explain(method, question, asking, all_classes=all_classes)
        return
    form = asking.form  # refused before any work is done
    if method is not None and "," in method:
        raise InputError(
            f"a text is explained by one method; got {method}. Use limelight compare, or --data "
            "for a whole data set."
        )
    asked = question.keywords()
    if all_classes:
        del asked["target"], asked["against"]
    verb = verbs.explain_classes if all_classes else verbs.explain
    _show_answers(asking.asked(verb, text, method, **asked), form, asking.output)


def _show_answers(answers: Answers[Any], form: str, output: Path | None) -> None:
    numbered = _numbered(answers)
    explanations = (e for _, e in numbered)
    match form:
        case "terminal":
            show(explanations, output, go_on=answers.how_to_go_on)
        case "json":
            parts = (e.to_json() + "\n" for e in explanations)
            write(parts, output, go_on=answers.how_to_go_on)
        case "csv":
            write(explanations_csv(numbered), output, go_on=answers.how_to_go_on)
        case "html":
            write([only(explanations, form).as_html()], output)
        case _:
            from limelight.pages.figures import bar_chart, interaction_heatmap, save_figure

            one = only(explanations, form)
            drawn = bar_chart(one) if one.pairs is None else interaction_heatmap(one)
            save_figure(drawn, str(output))
    answers.finish(said=form in ("terminal", "json", "html"))


def _numbered(
    answers: Iterable[tuple[int, Explanation | dict[str, Explanation]]],
) -> Iterator[tuple[int, Explanation]]:
    """Yield every explanation with the number of its text, which several classes may share."""
    for number, answer in answers:
        for e in answer.values() if isinstance(answer, dict) else [answer]:
            yield number, e


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
