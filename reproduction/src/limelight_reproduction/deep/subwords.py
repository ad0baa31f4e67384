"""Subword tokens that are learned from texts by byte-pair encoding."""

__all__ = ["SubwordSplitter"]

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import final

from tokenizers import Tokenizer, models, trainers

from limelight import LabeledTexts
from limelight.text import token_strings
from limelight_reproduction.document import list_texts

_CONTINUATION = "##"  # prefix of a subword token that continues a word


@final
class SubwordSplitter:
    """Splits words into subword tokens. Frequent words stay one token.

    A letter that training never saw at this position of a word is skipped, because the byte-pair
    encoding has no unknown token. A word with only such letters stays one token.
    """

    def __init__(self, tokenizer_json: str) -> None:
        self.tokenizer_json = tokenizer_json
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self.split_word = lru_cache(maxsize=None)(self._split_word)

    @classmethod
    def train(cls, texts: Iterable[str], *, size: int = 8000) -> "SubwordSplitter":
        """Learn a vocabulary of ``size`` subword tokens from the words of ``texts``."""
        tokenizer = Tokenizer(models.BPE(continuing_subword_prefix=_CONTINUATION))
        trainer = trainers.BpeTrainer(
            vocab_size=size, continuing_subword_prefix=_CONTINUATION, show_progress=False
        )
        words = (word for text in texts for word in token_strings(text))
        tokenizer.train_from_iterator(words, trainer)
        return cls(json.dumps(json.loads(tokenizer.to_str())))

    def _split_word(self, word: str) -> Sequence[str]:
        return self._tokenizer.encode(word).tokens or [word]

    def split_texts(self, data: LabeledTexts) -> LabeledTexts:
        """Return a data set whose words are the subword tokens of the words of ``data``.

        A model of words that is trained on it is a model of subword tokens.
        """
        texts = []
        for text in list_texts(data):
            tokens = [token for word in token_strings(text) for token in self.split_word(word)]
            texts.append(" ".join(tokens))
        return LabeledTexts(texts, data.labels, data.classes, data.source)
