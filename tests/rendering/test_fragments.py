"""Pieces of HTML for other people's pages: notebooks, apps and mails."""

import re

import numpy as np
import pytest

from limelight.rendering.palette import color_ramp, hex_color

from browsing import leave, new_page
from render_samples import HOSTILE, SENTENCE, comparison, explanation


def make_fragments(text=SENTENCE):
    return [explanation(text).to_html(fragment=True), comparison(text).to_html(fragment=True)]


@pytest.mark.parametrize("fragment", make_fragments(HOSTILE) + make_fragments(), ids=range(4))
def test_a_fragment_is_one_element_without_head_or_script(fragment):
    tags = set(re.findall(r"<(\w+)", fragment))
    assert fragment.startswith('<div class="limelight fragment">')
    assert fragment.endswith("</div>")
    assert not tags & {"html", "head", "body", "script", "link", "meta", "iframe", "form", "img"}
    assert not re.search(r"\son\w+=|javascript:|url\(|@import|https?://", fragment)


@pytest.mark.parametrize("fragment", make_fragments(), ids=range(2))
def test_its_styles_touch_nothing_else(fragment):
    (sheet,) = re.findall(r"<style>(.*?)</style>", fragment, re.S)
    bare = re.sub(r"/\*.*?\*/", "", sheet, flags=re.S)
    bare = re.sub(r"@media[^{]*\{((?:[^{}]*\{[^}]*\})*)\s*\}", r"\1", bare)
    selectors = [value for rule in re.findall(r"([^{}]+)\{", bare) for value in split(rule)]
    assert len(selectors) > 40
    assert [selector for selector in selectors if ".limelight" not in selector] == []


def split(rule):
    """Selectors of a rule, commas in brackets left alone."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", rule)]


def test_a_page_is_what_it_was():
    e = explanation()
    assert e.to_html() == e.as_html()
    assert e.to_html().startswith("<!doctype html>")
    assert e._repr_html_() == e.to_html(fragment=True)
    assert 'style="background' not in e.to_html()  # which the page's own policy would forbid


def test_words_keep_their_colors_where_the_style_sheet_is_dropped():
    e = explanation("good bad so", scores=np.array([0.8, -0.8, 0.0]))
    bare = re.sub(r"<style>.*?</style>", "", e.to_html(fragment=True), flags=re.S)
    good, bad = (hex_color(color_ramp(hue)[-1]) for hue in ("for", "against"))
    assert re.search(rf'style="background:{good};color:#1c2126">good<', bare)
    assert re.search(rf'style="background:{bad};color:#1c2126">bad<', bare)
    assert re.search(r'data-f="2" title="[^"]*">so<', bare)


def test_in_the_dark_the_sheet_wins_over_the_light_colors(browser):
    e = explanation("good bad so", scores=np.array([0.8, -0.8, 0.0]))
    page = new_page(browser, color_scheme="dark")
    page.set_content(f"<h1>Mine</h1>{e.to_html(fragment=True)}<p class=words>after</p>")
    color = "node => getComputedStyle(node).backgroundColor"
    deepest = "rgb({}, {}, {})".format(*color_ramp("for", "dark")[-1])
    assert page.eval_on_selector("[data-f='0']", color) == deepest
    assert page.eval_on_selector("h1", color) == "rgba(0, 0, 0, 0)"
    leave(page)
