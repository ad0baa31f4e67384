import numpy as np
import pytest
import torch

from limelight.models.attention import padded_ids
from limelight.training import AttentionModule
from limelight.training.module import drop_words, dropout_mask, keep_probability
from limelight_reproduction.one_layer.full_attention import FullAttention

from tiny_models import SIZES, random_texts, tiny_model

TEXTS = random_texts(29)
PRECISION = {torch.float32: 1e-5, torch.float64: 1e-12}


def token_ids(model, texts=TEXTS):
    rows = [model.read(text).encoding.ids for text in texts]
    return torch.from_numpy(padded_ids(rows, T_max=model.T_max))


@pytest.mark.parametrize("module", [AttentionModule, FullAttention])
@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_numpy_and_torch_agree(module, dtype, outputs, seed):
    model = tiny_model(seed, outputs=outputs, scale=0.5, position_scale=0.3, position_base=13.0)
    logits = module.from_classifier(model, dtype=dtype)(token_ids(model)).detach().numpy()
    assert logits.shape == (len(TEXTS), outputs)
    np.testing.assert_allclose(logits, model.logits(TEXTS), rtol=0, atol=PRECISION[dtype])


def test_the_comparison_can_fail():
    model = tiny_model(scale=0.5)
    module = AttentionModule.from_classifier(model, dtype=torch.float64)
    with torch.no_grad():
        module.W_v[2, 10, 6] += 1e-6
    logits = module(token_ids(model)).detach().numpy()
    assert np.abs(logits - model.logits(TEXTS)).max() > 1e-10


def test_both_ways_of_reading_words_give_the_same_gradients():
    """A batch with fewer tokens than there are words takes the other branch."""
    model = tiny_model(outputs=2, V=1009, scale=0.5)
    ids = token_ids(model)
    assert ids.numel() < 1009
    gradients = []
    for batch in (ids, ids.repeat(3, 1)):
        module = AttentionModule.from_classifier(model, dtype=torch.float64)
        (module(batch)[: len(ids)] * torch.arange(2)).sum().backward()
        gradients.append({n: p.grad.numpy() for n, p in module.named_parameters()})
    for name, gradient in gradients[0].items():
        np.testing.assert_allclose(gradient, gradients[1][name], atol=1e-12, err_msg=name)


def test_gradients_are_those_of_full_attention():
    model = tiny_model(outputs=2, V=1009, scale=0.5)
    modules = [
        kind.from_classifier(model, dtype=torch.float64)
        for kind in (AttentionModule, FullAttention)
    ]
    for module in modules:
        (module(token_ids(model)) * torch.tensor([1.0, -2.0])).square().sum().backward()
    ours, full = modules
    K, d_e = SIZES["K"], SIZES["d_e"]
    pairs = {
        "embedding": (ours.embedding.grad, full.embedding.weight.grad),
        "W_q": (ours.W_q.grad.reshape(-1, d_e), full.query.weight.grad),
        "W_k": (ours.W_k.grad.reshape(-1, d_e), full.key.weight.grad),
        "W_v": (ours.W_v.grad.reshape(-1, d_e), full.value.weight.grad),
        "W_l": (torch.cat(list(ours.W_l.grad), dim=1), full.output.weight.grad),
    }
    for name, (got, wanted) in pairs.items():
        np.testing.assert_allclose(got, wanted, atol=1e-10, err_msg=name)
        assert wanted.abs().max() > 1e-3, f"{name} has no gradient to compare"
    assert len(ours.W_l) == K


def test_the_gradient_under_dropout_is_that_of_the_masked_embedding():
    model = tiny_model(V=1009, scale=0.5)
    ids = token_ids(model)
    module = AttentionModule.from_classifier(model, dtype=torch.float64)
    module(ids, dropout=0.25, rng=np.random.default_rng(5)).sum().backward()
    plain = FullAttention.from_classifier(model, dtype=torch.float64)
    shape = (*ids.shape, SIZES["d_e"])
    keep = dropout_mask(shape, 0.25, rng=np.random.default_rng(5), device="cpu").double()
    keep /= keep_probability(0.25)
    words = plain.embedding(ids) * keep + plain.positions
    clean = plain.embedding(ids[:, :1]) + plain.positions[:1]  # the query is never masked
    q, k, v = (
        part.unflatten(-1, (SIZES["K"], -1)).transpose(1, 2)
        for part in (plain.query(clean), plain.key(words), plain.value(words))
    )
    heads = torch.softmax(q @ k.transpose(-1, -2) / SIZES["d_att"] ** 0.5, dim=-1) @ v
    (plain.output(heads[:, :, 0].flatten(1)) / SIZES["K"]).sum().backward()
    np.testing.assert_allclose(module.embedding.grad, plain.embedding.weight.grad, atol=1e-10)


def test_a_module_returns_to_the_same_classifier():
    model = tiny_model(outputs=2, dtype="float32", position_scale=0.25, record={"note": 1})
    module = AttentionModule.from_classifier(model)
    back = module.to_classifier(model.vocabulary, model.classes, record=model.record)
    assert back.fingerprint == model.fingerprint


def test_masks_keep_the_share_they_promise():
    for dropout in (0.25, 0.5, 0.6):
        mask = dropout_mask((1000, 100), dropout, rng=np.random.default_rng(0), device="cpu")
        share = keep_probability(dropout)
        assert abs(float(mask.mean()) - share) < 5 * np.sqrt(share * (1 - share) / 1e5)
        assert abs(share - (1 - dropout)) <= 1 / 512


def test_lost_words_become_unk_and_cls_stays():
    ids = torch.arange(2, 1002).reshape(10, 100)
    ids[:, 0] = 0
    lost = drop_words(ids, 0.3, rng=np.random.default_rng(0))
    changed = (lost != ids).numpy()
    assert not changed[:, 0].any()
    assert (lost.numpy()[changed] == 1).all()
    assert abs(changed[:, 1:].mean() - 0.3) < 5 * np.sqrt(0.21 / 990)
