"""Estimates of the model calls and the time of a judgment, and its progress."""

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.explainers.batch import Batch, count_features, read_batch
from limelight.judging.texts import JudgingOutcome, JudgingSetup
from limelight.models import Model
from limelight.models.text_game import TextGame
from limelight.progress import Estimate, ProgressCallback, ProgressTracker
from limelight.request import Request

_SAMPLE_TEXTS = 8  # texts whose numbers of words represent all texts
_TIMED_CALLS = 32
_JUDGING_SECONDS = 300.0  # that judging may take by default
_MIN_TEXTS = 10  # fewer texts have no intervals
_CALL_STEPS = [digit * 10**power for power in range(3, 12) for digit in (1, 2, 5)]
_CLOCK_RESOLUTION = 1e-6  # seconds
_REPEATING_COLUMN = "stability"  # which explains each text a second time


class TextSelection(NamedTuple):
    """The texts that are judged.

    Parameters
    ----------
    indices
        Their indices among all texts.
    calls
        The budget of model calls. None if it is not limited.
    warnings
        Warnings if texts or a column are left out.
    excluded_columns
        Columns that are left out, because ten texts need too many calls with them.
    """

    indices: list[int]
    calls: int | None = None
    warnings: tuple[str, ...] = ()
    excluded_columns: frozenset[str] = frozenset()


def select_texts(
    setup: JudgingSetup, texts: list[Any], calls: int | None, *, has_default_columns: bool = False
) -> TextSelection:
    """Select as many texts as a number of model calls allows, evenly spread.

    Without a number, a few timed calls choose it from fixed steps, so that judging takes about five
    minutes. The same number always selects the same texts. At least ten texts are selected, because
    fewer have no intervals. If ten texts need more calls, a default column that explains each text
    a second time is left out.

    Parameters
    ----------
    setup
        The options of the judgment.
    texts
        All texts.
    calls
        The budget of model calls. None chooses it.
    has_default_columns
        Whether the columns are the defaults, so that one of them may be left out.
    """
    all_indices = list(range(len(texts)))
    if len(texts) <= _MIN_TEXTS or not _needs_calls(setup):
        return TextSelection(all_indices, calls)
    mean_calls = _mean_calls(setup, texts)
    total = mean_calls * len(texts)
    if calls is None:
        batches = list(read_sample_batches(setup.model, texts, setup.request))
        if not batches:
            return TextSelection(all_indices)
        # Only one text is timed, and one of middle length represents the others.
        batch = sorted(batches, key=lambda batch: len(batch.features[0]))[len(batches) // 2]
        allowed = _JUDGING_SECONDS / measure_call_seconds(batch.game(setup.replacements[0]))
        if total <= allowed:
            return TextSelection(all_indices)
        calls = max([step for step in _CALL_STEPS if step <= allowed], default=_CALL_STEPS[0])
    excluded, warnings = frozenset[str](), tuple[str, ...]()
    if has_default_columns and calls < _MIN_TEXTS * mean_calls and _has_repeats(setup):
        excluded = frozenset({_REPEATING_COLUMN})
        mean_calls = _mean_calls(replace(setup, columns=setup.columns - excluded), texts)
        warnings = (
            f"The column {_REPEATING_COLUMN!r} is left out, because the model is slow. To measure "
            f"it, name it in columns (--columns).",
        )
    count = max(int(calls / mean_calls), _MIN_TEXTS)
    if count >= len(texts):
        return TextSelection(all_indices, calls, warnings, excluded)
    enough = next((step for step in _CALL_STEPS if step >= total), math.ceil(total))
    warning = (
        f"{count:,} of {len(texts):,} texts are judged, evenly spread, with a budget of {calls:,} "
        f"calls. For all texts, use a budget of {enough:,} calls."
    )
    indices = _spread_indices(len(texts), count)
    return TextSelection(indices, calls, (warning, *warnings), excluded)


def _has_repeats(setup: JudgingSetup) -> bool:
    """Return whether a column explains each text a second time."""
    return _REPEATING_COLUMN in setup.columns and any(
        candidate.score_again is not None for candidate in setup.candidates
    )


def _needs_calls(setup: JudgingSetup) -> bool:
    """Return whether judging calls the model on masked texts."""
    return not setup.has_exact_game or any(
        candidate.expected_calls and candidate.expected_calls(10) for candidate in setup.candidates
    )


def _mean_calls(setup: JudgingSetup, texts: list[Any]) -> float:
    """Return the expected number of model calls per text, from a few of the texts."""
    counts = list[int]()
    for text in _select_sample(texts):
        with contextlib.suppress(InputError):
            d = count_features(setup.model, text, setup.request)
            counts.append(sum(setup.count_calls(d)))
    return max(float(np.mean(counts or [1])), 1.0)


def estimate_judging(setup: JudgingSetup, texts: list[Any]) -> Estimate | None:
    """Estimate the calls and the time that judging takes; None if it calls no model."""
    if not _needs_calls(setup):
        return None
    batches = list(read_sample_batches(setup.model, texts, setup.request))
    if not batches:
        return None
    counts = [setup.count_calls(len(batch.features[0])) for batch in batches]
    needed, search = (np.mean(counts, axis=0) * len(texts)).tolist()
    # Only one text is timed: timing several would take the time that the estimate should save.
    call_seconds = measure_call_seconds(batches[0].game(setup.replacements[0]))
    if setup.budget is not None:  # it limits only the search
        search = min(search, setup.budget / call_seconds)
    return Estimate.from_calls(round(needed + search), (needed + search) * call_seconds)


def read_sample_batches(model: Model, texts: list[Any], request: Request) -> Iterator[Batch]:
    """Yield a few of the texts, evenly spread, as batches of one text.

    Texts that cannot be read are skipped. The judgment reports them with the reason.
    """
    for text in _select_sample(texts):
        with contextlib.suppress(InputError):
            yield read_batch(model, [text], request)


def _select_sample(texts: list[Any]) -> list[Any]:
    """Return a few of the texts, evenly spread."""
    return [texts[i] for i in _spread_indices(len(texts), _SAMPLE_TEXTS)]


def _spread_indices(total: int, count: int) -> list[int]:
    """Return at most ``count`` of the indices below ``total``, evenly spread."""
    indices: list[int] = np.unique(np.linspace(0, total - 1, count).round().astype(int)).tolist()
    return indices


def measure_call_seconds(game: TextGame) -> float:
    """Return the seconds per model call, from a few calls in one batch."""
    rng, d = np.random.default_rng(0), len(game)
    game(rng.random((2, d)) < 0.5)  # the first call includes the setup
    # Masks of all sizes: if masks delete words, the texts are shorter and cheaper.
    # Equal masks are evaluated once.
    masks = np.unique(rng.random((_TIMED_CALLS, d)) < rng.random((_TIMED_CALLS, 1)), axis=0)
    start = time.perf_counter()
    game(masks)
    return max(time.perf_counter() - start, _CLOCK_RESOLUTION) / len(masks)


def judge_with_progress(
    setup: JudgingSetup, texts: list[Any], callback: ProgressCallback
) -> Iterator[JudgingOutcome]:
    """Yield the results for every text, and report the progress, also within a text."""
    outcomes, done = setup.judge_texts(texts), 0
    # If areas are sums over tables, texts are too quick to report parts of them.
    calls = 0.0 if setup.has_exact_game else _mean_calls(setup, texts)
    # The number of calls is only an estimate, and progress must not go backwards.
    tracker = ProgressTracker(callback, total=len(texts), estimated=True)
    group_size = setup.group_size(len(texts))
    for start in range(0, len(texts), group_size):
        size = min(group_size, len(texts) - start)
        with tracker.track(start, texts=size, calls=calls * size):
            for outcome in islice(outcomes, size):
                yield outcome
                done += 1
                tracker.report(done)
