"""After an interrupt or an error, the partial file keeps the finished results."""

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from limelight.cli.console import handle_interrupt, write_strings


def results(count, error):
    yield from (f"{number}\n" for number in range(count))
    raise error


def test_an_interrupt_leaves_the_finished_results_and_a_note_names_their_file(tmp_path):
    with pytest.raises(KeyboardInterrupt) as stop:
        write_strings(results(3, KeyboardInterrupt()), tmp_path / "out.json")
    assert (tmp_path / "out.json.part").read_text() == "0\n1\n2\n"
    assert [file.name for file in tmp_path.iterdir()] == ["out.json.part"]
    part = tmp_path / "out.json.part"
    assert stop.value.__notes__ == [f"Finished results: 3, in '{part}'."]


def test_an_interrupt_before_the_first_result_leaves_nothing(tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        write_strings(results(0, KeyboardInterrupt()), tmp_path / "out.json")
    assert not [*tmp_path.iterdir()]
    assert capsys.readouterr().err == ""


def test_an_interrupt_after_the_last_step_names_no_file_that_is_gone(tmp_path, monkeypatch):
    def replace_and_interrupt(self, target, replace=Path.replace):
        replace(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", replace_and_interrupt)
    with pytest.raises(KeyboardInterrupt) as stop:
        write_strings(iter(["0\n", "1\n"]), tmp_path / "out.json")
    assert (tmp_path / "out.json").read_text() == "0\n1\n"
    assert getattr(stop.value, "__notes__", []) == []


def test_a_command_removes_what_a_killed_one_left_of_its_figure(limelight, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / ".out.svg.limelight-abcdefgh.part").write_text("left")
    (tmp_path / ".out.svg.old").write_text("of the user")
    done = limelight("explain", "a good film", "--output", tmp_path / "out.svg")
    assert done.code == 0, done.err
    assert {path.name for path in tmp_path.iterdir()} == {"out.svg", ".out.svg.old"}


def test_a_full_disk_leaves_complete_results_and_the_message_names_their_file(
    tmp_path, monkeypatch
):
    class FileOnFullDisk(io.FileIO):
        """Take ten bytes in all, as a disk does: the last write is cut short, the next fails."""

        def write(self, content):
            if not (room := 10 - self.tell()):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(bytes(content)[:room])

    parts = iter(["one\n", "two\n", "three\n"])
    monkeypatch.setattr(os, "fdopen", lambda handle, *_, **__: FileOnFullDisk(handle, "w"))
    with (
        pytest.raises(OSError, match="No space left") as error,
        handle_interrupt(lambda: "Go on.", OSError),
    ):
        write_strings(parts, tmp_path / "out.json")
    monkeypatch.undo()
    assert error.value.filename == str(tmp_path / "out.json")
    note = f"Finished results: 2, in '{tmp_path / 'out.json.part'}'."
    assert error.value.__notes__ == [note, "Go on."]
    assert (tmp_path / "out.json.part").read_text() == "one\ntwo\n"


SLOW = """
import sys, time, numpy as np, limelight, limelight.cli.options as q
from limelight.cli import main
def slow(texts):
    time.sleep(0.02)
    return np.full((len(texts), 2), 0.5)
model = limelight.wrap(slow, classes=["a", "b"])
q.load = lambda _, device: model
main(["explain", "--file", sys.argv[1], "--lines", "-m", "loo", "--output", sys.argv[2]])
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_message_of_a_stopped_command_says_how_to_continue(tmp_path, number, code):
    lines, out = tmp_path / "lines.txt", tmp_path / "out.jsonl"
    lines.write_text("one text\n\nand another\n" * 5_000)
    command = [sys.executable, "-c", SLOW, str(lines), str(out)]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        # Jobs in the background of a script are started with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        part = tmp_path / "out.jsonl.part"
        while not part.exists() or part.read_text().count("\n") < 3:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        message = " ".join(process.communicate()[1].split())
    assert process.returncode == code
    done = [json.loads(line)["text"] for line in part.read_text().splitlines()]
    assert not out.exists()
    match = re.fullmatch(
        rf"Interrupted\. Finished results: {len(done)}, in '{part}'\. Continue with line (\d+): "
        rf"tail -n \+\1 {lines} \| limelight … --lines",
        message,
    )
    assert match is not None, message
    before = lines.read_text().splitlines()[: int(match[1]) - 1]
    assert done == [line for line in before if line]


def test_results_are_in_the_partial_file_before_the_last_one_is_computed(tmp_path):
    def parts():
        yield "first\n"
        assert (tmp_path / "out.json.part").read_text() == "first\n"
        yield "second\n"

    write_strings(parts(), tmp_path / "out.json")
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]
    assert (tmp_path / "out.json").read_text() == "first\nsecond\n"


def test_a_second_command_with_the_same_output_is_an_error_and_the_first_output_is_complete(
    tmp_path,
):
    output, second = tmp_path / "out.json", []

    def parts():
        yield "first\n"
        program = "import pathlib; from limelight.cli.console import write_strings\n"
        program += f"write_strings(['second'], pathlib.Path({str(output)!r}))"
        second.append(subprocess.run([sys.executable, "-c", program], capture_output=True))
        yield "last\n"

    write_strings(parts(), output)
    assert second[0].returncode == 1
    assert b"another command is writing to" in second[0].stderr
    assert output.read_text() == "first\nlast\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    write_strings(["second"], output)  # nothing is locked any more
    assert output.read_text() == "second"


def test_a_mistake_leaves_the_old_file_alone(tmp_path):
    (tmp_path / "out.json").write_text("old")
    with pytest.raises(ValueError, match="x"):
        write_strings(results(0, ValueError("x")), tmp_path / "out.json")
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]
    with pytest.raises(ValueError, match="x") as error:
        write_strings(results(1, ValueError("x")), tmp_path / "out.json")
    assert (tmp_path / "out.json").read_text() == "old"
    assert (tmp_path / "out.json.part").read_text() == "0\n"
    assert "Finished results: 1, in" in error.value.__notes__[0]


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path):
    with pytest.raises(OSError, match="No such file") as error:
        write_strings(iter(["x"]), tmp_path / "none" / "out.json")
    assert error.value.filename == str(tmp_path / "none" / "out.json")


def test_a_link_keeps_its_place(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    write_strings(iter(["new"]), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"
