"""Text: tokens with offsets, vocabulary, documents, features. NumPy only."""

from limelight.text.characters import few_names, inside_character, one_line
from limelight.text.document import (
    SIDES,
    Document,
    Given,
    Pair,
    Windows,
    check_listed,
    checked_text,
    checked_text_or_pair,
    joined,
    side_at,
    side_names,
    with_sides,
)
from limelight.text.features import FEATURES, Features, features_of
from limelight.text.places import AskedText, FoundSpan, Place, found_places, place_at
from limelight.text.tokens import CLS, UNK, Span, Tokens, Vocabulary, token_strings, tokenize

__all__ = [
    "CLS",
    "FEATURES",
    "SIDES",
    "UNK",
    "AskedText",
    "Document",
    "Features",
    "FoundSpan",
    "Given",
    "Pair",
    "Place",
    "Span",
    "Tokens",
    "Vocabulary",
    "Windows",
    "check_listed",
    "checked_text",
    "checked_text_or_pair",
    "features_of",
    "few_names",
    "found_places",
    "inside_character",
    "joined",
    "one_line",
    "place_at",
    "side_at",
    "side_names",
    "token_strings",
    "tokenize",
    "with_sides",
]
