"""The pages and the questions behind them, as a web application."""

__all__ = ["page_app"]

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from limelight.errors import InputError
from limelight.serving.desk import Desk
from limelight.serving.page_files import page_files
from limelight.serving.page_frames import typing_page
from limelight.serving.questions import TextQuestion, question_of
from limelight.serving.served import Served, ServedModel
from limelight.serving.streaming import bounded_body, lines_of
from limelight.serving.typed_text import shown_text

Handler = Callable[[Request], Awaitable[Response]]
_LINES = "application/x-ndjson"


def page_app(served: Served, desk: Desk) -> Starlette:
    """Return the application; what it is asked about a model goes through ``desk``."""
    routes = [
        Route("/", _page(typing_page(served))),
        Route("/page/{name:path}", _file),
        Route("/text", _text(served, desk), methods=["POST"]),
    ]
    errors: Any = {InputError: _refused, HTTPException: _not_there}
    return Starlette(routes=routes, exception_handlers=errors)


def _page(content: str) -> Handler:
    async def answer(_: Request) -> Response:
        return Response(content, media_type="text/html")

    return answer


async def _file(request: Request) -> Response:
    found = page_files().get(f"page/{request.path_params['name']}")
    if found is None:
        raise HTTPException(404)
    kind, content = found
    return Response(content, media_type=kind)


def _text(served: Served, desk: Desk) -> Handler:
    async def answer(request: Request) -> Response:
        question = question_of(await bounded_body(request), TextQuestion)
        model = served_model(served, question.model).model
        quick = request.query_params.get("when") != "paused"
        ticket = desk.ask(
            (question.tab, question.place),
            lambda report: shown_text(model, question, report),
            quick=quick,
        )
        return StreamingResponse(lines_of(ticket, desk, seconds=served.seconds), media_type=_LINES)

    return answer


def served_model(served: Served, number: int) -> ServedModel:
    """Return the model of that number."""
    if number >= len(served.models):
        raise InputError(f"there is no model {number} here; there are {len(served.models)}.")
    return served.models[number]


async def _refused(_: Request, error: Exception) -> Response:
    body = msgspec.json.encode({"failed": str(error)})
    return Response(body, status_code=400, media_type="application/json")


async def _not_there(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = {
        404: "there is nothing at this address.",
        405: "this address takes no such request.",
    }
    said = sentence.get(status, "that did not work.")
    return Response(json.dumps({"failed": said}), status_code=status, media_type="application/json")
