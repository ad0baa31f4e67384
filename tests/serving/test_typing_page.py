"""Type and see, in a real browser."""

import json
import re
import time
from urllib.parse import quote
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

import limelight
from limelight.rendering.palette import color_ramp
from limelight.serving import serve

from browsing import wait_until, watched_page

TEXT = "The plot is predictable, but the acting is superb."
HOSTILE = '<script>alert(1)</script> <img src=x onerror="alert(2)"> & "quoted" \u202e good'
WORDS = ".method[data-method=lime] limelight-words"


def link(**state):
    return "#" + "&".join(f"{name}={quote(value)}" for name, value in state.items())


def wait_until_words(page, text=TEXT, method="lime"):
    """Wait until the words of a method are those of ``text``."""
    page.wait_for_function(
        "([method, text]) => "
        "[...document.querySelectorAll(`[data-method='${method}'] limelight-words`)]"
        ".some((words) => words.explanation?.text === text && !words.classList.contains('stale'))",
        arg=[method, text],
    )


def word(page, name, within=WORDS):
    return page.locator(f"{within} .w", has_text=name).first


def predicted_class(page, within=""):
    return page.inner_text(f"{within} .outcome.chosen dt".strip())


def test_text_prediction_and_colors_follow_the_keys(opened):
    page = opened()
    wait_until_words(page)  # keys before the page is ready would be lost
    page.keyboard.type("a great film", delay=5)  # the text has the focus when the page opens
    wait_until_words(page, "a great film")
    assert predicted_class(page) == "positive"
    page.fill("#text", "an awful film")
    wait_until_words(page, "an awful film")
    assert predicted_class(page) == "negative"
    assert page.inner_text(WORDS) == "an awful film"
    color = word(page, "awful").evaluate("node => getComputedStyle(node).backgroundColor")
    assert color == "rgb({}, {}, {})".format(*color_ramp("against")[-1])
    page.fill("#text", "")
    page.wait_for_function("() => document.querySelectorAll('.w[data-f]').length === 0")


def test_the_numbers_of_a_word_are_those_of_the_library(opened, shipped):
    page = opened(link(text=TEXT))
    wait_until_words(page)
    word(page, "superb").hover()
    message = page.inner_text(".readout").replace("−", "-")
    for method in ("lime", "shapley"):
        e = limelight.explain(shipped, TEXT, method)
        assert f"{e.label} {dict(e.as_list())['superb']:+.2f} (within " in message
    assert message.startswith("superb")


def test_a_removed_word_is_shown_beside_the_original_and_can_come_back(opened):
    page = opened(link(text=TEXT))
    wait_until_words(page)
    word(page, "superb").click()
    page.click("[data-action=remove]")
    changed = "The plot is predictable, but the acting is."
    wait_until_words(page, changed)
    assert page.locator("limelight-reading").count() == 2
    assert page.inner_text("[data-changed=true] .changed-text") == changed
    assert "goes from −0.659 to −1.92: −1.26." in page.inner_text("[data-changed=true] .difference")
    assert page.input_value("#text") == TEXT
    page.click("#changes .chip button")
    page.wait_for_function("() => document.querySelectorAll('limelight-reading').length === 1")


def test_the_word_that_goes_is_the_one_that_was_clicked_also_where_case_counts(serving, opened):
    even = limelight.wrap(lambda texts: np.full((len(texts), 2), 0.5), classes=["no", "yes"])
    page = opened(link(text="Good plot, good cast", methods='["loo"]'), url=serving(even).url)
    wait_until_words(page, "Good plot, good cast", "loo")
    page.locator("[data-method=loo] .w").get_by_text("good", exact=True).click()
    page.click("[data-action=remove]")
    wait_until_words(page, "Good plot, cast", "loo")


def test_a_word_is_replaced_and_the_change_is_kept(opened):
    page = opened(link(text=TEXT))
    wait_until_words(page)
    word(page, "superb").click()
    page.fill(".word-menu input", "awful")
    page.click(".word-menu form button")
    wait_until_words(page, TEXT.replace("superb", "awful"))
    page.click("#keep")
    assert page.input_value("#text") == TEXT.replace("superb", "awful")
    page.wait_for_function("() => document.querySelectorAll('limelight-reading').length === 1")


def test_a_protected_word_loses_its_score(opened):
    page = opened(link(text=TEXT))
    wait_until_words(page)
    word(page, "plot").click()
    page.click("[data-action=protect]")
    page.wait_for_function(
        "() => !document.querySelector('.method limelight-words').explanation.features"
        ".some((feature) => feature.text === 'plot')"
    )
    assert "“plot” protected" in page.inner_text("#changes")


def test_methods_are_switched_and_sampled_ones_come_when_the_reader_pauses(opened):
    page = opened(link(text=TEXT))
    wait_until_words(page)
    page.click("#methods summary")
    page.check("#methods input[value=loo]")
    page.check("#methods input[value=lime-sampled]")
    page.uncheck("#methods input[value=alpha-avg]")
    wait_until_words(page, method="loo")
    wait_until_words(page, method="lime-sampled")
    assert page.locator(".method[data-method=alpha-avg]").count() == 0
    word(page, "superb", "[data-method=lime-sampled]").hover()
    assert " ± " in page.inner_text(".readout")
    assert page.evaluate("document.querySelector('#methods').open")


def test_a_link_restores_everything(opened):
    state = {
        "text": TEXT,
        "methods": '["loo","gxi"]',
        "target": "negative",
        "scale": "probability",
        "protect": '["plot"]',
        "changes": '[["superb",0,"awful"]]',
    }
    page = opened(link(**state))
    wait_until_words(page, TEXT, "gxi")
    wait_until_words(page, TEXT.replace("superb", "awful"), "gxi")
    assert page.input_value("#text") == TEXT
    assert [
        page.locator(f".method[data-method={name}]").count() for name in ("loo", "gxi", "shapley")
    ] == [2, 2, 0]
    assert "Scores are for “negative”, the predicted class (probability " in page.inner_text(
        ".opening >> nth=0"
    )
    assert page.locator("#changes .chip").count() == 2
    page.fill("#text", f"{TEXT} Really.")
    page.wait_for_function("() => location.hash.includes('Really')")
    other = opened(page.url[page.url.index("#") :])
    wait_until_words(other, f"{TEXT} Really.", "gxi")
    assert other.locator(".method[data-method=gxi]").count() == 1  # changes were of the old text


def test_the_page_starts_with_an_example_that_typing_replaces(opened):
    page = opened()
    wait_until_words(page, TEXT)
    labels = page.eval_on_selector_all(".method", "nodes => nodes.map((n) => n.dataset.method)")
    assert labels == ["lime", "shapley", "alpha-avg"]  # the default first, attention last
    assert page.locator(".scale >> nth=0").inner_text().startswith("up to ")
    buttons = page.locator("[data-file]")
    assert [buttons.nth(i).is_disabled() for i in range(4)] == [False] * 4
    page.keyboard.type("one good film")
    wait_until_words(page, "one good film")
    page.fill("#text", "")
    page.wait_for_function(
        "() => document.querySelector('.readout').textContent.includes('Type a')"
    )
    assert [buttons.nth(i).is_disabled() for i in range(4)] == [True] * 4


def test_the_numbers_of_a_word_are_cleared_if_the_text_changes(opened):
    page = opened(link(text=TEXT))
    wait_until_words(page, TEXT)
    page.hover(".method[data-method=lime] .w >> nth=1")
    page.wait_for_selector(".readout b")
    page.mouse.move(1, 1)
    assert page.locator(".readout b").count() == 1
    page.fill("#text", "another film")
    wait_until_words(page, "another film")
    assert page.locator(".readout b").count() == 0


def test_methods_without_a_formula_for_probabilities_are_left_out(opened):
    page = opened(link(text=TEXT, methods='["lime","lime-theorem"]', scale="probability"))
    wait_until_words(page, TEXT)
    labels = page.eval_on_selector_all(".method", "nodes => nodes.map((n) => n.dataset.method)")
    assert labels == ["lime"]


def test_back_and_forward_and_a_pasted_link_are_heard(opened):
    page = opened(link(text="one good film"))
    wait_until_words(page, "one good film")
    page.evaluate("location.hash = 'text=another+bad+film'")
    wait_until_words(page, "another bad film")
    page.go_back()
    wait_until_words(page, "one good film")


BROKEN = (
    "#changes=%5B",
    "#methods=7",
    "#text=%E0%A4%A",
    "#open=nope&protect=x",
    "#changes=[1]&methods=[{}]&protect=[null]&open=[[1]]",
    '#changes=[["a",-1,null]]&methods=["nope"]&protect=[1]',
    "#target=nope&against=nope&scale=nope&features=nope",
)


@pytest.mark.slow
def test_a_broken_link_opens_the_page_all_the_same(opened, served):
    page = opened()
    for fragment in BROKEN:
        page.goto("about:blank")  # a new fragment alone opens nothing
        page.goto(served.url + fragment)
        page.fill("#text", TEXT)
        wait_until_words(page)


def test_dark_mode_is_the_system_s_and_the_button_s(opened):
    page = opened(link(text=TEXT), color_scheme="dark")
    wait_until_words(page)
    background = lambda: page.evaluate("getComputedStyle(document.documentElement).backgroundColor")  # noqa: E731
    assert background() == "rgb(18, 20, 23)"
    color = word(page, "superb").evaluate("node => getComputedStyle(node).backgroundColor")
    assert color == "rgb({}, {}, {})".format(*color_ramp("for", "dark")[-1])
    page.click("#theme")
    assert background() == "rgb(255, 255, 255)"


def test_everything_is_done_with_the_keyboard_alone(opened):
    page = opened()
    wait_until_words(page)
    page.keyboard.type(TEXT)
    wait_until_words(page)
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('[data-method=lime] .w')"):
            break
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.textContent") == "superb"
    assert page.inner_text(".readout").startswith("superb")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('[role=dialog]').ariaLabel") == "superb"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "superb"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the first button removes
    wait_until_words(page, "The plot is predictable, but the acting is.")
    assert page.locator(".word-menu").count() == 0


def test_names_and_values_are_text_for_a_screen_reader(opened):
    page = opened(link(text=TEXT))
    wait_until_words(page)
    assert page.get_by_label("Your text").count() == 1
    assert word(page, "superb").get_attribute("aria-label").startswith("superb: +1.2")
    assert word(page, "superb").get_attribute("role") == "button"
    nameless = page.eval_on_selector_all(
        "button, select, input, textarea",
        "nodes => nodes.filter((n) => !(n.labels?.length || n.ariaLabel || n.textContent.trim()))"
        ".length",
    )
    assert nameless == 0


@pytest.mark.slow
def test_the_page_fits_every_width(opened):
    page = opened(link(text=f"{TEXT} {'x' * 90}", changes='[["superb",0,null]]'), width=320)
    for width in (320, 768, 2000):
        page.set_viewport_size({"width": width, "height": 900})
        page.reload()
        wait_until_words(page, f"The plot is predictable, but the acting is. {'x' * 90}")
        page.click("#methods summary")
        word(page, "plot").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        box = page.locator(".word-menu").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


def test_markup_in_a_text_stays_text(opened):
    page = opened(link(text=HOSTILE, methods='["loo"]'))
    page.wait_for_selector("[data-method=loo] .w")
    assert page.inner_text("[data-method=loo] limelight-words").startswith(
        "<script>alert(1)</script>"
    )
    page.locator("[data-method=loo] .w", has_text="script").first.click()
    page.click("[data-action=remove]")
    page.wait_for_selector("[data-changed=true] .w")
    assert page.eval_on_selector_all("main img, main script", "nodes => nodes.length") == 0


def test_markup_in_class_names_and_file_names_stays_text(serving, opened, tmp_path, tiny_model):
    folder = tmp_path / "<img src=x onerror=alert(3)>"
    limelight.save_folder(tiny_model(outputs=3), folder)
    named = limelight.wrap(
        lambda texts: np.tile([0.2, 0.8], (len(texts), 1)),
        classes=["<b>no", "</script><script>alert(4)</script>"],
    )
    for models in ([named], [limelight.load(folder), named]):
        page_served = serving(models)
        page = opened(link(text="w1 w2 w3", methods='["loo"]'), url=page_served.url)
        for number in range(len(models)):
            page.wait_for_selector(f"[data-model='{number}'] [data-method=loo] .w")
        message = page.inner_text("main")
        assert "</script><script>alert(4)</script>" in message
        assert len(models) == 1 or "<img src=x onerror=alert(3)>" in message
        assert (
            page.eval_on_selector_all("main img, main script, main h2 *", "nodes => nodes.length")
            == 0
        )


def test_two_models_stand_side_by_side(serving, opened, shipped):
    def spiteful(texts):
        return 1 - shipped.predict_proba(texts)

    pair = serving([shipped, limelight.wrap(spiteful, classes=shipped.classes)])
    page = opened(link(text=TEXT, methods='["shapley"]'), url=pair.url)
    page.wait_for_function("() => document.querySelectorAll('.outcome.chosen').length === 2")
    assert predicted_class(page, "[data-model='0']") == "negative"
    assert predicted_class(page, "[data-model='1']") == "positive"
    page.wait_for_selector("[data-model='1'] .w")
    titles = page.locator("limelight-reading h2").all_inner_texts()
    assert [title[:2] for title in titles] == ["A:", "B:"]


LASTING = 60  # words, which take a slow model a minute: nobody is too late to see it at work


@pytest.mark.slow
def test_a_slow_model_shows_progress_and_can_be_stopped(serving, opened):
    def slow(texts):
        time.sleep(0.02 * len(texts))
        return np.array([[0.4, 0.6] for _ in texts])

    page_served = serving(limelight.wrap(slow, classes=["no", "yes"], batch_size=4))
    page = opened(
        link(text=" ".join(f"w{i}" for i in range(LASTING)), methods='["shapley"]'),
        url=page_served.url,
    )
    page.wait_for_selector(".outcome.chosen")  # the prediction is there before the scores
    page.wait_for_function("() => document.querySelector('progress')?.value > 0")
    page.fill("#text", "a few words")  # and a key goes before them
    page.wait_for_function("() => document.querySelector('.waiting') === null")
    wait_until_words(page, "a few words", "shapley")
    page.fill("#text", " ".join(f"v{i}" for i in range(LASTING)))
    page.wait_for_selector("progress")
    page.click(".bar-of-time button")
    assert page.inner_text(".bar-of-time") == "stopped"


def test_a_model_that_fails_says_why_in_its_place(serving, opened, capfd):
    def broken(texts):
        if any("break" in text for text in texts):
            raise RuntimeError("a <b>wire</b> is loose")
        return np.full((len(texts), 2), 0.5)

    page_served = serving(limelight.wrap(broken, classes=["no", "yes"]))
    page = opened(link(text="break it"), url=page_served.url)
    page.wait_for_selector("limelight-reading .error:not([hidden])")
    assert "a <b>wire</b> is loose" in page.inner_text("limelight-reading .error")
    page.fill("#text", "leave it")
    page.wait_for_selector(".outcome.chosen")
    assert page.is_hidden("limelight-reading .error")


def test_the_page_reports_a_missing_server_and_keeps_the_text(opened):
    page_served = serve(port=0)
    page = opened(link(text=TEXT), url=page_served.url, allowed=("ERR_CONNECTION_REFUSED", "ERR_"))
    wait_until_words(page)
    page_served.stop()
    page.fill("#text", f"{TEXT} More.")
    page.wait_for_selector("#error:not([hidden])")
    assert "The server does not answer." in page.inner_text("#error")
    assert page.input_value("#text") == f"{TEXT} More."


def test_two_tabs_do_not_disturb_each_other(opened):
    texts = ["a good one", "awful it is"]
    pages = [opened(), opened()]
    for letters in zip(*(text.ljust(12) for text in texts), strict=True):
        for page, letter in zip(pages, letters, strict=True):
            page.type("#text", letter)
    for page, text in zip(pages, texts, strict=True):
        wait_until_words(page, text.ljust(12))
    assert [predicted_class(page) for page in pages] == ["positive", "negative"]


def test_a_section_that_opens_sends_no_request_for_new_scores(opened):
    page = opened(link(text=TEXT))
    wait_until_words(page)
    requests = []
    page.on("request", lambda request: requests.append(request.url.rpartition("/")[2]))
    page.click("#section-curves summary >> nth=0")
    page.wait_for_selector("#section-curves limelight-curve svg")
    assert requests == ["sections?when=paused"]


@pytest.mark.slow
def test_open_sections_are_in_the_address_and_follow_the_text(opened):
    names = ["scores", "curves", "pairs", "counterfactual", "disagreement", "heads", "attention"]
    page = opened(link(text=TEXT, open='["curves","attention"]'))
    page.wait_for_selector("#section-curves limelight-curve svg")
    page.wait_for_selector("#section-attention canvas.head")
    assert page.locator("#section-pairs limelight-arcs").count() == 0
    for name in ("scores", "pairs", "counterfactual", "disagreement", "heads"):
        page.click(f"#section-{name} summary >> nth=0")
    page.wait_for_selector("#section-pairs .arcs path")
    page.wait_for_selector("#section-heads table")
    page.wait_for_selector("#section-counterfactual del")
    page.wait_for_selector("#section-disagreement table")
    wait_until(page, "document.querySelectorAll('#section-scores limelight-bars').length === 3")
    page.wait_for_function("n => location.hash.split('%22').length === 2 * n + 1", arg=len(names))
    page.locator("#section-attention canvas.head").first.hover(position={"x": 30, "y": 3})
    assert "Head 1: “[cls]” attends to" in page.inner_text("#section-attention .readout")
    page.fill("#text", "a dull film")
    page.wait_for_function(
        "() => document.querySelector('limelight-arcs').explanation.text === 'a dull film'"
    )
    wait_until(page, "document.querySelectorAll('#section-scores tbody tr').length === 9")


def test_curves_are_read_with_the_keyboard(opened):
    page = opened(link(text=TEXT, open='["curves"]'))
    page.wait_for_selector("limelight-curve svg")
    page.focus("limelight-curve")
    page.keyboard.press("ArrowRight")
    message = page.get_attribute("limelight-curve", "aria-valuetext")
    assert message.startswith("1 of 9 words removed: LIME ")
    assert "ceiling" in message


@pytest.fixture
def files(opened, tmp_path):
    """What the page gives to keep, by its kind."""

    def download_file(page, within=""):
        results = {}
        for kind in ("HTML", "SVG", "PNG", "JSON"):
            with page.expect_download() as waiting:
                page.click(f"{within} [data-file={kind}]".strip())
            results[kind] = tmp_path / waiting.value.suggested_filename
            waiting.value.save_as(results[kind])
        return results

    return download_file


@pytest.mark.slow
def test_what_is_shown_can_be_kept_as_page_image_and_numbers(opened, files, browser, shipped):
    page = opened(link(text=HOSTILE, methods='["loo","gxi"]'))
    for method in ("loo", "gxi"):
        page.wait_for_selector(f"[data-method={method}] .w")
    result = files(page)
    assert result["PNG"].read_bytes().startswith(b"\x89PNG")
    image = ElementTree.parse(result["SVG"]).getroot()
    words = [node.text for node in image.iter("{http://www.w3.org/2000/svg}text")]
    assert "<script>alert(1)</script>" in "".join(words)
    assert {node.tag.rpartition("}")[2] for node in image.iter()} == {
        "svg",
        "title",
        "rect",
        "text",
    }
    output = limelight.Comparison.from_json(result["JSON"].read_bytes())
    assert output == limelight.compare(shipped, output.text, methods=["gxi", "loo"])
    with watched_page(browser, result["HTML"]) as keep:
        keep.click("#tab-1")
        assert keep.inner_text("#panel-1 .reading").startswith("<script>alert(1)</script>")


@pytest.mark.slow
def test_the_changed_text_is_kept_as_it_is_shown(opened, files):
    page = opened(link(text=TEXT, methods='["loo"]', changes='[["superb",0,"awful"]]'))
    wait_until_words(page, TEXT.replace("superb", "awful"), "loo")
    result = files(page, "[data-changed=true]")
    output = limelight.Comparison.from_json(result["JSON"].read_bytes())
    assert output.text == TEXT.replace("superb", "awful")


def test_the_page_reports_a_server_that_ends_in_the_middle_of_a_reply(opened):
    def slow(texts):
        time.sleep(0.02 * len(texts))
        return np.array([[0.4, 0.6] for _ in texts])

    model = limelight.wrap(slow, classes=["no", "yes"], batch_size=4)
    page_served = serve(model, port=0)
    words = " ".join(f"w{i}" for i in range(LASTING))
    page = opened(link(text=words, methods='["shapley"]'), url=page_served.url, allowed=("ERR_",))
    page.wait_for_function("() => document.querySelector('progress')?.value > 0")
    page_served.stop()
    page.wait_for_selector("#error:not([hidden])")
    assert page.input_value("#text") == words


LONG = "Mr. Smith paid $12.50. The plot is dull, but fun.\n\nIt is superb!"


def parts_shown(page, parts):
    """Wait until LIME's features are ``parts``."""
    page.wait_for_function(
        "([words, parts]) => JSON.stringify([...document.querySelectorAll(`${words} .w`)]"
        ".map((node) => node.textContent)) === parts",
        arg=[WORDS, json.dumps(parts, ensure_ascii=False, separators=(",", ":"))],
    )


@pytest.mark.slow
def test_a_sentence_opens_into_its_words_and_closes_again(opened, shipped):
    sentences = ["Mr. Smith paid $12.50.", "The plot is dull, but fun.", "It is superb!"]
    words = ["The", "plot", "is", "dull", ",", "but", "fun", "."]
    page = opened(link(text=LONG, features="sentences"))
    parts_shown(page, sentences)
    hint = "Click a sentence, or press Enter on it, to see its words."
    assert page.inner_text(".readout") == hint
    assert "green sentences push towards it" in page.inner_text(".opening")
    word(page, "The plot").click()
    parts_shown(page, words)
    inside = [(a, b) for a, b in shipped.read(LONG).tokens.spans if 23 <= a < 49]
    e = limelight.explain(shipped, LONG, "lime", features=inside)
    output = page.eval_on_selector(WORDS, "node => node.explanation.features.map((f) => f.score)")
    np.testing.assert_allclose(output, e.scores, rtol=1e-9)
    assert page.inner_text(WORDS).startswith("Mr. Smith paid")  # the rest stays, without a score
    page.wait_for_function("() => location.hash.includes('inside')")  # written a little later
    page.reload()  # a link holds what was open
    parts_shown(page, words)
    page.click("#back")
    parts_shown(page, sentences)
    word(page, "superb").focus()
    page.keyboard.press("Enter")
    parts_shown(page, ["It", "is", "superb", "!"])
    page.wait_for_function("() => document.activeElement.matches('.w')")
    page.keyboard.press("Escape")
    parts_shown(page, sentences)
    word(page, "The plot").click()
    parts_shown(page, words)
    page.get_by_role("button", name="Remove this one").click()
    wait_until_words(page, "Mr. Smith paid $12.50.\n\nIt is superb!")


def water_spans(texts):
    """Every Jordan is a LOC, surer by a river, and an Acme an ORG."""
    return [
        [
            (m.start(), m.end(), "ORG" if m[0] == "Acme" else "LOC", 0.4 + 0.5 * ("river" in text))
            for m in re.finditer("Jordan|Acme", text)
        ]
        for text in texts
    ]


@pytest.mark.slow
def test_a_span_is_chosen_and_stays_in_the_address(serving, opened):
    model, text = limelight.wrap(water_spans, tags=["ORG", "LOC"]), "😀 by a river Acme sued Jordan"
    page = opened(link(text=text, methods='["loo"]'), url=serving(model).url)
    wait_until_words(page, text, "loo")
    assert page.locator(".spans").inner_text() == "😀 by a river Acme ORG sued Jordan LOC"
    assert page.inner_text(".opening").startswith("At “Acme” the model predicts ORG (90.0%)")
    page.get_by_role("button", name="Jordan LOC").press("Enter")
    page.wait_for_function("() => location.hash.includes('at=23%3A29')")
    page.wait_for_function(
        "() => document.querySelector('[data-method=loo] limelight-words')"
        ".explanation?.query?.span.join(':') === '23:29'"
    )
    e = limelight.explain(model, text, "loo", at="Jordan")
    word(page, "river", "[data-method=loo] limelight-words").hover()
    assert f"{dict(e.as_list())['river']:+.2f}" in page.inner_text(".readout")
    assert page.evaluate("document.activeElement.dataset.at") == "23:29"
    # A word before it is removed: the place is found again where it stands then.
    word(page, "river", "[data-method=loo] limelight-words").click()
    page.click("[data-action=remove]")
    wait_until_words(page, "😀 by a Acme sued Jordan", "loo")
    page.wait_for_function("() => document.querySelectorAll('limelight-reading').length === 2")
    assert "At “Jordan”" in page.inner_text("[data-changed=true] .opening")
    assert page.locator("[data-changed=true] button.span").count() == 0
    page.fill("#text", "nothing here")
    page.wait_for_function(
        "() => document.querySelector('limelight-reading .error').textContent"
        ".startsWith('The model finds no span in this text')"
    )
    page.wait_for_function("() => !location.hash.includes('at=')")
    assert not page.locator(".spans").first.is_visible()
