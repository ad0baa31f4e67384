"""Two small networks fitted to noisy values of words, and how far off they are on other texts."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from limelight.explainers.learned import (
    LEAST_ERROR,
    LearnedMethod,
    NetworkInputs,
    error_design,
    text_summary,
)
from limelight.results.comparison import rank_correlation
from limelight.sampling.spread import half_quantile
from limelight.shapes import Bool, Float, Int
from limelight.training.run import usable_device

_HIDDEN = 256
_EPOCHS, _PATIENCE, _BATCH, _STEPS = 80, 8, 1024, 16  # words in a step, least steps of an epoch
_RATE, _DECAY, _DROPPED = 1e-3, 0.02, 0.1
_STEADY = 0.02  # of each step's weights in their running mean, which is steadier than any of them
_KEPT = 0.5  # of the variance of scores, as a first guess of what the network will not explain
_AXES = 32  # along which the states of a text are compared with those of others
_ROOM = 1.1
_NONE = np.array([-60.0, 0.0, 0.0, 0.0])  # e^−60: nothing beside any other error
_COVERED, _QUANTILE = 0.95, 1.959964  # what ±2 standard errors hold, and in normal deviations
_SURE = 1.3  # standard errors of a mean, beyond which it is once in ten times
_SLOPES = np.array([0.0, 0.5, 0.0, 0.0])  # of errors where texts cannot show them
_HOLD, _COUNTED = 4.0, 4  # how firmly, 1/0.5²; and as how many words a text counts
HELD = 0.2  # of the texts, kept aside
_LEAST_HELD, _MOST_HELD = 4, 200
_TUNED = 0.25  # of these: fitting stops by them, and errors are fitted to them
_CALIBRATING = 19  # texts, the fewest with a guarantee of 95 %: 19/20 of 20 with a further one
_GUARANTEED = 123  # texts, of which as many are left to calibrate


@dataclass(frozen=True, eq=False)
class Examples:
    """Texts with their signals and sampled values: N features of n texts, C outputs.

    ``spread`` is the variance of one draw, NaN where there is one only, and ``draws`` how many a
    value is the mean of. ``by_word`` is whether the word itself is a signal.
    """

    network_inputs: NetworkInputs
    values: Float[np.ndarray, "N C"]
    spread: Float[np.ndarray, "N C"]
    draws: Int[np.ndarray, " N"]
    by_word: bool

    @property
    def noise(self) -> Float[np.ndarray, "N C"]:
        """The squared standard errors of the values."""
        return self.spread / self.draws[:, None]

    @property
    def n(self) -> int:
        """Number of texts."""
        return len(self.network_inputs.texts)

    def standard(self, learned: LearnedMethod) -> "Examples":
        """Return the same in standard signals and in units of usual scores."""
        scale, network_inputs = learned.arrays["scale"], learned.standard(self.network_inputs)
        # Draws are stored in single precision; a gain of exactly 0 must not come out as a rounding.
        values, spread = (self.values / scale).astype(float), self.spread.astype(float) / scale**2
        return replace(self, network_inputs=network_inputs, values=values, spread=spread)

    def only(self, texts: Int[np.ndarray, " m"]) -> "Examples":
        """Return some of the texts, in that order."""
        words, of_texts, owner, word = self.network_inputs
        starts = np.searchsorted(owner, np.arange(self.n + 1))
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in texts])
        number = np.repeat(np.arange(len(texts)), np.diff(starts)[texts])
        network_inputs = NetworkInputs(words[rows], of_texts[texts], number, word[rows])
        values, spread, draws = (one[rows] for one in (self.values, self.spread, self.draws))
        return Examples(network_inputs, values, spread, draws, self.by_word)

    def means(self, x: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "n C"]:
        """Return the mean of ``x`` over the features of each text."""
        owner, n = self.network_inputs.owner, self.n
        sums = [np.bincount(owner, c, minlength=n) for c in x.T]
        return np.stack(sums, axis=1) / np.bincount(owner, minlength=n)[:, None]


class HeldOut(NamedTuple):
    """Which examples are held out, and which of these tune the fit or calibrate its errors.

    ``text`` is the number of the text that an example is of: several places of one text, say, are
    not independent of each other.
    """

    held: Bool[np.ndarray, " n"]
    tunes: Bool[np.ndarray, " n"]
    calibrates: Bool[np.ndarray, " n"]
    text: Int[np.ndarray, " n"]

    @staticmethod
    def draw(text: Int[np.ndarray, " n"], seed: int) -> "HeldOut":
        """Return a fifth of the texts, at random: a quarter to tune with, the others calibrate.

        Where these would be too few for a guarantee, all of them do both.
        """
        n = int(text.max(initial=-1)) + 1
        count = min(max(round(HELD * n), _LEAST_HELD), _MOST_HELD)
        order = np.random.default_rng([seed, n]).permutation(n)[:count]
        held, tuned = np.isin(text, order), round(_TUNED * count)
        if count - tuned < _CALIBRATING:
            # Fitting that stopped by two texts learned nothing of 30 texts with several places.
            return HeldOut(held, held, held, text)
        calibrates = np.isin(text, order[tuned:])
        return HeldOut(held, held & ~calibrates, calibrates, text)

    def only(self, examples: Sequence[int]) -> "HeldOut":
        """Return the same of some of the examples."""
        return HeldOut(*(values[list(examples)] for values in self))


def fit_examples(
    examples: Examples,
    held_out: HeldOut,
    *,
    seed: int,
    of: str = "texts",
    curve: bool = True,
    heard: Callable[[float], None] | None = None,
) -> LearnedMethod:
    """Return the networks fitted to the texts that are not held out, their errors and a report.

    Parameters
    ----------
    examples
        All texts with their signals and sampled values.
    held_out
        Which of them are held out. Fitting stops by those that tune it.
    seed
        The same seed gives the same networks.
    of
        What the examples are called in the report: "texts", or "places" of texts, say.
    curve
        Fit one network also to a half and to a quarter of the texts.
    heard
        Called with the part of the work that is done.
    """
    held, tunes, calibrates, text = held_out
    units = "texts" if of in ("places", "answers") else of
    order = np.random.default_rng([seed, 1]).permutation(np.flatnonzero(~held))
    arrays, reached, n = _standards(examples.only(np.sort(order))), dict[int, float](), len(order)
    examples = examples.standard(LearnedMethod({}, arrays))
    aside, words = examples.only(np.flatnonzero(held)), len(arrays["vocabulary"]) + 1
    # What calibrates must have no part in anything else, or a further text is not like it. Where
    # nothing is guaranteed, it tunes too.
    tuning, calibration, uncalibrated = (
        examples.only(np.flatnonzero(some)) for some in (tunes, calibrates, tunes | ~held)
    )
    fits = [(1, n), (0, n)] if not curve else [(0, n // 4), (0, n // 2), (1, n), (0, n)]
    for done, (member, count) in enumerate(fits):
        some = examples.only(np.sort(order[:count]))
        weights = _fit_member(some, tuning, words=words, seed=seed + member)
        if member == 0:  # which stands for both: scores are the mean of two
            fitted = arrays | {f"{k}.{name}": x for k in (0, 1) for name, x in weights.items()}
            reached[count] = explained(
                LearnedMethod({}, fitted).members(aside.network_inputs)[0], aside
            )
        if count == n:
            arrays |= {f"{member}.{name}": array for name, array in weights.items()}
        if heard is not None:
            heard((done + 1) / len(fits))
    learned = LearnedMethod({}, arrays)
    members = learned.members(aside.network_inputs)
    values = members.mean(axis=0)
    arrays["draws"] = _draw_spread(learned, uncalibrated)
    noise = _noise_model(learned, uncalibrated)
    # How noise is spread over words is modelled; how much there is, is what these texts show.
    drawn = np.isfinite(uncalibrated.noise)
    level = np.mean(uncalibrated.noise[drawn]) / max(np.mean(noise[drawn]), 1e-300)
    known = level * _noise_model(learned, tuning) + learned.unseen(tuning.network_inputs)[:, None]
    arrays["errors"] = _error_model(learned.members(tuning.network_inputs), tuning, known)
    coverage = _calibrated(
        learned.members(calibration.network_inputs),
        calibration,
        arrays["errors"],
        noise=level * _noise_model(learned, calibration),
        constant=learned.unseen(calibration.network_inputs)[:, None] + LEAST_ERROR**2,
        text=text[calibrates],
        apart=not (tunes & calibrates).any(),
    )
    arrays["errors"] = arrays["errors"] + np.array([np.log(coverage["factor"]), 0.0, 0.0, 0.0])
    # No guarantee rests on what one pair of orders says: there all texts may have a part in it.
    arrays["draws"] = _draw_spread(learned, examples)
    report: dict[str, Any] = {
        "texts": n,
        "held_out": aside.n,
        "r2": explained(values, aside),
        "rank_correlation": _rank_correlation(values, aside),
        "curve": [{"texts": count, "r2": reached[count]} for count in sorted(reached)],
        "coverage": coverage,
    }
    # How much nearer to the values than 0 is, text by text: their noise is in both and cancels.
    gain = aside.means(aside.values**2 - (aside.values - values) ** 2).mean(axis=1)
    if gain.mean() <= 2 * gain.std() / np.sqrt(len(gain)):
        nothing = "LEARNED NOTHING" if gain.mean() <= 0 else "NOT SHOWN THAT IT LEARNED ANYTHING"
        report["notice"] = (
            f"THE METHOD HAS {nothing}: on {aside.n} {of} that were kept aside its scores are not "
            f"clearly nearer to Shapley values than 0 is. Give more {of} or more pairs; until then "
            "use 'shapley'."
        )
    elif coverage["guarantee"] is None:
        report["notice"] = (
            f"Its standard errors have no guarantee: they rest on {coverage['texts']} {units} that "
            f"were kept aside, and 95 % needs {_CALIBRATING}. Learn from {_GUARANTEED} {units} or "
            "more."
        )
    # Beyond these a text is said to be unlike the others. Of few texts it is the largest, and
    # somewhat more: the next one may well lie beyond them.
    low, high = np.quantile(np.bincount(examples.network_inputs.owner)[~held], (0.005, 0.995))
    strange = learned.strangeness_of(aside.network_inputs)
    _, unseen, distance = _ROOM * np.quantile(strange, 0.99, axis=0, method="higher")
    usual = {
        "words": [int(low), int(np.ceil(high))],
        "unseen": float(unseen),
        "distance": float(distance),
    }
    return LearnedMethod({"report": report, "usual": usual}, arrays)


def _standards(training: Examples) -> dict[str, np.ndarray]:
    """Return means and deviations of the signals, the usual score, and where texts lie."""
    arrays: dict[str, np.ndarray] = {"vocabulary": np.unique(training.network_inputs.word)}
    for name, x in (
        ("words", training.network_inputs.words),
        ("texts", training.network_inputs.texts),
    ):
        arrays[f"{name}.mean"] = x.mean(axis=0, dtype=np.float64).astype(np.float32)
        deviation = x.std(axis=0, dtype=np.float64)
        arrays[f"{name}.scale"] = np.where(deviation > 1e-6, deviation, 1.0).astype(np.float32)
    usual = np.sqrt(np.mean(training.values**2, axis=0))
    arrays["scale"] = np.where(usual > 0, usual, 1.0)
    summary = text_summary(LearnedMethod({}, arrays).standard(training.network_inputs))
    arrays["center"] = summary.mean(axis=0)
    _, size, axes = np.linalg.svd(summary - arrays["center"], full_matrices=False)
    variance, k = np.maximum(size**2 / training.n, 1e-12), min(_AXES, -(-training.n // 4))
    arrays["axes"], arrays["spread"] = axes[:k] / np.sqrt(variance[:k, None]), variance[:k]
    arrays["rest"] = np.array([max(variance[k:].sum(), 1e-12)])
    return arrays


class _Network(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A linear map plus two hidden layers, from standard signals to scores in usual units."""

    def __init__(self, signals: int, outputs: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(signals, _HIDDEN)
        self.second = torch.nn.Linear(_HIDDEN, _HIDDEN)
        self.last = torch.nn.Linear(_HIDDEN, outputs)
        self.linear = torch.nn.Linear(signals, outputs, bias=False)
        for zero in (self.last.weight, self.last.bias, self.linear.weight):
            torch.nn.init.zeros_(zero)

    def forward(self, x: Any) -> Any:
        return self.linear(x) + self.last(torch.relu(self.second(torch.relu(self.first(x)))))


def _word_weights(
    word: Int[np.ndarray, " N"], values: Float[np.ndarray, "N C"], words: int
) -> Float[np.ndarray, "words C"]:
    """Return the mean value of every word, held back as its few occurrences ask for.

    By the variance within words against that between them: where a word always has the same value,
    as under an additive model, that is its weight; a word that does not occur has 0.
    """
    count = np.bincount(word, minlength=words)[:, None]
    sums = np.stack([np.bincount(word, c, minlength=words) for c in values.T], axis=1)
    mean = sums / np.maximum(count, 1)
    within = ((values - mean[word]) ** 2).sum(axis=0) / max(len(word) - np.sum(count > 0), 1)
    between = np.maximum(np.mean(mean[word] ** 2, axis=0) - within / count[word].mean(), 1e-300)
    return mean * count / np.maximum(count + within / between, 1e-300)


def _fit_member(
    training: Examples, tuning: Examples, *, words: int, seed: int
) -> dict[str, np.ndarray]:
    """Return the weights with the least error on the texts that fitting stops by.

    Examples are in standard units, and of so many ``words``.
    """
    device, straight = usable_device(None), None
    if training.by_word:
        straight = _word_weights(training.network_inputs.word, training.values, words)

    def tensors(of: Examples) -> list[Any]:
        """Signals, what words alone leave of the values, and weights, one row for each feature."""
        network_inputs, noise = of.network_inputs, of.means(of.noise)
        left = of.values if straight is None else of.values - straight[network_inputs.word]
        # Noise by texts: a spread from three draws of one word says little, of all words enough.
        size, drawn = of.means(of.values**2), np.isfinite(noise)
        usual = noise[drawn].sum() / max(size[drawn].sum(), 1e-12) if drawn.any() else 1.0
        weight = 1 / (_KEPT + np.where(drawn, noise, usual * size))
        x = np.concatenate(
            [network_inputs.words, network_inputs.texts[network_inputs.owner]], axis=1
        )
        found = (x, left, (weight / weight.mean())[network_inputs.owner])
        return [torch.as_tensor(one, device=device, dtype=torch.float32) for one in found]

    (x, y, weight), (other_x, other_y, other_weight) = tensors(training), tensors(tuning)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _Network(x.shape[1], y.shape[1]).to(device)
        steps = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=_DECAY)
        mean = torch.optim.swa_utils.AveragedModel(network, multi_avg_fn=_running)
        # It begins at 0, and what is no better is not kept: steps of Adam are as large on rounding.
        best = float((other_weight * other_y**2).mean())
        kept, waited = copy.deepcopy(network.state_dict()), 0
        for _ in range(_EPOCHS):
            for rows in torch.randperm(len(x)).split(max(1, min(_BATCH, len(x) // _STEPS))):
                there = ((torch.rand(x.shape[1]) >= _DROPPED).float() / (1 - _DROPPED)).to(device)
                rows = rows.to(device)
                loss = (weight[rows] * (network(x[rows] * there) - y[rows]) ** 2).mean()
                steps.zero_grad()
                loss.backward()
                steps.step()
                mean.update_parameters(network)
            with torch.no_grad():
                found = mean(other_x)
            error = float((other_weight * (found - other_y) ** 2).mean())
            waited += 1
            if error < best:
                best, waited = error, 0
                kept = copy.deepcopy(mean.module.state_dict())
            if waited >= _PATIENCE:
                break
    stored = {name: one.cpu().numpy() for name, one in kept.items()}
    if straight is not None:
        stored["word.weight"] = straight.astype(np.float32)
    return stored


def _running(mean: list[Any], new: list[Any], steps: Any) -> None:
    """Move the running mean of the weights, which is as long as the run while that is short."""
    torch._foreach_lerp_(mean, new, max(_STEADY, 1 / (float(steps) + 1)))


def explained(values: Float[np.ndarray, "N C"], truth: Examples) -> float:
    """Return R² of ``values`` about sampled ones, corrected for the noise of these."""
    wrong = np.mean((values - truth.values) ** 2, axis=0) - np.nanmean(truth.noise, axis=0)
    # Of all outputs together that are ever moved, each in its own units.
    there, moved = _real(truth), truth.values.any(axis=0)
    found = np.where(there > 0, 1 - np.maximum(wrong, 0.0) / np.maximum(there, 1e-300), 0.0)
    return float(found[moved].mean()) if moved.any() else 0.0


def _real(truth: Examples) -> Float[np.ndarray, " C"]:
    """Return the variance of the values that is no noise; 0 of an output that is constant."""
    return truth.values.var(axis=0, dtype=np.float64) - np.nanmean(truth.noise, axis=0)


def _rank_correlation(values: Float[np.ndarray, "N C"], truth: Examples) -> float:
    """Return the mean over texts of Spearman's coefficient, corrected for the noise of values."""
    # What is correlated with a noisy value loses the root of the share that is no noise.
    spread = truth.values.var(axis=0, dtype=np.float64)
    real = np.sqrt(np.clip(_real(truth) / np.where(spread > 0, spread, np.inf), 0.05, 1.0))
    found = []
    for i in range(truth.n):
        rows = truth.network_inputs.owner == i
        for c in range(values.shape[1] if rows.sum() > 2 else 0):
            if np.ptp(its := truth.values[rows, c]):  # otherwise there is no order to be found
                found.append((rank_correlation(values[rows, c], its) or 0.0) / real[c])
    return float(np.clip(np.mean(found), -1, 1)) if found else 0.0


def _error_model(
    members: Float[np.ndarray, "two N C"], truth: Examples, noise: Float[np.ndarray, "N C"]
) -> Float[np.ndarray, " 4"]:
    """Return how the variance of errors follows from size, disagreement and length.

    The squared distance of a score from a noisy value has as its mean the squared error of the
    score plus the noise.
    """
    design = error_design(members, truth.network_inputs.owner)
    squares = (members.mean(axis=0) - truth.values) ** 2
    theta = _log_linear(design, squares, noise, truth.n)
    # Few texts may show hardly more than noise: what their spread allows for is the least.
    left, degrees = truth.means(squares - noise).mean(axis=1), max(truth.n - 1, 1)
    (sure,) = _SURE * half_quantile(np.array([float(degrees)]))
    allowed = max(left.mean(), 0.0) + sure * left.std() / np.sqrt(degrees)
    theta[0] += np.log(max(1.0, allowed / np.exp(design @ theta).mean()))
    return theta


def _noise_model(learned: LearnedMethod, examples: Examples) -> Float[np.ndarray, "N C"]:
    """Return the variance that the number of draws leaves in each value, from all texts' spread."""
    design = error_design(learned.members(examples.network_inputs), examples.network_inputs.owner)
    return learned.draw(design) ** 2 / examples.draws[:, None]


def _calibrated(
    members: Float[np.ndarray, "two N C"],
    truth: Examples,
    theta: Float[np.ndarray, " 4"],
    *,
    noise: Float[np.ndarray, "N C"],
    constant: Float[np.ndarray, "N 1"] | float,
    text: Int[np.ndarray, " n"],
    apart: bool,
) -> dict[str, Any]:
    """Return the factor of squared errors by split conformal prediction, and what it reaches.

    ``docs/methods/learned.md`` proves what follows from 19 texts on: with stderr² = factor ·
    exp(xθ) + constant, a score lies within √(4 stderr² + 1.96² noise) of the sampled value for
    95 % of the words of a further text.

    Parameters
    ----------
    members
        What both networks say of the texts that calibrate.
    truth
        These texts with their sampled values.
    theta
        How the variance of errors follows from the scores, fitted to other texts.
    noise
        The variance of the sampled values, as it was modelled on other texts.
    constant
        What is added to each squared error, whatever the factor.
    text
        The number of the text that each of the examples is of.
    apart
        Whether these texts had no other part in the fit.
    """
    owner, scores = truth.network_inputs.owner, members.mean(axis=0)
    variance = np.exp(error_design(members, owner) @ theta)
    squares = (scores - truth.values) ** 2
    needed = (squares / 4 - _QUANTILE**2 / 4 * noise - constant) / variance
    _, bag = np.unique(text[owner], return_inverse=True)
    texts = int(bag.max()) + 1
    guaranteed = apart and texts >= _CALIBRATING
    # The further text is one of texts + 1, and may exceed everything. Of fewer texts the level
    # would be above 1, and their largest value makes errors twice as large as they need be.
    level = _COVERED * (texts + 1) / texts if guaranteed else _COVERED
    # Noise may hide an error that is larger than it looks, so it never makes errors smaller.
    factor = max(1.0, hierarchical_quantile(needed, bag, level))
    inside = needed.ravel() <= factor
    order = np.argsort(np.abs(scores).ravel(), kind="stable")
    deciles = [float(inside[part].mean()) for part in np.array_split(order, 10) if len(part)]
    return {
        "overall": float(inside.mean()),
        "deciles": deciles,
        "factor": factor,
        "texts": texts,
        "guarantee": _COVERED if guaranteed else None,
    }


def hierarchical_quantile(
    values: Float[np.ndarray, "N C"], bag: Int[np.ndarray, " N"], level: float
) -> float:
    """Return the least q that a part ``level`` of the values does not exceed, by weight.

    Every bag weighs the same, whatever is in it.
    """
    sizes = np.bincount(bag)
    weights = np.repeat(1 / (sizes[bag] * values.shape[1]), values.shape[1]) / len(sizes)
    order = np.argsort(values, axis=None)
    reached = np.cumsum(weights[order])
    place = int(np.searchsorted(reached, level - 1e-12))  # sums of thirds fall short of 1
    return float(values.ravel()[order[min(place, len(order) - 1)]])


def _draw_spread(learned: LearnedMethod, examples: Examples) -> Float[np.ndarray, " 4"]:
    """Return how the variance of one draw follows from the same as errors do.

    Of one word, the spread of two or three draws is itself mostly noise. Of all words of 20 texts,
    its slope in their length was wrong, and ±2 held 0.88 of draws; of all 100 texts, 0.95.
    """
    owner = examples.network_inputs.owner
    design = error_design(learned.members(examples.network_inputs), owner)
    # Two words have one pair of orders, and no spread; the last column is log d.
    seen = np.where(design[..., 3] > 1, examples.spread, np.nan)
    texts = len(np.unique(owner[np.isfinite(seen).any(axis=1)]))
    return _log_linear(design, seen, 0 * seen, texts) if np.nansum(seen) else _NONE


def _log_linear(
    design: Float[np.ndarray, "N C 4"],
    squares: Float[np.ndarray, "N C"],
    known: Float[np.ndarray, "N C"],
    texts: int,
) -> Float[np.ndarray, " 4"]:
    """Return θ of variances exp(xθ) + known that make normal ``squares`` most likely.

    Words of a text are alike, so a text counts as a few of them; slopes that so few texts cannot
    show stay near ``_SLOPES``. Left free, ten texts gave a power of disagreement of −4 to 12.
    """
    there = np.isfinite(squares) & np.isfinite(known)
    x, squares, known = design[there], squares[there], known[there]
    count, size = min(1.0, _COUNTED * texts / len(x)), np.mean(squares)
    penalty = _HOLD * np.diag([1e-6, 1.0, 1.0, 1.0])
    own = max(size - np.mean(known), 0.01 * size, 1e-12)
    theta = _SLOPES + np.array([np.log(own / np.mean(np.exp(x @ _SLOPES))), 0.0, 0.0, 0.0])

    def unlikely(theta: Float[np.ndarray, " 4"]) -> float:
        whole, off = np.exp(np.clip(x @ theta, -60, 60)) + known + 1e-300, theta - _SLOPES
        return float(count * np.sum(np.log(whole) + squares / whole) + off @ penalty @ off) / 2

    for _ in range(100):  # Fisher scoring, by half a step and less where it goes too far
        own = np.exp(np.clip(x @ theta, -60, 60))
        share = own / (own + known + 1e-300)
        slope = count * x.T @ ((squares / (own + known + 1e-300) - 1) * share) / 2
        bent = count * (x * (share**2)[:, None]).T @ x / 2 + penalty + 1e-9 * np.eye(4)
        step = np.linalg.solve(bent, slope - penalty @ (theta - _SLOPES))
        now = unlikely(theta)
        steps = (theta + step / 2**k for k in range(12))
        theta = next((one for one in steps if unlikely(one) < now), theta)
        if now - unlikely(theta) < 1e-7:
            break
    return theta
