"""Reject requests without the token, add security headers, and limit the time of a request."""

import asyncio
import contextlib
import ipaddress
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass

import h11
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
# A report page that is one file sets its own policy with the digests of its style and script.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REQUEST_SECONDS = 30.0  # from the connection, or the first byte of a request, to its last byte
MAX_CONNECTIONS = 400
REPORT_POLICY = "frame-ancestors 'none'; connect-src 'none'; object-src 'none'"


@dataclass(frozen=True)
class GuardedApp:
    """An application that answers only requests with the right token and host."""

    app: ASGIApp
    token: str
    hosts: Collection[str]
    any_address: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or reject it with an error message."""
        token, slash, path = scope["path"].removeprefix("/").partition("/")
        answer: ASGIApp
        if not self._is_own_host(scope):
            answer = _plain_response(
                421, "This server answers only to the address that it printed."
            )
        elif not secrets.compare_digest(token.encode(), self.token.encode()):
            sentence = "Open the whole address that limelight printed: it ends in a token."
            answer = _plain_response(403, sentence)
        elif not slash:  # relative addresses in the page need the slash at the end
            answer = _plain_response(307, "", location=f"/{self.token}/")
        else:
            scope = {**scope, "path": f"/{path}", "raw_path": None}
            answer, send = self.app, _add_security_headers(send)
        await answer(scope, receive, send)

    def _is_own_host(self, scope: Scope) -> bool:
        """Return whether the Host header names this machine.

        Another website can let its name point to this machine (DNS rebinding). Its page could then
        read the answers. It cannot use a number as its name, so that IP addresses are safe.
        """
        headers = [value for key, value in scope["headers"] if key == b"host"]
        host = headers[0].decode("latin-1") if len(headers) == 1 else ""
        name = re.sub(r":\d+$", "", host).strip("[]").lower()
        if name in self.hosts or not self.any_address:
            return name in self.hosts
        with contextlib.suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return False


def _add_security_headers(send: Send) -> Send:
    """Return a version of ``send`` that adds the security headers that an answer does not set."""

    async def send_with_headers(message: Message) -> None:
        """Add the headers to the start of the answer and send the message."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in {**_SECURITY_HEADERS, "content-security-policy": POLICY}.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def _plain_response(status: int, message: str, **headers: str) -> PlainTextResponse:
    """Return a message as plain text, with the security headers."""
    return PlainTextResponse(f"{message}\n", status, headers=_SECURITY_HEADERS | headers)


class DeadlineProtocol(H11Protocol):  # type: ignore[misc]
    """The HTTP protocol of uvicorn, which also closes a connection whose request comes too slowly.

    Every new connection is accepted. If there are too many, the connection that has been idle for
    longest is closed. A limit per IP address would not work, because all clients of one machine
    share an address.
    """

    _deadline_timer: asyncio.TimerHandle | None = None
    _idle_since = 0.0  # time of the connection or of the last answer

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the deadline of the first request, and close an idle connection if necessary."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._update_deadline()
        if len(self.connections) > MAX_CONNECTIONS:
            idle_connections = [
                connection
                for connection in self.connections
                if connection is not self and connection.is_idle
            ]
            if idle_connections:
                oldest = min(idle_connections, key=lambda connection: connection._idle_since)
                # `connection_lost` would remove it too, but only later.
                self.connections.discard(oldest)
                oldest.transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether the server is not answering a request of this connection."""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Record the time at which the connection becomes idle."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Receive bytes without extending the deadline, which a slow sender could abuse."""
        super().data_received(data)
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline of a closed connection."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def _update_deadline(self) -> None:
        """Start the deadline while a request is incomplete, and cancel it when it is complete."""
        # IDLE: headers are missing. SEND_BODY: the body is missing. In all other states the request
        # is complete, and the time of the answer depends on the model.
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._cancel_deadline()
        elif self._deadline_timer is None:
            self._deadline_timer = self.loop.call_later(_REQUEST_SECONDS, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
