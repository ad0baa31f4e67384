"""Work that takes long says so once, before it is waited for."""

import pytest

from limelight.cli.console import show_progress
from limelight.progress import format_duration


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("limelight.progress.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def told(clock, capsys):
    """What is said after calls of (seconds, work done by then)."""

    def told(calls, total, **how):
        said = []
        with show_progress("explaining", **how) as display:
            for seconds, done in calls:
                clock[0] = 100.0 + seconds
                display(done, total)
                said.append(capsys.readouterr().err)
        return said

    return told


def test_the_pace_after_the_first_call_says_how_long(told):
    # 30 s of warming up do not count; 1 of 100 in 0.6 s is a minute for all, which is said once.
    said = told([(30.0, 0), (30.6, 1), (31.2, 2), (40.0, 50)], 100)
    assert said == ["", "", "Estimated time: 60 seconds.\n", ""]


def test_what_ends_within_ten_seconds_says_nothing(told):
    assert set(told([(0.0, 0), (2.0, 25), (8.0, 100)], 100)) == {""}
    assert told([(0.0, 0), (2.0, 19)], 100)[-1] != ""


def test_what_was_said_before_is_not_said_again(told):
    assert told([(0.0, 0), (5.0, 5)], 1000, announced=True) == ["", ""]


def test_a_run_that_goes_on_says_what_is_left(told):
    assert told([(0.0, 90), (2.0, 91)], 100)[-1] == "Estimated time: 20 seconds.\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(12.3, "12 seconds"), (89, "89 seconds"), (100, "2 minutes"), (7000, "2 hours")],
)
def test_durations_are_said_in_words(seconds, words):
    assert format_duration(seconds) == words
