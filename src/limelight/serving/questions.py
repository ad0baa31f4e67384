"""What a page may ask, with limits: everything else is refused before any work."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from limelight.errors import InputError
from limelight.question import Question

MOST_BYTES = 1 << 20  # of a request
MOST_CHARACTERS = 100_000  # of a text
_Short = Annotated[str, Meta(max_length=200)]
_Word = Annotated[str, Meta(max_length=1000)]
Change = tuple[_Word, Annotated[int, Meta(ge=0)], _Word | None]


class TextQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text and what is to be shown of it.

    ``tab`` tells one window of a browser from another: a newer question of the same tab and
    ``place`` drops the older. ``changes`` are words of the text, each with its number among the
    features of the same name and what stands for it, None where it is removed.
    """

    tab: _Short
    place: _Short
    text: str  # whose length question_of bounds, in a sentence that a reader understands
    model: Annotated[int, Meta(ge=0, le=9)] = 0
    methods: Annotated[list[_Short], Meta(max_length=40)] = []
    target: _Short | None = None
    against: _Short | None = None
    features: Literal["words", "positions", "sentences", "tokens"] = "words"
    scale: Literal["logit", "probability", "score"] = "logit"
    protect: Annotated[list[_Word], Meta(max_length=200)] = []
    changes: Annotated[list[Change], Meta(max_length=200)] = []
    parts: Annotated[list[_Short], Meta(max_length=10)] = []

    @property
    def asked(self) -> Question:
        """What is asked of the model about the text."""
        return Question(
            target=self.target,
            against=self.against,
            features=self.features,
            scale=self.scale,
            protect=self.protect,
        )


def question_of(body: bytes) -> TextQuestion:
    """Return the question in ``body``; what is not one is refused in a sentence."""
    try:
        question = msgspec.json.decode(body, type=TextQuestion)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(f"this is not a question that the page asks: {error}.") from None
    if (length := len(question.text)) > MOST_CHARACTERS:
        raise InputError(
            f"the page explains texts of at most {MOST_CHARACTERS:,} characters; this one has "
            f"{length:,}. Longer ones are for limelight explain --file."
        )
    return question
