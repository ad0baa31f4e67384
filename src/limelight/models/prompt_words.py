"""The words of a prompt, for models that read strings and whose tokens are unknown."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from limelight.models.functions import word_spans
from limelight.models.prompts import Prompt
from limelight.shapes import Bool, Int
from limelight.text import Features, ModelInput, Part, Span, Tokens, UserInput, part_index


def split_prompt(prompt: Prompt, source: UserInput) -> ModelInput:
    """Split the parts of a prompt into words, and return them as an input.

    The characters before and after the words of a part, such as the marks of a chat, are tokens
    too, so that nothing of a removed part is left.

    Parameters
    ----------
    prompt
        The prompt with its parts.
    source
        The conversation, or the text of the only message.
    """
    spans = [span for part in prompt.parts for span in _split_part(prompt.text, part)]
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
        marks = [(spans[i][0] >= last, text[slice(*spans[i])], i) for i in indices[~is_word]]
        segments.append(
            _PartSegment(
                text[end : part.span[0]],
                strings,
                features.feature_index[indices[is_word]],
                [(is_end, mark, int(features.feature_index[i])) for is_end, mark, i in marks],
            )
        )
        end = part.span[1]

    def write_prompt(keep: Bool[np.ndarray, " d"]) -> str:
        """Return the prompt with only the features of ``keep``."""
        stays = np.append(keep, True)  # the appended True is for -1, no feature
        return "".join(segment.write(stays) for segment in segments) + text[end:]

    return write_prompt


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
        """Return the text before the part, and what stays of the part."""
        first, last = (
            [mark for follows, mark, feature in self.marks if follows == is_end and stays[feature]]
            for is_end in (False, True)
        )
        return "".join([self.before, *first, self._write_words(stays), *last])

    def _write_words(self, stays: Bool[np.ndarray, " n"]) -> str:
        """Return the words that stay, with the first white space between each two."""
        strings, gap = list[str](), ""
        word_stays = stays[self.feature].tolist()
        previous = None  # the feature of the removed word before
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


def _split_part(text: str, part: Part) -> list[Span]:
    """Return the spans of the words of a part, and those of the characters around all words."""
    first, last = _word_region(text, part)
    words = [(first + start, first + end) for start, end in word_spans(text[first:last])]
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
