"""Whether a computation is affine in its input, seen from the graph that torch has recorded."""

__all__ = ["not_affine"]

import re
from typing import Any

_LINEAR = frozenset(
    [
        "AccumulateGrad",
        "Add",
        "Alias",
        "AsStrided",
        "AvgPool2D",
        "AvgPool3D",
        "Cat",
        "Clone",
        "ConstantPadNd",
        "CopyBackwards",
        "CopySlices",
        "Cumsum",
        "Detach",
        "Expand",
        "FftC2C",
        "FftC2R",
        "FftR2C",
        "Flip",
        "Gather",
        "Im2Col",
        "Index",
        "IndexAdd",
        "IndexPut",
        "IndexSelect",
        "MaskedFill",
        "MaskedScatter",
        "Mean",
        "NativeBatchNorm",
        "Neg",
        "Permute",
        "Real",
        "Repeat",
        "ReshapeAlias",
        "Roll",
        "Scatter",
        "ScatterAdd",
        "Select",
        "Slice",
        "SliceScatter",
        "SelectScatter",
        "Split",
        "SplitWithSizes",
        "Squeeze",
        "Stack",
        "Sub",
        "Sum",
        "T",
        "ToCopy",
        "Transpose",
        "Unbind",
        "Unfold",
        "UnsafeSplit",
        "UnsafeView",
        "Unsqueeze",
        "View",
        "ViewAsComplex",
        "ViewAsReal",
        "Where",
    ]
)
# A maximum passes on what it has selected, so with the choice frozen it is linear.
_CHOICES = frozenset(("Amax", "AdaptiveMaxPool2D", "Max", "MaxPool2DWithIndices", "Sort", "Topk"))
# Which operands of a product may not both depend on the input.
_PRODUCTS = {
    "Addbmm": (1, 2),
    "Addmm": (1, 2),
    "Addmv": (1, 2),
    "Baddbmm": (1, 2),
    "Bmm": (0, 1),
    "Convolution": (0, 1),
    "Dot": (0, 1),
    "GroupedMm": (0, 1),
    "Mm": (0, 1),
    "Mul": (0, 1),
    "Mv": (0, 1),
}
# Operands that may not depend on the input at all.
_FIXED = {"Div": (1,)}
_ATTENTION = (0, 1)  # queries and keys, whatever computes them


def not_affine(output: Any) -> str | None:
    """Return the first operation on the way to ``output`` that is not affine, None if all are.

    Whatever is differentiable counts as depending on the input.
    """
    seen, waiting = {output.grad_fn}, [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        before = [parent for parent, _ in node.next_functions]
        name = re.sub(r"(Backward)?\d*$", "", node.name().rpartition("::")[2])
        if not _affine(name, before):
            return name
        waiting += [parent for parent in before if parent not in seen]
        seen.update(before)
    return None


def _affine(name: str, before: list[Any]) -> bool:
    def depend(places: tuple[int, ...]) -> list[int]:
        return [i for i in places if i < len(before) and before[i] is not None]

    if name in _PRODUCTS:
        return len(depend(_PRODUCTS[name])) < 2
    if name in _FIXED:
        return not depend(_FIXED[name])
    if name.startswith("ScaledDotProduct"):
        return not depend(_ATTENTION)
    return name in _LINEAR or name in _CHOICES
