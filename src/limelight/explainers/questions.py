"""What is asked of which texts, a few texts at a time."""

__all__ = ["AnyModel", "AnyReading", "Texts", "listed", "readings", "watched_by"]

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from limelight.adapters import Model
from limelight.errors import InputError, nearest
from limelight.explainers.method import Explainer
from limelight.explainers.progress import Progress, metered
from limelight.explainers.reading import Reading, read
from limelight.explainers.targets import OUTPUTS
from limelight.explainers.texts import TextReading, read_texts
from limelight.model import AttentionClassifier

AnyModel = AttentionClassifier | Model
AnyReading = Reading | TextReading
Texts = list[str] | tuple[str, ...]
_CHUNK = 32  # documents whose arrays are held at a time


def listed(text: str | Texts) -> list[str]:
    """Return one text, or several, as a list."""
    if not isinstance(text, Iterable) or isinstance(text, bytes | Mapping):
        raise InputError(f"a text must be a string, or a list of them; got {type(text).__name__}.")
    return [text] if isinstance(text, str) else list(text)


def watched_by(
    progress: Progress | None,
    explainers: Sequence[Explainer],
    reading: AnyReading,
    aims: int,
    total: int,
) -> AbstractContextManager[None]:
    """Let ``progress`` hear of parts of the texts of ``reading``."""
    sizes = [len(features) for features in reading.features]
    first = reading.first or 0
    return metered(progress, explainers, features=sizes, aims=aims, first=first, total=total)


def readings(
    model: AnyModel,
    texts: list[str],
    progress: Progress | None,
    *,
    output: str,
    **question: Any,
) -> Iterator[AnyReading]:
    """Read the texts a few at a time, so that memory does not grow with their number.

    Other models than the paper's are then asked text by text: their answers are remembered for
    all classes and methods, but not for all texts.
    """
    if output not in OUTPUTS:
        raise InputError(nearest("output", output, OUTPUTS))
    output = _scaled(output, getattr(model, "link", "softmax"))
    done = 0
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        first = start if len(texts) > 1 else None
        for reading in _read(model, chunk, output=output, first=first, **question):
            yield reading
            done += len(reading.documents)
            if progress is not None:
                progress(done, len(texts))


def _read(model: AnyModel, texts: list[str], **question: Any) -> Iterator[AnyReading]:
    if isinstance(model, AttentionClassifier):
        yield read(model, texts, **question)
    else:
        yield from read_texts(model, texts, **question).apart()


def _scaled(output: str, link: str) -> str:
    """Return what is explained: the "score" of a model whose outputs are no log-odds."""
    if link == "none" and output == "probability":
        raise InputError(
            "the outputs of this model are scores, not log-odds, so it has no probabilities; "
            "explain output='score' (--scale score)."
        )
    if link != "none" and output == "score":
        raise InputError(
            "output 'score' is for models without probabilities; explain 'logit' or 'probability'."
        )
    return "score" if link == "none" else output
