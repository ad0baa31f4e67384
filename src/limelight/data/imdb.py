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
from limelight.files import whole_folder

FOLDER = "aclImdb"
_BLOCK = 1 << 18
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Archive:
    """A file on the network and what it must look like on arrival."""

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
    """Return the folder ``output/aclImdb``, downloaded and unpacked unless it is there already.

    What an interrupted download has brought is kept beside it and the next call continues from
    there. ``progress`` hears a stage ("download", "unpack"), bytes done, and bytes in all.
    """
    output = Path(output)
    folder = output / FOLDER
    if folder.is_dir():
        return folder
    output.mkdir(parents=True, exist_ok=True)
    report = progress or (lambda *_: None)
    part = output / f"{FOLDER}.tar.gz.part"
    _download(archive, part, report)
    _check(archive, part)
    _unpack(part, folder, report)
    part.unlink()
    return folder


def _download(archive: Archive, part: Path, report: Report) -> None:
    """Bring ``part`` to its full size, from wherever an earlier attempt left it."""
    have = part.stat().st_size if part.exists() else 0
    if have >= archive.size:
        return
    if not archive.url.startswith(("http://", "https://")):
        raise InputError(f"the address must start with http:// or https://; got {archive.url!r}.")
    request = urllib.request.Request(archive.url)  # noqa: S310
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            continued = answer.status == 206
            have = have if continued else 0  # a server may ignore the range and send everything
            with part.open("ab" if continued else "wb") as file:
                while have <= archive.size and (block := answer.read(_BLOCK)):
                    file.write(block)
                    have += len(block)
                    report("download", have, archive.size)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or error
        raise InputError(f"cannot download {archive.url} ({reason}); try again later.") from None
    if have < archive.size:
        raise InputError(
            f"the download stopped at {have} of {archive.size} bytes; "
            "run the same command to continue."
        )


def _check(archive: Archive, part: Path) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != archive.md5 or part.stat().st_size != archive.size:
        size = part.stat().st_size
        part.unlink()
        raise InputError(
            f"the file from {archive.url} is not the IMDB archive: its {size} bytes have the md5 "
            f"{found}, not {archive.md5}. It was deleted."
        )


def _unpack(part: Path, folder: Path, report: Report) -> None:
    """Put the archive's folder in place whole: plain files and folders below ``aclImdb`` only."""
    total = part.stat().st_size
    with part.open("rb") as raw, whole_folder(folder) as fresh:
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
    top, _, rest = member.name.removeprefix("./").partition("/")
    plain = member.isfile() or member.isdir()
    if top != FOLDER or not plain or ".." in Path(rest).parts or Path(rest).anchor:
        raise InputError(
            f"the archive holds {member.name!r}, which is not a plain file or folder below "
            f"{FOLDER}; nothing was unpacked."
        )
    # By hand: tarfile's own filter came with Python 3.11.4, and Debian 12 has 3.11.2.
    if member.isdir():
        (fresh / rest).mkdir(parents=True, exist_ok=True)
    elif rest:
        (fresh / rest).parent.mkdir(parents=True, exist_ok=True)
        with (fresh / rest).open("wb") as file:
            shutil.copyfileobj(tar.extractfile(member), file)
