"""What a sample may have missed, in words."""

__all__ = ["unseen_effects"]

from limelight.sampling import SPIKE


def unseen_effects(
    *, flat: bool, spike: float, size: float, draws: int, same: str, what: str
) -> tuple[str, ...]:
    """Say where the spread of ``draws`` of ``what`` does not show how far scores may be off.

    ``flat``: there is none, as ``same`` says; ``size`` is what the standard errors then allow for.
    ``spike``: the share of one draw in it.
    """
    if flat:
        allowed = f"The standard errors allow for one as large as {size:.3g}."
        if size == 0:
            allowed = "The standard errors are 0 only because nothing has moved the output so far."
        return (
            f"All {draws:,} {what} {same}, which is no proof: an effect that shows in fewer than "
            f"{min(300 / draws, 100):.2g} % of all {what} may have gone unseen. {allowed}",
        )
    if spike > SPIKE:
        return (
            f"One of the {draws:,} {what} makes up most of the spread of a score: effects as rare "
            "as this may have been missed, and the standard errors are then too small. Draw more.",
        )
    return ()
