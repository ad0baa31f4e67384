"""LIME of a deep network on one text, with a random generator of the experiment."""

__all__ = ["sampled_lime"]

import numpy as np

from limelight import Model, game
from limelight.sampling.regression import LimeFit, fit_sampled_lime
from limelight.sampling.sample import Sample, make_lime_sampler


def sampled_lime(
    model: Model, text: str, *, samples: int, replacement: str, rng: np.random.Generator
) -> LimeFit:
    """Return LIME as the `lime` package computes it, for the second or the predicted class.

    This is the method "lime-sampled" of ``limelight.explain`` on the scale "score", except for
    ``rng``. The method derives its generator from a seed and the text. Its draws would differ from
    those of the stored results.

    Parameters
    ----------
    model
        The model.
    text
        The text.
    samples
        Number of masks.
    replacement
        The replacement of a removed word.
    rng
        Source of the random masks.

    Returns
    -------
    The coefficients with their standard errors.
    """
    text_game = game(model, text, replacement=replacement)
    d = len(text_game)
    full_outputs = text_game(np.ones((1, d), bool))[0]
    target = -1 if len(model.classes) == 2 else int(full_outputs.argmax())

    def target_game(keep: np.ndarray) -> np.ndarray:
        """Return the explained output for every mask."""
        return text_game(keep)[:, [target]]

    sample = Sample(target_game, make_lime_sampler(d), rng, d=d, row0=True)
    sample.grow(samples)
    return fit_sampled_lime(sample)
