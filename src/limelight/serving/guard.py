"""Which requests are answered, what every answer must say, and how long a request may take."""

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

_SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
# A page of ours that is one file brings its own policy, by the digests of its style and script.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECONDS_TO_ASK = 30.0  # from the first byte of a request, or the connection, to the last byte
MOST_CONNECTIONS = 400
WHOLE_PAGE_POLICY = "frame-ancestors 'none'; connect-src 'none'; object-src 'none'"


@dataclass(frozen=True)
class GuardedApp:
    """An application behind a token and a check of the host."""

    app: ASGIApp
    token: str
    hosts: Collection[str]
    any_address: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with a sentence."""
        given, slash, rest = scope["path"].removeprefix("/").partition("/")
        answer: ASGIApp
        if not self._is_known(scope):
            answer = _refusal(421, "This server answers only to the address that it printed.")
        elif not secrets.compare_digest(given.encode(), self.token.encode()):
            sentence = "Open the whole address that limelight printed: it ends in a token."
            answer = _refusal(403, sentence)
        elif not slash:  # the page's own addresses begin where its address ends
            answer = _refusal(307, "", location=f"/{self.token}/")
        else:
            scope = {**scope, "path": f"/{rest}", "raw_path": None}
            answer, send = self.app, _with_policy(send)
        await answer(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        """Say whether the request was sent to us, and not to a name that leads here.

        Another site may let its own name point at this machine, and its page could then read what
        we answer. It cannot make its name a number.
        """
        found = [value for key, value in scope["headers"] if key == b"host"]
        host = found[0].decode("latin-1") if len(found) == 1 else ""
        name = re.sub(r":\d+$", "", host).strip("[]").lower()
        if name in self.hosts or not self.any_address:
            return name in self.hosts
        with contextlib.suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return False


def _with_policy(send: Send) -> Send:
    """Return ``send`` with the headers of our own pages, where an answer has not others."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in {**_SECURITY, "content-security-policy": POLICY}.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _refusal(status: int, sentence: str, **more: str) -> PlainTextResponse:
    return PlainTextResponse(f"{sentence}\n", status, headers=_SECURITY | more)


class DeadlineProtocol(H11Protocol):  # type: ignore[misc]
    """uvicorn's own protocol; a request that is not whole in time ends its connection.

    Whoever asks is let in: where there are too many connections, the one goes that has asked
    nothing for longest. A limit for each address would not do, since on one machine all have one.
    """

    _ending: asyncio.TimerHandle | None = None
    _since = 0.0  # when it was made, or last answered

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Give the first request its time, which begins before its first byte."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._look()
        if len(self.connections) > MOST_CONNECTIONS:
            resting = [one for one in self.connections if one is not self and one.is_resting]
            if resting:
                longest = min(resting, key=lambda one: one._since)
                self.connections.discard(longest)  # it hears of its end only later
                longest.transport.abort()

    @property
    def is_resting(self) -> bool:
        """Whether no whole request of it is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Count from now how long nothing is asked."""
        self._since = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came. More bytes do not buy more time: a trickle is silence of another kind."""
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        # IDLE: headers are missing; SEND_BODY: the body is. In any other state the client has said
        # all it had to, and how long the answer takes is the model's business.
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._cancel()
        elif self._ending is None:
            self._ending = self.loop.call_later(_SECONDS_TO_ASK, self.transport.abort)

    def _cancel(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
