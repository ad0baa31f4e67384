"""Training of the attention classifier. Needs torch."""

from limelight.training.learning import learn
from limelight.training.loop import Progress, fit
from limelight.training.module import AttentionModule
from limelight.training.recipe import RECIPES, Recipe, recipe_named
from limelight.training.run import train, usable_device
from limelight.training.state import Checkpoint
from limelight.training.texts import Prepared, prepare

__all__ = [
    "RECIPES", "AttentionModule", "Checkpoint", "Prepared", "Progress", "Recipe",
    "fit", "learn", "prepare", "recipe_named", "train", "usable_device",
]  # fmt: skip
