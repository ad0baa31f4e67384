"""Rows of ids for masked texts, and the network's answers to them in either precision."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.models.engine import Engine
from limelight.models.hugging_face.subwords import MaskedText, Subwords, subword_features
from limelight.text import Features

torch = pytest.importorskip("torch")

from limelight.models.hugging_face.forward import MASKED_OUT, ForwardPass, stack_rows  # noqa: E402

from tiny_transformers import tiny  # noqa: E402

NOTHING = 1
# Which the rows of masks do not ask.
ENGINE = Engine(list, size=len, key=bytes, max_batch_size=1)
IDS = np.arange(5)[None]
FORWARD = ForwardPass(tiny("bert")[0], half=False, describe=str, example=lambda: IDS)


WORDS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 3)), min_size=1, max_size=7)


def pieces_and_features(words, before, after, room):
    """Words cut into so many pieces each, special ones around them; ``room`` pieces are read."""
    cut = [i for i, (_, pieces) in enumerate(words) for _ in range(pieces)]
    token = np.array([-1] * before + cut + [-1] * after)
    side = np.where(token < 0, -1, 0)
    strings = tuple(word for word, _ in words)
    ids = np.arange(10, 10 + len(token))
    pieces = Subwords(ids, token, side, strings, (0,) * len(strings), room)
    read = list(dict.fromkeys(cut[:room]))
    names = tuple(dict.fromkeys(strings[i] for i in read))
    feature_index = np.array([names.index(strings[i]) for i in read])
    return pieces, Features("words", names, tuple(() for _ in names), feature_index)


def one_by_one(pieces, features, keep, other):
    """The same rows by a loop over pieces: words kept, replaced or left out, then the window."""
    place = {name: j for j, name in enumerate(features.strings)}
    rows = []
    for mask in keep:
        body = []
        end = pieces.text_slice.stop
        for i in range(end):
            word = pieces.token[i]
            j = place.get(pieces.strings[word]) if word >= 0 else None
            if j is None or mask[j]:
                body.append(int(pieces.ids[i]))
            elif other is not None:
                body.append(other)
        body = body[: pieces.text_slice.start + pieces.room]
        rows.append(body + [int(x) for x in pieces.ids[end:]])
    return rows


@given(
    WORDS,
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(1, 9),
    st.data(),
    st.sampled_from([None, 7, MASKED_OUT]),
)
@settings(deadline=None)
def test_rows_of_masked_texts_are_those_of_a_loop_over_pieces(
    words, before, after, room, data, other
):
    pieces, features = pieces_and_features(words, before, after, room)
    bits = st.lists(st.booleans(), min_size=len(features), max_size=len(features))
    keep = np.array(data.draw(st.lists(bits, min_size=1, max_size=5)))
    masked = MaskedText(
        engine=ENGINE,
        forward=FORWARD,
        subwords=pieces,
        feature=subword_features(pieces, features),
        replacement_id=other,
        empty_id=NOTHING,
    )
    expected = one_by_one(pieces, features, keep, other)
    assert masked.sizes(keep).tolist() == [len(row) for row in expected]
    ids = masked.ids(keep)
    for row, wanted in zip(ids, expected, strict=True):
        wanted = wanted or [NOTHING]
        assert row[: len(wanted)].tolist() == wanted
        assert (row[len(wanted) :] == MASKED_OUT).all()


def test_shorter_rows_are_padded_to_a_rectangle():
    result = stack_rows([np.array([5, 6]), np.array([7])])
    assert result.tolist() == [[5, 6], [7, MASKED_OUT]]


def make_forward_pass(network, *, half):
    return ForwardPass(network, half=half, describe=str, example=lambda: IDS)


@pytest.fixture
def half_precision_network(monkeypatch):
    """A network whose outputs are computed by its copy in half precision, on any device."""
    network, _ = tiny("bert")
    passing = make_forward_pass(network, half=True)
    monkeypatch.setattr(passing, "_uses_half", True)
    return network, passing


IDS = np.array([[2, 5, 6, 3], [2, 7, 3, MASKED_OUT]])


def test_the_copy_in_half_precision_is_the_same_function_and_leaves_the_network_alone(
    half_precision_network,
):
    network, passing = half_precision_network
    single = make_forward_pass(network, half=False)(IDS)
    passing.refresh()
    half = passing(IDS)
    assert {p.dtype for p in network.parameters()} == {torch.float32}
    assert (half != single).any()  # the control: it is another arithmetic
    np.testing.assert_allclose(half, single, atol=5e-3)


def test_the_copy_is_made_again_when_weights_change(half_precision_network):
    network, passing = half_precision_network
    passing.refresh()
    before, copied = passing(IDS), passing._half_network
    assert copied is not None
    passing.refresh()
    assert passing._half_network is copied
    with torch.no_grad():
        network.classifier.bias += 1.0
    passing.refresh()
    np.testing.assert_allclose(passing(IDS) - before, 1.0, atol=5e-3)


def test_a_network_too_large_for_half_precision_runs_in_single_precision(half_precision_network):
    network, passing = half_precision_network
    with torch.no_grad():
        network.classifier.weight *= 1e6
    passing.refresh()
    assert passing._half_network is None
    np.testing.assert_array_equal(passing(IDS), make_forward_pass(network, half=False)(IDS))
