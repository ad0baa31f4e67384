"""Data files of every format, with every kind of row, read in parts."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="data sets are read with pyarrow (extra data)")

import pyarrow as pa
import pyarrow.parquet as pq

from limelight.data.columns import open_data, read_texts
from written_tables import write_table

ROWS = [
    {"id": "a", "text": "one film", "label": "1", "year": "1999"},
    {"id": "b", "text": 'with, comma and "quotes"\nand a line', "label": "0", "year": "2001"},
    {"id": "c", "text": "żółw 🐢", "label": "1", "year": "2010"},
]


def write(path, rows=ROWS):
    return write_table(path, {name: [row[name] for row in rows] for name in rows[0]})


def shards(data, size=1000, wanted=range(100), limit=None):
    record = data.record(store_texts=True, limit=limit)
    return list(data.shards(record, size, wanted))


def read_all_rows(data):
    return [row for table in shards(data) for row in table.to_pylist()]


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "jsonl"])
def test_every_format_says_the_same(tmp_path, ending):
    data = open_data(write(tmp_path / f"data.{ending}"))
    assert read_all_rows(data) == [
        {**row, "row": number, "error": None, "pair": None, "at": None}
        for number, row in enumerate(ROWS)
    ]
    assert data.columns.carried == ["year"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_packed_files_are_unpacked(tmp_path, ending):
    plain = write(tmp_path / f"data.{ending}")
    packed = tmp_path / f"packed.{ending}.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_all_rows(open_data(packed)) == read_all_rows(open_data(plain))
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"packed\.\w+\.gz' is not a complete gzip file\."):
        read_all_rows(open_data(packed))


def test_several_files_and_a_folder_are_one_data_set_in_order(tmp_path):
    for name in ("b.csv", "a.parquet"):
        write(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no data")
    inside = read_all_rows(open_data(tmp_path))
    listed = read_all_rows(open_data([tmp_path / "a.parquet", str(tmp_path / "b.csv")]))
    assert inside == listed
    assert [row["row"] for row in inside] == list(range(6))


def test_a_table_in_memory_is_data_too(tmp_path):
    pd = pytest.importorskip("pandas")
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    expected = read_all_rows(open_data(write(tmp_path / "data.parquet")))
    for table in (columns, pa.table(columns), pd.DataFrame(columns)):
        assert read_all_rows(open_data(table)) == expected
    first_record, two = (open_data({"text": [text]}).record(store_texts=True) for text in "ab")
    assert first_record.files[0].sha256 != two.files[0].sha256


@given(st.integers(1, 40), st.lists(st.integers(1, 30), min_size=1, max_size=4), st.data())
def test_shards_are_cut_as_planned_whatever_the_batches_are(size, files, data):
    tables = [{"text": [f"{f} {i}" for i in range(rows)]} for f, rows in enumerate(files)]
    limit = data.draw(st.none() | st.integers(1, sum(files) + 2))
    every = [text for table in tables for text in table["text"]][:limit]
    total = len(every)
    opened = open_data(tables[0])
    opened.files = [open_data(table).files[0] for table in tables]
    wanted = data.draw(st.sets(st.integers(0, (total - 1) // size)))
    result = shards(opened, size, wanted, limit)
    assert [table.column("text").to_pylist() for table in result] == [
        every[number * size : (number + 1) * size] for number in sorted(wanted)
    ]
    assert [table.column("row")[0].as_py() for table in result] == [
        n * size for n in sorted(wanted)
    ]


def test_columns_of_usual_names_are_found_and_others_are_named(tmp_path):
    table = {"Review": ["a"], "sentiment": [1], "uid": [7], "stars": [2.5]}
    columns = open_data(table).columns
    assert (columns.text, columns.label, columns.id) == ("Review", "sentiment", "uid")
    assert columns.carried == ["stars"]
    assert open_data({"words": ["a"], "n": [1]}).columns.text == "words"  # the only one of texts
    assert open_data({"Text": ["a"], "text": ["b"]}).columns.text == "Text"  # the first
    assert open_data({"text1": ["a"], "text2": ["b"], "text": ["c"]}).columns.pair is None
    with pytest.raises(
        InputError,
        match=r"'memory' has no column 'text', only 'one', 'two'\. Rename a column, or choose one "
        r"with text_column \(--text-column\)\.",
    ):
        open_data({"one": ["a"], "two": ["b"]})
    with pytest.raises(
        InputError, match=r"data\.csv' has no column 'body', only 'id', 'text', 'label'"
    ):
        open_data(write(tmp_path / "data.csv"), text="body")
    with pytest.raises(
        InputError, match=r"the column 'n' of 'memory' must contain texts, not int64\."
    ):
        open_data({"text": ["a"], "n": [1]}, text="n")


def test_labels_and_ids_of_any_type_become_strings():
    table = {"text": ["a", "b", "c"], "label": [True, False, None], "id": [1.5, 2.0, None]}
    rows = read_all_rows(open_data(table))
    assert [row["label"] for row in rows] == ["1", "0", None]
    assert [row["id"] for row in rows] == ["1.5", "2.0", "2"]  # the last has the row's number


def test_texts_that_cannot_be_used_have_a_message_and_the_others_stay(tmp_path):
    no_text = "the text is missing or not a string."
    bad_csv = tmp_path / "bad.csv"
    bad_csv.write_bytes(b"text,x\ngood,1\nbad \xff byte,2\n,3\n")
    assert [(row["text"], row["error"]) for row in read_all_rows(open_data(bad_csv))] == [
        ("good", None),
        (None, "the text must be UTF-8, but its byte 4 is not."),
        ("", None),
    ]
    bad_jsonl = tmp_path / "bad.jsonl"
    lines = [b'{"text": "good"}', b"no json", b'{"text": null}', b'{"text": ["a", "b"]}']
    lines += [b'{"text": "half \\ud83d of one"}', b"", b'{"other": 3}', b'{"text": "\xff"}']
    bad_jsonl.write_bytes(b"\n".join(lines))
    result = [row["error"] for row in read_all_rows(open_data(bad_jsonl))]
    half, byte = (f"the text must be UTF-8, but its byte {n} is not." for n in (5, 0))
    assert result == [None, no_text, no_text, no_text, half, no_text, byte]
    raw = pa.array([b"good", b"\xff", None], pa.binary())
    pq.write_table(pa.table({"text": raw.view(pa.string())}), tmp_path / "bad.parquet")
    result = read_all_rows(open_data(tmp_path / "bad.parquet"))
    assert [row["error"] for row in result] == [None, byte, no_text]


def test_carried_columns_keep_their_types():
    table = pa.table(
        {
            "text": ["a", "b"],
            "stars": pa.array([1, None], pa.int8()),
            "scores": [0.5, 1.5],
            "tags": [["x"], []],
            "kind": pa.array(["k", "l"]).dictionary_encode(),
        }
    )
    data = open_data(table)
    (result,) = shards(data)
    types = dict(zip(result.column_names, result.schema.types, strict=True))
    assert [types[name] for name in ("stars", "scores", "tags", "kind")] == [
        pa.int8(),
        pa.float64(),
        pa.list_(pa.string()),
        pa.string(),
    ]
    assert result.column("tags").to_pylist() == [["x"], []]
    assert result.column("kind").to_pylist() == ["k", "l"]


def test_a_file_that_changes_during_a_run_raises_an_error(tmp_path):
    path = write(tmp_path / "data.csv")
    data = open_data(path)
    record = data.record(store_texts=True)
    write(path, ROWS[:2])
    with pytest.raises(InputError, match=r"data\.csv' changed during the run \(2 rows, not 3\)\."):
        list(data.shards(record, 10, {0}))
    path.unlink()
    with pytest.raises(
        InputError, match=r"data\.csv' was removed during the run\. Put it back, and start the run"
    ):
        list(data.shards(record, 10, {0}))


def test_a_text_that_is_too_long_is_the_only_one_with_an_error(monkeypatch):
    monkeypatch.setattr("limelight.data.columns._MAX_TEXT_BYTES", 100)
    rows = read_all_rows(open_data({"text": ["short", "long " * 30]}))
    assert [row["error"] for row in rows] == [
        None,
        "the text must have at most 100 bytes, not 150.",
    ]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_large_file_is_never_in_memory(tmp_path, ending):
    """Parquet files often are one row group: that is no reason to hold it all."""
    text = "a long film that nobody wants to see again " * 20
    path = tmp_path / f"data.{ending}"
    rows = 20_000
    if ending == "parquet":
        texts = pa.array([f"{i} {text}" for i in range(rows)])
        pq.write_table(pa.table({"text": texts}), path, use_dictionary=False, compression="none")
        del texts
    else:
        line = json.dumps({"text": text}) if ending == "jsonl" else text
        path.write_text(("" if ending == "jsonl" else "text\n") + f"{line}\n" * rows)
    size, before, most, seen = path.stat().st_size, pa.total_allocated_bytes(), 0, 0
    data = open_data(path)
    for table in data.shards(data.record(store_texts=True), 500, range(rows)):
        most, seen = max(most, pa.total_allocated_bytes() - before), seen + len(table)
    assert seen == rows
    assert size > 15_000_000
    assert most < size / 4


def test_what_is_judged_may_have_an_empty_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text\na good film\n""\na bad film\n')
    assert read_texts(path) == ["a good film", "", "a bad film"]
