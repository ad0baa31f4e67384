"""Images in the place of texts: what is read of them, how they are cut, what is kept."""

import json
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image as PillowImage

from limelight.errors import InputError
from limelight.results import Explanation
from limelight.text import (
    Image,
    ImageInput,
    ModelInput,
    build_features,
    is_image,
    read_image,
    split_input,
)
from limelight.text.images import UNNAMED, PatchedImage, grid_boxes, slic_segments


def pixels(height=6, width=10, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def encode_image(image, kind="PNG", **how):
    file = BytesIO()
    image.save(file, kind, **how)
    return file.getvalue()


def test_one_image_is_the_same_from_an_array_a_file_its_bytes_and_a_table(tmp_path):
    array = pixels()
    file = tmp_path / "shirt.png"
    file.write_bytes(encode_image(PillowImage.fromarray(array)))
    values = [
        read_image(arguments)
        for arguments in (
            array,
            array / 255,
            array.astype(np.int64),
            array.astype(np.uint16) * 257,
            PillowImage.fromarray(array),
            file,
            str(file),
            file.read_bytes(),
            {"bytes": file.read_bytes(), "path": "shirt.png"},
            {"bytes": None, "path": str(file)},
        )
    ]
    assert all((value.pixels == array).all() for value in values)
    assert {element.digest for element in values} == {values[0].digest}
    assert {one.name for one in values} == {UNNAMED, "shirt.png"}
    assert values[5].label == f"shirt.png (10 × 6, {values[0].digest})"
    assert values[5] == values[6] != values[0]
    assert read_image(values[0]) is values[0]
    other = array.copy()
    other[3, 4, 1] ^= 1
    assert read_image(other).digest != values[0].digest
    assert read_image(array.reshape(10, 6, 3)).digest != values[0].digest


def test_what_a_camera_turned_is_turned_back_and_transparency_lies_on_white(tmp_path):
    turned = PillowImage.fromarray(pixels())
    exif = turned.getexif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees
    file = encode_image(turned, exif=exif.tobytes())
    assert read_image(file).size == (6, 10)
    assert (read_image(file).pixels == np.rot90(pixels(), -1)).all()

    clear = np.dstack([pixels(), np.full((6, 10), 255, np.uint8)])
    assert read_image(clear).warnings == ()
    clear[0, 0, 3] = 0
    for arguments in (clear, encode_image(PillowImage.fromarray(clear))):
        result = read_image(arguments)
        assert result.pixels.shape == (6, 10, 3)
        assert (result.pixels[0, 0] == 255).all()
        assert (result.pixels[1:] == pixels()[1:]).all()
        assert len(result.warnings) == 1


def test_gray_images_stay_gray_and_others_become_colors():
    gray = pixels(channels=1)[:, :, 0]
    assert (read_image(gray).pixels[:, :, 0] == gray).all()
    deep = PillowImage.fromarray(gray.astype(np.uint16) * 257)
    assert (read_image(encode_image(deep)).pixels[:, :, 0] == gray).all()
    for mode, channels in (("1", 1), ("L", 1), ("P", 3), ("CMYK", 3), ("LA", 3), ("F", 1)):
        image = PillowImage.fromarray(pixels()).convert("L" if mode == "F" else mode)
        if mode == "F":
            image = PillowImage.fromarray(gray.astype(np.float32) / 255)
        assert read_image(image).pixels.shape[2] == channels


RAMP = np.arange(256, dtype=np.uint8)[None].repeat(4, axis=0)  # every gray of 8 bits


def ramp(bits):
    """Grays of so many bits: from 0 to the largest of them."""
    return np.rint(RAMP * ((2**bits - 1) / 255)).astype(np.uint16)


def big_endian(numbers):
    return PillowImage.frombytes("I;16B", numbers.shape[::-1], numbers.astype(">u2").tobytes())


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
def test_an_image_of_16_bits_has_the_brightness_of_its_bit_depth(bits):
    deep = ramp(bits)
    full = PillowImage.fromarray(deep.astype(np.int32))
    kinds = {
        "array": deep,
        "colors": np.repeat(deep[:, :, None], 3, axis=2),
        "PNG": encode_image(PillowImage.fromarray(deep)),
        "TIFF": encode_image(PillowImage.fromarray(deep), "TIFF"),
        "big-endian TIFF": encode_image(big_endian(deep), "TIFF"),
        "32 bits": encode_image(full, "TIFF"),
        "Pillow": full,
    }
    for name, arguments in kinds.items():
        result = read_image(arguments)
        output = result.pixels.astype(int)
        assert np.abs(output - RAMP[:, :, None]).max() == 0, name
        warned = any(f"read as {bits} bits" in warning for warning in result.warnings)
        assert warned == (bits < 16), name


def test_every_mode_of_pillow_shows_the_grays_that_pillow_itself_shows():
    gray = PillowImage.fromarray(RAMP)
    modes = {
        "1": gray.convert("1"),
        "L": gray,
        "LA": gray.convert("LA"),
        "P": gray.convert("RGB").quantize(256),
        "CMYK": gray.convert("CMYK"),
        "YCbCr": gray.convert("RGB").convert("YCbCr"),
        "HSV": gray.convert("RGB").convert("HSV"),
        "I": gray.convert("I"),
        "F": PillowImage.fromarray(RAMP.astype(np.float32) / 255),
    }
    for mode, image in modes.items():
        assert image.mode == mode
        expected = RAMP if mode in ("I", "F") else np.asarray(image.convert("L"))
        output = read_image(image).pixels.astype(int).mean(axis=2)
        # YCbCr is rounded on the way there and back.
        assert np.abs(output - expected).max() <= 1, mode
        assert output[0, -1] >= 254, mode


def test_arrays_of_16_bits_in_one_file_are_read_by_one_bit_depth(tmp_path):
    from limelight.data.images import read_labeled_images

    bright, dark = ramp(12), ramp(12) // 8
    file = tmp_path / "scans.npz"
    np.savez(file, images=np.array([bright, dark]), labels=np.array(["lung", "hand"]))
    result = read_labeled_images(file, ["hand", "lung"]).texts
    assert [int(image.pixels.max()) for image in result] == [255, 32]


def test_segments_of_a_gray_image_follow_its_edges():
    y, x = np.mgrid[:120, :160]
    disc = (x - 80) ** 2 + (y - 60) ** 2 < 35**2
    gray = np.where(disc, 190, 40).astype(np.uint8)[:, :, None]
    result = slic_segments(gray)
    assert 20 < len(np.unique(result)) < 60
    crossed = [k for k in np.unique(result) if len(np.unique(disc[result == k])) > 1]
    assert crossed == []
    # A gray image is the same image in three equal colors.
    assert (result == slic_segments(np.repeat(gray, 3, axis=2))).all()


FOREIGN = {
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n",
    "PDF": b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n",
    "Photoshop": b"8BPS\0\1" + bytes(6) + b"\0\3\0\0\0\4\0\0\0\4\0\x08\0\3" + bytes(80),
    "FITS": b"SIMPLE  =                    T" + b" " * 2850,
    "portable": b"P5 4 4 255\n" + bytes(16),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_format_is_refused_and_starts_no_program(kind, tmp_path, monkeypatch):
    from PIL import EpsImagePlugin

    started, program = tmp_path / "started", tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch '{started}'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # what Pillow remembers of the program
    file = tmp_path / "photo.png"
    file.write_bytes(FOREIGN[kind])
    for arguments in (file, file.read_bytes()):
        with pytest.raises(InputError, match="PNG, JPEG, GIF, BMP, WebP or TIFF"):
            read_image(arguments)
    assert not started.exists()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
def test_an_incomplete_image_file_is_an_error(kind):
    file = encode_image(PillowImage.fromarray(pixels(40, 60)), kind)
    assert read_image(file).size == (60, 40)
    for end in (4, 12, 30, len(file) // 2):
        with pytest.raises(InputError, match="cannot be read as an image in") as refused:
            read_image(file[:end])
        assert "\n" not in str(refused.value)


def test_numbers_and_files_are_images_and_texts_are_not():
    image = PillowImage.fromarray(pixels())
    for arguments in (
        pixels(),
        pixels()[:, :, 0] / 255,
        read_image(pixels()),
        image,
        b"",
        {"path": ""},
    ):
        assert is_image(arguments)
    for arguments in ("shirt.png", ("a", "b"), ["a"], np.array(["a", "b"]), np.zeros(5), {}):
        assert not is_image(arguments)


def read(image, rows, columns, **rest):
    return ModelInput.from_image(
        PatchedImage(image, grid_boxes((0, 0, *image.size), rows, columns)), **rest
    )


def test_the_boxes_of_a_grid_are_all_of_the_image_once():
    for rows, columns in ((1, 1), (2, 5), (6, 10), (4, 3)):
        cut = PatchedImage(read_image(pixels()), grid_boxes((0, 0, 10, 6), rows, columns))
        area = sum(
            (right - remaining) * (bottom - top) for remaining, top, right, bottom in cut.boxes
        )
        assert area == 60
        assert set(cut.token_map().ravel()) == set(range(rows * columns))
        assert cut.token_names()[-1] == f"row {rows}, column {columns}"


def test_patches_are_features_and_a_coarser_grid_joins_them():
    model_input = read(read_image(pixels(4, 6)), 4, 6)
    assert model_input.text == model_input.user_input.label
    value = build_features(model_input, "patches")
    assert value.strings == model_input.tokens.strings
    assert value.spans == ((),) * 24
    assert value.noun == "patch"
    joined = build_features(model_input, "2 × 3 patches")
    assert len(joined) == 6
    assert (
        joined.feature_index.reshape(4, 6).tolist()
        == np.kron(np.arange(6).reshape(2, 3), np.ones((2, 2), int)).tolist()
    )
    assert joined.result_fields(model_input)["image"].boxes[-1] == (4, 2, 6, 4)
    assert build_features(model_input, "2x3 patches").strings == joined.strings
    with pytest.raises(InputError, match=r"reads 4 × 6 patches, so a grid of .* is too fine"):
        build_features(model_input, "5 × 5 patches")
    remaining = build_features(model_input, [0, 0, -1, -1, -1, -1] * 4)
    assert remaining.strings == ("group 0",)
    assert remaining.result_fields(model_input)["image"].boxes == ((0, 0, 2, 4),)
    assert remaining.result_fields(model_input)["image"].regions is None
    for name in ("words", "sentences"):
        with pytest.raises(InputError, match=f"'{name}' are parts of a text, .* from: patches, "):
            build_features(model_input, name)
    with pytest.raises(InputError, match=r"unknown features: 'patchs'\. Did you mean 'patches'"):
        build_features(model_input, "patchs")


def test_features_that_are_no_boxes_are_kept_as_a_map():
    array = pixels(4, 6)
    model_input = read(read_image(array), 4, 6)
    corner = [0, 0, 1, 1, 1, 1] + [0, 1, 1, 1, 1, 1] + [-1] * 12
    image = build_features(model_input, corner).result_fields(model_input)["image"]
    result = np.asarray(PillowImage.open(BytesIO(b64decode(image.regions))))
    assert (result.ravel() == np.array(corner) + 1).all()
    output = np.asarray(PillowImage.open(BytesIO(b64decode(image.png))))
    assert (output == array).all()


def halves(pixels):
    labels = np.full(pixels.shape[:2], 7)
    labels[:, : pixels.shape[1] // 2] = 3
    labels[0, 0] = -1
    return labels


def test_a_splitter_labels_every_pixel_and_negative_ones_are_left_alone():
    model_input = read(read_image(pixels()), 2, 2, is_divisible=True)
    cut = split_input(model_input, halves)
    assert cut.boxes == ((0, 0, 5, 6), (5, 0, 10, 6))
    assert cut.regions[0, 0] == -1
    assert (cut.regions == cut.token_map()).all()
    features = build_features(model_input.with_patches(cut), halves)
    assert features.strings == ("segment 1", "segment 2")
    finer = split_input(model_input, "3 × 5 patches")
    assert len(finer.boxes) == 15


def make_explanation(image, d=4, **changed):
    own_value = {
        "text": "shirt.png (10 × 6, 0123456789ab)",
        "features": tuple(f"row 1, column {k + 1}" for k in range(d)),
        "spans": ((),) * d,
        "scores": np.arange(d) / 7,
        "method": "shapley",
        "target": "Bag",
        "prediction": {"Bag": 1.0},
        "settings": {"features": "patches"},
    }
    return Explanation(**own_value | changed, image=image)


def test_an_explanation_of_an_image_comes_back_from_json_as_it_was():
    model_input = read(read_image(pixels()), 2, 2)
    image = build_features(model_input, "patches").result_fields(model_input)["image"]
    e = make_explanation(image)
    assert Explanation.from_json(e.to_json()) == e
    record = json.loads(e.to_json())
    assert record["image"]["boxes"][0] == [0, 0, 5, 3]
    assert record["image"]["size"] == [10, 6]
    assert "image" not in json.loads(make_explanation(None).to_json())
    assert e.feature_noun == "patch"


def test_an_image_that_does_not_fit_its_features_is_refused():
    own_value = {"digest": "0123456789ab", "size": (10, 6), "boxes": ((0, 0, 5, 3),) * 4}
    make_explanation(Image(**own_value))
    for changed, message in (
        ({"boxes": ((0, 0, 5, 3),)}, "not 4 and 1"),
        ({"boxes": ((0, 0, 11, 3),) * 4}, "inside the image"),
        ({"digest": "<b>"}, "must be 12 digits"),
        ({"png": '"><script>'}, "PNG file in base64"),
        ({"png": "aGVsbG8="}, "PNG file in base64"),
    ):
        with pytest.raises(InputError, match=message):
            make_explanation(Image(**own_value | changed))


def test_a_large_image_is_stored_small():
    image = ImageInput(np.zeros((600, 900, 3), np.uint8))
    output = PillowImage.open(BytesIO(image.png()))
    assert output.size == (448, 299)


def test_names_of_files_stand_on_one_line_in_characters_that_can_be_written(tmp_path):
    for name, message in (("a\nb.png", "a b.png"), ("a\udcffb.png", "a?b.png")):
        PillowImage.fromarray(pixels()).save(tmp_path / name)
        assert read_image(tmp_path / name).name == message


def test_images_of_all_sizes_are_joined_alike_and_a_grid_has_one_name():
    joined = [
        build_features(read(read_image(pixels(side, side)), 14, 14), "4x4 patches")
        for side in (21, 28, 224)
    ]
    assert all(value.feature_index.tolist() == joined[0].feature_index.tolist() for value in joined)
    assert {element.kind for element in joined} == {"4 × 4 patches"}
