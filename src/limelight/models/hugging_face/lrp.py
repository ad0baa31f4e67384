"""Gradients of a transformers network with frozen weights: layer-wise relevance propagation.

Some quantities become constants, at the values that they have for the text: attention weights, the
deviations of norms, the quotients act(x)/x of activations, and activated gates. Then the network is
affine in the embedded text, so gradient × input distributes the whole output over the tokens
(Achtibat et al., 2024). Rules replace calls of torch while the network runs. Afterwards the graph
is searched for operations that are not affine. If there is one, an error is raised, because the
explanation would be incomplete.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from limelight.errors import DomainError
from limelight.models.hugging_face.forward import network_name


class NotAffineError(DomainError):
    """An error for a network that is not affine although all recognized weights are frozen."""


def check_affine(network: Any, logits: Any) -> None:
    """Raise an error if a network is not affine with its weights frozen.

    State space models are an example.
    """
    if (operation := find_non_affine(logits)) is not None:
        raise NotAffineError(
            f"LRP has no rule for the operation {operation!r} of {network_name(network)}. Use "
            "'ig', 'shapley' or 'lime'."
        )


_KIND_ATTRIBUTE = "_limelight_weighs"  # the attribute of a tensor that may weigh another one


class FrozenWeights(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
    """A context in which torch computes the same values with frozen weights.

    It belongs to the thread that enters it and changes no module. Every call of torch passes
    through it. In calls with a rule, the weights are constants.
    """

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        operation = name[2:-2] if name.startswith("__") else name
        positional = tuple(_detach_parameter(value) for value in args)
        named = {key: _detach_parameter(value) for key, value in (kwargs or {}).items()}
        rule = _RULES.get(operation)
        return (
            func(*positional, **named) if rule is None else rule(func, operation, positional, named)
        )


Rule = Callable[[Any, str, tuple[Any, ...], dict[str, Any]], Any]


def _attention_rule(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Freeze queries, keys and biases that depend on the text, which enter only the weights."""
    detached = tuple(_detach_dependent(value) if i != 2 else value for i, value in enumerate(args))
    return func(
        *detached,
        **{
            key: value if key == "value" else _detach_dependent(value)
            for key, value in named.items()
        },
    )


def _norm_rule(_func: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Compute a norm with its deviation frozen.

    A layer norm is (x − mean x) · w/σ + b with constant σ. An RMS norm is x · w/ρ with constant ρ.
    """
    bias = ("bias",) if name == "layer_norm" else ()  # an RMS norm has no bias
    parameters = ("input", "normalized_shape", "weight", *bias, "eps")
    arguments = {
        "eps": 1e-5 if bias else None,
        **dict(zip(parameters, args, strict=False)),
        **named,
    }
    input, eps = arguments["input"], arguments["eps"]
    axes = tuple(range(-len(arguments["normalized_shape"]), 0))
    # Half precision is normalized in single precision, as torch does.
    x = input if input.dtype in (torch.float32, torch.float64) else input.float()
    if name == "layer_norm":
        x = x - x.mean(axes, keepdim=True)
    # The default is the epsilon of the precision in which torch computes. The epsilon of half
    # precision is thousands of times larger.
    epsilon = torch.finfo(x.dtype).eps if eps is None else eps
    y = x * (x.detach().square().mean(axes, keepdim=True) + epsilon).rsqrt()
    y = y if arguments.get("weight") is None else y * arguments["weight"]
    return (y if arguments.get("bias") is None else y + arguments["bias"]).to(input.dtype)


def _activation_rule(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Compute x · q with the quotient q = act(x)/x frozen; at zero, q is its limit from above."""
    options = {**named}
    x = args[0] if args else options.pop("input")
    options.pop("inplace", None)  # the result is returned, and the input stays unchanged
    parameters = [value for value in args[1:] if not isinstance(value, bool)]
    # A tiny x gives the limit of act(x)/x at zero. It is the root of the smallest float, since its
    # square must not vanish.
    smallest = math.sqrt(torch.finfo(x.dtype).tiny)
    nonzero = x.detach().masked_fill(x.detach() == 0, smallest)
    return _set_weight_kind(x * (func(nonzero, *parameters, **options) / nonzero), "gate")


def _power_rule(func: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Treat a power with an exponent of at least 1 as an activation, others as a scale."""
    exponent = args[1] if len(args) > 1 else named.get("exponent", 2)
    if isinstance(exponent, int | float) and exponent >= 1:
        return _activation_rule(func, name, args, named)
    return _kind_rule("scale")(func, name, args, named)


def _kind_rule(kind: str) -> Rule:
    """Return a rule that marks the result as a weight of this kind, "gate" or "scale"."""
    return lambda func, _name, args, named: _set_weight_kind(func(*args, **named), kind)


def _product_rule(func: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Freeze the factor that weighs the other one; a product with a constant keeps its kind.

    If both factors could be the weight, none is frozen, because nothing says which one it is.
    """
    if len(args) != 2 or named:
        return func(*args, **named)
    kinds = [_weight_kind(factor) for factor in args]
    if not all(map(_is_dependent, args)):
        kind = next(filter(None, kinds), None)
        is_scale = name in _QUOTIENTS and kinds[1] is not None
        return _set_weight_kind(func(*args), "scale" if is_scale else kind)
    weight_positions = [i for i, kind in enumerate(kinds) if kind is not None]
    if name in _QUOTIENTS:
        weight_positions = [
            i for i in weight_positions if i == 1
        ]  # a dividend does not weigh its divisor
    if len(weight_positions) != 1:
        return func(*args)
    factors = [
        factor.detach() if i == weight_positions[0] else factor for i, factor in enumerate(args)
    ]
    # x · Φ(x) is itself an activation. x/σ is no longer a scale.
    return _set_weight_kind(
        func(*factors), "gate" if kinds[weight_positions[0]] == "gate" else None
    )


def _same_kind_rule(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Keep the kind of a weight that is shifted, scaled or cast by constants."""
    dependent = [value for value in args if _is_dependent(value)]
    return _set_weight_kind(
        func(*args, **named), _weight_kind(dependent[0]) if len(dependent) == 1 else None
    )


def _log_softmax_rule(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Compute log softmax z as z − Σ p z − H(p) with probabilities p and entropy H(p) frozen.

    This is affine, and its slope is the slope of log softmax.
    """
    z, log_p = args[0], func(args[0].detach(), *args[1:], **named)
    change = z - z.detach()
    dim = args[1] if len(args) > 1 else named["dim"]
    # The entropy is not computed, since the term that is added to the value is 0 at the text.
    return log_p + change - (log_p.exp() * change).sum(dim, keepdim=True)


_QUOTIENTS = ("div", "divide", "true_divide", "truediv")
_RULES: dict[str, Rule] = {
    "softmax": lambda func, _name, args, named: func(*args, **named).detach(),
    "log_softmax": _log_softmax_rule,
    "scaled_dot_product_attention": _attention_rule,
    **dict.fromkeys(("layer_norm", "rms_norm"), _norm_rule),
    **dict.fromkeys(("pow", "square"), _power_rule),
    # Elementwise functions that vanish at zero become x · (act(x)/x) with the quotient frozen.
    **dict.fromkeys(("celu", "elu", "erf", "gelu", "hardswish", "hardtanh"), _activation_rule),
    **dict.fromkeys(("leaky_relu", "mish", "prelu", "relu", "relu6"), _activation_rule),
    **dict.fromkeys(("selu", "silu", "tanh"), _activation_rule),
    # These functions are not zero at zero, so they have no quotient. They are frozen as factors. In
    # other operations they are not affine, which `find_non_affine` reports.
    **dict.fromkeys(("hardsigmoid", "sigmoid", "softplus"), _kind_rule("gate")),
    **dict.fromkeys(
        ("norm", "reciprocal", "rsqrt", "sqrt", "std", "var", "vector_norm"), _kind_rule("scale")
    ),
    **dict.fromkeys((*_QUOTIENTS, "mul", "multiply", "rmul"), _product_rule),
    # A weight that is shifted, scaled or cast by constants is still a weight.
    **dict.fromkeys(("add", "radd", "rsub", "sub"), _same_kind_rule),
    **dict.fromkeys(("double", "float", "half", "to", "type"), _same_kind_rule),
}


def _detach_parameter(value: Any) -> Any:
    """Return a parameter as a constant, and other values unchanged.

    Then every tensor that needs a gradient depends on the text.
    """
    return value.detach() if type(value) is torch.nn.Parameter else value


def _detach_dependent(value: Any) -> Any:
    """Return a tensor that depends on the text as a constant, and other values unchanged."""
    return value.detach() if _is_dependent(value) else value


def _is_dependent(value: Any) -> bool:
    """Tell whether a value is a tensor that depends on the text."""
    return bool(getattr(value, "requires_grad", False))


def _weight_kind(value: Any) -> str | None:
    """Return "gate" or "scale" for a tensor that may weigh another one, otherwise None."""
    return getattr(value, _KIND_ATTRIBUTE, None)


def _set_weight_kind(value: Any, kind: str | None) -> Any:
    """Mark a tensor that depends on the text as a weight of this kind, and return it."""
    if kind is not None and _is_dependent(value):
        setattr(value, _KIND_ATTRIBUTE, kind)
    return value


# Operations by their names in torch's graph.
_LINEAR_OPERATIONS = frozenset(
    """
    AccumulateGrad Add Alias AsStrided AvgPool2D AvgPool3D Cat Clone ConstantPadNd CopyBackwards
    CopySlices Cumsum Detach Expand FftC2C FftC2R FftR2C Flip Gather Im2Col Index IndexAdd
    IndexPut IndexSelect MaskedFill MaskedScatter Mean NativeBatchNorm Neg Permute Real Repeat
    ReshapeAlias Roll Scatter ScatterAdd Select Slice SliceScatter SelectScatter Split
    SplitWithSizes Squeeze Stack Sub Sum T ToCopy Transpose Unbind Unfold UnsafeSplit UnsafeView
    Unsqueeze View ViewAsComplex ViewAsReal Where
    """.split()  # noqa: SIM905  (58 lines as a list)
)
# A maximum returns the selected values, so it is linear if the selection is frozen.
_SELECTING_OPERATIONS = frozenset(
    ("Amax", "AdaptiveMaxPool2D", "Max", "MaxPool2DWithIndices", "Sort", "Topk")
)
# Positions of operands, and how many of these operands may depend on the input: one factor of a
# product, no divisor, and neither queries nor keys of attention.
_MAX_DEPENDENT_OPERANDS: dict[str, tuple[tuple[int, ...], int]] = {
    **dict.fromkeys(("Addbmm", "Addmm", "Addmv", "Baddbmm"), ((1, 2), 1)),
    **dict.fromkeys(("Bmm", "Convolution", "Dot", "GroupedMm", "Mm", "Mul", "Mv"), ((0, 1), 1)),
    "Div": ((1,), 0),
    "ScaledDotProduct": ((0, 1), 0),
}


def find_non_affine(output: Any) -> str | None:
    """Return the first operation that is not affine in the graph of ``output``, or None.

    All differentiable values count as dependent on the input.
    """
    # Parameters are constants, so the leaves of the graph come from the text.
    seen, waiting = {output.grad_fn}, [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        parents = [parent for parent, _ in node.next_functions]
        name = re.sub(r"(Backward)?\d*$", "", node.name().rpartition("::")[2])
        # Each implementation of attention has its own name.
        operation = "ScaledDotProduct" if name.startswith("ScaledDotProduct") else name
        positions, max_dependent = _MAX_DEPENDENT_OPERANDS.get(operation, ((), 0))
        is_known = (
            operation in _MAX_DEPENDENT_OPERANDS
            or name in _LINEAR_OPERATIONS
            or name in _SELECTING_OPERATIONS
        )
        if (
            not is_known
            or sum(i < len(parents) and parents[i] is not None for i in positions) > max_dependent
        ):
            return name
        waiting += [parent for parent in parents if parent not in seen]
        seen.update(parents)
    return None
