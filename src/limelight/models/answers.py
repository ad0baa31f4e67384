"""What a function answered: checked, with a sentence that says what to change."""

__all__ = ["MOST_LOG_ODDS", "checked_answers", "log_odds"]

from collections.abc import Sequence
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.failing_texts import short
from limelight.shapes import Float

_LEAST = 1e-12  # probabilities are held this far from 0 and 1
MOST_LOG_ODDS = float(np.log1p(-_LEAST) - np.log(_LEAST))  # 27.6
_SLACK = 1e-3  # half precision rounds row sums by this much


def checked_answers(
    found: Any,
    *,
    texts: Sequence[str],
    classes: tuple[str, ...],
    probability: bool,
    multi_label: bool,
) -> Float[np.ndarray, "n C"]:
    """Return ``found`` as float64, one row per text and one column per class."""
    try:
        answers = _numbers(found)
    except (TypeError, ValueError):
        rows = f"{len(texts)} row{'s' * (len(texts) != 1)} of {len(classes)}"
        raise InputError(
            f"the function must return numbers, {rows}; got {_described(found)}"
        ) from None
    _check_shape(answers, len(texts), classes)
    if not np.isfinite(answers).all():
        bad = int((~np.isfinite(answers)).any(axis=1).argmax())
        raise InputError(
            f"the function must return finite numbers; for the text {short(texts[bad])} it "
            f"returned {answers[bad].tolist()}."
        )
    if probability:
        _check_probabilities(answers, texts, multi_label=multi_label)
    return answers


def _numbers(found: Any) -> np.ndarray:
    """Return ``found`` as float64: a tensor of torch from any device and graph, never a text."""
    if hasattr(found, "detach") and hasattr(found, "cpu"):
        found = found.detach().cpu().double()
    given = np.asarray(found)
    if given.dtype.kind not in "biuf":
        raise TypeError(given.dtype)
    return given.astype(np.float64)


def _described(found: Any) -> str:
    """Say what came instead of numbers, and what to do with it."""
    kind = type(found).__name__
    first = found
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if isinstance(first, dict):
        return (
            f"{kind} of dict, as a transformers pipeline answers. Explain the pipeline itself, "
            "limelight.wrap(pipeline), or return the scores in the order of the classes."
        )
    if hasattr(found, "toarray"):
        return f"{kind}, which is sparse. Return it as an array: scores.toarray()."
    if getattr(getattr(found, "dtype", None), "kind", "") == "O":
        return f"{kind} of objects. Return rows of equal length that hold only numbers."
    if isinstance(first, int | float):
        return f"{kind} of rows that differ in length. Return one number per class in each."
    return f"{kind}."


def _check_shape(answers: np.ndarray, texts: int, classes: tuple[str, ...]) -> None:
    if answers.ndim == 1 and len(answers) == texts:
        raise InputError(
            f"the function must return one row per text; got shape {answers.shape} for {texts} "
            "text(s). Return scores[:, None] if there is one score per text."
        )
    if answers.ndim != 2 or len(answers) != texts:
        raise InputError(
            f"the function must return one row per text, ({texts}, {len(classes)}) for {texts} "
            f"text(s); got shape {answers.shape}."
        )
    allowed = {len(classes), 1} if len(classes) == 2 else {len(classes)}
    if answers.shape[1] not in allowed:
        raise InputError(
            f"there are {len(classes)} classes ({', '.join(classes)}), but the function returns "
            f"{answers.shape[1]} columns; name as many classes as there are columns."
        )


def _check_probabilities(
    answers: Float[np.ndarray, "n C"], texts: Sequence[str], *, multi_label: bool
) -> None:
    low, high = answers.min(), answers.max()
    if low < -_SLACK or high > 1 + _SLACK:
        raise InputError(
            f"probabilities must lie between 0 and 1; the function returned {low:.4g} to "
            f"{high:.4g}. "
            "Pass scale='logit' if these are logits."
        )
    sums = answers.sum(axis=1)
    if answers.shape[1] > 1 and not multi_label and np.abs(sums - 1).max() > _SLACK:
        worst = int(np.abs(sums - 1).argmax())
        raise InputError(
            "the probabilities of a text must sum to 1; for the text "
            f"{short(texts[worst])} they sum to {sums[worst]:.4g}. "
            "Pass multi_label=True if each class is a yes or no of its own."
        )


def log_odds(chances: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n C"]:
    """Return log p − log(1 − p), with p held away from 0 and 1 by 1e-12."""
    held = np.clip(chances, _LEAST, 1 - _LEAST)
    return np.clip(np.log(held) - np.log1p(-held), -MOST_LOG_ODDS, MOST_LOG_ODDS)
