import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from limelight.files import (
    remove_abandoned_parts,
    whole_file,
    whole_folder,
    write_whole,
    write_whole_files,
)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_whole(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_whole, args=(pipe, "content"))
    writer.start()
    assert pipe.read_text() == "content"
    writer.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["", "no/such/folder.txt"])
def test_an_error_names_the_file_that_was_asked_for(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(OSError, match="directory") as error:
        write_whole(path, "content")
    assert error.value.filename == str(path)
    assert list(tmp_path.parent.glob(".*.part")) == []


def test_a_file_is_no_place_for_a_folder(tmp_path):
    (tmp_path / "f").write_text("kept")
    with pytest.raises(NotADirectoryError), whole_folder(tmp_path / "f"):
        pass
    assert (tmp_path / "f").read_text() == "kept"


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    old = tmp_path / "model"
    old.mkdir()
    (old / "weights").write_text("old")
    replace = Path.replace

    def refuse(self, target):
        if self.suffix == ".part":
            raise PermissionError(13, "Permission denied", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(PermissionError), whole_folder(old) as part:
        (part / "weights").write_text("new")
    assert (old / "weights").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_result_is_as_readable_as_any_other_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", "content")
        with whole_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


def kill_while_writing(program):
    """Run a program that kills itself, and return when it is dead."""
    lines = ["import os, signal", "from pathlib import Path", "from limelight.files import *"]
    ended = subprocess.run([sys.executable, "-c", "\n".join([*lines, program])], check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["whole_file", "whole_folder"])
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path, kind):
    kill_while_writing(
        f"with {kind}(Path({str(tmp_path / 'result')!r})):\n os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert len([*tmp_path.glob(".result.*.part")]) == 1
    if kind == "whole_file":
        write_whole(tmp_path / "result", "content")
    else:
        with whole_folder(tmp_path / "result"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_parts_that_are_still_being_written_are_not_removed(tmp_path):
    with whole_file(tmp_path / "result") as first:
        first.write(b"first")
        write_whole(tmp_path / "result", "second")
        with whole_folder(tmp_path / "folder") as part:
            (part / "file").write_text("content")
            remove_abandoned_parts(tmp_path)
    assert (tmp_path / "result").read_text() == "first"
    assert (tmp_path / "folder" / "file").read_text() == "content"


def test_files_of_others_with_similar_names_stay(tmp_path):
    (tmp_path / ".other.x.part").write_text("of another target")
    (tmp_path / ".result.notes").write_text("of the user")
    (tmp_path / ".result.link.part").symlink_to(tmp_path / ".result.notes")
    write_whole(tmp_path / "result", "content")
    assert len([*tmp_path.iterdir()]) == 4


def test_of_several_files_none_is_replaced_before_all_are_on_disk(tmp_path, monkeypatch):
    write_whole_files(tmp_path, {"config": b"old", "weights": b"old"})
    synced = []

    def full_disk(handle):
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_whole_files(tmp_path, {"config": b"new", "weights": b"new"})
    monkeypatch.undo()
    contents = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert contents == {"config": "old", "weights": "old"}
