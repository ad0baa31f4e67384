"""Methods that score documents and messages, judged against all ablations by direct calls."""

import json

import numpy as np
import pytest

import limelight
from limelight import Judgment
from limelight.data import read_rows
from limelight.errors import InputError

pytest.importorskip("torch", reason="language models need torch")

from chat_models import (
    DOCUMENTS,
    MESSAGES,
    QUESTION,
    chat_model,
    chat_network,
    save_chat_model,
    subset_outputs,
)

ANSWER = "good film"
METHODS = ["loo", "banzhaf"]


@pytest.fixture(scope="module")
def model():
    return chat_model()


def assert_judged(text, e, methods):
    """Compare the deletion curve of each method with calls of the network for all subsets."""
    values = subset_outputs(*chat_network(), e, ANSWER)
    d = len(e.features)
    full = values[(True,) * d]
    assert text.full == pytest.approx(full, abs=1e-4)
    for method, scores in methods.items():
        keep, remaining = [True] * d, []
        for j in np.argsort(-scores, kind="stable"):
            keep[j] = False
            remaining.append(values[tuple(keep)])
        assert text.deletion.areas[method] == pytest.approx(full - np.mean(remaining), abs=1e-4)
    assert text.deletion.ceiling >= max(text.deletion.areas.values()) - 1e-9


def test_documents_are_removed_one_after_the_other(model):
    lists = [DOCUMENTS, ["bad film", "the plot is good", "a film"]]
    judgment = limelight.judge(
        model, [QUESTION, "the plot"], METHODS, documents=lists, answer=ANSWER
    )
    for question, documents, text in zip(
        [QUESTION, "the plot"], lists, judgment.texts, strict=True
    ):
        scores = {
            method: limelight.explain(model, question, method, documents=documents, answer=ANSWER)
            for method in METHODS
        }
        assert list(text.words) == list(scores["loo"].features)
        assert_judged(text, scores["loo"], {name: e.scores for name, e in scores.items()})
    with pytest.raises(AssertionError):  # the scores of another method have another area
        assert_judged(text, scores["loo"], {"loo": -scores["loo"].scores})
    assert Judgment.from_json(judgment.to_json()) == judgment
    assert "b.txt" in judgment.to_html()


def test_messages_are_removed_one_after_the_other(model):
    chats = [MESSAGES, [*MESSAGES[1:-1], {"role": "assistant", "content": ANSWER}]]
    judgment = limelight.judge(model, chats, METHODS)
    for chat, text in zip(chats, judgment.texts, strict=True):
        explanations = {method: limelight.explain(model, chat, method) for method in METHODS}
        scores = {name: e.scores for name, e in explanations.items()}
        assert_judged(text, explanations["loo"], scores)
    (single,) = limelight.judge(model, MESSAGES, METHODS).texts
    assert single.deletion.areas == judgment.texts[0].deletion.areas


def test_stored_explanations_of_chats_are_judged(model):
    stored = [limelight.explain(model, MESSAGES, "loo")]
    judgment = limelight.judge(model, MESSAGES, {"loo": "loo", "file": stored})
    areas = judgment.texts[0].deletion.areas
    assert areas["file"] == areas["loo"]


def test_the_shell_judges_columns_of_conversations(model, limelight, tmp_path):
    folder = save_chat_model(tmp_path / "lm")
    rows = [{"question": QUESTION, "sources": DOCUMENTS, "answer": ANSWER, "chat": MESSAGES}] * 2
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for columns, texts, options in (
        (
            ("--documents-column", "sources", "--answer-column", "answer"),
            {"documents_column": "sources"},
            {"answer": ANSWER},
        ),
        (("--messages-column", "chat"), {"messages_column": "chat"}, {}),
    ):
        run = limelight(
            *("judge", "--data", tmp_path / "data.jsonl", "--model", folder, *columns),
            *("--methods", "loo,banzhaf", "--columns", "none", "--format", "json"),
        )
        assert run.code == 0, run.err
        judgment = judge_file(model, tmp_path / "data.jsonl", texts, options)
        for text, other in zip(Judgment.from_json(run.out).texts, judgment.texts, strict=True):
            assert text.deletion.areas == pytest.approx(other.deletion.areas, abs=1e-5)
            assert text.words == other.words


def judge_file(model, path, columns, options):
    return limelight.judge(model, read_rows(path, **columns), METHODS, columns=[], **options)


def test_inputs_of_other_kinds_raise_an_error(model, tmp_path):
    with pytest.raises(InputError, match="rationales need texts, not chats or documents"):
        limelight.judge(model, MESSAGES, METHODS, rationales=[[0, 1]])
    with pytest.raises(InputError, match="documents needs a list of questions as texts"):
        limelight.judge(model, {"text": [QUESTION]}, METHODS, documents=[DOCUMENTS])
    with pytest.raises(InputError, match="one list for each of the 1 questions, not 2"):
        limelight.judge(model, [QUESTION], METHODS, documents=[DOCUMENTS] * 2)
