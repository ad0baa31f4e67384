"""Capabilities decide which methods a model gets, and a refusal prints its sentence."""

import numpy as np
import pytest

import limelight
from limelight.errors import InputError
from limelight.explainers import METHODS, AlphaAvg, Lime, Shapley, usable_methods
from limelight.models import Function, reason_missing
from limelight.models.protocol import get_property

from known import BY_ASKING, DEEP
from tiny_models import tiny_model

FUNCTION = limelight.wrap(lambda texts: np.full((len(texts), 2), 0.5), classes=["a", "b"])


def transformer():
    pytest.importorskip("torch")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    return limelight.wrap(network, tokenizer=tokenizer)


def test_each_family_gets_the_methods_of_its_capabilities():
    assert usable_methods(tiny_model()) == list(METHODS)
    assert usable_methods(FUNCTION) == [*BY_ASKING]
    assert usable_methods(transformer()) == DEEP


def test_the_table_for_a_model_says_how_or_why_not():
    table = limelight.methods(FUNCTION)
    assert table["lime"].implementations[0].exactness == "sampled"
    assert "samples" in [setting.name for setting in table["lime"].implementations[0].settings]
    assert table["lime"].cost == (
        "one model call per sample, because a function returns only outputs"
    )
    assert limelight.methods(tiny_model())["lime"].cost.startswith("milliseconds, exact")
    assert table["gxi"].implementations == ()
    assert table["gxi"].reason_unavailable == (
        "method 'gxi' needs gradients, but a function returns only outputs."
    )
    exact = limelight.methods(tiny_model())["lime"].implementations[0]
    assert (exact.needs, exact.exactness) == ("exact_game", "bound")
    assert {s.name: s.default for s in exact.settings}["tolerance"] == 1e-6
    assert {s.name: s.default for s in table["lime"].implementations[0].settings}[
        "tolerance"
    ] is None


def test_tolerance_means_one_thing_per_way_and_the_table_says_which():
    for row in limelight.methods():
        for implementation in row.implementations:
            for setting in implementation.settings:
                if setting.name == "tolerance":
                    sampled = "standard error" in setting.meaning
                    assert sampled == (implementation.exactness == "sampled"), (
                        row.id,
                        setting.meaning,
                    )


def test_a_capability_may_be_withdrawn_from_one_instance(monkeypatch):
    value, other = transformer(), transformer()
    why = "its attention rows do not add up to one"
    monkeypatch.setitem(vars(value), "capabilities", {**value.capabilities, "attention": why})
    assert limelight.explain(other, "a good film", "alpha-avg").method == "alpha-avg"
    with pytest.raises(InputError) as error:
        limelight.explain(value, "a good film", "alpha-avg")
    assert str(error.value) == (
        "method 'alpha-avg' needs attention weights, but its attention rows do not add up to one. "
        "Use 'shapley', 'lime' or 'loo'."
    )
    assert limelight.explain(value, "a good film", "gxi").method == "gxi"


def test_a_capability_that_nobody_mentions_is_not_there(monkeypatch):
    monkeypatch.setitem(vars(FUNCTION), "capabilities", {})
    assert reason_missing(FUNCTION, "attention") == "Function does not support this"


def test_settings_objects_take_the_place_of_names():
    model = tiny_model(2)
    by_name = limelight.explain(model, "w1 w2 w3", "lime", bandwidth=0.5)
    assert limelight.explain(model, "w1 w2 w3", Lime(bandwidth=0.5)) == by_name
    c = limelight.compare(model, "w1 w2 w3", methods=[Lime(bandwidth=0.5), "gxi"])
    assert c["lime"] == by_name
    with pytest.raises(
        InputError, match=r"by name or in Lime\(…\), not both\. Move 'bandwidth' into"
    ):
        limelight.explain(model, "w1 w2 w3", Lime(), bandwidth=0.5)
    with pytest.raises(InputError, match="the setting 'pairs' of method 'shapley' has no effect"):
        limelight.explain(model, "w1 w2 w3", Shapley(pairs=3))
    with pytest.raises(InputError, match="the setting 'layer' of method 'alpha-avg' has no effect"):
        limelight.explain(model, "w1 w2 w3", AlphaAvg(layer=0))
    with pytest.raises(InputError, match="unknown method: 7"):
        limelight.explain(model, "w1 w2 w3", 7)


def test_a_game_is_the_model_on_masked_texts():
    model = tiny_model(2, outputs=3)
    game = limelight.game(model, "w1 w2 w3 w1", replacement="delete")
    assert (len(game), game.features, game.replacement) == (3, ("w1", "w2", "w3"), "delete")
    result = game([[True, True, True], [False, True, True]])
    np.testing.assert_allclose(result, model.logits(["w1 w2 w3 w1", "w2 w3"]), rtol=1e-12)
    np.testing.assert_allclose(game(np.array([[0, 1, 1]])), result[1:])
    with pytest.raises(InputError, match=r"booleans of the shape \(n, 3\), true where a feature"):
        game([[True, True]])


def test_scores_have_games_too():
    model = limelight.wrap(
        lambda texts: np.array([[float(len(t))] for t in texts]), classes=["length"], scale="score"
    )
    assert limelight.game(model, "one two")([[True, False]]).tolist() == [[4.0]]


def test_several_texts_are_a_list_and_a_tuple_raises_an_error():
    with pytest.raises(InputError, match="a pair of texts needs a model that reads pairs of texts"):
        limelight.explain(tiny_model(), ("w1 w2", "w3"))
    assert len(limelight.explain(tiny_model(), np.array(["w1 w2", "w3"]), "gxi")) == 2


def test_a_claimed_capability_must_be_there(monkeypatch):
    monkeypatch.setitem(vars(FUNCTION), "capabilities", {"gradients": None})
    with pytest.raises(InputError) as error:
        limelight.explain(FUNCTION, "w1 w2", "gxi")
    assert str(error.value) == (
        "Function claims the capability 'gradients', but lacks token_positions, embed, gradients."
    )
    monkeypatch.setitem(vars(FUNCTION), "capabilities", {"attend": None})
    with pytest.raises(InputError, match="unknown capability: 'attend'"):
        limelight.explain(FUNCTION, "w1 w2", "loo")


def test_outputs_must_fit_the_classes(monkeypatch):
    monkeypatch.setattr(Function, "outputs", lambda *_: np.zeros((1, 3)))
    with pytest.raises(InputError, match=r"must have the shape \(1, 2\), not \(1, 3\)"):
        limelight.explain(FUNCTION, "w1 w2", "loo")


def test_settings_objects_are_checked_like_keywords():
    with pytest.raises(
        InputError, match=r"settings must be an object, not a class. Write Lime\(\)."
    ):
        limelight.explain(FUNCTION, "w1 w2 w3", Lime)
    e = limelight.explain(tiny_model(2), "w1 w2 w3", "lime", bandwidth=np.float32(0.5))
    assert e.settings["bandwidth"] == 0.5


def test_attention_matrices_are_drawn_where_there_are_tables():
    assert limelight.compare(tiny_model(), "w1 w2", attention=True).attention is not None
    assert limelight.compare(FUNCTION, "w1 w2", attention=True).attention is None


def test_an_error_inside_a_property_of_a_model_is_not_taken_for_a_missing_property():
    class Broken(Function):
        @property
        def shuffle_weights(self):
            return self.no_such_member

    with pytest.raises(AttributeError, match="no_such_member"):
        get_property(Broken.__new__(Broken), "shuffle_weights")
    assert get_property(object(), "shuffle_weights") is None
