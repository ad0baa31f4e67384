"""A text has the same scores alone, in a list, in any order and in batches of any size."""

import functools

import numpy as np
import pytest

import limelight
from limelight.explainers.registry import usable_methods
from limelight.theory.lime import lime_plan

TEXTS = [
    "The plot is predictable, but the acting is superb.",
    "superb film",
    "a bad but funny thing",
    "not good at all, and slow",
    "great great great fun",
    "I have seen this film twice and the second time it was even worse than I remembered: slow, "
    "dull and badly written; nobody should sit through it again, ever.",
    "One of the best, most moving and honest stories about growing up that I know, with wonderful "
    "music, brilliant actors and a script that never lies to its audience.",
]
SETTINGS = {
    "lime-sampled": {"samples": 200},
    "anchors": {"threshold": 0.95, "samples": 200, "max_samples": 2000},
}
MODEL = limelight.load()


def shuffle_batches(seed, size):
    """Yield batches of the texts' numbers, in another order."""
    order = np.random.default_rng(seed).permutation(len(TEXTS)).tolist()
    for i in range(0, len(order), size):
        yield order[i : i + size]


@pytest.mark.parametrize("method", usable_methods(MODEL))
def test_batches_do_not_change_scores(method):
    settings = SETTINGS.get(method, {})
    single = functools.cache(lambda i: limelight.explain(MODEL, TEXTS[i], method, **settings))
    for seed, size in [(0, 2), (1, 3), (2, len(TEXTS))]:
        for numbers in shuffle_batches(seed, size):
            together = limelight.explain(MODEL, [TEXTS[i] for i in numbers], method, **settings)
            for i, e in zip(numbers, together, strict=True):
                np.testing.assert_allclose(e.scores, single(i).scores, rtol=0, atol=1e-12)
                if e.stderr is not None:
                    np.testing.assert_array_equal(e.stderr, single(i).stderr)


@pytest.mark.parametrize("bandwidth", [0.05, 0.25, 1.0])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9])
def test_batches_do_not_change_lime_at_any_setting(bandwidth, tolerance):
    """Short texts need other nodes than long ones, and must not lend them."""
    settings = {"bandwidth": bandwidth, "tolerance": tolerance}
    together = limelight.explain(MODEL, TEXTS, "lime", **settings)
    for text, e in zip(TEXTS, together, strict=True):
        single = limelight.explain(MODEL, text, "lime", **settings)
        np.testing.assert_allclose(e.scores, single.scores, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["lime", "shapley", "banzhaf", "interactions", "anchors"])
def test_batches_do_not_change_what_is_sampled(method):
    """The stream of a text is its own: equal to the last bit."""
    model = limelight.wrap(
        lambda texts: np.array([[len(t) % 7 - 0.3 * t.count("e") + len(t.split())] for t in texts]),
        classes=["no", "yes"],
        scale="logit",
    )
    texts = [" ".join(f"{w}{i}" for i in range(12)) for w in ("be", "see", "tree")]
    single = [limelight.explain(model, text, method) for text in texts]
    for order in ((0, 1, 2), (2, 0, 1)):
        together = limelight.explain(model, [texts[i] for i in order], method)
        for i, e in zip(order, together, strict=True):
            np.testing.assert_array_equal(e.scores, single[i].scores)
            np.testing.assert_array_equal(e.stderr, single[i].stderr)


def test_the_untouched_text_counts_in_what_rounding_can_do():
    """Row 0 weighs 1 beside one sample and nothing in the limit."""
    settings = {"bandwidth": 1.0, "penalty": 10.0, "tolerance": 1e-6}
    with_row, without = (lime_plan(9, rows=rows, **settings).rounding_factor for rows in (1, None))
    assert with_row[0] > 1.3 * without[0]
