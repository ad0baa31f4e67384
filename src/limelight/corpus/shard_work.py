"""What a worker does with a shard: read, explain by every method, and make rows of it."""

__all__ = ["ShardWork", "data_texts", "input_schema"]

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

import pyarrow as pa

from limelight.corpus.run_record import RunRecord
from limelight.corpus.shard_rows import Answer, DataText, shard_table
from limelight.errors import InputError
from limelight.explainers.budget import Budget, allotted
from limelight.explainers.explaining import explanations, readings, together
from limelight.explainers.method import Chosen
from limelight.explainers.reading import Reading
from limelight.explainers.registry import configured
from limelight.models import Model
from limelight.results import Explanation
from limelight.results.values import read_value
from limelight.text import Given, one_line

_TOGETHER = 32  # texts that are read at a time, at least
_INPUT = {
    "row": pa.int64(),
    "id": pa.string(),
    "text": pa.large_string(),
    "label": pa.string(),
    "error": pa.string(),
    "pair": pa.large_string(),
}
Found = Explanation | str  # a sentence where there is no explanation
Heard = Callable[[int, int], None]  # texts done, and how many of them failed


def input_schema(carried: Iterable[tuple[str, Any]] = ()) -> pa.Schema:
    """Return the columns of the texts that a worker gets; ``error`` says why one is not usable."""
    return pa.schema([*_INPUT.items(), *carried])


@final
class ShardWork:
    """Explains shards of one run with one model, which is ready to be asked."""

    def __init__(self, model: Model, record: RunRecord) -> None:
        self.model, self.record = model, record
        self.chosen: list[Chosen] = [
            configured(one.id, model, read_value(one.settings)) for one in record.methods
        ]
        self._budget = None if record.budget is None else Budget.of(record.budget)

    def __call__(self, texts: pa.Table, heard: Heard | None = None) -> pa.Table:
        """Return the rows of a shard, in the order of ``texts``."""
        asked, errors = data_texts(texts, self.model.classes)
        each = self.record.rows_per_text
        found: list[list[Found]] = [[error or ""] * each for error in errors]
        usable = [i for i, error in enumerate(errors) if error is None]
        # Like lengths together: a batch is as wide as its longest text.
        usable.sort(key=lambda i: (len(asked[i].whole or ""), i))
        done, failed = len(asked) - len(usable), len(asked) - len(usable)
        for part in _parts(usable, max(together(self.model, self.chosen), _TOGETHER)):
            for i, of_text in zip(
                part, self._explained([asked[i].given for i in part]), strict=True
            ):
                found[i] = of_text
                failed += any(isinstance(one, str) for one in of_text)
            done += len(part)
            if heard is not None:
                heard(done, failed)
        names = texts.column_names[len(_INPUT) :]
        place = pa.array([i for i in range(len(asked)) for _ in range(each)], pa.int64())
        return shard_table(
            list(self._answers(asked, found)),
            {name: texts.column(name).take(place) for name in names},
            keep_texts=self.record.data.texts_kept,
        )

    def _answers(
        self, asked: Sequence[DataText], found: Sequence[Sequence[Found]]
    ) -> Iterator[Answer]:
        aims = self.model.classes if self.record.question.all_classes else [None]
        rows = [(chosen.method.id, aim) for chosen in self.chosen for aim in aims]
        for about, of_text in zip(asked, found, strict=True):
            for (method, aim), one in zip(rows, of_text, strict=True):
                yield Answer(about, method, aim, one)

    def _explained(self, texts: list[Any]) -> list[list[Found]]:
        """Return what is found in every text: for each method, for each class.

        Where one of several texts fails, it is found by halving, so that the others do not.
        """
        asked = readings(
            self.model,
            texts,
            self.record.question,
            chosen=self.chosen,
            alone=self._budget is not None,
        )
        try:
            return [of_text for reading in asked for of_text in self._of_reading(reading)]
        except Exception as error:
            if len(texts) == 1:
                return [[_sentence(error)] * self.record.rows_per_text]
        half = len(texts) // 2
        return self._explained(texts[:half]) + self._explained(texts[half:])

    def _of_reading(self, reading: Reading) -> list[list[Found]]:
        aims, within = reading.aims(), allotted(self._budget, self.chosen, reading)
        columns = [self._of_method(chosen, aimed) for chosen in within for aimed in aims]
        return [list(of_text) for of_text in zip(*columns, strict=True)]

    def _of_method(self, chosen: Chosen, reading: Reading) -> Sequence[Found]:
        try:
            for features in reading.features:
                chosen.check_feasible(len(features))
            return explanations(chosen, reading)
        except Exception as error:
            if len(reading.documents) > 1:
                raise
            return [_sentence(error)]  # other methods may well explain this text


def _sentence(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    said = one_line(str(error), 400)
    if isinstance(error, MemoryError):
        return f"not enough memory ({said})."
    return f"{type(error).__name__}: {said}"


def data_texts(texts: pa.Table, classes: Sequence[str]) -> tuple[list[DataText], list[str | None]]:
    """Return the texts that a worker got, and for each the sentence why it cannot be used."""
    columns = (texts.column(name).to_pylist() for name in ("row", "id", "text", "label", "pair"))
    asked = [
        DataText(row, id, _given(text, pair), _class_name(label, classes))
        for row, id, text, label, pair in zip(*columns, strict=True)
    ]
    return asked, texts.column("error").to_pylist()


def _given(text: str | None, pair: str | None) -> Given | None:
    return text if text is None or pair is None else (text, pair)


def _class_name(label: str | None, classes: Sequence[str]) -> str | None:
    """Return the class that ``label`` names or numbers; one that is no class stays as it is."""
    if label is None or label in classes:
        return label
    try:
        number = float(label)
    except ValueError:
        return label
    whole = math.isfinite(number) and number == int(number) and 0 <= number < len(classes)
    return classes[int(number)] if whole else label


def _parts(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (items[start : start + size] for start in range(0, len(items), size))
