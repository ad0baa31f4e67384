import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.errors import InputError
from limelight.models.attention import encode_text, padded_ids
from limelight.text import CLS, UNK, Vocabulary, build_features, find_phrase, tokenize

VOCABULARY = Vocabulary(("[cls]", "UNK", "a", "great", "film"))


def read(text, T_max=256):
    return encode_text(text, VOCABULARY, T_max=T_max)


def test_words_stand_by_descending_count_and_ties_alphabetically():
    counts = {"b": 2, "a": 2, "z": 9, "[cls]": 50, "UNK": 3}
    assert Vocabulary.from_counts(counts).words == ("[cls]", "UNK", "z", "a", "b")
    assert Vocabulary.from_counts(counts, size=4).words == ("[cls]", "UNK", "z", "a")


def test_text_that_spells_a_special_word_is_only_text():
    assert VOCABULARY.encode(["[cls]", "UNK", "film"]).tolist() == [UNK, UNK, 4]


@pytest.mark.parametrize("words", [("a",), ("UNK", "[cls]"), ("[cls]", "UNK", "a", "a")])
def test_a_broken_vocabulary_is_refused(words):
    with pytest.raises(InputError):
        Vocabulary(words)


def test_the_window_holds_cls_the_tokens_and_unk_as_padding():
    rows = padded_ids([np.array([3, 4]), np.array([2, 3, 4, 2, 3])], T_max=5)
    assert rows.tolist() == [[CLS, 3, 4, UNK, UNK], [CLS, 2, 3, 4, 2]]


def test_what_was_cut_off_is_reported():
    model_input = read("a great film a film", T_max=4)
    assert model_input.tokens.strings == ("a", "great", "film")
    assert model_input.cutoff == len("a great film")
    assert model_input.warnings == (
        "The text has 5 tokens. The model reads the first 3, and the last 2 were cut off.",
    )


def test_unknown_words_are_reported():
    assert read("a strange film").warnings == (
        "1 of 3 tokens are not in the vocabulary. The model reads UNK instead.",
    )
    assert read("¿què?").warnings == (
        "No word of the text is in the model's vocabulary, so the model reads only UNK.",
    )
    assert read("a great film").warnings == ()


@given(st.lists(st.sampled_from(["a", "great", "film", "zebra"]), min_size=1, max_size=20))
def test_words_gather_every_occurrence(words):
    model_input = read(" ".join(words), T_max=11)
    features = build_features(model_input)
    assert len(set(features.strings)) == len(features)
    for j, (string, spans) in enumerate(zip(features.strings, features.spans, strict=True)):
        places = np.flatnonzero(features.feature_index == j)
        assert [model_input.tokens.strings[t] for t in places] == [string] * len(spans)
        assert [model_input.text[a:b] for a, b in spans] == [string] * len(spans)


def test_positions_keep_every_token_apart():
    features = build_features(read("film film a"), "positions")
    assert features.strings == ("film", "film", "a")
    assert features.feature_index.tolist() == [0, 1, 2]


def test_sentences_end_behind_their_stops():
    text = "A film! A great one?! Yes... No"
    features = build_features(read(text), "sentences")
    assert features.strings == ("A film!", "A great one?!", "Yes...", "No")
    assert features.feature_index.tolist() == [0] * 3 + [1] * 5 + [2] * 4 + [3]
    assert [text[a:b] for ((a, b),) in features.spans] == list(features.strings)


def test_groups_of_the_callers_own():
    model_input = read("a great film, a great day")
    features = build_features(model_input, [7, 7, -1, -1, 3, 7, 3])
    assert features.strings == ("a great … great", "a … day")
    assert features.feature_index.tolist() == [0, 0, -1, -1, 1, 0, 1]
    assert features.kind == "groups"
    with pytest.raises(InputError) as error:
        build_features(model_input, [0, 1])
    assert str(error.value) == ("features must have one group per token of the window (7), not 2.")


def test_protected_words_are_no_features():
    features = build_features(read("a great film a"), protect={"a"})
    assert features.strings == ("great", "film")
    assert features.feature_index.tolist() == [-1, 0, 1, -1]
    with pytest.raises(InputError, match="reads no unprotected word of this text"):
        build_features(read("a a"), protect={"a"})


def test_a_protected_phrase_is_found_where_its_words_follow_each_other():
    model_input = read("great film a film a Great  FILM")
    assert find_phrase(model_input, "great film") == {0, 1, 5, 6}
    assert find_phrase(model_input, "eat film") == set()  # not at the borders of tokens
    assert find_phrase(model_input, "film great") == set()
    assert find_phrase(model_input, " ") == set()
    features = build_features(model_input, protect=find_phrase(model_input, "great film"))
    assert features.strings == ("a", "film")
    assert features.spans[1] == ((13, 17),)


def test_a_megabyte_of_anything_is_read():
    assert tokenize("x" * 2**20).spans == ((0, 2**20),)
    for part, count in (("é'\"<br /> ", 2), ("\x00\x07 ", 1), ("🙂שלום ", 1)):
        assert len(tokenize(part * 2**17)) == count * 2**17
