"""How commands end that were given impossible numbers, or were interrupted."""

import sys
from types import SimpleNamespace

import pytest

import limelight as library
from limelight import __main__ as program

TEXT = "The plot is bad"
BAD = {"digits": "9" * 400, "too large": "1e400", "nan": "nan", "negative": "-1", "letter": "x"}
# What a number of so many digits, or infinity, rightly means: as many as there are, or without end.
MEANT = {
    ("explain-data", "--limit", "digits"),
    ("explain-data", "--workers", "digits"),
    ("explain-data", "--shard-texts", "digits"),
    ("judge", "--limit", "digits"),
    ("judge", "--seed", "digits"),
    ("explain", "--set bandwidth", "digits"),
    ("explain", "--set bandwidth", "too large"),
    ("summarize", "--representatives", "digits"),
    ("train", "--seed", "digits"),
    ("verify", "--seed", "digits"),
}
OPTIONS = {
    "explain": ("--target", "--window", "--budget", "--set samples", "--set bandwidth"),
    "compare": ("--budget", "--window"),
    "explain-data": ("--limit", "--workers", "--gpus-per-worker", "--shard-texts", "--budget"),
    "judge": ("--limit", "--seed", "--budget", "--target"),
    "verify": ("--seed",),
    "serve": ("--port", "--seconds"),
    "summarize": ("--top", "--representatives"),
    "train": ("--seed", "--epochs", "--validation", "--set dropout", "--set heads"),
}


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")
    place = tmp_path_factory.mktemp("numbers")
    data, run = place / "d.csv", place / "run"
    rows = "A dull script.,negative\nA superb film.,positive\n" * 6
    data.write_text(f"text,label\n{rows}")
    library.explain_data(library.load(), data, "gxi", output=run)
    return {
        "explain": ("explain", TEXT),
        "compare": ("compare", TEXT),
        "explain-data": ("explain-data", data, "--output", place / "new", "-m", "gxi"),
        "judge": ("judge", "--data", data, "-m", "loo"),
        "verify": ("verify", "--text", TEXT),
        "serve": ("serve",),
        "summarize": ("summarize", run),
        "train": ("train", data, "--output", place / "model"),
    }


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    ("command", "option"), [(name, value) for name, values in OPTIONS.items() for value in values]
)
def test_an_impossible_number_is_an_error(limelight, commands, command, option, bad):
    if (command, option, bad) in MEANT:
        pytest.skip("is a number that can be")
    for package in {"serve": ["starlette", "uvicorn"], "train": ["torch"]}.get(command, ()):
        pytest.importorskip(package)
    name, _, setting = option.partition(" ")
    arguments = (name, f"{setting}={BAD[bad]}") if setting else (f"{name}={BAD[bad]}",)
    ended = limelight(*commands[command], *arguments)
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert ended.err.startswith("Error: ")
    assert len(ended.err.splitlines()) == 1
    assert len(ended.err) < 400


def test_an_interrupt_is_one_line(limelight, monkeypatch):
    def raise_interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("limelight.api.explain", raise_interrupt)
    assert limelight("explain", TEXT) == (130, "", "Interrupted.\n")


def test_an_interrupt_before_the_command_line_is_there_is_one_line_too(monkeypatch, capsys):
    class Interrupted(SimpleNamespace):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "limelight.cli", Interrupted())
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as remaining:
        program.main()
    assert (remaining.value.code, capsys.readouterr().err) == (130, "Interrupted.\n")
