"""Read texts with rationales: the spans that annotators marked."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from limelight.data.columns import check_column, open_data
from limelight.data.files import read_text_file
from limelight.errors import InputError
from limelight.files import parse_json
from limelight.text import Span, truncate_line

_EVIDENCES = "evidences"
_CHOOSE_COLUMN = "Choose the column of the rationales with column (--rationales)."


class RationaleTexts(NamedTuple):
    """Texts and their rationales for ``judge``: spans in characters."""

    texts: list[Any]
    rationales: list[Any]


def read_rationales(
    path: Any,
    column: str = "rationales",
    *,
    text_column: str | None = None,
    limit: int | None = None,
) -> RationaleTexts:
    """Read texts and rationales from a file or a table; ``limit`` rows, evenly spread.

    A rationale is a list of [start, end] in characters, or one such list per annotator; in a file
    of separated values as JSON. Two layouts of the ERASER benchmark are read as well: records
    ``{"start", "end"}`` that count the tokens of a column ``tokens``, and the benchmark's own
    files, whose column "evidences" counts the tokens of documents in the folder ``docs`` beside
    the file. Files, tables and texts are found as :func:`limelight.explain_data` finds them.

    Parameters
    ----------
    path
        A file or a table, as in :func:`limelight.explain_data`.
    column
        The column of the rationales, or "evidences" for files of the ERASER benchmark.
    text_column
        The column of the texts. None finds it by common names.
    limit
        Number of rows to read, evenly spread. None reads all.

    Returns
    -------
    The texts, and the spans that people marked in each.

    Raises
    ------
    InputError
        If a column is missing or ambiguous, or a rationale does not fit its text.
    """
    if column == _EVIDENCES and isinstance(path, str | os.PathLike):
        return _read_eraser(Path(path), limit)
    data = open_data(path, text=text_column)
    if data.columns.pair is not None:
        raise InputError(
            "rationales belong to single texts, but the data have pairs. Choose one column with "
            "text_column (--text-column)."
        )
    check_column(data.files, column, _CHOOSE_COLUMN)
    has_tokens = all("tokens" in file.columns for file in data.files)
    result = RationaleTexts([], [])
    for text, cells, where in data.rows(column, *["tokens"] * has_tokens, limit=limit):
        rationale = _parse_cell(cells[0], where)
        if isinstance(rationale, list) and any(isinstance(span, Mapping) for span in rationale):
            if not has_tokens:
                check_column(data.files, "tokens", "Add it, because the rationales count tokens.")
            places = _token_spans(cast(str, text), _parse_cell(cells[1], where), where)
            rationale = _character_spans(rationale, ("start", "end"), places, where)
        result.texts.append(text)
        result.rationales.append(rationale)
    return result


def _parse_cell(cell: Any, where: str) -> Any:
    """Parse a cell as JSON if it is a string, as in files of separated values."""
    if not isinstance(cell, str):
        return cell
    if not cell.strip():
        return None
    try:
        return parse_json(cell, "the rationale")
    except InputError:
        raise InputError(
            f"the rationale of {where} must be JSON such as [[0, 5]], not "
            f"{truncate_line(cell, 40)!r}."
        ) from None


def _token_spans(text: str, tokens: Any, where: str) -> list[Span]:
    """Find the span of each token in the text; only white space may stand between tokens."""
    token_spans, end = [], 0
    for token in tokens if isinstance(tokens, list) else [tokens]:
        start = text.find(token, end) if isinstance(token, str) else -1
        if start < 0 or text[end:start].strip():
            raise InputError(f"the tokens of {where} must match its text, but {token!r} does not.")
        end = start + len(token)
        token_spans.append((start, end))
    return token_spans


def _character_spans(
    records: Sequence[Any], names: tuple[str, str], places: Sequence[Span], where: str
) -> list[Span]:
    """Convert records of token positions to spans of characters; empty ones are left out."""
    spans = []
    for record in records:
        try:
            first, last = (int(record[name]) for name in names)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InputError(
                f"a rationale of {where} must have {names[0]!r} and {names[1]!r} as whole numbers, "
                f"not {truncate_line(repr(record), 60)}."
            ) from None
        if not 0 <= first <= last <= len(places):
            raise InputError(
                f"a rationale of {where} must be within its {len(places)} tokens, not {first} to "
                f"{last}."
            )
        if first < last:
            spans.append((places[first][0], places[last - 1][1]))
    return spans


def _read_eraser(path: Path, limit: int | None) -> RationaleTexts:
    """Read files of the ERASER benchmark: each line has groups of evidence in its own document."""
    data, result = open_data(path, text="annotation_id"), RationaleTexts([], [])
    check_column(data.files, _EVIDENCES, _CHOOSE_COLUMN)
    for name, (groups,), _ in data.rows(_EVIDENCES, limit=limit):
        where = f"{truncate_line(str(name), 40)!r} in '{path}'"
        try:
            evidence = [span for group in _parse_cell(groups, where) for span in group]
            documents = {str(span["docid"]) for span in evidence} or {str(name)}
        except (KeyError, TypeError):
            raise InputError(
                f"the evidences of {where} must be lists of records, each with a 'docid'."
            ) from None
        if len(documents) > 1:
            raise InputError(
                f"the evidence of {where} must be in one document, not {len(documents)}."
            )
        (document,) = documents
        if (
            document != Path(document).name
            or not (file := path.parent / "docs" / document).is_file()
        ):
            raise InputError(
                f"the document {document!r} of {where} must be a file in '{path.parent / 'docs'}'."
            )
        text = read_text_file(file)
        # ERASER separates tokens by spaces and line breaks.
        places = [match.span() for match in re.finditer(r"[^ \n\r]+", text)]
        result.texts.append(text)
        result.rationales.append(
            _character_spans(evidence, ("start_token", "end_token"), places, where)
        )
    return result
