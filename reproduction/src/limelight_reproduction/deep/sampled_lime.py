"""LIME of a deep network on one text, drawn from a stream of the experiment's own."""

__all__ = ["sampled_lime"]

import numpy as np

from limelight import Model, game
from limelight.sampling.regression import LimeFit, fit_sampled_lime
from limelight.sampling.sample import Sample, make_lime_sampler


def sampled_lime(
    model: Model, text: str, *, samples: int, replacement: str, rng: np.random.Generator
) -> LimeFit:
    """Return LIME as the `lime` package computes it, for the output that is explained.

    This is the method "lime-sampled" of ``limelight.explain`` on the scale "score", the output of a
    class as it is, but for ``rng``: there a seed and the text make the stream, and other draws than
    those of the stored results would give other numbers.
    """
    play = game(model, text, replacement=replacement)
    whole = play(np.ones((1, len(play)), bool))[0]
    target = -1 if len(model.classes) == 2 else int(whole.argmax())
    d = len(play)
    sample = Sample(lambda keep: play(keep)[:, [target]], make_lime_sampler(d), rng, d=d, row0=True)
    sample.grow(samples)
    return fit_sampled_lime(sample)
