"""Words cut into pieces: what a network of pieces reads, and whose piece is whose."""

from dataclasses import replace

import numpy as np
import pytest

import limelight
from limelight import LabeledTexts
from limelight.text import UNK, Vocabulary, token_strings
from limelight_reproduction.deep.subwords import SubwordSplitter

from deep_toys import SHAPE, make_trained_network


@pytest.fixture(scope="module")
def pieces():
    corpus = ["walking talking walked talked walks", "the walker isn't talking, is he?"] * 5
    return SubwordSplitter.train(corpus, size=40)


ODD = ["walking THE talker!", "isn't; he walks... (twice)", "ÏŞÏ naïve 北京 w\u0307x", "<br />##x"]


def test_spelled_texts_have_the_pieces_as_words(pieces):
    data = LabeledTexts(ODD, np.array([0, 1, 0, 1]), ("a", "b"), "odd")
    spelled = pieces.split_texts(data)
    assert (spelled.classes, spelled.source) == (("a", "b"), "odd")
    assert spelled.labels.tolist() == [0, 1, 0, 1]
    for text, again in zip(ODD, spelled.texts, strict=True):
        expected = [p for word in token_strings(text) for p in pieces.split_word(word)]
        assert token_strings(again) == expected
    assert len(token_strings(spelled.texts[0])) > 3


def test_known_pieces_spell_their_word(pieces):
    for word in ("walking", "talker", "talk"):
        assert "".join(p.removeprefix("##") for p in pieces.split_word(word)) == word
    assert pieces.split_word("北京") == ["北京"]


def test_a_letter_that_never_stood_inside_a_word_is_passed_over(pieces):
    assert "".join(p.removeprefix("##") for p in pieces.split_word("walkwalk")) == "walkalk"


def test_saved_pieces_cut_alike(pieces):
    again = SubwordSplitter(pieces.tokenizer_json)
    for word in ("walking", "talkers", "xyz", "the"):
        assert again.split_word(word) == pieces.split_word(word)


@pytest.fixture(scope="module")
def model(pieces):
    reference = sorted(
        {p for w in ("walking", "talker", "walker", "the", "he") for p in pieces.split_word(w)}
    )
    return make_trained_network(pieces=pieces, vocabulary=Vocabulary(("[cls]", "UNK", *reference)))


def test_all_pieces_of_a_word_are_one_feature(pieces, model):
    text = "walker the walker talker"
    model_input, words = model.read(text), text.split()
    expected = [n for n, word in enumerate(words) for _ in pieces.split_word(word)]
    assert len(expected) > 4
    assert model.token_positions(model_input)[1 : 1 + len(expected)].tolist() == expected
    assert UNK not in model_input.encoding.ids
    game = limelight.game(model, text)
    assert game.features == ("walker", "the", "talker")
    spelt = [(word, piece) for word in words for piece in pieces.split_word(word)]
    content = " ".join("UNKNOWN" if word == "walker" else piece for word, piece in spelt)
    expected = replace(model, pieces=None).outputs([replace(model, pieces=None).read(content)])
    np.testing.assert_array_equal(game([[False, True, True]]), expected)


def test_a_word_that_begins_inside_the_window_is_whole(pieces, model):
    assert (len(pieces.split_word("he")), len(pieces.split_word("walking"))) == (1, 2)
    before = " ".join(["he"] * (SHAPE.T_max - 2))  # one place is left in the window
    text = f"{before} walking talker"
    model_input = model.read(text)
    assert model_input.tokens.strings[-1] == "walking"
    assert text[: model_input.cutoff] == f"{before} walking"
    game = limelight.game(model, text, replacement="delete")
    shorter = model.outputs([model.read(f"{before} talker")])
    np.testing.assert_array_equal(game([[True, False]]), shorter)
