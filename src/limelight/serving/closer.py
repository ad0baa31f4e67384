"""What a page shows of a text when a reader looks closer: curves, pairs, heads, disagreement."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.explainers.explaining import explanations, metered
from limelight.explainers.method import Chosen
from limelight.explainers.reading import Reading
from limelight.explainers.registry import configured
from limelight.judging.candidates import Candidate, ScoredText
from limelight.judging.removals import Removals, removals_of
from limelight.judging.texts import SearchedText, search_together
from limelight.models import Model, resolved_replacement
from limelight.pages.html import attention_data, disagreement_section, head_tables
from limelight.pages.markup import part
from limelight.pages.pieces import writable_explanation
from limelight.results import Comparison, Explanation
from limelight.serving.queue import Report
from limelight.serving.texts import TextQuestion, changed_reading, question_reading
from limelight.shapes import Float

_RANDOM_ORDERS = 512  # whose mean curve stands for chance: sums over tables, so they cost little
_SECONDS = 20.0  # for the search of a good order and for chance, where a model has to be asked


def compared_parts(model: Model, question: TextQuestion, report: Report) -> dict[str, Any]:
    """Return the parts that were asked for, each by its name; a refusal is a sentence."""
    reading = question_reading(model, question)
    several = [configured(name, model, {}) for name in question.methods]
    found: dict[str, Any] = {}
    with metered(report, several, reading, aims=1, total=1):
        for name in dict.fromkeys(question.parts):
            report(0, 1)
            if name not in PARTS:
                raise InputError(f"there is no part {name!r}; choose from {', '.join(PARTS)}.")
            try:
                found[name] = PARTS[name](reading, several)
            except InputError as error:
                found[name] = {"refused": str(error)}
    return found


def made_file(model: Model, question: TextQuestion, report: Report) -> dict[str, Any]:
    """Return what is shown of the text as one file, of the kind that the only part names."""
    (kind,) = question.parts or [""]
    if kind not in FILES:
        raise InputError(f"a file is of the kind {' or '.join(FILES)}; got {kind!r}.")
    reading = question_reading(model, question)
    if reading.documents[0].picture is None:  # of what is left of a picture there are no scores
        reading = changed_reading(reading, question)
    several = [configured(name, model, {}) for name in question.methods]
    with metered(report, several, reading, aims=1, total=1):
        found = _explained(several, reading)
    made = Comparison(explanations=tuple(found), attention=reading.attention_matrices())
    return {"content": FILES[kind](made)}


def _explained(several: Sequence[Chosen], reading: Reading) -> list[Explanation]:
    """Return what the methods say that are defined for this text."""
    found: list[Explanation] = []
    for chosen in several:
        try:
            found += map(writable_explanation, explanations(chosen, reading))
        except InputError:
            continue  # its reason stands where its words would be
    if not found:
        raise InputError("choose at least one method that is defined for this text.")
    return found


def _disagreement(reading: Reading, several: Sequence[Chosen]) -> dict[str, Any]:
    found = _explained(several, reading)
    if len(found) < 2:
        raise InputError("choose at least two methods to see where they disagree.")
    return {"html": str(disagreement_section(Comparison(explanations=tuple(found))))}


def _attention(reading: Reading, _: Sequence[Chosen]) -> dict[str, Any]:
    if (matrices := reading.attention_matrices()) is None:
        raise InputError("whole attention matrices are drawn of the paper's classifier alone.")
    one = _explained([configured("alpha-avg", reading.model, {})], reading)
    return attention_data(Comparison(explanations=(one[0],), attention=matrices)) or {}


def _heads(reading: Reading, several: Sequence[Chosen]) -> dict[str, Any]:
    """Return the scores of every head alone, of the methods that can tell heads apart."""
    able = [one.method.id for one in several if "per_head" in one.way.settings]
    apart = [configured(name, reading.model, {"per_head": True}) for name in able]
    found = [e for e in _explained(apart or several, reading) if e.heads is not None]
    if not found:
        raise InputError("none of these methods scores heads apart; choose shapley or lime.")
    return {"html": str(part("head_tables", head_tables(found)))}


def _pairs(reading: Reading, _: Sequence[Chosen]) -> dict[str, Any]:
    (found,) = _explained([configured("interactions", reading.model, {})], reading)
    return {"explanation": msgspec.Raw(found.to_json().encode())}


def _curves(reading: Reading, several: Sequence[Chosen]) -> dict[str, Any]:
    """Return the explained number while words go, and each method between chance and ceiling."""
    found = _explained(several, reading)
    replacement = resolved_replacement(reading.model, "auto")
    removals = removals_of(reading, replacement=replacement, seed=0)
    candidates = [Candidate(e.method, e.label, e.signed, lambda _: []) for e in found]
    scored = ScoredText(0, reading, candidates, [e.scores for e in found])
    searched = SearchedText(scored, removals)
    search_together([searched], _SECONDS)
    judged = searched.text(seconds=_SECONDS, curves=True)
    level = judged.deletion
    if level is None or not judged.d:
        raise InputError("there is nothing to remove from this text.")
    lines = [
        _line(e.label, "method", curve.removed / judged.d, curve.points)
        for e, curve in zip(found, judged.curves, strict=True)
        if curve is not None
    ]
    return {
        "words": judged.d,
        "noun": reading.features[0].noun,
        "lines": [*lines, *_guides(removals, judged.full)],
        "kind": judged.ceiling_kind,
        "chance": level.chance,
        "chance_error": level.stderr,
        "ceiling": level.ceiling,
        "has_room": judged.has_room,
        "methods": [
            {"label": e.label, "area": area, "share": _share(area, level.chance, level.ceiling)}
            for e, area in zip(found, level.areas, strict=True)
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


PARTS: dict[str, Callable[[Reading, Sequence[Chosen]], dict[str, Any]]] = {
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
