"""Every command and function reads the same texts and labels from each kind of data."""

import contextlib
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import limelight
from limelight.data import (
    LabeledRows,
    LabeledTexts,
    read_labeled,
    read_rationales,
    read_rows,
    read_texts,
)
from limelight.data.columns import open_data
from limelight.errors import InputError, MissingExtraError

pytest.importorskip("pyarrow", reason="one of the formats is Parquet (extra data)")

import pyarrow as pa

from written_tables import ENDINGS, write_table

TEXTS = ['a dull, "dull" film', "two\nlines and a\ttab", "žluťoučký kůň 🐎"]
OTHERS = ["no", "a second text", "yes"]
LABELS = ["bad", "good", "bad"]
TEXT_NAMES = (
    "text", "sentence", "review", "content", "document", "comment", "body", "message", "tweet",
    "Review",
)  # fmt: skip
LABEL_NAMES = ("label", "labels", "class", "sentiment", "category", "Label")
PAIR_NAMES = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2"),
    ("sentence_A", "sentence_B"), ("text1", "text2"), ("text_a", "text_b"),
    ("question1", "question2"), ("question", "passage"), ("question", "sentence"),
    ("query", "document"), ("query", "passage"),
)  # fmt: skip
SINGLE = [
    {"uid": ["u", "v", "w"], text: TEXTS, LABEL_NAMES[i % 6]: LABELS, "other": list("xyz")}
    for i, text in enumerate(TEXT_NAMES)
]
PAIRS = [{first: TEXTS, second: OTHERS, "label": LABELS} for first, second in PAIR_NAMES]


def list_texts(table):
    """The texts of a table, or its pairs."""
    pair = next((names for names in PAIR_NAMES if set(names) <= set(table)), None)
    return TEXTS if pair is None else list(zip(TEXTS, OTHERS, strict=True))


class ArrivedError(Exception):
    """The data reached the part that computes, which these tests leave out."""


def arrives(*data):
    raise ArrivedError(*data)


@pytest.fixture
def model():
    return limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["bad", "good"])


@pytest.fixture
def read_inputs(monkeypatch, model):
    """Return a function that returns the texts and labels that a command reads from a file."""
    from limelight.cli.explain_data import explain_data
    from limelight.cli.judge import judge
    from limelight.cli.predict import evaluate
    from limelight.cli.train import train

    monkeypatch.setattr("limelight.cli.options.ModelOptions.load", lambda _, **__: model)
    for computing in ("judging.judge", "data.evaluate"):
        monkeypatch.setattr(f"limelight.{computing}", lambda _, data, *__, **___: arrives(data))
    for place in ("training.train", "data.columns.DataSet.record"):
        monkeypatch.setattr(f"limelight.{place}", lambda data, **_: arrives(data))

    commands = {
        "explain-data": lambda path: explain_data(path, output=path.with_name("run")),
        "judge": lambda path: judge(data=path),
        "evaluate": lambda path: evaluate(data=path),
        "train": lambda path: train(path, output=path.with_name("model")),
    }

    def read(command, path):
        with pytest.raises(ArrivedError) as arrived:
            commands[command](path)
        return arrived.value.args[0]

    return read


def texts_and_labels(data):
    """The texts and labels of the data that arrived."""
    if isinstance(data, LabeledTexts):
        return list(data.texts), [data.class_names[label] for label in data.labels]
    if isinstance(data, LabeledRows):
        return data
    rows = list(data.rows(data.columns.label))
    return [row.text for row in rows], [row.cells[0] for row in rows]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("command", ["explain-data", "judge", "evaluate", "train"])
def test_every_command_reads_every_format_by_every_usual_name(
    tmp_path, read_inputs, command, ending
):
    for number, table in enumerate([*SINGLE, *PAIRS]):
        path = write_table(tmp_path / f"{number}.{ending}", table)
        texts, labels = texts_and_labels(read_inputs(command, path))
        assert texts == list_texts(table), list(table)
        assert labels == LABELS, list(table)


@pytest.mark.parametrize("command", ["explain-data", "judge", "evaluate", "train"])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"\xef\xbb\xbftext,label\na,bad\n", None),
        ("a.tsv", b"one\ttwo\ta\nx\ty\tz\n", "has no column 'text', only 'one', 'two', 'a'."),
        ("a.csv", b"text,text,label\na,b,bad\n", "it has two columns 'text'. Rename one of them."),
        ("a.jsonl", b"nothing\n", "must have one JSON object per line."),
        ("a.tsv.gz", b"nothing", "is not a complete gzip file."),
        ("a.parquet", b"nothing", "is not a complete Parquet file ("),
        ("a.xlsx", b"", "Use .parquet, .csv, .tsv or .jsonl (the last three may end in .gz)"),
        ("a.tsv", b"", "has no rows"),
    ],
)
def test_every_command_has_the_same_message_about_a_file(
    tmp_path, read_inputs, command, name, content, message
):
    (tmp_path / name).write_bytes(content)
    if message is None:
        assert texts_and_labels(read_inputs(command, tmp_path / name))[0] == ["a"]
        return
    with pytest.raises(InputError) as error:
        read_inputs(command, tmp_path / name)
    assert f"'{tmp_path / name}'" in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize("command", ["evaluate", "train"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": null, "label": "bad"}', "the text is missing or not a string."),
        (b'{"text": 7.5, "label": "bad"}', "the text is missing or not a string."),
        (b'{"text": ["a"], "label": "bad"}', "the text is missing or not a string."),
        (b"[" * 100_000, "the text is missing or not a string."),
        (b'{"text": " \\t", "label": "bad"}', "has an empty text. Remove the row."),
        (
            b'{"text": "\\ud83d half", "label": "bad"}',
            "the text must be UTF-8, but its byte 0 is not.",
        ),
        (b'{"text": "caf\xe9", "label": "bad"}', "the text must be UTF-8, but its byte 3 is not."),
        (
            b'{"text": "' + b"long" * 20 + b'", "label": "bad"}',
            "the text must have at most 50 bytes, not 80.",
        ),
    ],
)
def test_a_text_that_cannot_be_used_is_named_by_its_row(
    tmp_path, monkeypatch, read_inputs, command, content, message
):
    """A run has the same messages in its rows: see test_data_files."""
    monkeypatch.setattr("limelight.data.columns._MAX_TEXT_BYTES", 50)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a", "label": "bad"}\n' + content)
    with pytest.raises(InputError) as error:
        read_inputs(command, path)
    assert str(error.value).startswith(f"row 2 of '{path}'")
    assert str(error.value).endswith(message)


def frames(table):
    """The same table as each kind of table that Python users have."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    datasets = pytest.importorskip("datasets")
    columns = {name: list(cells) for name, cells in table.items()}
    reordered = {name: [*cells[::-1], cells[0]] for name, cells in columns.items()}
    return {
        "columns": columns,
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "polars categories": pl.DataFrame(columns).with_columns(pl.last().cast(pl.Categorical)),
        "Arrow": pa.table(columns),
        "Dataset": datasets.Dataset.from_dict(columns),
        "selected Dataset": datasets.Dataset.from_dict(reordered).select([2, 1, 0]),
    }


@pytest.mark.parametrize("verb", ["explain_data", "judge", "evaluate", "train"])
@pytest.mark.parametrize("table", [SINGLE[2], PAIRS[0]], ids=["texts", "pairs"])
def test_every_function_reads_every_kind_of_table(tmp_path, monkeypatch, model, verb, table):
    for kind, data in {**frames(table), "path": write_table(tmp_path / "a.tsv", table)}.items():
        arrived = read_in_python(verb, model, data, tmp_path, monkeypatch)
        texts, labels = texts_and_labels(arrived)
        assert texts == list_texts(table), kind
        assert labels == LABELS, kind


def read_in_python(verb, model, data, tmp_path, monkeypatch):
    """Return the data that a function reads, and stop the function after that."""
    if verb == "train":
        pytest.importorskip("torch")
    place, read, call = {
        "explain_data": (
            "limelight.runs.job.open_data",
            open_data,
            lambda: limelight.explain_data(model, data, output=tmp_path / "run"),
        ),
        "judge": (
            "limelight.judging.judge_methods.read_rows",
            read_rows,
            lambda: limelight.judge(model, data, ["loo"]),
        ),
        "evaluate": (
            "limelight.data.evaluation.read_labeled",
            read_labeled,
            lambda: limelight.evaluate(model, data),
        ),
        "train": (
            "limelight.training.train_classifier.read_labeled",
            read_labeled,
            lambda: limelight.train(data),
        ),
    }[verb]
    monkeypatch.setattr(place, lambda *args, **options: arrives(read(*args, **options)))
    with pytest.raises(ArrivedError) as arrived:
        call()
    return arrived.value.args[0]


def test_a_table_has_the_same_results_as_its_texts(tmp_path):
    def score(texts):
        return [[0.0, float(len(text))] for text in texts]

    model = limelight.wrap(score, classes=["bad", "good"], scale="logit")
    data = pa.table({"body": TEXTS, "class": LABELS, "scores": [1, 2, 3]})
    assert limelight.evaluate(model, data).confusion.tolist() == [[0, 2], [0, 1]]
    judged = [limelight.judge(model, texts, ["loo"]) for texts in (data, TEXTS)]
    assert judged[0].to_json() == judged[1].to_json()
    run = limelight.explain_data(model, data, "loo", output=tmp_path / "run")
    assert run.texts().column("data.scores").to_pylist() == [1, 2, 3]  # "scores" is taken
    assert [e.text for e in run] == TEXTS


def test_each_text_of_a_list_is_looked_up_on_the_disk_once(monkeypatch):
    paths = []
    monkeypatch.setattr(Path, "exists", lambda path: bool(paths.append(str(path))))
    open_data(["a b", "c.csv d", "e"])
    assert paths == ["a b", "c.csv d", "e"]


def test_lists_are_texts_pairs_or_paths(tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    path = write_table(tmp_path / "a.csv", SINGLE[0])
    for texts in (TEXTS, tuple(TEXTS), pd.Series(TEXTS), pl.Series(TEXTS)):
        assert read_texts(texts) == TEXTS
    pairs = list(zip(TEXTS, OTHERS, strict=True))
    assert read_texts(pairs) == pairs
    assert read_texts([path, str(path)]) == TEXTS * 2
    assert read_texts(["see a.csv", "or b.csv, perhaps"]) == ["see a.csv", "or b.csv, perhaps"]
    with pytest.raises(InputError, match=r"there is no data at 'gone\.csv'"):
        read_texts(["gone.csv"])
    for invalid, kind in (
        (["a", 3], "list of int, str"),
        ({3}, "set"),
        (7, "int"),
        ([("a", "b", "c")], "list of tuple"),
    ):
        with pytest.raises(InputError, match=rf"a table or a list of texts, not {kind}\."):
            read_texts(invalid)
    same = (open_data(data).record(store_texts=True) for data in (TEXTS, {"text": TEXTS}))
    assert len({record.files[0].sha256 for record in same}) == 1


def test_a_folder_of_files_is_read_in_the_order_of_their_names(tmp_path):
    for name in ("b.tsv", "a.jsonl.gz"):
        write_table(tmp_path / name, SINGLE[0])
    result = read_labeled(tmp_path)
    assert (result.texts, result.source) == (tuple(TEXTS * 2), tmp_path.name)
    result = read_labeled([tmp_path / "b.tsv", tmp_path / "a.jsonl.gz"])
    assert (result.texts, result.source) == (tuple(TEXTS * 2), "b.tsv, a.jsonl.gz")


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending != "parquet"])
def test_lines_are_read_without_pyarrow(tmp_path, monkeypatch, ending):
    path = write_table(tmp_path / f"a.{ending}", SINGLE[3])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert read_labeled(path).texts == tuple(TEXTS)
    assert read_texts(path, limit=2) == [TEXTS[0], TEXTS[2]]
    with pytest.raises(MissingExtraError, match="a table in memory needs pyarrow"):
        read_labeled(SINGLE[3])


BITS = [
    b"\xff",
    b"\0",
    b'"',
    b"\n",
    b"\r",
    b"{",
    b"]",
    b"\\ud800",
    b"null",
    b"1e999",
    b"NaN",
    b"9" * 5000,
]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
@given(cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), st.sampled_from(BITS))))
def test_a_damaged_file_has_rows_or_raises_an_input_error(tmp_path_factory, ending, cuts):
    marked = [json.dumps([{"start": 0, "end": 1}]), "[[0, 1]]", "[]"]
    tokens = [json.dumps(text.split()) for text in TEXTS]
    table = {"text": TEXTS, "label": [0, 1, 1], "rationales": marked, "tokens": tokens}
    path = write_table(tmp_path_factory.mktemp("damaged") / f"a.{ending}", table)
    content = path.read_bytes()
    for place, length, bits in cuts:
        start = int(place * len(content))
        content = content[:start] + bits + content[start + length :]
    path.write_bytes(content)
    data = []
    for read in (
        lambda: read_labeled(path),
        lambda: read_rationales(path),
        lambda: data.append(open_data(path)),
        lambda: (
            list(data[0].shards(data[0].record(store_texts=True), 2, range(99))) if data else []
        ),
    ):
        with contextlib.suppress(InputError):
            read()
