"""What a view says of sentences it does not say of words: every view, every unit."""

import html
import io
import re
from functools import cache

import numpy as np
import pytest
from rich.console import Console

import limelight

# Neither says "word" itself. Every sentence is a line and a paragraph, so all units are three.
TEXTS = [
    "A superb film.\n\nThe plot is dull.\n\nGood fun!",
    "Bad acting.\n\nA superb end.\n\nWe left.",
    "The plot is good.\n\nThe end is bad.\n\nA film.",
]
CLASSES = ["negative", "positive"]


def clauses(text):
    return [match.span() for match in re.finditer(r"[^.!\n]+[.!]", text)]


NOUNS = {"sentences": "sentence", "paragraphs": "paragraph", "lines": "line", clauses: "part"}
units = pytest.mark.parametrize("unit", NOUNS, ids=["sentences", "paragraphs", "lines", "splitter"])


def answer(texts):
    def value(text):
        results = {w: text.lower().count(w) for w in ("superb", "good", "bad", "dull", "film")}
        return (
            results["superb"]
            + results["good"]
            - results["bad"] * (1 + results["film"])
            - results["dull"]
        )

    return np.array([[value(text)] for text in texts], float)


@cache
def model():
    return limelight.wrap(answer, classes=CLASSES, scale="logit", name="ours")


def print_to_text(found):
    output = io.StringIO()
    Console(file=output, width=160, highlight=False).print(found)
    return re.sub(r"\s+", " ", output.getvalue())


def visible_content(page):
    """What a reader sees of a page, and what a screen reader says."""
    page = re.sub(r"<(script|style|limelight-\w+ hidden)\b.*?</\1>", " ", page, flags=re.S)
    matches = re.findall(r'(?:title|aria-label|placeholder)="([^"]*)"', page)
    return html.unescape(" ".join([re.sub(r"<[^>]*>", " ", page), *matches]))


def check(view, noun):
    result = re.search(r"(?i).{0,60}\bwords?\b.{0,40}", view)
    assert result is None, result.group()
    assert re.search(rf"(?i)\b{noun}s?\b", view)


@units
def test_explanations_and_comparisons(unit):
    noun = NOUNS[unit]
    e = limelight.explain(model(), TEXTS[0], "shapley", features=unit)
    pairs = limelight.explain(model(), TEXTS[0], "interactions", features=unit)
    anchor = limelight.explain(model(), TEXTS[0], "anchors", features=unit)
    c = limelight.compare(model(), TEXTS[0], methods=["shapley", "lime", "loo"], features=unit)
    for result in (e, pairs, anchor, c):
        check(print_to_text(result), noun)
        check(visible_content(result.to_html()), noun)
        check(visible_content(result._repr_html_()), noun)


@pytest.mark.parametrize("method", ["shapley", "lime"])
def test_warnings_of_sampled_scores(method):
    text = "\n\n".join(f"It is {k} o'clock." for k in range(20))
    settings = {"pairs": 2} if method == "shapley" else {"samples": 30}
    e = limelight.explain(model(), text, method, features="sentences", **settings)
    assert e.warnings
    check(print_to_text(e), "sentence")


@units
def test_judgments(unit):
    j = limelight.judge(
        model(),
        TEXTS,
        methods=["shapley", "lime", "loo"],
        features=unit,
        columns=["additivity", "loo_tau", "ferret"],
    )
    check(print_to_text(j), NOUNS[unit])
    check(visible_content(j.to_html()), NOUNS[unit])
    assert f'"units":"{NOUNS[unit]}s"' in j.to_html()  # for what the script says


@units
def test_summaries_of_runs_and_their_differences(unit, tmp_path):
    pytest.importorskip("duckdb")
    rows = {"text": TEXTS * 4, "label": [CLASSES[k % 2] for k in range(12)]}
    runs = [
        limelight.explain_data(
            model(), rows, output=tmp_path / str(k), method="loo", features=unit, **more
        )
        for k, more in enumerate([{}, {"scale": "probability"}])
    ]
    summary = runs[0].summary(by="length")
    difference = runs[0].compare(runs[1])
    for result in (summary, difference):
        check(print_to_text(result), NOUNS[unit])
        check(visible_content(result.to_html()), NOUNS[unit])
        assert '"feature_kind"' in result.to_json()
