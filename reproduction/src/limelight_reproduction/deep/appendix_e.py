"""Findings of five trainings of six layers about Figure 6 and Appendix E."""

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
    """Return the findings: every training on the document, and one training on many reviews."""
    training = numbers[MODEL]
    document, groups = training["document"], group_correlations(training)
    delete, unk = document["delete"], document["unk"]
    middle = {name: quartiles(values)[1] for name, values in groups.items()}
    by_class = ", ".join(
        f"{middle[name]:.3f} for reviews {name.partition(', ')[2]}"
        for name in groups
        if "," in name
    )
    return Findings(
        headline=(
            "On the document, attention of the first of six layers and |LIME| have correlation "
            f"{_compare_plainest(numbers, 'absolute')} (the paper: {REPORTED_ABSOLUTE}); with the "
            f"sign of LIME {_compare_plainest(numbers, 'signed')} (the paper: {REPORTED})."
        ),
        verdicts=_verdicts(numbers, middle[ABSOLUTE]),
        measured=(
            f"Our 6-layer, 6-head classifier reaches {training['accuracy']:.2%} on the test set, "
            "where the authors have 82.22%. It differs from their Appendices E and F: every layer "
            "has layer norms, skip connections and a perceptron, and it is trained with dropout "
            "on 30,000 words and one output, for 6 epochs of batches of 64.",
            _describe_plain_networks(numbers),
            f"On the document (T = {TOKENS}, d = {len(document['words'])}, f = "
            f"{document['output']:.2f}) ρ is {delete['signed']:.3f}, and "
            f"{delete['absolute']:.3f} with absolute values; with UNK in place of removed words "
            f"{unk['signed']:.3f} and {unk['absolute']:.3f}.",
            _describe_repeats(numbers),
            f"Over {training['texts']} test reviews the median ρ is {middle[SIGNED]:.3f} "
            f"({by_class}); with absolute values {middle[ABSOLUTE]:.3f}.",
        ),
        meaning=_meaning(numbers, groups),
        table=Table(
            columns=("pair", "reviews", "lower quartile", "median", "upper quartile"),
            rows=[[name, len(values), *quartiles(values)] for name, values in groups.items()],
        ),
    )


def _verdicts(numbers: Mapping[str, Numbers], median: float) -> list[Verdict]:
    trainings = _trainings(numbers)
    similar = sum(
        abs(_lime(numbers, name)["absolute"] - float(REPORTED_ABSOLUTE)) < SIMILAR
        for name in trainings
    )
    same_sign = sum(_has_class_sign(numbers, name) for name in trainings)
    plain_accuracy = numbers[NEAREST]["accuracy"]
    is_reproduced = abs(plain_accuracy - REPORTED_ACCURACY) < 0.01
    return [
        Verdict(
            claim="In six layers attention of the first and |LIME| have correlation "
            f"{REPORTED_ABSOLUTE} on one review (Appendix E)",
            holds=f"similar in {similar} of {len(trainings)} trainings",
            number=f"{_list_correlations(numbers, 'absolute')}; in the median review {median:.3f}",
        ),
        Verdict(
            claim=f"With the sign of LIME it is {REPORTED}, since the document is negative "
            "(Appendix E)",
            holds=f"{same_sign} of {len(trainings)} trainings have the sign of the class they "
            "give; " + _judge_nearest(numbers),
            number=_list_correlations(numbers, "signed"),
            parts=trainings,
        ),
        Verdict(
            claim=f"Six layers of six heads reach {REPORTED_ACCURACY:.2%} (Appendix E)",
            holds=f"{'reproduced' if is_reproduced else 'not reproduced'}, in one training",
            number=f"{plain_accuracy:.2%} as plain as the appendix, "
            f"{numbers[MODEL]['accuracy']:.2%} with layer norms, perceptrons and dropout",
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
    """Return the numbers of a training about LIME on the document under deletion."""
    lime: Numbers = numbers[name]["document"]["delete"]
    return lime


def _has_class_sign(numbers: Mapping[str, Numbers], name: str) -> bool:
    """Whether ρ on the document has the sign of the class that this training gives it."""
    document = numbers[name]["document"]
    return bool((document["delete"]["signed"] < 0) == (document["output"] < 0))


def _judge_nearest(numbers: Mapping[str, Numbers]) -> str:
    """Judge the sign of ρ in the training that is nearest to the paper's."""
    if NEAREST not in _trainings(numbers):
        return "the one nearest to the paper's learnt nothing"
    verdict = "has it, too" if _has_class_sign(numbers, NEAREST) else "has the opposite one"
    return f"the one nearest to the paper's {verdict}"


def _compare_plainest(numbers: Mapping[str, Numbers], key: str) -> str:
    """Describe the correlation in the plainest training and its range in the other trainings."""
    plainest, *correlations = (_lime(numbers, name)[key] for name in _trainings(numbers))
    other_range = f"{_span(correlations)} in {len(correlations)} others"
    return f"{plainest:.2f} in the plainest training and {other_range}"


def _list_correlations(numbers: Mapping[str, Numbers], key: str) -> str:
    """List the correlations of all trainings, grouped by their difference from the paper's."""
    trainings = _trainings(numbers)
    form = "+.3f" if key == "signed" else ".3f"
    groups = []
    for kind, names in KINDS.items():
        values = [f"{_lime(numbers, name)[key]:{form}}" for name in names if name in trainings]
        if values:
            groups.append(f"{', '.join(values)} {kind}")
    return "; ".join(groups)


def _describe_repeats(numbers: Mapping[str, Numbers]) -> str:
    """Describe the correlations of the network that was trained again."""
    descriptions = []
    for name in AGAIN:
        document = numbers[name]["document"]
        lime = document["delete"]
        descriptions.append(
            f"{lime['signed']:.3f} and {lime['absolute']:.3f} (f = {document['output']:.2f}, test "
            f"accuracy {numbers[name]['accuracy']:.2%})"
        )
    return f"The first of these networks trained again gives {'; and again '.join(descriptions)}."


def _describe_plain_networks(numbers: Mapping[str, Numbers]) -> str:
    """Describe the networks that have only heads and are trained as the paper says."""
    descriptions = []
    for name, connections in PLAIN.items():
        accuracy, document = numbers[name]["accuracy"], numbers[name]["document"]
        lime = document["delete"]
        result = (
            f"ρ {_format_correlation(lime['signed'])}, with absolute values "
            f"{_format_correlation(lime['absolute'])} (f = {document['output']:.2f})"
            if accuracy > LEARNT
            else "which is no better than chance"
        )
        descriptions.append(f"{connections} {accuracy:.2%} of the test set and {result}")
    return (
        "Six layers of heads with a linear map and nothing else, trained as Appendix F says (10 "
        f"epochs, batches of 16, AdamW at 1e-4, no dropout): {'; '.join(descriptions)}."
    )


def _format_correlation(rho: float | None) -> str:
    return "not defined" if rho is None else f"{rho:.3f}"


def group_correlations(training: Numbers) -> dict[str, list[float]]:
    """Return the correlations of all reviews and of each class, without those not defined."""
    pairs = list(zip(training["output"], training["signed"], strict=True))
    groups = {
        SIGNED: [rho for _, rho in pairs],
        f"{SIGNED}, classified negative": [rho for f, rho in pairs if f < 0],
        f"{SIGNED}, classified positive": [rho for f, rho in pairs if f >= 0],
        ABSOLUTE: training["absolute"],
    }
    defined = {name: [x for x in values if x is not None] for name, values in groups.items()}
    return {name: values for name, values in defined.items() if values}


def _meaning(numbers: Mapping[str, Numbers], groups: Mapping[str, Sequence[float]]) -> str:
    training, trainings = numbers[MODEL], _trainings(numbers)
    has_class_sign = [
        (rho < 0) == (f < 0)
        for f, rho in zip(training["output"], training["signed"], strict=True)
        if rho is not None
    ]
    low, size, high = quartiles(groups[ABSOLUTE])
    strength = "strong" if size > 0.6 else "moderate" if size > 0.3 else "weak"
    return (
        "The authors put the negative sign down to the document's class. "
        f"{_nearest_sentence(numbers)}In all, the sign of ρ on the document is that of the class "
        f"which the network gives in {sum(_has_class_sign(numbers, name) for name in trainings)} "
        f"of {len(trainings)} trainings; over many reviews of the first of them with layer norms "
        f"it is for {np.mean(has_class_sign):.0%}. The relation of attention to |LIME| is "
        f"{strength} in its median review, half of the reviews lie between {low:.2f} and "
        f"{high:.2f}, and on the document it is "
        f"{_span([_lime(numbers, name)['absolute'] for name in trainings])} over the trainings."
    )


def _nearest_sentence(numbers: Mapping[str, Numbers]) -> str:
    """Say whether the network that is most like the paper's supports the authors' explanation."""
    if NEAREST not in _trainings(numbers):
        return ""
    document = numbers[NEAREST]["document"]
    description = (
        f"In the network that is most like theirs ({numbers[NEAREST]['accuracy']:.2%} of the test "
        f"set) f = {document['output']:.2f} and ρ = {document['delete']['signed']:+.3f}, "
    )
    if _has_class_sign(numbers, NEAREST):
        return f"{description}which agrees. "
    return f"{description}which contradicts them. "


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"
