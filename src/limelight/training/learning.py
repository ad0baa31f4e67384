"""``limelight.learn``: fit a method to sampled Shapley values of texts, for all other texts."""

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np

from limelight import __version__
from limelight.data.columns import read_texts
from limelight.data.files import is_table
from limelight.errors import InputError, read_all, short_repr, suggest_keywords
from limelight.explainers.batch import Batch, read_batch
from limelight.explainers.budget import BudgetInput, parse_budget
from limelight.explainers.explaining import as_list
from limelight.explainers.learned import (
    SIGNALS_WITH_STATES,
    SIGNALS_WITHOUT_STATES,
    STATES,
    LearnedMethod,
    NetworkInputs,
    make_network_inputs,
)
from limelight.explainers.method import select_implementation
from limelight.explainers.registry import METHODS
from limelight.files import (
    folder_lock,
    read_bounded_bytes,
    remove_abandoned_parts,
    write_atomically,
)
from limelight.judging import judge
from limelight.judging.estimate import measure_call_seconds, read_sample_batches
from limelight.models import (
    Model,
    are_opposite,
    class_weights,
    has,
    resolve_replacement,
)
from limelight.models.protocol import announce_calls, query_kind
from limelight.models.queries import distinct_queries, expand_texts
from limelight.models.text_game import TextGame
from limelight.progress import Estimate, ProgressCallback, ProgressTracker, open_progress
from limelight.request import Request, prepare_model
from limelight.results import Explanation
from limelight.sampling.masks import text_rng
from limelight.sampling.orders import draw_orders, evaluate_orders
from limelight.shapes import Bool, Float
from limelight.text import SIDES, Conversation, QueriedText, feature_noun, join_pair, pluralize
from limelight.theory.namespace import host_array
from limelight.threads import cached_property
from limelight.training.fitting import HELD_OUT_SHARE, Examples, HeldOut, fit_examples
from limelight.training.state import make_writable_folder

MIN_TEXTS = 20
_MAX_BYTES = 1 << 32  # of a file of sampled values
_BUSY = "another call of learn is writing to the folder"
_TEXTS_PER_PART = 8  # an interruption loses one part, about a minute of work
_JUDGING_SHARE = 0.25  # of the model calls for sampling: the calls that measuring the share may use


ShapleyDraws = Float[np.ndarray, "_pairs _C _d"]  # the values of each pair of orders, for one text


@suggest_keywords
def learn(
    model: Model,
    texts: Any,
    *,
    pairs: int = 3,
    features: str | None = None,
    answer: str | Sequence[str | None] | None = None,
    output: str | os.PathLike[str] | None = None,
    budget: BudgetInput | None = None,
    judged: int | None = None,
    seed: int = 0,
    progress: ProgressCallback | bool | None = None,
    estimate: Callable[[str], None] | None = None,
) -> LearnedMethod:
    """Fit a method that predicts Shapley values of a model in one forward pass.

    The Shapley values of ``texts`` are sampled with a few pairs of orders per text. A fifth of the
    texts is held out. Two small networks are fitted to the values of the other texts, from the
    hidden states of the model at each word, until the error on held-out texts no longer falls. The
    ``report`` of the result gives the accuracy. Use the result in place of a method name:
    ``limelight.explain(model, text, learned)``.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    texts
        At least 20 texts like those that you will explain. A few hundred are better. A list, or
        data as :func:`limelight.judge` takes them. Pairs of texts are tuples of two. For a model
        that finds spans, the method learns from every span of a text. For a model that reads
        images, give images. You can also give a run or its folder, or a list of explanations, with
        Shapley values of one class. Then nothing is sampled.
    pairs
        Pairs of orders per text, with 2 (d − 1) model calls each. A held-out text gets at least 2.
    features
        The features that get scores, by name, as in :func:`limelight.explain`.
    answer
        For a language model: the answers whose log-probability is explained, one for each text or
        one for all. Default: the answers that the model generates.
    output
        Folder for the method (``method.json`` and ``model.safetensors``) and for the sampled
        values. The same call continues an interrupted one.
    budget
        Limit for sampling, as a time or as "100000 calls". To stay within it, fewer pairs are
        sampled, and then fewer texts.
    judged
        Number of held-out texts on which the share is measured, as :func:`limelight.judge` does.
        Each takes about d²/2 model calls. Default: as many as take a quarter of the calls for
        sampling.
    seed
        The same seed gives the same method.
    progress
        Called with the number of finished texts and the total. Fitting counts as a quarter of all
        texts. By default, a progress bar appears after two seconds. True shows it at once, and
        False turns it off.
    estimate
        Called once before sampling, with a sentence about the number of calls and the time.

    Returns
    -------
    The learned method. ``save`` writes it to a folder, and ``report`` gives its accuracy.

    Raises
    ------
    InputError
        If an argument is invalid, if there are too few texts, if the Shapley values of the model
        are exact, or if the output folder belongs to a call with other arguments.

    Examples
    --------
    >>> import limelight
    >>> import numpy as np
    >>> def read_tone(texts):
    ...     tones = [text.count("superb") - text.count("dull") for text in texts]
    ...     return np.array([[-tone, tone] for tone in tones], dtype=float)
    >>> model = limelight.wrap(read_tone, classes=["bad", "good"], scale="logit")
    >>> words = ["superb", "dull", "long"]
    >>> texts = [f"a {word} film in {i} parts" for word in words for i in range(10)]
    >>> learned = limelight.learn(model, texts, judged=0)
    >>> e = limelight.explain(model, "a superb plot in 3 parts", learned)
    >>> [(word, round(score, 2)) for word, score in e.top(1)]
    [('superb', 2.0)]
    """
    for name, value, minimum in (
        ("seed", seed, 0),
        ("judged", judged or 0, 0),
        ("pairs", pairs, 1),
    ):
        if not isinstance(value, Integral) or not minimum <= value < 1 << 63:
            limit = f"from {minimum} to 2^63 − 1" if name == "seed" else f"of at least {minimum}"
            raise InputError(f"{name} must be a whole number {limit}, not {short_repr(value)}.")
    request = Request(features=features, answer=answer)
    model, request = prepare_model(model, request)
    implementation = select_implementation(METHODS["shapley"], model)
    if implementation is not None and implementation.exactness != "sampled":
        raise InputError(
            "Shapley values of this model are exact and take milliseconds. Use method 'shapley' "
            "instead of learn."
        )
    plan = SamplingPlan([], int(pairs), int(seed), query_kind(model))
    explanations = _read_explanations(texts)
    folder = None if output is None else Path(output)
    if folder is not None:
        if folder.is_file():
            raise InputError(f"'{folder}' is a file, not a folder. Choose another name.")
        make_writable_folder(folder)
    with contextlib.nullcontext() if folder is None else folder_lock(folder, _BUSY):
        if folder is not None:
            remove_abandoned_parts(folder)
            remove_abandoned_parts(folder / "samples")
        if explanations is not None:
            learned = _learn_from_explanations(
                model, explanations, request, replace(plan, pairs=2), judged
            )
        else:
            is_stored = isinstance(texts, os.PathLike) or is_table(texts)
            inputs = read_texts(texts) if is_stored else as_list(texts)
            plan = replace(plan, texts=distinct_queries(model, request.attach_queries(inputs)))
            plan = _fit_plan(model, plan, request, budget, folder, estimate)
            # An answer is generated once, however often the text is read.
            plan = replace(plan, texts=list(chain(*expand_texts(model, plan.texts))))
            n = len(plan.texts)
            with open_progress(progress, "learning") as callback:
                tracker = ProgressTracker(callback, total=n + -(-n // 4), estimated=True)
                try:
                    draws = _draw_all_values(model, plan, request, folder, tracker)
                    learned = fit_method(
                        model, plan, draws, request, judged=judged, tracker=tracker
                    )
                except KeyboardInterrupt as error:
                    error.add_note(_describe_interrupt(folder))
                    raise
        if folder is not None:
            learned.save(folder)
    return learned


def _describe_interrupt(folder: Path | None) -> str:
    """Say which sampled values are stored, and how to continue."""
    if folder is None:
        return "Nothing is stored. Set output to a folder to be able to continue."
    if not any(folder.glob("samples/part-*")):
        return f"No values are stored yet in '{folder}'."
    return (
        f"'{folder}' contains the sampled values. Start again with the same arguments to continue."
    )


def _read_explanations(texts: Any) -> list[Explanation] | None:
    """Read the explanations of a run or a list of explanations; return None for texts."""
    if isinstance(texts, str | os.PathLike):
        if not os.path.isfile(os.path.join(texts, "run.json")):  # noqa: PTH113, PTH118  (any text)
            return None
        from limelight.runs import Run  # which needs pyarrow

        texts = Run(texts)
    if is_table(texts) or not isinstance(texts, Iterable) or isinstance(texts, str):
        return None
    texts = read_all(texts, "texts")
    first = next(iter(texts), None)
    return list(texts) if isinstance(first, Explanation) else None


def _learn_from_explanations(
    model: Model,
    explanations: list[Explanation],
    request: Request,
    plan: "SamplingPlan",
    judged: int | None,
) -> LearnedMethod:
    """Learn a method from stored Shapley values of one class.

    ``plan`` has no texts yet. They come from the explanations.
    """
    by_text = {(e.text, e.query): e for e in explanations if e.method == "shapley"}
    if any(e.image is not None for e in by_text.values()):
        raise InputError(
            "results do not store images as the model reads them, so learn cannot use their "
            "values. Give the images themselves."
        )

    def value_kind(e: Explanation) -> tuple[Any, ...]:
        """Return the target and the settings of an explanation."""
        # With a learned start, a score is not an unbiased estimate of the Shapley value.
        has_start = e.diagnostics.get("unbiased") is not None
        names = ("features", "replacement", "protect", "protect_span")
        settings = (str(e.settings.get(name)) for name in names)
        return (e.target, e.against, e.scale, e.model, has_start, *settings)

    kinds = {value_kind(e) for e in by_text.values()}
    protect_span = "True" if any(e.query is not None for e in by_text.values()) else "None"
    features = request.features
    if features == "auto":  # explanations of answers name the features of their input
        features = next((str(e.settings.get("features")) for e in by_text.values()), "sentences")
    if any(part.role not in SIDES for e in by_text.values() for part in e.parts):
        raise InputError(
            "learn cannot read conversations from explanations. Give it the conversations."
        )
    settings = (features, resolve_replacement(model, "auto"), "[]", protect_span)
    default_kinds = [
        (name, None, request.scale, model.fingerprint, False, *settings) for name in model.classes
    ]
    if len(by_text) < MIN_TEXTS or len(kinds) > 1 or not kinds <= set(default_kinds):
        raise InputError(
            f"learn needs Shapley values of at least {MIN_TEXTS} texts for this model, one class, "
            f"{request.scale} and default settings, not {len(by_text)} texts (kinds of "
            f"values: {len(kinds)}). Give the texts themselves."
        )
    texts, draws, has_spread = list[Any](), list[ShapleyDraws | None](), True
    target = model.classes.index(next(iter(kinds))[0])
    for e in by_text.values():
        error = np.zeros(len(e.scores)) if e.stderr is None else e.stderr
        by_orders = e.diagnostics.get("sampler") == "orders"
        has_spread &= by_orders or len(error) <= 2
        # As many draws as there were, with this mean and this error.
        count = int(e.diagnostics["pairs_drawn"]) if by_orders else 2
        deviations = np.arange(count) - (count - 1) / 2
        deviations *= np.sqrt(count) / deviations.std(ddof=1)
        draws.append((e.scores + deviations[:, None] * error)[:, None])
        sides = [e.text[slice(*part.span)] for part in e.parts]
        text = (sides[0], sides[1]) if sides else e.text
        texts.append(text if e.query is None else QueriedText(text, (e.query,)))
    # A single output speaks for the second class, and against the first.
    (weights,) = read_batch(model, texts[:1], replace(request, target=target)).target_gradient
    columns = np.flatnonzero(weights)  # log-odds are shared out evenly between two outputs
    shares = weights[columns, None] / len(columns)
    draws = [None if values is None else values * shares for values in draws]
    plan = replace(plan, texts=texts)
    learned = fit_method(model, plan, draws, request, judged=judged, aim=(target, columns.tolist()))
    if has_spread:
        return learned
    # Values of all masks or of a regression do not show the error of one pair of orders.
    return replace(learned, arrays={**learned.arrays, "draws": np.full(4, np.nan)})


@dataclass(frozen=True)
class SamplingPlan:
    """The texts whose values are sampled, and the number of pairs of orders of each.

    ``query_kind`` is the kind of queries of the model: it names the explained part of a text.
    """

    texts: list[Any]
    pairs: int
    seed: int
    query_kind: str = "texts"

    @cached_property
    def held_out(self) -> HeldOut:
        """The texts that are held out: they depend on the seed, and include all queries of a text.

        The number of pairs makes no difference.
        """
        texts = [QueriedText.attach(text).text for text in self.texts]
        number = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        return HeldOut.draw(np.array([number[text] for text in texts]), self.seed)

    def pair_count(self, i: int) -> int:
        """Return the number of pairs of orders of a text: held-out texts need at least two."""
        return max(self.pairs, 2) if self.held_out.is_held_out[i] else self.pairs


class _StoredPlan(msgspec.Struct, frozen=True, rename={"request": "asked"}):
    """The content of ``request.json``: the arguments of the call, and the size of its plan."""

    request: dict[str, Any]
    texts: int
    pairs: int


def _fit_plan(
    model: Model,
    plan: SamplingPlan,
    request: Request,
    budget: BudgetInput | None,
    folder: Path | None,
    estimate: Callable[[str], None] | None,
) -> SamplingPlan:
    """Reduce a plan to fit a budget, or return the plan of the interrupted call in ``folder``."""
    texts, pairs = plan.texts, plan.pairs
    limit = None if budget is None else parse_budget(budget)
    if len(texts) < MIN_TEXTS:
        raise InputError(f"learn needs at least {MIN_TEXTS} different texts, not {len(texts)}.")
    arguments = {
        "model": model.fingerprint,
        "texts": hashlib.sha256(
            json.dumps([_text_identity(text) for text in texts]).encode()
        ).hexdigest(),
        "features": request.features,
        "pairs": pairs,
        "seed": plan.seed,
        "budget": None if limit is None else str(limit),
    }
    file = None if folder is None else folder / "samples" / "request.json"
    if file is not None and file.exists():
        try:
            stored = msgspec.json.decode(read_bounded_bytes(file, _MAX_BYTES), type=_StoredPlan)
            if not (0 < stored.pairs <= pairs and 0 < stored.texts <= len(texts)):
                raise msgspec.ValidationError
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise InputError(
                f"'{file}' does not describe its sampled values. Delete the folder '{folder}'."
            ) from None
        changed = [name for name in arguments if stored.request.get(name) != arguments[name]]
        if changed:
            raise InputError(
                f"the values in '{folder}' were sampled with a different value of {changed[0]}. "
                "Choose another folder, or delete this one."
            )
        # As it was planned then: a budget of time buys another number of texts on a busy machine.
        return replace(plan, texts=texts[: stored.texts], pairs=stored.pairs)
    batches = sorted(
        read_sample_batches(model, texts, request), key=lambda batch: len(batch.features[0])
    )
    if not batches:
        read_batch(model, texts[:1], request, first_index=0)  # which says why
        raise InputError("none of the first texts can be read. Check them.")
    d = float(np.mean([len(batch.features[0]) for batch in batches]))
    call_seconds = 0.0
    if limit is not None or estimate:
        call_seconds = measure_call_seconds(batches[len(batches) // 2].game())
    count = len(texts)

    def call_count(pairs: int, count: int) -> int:
        """Return the expected number of model calls."""
        mean_pairs = (1 - HELD_OUT_SHARE) * pairs + HELD_OUT_SHARE * max(pairs, 2)
        return round(count * (3 + 2 * mean_pairs * (d - 1)))

    if limit is not None:
        allowed = limit.calls
        if allowed is None:
            allowed = int((limit.seconds or 0.0) / call_seconds)
        while pairs > 1 and call_count(pairs, count) > allowed:
            pairs -= 1
        count = min(count, int(count * allowed / max(call_count(pairs, count), 1)))
        if count < MIN_TEXTS:
            noun = pluralize(batches[0].features[0].noun)
            raise InputError(
                f"a budget of {limit} allows {allowed:,} model calls, but {MIN_TEXTS} texts of "
                f"about {d:.0f} {noun} need {call_count(1, MIN_TEXTS):,}. Increase it, or give "
                "shorter texts."
            )
    announce_calls(model, lambda: call_count(pairs, count))
    if estimate is not None:
        selection = f"{count:,}" if count == len(texts) else f"{count:,} of {len(texts):,}"
        calls = call_count(pairs, count)
        cost = Estimate.from_calls(calls, calls * call_seconds)
        orders = f"{pairs} pair{'s' * (pairs > 1)} of orders"
        estimate(f"Drawing {orders} of {selection} {plan.query_kind} takes {cost}")
    if file is not None:
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, msgspec.json.encode(_StoredPlan(arguments, count, pairs)))
    return replace(plan, texts=texts[:count], pairs=pairs)


def _text_identity(text: Any) -> Any:
    """Return JSON that differs for different texts and for different queries of one text."""
    queried = QueriedText.attach(text)
    if isinstance(queried.text, Conversation):
        return [queried.text.cell, [], queried.cell]
    joined, parts = join_pair(queried.text)
    spans = [part.span for part in parts]
    return [joined, spans, queried.cell] if queried.cell else [joined, spans]


def _draw_all_values(
    model: Model,
    plan: SamplingPlan,
    request: Request,
    folder: Path | None,
    tracker: ProgressTracker,
) -> list[ShapleyDraws | None]:
    """Sample the values of every text, None if it cannot be read; use stored values first."""
    all_draws: list[ShapleyDraws | None] = []
    for start in range(0, len(plan.texts), _TEXTS_PER_PART):
        part = None
        if folder is not None:
            part = folder / "samples" / f"part-{start // _TEXTS_PER_PART:05d}.npz"
        numbers = range(start, min(start + _TEXTS_PER_PART, len(plan.texts)))
        stored = None if part is None else _read_part(part)
        if stored is None:
            sampled = sample_values(model, plan, numbers, request, tracker)
            stored = {
                str(i): draws
                for i, draws in zip(numbers, sampled, strict=True)
                if draws is not None
            }
            if part is not None:
                np.savez(content := io.BytesIO(), **cast(Any, stored))
                write_atomically(part, content.getvalue())
        all_draws += [stored.get(str(i)) for i in numbers]
        tracker.report(len(all_draws))
    return all_draws


def sample_values(
    model: Model,
    plan: SamplingPlan,
    numbers: Sequence[int],
    request: Request,
    tracker: ProgressTracker | None = None,
) -> list[ShapleyDraws | None]:
    """Sample the values of some texts of a plan, with joint model calls.

    Parameters
    ----------
    model
        The model to explain.
    plan
        All texts, and the number of pairs of orders of each.
    numbers
        The numbers of the texts in the plan.
    request
        The features and the answers.
    tracker
        Counts the model calls.

    Returns
    -------
    The values of each text, in single precision, or None if the text cannot be read.
    """
    tracker = tracker or ProgressTracker(None, total=len(plan.texts))
    batches = [_read_text(model, plan.texts[i], request) for i in numbers]
    readable = [(i, batch) for i, batch in zip(numbers, batches, strict=True) if batch is not None]
    games = [batch.game() for _, batch in readable]
    # The name of the stream makes these values independent of those that a method draws.
    orders = [
        draw_orders(
            len(game),
            plan.pair_count(i),
            text_rng(plan.seed, f"learn {batch.inputs[0].text}"),
        )
        for (i, batch), game in zip(readable, games, strict=True)
    ]

    def evaluate(all_masks: list[Bool[np.ndarray, "_ _d"]]) -> list[Float[np.ndarray, "_ m"]]:
        """Return the outputs of each game for its masks."""
        with tracker.track(numbers[0], texts=len(numbers), calls=sum(map(len, all_masks))):
            # The games then know the outputs, if the model reads several texts in one call.
            TextGame.precompute_outputs(games, all_masks)
            return [game(masks) for game, masks in zip(games, all_masks, strict=True)]

    results = iter(evaluate_orders(evaluate, orders))
    # In the precision of the stored values: a call that continues from a folder has the same.
    return [None if batch is None else next(results)[1].astype(np.float32) for batch in batches]


def _read_text(model: Model, text: Any, request: Request) -> Batch | None:
    """Read one text; return None if it cannot be read."""
    try:
        return read_batch(model, [text], request)
    except InputError:
        return None


def _read_part(path: Path) -> dict[str, ShapleyDraws] | None:
    """Read a stored part; return None if it is missing or damaged, so that it is sampled again."""
    try:
        content = read_bounded_bytes(path, _MAX_BYTES)
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            values = dict(stored)
    except InputError:  # a pipe or a device, into which nothing may be written either
        raise
    except Exception:  # the exception of a damaged archive depends on the place of the damage
        return None
    is_valid = all(
        draws.dtype == np.float32 and draws.ndim == 3 and len(draws) and np.isfinite(draws).all()
        for draws in values.values()
    )
    return values if is_valid else None


def _draw_variance(draws: ShapleyDraws) -> Float[np.ndarray, "d C"]:
    """Return the variance of one draw; it is NaN for a single pair, which shows no variance."""
    if draws.shape[2] <= 2:  # two words have one pair of orders
        return np.zeros(draws.shape[1:]).T
    return np.var(draws, axis=0, ddof=1).T if len(draws) > 1 else draws[0].T * np.nan


def make_examples(
    model: Model,
    texts: Sequence[Any],
    draws: Sequence[ShapleyDraws],
    request: Request,
    signals: Sequence[str],
) -> Examples:
    """Combine the inputs of the networks with the sampled values of texts.

    Parameters
    ----------
    model
        The model to explain.
    texts
        The texts to learn from or to test on.
    draws
        The sampled values of each text.
    request
        The features and the answers.
    signals
        The names of the inputs of the networks, such as "words" and "places".

    Returns
    -------
    The examples.

    Raises
    ------
    InputError
        If the values belong to other features than those of the texts.
    """
    parts = list[NetworkInputs]()
    with_states = not set(STATES).isdisjoint(signals)
    output_counts = {values.shape[1] for values in draws}
    for start in range(0, len(texts), _TEXTS_PER_PART):
        rows = slice(start, start + _TEXTS_PER_PART)
        batch = read_batch(model, texts[rows], request, with_hidden_states=with_states)
        sizes = [values.shape[2] for values in draws[rows]]
        if [len(features) for features in batch.features] != sizes or len(output_counts) > 1:
            raise InputError("the stored values must belong to words, not to other features.")
        part = make_network_inputs(batch, signals)
        words, signals_of_texts = host_array(part.words), host_array(part.texts)
        parts.append(NetworkInputs(words, signals_of_texts, part.owner + start, part.word))
    return Examples(
        NetworkInputs(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))),
        np.concatenate([values.mean(axis=0).T for values in draws]),
        np.concatenate([_draw_variance(values) for values in draws]),
        np.repeat([len(values) for values in draws], [values.shape[2] for values in draws]),
        "words" in signals,
    )


def fit_method(
    model: Model,
    plan: SamplingPlan,
    draws: Sequence[ShapleyDraws | None],
    request: Request,
    *,
    judged: int | None = None,
    aim: tuple[int, list[int]] | None = None,
    tracker: ProgressTracker | None = None,
) -> LearnedMethod:
    """Fit a method to sampled values, and write its report.

    Parameters
    ----------
    model
        The model to explain.
    plan
        The texts, and the seed that decides which of them are held out.
    draws
        The sampled values of each text, or None if it cannot be read.
    request
        The features and the answers.
    judged
        Number of held-out texts on which the share is measured, as in :func:`learn`.
    aim
        The class and the outputs to which the values belong. Default: all outputs of the model.
    tracker
        Counts the progress.

    Returns
    -------
    The learned method with its record and report.

    Raises
    ------
    InputError
        If too few texts can be read, or if all values are 0.
    """
    signals: tuple[str, ...] = SIGNALS_WITHOUT_STATES
    if has(model, "hidden_states"):
        is_queried = any(isinstance(text, QueriedText) and text.queries for text in plan.texts)
        signals = (*SIGNALS_WITH_STATES, "attention") if is_queried else SIGNALS_WITH_STATES
    readable = [i for i, text_draws in enumerate(draws) if text_draws is not None]
    texts, held_out = [plan.texts[i] for i in readable], plan.held_out.select(readable)
    is_held_out, tunes, calibrates, _ = held_out
    values = [text_draws for text_draws in draws if text_draws is not None]
    if aim is None:
        values = [remove_common_part(model, text_draws) for text_draws in values]
    if min(map(np.count_nonzero, (~is_held_out, tunes, calibrates))) < 2:
        raise InputError(
            f"only {len(texts)} of the {len(draws)} texts can be read, which are too few."
        )
    examples = make_examples(model, texts, values, request, signals)
    noun = feature_noun(request.features)
    if not examples.values.any():
        raise InputError(
            f"all sampled Shapley values are 0, because no {noun} of these texts changes the "
            "output. Check that the texts fit the model."
        )

    def report_fitting(share: float) -> None:
        """Report a share of the fitting, which counts as a quarter of the texts."""
        if tracker is not None:
            tracker.report(len(draws) + share * -(-len(draws) // 4))

    kind = plan.query_kind
    learned = fit_examples(
        examples, held_out, seed=plan.seed, noun=kind, on_progress=report_fitting
    )
    learned = replace(
        learned,
        record={
            "model": model.fingerprint,
            "classes": list(model.classes),
            "outputs": list(range(examples.values.shape[1])) if aim is None else aim[1],
            "features": request.features,
            **({} if kind == "texts" else {"of": kind}),
            "signals": list(signals),
            "pairs": plan.pairs,
            "seed": plan.seed,
            "version": __version__,
            **learned.record,
        },
    )
    sizes = [text_draws.shape[2] for text_draws in values]
    calls = sum(
        2 + 2 * len(text_draws) * (d - 1) for text_draws, d in zip(values, sizes, strict=True)
    )
    if judged is None:  # about the number of calls of greedy search, curves and chance
        calls_per_text = np.mean([0.5 * d * d + 100 * d for d in sizes])
        judged = int(_JUDGING_SHARE * calls / calls_per_text)
    held_out_texts = [text for text, selected in zip(texts, is_held_out, strict=True) if selected]
    judged_texts = held_out_texts[:judged]
    report: dict[str, Any] = dict(learned.record["report"])
    if judged_texts:
        judgment = judge(
            model,
            judged_texts,
            [learned],
            target="predicted" if aim is None else aim[0],
            features=request.features,
            columns=[],
            curves=False,
            seed=plan.seed,
        )
        (row,) = judgment.methods
        report["share"] = {
            "texts": len(judged_texts),
            "share": row.share,
            "interval": row.interval,
        }
    report |= {"calls": calls, "unreadable": len(draws) - len(readable)}
    report["sentences"] = list(_report_sentences(report, signals, kind, noun))
    return replace(learned, record={**learned.record, "report": report})


def remove_common_part(model: Model, draws: ShapleyDraws) -> ShapleyDraws:
    """Reduce the outputs of two classes to half of their log-odds, with opposite signs.

    For two classes the log-odds are explained. A common part of both outputs does not change them.
    If it were learned too, its errors would be added to theirs.
    """
    weights = class_weights(len(model.classes), draws.shape[1], model.link)
    if weights.shape != (2, 2) or not are_opposite(weights):
        return draws
    return np.einsum("oc,ncd->nod", weights.astype(draws.dtype) / 2, draws)


def _report_sentences(
    report: dict[str, Any], signals: Sequence[str], kind: str, noun: str
) -> Iterator[str]:
    """Yield sentences about the accuracy of a learned method.

    ``kind`` is the kind of examples, such as "texts", and ``noun`` names a feature.
    """
    if warning := report.get("warning"):
        yield warning
    guaranteed = report["coverage"]["guarantee"]
    stopped_by = f"these {kind}" if guaranteed is None else f"a quarter of these {kind}"
    yield (
        f"On {report['held_out']:,} held-out {kind} its scores explain {max(report['r2'], 0):.0%} "
        "of the variance of Shapley values (R², corrected for the noise of the sampled ones), with "
        f"a rank correlation of {report['rank_correlation']:.2f}. Fitting ended where the error on "
        f"{stopped_by} was least, so both may be lower on other {kind}."
    )
    share = report.get("share")
    if share and share["share"] is not None:  # None: no order of these words gains anything
        ends = share["interval"]  # none of a single text
        yield (
            f"Share of the way from a random order of the {pluralize(noun)} to greedy deletion, on "
            f"{share['texts']} of them: {share['share']:.2f}"
            f"{'' if ends is None else f' [{ends[0]:.2f}, {ends[1]:.2f}]'}."
        )
    half_fit, full_fit = report["curve"][-2:]
    remaining = (1 - full_fit["r2"]) ** 2 / max(1 - half_fit["r2"], 1e-9)
    doubled = max(1 - remaining, full_fit["r2"], 0.0)
    shares = ", ".join(f"{max(fit['r2'], 0):.0%} from {fit['texts']:,}" for fit in report["curve"])
    yield (
        f"One network explains {shares} {kind}. Twice as many would bring it to about "
        f"{doubled:.0%}."
    )
    coverage = report["coverage"]
    note = "" if guaranteed is None else " that had no other part in the fit"
    yield (
        f"On {coverage['texts']:,} texts{note}, ±2 standard errors hold "
        f"{coverage['overall']:.1%} of the sampled values, whose sampling error is counted too, "
        f"{min(coverage['deciles']):.0%} to {max(coverage['deciles']):.0%} by size of the score."
    )
    if guaranteed is not None:
        yield (
            f"Of a further text like these they hold at least {guaranteed:.0%}, in the mean over "
            f"texts and {pluralize(noun)}: split conformal prediction."
        )
    if set(STATES).isdisjoint(signals):
        yield (
            f"This model shows no hidden states, so each {noun} has one weight in every context: a "
            "global additive model, which does not see the single text."
        )
