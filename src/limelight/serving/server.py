"""``limelight.serve``: the server of a page that shows models, a run and a judgment."""

import contextlib
import errno
import html
import ipaddress
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import uvicorn

from limelight.errors import InputError, unknown_name_message
from limelight.explainers.learned import LearnedMethod
from limelight.files import read_bounded_bytes
from limelight.models import Model, check_model, load
from limelight.models.fingerprints import short_fingerprint
from limelight.models.loading import model_source
from limelight.results.judgment import Judgment
from limelight.serving.app import PageContent, ServedModel, make_app
from limelight.serving.guard import MAX_CONNECTIONS, DeadlineProtocol, GuardedApp
from limelight.serving.queue import JobQueue
from limelight.serving.run_views import RunViews
from limelight.text import Splitter, truncate_line
from limelight.text.features import ALL_FEATURES

if TYPE_CHECKING:
    from limelight.runs import Run

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
_DEFAULT_PORT = 8737  # a fixed port that is tried first, so that the address is easy to find again
_SECONDS_TO_START = 20.0
_LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
_MAX_MODELS = 2


def serve(
    model: Model | Sequence[Model] | None = None,
    *,
    run: "Run | str | os.PathLike[str] | None" = None,
    judgment: "Judgment | str | os.PathLike[str] | None" = None,
    learned: LearnedMethod | str | os.PathLike[str] | None = None,
    features: str | Splitter | None = None,
    host: str = LOOPBACK,
    port: int | None = None,
    seconds: int | float = 120,
    anyway: bool = False,
) -> "Serving":
    """Start a server on this machine whose page explains texts or shows a run or a judgment.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`, or a list of two models to
        compare. Default: the model that comes with limelight. If the run or the judgment belongs to
        another model, there is no default, and you cannot type texts.
    run
        A run or its folder. The page shows its texts, words, mistakes and slices.
    judgment
        A judgment or its JSON file.
    learned
        A method that :func:`limelight.learn` returned for the model, or its folder. The page shows
        its scores at once, and sampled Shapley values when they are ready.
    features
        Features that the page scores first: one of the names that it offers, or a splitter, which
        the page then also offers. Default: words, or sentences for language models that answer.
    host
        Address to serve on. By default only this machine can open the page.
    port
        Port of the server. Default: a free port.
    seconds
        Time limit of a request, in seconds.
    anyway
        Serve a run or a judgment together with a model to which it does not belong. Every page then
        shows a warning.

    Returns
    -------
    The running server. ``url`` is the address of the page, and ``stop()`` ends the server.

    Raises
    ------
    InputError
        If an argument is invalid, the port is in use, or a run or a judgment belongs to another
        model and ``anyway`` is not set.

    Examples
    --------
    >>> import limelight
    >>> with limelight.serve(limelight.load()) as serving:
    ...     print(serving.url)
    http://127.0.0.1:.../.../
    """
    _check_arguments(host=host, port=port, seconds=seconds)
    if not (features is None or callable(features) or features in ALL_FEATURES):
        raise InputError(unknown_name_message("features", features, ALL_FEATURES))
    models, opened_run = _check_models(model), None
    if run is not None:
        from limelight.runs import Run

        opened_run = _open_stored(run, "run", Run, Run)
    opened_judgment = _open_stored(judgment, "judgment", Judgment, _read_judgment)
    if not models:
        models = _default_models(opened_run, opened_judgment)
    served_models = tuple(
        ServedModel(name=_model_name(served_model, i, models), model=served_model, learned=method)
        for i, (served_model, method) in enumerate(
            zip(models, _match_learned(learned, models), strict=True)
        )
    )
    mismatches = _find_mismatches(served_models, opened_run, opened_judgment)
    if mismatches and not anyway:
        raise InputError(
            f"{mismatches[0]}, so one page would mix two models. Serve what belongs together, or "
            "add --anyway (anyway=True)."
        )
    content = PageContent(
        models=served_models,
        run=opened_run,
        judgment=opened_judgment,
        seconds=float(seconds),
        warnings=tuple(f"{mismatch[0].upper()}{mismatch[1:]}." for mismatch in mismatches),
        features=features,
    )
    return Serving(content, host=host, port=port).start()


class Serving:
    """A running server of a page.

    ``url`` is the address of the page, and :meth:`stop` ends the server. ``is_local`` says whether
    only this machine can open the page. ``warnings`` are shown on every page.
    """

    def __init__(self, content: PageContent, *, host: str, port: int | None) -> None:
        self.warnings = content.warnings
        self._socket = _bind_socket(host, port)
        address, bound_port, *_ = self._socket.getsockname()
        self.is_local = ipaddress.ip_address(address).is_loopback
        token, url_host = secrets.token_urlsafe(24), f"[{host}]" if ":" in host else host
        self.url = f"http://{url_host}:{bound_port}/{token}/"
        self._queue = JobQueue()
        self._views = None if content.run is None else RunViews(content.run)
        guarded_app = GuardedApp(
            make_app(content, self._queue, self._views),
            token=token,
            hosts={*_LOCAL_NAMES, host.lower()},
            any_address=not self.is_local,
        )
        config = uvicorn.Config(
            guarded_app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            loop="asyncio",
            http=DeadlineProtocol,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS + 100,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        # Events instead of Thread.join: after Ctrl-C, join takes a running thread for a finished
        # one.
        self._start_event, self._end_event = threading.Event(), threading.Event()

    def __repr__(self) -> str:
        return f"<Serving {self.url}>" if self.is_running else "<Serving, stopped>"

    def _repr_html_(self) -> str:
        if not self.is_running:
            return "<p>The page has been stopped.</p>"
        link = f'<a href="{html.escape(self.url)}" target="_blank" rel="noopener">open the page</a>'
        warnings = "".join(f"<p><b>{html.escape(warning)}</b></p>" for warning in self.warnings)
        return f"<p>limelight is serving: {link}. <code>.stop()</code> ends it.</p>{warnings}"

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the server answers requests."""
        has_thread = self._start_event.is_set() and not self._end_event.is_set()
        return has_thread and not self._server.should_exit

    def wait(self) -> None:
        """Wait until the server is stopped. Ctrl-C stops it."""
        try:
            while self.is_running:
                self._end_event.wait(0.2)  # on some systems Ctrl-C does not end a longer wait
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop the server. A model that is still computing stops when the program ends."""
        self._server.should_exit = True
        self._queue.close()
        if self._views is not None:
            self._views.stop()
        if self._start_event.is_set():
            self._end_event.wait(5)
        with contextlib.suppress(OSError):
            self._socket.close()

    def start(self) -> "Serving":
        """Start the server in a thread, and return when it can answer."""
        deadline = time.monotonic() + _SECONDS_TO_START
        try:
            self._start_event.set()
            threading.Thread(target=self._run_server, name="limelight-serve", daemon=True).start()
            while not self._server.started:
                if self._end_event.is_set() or time.monotonic() > deadline:
                    raise InputError(f"the page could not be served at {self.url}.")
                time.sleep(0.005)
            if self._views is not None:
                self._views.columns.poll()  # read the run while the user opens the page
        except (
            BaseException
        ):  # also Ctrl-C: the program must not end while a thread uses a database
            self.stop()
            raise
        return self

    def _run_server(self) -> None:
        """Run the server until it stops."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._end_event.set()


def _bind_socket(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens on a port, by default on the usual port or a free one."""
    if port is not None:
        return _open_socket(host, port)
    try:
        return _open_socket(host, _DEFAULT_PORT)
    except InputError:
        return _open_socket(host, 0)


def _open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on ``port``, or raise ``InputError`` if that is impossible."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        server_socket = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"there is no host {host!r} to serve on: {error.strerror}.") from None
    try:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind(address)
        # Without `listen`, another process could bind the same port.
        server_socket.listen(128)
    except OSError as error:
        server_socket.close()
        messages = {
            errno.EADDRINUSE: f"port {port} is in use. Choose another, or leave --port out.",
            errno.EACCES: f"port {port} may not be used. Choose one above 1023 with --port.",
        }
        reason = str(error.strerror or error).lower()
        default_message = f"cannot serve on {host}, port {port}: {reason}."
        raise InputError(messages.get(error.errno or 0, default_message)) from None
    return server_socket


def _check_arguments(*, host: Any, port: Any, seconds: Any) -> None:
    """Raise `InputError` for an unusable host, port or time limit."""
    if not isinstance(host, str):
        raise InputError(f"host must be a name or an address, as text, not {host!r}.")
    is_port = port is None or (isinstance(port, int) and 0 <= port < 1 << 16)
    if isinstance(port, bool) or not is_port:
        raise InputError(f"port must be a number from 0 to 65535, not {port!r}.")
    # Timers accept at most a few hundred years.
    is_duration = isinstance(seconds, int | float) and 0 < seconds < 1e9
    if isinstance(seconds, bool) or not is_duration:
        raise InputError(f"seconds must be a number above 0 and below 1e9, not {seconds!r}.")


def _check_models(models: Any) -> list[Model]:
    """Return a model, a list of models or None as a list of at most two models."""
    if models is None:
        return []
    models = list(models) if isinstance(models, list | tuple) else [models]
    if len(models) > _MAX_MODELS:
        raise InputError(f"a page compares at most {_MAX_MODELS} models, not {len(models)}.")
    return [check_model(candidate) for candidate in models]


def _default_models(run: "Run | None", judgment: Judgment | None) -> list[Model]:
    """Return the shipped model, or an empty list if run or judgment belongs to another model."""
    fingerprints = set[str]()
    if run is not None:  # `if run` would skip a run without texts
        fingerprints.add(run.record.model.fingerprint)
    if judgment is not None and judgment.model:
        fingerprints.add(judgment.model)
    shipped_model = load()
    return [shipped_model] if fingerprints <= {shipped_model.fingerprint} else []


def _find_mismatches(
    models: Sequence[ServedModel], run: "Run | None", judgment: Judgment | None
) -> list[str]:
    """Return a clause for each run or judgment that does not belong to a served model.

    Without served models, run and judgment must belong to the same model.
    """
    stored_fingerprints = {
        "run": "" if run is None else run.record.model.fingerprint,
        "judgment": "" if judgment is None else judgment.model,
    }
    fingerprints = {name: value for name, value in stored_fingerprints.items() if value}
    # A fingerprint reads all weights, so compute it only if it is needed.
    served_names = {model.model.fingerprint: model.name for model in models} if fingerprints else {}
    if not served_names and len(set(fingerprints.values())) > 1:
        first, second = (_short_fingerprint(value) for value in fingerprints.values())
        return [f"the run and the judgment belong to two models ({first} and {second})"]
    served = " and ".join(
        f"“{name}” ({_short_fingerprint(value)})" for value, name in served_names.items()
    )
    return [
        f"the {name} belongs to another model ({_short_fingerprint(value)}) than {served}"
        for name, value in fingerprints.items()
        if served_names and value not in served_names
    ]


def _short_fingerprint(fingerprint: str) -> str:
    """Return the beginning of a fingerprint for a message."""
    return truncate_line(short_fingerprint(fingerprint))


def _model_name(model: Model, number: int, models: list[Model]) -> str:
    """Return the name that the page gives a model, with A or B in front if there are two."""
    source = model_source(model)
    name = type(model).__name__
    if source is not None:
        name = "the IMDB model of limelight" if source.path is None else Path(source.path).name
    return name if len(models) == 1 else f"{'AB'[number]}: {name}"


def _match_learned(learned: Any, models: list[Model]) -> list[LearnedMethod | None]:
    """Return, for each model, the learned method if it was learned from this model, else None.

    If it was learned from another model, raise `InputError`.
    """
    if (method := _open_stored(learned, "learned", LearnedMethod, LearnedMethod.load)) is None:
        return [None] * len(models)
    fingerprint = method.record["model"]
    matches = [method if model.fingerprint == fingerprint else None for model in models]
    if not any(matches):
        served = " and ".join(_short_fingerprint(model.fingerprint) for model in models)
        raise InputError(
            f"the method was learned from the model {_short_fingerprint(fingerprint)}, not from "
            f"{served or 'none'}. Serve that model, or learn from this one."
        )
    return matches


def _open_stored(value: Any, name: str, kind: type[T], read: Callable[[Path], T]) -> T | None:
    """Return ``value`` if it is None or of type ``kind``. Otherwise read it from its path."""
    if value is None or isinstance(value, kind):
        return value
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name} must be a {name.capitalize()} or its path, not {value!r}.")
    return read(Path(value))


def _read_judgment(path: Path) -> Judgment:
    """Read a judgment from its JSON file."""
    content = read_bounded_bytes(path, 1 << 30)
    try:
        return Judgment.from_json(content)
    except InputError as error:
        raise InputError(f"'{path}': {error}") from None
