"""Images as rows of data: a folder of files, folders by class, arrays of NumPy, bytes in tables.

A cell is a string, as that of a text is: a path, or the file itself as an address that begins with
"data:image/". So whatever reads texts reads images, and models tell what a string means.
"""

import hashlib
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from limelight.data.files import Batch, Source, data_files
from limelight.data.labeled import LabeledTexts, read_labeled
from limelight.errors import InputError, add_text_number
from limelight.text import read_image
from limelight.text.characters import LONE_SURROGATE
from limelight.text.images import bit_depth, has_ending

_BATCH = 256
_FILES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"II*\0", b"MM\0*")  # how they begin


def read_labeled_images(
    data: Any, classes: Sequence[str] | None = None, **columns: Any
) -> LabeledTexts:
    """Return labeled images; ``data`` and columns are those of :func:`read_labeled`."""
    folder = Path(data) if isinstance(data, str | os.PathLike) else None
    if folder is not None and folder.is_dir() and not data_files(folder):
        data = find_images(folder)
        if data is None:
            raise InputError(f"'{folder}' has no images, and no folders with some for each class.")
    found = read_labeled(data, classes, **columns)
    images = []
    for number, cell in enumerate(found.texts):
        with add_text_number(number):
            images.append(read_image(cell))
    return replace(found, texts=images)


def address(content: bytes, name: str = "") -> str:
    """Return a file as a string that :func:`limelight.text.read_image` reads."""
    # These end a field of such an address.
    said = f";name={name}" if name and not set(name) & set(";,") else ""
    return f"data:image/*{said};base64,{b64encode(content).decode()}"


def cell_of(cell: Mapping[str, Any] | None) -> str | None:
    """Return a cell of Hugging Face's tables, ``{"bytes", "path"}``, as a string."""
    content, path = (cell or {}).get("bytes"), (cell or {}).get("path")
    return path if content is None else address(content, Path(path or "").name)


def decode_cell(cell: bytes | None) -> str | None:
    """Return a cell of bytes that are not UTF-8: a file of an image, or a text with faults."""
    if cell is not None and cell.startswith(_FILES):
        return address(cell)
    return None if cell is None else cell.decode("utf-8", "surrogateescape")


class _ImageSource(Source):
    """Rows with an image each, which ``cell`` gives as a string, and perhaps a label."""

    def __init__(
        self, path: Path, ids: Sequence[str], cell: Callable[[int], str], labels: Sequence[Any]
    ) -> None:
        super().__init__(path)
        self.ids, self._cell, self._labels = ids, cell, labels

    @property
    def columns(self) -> dict[str, str]:
        names = ("id", "image", "label") if len(self._labels) else ("id", "image")
        return dict.fromkeys(names, "string")

    def count(self) -> int:
        return len(self.ids)

    def batches(self, names: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        import pyarrow as pa

        for start in range(0, self.count(), _BATCH):
            rows = range(self.count())[start : start + _BATCH]
            of = {
                "id": self.ids[start : rows.stop],
                "image": [self._cell(row) for row in rows],
                "label": self._labels[start : rows.stop],
            }
            yield [list(of[name]) for name in names], [pa.array(of[name]) for name in carried]


class _Folder(_ImageSource):
    """The images of a folder by name; those of folders in it have these as their labels."""

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        if odd := [one.name for one in files if LONE_SURROGATE.search(str(one))]:
            raise InputError(f"names of files must be UTF-8 to stand in tables; rename {odd[0]!r}.")
        self.files = sorted(files)
        ids = [file.relative_to(path).as_posix() for file in self.files]
        labels = [file.parent.name for file in self.files if file.parent != path]
        super().__init__(path, ids, lambda row: str(self.files[row].resolve()), labels)

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    def digest(self) -> str:
        digest = hashlib.sha256()
        for name, file in zip(self.ids, self.files, strict=True):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{name}\0{content}\0".encode())
        return digest.hexdigest()


def find_images(path: Path) -> Source | None:
    """Return the images of a folder, or of the folders in it; None where it has none."""
    for pattern in ("*", "*/*"):
        if found := [one for one in path.glob(pattern) if has_ending(one) and one.is_file()]:
            return _Folder(path, found)
    return None


def read_image_arrays(path: Path) -> Source:
    """Return the images of a file of NumPy's arrays, (n, H, W) or (n, H, W, C).

    An array of n labels may be beside them.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (ValueError, OSError, BadZipFile, EOFError):  # of pickled objects it says how to
        raise InputError(
            f"'{path}' is not a file of arrays of numbers, as np.savez writes it."
        ) from None
    images = {name: one for name, one in found.items() if one.ndim in (3, 4)}
    if len(images) > 1:  # of a training and a test set, the first
        images = {name: one for name, one in images.items() if "train" in name.lower()}
    if len(images) != 1:
        raise InputError(
            f"'{path}' must have one array of images, (n, height, width) or (n, height, "
            f"width, channels); it has {', '.join(found) or 'none'}."
        )
    (images,) = images.values()
    labels = [one.tolist() for one in found.values() if one.shape == (len(images),)]
    # By the largest number of all: images of one camera must not differ in brightness.
    most = (1 << bit_depth(images)) - 1 if images.dtype == np.uint16 else None

    def address_of_row(row: int) -> str:
        pixels = images[row] if most is None else images[row] / most
        return address(read_image(pixels).png(longest=1 << 16))

    return _ImageSource(
        path,
        [str(i) for i in range(len(images))],
        address_of_row,
        labels[0] if len(labels) == 1 else [],
    )
