"""The command ``limelight plan``, which is registered as an entry point."""

__all__ = ["plan"]

from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from limelight import InputError
from limelight.cli.console import write_result
from limelight.cli.options import ModelOptions, RequestOptions, Seed, WholeNumber
from limelight.cli.texts import TextSource
from limelight_reproduction.planning import needed_samples


def plan(
    *text: str,
    error: float = 0.01,
    request: RequestOptions = RequestOptions(),  # noqa: B008  (it is frozen)
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: Annotated[bool, Parameter(negative="--no-row0")] = True,
    sizes: str = "uniform",
    pilot: Annotated[WholeNumber, Parameter(validator=Number(gte=1))] = 1000,
    seed: Seed = 0,
    source: TextSource = TextSource(),  # noqa: B008
    model: ModelOptions = ModelOptions(),  # noqa: B008
    format: Literal["terminal", "json", "csv"] = "terminal",
) -> None:
    """Compute the number of samples that LIME needs for a text and an error.

    Parameters
    ----------
    text
        The text. "-" reads standard input.
    error
        Largest root mean square error of a score, with scatter and bias.
    bandwidth
        Width of LIME's kernel. 0.25 is the lime package's.
    ridge
        The penalty of the regression. 1 is the lime package's, 0 means no penalty.
    row0
        Whether the full text is one of the samples, as in the lime package.
    sizes
        Distribution of the mask sizes: "uniform" (as in the lime package), "balanced" or
        "importance".
    pilot
        Samples from which the errors are estimated if they cannot be computed.
    format
        A table for readers, a JSON object, or CSV with a row per word.
    """
    texts = source.read_texts(text)
    if len(texts) != 1:
        raise InputError(f"plan needs one text, not {len(texts)}. Put it in quotes.")
    (text_or_pair,) = source.make_inputs(texts, source.read_documents())
    sampling_plan = needed_samples.plan(
        model.load(),
        text_or_pair,
        error=error,
        **request.keywords(),
        bandwidth=bandwidth,
        ridge=ridge,
        row0=row0,
        sizes=sizes,
        pilot=pilot,
        seed=seed,
    )
    write_result(sampling_plan, format, None)
