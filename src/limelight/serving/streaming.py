"""Answers in lines of JSON: how far a question has come, then what was found."""

__all__ = ["bounded_body", "lines_of"]

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from limelight.errors import InputError
from limelight.serving.desk import Desk, Failed, Found, Share, Superseded, Ticket
from limelight.serving.questions import MOST_BYTES

_SECONDS_TO_SEND = 20.0
_GRACE = 1.0  # seconds to the next step of a question that is given up


async def bounded_body(request: Request) -> bytes:
    """Return the body of a request, of limited size and sent in limited time."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(_SECONDS_TO_SEND):
            async for part in request.stream():
                size += len(part)
                if size > MOST_BYTES:
                    raise InputError(f"a request may have {MOST_BYTES:,} bytes; this one has more.")
                parts.append(part)
    except TimeoutError:
        raise InputError(f"a request must be sent in {_SECONDS_TO_SEND:.0f} seconds.") from None
    except ClientDisconnect:  # nobody hears it; a traceback in the terminal would be heard
        raise InputError("the request was not sent to its end.") from None
    return b"".join(parts)


async def lines_of(ticket: Ticket, desk: Desk, *, seconds: float) -> AsyncIterator[bytes]:
    """Yield one line per event; a reader who leaves, or ``seconds`` gone, ends the job."""
    answered, ended, until = False, False, time.monotonic() + seconds
    try:
        while not ended:
            left = max(until - time.monotonic(), 0.0)
            event = await asyncio.wait_for(ticket.events.get(), left)
            answered = isinstance(event, Found | Failed)
            line, ended = _line(event)
            yield msgspec.json.encode(line) + b"\n"
    except TimeoutError:
        sentence = f"the model took longer than {seconds:g} seconds; the question was given up."
        yield msgspec.json.encode({"failed": sentence}) + b"\n"
    finally:
        if not answered and desk.leave(ticket):
            # It ends at its next step, or never: others wait, and then get another thread.
            left = max(until - time.monotonic(), min(_GRACE, seconds / 4))
            asyncio.get_running_loop().call_later(left, desk.give_up, ticket)


def _line(event: Any) -> tuple[dict[str, Any], bool]:
    match event:
        case Share(done):
            return {"share": round(done, 4)}, False
        case Found(answer):
            return {"found": answer}, True
        case Failed(sentence):
            return {"failed": sentence}, True
        case Superseded():
            return {"superseded": True}, True
    raise TypeError(event)
