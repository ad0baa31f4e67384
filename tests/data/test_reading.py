import numpy as np
import pytest

from limelight.data import LabeledTexts, read_labeled
from written_tables import write_table

TEXTS = ('good, "very" good', "bad\nfilm", "šílené 🎬 فيلم")


def write(path, labels, texts=TEXTS):
    return write_table(path, {"text": texts, "label": labels})


FORMATS = ("d.parquet", "d.csv")  # cells with types, and strings; test_one_reader has them all


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_texts_and_names(tmp_path, name):
    data = read_labeled(write(tmp_path / name, ["pos", "neg", "pos"]))
    assert data.texts == TEXTS
    assert data.classes == ("neg", "pos")
    np.testing.assert_array_equal(data.labels, [1, 0, 1])
    assert data.source == name


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_stay_numbers_and_can_be_named(tmp_path, name):
    path = write(tmp_path / name, [1, 0, 2])
    assert read_labeled(path).classes is None
    assert read_labeled(path).class_names == ("0", "1", "2")
    named = read_labeled(path, labels=["a", "b", "c"])
    assert named.classes == ("a", "b", "c")
    np.testing.assert_array_equal(named.labels, [1, 0, 2])


def test_given_classes_fix_the_numbers_of_names(tmp_path):
    data = read_labeled(write(tmp_path / "d.csv", ["b", "a", "b"]), ["b", "a"])
    np.testing.assert_array_equal(data.labels, [0, 1, 0])


def imdb_folder(root):
    for part in ("train", "test"):
        for name in ("neg", "pos"):
            folder = root / part / name
            folder.mkdir(parents=True)
            (folder / "0_1.txt").write_text(f"{part} {name}", encoding="utf-8")
    return root


def test_the_imdb_folder_means_the_part_that_is_wanted(tmp_path):
    root = imdb_folder(tmp_path / "aclImdb")
    assert read_labeled(root).texts == ("train neg", "train pos")
    assert read_labeled(root, part="test").texts == ("test neg", "test pos")
    assert read_labeled(root / "test").texts == ("test neg", "test pos")
    data = read_labeled(root / "train")
    assert data.classes == ("negative", "positive")
    np.testing.assert_array_equal(data.labels, [0, 1])


def test_numbers_that_a_table_wrote_as_fractions_are_numbers(tmp_path):
    (tmp_path / "d.csv").write_text("text,label\na,1.0\nb,0.0\nc,1.0\n")
    labeled = read_labeled(tmp_path / "d.csv")
    assert (labeled.labels.tolist(), labeled.classes) == ([1, 0, 1], None)


def test_a_megabyte_in_one_csv_cell(tmp_path):
    long = "word " * 200_000
    data = read_labeled(write(tmp_path / "d.csv", [0, 1], (long, "short")))
    assert data.texts == (long, "short")


def test_labels_are_the_values_own_copy():
    labels = np.array([0, 1])
    data = LabeledTexts(["a", "b"], labels)
    labels[0] = 1
    assert data.labels[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        data.labels[0] = 1


def test_the_digest_sees_texts_labels_and_order():
    digests = {
        LabeledTexts(texts, np.array(labels)).digest
        for texts in (["a", "b"], ["b", "a"], ["ab", ""])
        for labels in ([0, 1], [1, 0])
    }
    assert len(digests) == 6


def test_the_real_reviews_are_read(shared):
    data = read_labeled(shared / "data" / "ag_news" / "test.parquet")
    assert (len(data), data.class_names) == (7600, ("0", "1", "2", "3"))
