"""What is asked of a model about a text, as a value."""

__all__ = ["Question"]

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import cast, final

from limelight.errors import InputError, nearest
from limelight.explainers.targets import explained_scale
from limelight.models import CAPABILITIES, Cuts, Model, why_not
from limelight.text import SIDES


@final
@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked about one text, or about each of several, whatever the method.

    The fields are the arguments of :func:`limelight.explain` that bear their names; with
    ``all_classes`` every class is asked about in turn, and no target is named. The verbs make it of
    their keywords and the page of a request; a run stores it, so that only the same question goes
    on with it. What can be checked without a model is checked here, the rest when it is put
    :meth:`to` one and when the texts are read.
    """

    target: str | int | None = None
    against: str | int | None = None
    all_classes: bool = False
    features: str | Sequence[int] = "words"
    scale: str = "logit"
    protect: Collection[str] = ()
    window: str | int | None = None
    side: str | None = None

    def __post_init__(self) -> None:
        for name, given in (("target", self.target), ("against", self.against)):
            if self.all_classes and given is not None:
                raise InputError(f"give {name} or all_classes, not both.")
        if isinstance(self.protect, str):
            raise InputError(
                f"protect takes a list of words; got one string. Write [{self.protect!r}]."
            )
        if not isinstance(self.protect, Collection):
            raise InputError(f"protect takes a list of words; got {self.protect!r}.")
        if self.side is not None and self.side not in SIDES:
            raise InputError(nearest("side", self.side, SIDES))
        object.__setattr__(self, "protect", tuple(self.protect))
        for name in ("target", "against", "window"):
            given = getattr(self, name)
            if isinstance(given, Integral) and not isinstance(given, bool):
                # NumPy's whole numbers are welcome, and JSON knows Python's alone.
                object.__setattr__(self, name, int(given))

    def to(self, model: Model) -> "Question":
        """Return the question as ``model`` is asked it: without log-odds, for its "score"."""
        return replace(self, scale=explained_scale(self.scale, model.link))

    def windowed(self, model: Model) -> Model:
        """Return ``model`` as it reads the texts: in windows, if they are asked for."""
        if self.window is None:
            return model
        if (why := why_not(model, "cuts")) is not None:
            raise InputError(f"window needs {CAPABILITIES['cuts']}, and {why}. Leave window out.")
        return cast(Cuts, model).in_windows(self.window)
