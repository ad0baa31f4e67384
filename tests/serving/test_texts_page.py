"""A run of 5,000 texts and a judgment, in a real browser."""

import json
import urllib.request
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import limelight
from limelight.runs.columns import find_texts, text_columns
from limelight.serving import serve

from browsing import wait_until, watched_page
from large_run import large_run, reviews, small_run

COUNT = 5_000  # rows that no screen holds; benchmarks/serving.py measures more
ROWS = ".texts-window tbody tr[data-position]"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return large_run(tmp_path_factory.mktemp("runs"), COUNT)


@pytest.fixture(scope="module")
def columns(run):
    table = text_columns(run)
    return {name: table[name].to_numpy() for name in table.column_names}


@pytest.fixture(scope="module")
def judgment(shipped):
    texts, _ = reviews(12, seed=3)
    return limelight.judge(shipped, texts, ["loo", "gxi"], columns=[])


@pytest.fixture(scope="module")
def pages(run, judgment):
    with serve(run=run, judgment=judgment, port=0) as page:
        yield page


@pytest.fixture
def texts(opened, pages):
    def open_at(fragment="", **options):
        page = opened(f"texts{fragment}", url=pages.url, **options)
        page.wait_for_selector(ROWS)
        return page

    return open_at


def visible_positions(page):
    """The positions of the rows that are in the page, in order."""
    positions = page.eval_on_selector_all(ROWS, "rows => rows.map((r) => r.dataset.position)")
    return [int(position) for position in positions]


def status(page):
    return page.inner_text("#texts-status")


def sort_table(page, name):
    page.click(f".texts-window thead button:has-text('{name}')")


def test_all_texts_are_there_and_few_rows_are(texts):
    page = texts()
    assert status(page) == "5,000 texts."
    assert len(visible_positions(page)) < 60
    assert page.get_attribute(".texts-window table", "aria-rowcount") == "5001"
    page.eval_on_selector(".texts-window", "node => { node.scrollTop = node.scrollHeight; }")
    page.wait_for_selector(f"{ROWS}[data-position='4999']")
    assert len(visible_positions(page)) < 60


def test_what_a_frame_draws_does_not_grow_with_the_number_of_texts(texts):
    page = texts()
    for step in range(1, 30):
        page.eval_on_selector(".texts-window", f"node => {{ node.scrollTop = {step} * 4001; }}")
        page.evaluate("() => new Promise(requestAnimationFrame)")
        rows = visible_positions(page)
        assert len(rows) < 60
        assert rows == list(range(rows[0], rows[-1] + 1))


def test_a_heading_sorts_both_ways(texts, columns):
    page = texts()
    for name in ("probability", "disagreement", "words", "predicted"):
        key = "confidence" if name == "probability" else name
        values = np.round(columns[key].astype(float), 4)
        ties = np.arange(len(values))
        for sign in (1, -1) if name == "predicted" else (-1, 1):  # numbers: the largest first
            sort_table(page, name)
            page.wait_for_selector(
                f"th[aria-sort={'descending' if sign < 0 else 'ascending'}] >> text={name}"
            )
            order = np.lexsort((ties, sign * values))
            assert visible_positions(page)[:20] == order[:20].tolist()


def test_mistakes_come_first_the_surest_on_top(texts, columns):
    page = texts()
    sort_table(page, "mistake")
    wrong = (columns["label"] >= 0) & (columns["label"] != columns["predicted"])
    order = np.lexsort((np.arange(COUNT), -np.round(columns["confidence"], 4), ~wrong))
    page.wait_for_selector("th[aria-sort=descending] >> text=mistake")
    assert visible_positions(page)[:20] == order[:20].tolist()


def test_filters_by_class_label_word_and_mistake(texts, run, columns):
    page = texts()
    page.select_option("[data-filter=predicted]", "positive")
    count = int((columns["predicted"] == 1).sum())
    page.wait_for_function(
        "n => document.querySelector('#texts-status').textContent.startsWith(n)",
        arg=f"{count:,} of",
    )
    page.select_option("[data-filter=label]", "negative")
    pair = (columns["predicted"] == 1) & (columns["label"] == 0)
    assert status(page) == f"{int(pair.sum()):,} of 5,000 texts."
    page.select_option("[data-filter=which]", "right")
    assert status(page) == "0 of 5,000 texts."
    page.select_option("[data-filter=which]", "")
    page.fill("[data-filter=word]", "Superb")
    having = np.zeros(COUNT, bool)
    having[find_texts(run, "superb")] = True
    expected = f"{int((pair & having).sum()):,} of 5,000 texts."
    page.wait_for_function(
        "s => document.querySelector('#texts-status').textContent === s", arg=expected
    )
    assert visible_positions(page)[:10] == np.flatnonzero(pair & having)[:10].tolist()


def test_an_open_text_shows_the_scores_of_the_run(texts, run):
    page = texts()
    page.click(f"{ROWS} >> nth=3")
    page.wait_for_selector("#text limelight-words .w")
    e = run.explanation(3, "loo")
    assert page.inner_text("#text limelight-words >> nth=0") == e.text
    page.hover("#text .w >> nth=0")
    numbers = page.inner_text("#text .readout").replace("−", "-")
    assert f"LOO {e.scores[0]:+.2f}"[:8] in numbers
    page.click("#text a")
    page.wait_for_selector("limelight-reading .w")
    assert page.input_value("#text") == e.text


def test_a_link_restores_sort_filters_and_the_open_text(texts, run, columns):
    page = texts("#sort=words&descending=no&predicted=negative&word=dull&text=6")
    assert page.input_value("[data-filter=predicted]") == "negative"
    assert page.input_value("[data-filter=word]") == "dull"
    having = np.zeros(COUNT, bool)
    having[find_texts(run, "dull")] = True
    wanted = having & (columns["predicted"] == 0)
    assert status(page) == f"{int(wanted.sum()):,} of 5,000 texts."
    page.wait_for_selector("#text h2 >> text=Text t6")
    page.select_option("[data-filter=predicted]", "")
    page.wait_for_function("() => !location.hash.includes('predicted')")
    assert page.evaluate("location.hash") == "#sort=words&descending=no&word=dull&text=6"


def test_a_link_of_another_run_shows_all_texts(texts):
    page = texts("#predicted=nope&label=nope&which=nope&sort=nope&text=x")
    assert status(page) == "5,000 texts."


def test_the_keyboard_walks_the_rows_and_opens_one(texts):
    page = texts()
    page.focus(f"{ROWS}[tabindex='0']")
    for key in ("ArrowDown", "ArrowDown", "PageDown", "ArrowUp"):
        page.keyboard.press(key)
    position = page.evaluate("Number(document.activeElement.dataset.position)")
    assert position > 5
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#text h2 >> text=Text t{position}")
    page.focus(f"{ROWS}[tabindex='0']")
    page.keyboard.press("End")
    page.wait_for_function("() => document.activeElement.dataset.position === '4999'")
    page.keyboard.press("Home")
    page.wait_for_function("() => document.activeElement.dataset.position === '0'")


@pytest.mark.slow
def test_the_views_fit_every_width(texts, pages):
    page = texts("#text=6")
    for address, selector in (
        ("texts#text=6", "#text .w"),
        ("judgment", "#curve svg"),
        ("summary", ".panel"),
    ):
        for width in (320, 2000):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto("about:blank")
            page.goto(pages.url + address)
            page.wait_for_selector(selector)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_summary_and_judgment_are_the_pages_of_the_reports(opened, pages, run, judgment):
    page = opened("summary", url=pages.url)
    page.wait_for_selector(".panel .strongest-words")
    assert "5,000 texts" in page.inner_text("main")
    assert "Where the model is wrong" in page.inner_text("main")
    page.click(".views a >> text=Judgment")
    assert judgment.verdict in page.inner_text("main")
    page.wait_for_selector("#curve svg")
    page.click(".views a >> text=Texts")
    page.wait_for_selector(ROWS)


@pytest.mark.slow
def test_reports_have_their_state_in_the_address_and_can_be_downloaded(
    opened, pages, browser, tmp_path
):
    page = opened("summary#view=1", url=pages.url)
    page.wait_for_selector("#tab-1[aria-selected=true]")
    page.click("#tab-0")
    wait_until(page, "location.href.endsWith('/summary')")
    page.click("#tab-1")
    wait_until(page, "location.href.endsWith('/summary#view=1')")
    judged = opened("judgment#sort=2&descending=1&text=4", url=pages.url)
    judged.wait_for_selector("#curve-title >> text=Text 4:")
    assert judged.get_attribute("#texts th:nth-child(3)", "aria-sort") == "descending"
    judged.click("#texts thead button >> nth=1")
    wait_until(judged, "location.hash === '#sort=1&descending=1&text=4'")
    for view in (page, judged):
        with view.expect_download() as waiting:
            view.click(".views .download")
        waiting.value.save_as(tmp_path / waiting.value.suggested_filename)
    with watched_page(browser, tmp_path / "judgment.html") as downloaded:
        downloaded.wait_for_selector("#curve svg")
    assert "What drives the model?" in (tmp_path / "summary.html").read_text("utf-8")


def test_markup_in_texts_and_names_of_a_run_stays_text(serving, opened, tmp_path):
    folder = tmp_path / "<b>run<img src=x onerror=alert(1)>"
    folder.mkdir()
    hostile = "<script>alert(2)</script> <img src=x onerror=alert(3)> good"
    run = small_run(folder, [hostile, "good film"], [0, 1])
    served = serving(run=run)
    page = opened("texts", url=served.url)
    page.click(ROWS)
    page.wait_for_selector("#text .w")
    assert page.inner_text("#text limelight-words >> nth=0") == hostile
    assert page.eval_on_selector_all("main img, main script", "nodes => nodes.length") == 0
    other = opened("summary", url=served.url)
    other.wait_for_selector(".panel")
    assert "<b>run<img" in other.inner_text("main")


def test_every_page_of_a_damaged_run_shows_the_error(serving, opened, tmp_path):
    run = small_run(tmp_path, ["good film", "dull film"], [1, 0])
    for shard in (run.path / "shards").iterdir():
        shard.write_bytes(shard.read_bytes()[:100])
    served = serving(run=run.path)
    for address in ("texts", "summary"):
        page = opened(address, url=served.url, allowed=("400 (Bad Request)",))
        page.wait_for_selector(".error:not([hidden])")
        assert "is damaged" in page.inner_text(".error")


def test_a_text_that_a_run_does_not_have_is_an_error(pages):
    for path, message in (
        ("texts/text?row=99999", "row must be a number from 0 to 4999, not 99999"),
        ("texts/text?row=x", "a text must be named by its number"),
    ):
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(pages.url + path)
        assert message in json.loads(error.value.read())["error"]


def test_texts_that_failed_are_listed(serving, opened, tmp_path):
    run = small_run(tmp_path, ["good film", ""], [1, 0])
    served = serving(run=run)
    page = opened("texts", url=served.url)
    page.wait_for_selector("#failed:not([hidden])")
    page.click("#failed summary")
    assert page.inner_text("#failed li").startswith("t1: ")


def test_a_run_of_another_model_is_shown_without_typing(
    serving, opened, tmp_path, tiny_model, limelight
):
    model = tiny_model(outputs=2)
    import limelight as package

    (tmp_path / "d.csv").write_text("text\nw1 w2\nw3 w1\n")
    run = package.explain_data(model, tmp_path / "d.csv", ["gxi"], output=tmp_path / "run")
    served = serving(run=run)
    page = opened("texts" + "#word=" + quote("w1"), url=served.url)
    page.wait_for_selector(ROWS)
    links = page.locator(".views a:not(.download)").all_inner_texts()
    assert links == ["Texts", "Words, mistakes, slices"]
    page.click(ROWS)
    page.wait_for_selector("#text .w")
    assert page.locator("#text a").count() == 0
