"""Data that cannot be read, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="data sets are read with pyarrow (extra data)")

import pyarrow as pa
import pyarrow.parquet as pq

from limelight.data import LabeledTexts, evaluate, read_labeled, read_rationales, read_rows
from limelight.data.columns import open_data, read_texts
from limelight.data.images import read_labeled_images
from limelight.data.labels import label_classes
from limelight.errors import InputError, MissingExtraError
from messages import exactly, wrong_calls
from written_tables import write_table

from tiny_models import tiny_model

FILM = ["a", "fine", "film"]


def save(name, content):
    """Write a file into the folder of the test."""
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def labeled(name, numbers, texts=("good", "bad", "fine"), **options):
    """Read a table of texts with labels."""
    return read_labeled(
        write_table(Path(name), {"text": texts[: len(numbers)], "label": numbers}), **options
    )


def read_lines(name, content):
    """Read a file of lines, of which a line may have at most 1,000 characters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("limelight.data.files._MAX_CHARACTERS", 1000)
        read_texts(save(name, content))


def read_data(name, content):
    """Read all rows of a data file."""
    data = open_data(save(name, content))
    return list(data.shards(data.record(store_texts=True), 10, range(10)))


def rationales(*, why="rationales", **row):
    """Read the rationale of a text of three tokens."""
    table = {"text": "a fine film", "tokens": FILM, "rationales": [{"start": 1, "end": 3}]} | row
    return read_rationales(save("a.jsonl", json.dumps(table)), why)


def eraser(evidences):
    """Read the evidence for a document of two tokens."""
    Path("docs").mkdir()
    save("docs/a", "x y")
    row = {"annotation_id": "a", "evidences": evidences}
    return read_rationales(save("test.jsonl", json.dumps(row)), "evidences")


def evidence(document, start, end):
    return {"docid": document, "start_token": start, "end_token": end}


def read_without_pyarrow():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        read_labeled(save("d.parquet", b""))


def save_arrays(**arrays):
    np.savez("a.npz", **arrays)
    return "a.npz"


def save_images(cell):
    pq.write_table(pa.table({"image": [cell], "label": [0]}), "c.parquet")
    return "c.parquet"


NO_TEXT = "the text is missing or not a string."
NO_RECORD = "must be lists of records, each with a 'docid'."
UNCLOSED = (
    r"has an unclosed quote, or text after a closing quote \(.*\)\. Write each quote inside a "
    r"quoted cell twice\."
)
MANY_CELLS = r"has 3 cells for 2 columns\. Put quotes around cells that contain a separator\."
SAME_NAMES = "it has two columns 'text'. Rename one of them."
IN_ROWS = "^'{}' cannot be read: the row that begins in line {} {}$"
INPUT_ERRORS = {
    "read_labeled('.')": exactly(
        "'.' has no data files, and 'train/neg' is missing. Check the path."
    ),
    "read_labeled(save('d.csv', 'text,stars\\na,1\\n'))": exactly(
        "'d.csv' has no column 'label', only 'text', 'stars'. Rename a column, or choose one "
        "with label_column (--label-column)."
    ),
    'read_labeled(save(\'d.jsonl\', \'{"text": "a", "label": 0}\\n{"body": "a"}\\n\'))': (
        exactly(f"row 2 of 'd.jsonl': {NO_TEXT}")
    ),
    **{f"labeled('d.{end}', [])": exactly(f"'d.{end}' has no rows.") for end in ("csv", "parquet")},
    **{
        f"labeled('d.{end}', ['neg', 'pos', 'meh'], labels=['neg', 'pos'])": (
            rf"^row 3 of 'd.{end}': the label 'meh' matches no class of the model \('neg', 'pos'\)"
        )
        for end in ("csv", "parquet")
    },
    **{
        f"labeled('d.{end}', [0, 1], ('fine', ' \\t'))": exactly(
            f"row 2 of 'd.{end}' has an empty text. Remove the row."
        )
        for end in ("csv", "parquet")
    },
    "labeled('d.jsonl', [0, 1, 2], labels=['neg', 'pos'])": (
        r"row 3 of 'd\.jsonl': the label '2' matches no class of the model"
    ),
    "labeled('d.jsonl', [0, 4, 4])": exactly(
        "numbers as labels must be 0, 1, … without gaps, but 'd.jsonl' has 0, 4. Set labels "
        "(--labels) to NUMBER=CLASS for each, separated by commas."
    ),
    **{
        f"labeled('d.jsonl', [0, {label}, 1])": exactly(
            f"the label of row 2 of 'd.jsonl' must be a name or a whole number from 0, not {value}."
        )
        for label, value in (("None", "None"), ("float('inf')", "inf"))
    },
    "labeled('d.jsonl', [0], (7,))": exactly(f"row 1 of 'd.jsonl': {NO_TEXT}"),
    "labeled('d.jsonl', [0, 1], ('good', '\\ud800 bad'))": exactly(
        "row 2 of 'd.jsonl': the text must be UTF-8, but its byte 0 is not."
    ),
    **{
        f"read_labeled(save('{name}', {content}))": exactly(
            f"row 1 of '{name}': the {noun} must be UTF-8, but its byte 3 is not."
        )
        for name, content, noun in (
            ("d.csv", b"text,label\ncaf\xe9,1\n", "text"),
            ("d.csv", b"text,label\na,caf\xe9\n", "label"),
            ("d.jsonl", b'{"text": "caf\xe9", "label": 1}\n', "text"),
        )
    },
    "LabeledTexts(['a', 'b'], np.array([0]))": (
        r"texts and labels must have the same length, not 2 and 1\."
    ),
    "evaluate(tiny_model(), LabeledTexts(['w1'], np.array([0]), ('x', 'y'), 'd.csv'))": (
        r"^row 1 of 'd\.csv': the label 'x' matches no class of the model \('class 0', 'class 1'\)"
        r"\. Set "
    ),
    "evaluate(tiny_model(), LabeledTexts(['w1'] * 700 + [';;'], np.zeros(701, int), None, 'd'))": (
        exactly("row 701 of 'd' cannot be read: the text has no words. Give at least one word.")
    ),
    "label_classes('World, World')": r"each class once, not 'World' twice\. To merge labels, write",
    "label_classes(['World', 'World'])": "each class once, not 'World' twice",
    "label_classes('neg=World,neg=Sports')": "each label once, not 'neg' twice",
    "label_classes({1: 'World', '1.0': 'Sports'})": "each label once, not '1' twice",
    "read_texts({'text': [1, 2], 'other': [0.5, 1.5]})": (
        r"the column 'text' of 'memory' must contain texts, not int64\."
    ),
    "read_texts({'Review': [1, 2], 'other': [0.5, 1.5]})": (
        r"the column 'Review' of 'memory' must contain texts, not int64\."
    ),
    "read_texts({'body': [1, 2], 'other': [0.5, 1.5]})": (
        r"the column 'body' of 'memory' must contain texts, not int64\."
    ),
    **{
        f"read_texts(save('{name}', {content!r}))": IN_ROWS.format(name, line, problem)
        for name, content, line, problem in (
            ("a.csv", 'text,label\n"a good film,pos\na bad film,neg\nfine,pos\n', 2, UNCLOSED),
            (
                "a.csv",
                'text,label\nx,neg\n"a good film,pos\na bad film,neg\n"fine",pos\n',
                3,
                UNCLOSED,
            ),
            ("a.csv", "text,label\na good, long film,pos\n", 2, MANY_CELLS),
            ("a.tsv", "text\tlabel\na\tb\tpos\n", 2, MANY_CELLS),
            ("a.tsv", 'text\tlabel\nx\ty\n"a\tb\tpos\n', 3, UNCLOSED),
        )
    },
    "read_texts(save('a.csv', 'text,label,text\\nx,y,z\\n'))": exactly(
        f"'a.csv' cannot be read: {SAME_NAMES}"
    ),
    **{
        f"read_lines('{name}', {content})": r"line 2 of '.*' must have at most 1,000 characters"
        for name, content in (
            ("a.csv", "b'text\\n' + b'x' * 5000"),
            ("a.jsonl", "b'text\\n' + b'x' * 5000"),
            ("a.csv.gz", "gzip.compress(b'text\\n' + b'x' * 5000)"),
        )
    },
    "open_data('data.csv')": r"^there is no data at 'data\.csv'\. Check the path\.",
    "read_data('data.csv', b'')": r"^'data\.csv' has no rows\.",
    "read_data('data.csv', b'text\\n')": r"^'data\.csv' has no rows\.",
    "read_data('data.csv.gz', gzip.compress(b''))": r"^'data\.csv\.gz' has no rows\.",
    "read_data('data.jsonl', b'')": r"^'data\.jsonl' has no rows\.",
    "read_data('data.jsonl', b'\\n\\n')": r"^'data\.jsonl' has no rows\.",
    "read_data('data.jsonl', b'text\\nno json\\n')": (
        r"^'data\.jsonl' must have one JSON object per line\."
    ),
    "read_data('data.jsonl.gz', b'no such thing')": (
        r"^'data\.jsonl\.gz' is not a complete gzip file\."
    ),
    "read_data('data.parquet', b'PAR1 and nothing else')": (
        r"^'data\.parquet' is not a complete Parquet file \(Parquet "
    ),
    "read_data('data.csv', b'text,text\\na,b\\n')": f"^'data.csv' cannot be read: {SAME_NAMES}",
    "read_data('data.xlsx', b'')": (
        r"^cannot read 'data\.xlsx'\. Use \.parquet, \.csv, \.tsv or \.jsonl \(the last three may "
        r"end in \.gz\), or for images a folder or an \.npz file\."
    ),
    "open_data('.')": r"has no \.parquet, \.csv, \.tsv or \.jsonl file",
    "open_data(3)": r"not int\. Write texts in memory as {'text': \[…\]}",
    "open_data([])": r"the data are empty\. Give a file",
    "open_data([save('a.csv', 'text\\na\\n'), 'b.cvs'])": (
        r"'b\.cvs' is not a file, but 'a\.csv' is\. Check the path, or write"
    ),
    "open_data({'sentence': ['a', 'c'], 'other': ['x', 'y']}, pair='sentence')": (
        "text_column and pair_column must be different columns, but both are 'sentence'"
    ),
    "open_data({'label': ['1', '0']})": "has no column 'text'",
    "open_data({'a': ['x'], 'b': ['x']}, text='a', messages='b')": (
        r"text_column \(--text-column\) or messages_column"
    ),
    "open_data({'a': ['x'], 'b': ['x']}, pair='a', messages='b')": (
        r"pair_column \(--pair-column\) is for pairs"
    ),
    "open_data({'a': ['x'], 'b': ['x']}, pair='a', documents='b')": (
        r"pair_column \(--pair-column\) is for pairs"
    ),
    "open_data({'a': ['x']}, messages='b')": "has no column 'b'.*--messages-column",
    "open_data({'a': ['x']}, documents='b')": "has no column 'b'.*--documents-column",
    "open_data({'question': ['x'], 'sources': [1]}, documents='sources')": (
        "must contain lists, not int64"
    ),
    "open_data({'b': ['y'], 'text': ['z']}, text='b', pair='b')": (
        "must be different columns, but both are 'b'"
    ),
    "open_data({'b': ['y'], 'text': ['z']}, pair='text')": (
        "must be different columns, but both are 'text'"
    ),
    "read_rows(str(Path(save('notes.txt', 'nothing')).parent))": "and no images",
    "read_rows(save_arrays(y=np.arange(3)))": "must have one array of images",
    "read_rows(save('b.npz', b'PK'))": (
        r"b\.npz' must be a file of numeric arrays\. Write it with np\.savez\."
    ),
    "read_labeled_images(save_images({'bytes': b'x', 'path': None}))": (
        "text 0 .*cannot be read as an image"
    ),
    "read_rows(str(Path(save('a\\udcff.png', b'')).parent))": "must be UTF-8",
    "rationales(tokens=['a', 'film'])": (
        "the tokens of row 1 .* must match its text, but 'film' does not"
    ),
    "rationales(tokens=[3.5])": "must match its text, but 3.5 does not.",
    "rationales(tokens=None)": "must match its text, but None does not.",
    "rationales(rationales=[{'start': 1, 'end': 9}])": "must be within its 3 tokens, not 1 to 9.",
    "rationales(rationales=[{'start': 3, 'end': 2}])": "must be within its 3 tokens, not 3 to 2.",
    "rationales(rationales=[{'start': 3}])": "must have 'start' and 'end' as whole numbers",
    "rationales(rationales=[{'start': 3, 'end': float('nan')}])": "as whole numbers",
    "rationales(rationales=[{'start': 3, 'end': float('inf')}])": "as whole numbers",
    'read_rationales(save(\'a.jsonl\', \'{"text": "a", "why": []}\'))': (
        r"no column 'rationales', only 'text', 'why'\. Choose .* \(--rationales\)\."
    ),
    'read_rationales(save(\'a.jsonl\', \'{"text": "a", "why": [{"start": 0}]}\'), \'why\')': (
        "no column 'tokens'"
    ),
    "read_rationales(save('a.jsonl', '{\"a\": \"b\", \"why\": []}'), 'why', text_column='body')": (
        r"no column 'body'.* choose one with text_column"
    ),
    "eraser([[evidence('a', 0, 9)]])": "must be within its 2 tokens, not 0 to 9.",
    "eraser([[evidence('a', 0, 1)], [evidence('b', 0, 1)]])": "must be in one document, not 2.",
    "eraser([[evidence('../secret', 0, 1)]])": "must be a file in",
    "eraser([[evidence('gone', 0, 1)]])": "the document 'gone' of 'a' .* must be a file in",
    "eraser([{'docid': 'a'}])": NO_RECORD,
    "eraser(7)": NO_RECORD,
}
EXTRA_ERRORS = {
    "read_without_pyarrow()": (
        r"^reading parquet files needs pyarrow\. .*run: pip install .*\[data\]"
    )
}


@wrong_calls({InputError: INPUT_ERRORS, MissingExtraError: EXTRA_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        eval(call)
