"""Explains text classifiers, word by word, and says how far each number can be trusted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limelight.checks import Check, verify
    from limelight.data import Evaluation, LabelledTexts, evaluate, read_labelled
    from limelight.errors import DomainError, InputError
    from limelight.explainers.plan import plan
    from limelight.explainers.registry import register
    from limelight.explainers.surrogate import surrogate
    from limelight.judging import Judgement, judge
    from limelight.models import Model, load, wrap
    from limelight.models.attention import AttentionClassifier, save_folder
    from limelight.models.pooling import pooling_classifier
    from limelight.results import Comparison, Explanation
    from limelight.results.plan import SamplingPlan
    from limelight.runs import Run, explain_data
    from limelight.serving import Serving, serve
    from limelight.theory.attention_pooling import pooling_game
    from limelight.training import train
    from limelight.verbs import compare, explain, explain_classes, game, methods

__version__ = "0.3.0.dev0"

# Public names and where they live; each is imported when it is first used.
_HOME = {
    "AttentionClassifier": "limelight.models.attention",
    "Check": "limelight.checks",
    "Comparison": "limelight.results",
    "DomainError": "limelight.errors",
    "Evaluation": "limelight.data",
    "Explanation": "limelight.results",
    "InputError": "limelight.errors",
    "Judgement": "limelight.judging",
    "LabelledTexts": "limelight.data",
    "Model": "limelight.models",
    "Run": "limelight.runs",
    "SamplingPlan": "limelight.results.plan",
    "Serving": "limelight.serving",
    "compare": "limelight.verbs",
    "evaluate": "limelight.data",
    "explain": "limelight.verbs",
    "explain_classes": "limelight.verbs",
    "explain_data": "limelight.runs",
    "game": "limelight.verbs",
    "judge": "limelight.judging",
    "load": "limelight.models",
    "methods": "limelight.verbs",
    "plan": "limelight.explainers.plan",
    "pooling_classifier": "limelight.models.pooling",
    "pooling_game": "limelight.theory.attention_pooling",
    "read_labelled": "limelight.data",
    "register": "limelight.explainers.registry",
    "save_folder": "limelight.models.attention",
    "serve": "limelight.serving",
    "surrogate": "limelight.explainers.surrogate",
    "train": "limelight.training",
    "verify": "limelight.checks",
    "wrap": "limelight.models",
}
_EXTRAS = {"torch": "train", "pyarrow": "data", "starlette": "serve", "uvicorn": "serve"}
__all__ = [  # noqa: RUF022  (the verbs first)
    "load",
    "wrap",
    "explain",
    "explain_classes",
    "explain_data",
    "compare",
    "judge",
    "plan",
    "game",
    "pooling_classifier",
    "pooling_game",
    "surrogate",
    "methods",
    "register",
    "verify",
    "evaluate",
    "train",
    "serve",
    "Explanation",
    "Comparison",
    "Judgement",
    "SamplingPlan",
    "Run",
    "Serving",
    "Check",
    "Evaluation",
    "LabelledTexts",
    "Model",
    "AttentionClassifier",
    "read_labelled",
    "save_folder",
    "InputError",
    "DomainError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'limelight' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        from limelight.errors import MissingExtraError

        needs = f"limelight.{name} needs {package}"
        raise MissingExtraError(needs, _EXTRAS[package]) from None


def __dir__() -> list[str]:
    return __all__
