"""Which class of scikit-learn computes the answers of an estimator, without importing it."""

from typing import Any

# Members that a subclass may define without changing what a fitted estimator answers.
_HARMLESS = frozenset(
    (
        *("__init__", "fit", "partial_fit", "fit_transform", "fit_predict", "score"),
        *("get_params", "set_params", "_get_param_names", "_parameter_constraints"),
        *("_more_tags", "__sklearn_tags__", "get_feature_names_out"),
        *("_sklearn_auto_wrap_output_keys", "_abc_impl"),
    )
)
_SEARCHES = (
    *("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV"),
)
_BASES = ("builtins", "abc", "typing")


class ForeignCodeError(Exception):
    """A clause that says which code other than scikit-learn's takes part in an answer."""


def scikit_class(estimator: Any) -> str:
    """Return the name of the scikit-learn class whose code computes what an estimator answers.

    That is the class of the estimator itself, or the one that it inherits from if it overrides
    nothing but training.
    """
    kind = type(estimator)
    bases = [base for base in kind.__mro__ if base.__module__ not in _BASES]
    shipped = [base for base in bases if base.__module__.split(".")[0] == "sklearn"]
    if not shipped:
        raise ForeignCodeError(f"{kind.__name__} is not a class of scikit-learn")
    changed = {
        member
        for base in bases
        if base not in shipped
        for member in vars(base)
        if _changes_answers(member, shipped[0])
    }
    # A function that was assigned to the fitted estimator hides the method of its class.
    changed |= {name for name in vars(estimator) if callable(getattr(kind, name, None))}
    if changed:
        raise ForeignCodeError(
            f"its {kind.__name__} has {', '.join(sorted(changed))} of its own, "
            f"not of scikit-learn's {shipped[0].__name__}"
        )
    return shipped[0].__name__


def unwrapped(step: Any) -> Any:
    """Return what a fitted search found best, or a frozen estimator holds; else the step itself."""
    while True:
        try:
            kind = scikit_class(step)
        except ForeignCodeError:  # which may predict otherwise than with what it holds
            return step
        # A search predicts with the best that it found, and with nothing else.
        if kind in _SEARCHES and hasattr(step, "best_estimator_"):
            step = step.best_estimator_
        elif kind == "FrozenEstimator":
            step = step.estimator
        else:
            return step


def _changes_answers(member: str, base: type) -> bool:
    if member in _HARMLESS or (member.startswith("set_") and member.endswith("_request")):
        return False
    if member in ("__getattr__", "__getattribute__", "__class__"):
        return True
    # Other names with two underscores are documentation, pickling and comparison.
    if member.startswith("__"):
        return False
    # A learned attribute, such as coef_, may be a property of the subclass.
    return hasattr(base, member) or member.endswith("_")
