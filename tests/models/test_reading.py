"""Texts that are tokenized and read together are read as each of them alone."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

import limelight
from limelight import InputError
from limelight.models.hugging_face.subwords import (
    encode_texts,
    read_subwords,
    read_texts,
    split_texts,
)

from tiny_transformers import tiny

CORPUS = [
    "a superb film, and the film isn't bad",
    "naïve cafés",
    "中文字 日本語",
    "👍🏽 🇩🇪🇫🇷 👨‍👩‍👧",
]
NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [
    *("film", "superb", "Film", "isn't", ".", "<br />", "a" * 20, "[SEP]", "[MASK]", "\x00"),
    *(" ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u200d", "e\u0301", "é", "İ", "Σ"),
    *("中文字", "日本語", "ไทย", "👍🏽", "🇩🇪🇫🇷", "👨‍👩‍👧", "\u0301"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def train(model, trainer, pre_tokenizer=None, normalizer=None):
    tokenizer = Tokenizer(model)
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(CORPUS, trainer)
    marks = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=marks
    )
    return tokenizer


def make_tokenizer(kind, base=PreTrainedTokenizerFast, **settings):
    options = {"special_tokens": NAMES, "show_progress": False, "vocab_size": 400}
    if kind == "WordPiece":
        model, trainer = models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(**options)
        parts = pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer()
    elif kind == "bytes":
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        model, trainer = models.BPE(), trainers.BpeTrainer(initial_alphabet=alphabet, **options)
        parts = (pre_tokenizers.ByteLevel(add_prefix_space=False),)
    elif kind == "Unigram":
        model = models.Unigram()
        trainer = trainers.UnigramTrainer(unk_token="[UNK]", **options)
        parts = pre_tokenizers.Metaspace(), normalizers.NFKC()
    else:  # the whole text is one word of the tokenizer
        model, trainer = models.BPE(unk_token="[UNK]"), trainers.BpeTrainer(**options)
        parts = ()
    names = {f"{name[1:-1].lower()}_token": name for name in NAMES}
    names["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    return base(tokenizer_object=train(model, trainer, *parts), **names, **settings)


KINDS = ("WordPiece", "bytes", "Unigram", "whole")
TOKENIZERS = {kind: make_tokenizer(kind) for kind in KINDS}


def columns(encoding):
    return (
        *(encoding.ids, encoding.type_ids, encoding.word_ids, encoding.sequence_ids),
        *(encoding.offsets, encoding.special_tokens_mask, encoding.tokens),
    )


def call_tokenizer(tokenizer, texts):
    """Tokenize as transformers documents it."""
    sides = zip(*texts, strict=True) if isinstance(texts[0], tuple) else [texts]
    return tokenizer(*map(list, sides), truncation=False, verbose=False).encodings


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splits_special", [False, True])
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), second=TEXTS)
@settings(max_examples=15, deadline=None)
def test_texts_are_tokenized_as_a_call_of_the_tokenizer_does(kind, splits_special, texts, second):
    tokenizer = TOKENIZERS[kind]
    tokenizer.split_special_tokens = splits_special
    pairs = [(text, second) for text in texts]
    for inputs in (texts, pairs):
        expected = [columns(encoding) for encoding in call_tokenizer(tokenizer, inputs)]
        # The user's own calls leave such settings behind.
        tokenizer.backend_tokenizer.enable_truncation(max_length=4)
        tokenizer.backend_tokenizer.enable_padding(length=9)
        tokenizer.backend_tokenizer.encode_special_tokens = not splits_special
        state = tokenizer.backend_tokenizer.truncation, tokenizer.backend_tokenizer.padding
        assert [columns(encoding) for encoding in encode_texts(tokenizer, inputs)] == expected
        backend = tokenizer.backend_tokenizer
        assert (backend.truncation, backend.padding) == state
        assert backend.encode_special_tokens is splits_special


@pytest.mark.parametrize("kind", ["WordPiece", "bytes", "whole"])
def test_special_tokens_in_a_text_are_split_only_if_the_tokenizer_says_so(kind):
    results = []
    for splits_special in (False, True):
        tokenizer = make_tokenizer(kind, split_special_tokens=splits_special)
        (encoding,) = encode_texts(tokenizer, ["a [SEP] film"])
        assert columns(encoding) == columns(call_tokenizer(tokenizer, ["a [SEP] film"])[0])
        results.append(encoding.ids)
    assert results[0] != results[1]


class OwnCall(PreTrainedTokenizerFast):
    def __call__(self, *texts, **options):
        return super().__call__(*[[text.upper() for text in side] for side in texts], **options)


class OwnEncoding(PreTrainedTokenizerFast):
    def _encode_plus(self, text, **options):
        return super()._encode_plus([line.upper() for line in text], **options)


class OwnMode(PreTrainedTokenizerFast):
    def _switch_to_input_mode(self):
        self.backend_tokenizer.normalizer = normalizers.Replace("f", "F")


@pytest.mark.parametrize("base", [OwnCall, OwnEncoding, OwnMode])
def test_a_tokenizer_with_its_own_methods_is_called_itself(base):
    tokenizer = make_tokenizer("bytes", base)
    (encoding,) = encode_texts(tokenizer, ["film"])
    assert encoding.tokens == call_tokenizer(tokenizer, ["film"])[0].tokens
    assert "F" in "".join(encoding.tokens)
    plain = make_tokenizer("bytes")
    assert "F" not in "".join(encode_texts(plain, ["film"])[0].tokens)
    # A method may also be replaced on the tokenizer itself.
    plain._encode_plus = tokenizer._encode_plus
    assert encode_texts(plain, ["film"])[0].tokens == call_tokenizer(plain, ["film"])[0].tokens


def assert_same_reading(reading, other):
    (subwords, spans), (other_subwords, other_spans) = reading, other
    assert spans == other_spans
    for field in dataclasses.fields(subwords):
        values = getattr(subwords, field.name), getattr(other_subwords, field.name)
        np.testing.assert_array_equal(*values, err_msg=field.name)
    np.testing.assert_array_equal(subwords.read_row, other_subwords.read_row)
    np.testing.assert_array_equal(subwords.read_row, subwords.row[subwords.read_indices])
    read_tokens = subwords.token[subwords.read_indices]
    assert subwords.read_word_count == 1 + max(read_tokens.tolist(), default=-1)


@pytest.mark.parametrize("kind", KINDS)
@given(
    texts=st.lists(TEXTS, min_size=2, max_size=6),
    limit=st.sampled_from([4, 9, 1 << 62]),
    per_subword=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_texts_are_read_together_as_alone(kind, texts, limit, per_subword):
    tokenizer, options = TOKENIZERS[kind], {"limit": limit, "per_subword": per_subword}
    pairs = list(zip(texts, reversed(texts), strict=True))
    for inputs in (texts, pairs):
        readings = read_texts(tokenizer, inputs, **options)
        for text, reading in zip(inputs, readings, strict=True):
            assert_same_reading(reading, read_subwords(tokenizer, text, **options))


@pytest.mark.parametrize("kind", KINDS)
def test_another_text_is_read_differently(kind):
    readings = read_texts(TOKENIZERS[kind], ["a film", "a superb film"], limit=99)
    with pytest.raises(AssertionError):
        assert_same_reading(*readings)


@given(text=TEXTS)
@settings(max_examples=200, deadline=None)
def test_every_visible_character_of_a_read_text_is_in_one_span(text):
    # Byte-level tokenizers leave no character out.
    ((_, spans),) = read_texts(TOKENIZERS["bytes"], [text], limit=1 << 62)
    covered = [position for start, end in spans for position in range(start, end)]
    assert len(set(covered)) == len(covered)
    marks = [name for name in NAMES if name in text]
    if not marks:
        assert {i for i, letter in enumerate(text) if not letter.isspace()} <= set(covered)


def test_an_invalid_text_raises_its_error_after_the_texts_before_it():
    network, tokenizer = tiny("bert")
    model = limelight.wrap(network, tokenizer=tokenizer)
    reader = model.read_batch(["a film", "bad \ud800 film", "superb"])
    assert next(reader).tokens.strings == ("a", "film")
    with pytest.raises(InputError, match="lone surrogates"):
        next(reader)
    with pytest.raises(InputError, match="has no words"):
        list(model.read_batch(["a film", " "]))


def test_texts_are_split_into_parts_of_one_kind_and_of_bounded_size():
    pair = ("a", "b")
    texts = ["a", "b", pair, pair, 3, 3, "c"]
    assert list(split_texts(texts)) == [["a", "b"], [pair, pair], [3], [3], ["c"]]
    assert [len(part) for part in split_texts(["a"] * 600)] == [256, 256, 88]
    long = "a" * (1 << 19)
    assert [len(part) for part in split_texts([long, long, "a", long * 3, long])] == [2, 1, 1, 1]
    assert list(split_texts([])) == []
