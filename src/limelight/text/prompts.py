"""Prompts: conversations as one string, with the characters that belong to each part."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Bool, Int
from limelight.text.characters import truncate_line
from limelight.text.conversations import (
    DEFAULT_PROMPT,
    DOCUMENTS,
    QUESTION,
    Conversation,
    Message,
    Part,
    begun_reasoning,
    part_index,
    strip_reasoning,
)
from limelight.text.features import Features
from limelight.text.inputs import ModelInput, UserInput
from limelight.text.queries import AnswerQuery
from limelight.text.splitters import Splitter
from limelight.text.tokens import Span, Tokens

# Writes messages as one string. The second argument says whether the turn of an assistant begins.
ChatWriter = Callable[[Sequence[Message], bool], str]
NO_CHAT_TEMPLATE_WARNING = (
    "The tokenizer has no chat template, so each message is written as a line 'role: content'."
)
_CALLS_AS_TEXT_WARNING = (
    "The chat template does not write tool calls, so they are written as JSON in the message."
)
_LOST_REASONING_WARNING = (
    "The chat template leaves out the reasoning of earlier messages, so the model does not read it."
)
_PROBE = "xyzzy"  # the content of a message whose marks are looked for


class Prompt(NamedTuple):
    """A conversation as the model reads it.

    Attributes
    ----------
    text
        The prompt, from the first character to the one before the answer.
    parts
        The parts that can be removed.
    reply
        The answer in the conversation, as the chat template writes it. Empty if there is none.
    question
        The last message of the user.
    warnings
        What the user must know about the prompt.
    """

    text: str
    parts: tuple[Part, ...]
    reply: str
    question: str
    warnings: tuple[str, ...]


def write_plain_chat(messages: Sequence[Message], starts_reply: bool) -> str:
    """Write each message as a line ``role: content``, for models without a chat template."""
    lines = []
    for message in messages:
        calls = "\n".join(map(_call_text, message.calls))
        content = "\n".join(filter(None, (message.content, calls)))
        lines.append(f"{message.role}: {content}\n")
    return "".join(lines) + "assistant:" * starts_reply


def check_document_prompt(prompt: str) -> str:
    """Return a prompt for documents; raise `InputError` unless it has both places once."""
    for name in (DOCUMENTS, QUESTION):
        if (count := prompt.count(name)) != 1:
            raise InputError(
                f"a prompt for documents must contain {DOCUMENTS} and {QUESTION} once, but "
                f"{truncate_line(prompt, 80)!r} contains {name} {count} times."
            )
    return prompt


def write_prompt(
    conversation: Conversation,
    write_chat: ChatWriter,
    *,
    document_prompt: str = DEFAULT_PROMPT,
    find_marks: Callable[[str], Sequence[str]] = lambda _: (),
) -> Prompt:
    """Write a conversation as one string, and find its parts.

    A message is removed with the marks of its turn, if the chat template writes the same string
    without the message. Otherwise its content is removed, and its marks stay.

    Parameters
    ----------
    conversation
        The conversation.
    write_chat
        Writes messages as the chat template of the model does.
    document_prompt
        The prompt of a question with documents.
    find_marks
        Returns the strings in a text that the tokenizer reads as marks of a chat.

    Returns
    -------
    The prompt.

    Raises
    ------
    InputError
        If the chat template rejects the messages, or changes their contents.
    """
    documents = conversation.documents
    filled, document_parts = conversation, tuple[Part, ...]()
    if documents:
        filled, document_parts = conversation.fill_prompt(document_prompt)
    messages, warnings = _write_calls_as_text(filled.messages, write_chat)
    text = write_chat(messages, True)
    if documents:
        content = messages[-1].content
        leading_spaces = len(content) - len(content.lstrip())  # chat templates may strip them
        start, _ = _find_content(text, messages, len(messages) - 1, write_chat, 0)
        parts = tuple(part.shift(start - leading_spaces) for part in document_parts)
    else:
        parts = _message_parts(text, messages, write_chat)
        if any(map(partial(_lacks_reasoning, text), messages, parts)):
            warnings += (_LOST_REASONING_WARNING,)
    reply, reply_warnings = _write_reply(text, messages, conversation, write_chat)
    warnings = tuple(dict.fromkeys((*warnings, *reply_warnings)))
    if conversation.reasoning:
        before, steps, after = conversation.reasoning
        if before.strip() and text.rstrip().endswith(before.strip()):
            before = ""  # the chat template has begun the reasoning
        start = len(text) + len(before)
        span = (start, start + len(steps))
        parts = (Part("reasoning", "reasoning", span, span),)
        text += before + steps + after
    authors = [(document.id, document.block) for document in documents] or [
        (f"{i} {message.role}", message.content) for i, message in enumerate(conversation.messages)
    ]
    for name, content in authors:
        if marks := find_marks(content):
            warnings += (
                f"The text of {name!r} contains {truncate_line(marks[0], 40)!r}, which the "
                "tokenizer reads as a mark of the chat.",
            )
    return Prompt(text, parts, reply, conversation.question, warnings)


def _lacks_reasoning(text: str, message: Message, part: Part) -> bool:
    """Return whether a prompt has a message without its reasoning."""
    start, end = part.span
    reasoning = message.content.strip().removesuffix(strip_reasoning(message.content))
    return "".join(reasoning.split()) not in "".join(text[start:end].split())


def reasoning_warnings(prompt: str, queries: Sequence[AnswerQuery]) -> tuple[str, ...]:
    """Return a warning if a prompt has begun the reasoning, but an answer does not end it."""
    marks = begun_reasoning(prompt)
    query = queries[0] if queries else None
    if marks is None or query is None or query.is_generated or marks[1] in query.text:
        return ()
    return (
        f"The chat template ends the prompt with {marks[0]}, so the answer is read as reasoning. "
        f"Write the reasoning and {marks[1]} before the answer.",
    )


def _call_text(call: dict[str, Any]) -> str:
    """Return a tool call as JSON, with its name and its arguments."""
    return json.dumps(call["function"], ensure_ascii=False)


def _write_calls_as_text(
    messages: Sequence[Message], write_chat: ChatWriter
) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Write tool calls as JSON into the contents, if the chat template leaves them out."""
    calls = [call for message in messages for call in message.calls]
    if not calls:
        return tuple(messages), ()
    try:
        text = write_chat(messages, True)
    except InputError:
        text = ""
    if text and all(call["function"]["name"] in text for call in calls):
        return tuple(messages), ()
    return tuple(map(_calls_in_content, messages)), (_CALLS_AS_TEXT_WARNING,)


def _calls_in_content(message: Message) -> Message:
    """Return a message with its tool calls as JSON in its content."""
    texts = [message.content, *map(_call_text, message.calls)]
    return replace(message, content="\n".join(filter(None, texts)), tool_calls="")


def _message_parts(
    text: str, messages: Sequence[Message], write_chat: ChatWriter
) -> tuple[Part, ...]:
    """Return the characters of each message in the prompt, with the marks of its turn."""
    parts, end = list[Part](), 0
    for i, message in enumerate(messages):
        span = _deleted_span(text, [*messages[:i], *messages[i + 1 :]], write_chat, end)
        content = _find_content(text, messages, i, write_chat, end, span)
        # The removed characters must contain this content, and nothing of other messages.
        if span is None or not (end <= span[0] <= content[0] and content[1] <= span[1]):
            span = content
        later = text[span[1] :]
        if i + 1 < len(messages) and strip_reasoning(messages[i + 1].content) not in later:
            span = content
        parts.append(Part(f"{i} {message.role}", message.role, span, content))
        end = span[1]
    return tuple(parts)


def _deleted_span(
    text: str, remaining: Sequence[Message], write_chat: ChatWriter, earliest: int
) -> Span | None:
    """Return the characters of a prompt that are missing if only some messages are written.

    Parameters
    ----------
    text
        The complete prompt.
    remaining
        The messages without one.
    write_chat
        Writes messages.
    earliest
        The end of the part before, where the span begins if several positions are possible.

    Returns
    -------
    The span, or None if the other messages change too, or if they cannot be written.
    """
    try:
        shorter = write_chat(remaining, True)
    except InputError:  # chat templates may demand that roles alternate
        return None
    length = len(text) - len(shorter)
    if length <= 0:
        return None
    prefix = _common_length(text, shorter)
    suffix = _common_length(text[::-1], shorter[::-1])
    # Any start between these two leaves the same string.
    first, last = max(0, len(shorter) - suffix), min(prefix, len(shorter))
    if first > last:
        return None
    start = min(max(earliest, first), last)
    return start, start + length


def _common_length(a: str, b: str) -> int:
    """Return the length of the common beginning of two strings."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _find_content(
    text: str,
    messages: Sequence[Message],
    i: int,
    write_chat: ChatWriter,
    earliest: int,
    turn: Span | None = None,
) -> Span:
    """Return the characters of the content of message ``i``, or of its tool calls, in the prompt.

    Parameters
    ----------
    text
        The prompt.
    messages
        All messages of the prompt.
    i
        The number of a message.
    write_chat
        Writes messages.
    earliest
        The end of the message before.
    turn
        The characters of the complete turn, if they are known.

    Raises
    ------
    InputError
        If the chat template does not write the content unchanged.
    """
    message, content = messages[i], messages[i].content.strip()
    final = strip_reasoning(content)
    emptied = [*messages[:i], replace(message, content="", tool_calls=""), *messages[i + 1 :]]
    span = _deleted_span(text, emptied, write_chat, earliest)
    if message.tool_calls:
        if span is None:
            span = turn or _changed_span(text, messages, i, write_chat)
    elif span is None or not _is_written(text[slice(*span)], content, final):
        # The first occurrence, if the template changes more than this content. Some templates write
        # results of tools as JSON, and some leave out the reasoning of earlier messages.
        candidates = (content, json.dumps(content, ensure_ascii=False)[1:-1], final)
        span = next(
            (
                (start, start + len(candidate))
                for candidate in candidates
                if candidate and (start := text.find(candidate, earliest)) >= 0
            ),
            None,
        )
    if span is None or span[0] < earliest:
        raise InputError(
            f"the chat template does not write the content of message {i} ({message.role}) "
            "unchanged. Change the message or its role, or use another chat template."
        )
    start, end = span
    inner_text = text[start:end]
    if not inner_text.strip():
        return start, start
    start += len(inner_text) - len(inner_text.lstrip())
    return start, start + len(inner_text.strip())


def _is_written(excerpt: str, content: str, final: str) -> bool:
    """Return whether a template wrote a content, or at least its part after the reasoning."""
    if final == content:
        return excerpt.strip() == content
    # Templates write other white space around reasoning.
    return "".join(excerpt.split()) in ("".join(content.split()), "".join(final.split()))


def _changed_span(
    text: str, messages: Sequence[Message], i: int, write_chat: ChatWriter
) -> Span | None:
    """Return the characters that change if the tool calls of message ``i`` are others."""
    function = {"name": _PROBE, "arguments": {}}
    calls = json.dumps([{**call, "function": function} for call in messages[i].calls])
    try:
        changed = write_chat(
            [*messages[:i], replace(messages[i], tool_calls=calls), *messages[i + 1 :]], True
        )
    except InputError:
        return None
    start = _common_length(text, changed)
    end = len(text) - min(_common_length(text[::-1], changed[::-1]), len(text) - start)
    return (start, end) if start < end else None


def _write_reply(
    text: str, messages: Sequence[Message], conversation: Conversation, write_chat: ChatWriter
) -> tuple[str, tuple[str, ...]]:
    """Return the answer of a conversation as the chat template writes it, and warnings."""
    reply = conversation.reply
    if reply is None:
        return "", ()
    if not reply.tool_calls:
        content, marks = reply.content.strip(), begun_reasoning(text)
        # The chat template may have begun the reasoning.
        return content.removeprefix(marks[0]).strip() if marks else content, ()
    try:
        complete = write_chat([*messages, reply], False)
        ending = write_chat([*messages, Message("assistant", _PROBE)], False)
    except InputError:
        complete = ending = ""
    start, probe, tail = ending.rpartition(_PROBE)
    # A prompt that begins the reasoning is no beginning of a chat without reasoning.
    start = text if complete.startswith(text) else start
    written_text = complete[len(start) :] if complete.startswith(start) else ""
    names = [call["function"]["name"] for call in reply.calls]
    if probe and written_text.endswith(tail) and all(name in written_text for name in names):
        written_text = written_text.removesuffix(tail).strip()
        # Some templates begin with empty reasoning, and the prompt ends with the reasoning.
        return strip_reasoning(written_text) if conversation.reasoning else written_text, ()
    return _calls_in_content(reply).content, (_CALLS_AS_TEXT_WARNING,)


# --- prompts for models that read strings -----------------------------------------------------


def split_prompt(prompt: Prompt, source: UserInput, find_words: Splitter) -> ModelInput:
    """Split the parts of a prompt into words, and return them as an input.

    The characters before and after the words of a part, such as the marks of a chat, are tokens
    too, so that nothing of a removed part is left.

    Parameters
    ----------
    prompt
        The prompt with its parts.
    source
        The conversation, or the text of the only message.
    find_words
        Returns the spans of the words in a text.
    """
    spans = [span for part in prompt.parts for span in _split_part(prompt.text, part, find_words)]
    return ModelInput(
        prompt.text,
        Tokens(tuple(prompt.text[start:end] for start, end in spans), tuple(spans)),
        warnings=prompt.warnings,
        parts=prompt.parts,
        source=source,
        is_divisible=True,
    )


def prompt_writer(
    model_input: ModelInput, features: Features
) -> Callable[[Bool[np.ndarray, " d"]], str]:
    """Return a function from a mask to the prompt without the removed features.

    Without a part, exactly the characters of its span are missing. Of the white space around
    removed words, as much stays as between two words.
    """
    segments, tail = _split_segments(model_input, features)

    def write_prompt(keep: Bool[np.ndarray, " d"]) -> str:
        """Return the prompt with only the features of ``keep``."""
        stays = np.append(keep, True)  # the appended True is for -1, no feature
        return "".join(segment.before + segment.write(stays) for segment in segments) + tail

    return write_prompt


def part_writer(
    model_input: ModelInput, features: Features
) -> Callable[[Bool[np.ndarray, " d"]], list[str]]:
    """Return a function from a mask to each part of a prompt without the removed features."""
    segments, _ = _split_segments(model_input, features)

    def write_parts(keep: Bool[np.ndarray, " d"]) -> list[str]:
        """Return each part with only the features of ``keep``."""
        stays = np.append(keep, True)
        return [segment.write(stays) for segment in segments]

    return write_parts


def _split_segments(
    model_input: ModelInput, features: Features
) -> "tuple[list[_PartSegment], str]":
    """Return the parts of a prompt as segments, and the text after the last part."""
    text, spans = model_input.text, model_input.tokens.spans
    part_of_token = np.array([part_index(start, model_input.parts) for start, _ in spans], int)
    segments, end = list[_PartSegment](), 0
    for number, part in enumerate(model_input.parts):
        indices = np.flatnonzero(part_of_token == number)
        first, last = _word_region(text, part)
        is_word = np.array([first <= spans[i][0] and spans[i][1] <= last for i in indices], bool)
        words = [spans[i] for i in indices[is_word]]
        # Each word with the white space before it, which is empty before the first.
        starts = [start for start, _ in words[:1]] + [word_end for _, word_end in words[:-1]]
        strings = [
            (text[gap_start:start], text[start:word_end])
            for gap_start, (start, word_end) in zip(starts, words, strict=True)
        ]
        marks = [
            (bool(words) and start >= words[0][0], text[start:mark_end], i)
            for i in indices[~is_word]
            for start, mark_end in [spans[i]]
        ]
        segments.append(
            _PartSegment(
                text[end : part.span[0]],
                strings,
                features.feature_index[indices[is_word]],
                [(is_end, mark, int(features.feature_index[i])) for is_end, mark, i in marks],
            )
        )
        end = part.span[1]
    return segments, text[end:]


class _PartSegment(NamedTuple):
    """A part of a prompt.

    Attributes
    ----------
    before
        The text between this part and the part before.
    words
        The white space before each word, and the word.
    feature
        The feature of each word, -1 for a word that always stays.
    marks
        For each string around the words: whether it follows them, the string, and its feature.
    """

    before: str
    words: list[tuple[str, str]]
    feature: Int[np.ndarray, " T"]
    marks: list[tuple[bool, str, int]]

    def write(self, stays: Bool[np.ndarray, " n"]) -> str:
        """Return the part without removed features."""
        first, last = (
            [mark for follows, mark, feature in self.marks if follows == is_end and stays[feature]]
            for is_end in (False, True)
        )
        return "".join([*first, self._write_words(stays), *last])

    def _write_words(self, stays: Bool[np.ndarray, " n"]) -> str:
        """Return the words that stay, with the first white space between each two."""
        strings, gap = list[str](), ""
        word_stays = stays[self.feature].tolist()
        previous: int | None = None  # the feature of the removed word before
        for (space, word), feature, is_present in zip(
            self.words, self.feature.tolist(), word_stays, strict=True
        ):
            # White space inside a removed feature is removed with it.
            if is_present or previous is None or feature != previous:
                gap = gap or space
            if is_present:
                strings += [gap] * bool(strings) + [word]
                gap = ""
            previous = None if is_present else feature
        return "".join(strings)


def _split_part(text: str, part: Part, find_words: Splitter) -> list[Span]:
    """Return the spans of the words of a part, and those of the characters around all words."""
    first, last = _word_region(text, part)
    words = [(first + start, first + end) for start, end in find_words(text[first:last])]
    (start, end), (first, last) = part.span, (words[0][0], words[-1][1]) if words else (0, 0)
    marks = [(start, first), (last, end)] if words else [(start, end)]
    spans = [marks[0], *words, *marks[1:]]
    return [(start, end) for start, end in spans if start < end]


def _word_region(text: str, part: Part) -> Span:
    """Return the span of the content of a part, without white space at its ends."""
    start, end = part.content
    content = text[start:end]
    first = start + len(content) - len(content.lstrip())
    return first, first + len(content.strip())
