"""``limelight export``: one file, or one sentence."""

import json
import re

import pytest

from limelight.models.attention import save_folder

from tiny_models import tiny_model


@pytest.fixture
def folder(tmp_path):
    save_folder(tiny_model(outputs=4), tmp_path / "model")
    return tmp_path / "model"


def read_data(page):
    (content,) = re.findall(r'id="limelight-data">(.*?)</script>', page, re.S)
    return json.loads(content)


def test_a_model_becomes_one_file_without_links(limelight, folder, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = limelight("export", "--model", folder, "--output", page, "--title", "News")
    assert (code, out) == (0, "")
    assert err.endswith("page.html: 0.1 MB. Open it in a browser.\n")
    text = page.read_text("utf-8")
    assert "<h1>News</h1>" in text
    assert not re.search(r'(?:src|href)="|https?://(?!www\.w3\.org/2000/svg)|@import', text)
    assert "default-src 'none'" in text
    assert read_data(text)["classes"] == [f"class {i}" for i in range(4)]


def test_float16_is_half_the_tables(limelight, folder, tmp_path):
    sizes = {}
    for precision in ("float32", "float16"):
        page = tmp_path / f"{precision}.html"
        limelight("export", "--model", folder, "-o", page, "--precision", precision)
        tables = read_data(page.read_text("utf-8"))["tables"]
        assert tables["wordValue"]["dtype"] == precision
        sizes[precision] = len(tables["wordValue"]["base64"])
    assert sizes["float16"] == pytest.approx(sizes["float32"] / 2, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-o", "page.docx"],
            "the name of the web page must end in .html, not 'page.docx'.",
        ),
        (["-o", "page.html", "--model", "nowhere"], "there is no model folder"),
        (["-o", "nowhere/page.html"], "no such file or directory"),
        (["-o", "page.html", "--precision", "float8"], "float8"),
        ([], "--output"),
    ],
)
def test_a_mistake_is_one_message(limelight, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = limelight("export", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") <= 3
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_tables_or_with_too_large_numbers_raises_an_error(folder):
    import limelight
    from limelight.live import live_page

    function = limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"])
    with pytest.raises(limelight.InputError, match="a live page needs a model with tables, such"):
        live_page(function)
    with pytest.raises(
        limelight.InputError, match=r"above 6\.55e\+04, the largest number of float16"
    ):
        live_page(tiny_model(scale=30.0), precision="float16")
