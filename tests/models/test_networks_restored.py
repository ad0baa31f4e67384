"""Whatever is asked of a network, and however it ends: it comes back as it was."""

import numpy as np
import pytest
import torch

import limelight

from known import CHEAP, DEEP
from tiny_transformers import FAMILIES, tiny, unusual

TEXT = "A superb film, but the plot is PREDICTABLE. Superb!"
HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def load_model(family="bert"):
    network, tokenizer = tiny(family)
    return limelight.wrap(network, tokenizer=tokenizer)


def half_trained(family="bert"):
    """A model in a state of its own: modes, frozen weights, gradients, hooks and options mixed."""
    model = load_model(family)
    network = model.network
    network.train()
    next(network.children()).eval()
    first, second, *_ = network.parameters()
    first.requires_grad_(False)
    second.grad = torch.ones_like(second)
    next(network.children()).register_forward_hook(lambda *_: None)
    network.get_input_embeddings().register_forward_pre_hook(lambda *_: None)
    network.config.output_hidden_states = False
    model.tokenizer.backend_tokenizer.enable_truncation(9, stride=2, direction="left")
    model.tokenizer.backend_tokenizer.enable_padding(length=11, pad_id=3, pad_token="x")
    return model


def state(model):
    network, tokenizer = model.network, model.tokenizer
    parameters = list(network.parameters())
    return {
        "modules": [(id(module), module.training) for module in network.modules()],
        "config": network.config.to_dict(),
        "attention": [
            (name, module.config._attn_implementation)
            for name, module in network.named_modules()
            if hasattr(module, "config")
        ],
        "attributes": [sorted(module.__dict__) for module in network.modules()],
        "parameters": [
            (id(p), p._version, p.requires_grad, p.dtype, p.device, p.sum().item())
            for p in parameters
        ],
        "grad": [None if p.grad is None else (id(p.grad), p.grad.sum().item()) for p in parameters],
        "buffers": [(name, b.dtype, b.sum().item()) for name, b in network.named_buffers()],
        "hooks": [[list(getattr(m, kind)) for kind in HOOKS] for m in network.modules()],
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "random": torch.get_rng_state().tolist(),
        "tokenizer": (tokenizer.backend_tokenizer.to_str(), sorted(tokenizer.__dict__)),
    }


# Asked, embedded, integrated, frozen, shown, shown and differentiated.
EVERYWAY = ["loo", "gxi", "ig", "lrp", "alpha-avg", "alpha-grad"]


@pytest.mark.parametrize(
    ("family", "method"),
    [("bert", method) for method in DEEP] + [(f, m) for f in FAMILIES[1:] for m in EVERYWAY],
)
def test_a_model_stays_as_it_was(family, method):
    model = half_trained(family)
    before = state(model)
    limelight.explain(model, TEXT, method, **CHEAP.get(method, {}))
    after = state(model)
    for part, was in before.items():
        assert after[part] == was, part


@pytest.mark.parametrize("method", EVERYWAY)
@pytest.mark.parametrize("where", ["classifier", "last layer", "embedding"])
def test_a_model_stays_as_it_was_when_it_breaks(method, where, monkeypatch):
    model = half_trained()
    request = limelight.explain(model, TEXT, "loo")  # what transformers builds at first is built
    assert request.features
    assert not model.check.missing_capabilities  # a check would find the broken layer
    network = model.network
    broken = {
        "classifier": network.classifier,
        "last layer": network.bert.encoder.layer[-1],
        "embedding": network.get_input_embeddings(),
    }[where]

    def breaks(*_, **__):
        raise RuntimeError("broken")

    monkeypatch.setattr(broken, "forward", breaks)
    before = state(model)
    with pytest.raises(limelight.InputError, match=r"BertFor.* fails on the text '.*: broken\)\.$"):
        limelight.explain(model, TEXT, method, **CHEAP.get(method, {}))
    after = state(model)
    for part, was in before.items():
        assert after[part] == was, part


@pytest.mark.parametrize("name", ["xlnet", "bart", "longformer"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_rejected_model_is_unchanged(name):
    network, tokenizer = unusual(name)
    model = limelight.wrap(network, tokenizer=tokenizer)
    before = state(model)
    for method in ("alpha-avg", "alpha-grad"):
        with pytest.raises(limelight.InputError, match="needs attention weights"):
            limelight.explain(model, TEXT, method)
    after = state(model)
    for part, was in before.items():
        assert after[part] == was, part


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.network.eval(),
        lambda m: m.network.set_attn_implementation("eager"),
        lambda m: m.network.classifier.bias.requires_grad_(False),
        lambda m: m.network.half(),
        lambda m: m.network.classifier.register_forward_hook(lambda *_: None),
        lambda m: m.network.zero_grad(),
        lambda m: setattr(m.network.config, "use_cache", False),
        lambda m: np.copyto(m.network.classifier.bias.detach().numpy(), 7.0),
        lambda m: m.tokenizer.backend_tokenizer.no_truncation(),
        lambda m: m.tokenizer.backend_tokenizer.no_padding(),
        lambda _: torch.rand(1),
    ],
)
def test_the_comparison_of_states_can_fail(change):
    model = half_trained()
    before = state(model)
    change(model)
    assert state(model) != before
