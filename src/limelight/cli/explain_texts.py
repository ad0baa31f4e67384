"""``limelight explain``."""

__all__ = ["explain"]

from collections.abc import Iterable, Iterator
from typing import Annotated

from cyclopts import Parameter

from limelight import verbs
from limelight.cli.data_run import DataRun
from limelight.cli.question import Question, number_or_name
from limelight.cli.result import only, show, write
from limelight.errors import InputError
from limelight.results import Explanation
from limelight.results.table import explanations_csv


def explain(
    *text: str,
    method: Annotated[str | None, Parameter(name=["--method", "-m"])] = None,
    all_classes: Annotated[bool, Parameter(negative=())] = False,
    question: Question = Question(),  # noqa: B008  (it is frozen)
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
    if data_run.given(text, question):
        data_run.explain(method, question, all_classes=all_classes)
        return
    form = question.form  # refused before any work is done
    if method is not None and "," in method:
        raise InputError(
            f"a text is explained by one method; got {method}. Use limelight compare, or --data "
            "for a whole data set."
        )
    _explain_texts(text, method, form, question, all_classes=all_classes)


def _explain_texts(
    text: tuple[str, ...], method: str | None, form: str, question: Question, *, all_classes: bool
) -> None:
    if all_classes:
        answers = question.asked(verbs.explain_classes, text, method)
    else:
        target = number_or_name(question.target)
        against = number_or_name(question.against)
        answers = question.asked(verbs.explain, text, method, target=target, against=against)
    numbered = _numbered(answers)
    explanations = (e for _, e in numbered)
    match form:
        case "terminal":
            show(explanations, question.output, go_on=answers.how_to_go_on)
        case "json":
            parts = (e.to_json() + "\n" for e in explanations)
            write(parts, question.output, go_on=answers.how_to_go_on)
        case "csv":
            write(explanations_csv(numbered), question.output, go_on=answers.how_to_go_on)
        case "html":
            write([only(explanations, form).as_html()], question.output)
        case _:
            from limelight.render.figures import bar_chart, interaction_heatmap, save_figure

            one = only(explanations, form)
            drawn = bar_chart(one) if one.pairs is None else interaction_heatmap(one)
            save_figure(drawn, str(question.output))
    answers.finish(said=form in ("terminal", "json", "html"))


def _numbered(
    answers: Iterable[tuple[int, Explanation | dict[str, Explanation]]],
) -> Iterator[tuple[int, Explanation]]:
    """Yield every explanation with the number of its text, which several classes may share."""
    for number, answer in answers:
        for e in answer.values() if isinstance(answer, dict) else [answer]:
            yield number, e
