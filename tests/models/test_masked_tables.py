"""Masks on the tables against the definition: change the text, then predict."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.models.attention import masked, tables
from limelight.models.attention.tables import predict_logits
from limelight.text import build_features
from limelight.theory.attention import unit_logits

from tiny_models import WORDS, tiny_model

assert_same = pytest.approx
words = st.sampled_from([*WORDS[:9], "never", "seen"])
short, long = (st.lists(words, min_size=a, max_size=b) for a, b in ((1, 12), (16, 29)))
texts = st.one_of(short, long).map(" ".join)  # the window holds 12
cases = {
    "text": texts,
    "seed": st.integers(0, 99),
    "outputs": st.sampled_from([1, 2, 5]),
    "kind": st.sampled_from(["words", "positions"]),
    "protect": st.sampled_from([(), ("w0", "never")]),
}


def rewritten_outputs(model, text, features, keep, protect, *, delete):
    """Oracle: rewrite the text word by word, then ask the model."""
    outputs = []
    for mask in keep:
        kept_words = {s for s, stays in zip(features.strings, mask, strict=True) if stays}
        new = []
        for t, word in enumerate(text.split()):
            inside = t < len(features.feature_index)
            if features.kind == "positions":
                stays = (
                    not inside or features.feature_index[t] < 0 or mask[features.feature_index[t]]
                )
            else:
                stays = word in protect or word in kept_words or word not in features.strings
            if stays or not delete:
                new.append(word if stays else "unheard-of")
        outputs.append(
            model.logits([" ".join(new)]) if new else model.logits_of_ids([np.empty(0, int)])
        )
    return np.concatenate(outputs)


def some_masks(d, seed):
    rng = np.random.default_rng(seed)
    keep = rng.random((7, d)) < rng.random((7, 1))
    keep[0], keep[1] = True, False
    return keep


def deletions(model, model_input, features, keep):
    """Return f of the masks by themselves and, by the table that many of them share, in a crowd."""
    game = model.game(model_input, features, "delete")
    return game(keep), game(np.tile(keep, (10, 1)))[: len(keep)]


def read_features(model, text, kind, protect):
    model_input = model.read(text)
    if not set(text.split()[: model.T_max - 1]) - set(protect):
        protect = ()
    return model_input, build_features(model_input, kind, protect=protect), protect


@given(**cases)
def test_replacement_is_the_prediction_of_the_changed_text(text, seed, outputs, kind, protect):
    model = tiny_model(seed, outputs=outputs)
    model_input, features, protect = read_features(model, text, kind, protect)
    keep = some_masks(len(features), seed)
    result = model.game(model_input, features, "unk")(keep)
    wanted = rewritten_outputs(model, text, features, keep, protect, delete=False)
    np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-9)


@given(**cases)
def test_deletion_is_the_prediction_of_the_shortened_text(text, seed, outputs, kind, protect):
    model = tiny_model(seed, outputs=outputs)
    model_input, features, protect = read_features(model, text, kind, protect)
    keep = some_masks(len(features), seed)
    wanted = rewritten_outputs(model, text, features, keep, protect, delete=True)
    for deletion in deletions(model, model_input, features, keep):
        np.testing.assert_allclose(deletion, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kept_words", [1 << 18, 0])
@pytest.mark.parametrize("count", [2, 11, 12, 20])
def test_deletion_is_the_same_with_hidden_units_and_for_texts_of_too_many_words(
    count, kept_words, monkeypatch
):
    monkeypatch.setattr(masked, "_MAX_TERMS", kept_words)
    w_a = np.random.default_rng(0).standard_normal(tiny_model(0).W_q.shape[:2])
    text = " ".join(WORDS[i % 7] for i in range(count))
    for model in (tiny_model(2, outputs=5), tiny_model(2, attention="additive", w_a=w_a)):
        model_input, features, _ = read_features(model, text, "words", ())
        keep = some_masks(len(features), count)
        wanted = rewritten_outputs(model, text, features, keep, (), delete=True)
        for deletion in deletions(model, model_input, features, keep):
            np.testing.assert_allclose(deletion, wanted, rtol=1e-9, atol=1e-9)


def test_hidden_units_are_evaluated_once_for_each_word_and_position(monkeypatch):
    request = []

    def count_call(given, weight):
        request.append(len(given))
        return unit_logits(given, weight)

    monkeypatch.setattr(tables, "unit_logits", count_call)
    w_a = np.random.default_rng(0).standard_normal(tiny_model(0).W_q.shape[:2])
    model = tiny_model(2, attention="additive", w_a=w_a)
    model_input = model.read("w1 w2 w3 w4 w5")
    features = build_features(model_input)
    game = model.game(model_input, features, "delete")
    for _ in range(3):
        game(np.tile(some_masks(len(features), 1), (10, 1)))
    assert sum(request) == (len(features) + 2) * model.T_max  # [cls] and UNK beside the words


def test_masks_of_a_peaked_model_are_predicted_only_where_nothing_counts(monkeypatch):
    predicted = []

    def counted(tables, windows):
        predicted.extend(windows)
        return predict_logits(tables, windows)

    monkeypatch.setattr(masked, "predict_logits", counted)
    text, model = " ".join(WORDS[:10]), with_logits(tiny_model(1), 2000.0)
    model_input = model.read(text)
    features = build_features(model_input)
    keep = np.random.default_rng(0).random((200, len(features))) < 0.9
    for replacement in ("unk", "delete"):
        predicted.clear()
        model.game(model_input, features, replacement)(keep)
        assert 0 < len(predicted) < len(keep) / 2


def test_words_cut_off_move_into_the_window_when_others_are_deleted():
    model = tiny_model(3)
    text = " ".join([*WORDS[:12], "w15", "w0", "w16"])
    model_input = model.read(text)
    features = build_features(model_input)
    assert (len(model_input.encoding.beyond), len(features)) == (3, 12)
    keep = np.ones((1, 12), bool)
    keep[0, :2] = False  # w0 inside the window, and its second occurrence beyond it
    game = model.game(model_input, features, "delete")
    shortened = model.vocabulary.encode([*WORDS[2:12], "w15", "w16"])
    np.testing.assert_allclose(game(keep), model.logits_of_ids([shortened]), rtol=1e-12)
    full = model.vocabulary.encode(WORDS[:12])  # what lies beyond the window is not read
    np.testing.assert_allclose(game(keep | True), model.logits_of_ids([full]), rtol=1e-12)


def test_deleting_and_replacing_differ():
    model = tiny_model(3)
    model_input = model.read("w1 w2 w3 w4")
    features = build_features(model_input)
    keep = np.array([[True, False, True, True]])
    deleted = model.game(model_input, features, "delete")(keep)
    assert deleted != assert_same(model.game(model_input, features, "unk")(keep), rel=1e-3)


def with_logits(model, spread):
    """The same model with the attention logits of its words spread out to ±``spread``."""
    scale = spread / np.abs(model.tables.word_logit).max()
    return replace(model, W_k=model.W_k * scale, position_scale=0.1)


@pytest.mark.parametrize("spread", [80.0, 2000.0])
@pytest.mark.parametrize("replacement", ["unk", "delete"])
def test_huge_logits_lose_no_digits(replacement, spread):
    text = " ".join(WORDS[:10])
    for seed in range(20):
        model = with_logits(tiny_model(seed), spread)
        model_input = model.read(text)
        features = build_features(model_input)
        keep = some_masks(len(features), seed)
        delete = replacement == "delete"
        wanted = rewritten_outputs(model, text, features, keep, (), delete=delete)
        result = model.game(model_input, features, replacement)(keep)
        np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-9)


def test_no_masks_give_no_outputs():
    model = tiny_model(0, outputs=5)
    model_input = model.read("w1 w2")
    for replacement in ("unk", "delete"):
        game = model.game(model_input, build_features(model_input), replacement)
        assert game(np.ones((0, 2), bool)).shape == (0, 5)
