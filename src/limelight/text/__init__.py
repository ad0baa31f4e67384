"""Text: tokens with offsets, vocabulary, documents, features. NumPy only."""

from limelight.text.document import Document, Windows
from limelight.text.features import FEATURES, Features, features_of
from limelight.text.one_line import few_names, one_line
from limelight.text.parts import (
    SIDES,
    Given,
    Pair,
    given_again,
    joined,
    side_at,
    side_names,
    with_sides,
)
from limelight.text.tokenizer import Span, Tokens, token_strings, tokenize
from limelight.text.vocabulary import CLS, UNK, Vocabulary

__all__ = [
    "CLS",
    "FEATURES",
    "SIDES",
    "UNK",
    "Document",
    "Features",
    "Given",
    "Pair",
    "Span",
    "Tokens",
    "Vocabulary",
    "Windows",
    "features_of",
    "few_names",
    "given_again",
    "joined",
    "one_line",
    "side_at",
    "side_names",
    "token_strings",
    "tokenize",
    "with_sides",
]
