"""The page of a judgment in a real browser, and its figures."""

import json

import jsonschema
import numpy as np
import pytest
from msgspec.structs import replace

from limelight import InputError, Judgment, judge
from limelight.rendering.figures import judgment_figure
from limelight.rendering.judgment import MAX_CURVES
from limelight.results.codec import SCHEMAS
from limelight.results.judgment import COLUMNS, RemovalCurve

from browsing import wait_until, watched_page
from schema_files import schema_file
from tiny_models import random_texts, tiny_model

TEXTS = [text for text in random_texts(60, seed=5, longest=8) if len(set(text.split())) > 3][:8]
EVIL = "<img src=x onerror=alert(1)>"


def nasty(model, text):
    return [float(len(word)) for word in dict.fromkeys(text.split())]


@pytest.fixture(scope="module")
def judgment():
    values = {"loo": "loo", "alpha-avg": "alpha-avg", EVIL: nasty}
    judgment = judge(tiny_model(3, T_max=31, scale=0.4), ["", *TEXTS], values, columns="all")
    words = tuple(EVIL if j == 0 else word for j, word in enumerate(judgment.texts[1].words))
    return replace(
        judgment,
        texts=(judgment.texts[0], replace(judgment.texts[1], words=words), *judgment.texts[2:]),
    )


@pytest.fixture
def page(judgment, tmp_path, browser):
    file = tmp_path / "page.html"
    judgment.save_html(file)
    with watched_page(browser, file, width=500) as opened:
        opened.wait_for_selector("#curve svg")
        yield opened


def test_the_curve_of_a_text_opens_on_a_click_and_names_the_word_that_goes(page, judgment):
    assert page.evaluate("document.documentElement.scrollWidth") <= 500
    rows = page.locator("#texts tbody tr")
    assert rows.count() == len(TEXTS)
    page.click("#not-judged summary")
    assert "no words" in page.inner_text("#not-judged li")
    page.click("#texts tbody tr:nth-child(3)")
    wait_until(page, "document.querySelector('#curve-title').textContent.includes('Text 3')")
    assert page.locator("#curve polyline").count() == 3
    text = judgment.texts[3]
    for k in (1, 2, text.d):
        page.evaluate("k => { document.querySelector('#curve').at = k; }", k)
        for m, curve in enumerate(text.curves.values()):
            cells = page.locator(f"#curve-words tbody tr:nth-child({m + 1}) td").all_inner_texts()
            assert cells[0] == text.words[curve.words[k - 1]]
            output = float(cells[1].replace("−", "-"))
            assert output == pytest.approx(curve.points[k], rel=0.01, abs=0.01)


def test_methods_are_switched_and_texts_sorted(page, judgment):
    page.click("#curve-methods button:nth-child(2)")
    assert page.locator("#curve polyline").count() == 2
    page.click("#curve-methods button:nth-child(2)")
    assert page.locator("#curve polyline").count() == 3
    page.click("#texts thead th:nth-child(2) button")
    output = page.locator("#texts tbody tr td:nth-child(2)").all_inner_texts()[: len(TEXTS)]
    assert [int(d) for d in output] == sorted((t.d for t in judgment.texts[1:]), reverse=True)
    page.click("#texts thead th:nth-child(2) button")
    assert page.get_attribute("#texts thead th:nth-child(2)", "aria-sort") == "ascending"


def test_a_count_of_words_is_never_rounded(judgment, tmp_path, browser):
    texts = (replace(judgment.texts[1], d=1234, full=-0.12345), *judgment.texts[2:])
    file = tmp_path / "long.html"
    replace(judgment, texts=texts).save_html(file)
    with watched_page(browser, file) as page:
        cells = page.locator("#texts tbody tr:first-child td").all_inner_texts()
        assert cells[0] == "1234"
        assert cells[2] == "−0.123"


def test_words_and_names_stay_words(page):
    assert page.locator("img").count() == 0
    assert page.locator("#curve-methods button:nth-child(3)").inner_text() == EVIL
    assert EVIL[:20] in page.locator("#texts tbody").inner_text()


def test_many_texts_make_a_page_of_a_few_megabytes(judgment):
    rng = np.random.default_rng(0)
    d, words = 130, tuple(f"word{i}" for i in range(130))

    def curve():
        falling = np.cumsum(rng.normal(-0.05, 0.05, size=d + 1))
        return RemovalCurve.from_arrays(rng.permutation(d), falling)

    text = judgment.texts[2]
    large_sample = tuple(
        replace(text, id=i, d=d, words=words, curves={name: curve() for name in text.curves})
        for i in range(1000)
    )
    page = replace(judgment, texts=large_sample).as_html()
    assert len(page) < 2_500_000  # three methods; about 4 MB for eight
    beyond = replace(judgment, texts=large_sample + large_sample[: MAX_CURVES - 999])
    assert f"The first {MAX_CURVES:,} texts have curves." in beyond.as_html()


def test_curves_are_those_of_the_areas(judgment):
    for text in judgment.texts_with_room:
        for m, curve in text.curves.items():
            assert curve.points[0] == pytest.approx(text.full, rel=1e-6)
            assert sorted(curve.words) == list(range(text.d))
            assert curve.removed_counts.tolist() == list(range(text.d + 1))
            if not text.ties[m]:
                area = curve.points[0] - curve.points[1:].mean()
                assert area == pytest.approx(text.deletion.areas[m], rel=1e-4, abs=1e-5)
    long = RemovalCurve.from_arrays(np.arange(1000), np.zeros(65))
    assert long.removed_counts[[0, 1, -1]].tolist() == [0, 16, 1000]
    with pytest.raises(InputError, match="2 bytes for each word"):
        RemovalCurve(order=b"123", values=b"1234")


def test_the_shipped_schema_is_the_one_that_is_read_and_what_is_written_is_valid(judgment):
    shipped = (SCHEMAS / "judgment.schema.json").read_bytes()
    assert shipped == schema_file(Judgment)
    record = json.loads(judgment.to_json())
    jsonschema.validate(record, json.loads(shipped))
    assert Judgment.from_json(judgment.to_json()) == judgment
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record | {"verdict": 3}, json.loads(shipped))
    small = replace(judgment, texts=tuple(replace(t, words=(), curves={}) for t in judgment.texts))
    assert len(small.to_json()) < len(judgment.to_json())
    assert Judgment.from_json(small.to_json()) == small


def test_rows_hold_the_columns_and_run_nothing(judgment):
    renamed = Judgment.from_json(judgment.to_json().replace('"loo"', '"=1+1"'))
    lines = renamed.to_csv().splitlines()
    heads = lines[0].split(",")
    before = "text method d target full chance ceiling ceiling_kind greedy area insertion change"
    assert heads == [*before.split(), *COLUMNS, "reason"]
    assert lines[1].split(",")[1] == "'=1+1"
    row = dict(zip(heads, lines[4].split(","), strict=False))
    assert float(row["loo_tau"]) == pytest.approx(1)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_figures_are_files_of_their_kind(judgment, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"judgment.{suffix}"
    judgment.save_figure(path)
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert path.read_bytes().startswith(start)


def test_a_figure_has_a_dot_and_a_line_for_every_method(judgment):
    pytest.importorskip("matplotlib")
    axes = judgment_figure(judgment).axes[0]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in dots] == [m.share for m in judgment.rank_methods()]


def test_the_command_draws_figures(limelight, tmp_path):
    pytest.importorskip("matplotlib")
    data = tmp_path / "reviews.csv"
    data.write_text("text\n" + "\n".join(f"A good film and a dull story {i}" for i in range(3)))
    output = tmp_path / "judgment.svg"
    request = ("judge", "--data", data, "--methods", "loo,gxi", "--columns", "none", "--no-curves")
    outcome = limelight(*request, "--output", output)
    assert outcome.code == 0, outcome.err
    assert output.read_bytes().startswith(b"<?xml")
    page = tmp_path / "judgment.html"
    assert limelight(*request, "--output", page).code == 0
    assert 'id="curves"' not in page.read_text("utf-8")


@pytest.mark.parametrize("width", [1200, 400])
def test_no_name_of_the_figure_is_clipped(judgment, tmp_path, browser, width):
    file = tmp_path / "page.html"
    result = tuple(replace(text, ceiling_kind="best found") for text in judgment.texts)
    replace(judgment, texts=result).save_html(file)
    inside = """svg => {
        const edge = getComputedStyle(svg).overflow === "visible" ? svg.closest("section") : svg;
        const box = edge.getBoundingClientRect();
        return [...svg.querySelectorAll("text")].map((one) => [one, one.getBoundingClientRect()])
            .filter(([, own]) => own.left < box.left || own.right > box.right)
            .map(([one]) => one.textContent);
    }"""
    with watched_page(browser, file, width=width) as opened:
        assert "best found" in opened.text_content("main svg[role=img]")
        assert opened.eval_on_selector("main svg[role=img]", inside) == []
