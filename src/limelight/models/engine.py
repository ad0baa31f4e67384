"""The engine that calls models: in batches of similar size, each different item once."""

import contextlib
import math
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.progress import count_calls
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int
from limelight.text import truncate_line

# Rows of outputs, or a function that waits until a device has computed them.
PendingRows = Float[np.ndarray, "_ C"] | Callable[[], Float[np.ndarray, "_ C"]]


_SHARES_DEVICE: ContextVar[bool] = ContextVar("shares_device", default=False)


@contextlib.contextmanager
def share_device() -> Iterator[None]:
    """Run a block while other threads use the device of the model, too."""
    token = _SHARES_DEVICE.set(True)
    try:
        yield
    finally:
        _SHARES_DEVICE.reset(token)


def is_device_shared() -> bool:
    """Return whether other threads use the device of the model."""
    return _SHARES_DEVICE.get()


class Engine:
    """Calls a function on batches of items, and returns the rows in the order of the items.

    Parameters
    ----------
    compute
        Function from a list of items to one row of outputs for each, or to a function that waits
        for these rows (see :meth:`compute_rows`).
    size
        Function from an item to its size, such as the number of its tokens.
    key
        Function from an item to its key. Items with the same key are computed once. By default
        these are equal items.
    max_batch_size
        Largest size of a batch, which is the size of its largest item times the number of items.
        If memory runs out, it is halved for good.
    max_items
        Largest number of items in a batch.
    same_size
        Put only items of the same size into a batch. This is for models whose outputs change with
        the padding of shorter items.
    """

    def __init__(
        self,
        compute: Callable[[list[Any]], PendingRows],
        *,
        size: Callable[[Any], int],
        key: Callable[[Any], Hashable] = lambda item: item,
        max_batch_size: int = sys.maxsize,
        max_items: int = 4096,
        same_size: bool = False,
    ) -> None:
        self._compute, self._size, self._key = compute, size, key
        self._max_batch_size, self._max_items = max_batch_size, max_items
        self._same_size = same_size
        self.calls = self.items = 0  # batches and items computed so far
        # Threads that share the engine, without those that wait for memory.
        self._thread_count, self._thread_change = 0, threading.Condition()

    def __call__(self, items: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return one row per item; items with the same key are computed once."""
        # Masks of a text repeat: of a thousand samples of five words at most 32 differ.
        keys = [self._key(item) for item in items]
        item_by_key = dict(zip(keys, items, strict=True))
        distinct_items = list(item_by_key.values())
        position = {key: i for i, key in enumerate(item_by_key)}
        row_numbers = np.array([position[key] for key in keys])
        rows = self.compute_rows(
            np.array([self._size(item) for item in distinct_items]),
            lambda positions: self._compute([distinct_items[i] for i in positions]),
            copies=np.bincount(row_numbers, minlength=len(distinct_items)),
        )
        return rows[row_numbers]

    def compute_rows(
        self,
        sizes: Int[np.ndarray, " n"],
        compute: Callable[[Int[np.ndarray, " _"]], PendingRows],
        *,
        copies: Int[np.ndarray, " n"] | None = None,
    ) -> Float[np.ndarray, "n C"]:
        """Return one row per item, for items that are created only when they are needed.

        Parameters
        ----------
        sizes
            Size of each item.
        compute
            Function from the positions of some items to their rows, or to a function that waits for
            the rows. The next batch is then started before the rows of a batch are awaited.
        copies
            Number of model calls for which each item counts in progress displays, by default 1.
        """
        with self._thread_change:
            self._thread_count += 1
        try:
            return self._compute_rows(sizes, compute, copies)
        finally:
            with self._thread_change:
                self._thread_count -= 1
                self._thread_change.notify_all()

    def _compute_rows(
        self,
        sizes: Int[np.ndarray, " n"],
        compute: Callable[[Int[np.ndarray, " _"]], PendingRows],
        copies: Int[np.ndarray, " n"] | None,
    ) -> Float[np.ndarray, "n C"]:
        """Return one row per item, as :meth:`compute_rows` does."""
        # The largest first: if memory does not suffice, it shows at once.
        order = np.argsort(-sizes, kind="stable")
        rows, done = np.empty((len(order), 0)), 0
        running: tuple[Int[np.ndarray, " _"], PendingRows] | None = None
        failed: list[Int[np.ndarray, " _"]] = []  # batches for which memory ran out at the end

        def store_rows(batch: Int[np.ndarray, " _"], batch_rows: Float[np.ndarray, "_ C"]) -> None:
            """Store the rows of a batch."""
            nonlocal rows
            # One array for all rows: small arrays between large ones would fragment the memory.
            if not rows.shape[1]:
                rows = np.empty((len(order), batch_rows.shape[1]))
            rows[batch] = batch_rows

        def finish(batch: Int[np.ndarray, " _"], pending: PendingRows) -> None:
            """Wait for the rows of a batch, or note that memory ran out for it."""
            try:
                batch_rows = pending() if callable(pending) else pending
            except (MemoryError, RuntimeError) as error:
                is_alone = len(order) == 1 and self._thread_count == 1
                if is_alone or not is_out_of_memory(error):
                    raise
                failed.append(batch)
                return
            store_rows(batch, batch_rows)
            with self._thread_change:
                self.calls, self.items = self.calls + 1, self.items + len(batch)
            # Progress counts model calls, and equal items were computed together.
            count_calls(len(batch) if copies is None else int(copies[batch].sum()))

        while done < len(order):
            batch = order[done : done + self._batch_length(sizes[order[done:]])]
            pending = None
            try:
                pending = compute(batch)
            except (MemoryError, RuntimeError) as error:
                is_alone = running is None and len(batch) == 1 and self._thread_count == 1
                if is_alone or not is_out_of_memory(error):
                    raise
            # The error is gone here, and with it the arrays that it kept in memory.
            if pending is None and running is None:
                if not self._wait_for_threads() and len(batch) > 1:
                    self._halve_batches(batch, sizes)
            else:
                done += 0 if pending is None else len(batch)
            # A device computes a batch while the next one is prepared here. If memory ran out for
            # the next one, it is started again when this batch has finished.
            if running is not None:
                finish(*running)
                running = None
            if callable(pending):
                running = batch, pending
            elif pending is not None:
                finish(batch, pending)
        if running is not None:
            finish(*running)
        for batch in failed:  # nothing else of this thread is in memory now
            if not self._wait_for_threads() and len(batch) > 1:
                self._halve_batches(batch, sizes)
            part_copies = None if copies is None else copies[batch]
            compute_part = partial(_compute_selected, compute, batch)
            store_rows(batch, self._compute_rows(sizes[batch], compute_part, part_copies))
        return rows

    def _wait_for_threads(self) -> bool:
        """Wait until no other thread computes; return whether there was one.

        Its batches may have taken the memory that a batch of this thread lacks.
        """
        with self._thread_change:
            if self._thread_count == 1:
                return False
            self._thread_count -= 1
            self._thread_change.notify_all()
            self._thread_change.wait_for(lambda: self._thread_count == 0)
            self._thread_count += 1
            return True

    def _halve_batches(self, batch: Int[np.ndarray, " _"], sizes: Int[np.ndarray, " n"]) -> None:
        """Make batches at most half as large as one for which memory ran out."""
        # For good: a limit that grew again would fail again, each time after a delay.
        self._max_batch_size = max(1, int(sizes[batch[0]])) * (len(batch) // 2)

    def _batch_length(self, sizes: Int[np.ndarray, " n"]) -> int:
        """Return the number of items of the next batch, given the sizes of the remaining items.

        The last two batches have similar lengths. A full batch and a few remaining items would
        leave a device idle.
        """
        if self._same_size:
            sizes = sizes[sizes == sizes[0]]  # the sizes are sorted
        count = len(sizes)
        largest = min(self._max_items, max(1, self._max_batch_size // max(int(sizes[0]), 1)))
        return largest if count >= 2 * largest else math.ceil(count / math.ceil(count / largest))


def _compute_selected(
    compute: Callable[[Int[np.ndarray, " _"]], PendingRows],
    selection: Int[np.ndarray, " _"],
    positions: Int[np.ndarray, " _"],
) -> PendingRows:
    """Return ``compute`` for some positions of a selection."""
    return compute(selection[positions])


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether ``error`` says that memory ran out, in Python or in torch (a RuntimeError)."""
    # The message is searched because the class of the error would need an import of torch.
    message = str(error).lower()
    is_named = "out of memory" in message or "allocate memory" in message
    return isinstance(error, MemoryError) or is_named


def call_function(
    function: Callable[[Any], Any],
    items: Any,
    *,
    who: str,
    item_text: Callable[[Any], str],
    advice: str = "",
) -> Any:
    """Return ``function(items)``; if it fails, raise an error that names an item at fault.

    Parameters
    ----------
    function
        Function from a sequence of items.
    items
        The sequence.
    who
        Name of the function, the subject of the error message.
    item_text
        Function from an item to its text in the error message.
    advice
        End of the error message if the function accepts every item by itself.

    Returns
    -------
    The result of ``function(items)``.

    Raises
    ------
    InputError
        If the function raises an error. An `InputError` of the function is raised as it is.
    """
    try:
        return function(items)
    # An error of limelight already names its text.
    except (MemoryError, InputError):
        raise
    except Exception as failure:
        if is_out_of_memory(failure):
            raise  # the engine repeats the call with fewer items
        error = failure
    if len(items) == 1:
        with name_failing_text(who, item_text(items[0])):
            raise error
    for i in range(len(items)):
        with name_failing_text(who, item_text(items[i])):
            function(items[i : i + 1])
    raise InputError(
        f"{who} fails on {len(items)} texts together, but on none alone. The first is "
        f"{quote_text(item_text(items[0]))} ({describe_error(error)}).{advice}"
    ) from error


@contextlib.contextmanager
def name_failing_text(who: str, text: str) -> Iterator[None]:
    """Replace errors in the block by an `InputError` that says that ``who`` failed on ``text``.

    Errors of limelight and of memory are raised as they are.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise InputError(
            f"{who} fails on the text {quote_text(text)} ({describe_error(error)})."
        ) from error


def describe_error(error: BaseException) -> str:
    """Return the class and message of an error as a clause of one line."""
    return truncate_line(f"{type(error).__name__}: {error}", 200).rstrip(".")


def quote_text(text: str) -> str:
    """Return a text in quotes on one line, truncated if it is long."""
    return repr(truncate_line(text, 80))


def joint_outputs(
    games: Sequence[Game], masks: Sequence[Bool[np.ndarray, "_ _d"]]
) -> list[Float[np.ndarray, "_ C"]] | None:
    """Return the outputs of several games from one model call; None if they cannot be joined.

    Games can be joined if they have the same object as their attribute ``join_key``. Then the
    method ``joint_call(games, masks)`` of the first game computes the outputs of all.
    """
    first: Any = games[0]
    join_key = getattr(first, "join_key", None)
    # By identity: joined games go in one batch through one network.
    if join_key is None or any(getattr(game, "join_key", None) is not join_key for game in games):
        return None
    outputs: list[Float[np.ndarray, "_ C"]] = first.joint_call(games, masks)
    return outputs
