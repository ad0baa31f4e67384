"""The same network with its weights frozen: what is left is affine in the embedded text.

Ali et al. (2022) propagate relevance conservatively by treating as constants whatever a
transformer computes in order to weigh something else: attention weights, the deviation by which a
norm divides, the quotient act(x)/x of an activation, and the activated gate of a gated layer. The
outputs stay what they were; only their gradient changes.
"""

__all__ = ["frozen_weights"]

import math
from collections.abc import Callable
from typing import Any

_MARK = "_limelight_weighs"  # how a tensor that may weigh another is remembered

# Elementwise functions that vanish at zero: x · (act(x)/x) with the quotient frozen.
_ACTIVATIONS = frozenset(
    [
        "celu",
        "elu",
        "erf",
        "gelu",
        "hardswish",
        "hardtanh",
        "leaky_relu",
        "mish",
        "prelu",
        "relu",
        "relu6",
        "selu",
        "silu",
        "tanh",
    ]
)
# They are not zero at zero, so they have no quotient; as a factor of something else they are
# frozen, and anything else that is done with them is not known (`affine_graph` finds it).
_GATES = frozenset(("hardsigmoid", "sigmoid", "softplus"))
_SCALES = frozenset(("norm", "reciprocal", "rsqrt", "sqrt", "std", "var", "vector_norm"))
_PRODUCTS = frozenset(("div", "divide", "mul", "multiply", "rmul", "true_divide", "truediv"))
_QUOTIENTS = frozenset(("div", "divide", "true_divide", "truediv"))
# A weight that is shifted, scaled or cast by constants is still that weight.
_KEPT = frozenset(("add", "double", "float", "half", "radd", "rsub", "sub", "to", "type"))


def frozen_weights() -> Any:
    """Return a context in which torch computes the same values, with frozen weights.

    It belongs to the thread that enters it and touches no module: every call of torch passes
    here, and those that weigh are computed with constants in the place of what they weigh by.
    """
    from torch.overrides import TorchFunctionMode

    class FrozenWeights(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
        def __torch_function__(
            self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = getattr(func, "__name__", "")
            plain = name[2:-2] if name.startswith("__") else name
            given = tuple(_constant(one) for one in args)
            named = {key: _constant(one) for key, one in (kwargs or {}).items()}
            return _RULES.get(plain, _as_it_is)(func, plain, given, named)

    return FrozenWeights()


Rule = Callable[[Any, str, tuple[Any, ...], dict[str, Any]], Any]


def _as_it_is(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return func(*args, **named)


def _softmax(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return func(*args, **named).detach()


def _attention(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Queries, keys and a bias that depends on the text enter the weights alone."""
    held = tuple(_held(one) if i != 2 else one for i, one in enumerate(args))
    return func(*held, **{k: v if k == "value" else _held(v) for k, v in named.items()})


def _layer_norm(
    _func: Any,
    _name: str,
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    """(x − mean x) · w/σ + b with the deviation σ frozen."""
    return _normed(*args, **named, centred=True)


def _rms_norm(_func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """x · w/ρ with the root mean square ρ frozen."""
    return _normed(*args, **named, centred=False)


def _normed(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float | None = 1e-5,
    *,
    centred: bool,
) -> Any:
    import torch

    axes = tuple(range(-len(normalized_shape), 0))
    # Half precision is normalised in single, as torch does.
    x = input if input.dtype in (torch.float32, torch.float64) else input.float()
    if centred:
        x = x - x.mean(axes, keepdim=True)
    least = torch.finfo(input.dtype).eps if eps is None else eps
    y = x * (x.detach().square().mean(axes, keepdim=True) + least).rsqrt()
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(input.dtype)


def _activation(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """x · q with the quotient q = act(x)/x frozen; at zero, its limit from above."""
    import torch

    given = {**named}
    x = args[0] if args else given.pop("input")
    given.pop("inplace", None)  # what is asked in place is returned: the input stays as it is
    rest = [one for one in args[1:] if not isinstance(one, bool)]
    small = math.sqrt(torch.finfo(x.dtype).tiny)
    near = x.detach().masked_fill(x.detach() == 0, small)
    return _marked(x * (func(near, *rest, **given) / near), "gate")


def _power(func: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    exponent = args[1] if len(args) > 1 else named.get("exponent", 2)
    if isinstance(exponent, int | float) and exponent >= 1:
        return _activation(func, name, args, named)
    return _scale(func, name, args, named)


def _gate(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return _marked(func(*args, **named), "gate")


def _scale(func: Any, _name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return _marked(func(*args, **named), "scale")


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


_RULES: dict[str, Rule] = {
    "softmax": _softmax,
    "scaled_dot_product_attention": _attention,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "pow": _power,
    "square": _power,
    **dict.fromkeys(_ACTIVATIONS, _activation),
    **dict.fromkeys(_GATES, _gate),
    **dict.fromkeys(_SCALES, _scale),
    **dict.fromkeys(_PRODUCTS, _product),
    **dict.fromkeys(_KEPT, _kept),
}


def _constant(value: Any) -> Any:
    """Return a parameter as a constant: then whatever needs a gradient depends on the text."""
    import torch

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
