import hashlib
from dataclasses import replace

from archives import GOOD, serve_content
from limelight.data import imdb
from limelight.data.imdb import Archive


def test_the_default_archive_is_the_public_one():
    assert (
        Archive(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            84125825,
            "7c2ac02c03563afcf9b574c7e56c153a",
        )
        == imdb.IMDB
    )


def test_data_imdb_prints_the_folder(limelight, tmp_path, monkeypatch):
    with serve_content(GOOD) as (url, _):
        digest = hashlib.md5(GOOD).hexdigest()
        monkeypatch.setattr(imdb, "IMDB", replace(imdb.IMDB, size=len(GOOD), md5=digest))
        run = limelight("data", "imdb", "--output", tmp_path, "--url", url)
    assert run == (0, f"{tmp_path / 'aclImdb'}\n", "")
    assert (tmp_path / "aclImdb" / "test" / "pos" / "0_8.txt").read_text() == "good"


def test_a_file_that_is_too_short_is_not_unpacked(limelight, tmp_path):
    with serve_content(GOOD) as (url, _):
        run = limelight("data", "imdb", "--output", tmp_path, "--url", url)
    assert run == (
        2,
        "",
        f"Error: the download stopped at {len(GOOD)} of 84125825 bytes. "
        "Run the same command to continue.\n",
    )


def test_an_output_that_cannot_be_written(limelight, tmp_path):
    (tmp_path / "taken").write_text("mine")
    run = limelight("data", "imdb", "--output", tmp_path / "taken")
    assert run == (2, "", f"Error: '{tmp_path / 'taken'}': file exists.\n")
