"""The elements that pages share: bundled into one script, and the same markup as the reports."""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import Markup

from limelight.rendering.bundle import PACKAGE, bundle_module
from limelight.rendering.html import score_table_html, words_html
from limelight.rendering.markup import render_page
from limelight.text import SIDES, Part

from browsing import leave, new_page, watched_page
from render_samples import HOSTILE, REVIEW, explanation

ELEMENTS = PACKAGE / "rendering" / "elements"
ENTRY = """\
import "{at}/colored_words.js";
import "{at}/score_bars.js";
import "{at}/removal_curve.js";
import "{at}/class_meters.js";
globalThis.data = JSON.parse(document.getElementById("limelight-data").textContent);
for (const tag of ["limelight-words", "limelight-bars"]) {{
  document.querySelector(tag).explanation = data;
}}
"""
TAGS = ("limelight-words", "limelight-bars", "limelight-curve", "limelight-classes")
# What only a page with a script needs, beside what the reports have.
LIVE = re.compile(r' (?:title|role|tabindex|aria-label)="[^"]*"')


@pytest.fixture
def open_elements(browser, tmp_path):
    """Open a page on which an explanation's elements stand."""
    entry, file = tmp_path / "entry.js", tmp_path / "page.html"
    entry.write_text(ENTRY.format(at=os.path.relpath(ELEMENTS, tmp_path)))

    def show(e, **options):
        sheets = ("words.css", "page.css", "elements.css")
        inside = Markup("<section>" + "".join(f"<{tag}></{tag}>" for tag in TAGS) + "</section>")
        page = render_page("Elements", inside, sheets=sheets, script=entry, data=e.to_json())
        file.write_text(page, "utf-8")
        return watched_page(browser, file, **options)

    return show


def assert_markup_of_reports(page, e):
    """Compare the words and bars of a page with those of a report."""
    same = "html => Object.assign(document.createElement('div'), {innerHTML: html}).innerHTML"
    for tag, python in (
        ("limelight-words", words_html(e)),
        ("limelight-bars", score_table_html(e)),
    ):
        target = page.eval_on_selector(tag, "node => node.innerHTML")
        assert LIVE.sub("", target) == LIVE.sub("", page.evaluate(same, python)), tag


@pytest.mark.parametrize(
    "text", [REVIEW, HOSTILE, "😀 good, שלום good! İstanbul", "good \u202e bad\x07 film", "x " * 90]
)
def test_words_and_bars_have_the_markup_of_the_reports(open_elements, text):
    e = explanation(text, T_max=60)
    with open_elements(e) as page:
        assert_markup_of_reports(page, e)


def test_the_two_sides_of_a_pair_have_the_markup_of_the_reports(open_elements):
    e = explanation("a film 😀, a plot\nno film; bad!", kind="positions")
    e = replace(
        e,
        parts=tuple(
            Part(side, side, span, span)
            for side, span in zip(SIDES, ((0, 16), (17, 30)), strict=True)
        ),
    )
    with open_elements(e) as page:
        assert_markup_of_reports(page, e)
        assert page.locator("limelight-words .side").all_inner_texts() == ["first", "second"]


def test_words_are_walked_by_keyboard_and_say_their_scores(open_elements):
    with open_elements(explanation("good bad so", scores=np.array([0.8, -0.4, 0.0]))) as page:
        page.evaluate(
            "addEventListener('limelight-point', (e) => { globalThis.at = e.detail.feature; });"
            "addEventListener('limelight-choose', (e) => { globalThis.chosen = e.detail.feature; })"
        )
        page.focus("limelight-words .w")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "bad: −0.400"
        assert page.evaluate("at") == 1
        page.keyboard.press("Enter")
        assert page.evaluate("chosen") == 1
        page.keyboard.press("End")
        assert page.evaluate("at") == 2
        stops = "ws => ws.filter(w => w.tabIndex === 0).length"
        assert page.eval_on_selector_all("limelight-words .w", stops) == 1


def test_a_curve_is_read_by_keyboard_and_shown_as_text(open_elements):
    lines = [
        {"label": "LIME", "kind": "method", "points": [[0, 1.0], [0.5, 0.25], [1, -1.0]]},
        {"label": "chance", "kind": "chance", "points": [[0, 1.0], [1, -1.0]]},
    ]
    with open_elements(explanation("good bad", scores=np.array([0.8, -0.4]))) as page:
        page.eval_on_selector(
            "limelight-curve", f"node => {{ node.words = 4; node.lines = {json.dumps(lines)}; }}"
        )
        page.focus("limelight-curve")
        page.keyboard.press("ArrowRight")
        message = page.get_attribute("limelight-curve", "aria-valuetext")
        assert message == "1 of 4 words removed: LIME +0.625, chance +0.500"
        assert "LIME +0.625" in page.inner_text("limelight-curve .legend")


def test_classes_escape_their_names(open_elements):
    with open_elements(explanation("good")) as page:
        page.eval_on_selector(
            "limelight-classes",
            "node => { node.outcomes = [{name: '<img src=x onerror=alert(1)>', "
            "probability: 0.9995, logit: -2, chosen: true}]; }",
        )
        message = page.inner_text("limelight-classes")
        assert "<img src=x onerror=alert(1)>" in message
        assert ">99.9%" in message
        assert "logit −2.000" in message


def modules(folder, **sources):
    for name, source in sources.items():
        (folder / f"{name}.js").write_text(source)
    return folder / "main.js"


def test_a_bundle_keeps_private_names_apart_and_runs_each_module_once(tmp_path, browser):
    main = modules(
        tmp_path,
        one="const x = 1;\nexport const one = () => x;\n"
        "globalThis.runs = (globalThis.runs ?? 0) + 1;\n",
        two='import { one } from "./one.js";\nconst x = 2;\n'
        "export function two() { return one() + x; }\n",
        main='import {\n  one,\n} from "./one.js";\nimport { two } from "./two.js";\n'
        "globalThis.found = [one(), two(), runs];\n",
    )
    page = new_page(browser)
    page.evaluate(bundle_module(main))
    assert page.evaluate("found") == [1, 3, 1]
    leave(page)
