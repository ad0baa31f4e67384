"""Conversations in data: cells with messages or documents, as lists or as JSON."""

from collections.abc import Sequence
from typing import Any

from limelight.errors import InputError, short_repr
from limelight.files import parse_json
from limelight.text import Conversation
from limelight.text.conversations import is_conversation_cell, is_message_list


def is_conversation_list(data: Any) -> bool:
    """Return whether data are a list of chats, and not of texts."""
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(chat, Conversation) or is_message_list(chat) for chat in data)
    )


def read_messages(cell: Any) -> Conversation:
    """Read the messages of a cell, which is a list or JSON, as a conversation.

    Raises
    ------
    InputError
        If the cell has no messages.
    """
    try:
        if is_conversation_cell(cell):
            return Conversation.from_cell(cell)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InputError("the messages are damaged.") from None
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise InputError("the messages are missing.")
    messages = parse_json(cell, "the cell of messages") if isinstance(cell, str) else cell
    if not is_message_list(messages):
        raise InputError(
            "the cell of messages must be a list of messages with roles, or such a list as JSON, "
            f"not {short_repr(messages)}."
        )
    return Conversation.from_messages(messages)


def read_documents(cell: Any) -> list[Any]:
    """Read the documents of a cell, which is a list or JSON.

    Raises
    ------
    InputError
        If the cell has no list.
    """
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise InputError("the documents are missing.")
    documents = parse_json(cell, "the cell of documents") if isinstance(cell, str) else cell
    if not isinstance(documents, list):
        raise InputError(
            f"the cell of documents must be a list, or a list as JSON, not {short_repr(documents)}."
        )
    return documents


def read_conversation(cells: Sequence[Any], *, has_messages: bool) -> Conversation:
    """Return the conversation of a row.

    Parameters
    ----------
    cells
        The text or the messages, and the documents if there are any.
    has_messages
        Whether the first cell has messages, not a text.

    Raises
    ------
    InputError
        If a cell cannot be used.
    """
    question = read_messages(cells[0]) if has_messages else cells[0]
    if len(cells) == 1:
        return question
    if not isinstance(question, str | Conversation):
        raise InputError("the text is missing or not a string.")
    return Conversation.from_documents(question, read_documents(cells[1]))
