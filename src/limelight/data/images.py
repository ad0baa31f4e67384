"""Read images as rows of data: from folders, NumPy arrays, or bytes in tables.

The cell of an image is a string, like the cell of a text. It is a path, or a data URL that contains
the file and begins with "data:image/". Functions that read texts can therefore read images too, and
the model decides how to read a string.
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
_FILES = (
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"RIFF",
    b"II*\0",
    b"MM\0*",
)  # first bytes of image files


def read_labeled_images(
    data: Any, classes: Sequence[str] | None = None, **columns: Any
) -> LabeledTexts:
    """Read labeled images; ``data`` and columns are those of :func:`read_labeled`."""
    folder = Path(data) if isinstance(data, str | os.PathLike) else None
    if folder is not None and folder.is_dir() and not data_files(folder):
        data = find_images(folder)
        if data is None:
            raise InputError(
                f"'{folder}' has no images. Give a folder with a folder of images for each class."
            )
    labeled = read_labeled(data, classes, **columns)
    images = []
    for number, cell in enumerate(labeled.texts):
        with add_text_number(number):
            images.append(read_image(cell))
    return replace(labeled, texts=images)


def data_url(content: bytes, name: str = "") -> str:
    """Return a file as a data URL, which :func:`limelight.text.read_image` reads."""
    # These characters would end a field of the URL.
    field = f";name={name}" if name and not set(name) & set(";,") else ""
    return f"data:image/*{field};base64,{b64encode(content).decode()}"


def encode_cell(cell: Mapping[str, Any] | None) -> str | None:
    """Return a cell of a Hugging Face table, ``{"bytes", "path"}``, as a string."""
    content, path = (cell or {}).get("bytes"), (cell or {}).get("path")
    return path if content is None else data_url(content, Path(path or "").name)


def decode_cell(cell: bytes | None) -> str | None:
    """Return a cell of bytes that are not UTF-8, an image file or a damaged text, as a string."""
    if cell is not None and cell.startswith(_FILES):
        return data_url(cell)
    return None if cell is None else cell.decode("utf-8", "surrogateescape")


class _ImageSource(Source):
    """Rows with one image each, and optionally a label.

    ``cell`` returns the image of a row as a string.
    """

    def __init__(
        self, path: Path, ids: Sequence[str], cell: Callable[[int], str], labels: Sequence[Any]
    ) -> None:
        super().__init__(path)
        self.ids, self._cell, self._labels = ids, cell, labels

    @property
    def columns(self) -> dict[str, str]:
        """The names and types of the columns."""
        names = ("id", "image", "label") if len(self._labels) else ("id", "image")
        return dict.fromkeys(names, "string")

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.ids)

    def batches(self, names: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield the rows in batches: columns as lists, and the carried columns as Arrow arrays."""
        import pyarrow as pa

        for start in range(0, self.count(), _BATCH):
            rows = range(self.count())[start : start + _BATCH]
            columns = {
                "id": self.ids[start : rows.stop],
                "image": [self._cell(row) for row in rows],
                "label": self._labels[start : rows.stop],
            }
            carried_arrays = [pa.array(columns[name]) for name in carried]
            yield [list(columns[name]) for name in names], carried_arrays


class _Folder(_ImageSource):
    """The images of a folder, in the order of names; folders in it give the labels."""

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        invalid = [file.name for file in files if LONE_SURROGATE.search(str(file))]
        if invalid:
            raise InputError(f"file names must be UTF-8. Rename {invalid[0]!r}.")
        self.files = sorted(files)
        ids = [file.relative_to(path).as_posix() for file in self.files]
        labels = [file.parent.name for file in self.files if file.parent != path]
        super().__init__(path, ids, lambda row: str(self.files[row].resolve()), labels)

    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(file.stat().st_size for file in self.files)

    def digest(self) -> str:
        """Return a hash of the names and contents of all files."""
        digest = hashlib.sha256()
        for name, file in zip(self.ids, self.files, strict=True):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{name}\0{content}\0".encode())
        return digest.hexdigest()


def find_images(path: Path) -> Source | None:
    """Return the images of a folder or of the folders in it, or None if there are none."""
    for pattern in ("*", "*/*"):
        files = [file for file in path.glob(pattern) if has_ending(file) and file.is_file()]
        if files:
            return _Folder(path, files)
    return None


def read_image_arrays(path: Path) -> Source:
    """Read the images of a file of NumPy arrays, with shape (n, H, W) or (n, H, W, C).

    The file may also have an array of n labels.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, BadZipFile, EOFError):  # NumPy would explain how to load pickles
        raise InputError(
            f"'{path}' must be a file of numeric arrays. Write it with np.savez."
        ) from None
    images = {name: array for name, array in arrays.items() if array.ndim in (3, 4)}
    if len(images) > 1:  # of a training and a test set, the first
        images = {name: array for name, array in images.items() if "train" in name.lower()}
    if len(images) != 1:
        raise InputError(
            f"'{path}' must have one array of images, with shape (n, height, width) or (n, height, "
            f"width, channels). Its arrays: {', '.join(arrays) or 'none'}."
        )
    (images,) = images.values()
    labels = [array.tolist() for array in arrays.values() if array.shape == (len(images),)]
    # The largest number of all images: images of one camera must not differ in brightness.
    maximum = (1 << bit_depth(images)) - 1 if images.dtype == np.uint16 else None

    def read_row(row: int) -> str:
        """Return the image of a row as a data URL."""
        pixels = images[row] if maximum is None else images[row] / maximum
        return data_url(read_image(pixels).png(longest=1 << 16))

    return _ImageSource(
        path,
        [str(i) for i in range(len(images))],
        read_row,
        labels[0] if len(labels) == 1 else [],
    )
