#!/usr/bin/env python3
"""Change single lines of the code, and check that the tests fail.

Ten known mutants, which ``scripts/test --fast`` must find. Numbers choose some of them::

    scripts/mutants.py
    scripts/mutants.py 3 7

Random mutants of three packages. The tests of the package run with ``-x`` and a limit of
processor time, so that other work on the machine changes no outcome.
The seed and all mutants are stored in ``scripts/mutants.json``::

    scripts/mutants.py --random 60 --seed 47

The working tree is copied, and the copy is changed. At the start the copy must pass as it is.
"""

import argparse
import ast
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "scripts" / "mutants.json"
PACKAGES = ("theory", "sampling", "judging")
LIMIT = 60  # seconds of processor time per random mutant


class Mutant(NamedTuple):
    """A part of a file of ``src/limelight`` and its wrong replacement."""

    file: str
    right: str
    wrong: str
    start: int | None = None  # position in the file, if the part occurs several times

    def apply(self, code: str) -> str:
        """Return the code of the file with the replacement."""
        start = code.find(self.right) if self.start is None else self.start
        unique = self.start is not None or code.count(self.right) == 1
        if not unique or not code.startswith(self.right, start):
            raise SystemExit(f"{self.file} must contain {self.right!r} once. Change the mutant.")
        return code[:start] + self.wrong + code[start + len(self.right) :]


MUTANTS = (
    Mutant("theory/banzhaf.py", "(game, scores, error)", "(game, scores, 0 * error)"),
    Mutant(
        "sampling/masks.py",
        "(keys > last_removed[:, None])",
        "(keys >= last_removed[:, None])",
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


# Operators and names, each with its wrong replacement.
SWAPS = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "//", "**": "*", "@": "*",
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not",
    "is not": "is", "in": "not in", "not in": "in", "and": "or", "or": "and", "&": "|", "|": "&",
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "sum": "mean",
    "mean": "sum", "any": "all", "all": "any", "argmax": "argmin", "argmin": "argmax",
    "cumsum": "cumprod", "zeros": "ones", "ones": "zeros", "exp": "expm1", "log": "log1p",
    "log1p": "log", "expm1": "exp", "floor": "ceil", "ceil": "floor", "True": "False",
    "False": "True",
}  # fmt: skip
_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is", ast.IsNot: "is not",
    ast.In: "in", ast.NotIn: "not in", ast.And: "and", ast.Or: "or",
}  # fmt: skip


def list_mutants(file: str, code: str) -> list[Mutant]:
    """List all mutants of a file that change the operator, name or number at one position."""
    lines = code.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def position(row: int, column: int) -> int:
        return starts[row - 1] + len(lines[row - 1].encode()[:column].decode())

    def begin(node: ast.expr) -> int:
        return position(node.lineno, node.col_offset)

    def end(node: ast.expr) -> int:
        return position(node.end_lineno or 0, node.end_col_offset or 0)

    found = []
    for node in _walk_code(ast.parse(code)):
        for operator, left, right in _operators(node):
            gap = code[end(left) : begin(right)]
            if operator in gap and "#" not in gap:
                start = end(left) + gap.index(operator)
                found.append(Mutant(file, operator, SWAPS[operator], start))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            text = code[begin(node) : end(node)]
            number = str(node.value + 1) if not isinstance(node.value, bool) else ""
            found.append(Mutant(file, text, SWAPS.get(text, number), begin(node)))
        elif isinstance(node, ast.Attribute) and node.attr in SWAPS:
            found.append(Mutant(file, node.attr, SWAPS[node.attr], end(node) - len(node.attr)))
        elif isinstance(node, ast.Name) and node.id in SWAPS:
            found.append(Mutant(file, node.id, SWAPS[node.id], begin(node)))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert | ast.Not):
            text = {ast.USub: "-", ast.Invert: "~", ast.Not: "not"}[type(node.op)]
            found.append(Mutant(file, text, " " * len(text), begin(node)))
    return found


def _walk_code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except those of annotations and of messages."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") or isinstance(value, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _walk_code(child)


def _operators(node: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """Yield each operator of a node with the expressions on its left and right."""
    operators: Sequence[ast.AST]
    if isinstance(node, ast.BinOp):
        operators, operands = [node.op], [node.left, node.right]
    elif isinstance(node, ast.Compare):
        operators, operands = node.ops, [node.left, *node.comparators]
    elif isinstance(node, ast.BoolOp):
        operators, operands = [node.op] * (len(node.values) - 1), node.values
    elif isinstance(node, ast.AugAssign):
        operators, operands = [node.op], [node.target, node.value]
    else:
        return
    for operator, (left, right) in zip(operators, pairwise(operands), strict=True):
        if type(operator) in _OPERATORS:
            yield _OPERATORS[type(operator)], left, right


def draw_mutants(root: Path, count: int, seed: int) -> list[Mutant]:
    """Draw lines of the packages without replacement, and a mutant of each line."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for package in PACKAGES:
        for path in sorted((root / "src" / "limelight" / package).glob("*.py")):
            code, file = path.read_text("utf-8"), f"{package}/{path.name}"
            for mutant in list_mutants(file, code):
                line = code.count("\n", 0, mutant.start)
                by_line.setdefault((file, line), []).append(mutant)
    rng = random.Random(seed)
    return [rng.choice(by_line[line]) for line in rng.sample(sorted(by_line), count)]


def main() -> int:
    """Run the mutants and print their outcomes. Return 0 if each known mutant died."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", type=int, help="known mutants, 0 for none")
    parser.add_argument("--random", type=int, metavar="COUNT", help="draw mutants at random")
    parser.add_argument("--seed", type=int, default=47)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "limelight"
        _copy(copy)
        if options.random:
            return run_random(copy, options.random, options.seed)
        return run_known(copy, options.numbers or range(len(MUTANTS) + 1))


def run_known(copy: Path, numbers: Iterable[int]) -> int:
    """Run ``scripts/test --fast`` on known mutants. Return 0 if only the mutants fail."""
    unexpected = []
    command = [str(copy / "scripts" / "test"), "--fast", "-x"]
    for number in numbers:
        mutant = MUTANTS[number - 1] if number else None
        outcome = run_tests(copy, mutant, command)
        print(f"{number} {mutant.file if mutant else 'no mutant'}: {outcome}", flush=True)
        if not outcome.startswith("died" if mutant else "survived"):
            unexpected.append(number)
    print(f"unexpected: {unexpected}" if unexpected else "all as expected")
    return 1 if unexpected else 0


def run_random(copy: Path, count: int, seed: int) -> int:
    """Run the tests of the package on random mutants and store the outcomes."""
    options = ["-n", "0", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider"]
    head = ["git", "rev-parse", "HEAD"]  # of the code that was copied
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True).stdout.strip()

    def run(package: str, mutant: Mutant | None) -> str:
        command = [sys.executable, "-m", "pytest", *options, f"tests/{package}"]
        return run_tests(copy, mutant, command, limit=LIMIT)

    for package in PACKAGES:
        outcome = run(package, None)
        print(f"{package} without a mutant: {outcome}", flush=True)
        if not outcome.startswith("survived"):
            return 1
    rows: list[dict[str, object]] = []
    for mutant in draw_mutants(copy, count, seed):
        outcome = run(mutant.file.partition("/")[0], mutant)
        code = (copy / "src" / "limelight" / mutant.file).read_text("utf-8")
        line = code.count("\n", 0, mutant.start)
        source = code.splitlines()[line].strip()
        change = f"{mutant.right.strip()} → {mutant.wrong.strip()}"
        row = {"file": mutant.file, "line": line + 1, "source": source, "change": change}
        rows.append({**row, "outcome": outcome.partition(" ")[0]})
        print(f"{mutant.file}:{line + 1}: {change}: {outcome}", flush=True)
    counts = Counter(row["outcome"] for row in rows)
    survivors = [row for row in rows if row["outcome"] != "died"]
    result = {"seed": seed, "commit": commit, "limit": LIMIT, **counts}
    text = json.dumps({**result, "survivors": survivors}, indent=2, ensure_ascii=False)
    part = STORED.with_suffix(".part")
    part.write_text(text + "\n", "utf-8")
    part.replace(STORED)
    print(f"{dict(counts)}: see {STORED.relative_to(ROOT)}")
    return 0


def run_tests(
    copy: Path, mutant: Mutant | None, command: list[str], limit: int | None = None
) -> str:
    """Run tests on the copy with a mutant, and describe the outcome.

    A mutant is dead if a test failed, or if all tests of its module could not be imported. The
    limit is in seconds of processor time. Tests that only wait end after ten times as long.
    """

    def set_limit() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))

    if mutant:
        file = copy / "src" / "limelight" / mutant.file
        file.write_text(mutant.apply(file.read_text("utf-8")), "utf-8")
    start = time.monotonic()
    paths = os.pathsep.join([str(copy / "src"), str(copy / "reproduction" / "src")])
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix, "PYTHONPATH": paths}
    process = subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, start_new_session=True, preexec_fn=set_limit,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit and 10 * limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the tests and the processes that they started
        output = process.communicate()[0]
    subprocess.run(["git", "checkout", "-q", "."], cwd=copy, check=True)
    first = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))][:1]
    if process.returncode < 0:
        outcome = "timeout"
    elif process.returncode == 0:
        outcome = "survived"
    else:  # an interrupt, or no tests at all, is no death
        outcome = "died" if first else f"status {process.returncode}"
    return f"{outcome} after {time.monotonic() - start:.0f} s {' '.join(first)}"


def _copy(copy: Path) -> None:
    """Copy the files that git knows or would know, as a repository of one commit."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    if (data := ROOT.parent / "shared").exists():
        (copy.parent / "shared").symlink_to(data.resolve())
    author = ["-c", "user.name=mutants", "-c", "user.email=mutants@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "As it is"]):
        subprocess.run(["git", *author, *command], cwd=copy, check=True)


if __name__ == "__main__":
    sys.exit(main())
