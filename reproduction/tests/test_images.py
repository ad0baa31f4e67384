"""The experiment on pictures: its rules, what it compares with, and a quick run on toy pictures."""

import numpy as np
import pytest

from limelight import explain, judge
from limelight.judging import estimate
from limelight.text import ImageInput
from limelight_reproduction.images import images
from limelight_reproduction.images.patch_attention import (
    JUDGED,
    judge_all,
    measure_one_layer,
    shuffle_patches,
)
from limelight_reproduction.images.patch_theorems import RATES, measure_theorems
from limelight_reproduction.images.reference_classifier import (
    ReferencePatchClassifier,
    random_images,
    random_patch_classifier,
)
from limelight_reproduction.results import load_stored_results
from limelight_reproduction.setting import Setting

from deep_toys import WORDS, make_trained_network


def test_full_attention_from_pixels_gives_the_outputs_of_the_tables():
    rng = np.random.default_rng(1)
    model = random_patch_classifier(rng, (2, 3), size=(3, 2))
    pictures = random_images(rng, model, 4)
    full = ReferencePatchClassifier(model)
    every = np.ones((1, 6), bool)
    result = np.concatenate([full.mask_outputs(picture.pixels, every) for picture in pictures])
    np.testing.assert_allclose(result, model.logits(pictures), atol=1e-12)
    without = full.mask_outputs(pictures[0].pixels, np.array([[False, *[True] * 5]]))
    (loo,) = explain(model, pictures[:1], "loo", target=1, scale="score")
    assert loo.scores[0] == pytest.approx(float(result[0, 1] - without[0, 1]), abs=1e-12)


def test_a_quick_run_finds_what_the_theory_says(tmp_path):
    result = measure_theorems(Setting(data=tmp_path, models=tmp_path / "models", quick=True))
    assert max(result["distances"].values()) < 1e-9
    assert result["slopes"]["region"] < -0.3 < result["slopes"]["first_order"]
    assert result["slopes"]["mean_field"] < -0.5


def test_patches_change_places_and_nothing_else():
    pixels = np.arange(28 * 28, dtype=np.int64).reshape(28, 28, 1)
    order = np.random.default_rng(0).permutation(49)
    moved = shuffle_patches(ImageInput(pixels), order).pixels
    for place in (0, 20, 48):
        (i, j), (k, m) = divmod(place, 7), divmod(int(order[place]), 7)
        was = pixels[4 * k : 4 * k + 4, 4 * m : 4 * m + 4]
        assert np.array_equal(moved[4 * i : 4 * i + 4, 4 * j : 4 * j + 4], was)
    back = shuffle_patches(ImageInput(moved), np.argsort(order)).pixels
    assert np.array_equal(back, pixels)


@pytest.mark.parametrize(
    ("interval", "ranks", "moved"),
    [
        ([0.85, 0.81, 0.9], "yes", "position"),
        ([0.85, 0.79, 0.9], "in part", "position"),
        ([0.4, 0.3, 0.49], "no", "position"),
        ([0.1, -0.1, 0.3], "no", "neither more"),
        ([-0.2, -0.3, -0.1], "no", "content"),
    ],
)
def test_the_rules_can_say_each_thing(interval, ranks, moved):
    assert images.judge_ranks(interval) == ranks
    assert images.judge_position(interval) == moved


def test_shares_and_slopes_are_judged_by_their_intervals():
    def shares(attention, shapley):
        return {"shares": {"alpha-avg": attention, "shapley": shapley}}

    assert images.judge_faithfulness(shares([0.2, 0.1, 0.3], [0.5, 0.4, 0.6])) == "holds"
    assert images.judge_faithfulness(shares([0.5, 0.4, 0.6], [0.2, 0.1, 0.3])) == "the other way"
    assert images.judge_faithfulness(shares([0.3, 0.2, 0.4], [0.5, 0.3, 0.6])) == "not shown"
    slopes = {name: slope for name, (_, slope) in RATES.items()}
    assert images.is_as_predicted({"slopes": slopes})
    assert not images.is_as_predicted({"slopes": slopes | {"mean_field": -0.7}})


def test_the_stored_numbers_give_the_verdicts_of_the_page():
    numbers = {name: value.numbers for name, value in load_stored_results()["images"].items()}
    result = images.findings(numbers)
    assert [verdict.holds for verdict in result.verdicts] == [
        "holds",
        "only where few of the patches are scored: an image has no padding",
        "in part",
        "no",
        "holds",
        "holds",
        "position in one layer; content in six layers",
    ]


def test_a_slow_deep_model_is_judged_on_all_inputs(monkeypatch):
    monkeypatch.setattr(estimate, "_JUDGING_SECONDS", 1e-9)
    model, sizes = make_trained_network(), {"pairs": 2, "samples": 20}
    texts = [" ".join(np.roll(WORDS, i)[:11]) for i in range(13)]
    assert len(judge_all(model, texts, 0, sizes).texts) == 13
    assert len(judge(model, texts, JUDGED, **sizes).texts) < 13


@pytest.mark.slow
def test_a_quick_run_measures_pictures(tmp_path):
    """Toy pictures in the form of Fashion-MNIST: a bright band at a height of its own by class."""
    rng = np.random.default_rng(0)
    (tmp_path / "fashion_mnist").mkdir()
    for part, count in (("train", 600), ("test", 60)):
        y = np.arange(count) % 10
        x = rng.integers(0, 60, (count, 28, 28), dtype=np.uint8)
        for value, label in zip(x, y, strict=True):
            value[2 * label : 2 * label + 6] += 150
        np.savez(tmp_path / "fashion_mnist" / f"{part}.npz", x=x, y=y)
    setting = Setting(data=tmp_path, models=tmp_path / "models", quick=True)
    result = measure_one_layer(setting)
    assert result["pictures"] == 30
    assert set(result["shares"]) == set(images.JUDGED)
    assert setting.used == {"fashion_mnist train", "fashion_mnist test"}
