"""Which test files a change concerns, nearest first."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from fast_tests.checkout import Checkout, uses, ways

__all__ = [
    "SMOKE",
    "Chosen",
    "Project",
    "chosen",
    "nearest",
    "nearest_to_each",
    "projects_of",
    "reaching_every_test",
    "smoke",
]

SMOKE = "pytest.mark.smoke"
SLOW = "pytest.mark.slow"
# What is further away than two steps rarely fails alone: it is taken only to fill up to the fewest.
# More than the most would not be reached in time, but importing them would take part of it.
_NEAR = 2
_FEWEST, _MOST = 12, 30
# After two steps come the tests that only stand in the folder of what has changed.
_FOLDER_ONLY = 3
# Of this many changed files each has its nearest test file run, whatever the time.
_EACH = 4


@dataclass(frozen=True)
class Project:
    """A folder with pytest's settings: where its tests and its installed code are."""

    folder: PurePosixPath
    tests: tuple[PurePosixPath, ...]
    code: tuple[PurePosixPath, ...]


@dataclass(frozen=True)
class Chosen:
    """A test file, how many steps it is away from what has changed, and why it is chosen."""

    project: Project
    test: PurePosixPath
    steps: int
    why: str


def projects_of(checkout: Checkout) -> list[Project]:
    """Return the projects of a checkout: each pyproject.toml that has settings for pytest."""
    found = []
    for file in sorted(checkout.files):
        if file.name != "pyproject.toml" or not (checkout.root / file).exists():
            continue
        tool = tomllib.loads((checkout.root / file).read_text("utf-8")).get("tool", {})
        settings = tool.get("pytest", {})
        settings = settings.get("ini_options", settings)
        if settings:
            wheel = tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
            found.append(
                Project(
                    file.parent,
                    tuple(file.parent / path for path in settings.get("testpaths", ["."])),
                    tuple(file.parent / PurePosixPath(p).parent for p in wheel.get("packages", [])),
                )
            )
    return found


def tests_of(checkout: Checkout, project: Project) -> list[PurePosixPath]:
    """Return the test files of a project."""
    return sorted(
        file
        for file in checkout.sources
        if file.name.startswith("test_")
        and any(folder in file.parents for folder in project.tests)
        and (checkout.root / file).exists()
    )


def smoke(checkout: Checkout, project: Project) -> list[str]:
    """Return what always runs: test files and single tests that are marked as smoke tests."""
    found = []
    for file in tests_of(checkout, project):
        source = checkout.sources[file]
        if SMOKE in source.marks:
            found.append(str(file))
        else:
            found += [f"{file}::{name}" for name, marks in source.marked.items() if SMOKE in marks]
    return found


def chosen(
    checkout: Checkout, changed: Iterable[PurePosixPath], projects: Iterable[Project]
) -> list[Chosen]:
    """Return the test files that ``changed`` concerns, nearest first.

    Near is a test that has changed itself, then one that uses a changed file directly or reaches it
    from the folder of the same name, then one at two steps, and so on. Of equally near ones those
    come first whose names are alike, then those that use little else.
    """
    changed = sorted(changed)
    used = uses(checkout)
    found = ways(used, changed)
    ranked = []
    for project in projects:
        for test in tests_of(checkout, project):
            near = [file for file in changed if _mirrors(project, test, file)]
            kinship = max((_kinship(test, file) for file in near), default=0.0)
            way = found.get(test, ())
            if way or near:
                steps, why = _reason(way, near)
                rank = (steps, -kinship, not near, len(way), len(used[test]), test)
                ranked.append((rank, Chosen(project, test, steps, why)))
    return [choice for _, choice in sorted(ranked, key=lambda pair: pair[0])]


def nearest(choices: list[Chosen]) -> list[Chosen]:
    """Return the first of ``choices``: those that are near, neither too few nor too many."""
    near = sum(choice.steps <= _NEAR for choice in choices)
    return choices[: min(max(near, _FEWEST), _MOST)]


def nearest_to_each(
    checkout: Checkout, changed: Iterable[PurePosixPath], projects: Iterable[Project]
) -> list[Chosen]:
    """Return the test file that is nearest to each of the first few of ``changed``.

    A file whose tests are all slow is none: its tests are left out.
    """
    found = {}
    for file in sorted(changed):
        if len(found) == _EACH:
            break
        for choice in chosen(checkout, [file], projects):
            source = checkout.sources[choice.test]
            quick = [n for n, marks in source.marked.items() if SLOW not in marks]
            if SLOW not in source.marks and any(name.startswith("test") for name in quick):
                found.setdefault((choice.project, choice.test), choice)
                break
    return list(found.values())


def _kinship(test: PurePosixPath, file: PurePosixPath) -> float:
    """Return the share of words that a test's name and a file's have in common."""
    # "summary" is the beginning of "summaries" but for its end.
    ours, its = ({word.rstrip("s")[:6] for word in name.stem.split("_")} for name in (test, file))
    ours -= {"test"}
    return len(ours & its) / len(ours | its)


def _reason(way: tuple[PurePosixPath, ...], near: list[PurePosixPath]) -> tuple[int, str]:
    """Return how near a test counts, and why, from its way to a change or its place."""
    if not way:
        return _FOLDER_ONLY, f"is in the folder for {near[0]}"
    steps = len(way) - 1
    if steps == 0:
        return 0, "has changed"
    if steps == 1:
        return 1, f"uses {way[1]}"
    return 1 if near else steps, f"reaches {way[-1]} in {steps} steps, by {way[1]}"


def _mirrors(project: Project, test: PurePosixPath, file: PurePosixPath) -> bool:
    """Say whether ``test`` stands in the tests where ``file`` stands in the package.

    A test that stands beside the folders, not in one, belongs to the module of its name.
    """
    homes = [folder for folder in project.code if folder in file.parents]
    places = [folder for folder in project.tests if folder in test.parents]
    if not homes or not places:
        return False
    inside = file.parent.relative_to(homes[0]).parts[1:]
    stands = test.parent.relative_to(places[0]).parts
    if not stands:
        return test.stem == f"test_{file.stem}"
    return stands == inside[: len(stands)]


def reaching_every_test(
    changed: Iterable[PurePosixPath], projects: Iterable[Project]
) -> list[PurePosixPath]:
    """Return those of ``changed`` that may change the outcome of tests that do not use them."""
    folders = {project.folder for project in projects}
    return [
        file
        for file in sorted(changed)
        if file.name == "conftest.py"
        or (file.name in ("pyproject.toml", "constraints.txt") and file.parent in folders)
    ]
