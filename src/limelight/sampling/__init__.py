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
    find_anchor,
)
from limelight.sampling.bernoulli import clopper_pearson, kl_high, kl_low
from limelight.sampling.cross_fits import MOST_HEADS, CrossFits, cross_fits, paired_masks
from limelight.sampling.fitted_lime import LimeFit, fitted_lime
from limelight.sampling.left_out_values import LeftOut, pair_errors, word_errors
from limelight.sampling.masks import coin_masks, lime_masks
from limelight.sampling.pair_sums import INDICES
from limelight.sampling.permutations import FEWEST, ShapleySample, permutation_shapley
from limelight.sampling.regression import RidgeFit, ridge_fit
from limelight.sampling.sample import CoinDraws, Game, LimeDraws, Sample, until
from limelight.sampling.sampled_pairs import PairDraws, PairFit, fitted_pairs
from limelight.sampling.selection import SELECTIONS
from limelight.sampling.sign_bracket import sign_bracket
from limelight.sampling.spread import SPIKE
from limelight.sampling.streams import text_rng
from limelight.sampling.watching import Watch, answered, expect, in_parts, watched
from limelight.sampling.weights import cosine_distance, kernel_weight

__all__ = [
    "FEWEST",
    "INDICES",
    "MOST_HEADS",
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
    "RidgeFit",
    "Sample",
    "ShapleySample",
    "Watch",
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
