"""Rationales from files: characters, tokens, ERASER's own layout, and what is wrong with a file."""

import json
from pathlib import Path

import pytest

from limelight import InputError
from limelight.data import read_rationales

MOVIES = Path(__file__).resolve().parents[3] / "shared" / "data" / "eraser_movies"
TEXT = "a fine  film .\nit bores me"


def jsonl(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_spans_of_characters_are_taken_as_they_are(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", {"text": TEXT, "why": [[2, 6]]}, {"text": "b", "why": None})
    assert read_rationales(path, "why") == ([TEXT, "b"], [[[2, 6]], None])
    assert read_rationales(path, "why", limit=1) == ([TEXT], [[[2, 6]]])


def test_a_csv_file_spells_them_as_json(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('body,why\na fine film,"[[2, 6]]"\nb c,\n')
    assert read_rationales(path, "why", text_column="body").rationales == [[[2, 6]], None]
    path.write_text('body,why,tokens\na fine film,"[[2, 6]]",a fine film\n')
    assert read_rationales(path, "why").rationales == [[[2, 6]]]  # no tokens are counted
    tokens = [{"start": 1, "end": 2}], ["a", "fine", "film"]
    cells = (json.dumps(record).replace('"', '""') for record in tokens)
    path.write_text('body,why,tokens\na fine film,"{}","{}"\n'.format(*cells))
    assert read_rationales(path, "why").rationales == [[(2, 6)]]
    path.write_text("body,why\na fine film,2-6\n")
    with pytest.raises(
        InputError, match=r"of row 1 of .* must be JSON such as \[\[0, 5\]\], not '2-6'\."
    ):
        read_rationales(path, "why", text_column="body")


def test_records_count_tokens(tmp_path):
    row = {"text": TEXT, "tokens": TEXT.split(), "rationales": [{"start": 1, "end": 3}]}
    other = {"text": TEXT, "tokens": TEXT.split(), "rationales": None}
    empty = {"text": TEXT, "tokens": TEXT.split(), "rationales": [{"start": 7, "end": 7}]}
    rationale_texts = read_rationales(jsonl(tmp_path / "a.jsonl", row, other, empty))
    assert rationale_texts.rationales == [[(2, 12)], None, []]
    assert TEXT[2:12] == "fine  film"


def evidence(model_input, start, end):
    return {"docid": model_input, "start_token": start, "end_token": end, "text": "…"}


def test_erasers_own_files_are_read_with_their_documents(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "pos_1.txt").write_text(TEXT)
    (tmp_path / "docs" / "neg_2.txt").write_text("dull")
    path = jsonl(
        tmp_path / "test.jsonl",
        {
            "annotation_id": "pos_1.txt",
            "evidences": [[evidence("pos_1.txt", 0, 2)], [evidence("pos_1.txt", 4, 7)]],
            "classification": "POS",
        },
        {"annotation_id": "neg_2.txt", "evidences": [], "classification": "NEG"},
    )
    rationale_texts = read_rationales(path, "evidences")
    assert rationale_texts.texts == [TEXT, "dull"]
    assert [TEXT[a:b] for a, b in rationale_texts.rationales[0]] == ["a fine", "it bores me"]
    assert rationale_texts.rationales[1] == []


@pytest.mark.skipif(not MOVIES.exists(), reason="needs ../shared/data/eraser_movies")
def test_the_movies_of_eraser_have_their_rationales_where_they_say():
    pq = pytest.importorskip("pyarrow.parquet")
    rationale_texts = read_rationales(MOVIES / "test.parquet")
    rows = pq.read_table(MOVIES / "test.parquet").to_pylist()
    assert len(rationale_texts.texts) == 199
    for text, spans, row in zip(*rationale_texts, rows, strict=True):
        texts_marked = [
            record["text"] for record in row["rationales"] if record["start"] < record["end"]
        ]
        assert [" ".join(text[a:b].split()) for a, b in spans] == texts_marked
