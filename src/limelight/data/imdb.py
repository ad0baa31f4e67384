"""The public archive of IMDB reviews (Maas et al. 2011): downloaded, checked, unpacked."""

import hashlib
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from limelight.errors import InputError
from limelight.files import atomic_folder

FOLDER = "aclImdb"
_BLOCK = 1 << 18
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Archive:
    """A file to download, with its size and its MD5 digest."""

    url: str
    size: int
    md5: str


IMDB = Archive(
    url="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    size=84_125_825,
    md5="7c2ac02c03563afcf9b574c7e56c153a",
)


def fetch_imdb(
    output: str | os.PathLike[str], *, archive: Archive = IMDB, progress: Report | None = None
) -> Path:
    """Download and unpack the archive into ``output/aclImdb`` unless it exists; return its path.

    After an interruption, the next call continues the download. ``progress`` is called with the
    stage ("download", "unpack"), the bytes done and the number of all bytes.
    """
    output = Path(output)
    folder = output / FOLDER
    if folder.is_dir():
        return folder
    output.mkdir(parents=True, exist_ok=True)
    report = progress or (lambda *_: None)
    part = output / f"{FOLDER}.tar.gz.part"
    _download(archive, part, report)
    _verify_checksum(archive, part)
    _unpack(part, folder, report)
    part.unlink()
    return folder


def _download(archive: Archive, part: Path, report: Report) -> None:
    """Download the archive to ``part``, continuing an earlier download."""
    received = part.stat().st_size if part.exists() else 0
    if received >= archive.size:
        return
    if not archive.url.startswith(("http://", "https://")):
        raise InputError(f"the address {archive.url!r} must start with http:// or https://.")
    request = urllib.request.Request(archive.url)  # noqa: S310
    if received:
        request.add_header("Range", f"bytes={received}-")
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            continued = response.status == 206
            received = (
                received if continued else 0
            )  # a server may ignore the range and send everything
            with part.open("ab" if continued else "wb") as file:
                while received <= archive.size and (block := response.read(_BLOCK)):
                    file.write(block)
                    received += len(block)
                    report("download", received, archive.size)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or error
        raise InputError(f"cannot download {archive.url} ({reason}). Try again later.") from None
    if received < archive.size:
        raise InputError(
            f"the download stopped at {received} of {archive.size} bytes. Run the same command to "
            "continue."
        )


def _verify_checksum(archive: Archive, part: Path) -> None:
    """Delete the downloaded file and raise `InputError` if its checksum is wrong."""
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if digest != archive.md5 or part.stat().st_size != archive.size:
        size = part.stat().st_size
        part.unlink()
        raise InputError(
            f"the file from {archive.url} is not the IMDB archive: its MD5 is {digest}, not "
            f"{archive.md5} ({size} bytes). limelight deleted it."
        )


def _unpack(part: Path, folder: Path, report: Report) -> None:
    """Unpack the archive completely or not at all: only plain files and folders in ``aclImdb``."""
    total = part.stat().st_size
    with part.open("rb") as raw, atomic_folder(folder) as fresh:
        try:
            with tarfile.open(fileobj=raw, mode="r:gz") as tar:
                for number, member in enumerate(tar):
                    _extract(tar, member, fresh)
                    if number % 500 == 0:
                        report("unpack", raw.tell(), total)
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise InputError(f"the archive cannot be unpacked ({error}).") from None
        for name in ("train/neg", "train/pos", "test/neg", "test/pos"):
            if not (fresh / name).is_dir():
                raise InputError(f"the archive cannot be unpacked (it lacks {FOLDER}/{name}).")
    report("unpack", total, total)


def _extract(tar: Any, member: Any, fresh: Path) -> None:
    """Write a member of the archive to the new folder, if its path and type are safe."""
    top, _, relative_path = member.name.removeprefix("./").partition("/")
    is_plain = member.isfile() or member.isdir()
    if (
        top != FOLDER
        or not is_plain
        or ".." in Path(relative_path).parts
        or Path(relative_path).anchor
    ):
        raise InputError(
            f"the archive contains {member.name!r}, which is not a plain file or folder in "
            f"{FOLDER}. Nothing was unpacked."
        )
    # Not with the filter of tarfile: it came with Python 3.11.4, and Debian 12 has 3.11.2.
    if member.isdir():
        (fresh / relative_path).mkdir(parents=True, exist_ok=True)
    elif relative_path:
        (fresh / relative_path).parent.mkdir(parents=True, exist_ok=True)
        with (fresh / relative_path).open("wb") as file:
            shutil.copyfileobj(tar.extractfile(member), file)
