"""A summary on the terminal and as a page: what is said, what is escaped, what is asked."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from limelight.rendering.summary import run_comparison_page, summary_page
from limelight.results import Explanation
from limelight.results.summary import (
    COLUMNS,
    COMPARISON_COLUMNS,
    RunComparison,
    RunSummary,
    build_table,
)

from browsing import watched_page

EVIL = '<img src="x" onerror="alert(1)">&"\'\x1b[31m</script>'


def word(name, mean, *, texts=9, kind="for"):
    return {
        "kind": kind, "word": name, "texts": texts, "occurrences": texts + 2, "mean": mean,
        "mean_abs": abs(mean), "positive": 0.5, "shrunken": mean, "low": mean - 0.1,
        "high": mean + 0.1, "rare": texts < 5,
    }  # fmt: skip


def gap(name="great"):
    return {
        "word": name, "group": name, "first": 0.5, "first_texts": 6, "second": -0.25,
        "second_texts": 7, "difference": -0.75, "low": -0.9, "high": -0.6, "p_holm": 0.01,
    }  # fmt: skip


def summary(name="great", *, signed=True, words=None, views=1, **other):
    """Return a summary of equal views; ``other`` replaces tables."""
    result = Explanation(
        text=f"a {name} b", features=(name,), spans=(((2, 2 + len(name)),),),
        scores=np.array([0.5]), method="lime", target=name, prediction={name: 1.0}, signed=signed,
    )  # fmt: skip
    right = {"right": 8, "labeled": 10, "right_low": 0.49, "right_high": 0.94}
    kind = "for" if signed else "size"
    words = words or [word(name, 0.5, kind=kind)]
    tables = {
        "views": [right | {
            "label": "LIME", "signed": signed, "texts": 10, "vocabulary": 3, "compared": 4,
        }],
        "words": [
            *words,
            *[word("poor", -0.4, texts=2, kind="against")] * signed,
            word(name, 0.7, kind="phrase"),
        ],
        "examples": [
            {"word": value["word"], "row": 3, "id": "r3", "score": -0.0625, "before": name,
             "match": value["word"], "after": name} for value in words
        ],
        "differing_words": [gap(name)],
        "mistakes": [{
            "row": 1, "id": name, "predicted": name, "label": name, "confidence": 0.9,
            "margin": False, "words": [], "explanation": result,
        }],
        "representatives": [{"row": 2, "id": name, "covered": 0.25, "explanation": result}],
        "slices": [right | {
            "slice": name, "texts": 10, "predicted": 8, "predicted_low": 0.49,
            "predicted_high": 0.94,
        }],
        "slice_words": [gap(name)],
        "decisions": [{
            "texts": 10, "single": 4, "single_low": 0.17, "single_high": 0.69, "robust": 2,
            "unsettled": 1, "median_size": 2.0,
        }],
    } | other  # fmt: skip
    names = [
        {"method": f"lime{i}" if i else "lime", "target": name, "against": None}
        for i in range(views)
    ]
    return RunSummary(
        name=name, texts=10, total=10, failed=0, classes=(name, "other"), scale="logit",
        sliced_by=name, warnings=(f"Warning {name}",), model="m", version="0",
        **{
            table: build_table(COLUMNS[table], [view | row for view in names for row in rows])
            for table, rows in tables.items()
        },
    )  # fmt: skip


def print_to_text(value, width, *, color=False):
    # Rich keeps what a style looks like: under two systems of colors others would get this one.
    system = {"force_terminal": True, "color_system": "truecolor"} if color else {"no_color": True}
    Console(file=(file := io.StringIO()), width=width, **system).print(value)
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_terminal_keeps_to_its_width_and_says_what_matters(width):
    lines = print_to_text(summary(), width).splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "10 texts, LIME: what drives great" in text
    assert "Warning great" in text
    if width >= 80:
        assert "great +0.500 [+0.400, +0.600]" in text
        assert "poor -0.400 [-0.500, -0.300] 2*" in text  # rare
        assert "80.0% [49.0%, 94.0%] of 10 labeled texts" in text
        assert "great great +0.500 -0.250 -0.750 [-0.900, -0.600] 6 and 7" in text


def test_of_a_model_that_is_right_everywhere_no_mistakes_are_spoken_of():
    assert "Where the model is wrong" in print_to_text(summary(), 80)
    views = [summary().views.records()[0] | {"right": 10, "compared": 0}]
    full = replace(
        summary(differing_words=[], mistakes=[]), views=build_table(COLUMNS["views"], views)
    )
    assert "wrong" not in print_to_text(full, 80)


def test_nothing_of_the_users_is_obeyed_by_terminal_or_page():
    assert "\x1b[31m" not in print_to_text(summary(EVIL), 200)
    for page in (summary_page(summary(EVIL, views=2)), run_comparison_page(comparison(EVIL))):
        assert "<img" not in page
        assert "\x1b" not in page
        assert page.count("</script>") == 2


def comparison(name="great"):
    changed = {
        "row": 1, "other_row": 2, "id": name, "target": name, "change": 0.5, "predicted": name,
        "other_predicted": name,
    }  # fmt: skip
    words = [gap(name) | {"target": name, "texts": 6}]
    return RunComparison(
        first=name, second=name, methods=("lime", "gxi"), texts=5, only_first=1, only_second=2,
        shares=True, compared=3, changed_predictions=1, changed_low=0.04, changed_high=0.62,
        words=build_table(COMPARISON_COLUMNS["words"], words),
        changed_texts=build_table(COMPARISON_COLUMNS["changed_texts"], [changed]),
    )  # fmt: skip


def test_a_comparison_is_shown_in_a_terminal_as_csv_and_as_json():
    text = " ".join(print_to_text(comparison(), 100).split())
    assert "great great +0.500 -0.250 -0.750 [-0.900, -0.600] 6" in text
    assert "Predictions that changed: 1, 20.0% [4.0%, 62.0%]" in text
    head, row = comparison().to_csv().splitlines()
    assert head.startswith("word,target,first,second,difference,low,high,p_holm,texts")
    assert row.startswith("great,great,0.5,-0.25,-0.75,")
    read = json.loads(comparison().to_json())
    assert read["schema"] == "limelight.run-comparison/1"
    assert read["words"] == comparison().words.records()


def test_the_page_asks_nothing_of_the_network():
    page = summary_page(summary(views=2))
    assert "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert not re.findall(r"https?://", page.replace("http://www.w3.org/2000/svg", ""))
    assert page.count('role="tabpanel"') == 2
    assert 'role="tab"' not in summary_page(summary())


def test_rows_beyond_the_first_wait_hidden():
    large_sample = [word(f"word{i}", 1 - i / 5000) for i in range(3000)]
    page = summary_page(summary(words=large_sample))
    assert page.count("<tr title=") == 3002
    assert page.count(" hidden><th") == 2980
    assert "Show more of 3,000" in page


def test_bars_reach_as_far_as_their_means():
    page = summary_page(summary(words=[word("a", 0.9), word("b", 0.45)]))
    widths = [float(x) for x in re.findall(r'width="([\d.]+)" height="6" class="bar-f"', page)]
    assert widths[0] == pytest.approx(86.4, abs=0.01)  # 0.9 of a peak of 1.0, on 96
    assert widths[1] == pytest.approx(widths[0] / 2, abs=0.01)


def test_methods_without_signs_have_neither_side():
    text = print_to_text(summary(signed=False), 80)
    assert "Largest: the method gives no sign" in text
    assert "Against great" not in text
    assert "bar-n" in summary_page(summary(signed=False))


def test_views_are_switched_and_a_word_shows_its_texts(browser, tmp_path):
    file = tmp_path / "summary.html"
    file.write_text(summary_page(summary(words=[word(EVIL, 0.5)], views=3)), "utf-8")
    with watched_page(browser, file) as page:
        page.focus("[role=tab]")
        page.keyboard.press("End")
        assert page.locator("[role=tabpanel]:visible").count() == 1
        assert page.evaluate("[document.activeElement.ariaSelected, location.hash]") == [
            "true",
            "#view=2",
        ]
        page.keyboard.press("ArrowRight")  # the tabs are a ring
        assert page.evaluate("location.hash") == ""
        page.click("[role=tabpanel]:visible [data-w='0']")
        message = page.inner_text("[role=tabpanel]:visible .examples li")
        assert message.startswith("r3 −0.0625")
        assert "<img" in message
        assert page.locator("img").count() == 0
