"""Words cut into pieces, learnt from texts by byte-pair encoding."""

__all__ = ["Pieces"]

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import final

from tokenizers import Tokenizer, models, trainers

from limelight import LabeledTexts
from limelight.text import token_strings
from limelight_reproduction.document import strings

_INSIDE = "##"  # before a piece that continues a word


@final
class Pieces:
    """Cuts words; what is frequent stays whole.

    A letter that was never seen at such a place of a word is passed over, as byte-pair encoding
    without a piece for the unknown does; a word of such letters alone stays whole.
    """

    def __init__(self, saved: str) -> None:
        self.saved = saved
        self._tokenizer = Tokenizer.from_str(saved)
        self.of_word = lru_cache(maxsize=None)(self._of_word)

    @classmethod
    def learnt(cls, texts: Iterable[str], *, size: int = 8000) -> "Pieces":
        """Return the ``size`` most useful pieces of the words of ``texts``."""
        tokenizer = Tokenizer(models.BPE(continuing_subword_prefix=_INSIDE))
        trainer = trainers.BpeTrainer(
            vocab_size=size, continuing_subword_prefix=_INSIDE, show_progress=False
        )
        tokenizer.train_from_iterator((w for text in texts for w in token_strings(text)), trainer)
        return cls(json.dumps(json.loads(tokenizer.to_str())))

    def _of_word(self, word: str) -> Sequence[str]:
        return self._tokenizer.encode(word).tokens or [word]

    def spelled(self, data: LabeledTexts) -> LabeledTexts:
        """Return texts whose words are the pieces: a word model of them is a piece model."""
        texts = [
            " ".join(p for w in token_strings(t) for p in self.of_word(w)) for t in strings(data)
        ]
        return LabeledTexts(texts, data.labels, data.classes, data.source)
