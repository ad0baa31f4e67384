"""From texts and a method to explanations, a few texts at a time."""

import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from limelight import __version__
from limelight.errors import DomainError, InputError, about_text
from limelight.explainers.batch import Batch, advising, read_batches
from limelight.explainers.method import ConfiguredMethod
from limelight.models import Model
from limelight.models.protocol import announce_calls, batch_size
from limelight.models.text_game import NO_BASE
from limelight.progress import ProgressCallback, ProgressTracker
from limelight.request import Request, prepare_model, split
from limelight.results import Attribution, Comparison, Explanation
from limelight.sampling.deadline import drawing_until
from limelight.text import Pair, UserInput, checked_text_or_pair, is_single, one_line

# What a result has as it was found.
_FOUND = ("scores", "stderr", "bound", "intercept", "heads", "pairs", "anchor")
_UNBOUNDED = (
    "The error of these scores has no finite bound: the numbers of this model are too large, or "
    "too far apart, for double precision to say more."
)


def explanations(method: ConfiguredMethod, batch: Batch) -> list[Explanation]:
    """Explain every document of ``reading`` with one method, which is one for its model."""
    if method.implementation.logit_only and batch.targets.scale == "probability":
        raise InputError(
            f"method {method.method.id!r} has a formula for logits only; ask for the logit, or use "
            "'lime-sampled', which samples probabilities."
        )
    try:
        return _run_method(method, batch)
    except DomainError:
        for single in batch.apart():  # of several texts, name the one outside the method's domain
            with about_text(single.first), advising(single.features[0]):
                _run_method(method, single)
        raise


def _run_method(method: ConfiguredMethod, batch: Batch) -> list[Explanation]:
    if method.refusal:  # of a budget, with which there is one document
        raise DomainError(method.refusal)
    check, settings = method.implementation.cost.check, method.settings
    if check is not None:  # again, since not every verb checks before the texts are read
        for features in batch.features:
            check(settings, len(features))
    with drawing_until(method.deadline):
        found = method.implementation.explain(settings, batch)
        findings = list(found) if isinstance(found, Iterable) else [found]
    count = len(batch.features)
    if len(findings) != count or not all(isinstance(finding, Attribution) for finding in findings):
        raise InputError(
            f"method {method.method.id!r} must return one Attribution per text, {count} here; it "
            f"returned {one_line(repr(found))}."
        )
    return [
        _explanation(method.with_samples_drawn(finding.diagnostics), batch, i, finding)
        for i, finding in enumerate(findings)
    ]


def compared(
    methods: Sequence[ConfiguredMethod], batch: Batch, *, strict: bool, attention: bool
) -> Comparison:
    """Compare the explanations of several methods for the one document of ``reading``.

    Unless ``strict``, one that is not defined for the text is left out with a notice; where none
    is left, these are the error.
    """
    found: list[Explanation] = []
    missing: list[str] = []
    for method in methods:
        try:
            found.extend(explanations(method, batch))
        except DomainError as error:
            if strict:
                raise
            missing.append(f"{method.method.label} is left out: {error}")
    if not found:
        raise DomainError(f"no method is left to compare. {' '.join(missing)}")
    matrices = batch.attention_matrices() if attention else None
    return Comparison(explanations=tuple(found), attention=matrices, notices=tuple(missing))


def _explanation(
    configured: ConfiguredMethod, batch: Batch, i: int, found: Attribution
) -> Explanation:
    """Return the explanation of document ``i`` from the finding of a method."""
    method, common = configured.method, batch.common(i)
    base = batch.base_values[i] if found.base_value is ... else found.base_value
    notices = common["notices"] + found.notices
    if found.bound == math.inf:
        notices += (_UNBOUNDED,)
    # A method that gives none itself has said why, or has not asked for it.
    if found.base_value is ... and base is None:
        notices += (f"{NO_BASE}.",)
    own = {} if found.units is None else {"features": found.units.unit}
    if found.units is not None:
        common = common | found.units.of_result(batch.inputs[i])
    return Explanation(
        **common
        | {
            "notices": notices,
            "settings": common["settings"] | own | configured.settings_used(),
            "diagnostics": common["diagnostics"] | dict(found.diagnostics),
        },
        **{name: getattr(found, name) for name in _FOUND},
        method=method.id,
        label=method.label,
        signed=method.signed if found.signed is None else found.signed,
        base_value=base,
        version=__version__,
    )


_UNTRACKED = contextlib.nullcontext()


def track_progress(
    callback: ProgressCallback | None,
    methods: Sequence[ConfiguredMethod],
    batch: Batch,
    *,
    total: int = 1,
) -> AbstractContextManager[None]:
    """Report parts of the texts of ``reading`` while a block explains them.

    Before that, announce the expected calls to a model whose calls cost money.

    Parameters
    ----------
    callback
        Called with the texts done and all texts. None reports nothing.
    methods
        The methods that explain the texts. Those that call the model say how often.
    reading
        The texts.
    total
        The number of all texts, those of other readings included.
    """

    def expected_calls(size: int) -> int:
        # Methods ask anew about each class, and what the model has answered is counted again.
        classes = len(batch.model.classes) if batch.request.all_classes else 1
        return classes * sum(method.expected_calls(size) for method in methods)

    # A text of d features has 2^d versions, and all methods share the answer to each.
    announce_calls(
        batch.model,
        lambda: sum(min(expected_calls(d), 2**d) for d in map(len, batch.features)),
    )
    if callback is None:
        return _UNTRACKED
    calls = sum(map(expected_calls, map(len, batch.features)))
    if not calls:
        return _UNTRACKED
    tracker = ProgressTracker(callback, total=total)
    return tracker.track(batch.first or 0, texts=len(batch.features), calls=calls)


Texts = list[str] | list[Pair] | list[UserInput] | list[Any]
_CHUNK = 32  # documents that are read and asked for their outputs at a time


def listed(text: Any) -> list[Any]:
    """Return one text, or whatever else a model may read in its place, or a list, as a list."""
    if isinstance(text, tuple):
        return [checked_text_or_pair(text)]
    if not isinstance(text, list) and is_single(text):
        return [text]
    if isinstance(text, Sequence) or hasattr(text, "tolist"):  # which a column of a table has
        return list(text)
    raise InputError(f"a text must be a string, or a list of them; got {type(text).__name__}.")


def together(model: Model, chosen: Sequence[ConfiguredMethod] = ()) -> int:
    """Return how many texts are explained at a time; 1 where each costs many calls."""
    is_joint = bool(chosen) and all(method.implementation.is_batched for method in chosen)
    return batch_size(model, is_joint=is_joint)


def stream_batches(
    model: Model,
    texts: Sequence[Any],
    request: Request,
    *,
    progress: ProgressCallback | None = None,
    chosen: Sequence[ConfiguredMethod] = (),
    feasible: Callable[[int], None] | None = None,
    alone: bool = False,
) -> Iterator[Batch]:
    """Read the texts a few at a time, so that memory does not grow with their number.

    ``model`` and ``question`` were prepared for each other by :func:`prepare_model`. ``alone``
    yields every text by itself, whatever the model.
    Models that do not collapse are then asked text by text, unless the ``chosen`` methods all take
    several: their answers are remembered for all classes and methods, but not for all texts.
    """
    texts = request.attach_queries(texts)
    at_a_time, done = together(model, chosen), 0
    chunk = max(at_a_time, _CHUNK)
    needs = [method.implementation.needs for method in chosen]
    signalled = bool(needs) and set(needs) == {"hidden_states"}
    for start in range(0, len(texts), chunk):
        some, first = texts[start : start + chunk], start if len(texts) > 1 else None
        for batch in read_batches(
            model, some, request, first=first, feasible=feasible, signals=signalled
        ):
            for part in batch.apart() if alone or at_a_time == 1 else [batch]:
                yield part
                done += len(part.inputs)
                if progress is not None:
                    progress(done, len(texts))


def one_reading(
    verb: str,
    model: Model,
    text: Any,
    keywords: Mapping[str, Any],
    without: Collection[str] = (),
    *,
    feasible: Callable[[int], None] | None = None,
) -> Batch:
    """Return the text as the model reads it, for a verb that is about one, without methods."""
    request, rest = split(keywords, without)
    for name in rest:
        raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}")
    if not is_single(text):
        raise InputError(f"a {verb} is about one text, a string; got {type(text).__name__}.")
    prepared, request = prepare_model(model, request)
    (batch,) = stream_batches(prepared, listed(text), request, feasible=feasible)
    return batch
