"""Every kind of model under every function: results, refusals and model calls as they are stored.

``python tests/test_models_and_functions.py`` writes the table anew. With ``--bits`` it prints all
numbers in full, to be compared with those of another commit.
"""

import http.client
import json
import os
import re
import runpy
import sys
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import limelight

pytest.importorskip("torch")
pytest.importorskip("sklearn")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "models")] if __name__ == "__main__" else []
TABLE = HERE / "models_and_functions.json"
TEXT, OTHER = "the plot is bad . good film .", "a superb film but the plot is predictable"
PLACE, ANSWER = "plot", "good . bad film ."
pytestmark = pytest.mark.filterwarnings("ignore")


class Stranger:
    """A model of somebody else's, which imports nothing of ours but the tokenizer."""

    link, replacements, capabilities = "softmax", ("delete",), {}
    classes, fingerprint = ("short", "long"), "stranger 1"

    def read(self, text, *, subwords=False):  # noqa: ARG002
        tokens = limelight.text.tokenize(text)
        if not tokens:
            raise limelight.InputError("the text has no words; give at least one word.")
        lengths = np.array([len(token) for token in tokens.strings], float)
        return limelight.text.ModelInput(text, tokens, encoding=lengths)

    def outputs(self, inputs):
        return np.array([[np.sqrt(model_input.encoding).sum() - 9] for model_input in inputs])

    def game(self, model_input, features, replacement):  # noqa: ARG002
        def outputs(keep):
            kept = np.insert(keep, len(features), True, axis=1)[:, features.feature_index]
            return (kept @ np.sqrt(model_input.encoding))[:, None] - 9

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
            if len(word) > 5 or word == PLACE
        ]
        for text in texts
    ]


def negated(text):
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


def hooked(network, seen):
    def count(_module, _arguments, keywords, _outputs):
        seen["passes"] += 1
        given = keywords.get("input_ids", keywords.get("pixel_values"))
        seen["rows"] += 0 if given is None else len(given)

    network.register_forward_hook(count, with_kwargs=True)
    return network


@cache
def models():
    """Every kind of model, with what counts the passes of its network."""
    from test_next_token import language_model
    from test_spans import network_of
    from transformers import AutoModelForQuestionAnswering

    from tiny_transformers import tiny

    images = runpy.run_path(str(HERE / "models" / "test_images.py"))
    found = {
        "tables": limelight.load(),
        "function": limelight.wrap(share_of_vowels, classes=["few", "many"], mask="…"),
        "pair function": limelight.wrap(share_of_vowels, classes=["few", "many"], pairs=True),
        "image function": limelight.wrap(brightness, classes=["dark", "light"], images=True),
        "pipeline": limelight.wrap(pipeline()),
        "half-known pipeline": limelight.wrap(pipeline(preprocessor=negated)),
        "span function": limelight.wrap(tagged_words, tags=["LONG", "PLOT"]),
        "stranger": Stranger(),
        "images": images["tiny_images"]("vit"),
    }
    seen = {name: {"passes": 0, "rows": 0} for name in found}
    networks = {
        "network": lambda: tiny("bert"),
        "tagger": network_of,  # which finds two spans in the first text, and the next one span
        "sparing tagger": network_of,
        "reader": lambda: network_of(kind=AutoModelForQuestionAnswering),
        "writer": language_model,
    }
    for name, build in networks.items():
        seen[name] = {"passes": 0, "rows": 0}
        network, tokenizer = build()
        if "tagger" in name:  # or it would find a span at every word
            network.classifier.bias.data[0] += 6 if name == "tagger" else 8
        template = {"template": "the {text} is"} if name == "writer" else {}
        more = {"max_new_tokens": 6} if name == "writer" else {}
        hooked(network, seen[name])
        found[name] = limelight.wrap(network, tokenizer=tokenizer, **template, **more)
    photo = images["photo"]
    inputs = {name: [TEXT, OTHER] for name in found}
    inputs |= {
        "pair function": [("good film", TEXT), ("bad plot", OTHER)],
        "reader": [("a film", TEXT), ("a superb", OTHER)],
        "half-known pipeline": ["good film", "not very good film"],
        "image function": [photo(), photo(seed=1)],
        "images": [photo(), photo(seed=1)],
    }
    return found, seen, inputs


def on_page(model, text):
    """What a page is answered to a text."""
    from limelight.serving import serve

    with serve(model, port=0) as server:
        place = urlsplit(server.url)
        page = http.client.HTTPConnection(place.hostname, place.port)
        body = {"tab": "t", "panel": "p", "text": text, "methods": ["loo"]}
        page.request("POST", f"{place.path}text", json.dumps(body))
        last = json.loads(page.getresponse().read().splitlines()[-1])
        page.close()
    if last.get("failed"):
        raise limelight.InputError(last["error"])
    return last["result"]


def data_of(model, texts, **options):
    with tempfile.TemporaryDirectory() as folder:
        run = limelight.explain_data(
            model, texts, "loo", output=Path(folder) / "run", progress=False, workers=1, **options
        )
        return [*run, run.record.data.rows]


def one_left(game):
    return game(np.eye(4, len(game), dtype=bool))


def labeled(texts, model):
    return {"text": texts, "label": [model.classes[0]] * len(texts)}


VERBS = {
    "explain": lambda m, a, _b: limelight.explain(m, a),
    "explain by default": lambda m, a, _b: limelight.explain(m, a, budget="150 calls"),
    "explain a list": lambda m, a, b: limelight.explain(m, [a, b], "loo"),
    "explain a list with a bad text": lambda m, a, _b: limelight.explain(m, [a, ""], "loo"),
    "explain at": lambda m, a, _b: limelight.explain(m, a, "loo", at=PLACE),
    "explain at a number": lambda m, a, _b: limelight.explain(m, a, "loo", at=0),
    "explain first pieces": lambda m, a, _b: limelight.explain(
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
    "data": lambda m, a, b: data_of(m, [a, b]),
    "data with a bad text": lambda m, a, b: data_of(m, [a, "", b]),
    "data at": lambda m, a, _b: data_of(m, [a], at=PLACE),
    "data of sentences": lambda m, a, b: data_of(m, [a, b], sentences=True),
    "data in windows": lambda m, a, b: data_of(m, [a, b], window=4),
    "data of all classes": lambda m, a, _b: data_of(m, [a], all_classes=True),
    "predict": lambda m, a, b: limelight.predict(m, [a, b]),
    "predict a bad text": lambda m, a, _b: limelight.predict(m, [a, ""]),
    "evaluate": lambda m, a, b: limelight.evaluate(m, labeled([a, b], m)).confusion.tolist(),
    "game": lambda m, a, _b: one_left(limelight.game(m, a)),
    "game at": lambda m, a, _b: limelight.game(m, a, at=0)(
        np.zeros((1, len(limelight.game(m, a, at=0))), bool)
    ),
    "page": lambda m, a, _b: on_page(m, a),
}  # fmt: skip


def plain(value, digits):
    """What a function returns as JSON, its numbers with so many digits."""
    if isinstance(value, limelight.Explanation):
        fields = ("method", "features", "target", "against", "scale", "warnings", "prediction")
        named = {name: getattr(value, name) for name in fields}
        asked = None if value.asked is None else value.asked.to_dict()
        numbers = {name: getattr(value, name) for name in ("scores", "stderr", "bound")}
        if digits < 17:  # a table that people read
            numbers = {"scores": None if value.scores is None else np.abs(value.scores).sum()}
            kept = ("method", "target", "against", "warnings")
            named = {name: named[name] for name in kept} | {"features": len(value.features)}
            return plain(named | numbers | {"asked": asked}, digits)
        found = named | numbers | {"asked": asked, "base": value.base_value}
        return plain(found | {"settings": value.settings}, digits)
    if isinstance(value, limelight.Judgment):
        rows = [(one.id, one.target, one.reason, one.d, one.areas) for one in value.texts]
        return plain({"texts": rows, "warnings": value.warnings}, digits)
    if hasattr(value, "explanations"):
        return [plain(one, digits) for one in value.explanations]
    if type(value).__name__ == "Learned":
        return plain(value.record["report"]["r2"], digits)
    if isinstance(value, dict):
        left_out = {"drawn", "heads", "opening", "image", "model"}
        if digits < 17 and "explanations" in value:
            left_out |= {"explanations", "says"}
        return {str(k): plain(v, digits) for k, v in value.items() if k not in left_out}
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits)
    if isinstance(value, list | tuple) or type(value).__name__ == "Explanations":
        return [plain(one, digits) for one in value]
    if isinstance(value, float | np.floating):
        return repr(float(value)) if digits == 17 else float(f"{value:.{digits}g}") + 0.0
    return value if isinstance(value, int | str | None) else str(value)


def outcome(kind, verb, digits=5):
    """What becomes of a model under a function: a result or a refusal, and its cost."""
    from limelight.models.engine import Engine

    found, seen, inputs = models()
    model, (first, second) = found[kind], inputs[kind]
    if verb == "learn" and not isinstance(first, str):
        return None
    asked, inside = [], Engine.rows
    before = dict(seen[kind])

    def rows(engine, sizes, answer, *, copies=None):
        asked.append(len(sizes))
        return inside(engine, sizes, answer, copies=copies)

    with pytest.MonkeyPatch.context() as patch:
        from limelight.training import fitting

        patch.setattr(fitting, "_EPOCHS", 3)
        patch.setattr(Engine, "rows", rows)
        try:
            told = {"result": plain(VERBS[verb](model, first, second), digits)}
        except limelight.InputError as error:
            # Other packages of this machine may bring methods of their own.
            told = {"refused": re.sub(r"(no method 'x'\.).*", r"\1", str(error))}
        except TypeError as error:
            told = {"type error": str(error)}
    passes = {name: seen[kind][name] - before[name] for name in before}
    return told | {"questions": sum(asked), **{k: v for k, v in passes.items() if v}}


@pytest.fixture(scope="module")
def table():
    return json.loads(TABLE.read_text("utf-8"))


def close(found, stored):
    """Whether two outcomes are equal, their numbers to four digits."""
    if isinstance(stored, dict) and isinstance(found, dict):
        return found.keys() == stored.keys() and all(close(found[k], stored[k]) for k in stored)
    if isinstance(stored, list) and isinstance(found, list):
        return len(found) == len(stored) and all(map(close, found, stored))
    if isinstance(stored, float) and isinstance(found, float):
        return found == pytest.approx(stored, rel=2e-3, abs=2e-4)
    return found == stored


KINDS = (
    *("tables", "function", "pair function", "image function", "pipeline", "half-known pipeline"),
    *(
        "span function",
        "stranger",
        "images",
        "network",
        "tagger",
        "sparing tagger",
        "reader",
        "writer",
    ),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", VERBS)
def test_every_kind_of_model_answers_every_function_as_stored(kind, verb, table):
    found = json.loads(json.dumps(outcome(kind, verb)))
    assert close(found, table[f"{kind}: {verb}"]), (found, table[f"{kind}: {verb}"])


def main(digits):
    """Return the table, or what is computed in full."""
    import warnings

    warnings.simplefilter("ignore")
    assert set(KINDS) == set(models()[0])
    return {f"{kind}: {verb}": outcome(kind, verb, digits) for kind in KINDS for verb in VERBS}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if "--bits" in sys.argv:
        print(json.dumps(main(17), indent=0, ensure_ascii=False))
    else:
        rows = (
            f"{json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}"
            for key, row in main(5).items()
        )
        TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
