"""The app explains chats and questions with documents as the library does."""

import json

import msgspec
import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")
pytest.importorskip("torch", reason="language models need torch")

from test_typing_page import link

import limelight
from limelight.errors import InputError
from limelight.serving.app import ServedModel, model_facts
from limelight.serving.texts import (
    MAX_CHARACTERS,
    SECTIONS,
    TextRequest,
    compute_sections,
    explain_text,
    export_explanations,
    parse_request,
)

from browsing import wait_until
from chat_models import MESSAGES, QUESTION, chat_model

TEXTS = ["A superb film. The plot is good.", "The plot is predictable.", "bad film"]
DOCUMENTS = [{"id": f"document {i}", "text": text} for i, text in enumerate(TEXTS)]
CHAT = {"text": json.dumps(MESSAGES), "messages": True}
QUESTION_REQUEST = {"text": QUESTION, "documents": TEXTS}
HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)"> & film'


@pytest.fixture(scope="module")
def model():
    return chat_model()


def make_request(**fields):
    return TextRequest(**{"tab": "t", "panel": "p", "features": "auto", **fields})


def encode_answer(model, **fields):
    answer = explain_text(model, make_request(**fields), lambda *_: None)
    return msgspec.json.decode(msgspec.json.encode(answer))


def read_explanation(answer):
    (output,) = answer["explanations"]
    return limelight.Explanation.from_json(msgspec.json.encode(output))


def same_scores(answer, direct):
    e = read_explanation(answer)
    assert (e.text, e.features, e.parts) == (direct.text, direct.features, direct.parts)
    assert e.scores == pytest.approx(direct.scores, abs=1e-5)


@pytest.mark.parametrize("features", ["auto", "sentences", "words"])
def test_the_scores_are_those_of_explain(model, features):
    answer = encode_answer(model, methods=["loo"], **CHAT | {"features": features})
    direct = limelight.explain(model, MESSAGES, "loo", features=features)
    same_scores(answer, direct)
    assert answer["typed"] is None
    answer = encode_answer(model, methods=["loo"], **QUESTION_REQUEST | {"features": features})
    same_scores(
        answer, limelight.explain(model, QUESTION, "loo", documents=DOCUMENTS, features=features)
    )
    answer = encode_answer(model, methods=["loo"], text=QUESTION, features=features)
    same_scores(answer, limelight.explain(model, QUESTION, "loo", features=features))
    assert answer["typed"] == QUESTION


def test_blank_documents_are_left_out_and_the_others_keep_their_names(model):
    chat = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "good film"}]
    answer = encode_answer(
        model,
        methods=["loo"],
        text=json.dumps(chat),
        messages=True,
        documents=["", "bad film", " "],
    )
    assert read_explanation(answer).features == ("document 1",)


@pytest.mark.parametrize("number", range(4))
def test_a_removed_message_is_one_that_was_never_sent(model, number):
    name = f"{number} {MESSAGES[number]['role']}"
    answer = encode_answer(model, methods=["loo"], changes=[(name, 0, None)], **CHAT)
    chat = [message for i, message in enumerate(MESSAGES) if i != number]
    direct = limelight.explain(model, chat, "loo")
    same_scores(answer, direct)
    before = limelight.explain(model, MESSAGES, "loo")
    assert answer["change"]["before"] == pytest.approx(before.prediction["answer"], abs=1e-5)
    assert answer["change"]["after"] == pytest.approx(direct.prediction["answer"], abs=1e-5)
    # The marks of a turn go with the message, so that the methods remove the same characters.
    assert answer["change"]["removed"] == pytest.approx(answer["change"]["after"], abs=1e-4)
    assert answer["change"]["after"] != pytest.approx(answer["change"]["before"], abs=1e-4)


def test_a_removed_document_is_one_that_was_never_given(model):
    answer = encode_answer(
        model, methods=["loo"], changes=[("document 0", 0, None)], **QUESTION_REQUEST
    )
    before = limelight.explain(model, QUESTION, "loo", documents=DOCUMENTS)
    direct = limelight.explain(
        model, QUESTION, "loo", documents=DOCUMENTS[1:], answer=before.query.text
    )
    same_scores(answer, direct)
    assert answer["change"]["after"] == pytest.approx(direct.prediction["answer"], abs=1e-5)


def test_words_of_messages_and_documents_are_changed_where_they_stand(model):
    answer = encode_answer(
        model, methods=["loo"], changes=[("plot", 0, "film")], **CHAT | {"features": "positions"}
    )
    chat = json.loads(json.dumps(MESSAGES).replace("is the plot good", "is the film good"))
    same_scores(answer, limelight.explain(model, chat, "loo", features="positions"))
    answer = encode_answer(
        model,
        methods=["loo"],
        changes=[("superb", 0, None)],
        **QUESTION_REQUEST | {"features": "positions"},
    )
    documents = [{"id": "document 0", "text": "A film. The plot is good."}, *DOCUMENTS[1:]]
    query = limelight.explain(model, QUESTION, "loo", documents=DOCUMENTS).query
    direct = limelight.explain(
        model, QUESTION, "loo", documents=documents, features="positions", answer=query.text
    )
    same_scores(answer, direct)
    answer = encode_answer(model, changes=[("good", 0, "bad")], text=QUESTION, features="positions")
    assert answer["typed"] == "is the film bad"


def test_protected_messages_keep_their_protection_when_numbers_change(model):
    fields = {"protect": ["2 assistant", "system"], "changes": [("1 user", 0, None)]}
    answer = encode_answer(model, methods=["loo"], **CHAT, **fields)
    assert read_explanation(answer).features == ("2 user",)


@pytest.mark.parametrize("inside", [1, 3])
def test_the_words_of_one_message_are_scored_in_the_chat(model, inside):
    start, end = limelight.explain(model, MESSAGES, "loo").parts[inside].content
    answer = encode_answer(model, methods=["loo"], inside=(start, end), **CHAT)
    e = read_explanation(answer)
    assert " ".join(e.features) == MESSAGES[inside]["content"]
    words = limelight.explain(model, MESSAGES, "loo", features="positions")
    expected = [
        score for (span,), score in zip(words.spans, words.scores, strict=True)
        if start <= span[0] < end
    ]  # fmt: skip
    assert e.scores == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("fields", [CHAT, QUESTION_REQUEST], ids=["chat", "documents"])
def test_sections_and_files_are_those_of_texts(model, fields):
    request = make_request(
        methods=["loo", "banzhaf"],
        sections=sorted(set(SECTIONS) - {"heads", "attention"}),
        **fields,
    )
    data = compute_sections(model, request, lambda *_: None)
    assert {name: section.get("error") for name, section in data.items()} == dict.fromkeys(data)
    for file_format in ("html", "json"):
        request = msgspec.structs.replace(request, sections=[file_format])
        content = export_explanations(model, request, lambda *_: None)["content"]
        assert ("3 user" if fields is CHAT else "document 2") in content


def test_the_limits_are_those_of_texts():
    fields = {"tab": "t", "panel": "p", "text": "a"}

    def parse(**values):
        return parse_request(msgspec.json.encode(fields | values))

    assert parse(documents=["b" * (MAX_CHARACTERS - 1)]).documents
    with pytest.raises(InputError, match="of at most 100,000 characters, but this one has 100,001"):
        parse(documents=["b" * (MAX_CHARACTERS // 2)] * 2)
    with pytest.raises(InputError, match="length <= 100"):
        parse(documents=["b"] * 101)


def test_a_page_of_a_classifier_has_no_documents(shipped, model):
    facts = model_facts(ServedModel(name="", model=shipped))
    assert not facts["writes_answers"]
    assert facts["features"][0] != "auto"
    facts = model_facts(ServedModel(name="", model=model))
    assert facts["writes_answers"]
    assert facts["features"][0] == facts["default_features"] == "auto"
    with pytest.raises(InputError, match="a conversation needs a language model"):
        encode_answer(shipped, features="words", **CHAT | {"methods": ["loo"]})


def wait_until_parts(page, features, within="[data-changed=false]"):
    wait_until(
        page,
        "([within, features]) => [...document.querySelectorAll(`${within} [data-method=loo] "
        "limelight-words`)].some((words) => !words.classList.contains('stale') && "
        "words.explanation?.features.map(({ text }) => text).join() === features)",
        [within, ",".join(features)],
    )


def open_page(serving, opened, model, **state):
    return opened(link(methods='["loo"]', **state), url=serving(model).url)


def test_a_pasted_chat_is_shown_by_its_messages(serving, opened, model):
    page = open_page(serving, opened, model)
    page.fill("#text", json.dumps(MESSAGES))
    names = ["0 system", "1 user", "2 assistant", "3 user"]
    wait_until_parts(page, names)
    e = limelight.explain(model, MESSAGES, "loo")
    assert page.locator("[data-method=loo] .w").all_inner_texts() == [
        message["content"] for message in MESSAGES[:-1]
    ]
    page.locator("[data-method=loo] .w").nth(1).click()
    menu = page.inner_text(".word-menu").replace("−", "-")
    assert "1 user" in menu
    assert f"{dict(e.as_list())['1 user']:+.2f}" in menu
    assert page.locator(".word-menu form").count() == 0
    page.click("[data-action=remove]")
    wait_until_parts(page, ["0 system", "1 assistant", "2 user"], "[data-changed=true]")
    assert page.locator("#keep").count() == 0
    page.click("#changes .chip button")
    page.locator("[data-method=loo] .w").first.click()
    page.click("[data-action=protect]")
    wait_until_parts(page, names[1:])
    page.click("#changes .chip button")
    wait_until_parts(page, names)
    page.locator("[data-method=loo] .w").nth(3).click()
    page.click("[data-action=words]")
    wait_until_parts(page, ["is", "the", "film", "bad"])
    assert "is the film bad" in page.inner_text("#changes")


def test_documents_are_typed_into_fields_of_their_own(serving, opened, model):
    chat = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "good film"}]
    page = open_page(serving, opened, model, text=json.dumps(chat))
    for i, text in enumerate(TEXTS):
        page.click("#add-document")
        page.keyboard.type(text)
        wait_until_parts(page, [f"document {k}" for k in range(i + 1)])
    direct = limelight.explain(model, chat, "loo", documents=DOCUMENTS)
    wait_until(
        page,
        "text => document.querySelector('[data-method=loo] limelight-words').explanation.text"
        " === text",
        direct.text,
    )
    shown = page.evaluate(
        "document.querySelector('[data-method=loo] limelight-words').explanation.features"
        ".map(({ score }) => score)"
    )
    assert shown == pytest.approx(direct.scores, abs=1e-5)
    wait_until(page, "() => decodeURIComponent(location.hash).includes('bad+film')")
    page.reload()
    wait_until_parts(page, [f"document {i}" for i in range(3)])
    page.click("[aria-label='Remove document 1']")
    wait_until_parts(page, ["document 0", "document 1"])


def test_the_text_of_a_document_never_runs(serving, opened, model):
    chat = [{"role": "user", "content": HOSTILE}, {"role": "assistant", "content": "good film"}]
    page = open_page(serving, opened, model, text=QUESTION, documents=json.dumps([HOSTILE, "film"]))
    wait_until_parts(page, ["document 0", "document 1"])
    page.fill("#text", json.dumps(chat))
    page.evaluate("document.querySelectorAll('[aria-label^=\"Remove document\"]')[1].click()")
    page.evaluate("document.querySelectorAll('[aria-label^=\"Remove document\"]')[0].click()")
    wait_until_parts(page, ["0 user"])
    assert page.locator("[data-method=loo] .w").all_inner_texts() == [HOSTILE]
    assert page.locator("limelight-reading img, limelight-reading script").count() == 0


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_wider_than_the_screen(serving, opened, model, width):
    page = open_page(
        serving, opened, model, text=QUESTION, documents=json.dumps([*TEXTS, "film" * 80])
    )
    page.set_viewport_size({"width": width, "height": 800})
    wait_until_parts(page, [f"document {i}" for i in range(4)])
    page.locator("[data-method=loo] .w").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
