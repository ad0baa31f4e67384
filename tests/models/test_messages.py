"""Wrong calls of models, each with its error and what the message says."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("sklearn")

# Names that only calls use are imported for `eval`.
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC  # noqa: F401

import limelight
from limelight import DomainError, InputError, compare, explain, judge, wrap  # noqa: F401
from limelight.explainers import IG, Lime  # noqa: F401
from shape_checks import no_type_checks

from tiny_models import tiny_model
from tiny_transformers import tiny, word_pieces

PAIR = ("a superb film", "the film is bad")


def wrap_rows(row, **options):
    """Return a function that has the same row of outputs for every text."""
    return wrap(lambda texts: np.array([row] * len(texts)), **options)


def wrap_tiny(**changes):
    network, _ = tiny("bert", **changes)
    return wrap(network, tokenizer=word_pieces())


def change_bound_kind(kind):
    """Read an explanation of a checked pipeline that names another kind of bound."""
    vectorizer = TfidfVectorizer(tokenizer=lambda text: text.split(), token_pattern=None)
    pipeline = make_pipeline(vectorizer, LogisticRegression()).fit(["good film", "bad"], [1, 0])
    text = explain(wrap(pipeline), "good film", "shapley").to_json()
    assert '"checked"' in text
    return limelight.Explanation.from_json(text.replace('"checked"', f'"{kind}"'))


def overflow(*names, size):
    """Read a text with weights that are too large."""
    w_a = np.ones(TINY.W_q.shape[:2])
    model = TINY if "W_v" in names else replace(TINY, attention="additive", w_a=w_a)
    return replace(model, **{name: size + 0 * getattr(model, name) for name in names}).logits(
        ["w0"]
    )


def rename_labels():
    network, tokenizer = tiny("bert")
    network.config.id2label = {0: "x", 1: "y"}
    return wrap(network, tokenizer=tokenizer).logits(["a film"])


TINY = tiny_model(2)
FUNCTION = wrap_rows([0.5, 0.5], classes=["a", "b"])
RATING = wrap_rows([0.0], classes=["stars"], scale="score")
NETWORK, TOKENIZER = tiny("bert")
REPLACEMENT = "the setting 'replacement' must be a string"
NO_TEXTS = (
    r"the scikit-learn model must take texts, but {} does not \(Expected 2D array"
    r".*make_pipeline\(TfidfVectorizer\(\), model\)"
)
NO_MODEL = (
    r"^a model must come from limelight\.load or limelight\.wrap, not be a "
    r"builtin_function_or_method\. Write limelight\.wrap\(…\)\.$"
)
# Calls with a pattern of their message.
INPUT_ERRORS = {
    "IG(steps=0)": "steps must be at least 1",
    "explain(FUNCTION, 'w1 w2', 'lime', max_samples=1)": "max_samples must be at least 2, not 1",
    "explain(TINY, 'w1 w2', 'loo', protect=[''])": "the protected word '' cannot be read",
    "explain(TINY, 'w1 w2', 'lime', replacement=3)": REPLACEMENT,
    "explain(TINY, 'w1 w2', 'lime', replacement=['unk'])": REPLACEMENT,
    "explain(TINY, 'w1 w2', 'lime', replacement=np.array(['unk', 'delete']))": REPLACEMENT,
    "compare(TINY, 'w1 w2 w3', methods=[Lime(), 'loo'], bandwidth=0.5)": (
        "unknown setting of these methods: 'bandwidth'"
    ),
    "compare(TINY, 'w1 w2 w3', methods=['lime', Lime()])": (
        "compare needs each method once, but 'lime' was given twice"
    ),
    "explain(limelight.load(), 'good film', answer='x')": "answer needs a language model",
    "change_bound_kind('guessed')": "bound_kind",
    "replace(TINY, classes=('one',))": "needs 2 distinct class names",
    "replace(tiny_model(outputs=3), classes=('a', 'a', 'b'))": "needs 3 distinct class names",
    "explain(FUNCTION, 'a \\ud800 b', 'loo')": (
        r"^a text must have no lone surrogates, but character 2 \(counting from 0\) is one\. "
        r"Replace it: text\.encode\('utf-8', 'replace'\)\.decode\(\)\.$"
    ),
    "explain(FUNCTION, 'w1 w2', 'gxi')": (
        r"^method 'gxi' needs gradients, but a function returns only outputs\. Use 'shapley', "
        r"'lime' or 'loo'\.$"
    ),
    "judge(FUNCTION, ['w1 w2'], methods=['loo'], columns=['sanity'])": (
        "needs the weights of the model, but a function returns only outputs"
    ),
    "wrap(LogisticRegression().fit(np.eye(4), [0, 1, 0, 1]))": NO_TEXTS.format(
        "LogisticRegression"
    ),
    "wrap(LinearSVC().fit(np.eye(4), [0, 1, 0, 1]))": NO_TEXTS.format("LinearSVC"),
    "wrap(lambda _: None, classes=['bad', 'good']).logits(['a', 'b', 'c'])": (
        r"numbers .*, \(3, 2\), not None\."
    ),
    "rename_labels()": r"returns 3 outputs, but its config\.id2label names 2",
    "explain(len, 'a text')": NO_MODEL,
    "compare(len, 'a text')": NO_MODEL,
    "wrap('some/folder')": "wrap needs .* not str. For a path or a name, use",
    "wrap(len, tokenizer=3)": "tokenizer is for Hugging Face models, not",
    "wrap(NETWORK)": "needs its tokenizer",
    "wrap(NETWORK.bert, tokenizer=TOKENIZER)": r"must classify, tag, .* not BertModel",
    "wrap(NETWORK, tokenizer='bert')": "needs its fast tokenizer",
    "wrap_tiny(vocab_size=3)": "as the token 3, but the embedding of the model has",
    "wrap(len, template='{text}')": "template is for Hugging Face models, not for builtin",
    "limelight.load(template='{text}', labels={'no': 'a', 'yes': 'b'})": (
        r"template and labels need a language model. Give"
    ),
    "explain(wrap_tiny(), PAIR, 'loo', window='auto')": (
        r"windows are for single texts \(leave window out\)"
    ),
    "judge(wrap_tiny(), ['a superb film', 'a film'], ['loo'], side='first')": (
        "side 'first' needs pairs of texts, but these are single texts"
    ),
    "judge(wrap_tiny(), [PAIR], ['loo'], side='third')": "unknown side: 'third'",
    "explain(TINY, 'w1 w2', 'loo', window='auto')": (
        "^window needs a model that can read a text in windows, but AttentionClassifier has a "
        r"single window\. Leave window out\.$"
    ),
    "list(limelight.verify(TINY, PAIR))": "needs a model that reads pairs of texts",
    "compare(FUNCTION, 'a text', window='auto')": "a function reads every text as a whole",
}
DOMAIN_ERRORS = {
    "explain(RATING, 'w1 w2', 'anchors')": (
        "needs a model that predicts exactly one class, but this function predicts a"
    ),
    "overflow('W_v', 'W_l', size=1e200)": "overflow in double precision",
    "overflow('W_k', size=1.7e308)": "overflow in double precision",
    "overflow('w_a', size=1.7e308)": "overflow in double precision",
}


@pytest.mark.parametrize("call", [*INPUT_ERRORS, *DOMAIN_ERRORS])
def test_a_wrong_call_says_what_is_wrong(call):
    error = InputError if call in INPUT_ERRORS else DomainError
    with no_type_checks(), pytest.raises(error, match=(INPUT_ERRORS | DOMAIN_ERRORS)[call]):
        eval(call)
