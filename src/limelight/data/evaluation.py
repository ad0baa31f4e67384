"""Measure a model on labeled texts: confusion matrix, accuracy and warnings."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight.data.labeled import LabeledTexts, read_labeled
from limelight.data.labels import Labels, below_chance_warning, wilson_interval
from limelight.errors import InputError
from limelight.models import Model, check_model, class_probabilities
from limelight.models.protocol import has
from limelight.models.queries import read_input
from limelight.shapes import Int
from limelight.text.inputs import WarningCounts

_CHUNK = 500  # texts at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """The result of :func:`evaluate`: ``confusion[i, j]`` texts of class i were predicted as j.

    ``warnings`` summarizes the warnings of all texts.
    """

    classes: tuple[str, ...]
    confusion: Int[np.ndarray, "classes classes"]
    seconds: float
    source: str
    warnings: tuple[str, ...] = ()

    @property
    def texts(self) -> int:
        """The number of classified texts."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """The share of texts that were predicted as their own class."""
        return float(np.trace(self.confusion)) / self.texts

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of the accuracy."""
        return wilson_interval(int(np.trace(self.confusion)), self.texts)

    def class_scores(self, number: int) -> dict[str, Any]:
        """Return name, number of texts, precision and recall of a class; None if undefined."""
        right = int(self.confusion[number, number])
        count, predicted_count = self.confusion[number].sum(), self.confusion[:, number].sum()
        return {
            "class": self.classes[number],
            "count": int(count),
            "precision": right / int(predicted_count) if predicted_count else None,
            "recall": right / int(count) if count else None,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "data": self.source,
            "texts": self.texts,
            "accuracy": self.accuracy,
            "interval_95": list(self.interval),
            "classes": [self.class_scores(number) for number in range(len(self.classes))],
            "confusion": self.confusion.tolist(),
            "seconds": self.seconds,
            "texts_per_second": self.texts / self.seconds if self.seconds else None,
            "warnings": list(self.warnings),
        }


def evaluate(
    model: Model,
    data: Any,
    *,
    labels: Labels | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Measure ``model`` on labeled texts.

    Parameters
    ----------
    model
        A classifier.
    data
        Labeled texts, or a path or table that :func:`read_labeled` reads.
    labels
        The class of each label, if labels are numbers or differ from the class names, as in
        :func:`read_labeled`. By default labels are matched with the classes by name.
    progress
        Called with the number of texts done and the number of all texts.

    Returns
    -------
    Evaluation
        The confusion matrix, with accuracy, warnings and time.

    Raises
    ------
    InputError
        If the model is no classifier, or if a label or a text cannot be used.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load()
    >>> reviews = {
    ...     "text": ["A superb film.", "Dull and long."],
    ...     "label": ["positive", "negative"],
    ... }
    >>> limelight.evaluate(model, reviews).accuracy
    1.0
    """
    if len(check_model(model).classes) < 2 or has(model, "spans"):
        raise InputError(
            "evaluate needs a classifier, and this model has a single output or finds spans."
        )
    if not isinstance(data, LabeledTexts):
        data = read_labeled(data, model.classes, part="test", labels=labels)
        labels = None  # they have been heeded: the labels are names of classes now
    if not len(data):
        raise InputError(f"'{data.source}' has no rows.")
    data, size = data.with_classes(model.classes, labels), len(model.classes)
    confusion, counts = np.zeros((size, size), dtype=np.int64), WarningCounts()
    start = time.perf_counter()
    for first in range(0, len(data), _CHUNK):
        texts, true_classes = (
            data.texts[first : first + _CHUNK],
            data.labels[first : first + _CHUNK],
        )
        documents = []
        for row, text in enumerate(texts, start=first + 1):
            try:
                documents.append(read_input(model, text))
            except InputError as error:
                raise InputError(f"row {row} of '{data.source}' cannot be read: {error}") from None
            counts.add(f"row {row}", documents[-1].warnings)
        # With every link, the predicted class is that of the largest output.
        predicted = class_probabilities(model.outputs(documents)).argmax(axis=1)
        np.add.at(confusion, (true_classes, predicted), 1)
        if progress:
            progress(first + len(texts), len(data))
    seconds = time.perf_counter() - start
    warning = below_chance_warning(int(np.trace(confusion)), len(data), size)
    return Evaluation(
        classes=model.classes,
        confusion=confusion,
        seconds=seconds,
        source=data.source,
        warnings=(*data.warnings, *counts.sentences(), *([warning] if warning else [])),
    )
