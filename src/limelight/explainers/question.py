"""What is asked of a model about a text, as a value."""

__all__ = ["Question"]

from collections.abc import Collection, Sequence
from typing import cast

import msgspec

from limelight.errors import InputError, nearest
from limelight.explainers.targets import explained_scale
from limelight.models import CAPABILITIES, Cuts, Model, why_not
from limelight.text import SIDES


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
        if self.side is not None and self.side not in SIDES:
            raise InputError(nearest("side", self.side, SIDES))
        msgspec.structs.force_setattr(self, "protect", tuple(self.protect))

    def to(self, model: Model) -> "Question":
        """Return the question as ``model`` is asked it: without log-odds, for its "score"."""
        return msgspec.structs.replace(self, scale=explained_scale(self.scale, model.link))

    def windowed(self, model: Model) -> Model:
        """Return ``model`` as it reads the texts: in windows, if they are asked for."""
        if self.window is None:
            return model
        if (why := why_not(model, "cuts")) is not None:
            raise InputError(f"window needs {CAPABILITIES['cuts']}, and {why}. Leave window out.")
        return cast(Cuts, model).in_windows(self.window)
