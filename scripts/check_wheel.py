#!/usr/bin/env python3
"""Check what a user gets: build the wheel, install it alone in a new environment, use it there.

Needs python3 and an index to install from; leaves nothing behind. Prints the size of the wheel and
of the environment, and every fault in one sentence; the exit status is 1 if there is any.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

BIN = "Scripts" if os.name == "nt" else "bin"
ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
# Heavier than all the rest together: `pip install .` must never bring one of them.
HEAVY = {"torch", "scipy", "matplotlib", "transformers"}
NOT_SHIPPED = {"tests", "experiments", "reproduction", "benchmarks", "docs", "scripts"}
SECONDS = 60

DISTRIBUTIONS = """
from importlib.metadata import distributions
print(*(distribution.metadata["Name"] for distribution in distributions()))
"""
COMMANDS = "from limelight.cli import COMMANDS; print(*COMMANDS)"
# Any other error than that of a missing extra ends in a traceback, which is found by the caller.
PUBLIC_NAMES = """
import limelight
from limelight.errors import MissingExtraError
for name in limelight.__all__:
    try:
        getattr(limelight, name)
    except MissingExtraError as missing:
        assert str(missing).count("\\n") == 0 and str(missing).endswith("."), str(missing)
        print(f"{name}: {missing}")
print(len(limelight.__all__))
"""
# Pages need templates, style sheets and bundled scripts, which travel with the package.
PAGES = """
import limelight
from limelight.live import live_page
model = limelight.load()
e = limelight.explain(model, "a superb film")
print(len(e.to_html()), len(e.to_html(fragment=True)), len(live_page(model)))
"""


def main() -> int:
    """Build, install, use; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="check-wheel-") as folder:
        faults = list(_faults(Path(folder)))
    for fault in faults:
        print(f"fault: {fault}")
    return 1 if faults else 0


def _faults(folder: Path) -> Iterator[str]:
    # pip lives in an environment of its own, so that the bare one holds what limelight needs alone.
    venv.create(folder / "pip", with_pip=True)
    venv.create(folder / "bare", with_pip=False)
    pip = [str(folder / "pip" / BIN / "python"), "-m", "pip", "-qq"]
    bare = folder / "bare" / BIN

    _pip(*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    print(f"wheel: {wheel.stat().st_size / 1e6:.1f} MB")
    with zipfile.ZipFile(wheel) as shipped:
        yield from wrongly_shipped(shipped.namelist())
        scripts = [name for name in shipped.namelist() if name.endswith(".js")]
        yield from wrongly_bundled({name: shipped.read(name).decode() for name in scripts})

    _pip(*pip, "--python", str(bare / "python"), "install", str(wheel))
    print(f"environment: {size(folder / 'bare') / 1e6:.0f} MB")
    python = [str(bare / "python"), "-I", "-c"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    installed = _output([*python, DISTRIBUTIONS], folder)
    yield from wrongly_installed(installed.split(), project)

    limelight = str(bare / "limelight")
    verbs = _output([*python, COMMANDS], folder).split()
    first = demo_command((ROOT / "scripts" / "demo").read_text("utf-8"))
    for words in (first, ["limelight", "--help"], *(["limelight", v, "--help"] for v in verbs)):
        yield from wrongly_run(shlex.join(words), [limelight, *words[1:]], folder)
    yield from wrongly_run("using every public name", [*python, PUBLIC_NAMES], folder)
    yield from wrongly_run("making pages", [*python, PAGES], folder)
    print(f"ran: {shlex.join(first)}, the help of {len(verbs)} commands, all public names, pages")


def demo_command(script: str) -> list[str]:
    """Return the last limelight command of scripts/demo that has a sentence, as its words."""
    commands = re.findall(r'^limelight .*"$', script, re.MULTILINE)
    if not commands:
        raise SystemExit("scripts/demo must explain a sentence with a limelight command.")
    return shlex.split(commands[-1])


def wrongly_shipped(names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each folder in a wheel that is no business of a user's."""
    folders = {tuple(name.split("/")[:-1]) for name in names}
    tops = {folder[0] for folder in folders if folder and not folder[0].endswith(".dist-info")}
    if len(tops) != 1:
        yield f"the wheel must hold one package; it holds {', '.join(sorted(tops))}."
    found = {
        "/".join(folder[: place + 1])
        for folder in folders
        for place, part in enumerate(folder)
        if part in NOT_SHIPPED
    }
    for path in sorted(found):
        yield f"the wheel contains {path}."


def wrongly_bundled(scripts: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each script in a wheel that is not in one piece."""
    if not scripts:
        yield "the wheel has no scripts."
    for name, content in sorted(scripts.items()):
        if re.search(r"^(?:import|export)\b", content, re.MULTILINE):
            yield f"{name} is not bundled."


def wrongly_installed(installed: Iterable[str], project: dict) -> Iterator[str]:
    """Yield a sentence for each package that is installed but heavy, or for an extra to bring."""
    core = {_name(requirement) for requirement in project["dependencies"]} | {project["name"]}
    extras = project.get("optional-dependencies", {}).values()
    optional = {_name(requirement) for extra in extras for requirement in extra} - core
    for name in sorted({_name(name) for name in installed} & (HEAVY | optional)):
        yield f"{name} is installed without any extra."


def _name(requirement: str) -> str:
    """Return the normal form of the name that a requirement starts with."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement.strip())[0]).lower()


def wrongly_run(label: str, command: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield a sentence if a command fails, says nothing or shows a traceback."""
    try:
        done = _run(command, folder)
    except subprocess.TimeoutExpired:
        yield f"{label} took more than {SECONDS} seconds."
        return
    if done.returncode or "Traceback" in done.stdout + done.stderr:
        yield f"{label} left with {done.returncode}:\n{done.stdout}{done.stderr}"
    elif not done.stdout.strip():
        yield f"{label} printed nothing."


def size(folder: Path) -> int:
    """Return the bytes of all files under ``folder``; of a link, not what it leads to."""
    files = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return sum(file.lstat().st_size for file in files)


def _pip(*command: str) -> None:
    # The second constraint is for the environment in which pip builds; older ones heed the first.
    constraints = dict.fromkeys(["PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"], str(CONSTRAINTS))
    environment = {**os.environ, **constraints, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if subprocess.run(command, env=environment).returncode:
        raise SystemExit(f"pip could not do this: {shlex.join(command)}")


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in ``folder``, where no source of ours is in reach."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )


def _output(command: Sequence[str], folder: Path) -> str:
    done = _run(command, folder)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
