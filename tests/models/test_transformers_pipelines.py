"""Outputs of wrapped classifiers against the pipelines of transformers, family by family."""

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import XLMConfig, XLMForTokenClassification, pipeline
from zoo import animals

import limelight
from limelight.text import SpanQuery

from tiny_transformers import FAMILIES, tiny, unusual

TEXT = "A superb film, but the plot is predictable."
PAIR = ("a superb film", "the plot is bad .")
# To these it is not the same whether every token has the type 0 or none: they look types up among
# their words, or compare them.
TYPED = ("xlm", "flaubert", "gpt_neo", "gptj", "gpt_bigcode", "openai-gpt", "ctrl", "funnel")
UNUSUAL = ("modernbert", "xlnet", "bart", "longformer", "ctrl")
MORE = ("llama", "t5")


def network_and_tokenizer(family, *, types):
    """A tiny network whose tokenizer names token types or does not."""
    if family in (*FAMILIES, *MORE):
        network, tokenizer = tiny(family)
    elif family in UNUSUAL:
        network, tokenizer = unusual(family)
    else:
        network, tokenizer = animals.build(family), animals.word_pieces(family)
    if family != "gpt2":
        typed = "[CLS] $A [SEP] $B:1 [SEP]:1" if types else "[CLS] $A [SEP] $B [SEP]"
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair=typed, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    tokenizer.model_input_names = names
    return network, tokenizer


def outputs_of_pipeline(network, tokenizer, texts):
    """What transformers' pipeline says of each text or pair, before any softmax, by class."""
    classifier = pipeline(
        "text-classification",
        model=network,
        tokenizer=tokenizer,
        device="cpu",
        top_k=None,
        function_to_apply="none",
    )
    rows = []
    for text in texts:
        arguments = (
            dict(zip(("text", "text_pair"), text, strict=True)) if type(text) is tuple else text
        )
        (result,) = classifier([arguments])
        rows.append(
            [score for _, score in sorted((value["label"], value["score"]) for value in result)]
        )
    return np.array(rows)


ALL = tuple(dict.fromkeys((*FAMILIES, *UNUSUAL, *MORE, *TYPED)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("types", [False, True])
@pytest.mark.parametrize("family", ALL)
def test_outputs_are_those_of_the_text_classification_pipeline(family, types):
    network, tokenizer = network_and_tokenizer(family, types=types)
    if types and family == "roberta":
        pytest.skip("the table of RoBERTa has one type, and transformers fails on two")
    model = limelight.wrap(network, tokenizer=tokenizer)
    for texts in ([TEXT, "bad ."], [PAIR, ("a film", "good")]):
        expected = outputs_of_pipeline(network, tokenizer, texts)
        np.testing.assert_allclose(model.logits(texts), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("family", ["xlm", "gpt_neo", "bert"])
def test_texts_without_words_are_read_with_token_types_too(family):
    network, tokenizer = network_and_tokenizer(family, types=True)
    model = limelight.wrap(network, tokenizer=tokenizer)
    game = limelight.game(model, "good film", replacement="delete")
    masks = np.array([[True, True], [True, False], [False, True], [False, False]])
    expected = outputs_of_pipeline(network, tokenizer, ["good film", "good", "film", ""])
    np.testing.assert_allclose(game(masks), expected, rtol=1e-5, atol=1e-5)
    windows = limelight.wrap(network, tokenizer=tokenizer).with_windows(4)
    model_input = windows.read("good film bad plot")
    halves = outputs_of_pipeline(network, tokenizer, ["good film", "bad plot"])
    np.testing.assert_allclose(
        windows.outputs([model_input])[0], halves.mean(axis=0), rtol=1e-5, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("family", ["bert", "gpt2", "gpt_neo", "xlm", "ctrl"])
def test_gradients_are_those_at_the_embedded_words_beside_token_types(family):
    network, tokenizer = network_and_tokenizer(family, types=True)
    model = limelight.wrap(network, tokenizer=tokenizer)
    arguments = dict(tokenizer("good film bad plot", return_tensors="pt"))
    ids = arguments.pop("input_ids")
    table = network.get_input_embeddings()
    points = table(ids).detach().requires_grad_()
    calls = []

    def in_place(_module, asked, rows):
        is_text = asked[0].shape == ids.shape and bool((asked[0] == ids).all())
        calls.append(is_text)
        return points.clone() if is_text else rows  # CTRL scales it in place

    handle = table.register_forward_hook(in_place)
    output = network(input_ids=ids, **arguments).logits[0, 1]
    handle.remove()
    (gradient,) = torch.autograd.grad(output, points)
    assert sum(calls) == 1
    expected = (gradient * points).sum(-1)[0].detach().double().numpy()
    e = limelight.explain(model, "good film bad plot", "gxi", target=1, features="tokens")
    words = model.token_positions(model.read("good film bad plot", subwords=True))
    own_value = np.bincount(words[words >= 0], weights=expected[words >= 0])
    np.testing.assert_allclose(e.scores, own_value, rtol=1e-4, atol=1e-5)


def test_taggers_get_token_types():
    torch.manual_seed(1)
    tokenizer = animals.word_pieces("xlm")
    config = XLMConfig(
        vocab_size=len(tokenizer), emb_dim=12, n_layers=2, n_heads=3, num_labels=3, n_langs=1,
        max_position_embeddings=40, pad_index=4, pad_token_id=0, init_std=0.7, embed_init_std=0.7,
    )  # fmt: skip
    network = XLMForTokenClassification(config).eval()
    tokenizer.model_input_names = ["input_ids", "attention_mask", "token_type_ids"]
    arguments = tokenizer("a superb film", return_tensors="pt")
    with torch.no_grad():
        expected = network(**arguments).logits[0, 2].double().numpy()
        untyped = network(**arguments | {"token_type_ids": None}).logits[0, 2].double().numpy()
    assert np.abs(expected - untyped).max() > 0.01
    model = limelight.wrap(network, tokenizer=tokenizer)
    model_input = model.read("a superb film", queries=(SpanQuery(2, 8),))
    np.testing.assert_allclose(model.outputs([model_input])[0], expected, rtol=1e-5, atol=1e-5)
