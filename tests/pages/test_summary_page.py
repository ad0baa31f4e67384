"""A summary on the terminal and as a page: what is said, what is escaped, what is asked."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from limelight.pages.summary import difference_page, summary_page
from limelight.results import Explanation
from limelight.results.summary import (
    ChangedText,
    DifferingWord,
    Example,
    MistakenText,
    Part,
    RepresentativeText,
    RunDifference,
    RunSlice,
    RunSummary,
    SummarizedView,
    SummarizedWord,
)

from browsing import watched_page

EVIL = '<img src="x" onerror="alert(1)">&"\'\x1b[31m</script>'


def word(name, mean, *, texts=9, examples=()):
    return SummarizedWord(
        word=name, texts=texts, occurrences=texts + 2, mean=mean, mean_abs=abs(mean), positive=0.5,
        shrunken=mean, low=mean - 0.1, high=mean + 0.1, rare=texts < 5, examples=examples,
    )  # fmt: skip


def summary(name="great", *, signed=True, supporting=None, views=1):
    found = Explanation(
        text=f"a {name} b", features=(name,), spans=(((2, 2 + len(name)),),),
        scores=np.array([0.5]), method="lime", target=name, prediction={name: 1.0}, signed=signed,
    )  # fmt: skip
    part = Part(count=8, of=10, low=0.49, high=0.94)
    gap = DifferingWord(
        word=name, group=name, first=0.5, first_texts=6, second=-0.25, second_texts=7,
        difference=-0.75, low=-0.9, high=-0.6, p_holm=0.01,
    )  # fmt: skip
    example = Example(row=3, id=name, score=0.5, before=name, found=name, after=name)
    view = SummarizedView(
        method="lime", label="LIME", signed=signed, target=name, against=None, texts=10,
        vocabulary=3, supporting=supporting or (word(name, 0.5, examples=(example,)),),
        opposing=(word("poor", -0.4, texts=2),) if signed else (), phrases=(word(name, 0.7),),
        right=part, compared=4, differing=(gap,),
        mistakes=(
            MistakenText(
                row=1, id=name, predicted=name, label=name, confidence=0.9, explanation=found
            ),
        ),
        representatives=(RepresentativeText(row=2, id=name, covered=0.25, explanation=found),),
        sliced_by=name,
        slices=(RunSlice(name=name, texts=10, target=part, right=part, differing=(gap,)),),
    )  # fmt: skip
    return RunSummary(
        name=name, texts=10, total=10, failed=0, classes=(name, "other"), scale="logit",
        views=(view,) * views, notices=(f"Notice {name}",), model="m", version="0",
    )  # fmt: skip


def printed(value, width, *, colour=False):
    # Rich keeps what a style looks like: under two systems of colours others would get this one.
    system = {"force_terminal": True, "color_system": "truecolor"} if colour else {"no_color": True}
    Console(file=(file := io.StringIO()), width=width, **system).print(value)
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_terminal_keeps_to_its_width_and_says_what_matters(width):
    lines = printed(summary(), width).splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "10 texts, LIME: what drives great" in text
    assert "Notice great" in text
    if width >= 80:
        assert "great +0.500 [+0.400, +0.600]" in text
        assert "poor -0.400 [-0.500, -0.300] 2*" in text  # rare
        assert "80.0% [49.0%, 94.0%] of 10 labelled texts" in text
        assert "great great +0.500 -0.250 -0.750 [-0.900, -0.600] 6 and 7" in text


def test_of_a_model_that_is_right_everywhere_no_mistakes_are_spoken_of():
    whole = summary()
    right = {"compared": 0, "differing": (), "mistakes": ()}
    view = replace(whole.views[0], right=Part(count=10, of=10, low=0.72, high=1.0), **right)
    assert "Where the model is wrong" in printed(whole, 80)
    assert "wrong" not in printed(replace(whole, views=(view,)), 80)


def test_nothing_of_the_users_is_obeyed_by_terminal_or_page():
    assert "\x1b[31m" not in printed(summary(EVIL), 200)
    for page in (summary_page(summary(EVIL, views=2)), difference_page(difference(EVIL))):
        assert "<img" not in page
        assert "\x1b" not in page
        assert page.count("</script>") == 2


def difference(name="great"):
    gap = summary(name).views[0].differing
    changed = ChangedText(
        row=1, other_row=2, id=name, target=name, change=0.5, predicted=name, other_predicted=name
    )
    return RunDifference(
        first=name, second=name, methods=("lime", "gxi"), texts=5, apart=(1, 2), shares=True,
        compared=3, predictions=Part(count=1, of=5, low=0.04, high=0.62), words=gap,
        changed=(changed,),
    )  # fmt: skip


def test_a_difference_is_said_in_a_terminal_and_as_csv():
    text = " ".join(printed(difference(), 100).split())
    assert "great great +0.500 -0.250 -0.750 [-0.900, -0.600] 6" in text
    assert "Predictions that changed: 1, 20.0% [4.0%, 62.0%]" in text
    head, row = difference().to_csv().splitlines()
    assert head.startswith("word,target,first,second,difference,low,high,p_holm,texts")
    assert row.startswith("great,great,0.5,-0.25,-0.75,")


def test_the_page_asks_nothing_of_the_network():
    page = summary_page(summary(views=2))
    assert "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert not re.findall(r"https?://", page.replace("http://www.w3.org/2000/svg", ""))
    assert page.count('role="tabpanel"') == 2
    assert 'role="tab"' not in summary_page(summary())


def test_rows_beyond_the_first_wait_hidden():
    many = tuple(word(f"word{i}", 1 - i / 5000) for i in range(3000))
    page = summary_page(summary(supporting=many))
    assert page.count("<tr title=") == 3002
    assert page.count(" hidden><th") == 2980
    assert "Show more of 3,000" in page


def test_bars_reach_as_far_as_their_means():
    page = summary_page(summary(supporting=(word("a", 0.9), word("b", 0.45)), signed=True))
    widths = [float(x) for x in re.findall(r'width="([\d.]+)" height="6" class="bar-f"', page)]
    assert widths[0] == pytest.approx(86.4, abs=0.01)  # 0.9 of a peak of 1.0, on 96
    assert widths[1] == pytest.approx(widths[0] / 2, abs=0.01)


def test_methods_without_signs_have_neither_side():
    text = printed(summary(signed=False), 80)
    assert "Largest: the method gives no sign" in text
    assert "Against great" not in text
    assert "bar-n" in summary_page(summary(signed=False))


def test_views_are_switched_and_a_word_shows_its_texts(browser, tmp_path):
    shown = Example(row=3, id="r3", score=-0.0625, before="so", found=EVIL, after="film")
    found = (word(EVIL, 0.5, examples=(shown,)),)
    file = tmp_path / "summary.html"
    file.write_text(summary_page(summary(supporting=found, views=3)), "utf-8")
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
        said = page.inner_text("[role=tabpanel]:visible .examples li")
        assert said.startswith("r3 −0.0625")
        assert "<img" in said
        assert page.locator("img").count() == 0
