"""What five trainings of six layers say about Figure 6 and Appendix E."""

__all__ = [
    "ABSOLUTE",
    "AGAIN",
    "MODEL",
    "PLAIN",
    "REPORTED",
    "REPORTED_ABSOLUTE",
    "RUNS",
    "SIGNED",
    "findings",
    "group_correlations",
]

from collections.abc import Mapping, Sequence

import numpy as np

from limelight_reproduction.document import TOKENS
from limelight_reproduction.experiment import Findings, Numbers, Table, Verdict
from limelight_reproduction.spread import quartiles

MODEL = "imdb-6"
AGAIN = ("imdb-6-again-1", "imdb-6-again-2")
# As plain as the paper's Section 2 and Appendices E and F allow; and with skip connections alone.
NEAREST = "imdb-6-plain"
PLAIN = {NEAREST: "without skip connections", "imdb-6-skip": "with skip connections"}
# Every training, the one nearest to the paper's first, and how it differs from the paper's.
KINDS = {
    "as plain as the appendix": (NEAREST,),
    "with layer norms, perceptrons and dropout": (MODEL, *AGAIN),
    "with skip connections alone": ("imdb-6-skip",),
}
RUNS = 5
REPORTED, REPORTED_ABSOLUTE = "−0.424", "0.672"
SIMILAR = 0.15  # difference up to which we call correlations on one document similar
SIGNED, ABSOLUTE = "α and LIME", "α and |LIME|"
REPORTED_ACCURACY = 0.8222
LEARNT = 0.6  # accuracy above which a network has learnt something


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Say what every training gives on the document, and one of them on many reviews."""
    of = numbers[MODEL]
    model_input, groups = of["document"], group_correlations(of)
    delete, unk = model_input["delete"], model_input["unk"]
    middle = {name: quartiles(values)[1] for name, values in groups.items()}
    by_class = ", ".join(
        f"{middle[name]:.3f} for reviews {name.partition(', ')[2]}"
        for name in groups
        if "," in name
    )
    return Findings(
        headline=(
            "On the document, attention of the first of six layers and |LIME| have correlation "
            f"{_first_and_rest(numbers, 'absolute')} (the paper: {REPORTED_ABSOLUTE}); with the "
            f"sign of LIME {_first_and_rest(numbers, 'signed')} (the paper: {REPORTED})."
        ),
        verdicts=_verdicts(numbers, middle[ABSOLUTE]),
        measured=(
            f"Our 6-layer, 6-head classifier reaches {of['accuracy']:.2%} on the test set, where "
            "the authors have 82.22%. It differs from their Appendices E and F: every layer has "
            "layer norms, skip connections and a perceptron, and it is trained with dropout on "
            "30,000 words and one output, for 6 epochs of batches of 64.",
            _plainly(numbers),
            f"On the document (T = {TOKENS}, d = {len(model_input['words'])}, f = "
            f"{model_input['output']:.2f}) ρ is {delete['signed']:.3f}, and {delete['absolute']:.3f} "
            f"with absolute values; with UNK in place of removed words {unk['signed']:.3f} and "
            f"{unk['absolute']:.3f}.",
            _trained_again(numbers),
            f"Over {of['texts']} test reviews the median ρ is {middle[SIGNED]:.3f} ({by_class}); "
            f"with absolute values {middle[ABSOLUTE]:.3f}.",
        ),
        meaning=_meaning(numbers, groups),
        table=Table(
            columns=("pair", "reviews", "lower quartile", "median", "upper quartile"),
            rows=[[name, len(values), *quartiles(values)] for name, values in groups.items()],
        ),
    )


def _verdicts(numbers: Mapping[str, Numbers], median: float) -> list[Verdict]:
    every = _trainings(numbers)
    near = sum(
        abs(_lime(numbers, name)["absolute"] - float(REPORTED_ABSOLUTE)) < SIMILAR for name in every
    )
    own = sum(_as_class(numbers, name) for name in every)
    plain = numbers[NEAREST]["accuracy"]
    close = abs(plain - REPORTED_ACCURACY) < 0.01
    return [
        Verdict(
            claim="In six layers attention of the first and |LIME| have correlation "
            f"{REPORTED_ABSOLUTE} on one review (Appendix E)",
            holds=f"similar in {near} of {len(every)} trainings",
            number=f"{_by_kind(numbers, 'absolute')}; in the median review {median:.3f}",
        ),
        Verdict(
            claim=f"With the sign of LIME it is {REPORTED}, since the document is negative "
            "(Appendix E)",
            holds=f"{own} of {len(every)} trainings have the sign of the class they give; "
            + _of_nearest(numbers),
            number=_by_kind(numbers, "signed"),
            parts=every,
        ),
        Verdict(
            claim=f"Six layers of six heads reach {REPORTED_ACCURACY:.2%} (Appendix E)",
            holds=f"{'reproduced' if close else 'not reproduced'}, in one training",
            number=f"{plain:.2%} as plain as the appendix, {numbers[MODEL]['accuracy']:.2%} with "
            "layer norms, perceptrons and dropout",
            parts=(NEAREST, MODEL),
        ),
    ]


def _trainings(numbers: Mapping[str, Numbers]) -> tuple[str, ...]:
    """Return the trainings that learnt something and have a ρ, the paper's nearest first."""
    return tuple(
        name
        for names in KINDS.values()
        for name in names
        if numbers[name]["accuracy"] > LEARNT and _lime(numbers, name)["signed"] is not None
    )


def _lime(numbers: Mapping[str, Numbers], name: str) -> Numbers:
    found: Numbers = numbers[name]["document"]["delete"]
    return found


def _as_class(numbers: Mapping[str, Numbers], name: str) -> bool:
    """Whether ρ on the document has the sign of the class that this training gives it."""
    model_input = numbers[name]["document"]
    return bool((model_input["delete"]["signed"] < 0) == (model_input["output"] < 0))


def _of_nearest(numbers: Mapping[str, Numbers]) -> str:
    if NEAREST not in _trainings(numbers):
        return "the one nearest to the paper's learnt nothing"
    has = "has it, too" if _as_class(numbers, NEAREST) else "has the opposite one"
    return f"the one nearest to the paper's {has}"


def _first_and_rest(numbers: Mapping[str, Numbers], key: str) -> str:
    first, *rest = (_lime(numbers, name)[key] for name in _trainings(numbers))
    return f"{first:.2f} in the plainest training and {_span(rest)} in {len(rest)} others"


def _by_kind(numbers: Mapping[str, Numbers], key: str) -> str:
    """Return the correlations of every training, by what it adds to the paper's network."""
    there = _trainings(numbers)
    form = "+.3f" if key == "signed" else ".3f"
    told = []
    for kind, names in KINDS.items():
        found = [f"{_lime(numbers, name)[key]:{form}}" for name in names if name in there]
        if found:
            told.append(f"{', '.join(found)} {kind}")
    return "; ".join(told)


def _trained_again(numbers: Mapping[str, Numbers]) -> str:
    told = []
    for name in AGAIN:
        model_input = numbers[name]["document"]
        lime = model_input["delete"]
        told.append(
            f"{lime['signed']:.3f} and {lime['absolute']:.3f} (f = {model_input['output']:.2f}, test "
            f"accuracy {numbers[name]['accuracy']:.2%})"
        )
    return f"The first of these networks trained again gives {'; and again '.join(told)}."


def _plainly(numbers: Mapping[str, Numbers]) -> str:
    """Say what the networks give that have nothing but heads, trained as the paper says."""
    told = []
    for name, how in PLAIN.items():
        accuracy, model_input = numbers[name]["accuracy"], numbers[name]["document"]
        lime = model_input["delete"]
        found = (
            f"ρ {_shown(lime['signed'])}, with absolute values {_shown(lime['absolute'])} "
            f"(f = {model_input['output']:.2f})"
            if accuracy > LEARNT
            else "which is no better than chance"
        )
        told.append(f"{how} {accuracy:.2%} of the test set and {found}")
    return (
        "Six layers of heads with a linear map and nothing else, trained as Appendix F says (10 "
        f"epochs, batches of 16, AdamW at 1e-4, no dropout): {'; '.join(told)}."
    )


def _shown(rho: float | None) -> str:
    return "not defined" if rho is None else f"{rho:.3f}"


def group_correlations(of: Numbers) -> dict[str, list[float]]:
    """Return the correlations of all reviews and of each class, without those not defined."""
    pairs = list(zip(of["output"], of["signed"], strict=True))
    groups = {
        SIGNED: [rho for _, rho in pairs],
        f"{SIGNED}, classified negative": [rho for f, rho in pairs if f < 0],
        f"{SIGNED}, classified positive": [rho for f, rho in pairs if f >= 0],
        ABSOLUTE: of["absolute"],
    }
    known = {name: [x for x in values if x is not None] for name, values in groups.items()}
    return {name: values for name, values in known.items() if values}


def _meaning(numbers: Mapping[str, Numbers], groups: Mapping[str, Sequence[float]]) -> str:
    of, every = numbers[MODEL], _trainings(numbers)
    as_class = [
        (rho < 0) == (f < 0)
        for f, rho in zip(of["output"], of["signed"], strict=True)
        if rho is not None
    ]
    low, size, high = quartiles(groups[ABSOLUTE])
    strength = "strong" if size > 0.6 else "moderate" if size > 0.3 else "weak"
    return (
        "The authors put the negative sign down to the document's class. "
        f"{_nearest_sentence(numbers)}In all, the sign of ρ on the document is that of the class "
        f"which the network gives in {sum(_as_class(numbers, name) for name in every)} of "
        f"{len(every)} trainings; over many reviews of the first of them with layer norms it is "
        f"for {np.mean(as_class):.0%}. The relation of attention to |LIME| is {strength} in its "
        f"median review, half of the reviews lie between {low:.2f} and {high:.2f}, and on the "
        f"document it is "
        f"{_span([_lime(numbers, name)['absolute'] for name in every])} over the trainings."
    )


def _nearest_sentence(numbers: Mapping[str, Numbers]) -> str:
    """Say what the network that is most like the paper's does to the authors' explanation."""
    if NEAREST not in _trainings(numbers):
        return ""
    model_input = numbers[NEAREST]["document"]
    found = (
        f"In the network that is most like theirs ({numbers[NEAREST]['accuracy']:.2%} of the test "
        f"set) f = {model_input['output']:.2f} and ρ = {model_input['delete']['signed']:+.3f}, "
    )
    if _as_class(numbers, NEAREST):
        return f"{found}which agrees. "
    return f"{found}which contradicts them. "


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"
