"""Wrong texts and images, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
from io import BytesIO

import numpy as np
import pytest

from limelight.errors import InputError
from limelight.models.attention import encode_text
from limelight.text import (
    ModelInput,
    Vocabulary,
    build_features,
    read_image,
    split_input,
    tokenize,
    validate_spans,
)
from limelight.text.images import grid_boxes, segment_image
from messages import exactly, wrong_calls
from shape_checks import no_type_checks

Pillow = pytest.importorskip("PIL.Image")


def pixels(height=6, width=10, channels=3):
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (height, width, channels), dtype=np.uint8)


def write_image(kind="PNG", **options):
    file = BytesIO()
    Pillow.fromarray(pixels()).save(file, kind, **options)
    return file.getvalue()


def read(text):
    return ModelInput(text, tokenize(text))


def encode(text):
    return encode_text(text, Vocabulary(("[cls]", "UNK", "a")), T_max=256)


def read_file(folder, name, content):
    (folder / name).write_bytes(content)
    return read_image(folder / name)


def read_large(limit):
    """Read an image of 60 pixels where Pillow trusts fewer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pillow, "MAX_IMAGE_PIXELS", limit)
        read_image(write_image())


def segment(splitter, height=6, width=10):
    return segment_image(splitter, read_image(pixels(height, width)), "mine")


NO_IMAGE = r"cannot be read as an image.*\.$"
NO_FILE = r"must be the path of a file.*\.$"
HALF = write_image()[: len(write_image()) // 2]
MOVING = write_image("GIF", save_all=True, append_images=[Pillow.fromarray(255 - pixels())])
SPANS = r"^my units must give the \(start, end\) .*, not .*\.$"
NO_WORDS = "the text has no words. Give at least one word"
INPUT_ERRORS = {
    "read_file(folder, 'broken.png', HALF)": NO_IMAGE,
    "read_file(folder, 'words.txt', b'no image')": NO_IMAGE,
    "read_image(b'')": NO_IMAGE,
    "read_image(Pillow.open(BytesIO(HALF)))": NO_IMAGE,
    "read_file(folder, 'moving.gif', MOVING)": r"has 2\. Save one frame.*\.$",
    "read_image(folder / 'nothing.png')": NO_FILE,
    "read_image(folder)": NO_FILE,
    "read_image('a text ' * 600)": NO_FILE,
    "read_image('https://limelight.org/shirt.png')": "Download images from the web first",
    "read_image(pixels(1, 1))": r"at least 2 × 2 pixels.*\.$",
    "read_image(pixels() * 1.0)": r"give array / 255.*\.$",
    "read_image(pixels() * 257.0)": r"float pixels must be between 0 and 1.*\.$",
    "read_image(pixels() / 255 - 0.5)": r"before a processor normalizes it.*\.$",
    "read_image(pixels().astype(int) * 2)": r"whole pixels must be between 0 and 255.*\.$",
    "read_image(pixels().astype(np.int32) * 257)": r"give array\.astype\(np\.uint16\).*\.$",
    "read_image(np.full((4, 4), np.nan))": r"finite.*\.$",
    "read_image(pixels(channels=2))": r"1, 3 or 4 channels.*\.$",
    "read_image(np.moveaxis(pixels(), -1, 0))": r"Move the channels to the end.*\.$",
    "read_image(pixels()[None])": r"not \(1, 6, 10, 3\).*\.$",
    "read_image({'bytes': None, 'path': None})": r"has neither.*\.$",
    "read_image(7)": r"not int.*\.$",
    "read_image(Pillow.fromarray(np.full((4, 4), 70_000, np.int32)))": r"must be between.*\.$",
    "read_large(59)": "must have at most",  # a warning of Pillow
    "read_large(20)": "must have at most",  # an error of Pillow
    "grid_boxes((0, 0, 10, 6), 7, 10)": "needs at least as many pixels",
    "segment(lambda p: np.arange(400).reshape(p.shape[:2]), 20, 20)": (
        "at most 255 segments, not 400"
    ),
    "segment(lambda p: p)": "the splitter mine",
    "segment(lambda p: p[:, :, 0] * 1.0)": "the splitter mine",
    "segment(lambda p: p.nothing)": "the splitter mine",
    "segment(lambda p: -np.ones(p.shape[:2], int))": "the splitter mine",
    **{
        f"validate_spans({spans}, 'a text', 'my units')": SPANS
        for spans in (
            [(0, 3), (2, 5)], [(0, 99)], [(2, 2)], [(3, 1)], ["ab"], [(0.0, 1.0)], [(0, 1, 2)], 7,
        )
    },
    "split_input(read('a text of two'), {(0, 6)})": "features must be one of",
    "split_input(read('a text of two'), {0: 6})": "features must be one of",
    **{f"encode({text!r})": NO_WORDS for text in ("", "   ", '\"\"\"', ";:", "<br />")},
    "build_features(encode('a'), 'word')": exactly(
        "unknown features: 'word'. Did you mean 'words'? Choose from: words, positions, sentences, "
        "paragraphs, lines."
    ),
}  # fmt: skip


@wrong_calls({InputError: INPUT_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message, tmp_path):
    with no_type_checks(), pytest.raises(error, match=message):
        eval(call, globals() | {"folder": tmp_path})
