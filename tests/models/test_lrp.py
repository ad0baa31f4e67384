"""LRP on deep models against frozen constants that are recorded and replayed, without gradients.

With its weights frozen a network is affine in its embedded text, so the relevance of a piece is
exactly f minus f with that piece's embedding at zero. The oracle runs every network twice: once to
record what is frozen, module by module, and once for each piece to replay it.
"""

import contextlib
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import limelight
from limelight.errors import DomainError, InputError
from limelight.models import has, reason_missing
from limelight.models.hugging_face import gradients as frozen_network
from limelight.models.hugging_face import lrp as rules
from limelight.models.hugging_face.lrp import find_non_affine

from tiny_models import tiny_model
from tiny_transformers import tiny, unusual

# No piece of it repeats, neither in words nor in bytes.
TEXT = "a film but."
TARGET = 1
FAMILIES = (
    "bert",
    "roberta",
    "distilbert",
    "electra",
    "deberta-v2",
    "gpt2",
    "llama",
    "t5",
    "t5-gated",
    "bart",
    "modernbert",
)
families = pytest.mark.parametrize("family", FAMILIES)


def make_network(family):
    network, tokenizer = unusual(family) if family in ("bart", "modernbert") else tiny(family)
    return network.double(), tokenizer


@cache
def load_model(family):
    network, tokenizer = make_network(family)
    return limelight.wrap(network, tokenizer=tokenizer)


class Tape:
    """Constants in the order in which a network computes them: recorded once, then replayed."""

    def __init__(self):
        self.kept, self.place, self.recording, self.read_indices = [], 0, True, False

    def __call__(self, constant):
        if self.read_indices:  # a part of a constant, as the tanh of a GELU is
            return constant()
        if self.recording:
            self.read_indices = True
            self.kept.append(constant())
            self.read_indices = False
            return self.kept[-1]
        self.place += 1
        return self.kept[self.place - 1]

    def rewind(self):
        assert self.recording or self.place == len(self.kept)
        self.recording, self.place = False, 0


def normalize_states(module, tape, *, centered, eps):
    def forward(x):
        if centered:
            x = x - x.mean(-1, keepdim=True)
        y = x * tape(lambda: (x.square().mean(-1, keepdim=True) + eps) ** -0.5) * module.weight
        return y if getattr(module, "bias", None) is None else y + module.bias

    return forward


def replaced_modules(network, tape):
    """What each module computes with constants from the tape, by the name of its class."""
    gated = {"LlamaMLP", "T5DenseGatedActDense", "ModernBertMLP"}
    gates = {
        activation
        for module in network.modules()
        if type(module).__name__ in gated
        for name in ("act", "act_fn")
        if (activation := getattr(module, name, None)) is not None
    }
    for module in network.modules():
        name, usual = type(module).__name__, module.forward
        if name == "LayerNorm":
            yield module, normalize_states(module, tape, centered=True, eps=module.eps)
        elif name in ("LlamaRMSNorm", "T5LayerNorm"):
            yield (
                module,
                normalize_states(module, tape, centered=False, eps=module.variance_epsilon),
            )
        elif module in gates:
            yield module, lambda x, f=usual: tape(lambda: f(x))
        elif name.endswith(("GELUActivation", "Tanh", "ReLU", "GELU", "SiLUActivation")):
            yield module, lambda x, f=usual: x * tape(lambda: f(x) / x)


@contextlib.contextmanager
def on_tape(network, tape, monkeypatch):
    softmax = nn.functional.softmax
    with monkeypatch.context() as patch:
        patch.setattr(nn.functional, "softmax", lambda *a, **k: tape(lambda: softmax(*a, **k)))
        # Heads call these themselves, and so do modules that they make on the fly.
        for home, name in ((torch, "tanh"), (nn.functional, "relu"), (nn.functional, "gelu")):
            usual = getattr(home, name)
            patch.setattr(home, name, lambda x, f=usual, **_: x * tape(lambda: f(x) / x))
        for module, forward in replaced_modules(network, tape):
            patch.setattr(module, "forward", forward)
        yield


def relevance_by_replay(family, ids, monkeypatch, *, at=1.0, start=None):
    """f − f(without what moved at one piece) for ``ids``, every frozen constant replayed.

    The embedding of each word stands at start + at · (embedded − start), a row of the table being
    one piece of the text, and what moved is embedded − start.
    """
    network, tokenizer = make_network(family)
    network.set_attn_implementation("eager")
    table, tape = network.get_input_embeddings().weight.data, Tape()
    words = [int(i) for i in ids if int(i) not in tokenizer.all_special_ids]
    assert len(set(words)) == len(words)
    moved = table[words] - (0 if start is None else table[start])
    table[words] -= (1 - at) * moved
    arguments = torch.tensor(ids[None])

    def output():
        return float(
            network(input_ids=arguments, attention_mask=torch.ones_like(arguments)).logits[0, 1]
        )

    with torch.no_grad(), on_tape(network, tape, monkeypatch):
        full, result = output(), []
        for piece, step in zip(words, moved, strict=True):
            tape.rewind()
            table[piece] -= step
            result.append(full - output())
            table[piece] += step
    assert len(tape.kept) > 6
    return np.array(result)


def token_ids(model):
    pieces = model.read(TEXT).encoding
    return pieces.ids[pieces.read_indices]


def sum_by_word(model, scores):
    """Sum scores of the pieces of words over the words."""
    token = model.read(TEXT).encoding.token
    token = token[token >= 0]
    return np.array([scores[token == j].sum() for j in range(token.max() + 1)])


def lrp_scores(model, method="lrp", **settings):
    return limelight.explain(model, TEXT, method, target=TARGET, features="positions", **settings)


def assert_near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@families
def test_lrp_is_what_a_piece_adds_when_every_weight_is_replayed(family, monkeypatch):
    model = load_model(family)
    expected = sum_by_word(model, relevance_by_replay(family, token_ids(model), monkeypatch))
    assert_near(lrp_scores(model).scores, expected)
    with pytest.raises(AssertionError):  # the plain gradient is another
        assert_near(lrp_scores(model, "gxi").scores, expected)


def test_steps_integrate_from_the_replacement(monkeypatch):
    model = load_model("bert")
    mask, expected = model.tokenizer.mask_token_id, 0
    for node, weight in zip(*np.polynomial.legendre.leggauss(3), strict=True):
        expected += (weight / 2) * sum_by_word(
            model,
            relevance_by_replay(
                "bert", token_ids(model), monkeypatch, at=(node + 1) / 2, start=mask
            ),
        )
    assert_near(lrp_scores(model, steps=3).scores, expected)
    with pytest.raises(AssertionError):
        assert_near(lrp_scores(model, steps=4).scores, expected)


def test_without_biases_all_of_the_output_is_passed_on():
    e = lrp_scores(load_model("llama"))
    output = e.prediction[e.target]
    assert e.diagnostics["to_biases"] == pytest.approx(0, abs=1e-6 * abs(output))
    assert e.scores.sum() + e.diagnostics["to_other_tokens"] == pytest.approx(output, rel=1e-6)
    with_biases = lrp_scores(load_model("bert"))
    assert abs(with_biases.diagnostics["to_biases"]) > 1e-3


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_a_piece_that_enters_encoder_and_decoder_counts_at_both(family):
    """The plain gradient, by central differences of the table's row: both read the same row."""
    model = load_model(family)
    network, _ = make_network(family)
    table, arguments = (
        network.get_input_embeddings().weight.data,
        torch.tensor(token_ids(model)[None]),
    )
    slopes, h = [], 1e-3
    for piece in token_ids(model):
        row, ends = table[piece].clone(), []
        for sign in (1, -1):
            table[piece] = row * (1 + sign * h)
            with torch.no_grad():
                ends.append(float(network(input_ids=arguments).logits[0, TARGET]))
        table[piece] = row
        slopes.append((ends[0] - ends[1]) / (2 * h))
    inside = model.read(TEXT).encoding.token >= 0
    expected = sum_by_word(model, np.array(slopes)[inside])
    # T5 takes its root mean squares in single precision, whatever the network's is.
    size = np.abs(expected).max()
    np.testing.assert_allclose(lrp_scores(model, "gxi").scores, expected, rtol=0, atol=1e-3 * size)


def test_a_whole_text_in_windows_is_the_mean_of_its_windows():
    model = load_model("bert")
    text = "a superb film . the plot is bad ."
    full = limelight.explain(model, text, "lrp", window=6, features="positions", target=TARGET)
    parts = [
        limelight.explain(model, part, "lrp", features="positions", target=TARGET).scores
        for part in ("a superb film .", "the plot is", "bad .")
    ]
    assert len(parts) == len(full.diagnostics["windows"]) == 3
    np.testing.assert_allclose(full.scores, np.concatenate(parts) / 3, rtol=1e-6)


def test_a_network_with_other_outputs_when_frozen_raises_an_error(monkeypatch):
    model = load_model("bert")
    usual = rules._RULES["gelu"]
    monkeypatch.setitem(rules._RULES, "gelu", lambda *arguments: 2 * usual(*arguments))
    with pytest.raises(DomainError, match="freezing its weights changes its outputs by"):
        lrp_scores(model)


class Curved(nn.Module):
    def forward(self, x):
        return torch.exp(-x * x)


def test_what_is_not_known_to_weigh_withdraws_the_capability_of_that_instance_alone():
    network, tokenizer = tiny("bert")
    network.bert.encoder.layer[1].intermediate.intermediate_act_fn = Curved()
    model = limelight.wrap(network, tokenizer=tokenizer)
    why = "LRP has no rule for the operation 'Exp' of BertForSequenceClassification"
    assert reason_missing(model, "lrp") == why
    assert has(load_model("bert"), "lrp")
    with pytest.raises(InputError) as error:
        limelight.explain(model, TEXT, "lrp")
    assert str(error.value) == (
        f"method 'lrp' needs gradients with frozen weights, but {why}. Use 'shapley', 'lime' or "
        "'loo'."
    )
    assert limelight.explain(model, TEXT, "gxi").method == "gxi"


def affine(compute):
    """What of ``compute`` stays curved under the rules, at a point with a zero in it."""
    x = torch.tensor([[0.7, -1.1, 0.0], [0.3, 2.0, -0.2]], dtype=torch.float64, requires_grad=True)
    with rules.FrozenWeights():
        y = compute(x)
    torch.testing.assert_close(y, compute(x))
    unknown = find_non_affine(y)
    if unknown is None:
        assert torch.isfinite(torch.autograd.grad(y.sum(), x)[0]).all()
    return unknown


@pytest.mark.parametrize(
    ("compute", "unknown"),
    [
        (lambda x: torch.tanh(x) * 2 + 1, None),
        (lambda x: x * torch.sigmoid(1.702 * x), None),
        (lambda x: nn.functional.silu(x) * (x + 3), None),
        (lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), None),
        (lambda x: x / (x.std(-1, keepdim=True) + 1e-6), None),
        (lambda x: torch.softmax(x @ x.T, -1) @ x, None),
        (lambda x: torch.rms_norm(x, (3,), torch.arange(1.0, 4).double(), 0.5), None),
        (lambda x: torch.rms_norm(x, (3,)) + torch.layer_norm(x, (3,), None, x[0] * 0 + 1), None),
        (lambda x: torch.relu(x) ** 2, None),
        (lambda x: torch.fft.fft(x).real, None),
        (lambda x: x.max(-1).values, None),
        (lambda x: x * (x + 1), "Mul"),
        (lambda x: x @ x.T, "Mm"),
        (lambda x: torch.sigmoid(x), "Sigmoid"),
        (lambda x: torch.sigmoid(x) * torch.tanh(x + 1), "Mul"),
        (lambda x: 1 / (x + 3), "Reciprocal"),
        (lambda x: torch.exp(x), "Exp"),
        (lambda x: torch.sqrt(x + 3), "Sqrt"),
        (lambda x: x.cumprod(-1), "Cumprod"),
    ],
)
def test_what_weighs_is_frozen_and_what_stays_curved_is_found(compute, unknown):
    assert affine(compute) == unknown


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float32])
def test_norms_of_small_numbers_are_those_of_torch_in_every_precision(precision):
    x = torch.tensor([[0.007, -0.011, 0.0], [0.003, 0.02, -0.002]], dtype=precision)
    for norm in (torch.rms_norm, torch.layer_norm):
        true = norm(x, (3,))
        with rules.FrozenWeights():
            torch.testing.assert_close(norm(x, (3,)), true)


def test_on_the_papers_classifier_lrp_is_attention_times_value():
    """Autograd of Eq. 1–9 with the attention weights held fixed, times the embedded token."""
    model, text = tiny_model(3, scale=0.7), "w1 w5 w2 w5 w7"
    model_input = model.read(text)
    ids = limelight.explainers.prepare_batch(model, [text]).collapsed_inputs.ids[0]
    weights = {n: torch.tensor(getattr(model, n)) for n in ("W_q", "W_k", "W_v", "W_l")}
    e = torch.tensor(model.embedding[ids] + model.positions, requires_grad=True)
    total = 0
    for W_q, W_k, W_v, W_l in zip(*weights.values(), strict=True):
        scores = (e @ W_k.T) @ (W_q @ e[0]) / len(W_q) ** 0.5
        total = total + W_l[0] @ (torch.softmax(scores, 0).detach() @ (e @ W_v.T)) / len(
            weights["W_q"]
        )
    (gradient,) = torch.autograd.grad(total, e)
    product = (gradient * e).sum(-1).detach().numpy()[1 : 1 + len(model_input.tokens)]
    explanation = limelight.explain(model, text, "lrp", features="positions")
    np.testing.assert_allclose(explanation.scores, product, rtol=1e-9)
    worth = limelight.explain(model, text, "alpha-grad", features="positions")
    np.testing.assert_array_equal(explanation.scores, worth.scores)


def test_steps_below_one_and_paths_without_a_start_raise_an_error():
    with pytest.raises(InputError, match="steps must be at least 1, not 0"):
        lrp_scores(load_model("bert"), steps=0)
    network, tokenizer = tiny("gpt2", pad_token_id=None)
    bare = limelight.wrap(network, tokenizer=tokenizer)
    assert lrp_scores(bare).scores.any()
    with pytest.raises(DomainError, match="this model has none of them"):
        lrp_scores(bare, steps=2)


TEXTS = ["a film but.", "good", "the plot is so bad that a film but good is bad.", "a film"]


@families
def test_texts_together_score_as_they_do_alone(family, monkeypatch):
    model = load_model(family)
    single = [limelight.explain(model, text, "lrp", target=TARGET) for text in TEXTS]
    monkeypatch.setitem(frozen_network._COST, "cpu", 1)
    monkeypatch.setattr(type(model), "inputs_per_batch", 3)
    request = model.engine.calls
    values = limelight.explain(model, TEXTS, "lrp", target=TARGET)
    assert model.engine.calls - request <= 2 * len(TEXTS)
    for element, other in zip(single, values, strict=True):
        assert other.features == element.features
        np.testing.assert_allclose(other.scores, element.scores, atol=1e-9)
        assert other.base_value == pytest.approx(element.base_value, abs=1e-9)
        for name, value in element.diagnostics.items():
            assert other.diagnostics[name] == pytest.approx(value, abs=1e-9)


def test_of_texts_together_the_one_at_fault_is_named(monkeypatch):
    model = load_model("bert")
    usual = frozen_network.input_products

    def fails_on_the_longest(network, rows, *args, **options):
        if rows.shape[1] > 12:
            raise RuntimeError("too long for this network")
        return usual(network, rows, *args, **options)

    monkeypatch.setattr(frozen_network, "input_products", fails_on_the_longest)
    monkeypatch.setitem(frozen_network._COST, "cpu", 1)
    monkeypatch.setattr(type(model), "inputs_per_batch", 4)
    with pytest.raises(InputError, match="the plot is so bad"):
        limelight.explain(model, TEXTS, "lrp")
    assert len(limelight.explain(model, [TEXTS[0], TEXTS[1]], "lrp")) == 2


def test_memory_that_runs_out_halves_the_texts_taken_together(monkeypatch):
    model, sizes = load_model("bert"), []
    usual = frozen_network.input_products

    def small(network, rows, *args, **options):
        sizes.append(len(rows))
        if len(rows) > 2:
            raise RuntimeError("CUDA out of memory")
        return usual(network, rows, *args, **options)

    single = limelight.explain(model, TEXTS[-1], "lrp")
    monkeypatch.setattr(frozen_network, "input_products", small)
    monkeypatch.setitem(frozen_network._COST, "cpu", 1)
    monkeypatch.setattr(type(model), "inputs_per_batch", 4)
    explanation = limelight.explain(model, TEXTS, "lrp")
    assert sizes[0] == 4
    assert max(sizes[1:]) == 2
    np.testing.assert_allclose(explanation[-1].scores, single.scores, atol=1e-9)
