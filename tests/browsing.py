"""A real browser for tests, and pages in it that must ask nothing of the network."""

import time
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    """Chromium; the tests that need it are skipped, and say so, where it is missing."""
    driver_of = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip("chromium is not installed")
    with driver_of.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        yield chromium
        chromium.close()


PATIENCE = 120  # seconds after which something will never come; a busy machine is slow, not broken


def until(page, expression, argument=None, *, seconds=PATIENCE):
    """Wait until ``expression`` holds; a page's policy forbids Playwright's own waiting."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression, argument):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


@contextmanager
def watched_page(browser, file, *, fragment="", width=1200, **options):
    """Open a file with the network off; whatever it asks for or complains of fails the test."""
    asked, complaints = [], []
    context = browser.new_context(offline=True, viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(1000 * PATIENCE)
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
    page.goto(Path(file).resolve().as_uri() + fragment)
    yield page
    context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
