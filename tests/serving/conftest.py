"""A page that is served while a test runs."""

from contextlib import ExitStack, contextmanager

import pytest

from browsing import PATIENCE, browser  # noqa: F401


@pytest.fixture(scope="module")
def served(request):
    """The shipped model, on any free port."""
    from limelight.serving import serve

    with serve(port=0) as page:
        yield page


@contextmanager
def watched(browser, url, *, width=1200, allowed=(), **options):  # noqa: F811
    """Open ``url``; requests to anywhere else, complaints and dialogs fail the test."""
    complaints, asked = [], []
    origin = url[: url.index("/", 8) + 1]
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(1000 * PATIENCE)
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
    page.goto(url)
    yield page
    context.close()
    assert [one for one in complaints if not any(sign in one for sign in allowed)] == []
    assert [one for one in asked if not one.startswith((origin, "data:", "blob:"))] == []


@pytest.fixture
def opened(browser, request):  # noqa: F811
    """Open the page of the shipped model, or of another server, at a fragment of its address."""
    with ExitStack() as pages:

        def opening(fragment="", url=None, **options):
            address = url or request.getfixturevalue("served").url
            return pages.enter_context(watched(browser, address + fragment, **options))

        yield opening


@pytest.fixture
def serving():
    """Serve something until the test ends; pages that were opened after it are closed before it."""
    from limelight.serving import serve

    with ExitStack() as servers:

        def started(*given, **keywords):
            return servers.enter_context(serve(*given, port=0, **keywords))

        yield started
