"""Files written whole or not at all, and files of others read with care.

A new file or folder grows under a temporary name beside its target, and is then moved into place.
The temporary name ends in ``.part``. Its writer holds a lock on it. A part without a lock was left
by a process that was killed, and the next writer of the same target deletes it.
"""

import contextlib
import errno
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
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
            remove_abandoned_parts(target.parent, target.name)
            handle, part = _new_part(target, _make_temporary_file)
            file = os.fdopen(handle, "wb")
    try:
        with file:
            with _errors_about(path, nameless=True):
                yield file
                file.flush()
                if part is not None:
                    os.fsync(file.fileno())
            with _errors_about(path):
                if part is not None:  # while the lock is held, which closing the file would end
                    _take_default_mode(part)
                    part.replace(target)
    except BaseException:
        if part is not None:
            part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def growing_file(path: Path, busy: str) -> Iterator[BinaryIO]:
    """Yield the unbuffered file ``path``, empty, after locking it against other writers.

    Raise `InputError` with the message ``busy`` if another process is writing to it. The file keeps
    what was written if the block fails.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if _lock(handle) is False:
            os.close(handle)
            raise InputError(busy)
        if _is_open_file(handle, path):
            break
        os.close(handle)  # its writer moved it into place between opening and locking
    with os.fdopen(handle, "wb", buffering=0) as file:
        file.truncate()
        yield file


def write_whole_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write several files of ``folder``; every content is on disk before the first is replaced.

    A full disk therefore leaves the old files as they were. A process that is killed can leave
    files of both: the first file should say, by a digest, to which others it belongs.
    """
    with contextlib.ExitStack() as stack:
        # Files take their places in the reverse order of opening.
        for name, content in reversed(list(contents.items())):
            file = stack.enter_context(whole_file(folder / name))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def remove_abandoned_parts(folder: Path, name: str = "") -> None:
    """Delete parts of ``name``, or of any name, that killed processes left in ``folder``."""
    start = f".{name}." if name else "."
    for part in folder.glob(f"{glob.escape(start)}*"):
        if part.suffix not in _TEMPORARY or part.is_symlink():
            continue
        with contextlib.suppress(OSError):  # it belongs to another user, or has just moved
            handle = os.open(part, os.O_RDONLY | os.O_NONBLOCK)
            try:
                if _lock(handle):
                    shutil.rmtree(part) if part.is_dir() else part.unlink()
            finally:
                os.close(handle)


_TEMPORARY = (".part", ".old")


def _new_part(target: Path, make: Callable[[Path], str]) -> tuple[int, Path]:
    """Return an open and locked temporary file or folder beside ``target``, and its path."""
    while True:
        part = Path(make(target))
        try:
            handle = os.open(part, os.O_RDONLY if part.is_dir() else os.O_RDWR)
        except FileNotFoundError:
            continue  # another writer took it for an abandoned part before it was locked
        _lock(handle, wait=True)
        if _is_open_file(handle, part):
            return handle, part
        os.close(handle)


def _make_temporary_file(target: Path) -> str:
    handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    return part


def _make_temporary_folder(target: Path) -> str:
    return tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")


def _is_open_file(handle: int, path: Path) -> bool:
    """Return whether ``path`` is still the file that is open as ``handle``."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _lock(handle: int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder; return False if another process holds its lock.

    The lock ends with the process, however that ends. Where files cannot be locked (Windows, some
    network disks), nothing is locked and None is returned.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        return None
    return True


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
    remove_abandoned_parts(path.parent, path.name)
    handle, part = _new_part(path, _make_temporary_folder)
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
    finally:
        os.close(handle)


@contextlib.contextmanager
def alone_in(folder: str | os.PathLike[str], busy: str) -> Iterator[None]:
    """Refuse a ``folder`` in which another process is at such a block; ``busy`` says who that is.

    The lock is on the folder itself: no file is left that could be in the way.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        if _lock(handle) is False:
            raise InputError(f"{busy} '{folder}'; wait for it to end, or choose another folder.")
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
