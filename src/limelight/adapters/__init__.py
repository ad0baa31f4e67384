"""Other people's classifiers: what a model must answer so that it can be explained."""

from limelight.adapters.black_box import SCALES, BlackBox, wrap
from limelight.adapters.engine import Engine
from limelight.adapters.model import DeepModel, Model
from limelight.adapters.passage import Passage, Pieces
from limelight.adapters.scikit import from_scikit
from limelight.adapters.windows import Windowed, windowed

__all__ = [
    "SCALES",
    "BlackBox",
    "DeepModel",
    "Engine",
    "Model",
    "Passage",
    "Pieces",
    "Windowed",
    "from_scikit",
    "windowed",
    "wrap",
]
