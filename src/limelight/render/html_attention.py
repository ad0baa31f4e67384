"""The attention matrices of the heads (the paper's Figure 3) as small images in a page."""

__all__ = ["attention_section", "matrix_png", "pooled"]

import base64
import json
import struct
import zlib

import numpy as np

from limelight.render.coloured_pieces import token_strings_of
from limelight.render.markup import Html, data_block, element, raw
from limelight.results import Comparison
from limelight.shapes import Float, Num

LABELLED = 16  # more tokens than this leave no room for their names
INK = (58, 70, 186)
CELLS = 128  # a finer picture than this is only bytes


def attention_section(c: Comparison) -> Html:
    """Return one picture per head; the first row, of [cls], is all that the classifier reads."""
    matrices = c.attention
    if matrices is None:
        return raw()
    T = matrices.shape[-1]
    block = -(-T // CELLS)
    tokens = (token_strings_of(c.explanations[0]) + ["·"] * T)[:T]
    figures = [_figure(head, matrix, tokens, block) for head, matrix in enumerate(matrices)]
    note = (
        "Row: the token that asks; column: the token attended to. The classifier reads only the "
        "first row, that of [cls]. Each head has its own scale; opacity is the square root."
    )
    if block > 1:
        note += f" A cell shows the largest of {block} × {block} values."
    return raw(
        element("p", note, class_="note"),
        element("div", *figures, class_="heads"),
        element(
            "p", "Point at a cell to read its value.", class_="readout", id="attention-readout"
        ),
        data_block("limelight-tokens", json.dumps({"tokens": tokens, "block": block})),
    )


def _figure(head: int, matrix: Float[np.ndarray, "T T"], tokens: list[str], block: int) -> Html:
    T, peak = len(tokens), float(matrix.max()) or 1.0
    # The root keeps small weights visible; the script squares the opacity to read the value.
    pixels = np.round(np.sqrt(pooled(matrix, block) / peak) * 255).astype(np.uint8)
    address = "data:image/png;base64," + base64.b64encode(matrix_png(pixels)).decode()
    row, strongest = matrix[0], int(matrix[0].argmax())
    said = (
        f"Head {head + 1}. [cls] attends most to “{tokens[strongest]}” ({row[strongest]:.2f}); "
        f"largest value {peak:.2f}."
    )
    image = element(
        "img", src=address, alt=said, class_="head", data_head=head, data_peak=f"{peak:.6g}"
    ).removesuffix("</img>")
    caption = element("figcaption", element("b", f"Head {head + 1}"), f" full colour = {peak:.2f}")
    if T > LABELLED:
        return element("figure", caption, element("div", Html(image), class_="grid"))
    down = element("ol", *(element("li", token) for token in tokens), class_="down")
    across = element("ol", *(element("li", token) for token in tokens), class_="across")
    grid = element("div", down, Html(image), across, class_="grid named", data_size=T)
    return element("figure", caption, grid)


def pooled(matrix: Float[np.ndarray, "T T"], block: int) -> Float[np.ndarray, "S S"]:
    """Return the largest value of every ``block`` × ``block`` square."""
    T = len(matrix)
    padded = np.pad(matrix, (0, -T % block))
    size = len(padded) // block
    return padded.reshape(size, block, size, block).max(axis=(1, 3))


def matrix_png(pixels: Num[np.ndarray, "S S"]) -> bytes:
    """Return an image whose opacity is the value, so that it lies on light and dark paper."""
    height, width = pixels.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each row starts with its filter: none
    rows[:, 1:] = pixels
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(INK) * 256),
            _chunk(b"tRNS", bytes(range(256))),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum
