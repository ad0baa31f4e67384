"""Images as data: folders, folders by class, parquet files, arrays; the same pixels from each."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from limelight.data import read_labeled, read_rows
from limelight.data.columns import open_data
from limelight.data.images import read_labeled_images
from limelight.text import read_image

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 5, 7), dtype=np.uint8)
LABELS = ["bag", "boot", "bag", "shirt"]


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def folders(home):
    for i, (pixels, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        (home / label).mkdir(parents=True, exist_ok=True)
        (home / label / f"{i}.png").write_bytes(png(pixels))
    return home


def parquet(home, **columns):
    home.mkdir(exist_ok=True)
    rows = [{"bytes": png(value), "path": None} for value in PIXELS]
    pq.write_table(pa.table({"image": rows, "label": LABELS, **columns}), home / "a.parquet")
    return home / "a.parquet"


def arrays(home):
    home.mkdir(exist_ok=True)
    np.savez(home / "a.npz", images=PIXELS, y=np.array([0, 1, 0, 2]))
    return home / "a.npz"


def test_the_same_images_come_from_folders_a_parquet_file_and_arrays(tmp_path):
    value = read_labeled_images(folders(tmp_path / "a"))
    assert value.classes == ("bag", "boot", "shirt")
    assert value.labels.tolist() == [0, 0, 1, 2]
    other = read_labeled_images(parquet(tmp_path / "b"))
    assert other.classes == value.classes
    third = read_labeled_images(arrays(tmp_path / "c"))
    assert third.labels.tolist() == other.labels.tolist() == [0, 1, 0, 2]
    for result in (other, third):
        assert [(p.pixels[:, :, 0] == q).all() for p, q in zip(result.texts, PIXELS, strict=True)]
    assert {p.digest for p in value.texts} == {p.digest for p in other.texts}
    assert {p.name for p in value.texts} == {"0.png", "1.png", "2.png", "3.png"}


def test_a_folder_is_listed_once_for_its_labels_and_its_images(tmp_path, monkeypatch):
    listed, glob = [], Path.glob

    def count_call(folder, pattern):
        listed.append(pattern)
        return glob(folder, pattern)

    home = folders(tmp_path / "a")
    monkeypatch.setattr(Path, "glob", count_call)
    assert len(read_labeled_images(home)) == 4
    assert listed == ["*", "*/*"]  # images in the folder itself would end it


def test_a_plain_folder_has_no_labels_and_its_rows_are_known_by_their_names(tmp_path):
    for i, pixels in enumerate(PIXELS):
        (tmp_path / f"{i}.png").write_bytes(png(pixels))
    result = read_rows(tmp_path)
    assert result.labels == []
    assert [read_image(cell).name for cell in result.texts] == ["0.png", "1.png", "2.png", "3.png"]
    before = open_data(tmp_path).record(store_texts=True)
    (tmp_path / "2.png").write_bytes(png(PIXELS[0]))
    after = open_data(tmp_path).record(store_texts=True)
    assert before.files[0].sha256 != after.files[0].sha256
    assert before.rows == after.rows == 4


def test_an_image_in_a_table_keeps_its_name(tmp_path):
    table = {"image": [{"bytes": png(PIXELS[0]), "path": "x/boot.png"}], "label": [3]}
    (cell,) = read_rows(pa.table(table)).texts
    assert read_image(cell).label.startswith("boot.png (7 × 5, ")


def test_an_archive_of_reviews_is_still_one(tmp_path):
    for name in ("neg", "pos"):
        (tmp_path / "train" / name).mkdir(parents=True)
        (tmp_path / "train" / name / "0_1.txt").write_text(f"a {name} review")
    assert read_labeled(tmp_path).texts == ("a neg review", "a pos review")


def test_files_in_columns_of_bytes_and_in_structs_of_any_order_are_images(tmp_path):
    content = png(PIXELS[0])
    for name, cell in (("plain", content), ("turned", {"path": "a.png", "bytes": content})):
        pq.write_table(pa.table({"image": [cell] * 2, "label": [0, 1]}), tmp_path / name)
        (tmp_path / name).rename(tmp_path / f"{name}.parquet")
        result = read_labeled_images(tmp_path / f"{name}.parquet")
        assert (result.texts[0].pixels.squeeze() == PIXELS[0].squeeze()).all()


def test_classes_of_images_may_be_called_as_those_of_reviews_are(tmp_path):
    for name in ("neg", "pos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_bytes(png(PIXELS[0]))
    assert read_labeled_images(tmp_path).class_names == ("neg", "pos")
