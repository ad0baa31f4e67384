"""What the outputs of a transformers network are called, and what they are."""

from typing import Any

from limelight.models.protocol import Link

_UNNAMED = "LABEL_0"  # what transformers calls an output that nobody named

# Names of classes that only two texts together can have.
_COMPARED = ("entailment", "contradiction", "not_entailment", "paraphrase", "equivalent")


def class_names(config: Any) -> tuple[str, ...]:
    """Return the names of the classes; of a single output, the second's is the label.

    The first is then called what the configuration says it is (``other_label``), else "not" the
    second. A regression has names of scores instead, which may be one. Classes of the same name are
    told apart by their numbers.
    """
    labels = config.id2label
    named = tuple(str(labels[i]) for i in sorted(labels))
    if len(named) > 1:
        return _apart(named)
    if link_of(config) == "none":
        return ("score",) if named[0] == _UNNAMED else named
    return str(getattr(config, "other_label", f"not {named[0]}")), named[0]


def link_of(config: Any) -> Link:
    """Return how outputs become probabilities: by sigmoids of independent labels, else softmax.

    A regression has none.
    """
    links: dict[str, Link] = {"multi_label_classification": "sigmoid", "regression": "none"}
    return links.get(str(getattr(config, "problem_type", None)), "softmax")


def why_not_choosing(config: Any) -> str | None:
    """Return None where the network predicts one of its classes, else a clause: why not."""
    match link_of(config):
        case "sigmoid":
            return "each label of this one is a yes or no of its own"
        case "none" if len(class_names(config)) == 1:
            return "this one predicts a score and not a class"
        case "none":
            return "this one predicts scores and does not choose among them"
    return None


def compared_notice(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Say of a single text that the classes, by their names, are about two; nothing else tells."""
    told = [name for name in classes if name.lower() in _COMPARED]
    if not told:
        return ()
    return (
        f"This model was given one text, and its class {told[0]!r} is about two; give it a pair, "
        "(first, second), if it was trained on pairs.",
    )


def _apart(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name} #{i}" if names.count(name) > 1 else name for i, name in enumerate(names))
