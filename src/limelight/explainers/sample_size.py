"""How many samples a method draws, and the calls of the model that they take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from limelight.explainers.batch import Batch
from limelight.explainers.method import (
    MEANINGS,
    UNTIL,
    Cost,
    Implementation,
    NotBelow,
    Positive,
    Top,
    at_least,
    parse_top,
    per_input,
    settings_class,
)
from limelight.results import Attribution
from limelight.sampling.all_masks import can_enumerate_masks
from limelight.sampling.deadline import has_time
from limelight.sampling.ranks import MIN_DRAWS, TopSizes
from limelight.sampling.stopping import StoppingRule

# Calls of a sampled method without a count and without a budget. For reviews of 100 words they are
# 5 pairs of orders. Their Shapley values have a share of 0.88 on MiniLM, 2 pairs (400 calls) have
# 0.85, and 25 pairs (5,000 calls) have 0.89. Two cores need 30 seconds for these calls
# (benchmarks/results/judging_cuda_every.json, benchmarks/faithfulness_per_second.py). With 500
# calls, more of the top 3 words are wrong, and fewer are certain (benchmarks/default_calls.py).
DEFAULT_CALLS = 1_000
MAX_SAMPLES = 500_000  # unless a method has another limit
# Random outputs: all masks of up to this many features may be evaluated several times.
MAX_REPEATED_FEATURES = 12
PILOT_MASKS = 10  # masks with two random outputs each, which measure the noise of outputs
PILOT_CALLS = 2 * PILOT_MASKS
_CALLS_PER_PILOT_CALL = 20  # a smaller sample has no calls left for the pilot
END_CALLS = 5  # random outputs for the empty text
_FIRST_LOOK = 4  # share of the default samples after which certainty is checked first: a quarter


@dataclass(frozen=True, kw_only=True)
class SampleSize:
    """How many samples a method draws for an input of d features.

    Parameters
    ----------
    count
        Samples to draw, as the user set it; None leaves it to the number of features.
    max_count
        Most samples to draw to meet the tolerance.
    tolerance
        Largest standard error of a score; None allows any.
    top
        Number of features whose set must be certain; None needs no certainty.
    default
        Samples of d features if no count is set.
    minimum
        Samples that surely determine the scores of d features and their standard errors.
    calls_per_sample
        Model calls of one sample of d features.
    fixed_calls
        Model calls that are no samples: those for the input itself and for no features.
    min_draws
        Fewest draws after which the certainty is checked.
    enumerates
        Whether the method evaluates all masks of a text instead, if they are few.
    answers
        Number of random outputs for each mask. None: outputs are not random. All masks are only
        evaluated if the calls allow two outputs for each, because errors come from their spread.
    """

    count: int | None
    max_count: int = MAX_SAMPLES
    tolerance: float | None = None
    top: int | None = None
    default: Callable[[int], int] = lambda _: DEFAULT_CALLS
    minimum: Callable[[int], int] = lambda _: 4
    calls_per_sample: Callable[[int], int] = lambda _: 1
    fixed_calls: int = 2
    min_draws: int = MIN_DRAWS
    enumerates: bool = True
    answers: int | None = None

    def with_answers(self, answers: int | None) -> "SampleSize":
        """Return the sample size for a number of random outputs for each mask, or for none."""
        if answers is None:
            return self
        calls_per_sample = self.calls_per_sample
        return replace(
            self,
            answers=answers,
            calls_per_sample=lambda d: answers * calls_per_sample(d),
            fixed_calls=answers * self.fixed_calls + END_CALLS,
        )

    def initial_count(self, d: int) -> int:
        """Return how many samples of ``d`` features are drawn before a stopping rule is checked."""
        if self.count is not None:
            return self.count
        default = self.default(d)
        if self.top is not None:  # each later look doubles the sample
            default = max(default // _FIRST_LOOK, self.min_draws)
        return min(max(default, self.minimum(d)), self.max_count)

    def final_count(self, d: int) -> int:
        """Return how many samples of ``d`` features are drawn at most."""
        return self.initial_count(d) if self.stopping_rule() is None else self.max_count

    def stopping_rule(self, *, draws_per_count: int = 1) -> StoppingRule | None:
        """Return the rule that stops sampling, or None for a fixed number of samples.

        ``draws_per_count`` is the number of samples of one draw.
        """
        if self.tolerance is None and self.top is None:
            return None
        max_count = self.max_count // draws_per_count
        return StoppingRule(max_count=max_count, tolerance=self.tolerance, top=self.top)

    def covers_all_masks(self, d: int) -> bool:
        """Return whether all masks of ``d`` features are evaluated."""
        if self.answers is not None:
            return self.enumerates and self.stopping_rule() is None and self.repeats(d) >= 2
        calls_per_sample = self.calls_per_sample(d)
        is_cheap = can_enumerate_masks(d, self.initial_count(d) * calls_per_sample)
        return self.enumerates and is_cheap and 2**d <= self.max_count * calls_per_sample

    def repeats(self, d: int) -> int:
        """Return how many random outputs for each of all masks the calls of a sample allow."""
        if d > MAX_REPEATED_FEATURES:
            return 0
        return self.initial_count(d) * self.calls_per_sample(d) // 2**d

    def has_time_for_all_masks(self, d: int) -> bool:
        """Return whether all masks are evaluated, and a deadline leaves time for them."""
        calls = 2**d if self.answers is None else self.repeats(d) * 2**d
        return self.covers_all_masks(d) and has_time(calls)

    def pilot_calls(self, d: int) -> int:
        """Return the calls that measure the noise of random outputs, if they are a small part."""
        if self.answers is None or self.covers_all_masks(d):
            return 0
        calls = self.initial_count(d) * self.calls_per_sample(d)
        return PILOT_CALLS if calls >= _CALLS_PER_PILOT_CALL * PILOT_CALLS else 0

    def calls(self, d: int) -> int:
        """Return the expected number of model calls for ``d`` features."""
        if self.covers_all_masks(d):
            return 1 + 2**d if self.answers is None else self.repeats(d) * 2**d + self.fixed_calls
        calls = self.initial_count(d) * self.calls_per_sample(d) + self.fixed_calls
        return calls + self.pilot_calls(d)

    def minimum_calls(self, d: int) -> int:
        """Return the number of model calls that surely determines the scores of ``d`` features."""
        calls = self.minimum(d) * self.calls_per_sample(d) + self.fixed_calls
        return min(1 + 2**d, calls) if self.enumerates and self.answers is None else calls

    def count_for_calls(self, calls: int, d: int) -> int:
        """Return how many samples of ``d`` features a number of model calls allows."""
        calls_per_sample = self.calls_per_sample(d)
        available = calls - self.fixed_calls
        if self.answers is not None and available >= (1 + _CALLS_PER_PILOT_CALL) * PILOT_CALLS:
            available -= PILOT_CALLS
        count = max(available // calls_per_sample, self.minimum(d))
        if self.answers is not None or not self.enumerates or 1 + 2**d > calls:
            return count
        # All masks count as the samples that take as many calls.
        return max(count, -(-(2**d) // calls_per_sample))

    def stopping_warnings(
        self, count: int, largest_error: float, tops: TopSizes, d: int
    ) -> tuple[str, ...]:
        """Return warnings if the samples do not meet the stopping rule.

        Parameters
        ----------
        count
            Number of samples.
        largest_error
            The largest standard error of a score.
        tops
            Sizes of the certain top sets.
        d
            Number of features.
        """
        warnings = tuple[str, ...]()
        if self.top is not None and self.top < d and self.top not in tops:
            verb = "is" if self.top == 1 else "are"
            warnings += (
                f"The top {self.top} {verb} not certain after {count:,} samples. Use a larger "
                "budget, or raise max_samples (max_pairs for 'shapley').",
            )
        if self.tolerance is None or largest_error <= self.tolerance:
            return warnings
        return (
            *warnings,
            f"The largest standard error after {count:,} samples is {largest_error:.2g}, above the "
            f"tolerance {self.tolerance:.2g}. Raise max_samples, or max_pairs for 'shapley'.",
        )


@settings_class
class SamplingSettings:
    """Settings of methods that sample masks."""

    samples: Annotated[int | None, at_least(2)] = None
    max_samples: Annotated[int, at_least(2), NotBelow("samples")] = MAX_SAMPLES
    tolerance: Annotated[float | None, Positive] = None
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    @property
    def sample_size(self) -> SampleSize:
        """The number of masks."""
        return self.make_sample_size()

    def make_sample_size(self, **options: Any) -> SampleSize:
        """Return the sample size of these settings; ``options`` are its other fields."""
        return SampleSize(
            count=self.samples,
            max_count=self.max_samples,
            tolerance=self.tolerance,
            top=parse_top(getattr(self, UNTIL, None)),
            **options,
        ).with_answers(getattr(self, "answers", None))


@settings_class
class CertifyingSettings(SamplingSettings):
    """Settings of methods that sample masks until the strongest features are certain."""

    until: Annotated[str | None, Top] = None


def fit_sample_size(settings: Any, d: int, calls: int, *, count: str = "samples") -> Any:
    """Return the settings with the samples that a number of calls allows for ``d`` features.

    Parameters
    ----------
    settings
        Settings with a ``sample_size``.
    d
        Number of features.
    calls
        Model calls that may be made.
    count
        Name of the setting that holds the number of samples.

    Returns
    -------
    A copy of the settings with the number of samples.
    """
    samples = settings.sample_size.count_for_calls(calls, d)
    fitted = replace(settings, **{count: samples, f"max_{count}": samples})
    if fitted.sample_size.top is None or fitted.sample_size.covers_all_masks(d):
        return fitted
    # The sample starts small and grows up to this number.
    return replace(fitted, **{count: replace(fitted.sample_size, count=None).initial_count(d)})


def answers_implementation(sampled: Implementation, *, answers: int = 1) -> Implementation:
    """Return an implementation for models with random outputs, from one for other models.

    Parameters
    ----------
    sampled
        The implementation for other models. Its method must have the setting ``answers``, and
        evaluate masks anew for each independent draw.
    answers
        Default of this setting.
    """
    return replace(
        sampled,
        needs="agreement",
        settings={**sampled.settings, "answers": _ANSWERS},
        defaults={**sampled.defaults, "answers": answers},
    )


_ANSWERS = "number of answers for each masked text. If all masks are evaluated, as many as fit"


def sampled_implementation(
    explain: Callable[[Any, Batch], Attribution],
    settings: Mapping[str, str],
    *,
    count: str = "samples",
    max_count: int | None = None,
    fit: Callable[[Any, int, int], Any] | None = None,
    check: Callable[[Any, int], None] | None = None,
    overhead: float = 0.0,
    summary: str = "",
    certifies: bool = False,
) -> Implementation:
    """Return an implementation for any model that samples masks or orders.

    Settings of such a method have a property ``sample_size``, by which it keeps within a budget.

    Parameters
    ----------
    explain
        Returns the ``Attribution`` for the only input of a ``Batch``.
    settings
        Meanings of the settings, by name. ``replacement`` and ``seed`` have theirs already, and so
        have the tolerance and largest number of samples, unless there is a ``max_count``.
    count
        Name of the setting that holds the number of samples.
    max_count
        Largest number of samples of a method that draws a fixed number, without a tolerance.
    fit
        Returns the settings that a number of calls allows; None means :func:`fit_sample_size`.
    check
        Raises a ``DomainError`` if the settings cannot work for a number of features.
    overhead
        Seconds that the method itself needs for each call and feature.
    summary
        The cost in words, if it differs from that of the method.
    certifies
        Whether the settings have a field ``until``, with which sampling stops once the strongest
        features are certain.

    Returns
    -------
    The implementation, for `register_method`.
    """
    budget_settings, meanings = [count], dict(settings)
    meanings |= {name: MEANINGS[name] for name in ("replacement", "seed")}
    if max_count is None:
        budget_settings += [f"max_{count}", "tolerance"]
        meaning = f"largest standard error. None: stop at `{count}`"
        noun = "masks" if count == "samples" else count
        meanings |= {"tolerance": meaning, f"max_{count}": f"largest number of {noun} to draw"}
    if certifies:
        meanings["until"] = "sample until the strongest features are certain, such as 'top 3'"

    def fit_count(settings: Any, d: int, calls: int) -> Any:
        """Return the settings with as many samples as the calls allow."""
        if max_count is None:
            return fit_sample_size(settings, d, calls, count=count)
        samples = settings.sample_size.count_for_calls(calls, d)
        return replace(settings, **{count: min(samples, max_count)})

    return Implementation(
        exactness="sampled",
        explain=per_input(explain),
        settings=meanings,
        cost=Cost(
            calls=lambda settings, d: settings.sample_size.calls(d),
            minimum=lambda settings, d: settings.sample_size.minimum_calls(d),
            settings=tuple(budget_settings),
            fit=fit_count if fit is None else fit,
            overhead=overhead,
            check=check,
            summary=summary,
        ),
    )
