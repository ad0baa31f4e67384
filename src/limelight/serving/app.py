"""What a server shows, its pages, and the questions behind them, as a web application."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from limelight.errors import InputError
from limelight.explainers.explaining import texts_per_batch
from limelight.explainers.learned import LEARNED, LearnedMethod
from limelight.explainers.method import select_implementation
from limelight.explainers.registry import METHODS, default_method, exactness_for_model
from limelight.models import Model, resolve_replacement
from limelight.models.protocol import query_kind
from limelight.models.queries import feature_names
from limelight.rendering.bundle import ENTRIES, bundle_module
from limelight.rendering.judgment import judgment_page
from limelight.rendering.markup import data_block, render_macro, render_template, style_sheet
from limelight.rendering.summary import summary_page
from limelight.request import Request, model_scales, prepare_model
from limelight.results.judgment import Judgment
from limelight.serving.guard import WHOLE_PAGE_POLICY
from limelight.serving.queue import (
    STOPPED,
    Alike,
    Event,
    QuestionQueue,
    QueuedQuestion,
    Report,
)
from limelight.serving.run_views import RunViews
from limelight.serving.texts import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_OF_IMAGE,
    TextQuestion,
    check_given,
    compared_parts,
    kind_of,
    made_file,
    question_of,
    shown_text,
    shown_texts,
)
from limelight.text import Splitter, feature_kind, feature_noun, pluralize
from limelight.threads import cached_property

if TYPE_CHECKING:
    from markupsafe import Markup

    from limelight.runs import Run

Handler = Callable[[HttpRequest], Awaitable[Response]]
Answered = Callable[[Model, TextQuestion, Report], dict[str, Any]]

_OWN = Path(__file__).parent / "page"
_SHEETS = ("words.css", "page.css", "elements.css")
_LINES, _JSON = "application/x-ndjson", "application/json"
_GRACE = 1.0  # seconds to the next step of a question that is given up
_SENTENCES = {
    404: "there is nothing at this address.",
    405: "this address does not take requests of this kind.",
}
_FIRST_SHOWN = ("shapley", "lime", "alpha-avg")
# Where asking takes a while, LRP stands there at once, beside what `explain` takes: on deep models
# it reaches two thirds of the way from chance to the best order, and attention a sixth.
_AT_ONCE = "lrp"
_FIRST_SHOWN_LEARNED = (LEARNED, "shapley")  # which is more faithful still, and as quick


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ServedModel:
    """A model under the name that the page gives it, and a method that was learned from it."""

    name: str
    model: Model
    learned: LearnedMethod | None = None

    @cached_property
    def query_kind(self) -> str:
        """What queries to the model are about, by which the page differs."""
        return query_kind(self.model)

    @property
    def shows_images(self) -> bool:
        """Whether the model reads images, and no texts."""
        return self.query_kind == "images"

    def methods(self, names: Sequence[str]) -> list[Any]:
        """Return the methods that a page names; it names no folder of this machine."""
        own = self.learned or LEARNED
        return [own if name.partition(":")[0] == LEARNED else name for name in names]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Served:
    """All that a page can ask about."""

    models: tuple[ServedModel, ...] = ()
    run: "Run | None" = None
    judgment: Judgment | None = None
    seconds: float = 120.0  # that a question may take
    warnings: tuple[str, ...] = ()  # what every page says: not all of it is about one model
    features: str | Splitter | None = None  # what is scored at first

    def __post_init__(self) -> None:
        if len({one.shows_images for one in self.models}) > 1:
            raise InputError(
                "a page compares two models of texts, or two of images; got one of each."
            )

    @property
    def shows_images(self) -> bool:
        """Whether its models read images; all of them do, or none."""
        return any(one.shows_images for one in self.models)


def model_facts(served: ServedModel, unit: str | Splitter | None = None) -> dict[str, Any]:
    """Return what the page must know of a model before it asks anything."""
    model = served.model
    _, question = prepare_model(model, Request(features=unit))
    unit = question.features
    methods = {} if served.learned is None else {LEARNED: served.learned.method}
    methods |= METHODS
    implementations = {
        name: implementation
        for name, method in methods.items()
        if (implementation := select_implementation(method, model)) is not None
    }
    rows = [
        {
            "id": name,
            "label": methods[name].label,
            "formula": methods[name].formula,
            "exactness": exactness_for_model(implementation, model),
            # What asks the model many times waits until the reader pauses.
            "quick": implementation.cost.calls is None,
            "pairs": name == "interactions",
        }
        for name, implementation in implementations.items()
    ]
    own = default_method(model)
    is_deep = _AT_ONCE in implementations and implementations["shapley"].cost.calls is not None
    first = (_AT_ONCE, own) if is_deep or own not in _FIRST_SHOWN else _FIRST_SHOWN
    first = first if served.learned is None else _FIRST_SHOWN_LEARNED
    return {
        "name": served.name,
        "classes": list(model.classes),
        "methods": rows,
        "first": [name for name in first if name in implementations],
        "features": [*feature_names(model), *([feature_kind(unit)] if callable(unit) else [])],
        "images": served.shows_images,
        "unit": feature_kind(unit),
        "scales": list(model_scales(model)),
        "replacement": resolve_replacement(model, "auto"),
        "spans": served.query_kind == "places",
        "heads": any("per_head" in used.settings for used in implementations.values()),
    }


def typing_page(served: Served) -> str:
    """Return the page on which a text is typed and explained."""
    if not served.models:
        return _message(served, "./", "Type and see", "No model is served here.")
    facts = {"models": [model_facts(one, served.features) for one in served.models]}
    body = render_template("typing.html", most=MOST_CHARACTERS, images=served.shows_images)
    return _page("What moves the model?", body, served, script="typing.js", facts=facts)


def texts_page(served: Served) -> str:
    """Return the page of the texts of a run."""
    facts = {"typing": bool(served.models)}
    title = "What does the model do on these texts?"
    above = navigation(served, "texts", kept=("texts.json", "texts.json"))
    return _page(
        title, render_template("texts.html"), served, script="texts.js", above=above, facts=facts
    )


def navigation(served: Served, here: str, *, kept: tuple[str, str] | None = None) -> "Markup":
    """Return links to the views that there are; ``here`` is the one that is shown.

    ``kept`` is an address and the name of the file as which it can be downloaded.
    """
    places = []
    if served.models:
        places.append(("./", "Drop an image" if served.shows_images else "Type and see"))
    if served.run is not None:
        noun = feature_noun(feature_kind(served.run.record.request.features))
        places += [
            ("texts", "Texts"),
            ("summary", f"{pluralize(noun).capitalize()}, mistakes, slices"),
        ]
    if served.judgment is not None:
        places.append(("judgment", "Judgment"))
    return render_macro(
        "navigation", places if len(places) > 1 else [], here, kept, served.warnings
    )


def _message(
    served: Served,
    here: str,
    title: str,
    sentence: str,
    *,
    script: str | None = None,
    trouble: bool = False,
) -> str:
    body = render_template("message.html", title=title, sentence=sentence, trouble=trouble)
    return _page(title, body, served, script=script, above=navigation(served, here))


def _page(
    title: str,
    body: "Markup",
    served: Served,
    *,
    script: str | None,
    above: "Markup | None" = None,
    facts: object = None,
) -> str:
    """Return a page whose style and scripts are files of the server."""
    return render_template(
        "page.html",
        title=title,
        window=title,
        head=render_macro("served_files", [*([] if script is None else [script]), "theme.js"]),
        navigation=navigation(served, "./") if above is None else above,
        body=body,
        footer="Served by limelight on this machine. This page needs no network.",
        data=data_block("limelight-facts", json.dumps(facts, ensure_ascii=False)),
        program="",
    )


def page_app(served: Served, queue: QuestionQueue, views: RunViews | None) -> Starlette:
    """Return the application; what it is asked about a model goes through ``queue``.

    ``views`` are those of the run, where there is one.
    """
    routes = [
        Route("/", _sent(typing_page(served))),
        Route("/page/{name:path}", _file),
        *([] if views is None else _run_routes(served, views)),
    ]
    if (judged := served.judgment) is not None:

        async def judgment(_: Request) -> Response:
            return _report(served, "judgment", partial(judgment_page, judged))

        routes.append(Route("/judgment", judgment))
    questions = {"/text": shown_text, "/parts": compared_parts, "/file": made_file}
    for place, answered in questions.items():
        routes.append(Route(place, _asked(served, queue, answered), methods=["POST"]))
    return Starlette(
        routes=routes, exception_handlers={InputError: _failed, HTTPException: _failed}
    )


def _asked(served: Served, queue: QuestionQueue, answered: Answered) -> Handler:
    """Return what answers questions about a text through the queue, line by line."""

    most = MOST_OF_IMAGE if served.shows_images else MOST_BYTES

    async def answer(request: HttpRequest) -> Response:
        question = question_of(await bounded_body(request, most), served.features)
        if question.model >= len(served.models):
            raise InputError(
                f"there is no model {question.model} here; there are {len(served.models)}."
            )
        one = served.models[question.model]
        model = one.model
        check_given(question.text, is_image_model=one.shows_images)
        methods = one.methods(question.methods)
        question = msgspec.structs.replace(question, methods=methods)
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
    kind = kind_of(question) if texts_per_batch(model) > 1 else None
    if kind is None:
        return None
    return Alike(kind, question, lambda asked: list(map(_encoded, shown_texts(model, asked))))


def _encoded(answer: dict[str, Any]) -> msgspec.Raw:
    # In the thread of the model: what is sent from the loop must not keep other pages waiting.
    return msgspec.Raw(msgspec.json.encode(answer))


async def bounded_body(request: HttpRequest, most: int = MOST_BYTES) -> bytes:
    """Return the body of a request, of limited size; the guard limits its time."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise InputError(f"a request may have {most:,} bytes; this one has more.")
    except ClientDisconnect:  # nobody hears it; a traceback in the terminal would be heard
        raise InputError("the request was not sent to its end.") from None
    return bytes(body)


async def lines_of(
    question: QueuedQuestion, queue: QuestionQueue, *, seconds: float
) -> AsyncIterator[bytes]:
    """Yield one line per event; a reader who leaves, or ``seconds`` gone, ends the job."""
    event = Event(share=0.0)
    until = time.monotonic() + seconds
    try:
        while event.share is not None:
            left = max(until - time.monotonic(), 0.0)
            try:
                event = await asyncio.wait_for(question.events.get(), min(left, queue.patience))
            except TimeoutError:
                if left <= queue.patience:
                    raise
                queue.relieve()
                continue
            if event.failed == STOPPED:
                return  # without a last line, by which the page knows that the server has ended
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
    def table(_: HttpRequest) -> Any:
        return views.table() or {"share": views.columns.share}

    def with_word(request: HttpRequest) -> Any:
        return {"places": views.with_word(request.query_params.get("word", "")[:200])}

    def one(request: HttpRequest) -> Any:
        given = request.query_params.get("row", "")
        if not re.fullmatch("[0-9]{1,15}", given):
            raise InputError(f"a text is named by its number; got {given[:20]!r}.")
        return views.text(int(given))

    async def summary(_: HttpRequest) -> Response:
        try:
            found = views.summary.now()
        except InputError as error:
            why = f"{str(error)[:1].upper()}{str(error)[1:]}"
            page = _message(served, "summary", "That did not work", why, trouble=True)
            return HTMLResponse(page, 400)
        if found is None:  # the script looks again in a second
            said = "The texts are being summarised."
            page = _message(served, "summary", "One moment", said, script="waiting.js")
            return HTMLResponse(page)
        return _report(served, "summary", partial(summary_page, found))

    return [
        Route("/texts", _sent(texts_page(served))),
        Route("/texts.json", _json(table)),
        Route("/texts/word", _json(with_word)),
        Route("/texts/one", _json(one)),
        Route("/summary", summary),
    ]


def _json(found: Callable[[HttpRequest], Any]) -> Handler:
    """Return what answers with JSON that is made in a thread, since others must not wait for it."""

    async def answer(request: HttpRequest) -> Response:
        made = await asyncio.to_thread(lambda: msgspec.json.encode(found(request)))
        return Response(made, media_type=_JSON)

    return answer


def _report(served: Served, here: str, page: Callable[..., str]) -> Response:
    """Return a page that is one file, with the policy that it brings itself."""
    above = navigation(served, here, kept=(here, f"{here}.html"))
    return HTMLResponse(
        page(navigation=above), headers={"content-security-policy": WHOLE_PAGE_POLICY}
    )


def _sent(content: str) -> Handler:
    async def answer(_: HttpRequest) -> Response:
        return HTMLResponse(content)

    return answer


async def _file(request: HttpRequest) -> Response:
    found = page_files().get(f"page/{request.path_params['name']}")
    if found is None:
        raise HTTPException(404)
    kind, content = found
    return Response(content, media_type=kind)


@cache
def page_files() -> dict[str, tuple[str, bytes]]:
    """Return the type and content of every file by its place in the page's address."""
    found = {
        f"page/{entry.name}": ("text/javascript", bundle_module(entry).encode())
        for entry in ENTRIES
        if entry.parent == _OWN or entry.stem == "theme"
    }
    style = style_sheet(*_SHEETS, _OWN / "serving.css")
    found["page/style.css"] = ("text/css", style.encode())
    return found


async def _failed(_: HttpRequest, error: Exception) -> Response:
    """Say in a sentence why there is no answer."""
    status, sentence = 400, str(error)
    if isinstance(error, HTTPException):
        status = error.status_code
        sentence = _SENTENCES.get(status, "that did not work.")
    return Response(msgspec.json.encode({"failed": sentence}), status, media_type=_JSON)
