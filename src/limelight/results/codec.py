"""Explanations and comparisons as JSON: one versioned schema each, read strictly."""

import inspect
import math
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.results.comparison import Agreement, Comparison
from limelight.results.explanation import Anchor, Explanation, Pairs, check_indices
from limelight.results.values import read_value, written_value

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
# What 0.1 found and wrote among the settings.
_FOUND = frozenset(
    (
        "completeness_gap",
        "holds",
        "intercept_stderr",
        "kept",
        "masks",
        "nodes",
        "pairs_drawn",
        "precision_by",
        "r2",
        "r2_bound",
        "samples_drawn",
        "search_samples",
        "windows",
        "windows_combined",
    )
)


def settings_with_facts(e: Explanation) -> dict[str, Any]:
    """Return the settings of a file: the facts first, then what was asked."""
    facts = {name: getattr(e, field) for field, name, _ in _FACTS}
    facts["classes"] = list(e.classes)
    if taken := (facts.keys() | _FOUND) & e.settings.keys():
        raise InputError(f"a setting cannot be called {min(taken)!r}: in a file that is another.")
    return facts | dict(e.settings)


def facts_of(settings: dict[str, Any], diagnostics: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an explanation that a file's settings and diagnostics stand for."""
    rest = dict(settings)
    facts = {f: _typed(name, rest.pop(name), kind) for f, name, kind in _FACTS if name in rest}
    found = {name: rest.pop(name) for name in _FOUND if name in rest}
    return {**facts, "settings": rest, "diagnostics": found | diagnostics}


def _typed(name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"the setting {name!r} of this file cannot be used: {error}.") from None


SCHEMAS = Path(__file__).parent / "schemas"
_LARGEST = 1 << 30  # bytes; a book of a million words stays below


class _Record(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class FeatureRecord(_Record):
    """One feature of an explanation."""

    text: str
    spans: list[tuple[int, int]]
    score: float
    stderr: float | None


class PairRecord(_Record):
    """One pair of features."""

    features: tuple[int, int]
    score: float
    stderr: float | None


class ExplanationRecord(_Record, omit_defaults=True):
    """What ``Explanation.to_json`` writes."""

    schema: Literal["limelight.explanation/1"]
    text: str
    method: str
    target: str
    prediction: dict[str, float]
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


class ComparisonRecord(_Record):
    """What ``Comparison.to_json`` writes."""

    schema: Literal["limelight.comparison/1"]
    text: str
    explanations: list[ExplanationRecord]
    agreement: Agreement
    notices: list[str] = []


def explanation_to_json(explanation: Explanation, *, indent: int | None = None) -> str:
    """Return ``explanation`` as JSON."""
    return _encoded(_record(explanation), indent)


def explanation_from_json(content: str | bytes) -> Explanation:
    """Return the explanation that ``content`` spells out."""
    return _explanation(_decoded(content, ExplanationRecord))


def comparison_to_json(comparison: Comparison, *, indent: int | None = None) -> str:
    """Return ``comparison`` as JSON."""
    record = ComparisonRecord(
        schema="limelight.comparison/1",
        text=comparison.text,
        explanations=[_record(explanation) for explanation in comparison],
        agreement=comparison.agreement,
        notices=list(comparison.notices),
    )
    return _encoded(record, indent)


def comparison_from_json(content: str | bytes) -> Comparison:
    """Return the comparison that ``content`` spells out; the agreement is computed again."""
    record = _decoded(content, ComparisonRecord)
    return Comparison(
        explanations=tuple(map(_explanation, record.explanations)), notices=tuple(record.notices)
    )


def schema_of(record: type[msgspec.Struct]) -> bytes:
    """Return the JSON Schema of a record, as shipped in ``schemas/``."""
    schema = _told_alike(msgspec.json.schema(record))
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"


def _told_alike(schema: Any) -> Any:
    """Take the indentation out of descriptions: Python 3.13 does so with every docstring."""
    if isinstance(schema, list):
        return [_told_alike(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: inspect.cleandoc(part)
        if name == "description" and isinstance(part, str)
        else _told_alike(part)
        for name, part in schema.items()
    }


def _record(e: Explanation) -> ExplanationRecord:
    stderr = [None] * len(e.features) if e.stderr is None else e.stderr.tolist()
    rows = zip(e.features, e.spans, e.scores.tolist(), stderr, strict=True)
    pairs, anchor = e.pairs, e.anchor
    return ExplanationRecord(
        schema="limelight.explanation/1",
        text=e.text,
        method=e.method,
        target=e.target,
        against=e.against,
        prediction=dict(e.prediction),
        base_value=e.base_value,
        intercept=e.intercept,
        bound="inf" if e.bound == math.inf else e.bound,
        notices=list(e.notices),
        settings=_written(settings_with_facts(e)),
        features=[
            FeatureRecord(text=text, spans=list(spans), score=score, stderr=error)
            for text, spans, score, error in rows
        ],
        heads=None if e.heads is None else e.heads.tolist(),
        pairs=None if pairs is None else _pair_records(pairs),
        anchor=None if anchor is None else list(anchor.features),
        precision=None if anchor is None else anchor.precision,
        precision_interval=None if anchor is None else anchor.precision_interval,
        coverage=None if anchor is None else anchor.coverage,
        diagnostics=_written(dict(e.diagnostics)) or None,
        parts=list(e.parts) or None,
    )


def _pair_records(pairs: Pairs) -> list[PairRecord]:
    stderr = [None] * len(pairs.scores) if pairs.stderr is None else pairs.stderr.tolist()
    return [
        PairRecord(features=(i, j), score=score, stderr=error)
        for (i, j), score, error in zip(
            pairs.features.tolist(), pairs.scores.tolist(), stderr, strict=True
        )
    ]


def _explanation(record: ExplanationRecord) -> Explanation:
    rows = record.features
    return Explanation(
        text=record.text,
        features=tuple(row.text for row in rows),
        spans=tuple(tuple(row.spans) for row in rows),
        scores=np.array([row.score for row in rows], dtype=np.float64),
        stderr=_column([row.stderr for row in rows]),
        bound=math.inf if record.bound == "inf" else record.bound,
        method=record.method,
        target=record.target,
        against=record.against,
        prediction=record.prediction,
        base_value=record.base_value,
        intercept=record.intercept,
        heads=None if record.heads is None else _heads(record.heads, len(rows)),
        pairs=None if record.pairs is None else _pairs(record.pairs, len(rows)),
        anchor=_anchor(record),
        notices=tuple(record.notices),
        parts=tuple(record.parts or ()),
        **facts_of(_read(record.settings), _read(record.diagnostics or {})),
    )


def _heads(rows: list[list[float]], d: int) -> np.ndarray:
    if (lengths := {len(row) for row in rows}) != {d}:
        raise InputError(
            f"heads must be rows of one number per feature ({d}); got {sorted(lengths)}."
        )
    return np.array(rows, dtype=np.float64)


def _pairs(rows: list[PairRecord], d: int) -> Pairs:
    check_indices((index for row in rows for index in row.features), d, "pairs")
    return Pairs(
        features=np.array([row.features for row in rows], dtype=np.int64).reshape(-1, 2),
        scores=np.array([row.score for row in rows], dtype=np.float64),
        stderr=_column([row.stderr for row in rows]),
    )


def _anchor(record: ExplanationRecord) -> Anchor | None:
    parts = (record.anchor, record.precision, record.precision_interval, record.coverage)
    if parts == (None, None, None, None):
        return None
    features, precision, interval, coverage = parts
    if features is None or precision is None or interval is None or coverage is None:
        raise InputError("an anchor needs its precision, precision_interval and coverage.")
    return Anchor(
        features=tuple(features),
        precision=precision,
        precision_interval=interval,
        coverage=coverage,
    )


def _column(errors: list[float | None]) -> np.ndarray | None:
    """Return the standard errors as an array, or None where no feature has one."""
    known = [error for error in errors if error is not None]
    if not known:
        return None
    if len(known) < len(errors):
        raise InputError("stderr must be given for every feature or for none.")
    return np.array(known, dtype=np.float64)


def _written(values: dict[str, Any]) -> dict[str, Any]:
    return {name: written_value(value) for name, value in values.items()}


def _read(values: dict[str, Any]) -> dict[str, Any]:
    return {name: read_value(value) for name, value in values.items()}


def _encoded(record: msgspec.Struct, indent: int | None) -> str:
    content = msgspec.json.encode(record)
    return (content if indent is None else msgspec.json.format(content, indent=indent)).decode()


def _decoded(content: str | bytes, kind: type[Any]) -> Any:
    what = kind.__name__[:-6].lower()
    if len(content) > _LARGEST:
        raise InputError(f"a limelight {what} has at most {_LARGEST} bytes; got {len(content)}.")
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError:
        raise InputError(f"this is not a limelight {what}: it is nested too deep.") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InputError(f"this is not a limelight {what}: {error}.") from None
