"""Counterfactuals: the features whose removal changes the prediction, with a proven minimum."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from limelight.errors import InputError, unknown_name_message
from limelight.models.prediction import PredictionKind
from limelight.results.decision_rule import DecisionRule
from limelight.results.explanation import TextFeatures, check_indices, check_text_features
from limelight.results.mixins import HtmlMixin, JsonMixin, TableMixin, TerminalMixin
from limelight.results.table import Table, plain_table
from limelight.results.values import EqualByFields, plain_value, require_whole_characters
from limelight.sampling.removal_search import RemovalStability
from limelight.shapes import Float
from limelight.text import Image, Part, Query, truncate_line
from limelight.text.spans import SpansField, accept_deferred_spans

# The reason for a lower bound: a proof, a proof that rests on checks of the tokens of the text, or
# the evaluation of all smaller sets.
LowerBoundKind = Literal["proven", "checked", "evaluated"]


@accept_deferred_spans
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counterfactual(TextFeatures, EqualByFields, HtmlMixin, TableMixin, JsonMixin):
    """The smallest set of features that was found whose removal changes the prediction.

    Input and output of the model:

    * ``text``, ``features``, ``spans``, ``cut``, ``parts``, ``image``, ``query``, ``classes``,
      ``link``: as in :class:`Explanation`.
    * ``prediction``: the outputs for the complete input by class. ``prediction_after`` has those
      without the removed features, or None if no set was found.

    Question:

    * ``kind``: what is predicted: a "class", "labels", a "score" or an "answer".
    * ``threshold``: for a score or an answer, the number below which the prediction is another.
    * ``desired_class``: the only class that counts as a change, or None.
    * ``replacement``: the replacement of removed features.

    Result:

    * ``removed``: the indices of the removed features, in increasing order.
    * ``lower_bound``: no removal of fewer features changes the prediction. It is the number of
      features plus 1 if no removal changes it.
    * ``bound_kind``: the reason for the lower bound: "proven", "checked" (proven, but the tokens of
      the text are checked by trials), or "evaluated" (all smaller sets were evaluated).
    * ``stability``: how often the prediction stays if random features are removed. Empty for exact
      models.
    * ``settings``, ``diagnostics``, ``warnings``, ``model``, ``version``: as in
      :class:`Explanation`.
    """

    _terminal = "counterfactual.counterfactual_text"
    _page = "counterfactual.counterfactual_page"
    _fragment = "counterfactual.counterfactual_fragment"
    _record = "codec.CounterfactualRecord"

    text: str
    features: tuple[str, ...]
    spans: SpansField
    removed: tuple[int, ...]
    lower_bound: int
    bound_kind: LowerBoundKind = "proven"
    kind: PredictionKind = "class"
    threshold: float | None = None
    desired_class: str | None = None
    classes: tuple[str, ...] = ()
    link: str = "softmax"
    prediction: Mapping[str, float]
    prediction_after: Mapping[str, float] | None = None
    replacement: str = ""
    stability: tuple[RemovalStability, ...] = ()
    cut: int | None = None
    warnings: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    version: str = ""
    parts: tuple[Part, ...] = ()
    query: Query | None = None
    image: Image | None = None

    def __post_init__(self) -> None:
        for name in ("prediction", "prediction_after", "settings", "diagnostics"):
            if (mapping := getattr(self, name)) is not None:
                values = plain_value(dict(mapping), name)
                object.__setattr__(self, name, MappingProxyType(values))
        _check_counterfactual(self)

    def __hash__(self) -> int:
        return hash((self.text, self.removed, self.lower_bound, self.desired_class))

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        words = ", ".join(repr(truncate_line(word, 20))[1:-1] for word in self.removed_features)
        change = f"no set found, at least {self.lower_bound}"
        if self.is_robust:
            change = "no removal changes it"
        elif self.size is not None:
            change = f"{self.predicted_class_after!r} without {words or 'any removal'}"
        text = truncate_line(self.short_text, 40)
        return f"<Counterfactual of {text!r}: {self.predicted_class!r}, {change}>"

    @property
    def rule(self) -> DecisionRule:
        """The rule that turns outputs into the prediction."""
        return DecisionRule(
            kind=self.kind,
            classes=self.classes,
            threshold=self.threshold,
            desired_class=self.desired_class,
        )

    @property
    def predicted_class(self) -> str:
        """The prediction for the complete input."""
        return self.rule.name(_output_row(self.prediction))

    @property
    def predicted_class_after(self) -> str | None:
        """The prediction without the removed features, or None if no set was found."""
        if self.prediction_after is None:
            return None
        return self.rule.name(_output_row(self.prediction_after))

    @property
    def size(self) -> int | None:
        """The number of removed features, or None if no set was found."""
        return None if self.prediction_after is None else len(self.removed)

    @property
    def is_minimal(self) -> bool:
        """Whether no smaller set changes the prediction."""
        return self.size == self.lower_bound

    @property
    def certified_radius(self) -> int:
        """The largest number of features that can be removed without a change."""
        return min(max(self.lower_bound - 1, 0), len(self.features))

    @property
    def is_robust(self) -> bool:
        """Whether no removal changes the prediction."""
        return self.lower_bound > len(self.features)

    @property
    def removed_features(self) -> tuple[str, ...]:
        """The removed features."""
        return tuple(self.features[j] for j in self.removed)

    def _table(self) -> Table:
        return counterfactual_table([(0, self)])


class Counterfactuals(TerminalMixin, TableMixin, list[Counterfactual]):
    """A list of counterfactuals that a notebook, a terminal and a table show together.

    The column ``text_number`` of its table counts the texts from 0.
    """

    _terminal = "counterfactual.counterfactuals_text"
    _fragment = "counterfactual.counterfactuals_fragment"

    def _table(self) -> Table:
        return counterfactual_table(enumerate(self))


def counterfactual_table(counterfactuals: Iterable[tuple[int, Counterfactual]]) -> Table:
    """Return a table with one row per feature of each (text number, counterfactual)."""
    names = ("text_number", "feature", "removed", "spans", "part")
    rows: list[tuple[Any, ...]] = []
    for number, c in counterfactuals:
        for j, (feature, spans, side) in enumerate(
            zip(c.features, c.spans, c.part_names, strict=True)
        ):
            positions = " ".join(f"{start}:{end}" for start, end in spans)
            rows.append((number, feature, j in c.removed, positions, side))
    return plain_table(names, rows)


def counterfactuals_csv(counterfactuals: Iterable[tuple[int, Counterfactual]]) -> Iterable[str]:
    """Yield CSV text with one row per feature. The first part begins with the header."""
    for part, numbered in enumerate(counterfactuals):
        yield counterfactual_table([numbered]).to_csv(header=not part)


def _output_row(prediction: Mapping[str, float]) -> Float[np.ndarray, " C"]:
    return np.array(list(prediction.values()), dtype=np.float64)


def _check_counterfactual(c: Counterfactual) -> None:
    """Raise an InputError for values that contradict each other."""
    d = len(c.features)
    texts = (c.text, c.replacement, *c.features, *c.classes, *c.warnings)
    require_whole_characters("".join(texts), "a counterfactual")
    if len(c.spans) != d:
        raise InputError(
            f"features and spans must have the same length, not {d} and {len(c.spans)}."
        )
    check_text_features(c)
    if c.bound_kind not in get_args(LowerBoundKind):
        raise InputError(unknown_name_message("bound_kind", c.bound_kind, get_args(LowerBoundKind)))
    _check_predictions(c)
    check_indices(c.removed, d, "removed")
    if list(c.removed) != sorted(set(c.removed)):
        raise InputError(f"removed must be increasing without repetition, not {c.removed}.")
    if not 0 <= c.lower_bound <= d + 1:
        raise InputError(f"lower_bound must be from 0 to {d + 1}, not {c.lower_bound}.")
    if c.prediction_after is None and c.removed:
        raise InputError("a counterfactual with removed features needs prediction_after.")
    if c.size is not None and c.lower_bound > c.size:
        raise InputError(
            f"lower_bound must be at most the number of removed features, {c.size}, not "
            f"{c.lower_bound}."
        )
    for measured in c.stability:
        _check_stability(measured, d)


def _check_predictions(c: Counterfactual) -> None:
    """Raise an InputError unless the two predictions are finite, and differ as the rule says."""
    before = _output_row(c.prediction)
    if not len(before) or not np.isfinite(before).all():
        raise InputError(f"prediction must contain finite outputs, not {dict(c.prediction)}.")
    is_class, count = c.kind in ("class", "labels"), len(c.classes)
    if len(before) != (count if is_class else 1) and (c.kind, count, len(before)) != (
        "class",
        2,
        1,
    ):
        raise InputError(
            f"prediction must have an output for each of the {count} classes, not {len(before)}."
        )
    rule = c.rule  # checks kind, threshold and desired_class
    if c.prediction_after is None:
        return
    after = _output_row(c.prediction_after)
    if list(c.prediction_after) != list(c.prediction) or not np.isfinite(after).all():
        raise InputError(
            "prediction_after must have a finite output for each output of prediction."
        )
    is_same = not c.removed
    if is_same and (before != after).any():
        raise InputError("without removed features, prediction_after must equal prediction.")
    if not rule.is_changed(after[None], before)[0]:
        raise InputError("prediction_after must differ from prediction.")


def _check_stability(entry: RemovalStability, d: int) -> None:
    """Raise an InputError unless counts and interval of an entry are possible."""
    has_counts = 1 <= entry.size <= d and 0 <= entry.unchanged <= entry.draws and entry.draws
    is_interval = has_counts and all(map(math.isfinite, (entry.low, entry.high)))
    if not is_interval or not 0 <= entry.low <= entry.probability <= entry.high <= 1:
        raise InputError(f"stability must contain counts and an interval around them, not {entry}.")
