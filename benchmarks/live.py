"""The page without Python: how long an explanation takes in the browser, and in Python.

    python benchmarks/live.py

Both in turn, on the shipped model and the same texts; every text is new to the page, so that
nothing is remembered. Needs Debian's Chromium and Playwright. Both are timed by their processor,
the page by what Chromium says of its main thread: on a quiet machine that is the clock's time.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from measuring import on_cores, seconds
from results import Measure, command_line, report
from reviews import reviews

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
MOST = 100.0  # milliseconds for a text of 200 words
# What a keystroke shows: the prediction, a method, and the curve between chance and ceiling.
KEYSTROKE = """
([text, method, last, curve]) => {
  const fresh = `${text} ${"x".repeat(last)}`;
  limelight.predict(fresh);
  limelight.explain(fresh, method);
  if (curve) limelight.faithfulness(fresh, method);
}
"""
METHODS = ("shapley", "lime", "loo", "gxi", "alpha-avg")


def main() -> None:
    """Measure page and library in turn."""
    on_cores(1)
    arguments = command_line(__doc__ or "").parse_args()
    repeats = 2 if arguments.smoke else 25
    import limelight

    model = limelight.load()
    found = reviews(model, count=200 if arguments.smoke else 5000)
    texts = _texts(found.texts)
    measures = list(_measured(model, texts, repeats))
    report("live", measures, arguments, data=f"two of {found.source}")


def _texts(texts: list[str]) -> dict[str, str]:
    """Return a review of 200 tokens, and the first 200 distinct words of several."""
    from limelight.text import token_strings

    tokens = min(texts, key=lambda text: abs(len(token_strings(text)) - 200))
    words = list(dict.fromkeys(w for text in texts for w in token_strings(text) if w.isalpha()))
    return {"200 tokens": tokens, "200 distinct words": " ".join(words[:200])}


def _measured(model: Any, texts: dict[str, str], repeats: int) -> Iterator[Measure]:
    from playwright.sync_api import sync_playwright

    import limelight
    from limelight.live import live_page

    if not CHROMIUM.exists():
        raise SystemExit("this benchmark needs /usr/bin/chromium (on Debian: chromium).")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "page.html"
        file.write_text(live_page(model), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page()
        page.goto(file.as_uri())
        timed = _timer(page)
        yield Measure(
            id="live_size", what="the page", value=file.stat().st_size / 1e6, unit="MB", below=2.5
        )
        for name, text in texts.items():
            for method in METHODS:
                timed(text, method, True)
                shown = [timed(text, method, True) for _ in range(repeats)]
                explained = [timed(text, method, False) for _ in range(repeats)]
                own = seconds(
                    partial(limelight.explain, model, text, method),
                    repeats=repeats,
                )
                yield from _compared(name, method, shown, explained, 1000 * own)
        browser.close()


def _timer(page: Any) -> Callable[[str, str, bool], float]:
    """Return a function: milliseconds of the page's main thread for one keystroke."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    count = itertools.count(1)

    def used() -> float:
        found = session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(one["value"] for one in found if one["name"] == "TaskDuration")

    def timed(text: str, method: str, curve: bool) -> float:
        before = used()
        page.evaluate(KEYSTROKE, [text, method, next(count) % 90, curve])
        return used() - before

    return timed


def _compared(
    name: str, method: str, shown: list[float], explained: list[float], own: Any
) -> Iterator[Measure]:
    key = f"{method}_{name.split(maxsplit=1)[1].replace(' ', '_')}"
    yield Measure(
        id=f"{key}_shown",
        what=f"{method}, {name}: prediction, scores and curve, in the page",
        value=median(shown),
        best=min(shown),
        unit="ms",
        below=MOST,
    )
    yield Measure(
        id=f"{key}_ratio",
        what=f"{method}, {name}: page over Python, prediction and scores",
        value=median(explained) / float(np.median(own)),
        note=f"medians; Python {np.median(own):.1f} ms at its tolerance 1e-6, the page's is 1e-10",
    )


if __name__ == "__main__":
    main()
