"""Kill a command before each of its changes of files, run it again, and compare the results.

``python kill_at_write.py FOLDER ARGUMENTS…`` runs ``limelight ARGUMENTS…`` in FOLDER. Every child
is forked from this process, which has imported everything and computed nothing, so a run is quick.
Prints one JSON object: how often the command was killed, and what differed afterwards.
"""

import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path

# What a killed child would otherwise import anew, in every child.
IMPORTED = (
    "sympy", "limelight", "limelight.cli.explain", "limelight.cli.judge", "limelight.cli.train",
    "limelight.training", "limelight.judging.judge_methods", "limelight.runs.job",
)  # fmt: skip
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.link"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
MOST_KILLS = 500


def kill_before_change(number: int, folder: Path) -> None:
    """Make this process kill itself before its ``number``-th change of a file below ``folder``."""
    before = str(folder)
    remaining = number

    def hook(event: str, arguments: tuple) -> None:
        nonlocal remaining
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & WRITING:
                return
        elif event in CHANGES:
            path = arguments[0]
        else:
            return
        if isinstance(path, int) or not str(Path.cwd() / os.fsdecode(path)).startswith(before):
            return
        remaining -= 1
        if remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def run_forked(arguments: list[str], folder: Path, *, kill_at: int | None = None) -> int:
    """Run the command in a child process and return its exit code, negative if it was killed."""
    child = os.fork()
    if not child:
        os.chdir(folder)
        with Path(os.devnull).open("w") as silence, (folder / "errors").open("w") as errors:
            os.dup2(silence.fileno(), 1)
            os.dup2(errors.fileno(), 2)
        if kill_at is not None:
            kill_before_change(kill_at, folder / "out")
        code = 1
        try:
            from limelight.cli import main

            main(arguments)
        except SystemExit as end:
            code = end.code or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def contents(folder: Path) -> dict[str, str]:
    """Return the digest of every file below ``folder``, without the times that files record."""
    digests = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.suffix == ".json":
            content = json.dumps(drop_times(json.loads(content)), sort_keys=True).encode()
        digests[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return digests


def drop_times(value):
    """Return a JSON value without its entries that depend on the clock."""
    if isinstance(value, dict):
        timed = ("seconds", "created", "sha256")
        return {name: drop_times(part) for name, part in value.items() if name not in timed}
    return [drop_times(part) for part in value] if isinstance(value, list) else value


def main() -> None:
    """Kill, run again, compare."""
    folder, arguments = Path(sys.argv[1]).resolve(), sys.argv[2:]
    for name in IMPORTED:
        importlib.import_module(name)
    importlib.import_module(
        "limelight.training.fitting"
    )._EPOCHS = 2  # what is learned is not judged
    before = folder / "before"  # what the output folder holds at the start, if anything

    def start_anew() -> None:
        shutil.rmtree(folder / "out", ignore_errors=True)
        shutil.copytree(before, folder / "out") if before.exists() else (folder / "out").mkdir()

    start_anew()
    if code := run_forked(arguments, folder):
        raise SystemExit(f"the command failed with {code}: {(folder / 'errors').read_text()}")
    expected, differences = contents(folder / "out"), {}
    for number in range(1, MOST_KILLS):
        start_anew()
        if run_forked(arguments, folder, kill_at=number) != -signal.SIGKILL:
            break
        if code := run_forked(arguments, folder):
            differences[number] = f"exit {code}: {(folder / 'errors').read_text()}"
        elif (again := contents(folder / "out")) != expected:
            names = {name for name, _ in again.items() ^ expected.items()}
            differences[number] = f"other files: {', '.join(sorted(names))}"
    print(json.dumps({"kills": number - 1, "files": [*expected], "differences": differences}))


if __name__ == "__main__":
    main()
