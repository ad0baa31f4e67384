"""The queries of an input, and inputs as models read them with their queries.

A query is what an explanation is about beside the text: a span that a tagger finds, or an answer
of a language model. A model that classifies whole texts has one query, which is empty.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from limelight.errors import InputError, unknown_name_message
from limelight.models.protocol import (
    PROPERTIES,
    Capability,
    Capable,
    HiddenStates,
    Model,
    get_property,
    query_kind,
    reason_missing,
    require,
)
from limelight.text import (
    FEATURES,
    AnswerQuery,
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

# Kinds of models that say something about a span or an answer, and not about a whole text.
_QUERIED = ("places", "answers")
_HIDDEN_STATES: tuple[Capability, str] = ("hidden_states", "a learned method")


def expand_queries(
    model: Model, text: Any, *, by_sentence: bool = False, generate: bool = True
) -> list[QueriedText]:
    """Return ``text`` once for each of its queries, in the order of the text.

    Parameters
    ----------
    model
        A model that classifies has one query, which is empty. A model that finds spans has the
        place that the text names, or every span that the model finds, of which there may be none.
        A language model has one answer: the one that the text names, or what the model generates.
    text
        A text, a pair or an image, or a :class:`QueriedText` with queries or with what names one.
    by_sentence
        Split the answer of a language model into one query for each of its sentences.
    generate
        Whether a language model generates an answer that is not given. Otherwise the text is
        returned as it is, and its answer is generated when the text is read.

    Raises
    ------
    InputError
        If the model does not read such an input, or the text has no such place.
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
        answer = _answer(cast(Capable, model), queried)
        queries = answer.sentences() if by_sentence else (answer,)
    elif kind == "places":
        queries = _places(cast(Capable, model), queried)
    else:
        return [queried]
    return [QueriedText(queried.text, (query,)) for query in queries]


def expand_texts(
    model: Model, texts: Iterable[Any], *, by_sentence: bool = False, generate: bool = True
) -> Iterator[list[Any]]:
    """Return what :func:`expand_queries` returns for each text.

    A text that the model cannot read is returned as it is, and raises its error when it is read.

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
    has_query = False
    for text in texts:
        try:
            expanded: list[Any] = expand_queries(
                model, text, by_sentence=by_sentence, generate=generate
            )
        except InputError as error:
            if isinstance(error.__cause__, OSError):  # a server is at fault, and not the text
                raise
            expanded = [text]
        has_query = has_query or bool(expanded)
        yield expanded
    # Not before: one text without a span is no error where others have some.
    if not has_query:
        raise InputError("the model finds no span in these texts, so there is nothing to explain.")


def distinct_queries(model: Model, texts: Iterable[Any]) -> list[Any]:
    """Return every different text once for each of its queries.

    An answer that is not given is generated later.
    """
    if get_property(model, "reads_images"):  # arrays of pixels cannot be compared
        texts = [read_image(text) for text in texts]
    distinct = dict.fromkeys(texts)
    return [queried for row in expand_texts(model, distinct, generate=False) for queried in row]


def join_queries(expanded: Sequence[QueriedText]) -> QueriedText:
    """Return one text with the queries of all of ``expanded``, which are about the same text."""
    queries = tuple(query for queried in expanded for query in queried.queries)
    return QueriedText(expanded[0].text, queries)


def _answer(model: Capable, queried: QueriedText) -> AnswerQuery:
    """Return the answer that a text names, or what the model generates."""
    if queried.selector is None:
        return model.generate(queried.text)
    return (
        queried.selector
        if isinstance(queried.selector, AnswerQuery)
        else AnswerQuery.from_cell(queried.selector)
    )


def _places(model: Capable, queried: QueriedText) -> tuple[SpanQuery, ...]:
    """Return the place that a text names, or all spans that the model finds."""
    first_subwords = queried.first_subwords
    spans = model.spans(queried.text, first_subwords=first_subwords)
    if queried.selector is None:
        return spans
    # Of a question and a passage the passage is searched, which comes second.
    text, parts = join_pair(queried.text)
    region = parts[1] if parts else (0, len(text))
    return (resolve_span(queried.selector, text, region, spans, first_subwords=first_subwords),)


def read_input(model: Model, text: Any, *, subwords: bool = False) -> ModelInput:
    """Return a text, a pair or an image as ``model`` reads it, with its queries.

    A text that brings no queries along must have a single one.
    """
    queried = text if isinstance(text, QueriedText) else QueriedText(text)
    if queried.queries:
        check_input_kind(model, queried.text)
    else:
        expanded = expand_queries(model, queried)
        if len(expanded) != 1:
            spans = [query for one in expanded for query in one.queries]
            raise InputError(
                span_choice_message(cast(list[SpanQuery], spans), join_pair(queried.text)[0])
            )
        (queried,) = expanded
    if not queried.queries:
        return model.read(queried.text, subwords=subwords)
    # No parameter of every `read`: a family that classifies has nothing to do with it.
    return cast(Capable, model).read(queried.text, queries=queried.queries, subwords=subwords)


def read_inputs(
    model: Model, texts: Sequence[Any], *, hidden_states: bool, subwords: bool
) -> Iterator[ModelInput]:
    """Return what :func:`read_input` returns for each text.

    With ``hidden_states``, which the model must have, it reads many texts in one call.
    """
    if query_kind(model) in _QUERIED:
        if hidden_states:
            require(model, *_HIDDEN_STATES)
        return map(partial(read_input, model, subwords=subwords), texts)
    plain = [text.text if isinstance(text, QueriedText) else text for text in texts]
    if not hidden_states:
        return map(partial(_read_plain, model, subwords=subwords), plain)
    reader = require(model, *_HIDDEN_STATES)
    return _read_in_turn(model, plain, reader.read_batch(plain, subwords=subwords))


def compute_hidden_states(
    model: Model, inputs: Sequence[ModelInput], features: Sequence[Features]
) -> HiddenStates:
    """Return the hidden states of all features of ``documents``; raise an error without any."""
    # Not only when a method is selected: a model that reads in windows, say, has none.
    return require(model, *_HIDDEN_STATES).hidden_states(inputs, features)


def _read_plain(model: Model, text: Any, *, subwords: bool) -> ModelInput:
    check_input_kind(model, text)
    return model.read(text, subwords=subwords)


def _read_in_turn(
    model: Model, texts: Sequence[Any], inputs: Iterator[ModelInput]
) -> Iterator[ModelInput]:
    """Yield ``documents``, each when its text has been checked: an error is about that text."""
    for text in texts:
        check_input_kind(model, text)
        yield next(inputs)


def fallback_reason(model_input: ModelInput) -> str | None:
    """Return a clause that says why the fallback model of a document is called about it."""
    return reason_missing(model_input.fallback, "exact_game")


def check_input_kind(model: Model, text: Any) -> None:
    """Raise an error if ``model`` does not read images or pairs, and ``text`` is one."""
    # A path to an image is a string too, and would be explained as if it were a text.
    if is_image(text):
        if not get_property(model, "reads_images"):
            kind = truncate_line(text, 80) if isinstance(text, str) else type(text).__name__
            why = get_property(model, "limitations").get("reads_images", "this one reads texts")
            raise InputError(
                f"got an image ({kind}), which needs {PROPERTIES['reads_images']}, and {why}."
            )
    elif isinstance(text, tuple):
        validate_text_or_pair(text)
        require(model, "reads_pairs", "a pair of texts")


def feature_names(model: Model) -> tuple[str, ...]:
    """Return the names of the features that may be scored in inputs of ``model``."""
    if get_property(model, "reads_images"):
        return IMAGE_FEATURES
    return (*FEATURES, "tokens") if get_property(model, "has_subwords") else FEATURES


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
    if (why := reason_missing(model, "has_subwords")) is not None:
        raise InputError(f"features 'tokens' need {PROPERTIES['has_subwords']}, and {why}.")
    return True


def refine_tokens(
    model: Model, model_input: ModelInput, cut: Sequence[Span] | PatchedImage
) -> ModelInput:
    """Return a document whose tokens end where the units of ``cut`` do, if the model can read so.

    A function can lose any part of a text, and a tokenizer pieces of words; others read as they do.
    An image comes cut anew.
    """
    if isinstance(cut, PatchedImage):
        return model_input.with_patches(cut)
    edges = {edge for span in cut for edge in span}
    # Most units end where words do, and a text need not be tokenised again then.
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
