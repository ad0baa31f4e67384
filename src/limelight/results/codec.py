"""Explanations and comparisons as JSON: one versioned schema each, read strictly.

A record has the fields of a file of one schema. ``to_json`` of a result calls
``Record.from_result(result)`` and ``from_json`` calls ``record.to_result()``
(:class:`limelight.results.mixins.JsonMixin`).
"""

import math
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.models.prediction import PredictionKind
from limelight.results.citations import Citations
from limelight.results.comparison import Agreement, Comparison
from limelight.results.counterfactual import Counterfactual, LowerBoundKind
from limelight.results.differences import decode_ranges, encode_ranges
from limelight.results.explanation import (
    Anchor,
    AnchorGuarantee,
    BoundKind,
    Explanation,
    Pairs,
    check_indices,
)
from limelight.results.schema import Record, check_schema
from limelight.results.values import (
    decode_value,
    encode_value,
    frozen_array,
    map_values,
)
from limelight.sampling.removal_search import RemovalStability
from limelight.shapes import Float
from limelight.text import Image, Part, parse_query

SCHEMAS = Path(__file__).parent / "schemas"
MAX_BYTES = 1 << 30  # of a file; a book of a million words stays below

# Fields of an explanation that a file has among the settings: field, name in the file, type.
_FACT_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("label", "label", str),
    ("signed", "signed", bool),
    ("classes", "classes", tuple[str, ...]),
    ("scale", "output", str),
    ("link", "link", str),
    ("cut", "cut_at", int | None),
    ("model", "model", str),
    ("version", "version", str),
)


def encode_record(record: msgspec.Struct, indent: int | None) -> str:
    """Return a record as JSON."""
    try:
        content = msgspec.json.encode(record)
    except UnicodeEncodeError:
        raise InputError(
            "a name has a lone surrogate, which no file can store. Change the name."
        ) from None
    return (content if indent is None else msgspec.json.format(content, indent=indent)).decode()


def decode_record(content: str | bytes, kind: type[Any]) -> Any:
    """Read a record of the type ``kind`` from JSON.

    Raise an InputError if the content is larger than :data:`MAX_BYTES`, is no JSON, or has another
    schema.
    """
    name = kind.__name__.removesuffix("Record").lower()
    if len(content) > MAX_BYTES:
        raise InputError(
            f"a limelight {name} must have at most {MAX_BYTES} bytes, not {len(content)}."
        )
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError:
        raise InputError(f"this is not a limelight {name}: it is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        check_schema(content, schema_name(kind), f"this is not a limelight {name}")
        # An error that a value raises about itself is a sentence already.
        raise InputError(f"this is not a limelight {name}: {str(error).rstrip('.')}.") from None


def schema_name(kind: type[Any]) -> str:
    """Return the name and version of the schema of a record type."""
    if (tag := kind.__struct_config__.tag) is not None:
        return str(tag)
    return str(get_args(get_type_hints(kind)["schema"])[0])


def settings_with_facts(e: Explanation) -> dict[str, Any]:
    """Return the settings of a file: facts about model and method, then the request."""
    facts = {name: getattr(e, field) for field, name, _ in _FACT_FIELDS}
    facts["classes"] = list(e.classes)
    # A file has facts and settings in one object, so that no name may be in both.
    if clashes := facts.keys() & e.settings.keys():
        raise InputError(
            f"files already use the name {min(clashes)!r} of a setting. Choose another name."
        )
    return facts | dict(e.settings)


def _convert_fact(name: str, value: Any, kind: Any) -> Any:
    """Convert a setting of a file to its type; raise `InputError` if that is impossible."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"the setting {name!r} of this file cannot be used: {error}.") from None


# An unknown key may change the meaning of the others: such a file raises an error.
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
    """The fields of a file that ``Explanation.to_json`` writes."""

    schema: Literal["limelight.explanation/2"]
    text: str
    method: str
    target: str
    prediction: dict[str, float]
    explained_value: float | None = None
    base_value: float | None
    intercept: float | None
    bound: float | Literal["inf"] | None
    warnings: list[str]
    settings: dict[str, Any]
    features: list[FeatureRecord]
    heads: list[list[float]] | None = None
    pairs: list[PairRecord] | None = None
    anchor: list[int] | None = None
    precision: float | None = None
    precision_interval: tuple[float, float] | None = None
    coverage: float | None = None
    guarantee: AnchorGuarantee | None = None
    diagnostics: dict[str, Any] | None = None
    against: str | None = None
    parts: list[Part] | None = None
    query: dict[str, Any] | None = None
    feature_kind: str = "words"
    image: Image | None = None
    bound_kind: BoundKind = "proven"
    certain_tops: list[tuple[int, int]] | None = None

    @classmethod
    def from_result(cls, e: Explanation) -> "ExplanationRecord":
        """Return the record of an explanation."""
        values = {name: getattr(e, name) for name in _SAME_FIELDS}
        if e.pairs is not None:
            values["pairs"] = _make_rows(
                PairRecord, e.pairs.stderr, features=e.pairs.features, score=e.pairs.scores
            )
        if e.anchor is not None:
            values |= {name: getattr(e.anchor, name) for name in _ANCHOR_FIELDS}
            values |= {"anchor": list(e.anchor.features), "guarantee": e.anchor.guarantee}
        kind = e.settings.get("features")
        if isinstance(kind, str) and kind != "words":  # msgspec omits only the default object
            values["feature_kind"] = kind
        return cls(
            schema="limelight.explanation/2",
            **values,
            prediction=dict(e.prediction),
            explained_value=e.explained_value,
            bound="inf" if e.bound == math.inf else e.bound,
            warnings=list(e.warnings),
            settings=map_values(encode_value, settings_with_facts(e)),
            features=_make_rows(
                FeatureRecord, e.stderr, text=e.features, spans=e.spans, score=e.scores
            ),
            heads=None if e.heads is None else e.heads.tolist(),
            diagnostics=map_values(encode_value, e.diagnostics) or None,
            parts=list(e.parts) or None,
            query=None if e.query is None else e.query.to_dict(),
            image=e.image,
            certain_tops=None if e.certain_tops is None else encode_ranges(e.certain_tops),
        )

    def to_result(self) -> Explanation:
        """Return the explanation of this record."""
        rows = self.features
        settings = map_values(decode_value, self.settings)
        facts = {
            field: _convert_fact(name, settings.pop(name), kind)
            for field, name, kind in _FACT_FIELDS
            if name in settings
        }
        return Explanation(
            **{name: getattr(self, name) for name in _SAME_FIELDS},
            features=tuple(row.text for row in rows),
            spans=tuple(tuple(row.spans) for row in rows),
            scores=np.array([row.score for row in rows], dtype=np.float64),
            stderr=_read_stderr(rows),
            bound=math.inf if self.bound == "inf" else self.bound,
            prediction=self.prediction,
            heads=None if self.heads is None else frozen_array("heads", self.heads, len(rows), 2),
            pairs=self._read_pairs(),
            anchor=self._read_anchor(),
            warnings=tuple(self.warnings),
            parts=tuple(self.parts or ()),
            query=None if self.query is None else parse_query(self.query),
            image=self.image,
            certain_tops=None
            if self.certain_tops is None
            else decode_ranges(self.certain_tops, len(rows)),
            settings=settings,
            diagnostics=map_values(decode_value, self.diagnostics or {}),
            **facts,
        )

    def _read_pairs(self) -> Pairs | None:
        """Return the stored pairs, or None."""
        if self.pairs is None:
            return None
        rows = [row.features for row in self.pairs]
        check_indices((index for row in rows for index in row), len(self.features), "pairs")
        return Pairs(
            features=np.array(rows, dtype=np.int64).reshape(-1, 2),
            scores=np.array([row.score for row in self.pairs], dtype=np.float64),
            stderr=_read_stderr(self.pairs),
        )

    def _read_anchor(self) -> Anchor | None:
        """Return the stored anchor, or None; raise `InputError` if it is incomplete."""
        values = {name: getattr(self, name) for name in ("anchor", *_ANCHOR_FIELDS)}
        is_missing = [value is None for value in values.values()]
        if all(is_missing) and self.guarantee is None:
            return None
        if any(is_missing):
            raise InputError("an anchor needs its precision, precision_interval and coverage.")
        features = tuple(values.pop("anchor"))
        return Anchor(features=features, guarantee=self.guarantee, **values)


# Fields that a file has under the same name and in the same form.
_SAME_FIELDS = ("text", "method", "target", "against", "base_value", "intercept", "bound_kind")
_ANCHOR_FIELDS = ("precision", "precision_interval", "coverage")


class ComparisonRecord(Record, frozen=True):
    """The fields of a file that ``Comparison.to_json`` writes."""

    schema: Literal["limelight.comparison/2"]
    text: str
    explanations: list[ExplanationRecord]
    agreement: Agreement
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_result(cls, c: Comparison) -> "ComparisonRecord":
        """Return the record of a comparison. Attention matrices are not stored."""
        return cls(
            schema="limelight.comparison/2",
            text=c.text,
            explanations=[ExplanationRecord.from_result(e) for e in c],
            agreement=c.agreement,
            warnings=c.warnings,
        )

    def to_result(self) -> Comparison:
        """Return the comparison of this record. The agreement is computed again."""
        return Comparison(
            explanations=tuple(record.to_result() for record in self.explanations),
            warnings=self.warnings,
        )


class SourceRecord(Record, frozen=True):
    """A feature that a statement cites, and the document or message to which it belongs."""

    source: str
    feature: int


class StatementRecord(Record, frozen=True):
    """A sentence of an answer with its sources. A limit is null if its error is unknown."""

    text: str
    sources: list[SourceRecord]
    limits: list[float | None]


class CitationRecord(Record, frozen=True):
    """The fields of a file that ``Citations.to_json`` writes.

    The texts and sources of ``statements`` follow from the other fields. A file with other values
    raises an error.
    """

    schema: Literal["limelight.citations/1"]
    confidence: float
    threshold: float
    statements: list[StatementRecord]
    explanations: list[ExplanationRecord]

    @classmethod
    def from_result(cls, c: Citations) -> "CitationRecord":
        """Return the record of citations."""
        names = c.source_names
        rows = zip(c.statements, c.features, c.limits.tolist(), strict=True)
        return cls(
            schema="limelight.citations/1",
            confidence=c.confidence,
            threshold=c.threshold,
            statements=[
                StatementRecord(
                    text=text,
                    sources=[SourceRecord(source=names[j], feature=j) for j in features],
                    limits=[limit if math.isfinite(limit) else None for limit in limits],
                )
                for text, features, limits in rows
            ],
            explanations=[ExplanationRecord.from_result(e) for e in c.explanations],
        )

    def to_result(self) -> Citations:
        """Return the citations of this record, and check the derived fields."""
        rows = [statement.limits for statement in self.statements]
        if len({len(row) for row in rows}) > 1:
            raise InputError("limits must have one number per feature in each statement.")
        result = Citations(
            explanations=tuple(record.to_result() for record in self.explanations),
            limits=np.array([[-np.inf if x is None else x for x in row] for row in rows]),
            confidence=self.confidence,
            threshold=self.threshold,
        )
        if CitationRecord.from_result(result).statements != self.statements:
            raise InputError("statements must have the texts and sources that their limits imply.")
        return result


class RemovedFeatureRecord(Record, frozen=True):
    """One feature of a counterfactual."""

    text: str
    spans: list[tuple[int, int]]
    removed: bool


class StabilityRecord(Record, frozen=True):
    """How often the prediction stays if a random set of a size is removed."""

    size: int
    draws: int
    unchanged: int
    low: float
    high: float


class CounterfactualRecord(Record, frozen=True, omit_defaults=True, kw_only=True):
    """The fields of a file that ``Counterfactual.to_json`` writes.

    ``predicted_class``, ``predicted_class_after``, ``size``, ``is_minimal``, ``certified_radius``
    and ``is_robust`` follow from the other fields. A file with other values raises an error.
    """

    schema: Literal["limelight.counterfactual/1"]
    text: str
    predicted_class: str
    predicted_class_after: str | None
    size: int | None
    lower_bound: int
    bound_kind: LowerBoundKind
    is_minimal: bool
    certified_radius: int
    is_robust: bool
    kind: PredictionKind
    threshold: float | None = None
    desired_class: str | None = None
    classes: tuple[str, ...]
    link: str
    prediction: dict[str, float]
    prediction_after: dict[str, float] | None
    replacement: str
    features: list[RemovedFeatureRecord]
    stability: list[StabilityRecord]
    warnings: list[str]
    settings: dict[str, Any]
    diagnostics: dict[str, Any] | None = None
    model: str
    version: str
    cut_at: int | None = None
    parts: list[Part] | None = None
    query: dict[str, Any] | None = None
    image: Image | None = None

    @classmethod
    def from_result(cls, c: Counterfactual) -> "CounterfactualRecord":
        """Return the record of a counterfactual."""
        rows = zip(c.features, c.spans, strict=True)
        after = c.prediction_after
        return cls(
            schema="limelight.counterfactual/1",
            **{name: getattr(c, name) for name in (*_SAME_COUNTERFACTUAL, *_DERIVED_FIELDS)},
            prediction=dict(c.prediction),
            prediction_after=None if after is None else dict(after),
            features=[
                RemovedFeatureRecord(text=text, spans=list(spans), removed=j in c.removed)
                for j, (text, spans) in enumerate(rows)
            ],
            stability=[StabilityRecord(**stability._asdict()) for stability in c.stability],
            warnings=list(c.warnings),
            settings=map_values(encode_value, c.settings),
            diagnostics=map_values(encode_value, c.diagnostics) or None,
            cut_at=c.cut,
            parts=list(c.parts) or None,
            query=None if c.query is None else c.query.to_dict(),
        )

    def to_result(self) -> Counterfactual:
        """Return the counterfactual of this record, and check the derived fields."""
        result = Counterfactual(
            **{name: getattr(self, name) for name in _SAME_COUNTERFACTUAL},
            features=tuple(row.text for row in self.features),
            spans=tuple(tuple(row.spans) for row in self.features),
            removed=tuple(j for j, row in enumerate(self.features) if row.removed),
            prediction=self.prediction,
            prediction_after=self.prediction_after,
            stability=tuple(
                RemovalStability(row.size, row.draws, row.unchanged, row.low, row.high)
                for row in self.stability
            ),
            warnings=tuple(self.warnings),
            settings=map_values(decode_value, self.settings),
            diagnostics=map_values(decode_value, self.diagnostics or {}),
            cut=self.cut_at,
            parts=tuple(self.parts or ()),
            query=None if self.query is None else parse_query(self.query),
        )
        for name in _DERIVED_FIELDS:
            if (stored := getattr(self, name)) != (expected := getattr(result, name)):
                raise InputError(
                    f"{name} of a counterfactual must be {expected!r}, as its other fields imply, "
                    f"not {stored!r}."
                )
        return result


# Fields that a file of a counterfactual has under the same name and in the same form.
_SAME_COUNTERFACTUAL = (
    "text", "lower_bound", "bound_kind", "kind", "threshold", "desired_class", "classes", "link",
    "replacement", "model", "version", "image",
)  # fmt: skip
_DERIVED_FIELDS = (
    "predicted_class", "predicted_class_after", "size", "is_minimal", "certified_radius",
    "is_robust",
)  # fmt: skip


def _make_rows(
    kind: type[Any], stderr: Float[np.ndarray, " n"] | None, **columns: Any
) -> list[Any]:
    """Return a record for each row of the columns; without standard errors its stderr is None."""
    lists = [v.tolist() if isinstance(v, np.ndarray) else v for v in columns.values()]
    lists.append([None] * len(lists[0]) if stderr is None else stderr.tolist())
    names = (*columns, "stderr")
    return [kind(**dict(zip(names, row, strict=True))) for row in zip(*lists, strict=True)]


def _read_stderr(rows: list[Any]) -> Float[np.ndarray, " n"] | None:
    """Return the standard errors of records as an array, or None if no record has one."""
    stderr = [row.stderr for row in rows if row.stderr is not None]
    if not stderr:
        return None
    if len(stderr) < len(rows):
        raise InputError("stderr must be given for every feature or for none.")
    return np.array(stderr, dtype=np.float64)
