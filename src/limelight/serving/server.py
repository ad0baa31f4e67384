"""``limelight.serve``: models, a run, a judgment, and the server of the page that shows them."""

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
from limelight.serving.app import Served, ServedModel, page_app
from limelight.serving.guard import MOST_CONNECTIONS, DeadlineProtocol, GuardedApp
from limelight.serving.queue import QuestionQueue
from limelight.serving.run_views import RunViews
from limelight.text import Splitter, truncate_line
from limelight.text.features import ALL_FEATURES

if TYPE_CHECKING:
    from limelight.runs import Run

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
_PORT = 8737  # the first that is tried where none is named: an address that is easy to find again
_SECONDS_TO_START = 20.0
_LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
_MOST_MODELS = 2


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
    """Serve a page on this machine and return it: ``url`` is its address, ``stop()`` its end.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns, or a list of two to be
        compared. By default the one that comes with limelight, unless the run or the judgment is
        about another: then texts cannot be typed.
    run
        A run, or its folder: the page shows its texts, words, mistakes and slices.
    judgment
        A judgment, or its JSON file.
    learned
        What :func:`limelight.learn` returned for the model, or its folder: its scores are shown at
        once, and sampled Shapley values when they are there.
    features
        What the page scores at first: one of the names that it offers, or a cutter, which it then
        offers beside them. By default words, of a language model that answers sentences.
    host
        The address to serve on. Only this machine can open the page unless another is named.
    port
        By default one that is free.
    seconds
        What a question may take before it is given up.
    anyway
        Serve a run or a judgment beside a model that it is not about. Without it that is refused,
        since one page would show two models as one; with it every page says so.
    """
    _check(host=host, port=port, seconds=seconds)
    if not (features is None or callable(features) or features in ALL_FEATURES):
        raise InputError(unknown_name_message("features", features, ALL_FEATURES))
    models, opened = _models(model), None
    if run is not None:
        from limelight.runs import Run

        opened = _opened(run, "run", Run, Run)
    judged = _opened(judgment, "judgment", Judgment, _stored)
    if not models:
        models = _usual(opened, judged)
    named = tuple(
        ServedModel(name=_name(m, i, models), model=m, learned=own)
        for i, (m, own) in enumerate(zip(models, _learned(learned, models), strict=True))
    )
    apart = _other_models(named, opened, judged)
    if apart and not anyway:
        raise InputError(
            f"{apart[0]}; one page would show two models as one. Serve what belongs together, or "
            "say --anyway (anyway=True)."
        )
    served = Served(
        models=named,
        run=opened,
        judgment=judged,
        seconds=float(seconds),
        warnings=tuple(f"{clause[0].upper()}{clause[1:]}." for clause in apart),
        features=features,
    )
    return Serving(served, host=host, port=port).start()


class Serving:
    """A page that is being served; ``url`` is its address, :meth:`stop` its end.

    ``is_local`` says that only this machine can open it; ``warnings`` are what every page says.
    """

    def __init__(self, served: Served, *, host: str, port: int | None) -> None:
        self.warnings = served.warnings
        self._socket = _bound(host, port)
        address, number, *_ = self._socket.getsockname()
        self.is_local = ipaddress.ip_address(address).is_loopback
        token, shown = secrets.token_urlsafe(24), f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{number}/{token}/"
        self._queue = QuestionQueue()
        self._views = None if served.run is None else RunViews(served.run)
        guarded = GuardedApp(
            page_app(served, self._queue, self._views),
            token=token,
            hosts={*_LOCAL_NAMES, host.lower()},
            any_address=not self.is_local,
        )
        config = uvicorn.Config(
            guarded,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            loop="asyncio",
            http=DeadlineProtocol,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS + 100,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        # Not Thread.join: where Ctrl-C interrupts it, it takes a running thread for an ended one.
        self._begun, self._ended = threading.Event(), threading.Event()

    def __repr__(self) -> str:
        return f"<Serving {self.url}>" if self.running else "<Serving, stopped>"

    def _repr_html_(self) -> str:
        if not self.running:
            return "<p>The page has been stopped.</p>"
        link = f'<a href="{html.escape(self.url)}" target="_blank" rel="noopener">open the page</a>'
        said = "".join(f"<p><b>{html.escape(warning)}</b></p>" for warning in self.warnings)
        return f"<p>limelight is serving: {link}. <code>.stop()</code> ends it.</p>{said}"

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether somebody would answer."""
        running = self._begun.is_set() and not self._ended.is_set()
        return running and not self._server.should_exit

    def wait(self) -> None:
        """Return when the page is stopped; Ctrl-C stops it."""
        try:
            while self.running:
                self._ended.wait(0.2)  # a wait without end would not hear Ctrl-C everywhere
        finally:
            self.stop()

    def stop(self) -> None:
        """End the server; whatever a model is still computing ends with the program."""
        self._server.should_exit = True
        self._queue.close()
        if self._views is not None:
            self._views.stop()
        if self._begun.is_set():
            self._ended.wait(5)
        with contextlib.suppress(OSError):
            self._socket.close()

    def start(self) -> "Serving":
        """Serve in a thread; return when the first page can be asked for."""
        until = time.monotonic() + _SECONDS_TO_START
        try:
            self._begun.set()
            threading.Thread(target=self._run, name="limelight-serve", daemon=True).start()
            while not self._server.started:
                if self._ended.is_set() or time.monotonic() > until:
                    raise InputError(f"the page could not be served at {self.url}.")
                time.sleep(0.005)
            if self._views is not None:
                self._views.columns.now()  # it is read while the reader opens the page
        except BaseException:  # Ctrl-C too: a program must not end with threads inside a database
            self.stop()
            raise
        return self

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._ended.set()


def _bound(host: str, port: int | None) -> socket.socket:
    if port is not None:
        return _socket(host, port)
    try:
        return _socket(host, _PORT)
    except InputError:
        return _socket(host, 0)


def _socket(host: str, port: int) -> socket.socket:
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"there is no host {host!r} to serve on: {error.strerror}.") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(128)  # a port that is bound but not listened to can be bound twice
    except OSError as error:
        found.close()
        known = {
            errno.EADDRINUSE: f"port {port} is in use; choose another with --port, or name none.",
            errno.EACCES: f"port {port} may not be used; choose one above 1023 with --port.",
        }
        reason = str(error.strerror or error).lower()
        other = f"cannot serve on {host}, port {port}: {reason}."
        raise InputError(known.get(error.errno or 0, other)) from None
    return found


def _check(*, host: Any, port: Any, seconds: Any) -> None:
    if not isinstance(host, str):
        raise InputError(f"host must be a name or an address, as text; got {host!r}.")
    usable = port is None or (isinstance(port, int) and 0 <= port < 1 << 16)
    if isinstance(port, bool) or not usable:
        raise InputError(f"a port is a number from 0 to 65535; got {port!r}.")
    # Timers take no more than a few hundred years.
    usable = isinstance(seconds, int | float) and 0 < seconds < 1e9
    if isinstance(seconds, bool) or not usable:
        raise InputError(f"seconds must be a number above 0 and below 1e9; got {seconds!r}.")


def _models(given: Any) -> list[Model]:
    if given is None:
        return []
    several = list(given) if isinstance(given, list | tuple) else [given]
    if len(several) > _MOST_MODELS:
        raise InputError(f"a page compares at most {_MOST_MODELS} models; got {len(several)}.")
    return [check_model(one) for one in several]


def _usual(run: "Run | None", judgment: Judgment | None) -> list[Model]:
    """Return the shipped model, unless a run or a judgment is about another one."""
    about = set[str]()
    if run is not None:  # one without texts, which has no length, is about a model too
        about.add(run.record.model.fingerprint)
    if judgment is not None and judgment.model:
        about.add(judgment.model)
    shipped = load()
    return [shipped] if about <= {shipped.fingerprint} else []


def _other_models(
    models: Sequence[ServedModel], run: "Run | None", judgment: Judgment | None
) -> list[str]:
    """Return a clause for each stored thing that is about none of the models, or not of one."""
    stored = {
        "run": "" if run is None else run.record.model.fingerprint,
        "judgment": "" if judgment is None else judgment.model,
    }
    known = {name: one for name, one in stored.items() if one}  # a fingerprint reads every weight
    live = {one.model.fingerprint: one.name for one in models} if known else {}
    if not live and len(set(known.values())) > 1:
        ours, theirs = (_shown(one) for one in known.values())
        return [f"the run and the judgment are about two models ({ours} and {theirs})"]
    return [
        f"the {name} is about another model ({_shown(one)}) than "
        + " and ".join(f"“{called}” ({_shown(own)})" for own, called in live.items())
        for name, one in known.items()
        if live and one not in live
    ]


def _shown(fingerprint: str) -> str:
    return truncate_line(short_fingerprint(fingerprint))


def _name(model: Model, number: int, models: list[Model]) -> str:
    source = model_source(model)
    own = type(model).__name__
    if source is not None:
        own = "the IMDB model of limelight" if source.path is None else Path(source.path).name
    return own if len(models) == 1 else f"{'AB'[number]}: {own}"


def _learned(given: Any, models: list[Model]) -> list[LearnedMethod | None]:
    """Return the method beside the model that it was learned from; there must be one."""
    if (learned := _opened(given, "learned", LearnedMethod, LearnedMethod.load)) is None:
        return [None] * len(models)
    own = learned.record["model"]
    found = [learned if model.fingerprint == own else None for model in models]
    if not any(found):
        served = " and ".join(_shown(model.fingerprint) for model in models)
        raise InputError(
            f"the method was learned from another model ({_shown(own)}) than is served "
            f"({served or 'none'}); serve that one, or learn from this."
        )
    return found


def _opened(given: Any, name: str, kind: type[T], read: Callable[[Path], T]) -> T | None:
    """Return what was given, or what is at its path."""
    if given is None or isinstance(given, kind):
        return given
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{name} must be a {name.capitalize()} or its path; got {given!r}.")
    return read(Path(given))


def _stored(path: Path) -> Judgment:
    content = read_bounded_bytes(path, 1 << 30)
    try:
        return Judgment.from_json(content)
    except InputError as error:
        raise InputError(f"'{path}': {error}") from None
