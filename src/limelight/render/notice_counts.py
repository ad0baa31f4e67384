"""Notices of many texts, summed up: how many texts each is about, and one of them as an example."""

__all__ = ["NoticeCounts"]

import re
from collections.abc import Iterable
from typing import final

# Notices that differ in these alone are one: each text has its own number of tokens.
_VARYING = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?|'[^']*'|“[^”]*”")


@final
class NoticeCounts:
    """Counts notices as texts come; what it keeps does not grow with their number."""

    def __init__(self) -> None:
        self._texts = 0
        self._count: dict[str, int] = {}
        self._example: dict[str, tuple[str, str]] = {}

    def add(self, place: str, notices: Iterable[str]) -> None:
        """Count the notices of one more text, which stands at ``place``, such as "line 3"."""
        self._texts += 1
        kinds = {_VARYING.sub("#", notice): notice for notice in notices}
        for kind, notice in kinds.items():
            self._count[kind] = self._count.get(kind, 0) + 1
            self._example.setdefault(kind, (place, notice))

    def sentences(self) -> list[str]:
        """Return one line per kind of notice, the most frequent first."""
        lines = []
        for kind, count in sorted(self._count.items(), key=lambda item: -item[1]):
            place, notice = self._example[kind]
            if self._texts == 1:
                lines.append(f"Notice: {notice}")
            elif count == 1:
                lines.append(f"Notice on {place}: {notice}")
            else:
                of = f"{count:,} of {self._texts:,} texts, such as {place}"
                lines.append(f"Notice on {of}: {notice}")
        return lines
