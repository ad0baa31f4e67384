"""The documentation as a site: one list of pages, links that resolve, nothing from elsewhere."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from docs_site.__main__ import (
    CONFIG,
    NPM,
    patch_script,
    publish,
    rank_search,
    site_path,
    stage,
    write_zip,
)
from live_pages import FIGURES, LIVE, PAPER, add_frames, paper_page
from llms import expand_directives, first_paragraph, list_pages

import limelight
from limelight.live.live_page import METHODS_SHOWN

from browsing import wait_until, watched_page
from site_faults import Page, find_faults

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = set(DOCS.rglob("*.md"))
OUTSIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "src/limelight/shipped/imdb/MODEL_CARD.md",
)
RANKS, SEARCH_LAST = CONFIG["search"]["ranks"], 3
SYNONYMS = CONFIG["search"]["synonyms"]


def test_the_navigation_lists_every_page_once():
    counts = Counter(page for _, page in list_pages(CONFIG["project"]["nav"]))
    assert [page for page, times in counts.items() if times > 1] == []
    sources = {*PAGES, *(ROOT / name for name in OUTSIDE)}
    assert set(counts) == {site_path(source).as_posix() for source in sources}


def test_the_home_page_links_every_guide():
    """On GitHub there is no navigation, so README leads to the list of the home page."""
    home = (DOCS / "index.md").read_text("utf-8")
    linked = {(DOCS / page).resolve() for page in re.findall(r"\]\(([^)]+\.md)\)", home)}
    folders = ("docs", "tutorials", "how-to", "explanation", "reference")
    guides = {page for page in PAGES if page.parent.name in folders} - {DOCS / "index.md"}
    assert {page.name for page in guides - linked} == {"reproduction.md"}  # behind its summary


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as the command builds it."""
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("zensical is not installed (extra docs)")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("documentation")
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix, "PYTHONPATH": paths}
    subprocess.run([ROOT / "scripts/docs", folder], env=environment, check=True)
    return folder / "site"


def render_formulas(folder, body):
    (folder / "a.html").write_text(body)
    script = ROOT / "scripts/docs_site/formulas.js"
    done = subprocess.run(
        ["node", script, NPM / "katex", folder], stderr=subprocess.PIPE, encoding="utf-8"
    )
    return done.returncode, done.stderr, (folder / "a.html").read_text("utf-8")


@pytest.mark.slow
def test_formulas_are_rendered_inline_and_displayed(site, tmp_path):
    text = (
        '<p><span class="arithmatex">\\(x_1 &lt; 2\\)</span></p>'
        '<div class="arithmatex">\n\\[\\sum_k x_k\\]\n</div>'
    )
    status, _, rendered = render_formulas(tmp_path, text)
    assert status == 0
    assert rendered.count('class="katex"') == 2
    assert rendered.count('class="katex-display"') == 1
    assert "&lt;</span>" in rendered
    assert "arithmatex" not in rendered


@pytest.mark.slow
def test_a_formula_that_cannot_be_read_is_named_with_its_page(site, tmp_path):
    broken = r'<span class="arithmatex">\(\frac{1\)</span>'
    status, message, _ = render_formulas(tmp_path, broken)
    assert status == 1
    assert message.startswith(r"a.html: \frac{1 (")


@pytest.mark.slow
def test_the_pages_have_formulas_and_no_source_of_one(site):
    pages = {page.stem: page.read_text("utf-8") for page in (site / "theorems").glob("*.html")}
    assert [name for name, text in pages.items() if 'class="katex"' not in text] == []
    assert [name for name, text in pages.items() if "arithmatex" in text] == []


def test_links_out_of_docs_are_turned_inwards(tmp_path):
    card = "project/src/limelight/shipped/imdb/MODEL_CARD.md"
    stage(tmp_path)
    assert (tmp_path / card).is_file()
    assert (tmp_path / "project/benchmarks/overview.md").is_file()
    assert (tmp_path / "project/LICENSE").is_file()
    assert f"](../{card})" in (tmp_path / "how-to/train.md").read_text("utf-8")
    text = (tmp_path / "project/CONTRIBUTING.md").read_text("utf-8")
    assert "](../how-to/model-class.md)" in text
    assert "<!-- live" not in (tmp_path / "index.md").read_text("utf-8")


def test_a_link_to_a_missing_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("docs_site.__main__.DOCS", tmp_path)
    monkeypatch.setattr("docs_site.__main__.ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("```\n[code](nowhere.md)\n```\n")
    stage(tmp_path / "pages")
    (tmp_path / "CHANGELOG.md").write_text("[text](nowhere.md#x)")
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md links to nowhere\.md"):
        stage(tmp_path / "pages")


def test_a_mark_becomes_a_frame_of_the_live_page_with_its_method_and_text():
    created = add_frames('a\n<!-- live: lime | "Fun" & <b> -->\nb\n', "../")
    assert f'src="../{LIVE}#method=lime&amp;text=%22Fun%22+%26+%3Cb%3E"' in created
    assert "<!--" not in created
    home = add_frames("<!-- live -->\n", "")
    assert f'src="{LIVE}"' in home
    assert home.startswith("Type a sentence of your own.")
    assert "of your own" not in created
    assert add_frames("say <!-- live --> here", "") == "say <!-- live --> here"


def test_a_figure_of_the_paper_moves_and_leaves_a_picture_for_print():
    created = add_frames("<!-- live figure 3 -->\n![A row](../images/a.png)\nb\n", "../")
    assert f'src="../{PAPER}#figure=3"' in created
    assert "![A row](../images/a.png){ .still }" in created
    assert "<!--" not in created


def test_every_figure_that_moves_is_one_of_the_page():
    marks = [
        result
        for page in sorted(PAGES)
        for result in re.findall(r"^<!-- live figure (\d) -->\n!\[", page.read_text("utf-8"), re.M)
    ]
    assert marks == list(FIGURES)


@pytest.fixture(scope="module")
def figures(shipped, tmp_path_factory):
    file = tmp_path_factory.mktemp("paper") / "figures.html"
    file.write_text(paper_page(shipped), "utf-8")
    return file


def numbers(page, selector):
    message = page.locator(selector).all_inner_texts()
    return [float(value.replace("−", "-")) for value in message]


def test_figures_2_and_3_are_the_attention_of_the_model(browser, figures, shipped):
    text = "a superb film, superb"
    rows = shipped.attention_matrices(shipped.read(text))[:, 0, 1:]
    with watched_page(browser, figures, fragment="#figure=3", width=400) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.locator("section:visible").count() == 1
        page.fill("#text", text)
        for k, row in enumerate(rows):
            output = numbers(page, f"#figure-3 tbody tr:nth-child({k + 1}) td:not(:last-child)")
            assert output == pytest.approx(row, abs=5e-5)
        output = numbers(page, "#figure-3 tbody tr:last-child td:not(:last-child)")
        assert output == pytest.approx(rows.max(axis=0), abs=5e-5)
        page.evaluate("location.hash = 'figure=2&text=a+superb+film'")
        wait_until(page, "() => document.querySelector('#text').value === 'a superb film'")
        heads = [
            all_inner_text.split(": ")[1]
            for all_inner_text in page.locator(".heads button").all_inner_texts()
        ]
        mean = sum(float(head.replace("−", "-")) for head in heads) / len(heads)
        assert mean == pytest.approx(shipped.logits(["a superb film"])[0, 0], abs=0.01)
        page.click(".heads button:nth-child(3)")
        *parts, full = numbers(page, "#figure-2 tbody td:last-child")
        assert sum(parts) == pytest.approx(full, abs=0.01)
        assert page.locator("#figure-2 tbody tr:last-child th").inner_text() == "head 3"


def test_figure_5_moves_with_the_text_and_practice_agrees(browser, figures, shipped):
    with watched_page(browser, figures, fragment="#figure=5") as page:
        for text in ("explanations are popular", "explanations are useless"):
            page.fill("#text", text)
            for column, method in enumerate(("alpha-avg", "gxi", "lime"), start=2):
                output = numbers(page, f"#figure-5 tbody td:nth-child({column}) b")
                wanted = limelight.explain(shipped, text, method).scores
                assert output == pytest.approx(wanted, abs=6e-3 * abs(wanted).max())
            assert float(page.inner_text("#figure-5 .note b").replace("−", "-")) < 1e-6
        page.fill("#text", "superb")
        output = numbers(page, "#figure-5 tbody td:nth-child(4) b")
        assert output == pytest.approx(
            limelight.explain(shipped, "superb", "lime").scores, abs=6e-3
        )
        page.fill("#text", "<img src=x onerror=alert(1)>")
        assert page.locator("img").count() == 0


def test_every_mark_names_a_method_of_the_live_page():
    marks = [
        result
        for page in sorted(PAGES)
        for result in re.findall(r"^<!-- live: (\S+) \|", page.read_text("utf-8"), re.M)
    ]
    assert set(marks) <= set(METHODS_SHOWN)
    assert len(marks) >= 2


def test_fonts_are_those_of_the_system():
    assert CONFIG["project"]["theme"]["font"] is False


def page(folder, name, body):
    words = "word " * 30
    (folder / name).write_text(f"<article><h1 id=top>T</h1><p>{words}</p>{body}</article>")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<a href='b.html#there'>x</a><img src='b.html'><a href='https://x.org'>x</a>", None),
        ("<a href='c.html'>x</a>", "a.html leads to c.html, which is not there."),
        ("<img src='lost.png'>", "a.html leads to lost.png, which is not there."),
        ("<a href='b.html#nowhere'>x</a>", "a.html leads to b.html#nowhere, where no such place"),
        ("<a href='../secret'>x</a>", "a.html leads to ../secret, which is not there."),
        ("<script src='https://cdn.org/x.js'></script>", "a.html fetches https://cdn.org/x.js"),
        ("<link rel=stylesheet href='//cdn.org/x.css'>", "a.html fetches //cdn.org/x.css"),
    ],
)
def test_a_look_through_a_site_finds_what_is_wrong(tmp_path, body, fault):
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "secret").write_text("outside")
    home = "<a href='index.html'>home</a>"
    page(site, "index.html", "")
    page(site, "a.html", body + home)
    page(site, "b.html", f"<p id=there>x</p>{home}")
    result = find_faults(site)
    assert bool(result) == (fault is not None)
    assert not fault or result[0].startswith(fault)


def test_a_page_without_words_is_a_fault_and_scripts_are_no_words(tmp_path):
    code = "word " * 30
    (tmp_path / "a.html").write_text(f"<p>{code}</p><article><h1>T</h1><script>{code}</script>")
    assert Page((tmp_path / "a.html").read_text()).words == 1
    assert find_faults(tmp_path) == ["a.html has 1 words.", "a.html has no way back to the index."]


@pytest.mark.slow
def test_the_site_is_whole(site):
    assert find_faults(site) == []
    pages = [site / page for _, page in list_pages(CONFIG["project"]["nav"])]
    texts = [page.with_suffix(".html").read_text("utf-8") for page in pages]
    assert min(Page(text).words for text in texts) >= 20
    explaining = (site / "api" / "explaining.html").read_text("utf-8")
    assert 'id="limelight.explain"' in explaining  # the reference was silently empty once
    assert "doc-signature" in explaining
    assert (site / LIVE).stat().st_size > 1e6


@pytest.mark.slow
def test_docstrings_become_tables_of_parameters_and_links(site):
    pages = {page.stem: page.read_text("utf-8") for page in (site / "api").glob("*.html")}
    for name, text in pages.items():
        assert not re.search(r":\w+:<code>|-{5}|\.\. math::", text), name
    first_table = pages["explaining"].partition("<table>")[2].partition("</table>")[0]
    assert re.findall(r"<th>(?:<b>)?(\w+)", first_table) == [
        "Name",
        "Type",
        "Description",
        "Default",
    ]
    names = re.findall(r"<tr[^>]*>\s*<td>\s*<code>([^<]*)</code>", first_table)
    assert {"model", "text", "method", "target", "scale", "budget"} <= set(names)
    assert [name for name in names if not re.fullmatch(r"\*{0,2}[a-z]\w*", name)] == []
    assert (
        'title="limelight.load" href="models.html#limelight.load"><code>limelight.load</code></a>'
        in pages["explaining"]
    )


def test_each_parameter_of_a_line_gets_its_own_entry():
    docstrings = pytest.importorskip("docs_site.docstrings")
    text = """Explain.

Parameters
----------
model
    A model.
seed, budget
    As in :func:`explain`.
    Both are optional.

Returns
-------
A score, or a
list of scores.

Raises
------
InputError, ValueError
    If it fails."""
    text = docstrings.rewrite_docstring(text, "float | list[float]")
    link = '<autoref optional identifier="limelight.explain"><code>explain</code></autoref>'
    entry = f"\n    As in {link}.\n    Both are optional.\n"
    assert f"seed{entry}budget{entry}\nReturns" in text
    assert "InputError, ValueError\n" in text  # no parameters
    returns = text.partition("Returns\n")[2]
    assert returns.startswith(
        "-------\nfloat | list[float]\n    A score, or a\n    list of scores.\n\nRaises"
    )


@pytest.mark.slow
def test_parameters_of_one_line_keep_their_types(site):
    text = (site / "api" / "explaining.html").read_text("utf-8")
    part = text.partition('id="limelight.explain_classes"')[2].partition("</table>")[0]
    rows = re.findall(r"<code>(seed|budget|progress)</code>(.*?)</tr>", part, re.S)
    plain = {name: " ".join(re.sub("<[^>]+>", " ", row).split()) for name, row in rows}
    assert plain["seed"].startswith("int ")
    assert plain["budget"].startswith("BudgetInput")
    assert plain["progress"].endswith("None")


@pytest.mark.slow
def test_the_site_works_from_a_disk(site, browser):
    with watched_page(browser, site / "index.html", color_scheme="dark") as opened:
        live = opened.frame_locator("iframe.live")
        live.locator("textarea").fill("a superb film")
        live.get_by_text("superb", exact=True).first.wait_for()
        back = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(c => c < 60)"
        assert opened.evaluate(back)
    with watched_page(browser, site / "quickstart.html", width=400) as opened:
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        opened.keyboard.press("Control+k")
        wait_until(opened, "Boolean(document.activeElement.shadowRoot)")  # the search has the keys
        opened.keyboard.type("bandwidth")
        output = "document.activeElement.shadowRoot?.textContent ?? ''"
        wait_until(opened, f"/\\d+ results.*bandwidth/s.test({output})")


@pytest.fixture(scope="module")
def offline(site, tmp_path_factory):
    """The site as its archive has it."""
    folder = tmp_path_factory.mktemp("offline")
    with zipfile.ZipFile(write_zip(site, "0.0")) as file:
        file.extractall(folder)
    return folder / "limelight-docs-0.0"


QUERIES = {
    "bert": ["quickstart.html", "tutorials/hugging-face.html"],
    "jupyter": ["faq.html#can-i-use-it-in-a-notebook"],
    "multilabel": ["faq.html#does-it-explain-multi-label-models"],
    "batch size": ["faq.html#how-do-i-save-memory"],
    "LoRA": ["faq.html#can-i-explain-lora-peft-or-quantized-models"],
    "license": ["faq.html#what-is-the-license"],
    "regression": ["faq.html#does-it-explain-regression-models"],
    "out of memory": ["faq.html#how-do-i-save-memory"],
    "which method": ["faq.html#which-method-should-i-use"],
    "csv": ["faq.html#how-do-i-explain-10000-texts"],
    "slow": ["faq.html#why-is-it-slow"],
    "shapley": ["methods/shapley.html"],
    "quantization": ["faq.html#can-i-explain-lora-peft-or-quantized-models"],
    "int8": ["faq.html#can-i-explain-lora-peft-or-quantized-models"],
    "10000 texts": ["faq.html#how-do-i-explain-10000-texts"],
    "RAG": ["tutorials/answers.html"],
    "CI": ["how-to/checks.html"],
    "continuous integration": ["how-to/checks.html"],
    "CUDA out of memory": ["faq.html#how-do-i-save-memory"],
}
RESULTS = """() => [...document.querySelectorAll("*")].flatMap(
    (e) => [...(e.shadowRoot?.querySelectorAll("a[href*='?h=']") ?? [])].map((a) => a.href))"""


def search(opened, query):
    """Type a query into the search of a page and return the addresses of the results."""
    opened.keyboard.press("Control+k")
    wait_until(opened, "Boolean(document.activeElement.shadowRoot)")
    opened.keyboard.insert_text(query)  # at once, so that there are no results of its beginning
    marker = query.split()[-1].lower()
    wait_until(
        opened, f"(marker) => ({RESULTS})().some((a) => a.toLowerCase().includes(marker))", marker
    )
    folder = opened.url.rpartition("/")[0] + "/"
    return [re.sub(r"\?h=[^#]*", "", a.removeprefix(folder)) for a in opened.evaluate(RESULTS)]


@pytest.mark.slow
def test_the_search_of_the_offline_zip_finds_what_newcomers_type(offline, browser):
    for query, wanted in QUERIES.items():
        with watched_page(browser, offline / "quickstart.html") as opened:
            first = search(opened, query)[:3]
        for page in wanted:
            assert any(address.startswith(page) for address in first), (query, first)


@pytest.mark.slow
def test_the_search_lists_guides_before_theorems(offline, browser):
    for query in ("shapley", "lime", "standard error", "bound"):
        with watched_page(browser, offline / "quickstart.html") as opened:
            results = search(opened, query)
            ranks = [
                next((n for at, n in RANKS.items() if address.startswith(at)), 1) == SEARCH_LAST
                for address in results
            ]
        assert len(ranks) > 4, query
        assert ranks == sorted(ranks), query


WORKER = (
    "case 0:let e=(r=t.data.config.lang);l.items.sort(ht(...s));"
    "if(f=s(o.matches[d],u.matches[d]),f!==0||(f=a(o.matches[d],u.matches[d]),f!==0))return f;"
)


def test_the_search_index_gets_ranks_and_other_spellings(tmp_path):
    worker = tmp_path / "assets/javascripts/workers/search.1.min.js"
    worker.parent.mkdir(parents=True)
    worker.write_text(WORKER)
    titles = {"theorems/a.html": "A", "faq.html#x": "Is multi-label possible?", "api/b.html": "B"}
    entries = [{"location": at, "title": title, "text": "t"} for at, title in titles.items()]
    (tmp_path / "search.json").write_text(json.dumps({"config": {}, "items": entries}))
    rank_search(tmp_path)
    index = json.loads((tmp_path / "search.json").read_text())
    assert [entry["rank"] for entry in index["items"]] == [3, 0, 2]
    assert [SYNONYMS["multi-label"] in entry["text"] for entry in index["items"]] == [0, 1, 0]
    script = (tmp_path / "search.js").read_text()
    assert json.loads(script.removeprefix("var __index = ").rstrip(";\n")) == index
    assert worker.read_text().count("ranks") == 5


def test_another_search_script_is_an_error():
    with pytest.raises(SystemExit, match=r"constraints\.txt"):
        patch_script(WORKER.replace("sort", "toSorted"))


def test_the_list_for_language_models_describes_each_page():
    page = "# Title\n\n<!-- comment -->\n> quote\n\nUse [it](a.md)\nnow.\n\nMore.\n"
    assert first_paragraph(page) == "Use it now."
    text = expand_directives("# API\n\n::: limelight.load\n")
    assert "load(path: str | os.PathLike[str] | None=None" in text
    assert "Load a model" in text
    assert ":::" not in text


@pytest.mark.slow
def test_the_site_has_its_text_for_language_models(site):
    text = (site / "llms.txt").read_text("utf-8")
    addresses = re.findall(r"\]\(([^)]+)\):", text)
    assert [at for at in addresses if not (site / at).is_file()] == []
    assert len(addresses) > 100
    assert not re.search(r": $", text, re.M)
    full = (site / "llms-full.txt").read_text("utf-8")
    assert "limelight.explain_data(model" in full
    assert len(full.split()) < 100_000  # without the generated tables


def test_versions_stand_side_by_side_and_know_each_other(browser, tmp_path):
    site, place = tmp_path / "site", tmp_path / "place"
    site.mkdir()
    page(site, "index.html", "<a href='versions.html'>Versions</a>")
    for version in ("0.9.1", "0.10.0", "0.10.0.dev0", "0.9.1"):  # one of them twice
        shutil.copy(DOCS / "site/versions.html", site)
        publish(site, place, version)
    listed = ["0.10.0", "0.10.0.dev0", "0.9.1"]
    with watched_page(browser, place / "index.html") as opened:
        assert opened.locator("li a").all_inner_texts() == [
            f"limelight {value}" for value in listed
        ]
        opened.click("text=limelight 0.9.1")
        opened.click("text=Versions")
        opened.locator("li a").first.wait_for()
        assert opened.locator("li a").all_inner_texts() == listed
        opened.click("text=0.10.0.dev0")
        opened.wait_for_url("**/0.10.0.dev0/index.html")
    assert find_faults(place / "0.9.1") == []


@pytest.mark.slow
def test_each_page_names_its_version_and_leads_to_the_others(site):
    version = f"limelight {limelight.__version__}. "
    for name, up in (("index.html", "./"), ("api/models.html", "../")):
        text = (site / name).read_text("utf-8")
        assert f'{version}<a href="{up}versions.html">Versions</a>' in text
    assert version in (site / "versions.html").read_text("utf-8")


def test_equal_sites_make_equal_zips(tmp_path):
    (tmp_path / "site").mkdir()
    page(tmp_path / "site", "index.html", "")
    first = write_zip(tmp_path / "site", "1.2").read_bytes()
    os.utime(tmp_path / "site/index.html", (0, 0))
    assert write_zip(tmp_path / "site", "1.2").read_bytes() == first
    assert list(tmp_path.glob("*.part")) == []
