"""Images from end to end: functions, data, runs, judging and commands, which name none."""

import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import limelight
from limelight.errors import InputError

SOURCE = Path(limelight.__file__).parent
IMAGES = [
    np.random.default_rng(seed).integers(0, 256, (14, 21, 3), dtype=np.uint8) for seed in range(6)
]


def brightness(images):
    """Return how bright the left and the right half of each image are, as two numbers."""
    halves = [(p[:, : p.shape[1] // 2], p[:, p.shape[1] // 2 :]) for p in images]
    return np.array([[left.mean() / 50, right.mean() / 50] for left, right in halves])


MODEL = limelight.wrap(brightness, images=True, classes=["left", "right"], scale="logit")


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_methods_judges_and_runs_name_no_image():
    named = re.compile(r"image|pictur|patch|pixel", re.IGNORECASE)
    for room in ("explainers", "judging", "runs"):
        for path in sorted((SOURCE / room).rglob("*.py")):
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                is_kind = 'Literal["texts", "images"' in line  # what a learned method is about
                assert is_kind or not named.search(line), f"{path.name}:{number}: {line}"


def test_a_function_of_images_is_explained_patch_by_patch():
    given = IMAGES[0]
    e = limelight.explain(MODEL, given, "shapley", target="left", scale="score")
    assert len(e) == 49
    assert e.settings["replacement"] == "mean"
    # It is a sum over pixels, so a patch does what its own pixels do, and the right ones nothing.
    mean = np.rint(given.mean(axis=(0, 1)))
    left = given[:, :10] / 50 / (14 * 10 * 3)
    gone = np.broadcast_to(mean, given.shape)[:, :10] / 50 / (14 * 10 * 3)
    for j, (x, y, right, bottom) in enumerate(e.image.boxes):
        share = (left - gone)[y:bottom, x : min(right, 10)].sum() if x < 10 else 0.0
        assert abs(e.scores[j] - share) < 1e-9
    half = limelight.explain(MODEL, given, "loo", features="1 × 2 patches", replacement="black")
    assert half.features == ("row 1, column 1", "row 1, column 2")
    with pytest.raises(InputError, match="needs as many pixels"):
        limelight.explain(MODEL, given, grid=15)
    with pytest.raises(InputError, match="a function of images shows only its answers"):
        limelight.explain(MODEL, given, "gxi")
    for name, given_too in (("mask", "x"), ("tags", ["x"])):
        with pytest.raises(InputError, match=f"{name} is about texts"):
            limelight.wrap(brightness, images=True, classes=["a", "b"], **{name: given_too})
    texts = limelight.wrap(lambda some: [[0.5, 0.5]] * len(some), classes=["a", "b"])
    with pytest.raises(InputError, match="wrap it with images=True"):
        limelight.explain(texts, given)


def test_of_large_images_few_are_made_at_a_time(monkeypatch):
    monkeypatch.setattr("limelight.models.functions._MAX_BATCH_BYTES", 3 * IMAGES[0].nbytes)
    asked = []

    def counting(some):
        asked.append(len(some))
        return brightness(some)

    model = limelight.wrap(counting, images=True, classes=["left", "right"], scale="logit")
    found = limelight.game(model, IMAGES[0], grid=3)
    masks = np.random.default_rng(0).random((500, 9)) < 0.5
    answers = found(masks)
    assert max(asked) <= 3
    assert sum(asked) < 500  # equal masks are asked once
    direct = limelight.game(MODEL, IMAGES[0], grid=3)
    assert np.allclose(answers, [direct(mask[None])[0] for mask in masks], atol=1e-12)


def test_segments_of_scikit_image_are_cut_where_it_is_there():
    pytest.importorskip("skimage")
    given = np.repeat([[[30], [220]]], 12, axis=1).repeat(20, axis=0).astype(np.uint8)
    e = limelight.explain(MODEL, given, "loo", features="segments")
    assert e.feature_kind == "segments"
    assert e.feature_noun == "segment"
    assert e.image.regions is not None


def test_a_run_over_images_resumes_tells_them_apart_and_is_summed_up(tmp_path):
    rows = [{"bytes": png(one), "path": "same.png"} for one in IMAGES]
    labels = ["left", "right"] * 3
    pq.write_table(pa.table({"image": rows, "label": labels}), tmp_path / "a.parquet")
    asked = {"output": tmp_path / "run", "method": ["loo", "shapley"], "grid": 2}
    run = limelight.explain_data(MODEL, tmp_path / "a.parquet", **asked)
    assert not run.failures().num_rows if hasattr(run, "failures") else True
    for i, given in enumerate(IMAGES):
        stored = run.explanation(i, "shapley")
        direct = limelight.explain(MODEL, rows[i], "shapley", grid=2)
        assert stored.text == direct.text
        assert np.allclose(stored.scores, direct.scores, atol=1e-5)
        assert stored.image == direct.image
        assert stored.feature_kind == "2 × 2 patches"
        assert given.shape[:2] == stored.image.size[::-1]
    texts = {run.explanation(i).text for i in range(6)}
    assert len(texts) == 6
    assert all(text.startswith("same.png (21 × 14, ") for text in texts)
    before = sorted(path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.parquet"))
    other = {name: x for name, x in asked.items() if name != "grid"}
    again = limelight.explain_data(
        MODEL, tmp_path / "a.parquet", features="2x2 patches", **other
    )  # the same grid
    after = sorted(path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.parquet"))
    assert before == after
    assert again.explanation(2) == run.explanation(2)
    summary = run.summary()
    assert summary.to_json()
    assert set(run.words()["word"].to_pylist()) == {
        f"row {i}, column {j}" for i in (1, 2) for j in (1, 2)
    }
    assert set(run.words()["occurrences"].to_pylist()) <= set(range(1, 7))


def test_a_folder_of_images_is_run_and_a_broken_one_has_a_sentence(tmp_path):
    for i, given in enumerate(IMAGES[:3]):
        (tmp_path / "shots").mkdir(exist_ok=True)
        (tmp_path / "shots" / f"{i}.png").write_bytes(png(given))
    (tmp_path / "shots" / "x.png").write_bytes(b"no image")
    asked = {"method": "loo", "grid": 2}
    run = limelight.explain_data(MODEL, tmp_path / "shots", output=tmp_path / "run", **asked)
    assert run.explanation(1).text.startswith("1.png (21 × 14, ")
    with pytest.raises(InputError, match=r"'x.png' cannot be read as an image"):
        run.explanation(3)
    bare = limelight.explain_data(
        MODEL, tmp_path / "shots", output=tmp_path / "bare", store_texts=False, **asked
    )
    shown = bare.explanation(1, text=limelight.text.read_image(IMAGES[1], "1.png"))
    assert shown.image.png is None
    assert shown.image.boxes == run.explanation(1).image.boxes


def test_images_are_judged_as_texts_are():
    found = limelight.judge(
        MODEL, IMAGES, methods=["loo", "shapley"], features="2 × 3 patches", target="left"
    )
    assert all(one.share > 0.95 for one in found.methods)
    assert all(text.d == 6 for text in found.texts)
    grid = limelight.judge(MODEL, IMAGES[:2], methods=["loo"], grid=2)
    assert [text.d for text in grid.texts] == [4, 4]


def test_models_of_texts_do_not_take_a_folder_of_images_for_texts(tmp_path):
    (tmp_path / "shots").mkdir()
    (tmp_path / "shots" / "a.png").write_bytes(png(IMAGES[0]))
    pq.write_table(
        pa.table({"image": [{"bytes": png(IMAGES[0]), "path": ""}]}), tmp_path / "a.parquet"
    )
    texts = limelight.wrap(lambda some: [[0.5, 0.5]] * len(some), classes=["a", "b"])
    for i, data in enumerate(("shots", "a.parquet")):
        run = limelight.explain_data(texts, tmp_path / data, output=tmp_path / f"{i}", method="loo")
        with pytest.raises(InputError, match="got an image"):
            run.explanation(0)


def test_commands_take_the_name_of_an_image(tmp_path):
    file, module = tmp_path / "shot.png", tmp_path / "bright.py"
    file.write_bytes(png(IMAGES[0]))
    module.write_text(
        "import limelight\n"
        "def f(some):\n    return [[p.mean() / 255, 1 - p.mean() / 255] for p in some]\n"
        "model = limelight.wrap(f, images=True, classes=['light', 'dark'])\n"
    )

    def asked(*words):
        command = [sys.executable, "-m", "limelight", *map(str, words)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    code, said = asked(
        "explain", "--model", "bright:model", file, "--grid", "2", "-m", "loo", "--format", "json"
    )
    assert code == 0, said
    assert '"feature_kind":"2 × 2 patches"' in said.replace('": "', '":"')
    for words, why in (
        (["explain", file], "this one reads texts"),
        (["explain", "--model", "bright:model", "some words"], "a file, which 'some words' is not"),
        (["explain", "--model", "bright:model", file, "--grid", "x"], "a number of patches a side"),
    ):
        code, said = asked(*words)
        assert code == 2
        assert why in said
