"""Closed standard streams and modules of users that fail: one message and exit code 2."""

import subprocess
import sys

import pytest

COMMAND = f"{sys.executable} -m limelight"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("explain --file - <&-", "standard input is closed"),
        ("explain - <&-", "standard input is closed"),
        ("explain 'a good film' >&-", "standard output is closed"),
        ("explain 'a good film' >&- 2>&-", ""),
        ("explain --model raising:model x", "failed while it was imported (ValueError: no luck)"),
        ("explain --model exiting:model x", "failed while it was imported (SystemExit: 3)"),
        ("explain --model broken:model x", "failed while it was imported (SyntaxError"),
        ("explain --features raising:cut x", "failed while it was imported (ValueError: no luck)"),
        ("explain --device meta 'a good film'", "tensors of the device 'meta' have no values"),
        ("explain -m lime-sampled --set samples=-3 'a film'", "samples must be at least 2"),
    ],
)
def test_what_cannot_be_read_or_written_is_one_message(tmp_path, command, message):
    (tmp_path / "raising.py").write_text("raise ValueError('no luck')")
    (tmp_path / "exiting.py").write_text("import sys; sys.exit(3)")
    (tmp_path / "broken.py").write_text("def f(:")
    ended = subprocess.run(
        ["sh", "-c", f"{COMMAND} {command}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert message in " ".join(ended.stderr.split())
    assert len(ended.stderr.splitlines()) == bool(message)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", ["out.json", "out.html", "out.txt"])
def test_closed_standard_output_is_not_needed_to_write_a_file(tmp_path, name):
    ended = subprocess.run(
        ["sh", "-c", f"{COMMAND} explain 'a good film' --output {name} >&-"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "good" in (tmp_path / name).read_text()
    assert [path.name for path in tmp_path.iterdir()] == [name]
