"""What a network was seen to do when it was loaded: warnings, refusals, replacements withdrawn."""

import re

import numpy as np
import pytest
import torch
from tokenizers import models
from zoo import animals

import limelight
from limelight import InputError

from tiny_transformers import FAMILIES, byte_pairs, tiny, word_pieces

TEXT = "A superb film, but the plot is PREDICTABLE. Superb!"
TEXTS = [TEXT, "good", "bad film. " * 5, "superb film"]
TOLERANCE = 1e-5  # of the largest output: what float32 rounds when a batch adds in another order


def wrap_model(network, tokenizer=None):
    return limelight.wrap(network, tokenizer=tokenizer or word_pieces())


def animal(family):
    return wrap_model(animals.build(family), animals.word_pieces())


def test_an_ordinary_network_has_nothing_to_say():
    check = wrap_model(tiny("bert")[0]).check
    assert (
        check.missing_capabilities,
        check.unusable_replacements,
        check.needs_equal_lengths,
        check.warnings,
    ) == (
        {},
        {},
        False,
        (),
    )


@pytest.fixture
def mask_outside():
    """A model whose mask token is not in its embedding, as one on PyPI is."""
    network, tokenizer = tiny("bert")
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    assert tokenizer.mask_token_id == network.config.vocab_size
    return wrap_model(network, tokenizer)


def test_a_mask_outside_the_embedding_is_withdrawn_and_others_remain(mask_outside):
    assert mask_outside.replacements == ("unk", "delete", "pad")
    for method in ("loo", "lime", "ig"):
        e = limelight.explain(mask_outside, TEXT, method, target=0)
        assert e.settings["replacement"] == "unk"
    for method in ("loo", "ig"):
        with pytest.raises(InputError) as error:
            limelight.explain(mask_outside, TEXT, method, replacement="mask")
        assert str(error.value) == (
            "replacement 'mask' cannot be used, because its token id is 17 and the embedding of "
            "the model has only 17 rows. Use 'unk', 'delete' or 'pad' instead."
        )


def test_it_is_withdrawn_in_windows_too(mask_outside):
    with pytest.raises(
        InputError, match="replacement 'mask' cannot be used, because its token id is 17"
    ):
        limelight.explain(mask_outside, TEXT, "loo", replacement="mask", window="auto")


def test_a_word_outside_the_embedding_is_named(mask_outside):
    for request in (
        mask_outside.logits,
        lambda texts: limelight.explain(mask_outside, texts, "loo"),
    ):
        with pytest.raises(InputError, match="reads '<mask>' as the token 17, but the embedding"):
            request(["a <mask> film"])


@pytest.mark.parametrize("family", ["xlnet", "fnet", "yoso"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_network_that_changes_with_padding_gets_texts_of_equal_length(family):
    model = animal(family)
    assert model.check.needs_equal_lengths
    assert model.read(TEXT).warnings[-1:] == (
        "The outputs of this model change with padding, so it reads texts of one length at a time.",
    )
    assert not set(model.check.warnings) - set(limelight.explain(model, TEXT, "loo").warnings)
    sizes = []
    forward = model.network.forward
    model.network.forward = lambda **arguments: (
        sizes.append(arguments["attention_mask"].min().item()) or forward(**arguments)
    )
    limelight.explain(model, TEXT, "loo", replacement="delete")
    assert set(sizes) == {1}  # nothing was padded


@pytest.mark.parametrize("family", ["bert", "gpt2", "xlnet", "fnet"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_texts_alone_or_in_a_list_in_any_order_have_equal_scores(family):
    if family in FAMILIES:
        network, tokenizer = tiny(family)
        model = wrap_model(network, tokenizer)
    else:
        model = animal(family)
    single = [limelight.explain(model, text, "loo", target=1) for text in TEXTS]
    together = limelight.explain(model, TEXTS, "loo", target=1)
    backwards = limelight.explain(model, TEXTS[::-1], "loo", target=1)[::-1]
    for value, *other_values in zip(single, together, backwards, strict=True):
        size = max(map(abs, value.prediction.values()))
        for same in other_values:
            np.testing.assert_allclose(same.scores, value.scores, atol=2 * TOLERANCE * size)
            assert same.prediction == pytest.approx(value.prediction, abs=TOLERANCE * size)


def test_a_learned_sink_is_counted():
    model = animal("gpt_oss")
    with torch.no_grad():
        for name, sink in model.network.named_parameters():
            if name.endswith("sinks"):
                sink.fill_(2.0)
    e = limelight.explain(model, "a superb film", "alpha-avg")
    (warning,) = [n for n in e.warnings if "attention goes" in n]
    words, other_values, sink = (int(n) for n in re.findall(r"(\d+)%", warning))
    assert "to the attention sink of the model" in warning
    assert words == round(100 * e.scores.sum())
    assert abs(words + other_values + sink - 100) <= 1
    assert sink > 5


def test_a_network_with_random_outputs_gives_a_warning():
    network, tokenizer = tiny("bert")
    network.classifier.register_forward_hook(lambda _m, _g, out: out + torch.rand_like(out))
    (warning,) = wrap_model(network, tokenizer).check.warnings
    assert re.match(r"The model returns different outputs for the same text \(by ", warning)


@pytest.mark.parametrize("method", ["loo", "lime", "shapley", "banzhaf", "anchors"])
def test_a_function_with_random_outputs_gives_a_warning(method):
    rng = np.random.default_rng(0)

    def function(texts):
        chance = rng.random(len(texts))
        return np.stack([1 - chance, chance], axis=1)

    model = limelight.wrap(function, classes=["x", "y"])
    warnings = limelight.explain(model, "a superb film", method).warnings
    assert any(
        "for the same text, and standard errors ignore this noise" in warning
        for warning in warnings
    )


def test_dropout_that_was_left_on_is_off_while_we_ask():
    network, tokenizer = tiny("bert")
    network.train()
    model = wrap_model(network, tokenizer)
    assert model.check.warnings == ()
    np.testing.assert_array_equal(model.logits([TEXT]), model.logits([TEXT]))
    assert network.training


@pytest.mark.parametrize(("kind", "digits"), [("bfloat16", 2), ("float16", 3)])
def test_half_precision_gives_a_warning(kind, digits):
    network, tokenizer = tiny("bert")
    model = wrap_model(network.to(getattr(torch, kind)), tokenizer)
    assert model.check.warnings == (
        f"The model computes in half precision ({kind}). Its outputs have about {digits} digits, "
        "and smaller effects are rounding.",
        *["A CPU is slow in float16. Call `.float()` on the model first."] * (kind == "float16"),
    )
    assert model.capabilities["attention"] is None


def test_a_second_embedding_withdraws_gradients():
    """Tokens that enter by two roads: the gradient at one of them is not the whole."""
    network, tokenizer = tiny("bert")
    second, forward = torch.nn.Embedding(17, 3), network.forward

    def call_both(input_ids, **given):
        out = forward(input_ids=input_ids, **given)
        weight = torch.arange(1, input_ids.shape[1] + 1)[None, :, None]
        out.logits = out.logits + (weight * second(input_ids)).mean(dim=1)
        return out

    network.forward = call_both
    model = wrap_model(network, tokenizer)
    with pytest.raises(InputError) as error:
        limelight.explain(model, TEXT, "gxi")
    assert str(error.value) == (
        "method 'gxi' needs gradients, but BertForSequenceClassification reads its tokens through "
        "several embeddings. Use 'shapley', 'lime' or 'loo'."
    )
    assert limelight.methods(model)["ig"].reason_unavailable is not None


def test_a_network_without_gradients_raises_an_error_if_they_are_needed():
    network, tokenizer = tiny("bert")
    network.classifier.register_forward_hook(lambda _m, _g, out: out.round())
    model = wrap_model(network, tokenizer)
    with pytest.raises(InputError, match="is zero for every text"):
        limelight.explain(model, TEXT, "gxi")
    assert limelight.explain(model, TEXT, "loo").features


def test_a_text_on_which_a_network_fails_is_shown():
    network, tokenizer = tiny("gpt2")
    model, forward = wrap_model(network, tokenizer), network.forward

    def fails(input_ids, **given):
        if "A is a Film" in tokenizer.batch_decode(input_ids, skip_special_tokens=True):
            raise KeyError("no film")
        return forward(input_ids=input_ids, **given)

    network.forward = fails
    with pytest.raises(InputError) as error:
        limelight.explain(model, "A film is a Film", "loo")
    assert str(error.value) == (
        "GPT2ForSequenceClassification fails on the text 'A is a Film' (KeyError: 'no film')."
    )
    assert isinstance(error.value.__cause__, KeyError)


def test_wrapping_a_network_that_fails_raises_an_error():
    network, tokenizer = tiny("bert")
    network.forward = lambda **_: 1 / 0
    with pytest.raises(InputError) as error:
        wrap_model(network, tokenizer)
    assert str(error.value) == (
        "BertForSequenceClassification cannot be called with a text alone (ZeroDivisionError: "
        "division by zero)."
    )


def test_wrapping_weights_that_are_not_finite_raises_an_error():
    network, tokenizer = tiny("bert")
    with torch.no_grad():
        network.classifier.bias.fill_(torch.nan)
    with pytest.raises(InputError, match=r"returns numbers that are not finite. Check its weights"):
        wrap_model(network, tokenizer)


@pytest.mark.filterwarnings("ignore:.*quantiz")
def test_quantized_weights_raise_an_error_because_outputs_depend_on_the_batch():
    network, tokenizer = tiny("bert", labels=2)
    linear = {torch.nn.Linear}
    quantized = torch.ao.quantization.quantize_dynamic(network, linear, dtype=torch.qint8)
    both = tokenizer(["a superb film .", "bad bad plot ."], return_tensors="pt")
    first = {name: rows[:1] for name, rows in both.items()}
    with torch.no_grad():
        changes = [
            (model(**both).logits[0] - model(**first).logits[0]).abs().max()
            for model in (network.eval(), quantized)
        ]
    assert changes[0] < 1e-5 < 0.01 < changes[1]
    with pytest.raises(InputError, match=r"weights that torch has quantized.* before quantization"):
        limelight.wrap(quantized, tokenizer=tokenizer)


def test_a_text_on_which_a_tokenizer_fails_is_shown():
    network, tokenizer = tiny("bert")
    keep = [(word, i) for word, i in tokenizer.get_vocab().items() if word != "[UNK]"]
    tokenizer.backend_tokenizer.model = models.WordPiece(dict(keep), unk_token="[UNK]")
    with pytest.raises(InputError) as error:
        wrap_model(network, tokenizer)
    assert str(error.value) == (
        "the tokenizer fails on the text 'The plot is bad, but the acting is good.' (Exception: "
        "WordPiece error: Missing [UNK] token from the vocabulary)."
    )


def test_a_scikit_pipeline_that_fails_on_a_text_is_named_with_it():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeClassifier

    def split_words(text):
        if text.strip() == "a good":
            raise KeyError("film")
        return text.split()

    pipeline = make_pipeline(CountVectorizer(analyzer=split_words), DecisionTreeClassifier())
    pipeline.fit(["a good film", "a bad film"], ["x", "y"])
    pipeline.steps[0][1].set_params(analyzer=lambda text: text.split())
    model = limelight.wrap(pipeline)
    pipeline.steps[0][1].set_params(analyzer=split_words)
    with pytest.raises(InputError, match=r"fails on the text 'a good ?' \(KeyError: 'film'\)\.$"):
        limelight.explain(model, "a good film", "loo")


def test_the_probe_reads_nothing_of_the_random_stream():
    network, tokenizer = tiny("gpt2", vocab_size=len(byte_pairs()))
    before = torch.get_rng_state()
    wrap_model(network, tokenizer)
    assert torch.equal(before, torch.get_rng_state())
