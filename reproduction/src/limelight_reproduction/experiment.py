"""Experiments: parts that measure numbers, and functions that turn the numbers into findings."""

__all__ = [
    "Experiment",
    "Findings",
    "Numbers",
    "Part",
    "Table",
    "Verdict",
    "parts_for_both_models",
    "round_for_json",
]

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from limelight import AttentionClassifier
from limelight_reproduction.setting import Need, Setting

# The result of a part, ready for JSON: numbers, words, and the small arrays that figures need.
Numbers = dict[str, Any]


@final
@dataclass(frozen=True, kw_only=True)
class Part:
    """One measurement of an experiment.

    Its numbers are saved when it is finished, so a run that was killed does not repeat it. If its
    needs are missing, its numbers come from the stored results.
    """

    name: str
    measure: Callable[[Setting], Numbers]
    needs: tuple[Need, ...] = ()
    quick_needs: tuple[Need, ...] | None = None
    """The needs of a quick run, if they are fewer."""
    reads: tuple[str, ...] = ("imdb test",)
    """Texts that the part reads. `Setting.check_input` looks for them before the first part."""
    stages: int = 1
    """How often ``setting.tick`` counts from 0 to its total."""
    version: int = 1
    """Version of the measurement. Numbers on disk with a lower version are measured again."""

    def missing_needs(self, setting: Setting) -> tuple[Need, ...]:
        """Return the needs that the setting does not meet. A quick run may need less."""
        quick_needs = self.quick_needs if setting.quick else None
        needs = self.needs if quick_needs is None else quick_needs
        return tuple(need for need in needs if not setting.has(need))


@final
@dataclass(frozen=True, kw_only=True)
class Table:
    """A result table with unformatted numbers. Reports format them with ``digits`` decimals."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    digits: int = 3


@final
@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A line of the verdict table: a claim or question, the verdict, and the number behind it."""

    claim: str
    """A claim of the paper, or a question of ours that ends in "(our question)"."""
    holds: str
    number: str
    parts: tuple[str, ...] = ()
    """The parts whose numbers decide the verdict. Empty means all parts of the experiment."""


@final
@dataclass(frozen=True, kw_only=True)
class Findings:
    """The result of an experiment in words: headline, verdicts, measurements and meaning."""

    headline: str
    verdicts: Sequence[Verdict]
    measured: Sequence[str]
    meaning: str
    table: Table | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One row of the reproduction.

    ``paper`` says what the paper shows. ``figures`` and ``findings`` are functions of the numbers
    of all parts, by name; they measure nothing, so stored numbers are shown like fresh ones.
    """

    name: str
    title: str
    paper: str
    parts: tuple[Part, ...]
    findings: Callable[[Mapping[str, Numbers]], Findings]
    figures: Callable[[Mapping[str, Numbers]], Iterator[tuple[str, str, Any]]] | None = None
    """Yields for each figure its name, a caption and the matplotlib figure."""


def parts_for_both_models(
    measure: Callable[[Setting, AttentionClassifier], Numbers],
    *,
    version: int = 2,
    reads: tuple[str, ...] = ("imdb test",),
    stages: int = 1,
) -> tuple[Part, Part]:
    """Return the parts "shipped" and "paper": one measurement on each of the two models.

    Version 1 of the parts measured a model of the paper's recipe that the package did not include.

    Parameters
    ----------
    measure
        Measures one model.
    version
        The version of the measurement. Stored numbers of another version are not used.
    reads
        The data that the measurement needs.
    stages
        The number of progress bars that run from 0 to 100 %.

    Returns
    -------
    The parts of the shipped model and of the paper's recipe.
    """
    shipped = Part(
        name="shipped",
        measure=lambda setting: measure(setting, setting.shipped_model),
        version=version,
        reads=reads,
        stages=stages,
    )
    paper = replace(
        shipped, name="paper", measure=lambda setting: measure(setting, setting.recipe_model)
    )
    return shipped, paper


def round_for_json(value: Any, digits: int = 5) -> Any:
    """Convert arrays to lists and round floats to ``digits`` significant digits, for JSON."""
    if isinstance(value, Mapping):
        return {str(key): round_for_json(field, digits) for key, field in value.items()}
    if isinstance(value, np.ndarray):
        return round_for_json(value.tolist(), digits)
    if isinstance(value, list | tuple):
        return [round_for_json(member, digits) for member in value]
    if isinstance(value, float | np.floating):
        number = float(value)
        return float(f"{number:.{digits}g}") if math.isfinite(number) else None
    return value.item() if isinstance(value, np.generic) else value
