"""The queries of an input, and inputs as models read them with their queries.

A query is the part of an explanation to which the target belongs: a span that a tagger finds, or an
answer of a language model. A model that classifies whole texts has one query, which is empty.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any, cast

from limelight.errors import InputError, unknown_name_message
from limelight.models.protocol import (
    PROPERTIES,
    Capability,
    Capable,
    HiddenStates,
    Model,
    get_property,
    has,
    query_kind,
    reason_missing,
    require,
)
from limelight.text import (
    FEATURES,
    PART_FEATURES,
    AnswerQuery,
    Conversation,
    Features,
    ModelInput,
    PatchedImage,
    QueriedText,
    Query,
    Span,
    SpanQuery,
    is_feature_spec,
    is_image,
    join_pair,
    read_image,
    resolve_span,
    span_choice_message,
    truncate_line,
    validate_text_or_pair,
)
from limelight.text.features import IMAGE_FEATURES

# Kinds of queries (see `query_kind`) that are about a span or an answer, not a whole text.
_QUERIED = ("places", "answers")
_HIDDEN_STATES: tuple[Capability, str] = ("hidden_states", "a learned method")


def expand_queries(
    model: Model, text: Any, *, by_sentence: bool = False, generate: bool = True
) -> list[QueriedText]:
    """Return ``text`` once for each of its queries, in the order of the text.

    Parameters
    ----------
    model
        A model that classifies has one query, which is empty. For a model that finds spans, the
        queries are the span that the text selects, or all spans that the model finds, perhaps
        none. For a language model, the query is the answer that the text selects, or the generated
        answer.
    text
        A text, a pair or an image, or a :class:`QueriedText` with queries or with a selector.
    by_sentence
        Split the answer of a language model into one query for each of its sentences.
    generate
        Whether a language model generates an answer if the text selects none. Otherwise the text
        is returned without a query, and its answer is generated when the text is read.

    Returns
    -------
    The text with each single query.

    Raises
    ------
    InputError
        If the model does not read such an input, or the text has no such span.
    """
    queried = text if isinstance(text, QueriedText) else QueriedText(text)
    if queried.queries:
        return [QueriedText(queried.text, (query,)) for query in queried.queries]
    check_input_kind(model, queried.text)
    queries: Sequence[Query]
    kind = query_kind(model)
    if kind == "answers":
        if not generate and not by_sentence:
            return [queried]
        answer = _select_answer(cast(Capable, model), queried)
        queries = answer.sentences() if by_sentence else (answer,)
    elif kind == "places":
        queries = _select_spans(cast(Capable, model), queried)
    else:
        return [queried]
    return [QueriedText(queried.text, (query,)) for query in queries]


def expand_texts(
    model: Model, texts: Iterable[Any], *, by_sentence: bool = False, generate: bool = True
) -> Iterator[list[Any]]:
    """Return each text once for each of its queries, as :func:`expand_queries` does.

    A text that the model cannot read is returned unchanged, and raises its error when it is read.

    Parameters
    ----------
    model
        Any model.
    texts
        The texts.
    by_sentence, generate
        As in :func:`expand_queries`.

    Yields
    ------
    For each text, the list of the text with each single query.

    Raises
    ------
    InputError
        If no text has a query, or a server does not answer.
    """
    if query_kind(model) not in _QUERIED:
        return ([text] for text in texts)
    return _expand_readable(model, texts, by_sentence=by_sentence, generate=generate)


def _expand_readable(
    model: Model, texts: Iterable[Any], *, by_sentence: bool, generate: bool
) -> Iterator[list[Any]]:
    """Yield each text once per query; keep a text that cannot be read without queries."""
    has_query = False
    for text in texts:
        try:
            expanded: list[Any] = expand_queries(
                model, text, by_sentence=by_sentence, generate=generate
            )
        except InputError as error:
            if isinstance(error.__cause__, OSError):  # a server failed, and the text is valid
                raise
            expanded = [text]
        has_query = has_query or bool(expanded)
        yield expanded
    # Checked at the end: a text without spans is no error if other texts have spans.
    if not has_query:
        raise InputError("the model finds no span in these texts, so there is nothing to explain.")


def distinct_queries(model: Model, texts: Iterable[Any]) -> list[Any]:
    """Return every distinct text once for each of its queries; answers are not generated yet."""
    if get_property(model, "reads_images"):  # arrays of pixels cannot be compared
        texts = [read_image(text) for text in texts]
    distinct = dict.fromkeys(texts)
    return [queried for row in expand_texts(model, distinct, generate=False) for queried in row]


def join_queries(expanded: Sequence[QueriedText]) -> QueriedText:
    """Return one text with the queries of all of ``expanded``, which are about the same text."""
    queries = tuple(query for queried in expanded for query in queried.queries)
    return QueriedText(expanded[0].text, queries)


def _select_answer(model: Capable, queried: QueriedText) -> AnswerQuery:
    """Return the answer that a text selects, that ends a conversation, or that is generated."""
    if queried.selector is None:
        return model.generate(queried.text)
    if isinstance(queried.selector, AnswerQuery):
        return queried.selector
    query = AnswerQuery.from_cell(queried.selector)
    is_part = isinstance(queried.text, Conversation) and queried.text.reply is not None
    if is_part and query.text == queried.selector:  # a plain text, and not the cell of a query
        return model.generate(queried.text).select(queried.selector)
    return query


def _select_spans(model: Capable, queried: QueriedText) -> tuple[SpanQuery, ...]:
    """Return the span that a text selects, or all spans that the model finds."""
    first_subwords = queried.first_subwords
    spans = model.spans(queried.text, first_subwords=first_subwords)
    if queried.selector is None:
        return spans
    # In a pair of a question and a passage, the span is in the passage, which comes second.
    text, parts = join_pair(queried.text)
    region = parts[1].span if parts else (0, len(text))
    return (resolve_span(queried.selector, text, region, spans, first_subwords=first_subwords),)


def read_input(model: Model, text: Any, *, subwords: bool = False) -> ModelInput:
    """Return a text, a pair or an image as ``model`` reads it, with its queries.

    Raises
    ------
    InputError
        If the model does not read such an input, or a text without queries has not exactly one.
    """
    queried = text if isinstance(text, QueriedText) else QueriedText(text)
    if queried.queries:
        check_input_kind(model, queried.text)
    else:
        expanded = expand_queries(model, queried)
        if len(expanded) != 1:
            spans = [query for text_query in expanded for query in text_query.queries]
            raise InputError(
                span_choice_message(cast(list[SpanQuery], spans), join_pair(queried.text)[0])
            )
        (queried,) = expanded
    if not queried.queries:
        return model.read(queried.text, subwords=subwords)
    # The method `read` of a classifier has no parameter for queries.
    return cast(Capable, model).read(queried.text, queries=queried.queries, subwords=subwords)


def read_inputs(
    model: Model, texts: Sequence[Any], *, hidden_states: bool, subwords: bool
) -> Iterator[ModelInput]:
    """Return each text as :func:`read_input` returns it.

    Parameters
    ----------
    model
        Any model.
    texts
        The texts.
    hidden_states
        Whether hidden states will be needed. Then the model must have them.
    subwords
        Whether texts are split into subwords instead of words.

    Yields
    ------
    The input of each text, in their order.
    """
    if query_kind(model) in _QUERIED:
        if hidden_states:
            require(model, *_HIDDEN_STATES)
        return map(partial(read_input, model, subwords=subwords), texts)
    plain = [text.text if isinstance(text, QueriedText) else text for text in texts]
    if not hidden_states:
        if len(plain) > 1 and has(model, "exact_game") and hasattr(model, "read_batch"):
            return _read_in_turn(model, plain, model.read_batch(plain, subwords=subwords))
        return map(partial(_read_plain, model, subwords=subwords), plain)
    reader = require(model, *_HIDDEN_STATES)
    return _read_in_turn(model, plain, reader.read_batch(plain, subwords=subwords))


def compute_hidden_states(
    model: Model, inputs: Sequence[ModelInput], features: Sequence[Features]
) -> HiddenStates:
    """Return the hidden states of all features of some inputs.

    Raises
    ------
    InputError
        If the model has no hidden states.
    """
    # Checked again here: the same model may have no hidden states when it reads in windows.
    return require(model, *_HIDDEN_STATES).hidden_states(inputs, features)


def _read_plain(model: Model, text: Any, *, subwords: bool) -> ModelInput:
    """Check the kind of an input and read it without queries."""
    check_input_kind(model, text)
    return model.read(text, subwords=subwords)


def _read_in_turn(
    model: Model, texts: Sequence[Any], inputs: Iterator[ModelInput]
) -> Iterator[ModelInput]:
    """Yield the inputs, each after a check of its text, so that an error is about that text."""
    for text in texts:
        check_input_kind(model, text)
        yield next(inputs)


def fallback_reason(model_input: ModelInput) -> str | None:
    """Return the reason why the fallback model of an input has no exact game."""
    return reason_missing(model_input.fallback, "exact_game")


def check_input_kind(model: Model, text: Any) -> None:
    """Raise an error if ``model`` does not read images or pairs, and ``text`` is one."""
    # A path to an image is a string, and would otherwise be explained as a text.
    if is_image(text):
        if not get_property(model, "reads_images"):
            name = type(text).__name__
            if isinstance(text, str | PathLike):
                name = truncate_line(str(text), 80)
            reason = get_property(model, "limitations").get(
                "reads_images", "this model reads texts"
            )
            raise InputError(f"an image ({name}) needs {PROPERTIES['reads_images']}, but {reason}.")
    elif isinstance(text, Conversation):
        require(model, "generation", "a conversation")
    elif isinstance(text, tuple):
        validate_text_or_pair(text)
        require(model, "reads_pairs", "a pair of texts")


def check_phrase(model: Model, phrase: str) -> None:
    """Raise an error if ``model`` cannot read a phrase of a text by itself."""
    if query_kind(model) != "answers":  # a language model would write an answer to the phrase
        model.read(phrase)


def feature_names(model: Model) -> tuple[str, ...]:
    """Return the names of the features that may be scored in inputs of ``model``."""
    if get_property(model, "reads_images"):
        return IMAGE_FEATURES
    part_features = PART_FEATURES if query_kind(model) == "answers" else ()
    tokens = ("tokens",) if get_property(model, "has_subwords") else ()
    return (*FEATURES, *tokens, *part_features)


def needs_subwords(model: Model, features: Any) -> bool:
    """Tell whether ``model`` must split its inputs into subword tokens to score ``features``.

    Raises
    ------
    InputError
        If there are no such features, or the model has no subword tokens.
    """
    if is_feature_spec(features):
        return False
    if features != "tokens":
        raise InputError(unknown_name_message("features", features, feature_names(model)))
    if (reason := reason_missing(model, "has_subwords")) is not None:
        raise InputError(f"features='tokens' needs {PROPERTIES['has_subwords']}, but {reason}.")
    return True


def refine_tokens(
    model: Model, model_input: ModelInput, units: Sequence[Span] | PatchedImage
) -> ModelInput:
    """Split the tokens of an input where units begin and end, if the model can read it so.

    Parameters
    ----------
    model
        The model. Functions can read any part of a text, and tokenizers can read subwords. Other
        models return the input unchanged.
    model_input
        The input.
    units
        The spans that become features, or new patches of an image.
    """
    if isinstance(units, PatchedImage):
        return model_input.with_patches(units)
    edges = {edge for span in units for edge in span}
    # Most units consist of whole words, and then the text need not be tokenized again.
    if all(edges.isdisjoint(range(start + 1, end)) for start, end in model_input.tokens.spans):
        return model_input
    if model_input.is_divisible:
        return model_input.split_words(edges)
    if not get_property(model, "has_subwords"):
        return model_input
    if not model_input.queries:
        return model.read(model_input.user_input, subwords=True)
    return cast(Capable, model).read(
        model_input.user_input, queries=model_input.queries, subwords=True
    )
