"""``limelight.learn``: from noisy Shapley values of some texts to a method for all others."""

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
from limelight.errors import InputError, read_all, short_repr
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
from limelight.text import QueriedText, feature_noun, join_pair, pluralize
from limelight.threads import cached_property
from limelight.training.fitting import HELD_OUT_SHARE, Examples, HeldOut, fit_examples
from limelight.training.state import make_writable_folder

MIN_TEXTS = 20  # texts
_MOST_BYTES = 1 << 32  # of a file of sampled values
_BUSY = "another call of learn is writing to the folder"
_PART = 8  # texts drawn and stored together: what an interruption loses, about a minute's work
_JUDGED = 0.25  # of the calls that drawing takes: what finding the share may take


ShapleyDraws = Float[np.ndarray, "_pairs _C _d"]  # what each pair of orders says of one text


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
    """Return a method that scores words of ``model`` at the price of one forward pass of a text.

    Shapley values of ``texts`` are sampled, a few pairs of orders each; a fifth of the texts is
    kept aside; two small networks are fitted to the values of the others, from what the model holds
    of each word, until the error on the texts kept aside no longer falls. What was reached is in
    the ``report`` of the result. It stands where the name of a method may:
    ``limelight.explain(model, text, learned)``.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns.
    texts
        Texts like those to be explained, at least 20, better a few hundred: a list, or data as
        :func:`limelight.judge` takes them. Pairs of texts are tuples of two. Of a model that finds
        spans, every span of a text is learned from; of one that reads images, give images. A
        run or its folder, or a list of explanations, with Shapley values of one class is learned
        from as it is.
    pairs
        Pairs of orders that are drawn of each text, 2 (d − 1) calls of the model each; of the texts
        kept aside at least 2.
    features
        What is scored, by name, as in :func:`limelight.explain`.
    answer
        Of a language model: the answers whose log-probability is explained, one for each text, or
        one for all; by default what the model writes.
    output
        Folder for the method, ``method.json`` and ``model.safetensors``, and for the values that
        were drawn: the same call goes on where an interrupted one ended.
    budget
        How much to spend on drawing in all, a time or "100000 calls": fewer pairs are drawn, then
        fewer texts, until it suffices.
    judged
        Texts of those kept aside on which the share is measured, as :func:`limelight.judge` does,
        about d²/2 calls each; by default as many as take a quarter of the calls of drawing.
    seed
        Same seed, same method.
    progress
        Called with (done, in all), in texts; fitting counts as a quarter of all texts. True shows
        a line on standard error.
    estimate
        Called once, before anything is drawn, with a sentence: how much that is, and how long it
        takes.
    """
    for name, value, least in (("seed", seed, 0), ("judged", judged or 0, 0), ("pairs", pairs, 1)):
        if not isinstance(value, Integral) or not least <= value < 1 << 63:
            most = " to 2^63 − 1" if name == "seed" else " or more"
            raise InputError(
                f"{name} must be a whole number, {least}{most}; got {short_repr(value)}."
            )
    request = Request(features=features, answer=answer)
    model, request = prepare_model(model, request)
    implementation = select_implementation(METHODS["shapley"], model)
    if implementation is not None and implementation.exactness != "sampled":
        raise InputError(
            "Shapley values of this model are exact and take milliseconds, so there is nothing to "
            "learn; use the method 'shapley'."
        )
    plan = SamplingPlan([], int(pairs), int(seed), query_kind(model))
    known = _read_explanations(texts)
    folder = None if output is None else Path(output)
    if folder is not None:
        if folder.is_file():
            raise InputError(f"'{folder}' is a file, not a folder; choose another name.")
        make_writable_folder(folder)
    with contextlib.nullcontext() if folder is None else folder_lock(folder, _BUSY):
        if folder is not None:
            remove_abandoned_parts(folder)
            remove_abandoned_parts(folder / "drawn")
        if known is not None:
            learned = _from_explanations(model, known, request, replace(plan, pairs=2), judged)
        else:
            stored = isinstance(texts, os.PathLike) or is_table(texts)
            given = read_texts(texts) if stored else as_list(texts)
            given = distinct_queries(model, request.attach_queries(given))
            plan = replace(plan, texts=given)
            plan = _planned(model, plan, request, budget, folder, estimate)
            # An answer is generated once, however often the text is read.
            plan = replace(plan, texts=list(chain(*expand_texts(model, plan.texts))))
            n = len(plan.texts)
            shown = open_progress(progress, "learning") if progress else contextlib.nullcontext()
            with shown as callback:
                tracker = ProgressTracker(callback, total=n + -(-n // 4), estimated=True)
                drawn = _draw_all_values(model, plan, request, folder, tracker)
                learned = fitted(model, plan, drawn, request, judged=judged, tracker=tracker)
        if folder is not None:
            learned.save(folder)
    return learned


def _read_explanations(texts: Any) -> list[Explanation] | None:
    """Return what is stored in a run or a list of explanations; None where texts were given."""
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


def _from_explanations(
    model: Model,
    found: list[Explanation],
    request: Request,
    plan: "SamplingPlan",
    judged: int | None,
) -> LearnedMethod:
    """Return the method learned from values that were sampled before, of one class.

    ``plan`` has no texts yet: they come from the explanations.
    """
    known = {(one.text, one.query): one for one in found if one.method == "shapley"}
    if any(one.image is not None for one in known.values()):
        raise InputError(
            "results keep no image as the model read it, so nothing is learned from their "
            "values; give the images themselves."
        )

    def kind(one: Explanation) -> tuple[Any, ...]:
        # A learned start is no draw: such scores are not what a value of Shapley's is on average.
        started = one.diagnostics.get("unbiased") is not None
        names = ("features", "replacement", "protect", "protect_span")
        how = (str(one.settings.get(name)) for name in names)
        return (one.target, one.against, one.scale, one.model, started, *how)

    kinds = {kind(one) for one in known.values()}
    stays = "True" if any(one.query is not None for one in known.values()) else "None"
    how = (request.features, resolve_replacement(model, "auto"), "[]", stays)
    usual = [(c, None, request.scale, model.fingerprint, False, *how) for c in model.classes]
    if len(known) < MIN_TEXTS or len(kinds) > 1 or not kinds <= set(usual):
        raise InputError(
            f"learn takes stored Shapley values of at least {MIN_TEXTS} texts, all of this model and "
            f"of the {request.scale} of one class, with usual settings; got {len(known)} texts "
            f"and {len(kinds)} kinds of values. Give the texts themselves instead."
        )
    texts, drawn, spread_known = list[Any](), list[ShapleyDraws | None](), True
    target = model.classes.index(next(iter(kinds))[0])
    for one in known.values():
        error = np.zeros(len(one.scores)) if one.stderr is None else one.stderr
        by_orders = one.diagnostics.get("sampler") == "orders"
        spread_known &= by_orders or len(error) <= 2
        # As many draws as there were, that have this mean and this error.
        count = int(one.diagnostics["pairs_drawn"]) if by_orders else 2
        apart = np.arange(count) - (count - 1) / 2
        apart *= np.sqrt(count) / apart.std(ddof=1)
        drawn.append((one.scores + apart[:, None] * error)[:, None])
        sides = [one.text[start:end] for start, end in one.parts]
        given = (sides[0], sides[1]) if sides else one.text
        texts.append(given if one.query is None else QueriedText(given, (one.query,)))
    # A single output speaks for the second class, and against the first.
    (weights,) = read_batch(model, texts[:1], replace(request, target=target)).target_gradient
    columns = np.flatnonzero(weights)  # log-odds are shared out evenly between two outputs
    shares = weights[columns, None] / len(columns)
    drawn = [one if one is None else one * shares for one in drawn]
    plan = replace(plan, texts=texts)
    learned = fitted(model, plan, drawn, request, judged=judged, aim=(target, columns.tolist()))
    if spread_known:
        return learned
    # Values of all masks or of a regression do not show how far off one pair of orders is.
    return replace(learned, arrays={**learned.arrays, "draws": np.full(4, np.nan)})


@dataclass(frozen=True)
class SamplingPlan:
    """Which texts are drawn, how many pairs of each, and which of them are kept aside.

    ``query_kind`` is that of the model: what is explained of each text.
    """

    texts: list[Any]
    pairs: int
    seed: int
    query_kind: str = "texts"

    @cached_property
    def held_out(self) -> HeldOut:
        """Which are kept aside: by the seed, whatever is drawn; all that is asked of a text."""
        own = [QueriedText.attach(text).text for text in self.texts]
        number = {text: i for i, text in enumerate(dict.fromkeys(own))}
        return HeldOut.draw(np.array([number[text] for text in own]), self.seed)

    def pairs_of(self, i: int) -> int:
        """Return how many pairs are drawn of a text: of those kept aside, a spread is needed."""
        return max(self.pairs, 2) if self.held_out.is_held_out[i] else self.pairs


@dataclass(frozen=True)
class _Begun:
    """What ``asked.json`` holds: the question that was asked, and what is drawn for it."""

    asked: dict[str, Any]
    texts: int
    pairs: int


def _planned(
    model: Model,
    wanted: SamplingPlan,
    request: Request,
    budget: BudgetInput | None,
    folder: Path | None,
    estimate: Callable[[str], None] | None,
) -> SamplingPlan:
    """Return what is drawn within the budget; in a folder, what was begun goes on."""
    texts, pairs, most = (
        wanted.texts,
        wanted.pairs,
        None if budget is None else parse_budget(budget),
    )
    if len(texts) < MIN_TEXTS:
        raise InputError(f"learn needs at least {MIN_TEXTS} different texts; got {len(texts)}.")
    asked = {
        "model": model.fingerprint,
        "texts": hashlib.sha256(json.dumps([_identity(one) for one in texts]).encode()).hexdigest(),
        "features": request.features,
        "pairs": pairs,
        "seed": wanted.seed,
        "budget": None if most is None else str(most),
    }
    file = None if folder is None else folder / "drawn" / "asked.json"
    if file is not None and file.exists():
        try:
            begun = msgspec.json.decode(read_bounded_bytes(file, _MOST_BYTES), type=_Begun)
            if not (0 < begun.pairs <= pairs and 0 < begun.texts <= len(texts)):
                raise msgspec.ValidationError
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise InputError(
                f"'{file}' does not say what was begun; delete the folder '{folder}'."
            ) from None
        if other := next((name for name in asked if begun.asked.get(name) != asked[name]), None):
            raise InputError(
                f"the folder '{folder}' holds values that were not drawn with the same {other}; "
                "choose another folder, or delete that one."
            )
        # As it was planned then: a budget of time buys another number of texts on a busy machine.
        return replace(wanted, texts=texts[: begun.texts], pairs=begun.pairs)
    tried = sorted(read_sample_batches(model, texts, request), key=lambda one: len(one.features[0]))
    if not tried:
        read_batch(model, texts[:1], request, first_index=0)  # which says why
        raise InputError("none of the first texts can be read; check them.")
    d = float(np.mean([len(one.features[0]) for one in tried]))
    each = (
        measure_call_seconds(tried[len(tried) // 2].game()) if most is not None or estimate else 0.0
    )
    count = len(texts)

    def calls(pairs: int, count: int) -> int:
        taken = (1 - HELD_OUT_SHARE) * pairs + HELD_OUT_SHARE * max(pairs, 2)
        return round(count * (3 + 2 * taken * (d - 1)))

    if most is not None:
        allowed = most.calls if most.calls is not None else int((most.seconds or 0.0) / each)
        while pairs > 1 and calls(pairs, count) > allowed:
            pairs -= 1
        count = min(count, int(count * allowed / max(calls(pairs, count), 1)))
        if count < MIN_TEXTS:
            raise InputError(
                f"a budget of {most} is {allowed:,} calls of this model, and {MIN_TEXTS} texts of "
                f"about {d:.0f} {pluralize(tried[0].features[0].noun)} take {calls(1, MIN_TEXTS):,}; "
                "give more, or shorter texts."
            )
    announce_calls(model, lambda: calls(pairs, count))
    if estimate is not None:
        some = f"{count:,}" if count == len(texts) else f"{count:,} of {len(texts):,}"
        takes = Estimate.from_calls(calls(pairs, count), calls(pairs, count) * each)
        what = f"{pairs} pair{'s' * (pairs > 1)} of orders of {some} {wanted.query_kind}"
        estimate(f"Drawing {what} takes {takes}")
    if file is not None:
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, msgspec.json.encode(_Begun(asked, count, pairs)))
    return replace(wanted, texts=texts[:count], pairs=pairs)


def _identity(text: Any) -> Any:
    """Return what tells a text, and what is asked of it, from others in a file."""
    own = QueriedText.attach(text)
    return [*join_pair(own.text), own.cell] if own.cell else join_pair(own.text)


def _draw_all_values(
    model: Model,
    plan: SamplingPlan,
    request: Request,
    folder: Path | None,
    tracker: ProgressTracker,
) -> list[ShapleyDraws | None]:
    """Return the values of every text, None where it cannot be read; stored ones are not drawn."""
    found: list[ShapleyDraws | None] = []
    for start in range(0, len(plan.texts), _PART):
        part = None if folder is None else folder / "drawn" / f"part-{start // _PART:05d}.npz"
        numbers = range(start, min(start + _PART, len(plan.texts)))
        known = None if part is None else _read_part(part)
        if known is None:
            some = sample_values(model, plan, numbers, request, tracker)
            known = {str(i): one for i, one in zip(numbers, some, strict=True) if one is not None}
            if part is not None:
                np.savez(held := io.BytesIO(), **cast(Any, known))
                write_atomically(part, held.getvalue())
        found += [known.get(str(i)) for i in numbers]
        tracker.report(len(found))
    return found


def sample_values(
    model: Model,
    plan: SamplingPlan,
    numbers: Sequence[int],
    request: Request,
    tracker: ProgressTracker | None = None,
) -> list[ShapleyDraws | None]:
    """Return the sampled values of some texts of a plan, asked together."""
    tracker = tracker or ProgressTracker(None, total=len(plan.texts))
    batches = [_read(model, plan.texts[i], request) for i in numbers]
    there = [(i, one) for i, one in zip(numbers, batches, strict=True) if one is not None]
    games = [one.game() for _, one in there]
    # A stream of its own: values of the same text that a method draws are independent of these.
    orders = [
        draw_orders(len(game), plan.pairs_of(i), text_rng(plan.seed, f"learn {one.inputs[0].text}"))
        for (i, one), game in zip(there, games, strict=True)
    ]

    def ask(masks: list[Bool[np.ndarray, "_ _d"]]) -> list[Float[np.ndarray, "_ m"]]:
        with tracker.track(numbers[0], texts=len(numbers), calls=sum(map(len, masks))):
            TextGame.precompute_outputs(
                games, masks
            )  # then known, where the model takes texts together
            return [game(own) for game, own in zip(games, masks, strict=True)]

    draws = iter(evaluate_orders(ask, orders))
    # As they are stored: a call that goes on from a folder has the same values.
    return [None if one is None else next(draws)[1].astype(np.float32) for one in batches]


def _read(model: Model, text: Any, request: Request) -> Batch | None:
    try:
        return read_batch(model, [text], request)
    except InputError:
        return None


def _read_part(path: Path) -> dict[str, ShapleyDraws] | None:
    """Return what is stored; None where nothing is or it is damaged: the same is drawn again."""
    try:
        content = read_bounded_bytes(path, _MOST_BYTES)
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            values = dict(stored)
    except InputError:  # a pipe or a device, into which nothing may be written either
        raise
    except Exception:  # what a damaged archive raises depends on where it is damaged
        return None
    usual = all(one.dtype == np.float32 and one.ndim == 3 and len(one) for one in values.values())
    return values if usual and all(np.isfinite(one).all() for one in values.values()) else None


def _spread(draws: ShapleyDraws) -> Float[np.ndarray, "d C"]:
    """Return the variance of one draw; NaN of a single pair, which shows none."""
    if draws.shape[2] <= 2:  # two words have one pair of orders
        return np.zeros(draws.shape[1:]).T
    return np.var(draws, axis=0, ddof=1).T if len(draws) > 1 else draws[0].T * np.nan


def make_examples(
    model: Model,
    texts: Sequence[Any],
    drawn: Sequence[ShapleyDraws],
    request: Request,
    signals: Sequence[str],
) -> Examples:
    """Return texts with what the networks are told of them, and their sampled values."""
    parts, shown = list[NetworkInputs](), not set(STATES).isdisjoint(signals)
    for start in range(0, len(texts), _PART):
        batch = read_batch(model, texts[start : start + _PART], request, with_hidden_states=shown)
        sizes = [one.shape[2] for one in drawn[start : start + _PART]]
        columns = {one.shape[1] for one in drawn}
        if [len(features) for features in batch.features] != sizes or len(columns) > 1:
            raise InputError("the stored values are of other features than the words of texts.")
        one = make_network_inputs(batch, signals)
        parts.append(one._replace(owner=one.owner + start))
    return Examples(
        NetworkInputs(*(np.concatenate(several) for several in zip(*parts, strict=True))),
        np.concatenate([one.mean(axis=0).T for one in drawn]),
        np.concatenate([_spread(one) for one in drawn]),
        np.repeat([len(one) for one in drawn], [one.shape[2] for one in drawn]),
        "words" in signals,
    )


def fitted(
    model: Model,
    plan: SamplingPlan,
    drawn: Sequence[ShapleyDraws | None],
    request: Request,
    *,
    judged: int | None = None,
    aim: tuple[int, list[int]] | None = None,
    tracker: ProgressTracker | None = None,
) -> LearnedMethod:
    """Return the method that is fitted to ``drawn`` values, with its report.

    These are of all outputs of the model, or of those of ``aim``: a class, and its outputs.
    """
    signals: tuple[str, ...] = SIGNALS_WITHOUT_STATES
    if has(model, "hidden_states"):
        is_queried = any(isinstance(text, QueriedText) and text.queries for text in plan.texts)
        signals = (*SIGNALS_WITH_STATES, "attention") if is_queried else SIGNALS_WITH_STATES
    known = [i for i, one in enumerate(drawn) if one is not None]
    texts, held_out = [plan.texts[i] for i in known], plan.held_out.select(known)
    held, tunes, calibrates, _ = held_out
    values = [one for one in drawn if one is not None]
    if aim is None:
        values = [remove_common_part(model, one) for one in values]
    if min(map(np.count_nonzero, (~held, tunes, calibrates))) < 2:
        raise InputError(f"too few of the {len(drawn)} texts can be read: {len(texts)}.")
    examples = make_examples(model, texts, values, request, signals)
    if not examples.values.any():
        raise InputError(
            f"all Shapley values that were drawn are 0: no {feature_noun(request.features)} of "
            "these texts moves the model, so there is nothing to learn. Are they texts for it?"
        )

    def heard(share: float) -> None:  # fitting counts as a quarter of the texts
        if tracker is not None:
            tracker.report(len(drawn) + share * -(-len(drawn) // 4))

    of = plan.query_kind
    learned = fit_examples(examples, held_out, seed=plan.seed, noun=of, on_progress=heard)
    learned = replace(
        learned,
        record={
            "model": model.fingerprint,
            "classes": list(model.classes),
            "outputs": list(range(examples.values.shape[1])) if aim is None else aim[1],
            "features": request.features,
            **({} if of == "texts" else {"of": of}),
            "signals": list(signals),
            "pairs": plan.pairs,
            "seed": plan.seed,
            "version": __version__,
            **learned.record,
        },
    )
    calls = sum(2 + 2 * len(one) * (one.shape[2] - 1) for one in values)
    if judged is None:  # about what greedy search, curves and chance take
        each = np.mean([0.5 * d * d + 100 * d for d in (one.shape[2] for one in values)])
        judged = int(_JUDGED * calls / each)
    aside = [text for text, own in zip(texts, held, strict=True) if own][:judged]
    report: dict[str, Any] = dict(learned.record["report"])
    if aside:
        target = "predicted" if aim is None else aim[0]
        judgment = judge(
            model,
            aside,
            [learned],
            target=target,
            features=request.features,
            columns=[],
            curves=False,
            seed=plan.seed,
        )
        (row,) = judgment.methods
        report["share"] = {"texts": len(aside), "share": row.share, "interval": row.interval}
    report |= {"calls": calls, "unreadable": len(drawn) - len(known)}
    noun = feature_noun(request.features)
    report["said"] = list(_sentences(report, signals, of, noun))
    return replace(learned, record={**learned.record, "report": report})


def remove_common_part(model: Model, draws: ShapleyDraws) -> ShapleyDraws:
    """Return draws of outputs without what two classes have in common: half of their log-odds.

    Of two classes the log-odds are explained, which what both outputs share does not move; learned
    with them, its errors would be added to theirs.
    """
    weights = class_weights(len(model.classes), draws.shape[1], model.link)
    if weights.shape != (2, 2) or not are_opposite(weights):
        return draws
    return np.einsum("oc,ncd->nod", weights.astype(draws.dtype) / 2, draws)


def _sentences(report: dict[str, Any], signals: Sequence[str], of: str, noun: str) -> Iterator[str]:
    """Yield sentences about the accuracy of a learned method; ``noun`` names a feature."""
    if warning := report.get("warning"):
        yield warning
    guaranteed = report["coverage"]["guarantee"]
    stopped_by = f"these {of}" if guaranteed is None else f"a quarter of these {of}"
    yield (
        f"On {report['held_out']:,} {of} kept aside its scores explain {max(report['r2'], 0):.0%} "
        "of the variance of Shapley values (R², corrected for the noise of the sampled ones), with "
        f"a rank correlation of {report['rank_correlation']:.2f}; fitting ended where the error on "
        f"{stopped_by} was least, so on others both may be somewhat lower."
    )
    share = report.get("share")
    if share and share["share"] is not None:  # None: no order of these words gains anything
        ends = share["interval"]  # none of a single text
        yield (
            f"Share of the way from a random order of the {pluralize(noun)} to greedy deletion, on "
            f"{share['texts']} of them: {share['share']:.2f}"
            f"{'' if ends is None else f' [{ends[0]:.2f}, {ends[1]:.2f}]'}."
        )
    half, whole = report["curve"][-2:]
    left = (1 - whole["r2"]) ** 2 / max(1 - half["r2"], 1e-9)
    more = max(1 - left, whole["r2"], 0.0)
    shares = ", ".join(f"{max(one['r2'], 0):.0%} from {one['texts']:,}" for one in report["curve"])
    yield (f"One network explains {shares} {of}; twice as many would bring it to about {more:.0%}.")
    cover = report["coverage"]
    apart = "" if guaranteed is None else " that had no other part in the fit"
    yield (
        f"On {cover['texts']:,} texts{apart}, ±2 standard errors hold "
        f"{cover['overall']:.1%} of the sampled values, whose sampling error is counted too, "
        f"{min(cover['deciles']):.0%} to {max(cover['deciles']):.0%} by size of the score."
    )
    if guaranteed is not None:
        yield (
            f"Of a further text like these they hold at least {guaranteed:.0%}, in the mean over "
            f"texts and {pluralize(noun)}: split conformal prediction."
        )
    if set(STATES).isdisjoint(signals):
        yield (
            f"This model shows nothing of what it holds, so each {noun} has one weight whatever "
            "stands around it: a global additive model, which does not see the single text."
        )
