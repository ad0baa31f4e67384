"""The pages and the questions behind them, as a web application."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from limelight.errors import InputError
from limelight.explainers.explaining import together
from limelight.models import Model, why_not
from limelight.pages.bundle import ENTRIES, bundled
from limelight.pages.judgement import judgement_page
from limelight.pages.markup import style_sheet
from limelight.pages.summary import summary_page
from limelight.serving.guard import WHOLE_PAGE_POLICY
from limelight.serving.queue import Alike, Event, QuestionQueue, QueuedQuestion, Report
from limelight.serving.run_views import RunViews
from limelight.serving.served import (
    Served,
    navigation,
    texts_page,
    trouble_page,
    typing_page,
    waiting_page,
)
from limelight.serving.texts import (
    MOST_BYTES,
    MOST_OF_PICTURE,
    TextQuestion,
    check_given,
    compared_parts,
    kind_of,
    made_file,
    question_of,
    shown_text,
    shown_texts,
)

Handler = Callable[[Request], Awaitable[Response]]
Answered = Callable[[Model, TextQuestion, Report], dict[str, Any]]

_OWN = Path(__file__).parent / "page"
_SHEETS = ("words.css", "page.css", "elements.css")
_LINES, _JSON = "application/x-ndjson", "application/json"
_SECONDS_TO_SEND = 20.0
_GRACE = 1.0  # seconds to the next step of a question that is given up
_SENTENCES = {
    404: "there is nothing at this address.",
    405: "this address does not take requests of this kind.",
}


def page_app(served: Served, queue: QuestionQueue, views: RunViews | None) -> Starlette:
    """Return the application; what it is asked about a model goes through ``queue``.

    ``views`` are those of the run, where there is one.
    """
    routes = [
        Route("/", _page(typing_page(served))),
        Route("/page/{name:path}", _file),
        *([] if views is None else _run_routes(served, views)),
    ]
    if (judged := served.judgement) is not None:

        async def judgement(_: Request) -> Response:
            return _report(served, "judgement", partial(judgement_page, judged))

        routes.append(Route("/judgement", judgement))
    questions = {"/text": shown_text, "/parts": compared_parts, "/file": made_file}
    for place, answered in questions.items():
        routes.append(Route(place, _asked(served, queue, answered), methods=["POST"]))
    return Starlette(
        routes=routes, exception_handlers={InputError: _failed, HTTPException: _failed}
    )


def _asked(served: Served, queue: QuestionQueue, answered: Answered) -> Handler:
    """Return what answers questions about a text through the queue, line by line."""

    most = MOST_OF_PICTURE if served.pictures else MOST_BYTES

    async def answer(request: Request) -> Response:
        question = question_of(await bounded_body(request, most), served.features)
        if question.model >= len(served.models):
            raise InputError(
                f"there is no model {question.model} here; there are {len(served.models)}."
            )
        one = served.models[question.model]
        model = one.model
        check_given(model, question.text)
        # Of a model that finds spans the first is asked about, until the reader chooses.
        at = question.asked.at
        at = 0 if at is None and why_not(model, "spans") is None else at
        methods = one.methods(question.methods)
        question = msgspec.structs.replace(question, methods=methods, at=at)
        queued = queue.ask(
            (question.tab, question.place),
            lambda report: _encoded(answered(model, question, report)),
            quick=request.query_params.get("when") != "paused",
            alike=_alike(model, question) if answered is shown_text else None,
        )
        return StreamingResponse(lines_of(queued, queue, seconds=served.seconds), media_type=_LINES)

    return answer


def _alike(model: Model, question: TextQuestion) -> Alike | None:
    """Return how to answer ``question`` with others, on models that explain texts together."""
    kind = kind_of(question) if together(model) > 1 else None
    if kind is None:
        return None
    return Alike(kind, question, lambda asked: list(map(_encoded, shown_texts(model, asked))))


def _encoded(answer: dict[str, Any]) -> msgspec.Raw:
    # In the thread of the model: what is sent from the loop must not keep other pages waiting.
    return msgspec.Raw(msgspec.json.encode(answer))


async def bounded_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """Return the body of a request, of limited size and sent in limited time."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(_SECONDS_TO_SEND):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise InputError(f"a request may have {most:,} bytes; this one has more.")
                parts.append(part)
    except TimeoutError:
        raise InputError(f"a request must be sent in {_SECONDS_TO_SEND:.0f} seconds.") from None
    except ClientDisconnect:  # nobody hears it; a traceback in the terminal would be heard
        raise InputError("the request was not sent to its end.") from None
    return b"".join(parts)


async def lines_of(
    question: QueuedQuestion, queue: QuestionQueue, *, seconds: float
) -> AsyncIterator[bytes]:
    """Yield one line per event; a reader who leaves, or ``seconds`` gone, ends the job."""
    event = Event(share=0.0)
    until = time.monotonic() + seconds
    try:
        while event.share is not None:
            left = max(until - time.monotonic(), 0.0)
            event = await asyncio.wait_for(question.events.get(), left)
            yield _line(event)
    except TimeoutError:
        late = f"the model took longer than {seconds:g} seconds; the question was given up."
        yield _line(Event(failed=late))
    finally:
        if (event.share is not None or event.superseded) and queue.leave(question):
            # It ends at its next step, or never: others wait, and then get another thread.
            left = max(until - time.monotonic(), min(_GRACE, seconds / 4))
            asyncio.get_running_loop().call_later(left, queue.give_up, question)


def _line(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def _run_routes(served: Served, views: RunViews) -> list[Route]:
    def table(_: Request) -> Any:
        return views.table() or {"share": views.columns.share}

    def with_word(request: Request) -> Any:
        return {"places": views.with_word(request.query_params.get("word", "")[:200])}

    def one(request: Request) -> Any:
        given = request.query_params.get("row", "")
        if not re.fullmatch("[0-9]{1,15}", given):
            raise InputError(f"a text is named by its number; got {given[:20]!r}.")
        return views.text(int(given))

    async def summary(_: Request) -> Response:
        try:
            found = views.summary.now()
        except InputError as error:
            return HTMLResponse(trouble_page(served, "summary", str(error)), 400)
        if found is None:
            return HTMLResponse(waiting_page(served, "summary", "The texts are being summarised."))
        return _report(served, "summary", partial(summary_page, found))

    return [
        Route("/texts", _page(texts_page(served))),
        Route("/texts.json", _json(table)),
        Route("/texts/word", _json(with_word)),
        Route("/texts/one", _json(one)),
        Route("/summary", summary),
    ]


def _json(found: Callable[[Request], Any]) -> Handler:
    """Return what answers with JSON that is made in a thread, since others must not wait for it."""

    async def answer(request: Request) -> Response:
        made = await asyncio.to_thread(lambda: msgspec.json.encode(found(request)))
        return Response(made, media_type=_JSON)

    return answer


def _report(served: Served, here: str, page: Callable[..., str]) -> Response:
    """Return a page that is one file, with the policy that it brings itself."""
    above = navigation(served, here, kept=(here, f"{here}.html"))
    return HTMLResponse(page(above=above), headers={"content-security-policy": WHOLE_PAGE_POLICY})


def _page(content: str) -> Handler:
    async def answer(_: Request) -> Response:
        return HTMLResponse(content)

    return answer


async def _file(request: Request) -> Response:
    found = page_files().get(f"page/{request.path_params['name']}")
    if found is None:
        raise HTTPException(404)
    kind, content = found
    return Response(content, media_type=kind)


@cache
def page_files() -> dict[str, tuple[str, bytes]]:
    """Return the type and content of every file by its place in the page's address."""
    found = {
        f"page/{entry.name}": ("text/javascript", bundled(entry).encode())
        for entry in ENTRIES
        if entry.parent == _OWN or entry.stem == "theme"
    }
    style = style_sheet(*_SHEETS, _OWN / "serving.css")
    found["page/style.css"] = ("text/css", style.encode())
    return found


async def _failed(_: Request, error: Exception) -> Response:
    """Say in a sentence why there is no answer."""
    status, sentence = 400, str(error)
    if isinstance(error, HTTPException):
        status = error.status_code
        sentence = _SENTENCES.get(status, "that did not work.")
    return Response(msgspec.json.encode({"failed": sentence}), status, media_type=_JSON)
