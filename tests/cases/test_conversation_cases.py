"""Cases with documents and messages: their parts are the features that a check names."""

import json

import pytest

from limelight import counterfactual, explain
from limelight.cases.case_file import read_case_file
from limelight.cases.check_cases import check_cases
from limelight.errors import InputError

pytest.importorskip("torch", reason="language models need torch")

from chat_models import DOCUMENTS, MESSAGES, QUESTION, chat_model

ANSWER = "good film"


def write_cases(folder, *lines):
    (folder / "checks.toml").write_text("\n".join(["[[case]]", *lines]))
    return read_case_file(folder / "checks.toml")


def write_tables(values):
    """Write strings and dictionaries of strings as TOML."""
    tables = [
        json.dumps(value)
        if isinstance(value, str)
        else f"{{{', '.join(f'{key} = {json.dumps(text)}' for key, text in value.items())}}}"
        for value in values
    ]
    return f"[{', '.join(tables)}]"


DOCUMENT_LINES = [
    f'text = "{QUESTION}"', f"documents = {write_tables(DOCUMENTS)}", f'answer = "{ANSWER}"'
]  # fmt: skip
CHAT_LINES = [f"messages = {write_tables(MESSAGES)}"]


@pytest.mark.parametrize(
    ("lines", "keywords"),
    [
        (DOCUMENT_LINES, {"text": QUESTION, "documents": DOCUMENTS, "answer": ANSWER}),
        (CHAT_LINES, {"text": MESSAGES}),
    ],
    ids=["documents", "messages"],
)
def test_the_strongest_part_is_certain_and_another_is_not(tmp_path, lines, keywords):
    model, text = chat_model(), keywords.pop("text")
    e = explain(model, text, **keywords)
    ranked = sorted(zip(abs(e.scores), e.features, strict=True), reverse=True)
    radius = counterfactual(model, text, **keywords).certified_radius
    cases = write_cases(
        tmp_path,
        *lines,
        f'certain_top = {{word = "{ranked[0][1]}", k = 1}}',
        f"certified_radius = {radius + 1}",
    )
    top, certificate = check_cases(cases, model)
    assert top.outcome == "passed"
    assert certificate.outcome == "failed"
    assert f"certified radius {radius}" in certificate.sentence
    cases = write_cases(tmp_path, *lines, f'certain_top = {{word = "{ranked[-1][1]}", k = 1}}')
    (last,) = check_cases(cases, model)
    assert last.outcome == "failed"
    with pytest.raises(InputError, match="the text has no word 'none'"):
        list(
            check_cases(
                write_cases(tmp_path, *lines, 'certain_top = {word = "none", k = 1}'), model
            )
        )
