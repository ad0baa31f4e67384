"""HTTP with a deadline for every request, so that nobody holds a connection by saying nothing.

uvicorn closes a connection that is idle after an answer (``timeout_keep_alive``), but waits without
end for the first byte of a new connection, and for the rest of a request that has begun. Enough of
these reach ``limit_concurrency``, and the page is refused to everybody else (slowloris).
"""

__all__ = ["DeadlineProtocol"]

import asyncio
from typing import final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_SECONDS_TO_ASK = 30.0  # from the first byte of a request, or the connection, to the last byte


@final
class DeadlineProtocol(H11Protocol):  # type: ignore[misc]
    """uvicorn's own protocol; a request that is not whole in time ends its connection."""

    _ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Give the first request its time, which begins before its first byte."""
        super().connection_made(transport)
        self._look()

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
