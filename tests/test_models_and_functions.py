"""Call every function with every kind of model, and compare with a stored table.

The table contains results, kinds of errors and numbers of model calls. It contains no messages:
other tests quote them. Warnings are counted.

``python tests/test_models_and_functions.py`` writes the table again. With ``--bits`` it prints
all numbers in full and all messages, to compare them with those of another commit.
"""

import http.client
import json
import os
import runpy
import sys
import tempfile
import warnings
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import limelight
from limelight.explainers.learned import LearnedMethod
from limelight.models.engine import Engine
from limelight.results.explanation import Explanations
from limelight.results.judgment import JudgedText
from limelight.text import Conversation
from shape_checks import no_type_checks

pytest.importorskip("torch")
pytest.importorskip("sklearn")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "models")] if __name__ == "__main__" else []
TABLE = HERE / "models_and_functions.json"
TEXT, OTHER = "the plot is bad . good film .", "a superb film but the plot is predictable"
SPAN, ANSWER = "plot", "good . bad film ."
TEXT_FUNCTIONS = ("explain spans", "explain sentences")
# Large fields of a page's answer.
OMITTED = {"drawings", "heads", "image", "model", "openings"}
pytestmark = pytest.mark.filterwarnings("ignore")


class CustomModel:
    """A model of another package, which uses only the tokenizer of limelight."""

    link, replacements, capabilities = "softmax", ("delete",), {}
    classes, fingerprint = ("short", "long"), "custom 1"

    def read(self, text, *, subwords=False):  # noqa: ARG002
        tokens = limelight.text.tokenize(text)
        if not tokens:
            raise limelight.InputError("the text has no words. Give at least one word.")
        lengths = np.array([len(token) for token in tokens.strings], float)
        return limelight.text.ModelInput(text, tokens, encoding=lengths)

    def outputs(self, inputs):
        return np.array([[np.sqrt(model_input.encoding).sum() - 9] for model_input in inputs])

    def game(self, model_input, features, replacement):  # noqa: ARG002
        def outputs(keep):
            token_mask = np.insert(keep, len(features), True, axis=1)[:, features.feature_index]
            return (token_mask @ np.sqrt(model_input.encoding))[:, None] - 9

        return outputs


def share_of_vowels(texts):
    texts = ["".join(text) for text in texts]
    shares = [(1 + sum(text.count(v) for v in "aeiou")) / (3 + len(text)) for text in texts]
    return [[share, 1 - share] for share in shares]


def tagged_words(texts):
    def tag(word):
        return ("LONG", min(0.95, len(word) / 10)) if len(word) > 5 else ("PLOT", 0.7)

    return [
        [
            (text.index(word), text.index(word) + len(word), *tag(word))
            for word in dict.fromkeys(text.split())
            if len(word) > 5 or word == SPAN
        ]
        for text in texts
    ]


def negate_words(text):
    return text.lower().replace("not good", "notgood")


def pipeline(**options):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = [TEXT, OTHER, "good good film", "bad plot", "superb plot but a dull film"] * 2
    labels = ["yes", "no", "yes", "no", "yes"] * 2
    return make_pipeline(TfidfVectorizer(**options), LogisticRegression()).fit(texts, labels)


def brightness(images):
    means = [float(np.mean(image[:4])) / 255 for image in images]
    return [[mean, 1 - mean] for mean in means]


def count_passes(network, counts):
    """Add the forward passes of a network and the rows of their inputs to ``counts``."""

    def count(_module, _arguments, keywords, _outputs):
        inputs = keywords.get("input_ids", keywords.get("pixel_values"))
        counts["passes"] += 1
        counts["rows"] += 0 if inputs is None else len(inputs)

    network.register_forward_hook(count, with_kwargs=True)


def run_checks(model):
    """Run every check of a network now, so that no pass of a function depends on earlier tests."""
    models = [model, model.with_classes(["B-PER"])] if "tags" in vars(model.network) else [model]
    for checked_model in models:
        check = checked_model.check
        _ = check.needs_equal_lengths, check.warnings, check.unusable_replacements
        _ = check.missing_capabilities, getattr(checked_model.network, "shares_prefix", None)


@cache
def models():
    """Return a model, the counts of its forward passes and two inputs for every kind of model."""
    from test_next_token import language_model
    from test_spans import make_network
    from transformers import AutoModelForQuestionAnswering

    from tiny_transformers import tiny

    images = runpy.run_path(str(HERE / "models" / "test_images.py"))
    chats = runpy.run_path(str(HERE / "chat_models.py"))
    model_by_kind = {
        "tables": limelight.load(),
        "function": limelight.wrap(share_of_vowels, classes=["few", "many"], mask="…"),
        "pair function": limelight.wrap(share_of_vowels, classes=["few", "many"], pairs=True),
        "image function": limelight.wrap(brightness, classes=["dark", "light"], images=True),
        "pipeline": limelight.wrap(pipeline()),
        "pipeline with a function": limelight.wrap(pipeline(preprocessor=negate_words)),
        "span function": limelight.wrap(tagged_words, tags=["LONG", "PLOT"]),
        "custom model": CustomModel(),
        "images": images["tiny_images"]("vit"),
    }
    networks = {
        "network": lambda: tiny("bert"),
        "tagger": make_network,  # finds two spans in the first text
        "tagger with one span": make_network,
        "reader of questions": lambda: make_network(kind=AutoModelForQuestionAnswering),
        "language model": language_model,
    }
    counts = {kind: {"passes": 0, "rows": 0} for kind in [*model_by_kind, *networks]}
    for kind, build_network in networks.items():
        network, tokenizer = build_network()
        if "tagger" in kind:  # otherwise it finds a span at every word
            network.classifier.bias.data[0] += 6 if kind == "tagger" else 8
        options = {}
        if kind == "language model":
            options = {"template": "the {text} is", "max_new_tokens": 6}
        count_passes(network, counts[kind])
        model_by_kind[kind] = limelight.wrap(network, tokenizer=tokenizer, **options)
        run_checks(model_by_kind[kind])
    chat_network, chat_tokenizer = chats["chat_network"]()
    for kind in ("chat", "question with documents"):
        counts[kind] = {"passes": 0, "rows": 0}
        model_by_kind[kind] = limelight.wrap(
            chat_network, tokenizer=chat_tokenizer, max_new_tokens=6
        )
        run_checks(model_by_kind[kind])
    photo = images["photo"]
    question, documents = chats["QUESTION"], chats["DOCUMENTS"]
    inputs = {kind: [TEXT, OTHER] for kind in model_by_kind}
    inputs |= {
        "pair function": [("good film", TEXT), ("bad plot", OTHER)],
        "reader of questions": [("a film", TEXT), ("a superb", OTHER)],
        "pipeline with a function": ["good film", "not very good film"],
        "image function": [photo(), photo(seed=1)],
        "images": [photo(), photo(seed=1)],
        "chat": [chats["MESSAGES"], chats["MESSAGES"][1:]],
        "question with documents": [
            Conversation.from_documents(question, documents),
            Conversation.from_documents(question, documents[1:]),
        ],
    }
    return model_by_kind, counts, inputs


def page_answer(model, text):
    """Return the answer of the server to the page of a text."""
    from limelight.serving import serve

    with serve(model, port=0) as server:
        address = urlsplit(server.url)
        page = http.client.HTTPConnection(address.hostname, address.port)
        body = {"tab": "t", "panel": "p", "text": text, "methods": ["loo"]}
        if isinstance(text, list):
            body |= {"text": json.dumps(text), "messages": True, "features": "auto"}
        if isinstance(text, Conversation):
            documents = [document.text for document in text.documents]
            body |= {"text": text.question, "documents": documents, "features": "auto"}
        page.request("POST", f"{address.path}text", json.dumps(body))
        event = json.loads(page.getresponse().read().splitlines()[-1])
        page.close()
    if "error" in event:
        raise limelight.InputError(event["error"])
    return event["result"]


def explain_as_data(model, texts, **options):
    with tempfile.TemporaryDirectory() as folder:
        run = limelight.explain_data(
            model, texts, "loo", output=Path(folder) / "run", progress=False, workers=1, **options
        )
        return [*run, run.record.data.rows]


def single_feature_outputs(game):
    return game(np.eye(4, len(game), dtype=bool))


def label_texts(texts, model):
    return {"text": texts, "label": [model.classes[0]] * len(texts)}


FUNCTIONS = {
    "explain": lambda m, a, _b: limelight.explain(m, a),
    "explain by default": lambda m, a, _b: limelight.explain(m, a, budget="150 calls"),
    "explain a list": lambda m, a, b: limelight.explain(m, [a, b], "loo"),
    "explain a list with a bad text": lambda m, a, _b: limelight.explain(m, [a, ""], "loo"),
    "explain at": lambda m, a, _b: limelight.explain(m, a, "loo", at=SPAN),
    "explain at a number": lambda m, a, _b: limelight.explain(m, a, "loo", at=0),
    "explain first subwords": lambda m, a, _b: limelight.explain(
        m, a, "loo", at=0, first_subwords=True
    ),
    "explain an answer": lambda m, a, _b: limelight.explain(m, a, "loo", answer=ANSWER),
    "explain answers": lambda m, a, b: limelight.explain(m, [a, b], "loo", answer=[ANSWER, None]),
    "explain too few answers": lambda m, a, b: limelight.explain(m, [a, b], answer=[ANSWER]),
    "explain in windows": lambda m, a, _b: limelight.explain(m, a, "loo", window=4),
    "explain a probability": lambda m, a, _b: limelight.explain(m, a, "loo", scale="probability"),
    "explain against": lambda m, a, _b: limelight.explain(
        m, a, "loo", target=m.classes[0], against=m.classes[-1]
    ),
    "explain a tag": lambda m, a, _b: limelight.explain(m, a, "loo", target="B-PER", at=0),
    "explain sentences as features": lambda m, a, _b: limelight.explain(
        m, a, "loo", features="sentences"
    ),
    "explain tokens": lambda m, a, _b: limelight.explain(m, a, "loo", features="tokens"),
    "explain but a word": lambda m, a, _b: limelight.explain(m, a, "loo", protect=["film"]),
    "explain a side": lambda m, a, _b: limelight.explain(m, a, "loo", side="second"),
    "explain by owen": lambda m, a, _b: limelight.explain(
        m, a, "owen", within="sentences", samples=16
    ),
    "explain by lrp": lambda m, a, _b: limelight.explain(m, a, "lrp"),
    "explain by lime": lambda m, a, _b: limelight.explain(m, a, "lime"),
    "wrong scale": lambda m, a, _b: limelight.explain(m, a, "loo", scale="x"),
    "wrong window": lambda m, a, _b: limelight.explain(m, a, "loo", window=0),
    "wrong method": lambda m, a, _b: limelight.explain(m, a, "x"),
    "wrong class": lambda m, a, _b: limelight.explain(m, a, "loo", target="x"),
    "wrong unit": lambda m, a, _b: limelight.explain(m, a, "loo", features="x"),
    "wrong pair": lambda m, _a, _b: limelight.explain(m, ("a film", "a plot"), "loo"),
    "wrong scale and method": lambda m, a, _b: limelight.explain(m, a, "x", scale="x"),
    "wrong window and method": lambda m, a, _b: limelight.explain(m, a, "x", window=0),
    "wrong at and setting": lambda m, a, _b: limelight.explain(m, a, "loo", at="x", samples=3),
    "explain classes": lambda m, a, _b: limelight.explain_classes(m, a, "loo"),
    "explain spans": lambda m, a, _b: limelight.explain_spans(m, a, "loo"),
    "explain spans with their words": lambda m, a, _b: limelight.explain_spans(
        m, a, "loo", protect_span=False
    ),
    "explain spans of a list": lambda m, a, _b: limelight.explain_spans(m, [a, "is"], "loo"),
    "explain sentences": lambda m, a, _b: limelight.explain_sentences(m, a, "loo"),
    "explain sentences of a list": lambda m, a, b: limelight.explain_sentences(m, [a, b], "loo"),
    "compare": lambda m, a, _b: limelight.compare(m, a, methods=["loo", "shapley"]),
    "compare at": lambda m, a, _b: limelight.compare(m, a, methods=["loo"], at=0),
    "counterfactual": lambda m, a, _b: limelight.counterfactual(m, a),
    "counterfactual of a list": lambda m, a, b: limelight.counterfactual(
        m, [a, b], budget="20 calls"
    ),
    "counterfactual with a bad text": lambda m, a, _b: limelight.counterfactual(
        m, [a, ""], budget="20 calls"
    ),
    "counterfactual of sentences": lambda m, a, _b: limelight.counterfactual(
        m, a, features="sentences"
    ),
    "counterfactual to a class": lambda m, a, _b: limelight.counterfactual(
        m, a, desired_class=m.classes[0], budget="40 calls"
    ),
    "counterfactual of a threshold": lambda m, a, _b: limelight.counterfactual(
        m, a, threshold=-4.0, budget="40 calls"
    ),
    "counterfactual at": lambda m, a, _b: limelight.counterfactual(
        m, a, at=SPAN, budget="40 calls"
    ),
    "counterfactual of an answer": lambda m, a, _b: limelight.counterfactual(
        m, a, answer=ANSWER, budget="40 calls"
    ),
    "counterfactual in windows": lambda m, a, _b: limelight.counterfactual(
        m, a, window=4, budget="40 calls"
    ),
    "counterfactual but a word": lambda m, a, _b: limelight.counterfactual(
        m, a, protect=["film"], budget="40 calls"
    ),
    "judge": lambda m, a, b: limelight.judge(m, [a, b, a], ["loo"], columns=[]),
    "judge in windows": lambda m, a, b: limelight.judge(m, [a, b], ["loo"], columns=[], window=4),
    "judge answers": lambda m, a, b: limelight.judge(
        m, [a, b], ["loo"], columns=[], answer=[ANSWER, None]
    ),
    "judge a bad text": lambda m, a, b: limelight.judge(m, [a, "", b], ["loo"], columns=[]),
    "learn from few": lambda m, a, b: limelight.learn(m, [a, b]),
    "learn": lambda m, _a, _b: limelight.learn(
        m,
        [f"{x} {y} {z}" for x in ("good", "bad") for y in ("film", "plot", "a") for z in
         ("the superb plot", "but bad", "is . good", "predictable a")],
        pairs=1, judged=2,
    ),
    "data": lambda m, a, b: explain_as_data(m, [a, b]),
    "data with a bad text": lambda m, a, b: explain_as_data(m, [a, "", b]),
    "data at": lambda m, a, _b: explain_as_data(m, [a], at=SPAN),
    "data of sentences": lambda m, a, b: explain_as_data(m, [a, b], sentences=True),
    "data in windows": lambda m, a, b: explain_as_data(m, [a, b], window=4),
    "data of all classes": lambda m, a, _b: explain_as_data(m, [a], all_classes=True),
    "predict": lambda m, a, b: limelight.predict(m, [a, b]),
    "predict a bad text": lambda m, a, _b: limelight.predict(m, [a, ""]),
    "evaluate": lambda m, a, b: limelight.evaluate(m, label_texts([a, b], m)).confusion.tolist(),
    "game": lambda m, a, _b: single_feature_outputs(limelight.game(m, a)),
    "game at": lambda m, a, _b: limelight.game(m, a, at=0)(
        np.zeros((1, len(limelight.game(m, a, at=0))), bool)
    ),
    "page": lambda m, a, _b: page_answer(m, a),
}  # fmt: skip


def plain(value, digits):
    """Return the result of a function as JSON data. Numbers have as many digits as ``digits``."""
    is_full = digits == 17
    if isinstance(value, limelight.Explanation):
        return plain(explanation_fields(value, is_full=is_full), digits)
    if isinstance(value, limelight.Counterfactual):
        return plain(counterfactual_fields(value, is_full=is_full), digits)
    if isinstance(value, limelight.Judgment):
        return plain({"texts": list(value.texts), "warnings": value.warnings}, digits)
    if isinstance(value, JudgedText):
        reason = value.reason if is_full else value.reason is not None
        return plain([value.id, value.target, reason, value.d, value.areas], digits)
    if hasattr(value, "explanations"):
        return plain(value.explanations, digits)
    if isinstance(value, LearnedMethod):
        return plain(value.report["r2"], digits)
    if isinstance(value, dict):
        omitted = OMITTED if is_full else OMITTED | {"explanations", "prediction"}
        fields = {str(key): field for key, field in value.items() if key not in omitted}
        if not is_full:  # without messages
            fields |= {key: len(fields[key]) for key in fields.keys() & {"warnings"}}
            fields |= {key: list(fields[key]) for key in fields.keys() & {"errors"}}
        return {key: plain(field, digits) for key, field in fields.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits)
    if isinstance(value, list | tuple | Explanations):
        return [plain(element, digits) for element in value]
    if isinstance(value, float | np.floating):
        return repr(float(value)) if is_full else float(f"{value:.{digits}g}") + 0.0
    return value if isinstance(value, int | str | None) else str(value)


def explanation_fields(e, *, is_full):
    """Return the fields of an explanation to compare."""
    query = None if e.query is None else e.query.to_dict()
    fields = {"method": e.method, "target": e.target, "against": e.against, "query": query}
    fields["warnings"] = e.warnings
    if not is_full:
        return fields | {"features": len(e.features), "scores": np.abs(e.scores).sum()}
    names = ("features", "scale", "prediction", "scores", "stderr", "bound", "base_value")
    return fields | {name: getattr(e, name) for name in names} | {"settings": str(e.settings)}


def counterfactual_fields(c, *, is_full):
    """Return the fields of a counterfactual to compare."""
    names = ("kind", "predicted_class", "predicted_class_after", "removed", "lower_bound")
    fields = {name: getattr(c, name) for name in names}
    fields |= {"bound_kind": c.bound_kind, "features": len(c.features), "warnings": c.warnings}
    return fields | {"stability": c.stability} if is_full else fields


def outcome(kind, function, digits=5):
    """Return the result or the kind of error of a function, and the number of model calls."""
    model_by_kind, counts, inputs = models()
    model, (first, second) = model_by_kind[kind], inputs[kind]
    if function == "learn" and not isinstance(first, str):
        return None
    call_counts, compute_rows = [], Engine.compute_rows
    before = dict(counts[kind])

    def counted_rows(engine, sizes, compute, *, copies=None):
        call_counts.append(len(sizes))
        return compute_rows(engine, sizes, compute, copies=copies)

    # The annotations of these functions exclude images, but a user may pass one.
    is_wrong_type = isinstance(first, np.ndarray) and function.startswith(TEXT_FUNCTIONS)
    checks = no_type_checks() if is_wrong_type else nullcontext()
    with checks, pytest.MonkeyPatch.context() as patch:
        patch.setattr("limelight.training.fitting._EPOCHS", 3)
        patch.setattr(Engine, "compute_rows", counted_rows)
        try:
            answer = {"result": plain(FUNCTIONS[function](model, first, second), digits)}
        except (limelight.InputError, TypeError) as error:
            answer = {"error": type(error).__name__}
            if digits == 17:
                answer["message"] = str(error)
    passes = {name: counts[kind][name] - before[name] for name in before}
    answer["model calls"] = sum(call_counts)
    return answer | {name: count for name, count in passes.items() if count}


@pytest.fixture(scope="module")
def table():
    return json.loads(TABLE.read_text("utf-8"))


def is_close(value, stored):
    """Tell whether two outcomes are equal, with a tolerance for their numbers."""
    if isinstance(stored, dict) and isinstance(value, dict):
        same_keys = value.keys() == stored.keys()
        return same_keys and all(is_close(value[key], stored[key]) for key in stored)
    if isinstance(stored, list) and isinstance(value, list):
        return len(value) == len(stored) and all(map(is_close, value, stored))
    if isinstance(stored, float) and isinstance(value, float):
        return value == pytest.approx(stored, rel=2e-3, abs=2e-4)
    return value == stored


KINDS = (
    "tables",
    "function",
    "pair function",
    "image function",
    "pipeline",
    "pipeline with a function",
    "span function",
    "custom model",
    "images",
    "network",
    "tagger",
    "tagger with one span",
    "reader of questions",
    "language model",
    "chat",
    "question with documents",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_answers_every_kind_of_model_as_stored(kind, function, table):
    answer, stored = json.loads(json.dumps(outcome(kind, function))), table[f"{kind}: {function}"]
    assert is_close(answer, stored), (answer, stored)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", ["scale", "window"])
def test_an_option_is_checked_before_the_name_of_the_method(kind, option):
    messages = [
        outcome(kind, function, digits=17)["message"]
        for function in (f"wrong {option} and method", f"wrong {option}", "wrong method")
    ]
    assert messages[0] == messages[1] != messages[2]


def compute_table(digits):
    """Return the outcomes of all functions and kinds of models."""
    warnings.simplefilter("ignore")
    assert set(KINDS) == set(models()[0])
    return {f"{kind}: {name}": outcome(kind, name, digits) for kind in KINDS for name in FUNCTIONS}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if "--bits" in sys.argv:
        print(json.dumps(compute_table(17), indent=0, ensure_ascii=False))
    else:
        rows = (
            f"{json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}"
            for key, row in compute_table(5).items()
        )
        TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
