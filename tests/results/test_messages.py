"""Wrong calls of results, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
import json
import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import test_certain_tops as tops
import test_citations as cited
import test_shapiq_values
from test_explanation import explanation
from test_shapiq_values import explain, fake_values

import limelight
from limelight import Explanation, InputError
from limelight.results import Citations, Comparison, SpanExplanations
from limelight.results.judgment import Judgment
from limelight.results.summary import RunSummary
from limelight.text.queries import SpanQuery
from messages import exactly, wrong_calls
from shape_checks import no_type_checks

C, EXACT = cited.C, cited.EXACT
LOO = limelight.explain(tops.MODEL, tops.TEXT, "loo")
LIME, *_ = limelight.explain(limelight.load(), ["good film", "bad plot"], "lime")
SHAPLEY, *_ = limelight.explain(limelight.load(), ["good film", "bad plot"], "shapley")
SHAPIQ = SimpleNamespace()  # shapiq without content


def explain_top(method, until, **settings):
    return limelight.explain(tops.MODEL, tops.TEXT, method, until=until, **settings)


def read_citations(**changes):
    return Citations.from_json(json.dumps(json.loads(C.to_json()) | changes))


def cite_stopped(setting):
    """Cite the sources of an answer whose sampling stopped at a good moment."""
    settings = {"features": "sentences", setting: "top 3"}
    errors = np.full(3, 0.1)
    return cited.explain_answer(
        cited.SCORES, stderr=errors, bound=None, settings=settings
    ).citations()


def read_schema(kind, name):
    return kind.from_json(json.dumps({"schema": f"limelight.{name}"}))


def compare_with(**changes):
    return Comparison(explanations=(explanation(), explanation(**changes)))


def read_values(values, players=None):
    e = explain("loo")
    return Explanation.from_shapiq(fake_values(values, players or len(e)), e)


def call_with(name, content, call):
    """Call a function where a module has other content, or where None makes it missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, content)
        call()


def add_singles(method, text="a superb film but the end is dull"):
    """Add scores of single features to scores of pairs."""
    return explain("interactions").to_shapiq(
        limelight.explain(test_shapiq_values.MODEL, text, method)
    )


NO_TOP = 'must be a number of features such as "top 3"'
NO_ANSWER = "Use them on a result of explain_sentences"
NOT_A_RESULT = "this is not a limelight explanation"
INPUT_ERRORS = {
    "explain_top('anchors', 'top 3')": "cannot sample until .* Leave until out",
    "explain_top('interactions', 'top 3')": "cannot sample until",
    "explain_top('shapley', 'the top 3')": NO_TOP,
    "explain_top('loo', 'top 0')": NO_TOP,
    "explain_top('shapley', 'top 3', sampler='regression')": "until needs the sampler",
    "LOO.difference('w0', 'x')": "unknown feature: 'x'",
    "LOO.difference(12, 'w0')": "from 0 to 11, not 12",
    "LOO.difference(-1, 'w0')": "from 0 to 11, not -1",
    "LOO.difference('w0', 'w0')": "'w0' is used twice",
    "LOO.difference(['w0', 'w1', 'w0'], 'w2')": "'w0' is used twice",
    "LOO.difference(1.5, 'w2')": "must be a name, a number or a list of them, not 1.5",
    "LOO.difference('w2', None)": "must be a name, a number or a list of them, not None",
    "cite_stopped('until')": "Explain the answer without until",
    "cite_stopped('tolerance')": "Explain the answer without tolerance",
    "read_citations(schema='limelight.citations/2')": "Its schema is",
    "read_citations(unknown=1)": "unknown",
    "read_citations(confidence=1.5)": "confidence must be between 0 and 1",
    "read_citations(threshold=0.6)": "texts and sources that their limits imply",
    "read_citations(explanations=[])": NO_ANSWER,
    "read_citations(statements=[])": "limits must have the shape",
    "EXACT.citations(confidence=95)": "confidence must be between 0 and 1, not 95",
    "EXACT.citations(confidence='high')": "confidence must be a number",
    "EXACT.citations(threshold=math.nan)": "threshold must be finite",
    "EXACT.citations(threshold=True)": "threshold must be a number",
    "SpanExplanations('', ()).citations()": NO_ANSWER,
    "cited.explain_answer(cited.SCORES, signed=False).citations()": "'banzhaf' does not have",
    "replace(C, limits=C.limits + 1.0)": "be at most as large",
    "replace(C, limits=C.limits[:, :2])": r"shape \(3, 3\)",
    "replace(C, explanations=C.explanations[:2])": "one explanation for each sentence",
    "replace(C, explanations=C.explanations[::-1])": "one explanation for each sentence",
    "Explanation.from_json('')": NOT_A_RESULT,
    "Explanation.from_json('[]')": NOT_A_RESULT,
    "Explanation.from_json('{}')": NOT_A_RESULT,
    "read_schema(Explanation, 'results/2')": NOT_A_RESULT,
    "read_schema(Explanation, 'explanation/1')": (
        r"Its schema is 'limelight\.explanation/1', not 'limelight\.explanation/2'\."
    ),
    "read_schema(Comparison, 'comparison/1')": (
        r"Its schema is 'limelight\.comparison/1', not 'limelight\.comparison/2'\."
    ),
    "read_schema(Judgment, 'judgment/1')": (
        r"Its schema is 'limelight\.judgment/1', not 'limelight\.judgment/2'\."
    ),
    "explanation(spans=(((0, 1),), ((1, 2),)))": "must have the same length, not 3 and 2",
    "explanation((1.0, np.nan, 2.0))": "must be finite",
    "explanation(settings={'link': 'softmax'}).to_json()": "files already use the name 'link'",
    "Comparison(explanations=())": "at least one explanation",
    "compare_with(target='negative')": "same target",
    "compare_with(text='word0 word1 word2!')": "same text",
    "compare_with(scale='probability')": "same scale",
    "compare_with(model='another')": "same model",
    "compare_with(query=SpanQuery(0, 5))": "same place",
    "RunSummary.to_html(object.__new__(RunSummary), fragment=True)": (
        "a RunSummary has no fragment, only a page"
    ),
    "LIME.to_array()": "needs an explanation of an image",
    "call_with('shap', None, SHAPLEY.to_shap)": "needs shap; run: pip install shap",
    "call_with('shapiq', None, SHAPLEY.to_shapiq)": "needs shapiq; run: pip install shapiq",
    "read_values({(0,): 1.0}, 3)": "have 3 players, but the explanation has",
    "read_values({(0, 1, 2): 1.0})": "needs values of order 1 and 2",
    "read_values({(): 1.0})": "needs values of order 1 and 2",
    "call_with('shapiq', SHAPIQ, lambda: add_singles('banzhaf'))": (
        "must be an explanation by 'shapley'"
    ),
    "call_with('shapiq', SHAPIQ, lambda: add_singles('shapley', 'a dull end'))": (
        "different values of text"
    ),
    "call_with('shapiq', SHAPIQ, LIME.to_shapiq)": "shapiq has no index for the scores of 'lime'",
}


@wrong_calls({InputError: INPUT_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    with no_type_checks(), pytest.raises(error, match=message):
        eval(call)
