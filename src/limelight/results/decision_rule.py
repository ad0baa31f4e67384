"""The rule that turns the outputs of a model into a prediction, and tells changes of it."""

from dataclasses import dataclass
from typing import get_args

import numpy as np

from limelight.errors import InputError, unknown_name_message
from limelight.models.prediction import PredictionKind
from limelight.shapes import Bool, Float, Int

_NO_LABELS = "no label"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """The rule that turns outputs into a prediction.

    Parameters
    ----------
    kind
        "class" if the model predicts one of its classes, "labels" if it decides each label by
        itself, "score" for a single number, "answer" for the log-probability of an answer.
    classes
        The names of the classes.
    threshold
        The smallest number of a score or an answer that counts as the same prediction as any larger
        number. None for the other kinds.
    desired_class
        The only class whose prediction counts as a change, or "not" and a label. None if every
        other prediction counts.
    """

    kind: PredictionKind
    classes: tuple[str, ...]
    threshold: float | None = None
    desired_class: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(PredictionKind):
            raise InputError(unknown_name_message("kind", self.kind, get_args(PredictionKind)))
        if (self.threshold is None) != (self.kind in ("class", "labels")):
            raise InputError("threshold must be given for scores and answers, but not for classes.")
        if self.threshold is not None and not np.isfinite(self.threshold):
            raise InputError(f"threshold must be finite, not {self.threshold}.")
        if self.desired_class is not None and self.desired_class not in self.desirable_classes:
            names = self.desirable_classes
            raise InputError(unknown_name_message("desired_class", self.desired_class, names))

    @property
    def desirable_classes(self) -> tuple[str, ...]:
        """The values that ``desired_class`` can have."""
        if self.kind == "class":
            return self.classes
        if self.kind == "labels":
            return (*self.classes, *(f"not {name}" for name in self.classes))
        return ()

    def name(self, outputs: Float[np.ndarray, " C"]) -> str:
        """Return the prediction for a row of outputs as text."""
        (code,) = self._predict(outputs[None])
        if self.kind == "class":
            return self.classes[int(code[0])]
        if self.kind == "labels":
            names = [name for name, is_set in zip(self.classes, code, strict=True) if is_set]
            return ", ".join(names) or _NO_LABELS
        return f"{'at least' if code[0] else 'below'} {self.threshold:.4g}"

    def is_reached(self, outputs: Float[np.ndarray, "n C"]) -> Bool[np.ndarray, " n"]:
        """Return for each row of outputs whether it leads to the desired class."""
        predictions = self._predict(outputs)
        index, is_set = self._desired_label()
        if self.kind == "labels":
            return predictions[:, index] == is_set
        return predictions[:, 0] == index

    def is_changed(
        self, outputs: Float[np.ndarray, "n C"], full: Float[np.ndarray, " C"]
    ) -> Bool[np.ndarray, " n"]:
        """Return for each row of outputs whether its prediction is a change.

        ``full`` are the outputs for the complete input.
        """
        if self.desired_class is not None:
            return self.is_reached(outputs)
        return (self._predict(outputs) != self._predict(full[None])).any(axis=1)

    def margins(
        self, outputs: Float[np.ndarray, "n C"], full: Float[np.ndarray, " C"]
    ) -> Float[np.ndarray, " n"]:
        """Return how far each row of outputs is from a change: negative after a change.

        If the outputs of two classes are equal, the margin is 0, and `is_changed` decides.
        """
        weights, constants = self.margin_weights(full)
        margins = outputs @ weights.T + constants
        # A desired class has to win against each of the other classes.
        is_joint = self.kind == "class" and self.desired_class is not None
        return margins.max(axis=1) if is_joint else margins.min(axis=1)

    def margin_weights(
        self, full: Float[np.ndarray, " C"]
    ) -> tuple[Float[np.ndarray, "m C"], Float[np.ndarray, " m"]]:
        """Return the weights of the outputs in each margin, and the constant that is added.

        Without a desired class, the prediction changes as soon as one margin is negative. With a
        desired class, it changes as soon as all of them are.
        """
        count = len(full)
        if self.kind in ("score", "answer"):
            sign = 1.0 if self._predict(full[None])[0, 0] else -1.0
            return np.array([[sign]]), np.array([-sign * float(self.threshold or 0.0)])
        if self.kind == "labels":
            signs = np.where(self._predict(full[None])[0], 1.0, -1.0)
            weights = np.diag(signs)
            if self.desired_class is not None:
                index, is_set = self._desired_label()
                weights = (-1.0 if is_set else 1.0) * np.eye(count)[[index]]
            return weights, np.zeros(len(weights))
        if count == 1:
            predicted = int(self._predict(full[None])[0, 0])
            if self.desired_class is not None:
                predicted = 1 - self._desired_label()[0]
            return np.array([[1.0 if predicted else -1.0]]), np.zeros(1)
        unit = np.eye(count)
        if self.desired_class is None:
            predicted = int(self._predict(full[None])[0, 0])
            weights = unit[predicted] - np.delete(unit, predicted, axis=0)
        else:
            desired = self._desired_label()[0]
            weights = np.delete(unit, desired, axis=0) - unit[desired]
        return weights, np.zeros(len(weights))

    def _desired_label(self) -> tuple[int, bool]:
        """Return the index of the desired class, and whether its label is desired."""
        name = self.desired_class or ""
        if name in self.classes:
            return self.classes.index(name), True
        return self.classes.index(name.removeprefix("not ")), False

    def _predict(self, outputs: Float[np.ndarray, "n C"]) -> Int[np.ndarray, "n m"]:
        """Return the predicted class of each row, or 0 and 1 for each label or threshold."""
        if self.kind == "labels":
            return (outputs > 0).astype(np.int64)
        if self.kind != "class":
            return (outputs[:, :1] >= self.threshold).astype(np.int64)
        if outputs.shape[1] == 1:
            return (outputs > 0).astype(np.int64)
        return outputs.argmax(axis=1)[:, None]
