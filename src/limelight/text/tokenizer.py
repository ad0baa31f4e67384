"""The tokenizer of the paper's code (torchtext's ``basic_english``), with character offsets."""

__all__ = ["Span", "Tokens", "token_strings", "tokenize"]

import re
from dataclasses import dataclass
from typing import final

Span = tuple[int, int]

# Group 1 is the token; a line break matches without it and so vanishes.
_TOKEN = re.compile(r"<br />|((?:[^\s'.,()!?;:<]+|<(?!br />))+|['.,()!?])")


@final
@dataclass(frozen=True, slots=True)
class Tokens:
    """Token strings, and for each the half-open range of characters it came from."""

    strings: tuple[str, ...]
    spans: tuple[Span, ...]

    def __len__(self) -> int:
        return len(self.strings)

    def head(self, count: int) -> "Tokens":
        """Return the first ``count`` tokens."""
        return Tokens(self.strings[:count], self.spans[:count])


def token_strings(text: str) -> list[str]:
    """Return the tokens of ``text`` without their places: what counting and encoding need."""
    return [token for token in _TOKEN.findall(text.lower().replace('"', "")) if token]


def tokenize(text: str) -> Tokens:
    """Return the tokens of ``text`` with their places in it, for any Unicode string.

    Lower-case; ``'`` and ``. , ( ) ! ?`` stand alone; ``"`` vanishes; ``<br />``, ``;`` and ``:``
    are spaces. A span may be longer than its token: quotes inside a token have vanished.
    """
    plain, origin = _without_quotes(text)
    strings, spans = [], []
    for match in _TOKEN.finditer(plain):
        if (token := match.group(1)) is not None:
            start, end = match.span(1)
            strings.append(token)
            spans.append((start, end) if origin is None else (origin[start], origin[end - 1] + 1))
    return Tokens(tuple(strings), tuple(spans))


def _without_quotes(text: str) -> tuple[str, list[int] | None]:
    """Lower-cased ``text`` without quotes, and the original index of each character left.

    The index is ``None`` where nothing moved, which is the common case.
    """
    lower = text.lower()
    if '"' not in lower and len(lower) == len(text):
        return lower, None
    # The whole string is lowered at once (a final sigma depends on its neighbours); one character
    # may become several ('İ'), never with a different count than when lowered alone.
    source = [i for i, character in enumerate(text) for _ in character.lower()]
    kept = [(c, i) for c, i in zip(lower, source, strict=True) if c != '"']
    return "".join(c for c, _ in kept), [i for _, i in kept]
