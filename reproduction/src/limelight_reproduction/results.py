"""Numbers on disk: those of a run, and those of the full run that the package includes."""

__all__ = [
    "STORED",
    "PartResult",
    "Results",
    "load_stored_results",
    "part_path",
    "read_part",
    "results_to_json",
    "write_part",
]

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

from limelight import InputError
from limelight.files import write_atomically
from limelight_reproduction.experiment import Experiment, Numbers, Part

STORED = Path(__file__).parent / "results.json"


@final
@dataclass(frozen=True, kw_only=True)
class PartResult:
    """The numbers of one part and where they come from."""

    numbers: Numbers
    quick: bool
    seed: int
    seconds: float
    limelight: str
    """Version of limelight that measured them."""
    commit: str
    """Git commit of that limelight, as `limelight.provenance.source_stamp` writes it."""
    made_by: str
    """Version of torch, and the device."""
    version: int = 1
    """Version of the part that measured them."""
    stored: bool = False
    """Whether they come from the full run that the package includes, not from this run."""
    inputs: Mapping[str, str] | None = None
    """Fingerprints of the models and texts that were measured; None if they are not recorded."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON stores them."""
        return {
            "stored": self.stored,
            "version": self.version,
            "quick": self.quick,
            "seed": self.seed,
            "seconds": self.seconds,
            "limelight": self.limelight,
            "commit": self.commit,
            "made_by": self.made_by,
            "inputs": self.inputs,
            "numbers": self.numbers,
        }

    @property
    def stamp(self) -> dict[str, str]:
        """Return the version and the commit in the form of `limelight.provenance`."""
        return {"limelight": self.limelight, "commit": self.commit}

    def is_reusable(self, part: Part, *, quick: bool, seed: int) -> bool:
        """Whether a run with these settings may keep the numbers.

        Numbers of a full run may be kept by a quick run, but not the reverse.
        """
        same_setting = self.seed == seed and self.version == part.version
        return same_setting and (quick or not self.quick)

    def matches_inputs(self, fingerprint: Callable[[str], str]) -> bool:
        """Whether the current models and texts have the fingerprints of the measured ones.

        ``fingerprint`` returns the current fingerprint of an input by its name.
        """
        if self.inputs is None:
            return False
        try:
            return all(fingerprint(name) == digest for name, digest in self.inputs.items())
        except InputError:  # a text or model that does not exist any more
            return False


# The parts of every experiment, by their names.
Results = dict[str, dict[str, PartResult]]


def part_path(output: Path, experiment: Experiment, part: Part) -> Path:
    """Return the path where a run saves the numbers of a part."""
    return output / "parts" / f"{experiment.name}.{part.name}.json"


def write_part(path: Path, result: PartResult) -> None:
    """Write the numbers of a part atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(result.to_dict(), ensure_ascii=False) + "\n")


def read_part(path: Path) -> PartResult | None:
    """Read the numbers of a part; return None if the file does not exist."""
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text("utf-8"))
        if isinstance(record["numbers"], dict):
            return PartResult(**record)
    except (ValueError, TypeError, KeyError):
        pass
    raise InputError(f"'{path}' has no results of this version. Delete it to measure again.")


@cache
def load_stored_results() -> Results:
    """Load the results that the package includes."""
    if not STORED.exists():
        return {}
    experiments = json.loads(STORED.read_text("utf-8"))["experiments"]
    return {
        name: {part: PartResult(**record | {"stored": True}) for part, record in parts.items()}
        for name, parts in experiments.items()
    }


def results_to_json(results: Results) -> str:
    """Return the content of ``results.json`` for ``results``, with a line for every part."""
    blocks = []
    for name, parts in results.items():
        lines = [
            f"   {json.dumps(part)}: {json.dumps(result.to_dict(), ensure_ascii=False)}"
            for part, result in parts.items()
        ]
        blocks.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return (
        '{"format": "limelight.reproduction/1", "experiments": {\n' + ",\n".join(blocks) + "\n}}\n"
    )
