import re
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from limelight.text import token_strings, tokenize

# The steps of the authors' tokenizer, one after another, as an oracle for our single pass.
STEPS = [
    (r"'", " '  "),
    (r'"', ""),
    (r"\.", " . "),
    (r"<br />", " "),
    (r",", " , "),
    (r"\(", " ( "),
    (r"\)", " ) "),
    (r"!", " ! "),
    (r"\?", " ? "),
    (r";", " "),
    (r":", " "),
    (r"\s+", " "),
]


def step_by_step(text):
    text = text.lower()
    for pattern, replacement in STEPS:
        text = re.sub(pattern, replacement, text)
    return text.split()


awkward = st.text(
    st.one_of(st.sampled_from(list("'\".,()!?;:<br />abİΣσς \u200b\u00a0\x1f\x85\U0001f600")))
) | st.lists(st.sampled_from(["<br />", '<b"r />', "<br", "it's", "10/10", "well-made"])).map(
    "".join
)
texts = st.text() | awkward


@given(texts)
@example("ΑΣ ΑΣ")
@example('İİ"a"İ')
def test_agrees_with_the_authors_steps(text):
    assert token_strings(text) == step_by_step(text)


@given(texts)
def test_places_and_strings_come_from_the_same_tokens(text):
    assert list(tokenize(text).strings) == token_strings(text)


@given(texts)
def test_every_span_holds_its_token(text):
    tokens = tokenize(text)
    lowered = text.lower()
    for string, (start, end) in zip(tokens.strings, tokens.spans, strict=True):
        assert 0 <= start < end <= len(text)
        contained = text[start:end].lower().replace('"', "")
        # a final sigma is lowered by its neighbors, which the slice does not have
        if "σ" not in lowered and "ς" not in lowered:
            assert string in contained


@given(texts)
def test_spans_stand_in_order_and_never_overlap_unless_one_character_grew(text):
    spans = tokenize(text).spans
    grown = len(text.lower()) != len(text)
    for (_, end), (start, _) in pairwise(spans):
        assert end <= start or grown


def test_a_span_may_be_longer_than_its_token():
    tokens = tokenize('say "he"llo')
    assert tokens.strings == ("say", "hello")
    assert tokens.spans == ((0, 3), (5, 11))


def test_documented_examples():
    assert token_strings("10/10 well-made") == ["10/10", "well-made"]
    assert token_strings("3.14 it's<br />(Good)") == [
        "3",
        ".",
        "14",
        "it",
        "'",
        "s",
        "(",
        "good",
        ")",
    ]
