"""Methods: settings, the ways to compute them, and the registry that names them."""

from limelight.explainers.anchors import Anchors
from limelight.explainers.approximations import (
    LimeFirstOrder,
    LimeMeanField,
    LimeTheorem,
    ShapleyMeanField,
)
from limelight.explainers.attention import (
    AlphaAvg,
    AlphaGrad,
    AlphaMax,
    Flow,
    GenericAttention,
    Rollout,
)
from limelight.explainers.banzhaf import Banzhaf, Interactions
from limelight.explainers.gradients import GL1, GL2, IG, GAvg, GxI, Lrp
from limelight.explainers.lime import Lime, LimeSampled
from limelight.explainers.method import Chosen, Method, Way
from limelight.explainers.question import Targets
from limelight.explainers.reading import Reading, read
from limelight.explainers.registry import METHODS, find_method, usable_methods
from limelight.explainers.shapley import Loo, Owen, Shapley
from limelight.explainers.surrogate import Surrogate, SurrogateGame
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
