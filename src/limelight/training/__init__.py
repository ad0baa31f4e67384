"""Training of the attention classifier. Needs torch."""

from limelight.training.learning import learn
from limelight.training.loop import Progress, fit
from limelight.training.module import AttentionModule
from limelight.training.recipe import RECIPES, Recipe, find_recipe
from limelight.training.state import Checkpoint
from limelight.training.texts import PreparedData, prepare
from limelight.training.train_classifier import train, usable_device

__all__ = [
    "RECIPES",
    "AttentionModule",
    "Checkpoint",
    "PreparedData",
    "Progress",
    "Recipe",
    "find_recipe",
    "fit",
    "learn",
    "prepare",
    "train",
    "usable_device",
]  # fmt: skip
