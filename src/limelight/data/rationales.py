"""Texts with what people marked in them."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from limelight.data.columns import check_column, opened_data
from limelight.data.files import whole_text
from limelight.errors import InputError
from limelight.files import bounded_json
from limelight.text import Span, one_line

_EVIDENCES, _OPTION = "evidences", "column (--rationales)"


class RationaleTexts(NamedTuple):
    """Texts and, for each, the rationale that ``judge`` takes: spans in characters."""

    texts: list[Any]
    rationales: list[Any]


def read_rationales(
    path: Any,
    column: str = "rationales",
    *,
    text_column: str | None = None,
    limit: int | None = None,
) -> RationaleTexts:
    """Return texts and rationales of a file or a table; ``limit`` rows, evenly spread.

    A rationale is a list of [start, end] in characters, or one such list per annotator; in a file
    of separated values as JSON. Two layouts of the ERASER benchmark are read as well: records
    ``{"start", "end"}`` that count the tokens of a column ``tokens``, and the benchmark's own
    files, whose column "evidences" counts the tokens of documents in the folder ``docs`` beside
    the file. Files, tables and texts are found as :func:`limelight.explain_data` finds them.
    """
    if column == _EVIDENCES and isinstance(path, str | os.PathLike):
        return _of_documents(Path(path), limit)
    data = opened_data(path, text=text_column)
    if data.columns.pair is not None:
        raise InputError("rationales are marked in one text; name its column by --text-column.")
    check_column(data.files, column, _OPTION)
    counted = all("tokens" in file.columns for file in data.files)
    found = RationaleTexts([], [])
    for text, cells, where in data.rows(column, *["tokens"] * counted, limit=limit):
        marked = _parsed(cells[0], where)
        if isinstance(marked, list) and any(isinstance(one, Mapping) for one in marked):
            if not counted:
                check_column(data.files, "tokens", _OPTION)
            places = _places(cast(str, text), _parsed(cells[1], where), where)
            marked = _spans(marked, ("start", "end"), places, where)
        found.texts.append(text)
        found.rationales.append(marked)
    return found


def _parsed(cell: Any, where: str) -> Any:
    """Return a cell of separated values, which can only be text, as what it spells."""
    if not isinstance(cell, str):
        return cell
    if not cell.strip():
        return None
    try:
        return bounded_json(cell, "the rationale")
    except InputError:
        raise InputError(
            f"{where} must have its rationale as JSON, such as [[0, 5]]; "
            f"got {one_line(cell, 40)!r}."
        ) from None


def _places(text: str, tokens: Any, where: str) -> list[Span]:
    """Return where each token stands; between tokens there is nothing but white space."""
    places, at = [], 0
    for token in tokens if isinstance(tokens, list) else [tokens]:
        start = text.find(token, at) if isinstance(token, str) else -1
        if start < 0 or text[at:start].strip():
            raise InputError(f"the tokens of {where} must spell its text; {token!r} does not fit.")
        at = start + len(token)
        places.append((start, at))
    return places


def _spans(
    records: Sequence[Any], names: tuple[str, str], places: Sequence[Span], where: str
) -> list[Span]:
    """Return records of tokens as spans of characters; empty ones occur and are left out."""
    found = []
    for record in records:
        try:
            first, last = (int(record[name]) for name in names)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InputError(
                f"a rationale of {where} must have {names[0]!r} and {names[1]!r} as whole numbers; "
                f"got {one_line(repr(record), 60)}."
            ) from None
        if not 0 <= first <= last <= len(places):
            raise InputError(
                f"a rationale of {where} must lie within its {len(places)} tokens; got {first} to "
                f"{last}."
            )
        if first < last:
            found.append((places[first][0], places[last - 1][1]))
    return found


def _of_documents(path: Path, limit: int | None) -> RationaleTexts:
    """Read ERASER's own files: each line has groups of evidence in a document of its own."""
    data, found = opened_data(path, text="annotation_id"), RationaleTexts([], [])
    check_column(data.files, _EVIDENCES, _OPTION)
    for name, (groups,), _ in data.rows(_EVIDENCES, limit=limit):
        where = f"{one_line(str(name), 40)!r} in '{path}'"
        try:
            evidence = [one for group in _parsed(groups, where) for one in group]
            documents = {str(one["docid"]) for one in evidence} or {str(name)}
        except (KeyError, TypeError):
            raise InputError(
                f"{where} must have evidences that are groups of evidence in documents."
            ) from None
        if len(documents) > 1:
            raise InputError(f"{where} must have its evidence in one document; it has several.")
        (document,) = documents
        if (
            document != Path(document).name
            or not (file := path.parent / "docs" / document).is_file()
        ):
            raise InputError(
                f"the document {document!r} of {where} must be a file in '{path.parent / 'docs'}'."
            )
        text = whole_text(file)
        # ERASER's tokens are what spaces and line breaks leave.
        places = [match.span() for match in re.finditer(r"[^ \n\r]+", text)]
        found.texts.append(text)
        found.rationales.append(_spans(evidence, ("start_token", "end_token"), places, where))
    return found
