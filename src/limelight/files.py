"""Files written whole or not at all, and files of others read with care."""

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

from limelight.errors import InputError


def write_whole(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write ``content`` to ``path``; after a crash the old file or the new one is there, whole."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of ``path`` when the block ends without error."""
    target, part = Path(path), None
    with _errors_about(path):
        if is_device(target):
            file: BinaryIO = target.open("wb")
        else:
            target = target.resolve()
            handle, part = tempfile.mkstemp(
                dir=target.parent, prefix=f".{target.name}.", suffix=".part"
            )
            file = os.fdopen(handle, "wb")
    try:
        with _errors_about(path, nameless=True), file:
            yield file
            file.flush()
            if part is not None:
                os.fsync(file.fileno())
        with _errors_about(path):
            if part is not None:
                _take_default_mode(Path(part))
                Path(part).replace(target)
    except BaseException:
        if part is not None:
            Path(part).unlink(missing_ok=True)
        raise


def is_device(path: Path) -> bool:
    """Say whether ``path`` is a pipe, /dev/null or the like: written to, never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextlib.contextmanager
def _errors_about(path: str | os.PathLike[str], *, nameless: bool = False) -> Iterator[None]:
    """Let errors name the file the user asked for, not the temporary one.

    ``nameless``: only those that name no file; the others are about something else.
    """
    try:
        yield
    except OSError as error:
        if nameless and error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from None


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder that takes the place of ``path`` when the block ends without error.

    Whatever a folder at ``path`` held is lost then: the caller has made sure that it may be.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    try:
        yield part
        _take_default_mode(part, 0o777)
        if path.exists():
            # A folder cannot replace a folder in one step: move the old one out of the way first.
            old = part.with_suffix(".old")
            path.replace(old)
            try:
                part.replace(path)
            except OSError:
                old.replace(path)
                raise
            shutil.rmtree(old)
        else:
            part.replace(path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


@contextlib.contextmanager
def alone_in(folder: str | os.PathLike[str], busy: str) -> Iterator[None]:
    """Refuse a ``folder`` in which another process is at such a block; ``busy`` says who that is.

    The lock is on the folder itself and ends with the process, however that ends: no file is left
    that could be in the way. Where folders cannot be locked (Windows, some network disks), nothing
    is.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{busy} '{folder}'; wait for it to end, or choose another folder."
            ) from None
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
        yield
    finally:
        os.close(handle)


def _take_default_mode(path: Path, mode: int = 0o666) -> None:
    """Undo the private mode of temporary files: a result is as readable as any other file."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


_PART = 1 << 24  # bytes


@runtime_checkable
class Readable(Protocol):
    """What bytes can be read from: a file, a pipe, an archive."""

    def read(self, size: int, /) -> bytes:
        """Return ``size`` bytes at most, none at the end."""


def bounded_bytes(path: Path, most: int) -> bytes:
    """Return what the file at ``path`` holds; refuse devices and pipes, and more than ``most``."""
    # Asked before opening: a pipe that nobody writes to would be waited for, /dev/zero never ends.
    if path.exists() and not path.is_file():
        raise InputError(f"'{path}' must be a file; it is a folder, a device or a pipe.")
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > most:  # before a part of it is read
            raise InputError(f"'{path}' must have at most {most:,} bytes; it has more.")
        return read_at_most(file, most, f"'{path}'")


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading; of what became a pipe since it was looked at, nothing is awaited."""
    without_waiting = getattr(os, "O_NONBLOCK", 0)  # which Windows does not have
    return (
        path.open("rb")
        if not without_waiting
        else os.fdopen(os.open(path, os.O_RDONLY | without_waiting), "rb")
    )


def read_at_most(file: Readable, most: int, name: str) -> bytes:
    """Return what is left of ``file``, called ``name``; refuse more than ``most`` bytes."""
    parts, size = [], 0
    while part := file.read(_PART):  # not all at once: read(n) may reserve n bytes for one
        size += len(part)
        if size > most:
            raise InputError(f"{name} must have at most {most:,} bytes; it has more.")
        parts.append(part)
    return b"".join(parts)


def bounded_json(content: bytes | str, name: str) -> Any:
    """Return the JSON value that ``content``, called ``name``, spells out."""
    try:
        return json.loads(content)
    except RecursionError:
        raise InputError(f"{name} is nested too deep.") from None
    except ValueError as error:
        raise InputError(f"{name} is not JSON ({error}).") from None
