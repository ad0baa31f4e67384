"""Gradients of deep models against captum, which differentiates the same model another way."""

from functools import cache

import numpy as np
import pytest
import torch
from captum.attr import LayerGradientXActivation, LayerIntegratedGradients, Saliency

import limelight
from limelight.text import build_features

from tiny_transformers import FAMILIES, tiny

TEXT = "a superb film but the plot is predictable ."
TARGET = 1
families = pytest.mark.parametrize("family", FAMILIES)


@cache
def load_model(family):
    """Shared: wrapping checks a network, and no test here changes it."""
    model, tokenizer = tiny(family)
    return limelight.wrap(model, tokenizer=tokenizer)


def token_ids(model):
    pieces = model.read(TEXT).encoding
    return torch.tensor(pieces.ids[pieces.read_indices][None])


def sum_by_word(model, scores):
    """Sum scores of pieces over the words of the text (no word repeats)."""
    pieces = model.read(TEXT).encoding
    token = pieces.token[pieces.read_indices]
    return np.array([scores[token == j].sum() for j in range(token.max() + 1)])


def gradient(model):
    """Captum's gradient at the embedded text."""
    e = model.network.get_input_embeddings()(token_ids(model)).detach().requires_grad_()

    def forward(embedded):
        return model.network(inputs_embeds=embedded).logits

    return Saliency(forward).attribute(e, target=TARGET, abs=False)[0].double().numpy()


def scores(model, method, **settings):
    return limelight.explain(
        model, TEXT, method, target=TARGET, features="positions", **settings
    ).scores


@families
def test_gradients_are_captums(family):
    model = load_model(family)
    G = gradient(model)
    size = np.abs(G).max()
    norm = {
        "g-l1": np.abs(G).sum(axis=1),
        "g-l2": np.sqrt((G**2).sum(axis=1)),
        "g-avg": G.mean(axis=1),
    }
    for method, expected in norm.items():
        np.testing.assert_allclose(
            scores(model, method), sum_by_word(model, expected), rtol=1e-5, atol=1e-5 * size
        )


@families
def test_gradient_times_input_is_captums(family):
    model = load_model(family)
    forward = lambda ids: model.network(input_ids=ids).logits  # noqa: E731
    layer = LayerGradientXActivation(forward, model.network.get_input_embeddings())
    product = layer.attribute(token_ids(model), target=TARGET)[0].sum(-1).detach().double().numpy()
    np.testing.assert_allclose(
        scores(model, "gxi"),
        sum_by_word(model, product),
        rtol=1e-5,
        atol=1e-5 * np.abs(product).max(),
    )


@families
def test_integrated_gradients_are_captums(family):
    model = load_model(family)
    ids = token_ids(model)
    token = model.read(TEXT).encoding.token
    remainder = "pad" if family == "gpt2" else "mask"
    other = getattr(model.tokenizer, f"{remainder}_token_id")
    base = torch.where(torch.tensor(token[None] >= 0), other, ids)
    forward = lambda ids: model.network(input_ids=ids).logits  # noqa: E731
    layer = LayerIntegratedGradients(forward, model.network.get_input_embeddings())
    expected = layer.attribute(
        ids, baselines=base, target=TARGET, n_steps=16, method="gausslegendre"
    )
    product = expected[0].sum(-1).detach().double().numpy()
    ours = scores(model, "ig", steps=16, max_steps=16, replacement=remainder)
    np.testing.assert_allclose(
        ours, sum_by_word(model, product), rtol=1e-5, atol=1e-5 * np.abs(product).max()
    )
    assert np.abs(ours).max() > 1e-3


@pytest.mark.parametrize(
    ("family", "changes", "advice"),
    [
        ("bert", {}, "Use replacement 'mask' or 'unk' or 'pad'."),
        ("gpt2", {}, "Use replacement 'pad'."),
        ("gpt2", {"pad_token_id": None}, "Use 'lime' or 'shapley'."),
    ],
)
def test_integrated_gradients_cannot_delete_and_name_the_tokens_there_are(family, changes, advice):
    network, tokenizer = tiny(family, **changes)
    model = limelight.wrap(network, tokenizer=tokenizer)
    with pytest.raises(limelight.InputError) as error:
        limelight.explain(model, TEXT, "ig", replacement="delete")
    assert str(error.value) == (f"integrated gradients replace each word by a token. {advice}")


def test_integrated_gradients_add_up():
    model = load_model("bert")
    e = limelight.explain(model, TEXT, "ig", target=TARGET, tolerance=1e-3)
    change = e.prediction["LABEL_1"] - e.base_value
    assert abs(e.scores.sum() - change) <= 1e-3 * abs(change) + 1e-6
    assert not e.warnings
    rough = limelight.explain(model, TEXT, "ig", target=TARGET, steps=1, max_steps=1)
    gap = abs(rough.scores.sum() - change)
    assert gap > 0.1 * abs(change)
    assert rough.diagnostics["completeness_gap"] == pytest.approx(gap, rel=1e-3)
    assert "did not converge to 1.0%" in rough.warnings[-1]
    assert f"and their sum by {gap:.1g} " in rough.warnings[-1]
    assert rough.warnings[-1].endswith("Raise max_steps or the budget.")


@families
def test_every_score_of_integrated_gradients_has_an_estimated_error(family):
    model = load_model(family)
    exact = scores(model, "ig", steps=128, max_steps=128)
    largest = []
    for steps in (16, 48):
        e = limelight.explain(model, TEXT, "ig", target=TARGET, steps=steps, max_steps=steps)
        errors = np.array(e.diagnostics["score_errors"])
        assert errors.shape == e.scores.shape == exact.shape
        off, rounding = np.abs(e.scores - exact), 1e-5 * np.abs(exact).max()  # single precision
        assert (off <= errors + rounding).mean() >= 0.75  # estimates, of wild random networks
        assert off.max() <= errors.max() + rounding
        largest.append(errors.max())
    assert largest[1] < largest[0]


def test_scores_that_change_with_half_of_the_points_have_a_warning():
    e = limelight.explain(load_model("bert"), TEXT, "ig", target=TARGET, steps=2, max_steps=2)
    worst, largest = max(e.diagnostics["score_errors"]) / 3, np.abs(e.scores).max()
    assert worst > 0.01 * largest
    assert e.warnings[0].startswith(
        "Integrated gradients did not converge to 1.0%: scores may be off by "
        f"{worst:.2g} (largest score {largest:.2g})"
    )
    assert e.warnings[0].endswith("Raise max_steps or the budget.")


@pytest.mark.parametrize("most", [16, 256])
def test_two_scores_whose_errors_cancel_in_the_sum_are_noticed(monkeypatch, most):
    """What one word gains on the way another loses: all adds up, and two scores are wrong."""
    model = load_model("bert")
    model_input = model.read(TEXT)
    start, end = (
        model.embed(model_input, *more) for more in ((build_features(model_input), "mask"), ())
    )
    way, ask = end - start, model.gradients
    gains, loses = (int(np.flatnonzero(model.token_positions(model_input) == j)[0]) for j in (1, 4))

    def gradients(model_input, points, weigh):
        result = ask(model_input, points, weigh)
        x = ((points - start)[:, gains] @ way[gains]) / (way[gains] @ way[gains])
        bump, gradient = 40 * np.exp(-(((x - 0.45) / 0.04) ** 2)), result.gradient.copy()
        for sign, place in ((1, gains), (-1, loses)):
            gradient[:, place] += sign * bump[:, None] * way[place] / (way[place] @ way[place])
        return result._replace(gradient=gradient)

    plain = limelight.explain(model, TEXT, "ig", target=TARGET, max_steps=256)
    monkeypatch.setattr(type(model), "gradients", lambda _, *arguments: gradients(*arguments))
    e = limelight.explain(model, TEXT, "ig", target=TARGET, max_steps=most)
    added, area = e.scores - plain.scores, 40 * 0.04 * np.sqrt(np.pi)
    off = max(abs(added[1] - area), abs(added[4] + area))
    assert e.diagnostics["completeness_gap"] <= 0.02 * abs(e.scores.sum())
    has_warning = any("did not converge" in warning for warning in e.warnings)
    assert has_warning == (most == 16)
    assert (off > 0.01 * np.abs(e.scores).max()) == has_warning


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_attention_to_padding_gives_a_warning_that_is_true(family):
    """Where the way begins, against the network itself: padding in every place, none masked."""
    model = load_model(family)
    e = limelight.explain(model, TEXT, "ig", target=TARGET, replacement="pad")
    (warning,) = [warning for warning in e.warnings if "padding" in warning]
    assert warning == (
        "Integrated gradients move words to the padding embedding, which other words still attend "
        "to. To mask removed words out, use 'lime', 'shapley' or 'loo' with replacement='pad'."
    )
    arguments, pieces = token_ids(model), model.read(TEXT).encoding
    arguments[0, pieces.token[pieces.read_indices] >= 0] = model.network.config.pad_token_id
    embedded = model.network.get_input_embeddings()(arguments)
    with torch.no_grad():
        base = model.network(inputs_embeds=embedded).logits[0, TARGET]
    assert e.base_value == pytest.approx(float(base), abs=1e-4)
    model_input = model.read(TEXT)
    masked = model.game(model_input, build_features(model_input), "pad")
    empty = masked(np.zeros((1, len(model_input.tokens)), bool))[0, TARGET]
    assert abs(e.base_value - empty) > 1e-2


def test_other_ways_say_nothing_of_padding():
    e = limelight.explain(load_model("bert"), TEXT, "ig", target=TARGET)
    assert not any("padding" in warning for warning in e.warnings)


def test_probabilities_have_gradients_too():
    model = load_model("bert")
    e = model.network.get_input_embeddings()(token_ids(model)).detach().requires_grad_()
    chance = model.network(inputs_embeds=e).logits.softmax(-1)[0, TARGET]
    (G,) = torch.autograd.grad(chance, e)
    product = (G * e)[0].sum(-1).detach().double().numpy()
    explanation = limelight.explain(
        model, TEXT, "gxi", target=TARGET, scale="probability", features="positions"
    )
    np.testing.assert_allclose(
        explanation.scores, sum_by_word(model, product), rtol=1e-4, atol=1e-7
    )


def test_a_mean_gradient_of_rounding_errors_gives_a_warning():
    e = limelight.explain(load_model("bert"), TEXT, "g-avg")
    assert "these scores are rounding errors" in e.warnings[-1]
    assert not limelight.explain(load_model("bert"), TEXT, "g-l2").warnings
