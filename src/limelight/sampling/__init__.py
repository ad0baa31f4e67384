"""Sampling: masks, weights, regression with standard errors, anchors; any model is a game."""

from limelight.sampling.all_masks import (
    affordable,
    banzhaf_of_all_masks,
    lime_of_all_masks,
    pairs_of_all_masks,
    shapley_of_all_masks,
)
from limelight.sampling.anchors import (
    AnchorSearch,
    FoundAnchor,
    Holds,
    anchor_of_all_masks,
    clopper_pearson,
    find_anchor,
    kl_high,
    kl_low,
    sign_bracket,
)
from limelight.sampling.fits import SELECTIONS, LimeFit, fitted_lime
from limelight.sampling.masks import (
    coin_masks,
    cosine_distance,
    kernel_weight,
    lime_masks,
    text_rng,
)
from limelight.sampling.orders import FEWEST, ShapleySample, permutation_shapley
from limelight.sampling.pairs import INDICES, PairDraws, PairFit, fitted_pairs
from limelight.sampling.ratio_games import (
    CrossFits,
    LeftOut,
    cross_fits,
    pair_errors,
    paired_masks,
    word_errors,
)
from limelight.sampling.regression import ridge_fit
from limelight.sampling.sample import (
    CoinDraws,
    Game,
    LimeDraws,
    Sample,
    answered,
    expect,
    in_parts,
    until,
    watched,
)
from limelight.sampling.spread import SPIKE

__all__ = [
    "FEWEST",
    "INDICES",
    "SELECTIONS",
    "SPIKE",
    "AnchorSearch",
    "CoinDraws",
    "CrossFits",
    "FoundAnchor",
    "Game",
    "Holds",
    "LeftOut",
    "LimeDraws",
    "LimeFit",
    "PairDraws",
    "PairFit",
    "Sample",
    "ShapleySample",
    "affordable",
    "anchor_of_all_masks",
    "answered",
    "banzhaf_of_all_masks",
    "clopper_pearson",
    "coin_masks",
    "cosine_distance",
    "cross_fits",
    "expect",
    "find_anchor",
    "fitted_lime",
    "fitted_pairs",
    "in_parts",
    "kernel_weight",
    "kl_high",
    "kl_low",
    "lime_masks",
    "lime_of_all_masks",
    "pair_errors",
    "paired_masks",
    "pairs_of_all_masks",
    "permutation_shapley",
    "ridge_fit",
    "shapley_of_all_masks",
    "sign_bracket",
    "text_rng",
    "until",
    "watched",
    "word_errors",
]
