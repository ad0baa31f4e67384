"""to_array: every pixel of an image has the score of its feature."""

import numpy as np
import pytest

import limelight
from limelight import Explanation

pytest.importorskip("PIL")


def measure_light(images):
    return [float(image[: len(image) // 3, 2:].mean()) / 255 for image in images]


MODEL = limelight.wrap(measure_light, images=True, classes=["light"], scale="score")


def random_image(height, width):
    return np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)


def effect_of(pixels, is_removed):
    """The change of the output if pixels become black."""
    changed = np.where(is_removed[:, :, None], 0, pixels).astype(np.uint8)
    before, after = measure_light([pixels, changed])
    return before - after


def test_a_pixel_of_a_grid_has_the_score_of_its_patch():
    pixels = random_image(11, 17)  # no multiple of the grid
    e = limelight.explain(MODEL, pixels, "loo", grid=3, replacement="black")
    scores = e.to_array()
    assert scores.shape == (11, 17)
    for j, (remaining, top, right, bottom) in enumerate(e.image.boxes):
        is_patch = np.zeros((11, 17), bool)
        is_patch[top:bottom, remaining:right] = True
        assert (scores[is_patch] == e.scores[j]).all()
        assert effect_of(pixels, is_patch) == pytest.approx(e.scores[j], abs=1e-6)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("scale", [1, 40])  # 40: larger than the copy that a result stores
def test_a_pixel_of_a_segment_has_its_score_and_others_have_none(scale):
    labels = (
        np.array([[0, 0, 1, 1, -1], [0, 1, 1, 2, 2], [0, 0, 2, 2, -1]]).repeat(4, 0).repeat(4, 1)
    )
    labels = labels.repeat(scale, 0).repeat(scale, 1)
    pixels = random_image(*labels.shape)
    e = limelight.explain(MODEL, pixels, "loo", features=lambda _: labels, replacement="black")
    scores = Explanation.from_json(e.to_json()).to_array()
    assert scores.shape == labels.shape
    expected = np.append([effect_of(pixels, labels == k) for k in range(3)], np.nan)[labels]
    is_equal = np.isclose(scores, expected, atol=1e-6, equal_nan=True)
    # Only pixels at the borders of a reduced copy may belong to the neighbor.
    assert is_equal.all() if scale == 1 else is_equal.mean() > 0.98
