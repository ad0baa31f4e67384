"""Explanations and comparisons as JSON: one versioned schema each, read strictly.

A record is what a file of one schema holds: ``Record.of(value)`` and ``record.value()`` are the two
ways, which ``to_json`` and ``from_json`` of every result go (``results.mixins.Stored``).
"""

import math
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.results.comparison import Agreement, Comparison
from limelight.results.explanation import (
    Anchor,
    BoundKind,
    Explanation,
    Pairs,
    check_indices,
)
from limelight.results.values import (
    Record,
    check_schema,
    each_value,
    own_numbers,
    read_value,
    written_value,
)
from limelight.shapes import Float
from limelight.text import Image, read_asked

SCHEMAS = Path(__file__).parent / "schemas"
_LARGEST = 1 << 30  # bytes; a book of a million words stays below

# Field of an explanation, its name among the settings of a file, and what the file holds there.
_FACTS: tuple[tuple[str, str, Any], ...] = (
    ("label", "label", str),
    ("signed", "signed", bool),
    ("classes", "classes", tuple[str, ...]),
    ("scale", "output", str),
    ("link", "link", str),
    ("cut", "cut_at", int | None),
    ("model", "model", str),
    ("version", "version", str),
)


def encoded(record: msgspec.Struct, indent: int | None) -> str:
    """Return a record as JSON."""
    try:
        content = msgspec.json.encode(record)
    except UnicodeEncodeError:
        raise InputError(
            "a file holds whole characters; a name here has a lone surrogate."
        ) from None
    return (content if indent is None else msgspec.json.format(content, indent=indent)).decode()


def decoded(content: str | bytes, kind: type[Any]) -> Any:
    """Return the record of this ``kind`` that ``content`` spells out."""
    what = kind.__name__.removesuffix("Record").lower()
    if len(content) > _LARGEST:
        raise InputError(f"a limelight {what} has at most {_LARGEST} bytes; got {len(content)}.")
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError:
        raise InputError(f"this is not a limelight {what}: it is nested too deep.") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        check_schema(content, schema_of(kind), f"this is not a limelight {what}")
        # What a value refuses about itself is a sentence already.
        raise InputError(f"this is not a limelight {what}: {str(error).rstrip('.')}.") from None


def schema_of(kind: type[Any]) -> str:
    """Return the schema, with its version, of the files that a record writes and reads."""
    if (tag := kind.__struct_config__.tag) is not None:
        return str(tag)
    return str(get_args(get_type_hints(kind)["schema"])[0])


def settings_with_facts(e: Explanation) -> dict[str, Any]:
    """Return the settings of a file: the facts first, then what was asked."""
    facts = {name: getattr(e, field) for field, name, _ in _FACTS}
    facts["classes"] = list(e.classes)
    # A file has facts and settings in one object: a name must be of one of them.
    if taken := facts.keys() & e.settings.keys():
        raise InputError(f"a setting cannot be called {min(taken)!r}: in a file that is another.")
    return facts | dict(e.settings)


def _typed(name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"the setting {name!r} of this file cannot be used: {error}.") from None


# A key that nobody knows may change what the others mean: such a file is refused, not half read.
class FeatureRecord(Record, frozen=True):
    """One feature of an explanation."""

    text: str
    spans: list[tuple[int, int]]
    score: float
    stderr: float | None


class PairRecord(Record, frozen=True):
    """One pair of features."""

    features: tuple[int, int]
    score: float
    stderr: float | None


class ExplanationRecord(Record, frozen=True, omit_defaults=True, kw_only=True):
    """What ``Explanation.to_json`` writes."""

    schema: Literal["limelight.explanation/2"]
    text: str
    method: str
    target: str
    prediction: dict[str, float]
    explained_value: float | None = None
    base_value: float | None
    intercept: float | None
    bound: float | Literal["inf"] | None
    notices: list[str]
    settings: dict[str, Any]
    features: list[FeatureRecord]
    heads: list[list[float]] | None = None
    pairs: list[PairRecord] | None = None
    anchor: list[int] | None = None
    precision: float | None = None
    precision_interval: tuple[float, float] | None = None
    coverage: float | None = None
    diagnostics: dict[str, Any] | None = None
    against: str | None = None
    parts: list[tuple[int, int]] | None = None
    asked: dict[str, Any] | None = None
    units: str = "words"
    image: Image | None = None
    bound_kind: BoundKind = "proven"

    @classmethod
    def of(cls, e: Explanation) -> "ExplanationRecord":
        """Return the record of an explanation."""
        own = {name: getattr(e, name) for name in _SAME}
        if e.pairs is not None:
            own["pairs"] = _rows(
                PairRecord, e.pairs.stderr, features=e.pairs.features, score=e.pairs.scores
            )
        if e.anchor is not None:
            own |= {name: getattr(e.anchor, name) for name in _ANCHOR}
            own["anchor"] = list(e.anchor.features)
        unit = e.settings.get("features")
        if isinstance(unit, str) and unit != "words":  # msgspec omits its own "words" alone
            own["units"] = unit
        return cls(
            schema="limelight.explanation/2",
            **own,
            prediction=dict(e.prediction),
            explained_value=e.explained_value,
            bound="inf" if e.bound == math.inf else e.bound,
            notices=list(e.notices),
            settings=each_value(written_value, settings_with_facts(e)),
            features=_rows(FeatureRecord, e.stderr, text=e.features, spans=e.spans, score=e.scores),
            heads=None if e.heads is None else e.heads.tolist(),
            diagnostics=each_value(written_value, e.diagnostics) or None,
            parts=list(e.parts) or None,
            asked=None if e.asked is None else e.asked.stored(),
            image=e.image,
        )

    def value(self) -> Explanation:
        """Return the explanation of this record."""
        rows = self.features
        rest = each_value(read_value, self.settings)
        facts = {f: _typed(name, rest.pop(name), kind) for f, name, kind in _FACTS if name in rest}
        return Explanation(
            **{name: getattr(self, name) for name in _SAME},
            features=tuple(row.text for row in rows),
            spans=tuple(tuple(row.spans) for row in rows),
            scores=np.array([row.score for row in rows], dtype=np.float64),
            stderr=_errors(rows),
            bound=math.inf if self.bound == "inf" else self.bound,
            prediction=self.prediction,
            heads=None if self.heads is None else own_numbers("heads", self.heads, len(rows), 2),
            pairs=self._pairs(),
            anchor=self._anchor(),
            notices=tuple(self.notices),
            parts=tuple(self.parts or ()),
            asked=None if self.asked is None else read_asked(self.asked),
            image=self.image,
            settings=rest,
            diagnostics=each_value(read_value, self.diagnostics or {}),
            **facts,
        )

    def _pairs(self) -> Pairs | None:
        if self.pairs is None:
            return None
        rows = [row.features for row in self.pairs]
        check_indices((index for row in rows for index in row), len(self.features), "pairs")
        return Pairs(
            features=np.array(rows, dtype=np.int64).reshape(-1, 2),
            scores=np.array([row.score for row in self.pairs], dtype=np.float64),
            stderr=_errors(self.pairs),
        )

    def _anchor(self) -> Anchor | None:
        found = {name: getattr(self, name) for name in ("anchor", *_ANCHOR)}
        missing = [value is None for value in found.values()]
        if all(missing):
            return None
        if any(missing):
            raise InputError("an anchor needs its precision, precision_interval and coverage.")
        return Anchor(features=tuple(found.pop("anchor")), **found)


_SAME = ("text", "method", "target", "against", "base_value", "intercept", "bound_kind")
_ANCHOR = ("precision", "precision_interval", "coverage")


class ComparisonRecord(Record, frozen=True):
    """What ``Comparison.to_json`` writes."""

    schema: Literal["limelight.comparison/2"]
    text: str
    explanations: list[ExplanationRecord]
    agreement: Agreement
    notices: tuple[str, ...] = ()

    @classmethod
    def of(cls, c: Comparison) -> "ComparisonRecord":
        """Return the record of a comparison; attention matrices are not stored."""
        return cls(
            schema="limelight.comparison/2",
            text=c.text,
            explanations=[ExplanationRecord.of(e) for e in c],
            agreement=c.agreement,
            notices=c.notices,
        )

    def value(self) -> Comparison:
        """Return the comparison of this record; the agreement is computed again."""
        return Comparison(
            explanations=tuple(record.value() for record in self.explanations),
            notices=self.notices,
        )


def _rows(kind: type[Any], stderr: Float[np.ndarray, " n"] | None, **columns: Any) -> list[Any]:
    """Return a record for every row of the columns; its stderr is None where there is none."""
    lists = [v.tolist() if isinstance(v, np.ndarray) else v for v in columns.values()]
    lists.append([None] * len(lists[0]) if stderr is None else stderr.tolist())
    names = (*columns, "stderr")
    return [kind(**dict(zip(names, row, strict=True))) for row in zip(*lists, strict=True)]


def _errors(rows: list[Any]) -> Float[np.ndarray, " n"] | None:
    """Return the standard errors as an array, or None where no row has one."""
    known = [row.stderr for row in rows if row.stderr is not None]
    if not known:
        return None
    if len(known) < len(rows):
        raise InputError("stderr must be given for every feature or for none.")
    return np.array(known, dtype=np.float64)
