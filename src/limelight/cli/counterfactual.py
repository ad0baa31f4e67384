"""``limelight counterfactual``."""

from collections.abc import Iterable
from typing import Annotated, Any

from cyclopts import Parameter

from limelight import api
from limelight.cli.console import handle_interrupt, show_progress, write_results
from limelight.cli.groups import BUDGET, FEATURES, TARGET
from limelight.cli.options import (
    Argument,
    DecisionRequestOptions,
    ModelOptions,
    OutputOptions,
    Seed,
    check_quotes,
)
from limelight.cli.texts import TextOptions
from limelight.errors import InputError
from limelight.explainers.budget import parse_budget
from limelight.explainers.explaining import texts_per_batch
from limelight.results.counterfactual import Counterfactual, counterfactuals_csv
from limelight.text import UserInput


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
    out: OutputOptions = OutputOptions(),  # noqa: B008
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
    form = out.form  # an invalid format is an error before any computation
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
