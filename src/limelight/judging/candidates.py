"""Candidates of a judgment: methods, functions, and stored explanations that score texts."""

import inspect
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from limelight.errors import InputError, unknown_name_message
from limelight.explainers.batch import Batch, read_batch
from limelight.explainers.explaining import explain_batch
from limelight.explainers.method import ConfiguredMethod, select_implementation
from limelight.explainers.registry import (
    accepts_settings,
    configure_method,
    default_comparison,
    find_method,
)
from limelight.judging.shap_values import (
    find_row,
    is_shap_explanation,
    read_shap_values,
    select_output,
    sum_token_values,
)
from limelight.models import Model, are_opposite, class_weights
from limelight.request import target_indices
from limelight.results import Comparison, Explanation
from limelight.results.values import require_whole_characters
from limelight.shapes import Float
from limelight.text import AnswerQuery, truncate_line
from limelight.text.characters import LONE_SURROGATE
from limelight.threads import cached_property

_NONE = "there are no stored explanations. Give at least one."


Scores = Float[np.ndarray, " d"]  # one per word
ScoresOrReason = Float[np.ndarray, " _"] | str  # a sentence says why there are no scores


@dataclass(frozen=True)
class Candidate:
    """A method, function or set of stored explanations that is judged.

    Parameters
    ----------
    name
        A name that no other candidate has.
    label
        The name for tables and figures.
    signed
        Whether the signs of the scores have a meaning.
    score
        Returns the scores of each text of a batch, or a sentence that says why there are none.
    reason
        Why the candidate cannot score texts on this model. None if it can.
    score_again
        Scores the texts with another seed. None if nothing is sampled.
    expected_calls
        Number of model calls for a text of d words. None if nobody can know it.
    is_portable
        Whether the candidate also scores texts on another model. Stored explanations do not.
    changed_settings
        The settings that differ from the defaults, to distinguish two candidates of one method.
    fingerprint
        Fingerprint of the model that stored explanations belong to.
    """

    name: str
    label: str
    signed: bool
    score: Callable[[Batch], list[Any]]
    reason: str | None = None
    score_again: Callable[[Batch], list[Any]] | None = None
    expected_calls: Callable[[int], int] | None = None
    is_portable: bool = True
    changed_settings: str = ""
    fingerprint: str = ""


def make_candidates(
    model: Model, methods: Any, settings: Mapping[str, Any], *, seed: int, replacement: str
) -> list[Candidate]:
    """Return the candidates to judge, each under a unique name.

    Parameters
    ----------
    model
        The model that the candidates explain.
    methods
        The argument ``methods`` of :func:`limelight.judge`.
    settings
        Settings of methods. A setting goes to every method that has it.
    seed
        Seed for the methods that sample. Other methods ignore it.
    replacement
        Replacement for the methods that remove words. Other methods ignore it.

    Returns
    -------
    At least one candidate.

    Raises
    ------
    InputError
        If there is no method, or if no method has one of the settings.
    """
    named_sources = _list_methods(default_comparison(model) if methods is None else methods)
    # Settings objects contain their settings. Keywords are only for methods that are given by name.
    ids = [
        source for _, source in named_sources if accepts_settings(source) and not _is_stored(source)
    ]
    implementations = [select_implementation(find_method(id_), model, replacement) for id_ in ids]
    used = [implementation.settings for implementation in implementations if implementation]
    allowed = {name: None for meanings in used for name in meanings}
    for name in settings:  # a setting that no method of this model has would do nothing
        if name not in allowed:
            raise InputError(unknown_name_message("setting of these methods", name, allowed))
    candidates: list[Candidate] = []
    for chosen_name, source in named_sources:
        if _is_stored(source):
            new_candidates = list(_stored_candidates(source))
        elif callable(source):
            # Nobody can know whether the numbers of a function have signs. They count as signed.
            label = getattr(source, "__name__", type(source).__name__)
            new_candidates = [Candidate(label, label, True, _function_scorer(source))]
        else:
            available = {"seed": seed, "replacement": replacement, **settings}
            new_candidates = [_method_candidate(model, source, available)]
        candidates += (
            candidate
            if chosen_name is None
            else replace(candidate, name=chosen_name, label=chosen_name)
            for candidate in new_candidates
        )
    if not candidates:
        raise InputError("judge needs at least one method.")
    return _make_names_unique(candidates)


def _list_methods(methods: Any) -> list[tuple[str | None, Any]]:
    """List the methods to judge as pairs (name chosen by the user or None, method).

    ``methods`` may be a method, a path, a list of these, or a mapping from names. A list of
    explanations counts as a single method.
    """
    if isinstance(methods, Mapping):
        return list(methods.items())
    is_single = isinstance(methods, str | Path) or not isinstance(methods, Iterable)
    is_single = is_single or is_shap_explanation(methods)
    sources = [methods] if is_single else list(methods)
    # A list of explanations is one candidate. A list of names is several.
    if sources and all(isinstance(source, Explanation) for source in sources):
        sources = [sources]
    return [(None, source) for source in sources]


def _method_candidate(model: Model, source: Any, settings: Mapping[str, Any]) -> Candidate:
    """Return the candidate for a method that is given by name or by a settings object.

    A method that is given by name takes those of ``settings`` that it has.
    """
    method = find_method(source)
    implementation = select_implementation(method, model, settings["replacement"])
    allowed = (
        implementation.settings if accepts_settings(source) and implementation is not None else ()
    )
    try:
        values = {name: value for name, value in settings.items() if name in allowed}
        configured = configure_method(source, model, values)
    except InputError as error:
        if implementation is not None:  # the settings are at fault, not the model
            raise
        no_scores = _score_each_text(lambda *_: "the model does not support this method.")
        return Candidate(method.id, method.label, method.signed, no_scores, str(error))
    score_again = None
    implementation = configured.implementation
    if implementation.exactness == "sampled" and "seed" in implementation.settings:
        # The next seed is as good as any other, and it is the same in every run.
        reseeded = replace(configured.settings, seed=configured.settings.seed + 1)
        score_again = _method_scorer(configured._replace(settings=reseeded))
    return Candidate(
        method.id,
        method.label,
        method.signed,
        _method_scorer(configured),
        score_again=score_again,
        expected_calls=configured.expected_calls,
        changed_settings="" if accepts_settings(source) else _describe_changes(source),
    )


def _describe_changes(settings: Any) -> str:
    """Return the settings that differ from their defaults, as ``bandwidth=0.5``."""
    values = (
        (field.name, field.default, getattr(settings, field.name)) for field in fields(settings)
    )
    return ", ".join(f"{name}={value}" for name, default, value in values if value != default)


_OTHER_FEATURES = (
    "the method selects its own features. Judge its stored explanations, with their spans as "
    "features."
)


def _method_scorer(method: ConfiguredMethod) -> Callable[[Batch], list[ScoresOrReason]]:
    """Return a function that scores a batch by a method."""

    def score(batch: Batch) -> list[ScoresOrReason]:
        """Return the scores of each text, or the reason why it has none."""
        try:
            # The model with shuffled weights may lack a capability that the method needs.
            method_for_batch = method.for_model(batch.model)
            pairs = zip(explain_batch(method_for_batch, batch), batch.features, strict=True)
            # A method that chooses its features is judged by them, as stored explanations.
            return [
                explanation.scores if explanation.features == features.strings else _OTHER_FEATURES
                for explanation, features in pairs
            ]
        except InputError as error:
            # An error about one text must not cost the others that were explained with it.
            if len(batch.inputs) == 1:
                return [str(error)]
            return [scores for single in batch.split() for scores in score(single)]

    return score


def _score_each_text(
    score_text: Callable[[Batch, int], ScoresOrReason],
) -> Callable[[Batch], list[ScoresOrReason]]:
    """Return a function that scores a batch by scoring its texts one after the other."""
    return lambda batch: [score_text(batch, i) for i in range(len(batch.inputs))]


def _function_scorer(function: Callable[..., Any]) -> Callable[[Batch], list[ScoresOrReason]]:
    """Return a function that scores a batch by a function that the user wrote.

    If the user's function takes ``target``, it gets the class that is judged. Otherwise its scores
    belong to the class that ``explain`` explains by default.
    """
    takes_target = _takes_target(function)

    def score_text(batch: Batch, i: int) -> ScoresOrReason:
        """Return the scores of a text, or the reason why it has none."""
        target = batch.targets.class_names()[i]
        try:
            keywords = {"target": target} if takes_target else {}
            answer = function(batch.model, batch.inputs[i].user_input, **keywords)
            scores = np.asarray(getattr(answer, "scores", answer), dtype=np.float64)
        except Exception as error:  # a user's function may raise anything
            message = LONE_SURROGATE.sub("\ufffd", truncate_line(str(error), 120))
            return f"{type(error).__name__}: {message}"
        d, noun = len(batch.features[i]), batch.features[i].noun
        if scores.shape != (d,):
            return f"it must return {d} numbers, one per {noun}, not shape {scores.shape}."
        if invalid_count := int(np.count_nonzero(~np.isfinite(scores))):
            verb = "is" if invalid_count == 1 else "are"
            return f"it must return {d} finite numbers, but {invalid_count} {verb} not finite."
        if isinstance(answer, Explanation):
            return _scores_for_target(scores, answer.target, batch, i, signed=answer.signed)
        if takes_target:
            return scores
        # Numbers without a negative one are sizes, such as attention. They belong to no class.
        signed = bool((scores < 0).any())
        converted = _scores_for_default(scores, batch, i, signed=signed)
        if not isinstance(converted, str):
            return converted
        return f"{converted} Add a parameter `target` to the function: it gets the judged class."

    return _score_each_text(score_text)


def _shap_candidate(explanation: Any) -> Candidate:
    """Return the candidate of a ``shap.Explanation``.

    An output without the name of a class belongs to the class that ``explain`` explains by default.
    """
    stored = read_shap_values(explanation)

    def score_text(batch: Batch, i: int) -> ScoresOrReason:
        """Return the scores of a text, or the reason why it has none."""
        text, features = batch.inputs[i].text, batch.features[i]
        if (row := find_row(stored, text, features)) is None:
            return (
                f"the shap.Explanation has no row with the tokens or the {features.noun}s of this "
                "text. Explain the same texts with shap."
            )
        classes, target = batch.model.classes, batch.targets.class_names()[i]
        selected = select_output(row, stored.output_names, classes, target)
        if isinstance(selected, str):
            return selected
        values, scored_class = selected
        scores = sum_token_values(row.tokens, values, text, features)
        if isinstance(scores, str):
            return scores
        if not np.isfinite(scores).all():
            return "the shap.Explanation has values that are not finite."
        if scored_class is None:
            return _scores_for_default(scores, batch, i, signed=True)
        return _scores_for_target(scores, scored_class, batch, i, signed=True)

    return Candidate(
        "shap",
        "shap",
        True,
        _score_each_text(score_text),
        expected_calls=lambda _: 0,
        is_portable=False,
    )


def _takes_target(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter ``target`` that can be passed by keyword."""
    try:
        parameter = inspect.signature(function).parameters.get("target")
    except (TypeError, ValueError):  # some functions in C have no signature
        return False
    return parameter is not None and parameter.kind in (
        parameter.POSITIONAL_OR_KEYWORD,
        parameter.KEYWORD_ONLY,
    )


def _scores_for_default(scores: Scores, batch: Batch, i: int, *, signed: bool) -> ScoresOrReason:
    """Convert scores for the class that ``explain`` explains by default, if possible."""
    classes = batch.model.classes
    (default,) = target_indices(None, classes, batch.outputs[i : i + 1])
    return _scores_for_target(scores, classes[default], batch, i, signed=signed)


def _scores_for_target(
    scores: Scores, scored_class: str, batch: Batch, i: int, *, signed: bool
) -> ScoresOrReason:
    """Convert scores for one class into scores for the class that is judged, if possible.

    Parameters
    ----------
    scores
        Scores for ``scored_class``.
    scored_class
        The class that the scores belong to.
    batch
        The batch that contains the text.
    i
        Number of the text in the batch.
    signed
        Whether the signs of the scores have a meaning.

    Returns
    -------
    The scores for the judged class, or a sentence that says why there are none.
    """
    target, classes = batch.targets.class_names()[i], batch.model.classes
    if scored_class == target:
        return scores
    if scored_class not in classes:
        names = ", ".join(map(repr, classes[:5]))
        return f"its scores are for {scored_class!r}, which is not a class of this model ({names})."
    # Scores for one of two classes are scores against the other, unless both may be true at once.
    scale = "score" if batch.targets.scale == "score" else "logit"
    outputs, link = batch.outputs.shape[1], batch.model.link
    if are_opposite(class_weights(len(classes), outputs, link, scale)):
        return -scores if signed else scores
    return f"its scores are for {scored_class!r}, but {target!r} is judged."


def _stored_candidate(first: Explanation, stored: Mapping[Any, Any]) -> Candidate:
    """Return the candidate of one method whose explanations are stored.

    ``stored`` maps a text to its explanation, or to explanations of several classes. ``first`` is
    one of them.
    """

    def score_text(batch: Batch, i: int) -> ScoresOrReason:
        """Return the scores of a text, or the reason why it has none."""
        model_input = batch.inputs[i]
        # Explanations have the joined text of a pair. A mapping of the user's may have the pair.
        stored_value = stored.get(model_input.text)
        if stored_value is None:
            stored_value = stored.get(model_input.user_input, ())
        of_text = [stored_value] if isinstance(stored_value, Explanation) else stored_value
        if not of_text:
            return "there is no stored explanation of this text."
        query = model_input.queries[batch.targets.query_index] if model_input.queries else None
        if not (matching := [e for e in of_text if e.query == query]):
            noun = "this answer" if isinstance(query, AnswerQuery) else "this span of the text"
            return f"there is no stored explanation of {noun}."
        target = batch.targets.class_names()[i]
        # An explanation of another class may still be converted, or an error names that class.
        explanation = next((e for e in matching if e.target == target), matching[-1])
        side = batch.request.side
        judged = [j for j, name in enumerate(explanation.part_names) if side in (None, name)]
        # Scores are taken by position. With other features a score would land on another word.
        if tuple(explanation.features[j] for j in judged) != batch.features[i].strings:
            return (
                "the stored explanation has other features than this judgment. Use the same model "
                "and options for both."
            )
        return _scores_for_target(
            explanation.scores[judged], explanation.target, batch, i, signed=explanation.signed
        )

    return Candidate(
        first.method,
        first.method,
        first.signed,
        _score_each_text(score_text),
        expected_calls=lambda _: 0,
        is_portable=False,
        fingerprint=first.model,
    )


def _is_stored(source: Any) -> bool:
    """Return whether ``source`` is a file of explanations, or a collection of them."""
    if isinstance(source, str):
        return source.endswith((".json", ".jsonl"))
    is_file_or_list = isinstance(source, Explanation | Comparison | os.PathLike | Iterable)
    return is_file_or_list or is_shap_explanation(source)


def _stored_candidates(source: Any) -> Iterator[Candidate]:
    """Yield a candidate for every method that has stored explanations.

    A mapping from texts to explanations belongs to one method and is not read here. It may read an
    explanation from disk when it is needed. All other sources are read to their end.
    """
    if is_shap_explanation(source):
        yield _shap_candidate(source)
        return
    if isinstance(source, Mapping):
        first = next(iter(source.values()), None)
        if not isinstance(first, Explanation):
            raise InputError(_NONE if first is None else _wrong_type_message(first))
        yield _stored_candidate(first, source)
        return
    if isinstance(source, str | os.PathLike):
        results: Iterable[Any] = _read_explanation_file(Path(source))
    else:
        results = [source] if isinstance(source, Explanation | Comparison) else source
    by_method: dict[str, dict[str, list[Explanation]]] = {}
    for result in results:
        if not isinstance(result, Explanation | Comparison):
            raise InputError(_wrong_type_message(result))
        for explanation in result if isinstance(result, Comparison) else [result]:
            # Explanations of one text differ by class or span. The judged one is selected later.
            of_method = by_method.setdefault(explanation.method, {})
            of_method.setdefault(explanation.text, []).append(explanation)
    if not by_method:
        raise InputError(_NONE)
    for by_text in by_method.values():
        yield _stored_candidate(next(iter(by_text.values()))[0], by_text)


def _wrong_type_message(value: Any) -> str:
    """Return an error message for a value that is no explanation."""
    return (
        "stored explanations must be a JSON file, a list of explanations, or a mapping from texts "
        f"to explanations, not {type(value).__name__}."
    )


def _read_explanation_file(path: Path) -> Iterator[Explanation | Comparison]:
    """Yield the explanations and comparisons of a JSON or JSON Lines file."""
    if path.is_dir():
        raise InputError(
            f"'{path}' is a folder, not a JSON file of explanations. Give a run as "
            "limelight.Run(folder)."
        )
    try:
        content = path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"there are no explanations at '{path}'. Check the path.") from None
    except UnicodeDecodeError:
        raise InputError(f"'{path}' is not a JSON file of explanations.") from None
    try:
        json.loads(content)
        records = [content]
    except ValueError:  # one object per line
        records = [line for line in content.split("\n") if line.strip()]
    for record in records:
        is_comparison = '"limelight.comparison/' in record[:200]  # the schema is the first key
        try:
            result = (Comparison if is_comparison else Explanation).from_json(record)
        except InputError as error:
            raise InputError(f"'{path}': {error}") from None
        yield result


def _make_names_unique(candidates: list[Candidate]) -> list[Candidate]:
    """Add the changed settings to names that occur twice, and a number if that is not enough."""
    counts = Counter(candidate.name for candidate in candidates)
    by_name: dict[str, Candidate] = {}
    for candidate in candidates:
        is_shared = candidate.changed_settings and counts[candidate.name] > 1
        suffix = f" ({candidate.changed_settings})" if is_shared else ""
        name = require_whole_characters(candidate.name + suffix, "the name of a method")
        numbers = ("", *(f" {number}" for number in range(2, len(candidates) + 1)))
        number = next(number for number in numbers if name + number not in by_name)
        by_name[name + number] = replace(
            candidate, name=name + number, label=candidate.label + suffix + number
        )
    return list(by_name.values())


_ROUNDING = 1e-9  # of the model's outputs: scores of this size are only rounding


@dataclass(frozen=True, eq=False)
class ScoredText:
    """One text with the scores of all candidates.

    Parameters
    ----------
    number
        Number of the text among all judged texts.
    batch
        A batch that contains only this text.
    candidates
        The candidates.
    scores
        The scores of each candidate, or a sentence that says why there are none.
    repeated_scores
        The scores with another seed. None if they were not needed.
    shuffled_scores
        The scores on the model with shuffled weights. None if they were not needed.
    """

    number: int
    batch: Batch
    candidates: Sequence[Candidate]
    scores: Sequence[ScoresOrReason]
    repeated_scores: Sequence[ScoresOrReason | None] = ()
    shuffled_scores: Sequence[ScoresOrReason | None] = ()

    @cached_property
    def rows(self) -> list[tuple[int, Scores, bool]]:
        """Number, scores and signedness of each candidate that has scores."""
        pairs = enumerate(zip(self.scores, self.candidates, strict=True))
        return [
            (i, scores, candidate.signed)
            for i, (scores, candidate) in pairs
            if not isinstance(scores, str)
        ]

    def values_by_name(self, values: Iterable[Any]) -> dict[str, Any]:
        """Map the names of the candidates of ``rows`` to ``values``, without values of None."""
        pairs = zip(self.rows, values, strict=True)
        return {self.candidates[i].name: x for (i, _, _), x in pairs if x is not None}

    @property
    def noise(self) -> float:
        """Difference below which two scores count as equal."""
        return _ROUNDING * float(np.abs(self.batch.outputs).max())


def score_texts(
    candidates: Sequence[Candidate],
    batch: Batch,
    *,
    start: int,
    repeat: bool,
    shuffled_model: Model | None,
) -> list[ScoredText]:
    """Score each text of a batch by all candidates.

    Parameters
    ----------
    candidates
        The candidates.
    batch
        The texts.
    start
        Number of the first text among all judged texts.
    repeat
        Whether sampled scores are computed a second time, with another seed.
    shuffled_model
        The model with shuffled weights, if scores on that model are needed too.

    Returns
    -------
    One scored text for each text of the batch.
    """
    shuffled = None if shuffled_model is None else _read_with_model(batch, shuffled_model)
    no_scores: list[Any] = [None] * len(batch.inputs)
    # One row of scores per candidate. The order of these calls decides the order of random draws.
    score_rows = (
        [candidate.score(batch) for candidate in candidates],
        [
            candidate.score_again(batch) if repeat and candidate.score_again else no_scores
            for candidate in candidates
        ],
        [
            candidate.score(shuffled) if shuffled and candidate.is_portable else no_scores
            for candidate in candidates
        ],
    )
    return [
        ScoredText(
            start + i, single, candidates, *([row[i] for row in rows] for rows in score_rows)
        )
        for i, single in enumerate(batch.split())
    ]


def _read_with_model(batch: Batch, model: Model) -> Batch:
    """Return the same texts and target classes, read by another model."""
    texts = [model_input.queried_text for model_input in batch.inputs]
    other = read_batch(model, texts, batch.request)
    # Ranks are compared word by word, so both models must split a text in the same way.
    if [f.strings for f in other.features] != [f.strings for f in batch.features]:
        raise InputError(
            "the model with shuffled weights splits texts into other words. Leave the column "
            "'sanity' out."
        )
    return replace(other, targets=batch.targets)
