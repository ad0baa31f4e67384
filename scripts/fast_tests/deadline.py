"""A pytest plugin: after ``--until`` (in seconds since 1970) no test is started.

But ``--least`` seconds of testing are granted: on a busy machine the imports alone may take all the
time, and an answer that is a little late is better than none.

Smoke tests come first and always run, then the test files that ``--always`` names: those nearest to
the change. If one came after a test that was left out, pytest would find that the test before that
was never torn down.

A test that was left out is not reported as skipped, which would hide the real skips; the summary
counts it.
"""

import time
from collections.abc import Iterable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--until", type=float, default=float("inf"))
    parser.addoption("--least", type=float, default=0.0)
    parser.addoption("--always", action="append", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Keep an account of the time and for the summary."""
    config.pluginmanager.register(_Account(), "deadline-account")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put smoke tests first, then those of the files that always run."""
    items.sort(key=lambda item: (item.get_closest_marker("smoke") is None, not _always(item)))


def _always(item: pytest.Item) -> bool:
    """Say whether a test runs however late it is."""
    if item.get_closest_marker("smoke"):
        return True
    return item.nodeid.partition("::")[0] in item.config.getoption("always")


class _Account:
    """The tests that were collected, here or by a worker, and those that were started."""

    def __init__(self) -> None:
        self.begin: float | None = None
        self.collected: dict[str, None] = {}  # a set that keeps the order
        self.started: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected |= dict.fromkeys(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self.collected |= dict.fromkeys(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Take a test for done when it is too late for it."""
        now = time.time()
        self.begin = now if self.begin is None else self.begin
        until, least = item.config.getoption("until"), item.config.getoption("least")
        late = now >= max(until, self.begin + least)
        return True if late and not _always(item) else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.started.add(report.nodeid)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        left = [test for test in self.collected if test not in self.started]
        if left and not config.getoption("collectonly"):
            terminalreporter.write_line(
                f"{len(left)} of {len(self.collected)} chosen tests were not started,"
                f" from {left[0].partition('::')[0]} on."
            )
