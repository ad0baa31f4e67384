"""Words that stay as they are while others are removed."""

__all__ = ["listed_words", "protected_words"]

from collections.abc import Collection

from limelight.errors import InputError
from limelight.text.tokenizer import token_strings


def protected_words(words: Collection[str]) -> frozenset[str]:
    """Return ``words`` as tokens: lower-case, each a single one."""
    found = [(word, token_strings(word)) for word in listed_words(words)]
    for word, tokens in found:
        if len(tokens) != 1:
            raise InputError(
                f"a protected word must be one token; {word!r} is {len(tokens)} of them."
            )
    return frozenset(tokens[0] for _, tokens in found)


def listed_words(words: Collection[str]) -> frozenset[str]:
    """Return ``words`` as they are, after refusing a string, which is a collection of letters."""
    if isinstance(words, str):
        raise InputError(f"protect takes a list of words; got one string. Write [{words!r}].")
    return frozenset(words)
