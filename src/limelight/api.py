"""What limelight does: explain, compare, play the game behind it, list the methods."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Unpack, overload
from warnings import warn

from limelight.errors import add_text_number
from limelight.explainers.batch import Batch
from limelight.explainers.budget import (
    Budget,
    BudgetInput,
    allocate_budget,
    check_feasible,
    configure_with_budget,
)
from limelight.explainers.explaining import (
    Texts,
    as_list,
    compare_methods,
    explain_batch,
    read_single_text,
    stream_batches,
    track_progress,
)
from limelight.explainers.method import ConfiguredMethod
from limelight.explainers.registry import METHODS, method_table
from limelight.models import (
    Model,
    check_model,
)
from limelight.models.prediction import predict_rows
from limelight.models.protocol import Requirements
from limelight.models.queries import expand_queries, join_queries
from limelight.models.text_game import TextGame
from limelight.progress import ProgressCallback, open_progress
from limelight.request import (
    Request,
    RequestKeywords,
    prepare_model,
    split,
    with_request_signature,
)
from limelight.results import Comparison, Explanation, Explanations, SpanExplanations
from limelight.results.method_table import MethodTable
from limelight.setting_keywords import MethodSettings
from limelight.text import AnswerQuery, Input, Query, UserInput, is_single, join_pair


class Keywords(RequestKeywords, MethodSettings, total=False):
    """What may be given by name to every verb that explains."""

    budget: BudgetInput | None
    progress: ProgressCallback | bool | None


_SPENT = {name: Keywords.__annotations__[name] for name in ("budget", "progress")}
# What a question about all classes, spans or sentences does not name, and what a game has not.
_CLASS = ("target", "against")
_SPAN = ("at", "answer")
_SENTENCE = (*_CLASS, "scale", "at")
_PLAYED = (*_CLASS, "scale")
Named = str | object | None  # a method by its name, or its settings


class PreparedCall(NamedTuple):
    """The keywords of one call, ready for its texts: ``model`` was prepared for ``question``."""

    model: Model
    request: Request
    methods: list[ConfiguredMethod]
    budget: Budget | None
    progress: ProgressCallback | bool | None


def _prepare_call(
    model: Any,
    method: Any,
    keywords: dict[str, Any],
    without: tuple[str, ...] = (),
    *,
    all_classes: bool = False,
    several: bool = False,
    needs: Requirements = (),
) -> PreparedCall:
    """Return the call that the keywords of a function describe; it takes none of ``without``."""
    budget, progress = (keywords.pop(name, None) for name in _SPENT)
    request, settings = split(keywords, without, all_classes=all_classes)
    prepared, request = prepare_model(model, request, needs=needs)
    methods, spent = configure_with_budget(prepared, method, settings, budget, several=several)
    return PreparedCall(prepared, request, methods, spent, progress)


@overload
def explain(
    model: Model, text: Input, method: Named = None, **keywords: Unpack[Keywords]
) -> Explanation: ...
@overload
def explain(
    model: Model, text: Texts, method: Named = None, **keywords: Unpack[Keywords]
) -> Explanations: ...
@with_request_signature(**_SPENT)
def explain(
    model: Any, text: Any, method: Any = None, **settings: Any
) -> Explanation | Explanations:
    """Return the score of every feature of ``text``; a list of texts gives a list.

    The list is a table too: ``explain(model, texts).to_frame()``, ``.to_csv()``.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns.
    text
        One text, a pair of texts as a tuple of two, an image (an array, a Pillow image, a
        path), or a list of these.
    method
        A name from :func:`limelight.methods`, or the settings of one, such as
        ``limelight.explainers.Lime(bandwidth=0.5)``; by default "lime" on models
        for which it is exact, "banzhaf" where an answer is explained, else "shapley".
    target
        Class by name or index, or "predicted"; by default the last of two, else the predicted
        one. For every class at once, see :func:`explain_classes`.
    against
        Another class, by name or index, or "predicted": what is explained is then the target less
        this one, f_a − f_b (p_a − p_b for probabilities).
    features
        "words": all occurrences of a word together; "positions": every token by itself;
        "sentences", "paragraphs" or "lines"; a list of (start, end); a function from the text to
        such a list; or one group number per token of the window, negative to leave a token out.
        "tokens" are the pieces of a Hugging Face tokenizer. By default "words", and "sentences"
        where an answer is explained.
        Of an image: "patches", the model's own and the default; "segments" by SLIC of
        scikit-image; or a function from the pixels to a label for each.
    grid
        Of an image: so many patches a side, instead of the model's own.
    scale
        What is explained: the "logit" of the target, or its "probability"; for a model whose
        outputs are not log-odds it is always the "score".
    protect
        Words that stay as they are and get no score.
    side
        "first" or "second": of a pair, score only the words of this text; the other is left alone.
    at
        With a model that finds spans (a tagger, or one of extractive answers): the place that is
        asked about. Words of the text, (start, end) in characters, or the number of a span that
        the model finds, counting from 0; by default the only one. Of a question and a passage, in
        the passage. For all spans, see :func:`explain_spans`.
    answer
        With a language model: the answer whose log-probability is explained, or a list with one for
        each text; by default what the model writes, the likeliest token each time. For each
        sentence of it, see :func:`explain_sentences`.
    protect_span
        Whether the words at that place stay, so that the scores say what the others did.
    first_pieces
        Read tags at the first piece of every word, instead of averaging over all pieces.
    window
        For texts that are longer than a Hugging Face model reads: cut them into windows of that
        many tokens ("auto": as many as the model reads), after a sentence where possible, and
        explain the mean of the model's outputs over them. None explains the first window.
    budget
        How much to spend on each text: a time, 30 or "30s" or "2min", or "400 calls" of the model.
        Reading the text and timing the model are part of a time. When it is over, a method stops
        with the draws that it has, so a time gives other scores on another machine.
        How many samples or pairs of orders a method draws follows from it, and the result's
        settings say what was used; what cannot be done within it is refused. Exact methods that ask
        nothing need none of it. By default every method's own counts hold.
    progress
        Called with (texts done, texts in all); while a model is asked many times about a text,
        with the part of it that is done. True shows a line on standard error.
    settings
        Settings of the method, such as ``tolerance``.
    """
    call = _prepare_call(model, method, settings)
    found = _answers(call, text, lambda within, batch: explain_batch(within[0], batch))
    return Explanations(found) if isinstance(found, list) else found


def _answers(
    call: PreparedCall,
    text: Any,
    answers: Callable[[list[ConfiguredMethod], Batch], list[Any]],
    *,
    strict: bool = True,
    warning: str = "",
) -> Any:
    """Return one of the ``answers`` for each text, or the one for a text that was given alone.

    Unless ``strict``, a method that cannot work for a text is no error before it is tried. The
    first of several texts that a language model answers has the warning about that, and the only
    text has ``warning``.
    """
    model, request, methods, budget, progress = call
    texts, found = as_list(text), list[Any]()
    refuses = budget is not None or any(method.implementation.cost.check for method in methods)
    with open_progress(progress, "explaining") if progress else nullcontext() as callback:
        for number, batch in enumerate(
            stream_batches(
                model,
                texts,
                request,
                progress=callback,
                methods=methods,
                check_size=partial(check_feasible, budget, methods) if strict and refuses else None,
                single_texts=budget is not None,
            )
        ):
            if not number and len(texts) > 1:
                warning = _list_warning(request, len(texts), batch.inputs[0].queries)
            if warning:
                first, *others = batch.inputs
                first = replace(first, warnings=(*first.warnings, warning))
                batch, warning = replace(batch, inputs=(first, *others)), ""
            within = allocate_budget(budget, methods, batch)
            with track_progress(callback, within, batch, total=len(texts)):
                found += answers(within, batch)
            if budget is not None:  # it is for each text
                budget = budget.restart()
    return found[0] if is_single(text) else found


@overload
def explain_classes(
    model: Model, text: Input, method: Named = None, **keywords: Unpack[Keywords]
) -> dict[str, Explanation]: ...
@overload
def explain_classes(
    model: Model, text: Texts, method: Named = None, **keywords: Unpack[Keywords]
) -> list[dict[str, Explanation]]: ...
@with_request_signature(_CLASS, **_SPENT)
def explain_classes(
    model: Any, text: Any, method: Any = None, **settings: Any
) -> dict[str, Explanation] | list[dict[str, Explanation]]:
    """Return one explanation per class of the model, by the name of the class.

    The model is asked as often as for one class. A list of texts gives a list; the arguments are
    those of :func:`explain`.
    """
    call = _prepare_call(model, method, settings, _CLASS, all_classes=True)

    def of_each_text(within: list[ConfiguredMethod], batch: Batch) -> list[dict[str, Explanation]]:
        by_class = [explain_batch(within[0], aimed) for aimed in batch.split_by_target()]
        each = zip(*by_class, strict=True)
        return [dict(zip(call.model.classes, of_text, strict=True)) for of_text in each]

    return _answers(call, text, of_each_text)


@overload
def explain_spans(
    model: Model, text: UserInput, method: Named = None, **keywords: Unpack[Keywords]
) -> SpanExplanations: ...
@overload
def explain_spans(
    model: Model, text: Texts, method: Named = None, **keywords: Unpack[Keywords]
) -> list[SpanExplanations]: ...
@with_request_signature(_SPAN, **_SPENT)
def explain_spans(
    model: Any, text: Any, method: Any = None, **settings: Any
) -> SpanExplanations | list[SpanExplanations]:
    """Return one explanation for every span that the model finds in ``text``; there may be none.

    The words of all these spans are protected, or with ``protect_span=False`` none of them: methods
    that remove words ask the model as often as for one span, those that look into it take a pass
    for each. A list of texts gives a list; the arguments are those of :func:`explain`. Where no
    ``target`` is named, each span is explained for its own tag.
    """
    call = _prepare_call(model, method, settings, _SPAN, needs=[("explain_spans", "spans", "")])
    return _explain_queries(call, text)


@overload
def explain_sentences(
    model: Model, text: UserInput, method: Named = None, **keywords: Unpack[Keywords]
) -> SpanExplanations: ...
@overload
def explain_sentences(
    model: Model, text: Texts, method: Named = None, **keywords: Unpack[Keywords]
) -> list[SpanExplanations]: ...
@with_request_signature(_SENTENCE, **_SPENT)
def explain_sentences(
    model: Any, text: Any, method: Any = None, **settings: Any
) -> SpanExplanations | list[SpanExplanations]:
    """Return one explanation for every sentence of what a language model answers to ``text``.

    What is explained is the log-probability of the sentence, given those before it; over all
    sentences these add up to that of the ``answer``, by default what the model writes. Methods that
    remove parts of the text ask the model as often as for one sentence. A list of texts gives a
    list; the arguments are those of :func:`explain`.
    """
    needs: Requirements = [("explain_sentences", "generation", "")]
    call = _prepare_call(model, method, settings, _SENTENCE, needs=needs)
    return _explain_queries(call, text)


def _list_warning(request: Request, count: int, queries: Sequence[Query]) -> str:
    """Return a warning if ``count`` texts may have been meant as documents of one question."""
    # Answers in a list say that texts are apart.
    is_list = isinstance(request.answer, tuple)
    if count < 2 or is_list or not queries or not isinstance(queries[0], AnswerQuery):
        return ""
    return (
        f"This list was read as {count} texts with an answer each. If they are documents for "
        "one answer, pass '\\n\\n'.join(documents) as the text, with features='paragraphs'."
    )


def _explain_queries(call: PreparedCall, text: Any) -> SpanExplanations | list[SpanExplanations]:
    """Return the explanations of all queries of each text: its spans, or sentences."""

    def explain_all(methods: list[ConfiguredMethod], batch: Batch) -> list[list[Explanation]]:
        return [[e for aimed in batch.split_by_target() for e in explain_batch(methods[0], aimed)]]

    model, progress = call.model, call.progress
    texts, results, is_first = as_list(text), list[SpanExplanations](), True
    queried_texts = call.request.attach_queries(texts)
    without_answers = replace(call.request, answer=None)
    # Text by text: outputs of all parts stand in a row, so texts of one reading have equally many.
    with open_progress(progress, "explaining") if progress else nullcontext() as callback:
        for number, queried in enumerate(queried_texts):
            with add_text_number(number if len(texts) > 1 else None):
                expanded = expand_queries(model, queried, by_sentence=True)
                explained: list[list[Explanation]] = [[]]
                if expanded:
                    joint, warning = join_queries(expanded), ""
                    if is_first:
                        warning = _list_warning(call.request, len(texts), joint.queries)
                        is_first = False
                    part = None if callback is None else _after(callback, number, len(texts))
                    call_of_text = call._replace(request=without_answers, progress=part)
                    explained = _answers(call_of_text, [joint], explain_all, warning=warning)
                name = join_pair(texts[number])[0]
                results.append(SpanExplanations(name, tuple(explained[0])))
    return results[0] if is_single(text) else results


def _after(callback: ProgressCallback, done: int, total: int) -> ProgressCallback:
    return lambda part, _: callback(done + part, total)


def predict(model: Model, text: Input | Texts) -> Any:
    """Return what the model says of a text, as a dictionary; a list of texts gives a list.

    Of a classifier: class, probability, logits (of two classes the log-odds of one against the
    other), probabilities. Of a model that finds spans: the
    ``spans``, each with start, end, text, tag and score. Of a language model: the ``answer`` that
    it writes, its ``log_probability``, and the ``sentences`` of it with the log-probability of
    each, given those before. All have the text and the ``warnings``.
    """
    rows = predict_rows(check_model(model), as_list(text))
    return rows[0] if is_single(text) else rows


@overload
def compare(
    model: Model,
    text: Input,
    *,
    methods: str | Sequence[str | object] | None = None,
    attention: bool = False,
    **keywords: Unpack[Keywords],
) -> Comparison: ...
@overload
def compare(
    model: Model,
    text: Texts,
    *,
    methods: str | Sequence[str | object] | None = None,
    attention: bool = False,
    **keywords: Unpack[Keywords],
) -> list[Comparison]: ...
@with_request_signature(**_SPENT)
def compare(
    model: Any,
    text: Any,
    *,
    methods: str | Sequence[str | object] | None = None,
    attention: bool = False,
    **settings: Any,
) -> Comparison | list[Comparison]:
    """Return one explanation per method of the same text; a list of texts gives a list.

    ``methods`` are by default those of :data:`limelight.explainers.registry`: the paper's
    seven and Shapley values on the paper's classifier, elsewhere those that are faithful to deep
    models, as far as the model allows them. One that is not defined for a text (LIME of a single
    word) is then left out with a warning, while a method that was asked for by name and is not
    defined is an error. A setting goes to every method that
    has it, and one of them must; a method may also be given as its settings object.
    ``attention`` adds the heads' attention matrices for the page and the figure (T × T numbers per
    head, which nothing else needs). A ``budget`` is for all methods together: those of a fixed cost
    take it first, the others share the rest evenly. The other arguments are those of
    :func:`explain`.
    """
    strict = methods is not None

    def of_each_text(within: list[ConfiguredMethod], batch: Batch) -> list[Comparison]:
        return [
            compare_methods(within, one, strict=strict, attention=attention)
            for one in batch.split()
        ]

    call = _prepare_call(model, methods, settings, several=True)
    return _answers(call, text, of_each_text, strict=strict)


@with_request_signature(_PLAYED)
def game(
    model: Model,
    text: Input,
    *,
    replacement: str = "auto",
    **asked: Unpack[RequestKeywords],
) -> TextGame:
    """Return ``text`` as a game: masks (n, d), true where a feature stays, to outputs (n, C).

    It is what every perturbation method asks. ``replacement`` is what stands for a removed word;
    the other arguments are those of :func:`explain`.
    """
    return read_single_text("game", model, text, asked, _PLAYED).game(replacement)


def methods(model: Model | None = None) -> MethodTable:
    """Return what each method computes, sees and cannot see, and its settings.

    With a ``model``, how each is computed for it, or why it is not.
    """
    table = method_table(None if model is None else check_model(model))
    for sentence in METHODS.load_errors.values():
        warn(sentence, stacklevel=2)
    return table
