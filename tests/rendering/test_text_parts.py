import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limelight import explain
from limelight.models import load
from limelight.rendering.text_parts import (
    model_tokens,
    replace_surrogates,
    shorten_unread,
    split_text,
    visible_text,
)
from limelight.results import Explanation
from limelight.text import tokenize

from render_samples import HOSTILE, REVIEW, SENTENCE, explanation


@given(st.text(min_size=1, max_size=60), st.integers(2, 9))
def test_the_pieces_joined_are_the_text(text, T_max):
    assume(len(tokenize(text)))
    e = explanation(text, T_max=T_max)
    assert "".join(piece.text for piece in split_text(e)) == text


@given(
    st.text(max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)
)
def test_overlapping_and_odd_spans_lose_no_character(text, spans):
    inside = [tuple(sorted(min(at, len(text)) for at in span)) for span in spans]
    e = Explanation(
        text=text,
        features=tuple("x" for _ in inside),
        spans=tuple((span,) for span in inside),
        scores=np.zeros(len(inside)),
        method="lime",
        target="positive",
        prediction={"positive": 0.0},
    )
    assert "".join(piece.text for piece in split_text(e)) == text


def test_features_are_cut_out_in_order():
    results = [(piece.text, piece.feature) for piece in split_text(explanation("Good, good film"))]
    assert results == [("Good", 0), (",", 1), (" ", None), ("good", 0), (" ", None), ("film", 2)]


def test_text_past_the_window_is_not_seen():
    e = explanation(REVIEW, T_max=5)
    read = "".join(piece.text for piece in split_text(e) if piece.is_read)
    assert read == "I did not expect" == e.text[: e.explained_end]
    assert all(piece.feature is None for piece in split_text(e) if not piece.is_read)


def test_a_long_unread_rest_is_shortened_and_its_length_shown():
    remainder = shorten_unread(split_text(explanation(REVIEW, T_max=5)))[-1]
    assert remainder.text.endswith(f"… ({len(REVIEW) - len('I did not expect')} characters)")


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_no_control_character_survives(text):
    output = visible_text(text)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in output)
    assert not any(0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in output)
    assert not set(output) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028")
    assert visible_text(output) == output


def test_an_escape_sequence_is_shown_not_obeyed():
    assert visible_text("\x1b[31mred\x9b0m\u202e\x7f") == "␛[31mred⟨009B⟩0m⟨202E⟩␡"


@pytest.mark.parametrize("text", [SENTENCE, HOSTILE, "שלום 😀 日本語"])
def test_ordinary_text_is_left_alone(text):
    plain = text.replace("\x1b", "")
    assert visible_text(plain) == plain


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_writable_text_keeps_its_length_and_can_be_encoded(text):
    assert len(replace_surrogates(text)) == len(text)
    replace_surrogates(text).encode()


def test_the_tokens_of_the_model_start_with_cls():
    assert model_tokens(explanation("good bad good")) == ["[cls]", "good", "bad", "good"]


@pytest.mark.parametrize("options", [{"protect": ["good"]}, {"features": "sentences"}])
def test_tokens_are_those_of_the_model_whatever_the_features_are(options):
    e = explain(load(), "A good film. A bad one", "loo", **options)
    assert model_tokens(e) == ["[cls]", "a", "good", "film", ".", "a", "bad", "one"]
