"""Runs over questions with documents and over chats: columns, engines, resuming, exports."""

import csv
import io
import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import limelight
from limelight.data.columns import open_data, read_rows
from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")
pytest.importorskip("torch", reason="language models need torch")

from limelight.runs.columns import text_columns
from limelight.text import Conversation
from written_tables import ENDINGS, write_table

from chat_models import MESSAGES, QUESTION, chat_model, save_chat_model

QUESTIONS = [QUESTION, "is the plot bad", "the film"]
LISTS = [
    [{"id": "a", "text": "A superb film. The plot is good."}, {"id": "b", "text": "bad plot"}],
    [{"id": "c", "text": "The plot is predictable."}, {"id": "a", "text": "good film"}],
    [{"id": "d", "text": "bad"}],
]
ANSWERS = ["good film", "bad", "the plot"]
CHATS = [MESSAGES, MESSAGES[1:], MESSAGES[2:]]
DOCUMENT_DATA = {"question": QUESTIONS, "sources": LISTS, "answer": ANSWERS}
DOCUMENT_OPTIONS = {"documents_column": "sources", "answer_column": "answer"}
CHAT_DATA = {"id": ["x", "y", "z"], "chat": CHATS}
CHAT_OPTIONS = {"messages_column": "chat"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_chat_model(tmp_path_factory.mktemp("chat") / "lm")


@pytest.fixture(scope="module")
def model():
    return chat_model()


def explain_row(model, row, kind, method="loo", **options):
    """Explain a row of the data without a run."""
    if kind == "documents":
        options |= {"documents": LISTS[row], "answer": ANSWERS[row]}
        return limelight.explain(model, QUESTIONS[row], method, **options)
    return limelight.explain(model, CHATS[row], method, **options)


def run_options(kind):
    return {"documents": DOCUMENT_OPTIONS, "messages": CHAT_OPTIONS}[kind]


def write_data(folder, kind, ending):
    """Write the data; a format without lists gets them as JSON."""
    columns = {"documents": DOCUMENT_DATA, "messages": CHAT_DATA}[kind]
    if not ending.startswith(("parquet", "jsonl")):
        columns = {
            name: [cell if isinstance(cell, str) else json.dumps(cell) for cell in cells]
            for name, cells in columns.items()
        }
    return write_table(folder / f"data.{ending}", columns)


def assert_equal(e, direct):
    """Compare a stored explanation, whose numbers are float32, with a direct one."""
    assert (e.text, e.features, e.parts) == (direct.text, direct.features, direct.parts)
    assert (e.spans, e.query, e.target) == (direct.spans, direct.query, direct.target)
    np.testing.assert_allclose(e.scores, direct.scores, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["documents", "messages"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_of_any_format_gives_the_explanations_of_explain(model, tmp_path, kind, ending):
    path = write_data(tmp_path, kind, ending)
    output = tmp_path / "run"
    run = limelight.explain_data(model, path, "loo", output=output, **run_options(kind))
    assert (len(run), run.failed) == (3, 0)
    for row in range(3):
        assert_equal(run.explanation(row), explain_row(model, row, kind))
    with pytest.raises(AssertionError):  # another row has other scores
        assert_equal(run.explanation(0), explain_row(model, 1, kind))


@pytest.mark.parametrize("kind", ["documents", "messages"])
@pytest.mark.parametrize(
    "options",
    [
        {"features": "sentences"},
        {"features": "words"},
        {"protect": ["system", 0]},
        {"budget": "12 calls"},
    ],
)
def test_options_of_a_run_are_those_of_explain(model, tmp_path, kind, options):
    data = {"documents": DOCUMENT_DATA, "messages": CHAT_DATA}[kind]
    run = limelight.explain_data(
        model, data, "banzhaf", output=tmp_path / "run", limit=2, **run_options(kind), **options
    )
    for row in range(2):
        assert_equal(run.explanation(row), explain_row(model, row, kind, "banzhaf", **options))


@pytest.mark.parametrize("kind", ["documents", "messages"])
def test_all_engines_write_the_same_and_a_lost_shard_is_computed_again(folder, tmp_path, kind):
    path, model = write_data(tmp_path, kind, "parquet"), limelight.load(folder)
    options = {**run_options(kind), "shard_texts": 1}

    def explain_run(name, **engine):
        run = limelight.explain_data(
            model, path, ["loo", "banzhaf"], output=tmp_path / name, **options, **engine
        )
        assert run.failed == 0
        return {file.name: file.read_bytes() for file in run.path.rglob("*") if file.is_file()}

    wanted = explain_run("here")
    (tmp_path / "here" / "shards").iterdir().__next__().unlink()
    assert explain_run("here") == wanted
    with ThreadPoolExecutor(2) as threads:
        assert explain_run("threads", executor=threads) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["documents", "messages"])
def test_other_processes_restore_conversations(folder, tmp_path, kind, limelight):
    path, model = write_data(tmp_path, kind, "jsonl"), limelight_model(folder)
    options = run_options(kind)
    here = explain_files(model, path, tmp_path / "here", **options)
    with ProcessPoolExecutor(1) as processes:
        assert explain_files(model, path, tmp_path / "pool", executor=processes, **options) == here
    names = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    run = limelight(
        *("explain-data", path, "--model", folder, "--method", "loo", "--shard-texts", "1"),
        *("--engine", "pool", "--workers", "2", "--output", tmp_path / "shell", *names),
    )
    assert run.code == 0, run.err
    assert shards(tmp_path / "shell") == here


def limelight_model(folder):
    return limelight.load(folder)


def explain_files(model, path, output, **options):
    limelight.explain_data(model, path, "loo", output=output, shard_texts=1, **options)
    return shards(output)


def shards(output):
    return {file.name: file.read_bytes() for file in (output / "shards").iterdir()}


def test_a_list_of_chats_needs_no_column(model, tmp_path):
    run = limelight.explain_data(model, CHATS, "loo", output=tmp_path / "run")
    assert run.record.data.columns.messages == "messages"
    for row in range(3):
        assert_equal(run.explanation(row), explain_row(model, row, "messages"))


def test_other_documents_are_another_run(model, tmp_path):
    def explain_run(lists):
        data = {**DOCUMENT_DATA, "sources": lists}
        output = tmp_path / "run"
        return limelight.explain_data(model, data, "loo", output=output, **DOCUMENT_OPTIONS)

    explain_run(LISTS)
    explain_run(LISTS)
    with pytest.raises(InputError, match=r"its file 0 \(by SHA-256\) is"):
        explain_run([LISTS[0], LISTS[1], [{"id": "d", "text": "good"}]])
    data = {"question": QUESTIONS, "other": LISTS, "answer": ANSWERS}
    options = DOCUMENT_OPTIONS | {"documents_column": "other"}
    with pytest.raises(InputError, match="its column for documents is 'sources', not 'other'"):
        limelight.explain_data(model, data, "loo", output=tmp_path / "run", **options)


def test_a_row_without_a_conversation_gets_its_error(model, tmp_path):
    chats = [json.dumps(MESSAGES), "", "{", '["a"]', json.dumps([{"role": "user"}]), None]
    run = limelight.explain_data(
        model, {"chat": chats}, "loo", output=tmp_path / "run", **CHAT_OPTIONS
    )
    assert_equal(run.explanation(0), explain_row(model, 0, "messages"))
    errors = dict(zip(*(run.errors()[name].to_pylist() for name in ("row", "error")), strict=True))
    starts = {
        1: "the messages are missing.",
        2: "the cell of messages is not valid JSON (",
        3: "the cell of messages must be a list of messages with roles, or such a list as JSON",
        4: "message 0 (user) must have a content or tool calls.",
        5: "the messages are missing.",
    }
    assert errors.keys() == starts.keys()
    for row, start in starts.items():
        assert errors[row].startswith(start)
    lists = [json.dumps(["bad film", "good"]), "", '{"a": 1}', "[]", '[{"id": 1}]']
    data = {"question": [QUESTION] * 5, "sources": lists}
    run = limelight.explain_data(
        model, data, "loo", output=tmp_path / "b", documents_column="sources", answer="good film"
    )
    assert run.explanation(0).features == ("document 0", "document 1")
    assert [error.partition(" must ")[0] for error in run.errors()["error"].to_pylist()] == [
        "the documents are missing.",
        "the cell of documents",
        "documents",
        "document 0",
    ]


def test_each_sentence_of_an_answer_has_a_row(model, tmp_path):
    chats = [[*MESSAGES[:-1], {"role": "assistant", "content": "good film. bad plot."}]]
    run = limelight.explain_data(
        model, {"chat": chats}, "loo", output=tmp_path / "run", sentences=True, **CHAT_OPTIONS
    )
    direct = limelight.explain_sentences(model, chats[0], "loo")
    assert len(run) == 2
    for row, e in enumerate(direct):
        assert_equal(run.explanation(row), e)


def test_a_run_without_texts_stores_neither_prompt_nor_question(model, tmp_path):
    run = limelight.explain_data(
        model, DOCUMENT_DATA, "loo", output=tmp_path / "run", store_texts=False, **DOCUMENT_OPTIONS
    )
    (table,) = run.tables()
    assert "is the film good" not in json.dumps(table.to_pylist())
    direct = explain_row(model, 0, "documents")
    assert_equal(run.explanation(0, text=direct.text), direct)
    with pytest.raises(InputError, match="text must be text 0 of the run"):
        run.explanation(0, text=explain_row(model, 1, "documents").text)


def test_tables_and_files_of_a_run_name_the_documents(model, tmp_path):
    run = limelight.explain_data(
        model, DOCUMENT_DATA, "loo", output=tmp_path / "run", **DOCUMENT_OPTIONS
    )
    rows = list(csv.DictReader(io.StringIO(run.to_csv())))
    assert [(row["text_number"], row["part"], row["feature"]) for row in rows] == [
        ("0", "a", "a"), ("0", "b", "b"), ("1", "c", "c"), ("1", "a", "a"), ("2", "d", "d"),
    ]  # fmt: skip
    parts = json.loads(run.explanation(1).to_json())["parts"]
    assert [part["id"] for part in parts] == ["c", "a"]
    words = {row["word"]: row["texts"] for row in run.words().to_pylist()}
    assert words == {"a": 2, "b": 1, "c": 1, "d": 1}
    ids = run.sql("SELECT row, unnest(parts).id AS id FROM stored ORDER BY row, id")
    assert ids["id"].to_pylist() == ["a", "b", "a", "c", "d"]
    assert "<html" in run.summary("loo").as_html()
    # The prompts begin with the same words, so the table of the app shows the questions.
    assert text_columns(run)["opening"].to_pylist() == QUESTIONS


HARD = 'a "quoted", \\ text;\twith\r\nlines, Ünïcode 😀, <b>, \x01 and \u2028'


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_conversation_is_a_cell_of_any_format(tmp_path, ending):
    calls = [{"id": "1", "function": {"name": "look", "arguments": '{"city": "\\"B\\""}'}}]
    conversations = [
        Conversation.from_documents(HARD, [{"id": HARD, "title": HARD, "text": HARD}, "b"]),
        Conversation.from_messages([*MESSAGES[:-1], {"role": "assistant", "tool_calls": calls}]),
        Conversation.from_messages(
            [
                {"role": "user", "content": HARD},
                {"role": "assistant", "content": "<think>a. b.</think>good"},
            ]
        ).split_reasoning(),
    ]
    cells = [conversation.cell for conversation in conversations]
    path = write_table(tmp_path / f"data.{ending}", {"chat": cells})
    assert read_rows(path, messages_column="chat").texts == conversations
    assert [Conversation.from_cell(cell) for cell in cells] == conversations


@pytest.mark.parametrize("name", ["question", "query", "prompt", "text", "anything"])
def test_the_column_of_the_questions_is_found(name):
    columns = open_data({name: ["x"], "sources": [["a"]]}, documents="sources").columns
    assert (columns.text, columns.documents, columns.pair) == (name, "sources", None)


def test_a_text_that_looks_like_a_stored_conversation_is_an_error_of_its_row(tmp_path):
    texts = [Conversation.from_documents("a", ["b"]).cell, "\x1econversation\x1e{", "a film"]
    run = limelight.explain_data(limelight.load(), {"text": texts}, "loo", output=tmp_path / "x")
    assert run.errors()["row"].to_pylist() == [0, 1]
    assert run.explanation(2).text == "a film"
