"""What an experiment is: parts that measure, and functions of what they measured."""

__all__ = [
    "Experiment",
    "Findings",
    "Numbers",
    "Part",
    "Table",
    "Verdict",
    "compact",
    "on_both_models",
]

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from limelight import AttentionClassifier
from limelight_reproduction.setting import Need, Setting

# What a part measured, ready for JSON: numbers, words, and the small arrays that figures need.
Numbers = dict[str, Any]


@final
@dataclass(frozen=True, kw_only=True)
class Part:
    """One measurement: what is kept when a run is killed, and what may come from stored results."""

    name: str
    measure: Callable[[Setting], Numbers]
    needs: tuple[Need, ...] = ()
    quick_needs: tuple[Need, ...] | None = None
    """What a quick run needs, where that is less."""
    reads: tuple[str, ...] = ("imdb test",)
    """Texts that must be there, which a run looks for before its first part: see `Setting.find`."""
    stages: int = 1
    """How often ``setting.tick`` goes from nothing to its total."""
    version: int = 1
    """Of what is measured: a higher one than that of numbers on disk measures them again."""

    def lacks(self, setting: Setting) -> tuple[Need, ...]:
        """Return which of its needs are not met; a quick run may need less than a full one."""
        reduced = self.quick_needs if setting.quick else None
        needs = self.needs if reduced is None else reduced
        return tuple(need for need in needs if not setting.has(need))


@final
@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of a result; numbers are formatted by whoever shows them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    digits: int = 3


@final
@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A line of the first table: what is claimed or asked, whether it holds, by which number."""

    claim: str
    """What the paper says, or a question of ours that ends in "(our question)"."""
    holds: str
    number: str
    parts: tuple[str, ...] = ()
    """The parts whose numbers decide it; all of the experiment where none is named."""


@final
@dataclass(frozen=True, kw_only=True)
class Findings:
    """The finding in one sentence; what was measured, one sentence each; and what it means."""

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
    """Yields the name of a figure, what it shows in a sentence, and a matplotlib figure."""


def on_both_models(
    measure: Callable[[Setting, AttentionClassifier], Numbers],
    *,
    version: int = 2,
    reads: tuple[str, ...] = ("imdb test",),
    stages: int = 1,
) -> tuple[Part, Part]:
    """Return the parts "shipped" and "paper": the same measurement of either model.

    Version 1 of any was on a model of the paper's recipe that was not carried along.
    """
    shipped = Part(
        name="shipped",
        measure=lambda setting: measure(setting, setting.shipped),
        version=version,
        reads=reads,
        stages=stages,
    )
    paper = replace(shipped, name="paper", measure=lambda setting: measure(setting, setting.paper))
    return shipped, paper


def compact(value: Any, digits: int = 5) -> Any:
    """Return arrays as lists and floats with ``digits`` significant digits, for JSON."""
    if isinstance(value, Mapping):
        return {str(key): compact(one, digits) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return compact(value.tolist(), digits)
    if isinstance(value, list | tuple):
        return [compact(one, digits) for one in value]
    if isinstance(value, float | np.floating):
        number = float(value)
        return float(f"{number:.{digits}g}") if math.isfinite(number) else None
    return value.item() if isinstance(value, np.generic) else value
