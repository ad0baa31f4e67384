"""What a page may ask about a text, with limits, and what it shows of it.

A reader who looks closer sees curves, pairs, heads, attention, and where methods disagree.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import numpy as np
from msgspec import Meta

from limelight.errors import InputError
from limelight.explainers.batch import Batch
from limelight.explainers.explaining import explain_batch, stream_batches, track_progress
from limelight.explainers.method import ConfiguredMethod
from limelight.explainers.registry import configure_method, configure_methods
from limelight.judging.candidates import Candidate, ScoredText
from limelight.judging.removals import Removals, make_removals
from limelight.judging.texts import SearchedText, run_searches
from limelight.models import Model, resolve_replacement
from limelight.models.queries import expand_queries
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
from limelight.request import FIELDS, Request, RequestField, prepare_model
from limelight.results import Comparison, Explanation
from limelight.serving.queue import Report
from limelight.shapes import Bool, Float
from limelight.text import AnswerQuery, Features, Image, SpanQuery, Splitter, feature_kind
from limelight.text.images import is_address

MOST_BYTES = 1 << 20  # of a request
MOST_OF_IMAGE = 12 << 20  # of a request with an image, which a page sends with each question
MOST_CHARACTERS = 100_000  # of a text
_RANDOM_ORDERS = 512  # whose mean curve stands for chance: sums over tables, so they cost little
_SECONDS = 20.0  # for the search of a good order and for chance, where a model has to be asked
_KINDS: dict[str, dict[str, Any]] = {  # of methods, by what their scores tell of the sign
    "signed": {},
    "unsigned": {"signed": False},
    "one-sided": {"signed": False, "method": ONE_SIDED[0]},
}
_Short = Annotated[str, Meta(max_length=200)]
_Word = Annotated[str, Meta(max_length=1000)]
_Number = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
Change = tuple[_Word, Annotated[int, Meta(ge=0)], _Word | None]


class _OfPage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text and what is to be shown of it, beside the fields of the question.

    ``tab`` tells one window of a browser from another: a newer question of the same tab and
    ``place`` drops the older. ``changes`` are words of the text, each with its number among the
    features of the same name and what stands for it, None where it is removed. Of a stretch that
    is looked ``inside``, such as a sentence, the words are scored, and the rest stays.
    """

    tab: _Short
    place: _Short
    text: str  # whose length question_of bounds, in a sentence that a reader understands
    model: Annotated[int, Meta(ge=0, le=9)] = 0
    methods: Annotated[list[_Short], Meta(max_length=40)] = []
    changes: Annotated[list[Change], Meta(max_length=200)] = []
    parts: Annotated[list[_Short], Meta(max_length=10)] = []
    inside: tuple[_Number, _Number] | None = None

    @property
    def asked(self) -> Request:
        """What is asked of the model about the text."""
        return Request(**{one.name: getattr(self, one.name) for one in FIELDS})


def _sent(field: RequestField) -> tuple[str, Any, Any]:
    """Return a field of the question as a page sends it, no longer than people type."""
    if field.default == ():
        return field.name, Annotated[list[_Word], Meta(max_length=200)], []
    if isinstance(field.default, bool):
        return field.name, bool, field.default
    if field.name == "answer":
        return field.name, Annotated[str, Meta(max_length=10_000)] | None, None
    return field.name, (_Short | _Number | None if field.default is None else _Short), field.default


if TYPE_CHECKING:
    TextQuestion = _OfPage
else:
    TextQuestion = msgspec.defstruct(
        "TextQuestion",
        [_sent(field) for field in FIELDS],
        bases=(_OfPage,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def question_of(body: bytes, unit: str | Splitter | None = None) -> TextQuestion:
    """Return the question in ``body``; what is not one is refused in a sentence.

    ``unit`` may be a cutter, which a page can only name.
    """
    try:
        question = msgspec.json.decode(body, type=TextQuestion)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(f"this is not a question that the page asks: {error}.") from None
    length = len(question.text)
    if length > MOST_CHARACTERS and not is_address(question.text):
        raise InputError(
            f"the page explains texts of at most {MOST_CHARACTERS:,} characters; this one has "
            f"{length:,}. Longer ones are for limelight explain --file."
        )
    if callable(unit) and question.asked.features == feature_kind(unit):
        return msgspec.structs.replace(question, features=unit)
    return question


def check_given(text: str, *, is_image_model: bool) -> None:
    """Refuse a text for an image; it would be taken for a path, of a file of this machine."""
    if is_image_model and text and not is_address(text):
        raise InputError("this model reads images; drop one on the page, or choose a file.")


def shown_text(model: Model, question: TextQuestion, report: Report) -> dict[str, Any]:
    """Return the prediction of the text, or of what the changes make of it, and the explanations.

    A method that refuses the text or the question is left out with its reason. Every explanation is
    JSON of schema ``limelight.explanation/2``.
    """
    before = question_reading(model, question)
    batch = changed_reading(before, question)
    change = _difference(before, batch, question) if question.changes else None
    several = _methods(model, question)
    if question.changes and not batch.inputs[0].is_text:
        several = []  # of what is left of an image the prediction is shown, and no new scores
    with track_progress(report, several, batch):
        found, refused = explained(several, batch, report)
    return _answer(batch, found, refused, change, _gone(batch.features[0], question))


def explained(
    several: Sequence[ConfiguredMethod], batch: Batch, report: Report = lambda *_: None
) -> tuple[list[Explanation], dict[str, str]]:
    """Return what the methods say of the text, and why the others are not defined for it."""
    found, refused = list[Explanation](), dict[str, str]()
    for chosen in several:
        report(0, 1)
        try:
            # Methods are chosen for the model as it is served.
            method = chosen.for_model(batch.model)
            found += map(replace_explanation_surrogates, explain_batch(method, batch))
        except InputError as error:
            refused[chosen.method.id] = str(error)
    return found, refused


def shown_texts(model: Model, questions: Sequence[TextQuestion]) -> list[dict[str, Any]]:
    """Return what :func:`shown_text` does for several questions of one kind (:func:`kind_of`).

    One text for which a method is not defined is an error here; then each is asked by itself.
    """
    first, answers = questions[0], list[dict[str, Any]]()
    several = _methods(model, first)
    prepared, asked = prepare_model(model, first.asked)
    for batch in stream_batches(prepared, [question.text for question in questions], asked):
        by_method = [explain_batch(chosen.for_model(batch.model), batch) for chosen in several]
        for i, one in enumerate(batch.split()):
            found = [replace_explanation_surrogates(of_texts[i]) for of_texts in by_method]
            answers.append(_answer(one, found, {}, None))
    return answers


def kind_of(question: TextQuestion) -> Hashable:
    """Return what questions must share to be answered together; None where that cannot be."""
    alone = question.changes or question.inside is not None
    if alone or not question.text.strip() or not question.methods:
        return None
    return question.asked, tuple(question.methods), question.model


def _methods(model: Model, question: TextQuestion) -> list[ConfiguredMethod]:
    return configure_methods(model, question.methods, {}) if question.methods else []


def _answer(
    batch: Batch,
    found: list[Explanation],
    refused: dict[str, str],
    change: dict[str, Any] | None,
    gone: Collection[int] = (),
) -> dict[str, Any]:
    model_input = batch.inputs[0]
    places = [query for query in model_input.queries if isinstance(query, SpanQuery)]
    expanded = expand_queries(batch.model, model_input.user_input) if places else []
    spans = [cast(SpanQuery, query) for queried in expanded for query in queried.queries]
    image = batch.features[0].result_fields(model_input).get("image")
    return {
        "text": replace_surrogates(model_input.text),
        "at": [(one.start, one.end) for one in places[:1]],
        "spans": [(one.start, one.end, one.tag) for one in spans],
        "says": _said(batch),
        "refused": refused,
        "warnings": list(merge_warnings(found)) if found else list(batch.warnings(0)),
        "change": change,
        **explanation_data(found, image, gone),
    }


def explanation_data(
    explanations: Sequence[Explanation], image: Image | None = None, gone: Collection[int] = ()
) -> dict[str, Any]:
    """Return explanations of one input as JSON, and drawings of the image that was explained."""
    if image is None and explanations:
        image = explanations[0].image
    return {
        "explanations": [msgspec.Raw(drop_image(e).to_json().encode()) for e in explanations],
        "drawn": draw_images(explanations, image, gone),
    }


def question_reading(model: Model, question: TextQuestion) -> Batch:
    """Return the text as the model reads it, with what is to be explained."""
    prepared, asked = prepare_model(model, question.asked)
    if question.inside is None or question.changes:
        return _reading(prepared, asked, question.text)
    (first, last), text = question.inside, question.text
    words = [span for span in prepared.read(text).tokens.spans if first <= span[0] < last]
    if not words:
        raise InputError("the model reads no words there; go back to the whole text.")
    # The words of one part are other features, about which another model may answer.
    batch = _reading(*prepare_model(model, replace(question.asked, features=words)), text)
    around = "These are the words of one part of the text; the rest stays as it is."
    features = replace(batch.features[0], kind="words", warnings=(around,))
    return replace(batch, features=(features,))


def changed_reading(before: Batch, question: TextQuestion) -> Batch:
    """Return what the changes make of the text, for the same class; as it was without changes."""
    if not question.changes:
        return before
    if not before.inputs[0].is_text:
        return replace(before, outputs=before.game()(_left(before, question)))
    (target,), place = before.targets.class_names(), next(iter(before.inputs[0].queries), None)
    text, at = changed_text(before, question), question.asked.at
    if isinstance(place, SpanQuery):  # the same one, wherever it stands now
        edges = place.start, place.end
        at = ":".join(str(len(changed_text(before, question, until=edge))) for edge in edges)
    protect = list(question.asked.protect)
    if protect:
        left = {string.lower() for string in before.model.read(text).tokens.strings}
        protect = [word for word in protect if word.lower() in left]
    # The same answer, which the model might not write any more: two numbers of one thing.
    answer = place.text if isinstance(place, AnswerQuery) else question.asked.answer
    asked = replace(before.request, target=target, protect=protect, at=at, answer=answer)
    return _reading(before.model, asked, text)


def changed_text(batch: Batch, question: TextQuestion, *, until: int | None = None) -> str:
    """Return the text with the changes: every place of a feature, replaced or taken out.

    Or the beginning of it, as far as the character ``until`` of the text before.
    """
    (model_input,), (features,) = batch.inputs, batch.features
    places = [
        (start, end, instead)
        for word, number, instead in question.changes
        for j in _numbered(features, word, number)
        for start, end in features.spans[j]
    ]
    text, at = list[str](), 0
    for start, end, instead in sorted(places, key=lambda place: place[:2]):
        if start < at or (until is not None and start >= until):
            continue  # pieces of words may overlap: the first keeps what they share
        kept = model_input.text[at:start]
        if instead is None and kept.endswith(" "):
            kept = kept[:-1]  # with a word goes the space before it, or after the first one
        elif instead is None and not kept and model_input.text[end : end + 1] == " ":
            end += 1
        text += [kept, instead or ""]
        at = end
    return "".join([*text, model_input.text[at:until]])


def _numbered(features: Features, word: str, number: int) -> list[int]:
    """Return the feature that a change names; none, if the text has changed and it is gone."""
    same = [j for j, string in enumerate(features.strings) if string.lower() == word.lower()]
    return same[number : number + 1]


def _gone(features: Features, question: TextQuestion) -> set[int]:
    """Return the features that the changes touch."""
    return {j for word, number, _ in question.changes for j in _numbered(features, word, number)}


def _left(batch: Batch, question: TextQuestion) -> Bool[np.ndarray, "1 d"]:
    features = batch.features[0]
    mask = np.ones((1, len(features)), dtype=bool)
    mask[0, list(_gone(features, question))] = False
    return mask


def _reading(model: Model, asked: Request, text: str) -> Batch:
    """Return a text under a model that was prepared for the question, with its first query.

    A reader may choose another span than the first.
    """
    if not text.strip():
        raise InputError("there is no text left to read; put a word in.")
    (queried,) = asked.attach_queries([text])
    (queried, *_) = expand_queries(model, queried) or [queried]
    (batch,) = stream_batches(model, [queried], asked)
    return batch


def _difference(before: Batch, after: Batch, question: TextQuestion) -> dict[str, Any]:
    """Return the explained number before and after, and what the methods' removal would give.

    Methods do not take a word out of the text: they put the model's replacement in its place. The
    two numbers may differ, and a reader who compares a change with a score must see both.
    """
    found: dict[str, Any] = {"before": _value(before), "after": _value(after), "removed": None}
    if any(instead is not None for _, _, instead in question.changes):
        return found
    outputs = before.game()(_left(before, question))
    found["removed"] = float(before.targets.value(outputs)[0])
    found["replacement"] = before.request_settings(0)["replacement"]
    return found


def _value(batch: Batch) -> float:
    return float(batch.targets.value(batch.outputs)[0])


def _said(batch: Batch) -> dict[str, Any]:
    """Return the classes with their probabilities, what is explained, and the opening sentence.

    Which one it is depends on the kinds of methods that the page shows, joined in their order.
    """
    targets, model, model_input = batch.targets, batch.model, batch.inputs[0]
    bare = Explanation(  # the prediction alone, as the views take it: without features
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
    of_kinds = {kind: replace(bare, **fields) for kind, fields in _KINDS.items()}
    return {
        "outcomes": [one._asdict() for one in reader_outcomes(bare)],
        "target": bare.target,
        "against": bare.against,
        "scale": bare.scale,
        "value": _value(batch),
        "words": len(batch.features[0]),
        "opening": {
            " ".join(kinds): shown_opening([of_kinds[kind] for kind in kinds])
            for count in range(1, len(_KINDS) + 1)
            for kinds in combinations(_KINDS, count)
        },
        "one_sided": ONE_SIDED,
    }


def shown_opening(explanations: Sequence[Explanation]) -> tuple[str, str, str]:
    """Return the sentence above explanations as a page prints it; its second part is a class."""
    before, name, after = headline(explanations)
    return before, visible_text(name), visible_text(typeset_sentence(after))


def compared_parts(model: Model, question: TextQuestion, report: Report) -> dict[str, Any]:
    """Return the parts that were asked for, each by its name; a refusal is a sentence."""
    batch = question_reading(model, question)
    several = [configure_method(name, model, {}) for name in question.methods]
    found: dict[str, Any] = {}
    with track_progress(report, several, batch):
        for name in dict.fromkeys(question.parts):
            report(0, 1)
            if name not in PARTS:
                raise InputError(f"there is no part {name!r}; choose from {', '.join(PARTS)}.")
            try:
                found[name] = PARTS[name](batch, several)
            except InputError as error:
                found[name] = {"refused": str(error)}
    return found


def made_file(model: Model, question: TextQuestion, report: Report) -> dict[str, Any]:
    """Return what is shown of the text as one file, of the kind that the only part names."""
    (kind,) = question.parts or [""]
    if kind not in FILES:
        raise InputError(f"a file is of the kind {' or '.join(FILES)}; got {kind!r}.")
    batch = question_reading(model, question)
    if batch.inputs[0].is_text:  # of what is left of an image there are no scores
        batch = changed_reading(batch, question)
    several = [configure_method(name, model, {}) for name in question.methods]
    with track_progress(report, several, batch):
        found = _defined(several, batch)
    made = Comparison(explanations=tuple(found), attention=batch.attention_matrices())
    return {"content": FILES[kind](made)}


def _defined(several: Sequence[ConfiguredMethod], batch: Batch) -> list[Explanation]:
    """Return what the methods say that are defined for this text."""
    found, _ = explained(several, batch)  # a reason stands where the words would be
    if not found:
        raise InputError("choose at least one method that is defined for this text.")
    return found


def _disagreement(batch: Batch, several: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    found = _defined(several, batch)
    if len(found) < 2:
        raise InputError("choose at least two methods to see where they disagree.")
    return {"html": str(disagreement_section(Comparison(explanations=tuple(found))))}


def _attention(batch: Batch, _: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    if (matrices := batch.attention_matrices()) is None:
        raise InputError("whole attention matrices are drawn of the paper's classifier alone.")
    one = _defined([configure_method("alpha-avg", batch.model, {})], batch)
    return attention_data(Comparison(explanations=(one[0],), attention=matrices)) or {}


def _heads(batch: Batch, several: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    """Return the scores of every head alone, of the methods that can tell heads apart."""
    able = [one.method.id for one in several if "per_head" in one.implementation.settings]
    apart = [configure_method(name, batch.model, {"per_head": True}) for name in able]
    found = [e for e in _defined(apart or several, batch) if e.heads is not None]
    if not found:
        raise InputError("none of these methods scores heads apart; choose shapley or lime.")
    return {"html": str(render_macro("head_tables", head_tables(found)))}


def _pairs(batch: Batch, _: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    (found,) = _defined([configure_method("interactions", batch.model, {})], batch)
    return {"explanation": msgspec.Raw(found.to_json().encode())}


def _curves(batch: Batch, several: Sequence[ConfiguredMethod]) -> dict[str, Any]:
    """Return the explained number while words go, and each method between chance and ceiling."""
    found = _defined(several, batch)
    replacement = resolve_replacement(batch.model, "auto")
    removals = make_removals(batch, replacement=replacement, seed=0)
    candidates = [Candidate(e.method, e.label, e.signed, lambda _: []) for e in found]
    scored = ScoredText(0, batch, candidates, [e.scores for e in found])
    searched = SearchedText(scored, removals)
    run_searches([searched], _SECONDS)
    judged = searched.judge(seconds=_SECONDS, curves=True)
    level = judged.deletion
    if level is None or not judged.d:
        raise InputError("there is nothing to remove from this text.")
    lines = [
        _line(e.label, "method", curve.removed_counts / judged.d, curve.points)
        for e in found
        if (curve := judged.curves.get(e.method)) is not None
    ]
    return {
        "words": judged.d,
        "noun": batch.features[0].noun,
        "lines": [*lines, *_guides(removals, judged.full)],
        "kind": judged.ceiling_kind,
        "chance": level.chance,
        "chance_error": level.stderr,
        "ceiling": level.ceiling,
        "has_room": judged.has_room,
        "methods": [
            {
                "label": e.label,
                "area": (area := level.areas.get(e.method)),
                "share": _share(area, level.chance, level.ceiling),
            }
            for e in found
        ],
    }


def _share(area: float | None, chance: float, ceiling: float) -> float | None:
    return None if area is None or ceiling <= chance else (area - chance) / (ceiling - chance)


def _guides(removals: Removals, full: float) -> list[dict[str, Any]]:
    """Return the mean curve of random orders and what no order goes below, where both are known."""
    if removals.lowest is None:
        return []
    shares, rng = np.arange(removals.d + 1) / removals.d, np.random.default_rng(0)
    orders = np.array([rng.permutation(removals.d) for _ in range(_RANDOM_ORDERS // 2)])
    random = removals.curves(np.concatenate([orders, orders[:, ::-1]])).mean(axis=0)
    return [
        _line("chance", "chance", shares, random),
        _line("ceiling", "ceiling", shares, np.concatenate([[full], removals.lowest])),
    ]


def _line(
    label: str, kind: str, shares: Float[np.ndarray, " m"], values: Float[np.ndarray, " m"]
) -> dict[str, Any]:
    points = np.stack([shares, values], axis=1)
    return {"label": label, "kind": kind, "points": points.tolist()}


PARTS: dict[str, Callable[[Batch, Sequence[ConfiguredMethod]], dict[str, Any]]] = {
    "curves": _curves,
    "pairs": _pairs,
    "disagreement": _disagreement,
    "heads": _heads,
    "attention": _attention,
}
FILES: dict[str, Callable[[Comparison], str]] = {
    "html": Comparison.as_html,
    "json": Comparison.to_json,
}
