"""Shape annotations: jaxtyping's while tests and type checkers look, nothing otherwise.

jaxtyping is imported only if it is loaded already (its pytest plugin loads it); in a user's
process ``Float[Array, "T d_e"]`` is a comment and costs nothing. ``Rng`` is NumPy's generator of
random numbers in the same way: NumPy imports its random numbers when they are first named, which
takes 5 ms, and exact methods draw none.
"""

__all__ = ["Array", "Bool", "Float", "Int", "Num", "Rng"]

import sys
from typing import TYPE_CHECKING, Any

Array = Any  # a NumPy array, or a torch tensor on any device: `theory` takes both

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Num
    from numpy.random import Generator as Rng
else:
    Rng = Any

    class _Unchecked:
        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    Bool = Float = Int = Num = _Unchecked
