"""A causal language model classifies by the word that comes next after a template."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import limelight
from limelight.errors import InputError
from limelight.models import reason_missing
from limelight.models.loading import model_source

from tiny_transformers import LIMIT, byte_pairs, word_pieces

TEMPLATE = "the film: {text} the film is"
LABELS = {"negative": "bad", "positive": "good"}
TEXTS = ["a superb film .", "the plot is predictable but the film is good .", "bad"]
CHAT = (
    "{% for m in messages %}[CLS]{{ m['role'] }} {{ m['content'] }}[SEP]{% endfor %}"
    "{% if add_generation_prompt %}[CLS]{% endif %}"
)


def language_model(family="llama", **changes):
    """Return a random causal model with 2 layers and 3 heads, and its tokenizer."""
    torch.manual_seed(3)
    tokenizer = byte_pairs() if family == "gpt2" else word_pieces()
    size = {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    size |= changes
    if family == "gpt2":
        config = GPT2Config(
            n_embd=12, n_layer=2, n_head=3, n_positions=80, initializer_range=0.7, **size
        )
        return GPT2LMHeadModel(config).eval(), tokenizer
    config = LlamaConfig(
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=17,
        max_position_embeddings=LIMIT,
        initializer_range=0.7,
        **size,
    )
    return LlamaForCausalLM(config).eval(), tokenizer


def classifier(network, tokenizer, template=TEMPLATE, labels=LABELS):
    return limelight.wrap(network, tokenizer=tokenizer, template=template, labels=labels)


def reference_outputs(network, ids, words):
    """Oracle: the log-odds of the second token after one row of ids, straight from transformers."""
    with torch.no_grad():
        first, second = torch.log_softmax(network(torch.tensor([ids])).logits[0, -1].double(), 0)[
            words
        ]
    return [float(second - first)]


def prompt_ids(tokenizer, template, text):
    """Oracle: the ids of a prompt, without the [SEP] that the tokenizer closes texts with."""
    ids = tokenizer(template.replace("{text}", text))["input_ids"]
    return ids[:-1] if ids[-1] == 3 else ids


def tokens(tokenizer, *words):
    return tokenizer.convert_tokens_to_ids(list(words))


def test_the_output_is_the_log_odds_of_the_label_words_after_the_prompt():
    network, tokenizer = language_model()
    model = classifier(network, tokenizer)
    wanted = [
        reference_outputs(
            network, prompt_ids(tokenizer, TEMPLATE, text), tokens(tokenizer, "bad", "good")
        )
        for text in TEXTS
    ]
    assert model.classes == ("negative", "positive")
    np.testing.assert_allclose(model.logits(TEXTS), wanted, rtol=1e-5, atol=1e-6)
    inputs = [model.read(text) for text in TEXTS]
    np.testing.assert_allclose(model.outputs(inputs), wanted, rtol=1e-5, atol=1e-6)
    odds = np.array(wanted)[:, 0]
    np.testing.assert_allclose(model.predict_proba(TEXTS)[:, 1], 1 / (1 + np.exp(-odds)), rtol=1e-5)
    with pytest.raises(AssertionError):  # words in another order would show
        np.testing.assert_allclose(-model.logits(TEXTS), wanted, rtol=1e-5)


def test_of_three_words_each_is_compared_with_all():
    network, tokenizer = language_model()
    model = classifier(network, tokenizer, labels={"no": "bad", "so": "plot", "yes": "good"})
    words = tokens(tokenizer, "bad", "plot", "good")
    for text in TEXTS:
        with torch.no_grad():
            ids = torch.tensor([prompt_ids(tokenizer, TEMPLATE, text)])
            logits = network(ids).logits[0, -1, words].double().numpy()
        result = model.logits([text])[0]
        np.testing.assert_allclose(result, logits - logits.mean(), rtol=1e-5, atol=1e-5)
        p = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(model.predict_proba([text])[0], p, rtol=1e-5)


def test_byte_level_words_begin_with_their_space():
    network, tokenizer = language_model("gpt2")
    labels = {"no": "g", "yes": "film"}
    wanted = [
        reference_outputs(
            network,
            tokenizer(f"So: {text}\nthe")["input_ids"],
            tokens(tokenizer, "Ġg", "Ġfilm"),
        )
        for text in TEXTS
    ]
    for template in ("So: {text}\nthe", "So: {text}\nthe "):  # a space at the end is the word's
        model = classifier(network, tokenizer, template, labels)
        np.testing.assert_allclose(model.logits(TEXTS), wanted, rtol=1e-5, atol=1e-6)
    spelled = classifier(network, tokenizer, "So: {text}\nthe", {"no": " g", "yes": " film"})
    np.testing.assert_allclose(spelled.logits(TEXTS), wanted, rtol=1e-5, atol=1e-6)
    bare = classifier(network, tokenizer, "So: {text}\n", {"no": "g", "yes": "f"})
    np.testing.assert_allclose(
        bare.logits(TEXTS[:1])[0],
        reference_outputs(
            network, tokenizer(f"So: {TEXTS[0]}\n")["input_ids"], tokens(tokenizer, "g", "f")
        ),
        rtol=1e-5,
        atol=1e-6,
    )


def test_the_space_before_a_word_goes_with_it():
    network, tokenizer = language_model("gpt2")
    model = classifier(network, tokenizer, "{text}\nthe", {"no": "g", "yes": "film"})
    keep = np.array([[True, False, True], [False, True, False]])
    for mask, result in zip(keep, limelight.game(model, "so bad films")(keep), strict=True):
        words = [
            word
            for word, kept_words in zip(["so", " bad", " films"], mask, strict=True)
            if kept_words
        ]
        ids = tokenizer("".join(words) + "\nthe")["input_ids"]
        wanted = reference_outputs(network, ids, tokens(tokenizer, "Ġg", "Ġfilm"))
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("replacement", ["delete", "unk", "mask"])
def test_words_of_the_text_go_and_those_of_the_template_stay(replacement):
    network, tokenizer = language_model()
    model = classifier(network, tokenizer)
    words = ["the", "plot", "is", "good", "film"]  # "the", "film" and "is" are in the template too
    game = limelight.game(model, " ".join(words), replacement=replacement)
    assert game.features == tuple(words)
    keep = np.random.default_rng(0).random((23, 5)) < 0.5
    instead = {"delete": "", "unk": "[UNK]", "mask": "[MASK]"}[replacement]
    for mask, result in zip(keep, game(keep), strict=True):
        text = " ".join(
            word if kept_words else instead for word, kept_words in zip(words, mask, strict=True)
        )
        ids = prompt_ids(tokenizer, TEMPLATE, text)
        wanted = reference_outputs(network, ids, tokens(tokenizer, "bad", "good"))
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_a_long_text_is_cut_and_the_template_is_not():
    network, tokenizer = language_model()
    model = classifier(network, tokenizer)
    text = "a superb film but the plot is bad . " * 9
    model_input = model.read(text)
    inside = TEMPLATE.replace("{text}", " ".join(model_input.tokens.strings))
    ids = tokenizer(inside)["input_ids"][:-1]
    assert len(ids) == LIMIT
    np.testing.assert_allclose(
        model.outputs([model_input])[0],
        reference_outputs(network, ids, tokens(tokenizer, "bad", "good")),
        rtol=1e-5,
        atol=1e-6,
    )
    e = limelight.explain(model, text, "loo")
    assert e.cut is not None
    assert any("were cut off" in warning for warning in e.warnings)


def test_windows_are_prompts_of_their_own():
    network, tokenizer = language_model()
    model = classifier(network, tokenizer)
    text = "a superb film but the plot is bad . " * 4
    e = limelight.explain(model, text, "loo", window="auto")
    outputs = []
    for window in e.diagnostics["windows"]:
        start, end = window["span"]
        ids = prompt_ids(tokenizer, TEMPLATE, text[start:end])
        outputs.append(reference_outputs(network, ids, tokens(tokenizer, "bad", "good")))
    assert len(outputs) > 1
    np.testing.assert_allclose(list(e.prediction.values()), np.mean(outputs, axis=0), rtol=1e-5)


def test_messages_go_through_the_chat_template():
    network, tokenizer = language_model()
    tokenizer.chat_template = CHAT
    messages = [
        {"role": "bad", "content": "is the film good ?"},
        {"role": "good", "content": "{text} is"},
    ]
    model = classifier(network, tokenizer, messages)
    for text in TEXTS:
        message = [{**m, "content": m["content"].replace("{text}", text)} for m in messages]
        content = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(content, add_special_tokens=False)["input_ids"]
        assert ids[-1] == 2  # the assistant's turn begins, and no second [CLS] stands in front
        wanted = reference_outputs(network, ids, tokens(tokenizer, "bad", "good"))
        np.testing.assert_allclose(model.logits([text])[0], wanted, rtol=1e-5, atol=1e-6)
    assert limelight.explain(model, TEXTS[0], "loo").features == ("a", "superb", "film", ".")


def test_what_the_assistant_has_begun_to_say_goes_on():
    network, tokenizer = language_model()
    tokenizer.chat_template = CHAT
    messages = [
        {"role": "good", "content": "{text}"},
        {"role": "assistant", "content": "the film is"},
    ]
    model = classifier(network, tokenizer, messages)
    ids = tokenizer("[CLS]good bad[SEP][CLS]assistant the film is", add_special_tokens=False)
    wanted = reference_outputs(network, ids["input_ids"], tokens(tokenizer, "bad", "good"))
    np.testing.assert_allclose(model.logits(["bad"])[0], wanted, rtol=1e-5, atol=1e-6)


def test_a_piece_that_is_partly_the_templates_stays():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({w: i for i, w in enumerate([*letters, ".Ċ"])}, [(".", "Ċ")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    network, _ = language_model("gpt2", vocab_size=257)
    model = classifier(network, tokenizer, "{text}\n", {"no": "g", "yes": "f"})
    assert model.read("so bad.").tokens.strings == ("so", "bad")
    (ids,) = (tokenizer("so bad.\n")["input_ids"],)
    assert ids[-1] == 256
    wanted = reference_outputs(network, ids, tokens(tokenizer, "g", "f"))
    np.testing.assert_allclose(model.logits(["so bad."])[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_gradients_are_those_of_the_next_word(family):
    network, tokenizer = language_model(family)
    labels = LABELS if family == "llama" else {"negative": "g", "positive": "film"}
    model = classifier(network, tokenizer, labels=labels)
    text = "a film but bad film"
    e = limelight.explain(model, text, "gxi", features="tokens")
    encoded = tokenizer(TEMPLATE.replace("{text}", text), return_offsets_mapping=True)
    ids, places = encoded["input_ids"], encoded["offset_mapping"]
    if family == "llama":
        ids, places = ids[:-1], places[:-1]
    point = network.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    words = tokens(tokenizer, *(("bad", "good") if family == "llama" else ("Ġg", "Ġfilm")))
    first, second = network(inputs_embeds=point).logits[0, -1, words]
    (gradient,) = torch.autograd.grad(second - first, point)
    scores = (gradient * point).sum(dim=-1)[0].detach().numpy()
    start = len("the film: ")
    mine = [
        score
        for score, (a, b) in zip(scores, places, strict=True)
        if start < b <= start + len(text) and text[max(a - start, 0) : b - start].strip()
    ]
    np.testing.assert_allclose(e.scores, mine, rtol=1e-4, atol=1e-5)


def test_attention_is_read_where_the_next_word_is_read():
    network, tokenizer = language_model(attn_implementation="eager")
    model = classifier(network, tokenizer)
    text = "a good film"
    e = limelight.explain(model, text, "alpha-avg")
    ids = prompt_ids(tokenizer, TEMPLATE, text)
    with torch.no_grad():
        last = network(torch.tensor([ids]), output_attentions=True).attentions[-1][0]
    np.testing.assert_allclose(e.scores, last.mean(dim=0)[-1, 4:7].numpy(), rtol=1e-4)


def test_a_language_model_has_all_methods_of_its_network():
    model = classifier(*language_model())
    capabilities = ("attention", "attention_only", "gradients", "lrp")
    properties = ("has_subwords", "max_tokens", "shuffle_weights", "is_exclusive")
    assert [reason_missing(model, name) for name in (*capabilities, *properties)] == [None] * 8
    scores = {e.method: e.scores for e in limelight.compare(model, TEXTS[1])}
    assert list(scores) == ["shapley", "lime", "lrp", "ig", "loo", "alpha-avg"]


def test_a_model_without_padding_runs_in_batches():
    network, tokenizer = language_model()
    padded = classifier(network, tokenizer).logits(TEXTS)
    network.config.pad_token_id = None
    model = classifier(network, tokenizer)
    np.testing.assert_allclose(model.logits(TEXTS), padded, rtol=1e-6)
    assert model.engine._max_items > 1
    assert network.config.pad_token_id is None


def test_the_language_model_stays_as_it_was():
    network, tokenizer = language_model()
    network.train()
    before = network.config.to_dict()
    limelight.explain(classifier(network, tokenizer), TEXTS[0], "lrp")
    assert network.training
    assert all(module.training for module in network.modules())
    assert network.config.to_dict() == before


def test_template_and_labels_are_part_of_the_model():
    network, tokenizer = language_model()
    value = classifier(network, tokenizer).fingerprint
    assert value == classifier(network, tokenizer).fingerprint
    assert value != classifier(network, tokenizer, "{text} is").fingerprint
    other = {"negative": "bad", "positive": "superb"}
    assert value != classifier(network, tokenizer, labels=other).fingerprint


def test_other_networks_have_no_next_word():
    tokenizer = word_pieces()
    size = {"vocab_size": len(tokenizer), "hidden_size": 12, "num_attention_heads": 3}
    network = BertForMaskedLM(BertConfig(num_hidden_layers=1, intermediate_size=17, **size))
    with pytest.raises(InputError, match=r"without labels also .*, not BertForMaskedLM"):
        classifier(network, tokenizer)


def test_a_language_model_without_a_template_writes_answers():
    network, tokenizer = language_model()
    assert limelight.wrap(network, tokenizer=tokenizer).classes == ("answer",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    network, tokenizer = language_model()
    place = tmp_path_factory.mktemp("language") / "model"
    network.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def test_a_folder_is_loaded_with_its_template(folder):
    network, tokenizer = language_model()
    model = limelight.load(folder, template=TEMPLATE, labels=LABELS)
    np.testing.assert_allclose(
        model.logits(TEXTS), classifier(network, tokenizer).logits(TEXTS), rtol=1e-5
    )
    assert model_source(model).load().fingerprint == model.fingerprint


def test_the_shell_asks_a_language_model(folder, limelight):
    model = (
        "--model",
        str(folder),
        "--template",
        TEMPLATE,
        "--labels",
        "negative=bad,positive=good",
    )
    output = limelight("predict", *model, "--format", "json", TEXTS[0])
    assert output.code == 0, output.err
    wanted = classifier(*language_model()).predict_proba(TEXTS[:1])[0]
    assert json.loads(output.out)["probabilities"]["positive"] == pytest.approx(wanted[1], rel=1e-4)
    view = limelight("explain", *model, "-m", "loo", TEXTS[0])
    assert "superb" in view.out
