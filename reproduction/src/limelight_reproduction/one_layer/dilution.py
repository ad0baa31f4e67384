"""A counterexample: a word with value 0 that still gets a LIME coefficient."""

__all__ = ["BANDWIDTH", "dilution_game", "measure_dilution"]

import numpy as np

from limelight.theory.enumeration import lime_by_enumeration
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.paper import lime_theorem

OTHERS = 3  # number of words that speak for the class, with u = 1
ATTENTION = np.linspace(0, 0.8, 17)
BANDWIDTH = 0.25  # of LIME, as in the `lime` package


def dilution_game(alpha: float) -> RatioGame:
    """Build the game of one head in which the first of four words has value u = 0.

    The first word has attention ``alpha``. The other words have g = 1 and u = 1. [cls] and every
    UNK have g = 1 and u = 0. So α_{h,t} u_{h,t} = 0, and Eq. 19 gives the first word 0 for every
    ``alpha``.
    """
    fixed = 1.0
    g = alpha / (1 - alpha) * (fixed + OTHERS)
    a = np.array([[g, *[1.0] * OTHERS]])
    u = np.array([[[0.0, *[1.0] * OTHERS]]])
    return RatioGame(
        D0=np.array([fixed]),
        a=a,
        b=np.ones_like(a),
        N0=np.zeros((1, 1)),
        A=u * a,
        B=np.zeros_like(u),
    )


def measure_dilution() -> Numbers:
    """Compute LIME of the word with value 0 by all subsets and by three formulas, for each α."""
    games = [dilution_game(float(alpha)) for alpha in ATTENTION]
    all_subsets = np.array(
        [lime_by_enumeration(game, bandwidth=BANDWIDTH).scores[0] for game in games]
    )
    exact = np.array([lime(game, bandwidth=BANDWIDTH, tolerance=1e-9).scores[0] for game in games])
    return round_for_json(
        {
            "alpha": ATTENTION,
            "all_subsets": all_subsets[:, 0],
            "other_words": all_subsets[:, 1],
            "first_order": [lime_first_order(game)[0, 0] for game in games],
            "printed": [lime_theorem(game)[0, 0] for game in games],
            "error": float(np.abs(all_subsets - exact).max()),
        }
    )
