"""A page that is served while a test runs."""

from contextlib import ExitStack

import pytest

from browsing import watch_page


@pytest.fixture(scope="module")
def served(request):
    """The shipped model, on any free port."""
    from limelight.serving import serve

    with serve(port=0) as page:
        yield page


@pytest.fixture
def opened(browser, request):
    """Open the page of the shipped model, or of another server, at a fragment of its address."""
    with ExitStack() as pages:

        def open_at(fragment="", url=None, **options):
            address = url or request.getfixturevalue("served").url
            own_value = address[: address.index("/", 8) + 1]
            page = watch_page(
                browser, address + fragment, may_ask=(own_value, "data:", "blob:"), **options
            )
            return pages.enter_context(page)

        yield open_at


@pytest.fixture
def serving():
    """Serve something until the test ends; pages that were opened after it are closed before it."""
    from limelight.serving import serve

    with ExitStack() as servers:

        def start_server(*given, **keywords):
            return servers.enter_context(serve(*given, port=0, **keywords))

        yield start_server
