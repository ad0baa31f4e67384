"""The second text of a pair, as a command takes it: by an option, or after a tab of each line."""

__all__ = ["with_second"]

from collections.abc import Callable, Sequence

from limelight.errors import InputError
from limelight.text import Given


def with_second(
    pair: str | None, *, tabs: bool, lines: bool
) -> Callable[[Sequence[str]], list[Given]]:
    """Return how texts become what is asked about: themselves, or pairs with their second text.

    ``pair`` is the second text of the only one; with ``tabs`` every line holds both texts.
    """
    if tabs and not lines:
        raise InputError("--tabs is about lines, of which each holds two texts; add --lines.")
    if pair is not None and lines:
        raise InputError("--pair is the second text of one pair; for lines that hold both, --tabs.")

    def given(texts: Sequence[str]) -> list[Given]:
        if tabs:
            return [_at_the_tab(line) for line in texts]
        if pair is None:
            return list(texts)
        if len(texts) > 1:
            raise InputError(f"--pair is the second text of one pair; got {len(texts)} texts.")
        return [(text, pair) for text in texts]

    return given


def _at_the_tab(line: str) -> Given:
    first, *second = line.split("\t")
    if len(second) == 1:
        return first, second[0]
    error = InputError(
        f"a line must hold two texts with a tab between them; this one has {len(second)} tabs."
    )
    error.one_text = True
    raise error
