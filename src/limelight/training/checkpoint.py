"""A training run on disk: one safetensors file with every array, and the rest as JSON in its head.

One file, written whole: weights and counters can never be out of step. Never pickle.
"""

__all__ = ["CHECKPOINT", "Checkpoint"]

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from limelight.errors import InputError
from limelight.files import write_whole
from limelight.training.state import TrainingState

CHECKPOINT = "checkpoint.safetensors"


@final
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a run saves its state, and the arguments that a run must share to continue it."""

    folder: Path
    arguments: dict[str, Any]
    minutes: float = 5.0

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / CHECKPOINT

    def save(self, state: TrainingState) -> None:
        """Write ``state``; where that fails, the checkpoint before it stays."""
        notes = json.dumps({"arguments": self.arguments, **state.notes()})
        try:
            write_whole(self.path, save(state.tensors(), metadata={"limelight": notes}))
        except OSError as error:
            kept = "; the one before it is kept" if self.path.exists() else ""
            raise InputError(
                f"the checkpoint '{self.path}' could not be written "
                f"({(error.strerror or str(error)).lower()}){kept}. "
                "Make room, then run the same command to continue."
            ) from None

    def restore(self, state: TrainingState) -> bool:
        """Bring ``state`` to where the checkpoint left off; say whether there was one."""
        if not self.path.exists():
            return False
        try:
            with safe_open(self.path, framework="numpy") as file:
                notes = json.loads((file.metadata() or {})["limelight"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            self._check(notes.pop("arguments"))
            state.restore(tensors, notes)
        except (SafetensorError, KeyError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"the checkpoint '{self.path}' is damaged ({error}); start over with --fresh."
            ) from None
        return True

    def _check(self, saved: dict[str, Any]) -> None:
        now = json.loads(json.dumps(self.arguments))
        changed = [name for name in {**saved, **now} if saved.get(name) != now.get(name)]
        if changed:
            told = ", ".join(f"{n} was {saved.get(n)}, now {now.get(n)}" for n in changed)
            raise InputError(
                f"the run in '{self.folder}' was started with other arguments ({told}); "
                "give the same to continue it, or start over with --fresh."
            )
