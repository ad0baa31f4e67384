"""``limelight serve`` under load: people typing, memory over many requests, start, first paint.

    python benchmarks/serving.py                      # 50 clients for 30 s, then 10,000 requests
    python benchmarks/serving.py --run FOLDER         # also the first paint of a run, in Chromium

The server is a process of its own with one thread for its arithmetic. A client has a text of 30
words and changes one every 300 ms; a question that is not answered by then is superseded, as the
page does it. An answer counts from the first byte sent to the last one read.
"""

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlsplit

from results import Measure, command_line, report
from typing_clients import METHODS, Client, Outcome, asked, exchanged

STARTS = 5
CHROMIUM = "/usr/bin/chromium"
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")


def main() -> None:
    """Start a server, let clients type, then ask it many times."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument(
        "--run", type=Path, help="folder of a run, for the first paint of its texts"
    )
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.clients, arguments.seconds, arguments.requests = 3, 1.0, 40
    measures = []
    starts = []
    for _ in range(1 if arguments.smoke else STARTS):
        with served() as (_, _, started):
            starts.append(1000 * started)
    below = {} if arguments.smoke else {"below": 1000.0}
    measures.append(
        Measure(
            id="serving_start",
            what="start to first page",
            value=median(starts),
            best=min(starts),
            unit="ms",
            **below,
        )
    )
    with served() as (process, url, _):
        measures += typing(url, process.pid, arguments)
        measures += memory(url, process.pid, arguments.requests)
    if arguments.run is not None:
        with served("--run", str(arguments.run)) as (_, url, _):
            measures += painting(url)
    data = f"{arguments.clients} clients, texts of 30 words, {', '.join(METHODS)}"
    report("serving", measures, arguments, data=data)


@contextlib.contextmanager
def served(*more: str) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    """Yield a server, its address, and the seconds until its first page had been read."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "limelight", "serve", "--port", "0", *more]
    begun = time.perf_counter()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **threads},
    ) as process:
        url = process.stdout.readline().strip() if process.stdout else ""
        asyncio.run(asked(url, "GET", "", b""))
        try:
            yield process, url, time.perf_counter() - begun
        finally:
            process.terminate()


def typing(url: str, pid: int, arguments: object) -> list[Measure]:
    """Let all clients type at once."""
    clients = [Client(url, f"client {i}") for i in range(arguments.clients)]

    async def all_type() -> None:
        until = time.perf_counter() + arguments.seconds
        await asyncio.gather(*(client.types(until) for client in clients))

    asyncio.run(asked(url, "POST", "text?when=now", clients[0].key()))  # the model is warm
    before, own = processor(pid), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    asyncio.run(all_type())
    spent, own = processor(pid) - before, resource.getrusage(resource.RUSAGE_SELF).ru_utime - own
    ends = [outcome for client in clients for outcome in client.outcomes]
    return answers(ends, spent, own, smoke=arguments.smoke)


def answers(ends: list[Outcome], spent: float, own: float, *, smoke: bool) -> list[Measure]:
    """Return how the questions ended; ``spent`` and ``own`` are processor seconds."""
    answered = sorted(1000 * one.seconds for one in ends if one.ended == "found")
    errors = [one.ended for one in ends if one.ended not in ("found", "superseded")]
    dropped = sum(one.ended == "superseded" for one in ends)
    limit = {} if smoke else {"below": 100.0}
    note = f"{len(ends):,} questions, {len(answered):,} answered, {dropped:,} superseded"
    return [
        Measure(
            id="serving_errors",
            what="errors",
            value=len(errors),
            below=0.5,
            note="; ".join(sorted(set(errors))[:3]),
        ),
        Measure(
            id="serving_answer",
            what="median answer",
            value=median(answered),
            unit="ms",
            note=note,
            **limit,
        ),
        Measure(
            id="serving_slowest",
            what="19 of 20 answers within",
            value=quantiles(answered, n=20)[-1],
            unit="ms",
        ),
        Measure(id="serving_dropped", what="superseded", value=100 * dropped / len(ends), unit="%"),
        Measure(
            id="serving_processor",
            what="processor time per answer",
            value=1000 * spent / max(len(answered), 1),
            unit="ms",
            note=f"the clients took {1000 * own / max(len(answered), 1):.1f} ms more",
        ),
    ]


def memory(url: str, pid: int, requests: int) -> list[Measure]:
    """Ask many times, one after the other, and see whether memory grows."""

    async def ask_all() -> list[float]:
        place, client = urlsplit(url), Client(url, "memory")
        pair = await asyncio.open_connection(place.hostname, place.port)
        seen = []
        for k in range(requests):
            await exchanged(*pair, url, "POST", "text?when=now", client.key())
            if k % max(requests // 10, 1) == 0 or k == requests - 1:
                seen.append(resident(pid))
        pair[1].close()
        return seen

    seen = asyncio.run(ask_all())
    grown = max(seen[-1] - seen[1], 0.0)  # the first tenth fills caches
    return [
        Measure(id="serving_memory", what="memory of the server", value=seen[-1], unit="MB"),
        Measure(
            id="serving_growth",
            what=f"growth over {requests:,} requests",
            value=grown,
            unit="MB",
            below=5.0,
            note=", ".join(f"{mb:.0f}" for mb in seen),
        ),
    ]


def painting(url: str) -> list[Measure]:
    """Open the texts of a run in Chromium: what it takes from the data to the first rows."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        times = []
        for _ in range(5):
            page = chromium.new_page()
            page.goto(f"{url}texts")
            page.wait_for_selector(".texts-window tbody tr[data-place]")
            page.wait_for_function("() => performance.getEntriesByName('limelight-painted').length")
            times.append(
                page.evaluate(
                    "performance.measure('p', 'limelight-data', 'limelight-painted').duration"
                )
            )
            count = page.inner_text("#texts-status")
            page.close()
        chromium.close()
    return [
        Measure(
            id="serving_paint",
            what="from data to first paint",
            value=median(times),
            best=min(times),
            unit="ms",
            below=200.0,
            note=count,
        )
    ]


def processor(pid: int) -> float:
    """Return the processor seconds of a process so far; 0 where nobody knows."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB; 0 where nobody knows."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
