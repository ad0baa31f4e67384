"""What models predict, as rows that are ready for JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, cast

import numpy as np

from limelight.errors import InputError, add_text_number
from limelight.models.protocol import (
    Model,
    class_probabilities,
    class_weights,
    get_property,
    has,
)
from limelight.models.queries import expand_queries, join_queries, read_input
from limelight.text import AnswerQuery, ModelInput, QueriedText, Query, SpanQuery

# "class": one of the classes. "labels": each label by itself. "score": a number is at least a
# threshold, or below it. "answer": the log-probability of an answer is at least a threshold.
PredictionKind = Literal["class", "labels", "score", "answer"]


def prediction_kind(model: Model, query: Query | None, output_count: int) -> PredictionKind:
    """Return the kind of a prediction: a class, several labels, a score or an answer.

    Parameters
    ----------
    model
        Any model.
    query
        The span or the answer that is explained, or None.
    output_count
        The number of outputs for an input.

    Raises
    ------
    InputError
        If the model predicts several numbers, so that no prediction follows from them.
    """
    if isinstance(query, AnswerQuery):
        return "answer"
    if len(model.classes) == 1 and model.link == "none":
        return "score"
    is_exclusive = get_property(model, "is_exclusive") or model.link in ("softmax", "ovr")
    if is_exclusive or (output_count, len(model.classes)) == (1, 2):
        return "score" if len(model.classes) == 1 else "class"
    if model.link == "sigmoid":
        return "labels"
    raise InputError(
        f"this model predicts {output_count} scores, from which no prediction follows. Wrap a "
        "function that returns one of them."
    )


def predict_rows(model: Model, texts: Sequence[Any]) -> list[dict[str, Any]]:
    """Return one row for each text: its class, its spans, or the answer to it."""
    inputs, rows = list[ModelInput](), list[dict[str, Any]]()
    finds_spans = has(model, "spans")
    for number, text in enumerate(texts):
        with add_text_number(number if len(texts) > 1 else None):
            if finds_spans:
                rows.append(_span_row(model, text))
            else:
                inputs.append(read_input(model, text))
    if finds_spans:
        return rows
    if has(model, "generation"):
        return [_answer_row(model, model_input) for model_input in inputs]
    return _class_rows(model, inputs)


def _answer_row(model: Model, model_input: ModelInput) -> dict[str, Any]:
    """Return the answer to a text with the log-probability of each sentence."""
    (answer,) = cast(tuple[AnswerQuery, ...], model_input.queries)
    if answer.agreement:
        (agreement,) = model.outputs([model_input])[0].tolist()
        return _prediction_row(model_input, {"answer": answer.text, "agreement": agreement})
    queried = QueriedText(model_input.user_input, selector=answer)
    sentences = expand_queries(model, queried, by_sentence=True)
    by_sentence = read_input(model, join_queries(sentences))
    outputs = model.outputs([by_sentence])[0].tolist()
    # Of a model that gives means over tokens, the sums: what is called a log-probability is one.
    log_probabilities = [
        value * (sentence.length if sentence.per_token else 1)
        for sentence, value in zip(
            cast(tuple[AnswerQuery, ...], by_sentence.queries), outputs, strict=True
        )
    ]
    parts = [sentence.part for sentence in cast(tuple[AnswerQuery, ...], by_sentence.queries)]
    prediction = {
        "answer": answer.text,
        "log_probability": sum(log_probabilities),
        "sentences": [
            {"text": part, "log_probability": value}
            for part, value in zip(parts, log_probabilities, strict=True)
        ],
    }
    return _prediction_row(model_input, prediction)


def _span_row(model: Model, text: Any) -> dict[str, Any]:
    """Return the spans that a model finds in a text, with tags and scores."""
    expanded = expand_queries(model, text)
    places = [
        place for queried in expanded for place in cast(tuple[SpanQuery, ...], queried.queries)
    ]
    model_input = model.read(text)
    spans = [
        {
            "start": place.start,
            "end": place.end,
            "text": model_input.text[place.start : place.end],
            "tag": place.tag,
            "score": place.score,
        }
        for place in places
    ]
    return _prediction_row(model_input, {"spans": spans})


def _class_rows(model: Model, inputs: list[ModelInput]) -> list[dict[str, Any]]:
    """Return a row for each text; the class and the probability of a score are None."""
    logits, classes, rows = np.asarray(model.outputs(inputs)), model.classes, []
    chances = None if model.link == "none" else class_probabilities(logits, model.link)
    outputs = logits.shape[1]
    # A single output is the logit of the second class alone.
    logits = logits @ class_weights(len(classes), outputs, model.link)[-outputs:].T
    for i, model_input in enumerate(inputs):
        by_class = {} if chances is None else dict(zip(classes, chances[i].tolist(), strict=True))
        likeliest = max(by_class, key=by_class.__getitem__, default=None)
        prediction = {
            "class": likeliest,
            "probability": None if likeliest is None else by_class[likeliest],
            "logits": dict(zip(classes[-outputs:], logits[i].tolist(), strict=True)),
            "probabilities": by_class,
        }
        rows.append(_prediction_row(model_input, prediction))
    return rows


def _prediction_row(model_input: ModelInput, prediction: dict[str, Any]) -> dict[str, Any]:
    """Return text, prediction and warnings as one row."""
    parts = {"parts": [asdict(part) for part in model_input.parts]} if model_input.parts else {}
    return {"text": model_input.text, **parts, **prediction, "warnings": list(model_input.warnings)}
