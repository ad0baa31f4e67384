"""What an anchor holds: the predicted class, or a label's yes or no."""

__all__ = ["Held", "held_by"]

from typing import NamedTuple, final

import numpy as np

from limelight.errors import DomainError
from limelight.explainers.reading import Reading
from limelight.models import CAPABILITIES, why_not
from limelight.shapes import Bool, Float, Int


@final
class Held(NamedTuple):
    """What the model says of the untouched text.

    ``label`` is the only output that counts where labels are a yes or no each; None where one
    class is predicted. ``choice`` is that class, or 1 for yes and 0 for no.
    """

    name: str
    choice: int
    label: int | None
    for_target: bool
    notices: tuple[str, ...] = ()

    def __call__(self, outputs: Float[np.ndarray, "n C"]) -> Bool[np.ndarray, " n"]:
        """Return whether ``outputs`` still say so."""
        return _choices(outputs, self.label) == self.choice


def held_by(one: Reading) -> Held:
    """Return what is held in the one document of ``one``."""
    model, target = one.model, int(one.targets.index[0])
    why = why_not(model, "chooses")
    if why is not None and model.link != "sigmoid":
        raise DomainError(
            f"an anchor holds the predicted class; it needs {CAPABILITIES['chooses']}, and {why}. "
            "Use 'lime', 'shapley' or 'loo'."
        )
    label = target if why is not None and one.outputs.shape[1] > 1 else None
    choice = int(_choices(one.outputs, label)[0])
    if label is None:
        notice = (
            f"An anchor holds the predicted class, {model.classes[choice]!r}, "
            f"so its words speak against the target {model.classes[target]!r}."
        )
        agrees, name = choice == target, model.classes[choice]
    else:
        notice = (
            f"The text does not have the label {model.classes[target]!r}, which the anchor holds, "
            "so its words speak against it."
        )
        agrees, name = bool(choice), ("" if choice else "not ") + model.classes[target]
    notices = () if agrees else (notice,)
    return Held(name, choice, label, agrees, notices + _held_against(one))


def _held_against(one: Reading) -> tuple[str, ...]:
    (other,) = one.targets.names_against()
    if other is None:
        return ()
    return (f"An anchor holds what the model says, so it is the same against {other!r}.",)


def _choices(outputs: Float[np.ndarray, "n C"], label: int | None) -> Int[np.ndarray, " n"]:
    if label is not None or outputs.shape[1] == 1:
        return (outputs[:, label or 0] > 0).astype(np.int64)
    return outputs.argmax(axis=1)
