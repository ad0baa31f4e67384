"""Spans and features of arbitrary texts, against a reader that looks at one character at a time."""

import copy
import pickle
import re

import numpy as np
import pytest
from hypothesis import example, find, given
from hypothesis import strategies as st

import limelight
from limelight.errors import InputError
from limelight.models.attention import encode_text
from limelight.results import Explanation
from limelight.results.differences import check_top_sizes
from limelight.text import UNK, ModelInput, Tokens, Vocabulary, build_features, tokenize
from limelight.text import tokens as tokens_module
from limelight.text.tokens import _are_token_characters

VOCABULARY = Vocabulary(("[cls]", "UNK", "a", "film", "'", ".", "é", "10/10"))
LINE_BREAK = "<br />"

pieces = st.sampled_from(
    [LINE_BREAK, '<b"r />', "<br", "film", "Film", "a", "10/10", 'f"ilm', " ", "[cls]", "UNK"]
)
characters = st.sampled_from(
    "'\".,()!?;:<>/abéßİΣσς \t\n\x1f\x85\u00a0\u2003\u3000\u200b\ufffd\U0001f600\ud800\udfff"
)
texts = st.lists(pieces | characters, max_size=60).map("".join) | st.text()


def read_by_hand(text, *, counts_quotes=True):
    """Return the tokens of a text with their spans, one character after another."""
    lowered = [(c, i) for c, i in zip(text.lower(), source_positions(text), strict=True)]
    characters = [(c, i) for c, i in lowered if c != '"']
    tokens, k, is_open = [], 0, False
    while k < len(characters):
        character, i = characters[k]
        i = i if counts_quotes else k
        if "".join(c for c, _ in characters[k : k + len(LINE_BREAK)]) == LINE_BREAK:
            is_open, k = False, k + len(LINE_BREAK)
            continue
        if character.isspace() or character in ";:":
            is_open = False
        elif character in "'.,()!?" or not is_open:
            tokens.append([character, i, i + 1])
            is_open = character not in "'.,()!?"
        else:
            tokens[-1] = [tokens[-1][0] + character, tokens[-1][1], i + 1]
        k += 1
    return [(string, (start, end)) for string, start, end in tokens]


def source_positions(text):
    """Return for each character of the text in lower case the index of its source."""
    return [i for i, character in enumerate(text) for _ in character.lower()]


def group_by_hand(tokens, protect=()):
    """Return the words of tokens in their order, with the spans of each, and the word of each."""
    words, index = {}, []
    for string, span in tokens:
        if string in protect:
            index.append(-1)
            continue
        words.setdefault(string, []).append(span)
        index.append(list(words).index(string))
    return words, index


def agrees(text, expected):
    """Return whether the tokens and the spans of a text are the expected ones."""
    tokens = tokenize(text)
    return list(zip(tokens.strings, tokens.spans, strict=True)) == expected


@given(texts)
@example('İİ"a"İ <br />"\'İ')
@example("ΑΣ ΑΣ")
def test_tokens_and_spans_are_those_of_a_reader_of_characters(text):
    assert agrees(text, read_by_hand(text))
    if read_by_hand(text):
        assert tokenize(text).end == tokenize(text).spans[-1][1]


def test_a_reader_that_miscounts_quotes_is_noticed():
    text = find(texts, lambda text: not agrees(text, read_by_hand(text, counts_quotes=False)))
    assert '"' in text or len(text.lower()) != len(text)


@given(texts, st.sets(st.sampled_from(["a", "film", "'", "."])), st.integers(2, 40))
@example('a a "film', set(), 40)
@example("a\ud800 film a \udfff", {"film"}, 3)
def test_features_of_any_text_are_those_of_a_reader_of_characters(text, protect, T_max):
    expected = read_by_hand(re.sub("[\ud800-\udfff]", "\ufffd", text))
    inside = expected[: T_max - 1]
    if not inside:
        with pytest.raises(InputError, match="has no words"):
            encode_text(text, VOCABULARY, T_max=T_max)
        return
    model_input = encode_text(text, VOCABULARY, T_max=T_max)
    assert model_input.cutoff == (inside[-1][1][1] if len(expected) > len(inside) else None)
    rows = {word: row for row, word in enumerate(VOCABULARY.words) if row > UNK}
    assert model_input.encoding.ids.tolist() == [rows.get(string, UNK) for string, _ in inside]
    words, index = group_by_hand(inside, protect)
    if not words:
        with pytest.raises(InputError, match="no unprotected word"):
            build_features(model_input, protect=protect)
        return
    features = build_features(model_input, protect=protect)
    assert features.strings == tuple(words)
    assert features.spans == tuple(map(tuple, words.values()))
    assert features.feature_index.tolist() == index
    positions = build_features(model_input, "positions", protect=protect)
    scored = [(string, span) for string, span in inside if string not in protect]
    assert positions.strings == tuple(string for string, _ in scored)
    assert positions.spans == tuple((span,) for _, span in scored)


@given(texts)
def test_spans_that_are_found_late_are_those_that_are_known_early(text):
    tokens = tokenize(text)
    if not tokens.strings:
        return
    late = build_features(ModelInput(text, tokens))
    early = build_features(ModelInput(text, Tokens(tokens.strings, tokens.spans)))
    assert late.strings == early.strings
    assert late.spans == early.spans
    assert late.spans is late.spans
    assert type(late.spans) is tuple


def test_separators_are_the_white_space_of_unicode_and_two_signs():
    characters = "".join(map(chr, range(0x110000)))
    expected = [not (character.isspace() or character in ";:") for character in characters]
    assert _are_token_characters(characters).tolist() == expected
    ascii_part = characters[:128]
    assert _are_token_characters(ascii_part).tolist() == expected[:128]


def make_explanation():
    """Return an explanation whose spans nobody has read yet."""
    model_input = encode_text('A "film", a F"ilm', VOCABULARY, T_max=9)
    features = build_features(model_input)
    return Explanation(
        text=model_input.text,
        **features.result_fields(model_input),
        scores=np.arange(float(len(features))),
        method="lime",
        target="no",
        prediction={"no": 1.0},
    )


SPANS = (((0, 1), (10, 11)), ((3, 7), (12, 17)), ((8, 9),))


@pytest.mark.parametrize(
    "copied",
    [
        lambda e: e,
        copy.copy,
        copy.deepcopy,
        lambda e: pickle.loads(pickle.dumps(e)),
        lambda e: Explanation.from_json(e.to_json()),
        lambda e: copy.replace(e) if hasattr(copy, "replace") else e,
    ],
)
def test_spans_of_every_copy_are_the_same_tuples(copied):
    again = copied(make_explanation())
    assert type(again.spans) is tuple
    assert again.spans == SPANS
    assert again == make_explanation()


def test_spans_cannot_be_set():
    e = make_explanation()
    with pytest.raises(AttributeError):
        e.spans = ()
    with pytest.raises(AttributeError):
        del e.spans
    assert e.spans == SPANS


@given(st.lists(st.integers(-1, 6), max_size=7), st.integers(0, 6))
def test_sizes_of_top_sets_increase_and_are_below_the_number_of_features(sizes, d):
    is_valid = all(0 < k < d for k in sizes) and sizes == sorted(set(sizes))
    if is_valid:
        check_top_sizes(tuple(sizes), d)
        return
    with pytest.raises(InputError, match="certain_tops must be increasing"):
        check_top_sizes(tuple(sizes), d)


def test_methods_share_the_spans_of_a_text():
    model = limelight.load()
    comparison = limelight.compare(model, "a great film, a great day", ["lime", "loo"])
    first, second = comparison.explanations
    assert first.spans is second.spans


def test_spans_that_are_found_late_are_checked(monkeypatch):
    e, again = make_explanation(), make_explanation()
    assert e.spans == SPANS
    monkeypatch.setattr(tokens_module, "_find_spans", lambda strings, _: ((0, 99),) * len(strings))
    with pytest.raises(InputError, match=r"inside the text of 17 characters, not \(0, 99\)"):
        _ = again.spans


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        (((0, 1), (2, 9)), "inside the text of 6 characters"),
        (((0, 1),), "2 tokens have 1 spans"),
    ],
)
def test_spans_of_tokens_that_a_model_has_passed_are_checked_at_once(spans, message):
    text = "a film"
    assert build_features(ModelInput(text, Tokens(("a", "film"), ((0, 1), (2, 6))))).spans
    with pytest.raises(InputError, match=message):
        build_features(ModelInput(text, Tokens(("a", "film"), spans)))
