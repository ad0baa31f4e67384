"""From a method and a reading to explanations."""

__all__ = ["compared", "explanations"]

import math
from collections.abc import Sequence

from limelight import __version__
from limelight.errors import DomainError, about_text
from limelight.explainers.method import Chosen
from limelight.explainers.reading import Reading
from limelight.explainers.text_game import NO_BASE
from limelight.results import Comparison, Explanation, Finding


def explanations(chosen: Chosen, reading: Reading) -> list[Explanation]:
    """Return what ``chosen`` finds in every document of ``reading``.

    With an allowance there is one document, whose number of features says what it amounts to.
    """
    chosen = chosen.fitted(len(reading.features[0]))
    found = _findings(chosen, reading)
    return [_explanation(chosen, reading, i, finding) for i, finding in enumerate(found)]


def compared(
    several: Sequence[Chosen], reading: Reading, *, strict: bool, attention: bool
) -> Comparison:
    """Return what several methods find in the one document of ``reading``.

    Unless ``strict``, one that is not defined for the text is left out with a notice; where none
    is left, these are the error.
    """
    found: list[Explanation] = []
    missing: list[str] = []
    for chosen in several:
        try:
            found.extend(explanations(chosen, reading))
        except DomainError as error:
            if strict:
                raise
            missing.append(f"{chosen.method.label} is left out: {error}")
    if not found:
        raise DomainError(f"no method is left to compare. {' '.join(missing)}")
    matrices = reading.collapsed.attention_matrices()[0] if _drawn(reading, attention) else None
    return Comparison(explanations=tuple(found), attention=matrices, notices=tuple(missing))


def _drawn(reading: Reading, attention: bool) -> bool:
    return attention and reading.collapses  # whole matrices of deep models are not drawn


def _findings(chosen: Chosen, reading: Reading) -> list[Finding]:
    """Compute; where one of several texts is outside the method's domain, say which."""
    explain, settings = chosen.way.explain, chosen.settings
    try:
        return explain(settings, reading)
    except DomainError:
        for one in reading.apart():
            with about_text(one.first):
                explain(settings, one)
        raise


def _caution(chosen: Chosen, found: Finding) -> tuple[str, ...]:
    """Return what the method says of this text, then what is known to speak against its scores."""
    return found.notices + ((chosen.way.caution,) if chosen.way.caution else ())


def _no_base(base: float | None, found: Finding) -> tuple[str, ...]:
    """Say that there is no base value, unless the method has said so already."""
    said = any(notice.startswith(NO_BASE) for notice in found.notices)
    return () if base is not None or said else (f"{NO_BASE}.",)


def _unbounded(found: Finding) -> tuple[str, ...]:
    """Say that nothing is proven of the scores, where double precision cannot bound their error."""
    if found.bound != math.inf:
        return ()
    return (
        "The error of these scores has no finite bound: the numbers of this model are too large, "
        "or too far apart, for double precision to say more.",
    )


def _explanation(chosen: Chosen, reading: Reading, i: int, found: Finding) -> Explanation:
    model, document, features = reading.model, reading.documents[i], reading.features[i]
    base = reading.base_values[i] if found.base_value is ... else found.base_value
    return Explanation(
        text=document.text,
        features=features.strings,
        spans=features.spans,
        scores=found.scores,
        stderr=found.stderr,
        bound=found.bound,
        method=chosen.method.id,
        label=chosen.method.label,
        signed=chosen.method.signed if found.signed is None else found.signed,
        target=reading.targets.names()[i],
        against=reading.targets.names_against()[i],
        classes=model.classes,
        link=model.link,
        scale=reading.targets.scale,
        prediction=reading.prediction(i),
        base_value=base,
        intercept=found.intercept,
        heads=found.heads,
        pairs=found.pairs,
        anchor=found.anchor,
        cut=document.cut,
        notices=(
            reading.notices(i) + _caution(chosen, found) + _unbounded(found) + _no_base(base, found)
        ),
        settings=reading.asked(i) | chosen.asked(),
        diagnostics=reading.diagnostics(i) | dict(found.diagnostics),
        model=reading.fingerprint,
        version=__version__,
        parts=document.parts,
    )
