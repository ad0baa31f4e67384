"""Closed standard streams: one message and exit code 2, or a file."""

import subprocess
import sys

import pytest


def run_command(folder, command):
    """Run a command in a shell, which closes streams."""
    return subprocess.run(
        ["sh", "-c", f"{sys.executable} -m limelight {command}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("explain --file - <&-", "standard input is closed"),
        ("explain - <&-", "standard input is closed"),
        ("explain 'a good film' >&-", "standard output is closed"),
        ("explain 'a good film' >&- 2>&-", ""),
    ],
)
def test_what_cannot_be_read_or_written_is_one_message(tmp_path, command, message):
    ended = run_command(tmp_path, command)
    assert ended.returncode == 2, ended.stderr
    assert message in " ".join(ended.stderr.split())
    assert len(ended.stderr.splitlines()) == bool(message)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", ["out.json", "out.html", "out.txt"])
def test_closed_standard_output_is_not_needed_to_write_a_file(tmp_path, name):
    ended = run_command(tmp_path, f"explain 'a good film' --output {name} >&-")
    assert ended.returncode == 0, ended.stderr
    assert "good" in (tmp_path / name).read_text()
    assert [path.name for path in tmp_path.iterdir()] == [name]
