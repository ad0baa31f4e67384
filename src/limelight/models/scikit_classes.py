"""The scikit-learn class whose code computes the outputs of an estimator, without an import."""

from typing import Any

# Members that a subclass may define without changing the outputs of a fitted estimator.
_HARMLESS_MEMBERS = frozenset(
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
    """Return the name of the scikit-learn class that computes the outputs of an estimator.

    This is the class of the estimator, or its base class if the subclass changes only training.

    Raises
    ------
    ForeignCodeError
        If other code than scikit-learn's takes part in the outputs.
    """
    estimator_class = type(estimator)
    bases = [base for base in estimator_class.__mro__ if base.__module__ not in _BASES]
    scikit_bases = [base for base in bases if base.__module__.split(".")[0] == "sklearn"]
    if not scikit_bases:
        raise ForeignCodeError(f"{estimator_class.__name__} is not a class of scikit-learn")
    changed_members = {
        member
        for base in bases
        if base not in scikit_bases
        for member in vars(base)
        if _changes_outputs(member, scikit_bases[0])
    }
    # A function that was assigned to the fitted estimator hides the method of its class.
    changed_members |= {
        name for name in vars(estimator) if callable(getattr(estimator_class, name, None))
    }
    if changed_members:
        raise ForeignCodeError(
            f"{estimator_class.__name__} changes {', '.join(sorted(changed_members))} of "
            f"scikit-learn's {scikit_bases[0].__name__}"
        )
    return scikit_bases[0].__name__


def unwrap_estimator(step: Any) -> Any:
    """Return the best estimator of a fitted search, the content of a frozen one, or ``step``."""
    while True:
        try:
            class_name = scikit_class(step)
        except ForeignCodeError:  # its code may not predict with the estimator that it contains
            return step
        # A search predicts with its best estimator only.
        if class_name in _SEARCHES and hasattr(step, "best_estimator_"):
            step = step.best_estimator_
        elif class_name == "FrozenEstimator":
            step = step.estimator
        else:
            return step


def _changes_outputs(member: str, base: type) -> bool:
    """Tell whether a subclass of ``base`` may have other outputs because it defines ``member``."""
    is_metadata_request = member.startswith("set_") and member.endswith("_request")
    if member in _HARMLESS_MEMBERS or is_metadata_request:
        return False
    if member in ("__getattr__", "__getattribute__", "__class__"):
        return True
    # Other names with two underscores are for documentation, pickling and comparison.
    if member.startswith("__"):
        return False
    # A learned attribute, such as coef_, may be a property of the subclass.
    return hasattr(base, member) or member.endswith("_")
