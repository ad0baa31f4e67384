"""python -m fast_tests [REV] [arguments of pytest]; see scripts/test."""

import os
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath

from fast_tests.checkout import Checkout
from fast_tests.selection import (
    Chosen,
    Project,
    chosen,
    nearest,
    nearest_to_each,
    projects_of,
    reaching_every_test,
    smoke,
    tests_of,
)

ROOT = Path(__file__).resolve().parents[2]
# Forty, less what the last tests may take; and what is granted if the start has taken too long.
SECONDS = 30
LEAST = 15
LINES = 20
NO_TESTS = 5


def main() -> int:
    """Choose the tests, say which and why, and run them; return pytest's exit status."""
    until = time.time() + SECONDS
    since, arguments = _revision(sys.argv[1:])
    paths = _git("diff", "--name-only", "--no-renames", "-z", "--merge-base", since)
    paths |= _git("ls-files", "--others", "--exclude-standard", "-z")
    changed = sorted(map(PurePosixPath, paths))
    checkout = Checkout(ROOT, _git("ls-files", "-z") | paths)
    projects = projects_of(checkout)
    concerned = chosen(checkout, changed, projects)
    always = nearest_to_each(checkout, changed, projects)
    kept = {choice.test for choice in always}
    choices = [*always, *(choice for choice in nearest(concerned) if choice.test not in kept)]
    _tell(since, changed, choices, len(always))
    outcome = _outcome(checkout, projects, choices, kept, arguments, until)
    total = sum(len(tests_of(checkout, project)) for project in projects)
    print(
        f"\n== left out: slow tests, test files further away ({len(concerned) - len(choices)}) and"
        f" test files that do not use what has changed ({total - len(concerned)})"
    )
    if everywhere := reaching_every_test(changed, projects):
        print(f"{', '.join(map(str, everywhere))} may change any test.")
    print("Run scripts/test for all.")
    return outcome


def _revision(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the revision to compare with, and the other arguments."""
    if arguments and not arguments[0].startswith("-") and not (ROOT / arguments[0]).exists():
        question = ["git", "rev-parse", "--verify", "--quiet", f"{arguments[0]}^{{commit}}"]
        if subprocess.run(question, cwd=ROOT, stdout=subprocess.DEVNULL).returncode == 0:
            return arguments[0], arguments[1:]
    return "HEAD", arguments


def _git(*arguments: str) -> set[str]:
    """Return the paths that a git command lists, separated by NUL."""
    answer = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8")
    if answer.returncode:
        sys.exit("scripts/test --fast asks git what has changed, and git could not say.")
    return set(filter(None, answer.stdout.split("\0")))


def _tell(since: str, changed: list[PurePosixPath], choices: list[Chosen], always: int) -> None:
    print(f"\n== changed since {since}: {len(changed)} {'file' if len(changed) == 1 else 'files'}")
    for file in changed[:LINES]:
        print(f"  {file}")
    if len(changed) > LINES:
        print(f"  and {len(changed) - LINES} more")
    print(f"\n== the smoke tests and {len(choices)} test files, for {SECONDS} seconds")
    width = max((len(str(choice.test)) for choice in choices), default=0)
    for i, choice in enumerate(choices):
        print(f"  {choice.test!s:{width}}  {choice.why}{' (to its end)' if i < always else ''}")
    if changed and not always:
        print("  no test file uses what has changed")
    sys.stdout.flush()


def _outcome(
    checkout: Checkout,
    projects: list[Project],
    choices: list[Chosen],
    kept: set[PurePosixPath],
    arguments: list[str],
    until: float,
) -> int:
    """Run the tests of each project, that of the nearest test first; return the worst status.

    The test files in ``kept`` are run to their end, also when no time is left.
    """
    code = [ROOT / folder for project in projects for folder in project.code]
    outcomes = []
    for project in dict.fromkeys([*(choice.project for choice in choices), *projects]):
        files = [str(choice.test) for choice in choices if choice.project == project]
        always = [t for t in smoke(checkout, project) if t.partition("::")[0] not in files]
        tests = [os.path.relpath(test, project.folder) for test in [*always, *files]]
        whole = [
            os.path.relpath(file, project.folder) for file in files if PurePosixPath(file) in kept
        ]
        if outcomes and not whole and time.time() > until:
            print(f"\n== no time left for the tests of {project.folder}")
        elif tests:
            limits = [f"--until={until}", f"--least={0 if outcomes else LEAST}"]
            limits += [f"--always={file}" for file in whole]
            outcomes.append(_pytest(ROOT / project.folder, code, [*limits, *arguments, *tests]))
    return max((outcome for outcome in outcomes if outcome != NO_TESTS), default=NO_TESTS)


def _pytest(folder: Path, code: list[Path], arguments: list[str]) -> int:
    """Run pytest in ``folder``; this checkout's code comes before what is installed.

    One test at a time is handed to a worker, so that the order holds.
    """
    paths = [Path(__file__).parents[1], *code, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    options = ["-p", "fast_tests.deadline", "-m", "not slow", "-q"]
    options += ["--dist=load", "--maxschedchunk=1"]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    return subprocess.run(command, cwd=folder, env=environment).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
