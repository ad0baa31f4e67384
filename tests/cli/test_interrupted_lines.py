"""What was finished before an interrupt stays, under a name that says what it is."""

import pytest

from limelight.cli.result import write


def results(count, error):
    yield from (f"{number}\n" for number in range(count))
    raise error


def test_an_interrupt_leaves_what_was_finished_and_says_where(tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        write(results(3, KeyboardInterrupt()), tmp_path / "out.json")
    assert (tmp_path / "out.json.part").read_text() == "0\n1\n2\n"
    assert [file.name for file in tmp_path.iterdir()] == ["out.json.part"]
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Interrupted: 3 finished results are in '")
    assert said.endswith("give the lines that are missing to go on.")


def test_what_grows_is_visible_while_it_grows(tmp_path):
    def watched():
        yield "first\n"
        assert (tmp_path / "out.json.part").read_text() == "first\n"
        yield "second\n"

    write(watched(), tmp_path / "out.json")
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]
    assert (tmp_path / "out.json").read_text() == "first\nsecond\n"


def test_a_mistake_leaves_the_old_file_alone(tmp_path):
    (tmp_path / "out.json").write_text("old")
    with pytest.raises(ValueError, match="x"):
        write(results(1, ValueError("x")), tmp_path / "out.json")
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]
    assert (tmp_path / "out.json").read_text() == "old"


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path):
    with pytest.raises(OSError, match="No such file") as error:
        write(iter(["x"]), tmp_path / "none" / "out.json")
    assert error.value.filename == str(tmp_path / "none" / "out.json")


def test_a_link_keeps_its_place(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    write(iter(["new"]), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"
