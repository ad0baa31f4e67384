"""Write files completely or not at all, and read files with limits.

A new file or folder is written under the temporary name ``.NAME.limelight-xxxxxxxx.part`` beside
its target, and then moved to the target. Its writer holds a lock on it. A part without a lock
belongs to a process that was killed, and `remove_abandoned_parts` deletes it. If files cannot be
locked (Windows, some network disks), nothing is deleted.
"""

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

from limelight.errors import InputError

_TRIES = 10  # collisions with other processes; after these, something else is wrong
# No other program uses such a name, so files with it may be deleted.
_TEMPORARY_NAME = re.compile(r"\.(?P<target>.+)\.limelight-[a-z0-9_]{8}\.(part|old)", re.DOTALL)


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write ``content`` to ``path``; after a crash, the complete old or new file is there."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a new file that replaces ``path`` when the block ends without an error."""
    target = Path(path)
    with _name_target_in_errors(path):
        if is_device(target):
            with target.open("wb") as device:
                yield device
            return
        target = target.resolve()
        handle, part, locked = _new_part_file(target)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(handle)
                _set_default_mode(part)
                if locked:
                    part.replace(target)  # before the lock ends
                    unlock(handle)
            if not locked:  # Windows moves no open file
                part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def growing_file(path: Path, target: Path, busy: str) -> Iterator[BinaryIO]:
    """Yield the unbuffered file ``path``, empty; move it to ``target`` at the end of the block.

    Raise `InputError` with the message ``busy`` if another process is writing to it. If the block
    fails, the written bytes stay in ``path``.
    """
    for _ in range(_TRIES):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        locked = lock(handle)
        if locked is False:
            os.close(handle)
            raise InputError(busy)
        if locked is None or _is_open_file(handle, path):
            break
        os.close(handle)  # its writer moved it into place between opening and locking
    else:
        raise InputError(busy)
    with os.fdopen(handle, "wb", buffering=0) as file:
        try:
            file.truncate()
            yield file
            os.fsync(handle)
            if locked:
                path.replace(target)  # before the lock ends
        finally:
            if locked:
                unlock(handle)
    if not locked:  # Windows moves no open file
        path.replace(target)


def write_files_atomically(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files to ``folder``; all contents are on disk before the first file is replaced.

    If the disk is full, the old files therefore stay. A process that is killed can leave old and
    new files together, so the first file should contain a digest of the others.
    """
    with contextlib.ExitStack() as stack:
        # Files take their places in the reverse order of opening.
        for name, content in reversed(list(contents.items())):
            file = stack.enter_context(atomic_file(folder / name))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def remove_abandoned_parts(folder: Path, name: str | None = None) -> None:
    """Delete the parts of ``name``, or of any name, that belong to killed processes.

    The function lists the folder, so call it once before many files are written.
    """
    if not can_lock():
        return
    parts: list[Path] = []
    with contextlib.suppress(OSError):  # it is missing, or only its owner lists it
        parts = list(folder.iterdir())
    for part in parts:
        match = _TEMPORARY_NAME.fullmatch(part.name)
        if match is None or name not in (None, match["target"]) or part.is_symlink():
            continue
        with (
            contextlib.suppress(OSError),  # it belongs to another user, or has just moved
            _hold_lock(part) as is_locked,
        ):
            if not is_locked or not os.path.lexists(part):
                continue
            if part.suffix == ".old" and not (folder / match["target"]).exists():
                # Its process was killed between moving it away and moving its successor in.
                part.replace(folder / match["target"])
            elif part.is_dir():
                _delete_folder(part)
            else:
                part.unlink()


def _delete_folder(folder: Path, *, ignore_errors: bool = False) -> None:
    """Delete a folder with all that it contains."""
    # It imports every compression of the standard library. A command that writes no folder does
    # without them, which saves a hundredth of its time.
    import shutil

    shutil.rmtree(folder, ignore_errors=ignore_errors)


def is_temporary_name(name: str) -> bool:
    """Return whether this module created the file with this name, and may delete it."""
    return _TEMPORARY_NAME.fullmatch(name) is not None


def _temporary_arguments(target: Path) -> dict[str, Any]:
    """Return arguments of :mod:`tempfile` for a temporary file or folder beside ``target``."""
    return {"dir": target.parent, "prefix": f".{target.name}.limelight-", "suffix": ".part"}


def _new_part_file(target: Path) -> tuple[int, Path, bool]:
    """Create and open a file beside ``target``; return it, its path, and whether it is locked."""
    from tempfile import mkstemp  # it imports shutil

    for _ in range(_TRIES):
        handle, name = mkstemp(**_temporary_arguments(target))
        part, usable = Path(name), False
        try:
            locked = lock(handle)
            # Before it was locked, another process may have taken it for an abandoned part.
            usable = locked is None or (locked and _is_open_file(handle, part))
        finally:
            if not usable:
                os.close(handle)
                part.unlink(missing_ok=True)
        if usable:
            return handle, part, bool(locked)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), os.fspath(target))


@contextlib.contextmanager
def _new_part_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder beside ``target``, which is locked if that is possible."""
    from tempfile import mkdtemp  # it imports shutil

    for _ in range(_TRIES):
        part = Path(mkdtemp(**_temporary_arguments(target)))
        with contextlib.ExitStack() as stack:
            try:
                usable = stack.enter_context(_hold_lock(part)) is not False and part.exists()
            except FileNotFoundError:  # another process has taken it for an abandoned part
                usable = False
            if usable:
                try:
                    yield part
                finally:
                    _delete_folder(part, ignore_errors=True)
                return
        _delete_folder(part, ignore_errors=True)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), os.fspath(target))


def _is_open_file(handle: int, path: Path) -> bool:
    """Return whether ``path`` is still the file that is open as ``handle``."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def can_lock() -> bool:
    """Return whether this system can lock files and folders; Windows cannot."""
    try:
        import fcntl  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def lock(handle: int) -> bool | None:
    """Lock an open file or folder; return False if another process holds its lock.

    The lock ends with `unlock`, or when the process ends. If files cannot be locked (Windows, some
    network disks), nothing is locked and the function returns None.
    """
    if not can_lock():
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # each system has its own error for a disk without locks
        return None
    return True


def unlock(handle: int) -> None:
    """End a lock; if a child process was forked meanwhile, closing the file does not end it."""
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextlib.contextmanager
def _hold_lock(path: Path) -> Iterator[bool | None]:
    """Hold the lock of a file or folder during the block; yield the result of `lock`."""
    if not can_lock():  # Windows opens no folder
        yield None
        return
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe is not waited for
    try:
        locked = lock(handle)
        try:
            yield locked
        finally:
            if locked:
                unlock(handle)
    finally:
        os.close(handle)


def is_device(path: Path) -> bool:
    """Return whether ``path`` is a device or a pipe, which is written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextlib.contextmanager
def _name_target_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the user's file in errors of the block that name no file or a temporary one."""
    try:
        yield
    except OSError as error:
        name = error.filename
        if name is not None and not is_temporary_name(Path(str(name)).name):
            raise
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from None


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder that replaces ``path`` when the block ends without an error.

    The files of an old folder at ``path`` are deleted. The caller must check that they may be.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    target = target.resolve()  # a link keeps its place
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned_parts(target.parent, target.name)
    with _name_target_in_errors(path), _new_part_folder(target) as part:
        yield part
        _set_default_mode(part, 0o777)
        _move_folder(part, target)


def _move_folder(part: Path, target: Path) -> None:
    """Replace a folder by another one; if that fails, the old folder stays."""
    # A folder cannot replace a folder in one step: move the old one out of the way first.
    old = part.with_suffix(".old")
    for remaining in reversed(range(_TRIES)):
        try:
            with contextlib.suppress(FileNotFoundError):  # there is none, or it was just moved away
                target.replace(old)
            with contextlib.ExitStack() as stack:
                with contextlib.suppress(OSError):
                    stack.enter_context(_hold_lock(old))  # nobody takes it for an abandoned one
                part.replace(target)
            break
        except BaseException as error:
            with contextlib.suppress(OSError):  # none was moved, or another writer's is there now
                old.replace(target)
            if target.exists():
                _delete_folder(old, ignore_errors=True)
            collided = isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST)
            if not (collided and remaining):
                raise
    with contextlib.suppress(OSError):
        # Renamed first: what is half deleted must not come back as the old folder.
        _delete_folder(old.replace(part), ignore_errors=True)


@contextlib.contextmanager
def folder_lock(folder: str | os.PathLike[str], busy: str) -> Iterator[None]:
    """Lock a folder; raise `InputError` if another process holds the lock.

    ``busy`` is the beginning of the message, such as "another run is writing to". The lock is on
    the folder itself, so no lock file remains.
    """
    with _hold_lock(Path(folder)) as locked:
        if locked is False:
            raise InputError(f"{busy} '{folder}'. Wait until it ends, or choose another folder.")
        yield


def _set_default_mode(path: Path, mode: int = 0o666) -> None:
    """Replace the private mode of temporary files by the default mode of new files."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


_BLOCK_SIZE = 1 << 24  # bytes


@runtime_checkable
class Readable(Protocol):
    """A source of bytes, such as a file, a pipe or an archive."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, and no bytes at the end."""


def read_bounded_bytes(path: Path, max_bytes: int) -> bytes:
    """Read a file; raise `InputError` if it is a device, a pipe or larger than ``max_bytes``."""
    # Checked before opening: a pipe without a writer would block, and /dev/zero never ends.
    if path.exists() and not path.is_file():
        raise InputError(f"'{path}' must be a file, not a folder, a device or a pipe.")
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > max_bytes:  # before a part of it is read
            raise InputError(f"'{path}' is too large: the limit is {max_bytes:,} bytes.")
        return read_at_most(file, max_bytes, f"'{path}'")


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading without waiting, even if it has become a pipe since the check."""
    nonblocking = getattr(os, "O_NONBLOCK", 0)  # which Windows does not have
    if not nonblocking:
        return path.open("rb")
    return os.fdopen(os.open(path, os.O_RDONLY | nonblocking), "rb")


def read_at_most(file: Readable, max_bytes: int, name: str) -> bytes:
    """Read the rest of a file; raise `InputError` if it has more than ``max_bytes``."""
    parts, size = [], 0
    while part := file.read(_BLOCK_SIZE):  # read(n) may reserve n bytes even for a small file
        size += len(part)
        if size > max_bytes:
            raise InputError(f"{name} is too large: the limit is {max_bytes:,} bytes.")
        parts.append(part)
    return b"".join(parts)


def parse_json(content: bytes | str, name: str) -> Any:
    """Parse JSON; ``name`` is the name of the content in error messages."""
    try:
        return json.loads(content)
    except RecursionError:
        raise InputError(f"{name} is nested too deeply.") from None
    except ValueError as error:
        raise InputError(f"{name} is not valid JSON ({error}).") from None
