"""``limelight explain`` and ``limelight compare``."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from limelight import verbs
from limelight.cli.data_run import DataRun
from limelight.cli.options import Asking, AskingOrData, QuestionOptions, names_in
from limelight.cli.output import only, put, show, write
from limelight.cli.texts import Answers
from limelight.errors import InputError
from limelight.question import FIELDS
from limelight.results import Explanation
from limelight.results.explanation import explanations_csv

_OF_CLASSES = ("at", "target", "against", "scale")  # which an answer has not


def explain(
    *text: str,
    method: Annotated[str | None, Parameter(name=["--method", "-m"])] = None,
    all_classes: Annotated[bool, Parameter(negative=())] = False,
    spans: Annotated[bool, Parameter(negative=())] = False,
    sentences: Annotated[bool, Parameter(negative=())] = False,
    question: QuestionOptions = QuestionOptions(),  # noqa: B008  (it is frozen)
    asking: AskingOrData = AskingOrData(),  # noqa: B008
    data_run: DataRun = DataRun(),  # noqa: B008
) -> None:
    """Show which words of a text move the model, by one method; or of a whole data set, by several.

    Parameters
    ----------
    text
        The text to explain; "-" reads standard input. With a model that reads pictures, the name of
        a picture.
    method
        A name from "limelight methods"; by default lime on models for which it is exact, banzhaf
        where an answer is explained, else shapley. With --data several, separated by commas.
    all_classes
        Explain every class of the model, one after another, instead of the target.
    spans
        With a model that finds spans: explain each of them. With --data that is the default.
    sentences
        With a language model: explain each sentence of its answer, given those before it. With
        --data each has a row.
    """
    asked = question.keywords()
    if all_classes and question.target is not None:
        raise InputError("give --target or --all-classes, not both.")
    if all_classes and question.against is not None:
        raise InputError("give --against or --all-classes, not both.")
    if spans and (all_classes or asked["at"] is not None or asked["answer"] is not None):
        raise InputError(
            "--spans explains every span that is found, each for its class; leave out --at, "
            "--answer and --all-classes."
        )
    if sentences and (spans or all_classes):
        raise InputError("--sentences are those of an answer; leave out --spans and --all-classes.")
    for field in FIELDS:
        if sentences and field.name in _OF_CLASSES and asked[field.name] != field.default:
            raise InputError(
                f"--sentences are those of an answer, which has no classes and no spans; leave out "
                f"--{field.name}."
            )
    if data_run.given(text, asking):
        data_run.explain(method, question, asking, all_classes=all_classes, sentences=sentences)
        return
    form = asking.out.form  # refused before any work is done
    if method is not None and "," in method:
        raise InputError(
            f"a text is explained by one method; got {method}. Use limelight compare, or --data "
            "for a whole data set."
        )
    if all_classes:
        del asked["target"], asked["against"]
    if spans or sentences:
        for name in ("at", "answer") if spans else _OF_CLASSES:
            del asked[name]
        verb = verbs.explain_spans if spans else verbs.explain_sentences
        answers = asking.asked(verb, text, method, **asked)
        _show(_apart(answers, form), answers, form, asking.out.output)
        return
    either = verbs.explain_classes if all_classes else verbs.explain
    answers = asking.asked(either, text, method, **asked)
    # Several classes of a text share its number.
    each = ((i, e) for i, found in answers for e in (found.values() if all_classes else [found]))
    _show(each, answers, form, asking.out.output)


def _apart(answers: Answers[Any], form: str) -> Iterable[tuple[int, Any]]:
    """Yield the spans of every text together where people read them, else each by itself."""
    for number, found in answers:
        for one in [found] if form in ("terminal", "html") else found:
            yield number, one


def _show(
    numbered: Iterable[tuple[int, Any]], answers: Answers[Any], form: str, output: Path | None
) -> None:
    """Write explanations or comparisons, each with the number of its text, as they come."""
    results = (found for _, found in numbered)
    match form:
        case "terminal":
            show(results, output, go_on=answers.how_to_go_on)
        case "json":
            parts = (found.to_json() + "\n" for found in results)
            write(parts, output, go_on=answers.how_to_go_on)
        case "csv":
            one = ((i, [x] if isinstance(x, Explanation) else x) for i, x in numbered)
            rows = ((i, e) for i, several in one for e in several)
            write(explanations_csv(rows), output, go_on=answers.how_to_go_on)
        case _:
            put(only(results, form), form, output, said=True)
    answers.finish(said=form in ("terminal", "json", "html"))


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
        The text to explain; "-" reads standard input. With a model that reads pictures, the name of
        a picture.
    methods
        Names from "limelight methods", separated by commas; by default the paper's seven and
        shapley on the paper's classifier, of answers banzhaf, shapley, context-cite, lime, lrp and
        loo, else shapley, lime, lrp, ig, loo and alpha-avg, as far as the model allows them.
    """
    form = asking.out.form
    asked = question.keywords() | {"methods": names_in(methods), "attention": form == "html"}
    answers = asking.asked(verbs.compare, text, **asked)
    _show(answers, answers, form, asking.out.output)
