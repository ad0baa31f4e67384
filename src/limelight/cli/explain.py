"""``limelight explain`` and ``compare``."""

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from limelight import api
from limelight.cli.console import handle_interrupt, output_console, write_results
from limelight.cli.groups import TARGET
from limelight.cli.options import (
    Argument,
    ExplainOptions,
    Method,
    Methods,
    RequestOptions,
    list_explanations,
    split_names,
)
from limelight.cli.texts import TextResults
from limelight.errors import InputError
from limelight.explainers.explaining import preview_explanation
from limelight.explainers.registry import SAMPLED_DEFAULT, find_method
from limelight.models import Model
from limelight.request import REQUEST_FIELDS, Request
from limelight.results import Comparison, SpanExplanations
from limelight.results.explanation import explanations_csv

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "class": api.explain_classes,
    "span": api.explain_spans,
    "sentence": api.explain_sentences,
}


def explain(
    *text: Argument,
    method: Method = None,
    each: Annotated[Literal["class", "span", "sentence"] | None, Parameter(group=TARGET)] = None,
    request: RequestOptions = RequestOptions(),  # noqa: B008  (it is frozen)
    options: ExplainOptions = ExplainOptions(),  # noqa: B008
) -> None:
    """Show which words of a text drive the prediction of a model.

    Parameters
    ----------
    method
        Name of the method, as in "limelight methods". Default: lime if it is exact for the
        model, banzhaf for answers, otherwise shapley.
    each
        Explain more than one target: every class, every span that the model finds, or every
        sentence of the answer of a language model.
    """
    keywords = request.keywords(each)
    form = options.out.form  # an invalid format is an error before any computation
    if method is not None and "," in method:
        raise InputError(
            f"explain uses one method, not {method}. Use limelight compare, or limelight "
            "explain-data for a data set."
        )
    function = api.explain if each is None else _FUNCTIONS[each]
    if each is None and method is None and _shows_preview(form, options):
        function = _explain_after_preview
    results = options.explain_texts(function, text, method, **keywords)
    _write_explanations(results, form, options.out.output)


def _shows_preview(form: str, options: ExplainOptions) -> bool:
    """Return whether a person watches a terminal and chose neither samples nor several lines."""
    is_watched = form == "terminal" and options.out.output is None and sys.stdout.isatty()
    has_samples = options.budget is not None or options.until is not None or bool(options.set)
    return is_watched and not has_samples and not options.texts.lines


@wraps(api.explain)
def _explain_after_preview(
    model: Model, texts: list[Any], method: None = None, **keywords: Any
) -> Any:
    """Print a quick explanation if the default method is slow, and call ``explain``."""
    fields = [field.name for field in REQUEST_FIELDS if field.name in keywords]
    request = Request(**{name: keywords[name] for name in fields})
    preview = preview_explanation(model, texts, request)
    if preview is not None:
        label = find_method(SAMPLED_DEFAULT).label
        sentence = f"These are {preview.label} values, for a first look. {label} values follow."
        output_console().print(preview, "", sentence, "", sep="\n")
    inputs: Any = texts
    return api.explain(model, inputs, method, **keywords)


def _write_explanations(results: TextResults[Any], form: str, output: Path | None) -> None:
    """Write results as they are computed: one output for each explanation or comparison.

    The explanations of spans are one output in a terminal or a web page.
    """
    single: Any = (Comparison, SpanExplanations) if form in ("terminal", "html") else Comparison
    outputs: Iterable[Any] = (
        explanation
        for _, result in results
        for explanation in ([result] if isinstance(result, single) else list_explanations(result))
    )
    if form == "csv":
        outputs = explanations_csv(
            (number, explanation)
            for number, result in results
            for explanation in list_explanations(result)
        )
    with handle_interrupt(results.resume_hint, OSError):  # for example, if the disk is full
        write_results(outputs, form, output)
    results.finish(has_warnings=form in ("terminal", "json", "html"))


def compare(
    *text: Argument,
    methods: Methods = None,
    request: RequestOptions = RequestOptions(),  # noqa: B008  (it is frozen)
    options: ExplainOptions = ExplainOptions(),  # noqa: B008
) -> None:
    """Compare the explanations of several methods for the same text.

    Parameters
    ----------
    methods
        Names of methods, separated by commas, as in "limelight methods". Default: shapley,
        lime, lrp, ig, loo and alpha-avg, if the model allows them. For answers: banzhaf, shapley,
        context-cite, lime, lrp and loo. For an AttentionClassifier: shapley and the seven methods
        of the paper.
    """
    form = options.out.form
    keywords = request.keywords() | {"methods": split_names(methods), "attention": form == "html"}
    results = options.explain_texts(api.compare, text, **keywords)
    _write_explanations(results, form, options.out.output)
