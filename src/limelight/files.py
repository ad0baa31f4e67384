"""Files that are written whole or not at all."""

__all__ = ["whole_folder", "write_whole"]

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_whole(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write ``content`` to ``path``; after a crash the old file or the new one is there, whole."""
    data = content.encode() if isinstance(content, str) else content
    with _errors_about(path):
        if _is_device(Path(path)):
            Path(path).write_bytes(data)
        else:
            _replace(Path(path).resolve(), data)


def _is_device(path: Path) -> bool:
    """Say whether ``path`` is a pipe, /dev/null or the like: written to, never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextlib.contextmanager
def _errors_about(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors name the file the user asked for, not the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from None


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _take_default_mode(Path(name))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder that takes the place of ``path`` when the block ends without error.

    All that a folder at ``path`` holds is lost then: the caller has made sure that it may be.
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


def _take_default_mode(path: Path, mode: int = 0o666) -> None:
    """Undo the private mode of temporary files: a result is as readable as any other file."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)
