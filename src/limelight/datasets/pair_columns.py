"""Which two columns of a data file are pairs of texts, by the names they usually have."""

__all__ = ["chosen_pair", "usual_pair"]

from collections.abc import Iterable

from limelight.errors import InputError

_USUAL = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
    ("question", "passage"),
    ("question", "sentence"),
    ("query", "document"),
    ("query", "passage"),
)


def usual_pair(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the two columns whose names are usual for pairs; None where one is called "text"."""
    by_name = {name.lower(): name for name in reversed(list(names))}
    if "text" in by_name:
        return None
    return next(
        ((by_name[a], by_name[b]) for a, b in _USUAL if a in by_name and b in by_name), None
    )


def chosen_pair(
    names: Iterable[str], text: str | None, pair: str | None
) -> tuple[str | None, str | None]:
    """Return the columns of the texts and of their second texts, by name or by guess.

    Nothing is guessed where the column of the texts was named: it may be meant to stand alone. One
    column for both is refused: every text would be paired with itself.
    """
    if pair is not None and pair == (text or "text"):
        raise InputError(
            f"the two texts of a pair stand in two columns; text_column and pair_column are both "
            f"{pair!r}."
        )
    found = usual_pair(names)
    if text is not None or found is None:
        return text, pair
    return found if pair in (None, found[1]) else (None, pair)
