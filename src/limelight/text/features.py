"""What an explanation scores: distinct words, or single positions."""

__all__ = ["FEATURES", "FeatureKind", "Features", "features_of"]

from dataclasses import dataclass
from typing import Literal, final, get_args

import numpy as np

from limelight.errors import InputError, nearest
from limelight.shapes import Int
from limelight.text.document import Document
from limelight.text.tokenizer import Span

FeatureKind = Literal["words", "positions"]
FEATURES: tuple[FeatureKind, ...] = get_args(FeatureKind)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Feature strings, every place of each in the text, and the feature of each token."""

    kind: FeatureKind
    strings: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
    of_token: Int[np.ndarray, " T"]

    def __len__(self) -> int:
        return len(self.strings)


def features_of(document: Document, kind: FeatureKind = "words") -> Features:
    """Return one feature per distinct token string ("words") or per token ("positions").

    Words stand in the order of their first occurrence. Strings outside the vocabulary stay
    distinct, although the model sees UNK for each.
    """
    strings, spans = document.tokens.strings, document.tokens.spans
    if kind == "positions":
        return Features(kind, strings, tuple((span,) for span in spans), np.arange(len(strings)))
    if kind != "words":
        raise InputError(nearest("features", kind, FEATURES))
    row = {word: j for j, word in enumerate(dict.fromkeys(strings))}
    places: list[list[Span]] = [[] for _ in row]
    for word, span in zip(strings, spans, strict=True):
        places[row[word]].append(span)
    of_token = np.array([row[word] for word in strings])
    return Features(kind, tuple(row), tuple(map(tuple, places)), of_token)
