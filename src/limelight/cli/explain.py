"""``limelight explain``, ``limelight compare`` and ``limelight plan``."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from limelight import verbs
from limelight.cli.console import only, put, show, write
from limelight.cli.data_run import DataRun
from limelight.cli.options import (
    Argument,
    Asking,
    AskingOrData,
    ModelOptions,
    QuestionOptions,
    Seed,
    WholeNumber,
    names_in,
)
from limelight.cli.texts import Answers, OneText
from limelight.errors import InputError
from limelight.explainers.lime import plan as planned
from limelight.question import FIELDS
from limelight.results import Explanation
from limelight.results.explanation import explanations_csv

_OF_CLASSES = ("at", "target", "against", "scale")  # which an answer has not


def explain(
    *text: Argument,
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
    *text: Argument,
    methods: Annotated[str | None, Parameter(name=["--methods", "-m"])] = None,
    question: QuestionOptions = QuestionOptions(),  # noqa: B008  (it is frozen)
    asking: Asking = Asking(),  # noqa: B008
) -> None:
    """Show what several methods say about the same text, and where they disagree.

    Parameters
    ----------
    methods
        Names from "limelight methods", separated by commas; by default the paper's seven and
        shapley on the paper's classifier, of answers banzhaf, shapley, context-cite, lime, lrp and
        loo, else shapley, lime, lrp, ig, loo and alpha-avg, as far as the model allows them.
    """
    form = asking.out.form
    asked = question.keywords() | {"methods": names_in(methods), "attention": form == "html"}
    answers = asking.asked(verbs.compare, text, **asked)
    _show(answers, answers, form, asking.out.output)


def plan(
    *text: str,
    error: float = 0.01,
    question: QuestionOptions = QuestionOptions(),  # noqa: B008  (it is frozen)
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: bool = True,
    sizes: str = "uniform",
    pilot: Annotated[WholeNumber, Parameter(validator=Number(gte=1))] = 1000,
    seed: Seed = 0,
    one: OneText = OneText(),  # noqa: B008
    model: ModelOptions = ModelOptions(),  # noqa: B008
    format: Literal["terminal", "json", "csv"] = "terminal",
) -> None:
    """Say how many samples LIME needs on a text to come within an error of its limit.

    Parameters
    ----------
    text
        The text; "-" reads standard input.
    error
        The error that no score may exceed: the root of its mean square, scatter and bias together.
    bandwidth
        Width of LIME's kernel; 0.25 is the lime package's.
    ridge
        The regression's penalty, which shrinks the scores where samples are few; 1 is the lime
        package's, 0 is none.
    row0
        Whether the untouched text is one of the samples, as in the lime package.
    sizes
        How many words a mask removes: "uniform" (as the lime package), "balanced" or "importance".
    pilot
        Samples from which the errors are estimated where they cannot be computed.
    format
        A table for people, one JSON object for programs, or CSV with a row per word.
    """
    texts = one.whole(text)
    if len(texts) != 1:
        raise InputError(f"a plan is about one text; got {len(texts)}. Put it in quotes.")
    (given,) = one.with_second(texts)
    found = planned(
        model.load(),
        given,
        error=error,
        **question.keywords(),
        bandwidth=bandwidth,
        ridge=ridge,
        row0=row0,
        sizes=sizes,
        pilot=pilot,
        seed=seed,
    )
    put(found, format, None)
