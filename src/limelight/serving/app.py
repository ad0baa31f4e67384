"""The web application of ``limelight serve``: its pages, their data, and requests about texts."""

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
from limelight.explainers.registry import (
    METHODS,
    default_method,
    exactness_for_model,
    preview_method,
)
from limelight.models import Model, resolve_replacement
from limelight.models.protocol import query_kind
from limelight.models.queries import feature_names
from limelight.rendering.bundle import ENTRIES, bundle_module
from limelight.rendering.judgment import judgment_page
from limelight.rendering.markup import data_block, render_macro, render_template, style_sheet
from limelight.rendering.summary import summary_page
from limelight.request import Request, model_scales, prepare_model
from limelight.results.judgment import Judgment
from limelight.serving.guard import REPORT_POLICY
from limelight.serving.queue import (
    STOPPED,
    BatchJob,
    Event,
    JobQueue,
    ProgressCallback,
    QueuedJob,
)
from limelight.serving.run_views import RunViews
from limelight.serving.texts import (
    MAX_CHARACTERS,
    MAX_IMAGE_REQUEST_BYTES,
    MAX_REQUEST_BYTES,
    TextRequest,
    batch_kind,
    check_input_kind,
    compute_sections,
    explain_text,
    explain_texts,
    export_explanations,
    parse_request,
)
from limelight.text import Splitter, feature_kind, feature_noun, pluralize
from limelight.threads import cached_property

if TYPE_CHECKING:
    from markupsafe import Markup

    from limelight.runs import Run

Handler = Callable[[HttpRequest], Awaitable[Response]]
AnswerFunction = Callable[[Model, TextRequest, ProgressCallback], dict[str, Any]]

_PAGE_FOLDER = Path(__file__).parent / "page"
_STYLE_SHEETS = ("words.css", "page.css", "elements.css")
_JSON_LINES_TYPE, _JSON_TYPE = "application/x-ndjson", "application/json"
_GRACE_SECONDS = 1.0  # a canceled job has this time to reach its next step
_STATUS_MESSAGES = {
    404: "there is nothing at this address.",
    405: "this address does not take requests of this kind.",
}
_DEFAULT_METHODS = ("shapley", "lime", "alpha-avg")
_FAST_METHOD = "lrp"  # beside the default method for answers
# Texts with which a page starts, by the kind of queries.
_EXAMPLES = {
    "texts": "The plot is predictable, but the acting is superb.",
    "places": "Ada Lovelace lived in London.",
    "answers": "The capital of France is",
}
_DEFAULT_LEARNED_METHODS = (LEARNED, "shapley")  # a learned method is as fast and more faithful


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ServedModel:
    """A model with its name on the page, and a method that was learned from it."""

    name: str
    model: Model
    learned: LearnedMethod | None = None

    @cached_property
    def query_kind(self) -> str:
        """Kind of queries that the model answers, such as spans or images."""
        return query_kind(self.model)

    @property
    def shows_images(self) -> bool:
        """Whether the inputs of the model are images."""
        return self.query_kind == "images"

    def find_methods(self, names: Sequence[str]) -> list[Any]:
        """Return the methods that a page names. A page cannot name a folder of this machine."""
        learned = self.learned or LEARNED
        return [learned if name.partition(":")[0] == LEARNED else name for name in names]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PageContent:
    """Models, run and judgment of a page.

    * ``seconds``: time limit of a request.
    * ``warnings``: sentences on every page, for example that the run belongs to another model.
    * ``features``: features that the page scores first. None chooses them by the model.
    """

    models: tuple[ServedModel, ...] = ()
    run: "Run | None" = None
    judgment: Judgment | None = None
    seconds: float = 120.0
    warnings: tuple[str, ...] = ()
    features: str | Splitter | None = None

    def __post_init__(self) -> None:
        if len({model.shows_images for model in self.models}) > 1:
            raise InputError(
                "a page compares two models of texts or two of images, not one of each."
            )

    @property
    def shows_images(self) -> bool:
        """Whether the models read images. Either all of them do or none."""
        return any(model.shows_images for model in self.models)


def model_facts(served: ServedModel, features: str | Splitter | None = None) -> dict[str, Any]:
    """Return the properties of a model that its page needs: classes, methods, features and so on.

    ``features`` are the features that the page scores first. None chooses them by the model.
    """
    model = served.model
    _, request = prepare_model(model, Request(features=features))
    features = request.features
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
            # Methods that call the model many times wait until the reader stops typing.
            "is_quick": implementation.cost.calls is None,
            "pairs": name == "interactions",
            # Probabilities have no exact game, so that another implementation samples them.
            "logit_only": all(other.logit_only for other in methods[name].implementations),
        }
        for name, implementation in implementations.items()
    ]
    method = default_method(model)
    preview = preview_method(model) if served.learned is None else None
    default_methods: tuple[str, ...]
    if served.learned is not None:
        default_methods = _DEFAULT_LEARNED_METHODS
    elif preview is not None:
        default_methods = (method,)
    elif method not in _DEFAULT_METHODS:
        default_methods = (method, _FAST_METHOD)
    else:  # the default of `explain` comes first, and attention last
        default_methods = tuple(dict.fromkeys((method, *_DEFAULT_METHODS)))
    order = [
        name
        for name in dict.fromkeys((*default_methods, *implementations))
        if name in implementations
    ]
    return {
        "name": served.name,
        "example": _EXAMPLES.get(served.query_kind, ""),
        "classes": list(model.classes),
        "methods": sorted(rows, key=lambda row: order.index(row["id"])),
        "default_methods": [name for name in default_methods if name in implementations],
        # Scores that the page shows until those of the default method arrive.
        "preview": preview,
        "features": [
            *(["auto"] if features == "auto" else []),
            *feature_names(model),
            *([feature_kind(features)] if callable(features) else []),
        ],
        "reads_images": served.shows_images,
        "default_features": feature_kind(features),
        "scales": list(model_scales(model)),
        "replacement": resolve_replacement(model, "auto"),
        "writes_answers": served.query_kind == "answers",
        "finds_spans": served.query_kind == "places",
        "has_heads": any(
            "per_head" in implementation.settings for implementation in implementations.values()
        ),
    }


def typing_page(content: PageContent) -> str:
    """Return the page on which a text is typed and explained."""
    if not content.models:
        return _message_page(content, "./", "Type and see", "No model is served here.")
    facts = {"models": [model_facts(model, content.features) for model in content.models]}
    body = render_template(
        "typing.html",
        max_characters=MAX_CHARACTERS,
        reads_images=content.shows_images,
        writes_answers=any(served.query_kind == "answers" for served in content.models),
    )
    title = "Which words drive the prediction?"
    if all(served.query_kind == "answers" for served in content.models):
        title = "Which parts drive the answer?"
    return _render_page(title, body, content, script="typing.js", facts=facts)


def texts_page(content: PageContent) -> str:
    """Return the page of the texts of a run."""
    facts = {"has_models": bool(content.models)}
    title = "Predictions and explanations of all texts"
    links = navigation(content, "texts", download=("texts.json", "texts.json"))
    body = render_template("texts.html")
    return _render_page(title, body, content, script="texts.js", links=links, facts=facts)


def navigation(
    content: PageContent, current_page: str, *, download: tuple[str, str] | None = None
) -> "Markup":
    """Return the links to all pages, the download link of the current page, and the warnings.

    ``download`` is the address of a file and its name.
    """
    pages = []
    if content.models:
        pages.append(("./", "Drop an image" if content.shows_images else "Type and see"))
    if content.run is not None:
        noun = feature_noun(feature_kind(content.run.record.request.features))
        pages += [
            ("texts", "Texts"),
            ("summary", f"{pluralize(noun).capitalize()}, mistakes, slices"),
        ]
    if content.judgment is not None:
        pages.append(("judgment", "Judgment"))
    links = pages if len(pages) > 1 else []
    return render_macro("navigation", links, current_page, download, content.warnings)


def _message_page(
    content: PageContent,
    current_page: str,
    title: str,
    sentence: str,
    *,
    script: str | None = None,
    is_error: bool = False,
) -> str:
    """Return a page that shows only a sentence."""
    body = render_template("message.html", title=title, sentence=sentence, is_error=is_error)
    links = navigation(content, current_page)
    return _render_page(title, body, content, script=script, links=links)


def _render_page(
    title: str,
    body: "Markup",
    content: PageContent,
    *,
    script: str | None,
    links: "Markup | None" = None,
    facts: object = None,
) -> str:
    """Return a page that loads its style and its script from the server."""
    return render_template(
        "page.html",
        title=title,
        window=title,
        head=render_macro("served_files", [*([] if script is None else [script]), "theme.js"]),
        navigation=navigation(content, "./") if links is None else links,
        body=body,
        footer="Served by limelight on this machine. This page needs no network.",
        data=data_block("limelight-facts", json.dumps(facts, ensure_ascii=False)),
        program="",
    )


def make_app(content: PageContent, queue: JobQueue, views: RunViews | None) -> Starlette:
    """Return the web application. Its requests about texts go through ``queue``.

    ``views`` computes the data about the run, if there is one.
    """
    routes = [
        Route("/", _html_handler(typing_page(content))),
        Route("/page/{name:path}", _send_page_file),
        *([] if views is None else _run_routes(content, views)),
    ]
    if (judgment := content.judgment) is not None:

        async def send_judgment(_: HttpRequest) -> Response:
            """Send the page of the judgment."""
            return _report_response(content, "judgment", partial(judgment_page, judgment))

        routes.append(Route("/judgment", send_judgment))
    answer_functions = {
        "/text": explain_text,
        "/sections": compute_sections,
        "/file": export_explanations,
    }
    for path, function in answer_functions.items():
        routes.append(Route(path, _text_handler(content, queue, function), methods=["POST"]))
    return Starlette(
        routes=routes, exception_handlers={InputError: _send_error, HTTPException: _send_error}
    )


def _text_handler(content: PageContent, queue: JobQueue, function: AnswerFunction) -> Handler:
    """Return a handler that runs ``function`` in the queue and sends its events line by line."""

    max_bytes = MAX_IMAGE_REQUEST_BYTES if content.shows_images else MAX_REQUEST_BYTES

    async def handle(http_request: HttpRequest) -> Response:
        """Parse and check a request, and add it to the queue."""
        request = parse_request(await read_body(http_request, max_bytes), content.features)
        if request.model >= len(content.models):
            raise InputError(
                f"there is no model {request.model}, because the page has {len(content.models)}."
            )
        served = content.models[request.model]
        model = served.model
        check_input_kind(request.text, is_image_model=served.shows_images)
        methods = served.find_methods(request.methods)
        request = msgspec.structs.replace(request, methods=methods)
        job = queue.submit(
            (request.tab, request.panel),
            lambda report_progress: _encode_result(function(model, request, report_progress)),
            is_quick=http_request.query_params.get("when") != "paused",
            batch_job=_make_batch_job(model, request) if function is explain_text else None,
        )
        lines = stream_lines(job, queue, seconds=content.seconds)
        return StreamingResponse(lines, media_type=_JSON_LINES_TYPE)

    return handle


def _make_batch_job(model: Model, request: TextRequest) -> BatchJob | None:
    """Return how to explain similar requests as one batch, or None if the model cannot do that."""
    kind = batch_kind(request) if texts_per_batch(model) > 1 else None
    if kind is None:
        return None
    return BatchJob(
        kind, request, lambda requests: list(map(_encode_result, explain_texts(model, requests)))
    )


def _encode_result(result: dict[str, Any]) -> msgspec.Raw:
    """Encode the answer to a page as JSON."""
    # Encode in the thread of the model. In the event loop it would delay other pages.
    return msgspec.Raw(msgspec.json.encode(result))


async def read_body(request: HttpRequest, max_bytes: int = MAX_REQUEST_BYTES) -> bytes:
    """Return the body of a request, and raise ``InputError`` if it is too large or incomplete.

    The guard limits the time in which the body must arrive.
    """
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise InputError(
                    f"a request must have at most {max_bytes:,} bytes, but this one has more."
                )
    except ClientDisconnect:  # nobody reads this error, but it prevents a traceback on the terminal
        raise InputError("the request is incomplete. Send it again.") from None
    return bytes(body)


async def stream_lines(job: QueuedJob, queue: JobQueue, *, seconds: float) -> AsyncIterator[bytes]:
    """Yield the events of a job as lines of JSON.

    The job is canceled if the client disconnects or the job takes more than ``seconds``.
    """
    event = Event(progress=0.0)
    deadline = time.monotonic() + seconds
    try:
        while event.progress is not None:
            remaining = max(deadline - time.monotonic(), 0.0)
            try:
                event = await asyncio.wait_for(job.events.get(), min(remaining, queue.patience))
            except TimeoutError:
                if remaining <= queue.patience:
                    raise
                queue.abandon_stuck_jobs()
                continue
            if event.error == STOPPED:
                return  # the page sees that the last line is missing: the server has stopped
            yield _encode_line(event)
    except TimeoutError:
        error = f"the model took longer than {seconds:g} seconds, so the request was stopped."
        yield _encode_line(Event(error=error))
    finally:
        is_unfinished = event.progress is not None or event.superseded
        if is_unfinished and queue.cancel(job):
            # The job ends at its next step. If it never does, the other jobs get a new thread.
            remaining = max(deadline - time.monotonic(), min(_GRACE_SECONDS, seconds / 4))
            asyncio.get_running_loop().call_later(remaining, queue.abandon, job)


def _encode_line(event: Event) -> bytes:
    """Encode an event as a line of JSON."""
    return msgspec.json.encode(event) + b"\n"


def _run_routes(content: PageContent, views: RunViews) -> list[Route]:
    """Return the addresses of the pages about the run, and of their data."""

    def table_data(_: HttpRequest) -> Any:
        """Return the table of all texts, or the progress while the run is read."""
        return views.table() or {"progress": views.columns.progress}

    def word_data(request: HttpRequest) -> Any:
        """Return the positions of the texts that contain a word."""
        return {"positions": views.find_word(request.query_params.get("word", "")[:200])}

    def text_data(request: HttpRequest) -> Any:
        """Return the explanations of one text."""
        row = request.query_params.get("row", "")
        if not re.fullmatch("[0-9]{1,15}", row):
            raise InputError(f"a text must be named by its number, not {row[:20]!r}.")
        return views.text(int(row))

    async def send_summary(_: HttpRequest) -> Response:
        """Send the summary, or a message while it is computed."""
        try:
            summary = views.summary.poll()
        except InputError as error:
            sentence = f"{str(error)[:1].upper()}{str(error)[1:]}"
            page = _message_page(content, "summary", "That did not work", sentence, is_error=True)
            return HTMLResponse(page, 400)
        if summary is None:  # the script reloads the page after a moment
            sentence = "The texts are being summarized."
            page = _message_page(content, "summary", "One moment", sentence, script="waiting.js")
            return HTMLResponse(page)
        return _report_response(content, "summary", partial(summary_page, summary))

    return [
        Route("/texts", _html_handler(texts_page(content))),
        Route("/texts.json", _json_handler(table_data)),
        Route("/texts/word", _json_handler(word_data)),
        Route("/texts/text", _json_handler(text_data)),
        Route("/summary", send_summary),
    ]


def _json_handler(compute: Callable[[HttpRequest], Any]) -> Handler:
    """Return a handler that sends the result of ``compute`` as JSON.

    It computes in a thread, so that other requests do not wait.
    """

    async def handle(request: HttpRequest) -> Response:
        """Compute and send the answer."""
        body = await asyncio.to_thread(lambda: msgspec.json.encode(compute(request)))
        return Response(body, media_type=_JSON_TYPE)

    return handle


def _report_response(
    content: PageContent, current_page: str, render: Callable[..., str]
) -> Response:
    """Return a report page, which is one file and contains its own content policy."""
    links = navigation(content, current_page, download=(current_page, f"{current_page}.html"))
    return HTMLResponse(
        render(navigation=links), headers={"content-security-policy": REPORT_POLICY}
    )


def _html_handler(page: str) -> Handler:
    """Return a handler that sends a page."""

    async def handle(_: HttpRequest) -> Response:
        """Send the page."""
        return HTMLResponse(page)

    return handle


async def _send_page_file(request: HttpRequest) -> Response:
    """Send a script or the style sheet of the page."""
    file = page_files().get(f"page/{request.path_params['name']}")
    if file is None:
        raise HTTPException(404)
    media_type, content = file
    return Response(content, media_type=media_type)


@cache
def page_files() -> dict[str, tuple[str, bytes]]:
    """Return the media type and the content of each file that the page loads, by its address."""
    files = {
        f"page/{script.name}": ("text/javascript", bundle_module(script).encode())
        for script in ENTRIES
        if script.parent == _PAGE_FOLDER or script.stem == "theme"
    }
    style = style_sheet(*_STYLE_SHEETS, _PAGE_FOLDER / "serving.css")
    files["page/style.css"] = ("text/css", style.encode())
    return files


async def _send_error(_: HttpRequest, error: Exception) -> Response:
    """Send an error message as JSON."""
    status, message = 400, str(error)
    if isinstance(error, HTTPException):
        status = error.status_code
        message = _STATUS_MESSAGES.get(status, "that did not work.")
    return Response(msgspec.json.encode({"error": message}), status, media_type=_JSON_TYPE)
