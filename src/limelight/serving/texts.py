"""Answer the requests of a page about one text: explanations, changes, sections and files.

A request has limits, because it comes from a browser. The sections of the page are the curves,
pairs of words, the counterfactual, heads, attention matrices, and the words on which the methods
disagree.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import numpy as np
from msgspec import Meta

from limelight.data.conversations import read_messages
from limelight.decisions import CounterfactualSettings, find_counterfactuals
from limelight.errors import InputError
from limelight.explainers.batch import Batch
from limelight.explainers.budget import Budget
from limelight.explainers.explaining import explain_batch, stream_batches, track_progress
from limelight.explainers.method import ConfiguredMethod
from limelight.explainers.registry import configure_method, configure_methods
from limelight.judging.candidates import Candidate, ScoredText
from limelight.judging.removals import Removals, make_removals
from limelight.judging.texts import SearchedText, run_searches
from limelight.models import Model, resolve_replacement
from limelight.models.queries import expand_queries
from limelight.rendering.counterfactual import counterfactual_section
from limelight.rendering.html import attention_data, disagreement_section, head_tables
from limelight.rendering.images import draw_images, drop_image
from limelight.rendering.markup import render_macro
from limelight.rendering.text_parts import (
    replace_explanation_surrogates,
    replace_surrogates,
    visible_text,
)
from limelight.rendering.wording import (
    ONE_SIDED,
    headline,
    merge_warnings,
    reader_outcomes,
    typeset_sentence,
)
from limelight.request import REQUEST_FIELDS, Request, RequestField, prepare_model
from limelight.results import Comparison, Explanation
from limelight.serving.queue import ProgressCallback
from limelight.shapes import Bool, Float
from limelight.text import (
    AnswerQuery,
    Conversation,
    Document,
    Features,
    Image,
    SpanQuery,
    Splitter,
    UserInput,
    feature_kind,
)
from limelight.text.images import is_address

MAX_REQUEST_BYTES = 1 << 20
MAX_IMAGE_REQUEST_BYTES = 12 << 20  # every request of a page contains the image
MAX_CHARACTERS = 100_000  # of a text
_RANDOM_ORDERS = 512  # for the mean curve of chance. Table sums are fast, so many cost little.
_SEARCH_SECONDS = 20.0  # for the search of a good order and for chance, if the model is called
_COUNTERFACTUAL_CALLS = 300  # if the model is called
# Fields of an explanation for each kind of method, by the meaning of the signs of its scores.
_METHOD_KINDS: dict[str, dict[str, Any]] = {
    "signed": {},
    "unsigned": {"signed": False},
    "one-sided": {"signed": False, "method": ONE_SIDED[0]},
}
_ShortText = Annotated[str, Meta(max_length=200)]
_WordText = Annotated[str, Meta(max_length=1000)]
_Integer = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
Change = tuple[_WordText, Annotated[int, Meta(ge=0)], _WordText | None]


class _PageFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a page's request beside the options of the explanation.

    * ``tab``: identifies a window of the browser.
    * ``panel``: the part of the page that shows the answer. A newer request of the same tab and
      panel replaces an older one.
    * ``changes``: changed words. Each has a name, its number among the features of the same name,
      and its replacement, None if the word is removed.
    * ``sections``: names of the page's sections to compute, or the format of a file.
    * ``inside``: a span of the text, such as a sentence, whose words are scored. The rest of the
      text stays as it is.
    * ``documents``: documents next to the text, which is a question. Empty ones are left out.
    * ``messages``: whether the text is a chat, as a JSON list of messages.
    """

    tab: _ShortText
    panel: _ShortText
    text: str  # parse_request checks its length, with a message that a reader understands
    model: Annotated[int, Meta(ge=0, le=9)] = 0
    methods: Annotated[list[_ShortText], Meta(max_length=40)] = []
    changes: Annotated[list[Change], Meta(max_length=200)] = []
    sections: Annotated[list[_ShortText], Meta(max_length=10)] = []
    inside: tuple[_Integer, _Integer] | None = None
    documents: Annotated[list[str], Meta(max_length=100)] = []
    messages: bool = False

    @property
    def user_input(self) -> UserInput:
        """The text, the chat, or the question with its documents."""
        text = read_messages(self.text) if self.messages else self.text
        documents = [
            Document(f"document {i}", document)
            for i, document in enumerate(self.documents)
            if document.strip()
        ]
        return Conversation.from_documents(text, documents) if documents else text

    @property
    def request(self) -> Request:
        """Options of the explanation."""
        return Request(**{field.name: getattr(self, field.name) for field in REQUEST_FIELDS})


def _json_field(field: RequestField) -> tuple[str, Any, Any]:
    """Return name, type and default of an option, with a limit on the length of its value."""
    if field.default == ():
        return field.name, Annotated[list[_WordText], Meta(max_length=200)], []
    if isinstance(field.default, bool):
        return field.name, bool, field.default
    if field.name == "answer":
        return field.name, Annotated[str, Meta(max_length=10_000)] | None, None
    hint = _ShortText | _Integer | None if field.default is None else _ShortText
    return field.name, hint, field.default


if TYPE_CHECKING:
    TextRequest = _PageFields
else:
    TextRequest = msgspec.defstruct(
        "TextRequest",
        [_json_field(field) for field in REQUEST_FIELDS],
        bases=(_PageFields,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def parse_request(body: bytes, features: str | Splitter | None = None) -> TextRequest:
    """Parse the JSON body of a page's request, and raise ``InputError`` if it is invalid.

    ``features`` may be a splitter of the server. A page can send only its name, which is replaced.
    """
    try:
        request = msgspec.json.decode(body, type=TextRequest)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(f"this is not a request of the page: {error}.") from None
    length = len(request.text) + sum(map(len, request.documents))
    if length > MAX_CHARACTERS and not is_address(request.text):
        raise InputError(
            f"the page explains texts of at most {MAX_CHARACTERS:,} characters, but this one has "
            f"{length:,}. For longer texts, use limelight explain --file."
        )
    if callable(features) and request.request.features == feature_kind(features):
        return msgspec.structs.replace(request, features=features)
    return request


def check_input_kind(text: str, *, is_image_model: bool) -> None:
    """Raise ``InputError`` if a text is sent to a model of images.

    The model would take the text for the path of a file on this machine.
    """
    if is_image_model and text and not is_address(text):
        raise InputError("this model reads images. Drop one on the page, or choose a file.")


def explain_text(
    model: Model, request: TextRequest, report_progress: ProgressCallback
) -> dict[str, Any]:
    """Return the prediction and the explanations of a text, or of its changed version.

    The answer contains an error message for each method that cannot explain the text. Each
    explanation is JSON of schema ``limelight.explanation/2``.
    """
    original = prepare_batch(model, request)
    batch = apply_changes(original, request)
    change = _output_change(original, batch, request) if request.changes else None
    methods = _configure_methods(model, request)
    if request.changes and not batch.inputs[0].is_text:
        methods = []  # a changed image has a prediction, but no new scores
    with track_progress(report_progress, methods, batch):
        explanations, errors = run_methods(methods, batch, report_progress)
    removed_features = _changed_features(batch.features[0], request)
    return _answer_data(batch, explanations, errors, change, removed_features)


def run_methods(
    methods: Sequence[ConfiguredMethod],
    batch: Batch,
    report_progress: ProgressCallback = lambda *_: None,
) -> tuple[list[Explanation], dict[str, str]]:
    """Return the explanations of a text, and the error messages of methods that failed, by id."""
    explanations, errors = list[Explanation](), dict[str, str]()
    for method in methods:
        report_progress(0, 1)
        try:
            # The method was configured for the model as it is served.
            method_for_model = method.for_model(batch.model)
            explanations += map(
                replace_explanation_surrogates, explain_batch(method_for_model, batch)
            )
        except InputError as error:
            errors[method.method.id] = str(error)
    return explanations, errors


def explain_texts(model: Model, requests: Sequence[TextRequest]) -> list[dict[str, Any]]:
    """Return the answers of :func:`explain_text` for requests with the same :func:`batch_kind`.

    If a method cannot explain one of the texts, this raises ``InputError``. The caller then sends
    each request by itself.
    """
    first_request, answers = requests[0], list[dict[str, Any]]()
    methods = _configure_methods(model, first_request)
    prepared, options = prepare_model(model, first_request.request)
    for batch in stream_batches(prepared, [request.user_input for request in requests], options):
        results = [explain_batch(method.for_model(batch.model), batch) for method in methods]
        for i, text_batch in enumerate(batch.split()):
            explanations = [
                replace_explanation_surrogates(method_results[i]) for method_results in results
            ]
            answers.append(_answer_data(text_batch, explanations, {}, None))
    return answers


def batch_kind(request: TextRequest) -> Hashable:
    """Return the fields that requests must share to be answered as one batch.

    Return None if the request must be answered by itself.
    """
    is_special = request.changes or request.inside is not None
    if is_special or not request.text.strip() or not request.methods:
        return None
    return request.request, tuple(request.methods), request.model


def _configure_methods(model: Model, request: TextRequest) -> list[ConfiguredMethod]:
    """Return the methods that a page requests, with their default settings."""
    return configure_methods(model, request.methods, {}) if request.methods else []


def _answer_data(
    batch: Batch,
    explanations: list[Explanation],
    errors: dict[str, str],
    change: dict[str, Any] | None,
    removed_features: Collection[int] = (),
) -> dict[str, Any]:
    """Return the answer to a request as JSON data."""
    model_input = batch.inputs[0]
    queries = [query for query in model_input.queries if isinstance(query, SpanQuery)]
    expanded = expand_queries(batch.model, model_input.user_input) if queries else []
    spans = [cast(SpanQuery, query) for queried in expanded for query in queried.queries]
    image = batch.features[0].result_fields(model_input).get("image")
    warnings = merge_warnings(explanations) if explanations else batch.warnings(0)
    typed = model_input.user_input
    return {
        "text": replace_surrogates(model_input.text),
        # A chat is shown by its messages alone, because nobody typed its prompt.
        "typed": replace_surrogates(typed) if isinstance(typed, str) else None,
        "query_spans": [(query.start, query.end) for query in queries[:1]],
        "spans": [(span.start, span.end, span.tag) for span in spans],
        "prediction": _prediction_data(batch),
        "errors": errors,
        "warnings": list(warnings),
        "change": change,
        **explanation_data(explanations, image, removed_features),
    }


def explanation_data(
    explanations: Sequence[Explanation],
    image: Image | None = None,
    removed_features: Collection[int] = (),
) -> dict[str, Any]:
    """Return explanations of one input as JSON data, and drawings of the explained image."""
    if image is None and explanations:
        image = explanations[0].image
    return {
        "explanations": [msgspec.Raw(drop_image(e).to_json().encode()) for e in explanations],
        "drawings": draw_images(explanations, image, removed_features),
    }


def prepare_batch(model: Model, request: TextRequest) -> Batch:
    """Return the unchanged text of a request as a batch with features and target."""
    prepared, options = prepare_model(model, request.request)
    if request.inside is None or request.changes:
        return _read_text(prepared, options, request.user_input)
    (first, last), text = request.inside, request.user_input
    model_input = prepared.read(text)
    words = [
        span
        for i, span in enumerate(model_input.tokens.spans)
        if first <= span[0] < last and model_input.is_word(i)
    ]
    if not words:
        raise InputError("the model reads no words there. Go back to the whole text.")
    # The words of one sentence are other features, for which another version of the model may be
    # prepared.
    batch = _read_text(*prepare_model(model, replace(request.request, features=words)), text)
    warning = "These are the words of one part of the text. The other parts stay as they are."
    features = replace(batch.features[0], kind="words", warnings=(warning,))
    return replace(batch, features=(features,))


def apply_changes(original: Batch, request: TextRequest) -> Batch:
    """Return the changed text as a batch for the same target, or ``original`` without changes."""
    if not request.changes:
        return original
    if not original.inputs[0].is_text:
        return replace(original, outputs=original.game()(_removal_mask(original, request)))
    (target,), query = original.targets.class_names(), next(iter(original.inputs[0].queries), None)
    text, span = changed_input(original, request), request.request.at
    if isinstance(query, SpanQuery):  # the same span at its new position
        ends = query.start, query.end
        span = ":".join(str(len(changed_text(original, request, end=end))) for end in ends)
    protect: list[str | int] = list(request.request.protect)
    if isinstance(text, Conversation):
        protect = _renumbered_names(original, request)
    elif protect:
        protect = [phrase for phrase in protect if str(phrase).lower() in text.lower()]
    # The same answer, even if the model would no longer write it. Otherwise the two outputs would
    # belong to different answers.
    answer = query.text if isinstance(query, AnswerQuery) else request.request.answer
    options = replace(original.request, target=target, protect=protect, at=span, answer=answer)
    return _read_text(original.model, options, text)


def changed_input(batch: Batch, request: TextRequest) -> Any:
    """Return the input of the reader with the changed features replaced or removed."""
    model_input = batch.inputs[0]
    source = model_input.source
    if not isinstance(source, Conversation):
        region = model_input.parts[0].content if source is not None else (0, None)
        return changed_text(batch, request, start=region[0], end=region[1])
    removed = _removed_parts(batch, request)
    contents = [
        changed_text(batch, request, start=part.content[0], end=part.content[1])
        for part in model_input.parts
    ]
    if source.reasoning:
        return replace(source, reasoning=(source.reasoning[0], contents[0], source.reasoning[2]))
    is_changed = [
        content != model_input.text[slice(*part.content)]
        for part, content in zip(model_input.parts, contents, strict=True)
    ]
    if source.documents:
        documents = tuple(
            Document(document.id, contents[i]) if is_changed[i] else document
            for i, document in enumerate(source.documents)
            if i not in removed
        )
        return replace(source, documents=documents)
    messages = tuple(
        replace(message, content=contents[i], tool_calls="") if is_changed[i] else message
        for i, message in enumerate(source.messages)
        if i not in removed
    )
    if not messages:
        raise InputError("no message is left before the answer. Keep at least one.")
    return replace(source, messages=messages)


def _removed_parts(batch: Batch, request: TextRequest) -> set[int]:
    """Return the indices of the documents or messages that the request removes."""
    features, parts = batch.features[0], batch.inputs[0].parts
    if features.kind not in ("documents", "messages"):
        return set()
    names = {
        features.strings[j]
        for word, number, replacement in request.changes
        if replacement is None
        for j in _find_feature(features, word, number)
    }
    return {i for i, part in enumerate(parts) if part.id in names}


def _renumbered_names(original: Batch, request: TextRequest) -> list[str | int]:
    """Return the protected names for the changed chat, in which messages have other numbers."""
    parts, removed = original.inputs[0].parts, _removed_parts(original, request)
    remaining = [part for i, part in enumerate(parts) if i not in removed]
    # A document keeps its name. The name of a message begins with its number.
    new_names = {part.id: None for part in parts} | {
        part.id: part.id if part.role == "document" else f"{i} {part.role}"
        for i, part in enumerate(remaining)
    }
    names = [new_names.get(str(name), str(name)) for name in request.request.protect]
    return [name for name in names if name is not None]


def changed_text(
    batch: Batch, request: TextRequest, *, start: int = 0, end: int | None = None
) -> str:
    """Return the text with all occurrences of the changed features replaced or removed.

    With ``start`` or ``end``, return only the part that comes from these characters of the
    original.
    """
    (model_input,), (features,) = batch.inputs, batch.features
    edits = [
        (span_start, span_end, replacement)
        for word, number, replacement in request.changes
        for j in _find_feature(features, word, number)
        for span_start, span_end in features.spans[j]
    ]
    parts, position = list[str](), start
    for span_start, span_end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        if span_start < position or (end is not None and span_start >= end):
            continue  # subword tokens may overlap: the first one contains the shared characters
        unchanged = model_input.text[position:span_start]
        position = span_end
        # With a word, remove the space before it, or after the first word.
        if replacement is None and unchanged.endswith(" "):
            unchanged = unchanged[:-1]
        elif replacement is None and not unchanged:
            position += model_input.text[span_end : span_end + 1] == " "
        parts += [unchanged, replacement or ""]
    return "".join([*parts, model_input.text[position:end]])


def _find_feature(features: Features, word: str, number: int) -> list[int]:
    """Return the index of a changed feature, or an empty list if the text does not have it."""
    matches = [j for j, string in enumerate(features.strings) if string.lower() == word.lower()]
    return matches[number : number + 1]


def _changed_features(features: Features, request: TextRequest) -> set[int]:
    """Return the indices of the features that the request changes."""
    return {j for word, number, _ in request.changes for j in _find_feature(features, word, number)}


def _removal_mask(batch: Batch, request: TextRequest) -> Bool[np.ndarray, "1 d"]:
    """Return a mask in which the changed features are absent."""
    features = batch.features[0]
    mask = np.ones((1, len(features)), dtype=bool)
    mask[0, list(_changed_features(features, request))] = False
    return mask


def _read_text(model: Model, options: Request, text: UserInput) -> Batch:
    """Return a text as a batch with its first query, which the reader of the page may change."""
    if isinstance(text, str) and not text.strip():
        raise InputError("the text has no words left. Add a word.")
    (queried,) = options.attach_queries([text])
    (queried, *_) = expand_queries(model, queried) or [queried]
    (batch,) = stream_batches(model, [queried], options)
    return batch


def _output_change(original: Batch, changed: Batch, request: TextRequest) -> dict[str, Any]:
    """Return the target's output before and after the changes, and after removal by the methods.

    A reader deletes a word from the text, but methods put the model's replacement in its place.
    The two outputs may differ, and a reader who compares a change with a score must see both.
    """
    change: dict[str, Any] = {
        "before": _target_output(original),
        "after": _target_output(changed),
        "removed": None,
    }
    if any(replacement is not None for _, _, replacement in request.changes):
        return change
    outputs = original.game()(_removal_mask(original, request))
    change["removed"] = float(original.targets.value(outputs)[0])
    change["replacement"] = original.request_settings(0)["replacement"]
    return change


def _target_output(batch: Batch) -> float:
    """Return the explained number of the only text of a batch."""
    return float(batch.targets.value(batch.outputs)[0])


def _prediction_data(batch: Batch) -> dict[str, Any]:
    """Return the outcomes of the classes, the target, and the possible opening sentences.

    The opening sentence depends on the kinds of the displayed methods. The keys of ``openings`` are
    the kinds, joined by spaces.
    """
    targets, model, model_input = batch.targets, batch.model, batch.inputs[0]
    prediction = Explanation(  # the prediction without features, in the form that the views take
        text=model_input.text if model_input.queries else "",
        query=next(iter(model_input.queries), None),
        features=(),
        spans=(),
        scores=np.zeros(0),
        method="",
        target=targets.class_names()[0],
        against=targets.against_names()[0],
        classes=model.classes,
        link=model.link,
        scale=targets.scale,
        prediction=batch.prediction(0),
        settings={"features": batch.features[0].kind},
    )
    by_kind = {kind: replace(prediction, **fields) for kind, fields in _METHOD_KINDS.items()}
    return {
        "outcomes": [outcome._asdict() for outcome in reader_outcomes(prediction)],
        "target": prediction.target,
        "against": prediction.against,
        "scale": prediction.scale,
        "value": _target_output(batch),
        "words": len(batch.features[0]),
        "openings": {
            " ".join(kinds): opening_parts([by_kind[kind] for kind in kinds])
            for count in range(1, len(_METHOD_KINDS) + 1)
            for kinds in combinations(_METHOD_KINDS, count)
        },
        "one_sided_methods": ONE_SIDED,
    }


def opening_parts(explanations: Sequence[Explanation]) -> tuple[str, str, str]:
    """Return the sentence above explanations as printable parts. The second part is a class."""
    before, name, after = headline(explanations)
    return before, visible_text(name), visible_text(typeset_sentence(after))


def compute_sections(
    model: Model, request: TextRequest, report_progress: ProgressCallback
) -> dict[str, Any]:
    """Return the data of the requested sections by name, or an error message in place of it."""
    batch = prepare_batch(model, request)
    methods = [configure_method(name, model, {}) for name in request.methods]
    data: dict[str, Any] = {}
    with track_progress(report_progress, methods, batch):
        for name in dict.fromkeys(request.sections):
            report_progress(0, 1)
            if name not in SECTIONS:
                names = ", ".join(SECTIONS)
                raise InputError(f"there is no section {name!r}. Choose from {names}.")
            try:
                data[name] = SECTIONS[name](batch, methods)
            except InputError as error:
                data[name] = {"error": str(error)}
    return data


def export_explanations(
    model: Model, request: TextRequest, report_progress: ProgressCallback
) -> dict[str, Any]:
    """Explain a text by the requested methods, and return the content of a file to download.

    The request names the format of the file as its only entry of ``sections``.
    """
    (file_format,) = request.sections or [""]
    if file_format not in FILE_FORMATS:
        formats = " or ".join(FILE_FORMATS)
        raise InputError(f"the format of a file must be {formats}, not {file_format!r}.")
    batch = prepare_batch(model, request)
    if batch.inputs[0].is_text:  # a changed image has no scores
        batch = apply_changes(batch, request)
    methods = [configure_method(name, model, {}) for name in request.methods]
    with track_progress(report_progress, methods, batch):
        explanations = _explain_with_any(methods, batch)
    comparison = Comparison(explanations=tuple(explanations), attention=batch.attention_matrices())
    return {"content": FILE_FORMATS[file_format](comparison)}


def _explain_with_any(methods: Sequence[ConfiguredMethod], batch: Batch) -> list[Explanation]:
    """Return the explanations of the methods that can explain the text, at least one."""
    explanations, _ = run_methods(methods, batch)  # the page shows the errors beside the text
    if not explanations:
        raise InputError("choose at least one method that is defined for this text.")
    return explanations


def _disagreement_section(batch: Batch, methods: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    """Return a table of the features on which the methods disagree, as HTML."""
    explanations = _explain_with_any(methods, batch)
    if len(explanations) < 2:
        raise InputError("choose at least two methods to see where they disagree.")
    return {"html": str(disagreement_section(Comparison(explanations=tuple(explanations))))}


def _attention_section(batch: Batch, _: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    """Return the attention matrix of every head."""
    if (matrices := batch.attention_matrices()) is None:
        raise InputError("attention matrices are drawn only for an AttentionClassifier.")
    method = configure_method("alpha-avg", batch.model, {})
    explanation = _explain_with_any([method], batch)[0]
    return attention_data(Comparison(explanations=(explanation,), attention=matrices)) or {}


def _heads_section(batch: Batch, methods: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    """Return the scores of every head, by the methods that can score heads, as HTML."""
    names = [method.method.id for method in methods if "per_head" in method.implementation.settings]
    head_methods = [configure_method(name, batch.model, {"per_head": True}) for name in names]
    explanations = _explain_with_any(head_methods or methods, batch)
    explanations = [e for e in explanations if e.heads is not None]
    if not explanations:
        raise InputError("none of these methods scores each head. Choose shapley or lime.")
    return {"html": str(render_macro("head_tables", head_tables(explanations)))}


def _pairs_section(batch: Batch, _: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    """Return the interactions of pairs of features."""
    method = configure_method("interactions", batch.model, {})
    (explanation,) = _explain_with_any([method], batch)
    return {"explanation": msgspec.Raw(explanation.to_json().encode())}


def _counterfactual_section(batch: Batch, _: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    """Return the smallest removal that changes the prediction, as HTML."""
    if not batch.inputs[0].is_text:
        raise InputError("the page shows counterfactuals of texts. Call limelight.counterfactual.")
    settings = CounterfactualSettings(budget=Budget(None, _COUNTERFACTUAL_CALLS))
    (counterfactual,) = find_counterfactuals(batch, settings)
    return {"html": str(counterfactual_section(counterfactual))}


def _curves_section(batch: Batch, methods: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    """Return the deletion curve and the share of every method, with chance and ceiling."""
    explanations = _explain_with_any(methods, batch)
    replacement = resolve_replacement(batch.model, "auto")
    removals = make_removals(batch, replacement=replacement, seed=0)
    candidates = [Candidate(e.method, e.label, e.signed, lambda _: []) for e in explanations]
    scored = ScoredText(0, batch, candidates, [e.scores for e in explanations])
    searched = SearchedText(scored, removals)
    run_searches([searched], _SEARCH_SECONDS)
    judged = searched.judge(seconds=_SEARCH_SECONDS, curves=True)
    level = judged.deletion
    if level is None or not judged.d:
        raise InputError("there is nothing to remove from this text.")
    lines = [
        _line_data(e.label, "method", curve.removed_counts / judged.d, curve.points)
        for e in explanations
        if (curve := judged.curves.get(e.method)) is not None
    ]
    return {
        "words": judged.d,
        "noun": batch.features[0].noun,
        "lines": [*lines, *_reference_lines(removals, judged.full)],
        "ceiling_kind": judged.ceiling_kind,
        "chance": level.chance,
        "chance_error": level.stderr,
        "ceiling": level.ceiling,
        "has_room": judged.has_room,
        "methods": [
            {
                "label": e.label,
                "area": (area := level.areas.get(e.method)),
                "share": _faithfulness_share(area, level.chance, level.ceiling),
            }
            for e in explanations
        ],
    }


def _faithfulness_share(area: float | None, chance: float, ceiling: float) -> float | None:
    """Return (area − chance)/(ceiling − chance), or None if it is unknown."""
    return None if area is None or ceiling <= chance else (area - chance) / (ceiling - chance)


def _reference_lines(removals: Removals, full_output: float) -> list[dict[str, Any]]:
    """Return the curves of chance and of the ceiling, or an empty list if they are unknown."""
    if removals.lowest is None:
        return []
    shares, rng = np.arange(removals.d + 1) / removals.d, np.random.default_rng(0)
    orders = np.array([rng.permutation(removals.d) for _ in range(_RANDOM_ORDERS // 2)])
    mean_curve = removals.curves(np.concatenate([orders, orders[:, ::-1]])).mean(axis=0)
    return [
        _line_data("chance", "chance", shares, mean_curve),
        _line_data("ceiling", "ceiling", shares, np.concatenate([[full_output], removals.lowest])),
    ]


def _line_data(
    label: str, kind: str, shares: Float[np.ndarray, " m"], values: Float[np.ndarray, " m"]
) -> dict[str, Any]:
    """Return a line of the figure of removals as JSON data."""
    points = np.stack([shares, values], axis=1)
    return {"label": label, "kind": kind, "points": points.tolist()}


SECTIONS: dict[str, Callable[[Batch, Sequence[ConfiguredMethod]], dict[str, Any]]] = {
    "curves": _curves_section,
    "pairs": _pairs_section,
    "counterfactual": _counterfactual_section,
    "disagreement": _disagreement_section,
    "heads": _heads_section,
    "attention": _attention_section,
}
FILE_FORMATS: dict[str, Callable[[Comparison], str]] = {
    "html": Comparison.as_html,
    "json": Comparison.to_json,
}
