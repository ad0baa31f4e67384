"""A real browser for tests, and pages in it that must ask nothing of the network."""

import asyncio
import time
from asyncio.events import _set_running_loop
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",  # which draws without one: a process less, and a fifth less to do
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium():
    """Chromium, once for all tests; those that need it are skipped, and say so, without it."""
    driver_of = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip("chromium is not installed")
    with driver_of.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        started.loop_of_driver = asyncio.get_running_loop()
        _set_running_loop(None)
        yield started
        _set_running_loop(started.loop_of_driver)
        started.close()


@pytest.fixture
def browser(chromium):
    """Chromium, for one test.

    Its driver leaves an event loop running in this thread: other tests, which may need one of
    their own, must not see it.
    """
    _set_running_loop(chromium.loop_of_driver)
    yield chromium
    _set_running_loop(None)


PATIENCE = 120  # seconds after which something will never come; a busy machine is slow, not broken


def wait_until(page, expression, argument=None, *, seconds=PATIENCE):
    """Wait until ``expression`` holds; a page's policy forbids Playwright's own waiting."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression, argument):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def new_page(browser, *, width=1200, **options):
    """Return an empty page that shares its context with all pages of the same ``options``.

    A context of its own starts processes and doubles what a page costs, and a page that was left
    is taken again, which is a third of a new one. Ours store nothing there.
    """
    contexts = vars(browser).setdefault("contexts_kept", {})
    key = tuple(sorted(options.items()))
    if key not in contexts:
        contexts[key] = browser.new_context(**options)
        contexts[key].set_default_timeout(1000 * PATIENCE)
        contexts[key].pages_left = []
    remaining = contexts[key].pages_left
    page = remaining.pop() if remaining else contexts[key].new_page()
    page.set_viewport_size({"width": width, "height": 900})
    return page


def leave(page, **listeners):
    """Empty a page for the next test, and take away its ``listeners``."""
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    page.goto("about:blank")
    page.emulate_media(media="null")
    page.mouse.move(0, 0)  # the pointer stays where it was, and what comes there would be hovered
    page.context.pages_left.append(page)


@contextmanager
def watch_page(browser, url, *, may_ask, allowed=(), **options):
    """Open ``url``; complaints, dialogs and what is asked of others than ``may_ask`` are faults."""
    requests, complaints = [], []
    page = new_page(browser, **options)
    listeners = {
        "request": lambda request: requests.append(request.url),
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
        "dialog": lambda dialog: complaints.append(f"dialog {dialog.message}"),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    page.goto(url)
    yield page
    leave(page, **listeners)
    assert [
        complaint for complaint in complaints if not any(sign in complaint for sign in allowed)
    ] == []
    assert [value for value in requests if not value.startswith(may_ask)] == []


def watched_page(browser, file, *, fragment="", **options):
    """Open a file with the network off; whatever it asks for or complains of fails the test."""
    url = Path(file).resolve().as_uri() + fragment
    return watch_page(browser, url, may_ask=("file:", "data:"), offline=True, **options)
