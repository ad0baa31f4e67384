"""Whether a model has learned anything: an accuracy near chance must not pass for a result."""

__all__ = ["learned_nothing"]

import math
from typing import Any

import numpy as np

from limelight.training.loop import accuracy
from limelight.training.preparing import Prepared
from limelight.training.state import TrainingState

_SHOWN = 2000  # training texts that are asked where none were held out


def learned_nothing(prepared: Prepared, state: TrainingState, device: Any) -> str | None:
    """Say that the kept weights are no better than always giving the most frequent class.

    They are better, and None comes back, if their accuracy is two standard errors above the share
    of that class, or with few texts half the way from it to 1.
    """
    held, what = prepared.validation, "held-out texts"
    if held is None:
        # Spread over all of them: a file may be sorted by label.
        step = -(-len(prepared.training) // _SHOWN)
        held = prepared.training.rows(np.arange(0, len(prepared.training), step))
        what = "training texts"
    best = state.best_epoch
    score = None if best is None else best["accuracy"]
    if score is None:
        score = accuracy(state, held, device)
    share = float(np.bincount(held.labels).max()) / len(held)
    noise = 2 * math.sqrt(share * (1 - share) / len(held))
    if score > share + min(noise, (1 - share) / 2):
        return None
    frequent = prepared.classes[int(np.bincount(held.labels).argmax())]
    # Above the share, but within what luck does to so few texts: nothing is shown, either way.
    verdict = "HAS LEARNED NOTHING" if score <= share else "HAS NOT SHOWN THAT IT LEARNED ANYTHING"
    return (
        f"THE MODEL {verdict}: it gets {score:.1%} of the {len(held):,} {what} right, and always "
        f"answering {frequent!r} gets {share:.1%}. Check that the labels belong to their texts; "
        "if they do, give more texts, or train for longer (--epochs)."
    )
