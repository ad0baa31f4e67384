"""Text: tokens with offsets, vocabulary, documents, features. NumPy only."""

from limelight.text.document import Document, read_document, window
from limelight.text.features import FEATURES, Features, features_of
from limelight.text.protection import listed_words, protected_words
from limelight.text.tokenizer import Span, Tokens, token_strings, tokenize
from limelight.text.vocabulary import CLS, UNK, Vocabulary

__all__ = [
    "CLS",
    "FEATURES",
    "UNK",
    "Document",
    "Features",
    "Span",
    "Tokens",
    "Vocabulary",
    "features_of",
    "listed_words",
    "protected_words",
    "read_document",
    "token_strings",
    "tokenize",
    "window",
]
