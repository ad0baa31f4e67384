"""Differences of scores with their errors, and the features that they compare."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.errors import InputError, short_repr, unknown_name_message
from limelight.sampling.ranks import TopSizes
from limelight.sampling.spread import ROUNDING, PowerSums
from limelight.shapes import Float
from limelight.text import truncate_line

if TYPE_CHECKING:
    from limelight.results.explanation import Explanation

# Features by name, by index, or by the id or role of their part: a single name or several.
FeatureNames = str | int | Sequence[str | int]
LEARNED = "learned"  # a method whose errors have no draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of two scores, or of two sums of scores.

    ``stderr`` is its standard error, None if the scores are not sampled. ``bound`` is a limit of
    its numerical error, None if there is none.
    """

    value: float
    stderr: float | None = None
    bound: float | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The value ± two standard errors, which hold in about 95 % of cases, or ± the bound."""
        width = (self.bound or 0.0) if self.stderr is None else 2 * self.stderr
        return self.value - width, self.value + width


def score_difference(e: "Explanation", a: FeatureNames, b: FeatureNames) -> Difference:
    """Return the difference of the scores of two features, or of sums over two lists of features.

    Raises
    ------
    InputError
        If a feature is unknown, ambiguous or used twice, or if sampled scores have no draws.
    """
    weights = np.zeros(len(e))
    for sign, names in ((1.0, a), (-1.0, b)):
        for j in find_features(e, names):
            if weights[j]:
                raise InputError(
                    f"a difference needs each feature once, but {short_name(e.features[j])} is "
                    "used twice. Leave one of them out."
                )
            weights[j] = sign
    value = float(e.scores @ weights)
    if e.stderr is None:
        if e.bound is None and e.certain_tops is None:
            raise InputError(
                "the errors of these scores are unknown, so a difference has no error. Use a "
                "larger budget, or 'shapley', 'banzhaf' or 'lime'."
            )
        bound = None if e.bound is None else e.bound * float(np.abs(weights).sum())
        return Difference(value=value, bound=bound)
    # Large enough whatever the errors have in common.
    sum_of_errors = float(e.stderr @ np.abs(weights))
    if e.draws is not None:
        error = _error_of_mean(e.draws @ weights)
        # Draws that agree may all have missed an effect, for which the errors of scores allow.
        has_no_spread = error <= ROUNDING * float(np.abs(e.scores).max())
        return Difference(value=value, stderr=sum_of_errors if has_no_spread else error)
    if e.method == LEARNED or not sum_of_errors:
        return Difference(value=value, stderr=sum_of_errors)
    raise InputError(
        "these sampled scores have no draws, because files do not contain them and not every "
        "method has them. Explain the text again with 'shapley', 'banzhaf', 'lime' or 'owen'."
    )


def find_features(e: "Explanation", names: FeatureNames) -> list[int]:
    """Return the indices of features that a user names.

    The id of a part, or a role, names all features that begin in these parts. The name of a feature
    comes before an id and a role.

    Raises
    ------
    InputError
        If a feature is unknown, or if a name has several meanings.
    """
    if isinstance(names, str | int | np.integer):
        return _find_by_name(e, names)
    if not isinstance(names, Iterable):
        raise InputError(
            f"a feature must be a name, a number or a list of them, not {short_repr(names)}."
        )
    return [j for name in names for j in _find_by_name(e, name)]


def _find_by_name(e: "Explanation", name: Any) -> list[int]:
    """Return the feature with this name or index, or all features of the parts with this name."""
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        if not 0 <= name < len(e):
            raise InputError(f"a feature must be a number from 0 to {len(e) - 1}, not {name}.")
        return [int(name)]
    matches = [j for j, feature in enumerate(e.features) if feature == name]
    if len(matches) == 1:
        return matches
    if not matches:
        return _find_by_part(e, name)
    numbers = ", ".join(map(str, matches[:5])) + ", …" * (len(matches) > 5)
    raise InputError(
        f"{len(matches)} features are called {short_name(str(name))}. Use one of their numbers: "
        f"{numbers}."
    )


def _find_by_part(e: "Explanation", name: Any) -> list[int]:
    """Return the features that begin in the part with this id, or in the parts with this role."""
    ids, roles = e.part_names, {part.id: part.role for part in e.parts} | {"": ""}
    in_part = [j for j, part in enumerate(ids) if part and part == name]
    with_role = [j for j, part in enumerate(ids) if part and roles[part] == name]
    if in_part and with_role and in_part != with_role:
        raise InputError(
            f"{short_name(str(name))} is the id of a part and the role of other parts. Use the "
            "numbers of features."
        )
    if not in_part and not with_role:
        names = (*e.features, *ids, *(roles[part] for part in ids))
        choices = tuple(dict.fromkeys(filter(None, names)))
        raise InputError(unknown_name_message("feature", name, choices))
    return in_part or with_role


def short_name(feature: str) -> str:
    """Return the name of a feature in quotes, shortened if it is long."""
    return repr(truncate_line(feature, 30))


def _error_of_mean(draws: Float[np.ndarray, " n"]) -> float:
    """Return the standard error of a mean of draws, widened as those of scores are."""
    n = len(draws)
    if n < 2:
        return 0.0
    # Relative to the first draw, so that draws that agree have exactly no spread.
    relative = draws - draws[0]
    spread = PowerSums.from_contributions((relative - relative.mean())[:, None] / n)
    second = spread.second * n / (n - 1)
    return float(
        spread._replace(first=np.zeros(1), second=second).standard_error(n, degrees=n - 1)[0]
    )


def check_top_sizes(sizes: TopSizes, d: int) -> None:
    """Raise an InputError unless sizes of top sets increase and are below ``d``."""
    # Compared in C, because an exact explanation has about as many sizes as features.
    is_increasing = all(map(operator.lt, sizes, sizes[1:]))
    if sizes and not (is_increasing and sizes[0] > 0 and sizes[-1] < d):
        raise InputError(
            f"certain_tops must be increasing numbers from 1 to {d - 1}, not {list(sizes)[:8]}."
        )


def encode_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return increasing numbers as ranges from the first to the last number, both included."""
    ranges = list[tuple[int, int]]()
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def decode_ranges(ranges: Iterable[Sequence[int]], limit: int) -> tuple[int, ...]:
    """Return the numbers of ranges, or raise an InputError if one exceeds ``limit``."""
    pairs = [tuple(pair) for pair in ranges]
    if any(len(pair) != 2 or not 0 <= pair[0] <= pair[1] <= limit for pair in pairs):
        raise InputError(
            f"certain_tops must be increasing ranges of numbers up to {limit}, not {pairs[:4]}."
        )
    return tuple(number for first, last in pairs for number in range(first, last + 1))
