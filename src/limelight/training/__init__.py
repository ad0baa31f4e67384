"""Training of the attention classifier. Needs torch."""

from limelight.training.checkpoint import Checkpoint
from limelight.training.full_attention import FullAttention
from limelight.training.loop import Progress, fit
from limelight.training.module import AttentionModule
from limelight.training.preparing import Prepared, prepare
from limelight.training.recipe import RECIPES, Recipe, recipe_named
from limelight.training.run import train, usable_device

__all__ = [
    "RECIPES",
    "AttentionModule",
    "Checkpoint",
    "FullAttention",
    "Prepared",
    "Progress",
    "Recipe",
    "fit",
    "prepare",
    "recipe_named",
    "train",
    "usable_device",
]
