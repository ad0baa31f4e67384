"""What is asked of which texts, a few texts at a time."""

__all__ = ["Texts", "is_one", "listed", "one_reading", "readings", "together"]

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from limelight.errors import InputError
from limelight.explainers.method import Chosen
from limelight.explainers.progress import Progress
from limelight.explainers.question import Question
from limelight.explainers.reading import Reading, reading_of
from limelight.models import Collapses, Freezes, Model, checked_model, why_not
from limelight.models.checking import checked_given
from limelight.text import Given, Pair

Texts = list[str] | list[Pair] | list[Given]
_CHUNK = 32  # documents that are read and asked for their outputs at a time


def is_one(text: Any) -> bool:
    """Whether one text is meant, or one pair, and not a list of them: a tuple is always a pair."""
    return isinstance(text, str | tuple)


def listed(text: Any) -> list[Any]:
    """Return one text, one pair of texts, or a list of either, as a list."""
    if is_one(text):
        return [text if isinstance(text, str) else checked_given(text)]
    if not isinstance(text, Sequence) or isinstance(text, bytes):
        if hasattr(text, "tolist"):  # a column of a table
            return list(text)
        raise InputError(f"a text must be a string, or a list of them; got {type(text).__name__}.")
    return list(text)


def together(model: Model, chosen: Sequence[Chosen] = ()) -> int:
    """Return how many texts are explained at a time; 1 where each costs many calls."""
    if why_not(model, "collapses") is None:
        return cast(Collapses, model).together
    if chosen and all(one.way.joint for one in chosen):
        return cast(Freezes, model).together
    return 1


def readings(
    model: Model,
    texts: list[Any],
    question: Question,
    *,
    progress: Progress | None = None,
    chosen: Sequence[Chosen] = (),
    feasible: Callable[[int], None] | None = None,
    alone: bool = False,
) -> Iterator[Reading]:
    """Read the texts a few at a time, so that memory does not grow with their number.

    ``alone`` yields every text by itself, whatever the model.
    Models that do not collapse are then asked text by text, unless the ``chosen`` methods all take
    several: their answers are remembered for all classes and methods, but not for all texts.
    """
    model, question = question.windowed(model), question.to(model)
    at_a_time, done = together(model, chosen), 0
    chunk = max(at_a_time, _CHUNK)
    for start in range(0, len(texts), chunk):
        some, first = texts[start : start + chunk], start if len(texts) > 1 else None
        reading = reading_of(model, some, question, first=first, feasible=feasible)
        for part in reading.apart() if alone or at_a_time == 1 else [reading]:
            yield part
            done += len(part.documents)
            if progress is not None:
                progress(done, len(texts))


def one_reading(
    model: Model,
    text: Any,
    question: Question,
    *,
    about: str,
    feasible: Callable[[int], None] | None = None,
) -> Reading:
    """Return the one text as the model reads it; ``about`` names what is not about a list."""
    if not is_one(text):
        raise InputError(f"{about} is about one text, a string; got {type(text).__name__}.")
    (reading,) = readings(checked_model(model), listed(text), question, feasible=feasible)
    return reading
