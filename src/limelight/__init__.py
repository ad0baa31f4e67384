"""Explains text models, part by part, and says how far each number can be trusted."""

# Only what Python has imported itself, and not typing: until a command can answer Ctrl-C, Python
# would.
import os as _os

# By default, threads of OpenMP that wait for others keep their core busy. On two busy cores, two
# threads of torch took five times the processor time and four times as long. OpenMP reads this
# variable when torch is imported.
_os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from limelight.api import (
        compare,
        counterfactual,
        explain,
        explain_classes,
        explain_sentences,
        explain_spans,
        game,
        methods,
        predict,
    )
    from limelight.data import Evaluation, LabeledTexts, evaluate, read_labeled
    from limelight.errors import DomainError, InputError
    from limelight.explainers.learned import LearnedMethod
    from limelight.explainers.registry import register
    from limelight.judging import Judgment, judge
    from limelight.models import Model, load, wrap
    from limelight.models.attention import AttentionClassifier, save_folder
    from limelight.models.endpoint import wrap_endpoint
    from limelight.results import (
        Citations,
        Comparison,
        Counterfactual,
        Explanation,
        SpanExplanations,
    )
    from limelight.runs import Run, explain_data
    from limelight.sampling.conformal import conformal_threshold
    from limelight.serving import Serving, serve
    from limelight.training import learn, train
    from limelight.verification import Check, verify

__version__ = "0.4.0"

# Public names by where they live; each is imported when it is first used.
_HOME = {
    name: f"limelight.{home}"
    for home, names in {
        "verification": "Check verify",
        "data": "Evaluation LabeledTexts evaluate read_labeled",
        "errors": "DomainError InputError",
        "explainers.registry": "register",
        "judging": "Judgment judge",
        "models": "Model load wrap",
        "models.attention": "AttentionClassifier save_folder",
        "models.endpoint": "wrap_endpoint",
        "results": "Citations Comparison Counterfactual Explanation SpanExplanations",
        "runs": "Run explain_data",
        "sampling.conformal": "conformal_threshold",
        "serving": "Serving serve",
        "explainers.learned": "LearnedMethod",
        "training": "learn train",
        "api": "compare counterfactual explain explain_classes explain_sentences explain_spans "
        "game methods predict",
    }.items()
    for name in names.split()
}
_EXTRAS = {"torch": "train", "pyarrow": "data", "starlette": "serve", "uvicorn": "serve"}
__all__ = [  # noqa: RUF022  (the verbs first)
    "load", "wrap", "wrap_endpoint", "explain", "explain_classes", "explain_sentences",
    "explain_spans", "explain_data", "compare", "counterfactual", "judge", "predict",
    "game", "methods", "register", "verify", "conformal_threshold",
    "evaluate", "train", "learn", "serve", "Explanation", "Comparison", "SpanExplanations",
    "Citations", "Counterfactual",
    "Judgment", "LearnedMethod", "Run", "Serving", "Check", "Evaluation",
    "LabeledTexts", "Model", "AttentionClassifier", "read_labeled", "save_folder",
    "InputError", "DomainError", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'limelight' has no attribute {name!r}")
    from importlib import import_module

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
