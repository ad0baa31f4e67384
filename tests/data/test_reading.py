import sys

import numpy as np
import pytest

from limelight.data import LabeledTexts, read_labeled
from limelight.errors import InputError, MissingExtraError
from written_tables import write_table

NO_TEXT = "the text is missing or not a string."
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


def error_message(path, classes=None):
    with pytest.raises(InputError) as caught:
        read_labeled(path, classes)
    return str(caught.value)


def test_a_folder_that_is_not_imdb(tmp_path):
    assert error_message(tmp_path) == (
        f"'{tmp_path}' has no data files, and '{tmp_path / 'train' / 'neg'}' is missing. Check the "
        "path."
    )


@pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
def test_a_header_without_rows(tmp_path, name):
    path = write(tmp_path / name, [], ())
    assert error_message(path) == f"'{path}' has no rows."


def test_missing_columns(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("text,stars\na,1\n")
    assert error_message(path) == (
        f"'{path}' has no column 'label', only 'text', 'stars'. Rename a column, or choose one "
        "with label_column (--label-column)."
    )
    path = tmp_path / "d.jsonl"
    path.write_text('{"text": "a", "label": 0}\n{"body": "a"}\n')
    assert error_message(path) == f"row 2 of '{path}': {NO_TEXT}"


@pytest.mark.parametrize("name", FORMATS)
def test_an_unknown_label_names_its_row_and_the_classes(tmp_path, name):
    path = write(tmp_path / name, ["neg", "pos", "meh"])
    assert error_message(path, ["neg", "pos"]).startswith(
        f"row 3 of '{path.name}': the label 'meh' matches no class of the model ('neg', 'pos')."
    )


def test_a_number_beyond_the_classes(tmp_path):
    path = write(tmp_path / "d.jsonl", [0, 1, 2])
    with pytest.raises(
        InputError, match=r"row 3 of 'd\.jsonl': the label '2' matches no class of the model"
    ):
        read_labeled(path, labels=["neg", "pos"])


def test_numbers_that_a_table_wrote_as_fractions_are_numbers(tmp_path):
    (tmp_path / "d.csv").write_text("text,label\na,1.0\nb,0.0\nc,1.0\n")
    labeled = read_labeled(tmp_path / "d.csv")
    assert (labeled.labels.tolist(), labeled.classes) == ([1, 0, 1], None)


def test_numbers_with_gaps(tmp_path):
    path = write(tmp_path / "d.jsonl", [0, 4, 4])
    assert error_message(path) == (
        f"numbers as labels must be 0, 1, … without gaps, but '{path}' has 0, 4. Set labels "
        "(--labels) to NUMBER=CLASS for each, separated by commas."
    )


def test_a_label_that_is_neither_name_nor_number(tmp_path):
    path = write(tmp_path / "d.jsonl", [0, None, 1])
    assert error_message(path) == (
        f"the label of row 2 of '{path}' must be a name or a whole number from 0, not None."
    )


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_text_names_its_row(tmp_path, name):
    path = write(tmp_path / name, [0, 1], ("fine", " \t"))
    assert error_message(path) == f"row 2 of '{path}' has an empty text. Remove the row."


def test_a_text_that_is_not_a_string(tmp_path):
    path = write(tmp_path / "d.jsonl", [0], (7,))
    assert error_message(path) == f"row 1 of '{path}': {NO_TEXT}"


@pytest.mark.parametrize(
    ("name", "content", "noun"),
    [
        ("d.csv", b"text,label\ncaf\xe9,1\n", "text"),
        ("d.csv", b"text,label\na,caf\xe9\n", "label"),
        ("d.jsonl", b'{"text": "caf\xe9", "label": 1}\n', "text"),
    ],
)
def test_text_that_is_not_utf_8(tmp_path, name, content, noun):
    path = tmp_path / name
    path.write_bytes(content)
    assert (
        error_message(path)
        == f"row 1 of '{path}': the {noun} must be UTF-8, but its byte 3 is not."
    )


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "d.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = r"^reading parquet files needs pyarrow\. .*run: pip install .*\[data\]"
    with pytest.raises(MissingExtraError, match=message):
        read_labeled(tmp_path / "d.parquet")


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


def test_texts_and_labels_must_pair_up():
    with pytest.raises(
        InputError, match=r"texts and labels must have the same length, not 2 and 1\."
    ):
        LabeledTexts(["a", "b"], np.array([0]))


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


def test_an_infinite_label_is_no_number(tmp_path):
    path = write(tmp_path / "d.jsonl", [0, float("inf"), 1])
    with pytest.raises(InputError) as error:
        read_labeled(path)
    assert str(error.value) == (
        f"the label of row 2 of '{path}' must be a name or a whole number from 0, not inf."
    )


def test_half_a_character_raises_an_error_before_it_reaches_a_vocabulary(tmp_path):
    path = write(tmp_path / "d.jsonl", [0, 1], ("good", "\ud800 bad"))
    with pytest.raises(InputError) as error:
        read_labeled(path)
    assert str(error.value) == (
        f"row 2 of '{path}': the text must be UTF-8, but its byte 0 is not."
    )
