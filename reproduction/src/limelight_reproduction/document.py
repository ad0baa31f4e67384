"""The review of Figures 4 and 6, and how the authors prepare texts for LIME."""

__all__ = ["OPENING", "TOKENS", "WORDS", "Review", "strings", "stripped", "the_review"]

import re
from dataclasses import dataclass
from typing import final

from limelight import InputError, LabeledTexts

# The authors' notebook takes number 9657 of the test set. Readers of IMDB's archive number its
# files in other orders, so it is found by its words.
OPENING = "I find it amazing, that so many people (probably Poles) have voted for this movie"
TOKENS, WORDS = 99, 71
_OTHERS = re.compile(r"[^A-Za-z0-9]+")


@final
@dataclass(frozen=True, kw_only=True)
class Review:
    """A test review: its number in the data, and its text as the authors give it to LIME."""

    number: int
    text: str


def strings(data: LabeledTexts) -> list[str]:
    """Return the texts of ``data``, none of which may be a pair."""
    texts = [text for text in data.texts if isinstance(text, str)]
    if len(texts) < len(data):
        raise InputError(f"the experiments are about single texts; {data.source} holds pairs.")
    return texts


def stripped(text: str) -> str:
    """Return ``text`` with a space in place of everything but letters and digits."""
    return _OTHERS.sub(" ", text).strip()


def the_review(data: LabeledTexts) -> Review:
    """Return the review of the paper, which has T = 99 tokens and d = 71 words when stripped."""
    for number, text in enumerate(strings(data)):
        if text.startswith(OPENING):
            return Review(number=number, text=stripped(text))
    raise InputError(
        f"no test review begins with “{OPENING}”, as the paper's document does; the data folder "
        "must hold all of IMDB's test reviews."
    )
