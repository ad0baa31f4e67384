"""A few tokens with which a network is tried out."""

__all__ = ["Probe", "probe_of"]

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from limelight.models.hugging_face.input_table import embedding_rows
from limelight.models.hugging_face.word_pieces import pieces_of
from limelight.shapes import Int

_TEXT = "The plot is bad, but the acting is good."
# Between the special ones. Reformer's chunks have 64, and only what is longer is hashed at random.
_PIECES, _FEW, _MANY = 6, (1, 4), 70


@final
@dataclass(frozen=True, eq=False)
class Probe:
    """Ids of a short text, of another of the same length, of shorter ones and of a longer one.

    ``middle`` is the place of an ordinary piece in the first two, which differ at all such places.
    ``rows`` is how many tokens the embedding knows, None where that cannot be seen.
    """

    ids: Int[np.ndarray, " T"]
    other: Int[np.ndarray, " T"]
    shorter: tuple[Int[np.ndarray, " _"], ...]
    longer: Int[np.ndarray, " L"]
    middle: int
    rows: int | None


def probe_of(network: Any, tokenizer: Any, limit: int) -> Probe:
    """Return tokens of an English text, or of the vocabulary where that is too small for one."""
    pieces, _ = pieces_of(tokenizer, _TEXT, limit=limit)
    end = len(pieces.ids) - pieces.after
    rows = embedding_rows(network)
    inner = list(dict.fromkeys(pieces.ids[pieces.before : end].tolist()))
    known = [i for i in inner if rows is None or i < rows]
    if len(known) < _PIECES:
        known = list(dict.fromkeys(known + _ordinary(tokenizer, rows)))
    short = max(1, min(_PIECES, pieces.room, len(known)))
    many = max(1, min(_MANY, pieces.room))

    def around(some: list[int]) -> Int[np.ndarray, " _"]:
        return np.concatenate([pieces.ids[: pieces.before], some, pieces.ids[end:]]).astype(int)

    rolled = known[1:short] + known[:1]
    return Probe(
        ids=around(known[:short]),
        other=around(rolled),
        shorter=tuple(around(known[:few]) for few in _FEW if few < short),
        longer=around((known * many)[:many]),
        middle=pieces.before + short // 2,
        rows=rows,
    )


def _ordinary(tokenizer: Any, rows: int | None) -> list[int]:
    """Return a few ids from all over the vocabulary."""
    special = set(tokenizer.all_special_ids)
    ids = sorted(set(tokenizer.get_vocab().values()) - special)
    usable = [i for i in ids if rows is None or i < rows] or [0]
    return [usable[len(usable) * k // _PIECES] for k in range(_PIECES)]
