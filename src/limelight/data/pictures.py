"""Pictures as rows of data: a folder of files, folders by class, arrays of NumPy, bytes in tables.

A cell is a string, as that of a text is: a path, or the file itself as an address that begins with
"data:image/". So whatever reads texts reads pictures, and models tell what a string means.
"""

import hashlib
import os
from abc import abstractmethod
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from limelight.data.files import Batch, Source, data_files
from limelight.data.labelled import LabelledTexts, read_labelled
from limelight.errors import InputError, about_text
from limelight.text import picture_of
from limelight.text.characters import LONE_SURROGATE
from limelight.text.pictures import has_ending

_BATCH = 256
_FILES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"II*\0", b"MM\0*")  # how they begin


def read_pictures(data: Any, classes: Sequence[str] | None = None, **columns: Any) -> LabelledTexts:
    """Return labelled pictures; ``data`` and columns are those of :func:`read_labelled`."""
    folder = Path(data) if isinstance(data, str | os.PathLike) else None
    if folder is not None and folder.is_dir() and not (data_files(folder) or pictures_at(folder)):
        raise InputError(f"'{data}' has no pictures, and no folders with some for each class.")
    found = read_labelled(data, classes, **columns)
    pictures = []
    for number, cell in enumerate(found.texts):
        with about_text(number):
            pictures.append(picture_of(cell))
    return replace(found, texts=pictures)


def pictures_at(path: Path) -> Source | None:
    """Return the pictures of a folder, None where it has none."""
    return found if (found := _Folder(path)).files else None


def arrays_at(path: Path) -> Source:
    """Return the pictures of a file of NumPy's arrays."""
    return _Arrays(path)


def address(content: bytes, name: str = "") -> str:
    """Return a file as a string that :func:`limelight.text.picture_of` reads."""
    said = f";name={name}" if name and not set(name) & set(";,") else ""
    return f"data:image/*{said};base64,{b64encode(content).decode()}"


def cell_of(cell: Mapping[str, Any] | None) -> str | None:
    """Return a cell of Hugging Face's tables, ``{"bytes", "path"}``, as a string."""
    content, path = (cell or {}).get("bytes"), (cell or {}).get("path")
    return path if content is None else address(content, Path(path or "").name)


def text_or_picture(cell: bytes | None) -> str | None:
    """Return a cell of bytes that are not UTF-8: a file of a picture, or a text with faults."""
    if cell is not None and cell.startswith(_FILES):
        return address(cell)
    return None if cell is None else cell.decode("utf-8", "surrogateescape")


class _Rows(Source):
    """Rows with a picture each, and perhaps a label: ``self.rows`` yields id, cell and label."""

    labelled: bool

    @property
    def columns(self) -> dict[str, str]:
        return dict.fromkeys(
            ("id", "image", "label") if self.labelled else ("id", "image"), "string"
        )

    @abstractmethod
    def rows(self, start: int, stop: int) -> Iterator[tuple[Any, ...]]:
        """Yield the rows from ``start`` on."""

    def batches(self, names: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        import pyarrow as pa

        for start in range(0, self.count(), _BATCH):
            rows = self.rows(start, min(start + _BATCH, self.count()))
            of = dict(zip(self.columns, zip(*rows, strict=True), strict=False))
            yield [list(of[name]) for name in names], [pa.array(of[name]) for name in carried]

    def spelled(self, cell: Any) -> str:
        return str(cell)


class _Folder(_Rows):
    """The pictures of a folder by name; those of folders in it have these as their labels."""

    @cached_property
    def files(self) -> list[Path]:
        """The files, sorted."""
        here = [one for one in self.path.iterdir() if has_ending(one) and one.is_file()]
        found = here or [one for one in self.path.glob("*/*") if has_ending(one) and one.is_file()]
        if odd := [one.name for one in found if LONE_SURROGATE.search(str(one))]:
            raise InputError(f"names of files must be UTF-8 to stand in tables; rename {odd[0]!r}.")
        return sorted(found)

    @property
    def labelled(self) -> bool:  # type: ignore[override]
        return self.files[0].parent != self.path

    def count(self) -> int:
        return len(self.files)

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    def digest(self) -> str:
        digest = hashlib.sha256()
        for file in self.files:
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(self.path).as_posix()}\0{content}\0".encode())
        return digest.hexdigest()

    def rows(self, start: int, stop: int) -> Iterator[tuple[Any, ...]]:
        for file in self.files[start:stop]:
            yield file.relative_to(self.path).as_posix(), str(file.resolve()), file.parent.name


class _Arrays(_Rows):
    """Arrays of NumPy in one file: pictures (n, H, W) or (n, H, W, C), and perhaps n labels."""

    @cached_property
    def _found(self) -> tuple[np.ndarray, np.ndarray | None]:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except (ValueError, OSError, BadZipFile, EOFError):  # of pickled objects it says how to
            raise InputError(
                f"'{self.path}' is not a file of arrays of numbers, as np.savez writes it."
            ) from None
        pictures = {name: one for name, one in found.items() if one.ndim in (3, 4)}
        if len(pictures) > 1:  # of a training and a test set, the first
            pictures = {name: one for name, one in pictures.items() if "train" in name.lower()}
        if len(pictures) != 1:
            raise InputError(
                f"'{self.path}' must have one array of pictures, (n, height, width) or (n, height, "
                f"width, channels); it has {', '.join(found) or 'none'}."
            )
        (images,) = pictures.values()
        labels = [one for one in found.values() if one.shape == (len(images),)]
        return images, labels[0] if len(labels) == 1 else None

    @property
    def labelled(self) -> bool:  # type: ignore[override]
        return self._found[1] is not None

    def count(self) -> int:
        return len(self._found[0])

    def rows(self, start: int, stop: int) -> Iterator[tuple[Any, ...]]:
        images, labels = self._found
        for i in range(start, stop):
            cell = address(picture_of(images[i]).png(longest=1 << 16))
            yield (str(i), cell) if labels is None else (str(i), cell, labels[i].item())
