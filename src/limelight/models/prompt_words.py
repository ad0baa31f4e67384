"""The words of a prompt, for models that read strings and whose tokens are unknown."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from limelight.models.functions import word_spans
from limelight.models.prompts import Prompt
from limelight.shapes import Bool, Int
from limelight.text import Features, ModelInput, Part, Span, Tokens, UserInput, part_index


def split_prompt(prompt: Prompt, source: UserInput) -> ModelInput:
    """Split the parts of a prompt into words, and return them as an input.

    Every character of a part belongs to a token, also white space and the marks of a chat, so that
    nothing of a removed part is left.

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
        is_inside = [first <= spans[i][0] and spans[i][1] <= last for i in indices]
        strings = [text[slice(*spans[i])] for i in indices]
        feature = features.feature_index[indices]
        segments.append(_PartSegment(text[end : part.span[0]], strings, is_inside, feature))
        end = part.span[1]

    def write_prompt(keep: Bool[np.ndarray, " d"]) -> str:
        """Return the prompt with only the features of ``keep``."""
        stays = np.append(keep, True)  # the appended True is for -1, no feature
        strings = [string for segment in segments for string in segment.write(stays)]
        return "".join(strings) + text[end:]

    return write_prompt


class _PartSegment(NamedTuple):
    """A part of a prompt, and the text between it and the part before."""

    before: str
    strings: list[str]  # the tokens of the part
    is_inside: list[bool]  # whether a token is a word, or lies between two words
    feature: Int[np.ndarray, " T"]  # -1 for a token that always stays

    def write(self, stays: Bool[np.ndarray, " d+1"]) -> list[str]:
        """Return the strings of the part that stay."""
        words, ends, follows_removed = list[str](), (list[str](), list[str]()), False
        for string, is_inside, token_stays in zip(
            self.strings, self.is_inside, stays[self.feature].tolist(), strict=True
        ):
            has_begun = follows_removed or bool(words)
            if not is_inside:
                ends[has_begun] += [string] * token_stays
            elif not token_stays:
                follows_removed = True
            # Of two spaces around a removed word, the second is removed too.
            elif not (string.isspace() and follows_removed and _is_space(words[-1:])):
                words.append(string)
                follows_removed = False
        if follows_removed and words and words[-1].isspace():
            words.pop()
        return [self.before, *ends[0], *words, *ends[1]]


def _is_space(last_strings: list[str]) -> bool:
    """Return whether a text is empty or ends with white space, by its last string."""
    return not last_strings or last_strings[0].isspace()


def _split_part(text: str, part: Part) -> list[Span]:
    """Return the spans of the words of a part, and those of all characters around them."""
    first, last = _word_region(text, part)
    words = [(first + start, first + end) for start, end in word_spans(text[first:last])]
    edges = {*part.span, *(edge for word in words for edge in word)}
    return list(pairwise(sorted(edges)))


def _word_region(text: str, part: Part) -> Span:
    """Return the span of the content of a part, without white space at its ends."""
    start, end = part.content
    content = text[start:end]
    first = start + len(content) - len(content.lstrip())
    return first, first + len(content.strip())
