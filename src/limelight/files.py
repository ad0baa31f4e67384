"""Files that are written whole or not at all."""

__all__ = ["whole_folder", "write_whole"]

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_whole(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write ``content`` to ``path``; after a crash the old file or the new one is there, whole."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
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
    """Yield a new folder that takes the place of ``path`` when the block ends without error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    try:
        yield part
        _take_default_mode(part, 0o777)
        if path.exists():
            # A folder cannot replace a folder in one step: move the old one out of the way first.
            old = part.with_suffix(".old")
            path.replace(old)
            part.replace(path)
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
