import hashlib
from dataclasses import replace

import pytest

from archives import GOOD, REVIEWS, describe_archive, pack_archive, serve_content
from limelight.data import read_labeled
from limelight.data.imdb import fetch_imdb
from limelight.errors import InputError


def test_the_archive_arrives_whole_and_can_be_read(tmp_path):
    heard = []
    with serve_content(GOOD) as (url, _):
        folder = fetch_imdb(
            tmp_path / "new", archive=describe_archive(url), progress=lambda *at: heard.append(at)
        )
    assert folder == tmp_path / "new" / "aclImdb"
    assert read_labeled(folder, part="test").texts == ("poor", "good")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["aclImdb"]
    assert ("download", len(GOOD), len(GOOD)) in heard
    assert heard[-1] == ("unpack", len(GOOD), len(GOOD))


def test_an_unpacked_archive_is_not_downloaded_again(tmp_path):
    (tmp_path / "aclImdb").mkdir()
    with serve_content(GOOD) as (url, requests):
        fetch_imdb(tmp_path, archive=describe_archive(url))
    assert requests == []


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_continues(tmp_path, ranges):
    with serve_content(GOOD, stop_at=100) as (url, _), pytest.raises(InputError) as caught:
        fetch_imdb(tmp_path, archive=describe_archive(url))
    assert str(caught.value) == (
        f"the download stopped at 100 of {len(GOOD)} bytes. Run the same command to continue."
    )
    assert not (tmp_path / "aclImdb").exists()
    with serve_content(GOOD, ranges=ranges) as (url, requests):
        fetch_imdb(tmp_path, archive=describe_archive(url))
    assert requests == ["bytes=100-"]
    assert (tmp_path / "aclImdb" / "train" / "pos" / "0_9.txt").read_bytes() == b"fine"


def test_a_wrong_checksum_leaves_nothing(tmp_path):
    with serve_content(GOOD) as (url, _):
        archive = replace(describe_archive(url), md5="0" * 32)
        with pytest.raises(InputError) as caught:
            fetch_imdb(tmp_path, archive=archive)
    assert str(caught.value) == (
        f"the file from {url} is not the IMDB archive: its MD5 is "
        f"{hashlib.md5(GOOD).hexdigest()}, not {'0' * 32} ({len(GOOD)} bytes). "
        "limelight deleted it."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_longer_file_is_not_the_archive(tmp_path):
    with (
        serve_content(GOOD + b"more") as (url, _),
        pytest.raises(InputError, match="not the IMDB archive"),
    ):
        fetch_imdb(tmp_path, archive=describe_archive(url))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("aclImdb/../../evil.txt", b"out"),
        ("../evil.txt", b"out"),
        ("/evil.txt", b"out"),
        ("aclImdb//evil.txt", b"out"),
        ("evil.txt", b"out"),
        ("aclImdb/link", "/etc/passwd"),
    ],
)
def test_an_archive_with_files_outside_its_folder_or_links_is_not_unpacked(tmp_path, name, content):
    bad = pack_archive({**REVIEWS, name: content})
    output = tmp_path / "a" / "b"
    with serve_content(bad) as (url, _), pytest.raises(InputError) as caught:
        fetch_imdb(output, archive=describe_archive(url, bad))
    assert str(caught.value) == (
        f"the archive contains {name!r}, which is not a plain file or folder in aclImdb. "
        "Nothing was unpacked."
    )
    assert not (output / "aclImdb").exists()
    assert not list(tmp_path.rglob("evil.txt"))


def test_a_damaged_archive(tmp_path):
    bad = GOOD[: len(GOOD) // 2]
    with (
        serve_content(bad) as (url, _),
        pytest.raises(InputError, match="the archive cannot be unpacked"),
    ):
        fetch_imdb(tmp_path, archive=describe_archive(url, bad))
    assert not (tmp_path / "aclImdb").exists()


def test_a_missing_archive_raises_an_error(tmp_path):
    with serve_content(GOOD) as (url, _):
        gone = url.replace("imdb", "gone")
        with pytest.raises(InputError) as caught:
            fetch_imdb(tmp_path, archive=describe_archive(gone))
    assert str(caught.value) == f"cannot download {gone} (Not Found). Try again later."


def test_an_address_of_another_scheme_raises_an_error(tmp_path):
    with pytest.raises(InputError) as caught:
        fetch_imdb(tmp_path, archive=describe_archive("file:///etc/passwd"))
    assert str(caught.value) == (
        "the address 'file:///etc/passwd' must start with http:// or https://."
    )
