"""Explanations as values of the packages ``shap`` and ``shapiq``, for their plots."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.errors import InputError

if TYPE_CHECKING:
    from limelight.results.explanation import Explanation

# The names that shapiq has for the values of a method, and of pairs by the setting ``index``.
INDEX_NAMES = {"shapley": "SV", "banzhaf": "BV"}
PAIR_INDEX_NAMES = {"shapley": "SII", "banzhaf": "BII"}


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


def explanation_to_shapiq(e: "Explanation", first_order: "Explanation | None" = None) -> Any:
    """Return an explanation as ``shapiq.InteractionValues``; see ``Explanation.to_shapiq``."""
    try:
        import shapiq
    except ImportError:
        raise InputError("to_shapiq needs shapiq; run: pip install shapiq.") from None
    if e.pairs is not None:
        method = e.settings.get("index", "shapley")
        index, order = PAIR_INDEX_NAMES[method], 2
        singles = _first_order_values(e, method, first_order)
        pairs = zip(e.pairs.features.tolist(), e.pairs.scores.tolist(), strict=True)
        values = singles | {tuple(sorted(pair)): score for pair, score in pairs}
        is_sampled = e.pairs.stderr is not None
    elif e.method in INDEX_NAMES:
        index, order = INDEX_NAMES[e.method], 1
        values = {(j,): score for j, score in enumerate(e.scores.tolist())}
        is_sampled = e.stderr is not None
    else:
        raise InputError(
            f"shapiq has no index for the scores of {e.method!r}. Use 'shapley', 'banzhaf' or "
            "'interactions'."
        )
    if e.base_value is None:
        raise InputError(
            "InteractionValues need the output of a text without words, which this model cannot "
            "compute."
        )
    return shapiq.InteractionValues(
        values,
        index=index,
        min_order=min(map(len, values), default=order),
        max_order=order,
        n_players=len(e),
        estimated=is_sampled,
        baseline_value=e.base_value,
    )


def _first_order_values(
    e: "Explanation", method: str, first_order: "Explanation | None"
) -> dict[tuple[int, ...], float]:
    """Return the values of single features that belong to the pairs of an explanation."""
    if first_order is None:
        return {}
    if first_order.method != method:
        raise InputError(f"first_order must be an explanation by {method!r}, as the pairs are.")
    for name in ("text", "features", "target", "against", "scale", "query", "model"):
        if getattr(first_order, name) != getattr(e, name):
            raise InputError(
                f"first_order and the pairs have different values of {name}. Explain the same text "
                "with the same options."
            )
    return {(j,): score for j, score in enumerate(first_order.scores.tolist())}


def explanation_from_shapiq(values: Any, template: "Explanation") -> "Explanation":
    """Return ``template`` with values of shapiq; see ``Explanation.from_shapiq``."""
    from limelight.results.explanation import Pairs

    if values.n_players != (d := len(template)):
        raise InputError(
            f"the values of shapiq have {values.n_players} players, but the explanation has {d} "
            "features. Explain the same text with the same features."
        )
    scores, pairs = np.zeros(d), dict[tuple[int, ...], float]()
    orders = {len(players) for players in values.dict_values} - {0}
    if not orders or max(orders) > 2:
        raise InputError(
            "from_shapiq needs values of order 1 and 2. Select them with values.get_n_order(2)."
        )
    for players, value in values.dict_values.items():
        if len(players) == 1:
            scores[players[0]] = value
        elif len(players) == 2:
            pairs[players] = float(value)
    if 1 not in orders:  # as the method "interactions": the mean size of those of each feature
        for players, value in pairs.items():
            scores[list(players)] += abs(value) / (d - 1)
    strongest = sorted(pairs, key=lambda players: -abs(pairs[players]))
    warning = "The scores come from shapiq, which estimated them and states no standard errors."
    return replace(
        template,
        scores=scores,
        pairs=Pairs(
            features=np.array(strongest), scores=np.array([pairs[players] for players in strongest])
        )
        if pairs
        else None,
        method=f"shapiq-{values.index}",
        label=f"shapiq {values.index}",
        signed=1 in orders,
        base_value=float(values.baseline_value),
        settings={
            name: value
            for name, value in template.settings.items()
            if name in ("features", "replacement")
        },
        warnings=(warning,) if values.estimated else (),
        stderr=None,
        bound=None,
        bound_kind="proven",
        intercept=None,
        heads=None,
        anchor=None,
        certain_tops=None,
        draws=None,
        diagnostics={},
    )
