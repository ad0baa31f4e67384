"""``limelight explain``, ``compare`` and ``plan``."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from limelight import verbs
from limelight.cli.console import noted, put, put_one
from limelight.cli.groups import TARGET
from limelight.cli.options import (
    Argument,
    Asking,
    Method,
    Methods,
    ModelOptions,
    QuestionOptions,
    Seed,
    WholeNumber,
    explanations_in,
    names_in,
)
from limelight.cli.texts import Answers, OneText
from limelight.errors import InputError
from limelight.explainers.lime import plan as planned
from limelight.results import Comparison, SpanExplanations
from limelight.results.explanation import explanations_csv

_VERBS: dict[str, Callable[..., Any]] = {
    "class": verbs.explain_classes,
    "span": verbs.explain_spans,
    "sentence": verbs.explain_sentences,
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
    verb = verbs.explain if each is None else _VERBS[each]
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
    answers = asking.asked(verbs.compare, text, **asked)
    _show(answers, form, asking.out.output)


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
    put_one(found, format, None)
