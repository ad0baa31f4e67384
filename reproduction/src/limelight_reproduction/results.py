"""Numbers on disk: those of a run, and those of the full run that the package carries."""

__all__ = [
    "STORED",
    "Measured",
    "Results",
    "as_json",
    "part_file",
    "read_part",
    "stored",
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
class Measured:
    """The numbers of one part and where they come from."""

    numbers: Numbers
    quick: bool
    seed: int
    seconds: float
    limelight: str
    """Version of the limelight that measured them."""
    commit: str
    """Git commit of the run that measured them, as `limelight.provenance.source_stamp` says it."""
    made_by: str
    """Version of torch, and device."""
    version: int = 1
    """Of the part that measured them."""
    stored: bool = False
    """Whether they are not of this run but of the full run that the package carries."""
    inputs: Mapping[str, str] | None = None
    """Fingerprints of the models and texts they were measured on; None where nobody noted them."""

    def plain(self) -> dict[str, Any]:
        """Return what JSON holds."""
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
        """Return the version and the commit, as `limelight.provenance` describes them."""
        return {"limelight": self.limelight, "commit": self.commit}

    def serves(self, part: Part, *, quick: bool, seed: int) -> bool:
        """Whether a run with these settings may keep the numbers: full ones serve any run."""
        same = self.seed == seed and self.version == part.version
        return same and (quick or not self.quick)

    def is_of(self, fingerprint: Callable[[str], str]) -> bool:
        """Whether the models and texts they were measured on are those of ``fingerprint``."""
        if self.inputs is None:
            return False
        try:
            return all(fingerprint(name) == known for name, known in self.inputs.items())
        except InputError:  # a text or model that is not here any more
            return False


# The parts of every experiment, by their names.
Results = dict[str, dict[str, Measured]]


def part_file(output: Path, experiment: Experiment, part: Part) -> Path:
    """Return where a run keeps the numbers of a part."""
    return output / "parts" / f"{experiment.name}.{part.name}.json"


def write_part(path: Path, measured: Measured) -> None:
    """Write the numbers of a part, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(measured.plain(), ensure_ascii=False) + "\n")


def read_part(path: Path) -> Measured | None:
    """Return the numbers at ``path``, None where there are none."""
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text("utf-8"))
        if isinstance(found["numbers"], dict):
            return Measured(**found)
    except (ValueError, TypeError, KeyError):
        pass
    raise InputError(f"'{path}' holds no results of this version; delete it to measure again.")


@cache
def stored() -> Results:
    """Return the results that the package carries."""
    if not STORED.exists():
        return {}
    experiments = json.loads(STORED.read_text("utf-8"))["experiments"]
    return {
        name: {part: Measured(**one | {"stored": True}) for part, one in parts.items()}
        for name, parts in experiments.items()
    }


def as_json(results: Results) -> str:
    """Return ``results`` as the text of ``results.json``: a line for every part."""
    blocks = []
    for name, parts in results.items():
        lines = [
            f"   {json.dumps(part)}: {json.dumps(one.plain(), ensure_ascii=False)}"
            for part, one in parts.items()
        ]
        blocks.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return (
        '{"format": "limelight.reproduction/1", "experiments": {\n' + ",\n".join(blocks) + "\n}}\n"
    )
