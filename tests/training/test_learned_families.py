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
from test_answers import ANSWER, TEXT, ids_of, units_of, writer
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


def attended(out, places, own):
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
    here = [i for i, (a, b) in enumerate(spans) if a < place[1] and b > place[0]]
    found = batch.hidden_states
    np.testing.assert_allclose(
        found.head_input[0], three(out.hidden_states)[-1][here].mean(0), atol=1e-5
    )
    for row, word in zip(found.states[0], batch.features[0].spans, strict=True):
        own = [i for i, (a, b) in enumerate(spans) if any(a < d and c < b for c, d in word)]
        by_hand = [layer[own].mean(0) for layer in three(out.hidden_states)]
        by_hand.append(attended(out, here, own))
        np.testing.assert_allclose(row, np.concatenate(by_hand), atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_states_before_an_answer_are_those_of_the_bare_language_model(family):
    model = writer(family)
    prompt, _, _, answer = ids_of(model)
    other = QueriedText("Good film. Bad.", (AnswerQuery("bad"),))  # an answer of another length
    texts = [other, QueriedText(TEXT, (AnswerQuery(ANSWER),))]
    batch = read_batch(model, texts, prepare_model(model, Request())[1], with_hidden_states=True)
    network = model.network.language_model
    usual = network.config._attn_implementation
    network.set_attn_implementation("eager")
    out = bare(network, input_ids=torch.tensor([[*prompt, *answer]]))
    network.set_attn_implementation(usual)
    says = list(range(len(prompt) - 1, len(prompt) + len(answer) - 1))
    found, unit = batch.hidden_states, np.array(units_of(model))
    np.testing.assert_allclose(
        found.head_input[1], three(out.hidden_states)[-1][says].mean(0), atol=1e-5
    )
    for number, row in enumerate(found.states[1]):
        own = np.flatnonzero(unit == number).tolist()
        by_hand = [layer[own].mean(0) for layer in three(out.hidden_states)]
        by_hand.append(attended(out, says, own))
        np.testing.assert_allclose(row, np.concatenate(by_hand), atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2", "t5"])
def test_answers_of_different_lengths_share_their_calls(family):
    """A shorter answer in a batch has places to spare, which must lie inside the row."""
    model = writer(family)
    texts = [
        QueriedText(TEXT, (AnswerQuery("bad"),)),
        QueriedText("Good. Bad film.", (AnswerQuery(ANSWER),)),
    ]
    inputs = [model.read(one.text, queries=one.queries) for one in texts]
    together = model.outputs(inputs)
    alone = [model.outputs([one])[0] for one in inputs]
    np.testing.assert_allclose(together, alone, atol=1e-4)


@pytest.mark.parametrize("family", ["vit", "deit", "beit"])
def test_states_of_patches_are_those_of_the_bare_network(family):
    model = tiny_images(family)
    model_input, other = model.read(photo()), model.read(photo(seed=1))
    features = build_features(model_input, "patches")
    found = model.hidden_states([other, model_input], [features, features])
    values = model.tokenizer(photo(), return_tensors="pt", input_data_format="channels_last")
    with torch.no_grad():
        out = model.network(values["pixel_values"], output_hidden_states=True)
    special = out.hidden_states[0].shape[1] - len(features)
    layers = [layer[special:] for layer in three(out.hidden_states)]
    np.testing.assert_allclose(found.states[1], np.concatenate(layers, axis=1), atol=1e-5)
    np.testing.assert_allclose(found.outputs[1], out.logits[0].numpy(), atol=1e-5)
    if family == "vit":  # whose head reads [CLS]
        np.testing.assert_allclose(found.head_input[1], three(out.hidden_states)[-1][0], atol=1e-5)


def sentences(rng, count):
    return [
        " ".join(
            " ".join(rng.choice(PLAIN, rng.integers(1, 4))).capitalize() + "."
            for _ in range(rng.integers(3, 6))
        )
        for _ in range(count)
    ]


def items_of(kind, count, seed):
    rng = np.random.default_rng(seed)
    if kind == "images":
        return [photo(seed=1000 * seed + i) for i in range(count)]
    if kind == "answers":
        return sentences(rng, count)
    return [" ".join(rng.choice(PLAIN, rng.integers(4, 7))) for _ in range(count)]


def model_of(kind):
    return {"places": lambda: tagger()[0], "answers": writer,
            "images": lambda: tiny_images("vit")}[kind]()  # fmt: skip


KINDS = ("places", "answers", "images")
OPTIONS = {"answers": {"answer": "good film"}}
_METHODS = {}


def learned_of(kind):
    if kind not in _METHODS:
        count = {"places": 20, "answers": 60, "images": 40}[kind]
        given, asked = items_of(kind, count, 1), OPTIONS.get(kind, {})
        _METHODS[kind] = limelight.learn(model_of(kind), given, judged=0, **asked)
    return _METHODS[kind]


def text_of(one):
    return one.text if isinstance(one, QueriedText) else one


def reference(kind, seed=2):
    """Return items that were held out with values of all their sets of units, and of which."""
    model, asked = model_of(kind), OPTIONS.get(kind, {})
    count = {"places": 6, "answers": 20, "images": 12}[kind]
    given = items_of(kind, count, seed)
    _, request = prepare_model(model, Request(**asked))
    given = distinct_queries(model, request.attach_queries(given))
    given = list(chain(*learning.expand_texts(model, given)))
    if kind == "places":  # some words at least are not asked about
        given = [one for one in given if one.queries[0].end - one.queries[0].start < len(one.text)]
    return model, given, limelight.explain(model, given, "shapley", target=0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_network_of_another_family_does_is_learned(kind):
    learned, (model, given, truth) = learned_of(kind), reference(kind)
    assert learned.example_kind == kind
    mine = limelight.explain(model, given, learned, target=0)
    assert [one.features for one in mine] == [one.features for one in truth]
    values = np.concatenate([one.scores for one in truth])
    off = np.concatenate([one.scores for one in mine]) - values
    stderr = np.concatenate([one.stderr for one in mine])
    assert 1 - np.mean(off**2) / np.mean(values**2) > 0.1 < learned.report["r2"]
    assert np.mean(np.abs(off) <= 2 * stderr) >= 0.9
    assert stderr.mean() < 1.5 * values.std()


@pytest.mark.parametrize("kind", KINDS)
def test_shuffled_values_of_another_family_teach_nothing(kind):
    model, given, truth = reference(kind, seed=3)
    _, request = prepare_model(model, Request())
    drawn = [one.scores[None, None] for one in truth]
    signals = learned_of(kind).record["signals"]
    examples = learning.make_examples(model, given, drawn, request, signals)
    order = np.random.default_rng(0).permutation(len(examples.values))
    mixed = fitting.Examples(
        examples.network_inputs,
        examples.values[order],
        np.zeros_like(examples.values),
        examples.draw_counts,
        examples.by_word,
    )
    number = {text: i for i, text in enumerate(dict.fromkeys(map(text_of, given)))}
    text = np.array([number[text_of(one)] for one in given])
    held = text % 2 == 0
    held_out = fitting.HeldOut(held, held, held, text)
    found = fitting.fit_examples(mixed, held_out, seed=0, curve=False)
    assert found.report["r2"] < 0.2


def test_all_queries_of_a_text_are_held_out_together():
    model = model_of("places")
    _, request = prepare_model(model, Request())
    given = distinct_queries(model, request.attach_queries(items_of("places", 30, 4)))
    held = learning.SamplingPlan(given, 2, 0).held_out.is_held_out
    assert len(given) > 60
    sides = {}
    for one, own in zip(given, held, strict=True):
        assert sides.setdefault(one.text, own) == own
    assert 0 < sum(sides.values()) < len(sides)


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_call_resumes_and_another_model_raises_an_error(kind, tmp_path):
    model, given = model_of(kind), items_of(kind, 22, 5)
    asked = {"judged": 0, "pairs": 1, **OPTIONS.get(kind, {})}

    def stop(done, _):
        if done > 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        limelight.learn(model, given, output=tmp_path, progress=stop, **asked)
    again = limelight.learn(model, given, output=tmp_path, **asked)
    whole = limelight.learn(model, given, **asked)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name])
    assert json.loads(json.dumps(again.record)) == LearnedMethod.load(tmp_path).record
    other = {"places": lambda: tagger("roberta")[0], "answers": lambda: writer("gpt2"),
             "images": lambda: tiny_images("deit")}[kind]()  # fmt: skip
    at = {"places": {"at": 0}, "answers": {"answer": "bad"}}.get(kind, {})
    with pytest.raises(InputError, match="learned from another model"):
        limelight.explain(other, given[0], again, **at)


def test_each_span_has_words_of_the_others(monkeypatch):
    """Spans asked about together keep all their words; a learned method explains each alone."""
    model, learned, text = model_of("places"), learned_of("places"), "a superb film of plot"
    place = (2, 8)
    alone = limelight.explain(model, text, learned, at=place)
    found = [one for one in model.spans(text) if (one.start, one.end) != place][:1]
    monkeypatch.setattr(type(model), "spans", lambda *_, **__: (SpanQuery(*place), *found))
    together = limelight.explain_spans(model, text, learned)
    assert len(together) == 1 + len(found)
    assert together[0].features == alone.features
    np.testing.assert_allclose(together[0].scores, alone.scores, atol=1e-6)


def test_sentences_of_an_answer_are_explained_separately():
    model, learned = model_of("answers"), learned_of("answers")
    answer = "Good film. The plot is bad."
    for one in limelight.explain_sentences(model, TEXT, learned, answer=answer):
        _, request = prepare_model(model, Request())
        batch = read_batch(
            model, [QueriedText(TEXT, (one.query,))], request, with_hidden_states=True
        )
        (start,) = learned.score_texts(batch)
        np.testing.assert_allclose(one.scores, start.values, atol=1e-6)
    with pytest.raises(InputError, match="a learned start supports a single span or answer"):
        limelight.explain_sentences(
            model, TEXT, "shapley", start=learned, answer=answer, pairs=2, max_pairs=2
        )


def test_an_image_unlike_the_others_has_a_warning(request):
    model, learned = model_of("images"), learned_of("images")
    request.getfixturevalue("briefly")
    white = limelight.explain(model, np.full((24, 24, 3), 255, np.uint8), learned)
    assert any(
        note.startswith("This image differs from the training images: ") for note in white.warnings
    )
    usual = limelight.explain(model, items_of("images", 6, 8), learned)
    assert sum("differs from the training" in note for one in usual for note in one.warnings) <= 1
    assert "patches" in " ".join(limelight.learn(
        model, items_of("images", 20, 9), judged=1, pairs=1
    ).report["sentences"])  # fmt: skip


@pytest.mark.usefixtures("briefly")
def test_images_may_be_files_of_a_folder(tmp_path):
    from limelight.data.columns import read_texts

    for number, array in enumerate(items_of("images", 21, 10)):
        (tmp_path / f"{number:02d}.png").write_bytes(ImageInput(array).png())
    assert len(read_texts(tmp_path)) == 21
    found = limelight.learn(model_of("images"), tmp_path, judged=0, pairs=1)
    assert found.report["texts"] + found.report["held_out"] == 21


def test_other_spans_than_the_learned_ones_raise_an_error():
    model, learned = model_of("places"), learned_of("places")
    for asked in ({"protect_span": False}, {"first_subwords": True}, {"features": "positions"}):
        with pytest.raises(InputError):
            limelight.explain(model, "a good film", learned, at="good", **asked)


@pytest.mark.usefixtures("briefly")
def test_stored_values_of_answers_are_learned_from_and_of_images_are_not():
    model = writer()
    given = [QueriedText(text, (AnswerQuery("good film"),)) for text in items_of("answers", 30, 6)]
    stored = limelight.explain(model, given, "shapley")
    learned = limelight.learn(model, stored, judged=0)
    assert learned.example_kind == "answers"
    drawn = limelight.explain(tiny_images("vit"), items_of("images", 1, 7), "shapley", pairs=2)
    with pytest.raises(InputError, match="Give the images themselves"):
        limelight.learn(tiny_images("vit"), list(drawn) * 20)
