"""Read check files: TOML files with a model, texts, and what must hold for each text."""

import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from limelight.errors import InputError, short_repr, unknown_name_message
from limelight.files import read_bounded_bytes
from limelight.text import Conversation
from limelight.text.conversations import is_message_list
from limelight.text.images import has_ending

_MAX_BYTES = 1 << 26  # of a check file, and of a text


class WordRank(NamedTuple):
    """A word that must be certainly among the ``k`` features of largest absolute score."""

    word: str
    k: int


@dataclass(frozen=True, kw_only=True)
class Case:
    """A text with its options and requirements.

    Parameters
    ----------
    name
        The name of the case, which is unique in its file.
    text
        A text, a pair of texts, the path of an image, a chat, or a question with documents.
    options
        Keywords of `limelight.explain`, with the defaults of the file.
    requirements
        The required value for each key of ``REQUIREMENTS`` that the case or its file has.
    inherited
        The keys in ``requirements`` that come from the top of the file.
    """

    name: str
    text: str | tuple[str, str] | Path | Conversation
    options: Mapping[str, Any]
    requirements: Mapping[str, Any]
    inherited: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """A check file: the options of its model, and its cases."""

    path: Path
    model_options: Mapping[str, Any]
    cases: tuple[Case, ...]


def describe_place(path: Path, case: str = "", key: str = "") -> str:
    """Return the place of an error: the file, and the case and the key if they are known."""
    parts = [f"'{path}'"]
    if case:
        parts.append(f"case {case!r}")
    if key:
        parts.append(f"key {key!r}")
    return ", ".join(parts)


# Each parser returns the value of a key, or raises an error with what the key needs.
def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError('it needs a text, such as "negative"')
    return value


def _parse_count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise InputError("it needs a positive whole number")
    return value


def _parse_seed(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise InputError("it needs a whole number of at least 0")
    return value


def _parse_flag(value: Any) -> bool:
    if type(value) is not bool:
        raise InputError("it needs true or false")
    return value


def _parse_words(value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, list) and value
    if not is_list or not all(isinstance(word, str) and word.strip() for word in value):
        raise InputError('it needs a list of words, such as ["he", "she"]')
    return tuple(value)


def _parse_name_or_number(value: Any) -> str | int:
    if type(value) is int:
        return value
    if not isinstance(value, str) or not value.strip():
        raise InputError("it needs a name or a number")
    return value


def _parse_number(value: Any) -> float:
    if type(value) not in (int, float):
        raise InputError("it needs a number")
    return float(value)


def _parse_budget(value: Any) -> str | int | float:
    if type(value) not in (str, int, float):
        raise InputError('it needs a time or a number of calls, such as "30s" or "400 calls"')
    return value


def _parse_features(value: Any) -> Any:
    if not isinstance(value, str | list) or not value:
        raise InputError('it needs a name, such as "sentences", or a list of [start, end]')
    if isinstance(value, list) and all(isinstance(span, list) for span in value):
        return [tuple(span) for span in value]
    return value


def _parse_span(value: Any) -> Any:
    """Return a list of two offsets as a tuple, and any other value as a name or a number."""
    if isinstance(value, list) and len(value) == 2:
        return tuple(value)
    return _parse_name_or_number(value)


def _parse_documents(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError('it needs a list of texts, or of tables such as {id = "a", text = "…"}')
    return value


def _parse_messages(value: Any) -> Conversation:
    if not is_message_list(value):
        raise InputError('it needs a list of messages, such as {role = "user", content = "…"}')
    return Conversation.from_messages(value)


def _parse_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError("it needs a table, such as {tolerance = 1e-9}")
    return value


def _parse_labels(value: Any) -> dict[str, str]:
    is_table = isinstance(value, dict) and value
    if not is_table or not all(isinstance(word, str) for word in value.values()):
        raise InputError('it needs the word of each class, such as {negative = "bad"}')
    return value


def _parse_template(value: Any) -> Any:
    if not isinstance(value, str | list) or not value:
        raise InputError("it needs the prompt with {text}, or a list of messages")
    return value


def _parse_word_ranks(value: Any) -> tuple[WordRank, ...]:
    form = 'it needs a word and a number, such as {word = "superb", k = 3}'
    tables = value if isinstance(value, list) and value else [value]
    ranks = []
    for table in tables:
        if not isinstance(table, dict):
            raise InputError(form)
        for name in table:
            if name not in ("word", "k"):
                raise InputError(unknown_name_message("key", name, ("word", "k")))
        word, k = table.get("word"), table.get("k")
        if not isinstance(word, str) or not word.strip() or type(k) is not int or k < 1:
            raise InputError(form)
        ranks.append(WordRank(word, k))
    return tuple(ranks)


Parser = Callable[[Any], Any]
# The options of the model, at the top of the file only.
MODEL_KEYS: Mapping[str, Parser] = {
    "model": _parse_text,
    "device": _parse_text,
    "template": _parse_template,
    "labels": _parse_labels,
    "max_new_tokens": _parse_count,
    "per_token": _parse_flag,
}
# The options of explanations, at the top of the file or in a case.
OPTION_KEYS: Mapping[str, Parser] = {
    "method": _parse_text,
    "settings": _parse_table,
    "budget": _parse_budget,
    "seed": _parse_seed,
    "replacement": _parse_text,
    "features": _parse_features,
    "grid": _parse_count,
    "protect": _parse_words,
    "window": _parse_name_or_number,
    "side": _parse_text,
    "target": _parse_name_or_number,
    "against": _parse_name_or_number,
    "scale": _parse_text,
    "threshold": _parse_number,
    "at": _parse_span,
    "answer": _parse_text,
    "protect_span": _parse_flag,
    "first_subwords": _parse_flag,
}
# What can be required, at the top of the file or in a case.
REQUIREMENTS: Mapping[str, Parser] = {
    "prediction": _parse_text,
    "certain_top": _parse_word_ranks,
    "certified_radius": _parse_count,
    "never_decisive": _parse_words,
}
INPUT_KEYS: Mapping[str, Parser] = {
    "name": _parse_text,
    "text": _parse_text,
    "file": _parse_text,
    "pair": _parse_text,
    "documents": _parse_documents,
    "messages": _parse_messages,
}


def read_case_file(path: Path) -> CaseFile:
    """Read a check file.

    Parameters
    ----------
    path
        A TOML file. Paths in it are relative to its folder.

    Returns
    -------
    The options of the model and the cases.

    Raises
    ------
    InputError
        If the file or a file that it names is missing, or a key or a value is wrong. The message
        names the file, the case and the key.
    """
    content = _read_text(path, describe_place(path))
    try:
        top = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{describe_place(path)} is not valid TOML: {error}.") from None
    tables = top.pop("case", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{describe_place(path)}: begin each case with [[case]].")
    top_keys = {**MODEL_KEYS, **OPTION_KEYS, **REQUIREMENTS}
    for key in top:
        if key in INPUT_KEYS:
            raise InputError(
                f"{describe_place(path, key=key)}: it belongs to a case. Put it below [[case]]."
            )
    defaults = _parse_values(top, top_keys, path, names=[*top_keys, "case"])
    if not tables:
        raise InputError(f"{describe_place(path)} has no case. Add one below [[case]].")
    cases = [_parse_case(table, i, defaults, path) for i, table in enumerate(tables, start=1)]
    names = set[str]()
    for case in cases:
        if case.name in names:
            raise InputError(
                f"{describe_place(path, case.name, 'name')}: two cases have this name. Change one."
            )
        names.add(case.name)
    model_options = {key: value for key, value in defaults.items() if key in MODEL_KEYS}
    return CaseFile(path=path, model_options=model_options, cases=tuple(cases))


def _parse_values(
    table: Mapping[str, Any],
    parsers: Mapping[str, Parser],
    path: Path,
    *,
    case: str = "",
    names: Collection[str] = (),
) -> dict[str, Any]:
    """Return the parsed value of each key of a table.

    Parameters
    ----------
    table
        The keys and values of the file.
    parsers
        The parser of each key that is allowed.
    path, case
        Place of the table, for error messages.
    names
        The keys that a message for an unknown key lists. Default: those of ``parsers``.
    """
    values = {}
    for key, value in table.items():
        if key not in parsers:
            message = unknown_name_message("key", key, names or parsers)
            raise InputError(f"{describe_place(path, case)}: {message}")
        try:
            values[key] = parsers[key](value)
        except InputError as error:
            message = str(error)
            if not message.endswith("."):
                message += f", not {short_repr(value)}."
            raise InputError(f"{describe_place(path, case, key)}: {message}") from None
    return values


def _parse_case(
    table: Mapping[str, Any], number: int, defaults: Mapping[str, Any], path: Path
) -> Case:
    """Return a case with the defaults of its file."""
    name = table.get("name", f"case {number}")
    label = name if isinstance(name, str) else f"case {number}"
    for key in table:
        if key in MODEL_KEYS:
            raise InputError(
                f"{describe_place(path, label, key)}: all cases have the same model. Put it at "
                "the top of the file."
            )
    values = _parse_values(table, {**INPUT_KEYS, **REQUIREMENTS, **OPTION_KEYS}, path, case=label)
    combined = {**defaults, **values}
    requirements = {key: combined[key] for key in REQUIREMENTS if key in combined}
    if not requirements:
        raise InputError(
            f"{describe_place(path, label)} requires nothing. Add one of {', '.join(REQUIREMENTS)}."
        )
    return Case(
        name=name,
        text=_case_text(values, path, label),
        options={key: combined[key] for key in OPTION_KEYS if key in combined},
        requirements=requirements,
        inherited=frozenset(requirements.keys() - values.keys()),
    )


def _case_text(
    values: Mapping[str, Any], path: Path, case: str
) -> str | tuple[str, str] | Path | Conversation:
    """Return the text of a case: of its key, of its file, a pair of texts, or a conversation."""
    if "pair" in values and values.keys() & {"documents", "messages"}:
        raise InputError(
            f"{describe_place(path, case, 'pair')}: a pair has no documents or messages. Leave it "
            "out."
        )
    if "messages" in values:
        if values.keys() & {"text", "file"}:
            raise InputError(
                f"{describe_place(path, case, 'messages')}: messages exclude text and file. Give "
                "one of them."
            )
        question = values["messages"]
    else:
        question = _read_case_text(values, path, case)
    if "documents" not in values:
        return question
    try:
        return Conversation.from_documents(question, values["documents"])
    except InputError as error:
        raise InputError(f"{describe_place(path, case, 'documents')}: {error}") from None


def _read_case_text(
    values: Mapping[str, Any], path: Path, case: str
) -> str | tuple[str, str] | Path:
    """Return the text of a case: of its key, of its file, or a pair of texts."""
    if ("text" in values) == ("file" in values):
        problem = "text and file exclude each other" if "text" in values else "the text is missing"
        raise InputError(f"{describe_place(path, case)}: {problem}. Give text or file.")
    if "text" in values:
        text = values["text"]
    else:
        file = path.parent / values["file"]
        place = describe_place(path, case, "file")
        if not file.is_file():
            raise InputError(f"{place}: there is no file '{file}'. Change the path.")
        if has_ending(file) and "pair" not in values:
            return file
        text = _read_text(file, f"{place}: '{file}'")
        if not text.strip():
            raise InputError(f"{place}: '{file}' has no text. Change the path.")
    return (text, values["pair"]) if "pair" in values else text


def _read_text(file: Path, place: str) -> str:
    """Read a file of UTF-8 text; ``place`` begins the message of an error."""
    if not file.exists():
        raise InputError(f"{place}: there is no such file. Check the path.")
    content = read_bounded_bytes(file, _MAX_BYTES)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place} must be UTF-8 text, but byte {error.start} is not. Convert it first."
        ) from None
