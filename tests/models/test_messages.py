"""Wrong calls of models, each with its error and what the message says."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("sklearn")

# ruff: noqa: F401 (names for eval)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from test_next_token import LABELS, TEMPLATE, language_model
from test_spans import tagger
from test_zero_shot import zero_shot

import limelight
from limelight import DomainError, InputError, compare, explain, judge, wrap
from limelight.explainers import IG, Lime
from messages import exactly, wrong_calls
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


def call_function(function, *, classes=("bad", "good"), **options):
    wrap(function, classes=classes, **options).logits(["a text"])


def wrap_writer(*, template=TEMPLATE, **options):
    network, tokenizer = language_model()
    return wrap(network, tokenizer=tokenizer, template=template, **options)


def explain_span(text, **options):
    return explain(tagger()[0], text, "loo", **options)


def explain_tags(spans):
    model = wrap(lambda texts: [spans for _ in texts], tags=["ORG"])
    return explain(model, "Jordan is bad", at="Jordan")


def explain_words(spans):
    model = wrap_rows([0.5, 0.5], classes=["bad", "good"], words=lambda _: spans, scale="logit")
    return explain(model, "a text", "loo")


TINY = tiny_model(2)
FUNCTION = wrap_rows([0.5, 0.5], classes=["a", "b"])
RATING = wrap_rows([0.0], classes=["stars"], scale="score")
WRITER = wrap_writer()
ANSWERED = "A superb film. The plot is bad. Good film."
WINDOWED = "A superb film. But the plot is predictable! Is the film bad? Good plot. " * 3
BERT = wrap_tiny()
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
    **{
        f"call_function(lambda _: {rows}, {options})": exactly(
            "the function must return one row of numbers per text, one per class, (1, 2), not "
            f"{output}. Convert sparse matrices with toarray, and wrap a transformers pipeline "
            "itself."
        )
        for rows, options, output in (
            ("None", "", "None"),
            ("[['0.5', '0.5']]", "", "[['0.5', '0.5']]"),
            ("[{'label': 'good'}]", "", "[{'label': 'good'}]"),
            ("[[{'score': 0.5}]]", "scale='logit'", "[[{'score': 0.5}]]"),
            ("np.array([[0.5, None]])", "", "array([[0.5, None]], dtype=object)"),
            ("[[0.5], [0.5, 0.5]]", "", "[[0.5], [0.5, 0.5]]"),
        )
    },
    "call_function(lambda _: np.ones(1), classes=['a', 'b', 'c'])": exactly(
        "the function must return one row per text, (1, 3) for 1 text(s), not the shape (1,)."
    ),
    "call_function(lambda _: np.ones((7, 2)))": exactly(
        "the function must return one row per text, (1, 2) for 1 text(s), not the shape (7, 2)."
    ),
    "call_function(lambda _: np.array([[0.2, 0.3, 0.5]]))": exactly(
        "there are 2 classes (bad, good), but the function returns 3 columns. Name as many classes "
        "as there are columns."
    ),
    "call_function(lambda _: np.array([[np.nan, 1.0]]))": exactly(
        "the function must return finite numbers, but for the text 'a text' it returned [nan, 1.0]."
    ),
    "call_function(lambda _: np.array([[-1.0, 2.0]]))": exactly(
        "probabilities must be between 0 and 1, but the function returned -1 to 2. Pass "
        "scale='logit' if these are logits."
    ),
    "call_function(lambda _: np.array([[0.5, 0.9]]))": exactly(
        "the probabilities of a text must sum to 1, but for the text 'a text' they sum to 1.4. "
        "Pass multi_label=True if a text can have several classes."
    ),
    "wrap(len, classes=['a', 'b'], batch_size='x')": exactly(
        "batch_size must be a positive whole number, not 'x'."
    ),
    "wrap(len, classes=['a', 'b'], batch_size=2.5)": exactly(
        "batch_size must be a positive whole number, not 2.5."
    ),
    "wrap(len, classes=['a', 'b'], mask=7)": exactly(
        "mask must be a string, or None to delete words, not 7."
    ),
    "wrap(len, classes=['a', 'b'], words='x')": exactly(
        "words must be a function from a text to a list of (start, end), not 'x'."
    ),
    "wrap(len, classes=2)": exactly("classes must be a list of two names or more, not 2."),
    "wrap(len)": exactly("classes must be a list of two names or more, not None."),
    "explain(FUNCTION, 'a b', Lime(samples=99.5))": exactly(
        "the setting 'samples' must be a whole number, not 99.5."
    ),
    "limelight.load(3)": exactly(
        "load needs a path or a name, not int. Pass a model in memory to limelight.wrap."
    ),
    "call_function(len, classes=[], scale='score')": exactly(
        "classes must be a list of one name or more, not []."
    ),
    "call_function(len, scale='probabilty')": exactly(
        "unknown scale: 'probabilty'. Did you mean 'probability'? Choose from: logit, probability, "
        "score."
    ),
    "call_function(3)": exactly(
        "wrap needs a Hugging Face model, a transformers pipeline, a scikit-learn pipeline, or a "
        "function from a list of texts to scores, not int."
    ),
    "call_function(len, batch_size=0)": exactly(
        "batch_size must be a positive whole number, not 0."
    ),
    "call_function(len, classes='good')": exactly(
        "classes must be a list of two names or more, not 'good'."
    ),
    **{
        f"explain_words({spans})": "words must give the"
        for spans in ([(0, 3), (2, 5)], [(0, 30)], [(2, 2)], ["a", "text"])
    },
    "tiny_model(skip='mean')": (
        r"^a skip connection needs both its kind \(skip\) and its weights \(W_s\)\."
    ),
    "tiny_model(skip='means')": "^unknown skip: 'means'.",
    "tiny_model(b_q=np.zeros((3, 4)))": (
        r"^b_q has shape \(3, 4\), but its axis d_att must be 5\."
    ),
    "tiny_model(attention='additive')": (
        r"^additive attention needs both its name \(attention\) and the weights of its hidden "
        r"units \(w_a\)\."
    ),
    "tiny_model(w_a=np.zeros((3, 5)))": (r"^additive attention needs both its name \(attention\)"),
    "tiny_model(attention='aditive')": "^unknown attention: 'aditive'. Did you mean 'additive'",
    "tiny_model(attention='additive', w_a=np.zeros((3, 4)))": (
        r"^w_a has shape \(3, 4\), but its axis d_att must be 5\."
    ),
    "tiny_model(head_embeddings=True)": (
        r"^embedding has shape \(23, 7\), but its axis K·d_e must be 21\."
    ),
    "explain(TINY, 'w1 w2', 'lime', samples=100)": (
        "^the setting 'samples' of method 'lime' has no effect for this model. Leave samples out, "
        "or use 'bandwidth', 'penalty', 'rows', 'tolerance', 'replacement', 'per_head' or 'fit'."
    ),
    "explain(FUNCTION, 'w1 w2', 'shapley', per_head=True)": (
        "^the setting 'per_head' of method 'shapley' has no effect for this model. Leave per_head "
        "out, or use 'sampler', 'pairs', 'spare', 'orders', 'start', 'replacement', 'seed', "
        "'tolerance', 'max_pairs' or 'until'."
    ),
    "explain(FUNCTION, 'w1 w2', 'lime', feature_selection='auto')": (
        "^unknown setting of method 'lime': 'f"
    ),
    "explain(TINY, 'w1 w2', 'alpha-avg', layer=1)": (
        "^the setting 'layer' of method 'alpha-avg' has no e"
    ),
    "explain(TINY, 'w1 w2', 'rollout', layer=1)": exactly(
        "the setting 'layer' of method 'rollout' has no effect for this model. Leave layer out."
    ),
    "explain(WRITER, ANSWERED, answer=' ')": "an answer must be a text with words",
    "explain(WRITER, ANSWERED, answer='good ' * 60)": "Explain a shorter answer",
    "explain(WRITER, ANSWERED, answer='good', window='auto')": (
        "an answer belongs to the whole text"
    ),
    "explain(WRITER, ANSWERED, answer='good', at='film')": "Leave at out",
    **{
        f"limelight.explain_sentences(WRITER, ANSWERED, 'loo', {name}='good')": (
            f"^explain_sentences has no option {name}"
        )
        for name in ("target", "against", "scale")
    },
    "wrap_writer(labels={'no': 'bad', 'yes': 'good'}, per_token=True)": (
        "per_token is for written answers"
    ),
    "wrap_writer(per_token='no')": "per_token must be True or False, not 'no'",
    "wrap_writer(max_new_tokens=True)": "max_new_tokens must be a positive whole number, not True",
    "wrap_writer(template='no place', labels=LABELS)": (
        "must contain {text} once, but 'no place' contains it 0 times"
    ),
    "wrap_writer(template='{text} {text}', labels=LABELS)": "'{text} {text}' contains it 2 times",
    "wrap_writer(template=3, labels=LABELS)": "or give a string with {text} in it",
    "wrap_writer(template=None, labels=LABELS)": r"labels need a template \(--template\)",
    "wrap_writer(template=[{'role': 'user', 'content': '{text}'}], labels=LABELS)": "chat template",
    "wrap_writer(template=['{text}'], labels=LABELS)": 'like {"role": "user"',
    **{
        f"wrap_writer(labels={labels})": (
            "labels must have a word for each of at least two classes"
        )
        for labels in ({"positive": "good"}, ["good", "bad"], {"a": "good", "b": " "})
    },
    "wrap_writer(labels={'a': 'good', 'b': 'predictable'})": (
        "'predictable' is read as 'predict', '##able'. Choose another word for 'b'"
    ),
    "wrap_writer(labels={'a': 'good', 'b': 'good'})": (
        "token after the template, but 'good' is read as 'good'"
    ),
    "wrap_writer(labels={'a': 'good', 'b': 'awful'})": r"'awful' is read as '\[UNK\]'",
    "wrap_writer(template='film ' * 40 + '{text}', labels=LABELS)": (
        "must leave room for the text, but it has 41 tokens and the model reads 31"
    ),
    "explain_span('bad film is bad', at='bad')": (
        r"'bad' occurs 2 times in the text \(0:3, 12:15\)"
    ),
    "explain_span('bad film', at='plot')": "the text does not contain 'plot'",
    "explain_span('bad film', at=(1, 8))": (
        r"at must contain whole words, but 1:8 cuts 'bad' \(0:3\)"
    ),
    "explain_span('bad film', at=(3, 4))": "around a word",
    "explain_span('bad film', at=99)": "by its number from 0",
    "explain_span('bad film', at='bad film')": "to score the words of the span",
    "explain_span('film ' * 40, at=(190, 194))": "which are all that the model reads",
    "explain_span('film ' * 40, at=(140, 149))": "which are all that the model reads",
    "explain_span('bad film', at='bad', target='GPE')": "unknown class: 'GPE'",
    "explain_span(('bad', 'film'), at='bad')": "a tagger reads single texts",
    **{
        f"explain_tags({spans})": "a span must be"
        for spans in (
            "[(0, 99, 'ORG', 1.0)]",
            "[(0, 6, 'ORG', 2.0)]",
            "[None]",
            "None",
            "[('0', '6', 'ORG', 1.0)]",
            "[(0.5, 6, 'ORG', 1.0)]",
            "[(0, 6, 'ORG', float('nan'))]",
        )
    },
    "explain_tags([(0, 6, 'GPE', 1.0)])": "the tag 'GPE', but its tags are",
    "explain(BERT, WINDOWED, 'gxi', window=2)": exactly(
        "a window must have at least 3 tokens, not 2."
    ),
    **{
        f"explain(BERT, WINDOWED, 'gxi', window={window!r})": exactly(
            f"window must be 'auto' or a number of tokens up to 31, not {window!r}."
        )
        for window in (32, 0, True, "all")
    },
    "wrap(zero_shot())": "needs its candidate labels",
    "wrap(zero_shot(), classes=[])": "needs its candidate labels",
    "wrap(zero_shot(), labels=['good', 'bad'])": "does not take labels",
    "wrap(zero_shot(), pairs=True)": "does not take pairs",
    "wrap(zero_shot(), classes=['x'])": "two names or more",
    "wrap(zero_shot(hypothesis_template='It.'), classes=['good', 'bad'])": (
        "must have {} for the label in it, not 'It.'"
    ),
    "wrap(zero_shot(('no', 'yes')), classes=['good', 'bad'])": (
        "begins with 'entail', but this one has no, yes"
    ),
}
DOMAIN_ERRORS = {
    "explain(RATING, 'w1 w2', 'anchors')": (
        "needs a model that predicts exactly one class, but this function predicts a"
    ),
    "overflow('W_v', 'W_l', size=1e200)": "overflow in double precision",
    "overflow('W_k', size=1.7e308)": "overflow in double precision",
    "overflow('w_a', size=1.7e308)": "overflow in double precision",
}


@wrong_calls({InputError: INPUT_ERRORS, DomainError: DOMAIN_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    with no_type_checks(), pytest.raises(error, match=message):
        eval(call)
