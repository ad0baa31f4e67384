"""Learned methods of taggers, answers and images: signals by hand, planted rules, refusals."""

import json
import runpy
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import limelight
from limelight.errors import InputError
from limelight.explainers.batch import read_batch
from limelight.explainers.learned import LearnedMethod
from limelight.models.queries import distinct_queries
from limelight.request import Request, prepare_model
from limelight.text import AnswerQuery, ImageInput, QueriedText, SpanQuery, build_features
from limelight.training import fitting, learning

pytest.importorskip("torch")
import torch
from test_answers import ANSWER, TEXT, token_ids, unit_indices, writer
from test_spans import tagger

from tiny_transformers import WORDS

_FILE = Path(__file__).parents[1] / "models" / "test_images.py"  # a name that others have too
_IMAGES = runpy.run_path(str(_FILE))
photo, tiny_images = _IMAGES["photo"], _IMAGES["tiny_images"]
PLAIN = [word for word in WORDS if "#" not in word]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def fitted_quickly():
    """Sixteen epochs of eighty: r² below is far above its limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_EPOCHS", 16)
        yield


def bare(network, **given):
    with torch.no_grad():
        return network(**given, output_hidden_states=True, output_attentions=True)


def three(states):
    return [states[i][0].double().numpy() for i in (0, (len(states) - 1) // 2, -1)]


def attended_mean(out, places, own):
    """Return what the mean of ``places`` attends to at the positions ``own``, layer by layer."""
    rows = [layer[0, :, places].double().mean(1).numpy() for layer in out.attentions]
    return np.concatenate([row[:, own].sum(1) for row in rows])


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_states_at_a_place_are_those_of_the_bare_tagger(family):
    model, network, tokenizer = tagger(family)
    text = "a superb film , the plot is predictable"
    place = (2, 8)
    _, request = prepare_model(model, Request(at=place))
    texts = request.attach_queries([text, "a superb plot"])
    batch = read_batch(model, texts, request, with_hidden_states=True)
    encoded = tokenizer(text, return_offsets_mapping=True)
    network.set_attn_implementation("eager")
    out = bare(network, **{k: torch.tensor([encoded[k]]) for k in ("input_ids", "attention_mask")})
    network.set_attn_implementation("sdpa")
    spans = encoded["offset_mapping"]
    index = [i for i, (a, b) in enumerate(spans) if a < place[1] and b > place[0]]
    result = batch.hidden_states
    np.testing.assert_allclose(
        result.head_input[0], three(out.hidden_states)[-1][index].mean(0), atol=1e-5
    )
    for row, word in zip(result.states[0], batch.features[0].spans, strict=True):
        own_value = [i for i, (a, b) in enumerate(spans) if any(a < d and c < b for c, d in word)]
        by_hand = [layer[own_value].mean(0) for layer in three(out.hidden_states)]
        by_hand.append(attended_mean(out, index, own_value))
        np.testing.assert_allclose(row, np.concatenate(by_hand), atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_states_before_an_answer_are_those_of_the_bare_language_model(family):
    model = writer(family)
    prompt, _, _, answer = token_ids(model)
    other = QueriedText("Good film. Bad.", (AnswerQuery("bad"),))  # an answer of another length
    texts = [other, QueriedText(TEXT, (AnswerQuery(ANSWER),))]
    batch = read_batch(model, texts, prepare_model(model, Request())[1], with_hidden_states=True)
    network = model.network.language_model
    usual = network.config._attn_implementation
    network.set_attn_implementation("eager")
    out = bare(network, input_ids=torch.tensor([[*prompt, *answer]]))
    network.set_attn_implementation(usual)
    says = list(range(len(prompt) - 1, len(prompt) + len(answer) - 1))
    result, unit = batch.hidden_states, np.array(unit_indices(model))
    np.testing.assert_allclose(
        result.head_input[1], three(out.hidden_states)[-1][says].mean(0), atol=1e-5
    )
    for number, row in enumerate(result.states[1]):
        own_value = np.flatnonzero(unit == number).tolist()
        by_hand = [layer[own_value].mean(0) for layer in three(out.hidden_states)]
        by_hand.append(attended_mean(out, says, own_value))
        np.testing.assert_allclose(row, np.concatenate(by_hand), atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2", "t5"])
def test_answers_of_different_lengths_share_their_calls(family):
    """A shorter answer in a batch has places to spare, which must lie inside the row."""
    model = writer(family)
    texts = [
        QueriedText(TEXT, (AnswerQuery("bad"),)),
        QueriedText("Good. Bad film.", (AnswerQuery(ANSWER),)),
    ]
    inputs = [model.read(text.text, queries=text.queries) for text in texts]
    together = model.outputs(inputs)
    single = [model.outputs([value])[0] for value in inputs]
    np.testing.assert_allclose(together, single, atol=1e-4)


@pytest.mark.parametrize("family", ["vit", "deit", "beit"])
def test_states_of_patches_are_those_of_the_bare_network(family):
    model = tiny_images(family)
    model_input, other = model.read(photo()), model.read(photo(seed=1))
    features = build_features(model_input, "patches")
    result = model.hidden_states([other, model_input], [features, features])
    values = model.tokenizer(photo(), return_tensors="pt", input_data_format="channels_last")
    with torch.no_grad():
        out = model.network(values["pixel_values"], output_hidden_states=True)
    special = out.hidden_states[0].shape[1] - len(features)
    layers = [layer[special:] for layer in three(out.hidden_states)]
    np.testing.assert_allclose(result.states[1], np.concatenate(layers, axis=1), atol=1e-5)
    np.testing.assert_allclose(result.outputs[1], out.logits[0].numpy(), atol=1e-5)
    if family == "vit":  # whose head reads [CLS]
        np.testing.assert_allclose(result.head_input[1], three(out.hidden_states)[-1][0], atol=1e-5)


def sentences(rng, count):
    return [
        " ".join(
            " ".join(rng.choice(PLAIN, rng.integers(1, 4))).capitalize() + "."
            for _ in range(rng.integers(3, 6))
        )
        for _ in range(count)
    ]


def make_inputs(kind, count, seed):
    rng = np.random.default_rng(seed)
    if kind == "images":
        return [photo(seed=1000 * seed + i) for i in range(count)]
    if kind == "answers":
        return sentences(rng, count)
    return [" ".join(rng.choice(PLAIN, rng.integers(4, 7))) for _ in range(count)]


def make_model_family(kind):
    return {"places": lambda: tagger()[0], "answers": writer,
            "images": lambda: tiny_images("vit")}[kind]()  # fmt: skip


KINDS = ("places", "answers", "images")
OPTIONS = {"answers": {"answer": "good film"}}
_METHODS = {}


def learned_method(kind):
    if kind not in _METHODS:
        count = {"places": 20, "answers": 60, "images": 40}[kind]
        arguments, request = make_inputs(kind, count, 1), OPTIONS.get(kind, {})
        _METHODS[kind] = limelight.learn(make_model_family(kind), arguments, judged=0, **request)
    return _METHODS[kind]


def make_text(one):
    return one.text if isinstance(one, QueriedText) else one


def reference(kind, seed=2):
    """Return items that were held out with values of all their sets of units, and of which."""
    model, requests = make_model_family(kind), OPTIONS.get(kind, {})
    count = {"places": 6, "answers": 20, "images": 12}[kind]
    arguments = make_inputs(kind, count, seed)
    _, request = prepare_model(model, Request(**requests))
    arguments = distinct_queries(model, request.attach_queries(arguments))
    arguments = list(chain(*learning.expand_texts(model, arguments)))
    if kind == "places":  # some words at least are not asked about
        arguments = [
            value
            for value in arguments
            if value.queries[0].end - value.queries[0].start < len(value.text)
        ]
    return model, arguments, limelight.explain(model, arguments, "shapley", target=0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_network_of_another_family_does_is_learned(kind):
    learned, (model, arguments, truth) = learned_method(kind), reference(kind)
    assert learned.example_kind == kind
    mine = limelight.explain(model, arguments, learned, target=0)
    assert [value.features for value in mine] == [element.features for element in truth]
    values = np.concatenate([one.scores for one in truth])
    off = np.concatenate([one.scores for one in mine]) - values
    stderr = np.concatenate([one.stderr for one in mine])
    assert 1 - np.mean(off**2) / np.mean(values**2) > 0.1 < learned.report["r2"]
    assert np.mean(np.abs(off) <= 2 * stderr) >= 0.9
    assert stderr.mean() < 1.5 * values.std()


@pytest.mark.parametrize("kind", KINDS)
def test_shuffled_values_of_another_family_teach_nothing(kind):
    model, arguments, truth = reference(kind, seed=3)
    _, request = prepare_model(model, Request())
    samples = [value.scores[None, None] for value in truth]
    signals = learned_method(kind).record["signals"]
    examples = learning.make_examples(model, arguments, samples, request, signals)
    order = np.random.default_rng(0).permutation(len(examples.values))
    mixed = fitting.Examples(
        examples.network_inputs,
        examples.values[order],
        np.zeros_like(examples.values),
        examples.draw_counts,
        examples.by_word,
    )
    number = {text: i for i, text in enumerate(dict.fromkeys(map(make_text, arguments)))}
    text = np.array([number[make_text(element)] for element in arguments])
    contained = text % 2 == 0
    held_out = fitting.HeldOut(contained, contained, contained, text)
    result = fitting.fit_examples(mixed, held_out, seed=0, curve=False)
    assert result.report["r2"] < 0.2


def test_all_queries_of_a_text_are_held_out_together():
    model = make_model_family("places")
    _, request = prepare_model(model, Request())
    arguments = distinct_queries(model, request.attach_queries(make_inputs("places", 30, 4)))
    contained = learning.SamplingPlan(arguments, 2, 0).held_out.is_held_out
    assert len(arguments) > 60
    sides = {}
    for value, own_value in zip(arguments, contained, strict=True):
        assert sides.setdefault(value.text, own_value) == own_value
    assert 0 < sum(sides.values()) < len(sides)


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_call_resumes_and_another_model_raises_an_error(kind, tmp_path):
    model, arguments = make_model_family(kind), make_inputs(kind, 22, 5)
    request = {"judged": 0, "pairs": 1, **OPTIONS.get(kind, {})}

    def stop(done, _):
        if done > 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        limelight.learn(model, arguments, output=tmp_path, progress=stop, **request)
    again = limelight.learn(model, arguments, output=tmp_path, **request)
    full = limelight.learn(model, arguments, **request)
    for name, array in full.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name])
    assert json.loads(json.dumps(again.record)) == LearnedMethod.load(tmp_path).record
    other = {"places": lambda: tagger("roberta")[0], "answers": lambda: writer("gpt2"),
             "images": lambda: tiny_images("deit")}[kind]()  # fmt: skip
    at = {"places": {"at": 0}, "answers": {"answer": "bad"}}.get(kind, {})
    with pytest.raises(InputError, match="learned from another model"):
        limelight.explain(other, arguments[0], again, **at)


def test_each_span_has_words_of_the_others(monkeypatch):
    """Spans asked about together keep all their words; a learned method explains each alone."""
    model, learned, text = (
        make_model_family("places"),
        learned_method("places"),
        "a superb film of plot",
    )
    place = (2, 8)
    single = limelight.explain(model, text, learned, at=place)
    result = [span for span in model.spans(text) if (span.start, span.end) != place][:1]
    monkeypatch.setattr(type(model), "spans", lambda *_, **__: (SpanQuery(*place), *result))
    together = limelight.explain_spans(model, text, learned)
    assert len(together) == 1 + len(result)
    assert together[0].features == single.features
    np.testing.assert_allclose(together[0].scores, single.scores, atol=1e-6)


def test_sentences_of_an_answer_are_explained_separately():
    model, learned = make_model_family("answers"), learned_method("answers")
    answer = "Good film. The plot is bad."
    for explain_sentence in limelight.explain_sentences(model, TEXT, learned, answer=answer):
        _, request = prepare_model(model, Request())
        batch = read_batch(
            model, [QueriedText(TEXT, (explain_sentence.query,))], request, with_hidden_states=True
        )
        (start,) = learned.score_texts(batch)
        np.testing.assert_allclose(explain_sentence.scores, start.values, atol=1e-6)
    with pytest.raises(InputError, match="a learned start supports a single span or answer"):
        limelight.explain_sentences(
            model, TEXT, "shapley", start=learned, answer=answer, pairs=2, max_pairs=2
        )


def test_an_image_unlike_the_others_has_a_warning(request):
    model, learned = make_model_family("images"), learned_method("images")
    request.getfixturevalue("briefly")
    white = limelight.explain(model, np.full((24, 24, 3), 255, np.uint8), learned)
    assert any(
        note.startswith("This image differs from the training images: ") for note in white.warnings
    )
    usual = limelight.explain(model, make_inputs("images", 6, 8), learned)
    assert (
        sum("differs from the training" in note for value in usual for note in value.warnings) <= 1
    )
    assert "patches" in " ".join(limelight.learn(
        model, make_inputs("images", 20, 9), judged=1, pairs=1
    ).report["sentences"])  # fmt: skip


@pytest.mark.usefixtures("briefly")
def test_images_may_be_files_of_a_folder(tmp_path):
    from limelight.data.columns import read_texts

    for number, array in enumerate(make_inputs("images", 21, 10)):
        (tmp_path / f"{number:02d}.png").write_bytes(ImageInput(array).png())
    assert len(read_texts(tmp_path)) == 21
    learned_method = limelight.learn(make_model_family("images"), tmp_path, judged=0, pairs=1)
    assert learned_method.report["texts"] + learned_method.report["held_out"] == 21


def test_other_spans_than_the_learned_ones_raise_an_error():
    model, learned = make_model_family("places"), learned_method("places")
    for request in ({"protect_span": False}, {"first_subwords": True}, {"features": "positions"}):
        with pytest.raises(InputError):
            limelight.explain(model, "a good film", learned, at="good", **request)


@pytest.mark.usefixtures("briefly")
def test_stored_values_of_answers_are_learned_from_and_of_images_are_not():
    model = writer()
    arguments = [
        QueriedText(text, (AnswerQuery("good film"),)) for text in make_inputs("answers", 30, 6)
    ]
    stored = limelight.explain(model, arguments, "shapley")
    learned = limelight.learn(model, stored, judged=0)
    assert learned.example_kind == "answers"
    samples = limelight.explain(tiny_images("vit"), make_inputs("images", 1, 7), "shapley", pairs=2)
    with pytest.raises(InputError, match="Give the images themselves"):
        limelight.learn(tiny_images("vit"), list(samples) * 20)


def test_a_method_scores_hidden_states_on_a_device_as_those_on_the_host(monkeypatch):
    torch = pytest.importorskip("torch")
    from limelight.models.hugging_face.model import HuggingFace

    model, learned = make_model_family("answers"), learned_method("answers")
    texts, hidden_states = make_inputs("answers", 12, 3), HuggingFace.hidden_states
    on_host = limelight.explain(model, texts, learned, **OPTIONS["answers"])

    def states_on_a_device(self, inputs, features):
        host = hidden_states(self, inputs, features)
        states = [torch.as_tensor(state, dtype=torch.float64) for state in host.states]
        return host._replace(states=states, head_input=torch.as_tensor(host.head_input))

    monkeypatch.setattr(HuggingFace, "hidden_states", states_on_a_device)
    on_device = limelight.explain(model, texts, learned, **OPTIONS["answers"])
    for host, device in zip(on_host, on_device, strict=True):
        np.testing.assert_allclose(device.scores, host.scores, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(device.stderr, host.stderr, rtol=1e-4, atol=1e-6)


def test_states_that_take_much_memory_are_brought_to_the_host(monkeypatch):
    from limelight.models.hugging_face import layers

    model, learned = make_model_family("answers"), learned_method("answers")
    texts = make_inputs("answers", 6, 4)
    expected = limelight.explain(model, texts, learned, **OPTIONS["answers"])
    moved = []
    monkeypatch.setattr(layers, "_MAX_DEVICE_BYTES", 0)
    monkeypatch.setattr(layers, "host_array", lambda array: moved.append(array) or array)
    actual = limelight.explain(model, texts, learned, **OPTIONS["answers"])
    assert moved
    for before, after in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(before.scores, after.scores)
