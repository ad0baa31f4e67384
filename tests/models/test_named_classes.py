"""Models are recognized by their outputs, whatever their class is called."""

import json

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    BertPreTrainedModel,
    LlamaConfig,
    LlamaForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
)
from transformers.modeling_outputs import (
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

import limelight
from limelight import InputError

from tiny_transformers import word_pieces

TOKENIZER = word_pieces()
TEXT = "the plot is bad but a superb film"
SIZE = {
    "vocab_size": len(TOKENIZER), "hidden_size": 16, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 24, "pad_token_id": 0, "initializer_range": 0.4,
}  # fmt: skip


class Critic(BertPreTrainedModel):
    """A classifier whose name says nothing."""

    def __init__(self, config):
        super().__init__(config)
        self.bert, self.classifier = BertModel(config), torch.nn.Linear(16, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, **options):
        out = self.bert(input_ids, attention_mask, token_type_ids, **options)
        return SequenceClassifierOutput(
            logits=self.classifier(out.pooler_output),
            hidden_states=out.hidden_states,
            attentions=out.attentions,
        )


class Marker(Critic):
    """A tagger whose name says nothing."""

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, **options):
        out = self.bert(input_ids, attention_mask, token_type_ids, **options)
        return TokenClassifierOutput(logits=self.classifier(out.last_hidden_state))


class Finder(Critic):
    """A model of extractive answers whose name says nothing."""

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, **options):
        out = self.bert(input_ids, attention_mask, token_type_ids, **options)
        start, end = self.classifier(out.last_hidden_state).unbind(-1)
        return QuestionAnsweringModelOutput(start_logits=start, end_logits=end)


def make(model_class, config_class=BertConfig, **options):
    torch.manual_seed(3)
    return model_class(config_class(**{**SIZE, **options})).eval()


def copy_weights(target, source, names):
    """Give a network the weights of another, whose names differ as in ``names``."""
    state = {}
    for name, value in source.state_dict().items():
        for old, new in names.items():
            name = name.replace(old, new, 1) if name.startswith(old) else name
        state[name] = value
    target.load_state_dict(state, strict=False)
    return target


def test_a_classifier_of_any_name_has_the_scores_of_its_twin():
    network = make(Critic, num_labels=3)
    twin = copy_weights(make(BertForSequenceClassification, num_labels=3), network, {})
    models = [limelight.wrap(model, tokenizer=TOKENIZER) for model in (network, twin)]
    np.testing.assert_allclose(models[0].logits([TEXT]), models[1].logits([TEXT]), atol=1e-6)
    for method in ("loo", "lrp", "ig", "generic-attention"):
        scores = [limelight.explain(model, TEXT, method).scores for model in models]
        np.testing.assert_allclose(*scores, atol=1e-5)
        assert np.abs(scores[0]).max() > 1e-4


def test_a_tagger_of_any_name_finds_the_spans_of_its_twin():
    labels = dict(enumerate(("O", "B-GOOD", "I-GOOD")))
    network = make(Marker, id2label=labels, label2id={v: k for k, v in labels.items()})
    twin = make(BertForTokenClassification, num_labels=3, id2label=labels)
    copy_weights(twin, network, {})
    first, second = (limelight.wrap(model, tokenizer=TOKENIZER) for model in (network, twin))
    assert first.classes == second.classes
    assert first.spans(TEXT) == second.spans(TEXT)
    explanations = [limelight.explain(m, TEXT, "loo", at="film") for m in (first, second)]
    np.testing.assert_allclose(*[e.scores for e in explanations], atol=1e-5)


def test_a_model_of_answers_of_any_name_finds_the_answer_of_its_twin():
    network = make(Finder, num_labels=2)
    twin = copy_weights(
        make(BertForQuestionAnswering, num_labels=2), network, {"classifier": "qa_outputs"}
    )
    pair = ("is the film good", TEXT)
    explanations = [
        limelight.explain(limelight.wrap(model, tokenizer=TOKENIZER), pair, "loo", at="film")
        for model in (network, twin)
    ]
    np.testing.assert_allclose(*[e.scores for e in explanations], atol=1e-5)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda: make(BertForMaskedLM), "must classify, tag, .* not BertForMaskedLM"),
        (lambda: make(BertModel), "must classify, tag, .* not BertModel"),
        (lambda: make(Finder, num_labels=3), "Finder cannot be called on a text alone"),
    ],
)
def test_networks_without_logits_of_classes_raise(network, message):
    with pytest.raises(InputError, match=message):
        limelight.wrap(network(), tokenizer=TOKENIZER)


RERANKERS = {
    "bert": lambda: make(BertForSequenceClassification, num_labels=1),
    "modernbert": lambda: make(
        ModernBertForSequenceClassification, ModernBertConfig, num_labels=1,
        cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3,
        global_attn_every_n_layers=1,
    ),
    "reward": lambda: make(
        LlamaForSequenceClassification, LlamaConfig, num_labels=1, num_key_value_heads=2,
        bos_token_id=2, eos_token_id=3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RERANKERS)
def test_rerankers_and_reward_models_load_from_a_folder(name, tmp_path):
    network = RERANKERS[name]()
    network.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    model = limelight.load(tmp_path)
    pair = ("is the film good", TEXT)
    assert model.classes == ("score",)
    for text in [TEXT] if name == "reward" else [TEXT, pair]:
        encoded = TOKENIZER(*([text] if isinstance(text, str) else text), return_tensors="pt")
        if name != "bert":
            encoded.pop("token_type_ids", None)
        expected = network(**encoded).logits.item()
        e = limelight.explain(model, text, "loo")
        assert e.explained_value == pytest.approx(expected, abs=1e-4)
        assert np.abs(e.scores).max() > 1e-5


def test_a_cross_encoder_has_the_activation_that_it_records(tmp_path):
    network = make(BertForSequenceClassification, num_labels=1)
    network.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["sentence_transformers"] = {
        "activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "5.0.0",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = limelight.load(tmp_path)
    pair = ("is the film good", TEXT)
    expected = torch.sigmoid(network(**TOKENIZER(*pair, return_tensors="pt")).logits).item()
    assert model.predict_proba([pair])[0, 1] == pytest.approx(expected, abs=1e-5)


class CrossEncoder:
    """The attributes of a CrossEncoder of sentence-transformers that limelight reads."""

    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer

    def predict(self, _):
        raise AssertionError("the network is called, not this method")


def test_a_cross_encoder_in_memory_is_its_network():
    network = make(BertForSequenceClassification, num_labels=1)
    wrapped = limelight.wrap(CrossEncoder(network, TOKENIZER))
    direct = limelight.wrap(network, tokenizer=TOKENIZER)
    pair = ("is the film good", TEXT)
    np.testing.assert_array_equal(wrapped.logits([pair]), direct.logits([pair]))


# --- modules and sentence encoders -------------------------------------------------------------


class Plain(torch.nn.Module):
    def forward(self, input_ids):
        return input_ids.float().mean(1)


class Counter(torch.nn.Module):
    """A module that takes texts."""

    def forward(self, texts):
        return torch.tensor([[float(len(text)), 1.0] for text in texts])


def test_a_plain_module_raises_an_error_with_an_example():
    for options in ({}, {"tokenizer": TOKENIZER}, {"classes": ["a", "b"]}):
        with pytest.raises(InputError, match="Plain is a module of torch") as caught:
            limelight.wrap(Plain(), **options)
        lines = str(caught.value).splitlines()
        assert "Write a function from texts to scores" in lines[0]
        assert lines[2] == "def predict(texts):"
        compile("\n".join(lines[2:]), "example", "exec")


def test_a_module_that_takes_texts_is_a_function():
    model = limelight.wrap(Counter(), classes=["long", "short"], scale="logit")
    assert limelight.explain(model, "a long text", "loo").scores.shape == (3,)


class Encoder(torch.nn.Module):
    """A sentence encoder with the method of a SentenceTransformer."""

    def __init__(self):
        super().__init__()
        table = torch.Generator().manual_seed(2)
        self.weight = torch.nn.Parameter(torch.randn(64, 5, generator=table))

    def forward(self, features):
        return {"sentence_embedding": self.weight[features["input_ids"]].mean(1)}

    def encode(self, texts):
        rows = [[sum(map(ord, word)) % 64 for word in text.split()] for text in texts]
        with torch.no_grad():
            vectors = [self.weight[row].sum(0) if row else torch.zeros(5) for row in rows]
        return torch.stack(vectors).numpy()


def test_the_similarity_of_two_texts_is_a_score():
    encoder, other = Encoder(), "a superb film"
    model = limelight.wrap(encoder, other=other)
    assert model.classes == ("similarity",)
    e = limelight.explain(model, TEXT, "loo")

    def cosine(text):
        a, b = encoder.encode([text, other]).astype(float)
        return a @ b / np.sqrt((a @ a) * (b @ b))

    assert e.scale == "score"
    assert e.explained_value == pytest.approx(cosine(TEXT), abs=1e-6)
    words = TEXT.split()
    for j, score in enumerate(e.scores):
        without = " ".join(words[:j] + words[j + 1 :])
        assert score == pytest.approx(cosine(TEXT) - cosine(without), abs=1e-6)


def test_the_fingerprint_of_a_similarity_covers_text_and_weights():
    encoder = Encoder()
    first = limelight.wrap(encoder, other="a superb film", name="x").fingerprint
    assert limelight.wrap(encoder, other="a bad film", name="x").fingerprint != first
    assert limelight.wrap(Encoder(), other="a superb film", name="x").fingerprint == first
    with torch.no_grad():
        encoder.weight += 1
    assert limelight.wrap(encoder, other="a superb film", name="x").fingerprint != first


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        (Encoder(), {}, "Encoder returns vectors, not scores. Pass other="),
        (len, {"other": "a"}, "other= needs a sentence encoder with a method encode"),
        (Encoder(), {"other": "a", "pairs": True}, "pairs does not apply to the similarity"),
        (Encoder(), {"other": ""}, "other must be a text with words"),
    ],
)
def test_options_of_encoders_that_do_not_fit_raise(encoder, options, message):
    with pytest.raises(InputError, match=message):
        limelight.wrap(encoder, **options)
