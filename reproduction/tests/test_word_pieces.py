"""Words cut into pieces: what a network of pieces reads, and whose piece is whose."""

import numpy as np
import pytest
from deep_toys import trained

from limelight.datasets import LabelledTexts
from limelight_reproduction.deep import scores
from limelight_reproduction.deep.pieces import Pieces
from limelight.text import UNK, Vocabulary, token_strings


@pytest.fixture(scope="module")
def pieces():
    pytest.importorskip("tokenizers", reason="pieces of words need the tokenizers library")
    corpus = ["walking talking walked talked walks", "the walker isn't talking, is he?"] * 5
    return Pieces.learnt(corpus, size=40)


ODD = ["walking THE talker!", "isn't; he walks... (twice)", "ÏŞÏ naïve 北京 w\u0307x", "<br />##x"]


def test_spelled_texts_have_the_pieces_as_words(pieces):
    data = LabelledTexts(ODD, np.array([0, 1, 0, 1]), ("a", "b"), "odd")
    spelled = pieces.spelled(data)
    assert (spelled.classes, spelled.source) == (("a", "b"), "odd")
    assert spelled.labels.tolist() == [0, 1, 0, 1]
    for text, again in zip(ODD, spelled.texts, strict=True):
        expected = [p for word in token_strings(text) for p in pieces.of_word(word)]
        assert token_strings(again) == expected
    assert len(token_strings(spelled.texts[0])) > 3


def test_known_pieces_spell_their_word(pieces):
    for word in ("walking", "talker", "talk"):
        assert "".join(p.removeprefix("##") for p in pieces.of_word(word)) == word
    assert pieces.of_word("北京") == ["北京"]


def test_a_letter_that_never_stood_inside_a_word_is_passed_over(pieces):
    assert "".join(p.removeprefix("##") for p in pieces.of_word("walkwalk")) == "walkalk"


def test_saved_pieces_cut_alike(pieces):
    again = Pieces(pieces.saved)
    for word in ("walking", "talkers", "xyz", "the"):
        assert again.of_word(word) == pieces.of_word(word)


def test_all_pieces_of_a_word_are_one_feature(pieces):
    known = sorted({p for w in ("walking", "talker", "walker", "the") for p in pieces.of_word(w)})
    model = trained(pieces=pieces, vocabulary=Vocabulary(("[cls]", "UNK", *known)))
    read = scores.seen(model, "walker the walker talker")
    assert read.words == ("walker", "the", "talker")
    expected = [
        n
        for n, word in ((0, "walker"), (1, "the"), (0, "walker"), (2, "talker"))
        for _ in pieces.of_word(word)
    ]
    assert len(expected) > 4
    assert read.of_token.tolist() == expected
    assert UNK not in read.ids
