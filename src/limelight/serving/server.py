"""A server on this machine: its socket, its token, its thread, and its end."""

import contextlib
import errno
import html
import ipaddress
import secrets
import socket
import threading
import time
from typing import Any, final

import uvicorn

from limelight.errors import InputError
from limelight.serving.app import page_app
from limelight.serving.guard import DeadlineProtocol, GuardedApp
from limelight.serving.queue import QuestionQueue
from limelight.serving.served import Served

LOOPBACK = "127.0.0.1"
_PORT = 8737  # the first that is tried where none is named: an address that is easy to find again
_SECONDS_TO_START = 20.0
_LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")


@final
class Serving:
    """A page that is being served; ``url`` is its address, :meth:`stop` its end.

    ``is_local`` says that only this machine can open it.
    """

    def __init__(
        self, server: uvicorn.Server, queue: QuestionQueue, sock: socket.socket, url: str
    ) -> None:
        self._server, self._queue, self._socket = server, queue, sock
        self.url = url
        self.is_local = ipaddress.ip_address(sock.getsockname()[0]).is_loopback
        self._thread = threading.Thread(target=self._run, name="limelight-serve", daemon=True)

    def __repr__(self) -> str:
        return f"<Serving {self.url}>" if self.running else "<Serving, stopped>"

    def _repr_html_(self) -> str:
        if not self.running:
            return "<p>The page has been stopped.</p>"
        link = f'<a href="{html.escape(self.url)}" target="_blank" rel="noopener">open the page</a>'
        return f"<p>limelight is serving: {link}. <code>.stop()</code> ends it.</p>"

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether somebody would answer."""
        return self._thread.is_alive() and not self._server.should_exit

    def wait(self) -> None:
        """Return when the page is stopped; Ctrl-C stops it."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)  # a join without end would not hear Ctrl-C everywhere
        finally:
            self.stop()

    def stop(self) -> None:
        """End the server; whatever a model is still computing ends with the program."""
        self._server.should_exit = True
        self._queue.close()
        if self._thread.ident is not None:
            self._thread.join(5)
        with contextlib.suppress(OSError):
            self._socket.close()

    def start(self) -> "Serving":
        """Serve in a thread; return when the first page can be asked for."""
        self._thread.start()
        until = time.monotonic() + _SECONDS_TO_START
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                self.stop()
                raise InputError(f"the page could not be served at {self.url}.")
            time.sleep(0.005)
        return self

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def started(served: Served, *, host: str, port: int | None) -> Serving:
    """Serve on ``host``; with no ``port`` on one that is free."""
    sock = _bound(host, port)
    token = secrets.token_urlsafe(24)
    queue = QuestionQueue()
    guarded = GuardedApp(
        page_app(served, queue),
        token=token,
        hosts={*_LOCAL_NAMES, host.lower()},
        any_address=not ipaddress.ip_address(sock.getsockname()[0]).is_loopback,
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
        limit_concurrency=500,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
    )
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{sock.getsockname()[1]}/{token}/"
    return Serving(uvicorn.Server(config), queue, sock, address).start()


def _bound(host: str, port: int | None) -> socket.socket:
    if port is not None and not 0 <= port < 1 << 16:
        raise InputError(f"a port is a number from 0 to 65535; got {port}.")
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
        raise InputError(_unbound(error, host, port)) from None
    return found


def _unbound(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use; choose another with --port, or name none."
    if error.errno == errno.EACCES:
        return f"port {port} may not be used; choose one above 1023 with --port."
    reason: Any = error.strerror or error
    return f"cannot serve on {host}, port {port}: {str(reason).lower()}."
