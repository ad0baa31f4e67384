"""Gradients of a transformers network whose weights are frozen: layer-wise relevance, "lrp".

Attention weights, the deviations of norms, the quotients act(x)/x of activations and activated
gates become constants, at the values that they have for the text. What is left is affine in the
embedded text, so that gradient × input shares out the whole output (Achtibat et al., 2024). Every
call of torch is looked at while the network runs (the rules), and the graph that comes out is
searched for anything that is not affine after all: a network with an operation that nobody has
thought of is refused, not explained by half.
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
    """A network computes something that stays curved when all known weights are frozen."""


def check_affine(network: Any, logits: Any) -> None:
    """Refuse a network that is not affine with its weights frozen, as no state space model is."""
    if (unknown := not_affine(logits)) is not None:
        raise NotAffineError(
            f"{network_name(network)} computes {unknown!r}, in which nothing is known to be a "
            "weight; use 'ig', 'shapley' or 'lime'."
        )


_MARK = "_limelight_weighs"  # how a tensor that may weigh another is remembered


class FrozenWeights(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
    """A context in which torch computes the same values, with frozen weights.

    It belongs to the thread that enters it and touches no module: every call of torch passes
    here, and those that weigh are computed with constants in the place of what they weigh by.
    """

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        plain = name[2:-2] if name.startswith("__") else name
        given = tuple(_constant(one) for one in args)
        named = {key: _constant(one) for key, one in (kwargs or {}).items()}
        rule = _RULES.get(plain)
        return func(*given, **named) if rule is None else rule(func, plain, given, named)


Rule = Callable[[Any, str, tuple[Any, ...], dict[str, Any]], Any]


def _attention(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Queries, keys and a bias that depends on the text enter the weights alone."""
    held = tuple(_held(one) if i != 2 else one for i, one in enumerate(args))
    return func(*held, **{k: v if k == "value" else _held(v) for k, v in named.items()})


def _norm(_func: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """(x − mean x) · w/σ + b with the deviation σ frozen; of an RMS norm, x · w/ρ with ρ frozen."""
    bias = ("bias",) if name == "layer_norm" else ()  # the other has eps in its place
    order = ("input", "normalized_shape", "weight", *bias, "eps")
    given = {"eps": 1e-5 if bias else None, **dict(zip(order, args, strict=False)), **named}
    input, eps = given["input"], given["eps"]
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    # Half precision is normalized in single, as torch does.
    x = input if input.dtype in (torch.float32, torch.float64) else input.float()
    if name == "layer_norm":
        x = x - x.mean(axes, keepdim=True)
    # By default that of the precision in which torch computes; half's is thousands of times larger.
    least = torch.finfo(x.dtype).eps if eps is None else eps
    y = x * (x.detach().square().mean(axes, keepdim=True) + least).rsqrt()
    y = y if given.get("weight") is None else y * given["weight"]
    return (y if given.get("bias") is None else y + given["bias"]).to(input.dtype)


def _activation(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """x · q with the quotient q = act(x)/x frozen; at zero, its limit from above."""
    given = {**named}
    x = args[0] if args else given.pop("input")
    given.pop("inplace", None)  # what is asked in place is returned: the input stays as it is
    rest = [one for one in args[1:] if not isinstance(one, bool)]
    # Near zero act(x)/x is its limit; the root of the least float, for its square must not vanish.
    small = math.sqrt(torch.finfo(x.dtype).tiny)
    near = x.detach().masked_fill(x.detach() == 0, small)
    return _marked(x * (func(near, *rest, **given) / near), "gate")


def _power(func: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    exponent = args[1] if len(args) > 1 else named.get("exponent", 2)
    if isinstance(exponent, int | float) and exponent >= 1:
        return _activation(func, name, args, named)
    return _marking("scale")(func, name, args, named)


def _marking(kind: str) -> Rule:
    return lambda func, _name, args, named: _marked(func(*args, **named), kind)


def _product(func: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Freeze the factor that weighs the other; a product with a constant keeps its mark.

    Of two factors that could weigh each other neither is frozen: which one is the weight, nobody
    has said.
    """
    if len(args) != 2 or named:
        return func(*args, **named)
    kinds = [_mark(one) for one in args]
    if not all(map(_depends, args)):
        kind = next(filter(None, kinds), None)
        quotient = name in _QUOTIENTS and kinds[1] is not None
        return _marked(func(*args), "scale" if quotient else kind)
    weighs = [i for i, kind in enumerate(kinds) if kind is not None]
    if name in _QUOTIENTS:
        weighs = [i for i in weighs if i == 1]  # what is divided does not weigh its divisor
    if len(weighs) != 1:
        return func(*args)
    factors = [one.detach() if i == weighs[0] else one for i, one in enumerate(args)]
    # x · Φ(x) is itself an activation, and x/σ no longer a scale.
    return _marked(func(*factors), "gate" if kinds[weighs[0]] == "gate" else None)


def _kept(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    depending = [one for one in args if _depends(one)]
    return _marked(func(*args, **named), _mark(depending[0]) if len(depending) == 1 else None)


def _log_softmax(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """z − Σ p z − H(p), which log softmax z is, with the probabilities p and their entropy frozen.

    It is affine, and its slope that of log softmax itself.
    """
    z, held = args[0], func(args[0].detach(), *args[1:], **named)
    moved = z - z.detach()
    dim = args[1] if len(args) > 1 else named["dim"]
    # The entropy is not computed: what is added to the value is 0 at the text itself.
    return held + moved - (held.exp() * moved).sum(dim, keepdim=True)


_QUOTIENTS = ("div", "divide", "true_divide", "truediv")
_RULES: dict[str, Rule] = {
    "softmax": lambda func, _name, args, named: func(*args, **named).detach(),
    "log_softmax": _log_softmax,
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(("layer_norm", "rms_norm"), _norm),
    **dict.fromkeys(("pow", "square"), _power),
    # Elementwise functions that vanish at zero: x · (act(x)/x) with the quotient frozen.
    **dict.fromkeys(("celu", "elu", "erf", "gelu", "hardswish", "hardtanh"), _activation),
    **dict.fromkeys(("leaky_relu", "mish", "prelu", "relu", "relu6"), _activation),
    **dict.fromkeys(("selu", "silu", "tanh"), _activation),
    # Not zero at zero, so without a quotient: as a factor of something else they are frozen, and
    # anything else that is done with them is not known (`not_affine` finds it).
    **dict.fromkeys(("hardsigmoid", "sigmoid", "softplus"), _marking("gate")),
    **dict.fromkeys(
        ("norm", "reciprocal", "rsqrt", "sqrt", "std", "var", "vector_norm"), _marking("scale")
    ),
    **dict.fromkeys((*_QUOTIENTS, "mul", "multiply", "rmul"), _product),
    # A weight that is shifted, scaled or cast by constants is still that weight.
    **dict.fromkeys(("add", "radd", "rsub", "sub"), _kept),
    **dict.fromkeys(("double", "float", "half", "to", "type"), _kept),
}


def _constant(value: Any) -> Any:
    """Return a parameter as a constant: then whatever needs a gradient depends on the text."""
    return value.detach() if type(value) is torch.nn.Parameter else value


def _held(value: Any) -> Any:
    return value.detach() if _depends(value) else value


def _depends(value: Any) -> bool:
    return bool(getattr(value, "requires_grad", False))


def _mark(value: Any) -> str | None:
    return getattr(value, _MARK, None)


def _marked(value: Any, kind: str | None) -> Any:
    if kind is not None and _depends(value):
        setattr(value, _MARK, kind)
    return value


# Operations of torch's graph by name, as it writes them.
_LINEAR = frozenset(
    """
    AccumulateGrad Add Alias AsStrided AvgPool2D AvgPool3D Cat Clone ConstantPadNd CopyBackwards
    CopySlices Cumsum Detach Expand FftC2C FftC2R FftR2C Flip Gather Im2Col Index IndexAdd
    IndexPut IndexSelect MaskedFill MaskedScatter Mean NativeBatchNorm Neg Permute Real Repeat
    ReshapeAlias Roll Scatter ScatterAdd Select Slice SliceScatter SelectScatter Split
    SplitWithSizes Squeeze Stack Sub Sum T ToCopy Transpose Unbind Unfold UnsafeSplit UnsafeView
    Unsqueeze View ViewAsComplex ViewAsReal Where
    """.split()  # noqa: SIM905  (58 lines as a list)
)
# A maximum passes on what it has selected, so with the choice frozen it is linear.
_CHOICES = frozenset(("Amax", "AdaptiveMaxPool2D", "Max", "MaxPool2DWithIndices", "Sort", "Topk"))
# Operands of which at most so many may depend on the input: one factor of a product, no divisor,
# and neither queries nor keys, whatever computes attention with them.
_FEW_DEPEND: dict[str, tuple[tuple[int, ...], int]] = {
    **dict.fromkeys(("Addbmm", "Addmm", "Addmv", "Baddbmm"), ((1, 2), 1)),
    **dict.fromkeys(("Bmm", "Convolution", "Dot", "GroupedMm", "Mm", "Mul", "Mv"), ((0, 1), 1)),
    "Div": ((1,), 0),
    "ScaledDotProduct": ((0, 1), 0),
}


def not_affine(output: Any) -> str | None:
    """Return the first operation on the way to ``output`` that is not affine, None if all are.

    Whatever is differentiable counts as depending on the input.
    """
    # Parameters were made constants, so what a graph still reaches comes from the text.
    seen, waiting = {output.grad_fn}, [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        before = [parent for parent, _ in node.next_functions]
        name = re.sub(r"(Backward)?\d*$", "", node.name().rpartition("::")[2])
        # Attention has a name of its own for each way to compute it.
        kind = "ScaledDotProduct" if name.startswith("ScaledDotProduct") else name
        places, most = _FEW_DEPEND.get(kind, ((), 0))
        known = kind in _FEW_DEPEND or name in _LINEAR or name in _CHOICES
        if not known or sum(i < len(before) and before[i] is not None for i in places) > most:
            return name
        waiting += [parent for parent in before if parent not in seen]
        seen.update(before)
    return None
