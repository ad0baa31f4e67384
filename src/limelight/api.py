"""The main functions: explain, compare, predict, game and methods."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Unpack, overload
from warnings import warn

from limelight.errors import InputError, add_text_number, suggest_keywords
from limelight.explainers.batch import Batch
from limelight.explainers.budget import (
    Budget,
    BudgetInput,
    allocate_budget,
    check_feasible,
    configure_with_budget,
    parse_budget,
)
from limelight.explainers.explaining import (
    Texts,
    as_list,
    compare_methods,
    explain_batch,
    explain_batches,
    read_single_text,
    stream_batches,
    track_progress,
)
from limelight.explainers.method import ConfiguredMethod
from limelight.explainers.registry import METHODS, check_keywords, method_table
from limelight.models import Model, check_model
from limelight.models.prediction import predict_rows
from limelight.models.protocol import Requirements
from limelight.models.queries import expand_queries, join_queries
from limelight.models.text_game import TextGame
from limelight.progress import ProgressCallback, open_progress
from limelight.request import REQUEST_FIELDS, Request, prepare_model
from limelight.results import (
    Comparison,
    Counterfactual,
    Counterfactuals,
    Explanation,
    Explanations,
    SpanExplanations,
)
from limelight.results.method_table import MethodTable
from limelight.setting_keywords import MethodSettings
from limelight.text import (
    AnswerQuery,
    FeatureSpec,
    Input,
    Query,
    Splitter,
    UserInput,
    attach_documents,
    is_single,
    join_pair,
)

# The documents of a question, or one list of documents for each of several questions.
Documents = Sequence[Any]
MethodChoice = str | object | None  # the name of a method, or its settings object
_TARGET = ("target", "against")
_SPAN = ("at", "answer")
_SENTENCE = (*_TARGET, "scale", "at")


class PreparedCall(NamedTuple):
    """The model, request, methods and budget of one call of a public function."""

    model: Model
    request: Request
    methods: list[ConfiguredMethod]
    budget: Budget | None
    progress: ProgressCallback | bool | None


def _prepare_call(
    function: str,
    model: Any,
    method: Any,
    request: Request,
    settings: dict[str, Any],
    *,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    is_list: bool = False,
    needs: Requirements = (),
) -> PreparedCall:
    """Prepare the model and configure the methods of one call of a public function.

    Parameters
    ----------
    function
        The name of the public function, for error messages.
    model, method, replacement, seed, budget, progress
        As the user passed them.
    request
        The options of the explanation.
    settings
        Other settings of the methods.
    is_list
        Whether ``method`` may be a list of methods.
    needs
        Capabilities that the model needs, as :func:`prepare_model` takes them.

    Raises
    ------
    InputError
        If a keyword is an option that ``function`` does not have.
    """
    for field in REQUEST_FIELDS:
        if field.name in settings:
            raise InputError(f"{function} has no option {field.name}. Leave {field.name} out.")
    check_keywords(globals()[function], settings)
    # Not every method has these settings, so that their defaults are not passed on.
    if not isinstance(replacement, str) or replacement != "auto":
        settings["replacement"] = replacement
    if seed != 0:
        settings["seed"] = seed
    model, request = prepare_model(model, request, needs=needs)
    methods, parsed = configure_with_budget(model, method, settings, budget, is_list=is_list)
    return PreparedCall(model, request, methods, parsed, progress)


@overload
def explain(
    model: Model,
    text: Input,
    method: MethodChoice = None,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> Explanation: ...
@overload
def explain(
    model: Model,
    text: Texts,
    method: MethodChoice = None,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> Explanations: ...
def explain(
    model: Model,
    text: Input | Texts,
    method: MethodChoice = None,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> Explanation | Explanations:
    """Explain the prediction of a model for a text: one score per feature.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    text
        A text, a pair of texts as a tuple, or an image (an array, a Pillow image or a path). For a
        language model, also the messages of a chat in OpenAI's format. A list of these returns a
        list of explanations, which is also a table: ``explain(model, texts).to_frame()``.
    method
        A name from :func:`limelight.methods`, or settings such as
        ``limelight.explainers.Lime(bandwidth=0.5)``. By default "lime" if it is exact for the
        model, "banzhaf" for answers of language models, otherwise "shapley".
    target
        The class to explain: a name, an index, or "predicted". By default the second of two
        classes, otherwise the predicted class. :func:`explain_classes` explains every class.
    against
        Another class: a name, an index, or "predicted". The difference between the target and this
        class is explained.
    features
        The parts of the input that get a score. "words": all occurrences of a word share one score.
        "positions": every occurrence has its own. "tokens": the subwords of a Hugging Face
        tokenizer. "sentences", "paragraphs" or "lines". You can also pass a list of (start, end), a
        function from a text to this list, or one group number per token (negative numbers leave a
        token out). For images, "patches", "segments" (SLIC of scikit-image), or a function from the
        pixels to one label per pixel. For language models also "documents", "messages", and "steps"
        (the sentences of the reasoning before the answer). By default words, patches for images,
        and for answers documents, messages or sentences.
    grid
        Images: number of patches per side, instead of the patches of the model.
    scale
        "logit" (for two classes, the log-odds of the target) or "probability". For a model whose
        outputs are not log-odds the scale is always "score".
    protect
        Words and phrases that are never removed and get no score, such as ["film", "not bad"].
        Documents and messages by their id, role or number from 0, such as ["system", 3].
    window
        Texts that are longer than a Hugging Face model can read: explain the mean output over
        windows of this many tokens. "auto" is the largest window of the model. None explains the
        first window. For a tagger, the window around the span is explained.
    side
        Pairs of texts: score only the words of the "first" or the "second" text.
    at
        Models that find spans (taggers, extractive answers): the span to explain. Words of the
        text, (start, end) in characters, or the number of a span that the model finds, counted
        from 0. For a question and a passage, the span lies in the passage. By default the only
        span. :func:`explain_spans` explains every span.
    answer
        Language models: explain the log-probability of this answer, or of one answer per text. By
        default the last message of the assistant, or the answer that the model generates greedily.
        :func:`explain_sentences` explains every sentence of it.
    documents
        Language models: the documents for the question ``text``. Each is a string, a dictionary
        with ``text``, ``title`` and ``id``, or an object with ``page_content`` and ``metadata``.
    splitter
        For ``features="steps"``: a function from the reasoning to the (start, end) of its steps.
        By default, steps are sentences.
    protect_span
        Models that find spans: never remove the words of the explained span, and score only the
        words around it.
    first_subwords
        Taggers: read the tag of the first subword of each word, not the mean over its subwords.
    replacement
        The token that replaces removed features. "auto" is the default of the model. "refill"
        averages over random words of the ``background`` of :func:`limelight.load`.
    seed
        The seed of a method that samples.
    budget
        Limit for each text: seconds (30, "30s", "2min") or model calls ("400 calls"). The sample
        size of the method follows from it and is in the settings of the result. With a time, the
        scores differ between machines.
    progress
        A function that is called with (texts done, number of texts). While a text needs many model
        calls, the first number is a fraction. By default, a progress bar on standard error appears
        after two seconds. True shows it at once, and False turns it off.
    **settings
        Settings of the method, such as ``tolerance``. ``limelight.methods()`` lists them.
        ``until="top 3"`` samples until the top 3 are certain, or until the budget ends.

    Returns
    -------
    An :class:`Explanation`, or a list of them for a list of texts.

    Raises
    ------
    InputError
        If an option is wrong, or if the method needs a capability that the model does not have.
    DomainError
        If the method is not defined for the text, such as LIME for a single word.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load()
    >>> text = "The plot is predictable, but the acting is superb."
    >>> e = limelight.explain(model, text)
    >>> print([(word, round(score, 2)) for word, score in e.top(3)])
    [('superb', 1.29), ('predictable', -1.17), ('plot', -0.39)]
    >>> e
    <Explanation lime for 'positive' of 'The plot is predictable, but the acting…':
    9 features, superb +1.29, predictable -1.17, plot -0.386>
    """
    text = attach_documents(text, documents)
    request = Request(
        target=target,
        against=against,
        features=features,
        grid=grid,
        scale=scale,
        protect=protect,
        window=window,
        side=side,
        at=at,
        answer=answer,
        protect_span=protect_span,
        splitter=splitter,
        first_subwords=first_subwords,
    )
    call = _prepare_call(
        "explain",
        model,
        method,
        request,
        dict(settings),
        replacement=replacement,
        seed=seed,
        budget=budget,
        progress=progress,
    )
    results = _run_call(call, text, lambda methods, batch: explain_batch(methods[0], batch))
    return Explanations(results) if isinstance(results, list) else results


def _run_call(
    call: PreparedCall,
    text: Any,
    explain_texts: Callable[[list[ConfiguredMethod], Batch], list[Any]],
    *,
    strict: bool = True,
    warning: str = "",
) -> Any:
    """Read the texts of a call in batches and explain each batch.

    Parameters
    ----------
    call
        The model, request and methods, and the budget of model calls or seconds.
    text
        A text or a list of texts, as the user passed it.
    explain_texts
        Returns one result for each text of a batch.
    strict
        Whether a method that cannot explain a text, such as one with a single word, raises an
        error before it runs.
    warning
        A warning about the whole call. The result of the first text gets it.

    Returns
    -------
    The result of a single text, or the list of results of a list of texts.
    """
    model, request, methods, budget, progress = call
    texts, results = as_list(text), list[Any]()
    has_check = budget is not None or any(method.implementation.cost.check for method in methods)

    def read_texts() -> Iterator[Batch]:
        """Yield the batches, the first one with the warning about the whole call."""
        batches = stream_batches(
            model,
            texts,
            request,
            methods=methods,
            check_size=partial(check_feasible, budget, methods) if strict and has_check else None,
            single_texts=budget is not None,
        )
        for number, batch in enumerate(batches):
            first_warning = "" if number else warning
            if not number and len(texts) > 1:
                first_warning = _list_warning(request, len(texts), batch.inputs[0].queries)
            if first_warning:
                first, *later_inputs = batch.inputs
                first = replace(first, warnings=(*first.warnings, first_warning))
                batch = replace(batch, inputs=(first, *later_inputs))
            yield batch

    def explain_next(batch: Batch, callback: ProgressCallback | None) -> list[Any]:
        """Explain a batch within its own budget."""
        nonlocal budget
        configured = allocate_budget(budget, methods, batch)
        with track_progress(callback, configured, batch, total=len(texts)):
            batch_results = explain_texts(configured, batch)
        if budget is not None:  # every text has the whole budget
            budget = budget.restart()
        return batch_results

    with open_progress(progress, "explaining") as callback:
        for batch_results in explain_batches(
            model,
            read_texts(),
            explain_next,
            progress=callback,
            total=len(texts),
            in_turn=budget is not None,
        ):
            results += batch_results
    return results[0] if is_single(text) else results


@overload
def explain_classes(
    model: Model,
    text: Input,
    method: MethodChoice = None,
    *,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> dict[str, Explanation]: ...
@overload
def explain_classes(
    model: Model,
    text: Texts,
    method: MethodChoice = None,
    *,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> list[dict[str, Explanation]]: ...
def explain_classes(
    model: Model,
    text: Input | Texts,
    method: MethodChoice = None,
    *,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> dict[str, Explanation] | list[dict[str, Explanation]]:
    """Explain every class of a model.

    The number of model calls is the same as for one class.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    text
        A text, or a list of texts, as in :func:`explain`.
    method
        As in :func:`explain`.
    features, grid, scale, protect, window, side, at, answer, protect_span, first_subwords
        As in :func:`explain`.
    replacement, seed, budget, progress
        As in :func:`explain`.
    **settings
        Settings of the method, as in :func:`explain`.

    Returns
    -------
    A dictionary from class names to explanations, or a list of them for a list of texts.

    Raises
    ------
    InputError
        If an option is wrong, or if the method needs a capability that the model does not have.
    DomainError
        If the method is not defined for the text.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load()
    >>> text = "The plot is predictable, but the acting is superb."
    >>> explanations = limelight.explain_classes(model, text)
    >>> {name: round(float(e.scores.max()), 2) for name, e in explanations.items()}
    {'negative': 1.17, 'positive': 1.29}
    """
    request = Request(
        all_classes=True,
        features=features,
        grid=grid,
        scale=scale,
        protect=protect,
        window=window,
        side=side,
        at=at,
        answer=answer,
        protect_span=protect_span,
        first_subwords=first_subwords,
    )
    call = _prepare_call(
        "explain_classes",
        model,
        method,
        request,
        dict(settings),
        replacement=replacement,
        seed=seed,
        budget=budget,
        progress=progress,
    )

    def explain_all_classes(
        methods: list[ConfiguredMethod], batch: Batch
    ) -> list[dict[str, Explanation]]:
        """Explain each class for each text of a batch, with the only method."""
        by_class = [explain_batch(methods[0], target) for target in batch.split_by_target()]
        return [
            dict(zip(call.model.classes, explanations, strict=True))
            for explanations in zip(*by_class, strict=True)
        ]

    return _run_call(call, text, explain_all_classes)


@overload
def explain_spans(
    model: Model,
    text: UserInput,
    method: MethodChoice = None,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> SpanExplanations: ...
@overload
def explain_spans(
    model: Model,
    text: Texts,
    method: MethodChoice = None,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> list[SpanExplanations]: ...
def explain_spans(
    model: Model,
    text: UserInput | Texts,
    method: MethodChoice = None,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> SpanExplanations | list[SpanExplanations]:
    """Explain every span that a model finds in a text.

    There may be no span. If you pass no ``target``, each span is explained for its own tag. The
    words of all spans are protected, unless you pass ``protect_span=False``. Methods that remove
    words need as many model calls as for one span. Other methods need one pass per span.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    text
        A text, or a list of texts, as in :func:`explain`.
    method
        As in :func:`explain`.
    target, against, features, grid, scale, protect, window, side, protect_span, first_subwords
        As in :func:`explain`.
    replacement, seed, budget, progress
        As in :func:`explain`.
    **settings
        Settings of the method, as in :func:`explain`.

    Returns
    -------
    The explanations of the spans, or a list of them for a list of texts.

    Raises
    ------
    InputError
        If the model does not find spans, or if an option is wrong.

    Examples
    --------
    >>> import re
    >>> import limelight
    >>> def find_companies(texts):
    ...     return [
    ...         [(*match.span(), "ORG", 0.9 if "Inc" in text else 0.6)
    ...          for match in re.finditer("Acme", text)]
    ...         for text in texts
    ...     ]
    >>> tagger = limelight.wrap(find_companies, tags=["ORG"])
    >>> for e in limelight.explain_spans(tagger, "Acme Inc sued Acme", "loo"):
    ...     print(e.target_phrase, [(word, round(score, 2)) for word, score in e.top(1)])
    ORG at “Acme” (0:4) [('Inc', 1.79)]
    ORG at “Acme” (14:18) [('Inc', 1.79)]
    """
    request = Request(
        target=target,
        against=against,
        features=features,
        grid=grid,
        scale=scale,
        protect=protect,
        window=window,
        side=side,
        protect_span=protect_span,
        first_subwords=first_subwords,
    )
    call = _prepare_call(
        "explain_spans",
        model,
        method,
        request,
        dict(settings),
        replacement=replacement,
        seed=seed,
        budget=budget,
        progress=progress,
        needs=[("explain_spans", "spans", "")],
    )
    return _explain_queries(call, text)


@overload
def explain_sentences(
    model: Model,
    text: UserInput,
    method: MethodChoice = None,
    *,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> SpanExplanations: ...
@overload
def explain_sentences(
    model: Model,
    text: Texts,
    method: MethodChoice = None,
    *,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> list[SpanExplanations]: ...
def explain_sentences(
    model: Model,
    text: UserInput | Texts,
    method: MethodChoice = None,
    *,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> SpanExplanations | list[SpanExplanations]:
    """Explain every sentence of the answer of a language model.

    The log-probability of each sentence is explained, given the sentences before it. The sum over
    all sentences is the log-probability of the answer. By default, the model generates the answer.
    Methods that remove features need as many model calls as for one sentence.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    text
        A text, or a list of texts, as in :func:`explain`.
    method
        As in :func:`explain`.
    features, grid, protect, window, side, answer, protect_span, first_subwords, replacement
        As in :func:`explain`.
    seed, budget, progress
        As in :func:`explain`.
    **settings
        Settings of the method, as in :func:`explain`.

    Returns
    -------
    The explanations of the sentences, or a list of them for a list of texts.

    Raises
    ------
    InputError
        If the model does not generate answers, or if an option is wrong.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load("gpt2-mini-imdb", template="{text}")
    >>> text = "The acting is superb. The plot is dull."
    >>> answer = " I liked it. It was dull."
    >>> for e in limelight.explain_sentences(model, text, "loo", answer=answer):
    ...     ((sentence, score),) = e.top(1)
    ...     print(e.target_phrase, [(sentence, round(score, 2))])
    answer “I liked it.” [('The acting is superb.', -0.9)]
    answer “It was dull.” [('The plot is dull.', 0.32)]
    """
    text = attach_documents(text, documents)
    request = Request(
        features=features,
        grid=grid,
        protect=protect,
        window=window,
        side=side,
        answer=answer,
        protect_span=protect_span,
        splitter=splitter,
        first_subwords=first_subwords,
    )
    call = _prepare_call(
        "explain_sentences",
        model,
        method,
        request,
        dict(settings),
        replacement=replacement,
        seed=seed,
        budget=budget,
        progress=progress,
        needs=[("explain_sentences", "generation", "")],
    )
    return _explain_queries(call, text)


def _list_warning(request: Request, count: int, queries: Sequence[Query]) -> str:
    """Return a warning if a list of texts may have been meant as documents of one question."""
    # A list of answers shows that the texts are separate questions.
    has_answer_list = isinstance(request.answer, tuple)
    if count < 2 or has_answer_list or not queries or not isinstance(queries[0], AnswerQuery):
        return ""
    advice = "pass the question as the text, and documents=."
    if queries[0].prompt:  # the template has room for one text
        advice = "pass '\\n\\n'.join(documents) as the text, with features='paragraphs'."
    return (
        f"This list was read as {count} texts with an answer each. If they are documents for "
        f"one answer, {advice}"
    )


def _explain_queries(call: PreparedCall, text: Any) -> SpanExplanations | list[SpanExplanations]:
    """Explain every query of each text: its spans, or the sentences of its answer."""

    def explain_all_queries(
        methods: list[ConfiguredMethod], batch: Batch
    ) -> list[list[Explanation]]:
        """Explain each query of the only text of a batch, with the only method."""
        return [[e for query in batch.split_by_target() for e in explain_batch(methods[0], query)]]

    model, progress = call.model, call.progress
    texts, results, is_first = as_list(text), list[SpanExplanations](), True
    queried_texts = call.request.attach_queries(texts)
    without_answers = replace(call.request, answer=None)
    # One text at a time: the outputs of all queries are in one row, so that all inputs of a batch
    # need the same number of queries.
    with open_progress(progress, "explaining") as callback:
        for number, queried in enumerate(queried_texts):
            with add_text_number(number if len(texts) > 1 else None):
                expanded = expand_queries(model, queried, by_sentence=True)
                explained: list[list[Explanation]] = [[]]
                if expanded:
                    joint, warning = join_queries(expanded), ""
                    if is_first:
                        warning = _list_warning(call.request, len(texts), joint.queries)
                        is_first = False
                    report = None
                    if callback is not None:
                        report = _offset_progress(callback, number, len(texts))
                    call_of_text = call._replace(request=without_answers, progress=report)
                    explained = _run_call(
                        call_of_text, [joint], explain_all_queries, warning=warning
                    )
                name = join_pair(texts[number])[0]
                results.append(SpanExplanations(name, tuple(explained[0])))
    return results[0] if is_single(text) else results


def _offset_progress(callback: ProgressCallback, done: int, total: int) -> ProgressCallback:
    """Return a callback for one text, which adds the number of texts that are done."""
    return lambda part, _: callback(done + part, total)


def predict(model: Model, text: Input | Texts, *, documents: Documents | None = None) -> Any:
    """Predict the class, spans or answer for a text.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    text
        A text, or a list of texts, as in :func:`explain`.
    documents
        Language models: the documents for the question ``text``, as in :func:`explain`.

    Returns
    -------
    A dictionary with the text and its warnings, or a list of dictionaries for a list of texts. For
    a classifier it has the class, probability, logits and probabilities. For two classes the logits
    are the log-odds of each. For a model that finds spans it has ``spans``, each with start, end,
    text, tag and score. For a language model it has the ``answer`` that the model generates, its
    ``log_probability``, and its ``sentences`` with the log-probability of each, given the sentences
    before it.

    Raises
    ------
    InputError
        If ``model`` is not a model, or if a text cannot be read.

    Examples
    --------
    >>> import limelight
    >>> prediction = limelight.predict(limelight.load(), "A superb film.")
    >>> prediction["class"], round(prediction["probability"], 2)
    ('positive', 0.73)
    """
    text = attach_documents(text, documents)
    rows = predict_rows(check_model(model), as_list(text))
    return rows[0] if is_single(text) else rows


@overload
def compare(
    model: Model,
    text: Input,
    methods: str | Sequence[str | object] | None = None,
    *,
    attention: bool = False,
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> Comparison: ...
@overload
def compare(
    model: Model,
    text: Texts,
    methods: str | Sequence[str | object] | None = None,
    *,
    attention: bool = False,
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> list[Comparison]: ...
def compare(
    model: Model,
    text: Input | Texts,
    methods: str | Sequence[str | object] | None = None,
    *,
    attention: bool = False,
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> Comparison | list[Comparison]:
    """Explain a text with several methods.

    The methods share the outputs of the model. A setting goes to every method that has it, and at
    least one method must have it. All methods together have one ``budget``. Methods with fixed
    costs are paid first, and the others share the rest equally.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    text
        A text, or a list of texts, as in :func:`explain`.
    methods
        Names or settings of methods. The default depends on the model. For `AttentionClassifier` it
        is the seven methods of the paper and Shapley values. For other models it is the methods
        that are faithful to deep models, as far as the model has their capabilities. If a default
        method is not defined for a text, the comparison leaves it out with a warning. If you name
        the method, it raises an error.
    attention
        Store the attention matrices for the page and the figure (T × T numbers per head).
    target, against, features, grid, scale, protect, window, side, at, answer, protect_span
        As in :func:`explain`.
    first_subwords, replacement, seed, budget, progress
        As in :func:`explain`.
    **settings
        Settings of the method, as in :func:`explain`.

    Returns
    -------
    The comparison, or a list of them for a list of texts.

    Raises
    ------
    InputError
        If an option is wrong, or if a method needs a capability that the model does not have.
    DomainError
        If a method that you name is not defined for the text.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load()
    >>> text = "The plot is predictable, but the acting is superb."
    >>> for e in limelight.compare(model, text, ["lime", "shapley"]):
    ...     print(e.method, [(word, round(score, 2)) for word, score in e.top(2)])
    lime [('superb', 1.29), ('predictable', -1.17)]
    shapley [('superb', 1.31), ('predictable', -1.19)]
    """
    strict = methods is not None
    text = attach_documents(text, documents)
    request = Request(
        target=target,
        against=against,
        features=features,
        grid=grid,
        scale=scale,
        protect=protect,
        window=window,
        side=side,
        at=at,
        answer=answer,
        protect_span=protect_span,
        splitter=splitter,
        first_subwords=first_subwords,
    )
    call = _prepare_call(
        "compare",
        model,
        methods,
        request,
        dict(settings),
        replacement=replacement,
        seed=seed,
        budget=budget,
        progress=progress,
        is_list=True,
    )

    def compare_batch(configured: list[ConfiguredMethod], batch: Batch) -> list[Comparison]:
        """Compare all methods on each text of a batch."""
        return [
            compare_methods(configured, single, strict=strict, attention=attention)
            for single in batch.split()
        ]

    return _run_call(call, text, compare_batch, strict=strict)


@overload
def counterfactual(
    model: Model,
    text: Input,
    *,
    desired_class: str | int | None = None,
    threshold: float | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
) -> Counterfactual: ...
@overload
def counterfactual(
    model: Model,
    text: Texts,
    *,
    desired_class: str | int | None = None,
    threshold: float | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
) -> Counterfactuals: ...
@suggest_keywords
def counterfactual(
    model: Model,
    text: Input | Texts,
    *,
    desired_class: str | int | None = None,
    threshold: float | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    budget: BudgetInput | None = None,
    progress: ProgressCallback | bool | None = None,
) -> Counterfactual | Counterfactuals:
    """Find the smallest set of features whose removal changes the prediction.

    For models with exact scores, the result is proven: no removal of fewer features than
    ``lower_bound`` changes the prediction. Other models are called for sets of features within the
    budget. The result is the smallest set that the search found.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    text
        A text, pair or image, or a list of these, as in :func:`explain`.
    desired_class
        Only this class counts as a change: a name or an index. By default any other prediction
        does. For a model with several labels, use the name of a label, or "not" and the name.
    threshold
        Models of a score: the prediction changes if the score crosses this number. Language models:
        the prediction changes if the log-probability of the answer falls below this number. By
        default, this happens when the tokens of the answer are half as likely on average.
    features, grid, protect, window, side, at, answer, documents, splitter, protect_span
        As in :func:`explain`.
    first_subwords
        As in :func:`explain`.
    replacement
        The token that replaces removed features. "auto" is the default of the model.
    seed
        The seed of the random removals for ``stability``.
    budget
        Limit for each text: seconds (30, "30s", "2min") or model calls ("400 calls"). The default
        is 1,000 calls, and one second for models with exact scores.
    progress
        As in :func:`explain`.

    Returns
    -------
    A :class:`Counterfactual`, or a list of them for a list of texts.

    Raises
    ------
    InputError
        If an option is wrong, or if the model predicts a score and there is no threshold.
    DomainError
        If the features of a text cannot be removed, or if the budget allows too few calls.

    Examples
    --------
    >>> import limelight
    >>> text = "The plot is predictable, but the acting is superb."
    >>> c = limelight.counterfactual(limelight.load(), text)
    >>> c.removed_features, c.predicted_class, c.predicted_class_after
    (('predictable',), 'negative', 'positive')
    >>> c.lower_bound, c.is_minimal
    (1, True)
    """
    from limelight.decisions import CounterfactualSettings, stream_counterfactuals

    text = attach_documents(text, documents)
    request = Request(
        features=features,
        grid=grid,
        protect=protect,
        window=window,
        side=side,
        at=at,
        answer=answer,
        protect_span=protect_span,
        splitter=splitter,
        first_subwords=first_subwords,
    )
    settings = CounterfactualSettings(
        desired_class=desired_class,
        threshold=threshold,
        replacement=replacement,
        seed=seed,
        budget=None if budget is None else parse_budget(budget),
    )
    model, request = prepare_model(model, request)
    texts = as_list(text)
    with open_progress(progress, "searching") as callback:
        results = list(stream_counterfactuals(model, texts, request, settings, progress=callback))
    return results[0] if is_single(text) else Counterfactuals(results)


@suggest_keywords
def game(
    model: Model,
    text: Input,
    *,
    replacement: str = "auto",
    features: FeatureSpec | None = None,
    grid: int | None = None,
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    documents: Documents | None = None,
    splitter: Splitter | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
) -> TextGame:
    """Return the model's outputs as a function of the features that are present.

    Every method that removes features calls this function.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`.
    text
        One text, pair of texts or image.
    replacement
        The token that replaces removed features. "auto" is the default of the model.
    features, grid, protect, window, side, at, answer, documents, splitter, protect_span
        As in :func:`explain`.
    first_subwords
        As in :func:`explain`.

    Returns
    -------
    A function from masks (n, d), true where a feature is present, to outputs (n, C).

    Raises
    ------
    InputError
        If ``text`` is a list, or if an option is wrong.

    Examples
    --------
    >>> import limelight
    >>> game = limelight.game(limelight.load(), "a superb film")
    >>> game([[True, True, True], [True, False, True]]).round(2)
    array([[ 1.01],
           [-0.24]])
    """
    text = attach_documents(text, documents)
    request = Request(
        features=features,
        grid=grid,
        protect=protect,
        window=window,
        side=side,
        at=at,
        answer=answer,
        protect_span=protect_span,
        splitter=splitter,
        first_subwords=first_subwords,
    )
    return read_single_text("game", model, text, request).game(replacement)


def methods(model: Model | None = None) -> MethodTable:
    """List the methods with their formulas, limitations and settings.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap`. The table then says how each
        method is computed for this model, or why it is not available.

    Returns
    -------
    A table with one row per method.

    Raises
    ------
    InputError
        If ``model`` is not a model.

    Examples
    --------
    >>> import limelight
    >>> table = limelight.methods(limelight.load())
    >>> table["loo"].formula
    'f(text) − f(text without the word)'
    >>> [setting.name for setting in table["lime"].implementations[0].settings][:2]
    ['bandwidth', 'penalty']
    """
    table = method_table(None if model is None else check_model(model))
    for error in METHODS.load_errors.values():
        warn(error, stacklevel=2)
    return table
