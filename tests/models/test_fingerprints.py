"""A fingerprint tells trained models apart, and is the same for the same model."""

import importlib
import re
import sys
import threading
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer

import limelight
from limelight.models.fingerprints import function_fingerprint, object_fingerprint

from hash_seeds import outputs_under_hash_seeds
from tiny_transformers import tiny

TEXTS = ["good film", "bad film", "very good plot", "very bad plot", "good", "bad acting"] * 3
LABELS = [1, 0, 1, 0, 1, 0] * 3


def trained(last, texts=TEXTS, labels=LABELS):
    words = make_union(TfidfVectorizer(), CountVectorizer(ngram_range=(2, 2)))
    return make_pipeline(words, last).fit(texts, labels)


@pytest.mark.parametrize(
    "last",
    [
        LogisticRegression,
        MultinomialNB,
        lambda: RandomForestClassifier(3, random_state=0),
        lambda: MLPClassifier((3,), max_iter=3, random_state=0, solver="lbfgs"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fingerprints_of_pipelines_differ_by_their_parameters(last):
    value, again = (limelight.wrap(trained(last())) for _ in range(2))
    assert value.fingerprint == again.fingerprint
    assert value.fingerprint.startswith("Pipeline ")
    upside_down = limelight.wrap(trained(last(), labels=[1 - label for label in LABELS]))
    other_words = limelight.wrap(trained(last(), texts=[t + " plot" for t in TEXTS]))
    assert len({value.fingerprint, upside_down.fingerprint, other_words.fingerprint}) == 3
    assert repr(trained(last())) == repr(upside_down.function.__self__)  # which tells nothing


def test_functions_inside_a_pipeline_count():
    def repeat_texts(factor):
        return FunctionTransformer(lambda texts: [text * factor for text in texts])

    digests = {
        object_fingerprint(make_pipeline(repeat_texts(n), CountVectorizer())) for n in (1, 2, 2)
    }
    assert len(digests) == 2


STOP, ENDS = {"the"}, re.compile("s$")


def stem_words(text):
    return [word for word in map(strip_ending, text.split()) if word not in STOP]


def strip_ending(word):
    return ENDS.sub("", word)


def test_what_a_function_finds_in_its_module_counts(monkeypatch):
    """A list of stop words, a pattern, and what another function there finds."""
    index = object_fingerprint(CountVectorizer(tokenizer=stem_words))
    assert object_fingerprint(CountVectorizer(tokenizer=stem_words)) == index
    for name, value in {"STOP": {"the", "a"}, "ENDS": re.compile("es$")}.items():
        with monkeypatch.context() as patch:
            patch.setitem(globals(), name, value)
            assert object_fingerprint(CountVectorizer(tokenizer=stem_words)) != index
    assert object_fingerprint(CountVectorizer(tokenizer=stem_words)) == index


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (partial(sorted, key=len), partial(sorted, key=str)),
        (re.compile("a"), re.compile("b")),
        (np.arange(6), np.arange(6).reshape(2, 3)),
        (np.arange(3), np.arange(3.0)),
        ([1, 23], [12, 3]),
        (["a", "bc"], ["ab", "c"]),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (np.array(["a", None]), np.array(["b", None])),
        (b"a", "a"),
        ([[1], 2], [[1, 2]]),
    ],
)
def test_different_things_have_different_fingerprints(value, other):
    assert object_fingerprint(value) != object_fingerprint(other)
    assert object_fingerprint(value) == object_fingerprint(value)


def test_where_a_vectorizer_keeps_its_stop_words_does_not_count():
    """It remembers their address, which no other process has."""
    fitted = CountVectorizer(stop_words=["the"]).fit(["the good film"])
    index = object_fingerprint(fitted)
    fitted._stop_words_id += 16
    assert object_fingerprint(fitted) == index
    assert object_fingerprint(CountVectorizer(stop_words=["a"]).fit(["the good film"])) != index


def test_what_holds_itself_has_a_fingerprint():
    loop = [1]
    loop.append(loop)
    assert object_fingerprint(loop) != object_fingerprint([1])


def test_a_fingerprint_is_the_same_in_another_process():
    program = (
        "from limelight.models.fingerprints import object_fingerprint\n"
        "print(object_fingerprint([{'b', 'a', 'c'}, {'x': 1.5, 'y': None}, (1, 'z')]))"
    )
    result = outputs_under_hash_seeds(program)
    assert result == {object_fingerprint([{"b", "a", "c"}, {"x": 1.5, "y": None}, (1, "z")]) + "\n"}


def test_a_network_whose_weights_change_has_another_fingerprint():
    network, tokenizer = tiny("bert")
    model = limelight.wrap(network, tokenizer=tokenizer)
    first = model.fingerprint
    assert limelight.explain(model, "a good film", "gxi").model == first
    with torch.no_grad():
        network.classifier.bias += 1
    second = model.fingerprint
    network.load_state_dict({k: v * 2 for k, v in network.state_dict().items()})
    third = model.fingerprint
    network.classifier = torch.nn.Linear(12, 3)
    fourth = model.fingerprint
    network.config.problem_type = "regression"
    assert len({first, second, third, fourth, model.fingerprint}) == 5
    assert model.fingerprint == limelight.wrap(network, tokenizer=tokenizer).fingerprint


def test_a_fingerprint_says_which_model_it_is_and_not_which_library_reads_it():
    network, tokenizer = tiny("bert")

    def fingerprint():
        return limelight.wrap(network, tokenizer=tokenizer).fingerprint

    usual = fingerprint()
    network.config.transformers_version, network.config.name_or_path = "9.9.9", "elsewhere"
    network.config.option_of_a_later_version = None
    tokenizer(["a good film", "a film"], padding=True, truncation=True, max_length=5)
    assert fingerprint() == usual
    network.config.layer_norm_eps = 0.1
    other = fingerprint()
    tokenizer.add_tokens(["unheard"])
    assert len({usual, other, fingerprint()}) == 3


def test_a_network_has_the_same_fingerprint_before_it_is_saved(tmp_path):
    network, tokenizer = tiny("bert")
    before = limelight.wrap(network, tokenizer=tokenizer).fingerprint
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert limelight.load(tmp_path).fingerprint == before


def test_weights_that_did_not_change_are_not_read_again(monkeypatch):
    from limelight.models.hugging_face import forward as fingerprints

    network, tokenizer = tiny("bert")
    read = []
    once = fingerprints._weights_digest
    monkeypatch.setattr(fingerprints, "_weights_digest", lambda ts: read.append(1) or once(ts))
    model = limelight.wrap(network, tokenizer=tokenizer)
    assert model.fingerprint == model.fingerprint
    limelight.explain_classes(model, ["a good film", "a bad film"], "gxi")
    assert read == [1]


def test_weights_that_torch_does_not_count_are_read_every_time():
    with torch.inference_mode():
        network, tokenizer = tiny("bert")
    model = limelight.wrap(network, tokenizer=tokenizer)
    first = model.fingerprint
    with torch.inference_mode():
        network.classifier.bias += 1
    assert model.fingerprint != first


def set_limit(network, tokenizer):
    tokenizer.model_max_length = 7


def set_mask(network, tokenizer):
    tokenizer.mask_token = "film"


def set_unknown(network, tokenizer):
    tokenizer.unk_token = "good"


def set_cut(network, tokenizer):
    tokenizer.truncation_side = "left"


def set_segments(network, tokenizer):
    tokenizer.model_input_names = [*tokenizer.model_input_names, "token_type_ids"]


def set_classes(network, tokenizer):
    network.config.id2label = {0: "x", 1: "y", 2: "z"}


def set_link(network, tokenizer):
    network.config.problem_type = "multi_label_classification"


def set_accents(network, tokenizer):
    from tokenizers.normalizers import BertNormalizer

    tokenizer.backend_tokenizer.normalizer = BertNormalizer(strip_accents=False)


CHANGES = (
    set_limit, set_mask, set_unknown, set_cut, set_segments, set_classes, set_link, set_accents
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_how_a_network_reads_changes_its_fingerprint(change):
    from tokenizers.normalizers import BertNormalizer

    models = []
    for changed in (False, True):
        network, tokenizer = tiny("bert")
        tokenizer.backend_tokenizer.normalizer = BertNormalizer(strip_accents=None)
        if changed:
            change(network, tokenizer)
        models.append(limelight.wrap(network, tokenizer=tokenizer))
    assert models[0].fingerprint != models[1].fingerprint
    again = limelight.wrap(*tiny("bert")[:1], tokenizer=models[0].tokenizer)
    assert again.fingerprint == models[0].fingerprint


def test_fingerprints_differ_by_options():
    """Of GPT-2: without this option attention is not divided by the root of its size."""
    prints = []
    for scaled in (True, False):
        network, tokenizer = tiny("gpt2")
        network.config.scale_attn_weights = scaled
        prints.append(limelight.wrap(network, tokenizer=tokenizer).fingerprint)
    assert prints[0] != prints[1]


def test_fingerprints_of_span_functions_and_endpoints_differ_by_their_options():
    def spans(texts):
        return [[(0, 1, "A", 0.5)] for _ in texts]

    def other_spans(texts):
        return [[(0, 2, "A", 0.5)] for _ in texts]

    kinds = [
        limelight.wrap(spans, tags=["A"]),
        limelight.wrap(other_spans, tags=["A"]),
        limelight.wrap(spans, tags=["A", "B"]),
        limelight.wrap(spans, tags=["A"], scale="score"),
        limelight.wrap(spans, tags=["A"], mask="x"),
        limelight.wrap(spans, tags=["A"], words=lambda text: [(0, len(text))]),
    ]
    assert len({kind.fingerprint for kind in kinds}) == len(kinds)
    request = {"model": "m", "template": "{text}?"}
    changes = ({}, {"model": "n"}, {"template": "{text}!"}, {"per_token": True})
    servers = [
        limelight.wrap_endpoint("http://localhost:1/v1", **request | change) for change in changes
    ]
    servers.append(limelight.wrap_endpoint("http://localhost:2/v1", **request))
    assert len({server.fingerprint for server in servers}) == len(servers)


def test_fingerprints_of_images_and_pairs_differ():
    def score(given):
        return [[0.5, 0.5] for _ in given]

    options = ({}, {"pairs": True}, {"images": True}, {"multi_label": True}, {"scale": "score"})
    kinds = [limelight.wrap(score, classes=["a", "b"], **option) for option in options]
    assert len({kind.fingerprint for kind in kinds}) == len(kinds)
    same = limelight.wrap(score, classes=["a", "b"], batch_size=3)
    assert same.fingerprint == kinds[0].fingerprint  # it changes no number


def lemmas(text):
    return [word for word in text.split() if DICTIONARY.has(word)]


class Dictionary:
    """A part of a pipeline that nobody can look into: it holds a lock."""

    def __init__(self):
        self.lock = threading.Lock()

    def has(self, word):
        return bool(word)


DICTIONARY = Dictionary()


def test_a_pipeline_names_what_its_fingerprint_does_not_cover():
    texts, labels = TEXTS, LABELS
    plain = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, labels)
    assert limelight.wrap(plain).unchecked_parts == ()
    forest = make_pipeline(CountVectorizer(), RandomForestClassifier(2)).fit(texts, labels)
    assert limelight.wrap(forest).unchecked_parts == ()
    opaque = make_pipeline(
        CountVectorizer(tokenizer=lemmas, token_pattern=None), LogisticRegression()
    ).fit(texts, labels)
    assert limelight.wrap(opaque).unchecked_parts == ("lock",)


def test_a_helper_from_another_module_of_the_user_counts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    prints = []
    for weight in (1, 2):
        for name in ("mine_helper", "mine_model"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        (tmp_path / "mine_helper.py").write_text(
            f"def weigh(x):\n    return x * {weight} # {'x' * weight}"
        )
        (tmp_path / "mine_model.py").write_text(
            "import mine_helper\nfrom mine_helper import weigh\n"
            "def by_name(texts):\n    return [weigh(1) for text in texts]\n"
            "def by_module(texts):\n    return [mine_helper.weigh(1) for text in texts]\n"
        )
        module = importlib.import_module("mine_model")
        prints.append([function_fingerprint(value) for value in (module.by_name, module.by_module)])
    for first, second in zip(*prints, strict=True):
        assert first.digest != second.digest
        assert first.unchecked_parts == second.unchecked_parts == ()
    for name in ("mine_helper", "mine_model"):
        sys.modules.pop(name, None)
