"""Which kind of interval holds a share most reliably: the comparison that chose one for ``judge``.

    python reproduction/studies/interval_candidates.py

Populations are those of verdicts.py, of which 1,000 sets of 12, 30 and 60 texts are drawn. The
rule, written before anything was measured: take the kind whose smallest coverage of a real share at
30 and 60 texts is largest; of kinds within 0.01 of it, the one with the largest mean coverage at 12
texts. ``judge`` uses the studentized bootstrap.
"""

from collections.abc import Iterator

import numpy as np
from results import Measure, command_line, report
from scipy import stats
from verdicts import SHARE_TEXTS, SHARED, Population, real_populations, synthetic_populations

DRAWS = 1999
Ends = tuple[np.ndarray, np.ndarray]  # of one interval for every sample


def main() -> None:
    """Measure every kind on real shares where there is data, and on synthetic ones."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--repetitions", type=int, default=1000)
    arguments = parser.parse_args()
    times = 20 if arguments.smoke else arguments.repetitions
    populations = {"synthetic": synthetic_populations()}
    if SHARED.exists():
        populations["real"] = real_populations(smoke=arguments.smoke)
    measures = [
        measure
        for kind, of_kind in populations.items()
        for measure in coverages(kind, list(of_kind.values()), times)
    ]
    report("interval_candidates", measures, arguments, data=f"{times} samples of each share")


def coverages(kind: str, populations: list[Population], times: int) -> Iterator[Measure]:
    """Yield the mean coverage of every kind of interval over all shares, by number of texts."""
    for texts in SHARE_TEXTS:
        holds: dict[str, list[float]] = {}
        for number, population in enumerate(populations):
            rng = np.random.default_rng([number, texts])
            rows = rng.integers(len(population.room), size=(texts, times))
            weights = rng.multinomial(texts, np.full(texts, 1 / texts), size=DRAWS)
            for column in population.gain.T:
                truth = column.sum() / population.room.sum()
                found = intervals(column[rows], population.room[rows], weights)
                for name, (low, high) in found.items():
                    part = np.mean((low <= truth) & (truth <= high))
                    holds.setdefault(name, []).append(float(part))
        for name, parts in holds.items():
            yield Measure(
                id=f"{kind}_{texts}_{name}",
                what=f"{kind} shares, {texts} texts: {name}",
                value=round(float(np.mean(parts)), 3),
                note=f"{min(parts):.3f} to {max(parts):.3f} of {len(parts)} shares",
            )


def intervals(gain: np.ndarray, room: np.ndarray, weights: np.ndarray) -> dict[str, Ends]:
    """Return the intervals of every kind for the samples in the columns of ``gain``."""
    share = gain.sum(axis=0) / room.sum(axis=0)
    drawn = (weights @ gain) / (weights @ room)
    without = (gain.sum(axis=0) - gain) / (room.sum(axis=0) - room)
    # Errors of share and of log(1 − share): linear, and their deviations in the drawn texts.
    residual = gain - share * room
    error = np.sqrt((residual**2).sum(axis=0)) / room.sum(axis=0)
    off = drawn - share
    square = weights @ residual**2 - 2 * off * (weights @ (residual * room))
    drawn_error = np.sqrt(np.maximum(square + off**2 * (weights @ room**2), 0.0))
    drawn_error = np.maximum(drawn_error / (weights @ room), 0.2 * error)
    with np.errstate(divide="ignore", invalid="ignore"):
        log, drawn_log, without_log = (np.log(1 - x) for x in (share, drawn, without))
        log_deviation = np.nan_to_num((drawn_log - log) * (1 - drawn) / drawn_error)
        deviation = np.nan_to_num(off / drawn_error)
    found = {
        "percentile": tuple(np.quantile(drawn, [0.025, 0.975], axis=0)),
        "BCa": bias_corrected(share, drawn, without),
        "t": student(share, without),
        "studentized bootstrap": studentized(share, error, deviation),
    }
    # Larger shares have smaller logarithms of what they lack.
    for name, (low, high) in {
        "t of log(1 − share)": student(log, without_log),
        "studentized bootstrap of log(1 − share)": studentized(
            log, error / (1 - share), log_deviation
        ),
    }.items():
        found[name] = (1 - np.exp(high), 1 - np.exp(low))
    return found


def student(value: np.ndarray, without: np.ndarray) -> Ends:
    """Return Student's interval with the standard error of the jackknife."""
    n = len(without)
    error = np.sqrt((n - 1) * np.var(without, axis=0))
    half = stats.t.ppf(0.975, n - 1) * error
    return value - half, value + half


def studentized(value: np.ndarray, error: np.ndarray, deviation: np.ndarray) -> Ends:
    """Return the interval by the quantiles of deviations in units of their errors."""
    low, high = np.quantile(deviation, [0.025, 0.975], axis=0)
    return value - high * error, value - low * error


def bias_corrected(share: np.ndarray, drawn: np.ndarray, without: np.ndarray) -> Ends:
    """Return Efron's BCa interval."""
    gap = without.mean(axis=0) - without
    squares = np.maximum((gap**2).sum(axis=0), 1e-300)
    acceleration = (gap**3).sum(axis=0) / (6 * squares**1.5)
    below = ((drawn < share).mean(axis=0) + (drawn <= share).mean(axis=0)) / 2
    bias = stats.norm.ppf(np.clip(below, 1 / (2 * DRAWS), 1 - 1 / (2 * DRAWS)))
    ordered, columns = np.sort(drawn, axis=0), np.arange(drawn.shape[1])
    ends = []
    for z in (-1.959964, 1.959964):
        level = stats.norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))
        ends.append(ordered[np.clip((level * DRAWS).astype(int), 0, DRAWS - 1), columns])
    return ends[0], ends[1]


if __name__ == "__main__":
    main()
