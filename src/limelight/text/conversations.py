"""Conversations: chat messages, and questions with documents, as inputs of language models."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, final

from limelight.errors import InputError, short_repr, unknown_name_message
from limelight.text.characters import LONE_SURROGATE, truncate_line
from limelight.text.splitters import Splitter, run_splitter, sentence_spans, splitter_name
from limelight.text.tokens import Span

# The features that are whole parts of an input, or the sentences of its reasoning.
PART_FEATURES = ("documents", "messages", "steps")
DOCUMENTS, QUESTION = "{documents}", "{question}"
DEFAULT_PROMPT = f"Answer the question with the documents.\n\n{DOCUMENTS}\n\nQuestion: {QUESTION}"
_DOCUMENT_GAP = "\n\n"  # between the documents of a prompt
# Marks around the reasoning of a message, as reasoning models write them.
_REASONING_MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
)
_REASONING_FIELDS = ("reasoning_content", "reasoning")  # of messages that servers return
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_CELL_PREFIX = "\x1econversation\x1e"  # no text begins with it; JSON follows
_MAX_LABEL = 200  # characters of a question that names a conversation


@final
@dataclass(frozen=True, slots=True)
class Part:
    """A part of an input with an id and a role: a document, a message, or one text of a pair.

    Parameters
    ----------
    id
        The name of the part, such as the id of a document.
    role
        "document", the role of a message, "reasoning", or "first" and "second" for a pair.
    span
        The characters that are removed with the part. For a message, they include the marks of its
        turn.
    content
        The characters that the author of the part wrote.
    """

    id: str
    role: str
    span: Span
    content: Span

    def shift(self, offset: int) -> "Part":
        """Return the part at a position ``offset`` characters later."""
        start, end = self.span
        first, last = self.content
        return replace(
            self, span=(start + offset, end + offset), content=(first + offset, last + offset)
        )


def part_index(position: int, parts: Sequence[Part]) -> int:
    """Return the index of the part that contains a character, or -1."""
    for index, part in enumerate(parts):
        if part.span[0] <= position < part.span[1]:
            return index
    return -1


@final
@dataclass(frozen=True, slots=True)
class Document:
    """A document that a language model may use to answer a question."""

    id: str
    text: str
    title: str = ""

    @staticmethod
    def from_value(value: Any, number: int) -> "Document":
        """Read a document: a string, a dictionary, or an object with ``page_content``.

        The id is empty if ``value`` has none.

        Parameters
        ----------
        value
            The document. A dictionary may have an ``id`` and a ``title``. The metadata of an object
            may have them too.
        number
            The number of the document, for error messages.

        Raises
        ------
        InputError
            If ``value`` is no document.
        """
        fields: Mapping[str, Any]
        if isinstance(value, Document):
            return value
        if isinstance(value, str):
            fields = {"text": value}
        elif isinstance(value, Mapping):
            fields = value
            for name in value:
                if name not in ("id", "title", "text"):
                    message = unknown_name_message("key", str(name), ("id", "title", "text"))
                    raise InputError(f"document {number}: {message}")
        elif hasattr(value, "page_content"):
            metadata = _read_metadata(value)
            fields = {
                "text": value.page_content,
                "title": metadata.get("title"),
                "id": getattr(value, "id", None) or metadata.get("id"),
            }
        else:
            fields = {}
        text = fields.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InputError(
                f"document {number} must be a text, or have one with words as 'text', not "
                f"{short_repr(value)}."
            )
        identifier, title = (
            "" if fields.get(name) is None else str(fields[name]) for name in ("id", "title")
        )
        return Document(identifier if identifier.strip() else "", text, title)

    @property
    def block(self) -> str:
        """The document as a prompt contains it: its title, if it has one, and its text."""
        text = self.text.strip()
        return f"{self.title.strip()}\n{text}" if self.title.strip() else text


def _name_documents(values: Sequence[Any]) -> tuple[Document, ...]:
    """Read documents, and give each document without an id a name that no other document has.

    The name is the source or the title of a document, such as of parts of one file, or its number.

    Raises
    ------
    InputError
        If a value is no document, or if two documents have the same id.
    """
    documents = [Document.from_value(value, i) for i, value in enumerate(values)]
    names = [
        document.id or _suggest_name(value, document.title, i)
        for i, (value, document) in enumerate(zip(values, documents, strict=True))
    ]
    name_counts = Counter(names)
    named_documents = tuple(
        document
        if document.id
        else replace(document, id=name if name_counts[name] == 1 else f"{name} ({i})")
        for i, (name, document) in enumerate(zip(names, documents, strict=True))
    )
    for i, document in enumerate(named_documents):
        _check_surrogates("".join(asdict(document).values()), f"document {i}")
    id_counts = Counter(document.id for document in named_documents)
    for name, count in id_counts.items():
        if count > 1:
            raise InputError(
                f"documents must have different ids, but {count} are called {short_repr(name)}."
            )
    return named_documents


def _suggest_name(value: Any, title: str, number: int) -> str:
    """Return the source or the title of a document on one line, or else its number."""
    source = _read_metadata(value).get("source")
    return " ".join(str(source or title).split()) or f"document {number}"


def _read_metadata(value: Any) -> Mapping[str, Any]:
    """Return the metadata of an object with ``page_content``; empty if there are none."""
    metadata = getattr(value, "metadata", None)
    return metadata if isinstance(metadata, Mapping) else {}


def _check_surrogates(text: str, name: str) -> None:
    """Raise `InputError` if a text has a character that no tokenizer reads."""
    if LONE_SURROGATE.search(text):
        raise InputError(f"{name} must have no lone surrogates. Replace them.")


@final
@dataclass(frozen=True, slots=True)
class Message:
    """A message of a chat.

    Parameters
    ----------
    role
        The role of the author: "system", "user", "assistant" or "tool".
    content
        The text.
    tool_calls
        The tool calls in OpenAI's format, as JSON. Empty if there are none.
    name
        The name of the tool of a tool result.
    tool_call_id
        The id of the tool call to which a tool result belongs.
    """

    role: str
    content: str = ""
    tool_calls: str = ""
    name: str = ""
    tool_call_id: str = ""

    @staticmethod
    def from_value(value: Any, number: int) -> "Message":
        """Read a message in OpenAI's format.

        Raises
        ------
        InputError
            If the message has no role, no text and no tool call, or content that is no text.
        """
        if isinstance(value, Message):
            return value
        if hasattr(value, "model_dump"):  # a message as the library openai returns it
            value = value.model_dump()
        role = value.get("role") if isinstance(value, Mapping) else None
        if role not in _ROLES:
            raise InputError(
                f"message {number} must have a role ({', '.join(_ROLES)}), not {short_repr(value)}."
            )
        content = _join_content(value.get("content"), number)
        reasoning = next((value[name] for name in _REASONING_FIELDS if value.get(name)), "")
        if reasoning:
            start, end = _REASONING_MARKS[0]
            content = f"{start}\n{str(reasoning).strip()}\n{end}\n\n{content}"
        calls = value.get("tool_calls") or (
            [value["function_call"]] if value.get("function_call") else []
        )
        message = Message(
            str(role),
            content,
            _encode_calls(calls, number),
            str(value.get("name") or ""),
            str(value.get("tool_call_id") or ""),
        )
        if role != "tool" and not message.content.strip() and not message.tool_calls:
            raise InputError(f"message {number} ({role}) must have a content or tool calls.")
        _check_surrogates("".join(asdict(message).values()), f"message {number}")
        return message

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The tool calls in OpenAI's format, with arguments as objects."""
        return json.loads(self.tool_calls) if self.tool_calls else []

    def to_dict(self) -> dict[str, Any]:
        """Return the message in the format that chat templates read."""
        value: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            value["tool_calls"] = self.calls
        return value | {
            name: getattr(self, name) for name in ("name", "tool_call_id") if getattr(self, name)
        }


def _join_content(content: Any, number: int) -> str:
    """Return the content of a message as one text; content parts are joined by newlines."""
    if content is None:
        return ""
    if isinstance(content, str):
        text = content
    else:
        texts = []
        is_list = isinstance(content, Iterable) and not isinstance(content, Mapping)
        for part in content if is_list else [content]:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
                texts.append(part["text"])
            else:
                kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
                raise InputError(
                    f"message {number} must contain text only, but it has a content part of type "
                    f"{short_repr(kind)}. Replace it by a text."
                )
        text = "\n".join(texts)
    return text


def _encode_calls(calls: Any, number: int) -> str:
    """Return tool calls as JSON, with the arguments as objects."""
    encoded = []
    for call in calls:
        function = call.get("function", call) if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise InputError(
                f"each tool call of message {number} must have a function with a name, not "
                f"{short_repr(call)}."
            )
        arguments = function.get("arguments", {})
        if isinstance(arguments, str):
            with contextlib.suppress(ValueError):  # a model may write arguments that are no JSON
                arguments = json.loads(arguments)
        identifier = {"id": str(call["id"])} if call.get("id") else {}
        encoded.append(
            identifier
            | {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
        )
    return json.dumps(encoded, ensure_ascii=False) if encoded else ""


@final
@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages, or the question with documents, to which a language model answers.

    Parameters
    ----------
    messages
        The messages before the answer. With ``documents``, the last one is the question.
    reply
        The last message, if the assistant wrote it. It is the answer that is explained.
    documents
        The documents of a question.
    reasoning
        The start mark, the text and the end mark of the reasoning before the answer. Empty if the
        reasoning is not split from the answer.
    steps
        The spans of the steps in the text of the reasoning.
    """

    messages: tuple[Message, ...]
    reply: Message | None = None
    documents: tuple[Document, ...] = ()
    reasoning: tuple[str, ...] = ()
    steps: tuple[Span, ...] = ()

    @staticmethod
    def from_messages(messages: Sequence[Any]) -> "Conversation":
        """Return the conversation of messages in OpenAI's format.

        Raises
        ------
        InputError
            If a message is malformed, or if there is no message before the answer.
        """
        read = tuple(Message.from_value(message, i) for i, message in enumerate(messages))
        reply = read[-1] if len(read) and read[-1].role == "assistant" else None
        before = read if reply is None else read[:-1]
        if not before:
            raise InputError("a conversation needs a message before the answer of the assistant.")
        return Conversation(before, reply)

    @staticmethod
    def from_documents(question: Any, documents: Any) -> "Conversation":
        """Return a question with documents.

        Parameters
        ----------
        question
            The question: a text, or messages whose last user message is the question.
        documents
            Strings, dictionaries with ``id``, ``title`` and ``text``, or objects with
            ``page_content`` and ``metadata``.

        Raises
        ------
        InputError
            If there is no document, or if two documents have the same id.
        """
        if isinstance(documents, str | Mapping) or not isinstance(documents, Iterable):
            raise InputError(f"documents must be a list of texts, not {short_repr(documents)}.")
        read = _name_documents(list(documents))
        if not read:
            raise InputError("documents must contain at least one document.")
        if isinstance(question, Conversation):
            conversation = question
        elif isinstance(question, str):
            if not question.strip():
                raise InputError("the question of documents must be a text with words.")
            _check_surrogates(question, "the question")
            conversation = Conversation((Message("user", question),))
        elif is_message_list(question):
            conversation = Conversation.from_messages(question)
        else:
            raise InputError(
                f"documents need a question, which is a text, not {type(question).__name__}."
            )
        if conversation.messages[-1].role != "user":
            raise InputError(
                "documents need a question, but the last message before the answer is not the "
                "user's."
            )
        return replace(conversation, documents=read)

    @property
    def question(self) -> str:
        """The last message of the user."""
        users = [message.content for message in self.messages if message.role == "user"]
        return users[-1] if users else ""

    @property
    def label(self) -> str:
        """A short text that names the conversation: its question."""
        return truncate_line(self.question or self.messages[-1].content, _MAX_LABEL)

    @property
    def part_kind(self) -> str:
        """The features that its parts are: "documents", "messages" or "steps"."""
        if self.reasoning:
            return "steps"
        return "documents" if self.documents else "messages"

    def fill_prompt(self, prompt: str = DEFAULT_PROMPT) -> "tuple[Conversation, tuple[Part, ...]]":
        """Write documents and question into a prompt.

        Returns
        -------
        The conversation whose last message is the prompt, and the documents as parts of it.
        """
        # The prompt is split first, because the question and the documents may contain these names.
        before, after = (
            part.replace(QUESTION, self.messages[-1].content) for part in prompt.split(DOCUMENTS)
        )
        content, parts = before, list[Part]()
        for document in self.documents:
            is_last = document is self.documents[-1]
            # A document is removed with the space after it.
            gap = after[: len(after) - len(after.lstrip())] if is_last else _DOCUMENT_GAP
            start, end = len(content), len(content) + len(document.block)
            parts.append(Part(document.id, "document", (start, end + len(gap)), (start, end)))
            content += document.block + gap
        last = replace(self.messages[-1], content=content + after.lstrip())
        filled = replace(self, messages=(*self.messages[:-1], last), documents=())
        return filled, tuple(parts)

    def split_reasoning(
        self, answer: Any = None, splitter: Splitter | None = None
    ) -> "Conversation":
        """Return the conversation with the reasoning of its last message split from the answer.

        Parameters
        ----------
        answer
            The final answer, if no marks surround the reasoning. The message must end with it.
        splitter
            Splits the reasoning into steps. By default, the steps are its sentences.

        Raises
        ------
        InputError
            If there is no reasoning.
        """
        if self.reasoning:
            return self
        content = "" if self.reply is None else self.reply.content
        tool_calls = "" if self.reply is None else self.reply.tool_calls
        marks = next((pair for pair in _REASONING_MARKS if pair[1] in content), None)
        if marks is not None:
            start_mark, end_mark = marks
            reasoned, _, final = content.rpartition(end_mark)
            edge = _reasoning_start(reasoned, start_mark, end_mark)
            before, steps = reasoned[:edge], reasoned[edge:]
            final_answer = final.strip()
            gap = final[: len(final) - len(final.lstrip())]
            reasoning = (before, steps, end_mark + gap)
        elif (
            isinstance(answer, str) and answer.strip() and content.rstrip().endswith(answer.strip())
        ):
            steps = content[: len(content.rstrip()) - len(answer.strip())]
            reasoning, final_answer, tool_calls = ("", steps, ""), answer.strip(), ""
        else:
            raise InputError(
                "features='steps' needs reasoning marks, such as <think>…</think>, in the last "
                "message of the assistant. Otherwise give its final part as answer=, and perhaps "
                "splitter=."
            )
        if not steps.strip() or not (final_answer or tool_calls):
            raise InputError(
                "features='steps' needs reasoning and a final answer after it, but one of them is "
                "empty."
            )
        spans = (
            sentence_spans(steps)
            if splitter is None
            else run_splitter(splitter, steps, splitter_name(splitter))
        )
        return replace(
            self,
            reasoning=reasoning,
            reply=Message("assistant", final_answer, tool_calls),
            steps=tuple(spans),
        )

    @property
    def cell(self) -> str:
        """The conversation as a cell of a table."""
        return _CELL_PREFIX + json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_cell(cell: str) -> "Conversation":
        """Read a conversation from a cell of a table."""
        values = json.loads(cell.removeprefix(_CELL_PREFIX))
        reply = values["reply"]
        return Conversation(
            tuple(Message(**message) for message in values["messages"]),
            None if reply is None else Message(**reply),
            tuple(Document(**document) for document in values["documents"]),
            tuple(values["reasoning"]),
            tuple((start, end) for start, end in values["steps"]),
        )


def _reasoning_start(text: str, start_mark: str, end_mark: str) -> int:
    """Return the end of the start mark that belongs to an end mark after ``text``, or 0.

    Reasoning may contain other reasoning with the same marks.
    """
    depth, edge = 1, len(text)
    while depth and edge >= 0:
        end, edge = edge, text.rfind(start_mark, 0, edge)
        depth += text.count(end_mark, max(edge, 0), end) - 1
    return 0 if edge < 0 else edge + len(start_mark)


def strip_reasoning(content: str) -> str:
    """Return the content of a message without the reasoning before its last end mark."""
    ends = [content.rfind(end) + len(end) for _, end in _REASONING_MARKS if end in content]
    return content[max(ends, default=0) :].strip()


def begun_reasoning(prompt: str) -> tuple[str, str] | None:
    """Return the marks of reasoning that the end of a prompt has begun, or None."""
    return next((marks for marks in _REASONING_MARKS if prompt.rstrip().endswith(marks[0])), None)


def ends_reasoning(prompt: str) -> bool:
    """Return whether a prompt ends with the end mark of reasoning."""
    return prompt.endswith(tuple(end for _, end in _REASONING_MARKS))


def is_message_list(value: Any) -> bool:
    """Return whether ``value`` is a list of messages, of which one has a role or a content."""
    return isinstance(value, list) and any(
        isinstance(message, Mapping) and ("role" in message or "content" in message)
        for message in value
    )


def is_conversation_cell(cell: Any) -> bool:
    """Return whether a cell of a table contains a conversation."""
    return isinstance(cell, str) and cell.startswith(_CELL_PREFIX)


def attach_documents(text: Any, documents: Any) -> Any:
    """Return a question, or a list of questions, with the documents of each.

    Parameters
    ----------
    text
        A question, or a list of questions.
    documents
        The documents of the question, or a list with the documents of each question. None returns
        ``text`` unchanged.

    Raises
    ------
    InputError
        If the numbers of questions and of lists of documents differ.
    """
    if documents is None:
        return text
    if isinstance(text, str | Conversation) or is_message_list(text):
        return Conversation.from_documents(text, documents)
    if not isinstance(text, Sequence) or not isinstance(documents, Sequence):
        raise InputError(f"documents need a question, which is a text, not {type(text).__name__}.")
    if len(text) != len(documents):
        raise InputError(
            f"documents must be one list for each of the {len(text)} questions, not "
            f"{len(documents)}."
        )
    if any(isinstance(question_documents, str | Mapping) for question_documents in documents):
        raise InputError(
            f"documents must be one list for each of the {len(text)} questions, not one list of "
            "documents. For a single question, pass a text and no list."
        )
    return [
        Conversation.from_documents(question, question_documents)
        for question, question_documents in zip(text, documents, strict=True)
    ]
