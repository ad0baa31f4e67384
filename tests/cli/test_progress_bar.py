"""A long task prints its estimated time once, at its beginning."""

import pytest

from limelight.cli.console import show_progress
from limelight.progress import format_duration


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("limelight.progress.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def print_to_text(clock, capsys):
    """Return a function that lists what is printed after calls of (seconds, finished work)."""

    def print_progress(calls, total, **options):
        outputs = []
        with show_progress("explaining", **options) as display:
            for seconds, done in calls:
                clock[0] = 100.0 + seconds
                display(done, total)
                outputs.append(capsys.readouterr().err)
        return outputs

    return print_progress


def test_the_time_is_estimated_after_the_first_call(print_to_text):
    # 20 s of warming up do not count. 1 of 100 in 0.6 s is a minute for all, printed once.
    outputs = print_to_text([(20.0, 0), (20.6, 1), (21.2, 2), (29.0, 50)], 100)
    assert outputs == ["", "", "Estimated time: 60 seconds.\n", ""]


def test_a_task_of_less_than_ten_seconds_prints_nothing(print_to_text):
    assert set(print_to_text([(0.0, 0), (2.0, 25), (8.0, 100)], 100)) == {""}
    assert print_to_text([(0.0, 0), (2.0, 19)], 100)[-1] != ""


def test_a_log_gets_a_line_every_thirty_seconds(print_to_text):
    outputs = print_to_text(
        [(0.0, 0), (29.0, 10), (31.0, 12), (60.0, 20), (62.0, 25), (99.0, 100)], 100
    )
    first, second = (
        "explaining: 12%, about 4 minutes left\n",
        "explaining: 25%, about 3 minutes left\n",
    )
    assert outputs[2:] == [first, "", second, ""]


def test_a_message_is_not_printed_twice(print_to_text):
    assert print_to_text([(0.0, 0), (5.0, 5)], 1000, announced=True) == ["", ""]


def test_a_continued_run_shows_the_remaining_time(print_to_text):
    assert print_to_text([(0.0, 90), (2.0, 91)], 100)[-1] == "Estimated time: 20 seconds.\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(12.3, "12 seconds"), (89, "89 seconds"), (100, "2 minutes"), (7000, "2 hours")],
)
def test_durations_are_written_in_words(seconds, words):
    assert format_duration(seconds) == words
