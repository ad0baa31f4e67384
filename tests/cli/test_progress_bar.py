"""Work that takes long says so once, before it is waited for."""

import io

import pytest
from rich.console import Console

from limelight.cli.console import Estimate
from limelight.explainers.budget import duration


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("limelight.cli.console.time.monotonic", lambda: now[0])
    return now


def told(clock, calls, total):
    """What is said after calls of (seconds, work done by then)."""
    console = Console(file=io.StringIO())
    estimate = Estimate("explaining", console)
    said = []
    for seconds, done in calls:
        clock[0] = 100.0 + seconds
        estimate.heard(done, total)
        said.append(console.file.getvalue())
    return said


def test_the_pace_after_the_first_call_says_how_long(clock):
    # 30 s of warming up do not count; 1 of 100 in 0.6 s is a minute for all.
    said = told(clock, [(30.0, 0), (30.6, 1), (31.2, 2), (40.0, 50)], 100)
    assert said == ["", "", *["Explaining takes about 60 seconds.\n"] * 2]


def test_what_ends_within_ten_seconds_says_nothing(clock):
    assert set(told(clock, [(0.0, 0), (2.0, 25), (8.0, 100)], 100)) == {""}
    assert told(clock, [(0.0, 0), (2.0, 19)], 100)[-1] != ""


def test_what_was_said_before_is_not_said_again(clock):
    console = Console(file=io.StringIO())
    estimate = Estimate("judging", console)
    estimate.leave_unsaid()
    for seconds in (0.0, 5.0):
        clock[0] = 100.0 + seconds
        estimate.heard(seconds, 1000)
    assert console.file.getvalue() == ""


def test_a_run_that_goes_on_says_what_is_left(clock):
    assert told(clock, [(0.0, 90), (2.0, 91)], 100)[-1] == "Explaining takes about 20 seconds.\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(12.3, "12 seconds"), (89, "89 seconds"), (100, "2 minutes"), (7000, "2 hours")],
)
def test_durations_are_said_in_words(seconds, words):
    assert duration(seconds) == words
