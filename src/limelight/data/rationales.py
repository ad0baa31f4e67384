"""Texts of a data file, with or without what people marked in them."""

import csv
import gzip
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from limelight.data.labelled import chosen_pair
from limelight.errors import InputError, MissingExtraError
from limelight.files import bounded_json
from limelight.text import Span, one_line


def texts_of_file(
    path: Path, column: str = "text", *, limit: int | None = None, option: str = "--text-column"
) -> list[Any]:
    """Return one column of a .parquet, .csv or .jsonl file; ``limit`` rows, evenly spread.

    ``option`` is how the column can be named, for the sentence that says there is none.
    """
    if not path.exists():
        raise InputError(f"there is no data at '{path}'; check the path.")
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1; got {limit}.")
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if kind not in _READERS:
        raise InputError(f"cannot read '{path}': give a .parquet, .csv or .jsonl file.")
    try:
        texts = _READERS[kind](path, column)
    except KeyError as error:
        raise InputError(f"{error.args[0]} Name another by {option}.") from None
    if not texts:
        raise InputError(f"'{path}' has no rows.")
    if limit is None or limit >= len(texts):
        return texts
    return [texts[i] for i in np.linspace(0, len(texts) - 1, limit).round().astype(int)]


def given_of_file(
    path: Path, text: str | None, pair: str | None, *, limit: int | None = None
) -> list[Any]:
    """Return the texts of a file, or its pairs: two columns named or of usual names."""
    if pair is None and text is None and path.exists():
        text, pair = chosen_pair(_names(path), None, None)
    texts = texts_of_file(path, text or "text", limit=limit)
    if pair is None:
        return texts
    return list(
        zip(texts, texts_of_file(path, pair, limit=limit, option="--pair-column"), strict=True)
    )


def _names(path: Path) -> list[str]:
    """Return the columns of a file, as far as its beginning tells; none of an unknown kind."""
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    try:
        if kind == ".parquet":
            import pyarrow.parquet as pq

            return list(pq.read_schema(path).names)
        if kind == ".csv":
            return list(csv.DictReader(_content(path).splitlines(keepends=True)).fieldnames or ())
        if kind == ".jsonl":
            return list(json.loads(next(filter(str.strip, _content(path).splitlines()))))
    except Exception:  # whatever it is, the reading of the texts says it better
        return []
    return []


def _parquet(path: Path, column: str) -> list[Any]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("reading parquet files needs pyarrow", "data") from None
    with pq.ParquetFile(path) as file:
        _need(column, file.schema_arrow.names, path)
        return list(file.read(columns=[column]).column(column).to_pylist())


def _csv(path: Path, column: str) -> list[Any]:
    reader = csv.DictReader(_content(path).splitlines(keepends=True))
    _need(column, list(reader.fieldnames or ()), path)
    return [row[column] for row in reader]


def _jsonl(path: Path, column: str) -> list[Any]:
    try:
        rows = [json.loads(line) for line in _content(path).splitlines() if line.strip()]
    except ValueError as error:
        raise InputError(f"'{path}' must hold one JSON object per line ({error}).") from None
    for row in rows:
        _need(column, list(row) if isinstance(row, dict) else [], path)
    return [row[column] for row in rows]


def _content(path: Path) -> str:
    content = path.read_bytes()
    try:
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"'{path}' must be UTF-8 text; byte {error.start} is not.") from None


def _need(column: str, names: list[str], path: Path) -> None:
    if column not in names:
        raise KeyError(
            f"'{path}' has no column {column!r}; it has {', '.join(map(repr, names)) or 'none'}."
        )


_READERS: dict[str, Callable[[Path, str], list[Any]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _jsonl,
}


_EVIDENCES = "evidences"


class RationaleTexts(NamedTuple):
    """Texts and, for each, the rationale that ``judge`` takes: spans in characters."""

    texts: list[Any]
    rationales: list[Any]


def read_rationales(
    path: str | os.PathLike[str],
    column: str = "rationales",
    *,
    text_column: str = "text",
    limit: int | None = None,
) -> RationaleTexts:
    """Return texts and rationales of a .parquet, .csv or .jsonl file; ``limit`` rows, spread out.

    A rationale is a list of [start, end] in characters, or one such list per annotator; in a .csv
    file as JSON. Two layouts of the ERASER benchmark are read as well: records ``{"start", "end"}``
    that count the tokens of a column ``tokens``, and the benchmark's own files, whose column
    "evidences" counts the tokens of documents in the folder ``docs`` beside the file.
    """
    path = Path(path)
    if column == _EVIDENCES:
        return _of_documents(path, limit)
    texts = texts_of_file(path, text_column, limit=limit)
    cells = texts_of_file(path, column, limit=limit, option="--rationales")
    found = [_parsed(cell, i, path) for i, cell in enumerate(cells)]
    if not any(_counts_tokens(one) for one in found):
        return RationaleTexts(texts, found)
    tokens = texts_of_file(path, "tokens", limit=limit, option="--rationales")
    rows = zip(texts, tokens, found, strict=True)
    return RationaleTexts(
        texts, [_in_characters(*row, f"row {i} of '{path}'") for i, row in enumerate(rows)]
    )


def _parsed(cell: Any, number: int, path: Path) -> Any:
    """Return a cell of a .csv file, which can only be text, as what it spells."""
    if not isinstance(cell, str):
        return cell
    if not cell.strip():
        return None
    try:
        return bounded_json(cell, "the rationale")
    except InputError:
        raise InputError(
            f"row {number} of '{path}' must have its rationale as JSON, such as [[0, 5]]; "
            f"got {one_line(cell, 40)!r}."
        ) from None


def _counts_tokens(rationale: Any) -> bool:
    return isinstance(rationale, list) and any(isinstance(one, Mapping) for one in rationale)


def _in_characters(text: str, tokens: Sequence[str], records: Any, where: str) -> list[Span] | None:
    if records is None:
        return None
    places = _places(text, tokens, where)
    return _spans(records, ("start", "end"), places, where)


def _places(text: str, tokens: Sequence[str], where: str) -> list[Span]:
    """Return where each token stands; between tokens there is nothing but white space."""
    places, at = [], 0
    for token in tokens:
        start = text.find(token, at)
        if start < 0 or text[at:start].strip():
            raise InputError(f"the tokens of {where} must spell its text; {token!r} does not fit.")
        at = start + len(token)
        places.append((start, at))
    return places


def _spans(
    records: Sequence[Any], names: tuple[str, str], places: Sequence[Span], where: str
) -> list[Span]:
    """Return records of tokens as spans of characters; empty ones occur and are left out."""
    ends = [_ends(record, names, len(places), where) for record in records]
    return [(places[first][0], places[last - 1][1]) for first, last in ends if first < last]


def _ends(record: Any, names: tuple[str, str], tokens: int, where: str) -> Span:
    try:
        first, last = (int(record[name]) for name in names)
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"a rationale of {where} must have {names[0]!r} and {names[1]!r} as whole numbers; "
            f"got {one_line(repr(record), 60)}."
        ) from None
    if not 0 <= first <= last <= tokens:
        raise InputError(
            f"a rationale of {where} must lie within its {tokens} tokens; got {first} to {last}."
        )
    return first, last


def _of_documents(path: Path, limit: int | None) -> RationaleTexts:
    """Read ERASER's own files: each line has groups of evidence in a document of its own."""
    texts, rationales = [], []
    names = texts_of_file(path, "annotation_id", limit=limit, option="--rationales")
    groups = texts_of_file(path, _EVIDENCES, limit=limit, option="--rationales")
    for name, own in zip(names, groups, strict=True):
        where = f"{one_line(str(name), 40)!r} in '{path}'"
        evidence = _evidence(own, where)
        document = {one["docid"] for one in evidence} or {name}
        if len(document) > 1:
            raise InputError(f"{where} must have its evidence in one document; it has several.")
        text = _document(path.parent / "docs", str(document.pop()), where)
        # ERASER's tokens are what spaces and line breaks leave.
        places = [match.span() for match in re.finditer(r"[^ \n\r]+", text)]
        texts.append(text)
        ends = ("start_token", "end_token")
        rationales.append(_spans(evidence, ends, places, where))
    return RationaleTexts(texts, rationales)


def _evidence(groups: Any, where: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for group in groups if isinstance(groups, list) else [None]:
        for one in group if isinstance(group, list) else [None]:
            if not isinstance(one, dict) or "docid" not in one:
                raise InputError(
                    f"{where} must have evidences that are groups of evidence in documents."
                )
            found.append(one)
    return found


def _document(folder: Path, name: str, where: str) -> str:
    if name != Path(name).name or not (file := folder / name).is_file():
        raise InputError(f"the document {name!r} of {where} must be a file in '{folder}'.")
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"'{file}' must be UTF-8 text; byte {error.start} is not.") from None
