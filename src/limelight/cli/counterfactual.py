"""``limelight counterfactual``."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from limelight import api
from limelight.cli.console import (
    handle_interrupt,
    select_format,
    show_progress,
    write_results,
)
from limelight.cli.groups import BUDGET, FEATURES, OUTPUT, TARGET
from limelight.cli.options import (
    Argument,
    ModelOptions,
    RequestOptions,
    Seed,
    check_quotes,
    convert_numbers,
    make_request_options,
)
from limelight.cli.texts import TextOptions
from limelight.errors import InputError
from limelight.explainers.budget import parse_budget
from limelight.explainers.explaining import texts_per_batch
from limelight.results.counterfactual import Counterfactual, counterfactuals_csv
from limelight.text import UserInput

_FIELDS = (
    "features", "grid", "protect", "window", "side", "at", "answer", "protect_span",
    "first_subwords",
)  # fmt: skip


@Parameter(name="*")
class DecisionRequestOptions(make_request_options(_FIELDS)):  # type: ignore[misc]
    """Select the features of a counterfactual; it has its own target."""

    keywords = RequestOptions.keywords


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class CounterfactualOutput:
    """Select the format and the file of the result.

    Parameters
    ----------
    format
        Format of the result: "terminal", "json" (one object per line), "html" or "csv". Default:
        the ending of the output file, otherwise "terminal".
    output
        Write to this file instead of standard output.
    """

    format: Literal["terminal", "json", "html", "csv"] | None = None
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None


def counterfactual(
    *text: Argument,
    desired_class: Annotated[str | None, Parameter(group=TARGET)] = None,
    threshold: Annotated[float | None, Parameter(group=TARGET)] = None,
    request: DecisionRequestOptions = DecisionRequestOptions(),  # noqa: B008  (it is frozen)
    replacement: Annotated[str, Parameter(group=FEATURES)] = "auto",
    budget: Annotated[str | None, Parameter(group=BUDGET)] = None,
    seed: Seed = 0,
    texts: TextOptions = TextOptions(),  # noqa: B008
    model: ModelOptions = ModelOptions(),  # noqa: B008
    out: CounterfactualOutput = CounterfactualOutput(),  # noqa: B008
) -> None:
    """Find the smallest set of words whose removal changes the prediction.

    Parameters
    ----------
    desired_class
        Only this class counts as a change: a name, or a number counted from 0. For a model with
        several labels, a label or "not LABEL". Default: any other prediction.
    threshold
        Models of a score: the prediction changes if the score crosses this number. Language models:
        it changes if the log-probability of the answer falls below this number. Default for
        answers: their tokens are half as likely on average.
    replacement
        What replaces a removed word, such as "mask", "unk" or "delete". "auto" is the default of
        the model.
    budget
        Limit per text: a time (30, 30s, 2min) or a number of model calls ("400 calls"). Default:
        1,000 calls, and one second for models with exact scores.
    """
    form = select_format(
        out.format, out.output
    )  # an invalid format is an error before any computation
    if form not in ("terminal", "json", "html", "csv"):
        raise InputError(f"a counterfactual has no figure, so it cannot be {form}. Use html.")
    check_quotes(text)
    texts.check()
    if budget is not None:
        parse_budget(budget)  # raises an error before the model is loaded
    keywords: dict[str, Any] = request.keywords() | {
        "desired_class": desired_class,
        "threshold": threshold,
        "replacement": replacement,
        "budget": budget,
        "seed": seed,
    }
    if texts.source.has_parts:
        keywords["protect"] = convert_numbers(keywords["protect"])
    loaded, display = model.load(), show_progress("searching")

    def search_batch(batch: list[UserInput]) -> Any:
        with display:
            return api.counterfactual(loaded, batch, **keywords, progress=display)

    results = texts.compute_results(
        text, search_batch, list_warnings=_list_warnings, batch_size=texts_per_batch(loaded)
    )
    outputs: Iterable[Any] = (result for _, result in results)
    if form == "csv":
        outputs = counterfactuals_csv(results)
    with handle_interrupt(results.resume_hint, OSError):  # for example, if the disk is full
        write_results(outputs, form, out.output)
    results.finish(has_warnings=form in ("terminal", "json", "html"))


def _list_warnings(c: Counterfactual) -> tuple[str, ...]:
    return c.warnings
