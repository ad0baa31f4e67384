"""An image is dropped on the page, explained, and loses the parts that are clicked."""

import base64
import re
import urllib.request
from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")
pytest.importorskip("PIL", reason="images are read by Pillow (extra images)")

import limelight
from limelight.errors import InputError
from limelight.models.attention import PatchClassifier
from limelight.serving.texts import MAX_IMAGE_REQUEST_BYTES
from limelight.text import Vocabulary, read_image


@pytest.fixture(scope="module")
def model():
    """The paper's classifier over 3 × 4 patches of 2 × 2 pixels, with random weights."""
    rng = np.random.default_rng(29)
    return PatchClassifier(
        embedding=rng.normal(size=(2, 5)),
        W_q=rng.normal(size=(2, 4, 5)),
        W_k=rng.normal(size=(2, 4, 5)),
        W_v=rng.normal(size=(2, 3, 5)),
        W_l=rng.normal(size=(2, 3, 3)),
        vocabulary=Vocabulary(("[cls]", "UNK")),
        classes=("bag", "boot", "shirt"),
        T_max=13,
        patch_mean=rng.random(4),
        patch_in=rng.normal(size=(7, 4)),
        patch_bias=rng.normal(size=7),
        patch_out=rng.normal(size=(5, 7)),
        position_table=rng.normal(size=(13, 5)),
        patch_size=(2, 2),
        grid=(3, 4),
        channels=1,
    )


@pytest.fixture(scope="module")
def image():
    rng = np.random.default_rng(7)
    return read_image(rng.integers(0, 256, (6, 8), dtype=np.uint8), "<b>mine</b>.png")


def address(image):
    content = base64.b64encode(image.png()).decode()
    return f"data:image/*;name={image.name};base64,{content}"


def send(page, text, path="text", **fields):
    """Send a request of the page, and return its result or its error."""
    body = msgspec.json.encode({"tab": "t", "panel": "p", "text": text, **fields})
    try:
        with urllib.request.urlopen(urllib.request.Request(page.url + path, body)) as answer:
            return msgspec.json.decode(answer.read().splitlines()[-1])
    except urllib.error.HTTPError as error:
        return msgspec.json.decode(error.read())


def test_the_scores_are_those_of_explain_and_the_bytes_are_sent_once(serving, model, image):
    result = send(serving(model), address(image), methods=["shapley", "loo"])["result"]
    assert len(result["explanations"]) == 2
    for data in result["explanations"]:
        e = limelight.explain(model, image, data["method"])
        scores = [feature["score"] for feature in data["features"]]
        assert scores == pytest.approx(e.scores.tolist())
        assert data["image"]["boxes"] == [list(box) for box in e.image.boxes]
        assert data["image"]["png"] is None
        assert "<svg" in result["drawings"][data["method"]]
    assert str(result).count(e.image.png) == 1
    assert "<b>mine" not in "".join(result["drawings"].values())


def test_a_part_that_is_removed_changes_the_prediction_as_the_game_says(serving, model, image):
    changes = [["row 1, column 2", 0, None], ["row 3, column 4", 0, None]]
    result = send(serving(model), address(image), methods=["loo"], changes=changes)["result"]
    mask = np.ones((1, 12), dtype=bool)
    mask[0, [1, 11]] = False
    outputs = limelight.game(model, image)(mask)[0]
    logits = {outcome["name"]: outcome["logit"] for outcome in result["prediction"]["outcomes"]}
    assert logits == pytest.approx(dict(zip(model.classes, outputs, strict=True)))
    assert result["explanations"] == []
    assert result["drawings"][""].count('class="removed"') == 2


def test_a_page_never_reads_a_file_of_this_machine(serving, model, image, tmp_path):
    file = tmp_path / "own.png"
    file.write_bytes(image.png())
    page = serving(model)
    for path in (str(file), file.as_uri(), "/etc/passwd", "../own.png"):
        for name in ("text", "sections", "file"):
            answer = send(page, path, name, methods=["loo"], sections=["json"])
            assert answer["error"].startswith("this model reads images. Drop one"), answer


def test_a_file_that_is_no_image_or_too_large_gets_one_message(serving, model):
    page = serving(model)
    bad = "data:image/*;name=bad.png;base64," + base64.b64encode(b"no image").decode()
    message = send(page, bad, methods=["loo"])["error"]
    formats = "PNG, JPEG, GIF, BMP, WebP or TIFF"
    assert message == f"'bad.png' cannot be read as an image in {formats}."
    large = "data:image/*;base64," + "A" * MAX_IMAGE_REQUEST_BYTES
    assert "bytes, but this one has more" in send(page, large, methods=["loo"])["error"]


def test_what_only_begins_as_an_image_is_a_text(serving, model, shipped):
    message = send(serving(model), "data:image/../../etc/shirt.png")["error"]
    assert "this model reads images" in message
    message = send(serving(shipped), "data:image/ " + "word " * 30_000)["error"]
    assert "at most 100,000 characters" in message


def test_a_page_is_of_texts_or_of_images(serving, model, shipped):
    with pytest.raises(InputError, match="not one of each"):
        serving([model, shipped])


def test_a_click_removes_a_part_and_another_puts_it_back(serving, opened, model, image, tmp_path):
    file = tmp_path / "shirt.png"
    file.write_bytes(image.png())
    page = opened(url=serving(model).url, width=400)
    assert page.locator("textarea").count() == 0
    page.set_input_files("#file", file)
    part = page.locator("[data-method=shapley] .w").nth(5)
    part.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    part.click()
    page.wait_for_selector("[data-changed=true] .removed")
    assert "“row 2, column 2” removed" in page.inner_text("#changes")
    assert "goes from" in page.inner_text("[data-changed=true] .difference")
    page.wait_for_selector("[data-changed=false] [data-method=shapley] .w.removed")
    assert "base64" not in page.url
    page.locator("[data-method=shapley] .w.removed").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('limelight-reading').length === 1")
    bad = tmp_path / "bad.png"
    bad.write_text("no image")
    page.set_input_files("#file", bad)
    page.wait_for_selector(".error:not([hidden])")
    assert "cannot be read as an image" in page.inner_text("limelight-reading .error")
    assert page.locator(".w").count() == 0


def test_an_image_can_be_dropped(serving, opened, model, image):
    page = opened(url=serving(model).url)
    page.evaluate(
        """(content) => {
          const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
          const data = new DataTransfer();
          data.items.add(new File([bytes], "dropped; x.png", { type: "image/png" }));
          document.getElementById("drop").dispatchEvent(
            new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        base64.b64encode(image.png()).decode(),
    )
    page.wait_for_selector("[data-method=shapley] .w")
    assert page.inner_text(".method small").startswith("dropped_ x.png (8 × 6, ")


def test_a_shared_vision_transformer_is_served(serving):
    folder = Path(__file__).resolve().parents[3] / "shared" / "models" / "vit-mini-fashion"
    if not folder.exists():
        pytest.skip("needs the shared models")
    pytest.importorskip("transformers", reason="an image classifier (extra hf)")
    page = serving(limelight.load(folder))
    noise = read_image(np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8))
    result = send(page, address(noise), methods=["lrp"], features="7 × 7 patches")["result"]
    assert len(result["explanations"][0]["features"]) == 49


def test_the_summary_of_images_has_a_mean_map_and_thumbnails(serving, opened, model, tmp_path):
    pytest.importorskip("duckdb", reason="runs are summarised with duckdb (extra data)")
    rng = np.random.default_rng(5)
    (tmp_path / "data").mkdir()
    for i in range(30):
        noise = read_image(rng.integers(0, 256, (6, 8), dtype=np.uint8))
        (tmp_path / "data" / f"{i:02}.png").write_bytes(noise.png())
    run = limelight.explain_data(
        model, tmp_path / "data", ["loo"], target="bag", output=tmp_path / "run"
    )
    summary = run.summary()
    html = summary.to_html()
    samples = html[html.index('class="words mean"') :]
    titles = dict(
        re.findall(r"<title>(row \d, column \d): (\S+) ±", samples[: samples.index("</svg>")])
    )
    means = np.mean([run.explanation(row, "loo").scores for row in range(30)], axis=0)
    significant = {word["word"] for word in summary.words.records() if word["kind"] != "phrase"}
    assert len(titles) == 12
    assert significant
    for name, mean in zip(run.explanation(0, "loo").features, means, strict=True):
        title = float(titles[name].replace("−", "-"))
        assert title == pytest.approx(mean if name in significant else 0.0, abs=0.01)
    assert html.count("<image ") == len(summary.representatives.rows)
    page = opened("texts", url=serving(model, run=run).url)
    page.locator("tr[data-position='3']").click()
    page.wait_for_selector("#text .w")
    assert page.locator("#text svg.image").count() == 2
