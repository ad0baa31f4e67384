"""What takes a while and is needed once: computed by a thread, asked for while it is under way."""

__all__ = ["Prepared"]

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar

from limelight.errors import InputError

T = TypeVar("T")


class Prepared(Generic[T]):
    """A value that is computed when somebody first asks; ``share`` says how far that is."""

    def __init__(self, compute: Callable[[Callable[[float], None]], T]) -> None:
        self._compute, self._lock = compute, threading.Lock()
        self._begun, self._found = False, list[T]()
        self.share, self.failed = 0.0, ""

    def now(self) -> T | None:
        """Return the value if it is there, else None; the first call sets a thread to work."""
        with self._lock:
            if not self._begun:
                self._begun = True
                threading.Thread(target=self._work, name="limelight-prepare", daemon=True).start()
        if self.failed:
            raise InputError(self.failed)
        return self._found[0] if self._found else None

    def _work(self) -> None:
        try:
            self._found.append(self._compute(self._report))
        except (InputError, OSError) as error:
            self.failed = str(error)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self.failed = f"this could not be computed: {type(error).__name__}: {error}"

    def _report(self, share: float) -> None:
        self.share = share
