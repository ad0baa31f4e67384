"""The review of Figures 4 and 6, and how the authors prepare texts for LIME."""

__all__ = [
    "OPENING",
    "TOKENS",
    "WORDS",
    "Review",
    "find_review",
    "keep_letters_and_digits",
    "list_texts",
]

import re
from dataclasses import dataclass
from typing import final

from limelight import InputError, LabeledTexts

# The authors' notebook takes number 9657 of the test set. Readers of IMDB's archive number its
# files in other orders, so it is found by its words.
OPENING = "I find it amazing, that so many people (probably Poles) have voted for this movie"
TOKENS, WORDS = 99, 71
_SYMBOLS = re.compile(r"[^A-Za-z0-9]+")


@final
@dataclass(frozen=True, kw_only=True)
class Review:
    """A test review: its number in the data, and its text as the authors give it to LIME."""

    number: int
    text: str


def list_texts(data: LabeledTexts) -> list[str]:
    """Return the texts of a data set as strings; raise `InputError` if it contains pairs."""
    texts = [text for text in data.texts if isinstance(text, str)]
    if len(texts) < len(data):
        raise InputError(f"the experiments need single texts, but {data.source} contains pairs.")
    return texts


def keep_letters_and_digits(text: str) -> str:
    """Replace every run of characters that are not letters or digits by a space."""
    return _SYMBOLS.sub(" ", text).strip()


def find_review(data: LabeledTexts) -> Review:
    """Find the review of Figures 4 and 6 in the test set by its first words.

    It has T = 99 tokens and d = 71 words when only its letters and digits are kept.
    """
    for number, text in enumerate(list_texts(data)):
        if text.startswith(OPENING):
            return Review(number=number, text=keep_letters_and_digits(text))
    raise InputError(
        f"no test review begins with “{OPENING}”, as the paper's document does. The data folder "
        "must contain all test reviews of IMDB."
    )
