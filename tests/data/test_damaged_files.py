"""Damaged files: each has one message, and no row is lost without a warning."""

import time

import pytest

import limelight
from limelight.data import read_labeled, read_texts
from limelight.errors import InputError


def test_a_short_row_lacks_cells_and_an_empty_last_cell_is_none(tmp_path):
    (tmp_path / "a.csv").write_text('text,label,year\nfine,pos\n"a, b",neg,7,\n')
    assert read_labeled(tmp_path / "a.csv").texts == ("fine", "a, b")


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        # As people write it: quotes are part of the text.
        ('text\tlabel\n"a good film\tpos\na "bad" film\tneg\n"fine" he said\tpos\n"so"\tneg\n',
         ['"a good film', 'a "bad" film', '"fine" he said', '"so"']),
        # As writers of csv write it: quoted where need be, or everywhere.
        ('text\tlabel\n"a ""good"" film"\tpos\n"two\nlines\tand tabs"\tneg\nlast\tpos\n',
         ['a "good" film', "two\nlines\tand tabs", "last"]),
        ('"text"\t"label"\n"fine"\t"pos"\n"a ""b"""\t"neg"\n', ["fine", 'a "b"']),
    ],
)  # fmt: skip
def test_quotes_in_tab_separated_values_are_text_unless_a_writer_put_them_there(
    tmp_path, content, texts
):
    (tmp_path / "a.tsv").write_text(content)
    assert read_texts(tmp_path / "a.tsv") == texts


def test_time_grows_with_the_number_of_columns_and_not_with_its_square(tmp_path):
    names = ",".join(f"c{i}" for i in range(60_000))
    (tmp_path / "wide.csv").write_text(f"text,{names}\nfine,{names}\n")
    start = time.process_time()
    assert read_texts(tmp_path / "wide.csv") == ["fine"]
    assert time.process_time() - start < 10  # a minute where names are counted one by one


def test_columns_of_the_data_may_bear_the_names_of_ours(tmp_path):
    pytest.importorskip("pyarrow")
    columns = {"row": [3, 4], "data.row": [5, 6], "error": ["x", "y"], "pair": ["p", "q"]}
    data = {"text": ["a good film", "a bad film"], **columns}
    run = limelight.explain_data(limelight.load(), data, "gxi", output=tmp_path / "run")
    assert run.failed == 0
    result = run.texts().to_pydict()
    assert (result["data.row"], result["data.data.row"]) == ([3, 4], [5, 6])
    assert (result["data.error"], result["data.pair"]) == (["x", "y"], ["p", "q"])
    assert {slice_row["slice"] for slice_row in run.slices("row").to_pylist()} == {"3", "4"}
    assert {slice_row["slice"] for slice_row in run.slices("data.row").to_pylist()} == {"5", "6"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_every_reader_rejects_utf_16(tmp_path, encoding):
    (tmp_path / "a.csv").write_text("text\na good film\n", encoding)
    readers = (read_texts, read_labeled)
    for read in (
        *readers,
        lambda path: limelight.explain_data(
            limelight.load(), path, "lime", output=tmp_path / "run"
        ),
    ):
        with pytest.raises(
            InputError, match=r"a\.csv' must be UTF-8, but its header is not\. Convert the file"
        ):
            read(tmp_path / "a.csv")
    assert not (tmp_path / "run").exists()
