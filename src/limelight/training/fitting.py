"""Fit two small networks to sampled Shapley values, and estimate their errors on other texts."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from limelight.explainers.learned import (
    MIN_ERROR,
    LearnedMethod,
    NetworkInputs,
    error_design,
    summarize_texts,
)
from limelight.results.comparison import rank_correlation
from limelight.sampling.spread import small_sample_factor
from limelight.shapes import Bool, Float, Int
from limelight.training.train_classifier import usable_device

_HIDDEN = 256
_EPOCHS, _PATIENCE = 80, 8
_BATCH, _MIN_STEPS = 1024, 16  # words in a step, and steps of an epoch at least
_LEARNING_RATE, _WEIGHT_DECAY, _DROPOUT = 1e-3, 0.02, 0.1
# Weight of each step in the running mean of the weights, which fluctuates less than the weights.
_AVERAGING = 0.02
_UNEXPLAINED = 0.5  # of the variance of scores: a first guess of the part that a network misses
_AXES = 32  # along which the hidden states of a text are compared with those of others
_MARGIN = 1.1
_NO_ERROR = np.array([-60.0, 0.0, 0.0, 0.0])  # e^−60 is negligible next to any other error
_COVERAGE, _QUANTILE = 0.95, 1.959964  # the level of ±2 standard errors, as normal deviations
_CAUTION = 1.3  # standard errors of a mean; the mean exceeds them once in ten times
_DEFAULT_SLOPES = np.array([0.0, 0.5, 0.0, 0.0])  # of errors, if texts cannot show them
# How strongly slopes stay near the defaults (1/0.5²), and the number of words a text counts as.
_SLOPE_PENALTY, _WORDS_PER_TEXT = 4.0, 4
HELD_OUT_SHARE = 0.2  # of the texts
_MIN_HELD_OUT, _MAX_HELD_OUT = 4, 200
# The part of the held-out texts that stops the fit, and that the error model is fitted to.
_TUNING_SHARE = 0.25
_CALIBRATING = 19  # texts, the minimum for a guarantee of 95 %: 19/20 of 20 with another one
_GUARANTEED = 123  # texts that leave enough texts to calibrate


@dataclass(frozen=True, eq=False)
class Examples:
    """Texts with the inputs of the networks and sampled Shapley values.

    There are N features in n texts, and C outputs.

    Parameters
    ----------
    network_inputs
        The inputs of the networks.
    values
        The mean of the sampled values of each feature.
    draw_variance
        The variance of a single draw, NaN if there is only one.
    draw_counts
        The number of draws behind each value.
    by_word
        Whether the word itself is an input.
    """

    network_inputs: NetworkInputs
    values: Float[np.ndarray, "N C"]
    draw_variance: Float[np.ndarray, "N C"]
    draw_counts: Int[np.ndarray, " N"]
    by_word: bool

    @property
    def noise(self) -> Float[np.ndarray, "N C"]:
        """The squared standard errors of the values."""
        return self.draw_variance / self.draw_counts[:, None]

    @property
    def text_count(self) -> int:
        """Number of texts."""
        return len(self.network_inputs.texts)

    def standardize(self, learned: LearnedMethod) -> "Examples":
        """Return the examples with standardized inputs, and values in units of typical scores."""
        scale, network_inputs = (
            learned.arrays["scale"],
            learned.standardize_inputs(self.network_inputs),
        )
        # Draws are stored in single precision. A gain of exactly 0 must not become a rounding
        # error.
        return replace(
            self,
            network_inputs=network_inputs,
            values=(self.values / scale).astype(float),
            draw_variance=self.draw_variance.astype(float) / scale**2,
        )

    def select(self, texts: Int[np.ndarray, " m"]) -> "Examples":
        """Return the examples of some of the texts, in the order of ``texts``."""
        words, text_inputs, owner, word = self.network_inputs
        starts = np.searchsorted(owner, np.arange(self.text_count + 1))
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in texts])
        numbers = np.repeat(np.arange(len(texts)), np.diff(starts)[texts])
        network_inputs = NetworkInputs(words[rows], text_inputs[texts], numbers, word[rows])
        return Examples(
            network_inputs,
            self.values[rows],
            self.draw_variance[rows],
            self.draw_counts[rows],
            self.by_word,
        )

    def text_means(self, x: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "n C"]:
        """Return the mean of ``x`` over the features of each text."""
        owner, n = self.network_inputs.owner, self.text_count
        sums = [np.bincount(owner, c, minlength=n) for c in x.T]
        return np.stack(sums, axis=1) / np.bincount(owner, minlength=n)[:, None]


class HeldOut(NamedTuple):
    """Which examples are held out, and which of these tune the fit or calibrate its errors.

    ``text`` is the number of the text of each example. Several spans of one text, for example, are
    not independent of each other.
    """

    is_held_out: Bool[np.ndarray, " n"]
    tunes: Bool[np.ndarray, " n"]
    calibrates: Bool[np.ndarray, " n"]
    text: Int[np.ndarray, " n"]

    @staticmethod
    def draw(text: Int[np.ndarray, " n"], seed: int) -> "HeldOut":
        """Hold out a random fifth of the texts: a quarter of it tunes, and the others calibrate.

        If the others are too few for a guarantee, all held-out texts do both.
        """
        n = int(text.max(initial=-1)) + 1
        count = min(max(round(HELD_OUT_SHARE * n), _MIN_HELD_OUT), _MAX_HELD_OUT)
        order = np.random.default_rng([seed, n]).permutation(n)[:count]
        is_held_out, tuning_count = np.isin(text, order), round(_TUNING_SHARE * count)
        if count - tuning_count < _CALIBRATING:
            # A fit that was stopped by two texts learned nothing from 30 texts with several spans.
            return HeldOut(is_held_out, is_held_out, is_held_out, text)
        calibrates = np.isin(text, order[tuning_count:])
        return HeldOut(is_held_out, is_held_out & ~calibrates, calibrates, text)

    def select(self, examples: Sequence[int]) -> "HeldOut":
        """Return the same for some of the examples."""
        return HeldOut(*(values[list(examples)] for values in self))


def fit_examples(
    examples: Examples,
    held_out: HeldOut,
    *,
    seed: int,
    noun: str = "texts",
    curve: bool = True,
    on_progress: Callable[[float], None] | None = None,
) -> LearnedMethod:
    """Fit two networks to the texts that are not held out, and estimate their errors.

    Parameters
    ----------
    examples
        All texts with the inputs of the networks and sampled values.
    held_out
        Which of them are held out. Those that tune the fit decide when it stops.
    seed
        The same seed gives the same networks.
    noun
        Name of the examples in the report: "texts", or "places" of texts, for example.
    curve
        Fit one network also to a half and to a quarter of the texts.
    on_progress
        Called with the part of the work that is done.

    Returns
    -------
    The networks, their error model, and a report.
    """
    is_held_out, tunes, calibrates, text = held_out
    texts_noun = "texts" if noun in ("places", "answers") else noun
    order = np.random.default_rng([seed, 1]).permutation(np.flatnonzero(~is_held_out))
    arrays = _fit_standardization(examples.select(np.sort(order)))
    r2_by_count, n = dict[int, float](), len(order)
    examples = examples.standardize(LearnedMethod({}, arrays))
    test = examples.select(np.flatnonzero(is_held_out))
    word_count = len(arrays["vocabulary"]) + 1
    # Texts that calibrate must have no other part in the fit. Otherwise another text is not like
    # them. If there is no guarantee, they tune too.
    tuning, calibration, uncalibrated = (
        examples.select(np.flatnonzero(selected))
        for selected in (tunes, calibrates, tunes | ~is_held_out)
    )
    fits = [(1, n), (0, n)] if not curve else [(0, n // 4), (0, n // 2), (1, n), (0, n)]
    for done, (member, count) in enumerate(fits):
        training = examples.select(np.sort(order[:count]))
        weights = _fit_member(training, tuning, word_count=word_count, seed=seed + member)
        if member == 0:  # it represents both networks: scores are the mean of two
            duplicated = {f"{k}.{name}": x for k in (0, 1) for name, x in weights.items()}
            single = LearnedMethod({}, arrays | duplicated)
            r2_by_count[count] = noise_corrected_r_squared(
                single.member_scores(test.network_inputs)[0], test
            )
        if count == n:
            arrays |= {f"{member}.{name}": array for name, array in weights.items()}
        if on_progress is not None:
            on_progress((done + 1) / len(fits))
    learned = LearnedMethod({}, arrays)
    members = learned.member_scores(test.network_inputs)
    values = members.mean(axis=0)
    arrays["draws"] = _fit_draw_variance(learned, uncalibrated)
    noise = _modeled_noise(learned, uncalibrated)
    # The model says how noise is distributed over words. These texts show how much there is.
    is_drawn = np.isfinite(uncalibrated.noise)
    level = np.mean(uncalibrated.noise[is_drawn]) / max(np.mean(noise[is_drawn]), 1e-300)
    tuning_noise = level * _modeled_noise(learned, tuning)
    known_variance = tuning_noise + learned.unseen_variance(tuning.network_inputs)[:, None]
    tuning_members = learned.member_scores(tuning.network_inputs)
    arrays["errors"] = _fit_error_model(tuning_members, tuning, known_variance)
    coverage = _calibrate(
        learned.member_scores(calibration.network_inputs),
        calibration,
        arrays["errors"],
        noise=level * _modeled_noise(learned, calibration),
        constant=learned.unseen_variance(calibration.network_inputs)[:, None] + MIN_ERROR**2,
        text=text[calibrates],
        is_independent=not (tunes & calibrates).any(),
    )
    arrays["errors"] = arrays["errors"] + np.array([np.log(coverage["factor"]), 0.0, 0.0, 0.0])
    # No guarantee depends on the variance of one pair of orders, so all texts may be used for it.
    arrays["draws"] = _fit_draw_variance(learned, examples)
    report: dict[str, Any] = {
        "texts": n,
        "held_out": test.text_count,
        "r2": noise_corrected_r_squared(values, test),
        "rank_correlation": _mean_rank_correlation(values, test),
        "curve": [{"texts": count, "r2": r2_by_count[count]} for count in sorted(r2_by_count)],
        "coverage": coverage,
    }
    # How much nearer the scores are to the values than 0 is, per text. The noise of the values is
    # in both distances and cancels.
    gain = test.text_means(test.values**2 - (test.values - values) ** 2).mean(axis=1)
    if gain.mean() <= 2 * gain.std() / np.sqrt(len(gain)):
        finding = "LEARNED NOTHING" if gain.mean() <= 0 else "NOT SHOWN THAT IT LEARNED ANYTHING"
        report["warning"] = (
            f"THE METHOD HAS {finding}: on {test.text_count} held-out {noun} its scores "
            f"are not clearly nearer to Shapley values than 0 is. Give more {noun} or more "
            "pairs. Until then, use 'shapley'."
        )
    elif coverage["guarantee"] is None:
        report["warning"] = (
            f"Its standard errors have no guarantee: they rest on {coverage['texts']} held-out "
            f"{texts_noun}, and 95 % needs {_CALIBRATING}. Learn from {_GUARANTEED} "
            f"{texts_noun} or more."
        )
    # A text beyond these limits is reported as unlike the others. For few texts the limit is the
    # largest text plus a margin, because the next text may well lie beyond it.
    low, high = np.quantile(
        np.bincount(examples.network_inputs.owner)[~is_held_out], (0.005, 0.995)
    )
    novelty = learned.measure_novelty(test.network_inputs)
    _, unseen, distance = _MARGIN * np.quantile(novelty, 0.99, axis=0, method="higher")
    usual = {
        "words": [int(low), int(np.ceil(high))],
        "unseen": float(unseen),
        "distance": float(distance),
    }
    return LearnedMethod({"report": report, "usual": usual}, arrays)


def _fit_standardization(training: Examples) -> dict[str, np.ndarray]:
    """Return means and deviations of the inputs, the typical score, and the region of the texts."""
    arrays: dict[str, np.ndarray] = {"vocabulary": np.unique(training.network_inputs.word)}
    for name, x in (
        ("words", training.network_inputs.words),
        ("texts", training.network_inputs.texts),
    ):
        arrays[f"{name}.mean"] = x.mean(axis=0, dtype=np.float64).astype(np.float32)
        deviation = x.std(axis=0, dtype=np.float64)
        arrays[f"{name}.scale"] = np.where(deviation > 1e-6, deviation, 1.0).astype(np.float32)
    typical_score = np.sqrt(np.mean(training.values**2, axis=0))
    arrays["scale"] = np.where(typical_score > 0, typical_score, 1.0)
    summary = summarize_texts(LearnedMethod({}, arrays).standardize_inputs(training.network_inputs))
    arrays["center"] = summary.mean(axis=0)
    _, size, axes = np.linalg.svd(summary - arrays["center"], full_matrices=False)
    variance = np.maximum(size**2 / training.text_count, 1e-12)
    k = min(_AXES, -(-training.text_count // 4))
    arrays["axes"], arrays["spread"] = axes[:k] / np.sqrt(variance[:k, None]), variance[:k]
    arrays["outside_variance"] = np.array([max(variance[k:].sum(), 1e-12)])
    return arrays


class _Network(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A linear map plus two hidden layers, from standardized inputs to scores in typical units."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(inputs, _HIDDEN)
        self.second = torch.nn.Linear(_HIDDEN, _HIDDEN)
        self.last = torch.nn.Linear(_HIDDEN, outputs)
        self.linear = torch.nn.Linear(inputs, outputs, bias=False)
        for zero in (self.last.weight, self.last.bias, self.linear.weight):
            torch.nn.init.zeros_(zero)

    def forward(self, x: Any) -> Any:
        """Return scores for rows of inputs."""
        return self.linear(x) + self.last(torch.relu(self.second(torch.relu(self.first(x)))))


def _word_weights(
    word: Int[np.ndarray, " N"], values: Float[np.ndarray, "N C"], word_count: int
) -> Float[np.ndarray, "word_count C"]:
    """Return the mean value of every word, shrunk towards 0 if the word occurs rarely.

    The variance within words is compared with that between words. If a word always has the same
    value, as under an additive model, its weight is that value. A word that does not occur has 0.
    """
    count = np.bincount(word, minlength=word_count)[:, None]
    sums = np.stack([np.bincount(word, c, minlength=word_count) for c in values.T], axis=1)
    mean = sums / np.maximum(count, 1)
    within = ((values - mean[word]) ** 2).sum(axis=0) / max(len(word) - np.sum(count > 0), 1)
    between = np.maximum(np.mean(mean[word] ** 2, axis=0) - within / count[word].mean(), 1e-300)
    return mean * count / np.maximum(count + within / between, 1e-300)


def _fit_member(
    training: Examples, tuning: Examples, *, word_count: int, seed: int
) -> dict[str, np.ndarray]:
    """Return the weights of one network with the smallest error on the texts of ``tuning``.

    The examples are standardized. ``word_count`` is the number of words with a weight of their own.
    """
    device, word_weights = usable_device(None), None
    if training.by_word:
        word_weights = _word_weights(training.network_inputs.word, training.values, word_count)

    def make_tensors(examples: Examples) -> list[Any]:
        """Return inputs, values minus word weights, and weights, one row for each feature."""
        network_inputs, noise = examples.network_inputs, examples.text_means(examples.noise)
        residuals = examples.values
        if word_weights is not None:
            residuals = examples.values - word_weights[network_inputs.word]
        # Noise per text: the variance of three draws of one word shows little, of all words enough.
        size, is_drawn = examples.text_means(examples.values**2), np.isfinite(noise)
        relative_noise = 1.0
        if is_drawn.any():
            relative_noise = noise[is_drawn].sum() / max(size[is_drawn].sum(), 1e-12)
        weight = 1 / (_UNEXPLAINED + np.where(is_drawn, noise, relative_noise * size))
        x = np.concatenate(
            [network_inputs.words, network_inputs.texts[network_inputs.owner]], axis=1
        )
        arrays = (x, residuals, (weight / weight.mean())[network_inputs.owner])
        return [torch.as_tensor(array, device=device, dtype=torch.float32) for array in arrays]

    x, y, weight = make_tensors(training)
    tuning_x, tuning_y, tuning_weight = make_tensors(tuning)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _Network(x.shape[1], y.shape[1]).to(device)
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY
        )
        mean = torch.optim.swa_utils.AveragedModel(network, multi_avg_fn=_update_running_mean)
        # The scores are 0 at the start, and weights that are no better are not stored: Adam takes
        # equally large steps on rounding errors.
        best = float((tuning_weight * tuning_y**2).mean())
        best_weights, waited = copy.deepcopy(network.state_dict()), 0
        for _ in range(_EPOCHS):
            for rows in torch.randperm(len(x)).split(max(1, min(_BATCH, len(x) // _MIN_STEPS))):
                mask = ((torch.rand(x.shape[1]) >= _DROPOUT).float() / (1 - _DROPOUT)).to(device)
                rows = rows.to(device)
                loss = (weight[rows] * (network(x[rows] * mask) - y[rows]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                mean.update_parameters(network)
            with torch.no_grad():
                predictions = mean(tuning_x)
            error = float((tuning_weight * (predictions - tuning_y) ** 2).mean())
            waited += 1
            if error < best:
                best, waited = error, 0
                best_weights = copy.deepcopy(mean.module.state_dict())
            if waited >= _PATIENCE:
                break
    arrays = {name: tensor.cpu().numpy() for name, tensor in best_weights.items()}
    if word_weights is not None:
        arrays["word.weight"] = word_weights.astype(np.float32)
    return arrays


def _update_running_mean(mean: list[Any], new: list[Any], steps: Any) -> None:
    """Update the running mean of the weights, which covers all steps at the beginning."""
    torch._foreach_lerp_(mean, new, max(_AVERAGING, 1 / (float(steps) + 1)))


def noise_corrected_r_squared(values: Float[np.ndarray, "N C"], truth: Examples) -> float:
    """Return R² of ``values`` against sampled values, corrected for the noise of the sampling."""
    wrong = np.mean((values - truth.values) ** 2, axis=0) - np.nanmean(truth.noise, axis=0)
    # The mean over all outputs that are not always 0, each in its own units.
    signal, is_used = _signal_variance(truth), truth.values.any(axis=0)
    r2 = np.where(signal > 0, 1 - np.maximum(wrong, 0.0) / np.maximum(signal, 1e-300), 0.0)
    return float(r2[is_used].mean()) if is_used.any() else 0.0


def _signal_variance(truth: Examples) -> Float[np.ndarray, " C"]:
    """Return the variance of the values without their noise; 0 for a constant output."""
    return truth.values.var(axis=0, dtype=np.float64) - np.nanmean(truth.noise, axis=0)


def _mean_rank_correlation(values: Float[np.ndarray, "N C"], truth: Examples) -> float:
    """Return the mean over texts of Spearman's coefficient, corrected for the noise of values."""
    # The correlation with a noisy value is smaller by the root of the share of signal.
    variance = truth.values.var(axis=0, dtype=np.float64)
    share = _signal_variance(truth) / np.where(variance > 0, variance, np.inf)
    reliability = np.sqrt(np.clip(share, 0.05, 1.0))
    correlations = []
    for i in range(truth.text_count):
        rows = truth.network_inputs.owner == i
        for c in range(values.shape[1] if rows.sum() > 2 else 0):
            text_values = truth.values[rows, c]
            if np.ptp(text_values):  # a constant has no order
                correlation = rank_correlation(values[rows, c], text_values) or 0.0
                correlations.append(correlation / reliability[c])
    return float(np.clip(np.mean(correlations), -1, 1)) if correlations else 0.0


def _fit_error_model(
    members: Float[np.ndarray, "two N C"], truth: Examples, noise: Float[np.ndarray, "N C"]
) -> Float[np.ndarray, " 4"]:
    """Return coefficients of the variance of errors by size, disagreement and length.

    The mean of the squared distance of a score from a noisy value is the squared error of the score
    plus the noise.
    """
    design = error_design(members, truth.network_inputs.owner)
    squares = (members.mean(axis=0) - truth.values) ** 2
    theta = _fit_log_linear(design, squares, noise, truth.text_count)
    # Few texts may show hardly more than noise. The spread over texts gives a lower limit.
    residuals = truth.text_means(squares - noise).mean(axis=1)
    degrees = max(truth.text_count - 1, 1)
    (caution,) = _CAUTION * small_sample_factor(np.array([float(degrees)]))
    cautious_mean = max(residuals.mean(), 0.0) + caution * residuals.std() / np.sqrt(degrees)
    theta[0] += np.log(max(1.0, cautious_mean / np.exp(design @ theta).mean()))
    return theta


def _modeled_noise(learned: LearnedMethod, examples: Examples) -> Float[np.ndarray, "N C"]:
    """Return the variance of each value because of its few draws, from a model of all texts."""
    design = error_design(
        learned.member_scores(examples.network_inputs), examples.network_inputs.owner
    )
    return learned.draw_deviation(design) ** 2 / examples.draw_counts[:, None]


def _calibrate(
    members: Float[np.ndarray, "two N C"],
    truth: Examples,
    theta: Float[np.ndarray, " 4"],
    *,
    noise: Float[np.ndarray, "N C"],
    constant: Float[np.ndarray, "N 1"] | float,
    text: Int[np.ndarray, " n"],
    is_independent: bool,
) -> dict[str, Any]:
    """Return the factor of squared errors by split conformal prediction, and its coverage.

    ``docs/methods/learned.md`` proves the guarantee for 19 texts or more. With stderr² = factor ·
    exp(xθ) + constant, a score lies within √(4 stderr² + 1.96² noise) of the sampled value for
    95 % of the words of another text.

    Parameters
    ----------
    members
        The scores of both networks for the texts that calibrate.
    truth
        These texts with their sampled values.
    theta
        Coefficients of the variance of errors, fitted to other texts.
    noise
        The variance of the sampled values, from a model of other texts.
    constant
        A constant that is added to each squared error.
    text
        The number of the text of each example.
    is_independent
        Whether these texts had no other part in the fit.

    Returns
    -------
    The factor, the coverage of all scores and by size, the number of texts, and the guaranteed
    level, which is None without a guarantee.
    """
    owner, scores = truth.network_inputs.owner, members.mean(axis=0)
    variance = np.exp(error_design(members, owner) @ theta)
    squares = (scores - truth.values) ** 2
    needed = (squares / 4 - _QUANTILE**2 / 4 * noise - constant) / variance
    _, bag = np.unique(text[owner], return_inverse=True)
    texts = int(bag.max()) + 1
    is_guaranteed = is_independent and texts >= _CALIBRATING
    # The other text is one of texts + 1, and its error may be arbitrarily large. For fewer texts
    # the level would be above 1, and their largest value makes errors twice as large as necessary.
    level = _COVERAGE * (texts + 1) / texts if is_guaranteed else _COVERAGE
    # Noise may hide a larger error, so it never makes errors smaller.
    factor = max(1.0, hierarchical_quantile(needed, bag, level))
    is_covered = needed.ravel() <= factor
    order = np.argsort(np.abs(scores).ravel(), kind="stable")
    deciles = [float(is_covered[part].mean()) for part in np.array_split(order, 10) if len(part)]
    return {
        "overall": float(is_covered.mean()),
        "deciles": deciles,
        "factor": factor,
        "texts": texts,
        "guarantee": _COVERAGE if is_guaranteed else None,
    }


def hierarchical_quantile(
    values: Float[np.ndarray, "N C"], bag: Int[np.ndarray, " N"], level: float
) -> float:
    """Return the smallest q that a weighted part ``level`` of the values does not exceed.

    All bags have the same weight, whatever their size. ``bag`` is the number of the bag of each
    row.
    """
    sizes = np.bincount(bag)
    weights = np.repeat(1 / (sizes[bag] * values.shape[1]), values.shape[1]) / len(sizes)
    order = np.argsort(values, axis=None)
    cumulative = np.cumsum(weights[order])
    rank = int(np.searchsorted(cumulative, level - 1e-12))  # sums of thirds fall short of 1
    return float(values.ravel()[order[min(rank, len(order) - 1)]])


def _fit_draw_variance(learned: LearnedMethod, examples: Examples) -> Float[np.ndarray, " 4"]:
    """Return coefficients of the variance of one draw by size, disagreement and length.

    The variance of two or three draws of one word is itself mostly noise. With all words of 20
    texts, the slope in their length was wrong, and ±2 covered 0.88 of draws. With all 100 texts it
    covered 0.95.
    """
    owner = examples.network_inputs.owner
    design = error_design(learned.member_scores(examples.network_inputs), owner)
    # Two words have one pair of orders, and no variance. The last column is log d.
    variances = np.where(design[..., 3] > 1, examples.draw_variance, np.nan)
    texts = len(np.unique(owner[np.isfinite(variances).any(axis=1)]))
    if not np.nansum(variances):
        return _NO_ERROR
    return _fit_log_linear(design, variances, 0 * variances, texts)


def _fit_log_linear(
    design: Float[np.ndarray, "N C 4"],
    squares: Float[np.ndarray, "N C"],
    noise: Float[np.ndarray, "N C"],
    texts: int,
) -> Float[np.ndarray, " 4"]:
    """Return the maximum likelihood θ of the variances exp(xθ) + noise of normal ``squares``.

    Words of a text are similar, so a text counts as a few of them. Slopes that the texts cannot
    show stay near ``_DEFAULT_SLOPES``. Without this penalty, ten texts gave a power of disagreement
    of −4 to 12.
    """
    is_finite = np.isfinite(squares) & np.isfinite(noise)
    x, squares, noise = design[is_finite], squares[is_finite], noise[is_finite]
    count, size = min(1.0, _WORDS_PER_TEXT * texts / len(x)), np.mean(squares)
    penalty = _SLOPE_PENALTY * np.diag([1e-6, 1.0, 1.0, 1.0])
    variance = max(size - np.mean(noise), 0.01 * size, 1e-12)
    start = np.log(variance / np.mean(np.exp(x @ _DEFAULT_SLOPES)))
    theta = _DEFAULT_SLOPES + np.array([start, 0.0, 0.0, 0.0])

    def loss(theta: Float[np.ndarray, " 4"]) -> float:
        """Return the negative log-likelihood with the penalty."""
        total = np.exp(np.clip(x @ theta, -60, 60)) + noise + 1e-300
        shift = theta - _DEFAULT_SLOPES
        likelihood = count * np.sum(np.log(total) + squares / total)
        return float(likelihood + shift @ penalty @ shift) / 2

    for _ in range(100):  # Fisher scoring, with half steps and smaller ones if it goes too far
        variance = np.exp(np.clip(x @ theta, -60, 60))
        share = variance / (variance + noise + 1e-300)
        gradient = count * x.T @ ((squares / (variance + noise + 1e-300) - 1) * share) / 2
        information = count * (x * (share**2)[:, None]).T @ x / 2 + penalty + 1e-9 * np.eye(4)
        step = np.linalg.solve(information, gradient - penalty @ (theta - _DEFAULT_SLOPES))
        current = loss(theta)
        steps = (theta + step / 2**k for k in range(12))
        theta = next((candidate for candidate in steps if loss(candidate) < current), theta)
        if current - loss(theta) < 1e-7:
            break
    return theta
