"""The page in a real browser."""

from contextlib import ExitStack
from itertools import pairwise

import numpy as np
import pytest

from limelight.rendering.palette import color_ramp
from limelight.results import SpanExplanations
from limelight.text import AnswerQuery

from browsing import leave, new_page, wait_until, watched_page
from render_samples import HOSTILE, REVIEW, comparison, explanation


@pytest.fixture
def open_value(browser, tmp_path):
    """Open a value's page; when the test ends, nothing may have been asked for or complained."""
    with ExitStack() as pages:

        def open_page(value, width=1200, **options):
            file = tmp_path / f"page{len(list(tmp_path.iterdir()))}.html"
            value.save_html(file)
            return pages.enter_context(watched_page(browser, file, width=width, **options))

        yield open_page


def color(page, selector):
    return page.eval_on_selector(selector, "node => getComputedStyle(node).backgroundColor")


def rgb(hue, theme="light"):
    return "rgb({}, {}, {})".format(*color_ramp(hue, theme)[-1])


def test_the_words_are_there_and_colored_by_sign(open_value):
    page = open_value(explanation("good bad so", scores=np.array([0.8, -0.8, 0.0])))
    assert page.inner_text(".reading") == "good bad so"
    assert color(page, ".reading [data-f='0']") == rgb("for")
    assert color(page, ".reading [data-f='1']") == rgb("against")
    assert color(page, ".reading [data-f='2']") == "rgba(0, 0, 0, 0)"


def test_a_click_and_the_arrow_keys_switch_between_methods(open_value):
    page = open_value(comparison())
    visible = lambda: page.eval_on_selector_all(  # noqa: E731
        ".panel", "nodes => nodes.filter(n => n.offsetParent).map(n => n.id)"
    )
    assert visible() == ["panel-0"]
    page.click("#tab-2")
    assert visible() == ["panel-2"]
    assert page.get_attribute("#tab-2", "aria-selected") == "true"
    page.keyboard.press("ArrowRight")
    assert visible() == ["panel-3"]
    assert page.evaluate("document.activeElement.id") == "tab-3"
    page.keyboard.press("End")
    assert visible() == ["panel-7"]
    page.click(".overview [data-choose='1']")
    assert visible() == ["panel-1"]


def test_scores_are_reached_by_pointer_and_by_keyboard(open_value):
    c = comparison()
    page = open_value(c)
    page.click("#tab-7")
    page.hover("#panel-7 .reading [data-f='1']")
    readout = page.inner_text("#panel-7 .readout")
    assert readout.startswith("based")
    assert " ± " in readout
    page.focus("#panel-7 .reading [data-f='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#panel-7 .readout").startswith("explanations")
    evaluation = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert evaluation.startswith("explanations: ")
    stops = page.eval_on_selector_all(
        "#panel-7 .w", "ws => ws.filter(w => w.tabIndex === 0).length"
    )
    assert stops == 1


@pytest.mark.parametrize(
    ("bound", "message"),
    [(1.24e-6, "(within 1.3e−6)"), (np.inf, "+0.800, rank"), (0.0, "+0.800, rank")],
)
def test_a_bound_is_rounded_up_and_shown_only_if_there_is_one(open_value, bound, message):
    page = open_value(explanation("good bad so", scores=np.array([0.8, -0.8, 0.0]), bound=bound))
    page.focus(".reading [data-f='0']")
    assert message in page.inner_text(".readout")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_system_chooses_the_theme_and_the_button_changes_it(open_value, scheme):
    other = {"light": "dark", "dark": "light"}[scheme]
    e = explanation("good bad", scores=np.array([0.8, -0.8]))
    page = open_value(e, color_scheme=scheme)
    assert color(page, ".reading [data-f='0']") == rgb("for", scheme)
    before = color(page, "html")
    page.click("#theme")
    output = "getComputedStyle(document.querySelector('.reading .w')).backgroundColor"
    wait_until(page, f"{output} === '{rgb('for', other)}'")  # colors change over a moment
    assert color(page, "html") != before


def test_markup_in_the_text_stays_text(open_value):
    for value in (explanation(HOSTILE), comparison(HOSTILE)):
        page = open_value(value)
        assert "<script>alert(1)</script>" in page.inner_text(".reading")
        assert page.eval_on_selector_all("script", "nodes => nodes.length") <= 4


@pytest.mark.parametrize("text", [REVIEW, HOSTILE, "x" * 500, "שלום 😀 " * 9])
@pytest.mark.parametrize("width", [360, 1600])
def test_the_page_never_scrolls_sideways(open_value, text, width):
    page = open_value(comparison(text, T_max=60), width)
    page.eval_on_selector_all("details", "nodes => nodes.forEach(n => { n.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_attention_is_read_at_the_pointer(open_value):
    c = comparison()
    page = open_value(c)
    box = page.locator("canvas.head").first.bounding_box()
    cell = box["width"] / c.attention.shape[-1]
    page.locator("canvas.head").first.hover(position={"x": 2.5 * cell, "y": 0.5 * cell})
    message = page.inner_text("limelight-attention .readout")
    assert message.startswith("Head 1: “[cls]” attends to “based”, about ")
    assert float(message.rsplit(" ", 1)[1]) == pytest.approx(c.attention[0, 0, 2], abs=0.01)


def test_the_page_reads_without_its_script(open_value):
    page = open_value(comparison(), java_script_enabled=False)
    assert page.locator(".panel:visible").count() == 8
    assert page.inner_text(".overview").count("questionable") == 8


def test_every_control_has_a_name(open_value):
    page = open_value(comparison())
    unnamed = page.eval_on_selector_all(
        "button, [role=tab], [role=region], [role=group], [role=img], summary",
        "nodes => nodes.filter(n => !(n.ariaLabel || n.alt || n.innerText)).length",
    )
    assert unnamed == 0


def test_printing_keeps_the_colors_and_drops_the_controls(open_value):
    page = open_value(explanation("good bad", scores=np.array([0.8, -0.8])), color_scheme="dark")
    page.emulate_media(media="print")
    assert color(page, ".reading [data-f='0']") == rgb("for", "light")
    assert not page.is_visible("#theme")


def test_no_tint_covers_a_letter(open_value):
    """The box of a word, tint included, ends where the letters beside it begin."""
    page = open_value(explanation("I gave it 10. The acting, 7.75 of 10 (weak), is superb!"))
    boxes = page.eval_on_selector_all(
        ".reading .w",
        """nodes => nodes.map(node => {
            const letters = document.createRange();
            letters.selectNodeContents(node);
            const [tint, ink] = [node.getBoundingClientRect(), letters.getBoundingClientRect()];
            return [tint.left, tint.right, ink.left, ink.right, ink.top];
        })""",
    )
    assert len(boxes) > 15
    on_one_line = [(a, b) for a, b in pairwise(boxes) if a[4] == b[4]]
    for (_, right, _, ink_right, _), (remaining, _, ink_left, _, _) in on_one_line:
        assert right <= ink_left + 0.01
        assert remaining >= ink_right - 0.01
    assert any(right > ink_right + 1 for _, right, _, ink_right, _ in boxes)  # it does reach out


ANSWERED = "It is bad. <b>The music</b> is good. Nobody “likes” it!"


def carried_answer():
    """Return an answer of three sentences to a text of three, each with scores of its own."""
    text, arguments = "One fact. <i>Two</i> facts! Three of them.", {"kind": "sentences"}
    arguments |= {"target": "answer", "classes": ("answer",), "link": "none", "scale": "score"}
    results = [
        explanation(
            text,
            "lime-sampled",
            seed=k,
            query=sentence,
            prediction={"answer": -1.5 - k},
            **arguments,
        )
        for k, sentence in enumerate(AnswerQuery(ANSWERED, is_generated=True).sentences())
    ]
    return SpanExplanations(text, tuple(results))


@pytest.mark.slow
def test_a_sentence_of_an_answer_lights_up_what_carried_it(open_value):
    result = carried_answer()
    page = open_value(result)

    def highlighted_sentence():
        """Return which sentence is lit, and its numbers as the table has them."""
        (panel,) = page.eval_on_selector_all(
            ".panel", "nodes => nodes.filter(n => n.offsetParent).map(n => n.id)"
        )
        rows = page.eval_on_selector_all(
            f"#{panel} .scores tbody tr",
            "rows => rows.map(r => [Number(r.dataset.f), ...[...r.cells].map(c => c.innerText)])",
        )
        number = int(panel.removeprefix("panel-"))
        return number, {row[0]: [float(x.replace("−", "-")) for x in row[2:4]] for row in rows}

    def holds(number):
        """Say whether that sentence is shown, with the scores and errors of the result."""
        e, (lit, numbers) = result[number], highlighted_sentence()
        reference = {j: [e.scores[j], e.stderr[j]] for j in range(3)}
        for j, pair in reference.items():
            assert numbers[j] == pytest.approx(pair, abs=0.005 * np.abs(e.scores).max() + 5e-4)
        lightest = page.get_attribute(f"#panel-{number} .top", "data-f")
        assert int(lightest) == np.abs(e.scores).argmax()
        return lit == number

    assert holds(0)
    page.hover("#tab-2")
    assert holds(2)
    page.mouse.move(5, 5)  # what was pointed at goes with the pointer
    assert holds(0)
    page.click("#tab-1")
    page.hover("#tab-2")
    page.mouse.move(5, 5)  # what was clicked stays
    assert holds(1)
    page.keyboard.press("ArrowDown")
    assert holds(2)
    assert page.evaluate("document.activeElement.id") == "tab-2"
    assert page.get_attribute("#tab-2", "aria-selected") == "true"
    message = page.eval_on_selector_all("[role=tab]", "tabs => tabs.map(t => t.innerText)")
    assert [value.split("\n")[0] for value in message] == [e.query.part for e in result]
    assert [float(element.rsplit("−", 1)[1]) for element in message] == [1.5, 2.5, 3.5]


@pytest.mark.parametrize(("width", "beside"), [(1200, True), (400, False)])
def test_the_answer_stands_right_of_the_text_or_above_it(open_value, width, beside):
    page = open_value(carried_answer(), width)
    answer, text = (page.locator(place).first.bounding_box() for place in (".answer", ".reading"))
    assert (answer["x"] >= text["x"] + text["width"]) == beside
    assert (answer["y"] + answer["height"] <= text["y"]) == (not beside)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_a_script_every_sentence_of_an_answer_has_its_numbers(browser, tmp_path):
    result = carried_answer()
    result.save_html(tmp_path / "answer.html")
    page = new_page(browser, java_script_enabled=False)
    page.goto((tmp_path / "answer.html").as_uri())
    assert page.locator(".panel .scores").count() == len(result)
    assert page.locator(".panel .reading .w").count() == sum(map(len, result))
    assert "<b>The music</b> is good." in page.locator(".answer").inner_text()
    leave(page)
