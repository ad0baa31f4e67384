"""Text: tokens with offsets, vocabulary, documents, features. NumPy only."""

from limelight.text.characters import few_names, inside_character, one_line
from limelight.text.document import (
    SIDES,
    ModelInput,
    UserInput,
    Input,
    Pair,
    Windows,
    check_listed,
    checked_text,
    checked_text_or_pair,
    is_image,
    is_single,
    join_pair,
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
from limelight.text.images import (
    Box,
    Image,
    ImageInput,
    ImageLike,
    PatchedImage,
    read_image,
)
from limelight.text.places import (
    Answer,
    Place,
    QueriedText,
    Query,
    place_at,
    read_asked,
    which_place,
)
from limelight.text.tokens import CLS, UNK, Span, Tokens, Vocabulary, token_strings, tokenize
from limelight.text.units import CUTTERS, Cutter, checked_spans, icu_words, sentence_spans

__all__ = [
    "CLS", "CUTTERS", "FEATURES", "SIDES", "UNK", "Answer", "Box", "Cutter", "Document",
    "Features", "Given", "Image", "ImageInput", "ImageLike", "Input", "Pair", "PatchedImage",
    "Place", "QueriedText", "Query", "Span", "Tokens", "Unit", "Vocabulary", "Windows",
    "check_listed", "checked_spans", "checked_text", "checked_text_or_pair", "features_of",
    "few_names", "icu_words", "inside_character", "is_image", "is_one", "is_unit", "joined",
    "name_of_one", "nested", "one_line", "place_at", "plural", "read_asked", "read_image",
    "sentence_spans", "side_at", "side_names", "token_strings", "tokenize", "unit_name",
    "unit_spans", "which_place", "with_sides",
]  # fmt: skip
