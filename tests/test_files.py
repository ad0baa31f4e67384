import contextlib
import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from limelight.files import (
    atomic_file,
    atomic_folder,
    folder_lock,
    growing_file,
    remove_abandoned_parts,
    write_atomically,
    write_files_atomically,
)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_atomically(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_atomically, args=(pipe, "content"))
    writer.start()
    assert pipe.read_text() == "content"
    writer.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["", "no/such/folder.txt"])
def test_an_error_names_the_file_of_the_user(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(OSError, match="directory") as error:
        write_atomically(path, "content")
    assert error.value.filename == str(path)
    assert list(tmp_path.parent.glob(".*.part")) == []


def test_a_file_is_no_place_for_a_folder(tmp_path):
    (tmp_path / "f").write_text("kept")
    with pytest.raises(NotADirectoryError), atomic_folder(tmp_path / "f"):
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
    with pytest.raises(PermissionError), atomic_folder(old) as part:
        (part / "weights").write_text("new")
    assert (old / "weights").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_result_is_as_readable_as_any_other_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", "content")
        with atomic_folder(tmp_path / "folder"):
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


@pytest.mark.parametrize("kind", ["atomic_file", "atomic_folder"])
def test_what_a_killed_process_left_is_removed(tmp_path, kind):
    kill_while_writing(
        f"with {kind}(Path({str(tmp_path / 'result')!r})):\n os.kill(os.getpid(), signal.SIGKILL)"
    )
    (remaining,) = tmp_path.iterdir()
    assert re.fullmatch(r"\.result\.limelight-[a-z0-9_]{8}\.part", remaining.name)
    remove_abandoned_parts(tmp_path, "result.txt")
    assert remaining.exists()
    remove_abandoned_parts(tmp_path, "result")
    assert not [*tmp_path.iterdir()]


def test_parts_that_are_still_being_written_are_not_removed(tmp_path):
    with atomic_file(tmp_path / "result") as first:
        first.write(b"first")
        write_atomically(tmp_path / "result", "second")
        with atomic_folder(tmp_path / "folder") as part:
            (part / "file").write_text("content")
            remove_abandoned_parts(tmp_path)
    assert (tmp_path / "result").read_text() == "first"
    assert (tmp_path / "folder" / "file").read_text() == "content"


HIDDEN = (".env.old", ".x.part", ".result.x.part", ".result.abcdefgh.old", ".a.limelight-x.part")


def test_hidden_files_of_the_user_stay(tmp_path):
    for name in HIDDEN:
        (tmp_path / name).write_text("of the user")
    (tmp_path / ".venv.old").mkdir()
    (tmp_path / ".result.limelight-abcdefgh.part").symlink_to(tmp_path / ".x.part")
    before = {path.name for path in tmp_path.iterdir()}
    write_atomically(tmp_path / "result", "content")
    with atomic_folder(tmp_path / "folder"):
        pass
    remove_abandoned_parts(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == before | {"result", "folder"}


def test_a_file_is_written_without_listing_its_folder(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refuse)
    write_atomically(tmp_path / "result", "content")
    assert (tmp_path / "result").read_text() == "content"


def test_a_full_device_is_named():
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(OSError, match="No space left") as error:
        write_atomically("/dev/full", b"x")
    assert error.value.filename == "/dev/full"


def test_a_folder_that_was_moved_away_by_a_killed_process_comes_back(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "weights").write_text("old")
    kill_while_writing(
        "replace = Path.replace\n"
        "def kill(self, target):\n"
        " if self.suffix == '.part': os.kill(os.getpid(), signal.SIGKILL)\n"
        " return replace(self, target)\n"
        "Path.replace = kill\n"
        f"with atomic_folder({str(target)!r}) as part: (part / 'weights').write_text('new')"
    )
    assert not target.exists()

    def interrupt_write():
        with atomic_folder(target):
            assert (target / "weights").read_text() == "old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt_write()
    assert (target / "weights").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("moved", [".part", "model"])
def test_of_two_writers_of_a_folder_the_last_wins(tmp_path, monkeypatch, moved):
    """Before the first writer's renaming, a second one writes the same folder."""
    target, replace, second = tmp_path / "model", Path.replace, []

    def replace_with_error(self, other):
        if not second and (self.suffix == moved or self.name == moved):
            second.append(True)
            with atomic_folder(target) as part:
                (part / "weights").write_text("second")
        return replace(self, other)

    target.mkdir()
    (target / "weights").write_text("old")
    monkeypatch.setattr(Path, "replace", replace_with_error)
    with atomic_folder(target) as part:
        (part / "weights").write_text("first")
    assert second
    assert (target / "weights").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_that_cannot_be_deleted_does_not_fail_its_writer(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("old")
    monkeypatch.setattr(os, "unlink", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13)))
    with atomic_folder(tmp_path / "model") as part:
        (part / "weights").write_text("new")
    assert (tmp_path / "model" / "weights").read_text() == "new"


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOTSUP, errno.EIO, errno.ENOLCK])
def test_a_disk_without_locks_is_written_to_and_keeps_parts(tmp_path, monkeypatch, number):
    import fcntl

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    (tmp_path / ".result.limelight-abcdefgh.part").write_text("of a writer, perhaps")
    monkeypatch.setattr(fcntl, "flock", refuse)
    write_atomically(tmp_path / "result", "content")
    with atomic_folder(tmp_path / "folder"), folder_lock(tmp_path, "busy"):
        remove_abandoned_parts(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {".result.limelight-abcdefgh.part", "result", "folder"}


def open_handles():
    handles = Path("/proc/self/fd")
    return len([*handles.iterdir()]) if handles.exists() else 0


def test_a_part_that_another_process_has_locked_is_not_waited_for(tmp_path, monkeypatch):
    import fcntl

    refused = []

    def busy(handle, flags):
        assert flags & (fcntl.LOCK_NB | fcntl.LOCK_UN)
        if flags & fcntl.LOCK_NB and len(refused) < refusals:
            refused.append(handle)
            raise BlockingIOError

    monkeypatch.setattr(fcntl, "flock", busy)
    refusals = 3
    write_atomically(tmp_path / "result", "content")
    refused.clear()
    with atomic_folder(tmp_path / "folder"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"result", "folder"}
    refused.clear()
    refusals = 1_000
    before = open_handles()
    with pytest.raises(OSError, match="busy"):
        write_atomically(tmp_path / "result", "new")
    with pytest.raises(OSError, match="busy"), atomic_folder(tmp_path / "folder"):
        pass
    assert len(refused) == 20
    assert {path.name for path in tmp_path.iterdir()} == {"result", "folder"}
    assert open_handles() == before


def test_a_forked_child_keeps_no_lock(tmp_path):
    with folder_lock(tmp_path, "busy"), atomic_folder(tmp_path / "model"):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:  # it lives on with every handle of its parent
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
    try:
        with folder_lock(tmp_path, "busy"), folder_lock(tmp_path / "model", "busy"):
            pass
    finally:
        os.close(reader)
        os.close(writer)
        os.waitpid(child, 0)


@pytest.fixture
def windows(monkeypatch):
    """Refuse what Windows refuses: locks, opening a folder, renaming a file that is open."""
    opened = os.open
    rename = os.replace

    def open_file(path, flags, *rest, **named):
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, flags, *rest, **named)

    def replace(source, target, **named):
        for handle in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the one that lists
                assert handle.readlink() != Path(source).resolve(), "an open file was renamed"
        return rename(source, target, **named)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to see which files are open")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.delattr(os, "O_NONBLOCK")
    monkeypatch.setattr(shutil, "_use_fd_functions", False, raising=False)
    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.usefixtures("windows")
def test_files_and_folders_are_written_on_windows(tmp_path):
    (tmp_path / ".result.limelight-abcdefgh.part").write_text("of a writer, perhaps")
    for content in ("old", "new"):
        write_atomically(tmp_path / "result", content)
        with folder_lock(tmp_path, "busy"), atomic_folder(tmp_path / "folder") as part:
            (part / "file").write_text(content)
        with growing_file(tmp_path / "grown.part", tmp_path / "grown", "busy") as file:
            file.write(content.encode())
        remove_abandoned_parts(tmp_path)
    write_files_atomically(tmp_path, {"config": b"new", "weights": b"new"})
    files = ("result", "folder/file", "grown", "config", "weights")
    assert {(tmp_path / name).read_text() for name in files} == {"new"}
    (remaining,) = tmp_path.glob(".*")
    assert remaining.name == ".result.limelight-abcdefgh.part"


def test_of_several_files_none_is_replaced_before_all_are_on_disk(tmp_path, monkeypatch):
    write_files_atomically(tmp_path, {"config": b"old", "weights": b"old"})
    synced = []

    def full_disk(handle):
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_files_atomically(tmp_path, {"config": b"new", "weights": b"new"})
    monkeypatch.undo()
    contents = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert contents == {"config": "old", "weights": "old"}
