"""Every page, light and dark, wide and narrow: roles, names, keyboard and contrast."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="a run is stored with pyarrow (extra data)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

from live_pages import paper_page

import limelight
from limelight.live import live_page

from browsing import leave, new_page, wait_until

STUMBLES = (Path(__file__).parent / "accessible.js").read_text("utf-8").partition("\n")[2]
TEXT = "The plot is dull, but the acting is not bad: superb, and never boring."
TEXTS = [TEXT, "A dull script wastes fine actors.", "I loved every minute of this charming film."]
THEMES = [("light", 1200), ("dark", 400)]
SECTIONS = ("scores", "curves", "pairs", "disagreement", "heads", "attention")


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory):
    """A folder with one file of every kind of page, a run and a judgment."""
    folder, model = tmp_path_factory.mktemp("pages"), limelight.load()
    pages = {
        "comparison": limelight.compare(model, TEXT, attention=True).as_html(),
        "cut": limelight.explain(model, TEXT + " word" * 300, "shapley").as_html(),
        "pairs": limelight.explain(model, TEXT, "interactions").as_html(),
        "sampled": limelight.explain(model, TEXT, "lime-sampled", samples=200).as_html(),
        "live": live_page(model),
        "paper": paper_page(model),
    }
    judged = limelight.judge(model, TEXTS, ["shapley", "gxi", "alpha-avg"], columns="all")
    (folder / "judgment.json").write_text(judged.to_json())
    data = {"text": TEXTS * 6, "label": ["positive"] * 18}
    run = limelight.explain_data(model, data, ["lime", "loo"], output=folder / "run")
    pages |= {"judgment": judged.as_html(), "summary": run.summary().as_html()}
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, "utf-8")
    return folder


def stumbles(page):
    page.eval_on_selector_all("details", "nodes => nodes.forEach(node => { node.open = true; })")
    # What fades, or waits for an answer, is paler than what is read.
    busy = "document.querySelector('.stale, .waiting') || document.getAnimations().length"
    wait_until(page, f"!({busy})")
    return page.evaluate(STUMBLES)


@pytest.mark.parametrize(("theme", "width"), THEMES)
@pytest.mark.parametrize(
    "name", ["comparison", "cut", "pairs", "sampled", "live", "paper", "judgment", "summary"]
)
def test_nobody_stumbles_over_a_file(browser, page_folder, name, theme, width):
    page = new_page(browser, width=width, color_scheme=theme)
    page.goto((page_folder / f"{name}.html").as_uri())
    assert stumbles(page) == []
    leave(page)


@pytest.mark.parametrize(("theme", "width"), THEMES)
def test_nobody_stumbles_over_what_is_served(browser, page_folder, theme, width):
    page = new_page(browser, width=width, color_scheme=theme)
    with limelight.serve(
        run=page_folder / "run", judgment=page_folder / "judgment.json", port=0
    ) as served:
        state = f'open={json.dumps(SECTIONS)}&protect=["dull"]&changes=[["superb",0,"awful"]]'
        page.goto(f"{served.url}#text={TEXT}&{state}")
        for part in SECTIONS:
            page.wait_for_selector(f"#section-{part} .section-content > *")
        page.wait_for_selector("[data-changed=true] .w")
        assert stumbles(page) == []
        page.locator("[data-changed=false] .w").nth(2).click()
        page.wait_for_selector("[role=dialog]")
        assert stumbles(page) == []
        page.goto(f"{served.url}texts#text=1")
        page.wait_for_selector("#text .w")
        assert page.get_attribute(".texts-window tr[data-position='1']", "aria-selected") == "true"
        assert stumbles(page) == []
    leave(page)


@pytest.mark.parametrize(
    ("markup", "message"),
    [
        ("<table><tr aria-selected=true><td>a</td></tr></table>", "has aria-selected as a row"),
        ("<button></button>", "is a button without a name"),
        ("<input type=range>", "is a slider without a name"),
        ("<label>n<output></output><input type=range></label>", "is a slider without a name"),
        ("<p style='color: #777'>gray</p>", "has a contrast of 4.5"),
        ("<p style='opacity: .5'>pale</p>", "has a contrast of"),
        ("<dl><div><dt>a</dt><dd>b</dd><svg></svg></div></dl>", "does not belong there"),
        ("<div aria-label=a>b</div>", "has a name but no role"),
        ("<h3>deep</h3>", "a heading of level 3 after one of level 1"),
        ("<pre style='overflow: auto; width: 9px'>wide text</pre>", "scrolls by pointer only"),
    ],
)
def test_what_is_wrong_is_found(browser, markup, message):
    page = new_page(browser)
    page.set_content(f"<html lang=en><title>t</title><main><h1>h</h1>{markup}</main></html>")
    assert [value for value in page.evaluate(STUMBLES) if message in value]
    leave(page)
