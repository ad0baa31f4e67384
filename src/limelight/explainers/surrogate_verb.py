"""A surrogate for a model around one text, as a value."""

__all__ = ["surrogate"]

from collections.abc import Collection, Sequence

from limelight.explainers.fitted_surrogate import SurrogateGame, fitted_surrogate
from limelight.explainers.method import chosen
from limelight.explainers.question import Question
from limelight.explainers.readings import one_reading
from limelight.explainers.surrogate_methods import ROWS, Surrogate
from limelight.models import Model, checked_model
from limelight.text import Given


def surrogate(
    model: Model,
    text: Given,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
    features: str | Sequence[int] = "words",
    scale: str = "logit",
    protect: Collection[str] = (),
    side: str | None = None,
    window: str | int | None = None,
    replacement: str = "auto",
    samples: int | None = None,
    heads: int | None = None,
    seed: int = 0,
) -> SurrogateGame:
    """Return a ratio game fitted to what ``model`` answers when words of ``text`` are removed.

    It is taken wherever a ratio game is: by the exact values of :mod:`limelight.theory`, their
    curves and ceilings, and as a game of masks. How far it is the model, its ``r2`` says, beside
    the ``r2_linear`` of LIME's kind of model on the same masks, which neither had seen.

    ``samples`` masks are asked (None: ten for each word, at least 1,000), half of them the
    complements of the others; ``heads`` None takes one to three, by the error on masks left out.
    The other arguments are those of :func:`limelight.explain`.
    """
    (method,) = ROWS
    given = {"samples": samples, "heads": heads, "seed": seed, "replacement": replacement}
    settings: Surrogate = chosen(method, method.ways[0], checked_model(model), given).settings
    question = Question(
        target=target,
        against=against,
        features=features,
        scale=scale,
        protect=protect,
        side=side,
        window=window,
    )
    enough = settings.plan.check_enough
    reading = one_reading(model, text, question, about="a surrogate", feasible=enough)
    return fitted_surrogate(reading, settings.plan, settings.replacement).game
