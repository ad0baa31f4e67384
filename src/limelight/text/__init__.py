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
    is_one,
    is_picture,
    joined,
    side_at,
    side_names,
    with_sides,
)
from limelight.text.features import (
    FEATURES,
    Features,
    Unit,
    features_of,
    is_unit,
    name_of_one,
    nested,
    plural,
    unit_name,
    unit_spans,
)
from limelight.text.pictures import (
    Box,
    Image,
    Picture,
    Pictured,
    PictureLike,
    picture_of,
)
from limelight.text.places import Answer, Asked, AskedText, Place, place_at, read_asked
from limelight.text.tokens import CLS, UNK, Span, Tokens, Vocabulary, token_strings, tokenize
from limelight.text.units import CUTTERS, Cutter, checked_spans, icu_words, sentence_spans

__all__ = [
    "CLS", "CUTTERS", "FEATURES", "SIDES", "UNK", "Answer", "Asked", "AskedText", "Box", "Cutter",
    "Document", "Features", "Given", "Image", "Pair", "Picture", "PictureLike", "Pictured", "Place",
    "Span", "Tokens", "Unit", "Vocabulary", "Windows", "check_listed", "checked_spans",
    "checked_text", "checked_text_or_pair", "features_of", "few_names", "icu_words",
    "inside_character", "is_one", "is_picture", "is_unit", "joined", "name_of_one", "nested",
    "one_line", "picture_of", "place_at", "plural", "read_asked", "sentence_spans", "side_at",
    "side_names", "token_strings", "tokenize", "unit_name", "unit_spans", "with_sides",
]  # fmt: skip
