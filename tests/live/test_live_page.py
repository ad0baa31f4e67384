"""The exported page in a real browser, opened from disk with the network off."""

import json
import os
import re
from dataclasses import replace
from urllib.parse import quote, urlencode

import numpy as np
import pytest

import limelight
from limelight.live import live_page
from limelight.live.live_page import METHODS_SHOWN
from limelight.rendering.palette import color_ramp
from limelight.rendering.wording import headline, typeset_sentence

from browsing import wait_until, watched_page
from engine_runs import expected_results, gaps
from hard_texts import hard_texts
from tiny_models import tiny_model
from two_classes import fit_count_pipeline

pytestmark = pytest.mark.usefixtures("browser")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def page_file(shipped, tmp_path_factory):
    file = tmp_path_factory.mktemp("live") / "page.html"
    file.write_text(live_page(shipped, text="a great film, but boring"), "utf-8")
    return file


@pytest.fixture
def open_page(browser, page_file):
    """Open the shipped model's page; nothing may be asked for and nothing may complain."""
    return lambda **options: watched_page(browser, page_file, **options)


def type_text(page, text):
    page.fill("#text", text)
    wait_until(
        page, "text => document.querySelector('limelight-words').explanation?.text === text", text
    )


def scores(page):
    return page.eval_on_selector(
        "limelight-words", "node => node.explanation.features.map(({score}) => score)"
    )


def test_typing_changes_prediction_colors_bars_and_curve(open_page, shipped):
    with open_page() as page:
        assert "The model predicts negative" in page.inner_text("#prediction-sentence")
        type_text(page, "a superb, superb film")
        assert "The model predicts positive" in page.inner_text("#prediction-sentence")
        assert page.inner_text("limelight-words") == "a superb, superb film"
        top = page.eval_on_selector(".top", "node => getComputedStyle(node).backgroundColor")
        assert top == "rgb({}, {}, {})".format(*color_ramp("for")[-1])
        assert page.inner_text("limelight-bars tbody tr:first-child th") == "superb ×2"
        (want,) = expected_results(shipped, ["a superb, superb film"], precision="float32")
        assert scores(page) == pytest.approx(want.scores["shapley"], abs=1e-9)
        assert page.get_attribute("limelight-curve", "aria-valuemax") == "4"
        page.keyboard.press("Control+a")
        page.keyboard.type("awful")  # letter by letter, as fingers do
        wait_until(page, "document.querySelector('limelight-words').innerText === 'awful'")
        assert "The model predicts negative" in page.inner_text("#prediction-sentence")


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_the_page_opens_with_the_sentence_of_the_reports(browser, tmp_path, outputs):
    model, text = tiny_model(outputs=outputs), "w1 w2 w3"
    file = tmp_path / "page.html"
    file.write_text(live_page(model, text=text), "utf-8")
    with watched_page(browser, file) as page:
        address = page.url
        for method in ("shapley", "alpha-avg"):
            for target in (None, *model.classes):
                e = limelight.explain(model, text, method, target=target)
                request = {"method": method} | ({} if target is None else {"target": target})
                page.goto("about:blank")  # a new fragment alone opens nothing
                page.goto(f"{address}#{urlencode(request)}")
                assert page.inner_text("#prediction-sentence") == typeset_sentence(
                    "".join(headline([e]))
                )


def test_a_text_without_words_has_a_message_and_a_single_word_is_explained(open_page):
    with open_page() as page:
        page.fill("#text", " ; ")
        page.wait_for_selector("#prediction-sentence .blank")
        assert (
            page.inner_text("#prediction-sentence")
            == "The text has no words. Give at least one word."
        )
        assert page.inner_text("limelight-words") == ""
        type_text(page, "good")
        page.click("#methods [value=lime]")
        page.wait_for_selector("limelight-words .w")
        assert page.inner_text("limelight-words") == "good"
        assert "The model predicts" in page.inner_text("#prediction-sentence")


def test_a_model_too_peaked_for_double_precision_still_predicts(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(live_page(tiny_model(scale=12.0), text="w1 w2 w3"), "utf-8")
    with watched_page(browser, file) as page:
        assert "The model predicts class" in page.inner_text("#prediction-sentence")
        assert "too peaked on this text" in page.inner_text("#precision")
        assert page.inner_text("limelight-words") == ""
        page.click("#methods [value=alpha-avg]")
        wait_until(page, "document.querySelectorAll('limelight-words .w').length === 3")
        assert "too peaked on this text" in page.inner_text("#share")


def test_methods_are_switched_by_click_and_by_arrow_keys(open_page, shipped):
    text = "a great film, but boring"
    (want,) = expected_results(shipped, [text], precision="float32")
    with open_page() as page:
        for method in METHODS_SHOWN:
            page.click(f"#methods [value='{method}']")
            wait_until(
                page,
                "id => document.querySelector('limelight-words').explanation.method === id",
                method,
            )
            assert scores(page) == pytest.approx(want.scores[method], abs=1e-9)
        assert page.locator("limelight-words .n10").count() > 0  # attention has no sign
        page.keyboard.press("Home")
        wait_until(page, "document.activeElement.value === 'shapley'")
        page.keyboard.press("ArrowRight")
        checked = "[...document.querySelectorAll('#methods [aria-checked=true]')].map(b => b.value)"
        wait_until(page, f"{checked}.join() === 'lime'")


def test_another_class_is_explained(open_page):
    with open_page() as page:
        before = scores(page)
        page.select_option("#target", "negative")
        wait_until(
            page, "document.querySelector('limelight-words').explanation.target === 'negative'"
        )
        assert scores(page) == pytest.approx([-score for score in before], abs=1e-9)
        assert "for negative" in page.inner_text("limelight-legend")


def test_a_view_is_a_link(open_page, browser, page_file):
    with open_page() as page:
        type_text(page, "good & bad #1 😀 <b>")
        page.click("#methods [value=gxi]")
        page.select_option("#target", "negative")
        wait_until(page, "location.hash.includes('target=negative')")
        target = page.evaluate("location.hash")
    with watched_page(browser, page_file, fragment=target) as page:
        assert page.input_value("#text") == "good & bad #1 😀 <b>"
        own_value = page.evaluate("document.querySelector('limelight-words').explanation")
        assert (own_value["method"], own_value["target"]) == ("gxi", "negative")
        page.evaluate("location.hash = '#text=superb'")
        wait_until(page, "document.querySelector('#text').value === 'superb'")
        assert page.get_attribute("#methods [value=shapley]", "aria-checked") == "true"
    wrong = f"#method=nonsense&target={quote(HOSTILE)}&text={quote(HOSTILE)}"
    with watched_page(browser, page_file, fragment=wrong) as page:
        assert page.inner_text("limelight-words") == HOSTILE
        assert page.get_attribute("#methods [value=shapley]", "aria-checked") == "true"


def test_markup_in_texts_classes_words_and_title_stays_text(browser, tmp_path):
    names = ("<script>alert(3)</script>", "</script><script>alert(4)</script>", "&lt;b&gt;")
    model = replace(tiny_model(outputs=3), classes=names)
    file = tmp_path / "page.html"
    file.write_text(live_page(model, title=HOSTILE, text=f"{HOSTILE} w1"), "utf-8")
    with watched_page(browser, file) as page:
        assert page.inner_text("h1") == HOSTILE
        output = page.inner_text("limelight-classes")
        assert all(name in output for name in names)
        assert HOSTILE in page.inner_text("limelight-words")
        page.select_option("#target", names[1])
        wait_until(page, "location.hash.includes('target')")
        assert names[1] in page.inner_text("limelight-legend")
        assert page.evaluate("limelight.classes") == list(names)
        assert page.locator("script").count() == 2


@pytest.mark.parametrize("text", ["x" * 500, "שלום 😀 " * 90, "a great film, but boring"])
def test_the_page_never_scrolls_sideways(open_page, text):
    with open_page(width=320, fragment=f"#text={quote(text)}") as page:
        for width in (320, 2000):
            page.set_viewport_size({"width": width, "height": 900})
            page.reload()
            page.eval_on_selector("details", "node => { node.open = true; }")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            small = page.eval_on_selector_all(
                "limelight-curve text",
                "nodes => Math.min(...nodes.map(n => n.getBoundingClientRect().height))",
            )
            assert small > 10  # the words of a figure keep their size


def test_names_of_classes_are_whole_in_a_frame_on_a_telephone(open_page):
    with open_page(width=272) as page:
        lines = page.eval_on_selector_all(
            ".outcome dt",
            "nodes => nodes.map((node) => { const range = document.createRange(); "
            "range.selectNodeContents(node); return range.getClientRects().length; })",
        )
        assert lines == [1, 1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_system_chooses_the_theme_and_the_button_changes_it(open_page, scheme):
    color = "node => getComputedStyle(node).backgroundColor"
    with open_page(color_scheme=scheme) as page:
        full = {
            theme: "rgb({}, {}, {})".format(*color_ramp("against", theme)[-1]) for theme in THEMES
        }
        assert page.eval_on_selector(".top", color) == full[scheme]
        page.click("#theme")
        (other,) = set(THEMES) - {scheme}
        wait_until(page, f"({color})(document.querySelector('.top')) === {json.dumps(full[other])}")


THEMES = ("light", "dark")


def test_everything_is_reached_by_keyboard_alone(open_page):
    with open_page() as page:
        reached = []
        for _ in range(12):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate(
                    "document.activeElement.id || document.activeElement.value"
                    " || document.activeElement.className || document.activeElement.tagName"
                )
            )
        wanted = ["theme", "text", "target", "shapley", "w", "curve", "SUMMARY"]
        places = [next(i for i, value in enumerate(reached) if value.startswith(w)) for w in wanted]
        assert places == sorted(places)
        page.focus("limelight-words .w")
        page.keyboard.press("End")
        message = page.inner_text("#readout")
        assert re.match(r"boring\s+Shapley −\d.*\(within \d.*rank 1 of 6", message)
        page.focus("limelight-curve")
        page.keyboard.press("ArrowRight")
        assert page.get_attribute("limelight-curve", "aria-valuetext").startswith("1 of 6 words")


def test_every_control_has_a_name(open_page):
    with open_page() as page:
        unnamed = page.eval_on_selector_all(
            "button, select, textarea, summary, [role=slider], [role=radiogroup], .w",
            "nodes => nodes.filter(n => !(n.ariaLabel || n.labels?.length || n.innerText)).length",
        )
        assert unnamed == 0


def test_the_page_answers_its_console_with_spans_in_code_points(open_page, shipped):
    text = "😀 good 😀 bad"
    with open_page() as page:
        own_value = page.evaluate("text => limelight.explain(text, 'lime')", text)
        assert own_value["features"] == ["😀", "good", "bad"]
        assert own_value["spans"] == [[[0, 1], [7, 8]], [[2, 6]], [[9, 12]]]
        assert 0 < own_value["bound"] < 1e-4
        evaluation = page.evaluate("limelight.predict('a superb film')")
        chance = shipped.predict_proba(["a superb film"])[0]
        assert evaluation["prediction"] == "positive"
        assert evaluation["probabilities"] == pytest.approx(chance, abs=1e-6)
        assert page.evaluate("limelight.model") == shipped.fingerprint
        heads = page.evaluate("limelight.heads('a superb film').heads.map(({output}) => output)")
        assert np.mean(heads) == pytest.approx(shipped.logits(["a superb film"])[0, 0], abs=1e-5)


ASK = """
([texts, methods]) => texts.map((text) => {
  const found = { predict: limelight.predict(text) };
  for (const method of methods) {
    try {
      const faithfulness = limelight.faithfulness(text, method);
      found[method] = { ...limelight.explain(text, method), faithfulness };
    } catch (error) { found[method] = { error: error.message }; }
  }
  return found;
})
"""


@pytest.mark.slow
def test_texts_are_answered_as_python_does(open_page, shipped):
    texts = hard_texts(shipped, int(os.environ.get("LIVE_TEXTS", "27")), seed=11)
    assert len(texts) >= 50
    with open_page() as page:
        evaluation = page.evaluate(ASK, [texts, list(METHODS_SHOWN)])
    same, near, closest = 0.0, 0.0, 0.0
    stored = expected_results(shipped, texts, precision="float32", tolerance=1e-10)
    own_value = expected_results(shipped, texts, tolerance=1e-9)
    for value, on_tables, on_model in zip(evaluation, stored, own_value, strict=True):
        same = max(same, *gaps(value, on_tables).values())
        distance = gaps(value, on_model)
        near = max(near, *distance.values())
        bounds = [
            (distance[name], value[name]["bound"]) for name in METHODS_SHOWN if name in distance
        ]
        closest = max(closest, *(gap / bound for gap, bound in bounds))
    print(f"on the tables {same:.1e}, with the model {near:.1e}, of the bound {closest:.3f}")
    assert same < 1e-9
    assert near < 1e-6
    assert closest < 1
    assert np.isfinite(near)


def test_an_exact_model_without_tables_is_shown_by_serve():
    model = limelight.wrap(fit_count_pipeline("LogisticRegression"))
    with pytest.raises(limelight.InputError, match="limelight serve"):
        live_page(model)
