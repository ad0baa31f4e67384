"""Citations of a language model's answer: documents, their sentences, and all subsets of them."""

from itertools import product

import numpy as np
import pytest
from test_next_token import language_model

import limelight

QUESTION = "the plot ?"
DOCUMENTS = [
    {"id": "review", "text": "A superb film. The plot is bad."},
    {"id": "note", "text": "Good film."},
    {"id": "empty", "text": "film film"},
]
ANSWER = "good film. bad plot."


@pytest.fixture(scope="module")
def model():
    network, tokenizer = language_model("llama")
    # The tiny model reads 24 tokens.
    return limelight.wrap(network, tokenizer=tokenizer, template="{documents} {question}")


def banzhaf_values(model, features, statement):
    """Return the Banzhaf value of each feature by its definition, over all subsets."""
    game = limelight.game(model, QUESTION, documents=DOCUMENTS, answer=ANSWER, features=features)
    d = len(game)
    masks = np.array(list(product([False, True], repeat=d)))
    outputs = statement(game(masks))
    return np.array([outputs[masks[:, j]].mean() - outputs[~masks[:, j]].mean() for j in range(d)])


def test_a_statement_cites_the_documents_with_a_positive_value(model):
    sentences = limelight.explain_sentences(model, QUESTION, documents=DOCUMENTS, answer=ANSWER)
    citations = sentences.citations()
    assert citations.statements == ("good film.", "bad plot.")
    # The outputs of a game are of the complete answer, so values are compared as a sum.
    total = banzhaf_values(model, "documents", lambda outputs: np.asarray(outputs).reshape(-1))
    scores = np.stack([e.scores for e in sentences])
    np.testing.assert_allclose(scores.sum(axis=0), total, atol=1e-4)
    ids = np.array(["review", "note", "empty"])
    for row, cited in zip(scores, citations.sources, strict=True):
        assert set(cited) == set(ids[row > 1e-4].tolist())
    assert any(citations.sources)


def test_the_source_of_a_sentence_is_its_document(model):
    sentences = limelight.explain_sentences(
        model, QUESTION, documents=DOCUMENTS, answer=ANSWER, features="sentences"
    )
    citations = sentences.citations()
    assert citations.source_names == ("review", "review", "note", "empty")
    for features, cited in zip(citations.features, citations.sources, strict=True):
        assert cited == tuple(dict.fromkeys(citations.source_names[j] for j in features))
    names = [
        note.split(":")[1].strip() for note in citations.to_markdown().splitlines() if "]: " in note
    ]
    assert set(names) <= {"review", "note", "empty", "No source is certain."}


def test_sampled_scores_cite_with_errors_and_files_without_draws_do_not(model):
    sentences = limelight.explain_sentences(
        model, QUESTION, "shapley", documents=DOCUMENTS, answer=ANSWER, features="words", pairs=20
    )
    citations = sentences.citations()
    scores = np.stack([e.scores for e in sentences])
    assert (citations.limits < scores).all()
    assert not citations.warnings
    loaded = tuple(limelight.Explanation.from_json(e.to_json()) for e in sentences)
    from_files = limelight.SpanExplanations(sentences.text, loaded).citations()
    assert from_files.sources == ((), ())
    assert len(from_files.warnings) == 1
    assert limelight.Citations.from_json(citations.to_json()) == citations


def test_a_method_without_known_errors_cites_nothing(model):
    sentences = limelight.explain_sentences(
        model, QUESTION, "context-cite", documents=DOCUMENTS, answer=ANSWER, features="words",
        samples=24,
    )  # fmt: skip
    citations = sentences.citations()
    assert citations.sources == ((), ())
    assert "'banzhaf' or 'shapley'" in citations.warnings[0]


def test_differences_accept_ids_and_roles(model):
    messages = [
        {"role": "user", "content": "the plot ?"},
        {"role": "tool", "content": "bad plot. bad film."},
        {"role": "assistant", "content": "good film."},
    ]
    e = limelight.explain(model, messages, features="sentences", answer="good film.")
    tool, user = (
        np.array([part.endswith(role) for part in e.part_names]) for role in ("tool", "user")
    )
    expected = e.scores[tool].sum() - e.scores[user].sum()
    assert e.difference("tool", "user").value == pytest.approx(expected)
    assert e.difference("1 tool", "0 user").value == pytest.approx(expected)
