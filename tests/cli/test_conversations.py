"""Commands read questions with documents, and the messages of a chat."""

import io
import json

import numpy as np
import pytest

from limelight import compare, counterfactual, explain, predict
from limelight.judging.candidates import _read_explanation_file
from limelight.results import Comparison, Counterfactual, Explanation

from chat_models import DOCUMENTS, MESSAGES, QUESTION, chat_model, save_chat_model

ANSWER = "good film"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the model, documents in three kinds of files, and messages."""
    folder = tmp_path_factory.mktemp("chat")
    save_chat_model(folder / "lm")
    (folder / "a.txt").write_text(DOCUMENTS[0]["text"])
    (folder / "rest.json").write_text(json.dumps(DOCUMENTS[1:]))
    (folder / "all.jsonl").write_text("\n\n".join(map(json.dumps, DOCUMENTS)) + "\n")
    (folder / "messages.json").write_text(json.dumps(MESSAGES))
    return folder


def test_a_line_separator_in_a_text_ends_no_line_of_a_file(limelight, folder, tmp_path):
    e = explain(chat_model(), QUESTION, documents=["bad\u2028film", "good"], answer=ANSWER)
    lines = [json.dumps(text, ensure_ascii=False) for text in ("bad\u2028film", "good")]
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    run = limelight(
        *("explain", QUESTION, "--documents", tmp_path / "all.jsonl", "--answer", ANSWER),
        *("--model", folder / "lm", "--format", "json"),
    )
    assert run.code == 0, run.err
    stored = tmp_path / "stored.jsonl"
    stored.write_text(f"{run.out.strip()}\n{e.to_json()}\n", "utf-8")
    first, second = _read_explanation_file(stored)
    assert first.text == second.text == e.text


def test_documents_come_from_files_of_texts_and_json(limelight, folder):
    direct = explain(chat_model(), QUESTION, documents=DOCUMENTS, answer=ANSWER)
    files = [
        ("--documents", folder / "a.txt", "--documents", folder / "rest.json"),
        ("--documents", folder / "all.jsonl"),
    ]
    for documents in files:
        run = limelight(
            *("explain", QUESTION, *documents, "--model", folder / "lm", "--answer", ANSWER),
            *("--format", "json"),
        )
        assert run.code == 0, run.err
        e = Explanation.from_json(run.out)
        assert (e.text, e.features) == (direct.text, ("a.txt", "b.txt", "document 2"))
        np.testing.assert_allclose(e.scores, direct.scores, atol=1e-5)
    other = explain(chat_model(), QUESTION, documents=["bad", "a", "film"], answer=ANSWER)
    with pytest.raises(AssertionError):  # other documents have other scores
        np.testing.assert_allclose(other.scores, direct.scores, atol=1e-5)


@pytest.mark.parametrize("features", ["messages", "sentences", "words"])
def test_messages_come_from_a_file_or_standard_input(limelight, folder, features, monkeypatch):
    options = ("--model", folder / "lm", "--features", features, "--format", "json")
    direct = explain(chat_model(), MESSAGES, features=features, protect=["system", 2])
    protect = ("--protect", "system", "--protect", "2")
    run = limelight("explain", "--messages", folder / "messages.json", *options, *protect)
    e = Explanation.from_json(run.out)
    assert (e.features, e.parts) == (direct.features, direct.parts)
    np.testing.assert_allclose(e.scores, direct.scores, atol=1e-5)
    content = (folder / "messages.json").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert limelight("explain", "--messages", "-", *options, *protect).out == run.out


def test_every_command_for_texts_reads_messages_and_documents(limelight, folder):
    model, options = chat_model(), ("--model", folder / "lm", "--format", "json")
    for arguments, direct in (
        (("--messages", folder / "messages.json"), {"text": MESSAGES}),
        (
            (QUESTION, "--documents", folder / "all.jsonl"),
            {"text": QUESTION, "documents": DOCUMENTS},
        ),
    ):
        (row,) = map(json.loads, limelight("predict", *arguments, *options).out.splitlines())
        wanted = predict(model, **direct)
        assert row["answer"] == wanted["answer"]
        assert row["parts"] == json.loads(json.dumps(wanted["parts"]))
        out = limelight("compare", *arguments, "--methods", "loo,banzhaf", *options).out
        wanted = compare(model, direct["text"], ["loo", "banzhaf"], **_documents(direct))
        for e, other in zip(Comparison.from_json(out), wanted, strict=True):
            np.testing.assert_allclose(e.scores, other.scores, atol=1e-5)
        c = Counterfactual.from_json(limelight("counterfactual", *arguments, *options).out)
        wanted = counterfactual(model, direct["text"], **_documents(direct))
        assert (c.removed, c.parts) == (wanted.removed, wanted.parts)


def _documents(keywords):
    return {name: value for name, value in keywords.items() if name == "documents"}


def test_each_line_is_a_question_about_the_same_documents(limelight, folder, tmp_path):
    questions = [QUESTION, "is the plot bad"]
    (tmp_path / "questions.txt").write_text("\n".join(questions))
    run = limelight(
        *("explain", "--lines", "--file", tmp_path / "questions.txt", "--answer", ANSWER),
        *("--documents", folder / "all.jsonl", "--model", folder / "lm", "--format", "json"),
    )
    results = [Explanation.from_json(line) for line in run.out.splitlines()]
    for question, e in zip(questions, results, strict=True):
        direct = explain(chat_model(), question, documents=DOCUMENTS, answer=ANSWER)
        assert e.text == direct.text
        np.testing.assert_allclose(e.scores, direct.scores, atol=1e-5)


def test_files_of_the_same_name_have_their_paths_as_ids(limelight, folder, tmp_path):
    names = [tmp_path / "x" / "a.txt", tmp_path / "y" / "a.txt"]
    for name in names:
        name.parent.mkdir()
        name.write_text("good film")
    documents = [argument for name in names for argument in ("--documents", name)]
    run = limelight("explain", QUESTION, *documents, "--model", folder / "lm", "--format", "json")
    assert Explanation.from_json(run.out).features == tuple(map(str, names))
