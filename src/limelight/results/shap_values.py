"""Explanations as a ``shap.Explanation``, for the plots of the ``shap`` package."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.errors import InputError

if TYPE_CHECKING:
    from limelight.results.explanation import Explanation


class ShapMixin:
    """A result with explanations that becomes a ``shap.Explanation``."""

    __slots__ = ()

    def to_shap(self) -> Any:
        """Return the scores as a ``shap.Explanation``, for the plots of the ``shap`` package.

        Its ``data`` are the features in the order of the text, each with a space after it, because
        ``shap.plots.text`` prints them one after the other. ``error_std`` has the standard errors,
        and 0 for exact scores in a list with sampled scores. It is None if all scores are exact.
        ``base_values`` are those of the explanations. Without a base value it is None, or NaN in a
        list, and ``shap.plots.waterfall`` and ``shap.plots.text`` need it.

        Plots of shap add the scores to the base value. The sum is the output of the model only for
        additive methods, such as ``shapley``.

        Raises
        ------
        InputError
            If shap is not installed, if there is no explanation, or if explanations of a list have
            different methods or scales.
        """
        return explanations_to_shap(self)


def explanations_to_shap(explanations: Any) -> Any:
    """Return one explanation, or a list with a row for each, as a ``shap.Explanation``."""
    from limelight.results.explanation import Explanation

    try:
        import shap
    except ImportError:
        raise InputError("to_shap needs shap; run: pip install shap.") from None
    if isinstance(explanations, Explanation):
        e = explanations
        # Without output_names: shap 0.51 cannot copy an explanation of one output with a name.
        return shap.Explanation(
            values=np.array(e.scores),
            base_values=e.base_value,
            data=_spaced_features(e),
            feature_names=list(e.features),
            error_std=None if e.stderr is None else np.array(e.stderr),
        )
    rows = list(explanations)
    if not rows:
        raise InputError("to_shap needs at least one explanation.")
    for name in ("method", "scale"):
        if len(values := sorted({getattr(e, name) for e in rows})) > 1:
            raise InputError(
                f"to_shap needs explanations of the same {name}, not {', '.join(values)}. Select "
                f"those of one {name}."
            )
    errors = [np.zeros(len(e)) if e.stderr is None else np.array(e.stderr) for e in rows]
    return shap.Explanation(
        values=_pack_rows([np.array(e.scores) for e in rows]),
        base_values=np.array([np.nan if e.base_value is None else e.base_value for e in rows]),
        data=_pack_rows([_spaced_features(e) for e in rows]),
        feature_names=[list(e.features) for e in rows],
        error_std=None if all(e.stderr is None for e in rows) else _pack_rows(errors),
    )


def _spaced_features(e: "Explanation") -> np.ndarray:
    """Return the features, each with a space after it."""
    return np.array([f"{feature} " for feature in e.features], dtype=object)


def _pack_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return rows as one array: a matrix if all have the same length, as shap does."""
    if len({len(row) for row in rows}) == 1:
        return np.stack(rows)
    packed = np.empty(len(rows), dtype=object)
    packed[:] = rows
    return packed
