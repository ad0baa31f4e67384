"""Images from end to end: functions, data, runs, judging and commands."""

import ast
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


# The only names of images in the packages that treat all inputs alike.
ALLOWED = {
    "learned.py": {"images"},  # a kind of training examples
    "rows.py": {"image", "image_fields", "image_json", "with_pixels"},  # a column of a run
}


def brightness(images):
    """Return the brightness of the left and the right half of each image."""
    halves = [(p[:, : p.shape[1] // 2], p[:, p.shape[1] // 2 :]) for p in images]
    return np.array([[remaining.mean() / 50, right.mean() / 50] for remaining, right in halves])


MODEL = limelight.wrap(brightness, images=True, classes=["left", "right"], scale="logit")


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def words_of_code(tree):
    """Yield the names and strings of a module without its docstrings."""
    docstrings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.alias | ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Constant) and node not in docstrings:
            yield str(node.value)


def test_methods_judging_and_runs_do_not_distinguish_images():
    image_word = re.compile(r"image|pictur|patch|pixel", re.IGNORECASE)
    for folder in ("explainers", "judging", "runs"):
        for path in sorted((SOURCE / folder).rglob("*.py")):
            words = set(filter(image_word.search, words_of_code(ast.parse(path.read_text()))))
            assert words == ALLOWED.get(path.name, set()), path


def test_a_function_of_images_gets_a_score_for_each_patch():
    image = IMAGES[0]
    e = limelight.explain(MODEL, image, "shapley", target="left", scale="score")
    assert len(e) == 49
    assert e.settings["replacement"] == "mean"
    # The function is a sum over pixels. So the score of a patch is the sum over its pixels in the
    # left half.
    mean = np.rint(image.mean(axis=(0, 1)))
    remaining = image[:, :10] / 50 / (14 * 10 * 3)
    removed = np.broadcast_to(mean, image.shape)[:, :10] / 50 / (14 * 10 * 3)
    for j, (x, y, right, bottom) in enumerate(e.image.boxes):
        score = (remaining - removed)[y:bottom, x : min(right, 10)].sum() if x < 10 else 0.0
        assert abs(e.scores[j] - score) < 1e-9
    half = limelight.explain(MODEL, image, "loo", features="1 × 2 patches", replacement="black")
    assert half.features == ("row 1, column 1", "row 1, column 2")
    with pytest.raises(InputError, match="needs at least as many pixels"):
        limelight.explain(MODEL, image, grid=15)
    with pytest.raises(InputError, match="needs gradients, but a function returns only outputs"):
        limelight.explain(MODEL, image, "gxi")
    for name, value in (("mask", "x"), ("tags", ["x"])):
        with pytest.raises(InputError, match=f"{name} is for texts"):
            limelight.wrap(brightness, images=True, classes=["a", "b"], **{name: value})
    text_model = limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"])
    with pytest.raises(InputError, match="wrap it with images=True"):
        limelight.explain(text_model, image)


def test_a_batch_of_large_images_is_small(monkeypatch):
    monkeypatch.setattr("limelight.models.functions._MAX_BATCH_BYTES", 3 * IMAGES[0].nbytes)
    batch_sizes = []

    def counted_brightness(images):
        batch_sizes.append(len(images))
        return brightness(images)

    model = limelight.wrap(
        counted_brightness, images=True, classes=["left", "right"], scale="logit"
    )
    masks = np.random.default_rng(0).random((500, 9)) < 0.5
    outputs = limelight.game(model, IMAGES[0], grid=3)(masks)
    assert max(batch_sizes) <= 3
    assert sum(batch_sizes) < 500  # equal masks are computed once
    game = limelight.game(MODEL, IMAGES[0], grid=3)
    assert np.allclose(outputs, [game(mask[None])[0] for mask in masks], atol=1e-12)


def test_an_image_can_be_split_into_segments():
    pytest.importorskip("skimage")
    image = np.repeat([[[30], [220]]], 12, axis=1).repeat(20, axis=0).astype(np.uint8)
    e = limelight.explain(MODEL, image, "loo", features="segments")
    assert e.feature_kind == "segments"
    assert e.feature_noun == "segment"
    assert e.image.regions is not None


def test_a_run_over_images_resumes_and_names_each_image(tmp_path):
    rows = [{"bytes": png(image), "path": "same.png"} for image in IMAGES]
    labels = ["left", "right"] * 3
    pq.write_table(pa.table({"image": rows, "label": labels}), tmp_path / "a.parquet")
    options = {"output": tmp_path / "run", "method": ["loo", "shapley"]}
    run = limelight.explain_data(MODEL, tmp_path / "a.parquet", grid=2, **options)
    assert run.errors().num_rows == 0
    for i, image in enumerate(IMAGES):
        stored = run.explanation(i, "shapley")
        direct = limelight.explain(MODEL, rows[i], "shapley", grid=2)
        assert stored.text == direct.text
        assert np.allclose(stored.scores, direct.scores, atol=1e-5)
        assert stored.image == direct.image
        assert stored.feature_kind == "2 × 2 patches"
        assert image.shape[:2] == stored.image.size[::-1]
    texts = {run.explanation(i).text for i in range(6)}
    assert len(texts) == 6
    assert all(text.startswith("same.png (21 × 14, ") for text in texts)
    before = sorted(path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.parquet"))
    resumed = limelight.explain_data(
        MODEL, tmp_path / "a.parquet", features="2x2 patches", **options
    )  # the same grid
    after = sorted(path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.parquet"))
    assert before == after
    assert resumed.explanation(2) == run.explanation(2)
    summary = run.summary()
    assert summary.to_json()
    assert set(run.words()["word"].to_pylist()) == {
        f"row {i}, column {j}" for i in (1, 2) for j in (1, 2)
    }
    assert set(run.words()["occurrences"].to_pylist()) <= set(range(1, 7))


def test_a_broken_image_of_a_folder_raises_an_error(tmp_path):
    (tmp_path / "shots").mkdir()
    for i, image in enumerate(IMAGES[:3]):
        (tmp_path / "shots" / f"{i}.png").write_bytes(png(image))
    (tmp_path / "shots" / "x.png").write_bytes(b"no image")
    options = {"method": "loo", "grid": 2}
    run = limelight.explain_data(MODEL, tmp_path / "shots", output=tmp_path / "run", **options)
    assert run.explanation(1).text.startswith("1.png (21 × 14, ")
    with pytest.raises(InputError, match=r"'x.png' cannot be read as an image"):
        run.explanation(3)
    run_without_images = limelight.explain_data(
        MODEL, tmp_path / "shots", output=tmp_path / "bare", store_texts=False, **options
    )
    image = limelight.text.read_image(IMAGES[1], "1.png")
    e = run_without_images.explanation(1, text=image)
    assert e.image.png is None
    assert e.image.boxes == run.explanation(1).image.boxes


def test_judge_scores_methods_on_images():
    judgment = limelight.judge(
        MODEL, IMAGES, methods=["loo", "shapley"], features="2 × 3 patches", target="left"
    )
    assert all(method.share > 0.95 for method in judgment.methods)
    assert all(text.d == 6 for text in judgment.texts)
    grid = limelight.judge(MODEL, IMAGES[:2], methods=["loo"], grid=2)
    assert [text.d for text in grid.texts] == [4, 4]


def test_a_model_of_texts_rejects_a_folder_of_images(tmp_path):
    (tmp_path / "shots").mkdir()
    (tmp_path / "shots" / "a.png").write_bytes(png(IMAGES[0]))
    pq.write_table(
        pa.table({"image": [{"bytes": png(IMAGES[0]), "path": ""}]}), tmp_path / "a.parquet"
    )
    text_model = limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"])
    for i, data in enumerate(("shots", "a.parquet")):
        run = limelight.explain_data(text_model, tmp_path / data, "loo", output=tmp_path / f"{i}")
        with pytest.raises(InputError, match=r"an image .* needs a model that reads images"):
            run.explanation(0)


def test_explain_reads_the_file_of_an_image(tmp_path):
    file, module = tmp_path / "shot.png", tmp_path / "bright.py"
    file.write_bytes(png(IMAGES[0]))
    module.write_text(
        "import limelight\n"
        "def f(images):\n    return [[p.mean() / 255, 1 - p.mean() / 255] for p in images]\n"
        "model = limelight.wrap(f, images=True, classes=['light', 'dark'])\n"
    )

    def run(*arguments):
        command = [sys.executable, "-m", "limelight", *map(str, arguments)]
        process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return process.returncode, process.stdout + process.stderr

    code, output = run(
        "explain", "--model", "bright:model", file, "--grid", "2", "-m", "loo", "--format", "json"
    )
    assert code == 0, output
    assert '"feature_kind":"2 × 2 patches"' in output.replace('": "', '":"')
    for arguments, message in (
        (
            ["explain", file],
            "needs a model that reads images, but this model reads",
        ),
        (["explain", "--model", "bright:model", "some words"], "'some words' is no file"),
        (
            ["explain", "--model", "bright:model", file, "--grid", "x"],
            "grid must be a positive whole number",
        ),
    ):
        code, output = run(*arguments)
        assert code == 2
        assert message in output
