import os
import stat
import threading
from pathlib import Path

import pytest

from limelight.files import whole_folder, write_whole


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
