"""People at keyboards: clients that ask a served page as a browser does."""

__all__ = ["METHODS", "Client", "Outcome", "asked", "exchanged"]

import asyncio
import json
import random
import time
from typing import NamedTuple
from urllib.parse import urlsplit

METHODS = ["shapley", "lime", "alpha-avg"]  # what the page shows at first
KEY = 0.3  # seconds
_CONNECTIONS = 6  # that a browser opens to one server
WORDS = [
    "the", "film", "plot", "acting", "story", "music", "scene", "ending", "actor", "camera",
    "is", "was", "not", "very", "quite", "too", "and", "but", "with", "for", "good", "bad",
    "great", "awful", "superb", "dull", "moving", "boring", "fine", "weak", "first", "last",
    "one", "two", "it", "I", "would", "watch", "again", "never", "always", "family", "friend",
    "moment", "character", "dialogue", "pace", "humour",
]  # fmt: skip


class Outcome(NamedTuple):
    """How a question ended, and after how many seconds."""

    ended: str
    seconds: float


async def asked(url: str, method: str, path: str, body: bytes) -> bytes:
    """Return the body of one answer over a connection of its own."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        return await exchanged(reader, writer, url, method, path, body)
    finally:
        writer.close()


async def exchanged(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    url: str,
    method: str,
    path: str,
    body: bytes,
) -> bytes:
    """Send a request and return the body of its answer."""
    place = urlsplit(url)
    size = len(body)
    head = f"{method} {place.path}{path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {size}"
    writer.write(f"{head}\r\n\r\n".encode() + body)
    await writer.drain()
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
    if "200" not in lines[0]:
        raise OSError(lines[0])
    length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), None)
    if length is not None:
        return await reader.readexactly(length)
    parts = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts)


class Client:
    """One person at a keyboard, with a few connections as a browser has."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self._random = random.Random(name)
        self._words = self._random.choices(WORDS, k=30)
        self._places = asyncio.Semaphore(_CONNECTIONS)
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.outcomes: list[Outcome] = []

    def key(self) -> bytes:
        """Change a word and return the question that the page would ask."""
        self._words[self._random.randrange(30)] = self._random.choice(WORDS) + self._random.choice(
            "abcdefg"
        )
        question = {
            "tab": self.name,
            "panel": "0",
            "text": " ".join(self._words),
            "methods": METHODS,
        }
        return json.dumps(question).encode()

    async def types(self, until: float) -> None:
        """Press a key every 300 ms, whether the last one is answered or not."""
        tasks = []
        await asyncio.sleep(self._random.random() * KEY)
        while time.perf_counter() < until:
            next_key = time.perf_counter() + KEY
            tasks.append(asyncio.create_task(self.asks(self.key())))
            await asyncio.sleep(max(0.0, next_key - time.perf_counter()))
        await asyncio.gather(*tasks)
        for _, writer in self._free:
            writer.close()

    async def asks(self, body: bytes) -> None:
        """Ask once and note how it ended; as in a browser, a question waits for a connection."""
        begun = time.perf_counter()
        async with self._places:
            place = urlsplit(self.url)
            if not self._free:
                self._free.append(await asyncio.open_connection(place.hostname, place.port))
            await self._asks(body, begun)

    async def _asks(self, body: bytes, begun: float) -> None:
        pair = self._free.pop()
        try:
            answer = json.loads(
                (await exchanged(*pair, self.url, "POST", "text?when=now", body)).splitlines()[-1]
            )
            self.outcomes.append(Outcome(next(iter(answer)), time.perf_counter() - begun))
            self._free.append(pair)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            self.outcomes.append(Outcome(f"error {error}", time.perf_counter() - begun))
