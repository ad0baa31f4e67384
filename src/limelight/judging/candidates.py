"""What is judged: methods by name or settings, functions, and explanations that were stored."""

import inspect
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from limelight.errors import InputError, nearest
from limelight.explainers.batch import Batch, reading_of
from limelight.explainers.explaining import explanations
from limelight.explainers.method import ConfiguredMethod, select_implementation
from limelight.explainers.registry import (
    compared_by_default,
    configure_method,
    find_method,
    is_named,
)
from limelight.models import Model, are_opposite, class_weights
from limelight.request import target_indices
from limelight.results import Comparison, Explanation
from limelight.results.values import whole_text
from limelight.shapes import Float
from limelight.text import Answer, one_line
from limelight.text.characters import LONE_SURROGATE
from limelight.threads import cached_property

_NONE = "there are no stored explanations in what was given."


Scores = Float[np.ndarray, " d"]  # one per word
Scored = Float[np.ndarray, " _"] | str  # a sentence says why there are none


@dataclass(frozen=True)
class Candidate:
    """Something that scores the words of texts; ``reason`` says why it cannot on this model.

    ``again`` scores them under another seed, where anything is drawn. ``asks`` is how often the
    model is asked about a text of d words, None where nobody can say. ``portable`` scores follow
    from any model that is given, as those of stored explanations do not, which are of the
    ``model`` with this fingerprint. ``settings`` says what was set, to tell two of one method
    apart.
    """

    name: str
    label: str
    signed: bool
    scores: Callable[[Batch], list[Any]]
    reason: str | None = None
    again: Callable[[Batch], list[Any]] | None = None
    asks: Callable[[int], int] | None = None
    portable: bool = True
    settings: str = ""
    model: str = ""


def candidates_of(
    model: Model, methods: Any, settings: Mapping[str, Any], *, seed: int, replacement: str
) -> list[Candidate]:
    """Return what is to be judged, each under a name of its own.

    A setting goes to every method that has it; ``seed`` and ``replacement`` do so silently.
    """
    named = _listed(compared_by_default(model) if methods is None else methods)
    # Settings objects carry settings of their own, so keywords are for methods by name alone.
    ids = [one for _, one in named if is_named(one) and not _is_stored(one)]
    implementations = [select_implementation(find_method(one), model, replacement) for one in ids]
    used = [implementation.settings for implementation in implementations if implementation]
    known = {name: None for meanings in used for name in meanings}
    for name in settings:  # one that no method of this model has would do nothing
        if name not in known:
            raise InputError(nearest("setting of these methods", name, known))
    found: list[Candidate] = []
    for own_name, one in named:
        if _is_stored(one):
            made = list(_stored(one))
        elif callable(one):
            # Nobody can say whether its numbers have signs: they are taken as they are.
            label = getattr(one, "__name__", type(one).__name__)
            made = [Candidate(label, label, True, _called(one))]
        else:
            own = {"seed": seed, "replacement": replacement, **settings}
            made = [_registered(model, one, own)]
        found += (
            c if own_name is None else replace(c, name=own_name, label=own_name) for c in made
        )
    if not found:
        raise InputError("judge needs at least one method; got none.")
    return _under_own_names(found)


def _listed(methods: Any) -> list[tuple[str | None, Any]]:
    if isinstance(methods, Mapping):
        return list(methods.items())
    alone = isinstance(methods, str | Path) or not isinstance(methods, Iterable)
    several = [methods] if alone else list(methods)
    # A list of explanations is one thing to judge, a list of names several.
    if several and all(isinstance(one, Explanation) for one in several):
        several = [several]
    return [(None, one) for one in several]


def _registered(model: Model, one: Any, settings: Mapping[str, Any]) -> Candidate:
    """Return a method by its name, with those of ``settings`` that it has, or by its settings."""
    method = find_method(one)
    implementation = select_implementation(method, model, settings["replacement"])
    known = implementation.settings if is_named(one) and implementation is not None else ()
    try:
        values = {name: value for name, value in settings.items() if name in known}
        configured = configure_method(one, model, values)
    except InputError as error:
        if implementation is not None:  # the settings are at fault, not the model
            raise
        nothing = _each_text(lambda *_: "the model does not allow it")
        return Candidate(method.id, method.label, method.signed, nothing, str(error))
    again = None
    implementation = configured.implementation
    if implementation.exactness == "sampled" and "seed" in implementation.settings:
        # The next seed is as good as any, and the same in every run.
        other = replace(configured.settings, seed=configured.settings.seed + 1)
        again = _explained(configured._replace(settings=other))
    return Candidate(
        method.id,
        method.label,
        method.signed,
        _explained(configured),
        again=again,
        asks=configured.expected_calls,
        settings="" if is_named(one) else _departures(one),
    )


def _departures(settings: Any) -> str:
    """Return the settings that are not at their defaults, as ``bandwidth=0.5``."""
    own = ((one.name, one.default, getattr(settings, one.name)) for one in fields(settings))
    return ", ".join(f"{name}={value}" for name, default, value in own if value != default)


_OWN_UNITS = "it scores units of its own; judge its explanations, with their spans as features"


def _explained(method: ConfiguredMethod) -> Callable[[Batch], list[Scored]]:
    def scores(batch: Batch) -> list[Scored]:
        try:
            # The model with shuffled weights may lack what the method needs.
            method_for_reading = method.for_model(batch.model)
            found = zip(explanations(method_for_reading, batch), batch.features, strict=True)
            # A method that chooses its units is judged by them: by its stored explanations.
            return [e.scores if e.features == own.strings else _OWN_UNITS for e, own in found]
        except InputError as error:  # of several texts, find those that it is about
            # A refusal of one text must not cost the others that were explained with it.
            if len(batch.inputs) == 1:
                return [str(error)]
            return [scored for one in batch.apart() for scored in scores(one)]

    return scores


def _each_text(one: Callable[[Batch, int], Scored]) -> Callable[[Batch], list[Scored]]:
    return lambda batch: [one(batch, i) for i in range(len(batch.inputs))]


def _called(function: Callable[..., Any]) -> Callable[[Batch], list[Scored]]:
    """Return what somebody's function scores, which is told the class where it takes ``target``.

    What another one returns speaks for the class that ``explain`` explains by default.
    """
    told = _takes_target(function)

    def one(batch: Batch, i: int) -> Scored:
        target, classes = batch.targets.names()[i], batch.model.classes
        try:
            more = {"target": target} if told else {}
            given = function(batch.model, batch.inputs[i].given, **more)
            found = np.asarray(getattr(given, "scores", given), dtype=np.float64)
        except Exception as error:  # somebody's function may raise anything it likes
            said = LONE_SURROGATE.sub("\ufffd", one_line(str(error), 120))
            return f"{type(error).__name__}: {said}"
        d = len(batch.features[i])
        if found.shape != (d,):
            return f"it must return {d} finite numbers, one per word; got shape {found.shape}."
        if unknown := int(np.count_nonzero(~np.isfinite(found))):
            return f"it must return {d} finite numbers, one per word; {unknown} of them are not."
        if isinstance(given, Explanation):
            return _judged_class(found, given.target, batch, i, signed=given.signed)
        if told:
            return found
        (default,) = target_indices(None, classes, batch.outputs[i : i + 1])
        # Numbers without a negative one are sizes, such as attention: they speak for no class.
        signed = bool((found < 0).any())
        spoken = _judged_class(found, classes[default], batch, i, signed=signed)
        if not isinstance(spoken, str):
            return spoken
        return f"{spoken} A function that takes `target` is told the class."

    return _each_text(one)


def _takes_target(function: Callable[..., Any]) -> bool:
    try:
        found = inspect.signature(function).parameters.get("target")
    except (TypeError, ValueError):  # of some functions in C nothing is known
        return False
    return found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)


def _judged_class(scores: Scores, spoken: str, batch: Batch, i: int, *, signed: bool) -> Scored:
    """Return scores for the class ``spoken`` as scores for the judged one, or why they are none."""
    target, classes = batch.targets.names()[i], batch.model.classes
    if spoken == target:
        return scores
    if spoken not in classes:
        known = ", ".join(map(repr, classes[:5]))
        return f"its scores speak for {spoken!r}, which is no class of this model ({known})."
    # What speaks for one of two speaks against the other, unless both may be true at once.
    scale = "score" if batch.targets.scale == "score" else "logit"
    outputs, link = batch.outputs.shape[1], batch.model.link
    if are_opposite(class_weights(len(classes), outputs, link, scale)):
        return -scores if signed else scores
    return f"its scores speak for {spoken!r}, and {target!r} is judged."


def _of_explanations(first: Explanation, stored: Mapping[Any, Any]) -> Candidate:
    """Return the method of ``first``; ``stored`` has a text's explanation, or those of classes."""

    def one(batch: Batch, i: int) -> Scored:
        model_input = batch.inputs[i]
        # Under the joined text of a pair, as explanations have it; a mapping of one's own may have
        # the pair itself.
        found = stored.get(model_input.text)
        found = stored.get(model_input.given, ()) if found is None else found
        if not (several := [found] if isinstance(found, Explanation) else found):
            return "there is no stored explanation of this text."
        place = model_input.asked[batch.targets.part] if model_input.asked else None
        if not (several := [e for e in several if e.asked == place]):
            what = "this answer" if isinstance(place, Answer) else "this place of the text"
            return f"there is no stored explanation of {what}."
        target = batch.targets.names()[i]
        # One of another class may still be turned around, or is refused with the name of that.
        e = next((e for e in several if e.target == target), several[-1])
        wanted = batch.request.side
        judged = [j for j, side in enumerate(e.sides) if wanted in (None, side)]
        # Scores are taken by place: of other features each would land on another word.
        if tuple(e.features[j] for j in judged) != batch.features[i].strings:
            return "the stored explanation is of other features than the words of this model."
        return _judged_class(e.scores[judged], e.target, batch, i, signed=e.signed)

    return Candidate(
        first.method,
        first.method,
        first.signed,
        _each_text(one),
        asks=lambda _: 0,
        portable=False,
        model=first.model,
    )


def _is_stored(one: Any) -> bool:
    """Return whether ``one`` is a file of explanations, or holds them."""
    if isinstance(one, str):
        return one.endswith((".json", ".jsonl"))
    return isinstance(one, Explanation | Comparison | os.PathLike | Iterable)


def _stored(one: Any) -> Iterator[Candidate]:
    """Yield a candidate for every method of which there are explanations.

    A mapping from texts to explanations is kept as it is, of one method: it may read them from a
    disk when they are asked for. Anything else that yields explanations is read to its end.
    """
    if isinstance(one, Mapping):
        first = next(iter(one.values()), None)
        if not isinstance(first, Explanation):
            raise InputError(_NONE if first is None else _not_explanations(first))
        yield _of_explanations(first, one)
        return
    if isinstance(one, str | os.PathLike):
        several: Iterable[Any] = _of_file(Path(one))
    else:
        several = [one] if isinstance(one, Explanation | Comparison) else one
    by_method: dict[str, dict[str, list[Explanation]]] = {}
    for found in several:
        if not isinstance(found, Explanation | Comparison):
            raise InputError(_not_explanations(found))
        for e in found if isinstance(found, Comparison) else [found]:
            # Several of one text are of several classes or places, and the judged one is looked for
            # later.
            by_method.setdefault(e.method, {}).setdefault(e.text, []).append(e)
    if not by_method:
        raise InputError(_NONE)
    for of_texts in by_method.values():
        yield _of_explanations(next(iter(of_texts.values()))[0], of_texts)


def _not_explanations(first: Any) -> str:
    return (
        "stored explanations are a JSON file, a list of explanations, or a mapping from texts to "
        f"them; got {type(first).__name__}."
    )


def _of_file(path: Path) -> Iterator[Explanation | Comparison]:
    if path.is_dir():
        raise InputError(
            f"stored explanations are a JSON file, and '{path}' is a folder; give a run as "
            "limelight.Run(folder)."
        )
    try:
        content = path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"there are no explanations at '{path}'; check the path.") from None
    except UnicodeDecodeError:
        raise InputError(f"'{path}' is not a JSON file of explanations.") from None
    try:
        json.loads(content)
        records = [content]
    except ValueError:  # one object per line
        records = [line for line in content.splitlines() if line.strip()]
    for record in records:
        compared = '"limelight.comparison/' in record[:200]  # the schema is the first key
        try:
            result = (Comparison if compared else Explanation).from_json(record)
        except InputError as error:
            raise InputError(f"'{path}': {error}") from None
        yield result


def _under_own_names(found: list[Candidate]) -> list[Candidate]:
    """Tell those that share a name apart: by what was set, and where that is the same by number."""
    shared = Counter(one.name for one in found)
    own: dict[str, Candidate] = {}
    for one in found:
        more = f" ({one.settings})" if one.settings and shared[one.name] > 1 else ""
        name = whole_text(one.name + more, "the name of a method")
        numbers = ("", *(f" {number}" for number in range(2, len(found) + 1)))
        number = next(number for number in numbers if name + number not in own)
        own[name + number] = replace(one, name=name + number, label=one.label + more + number)
    return list(own.values())


_ROUNDING = 1e-9  # of the model's outputs: scores as small as this are nothing but rounding


@dataclass(frozen=True, eq=False)
class ScoredText:
    """One text, the only document of ``one``, and what every candidate says about it.

    ``scores`` are a candidate's own, ``again`` those under another seed and ``shuffled`` those of
    shuffled weights; None where nobody asked for them.
    """

    number: int
    one: Batch
    candidates: Sequence[Candidate]
    scores: Sequence[Scored]
    again: Sequence[Scored | None] = ()
    shuffled: Sequence[Scored | None] = ()

    @cached_property
    def rows(self) -> list[tuple[int, Scores, bool]]:
        """Of each candidate that has scores its number, those, and whether they have signs."""
        both = enumerate(zip(self.scores, self.candidates, strict=True))
        return [(i, own, one.signed) for i, (own, one) in both if not isinstance(own, str)]

    def by_name(self, values: Iterable[Any]) -> dict[str, Any]:
        """Return the value of each of the ``rows``, but for None, by the name of its candidate."""
        both = zip(self.rows, values, strict=True)
        return {self.candidates[i].name: x for (i, _, _), x in both if x is not None}

    @property
    def noise(self) -> float:
        """How far apart scores must be to have an order."""
        return _ROUNDING * float(np.abs(self.one.outputs).max())


def scored_texts(
    candidates: Sequence[Candidate],
    batch: Batch,
    *,
    start: int,
    again: bool,
    twin: Model | None,
) -> list[ScoredText]:
    """Return what every candidate says about each text of ``reading``, numbered from ``start``.

    With ``again`` also under another seed; ``twin`` is the model with shuffled weights.
    """
    other = None if twin is None else _of_twin(batch, twin)
    nothing: list[Any] = [None] * len(batch.inputs)
    found = (
        [one.scores(batch) for one in candidates],
        [one.again(batch) if again and one.again else nothing for one in candidates],
        [one.scores(other) if other and one.portable else nothing for one in candidates],
    )
    return [
        ScoredText(start + i, one, candidates, *([own[i] for own in rows] for rows in found))
        for i, one in enumerate(batch.apart())
    ]


def _of_twin(batch: Batch, twin: Model) -> Batch:
    """Return the same texts and classes under another model."""
    texts = [model_input.queried_text for model_input in batch.inputs]
    other = reading_of(twin, texts, batch.request)
    # Ranks are compared word by word, so both models must cut a text alike.
    if [f.strings for f in other.features] != [f.strings for f in batch.features]:
        raise InputError("a model with shuffled weights must read the same words; it does not.")
    return replace(other, targets=batch.targets)
