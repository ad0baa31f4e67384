"""One way to call any model: each item once, equal lengths together; a text that fails is named."""

import contextlib
import math
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.progress import count_calls
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int
from limelight.text import one_line


class Engine:
    """Calls ``answer`` on batches of items, and gives the rows back in order.

    ``size`` is what an item costs; a batch costs its largest item times its length and at most
    ``budget``, which is halved, for good, when memory runs out, and has ``most`` items at most.
    Items with one ``key`` are one; without it those that are equal are.
    With ``alike``, only items of one size stand in a batch: for models whose answers would change
    with what fills the shorter ones up.
    """

    def __init__(
        self,
        answer: Callable[[list[Any]], Float[np.ndarray, "n C"]],
        *,
        size: Callable[[Any], int],
        key: Callable[[Any], Hashable] = lambda item: item,
        budget: int = sys.maxsize,
        most: int = 4096,
        alike: bool = False,
    ) -> None:
        self._answer, self.size, self._key = answer, size, key
        self.budget, self._most, self._alike = budget, most, alike
        self.calls = self.items = 0  # batches and items answered so far

    def __call__(self, items: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return one row per item; equal items are asked once."""
        # Masks of a text repeat: of a thousand samples of five words at most 32 differ.
        keys = [self._key(item) for item in items]
        known = dict(zip(keys, items, strict=True))
        place, distinct = {key: i for i, key in enumerate(known)}, list(known.values())
        row = np.array([place[key] for key in keys])
        found = self.rows(
            np.array([self.size(item) for item in distinct]),
            lambda places: self._answer([distinct[i] for i in places]),
            copies=np.bincount(row, minlength=len(distinct)),
        )
        return found[row]

    def rows(
        self,
        sizes: Int[np.ndarray, " n"],
        answer: Callable[[Int[np.ndarray, " _"]], Float[np.ndarray, "_ C"]],
        *,
        copies: Int[np.ndarray, " n"] | None = None,
    ) -> Float[np.ndarray, "n C"]:
        """Return one row per item of those sizes; ``answer`` takes the places of some of them.

        For items that need not exist before their turn. Each stands for ``copies`` questions.
        """
        # The largest first: if memory does not suffice, it shows at once.
        order = np.argsort(-sizes, kind="stable")
        answers, done = np.empty((len(order), 0)), 0
        while done < len(order):
            places = order[done : done + self._together(sizes[order[done:]])]
            try:
                found = answer(places)
            except (MemoryError, RuntimeError) as error:
                if len(places) == 1 or not out_of_memory(error):
                    raise
                # For good: a budget that grew again would run out again, each time after a delay.
                self.budget = max(1, int(sizes[places[0]])) * (len(places) // 2)
                continue
            self.calls, self.items = self.calls + 1, self.items + len(places)
            if not done:  # one array for all: small ones between large would fragment the memory
                answers = np.empty((len(order), found.shape[1]))
            answers[places] = found
            done += len(places)
            # Progress counts calls, and equal ones were answered together.
            count_calls(len(places) if copies is None else int(copies[places].sum()))
        return answers

    def _together(self, sizes: Int[np.ndarray, " n"]) -> int:
        """How many of the items to come make a batch; the last two are alike in size.

        A full batch and a few items left over would leave a device half asleep.
        """
        if self._alike:
            sizes = sizes[sizes == sizes[0]]  # they are sorted
        left, most = len(sizes), min(self._most, max(1, self.budget // max(int(sizes[0]), 1)))
        return most if left >= 2 * most else math.ceil(left / math.ceil(left / most))


def out_of_memory(error: Exception) -> bool:
    """Whether ``error`` is Python's or torch's way of saying so (torch's is a RuntimeError)."""
    # By what it says: naming the classes of torch would import torch.
    said = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in said or "allocate memory" in said


def answers_of(
    ask: Callable[[Any], Any],
    items: Any,
    *,
    who: str,
    shown: Callable[[Any], str],
    advice: str = "",
) -> Any:
    """Return what ``ask`` says of ``items``; where it fails, the error names one of them.

    ``who`` is the subject of the sentence, ``shown`` an item as a text, and ``advice`` what to do
    if all are answered one by one.
    """
    try:
        return ask(items)
    # What we say ourselves names its text already.
    except (MemoryError, InputError):
        raise
    except Exception as failure:
        if out_of_memory(failure):
            raise  # the engine asks again for fewer
        error = failure
    if len(items) == 1:
        with naming(who, shown(items[0])):
            raise error
    for i in range(len(items)):
        with naming(who, shown(items[i])):
            ask(items[i : i + 1])
    raise InputError(
        f"{who} fails on {len(items)} texts together and on none alone; the first is "
        f"{short(shown(items[0]))} ({said(error)}).{advice}"
    ) from error


@contextlib.contextmanager
def naming(who: str, text: str) -> Iterator[None]:
    """Let an error say that ``who`` failed on ``text``; what we say ourselves stays as it is."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        raise InputError(f"{who} fails on the text {short(text)} ({said(error)}).") from error


def said(error: BaseException) -> str:
    """Return an error as a clause of one line."""
    return one_line(f"{type(error).__name__}: {error}", 200).rstrip(".")


def short(text: str) -> str:
    """Return a text in quotes, on one line and cut if it is long."""
    return repr(one_line(text, 80))


def joint_answers(
    games: Sequence[Game], masks: Sequence[Bool[np.ndarray, "_ _d"]]
) -> list[Float[np.ndarray, "_ C"]] | None:
    """Return the outputs of each game in one question; None where they cannot be joined.

    Games that may be asked together have in common what they call ``joins``, and the first asks
    for all: ``joint(games, masks)``.
    """
    first: Any = games[0]
    common = getattr(first, "joins", None)
    # By identity: what is joined goes in one batch through one network.
    if common is None or any(getattr(one, "joins", None) is not common for one in games):
        return None
    answers: list[Float[np.ndarray, "_ C"]] = first.joint(games, masks)
    return answers
