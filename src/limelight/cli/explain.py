"""``limelight explain`` and ``compare``."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from limelight import api
from limelight.cli.console import noted, put
from limelight.cli.groups import TARGET
from limelight.cli.options import (
    Argument,
    Asking,
    Method,
    Methods,
    QuestionOptions,
    explanations_in,
    names_in,
)
from limelight.cli.texts import Answers
from limelight.errors import InputError
from limelight.results import Comparison, SpanExplanations
from limelight.results.explanation import explanations_csv

_VERBS: dict[str, Callable[..., Any]] = {
    "class": api.explain_classes,
    "span": api.explain_spans,
    "sentence": api.explain_sentences,
}


def explain(
    *text: Argument,
    method: Method = None,
    each: Annotated[Literal["class", "span", "sentence"] | None, Parameter(group=TARGET)] = None,
    question: QuestionOptions = QuestionOptions(),  # noqa: B008  (it is frozen)
    asking: Asking = Asking(),  # noqa: B008
) -> None:
    """Show which words of a text drive the prediction of a model.

    Parameters
    ----------
    method
        Name of the method; "limelight methods" lists them. Default: lime if it is exact for the
        model, banzhaf for answers, otherwise shapley.
    each
        Explain more than one target: every class, every span that the model finds, or every
        sentence of the answer of a language model.
    """
    keywords = question.keywords(each)
    form = asking.out.form  # refused before any work is done
    if method is not None and "," in method:
        raise InputError(
            f"a text is explained by one method; got {method}. Use limelight compare, or limelight "
            "explain-data for a data set."
        )
    verb = api.explain if each is None else _VERBS[each]
    answers = asking.asked(verb, text, method, **keywords)
    _show(answers, form, asking.out.output)


def _show(answers: Answers[Any], form: str, output: Path | None) -> None:
    """Write answers as they come: every class by itself, and spans unless people read them."""
    whole: Any = (Comparison, SpanExplanations) if form in ("terminal", "html") else Comparison
    results: Iterable[Any] = (
        one
        for _, found in answers
        for one in ([found] if isinstance(found, whole) else explanations_in(found))
    )
    if form == "csv":
        results = explanations_csv((i, e) for i, found in answers for e in explanations_in(found))
    with noted(answers.how_to_go_on, OSError):  # a disk may be full
        put(results, form, output)
    answers.finish(said=form in ("terminal", "json", "html"))


def compare(
    *text: Argument,
    methods: Methods = None,
    question: QuestionOptions = QuestionOptions(),  # noqa: B008  (it is frozen)
    asking: Asking = Asking(),  # noqa: B008
) -> None:
    """Compare the explanations of several methods for the same text.

    Parameters
    ----------
    methods
        Names of methods, separated by commas; "limelight methods" lists them. Default: shapley,
        lime, lrp, ig, loo and alpha-avg, if the model allows them. For answers: banzhaf, shapley,
        context-cite, lime, lrp and loo. For an AttentionClassifier: shapley and the seven methods
        of the paper.
    """
    form = asking.out.form
    asked = question.keywords() | {"methods": names_in(methods), "attention": form == "html"}
    answers = asking.asked(api.compare, text, **asked)
    _show(answers, form, asking.out.output)
