"""Methods: settings, the ways to compute them, and the registry that names them."""

from limelight.explainers.anchor_methods import Anchors
from limelight.explainers.attention_methods import AlphaAvg, AlphaGrad, AlphaMax, Flow, Rollout
from limelight.explainers.banzhaf_methods import Banzhaf
from limelight.explainers.conservative_methods import Lrp
from limelight.explainers.first_order_methods import LimeFirstOrder, LimeTheorem
from limelight.explainers.fitted_surrogate import SurrogateGame
from limelight.explainers.generic_attention import GenericAttention
from limelight.explainers.gradient_methods import GL1, GL2, GAvg, GxI
from limelight.explainers.integrated_methods import IG
from limelight.explainers.interaction_methods import Interactions
from limelight.explainers.lime_methods import Lime, LimeSampled
from limelight.explainers.mean_field_methods import LimeMeanField, ShapleyMeanField
from limelight.explainers.method import Chosen, Method, Way
from limelight.explainers.owen_methods import Owen
from limelight.explainers.reading import Reading, read
from limelight.explainers.registry import METHODS, find_method, usable_methods
from limelight.explainers.removal_methods import Loo
from limelight.explainers.shapley_methods import Shapley
from limelight.explainers.surrogate_methods import Surrogate
from limelight.explainers.targets import Targets
from limelight.explainers.text_game import TextGame

__all__ = [
    "GL1",
    "GL2",
    "IG",
    "METHODS",
    "AlphaAvg",
    "AlphaGrad",
    "AlphaMax",
    "Anchors",
    "Banzhaf",
    "Chosen",
    "Flow",
    "GAvg",
    "GenericAttention",
    "GxI",
    "Interactions",
    "Lime",
    "LimeFirstOrder",
    "LimeMeanField",
    "LimeSampled",
    "LimeTheorem",
    "Loo",
    "Lrp",
    "Method",
    "Owen",
    "Reading",
    "Rollout",
    "Shapley",
    "ShapleyMeanField",
    "Surrogate",
    "SurrogateGame",
    "Targets",
    "TextGame",
    "Way",
    "find_method",
    "read",
    "usable_methods",
]
