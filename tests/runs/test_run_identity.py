"""A run goes on only with the model that began it: whatever changes a number is compared."""

import re

import numpy as np
import pytest

import limelight
from limelight.errors import InputError

from hash_seeds import outputs_under_hash_seeds

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

from limelight.models.fingerprints import function_fingerprint
from limelight.runs import Run

from tiny_models import tiny_model

DATA = {"text": ["a good film", "a bad film", "fine work"] * 4}
STRENGTH = {"good": 0.9}
LIMIT = 3


def chance_of_good(texts):
    return np.array([[0.1, 0.9] if "good" in text else [0.8, 0.2] for text in texts])


def chance_of_bad(texts):
    return np.array([[0.6, 0.4] if "bad" in text else [0.3, 0.7] for text in texts])


def table_scores(texts):
    return np.array([[1 - p, p] for p in (STRENGTH.get(text[2:6], 0.3) for text in texts)])


def through_helper(texts):
    return [help_with(text) for text in texts]


def help_with(text):
    return [0.5, 0.5] if len(text) > LIMIT else [0.2, 0.8]


def with_default(texts, high=0.9):
    return np.array([[1 - high, high] if "good" in text else [0.8, 0.2] for text in texts])


def with_closure(high):
    return lambda texts: np.array([[1 - high, high] for _ in texts])


class Scorer:
    """A model of somebody's own."""

    def __init__(self, high):
        self.high, self.calls = high, 0

    def __call__(self, texts):
        self.calls += 1
        return self.score(texts)

    def score(self, texts):
        return np.array([[1 - self.high, self.high] for _ in texts])


class OtherScorer(Scorer):
    def score(self, texts):
        return np.array([[self.high, 1 - self.high] for _ in texts])


def words_at_spaces(text):
    return [match.span() for match in re.finditer(r"\S+", text)]


def wrap_model(function=chance_of_good, **options):
    return limelight.wrap(function, **{"classes": ["neg", "pos"], **options})


def explain_text(model, folder, **options):
    options = {"output": folder, "shard_texts": 4, "progress": False, **options}
    return limelight.explain_data(model, DATA, "loo", **options)


CHANGES = {
    "function": (
        wrap_model,
        lambda: wrap_model(chance_of_bad),
        r"function \(by SHA-256\) of the model",
    ),
    "default": (
        lambda: wrap_model(with_default),
        lambda: wrap_model(lambda texts: with_default(texts, 0.7)),
        r"function \(by SHA-256\)",
    ),
    "closure": (
        lambda: wrap_model(with_closure(0.9)),
        lambda: wrap_model(with_closure(0.8)),
        r"function \(by SHA-256\)",
    ),
    "attribute": (
        lambda: wrap_model(Scorer(0.9)),
        lambda: wrap_model(Scorer(0.8)),
        r"function \(by",
    ),
    "method of a class": (
        lambda: wrap_model(Scorer(0.9)),
        lambda: wrap_model(OtherScorer(0.9), name="tests.Scorer"),
        r"function \(by",
    ),
    "same name=": (
        lambda: wrap_model(name="mine"),
        lambda: wrap_model(chance_of_bad, name="mine"),
        r"function \(by",
    ),
    "classes": (
        wrap_model,
        lambda: wrap_model(classes=["x", "y"]),
        r"list of classes is \['neg', 'pos'\]",
    ),
    "words": (
        wrap_model,
        lambda: wrap_model(words=words_at_spaces),
        r"words \(by SHA-256\) of the model",
    ),
    "multi_label": (
        wrap_model,
        lambda: wrap_model(multi_label=True),
        "multi_label of the model",
    ),
    "scale": (
        wrap_model,
        lambda: wrap_model(scale="logit"),
        "scale of the model is 'prob",
    ),
    "mask": (wrap_model, lambda: wrap_model(mask="[M]"), r"mask of the model is None, not '\[M\]'"),
    "weights": (
        lambda: tiny_model(2),
        lambda: tiny_model(2, scale=2.0),
        r"model \(by fingerprint\)",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_does_not_continue_with_another_model(tmp_path, change):
    first, other, clause = CHANGES[change]
    run = explain_text(first(), tmp_path / "run")
    shard = run.path / "shards" / "00001.parquet"
    stored = shard.read_bytes()
    shard.unlink()
    with pytest.raises(InputError, match=f"contains another run: its {clause}"):
        explain_text(other(), run.path)
    assert not shard.exists()
    explain_text(first(), run.path)  # made anew: the same function has the same digest
    assert shard.read_bytes() == stored


@pytest.mark.parametrize(
    ("function", "name", "value"),
    [(table_scores, "STRENGTH", {"good": 0.8}), (through_helper, "LIMIT", 4)],
)
def test_a_table_or_a_number_that_a_function_uses_counts(monkeypatch, function, name, value):
    before = wrap_model(function).fingerprint
    assert wrap_model(function).fingerprint == before
    monkeypatch.setitem(globals(), name, value)
    assert wrap_model(function).fingerprint != before


def test_a_helper_of_a_function_counts(monkeypatch):
    before = wrap_model(through_helper).fingerprint
    monkeypatch.setitem(globals(), "help_with", lambda _: [0.1, 0.9])
    assert wrap_model(through_helper).fingerprint != before


def test_the_weights_of_a_network_in_a_closure_count():
    torch = pytest.importorskip("torch")
    network = torch.nn.Linear(2, 2)

    def answer(texts):
        return torch.softmax(network(torch.ones(len(texts), 2)), -1)

    before = function_fingerprint(answer)
    assert before.unchecked_parts == ()
    answer(["a"])
    assert function_fingerprint(answer) == before
    with torch.no_grad():
        network.bias += 1
    assert function_fingerprint(answer).digest != before.digest


CACHE, CALLS = {}, []


def cached_outputs(texts):
    CALLS.append(len(texts))
    for text in texts:
        CACHE[text] = [0.5, 0.5]
    return [CACHE[text] for text in texts]


def test_a_cache_or_counter_that_a_call_fills_does_not_end_a_run(tmp_path):
    scorer = Scorer(0.9)
    for model in (cached_outputs, scorer):
        before = wrap_model(model)
        before.predict_proba(["a good film"])
        assert wrap_model(model).fingerprint == before.fingerprint
    assert scorer.calls == 1
    assert {"CACHE", "CALLS"} <= set(wrap_model(cached_outputs).unchecked_parts)


def test_a_function_without_a_readable_state_brings_one_warning(tmp_path):
    import threading

    lock = threading.Lock()

    def locked_outputs(texts):
        with lock:
            return chance_of_good(texts)

    messages = []
    options = {"progress": lambda event: messages.extend([event.warning] if event.warning else [])}
    explain_text(wrap_model(locked_outputs), tmp_path / "run", **options)
    warnings = [warning for warning in messages if "cannot check whether" in warning]
    assert len(warnings) == 1
    assert "whether lock of this function changes" in warnings[0]
    messages.clear()
    explain_text(wrap_model(chance_of_good), tmp_path / "sure", **options)
    assert messages == []


def test_a_fingerprint_of_a_function_is_the_same_in_another_process(tmp_path):
    module = tmp_path / "mine.py"
    module.write_text(
        "import re\nTABLE = {'b': 1, 'a': {3, 1, 2}}\nENDS = re.compile('s$')\n"
        "class Scorer:\n    def __call__(self, texts):\n        return [[TABLE['b'], 0]] * 2\n"
        "def predict(texts):\n    return [[ENDS.sub('', text), TABLE] for text in texts]\n"
    )
    program = (
        "import mine, limelight\n"
        "for one in (mine.predict, mine.Scorer()):\n"
        "    print(limelight.wrap(one, classes=['a', 'b']).fingerprint)"
    )
    fingerprint = outputs_under_hash_seeds(program, tmp_path)
    assert len(fingerprint) == 1
    assert next(iter(fingerprint)).startswith("mine.predict ")


def test_two_pipelines_with_one_name_are_two_models():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts, labels = DATA["text"], [1, 0, 1] * 4
    fitted = [
        make_pipeline(CountVectorizer(), LogisticRegression(C=C)).fit(texts, labels) for C in (1, 9)
    ]
    first, second, again = (limelight.wrap(fitted[i], name="mine") for i in (0, 1, 0))
    assert first.fingerprint == again.fingerprint != second.fingerprint
    wrapped_model = limelight.wrap(fitted[0], name="mine", mask="x")
    assert wrapped_model.fingerprint != first.fingerprint


def test_a_run_names_its_model_and_serves_no_other(tmp_path):
    run = explain_text(wrap_model(name="mine"), tmp_path / "run")
    assert run.record.model.fingerprint == wrap_model(name="mine").fingerprint
    assert Run(run.path).explanation(0).model == wrap_model(name="mine").fingerprint
    assert run.record.model.fingerprint != wrap_model(chance_of_bad, name="mine").fingerprint
    with pytest.raises(InputError, match="the run belongs to another model"):
        limelight.serve(wrap_model(chance_of_bad, name="mine"), run=run, seconds=0.1)


class Awkward:
    """An object that raises whatever is asked of it."""

    def __getattr__(self, name):
        raise RuntimeError(name)


def test_an_object_that_cannot_be_walked_is_named_and_does_no_harm():
    awkward, endless = Awkward(), []
    for _ in range(5000):
        endless = [endless]

    def answer(texts):
        return chance_of_good(texts) if awkward is not None and endless else None

    model = wrap_model(answer)
    assert model.unchecked_parts
    assert model.predict_proba(["a good film"])[0, 1] == pytest.approx(0.9)
    assert wrap_model(answer).fingerprint == model.fingerprint
