"""Transformers as models: words and places, outputs, replacements; they stay as they were."""

import functools
import json
import re

import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers

import limelight
from limelight import InputError
from limelight.explainers import METHODS
from limelight.models import resolve_replacement
from limelight.text import build_features

from known import CHEAP, DEEP
from tiny_transformers import FAMILIES, LIMIT, tiny

TEXT = "A superb film, but the plot is PREDICTABLE. Superb!"
families = pytest.mark.parametrize("family", FAMILIES)


@functools.cache
def load_model(family="bert", **changes):
    model, tokenizer = tiny(family, **changes)
    return limelight.wrap(model, tokenizer=tokenizer)


def reference_outputs(model, text):
    """The model's own answer, one text at a time, without our batches."""
    arguments = model.tokenizer(
        text, return_tensors="pt", truncation=True, max_length=model.max_length
    )
    arguments.pop("token_type_ids", None)
    with torch.no_grad():
        return model.network(**arguments).logits[0].double().numpy()


@pytest.mark.parametrize("window", [None, "auto"])
def test_words_that_the_tokenizer_does_not_know_are_counted(window):
    def find_messages(text):
        e = limelight.explain(load_model(), text, "loo", window=window)
        return [warning for warning in e.warnings if "vocabulary" in warning]

    assert find_messages("a superb film") == []
    assert find_messages("a 漢 film 字") == [
        "2 of 4 tokens are not in the vocabulary. The model reads [UNK] instead."
    ]
    assert find_messages("漢 字") == [
        "2 of 2 tokens are not in the vocabulary. The model reads [UNK] instead."
    ]


@families
def test_outputs_are_the_models_own_whatever_stands_in_the_batch(family):
    model = load_model(family)
    texts = [TEXT, "good", "bad film. " * 30, "a plot is good"]
    expected = [reference_outputs(model, text) for text in texts]
    np.testing.assert_allclose(model.logits(texts), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(texts).sum(axis=1), 1)


def test_words_are_whole_and_stand_where_they_are_in_the_text():
    model_input = load_model().read(TEXT)
    assert model_input.tokens.strings == (
        "a", "superb", "film", ",", "but", "the", "plot", "is", "predictable", ".", "superb", "!"
    )  # fmt: skip
    for string, (start, end) in zip(
        *(model_input.tokens.strings, model_input.tokens.spans), strict=True
    ):
        assert TEXT[start:end].lower() == string
    e = limelight.explain(load_model(), TEXT, "gxi")
    assert e.features.count("superb") == 1
    assert len(e.spans[e.features.index("superb")]) == 2


def test_byte_level_words_lose_their_space_and_keep_their_case():
    e = limelight.explain(load_model("gpt2"), "A film is a Film", "gxi")
    assert e.features == ("A", "film", "is", "a", "Film")
    assert e.spans[1] == ((2, 6),)


def test_a_tokenizer_without_a_notion_of_words_has_those_between_white_space():
    network, tokenizer = tiny("gpt2")
    # As Gemma's: a whole text is one word to it.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    model = limelight.wrap(network, tokenizer=tokenizer)
    text = "A film  is a Film é."
    assert model.read(text).tokens.strings == ("A", "film", "is", "a", "Film", "é.")
    keep = np.ones((2, 6), bool)
    keep[1, 2] = False
    with torch.no_grad():  # the space before a word goes with it
        reference = [
            network(torch.tensor([tokenizer(value)["input_ids"]])).logits[0].numpy()
            for value in (text, "A film a Film é.")
        ]
    result = limelight.game(model, text, replacement="delete")(keep)
    np.testing.assert_allclose(result, reference, atol=1e-5)


def test_pieces_are_shown_on_request():
    e = limelight.explain(load_model(), "predictable plot", "gxi", features="tokens")
    assert e.features == ("predict", "able", "plot")
    full = limelight.explain(load_model(), "predictable plot", "gxi")
    assert full.scores[0] == pytest.approx(e.scores[0] + e.scores[1])
    assert full.settings["aggregation"] == "sum over pieces and occurrences"


def test_languages_without_spaces_have_words():
    e = limelight.explain(load_model(), "電影很好", "loo")
    assert e.features == ("電", "影", "很", "好")


# Every method of one family; of the others, each way to look into a network: asked, embedded,
# integrated, frozen, shown, shown and differentiated, followed. scripts/zoo visits all of both.
ROADS = ("loo", "gxi", "ig", "lrp", "alpha-avg", "alpha-grad", "rollout")


@pytest.mark.parametrize(
    ("family", "method"),
    [("bert", m) for m in DEEP] + [(f, m) for f in FAMILIES[1:] for m in ROADS],
)
def test_every_family_answers_every_method(family, method):
    e = limelight.explain(
        load_model(family), "a superb film", method, target=1, **CHEAP.get(method, {})
    )
    assert len(e.features) == 3
    assert np.isfinite(e.scores).all()
    scored = np.flatnonzero(e.scores).tolist()
    assert scored == list(e.anchor.features) if method == "anchors" else scored
    # Calls to spare are named only where a budget left some, and a start where there is one.
    assert set(METHODS[method].implementations[-1].settings) - {
        "spare",
        "start",
        "orders",
        "few_calls",
    } <= set(e.settings)
    assert limelight.Explanation.from_json(e.to_json()).to_json() == e.to_json()


@families
@pytest.mark.parametrize("replacement", ["mask", "unk", "pad", "delete"])
def test_leave_one_out_is_what_really_happens(family, replacement):
    model = load_model(family)
    if family == "gpt2" and replacement in ("mask", "unk"):
        with pytest.raises(InputError, match="Choose from: auto, delete, pad"):
            limelight.explain(model, TEXT, "loo", replacement=replacement)
        return
    words = ["a", "good", "film"]
    e = limelight.explain(model, " ".join(words), "loo", target=2, replacement=replacement)
    assert e.settings["replacement"] == replacement
    model_input = model.read(" ".join(words))
    ids, token = model_input.encoding.ids, model_input.encoding.token
    tokens = model.tokenizer
    put = {"mask": tokens.mask_token_id, "unk": tokens.unk_token_id, "pad": tokens.pad_token_id}
    for j in range(3):
        mask = np.ones_like(ids)
        if replacement == "delete":
            changed, mask = ids[token != j], mask[token != j]
        else:
            changed = np.where(token == j, put[replacement], ids)
            mask = np.where((token == j) & (replacement == "pad"), 0, 1)
        with torch.no_grad():
            without = model.network(
                input_ids=torch.tensor(changed[None]), attention_mask=torch.tensor(mask[None])
            ).logits[0, 2]
        assert e.scores[j] == pytest.approx(e.prediction["LABEL_2"] - float(without), abs=1e-4)


def test_pieces_of_one_character_are_one_feature():
    """A byte-level tokenizer cuts an emoji into four; a text cannot show them apart."""
    text = "😀 film 电"
    e = limelight.explain(load_model("gpt2"), text, "loo", features="tokens")
    assert e.features == ("😀", "film", "电")
    assert e.spans == (((0, 1),), ((2, 6),), ((7, 8),))
    assert e.settings["aggregation"] == "sum over pieces of one character"
    pair = limelight.explain(load_model("gpt2"), text, "loo", features="tokens", replacement="pad")
    pieces = load_model("gpt2").read(text, subwords=True).encoding
    assert (np.bincount(pieces.token[pieces.token >= 0]) == [4, 1, 3]).all()
    assert np.abs(pair.scores).min() > 0.01


def test_the_default_replacement_is_the_mask_token_if_there_is_one():
    assert limelight.explain(load_model(), TEXT, "loo").settings["replacement"] == "mask"
    assert limelight.explain(load_model("gpt2"), TEXT, "loo").settings["replacement"] == "delete"


def test_an_unknown_token_that_is_padding_too_replaces_no_word():
    """GPT-2 has one token for both, and its head reads the last piece that is no padding."""
    model, tokenizer = tiny("gpt2")
    tokenizer.add_special_tokens({"unk_token": "a"})
    adapted = limelight.wrap(model, tokenizer=tokenizer)
    assert adapted.replacements[0] == "unk"
    model.config.pad_token_id = tokenizer.unk_token_id
    assert adapted.replacements[0] == "delete"
    with pytest.raises(InputError, match="Choose from: auto, delete, pad"):
        resolve_replacement(adapted, "unk")


def test_a_long_text_is_cut_with_a_warning_and_deleting_lets_later_words_in():
    model, text = load_model(), "good film " * 20
    e = limelight.explain(model, text, "loo", replacement="delete", features="positions", target=2)
    assert len(e.features) == LIMIT - 2
    assert e.warnings[0] == (
        "The text has 40 tokens. The model reads the first 29, and the last 11 were cut off. "
        "Use window='auto' (--window auto) to explain all."
    )
    assert text[: e.explained_end].split() == text.split()[:29]
    full = model.logits([text])[0]
    without = model.logits([text.replace("good ", "", 1)])[0]
    assert e.scores[0] == pytest.approx(full[2] - without[2], abs=1e-5)
    only_shorter = model.logits([" ".join(text.split()[1:29])])[0]
    assert abs(only_shorter[2] - without[2]) > 1e-2  # the word that came in matters


def test_several_labels_have_a_probability_each():
    model = load_model(problem_type="multi_label_classification")
    chances = model.predict_proba([TEXT])[0]
    np.testing.assert_allclose(
        chances, 1 / (1 + np.exp(-reference_outputs(model, TEXT))), rtol=1e-4
    )
    e = limelight.explain(model, TEXT, "loo", scale="probability", target=0)
    assert e.prediction["LABEL_0"] == pytest.approx(reference_outputs(model, TEXT)[0], abs=1e-5)
    for i, chance in enumerate(chances):
        e = limelight.explain(model, TEXT, "anchors", target=i, **CHEAP["anchors"])
        assert e.diagnostics["holds"] == ("" if chance > 0.5 else "not ") + f"LABEL_{i}"


IDENTITY, SIGMOID = (
    f"torch.nn.modules.{element}" for element in ("linear.Identity", "activation.Sigmoid")
)


@pytest.mark.parametrize(
    ("recorded", "is_score", "warned"),
    [
        ({}, True, True),  # rerankers and reward models, which transformers trains as regressions
        ({"sentence_transformers": {"activation_fn": IDENTITY, "version": "5.0"}}, True, False),
        ({"sbert_ce_default_activation_function": IDENTITY}, True, False),
        ({"sentence_transformers": {"activation_fn": SIGMOID, "version": "5.0"}}, False, False),
        ({"sbert_ce_default_activation_function": SIGMOID}, False, False),
        ({"problem_type": "regression"}, True, False),
        ({"problem_type": "multi_label_classification"}, False, False),
        (
            {"problem_type": "regression", "sbert_ce_default_activation_function": SIGMOID},
            True,
            False,
        ),
    ],
)
@pytest.mark.parametrize("window", [None, 9])
def test_one_output_is_a_score_unless_the_configuration_says_otherwise(
    recorded, is_score, warned, window
):
    model = load_model.__wrapped__(labels=1, **recorded)
    e = limelight.explain(model, TEXT, "loo", window=window)
    message = any("one output and no problem_type" in warning for warning in e.warnings)
    assert (e.scale == "score", message) == (is_score, warned)
    output = model.logits([TEXT])[0, 0]
    if is_score:
        assert (model.classes, e.target) == (("score",), "score")
        if window is None:
            assert e.prediction == {"score": pytest.approx(output, abs=1e-5)}
    else:
        assert model.classes == ("not LABEL_0", "LABEL_0")
        chance = 1 / (1 + np.exp(-output))
        np.testing.assert_allclose(model.predict_proba([TEXT]), [[1 - chance, chance]], rtol=1e-6)


def test_the_advice_about_one_output_works(tmp_path):
    network, tokenizer = tiny("bert", labels=1)
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = limelight.load(tmp_path)
    (advice,) = (n for n in limelight.explain(model, TEXT, "loo").warnings if "problem_type" in n)
    name, value = re.search(r"set (\w+)='(\w+)' in its configuration", advice).groups()
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {name: value}))
    model = limelight.load(tmp_path)
    e = limelight.explain(model, TEXT, "loo")
    assert (e.scale, model.classes) == ("logit", ("not LABEL_0", "LABEL_0"))
    assert not any("problem_type" in warning for warning in e.warnings)


def test_several_outputs_of_a_cross_encoder_have_a_sigmoid_each_if_it_records_one():
    model = load_model.__wrapped__(sbert_ce_default_activation_function=SIGMOID)
    chances = model.predict_proba([TEXT])[0]
    np.testing.assert_allclose(
        chances, 1 / (1 + np.exp(-reference_outputs(model, TEXT))), rtol=1e-4
    )


def test_a_single_output_is_the_logit_of_its_label():
    model = load_model(labels=1, problem_type="multi_label_classification")
    assert model.classes == ("not LABEL_0", "LABEL_0")
    up, down = (limelight.explain(model, TEXT, "gxi", target=i) for i in (1, 0))
    np.testing.assert_allclose(up.scores, -down.scores)


def test_a_regression_has_a_score_and_no_probabilities():
    model = load_model.__wrapped__(labels=1, problem_type="regression")
    assert model.classes == ("score",)
    with pytest.raises(InputError, match="are scores, not log-odds, so it has no probabilities"):
        model.predict_proba([TEXT])
    with pytest.raises(InputError, match=r"unknown scale: 'probability'\. Choose from: score"):
        limelight.explain(model, TEXT, "gxi", scale="probability")
    score = reference_outputs(model, TEXT)[0]
    for target in (None, "score", "predicted", 0):
        e = limelight.explain(model, TEXT, "loo", target=target)
        assert e.prediction == {"score": pytest.approx(score, abs=1e-5)}
        assert (e.target, e.scale) == ("score", "score")
    without = model.logits([TEXT.replace("film", "[MASK]")])[0, 0]
    assert dict(e.as_list())["film"] == pytest.approx(score - without, abs=1e-4)
    assert "%" not in e.as_html().split("</style>")[-1].split("<script")[0]
    model.network.config.id2label = {0: "stars"}
    assert model.classes == ("stars",)
    with pytest.raises(limelight.DomainError, match="this model predicts scores"):
        limelight.explain(model, TEXT, "anchors")


def test_several_scores_have_no_probabilities_either():
    model = load_model(problem_type="regression")
    assert model.classes == ("LABEL_0", "LABEL_1", "LABEL_2")
    with pytest.raises(InputError, match="no probabilities"):
        model.predict_proba([TEXT])
    assert limelight.explain(model, TEXT, "gxi").link == "none"
    with pytest.raises(limelight.DomainError) as error:
        limelight.explain(model, TEXT, "anchors")
    assert str(error.value) == (
        "method 'anchors' needs a model that predicts exactly one class, but this model predicts "
        "scores. Use 'lime', 'shapley' or 'loo'."
    )


def test_a_single_score_is_shown_and_predicted_as_one(tmp_path, limelight):
    model, tokenizer = tiny("bert", labels=1, problem_type="regression")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    output = limelight("explain", "-m", "gxi", "--model", tmp_path / "model", TEXT).out
    assert re.search(r"The model predicts score [+-]\d\.\d{3}\.", output)
    table = limelight("predict", "--model", tmp_path / "model", TEXT).out
    assert table.split()[:2] == ["score", "text"]
    result = limelight("predict", "--model", tmp_path / "model", "--format", "json", TEXT)
    assert {k: json.loads(result.out)[k] for k in ("class", "probability", "probabilities")} == {
        "class": None, "probability": None, "probabilities": {}
    }  # fmt: skip


def test_classes_of_the_same_name_get_different_names():
    model = load_model.__wrapped__()  # a network of its own, which is changed
    model.network.config.id2label = {0: "x", 1: "y", 2: "x"}
    assert model.classes == ("x #0", "y", "x #2")
    e = limelight.explain(model, TEXT, "gxi", target="x #2")
    assert list(e.prediction) == ["x #0", "y", "x #2"]
    assert e.scores.tolist() == limelight.explain(model, TEXT, "gxi", target=2).scores.tolist()
    with pytest.raises(InputError, match=r"unknown class: 'x'\. Choose from: x #0, y, x #2"):
        limelight.explain(model, TEXT, "gxi", target="x")


def test_a_model_without_padding_gets_single_texts():
    model = load_model("gpt2", pad_token_id=None)
    texts = [TEXT, "good"]
    np.testing.assert_allclose(
        model.logits(texts),
        [reference_outputs(model, text) for text in texts],
        rtol=1e-4,
        atol=1e-5,
    )
    assert np.isfinite(limelight.explain(model, "a good film", "lime", samples=30).scores).all()
    with pytest.raises(limelight.DomainError, match="this model has none of them"):
        limelight.explain(model, "a good film", "ig")


def test_compare_shows_what_is_faithful_to_deep_models():
    comparison = limelight.compare(load_model(), "a good film", samples=40, pairs=2)
    assert [e.method for e in comparison] == ["shapley", "lime", "lrp", "ig", "loo", "alpha-avg"]


def test_a_method_that_is_no_better_than_chance_has_a_warning_with_numbers():
    model = load_model()
    chance = limelight.explain(model, TEXT, "gxi").warnings[-1]
    assert chance.startswith("G×I is unreliable on deep models: on 110 IMDB reviews with MiniLM")
    assert "no better than a random order (share −0.02, LRP 0.66, Shapley values 0.88)" in chance
    for faithful in ("ig", "loo"):
        warnings = limelight.explain(model, TEXT, faithful).warnings
        assert not any("unreliable" in warning for warning in warnings)


def test_scores_that_are_rounding_are_not_ranked():
    """BERT normalizes what it embeds, so the mean of the gradient is 0 and G-avg rounding."""
    comparison = limelight.compare(load_model(), TEXT, methods=["loo", "g-avg", "g-l2"])
    noise = comparison["g-avg"]
    assert 0 < np.abs(noise.scores).max() < noise.diagnostics["rounding"]
    assert f"rounding errors (at most {np.abs(noise.scores).max():.0e})" in noise.warnings[-1]
    result = comparison.agreement
    assert result.noise_methods == ("g-avg",)
    for table in (result.rank_correlation, result.top3_overlap):
        assert table[1] == (None,) * 3
        assert [row[1] for row in table] == [None] * 3
        assert table[0][2] is not None
    assert result.sign_conflicts[0][1] is None


def test_folders_pipelines_and_objects_are_the_same_model(tmp_path):
    from transformers import pipeline

    model, tokenizer = tiny("bert")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    ways = [
        limelight.load(tmp_path / "model"),
        limelight.wrap(model, tokenizer=tokenizer),
        limelight.wrap(pipeline("text-classification", model=model, tokenizer=tokenizer)),
    ]
    for way in ways[1:]:
        np.testing.assert_allclose(way.logits([TEXT]), ways[0].logits([TEXT]), atol=1e-5)
    assert ways[0].classes == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert ways[1].fingerprint == ways[2].fingerprint


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (
            "no/where",
            "there is no model folder at 'no/where'. Check the path, or write "
            "'hub:no/where' if it is a model on the Hugging Face hub.",
        ),
        (
            "nowhere",
            "there is no model folder at 'nowhere'. Check the path, or write 'hub:nowhere' "
            "if it is a model on the Hugging Face hub.",
        ),
        ("./no/such/where", "there is no model folder at 'no/such/where'. Check the path."),
        ("hub:a/b/c", "a hub id must be hub:owner/name, not 'hub:a/b/c'."),
        (
            "folder/model.gguf",
            "'folder/model.gguf' is a GGUF file. Load it with transformers: "
            "AutoModelForCausalLM.from_pretrained(folder, gguf_file='model.gguf'). Then pass the "
            "model and its tokenizer to limelight.wrap with template=.",
        ),
    ],
)
def test_a_mistyped_path_is_an_error_and_never_a_look_up(path, sentence, monkeypatch):
    import socket

    used = []

    def refuse(*_, **__):
        used.append(path)
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(InputError) as error:
        limelight.load(path)
    assert str(error.value) == sentence
    assert used == []


def test_a_folder_is_loaded_and_explained_without_the_network(tmp_path, monkeypatch):
    import socket

    model, tokenizer = tiny("bert")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")

    used = []

    def refuse(*_, **__):
        used.append(1)
        raise OSError("no network")

    for way in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, way, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    result = limelight.load(tmp_path / "model")
    comparison = limelight.compare(result, TEXT, methods=["gxi", "loo"])
    assert [e.method for e in comparison] == ["gxi", "loo"]
    assert used == []  # nor was a refusal caught on the way


def test_offline_mode_is_respected(monkeypatch):
    import socket

    from huggingface_hub import constants

    used = []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # HF_HUB_OFFLINE=1, read at its import
    monkeypatch.setattr(socket.socket, "connect", lambda *_: used.append(1))
    message = "the Hugging Face model 'no-owner/no-model' cannot be loaded: "
    with pytest.raises(InputError, match=message):
        limelight.load("hub:no-owner/no-model")
    assert used == []


def test_a_folder_without_a_trained_head_raises_an_error(tmp_path):
    model, tokenizer = tiny("bert")
    model.bert.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match=r"no trained classification head \(it lacks classifier"):
        limelight.load(tmp_path / "model")


def test_a_folder_without_a_tokenizer_raises_an_error(tmp_path):
    """transformers makes one with no words, which reads every text as unknown tokens."""
    tiny("bert")[0].save_pretrained(tmp_path)
    with pytest.raises(InputError, match="has no tokenizer"):
        limelight.load(tmp_path)


def test_broken_weights_raise_an_error(tmp_path):
    model, tokenizer = tiny("bert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    weights, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    full = config.read_text()
    config.write_text(full.replace('"hidden_size": ', '"hidden_size": 3'))
    with pytest.raises(InputError, match=r"are not those of its config\.json"):
        limelight.load(tmp_path)
    config.write_text(full)
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match="cannot be loaded: "):
        limelight.load(tmp_path)


def test_texts_are_strings_and_may_be_none_at_all():
    model = load_model()
    for full in (model, load_model(labels=1, problem_type="multi_label_classification")):
        for value in (full, full.with_windows("auto")):
            assert value.predict_proba([]).shape == (0, len(full.classes))
            assert value.logits([]).shape == (0, value.logits([TEXT]).shape[1])
    with pytest.raises(InputError, match="text 1 must be a string, not int"):
        model.logits(["a", 3])
    for ask in (model.logits, lambda texts: limelight.explain(model, texts, "gxi")):
        with pytest.raises(InputError, match="must have no lone surrogates, but character 2"):
            ask(["a \ud800 b"])


def test_outputs_that_are_not_finite_raise_an_error():
    model = load_model.__wrapped__()  # a network of its own, which is changed
    with torch.no_grad():
        model.network.classifier.bias.fill_(torch.nan)
    with pytest.raises(InputError, match="not finite"):
        model.logits(["a text"])


@pytest.mark.parametrize("method", ["alpha-grad", "gxi", "ig"])
def test_gradients_need_no_trainable_weights_and_no_gradient_mode(method):
    model = load_model.__wrapped__()
    usual = limelight.explain(model, TEXT, method).scores
    model.network.requires_grad_(False)
    np.testing.assert_array_equal(limelight.explain(model, TEXT, method).scores, usual)
    with torch.inference_mode():
        np.testing.assert_array_equal(limelight.explain(model, TEXT, method).scores, usual)


def test_somebodys_own_class_may_stand_on_a_sequence_classifier():
    model, tokenizer = tiny("bert")

    class Toxic(type(model)):
        pass

    own_value = Toxic(model.config).eval()
    own_value.load_state_dict(model.state_dict())
    results = [limelight.wrap(value, tokenizer=tokenizer) for value in (model, own_value)]
    np.testing.assert_array_equal(*(element.logits(["a superb film"]) for element in results))


def test_a_compiled_model_is_replaced_by_its_original():
    model, tokenizer = tiny("bert")
    compiled = torch.compile(model, backend="eager")
    usual, result = (limelight.wrap(value, tokenizer=tokenizer) for value in (model, compiled))
    assert compiled._orig_mod is result.network is model
    assert result.fingerprint == usual.fingerprint
    for method in ("gxi", "rollout", "loo"):
        scores = (limelight.explain(element, TEXT, method).scores for element in (usual, result))
        np.testing.assert_array_equal(*scores)


def test_a_text_of_one_word_can_be_explained_in_subwords():
    model, tokenizer = tiny("bert")
    value = limelight.wrap(model, tokenizer=tokenizer)
    advice = r"this text has 1\. Give a longer text, or use features='tokens'\.$"
    with pytest.raises(InputError, match=advice):
        limelight.explain(value, "predictable", "lime-sampled")
    assert len(limelight.explain(value, "predictable", "lime", features="tokens").scores) == 2
    with pytest.raises(InputError, match=r"this text has 1\. Give a longer text\.$"):
        limelight.explain(value, "film", "lime-sampled", features="tokens")


def test_a_missing_extra_says_what_to_install(tmp_path, monkeypatch):
    import sys

    model, tokenizer = tiny("bert")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "transformers", None)
    # As in a process that has loaded nothing of it yet.
    monkeypatch.delitem(sys.modules, "limelight.models.hugging_face.loading", raising=False)
    with pytest.raises(InputError, match=r'run: pip install "\.\[hf\]"'):
        limelight.load(tmp_path / "model")


def test_the_command_line_takes_a_folder(tmp_path, limelight, monkeypatch):
    model, tokenizer = tiny("bert", labels=2)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    folder = tmp_path / "model"
    assert "LABEL" in limelight("predict", "--model", folder, TEXT).out
    assert "superb" in limelight("explain", "-m", "gxi", "--model", folder, TEXT).out
    large_sample = limelight(
        "compare", "-m", "gxi,loo,rollout", "--model", folder, "--format", "json", TEXT
    )
    assert '"method":"rollout"' in large_sample.out.replace(" ", "")
    (tmp_path / "data.csv").write_text("text,label\ngood film,1\nbad film,0\n")
    assert (
        "accuracy" in limelight("evaluate", "--data", tmp_path / "data.csv", "--model", folder).out
    )


def test_a_real_model_agrees_with_its_own_pipeline(shared):
    folder = shared / "models" / "minilm-imdb"
    if not folder.is_dir():
        pytest.skip(f"needs the model in {folder}")
    from transformers import pipeline

    model = limelight.load(folder)
    assert model.classes == ("negative", "positive")
    own_value = pipeline("text-classification", str(folder), dtype=torch.float32, top_k=None)
    message = {answer["label"]: answer["score"] for answer in own_value([TEXT])[0]}
    assert dict(zip(model.classes, model.predict_proba([TEXT])[0], strict=True)) == (
        pytest.approx(message, abs=1e-5)
    )
    assert message["positive"] > 0.9
    e = limelight.explain(model, TEXT, "lime", samples=200)
    assert e.top(1)[0][0] == "superb"
    ig = limelight.explain(model, TEXT, "ig")
    assert ig.scores.sum() == pytest.approx(ig.explained_value - ig.base_value, rel=0.01)
    flat = limelight.explain(model, TEXT, "g-avg")
    assert "rounding errors" in flat.warnings[-1]


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("word", ["👍🏽", "👩‍👩‍👧", "1️⃣", "e\u0301", "हि"])
def test_no_word_and_no_piece_ends_inside_a_character(word, pieces):
    network, tokenizer = tiny("gpt2")  # whose words are cut before accents, and pieces are bytes
    model = limelight.wrap(network, tokenizer=tokenizer)
    model_input = model.read(f"a {word} b", subwords=pieces)
    assert model_input.tokens.strings == ("a", word, "b")
    if not pieces:  # of which the space before the word is one
        game = model.game(model_input, build_features(model_input), "delete")
        without = game(np.array([[True, False, True]]))
        np.testing.assert_allclose(without, model.logits(["a b"]), rtol=1e-5, atol=1e-6)


def test_pieces_are_the_words_of_a_script_without_spaces():
    """A tokenizer that looks at spaces alone calls a whole Chinese sentence one word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "▁",
        "我",
        "喜欢",
        "电影",
        "。",
        "ok",
        "▁ok",
        "iP",
        "hone",
    ]
    own_value = Tokenizer(models.Unigram([(w, -float(i)) for i, w in enumerate(words)], unk_id=1))
    own_value.pre_tokenizer = pre_tokenizers.Metaspace()
    marks = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=own_value, **marks)
    size = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 1}
    network = BertForSequenceClassification(BertConfig(vocab_size=len(words), **size)).eval()
    model = limelight.wrap(network, tokenizer=tokenizer)
    text = "我喜欢电影。我ok iPhone"
    e = limelight.explain(model, text, "loo")
    assert e.features == ("我", "喜欢", "电影", "。", "ok", "iPhone")
    assert e.spans[0] == ((0, 1), (6, 7))
    e = limelight.explain(model, text, "loo", features="sentences")
    assert e.features == ("我喜欢电影。", "我ok iPhone")


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_texts_that_are_tokenized_together_are_read_as_each_alone(family):
    network, tokenizer = tiny(family)
    model = limelight.wrap(network, tokenizer=tokenizer)
    texts = [
        "a good film",
        "  the\tplot ,  is\nbad . ",
        "superb",
        "caf\u00e9 \u4f60\u597d film",
        "a\x00b film",
    ]
    pairs = [("a film", "the film is bad"), ("good", "bad film")]
    for values in (texts, pairs, [*texts, *pairs]):
        for pieces in (False, True):
            result = list(model.read_batch(values, subwords=pieces))
            for text, value in zip(values, result, strict=True):
                single = model.read(text, subwords=pieces)
                output, other = (
                    (x.tokens.strings, x.tokens.spans, x.warnings, x.parts) for x in (value, single)
                )
                assert output == other
                np.testing.assert_array_equal(value.encoding.row, single.encoding.row)
                np.testing.assert_array_equal(value.encoding.token, single.encoding.token)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_words_stand_where_their_pieces_do(family):
    """Against the offsets of the tokenizer, piece by piece."""
    network, tokenizer = tiny(family)
    model, rng = limelight.wrap(network, tokenizer=tokenizer), np.random.default_rng(0)
    signs = [*"abcdefgilmnoprstuv ,.!\n\t", "film", " the ", "plot"]
    for _ in range(30):
        text = "a" + "".join(rng.choice(signs, 40))
        encoded, by_hand = tokenizer(text, return_offsets_mapping=True), {}
        for word, (start, end) in zip(encoded.word_ids(), encoded["offset_mapping"], strict=True):
            output = [i for i in range(start, end) if not text[i].isspace()]
            if word is not None and output:
                by_hand.setdefault(word, []).extend(output)
        spans = tuple((min(own_value), max(own_value) + 1) for own_value in by_hand.values())
        model_input = model.read(text)
        assert model_input.tokens.spans == spans[: len(model_input.tokens)]
