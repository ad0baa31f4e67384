#!/usr/bin/env python3
"""Ten wrong lines in ten packages: each must make ``scripts/test --fast`` fail.

The working tree is copied, and in the copy one line at a time is made wrong. Numbers choose some of
the mutants: ``scripts/mutants.py 3 7``. Without any, the copy as it is must pass first.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """A piece of code that stands once in a file of ``src/limelight``, and a wrong one."""

    file: str
    right: str
    wrong: str


MUTANTS = (
    Mutant("theory/banzhaf.py", "(game, scores, error)", "(game, scores, 0 * error)"),
    Mutant(
        "sampling/masks.py",
        "(place > last_removed[:, None])",
        "(place >= last_removed[:, None])",
    ),
    Mutant(
        "models/attention/classifier.py",
        "(N / D[:, None]).mean(axis=-1)",
        "(N / D[:, None]).sum(axis=-1)",
    ),
    Mutant(
        "results/comparison.py",
        "max(noise, _SINGLE_PRECISION * size)",
        "min(noise, _SINGLE_PRECISION * size)",
    ),
    Mutant("rendering/wording.py", "0 < probability < 0.001", "0 <= probability < 0.001"),
    Mutant("explainers/target_game.py", "self.output_game(keep))", "self.output_game(~keep))"),
    Mutant("data/labels.py", "spread / (4 * total)", "spread / (2 * total)"),
    Mutant("judging/removals.py", "std(axis=1, ddof=1)", "std(axis=1, ddof=0)"),
    Mutant(
        "runs/statistics.py",
        "spread / np.maximum(self.texts - 1, 1)",
        "spread / np.maximum(self.texts, 1)",
    ),
    Mutant("training/loop.py", "(0.04 + 0.96 * rising)", "(0.04 + 0.96) * rising"),
)


def main() -> int:
    """Try the mutants and say of each whether it died; return 0 if all did."""
    chosen = [int(number) for number in sys.argv[1:]] or range(len(MUTANTS) + 1)
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "limelight"
        _copy(copy)
        for number in chosen:
            mutant = MUTANTS[number - 1] if number else None
            if not _as_wanted(copy, mutant, f"{number} {mutant.file if mutant else 'no mutant'}"):
                survived.append(number)
    print(f"not as wanted: {survived}" if survived else "all as wanted")
    return 1 if survived else 0


def _copy(copy: Path) -> None:
    """Copy the files that git knows or would know, as a repository of one commit."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    author = ["-c", "user.name=mutants", "-c", "user.email=mutants@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "As it is"]):
        subprocess.run(["git", *author, *command], cwd=copy, check=True)


def _as_wanted(copy: Path, mutant: Mutant | None, name: str) -> bool:
    """Run the quick tests on a mutant, or without one; say whether they saw what they must."""
    file = copy / "src" / "limelight" / mutant.file if mutant else None
    if file is not None and mutant is not None:
        code = file.read_text("utf-8")
        if code.count(mutant.right) != 1:
            print(f"{name}: {mutant.right!r} must stand there once; choose another mutant")
            return False
        file.write_text(code.replace(mutant.right, mutant.wrong), "utf-8")
    start = time.monotonic()
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix, "PYTHONPATH": ""}
    # Stop at the first failure: it is all that a mutant is asked for.
    command = [copy / "scripts" / "test", "--fast", "-x"]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    subprocess.run(["git", "checkout", "-q", "."], cwd=copy, check=True)
    first = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))][:1]
    died = done.returncode != 0 and bool(first)  # not an interrupt or no tests at all
    outcome = (
        "died" if died else "survived" if done.returncode == 0 else f"status {done.returncode}"
    )
    print(f"{name}: {outcome} after {time.monotonic() - start:.0f} s {' '.join(first)}", flush=True)
    return died if mutant else done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
