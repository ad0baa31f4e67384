"""Several texts asked together are answered as each is alone."""

import numpy as np
import pytest

from limelight.models.engine import joint_outputs

pytest.importorskip("transformers", reason="transformers is not installed")

from limelight.explainers import prepare_batch
from limelight.models import wrap
from limelight.models.text_game import TextGame

from tiny_transformers import tiny

TEXTS = ["a good film", "what a bad , bad story it was", "one two three four five"]


@pytest.fixture(scope="module")
def model():
    network, tokenizer = tiny("bert", labels=3)
    return wrap(network, tokenizer=tokenizer)


def games(model, replacement):
    batches = [prepare_batch(model, [text], target=0) for text in TEXTS]
    return [batch.game(replacement) for batch in batches]


def draw_masks(several, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.random((n, len(game))) < 0.6 for game, n in zip(several, (5, 1, 7), strict=True)]


@pytest.mark.parametrize("replacement", ["mask", "delete"])
def test_joint_answers_are_the_answers_of_each(model, replacement):
    values = games(model, replacement)
    masks = draw_masks(values)
    before = model.engine.calls
    result = joint_outputs([game._call_model for game in values], masks)
    assert model.engine.calls == before + 1
    for game, keep, answers in zip(values, masks, result, strict=True):
        np.testing.assert_allclose(answers, game(keep), rtol=1e-4, atol=1e-5)
    assert not np.allclose(result[0][0], result[1][0])


def test_outputs_computed_ahead_are_not_computed_again(model):
    values = games(model, "mask")
    masks = draw_masks(values, seed=1)
    TextGame.precompute_outputs(values, masks)
    for game in values:
        assert game.rejects_empty is False
    before = model.engine.items
    answers = [game(keep) for game, keep in zip(values, masks, strict=True)]
    assert model.engine.items == before
    fresh = games(model, "mask")
    for game, keep, answer in zip(fresh, masks, answers, strict=True):
        np.testing.assert_allclose(answer, game(keep), rtol=1e-4, atol=1e-5)


def test_functions_are_called_for_single_texts():
    model = wrap(
        lambda texts: [[1.0 * len(t), 0.0] for t in texts], classes=["a", "b"], scale="logit"
    )
    values = games(model, "delete")
    assert joint_outputs([game._call_model for game in values], draw_masks(values)) is None
    TextGame.precompute_outputs(values, draw_masks(values))
    assert all(not game._cache for game in values)
