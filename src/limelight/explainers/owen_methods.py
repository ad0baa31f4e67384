"""Owen values: words inside sentences."""

__all__ = ["ROWS", "Owen"]

from dataclasses import dataclass, replace
from typing import Any, cast, final

import numpy as np

from limelight.explainers.exact_games import need_logit
from limelight.explainers.method import Method, Way
from limelight.explainers.reading import Reading
from limelight.results import Finding
from limelight.shapes import Float, Int
from limelight.text import Features, features_of, one_line
from limelight.theory.namespace import host_array
from limelight.theory.owen import owen
from limelight.theory.per_document import one_document
from limelight.theory.reciprocal_sum import need_tolerance

_SHOWN = 8  # sentences


@final
@dataclass(frozen=True, kw_only=True)
class Owen:
    """Settings of Owen values."""

    tolerance: float | None = None

    def __post_init__(self) -> None:
        # Here, because a text's share of it is what the quadrature sees.
        if self.tolerance is not None:
            need_tolerance(self.tolerance)


def _owen(settings: Owen, reading: Reading) -> list[Finding]:
    """Score every feature by its Owen value; one that spans sentences is a player in each."""
    need_logit(reading, "owen")
    return [_in_sentences(settings, one) for one in reading.apart()]


def _in_sentences(settings: Owen, one: Reading) -> Finding:
    (document,), (features,) = one.documents, one.features
    sentences = features_of(document, "sentences")
    parts, feature, sentence = _parts(features, sentences)
    refined = replace(one, features=(parts,), shared=type(one.shared)())
    several = np.bincount(feature, minlength=len(features))
    # A score is the sum of that many values at most, and so is its error.
    tolerance = cast(float, settings.tolerance) / int(several.max())
    found = owen(one_document(refined.ratio_game, 0), sentence, tolerance=tolerance)
    values = host_array(found.scores)[0]
    scores = np.bincount(feature, values, minlength=len(features))
    totals = np.bincount(sentence, values, minlength=len(sentences))
    return Finding(
        scores=scores,
        bound=float(found.bound[0]) * int(several.max()),
        notices=_notices(features, several, sentences, totals),
        diagnostics={"sentences": _totals(sentences, totals, sentence)},
    )


def _parts(
    features: Features, sentences: Features
) -> tuple[Features, Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """The features cut at the ends of sentences, and the feature and the sentence of each part."""
    scored = features.of_token >= 0
    pairs = np.stack([features.of_token, sentences.of_token])[:, scored]
    both, of_token = np.unique(pairs, axis=1, return_inverse=True)
    part = np.full(len(scored), -1)
    part[scored] = of_token
    feature, sentence = both
    names = tuple(features.strings[j] for j in feature)
    spans = tuple(features.spans[j] for j in feature)
    return Features(features.unit, names, spans, part), feature, sentence


def _totals(
    sentences: Features, totals: Float[np.ndarray, " n"], present: Int[np.ndarray, " parts"]
) -> list[dict[str, Any]]:
    """The sentences that hold something scored, each with the sum of its scores."""
    return [
        {
            "text": sentences.strings[i],
            "span": [sentences.spans[i][0][0], sentences.spans[i][-1][1]],
            "score": float(totals[i]),
        }
        for i in np.unique(present).tolist()
    ]


def _notices(
    features: Features,
    several: Int[np.ndarray, " d"],
    sentences: Features,
    totals: Float[np.ndarray, " n"],
) -> tuple[str, ...]:
    notices = []
    if shared := [features.strings[j] for j in np.flatnonzero(several > 1)]:
        count = "1 feature occurs" if len(shared) == 1 else f"{len(shared)} features occur"
        notices.append(
            f"{count} in several sentences ({one_line(', '.join(shared), 60)}): each sentence's "
            "share is a player of its own, and the score is the sum of them."
        )
    if len(sentences) > 1:
        order = np.argsort(-np.abs(totals), kind="stable")[:_SHOWN].tolist()
        shown = [f"{totals[i]:+.3g} {one_line(sentences.strings[i], 30)!r}" for i in order]
        rest = ["…"] if len(sentences) > _SHOWN else []
        notices.append(f"Sentences, strongest first: {', '.join(shown + rest)}.")
    return tuple(notices)


ROWS = (
    Method(
        id="owen",
        label="Owen",
        formula="∫₀¹∫₀¹ (E[f | word kept] − E[f | word removed]) dq dp, other sentences there with "
        "1 − p as wholes, other words of the sentence with 1 − q",
        sees="the word's mean effect inside its sentence; sentence totals are Shapley values of "
        "sentences, and all add up to f − f(all UNK)",
        blind="parts of other sentences: they come and go as wholes",
        cost="milliseconds, exact to quadrature precision with a bound",
        settings=Owen,
        ways=(
            Way(
                needs="collapses",
                exactness="bound",
                explain=_owen,
                settings={"tolerance": "largest error of a score, relative to the range of f"},
                defaults={"tolerance": 1e-6},
            ),
        ),
    ),
)
