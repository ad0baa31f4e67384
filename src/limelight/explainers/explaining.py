"""Run methods on texts: read them in batches, explain each batch, and report the progress."""

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from limelight import __version__
from limelight.errors import DomainError, InputError, add_text_number
from limelight.explainers.batch import Batch, advise_finer_features, read_batches
from limelight.explainers.budget import time_calls
from limelight.explainers.method import ConfiguredMethod
from limelight.explainers.registry import configure_method, default_method, preview_method
from limelight.models import Model
from limelight.models.engine import share_device
from limelight.models.protocol import (
    announce_calls,
    choose_batch_size,
    count_parallel_batches,
)
from limelight.models.text_game import NO_BASE_VALUE
from limelight.progress import ProgressCallback, ProgressTracker
from limelight.request import Request, prepare_model
from limelight.results import Attribution, Comparison, Explanation
from limelight.sampling.deadline import set_deadline
from limelight.sampling.ranks import TopSizes, exact_tops
from limelight.text import (
    Pair,
    UserInput,
    is_single,
    parse_input,
    truncate_line,
    validate_text_or_pair,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

# Fields that an explanation takes from the attribution without a change.
_ATTRIBUTION_FIELDS = (
    "scores", "stderr", "bound", "intercept", "heads", "pairs", "anchor", "draws",
)  # fmt: skip
_UNBOUNDED = (
    "These scores have no finite error bound, because numbers of the model are too large or too "
    "far apart for double precision. They may be wrong."
)


def explain_batch(method: ConfiguredMethod, batch: Batch) -> list[Explanation]:
    """Explain every input of a batch with one method.

    Raises
    ------
    InputError
        If the method has no formula for the scale of the targets.
    DomainError
        If the method is not defined for an input. The message names the input.
    """
    if method.implementation.logit_only and batch.targets.scale == "probability":
        raise InputError(
            f"method {method.method.id!r} explains logits only. Use scale='logit', or use "
            "'lime-sampled' for probabilities."
        )
    try:
        return _run_method(method, batch)
    except DomainError:
        # Run the method on each input, so that the error names the one outside its domain.
        for single in batch.split():
            with (
                add_text_number(single.first_index),
                advise_finer_features(batch.model, single.features[0]),
            ):
                _run_method(method, single)
        raise


def _run_method(method: ConfiguredMethod, batch: Batch) -> list[Explanation]:
    """Run a method on a batch, and turn its attributions into explanations."""
    if method.budget_error:  # with a budget, a batch has a single input
        raise DomainError(method.budget_error)
    check, settings = method.implementation.cost.check, method.settings
    if check is not None:  # not every function has checked this before it read the texts
        for features in batch.features:
            check(settings, len(features))
    with set_deadline(method.deadline):
        result = method.implementation.explain(settings, batch)
        attributions = list(result) if isinstance(result, Iterable) else [result]
    count = len(batch.features)
    is_valid = all(isinstance(attribution, Attribution) for attribution in attributions)
    if len(attributions) != count or not is_valid:
        raise InputError(
            f"method {method.method.id!r} must return one Attribution per text (here {count}), not "
            f"{truncate_line(repr(result))}."
        )
    return [
        _make_explanation(method.with_drawn_samples(attribution.diagnostics), batch, i, attribution)
        for i, attribution in enumerate(attributions)
    ]


def compare_methods(
    methods: Sequence[ConfiguredMethod], batch: Batch, *, strict: bool, attention: bool
) -> Comparison:
    """Explain the only input of a batch with several methods, and return the comparison.

    Parameters
    ----------
    methods
        The methods, in the order of the comparison.
    batch
        The input.
    strict
        Whether a method that is not defined for the input raises an error. Otherwise the comparison
        leaves it out, with a warning.
    attention
        Whether the comparison stores the attention matrices of the model.

    Returns
    -------
    The comparison of all methods that can explain the input.

    Raises
    ------
    DomainError
        If a method is not defined for the input, with ``strict``; else if no method is.
    """
    explanations: list[Explanation] = []
    warnings: list[str] = []
    for method in methods:
        try:
            explanations.extend(explain_batch(method, batch))
        except DomainError as error:
            if strict:
                raise
            warnings.append(f"{method.method.label} is left out: {error}")
    if not explanations:
        raise DomainError(f"no method is left to compare. {' '.join(warnings)}")
    matrices = batch.attention_matrices() if attention else None
    return Comparison(
        explanations=tuple(explanations), attention=matrices, warnings=tuple(warnings)
    )


def _make_explanation(
    configured: ConfiguredMethod, batch: Batch, i: int, attribution: Attribution
) -> Explanation:
    """Return the explanation of input ``i`` from the attribution of a method."""
    method, base_fields = configured.method, batch.base_fields(i)
    base_value = attribution.base_value
    has_default_base = base_value is ...
    if base_value is ...:
        base_value = batch.base_values[i]
    warnings = base_fields["warnings"] + attribution.warnings
    if attribution.bound == math.inf:
        warnings += (_UNBOUNDED,)
    # A method that returns no base value itself has warned, or does not need one.
    if has_default_base and base_value is None:
        warnings += (f"{NO_BASE_VALUE}.",)
    method_settings = configured.settings_used()
    if attribution.features is not None:
        method_settings = {"features": attribution.features.kind} | method_settings
        base_fields = base_fields | attribution.features.result_fields(batch.inputs[i])
    return Explanation(
        **base_fields
        | {
            "warnings": warnings,
            "settings": base_fields["settings"] | method_settings,
            "diagnostics": base_fields["diagnostics"] | dict(attribution.diagnostics),
        },
        **{name: getattr(attribution, name) for name in _ATTRIBUTION_FIELDS},
        certain_tops=_certain_tops(configured, attribution),
        method=method.id,
        label=method.label,
        signed=method.signed if attribution.signed is None else attribution.signed,
        base_value=base_value,
        version=__version__,
    )


def _certain_tops(configured: ConfiguredMethod, attribution: Attribution) -> TopSizes | None:
    """Return the sizes of the certain top sets, or None if the method has no errors."""
    stderr = attribution.stderr
    # Two words have one pair of orders, so that their errors are 0.
    if stderr is not None and stderr.any():
        return attribution.certain_tops
    if attribution.has_unknown_errors or configured.implementation.exactness == "estimated":
        return None
    return exact_tops(attribution.scores, attribution.bound)


_UNTRACKED = contextlib.nullcontext()


def track_progress(
    callback: ProgressCallback | None,
    methods: Sequence[ConfiguredMethod],
    batch: Batch,
    *,
    total: int = 1,
) -> AbstractContextManager[None]:
    """Report the progress within the texts of a batch while a block explains them.

    Before that, announce the expected calls to a model whose calls cost money.

    Parameters
    ----------
    callback
        Called with the number of finished texts and of all texts. None reports nothing.
    methods
        The methods that explain the texts. Each knows its expected number of calls.
    batch
        The texts that the block explains.
    total
        The number of all texts, including those of other batches.

    Returns
    -------
    A context manager for the block.
    """

    def expected_calls(size: int) -> int:
        """Return the expected number of calls for an input with ``size`` features."""
        # Methods call the game again for each class. Outputs that it has stored count again.
        classes = len(batch.model.classes) if batch.request.all_classes else 1
        return classes * sum(method.expected_calls(size) for method in methods)

    def distinct_calls(i: int) -> int:
        """Return the expected number of calls for an input, without repeated masks."""
        size = len(batch.features[i])
        # A text of d features has 2^d masked versions, and all methods share their outputs, unless
        # outputs are random.
        calls = expected_calls(size)
        return calls if batch.has_random_outputs(i) else min(calls, 2**size)

    announce_calls(batch.model, lambda: sum(map(distinct_calls, range(len(batch.features)))))
    if callback is None:
        return _UNTRACKED
    calls = sum(map(expected_calls, map(len, batch.features)))
    if not calls:
        return _UNTRACKED
    tracker = ProgressTracker(callback, total=total)
    return tracker.track(batch.first_index or 0, texts=len(batch.features), calls=calls)


Texts = list[str] | list[Pair] | list[UserInput] | list[Any]
_MAX_TEXTS_READ = 32  # texts that are read and predicted together


def as_list(text: Any) -> list[Any]:
    """Return a single input or a list of inputs as a list.

    Raises
    ------
    InputError
        If it is neither an input nor a list.
    """
    if isinstance(text, tuple):
        return [validate_text_or_pair(text)]
    if is_single(text):
        return [parse_input(text)]
    if isinstance(text, Sequence) or hasattr(text, "tolist"):  # columns of tables have tolist
        return list(map(parse_input, text))
    raise InputError(f"a text must be a string or a list of strings, not {type(text).__name__}.")


def texts_per_batch(model: Model, methods: Sequence[ConfiguredMethod] = ()) -> int:
    """Return how many texts are explained together; 1 if each text costs many calls."""
    is_batched = bool(methods) and all(method.implementation.is_batched for method in methods)
    return choose_batch_size(model, is_batched=is_batched)


def stream_batches(
    model: Model,
    texts: Sequence[Any],
    request: Request,
    *,
    progress: ProgressCallback | None = None,
    methods: Sequence[ConfiguredMethod] = (),
    check_size: Callable[[int], None] | None = None,
    single_texts: bool = False,
) -> Iterator[Batch]:
    """Read texts batch by batch, so that memory does not grow with their number.

    Models without tables get one text per batch, unless all methods explain several texts together.
    Their outputs are stored for all classes and methods, but not for all texts.

    Parameters
    ----------
    model
        A model that :func:`prepare_model` prepared for the request.
    texts
        What the user passed, as a list.
    request
        The options of the explanation, as :func:`prepare_model` returned them.
    progress
        Called with the number of finished texts and of all texts.
    methods
        The methods that will explain the batches.
    check_size
        Raises an error for a number of features, before the model is called.
    single_texts
        Whether every text has its own batch, for any model.

    Yields
    ------
    Batches with all texts, in their order.
    """
    texts = request.attach_queries(texts)
    batch_size, done = texts_per_batch(model, methods), 0
    chunk_size = max(batch_size, _MAX_TEXTS_READ)
    capabilities = {method.implementation.needs for method in methods}
    for start in range(0, len(texts), chunk_size):
        for batch in read_batches(
            model,
            texts[start : start + chunk_size],
            request,
            first_index=start if len(texts) > 1 else None,
            check_size=check_size,
            with_hidden_states=capabilities == {"hidden_states"},
        ):
            for part in batch.split() if single_texts or batch_size == 1 else [batch]:
                yield part
                done += len(part.inputs)
                if progress is not None:
                    progress(done, len(texts))


Result = TypeVar("Result")


def explain_batches(
    model: Model,
    batches: Iterable[Batch],
    explain: Callable[[Batch, ProgressCallback | None], Result],
    *,
    progress: ProgressCallback | None = None,
    total: int = 1,
    in_turn: bool = False,
) -> Iterator[Result]:
    """Explain batches and yield the results in the order of the batches.

    On a GPU, a batch is read while the GPU computes the one before it, and its scores are fitted
    while the GPU computes the one after it. The results do not depend on this.

    Parameters
    ----------
    model
        The model. Its property ``parallel_batches`` says how many batches run at the same time.
    batches
        The batches, which are read when they are needed.
    explain
        Explains a batch, and reports how many inputs are done, with all inputs before the batch. If
        batches run at the same time, each has its own thread.
    progress
        Called with the number of finished inputs and of all inputs.
    total
        The number of all inputs.
    in_turn
        Whether batches run one after another, as with a budget.

    Yields
    ------
    What ``explain`` returns for each batch.
    """
    shared_progress = _SharedProgress(progress, total)
    parallel = 1 if in_turn else count_parallel_batches(model)
    if parallel == 1:
        for batch in batches:
            yield explain(batch, None if progress is None else shared_progress.callback(batch))
            shared_progress.finish(batch)
        return
    from concurrent.futures import ThreadPoolExecutor  # imported late, because few calls need it

    def explain_tracked(batch: Batch, callback: ProgressCallback) -> Result:
        """Explain a batch in a thread, which each model call can cancel."""
        tracker = ProgressTracker(callback, total=total, estimated=True)
        first, count = batch.first_index or 0, len(batch.inputs)
        with share_device(), tracker.track(first, texts=count, calls=1):
            return explain(batch, callback)

    running: deque[tuple[Batch, Future[Result]]] = deque()
    with ThreadPoolExecutor(parallel, thread_name_prefix="limelight") as executor:
        try:
            for batch in batches:
                callback = shared_progress.callback(batch)
                # A thread starts without the context variables, such as that of open displays.
                future = executor.submit(copy_context().run, explain_tracked, batch, callback)
                running.append((batch, future))
                if len(running) == parallel:
                    batch, future = running.popleft()
                    yield future.result()
                    shared_progress.finish(batch)
            for batch, future in running:
                yield future.result()
                shared_progress.finish(batch)
        except BaseException:  # an interrupt, too, must not wait for texts that take minutes
            shared_progress.is_cancelled = True
            for _, future in running:
                future.cancel()
            raise


class _SharedProgress:
    """The sum of the progress of batches that run at the same time."""

    def __init__(self, callback: ProgressCallback | None, total: int) -> None:
        self.is_cancelled = False
        self._callback, self._total, self._lock = callback, total, threading.Lock()
        self._finished, self._partial = 0, dict[int, float]()  # by the index of the first input

    def callback(self, batch: Batch) -> ProgressCallback:
        """Return the callback for the progress within a batch."""
        first = batch.first_index or 0

        def report_batch(done: int | float, _total: int) -> None:
            """Report that ``done`` inputs are done, with all inputs before the batch."""
            if self.is_cancelled:
                raise InputError("the explanation was cancelled.")
            with self._lock:
                self._partial[first] = done - first
                self._report()

        return report_batch

    def finish(self, batch: Batch) -> None:
        """Report that a batch is finished."""
        with self._lock:
            self._partial.pop(batch.first_index or 0, None)
            self._finished += len(batch.inputs)
            self._report()

    def _report(self) -> None:
        """Report how many inputs are done."""
        if self._callback is not None:
            done = self._finished + sum(self._partial.values())
            self._callback(int(done) if done == int(done) else done, self._total)


def read_single_text(
    function: str,
    model: Model,
    text: Any,
    request: Request,
    *,
    check_size: Callable[[int], None] | None = None,
) -> Batch:
    """Prepare a model and read one text, for a function that takes no list of texts.

    Parameters
    ----------
    function
        The name of the function, for error messages.
    model
        The model as the user passed it.
    text
        One text.
    request
        The options that the user passed.
    check_size
        Raises an error for a number of features, before the model is called.

    Returns
    -------
    The batch of the only text.

    Raises
    ------
    InputError
        If ``text`` is a list.
    """
    if not is_single(text):
        raise InputError(f"{function} needs a single text, not {type(text).__name__}.")
    prepared, request = prepare_model(model, request)
    (batch,) = stream_batches(prepared, as_list(text), request, check_size=check_size)
    return batch


_PATIENCE = 2.0  # seconds; a sampled method that is done sooner needs no preview


def preview_explanation(model: Model, texts: Sequence[Any], request: Request) -> Explanation | None:
    """Explain a text by a quick method if the default method is sampled and slow.

    Parameters
    ----------
    model, texts, request
        The model, the texts and the options, as :func:`limelight.explain` takes them.

    Returns
    -------
    The quick explanation of the only text. None if there are several texts, if the default method
    takes less than about two seconds, or if the quick method is not defined for the text.
    """
    if len(texts) != 1:
        return None
    try:
        model, request = prepare_model(model, request)
        name = preview_method(model)
        if name is None:
            return None
        (batch,) = stream_batches(model, texts, request)
        sampled = configure_method(default_method(model), model, {})
        if _estimate_seconds(sampled, batch) < _PATIENCE:
            return None
        return explain_batch(configure_method(name, model, {}), batch)[0]
    except InputError:  # a preview is a favor: the explanation itself raises the error
        return None


def _estimate_seconds(method: ConfiguredMethod, batch: Batch) -> float:
    """Estimate the time of a sampled method for the only input of a batch."""
    seconds_per_call, _ = time_calls(_PATIENCE, batch.game())
    return method.expected_calls(len(batch.features[0])) * seconds_per_call
