"""Stored results, and the tables made from them, say which limelight measured them."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import limelight
from limelight.provenance import UNKNOWN, describe_stamps, source_stamp

ROOT = Path(__file__).resolve().parents[1]
RESULTS = sorted(
    path
    for folder in ("benchmarks", "reproduction/studies")
    for path in (ROOT / folder / "results").glob("*.json")
)
REFERENCES = ROOT / "benchmarks" / "references" / "huggingface.json"
VERDICTS = ROOT / "scripts" / "zoo" / "verdicts.json"
REPRODUCTION = ROOT / "reproduction" / "src" / "limelight_reproduction" / "results.json"
RESULT_PAGE = ROOT / "docs" / "reference" / "results.md"
COMMIT = re.compile(rf"[0-9a-f]{{40}}( with (uncommitted|unknown) changes)?|{UNKNOWN}")
VERSION = re.compile(r"\d+\.\d+\.\d+(\.dev\d+)?")
SENTENCE = re.compile(r"Measured with limelight \d+\.\d+\.\d+(\.dev\d+)?, commit \w+")
STAMP_CALLS = {
    "benchmarks/results.py",
    "scripts/zoo/__main__.py",
    "reproduction/src/limelight_reproduction/runner.py",
}


def read_stored(path):
    return json.loads(path.read_text("utf-8"))


def assert_is_stamp(stamp, place):
    assert stamp.keys() == {"limelight", "commit"}, place
    assert VERSION.fullmatch(stamp["limelight"]), place
    assert COMMIT.fullmatch(stamp["commit"]), place


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_result_of_a_benchmark_has_the_stamp_of_its_run(path):
    result = read_stored(path)
    assert_is_stamp(result["stamp"], path.stem)
    for measure in result.get("measures", []):
        assert_is_stamp(measure.get("stamp", result["stamp"]), (path.stem, measure["id"]))
    assert "limelight" not in result.get("versions", {})  # only the stamp says it


def test_every_long_run_has_the_stamp_of_its_run():
    for key, reference in read_stored(REFERENCES).items():
        assert_is_stamp(reference["stamp"], key)


def test_every_verdict_about_a_family_of_networks_has_the_stamps_of_its_runs():
    for family, result in read_stored(VERDICTS)["families"].items():
        assert result["stamps"], family
        for stamp in result["stamps"]:
            assert_is_stamp(stamp, family)


def test_every_part_of_the_reproduction_has_the_stamp_of_its_run():
    experiments = read_stored(REPRODUCTION)["experiments"]
    assert len(experiments) > 20
    for experiment, parts in experiments.items():
        for name, part in parts.items():
            stamp = {"limelight": part["limelight"], "commit": part["commit"]}
            assert_is_stamp(stamp, (experiment, name))


def test_every_result_of_0_4_or_later_names_the_commit_of_its_run():
    stamps = [(path.stem, read_stored(path)["stamp"]) for path in RESULTS]
    new = [(name, s) for name, s in stamps if not s["limelight"].startswith(("0.1", "0.2", "0.3"))]
    assert [name for name, stamp in new if stamp["commit"] == UNKNOWN] == []


def sections():
    """Yield the heading and the text of every section of the result page that has a table."""
    _, *parts = re.split(r"^##+ (.+)\n", RESULT_PAGE.read_text("utf-8"), flags=re.MULTILINE)
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        if "| --- |" in text:
            yield heading, text


@pytest.mark.parametrize(("heading", "text"), list(sections()), ids=lambda x: x[:40])
def test_every_table_shows_the_version_that_measured_it(heading, text):
    assert SENTENCE.search(text), heading


def test_the_result_page_has_many_tables():
    assert len(list(sections())) > 50


def test_every_section_of_the_reproduction_shows_the_version_that_measured_it():
    page = (ROOT / "docs" / "reproduction.md").read_text("utf-8")
    sections = page.split("\nCommand: `limelight reproduce ")[1:]
    assert len(sections) > 20
    for section in sections:
        assert SENTENCE.search(section.split("\n")[0]), section[:80]


def test_only_programs_that_measure_write_stamps():
    result = {
        path.relative_to(ROOT).as_posix()
        for folder in ("benchmarks", "scripts", "reproduction", "docs", "src")
        for path in (ROOT / folder).rglob("*.py")
        if "source_stamp()" in path.read_text("utf-8") and path.name != "provenance.py"
    }
    assert result == STAMP_CALLS


def test_the_words_of_stamps_count_results_if_they_differ():
    old, new = {"limelight": "0.1.0", "commit": UNKNOWN}, {"limelight": "0.4.0", "commit": "a" * 40}
    assert describe_stamps([old, old]) == "Measured with limelight 0.1.0, commit unknown."
    assert describe_stamps([new, old, old]) == (
        "Measured with limelight 0.1.0, commit unknown (2 results) and "
        "limelight 0.4.0, commit aaaaaaaaaa (1 result)."
    )


def git(folder, *arguments):
    named = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    command = ["git", "-C", str(folder), *named, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A repository with the package in it, as one commit."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    place = tmp_path_factory.mktemp("checkout")
    package = place / "src" / "limelight"
    package.mkdir(parents=True)
    for name in ("__init__.py", "provenance.py"):
        shutil.copy(Path(limelight.__file__).parent / name, package)
    (place / "page.md").write_text("a page")
    git(place, "init", "-q")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "all")
    return place


def seen_commit(folder):
    code = "from limelight.provenance import source_stamp; print(source_stamp()['commit'])"
    command = [sys.executable, "-B", "-c", code]
    environment = {"PYTHONPATH": str(folder / "src"), "PATH": "/usr/bin:/bin:/usr/local/bin"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def test_a_stamp_names_the_commit_and_says_whether_code_was_changed(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    assert seen_commit(checkout) == head
    (checkout / "page.md").write_text("another page")  # a page changes no number
    assert seen_commit(checkout) == head
    (checkout / "src" / "new.py").write_text("x = 1\n")
    assert seen_commit(checkout) == f"{head} with uncommitted changes"


def test_a_checkout_that_git_cannot_compare_has_unknown_changes(checkout, tmp_path):
    place = tmp_path / "copy"
    shutil.copytree(checkout, place)
    head, tree = git(place, "rev-parse", "HEAD"), git(place, "rev-parse", "HEAD^{tree}")
    git(place, "update-index", "--force-remove", "page.md")
    tree_file = place / ".git" / "objects" / tree[:2] / tree[2:]
    tree_file.chmod(0o600)
    tree_file.unlink()
    assert seen_commit(place) == f"{head} with unknown changes"


def test_outside_its_own_checkout_the_commit_is_unknown(checkout, tmp_path):
    shutil.copytree(checkout / "src", tmp_path / "src")
    assert seen_commit(tmp_path) == UNKNOWN
    git(tmp_path, "init", "-q")  # of another project, which does not track the package
    (tmp_path / "file").write_text("x")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    assert seen_commit(tmp_path) == UNKNOWN


def test_a_stamp_has_the_version_that_runs():
    assert source_stamp()["limelight"] == limelight.__version__
    assert_is_stamp(source_stamp(), "today")


@pytest.fixture(scope="module")
def study():
    """The program `benchmarks/coverage_study.py` as a module."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        place = ROOT / "benchmarks" / "coverage_study.py"
        spec = importlib.util.spec_from_file_location("coverage_study", place)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


# The options that measure the cells of a study again.
STUDIES = {
    "coverage": "--stale",
    "coverage_held_out": "--stale --held-out",
    "coverage_pairs": "--stale --pairs",
    "coverage_triples": "--triples",
    "coverage_context_cite": "--context-cite",
    "coverage_owen": "--owen",
    "coverage_owen_cuda": "--owen --model FOLDER",
}
SUMMARIES = ("cells", "least", "warnings", "zero_errors")  # of the other measures of a study


@pytest.mark.parametrize("name", STUDIES)
def test_coverage_is_measured_again_if_a_sampler_changes(study, name):
    cells = {
        value["id"]: value
        for value in read_stored(ROOT / f"benchmarks/results/{name}.json")["measures"]
    }
    cells = {id: cell for id, cell in cells.items() if id not in SUMMARIES}
    assert len(cells) >= 3
    methods = {id: study.method_of_cell(name, id) for id in cells}
    by_name = {method.id: method for method in methods.values()}
    digests = {id: study.sampler_digest(method) for id, method in by_name.items()}
    stale = [id for id in cells if cells[id].get("sampler") != digests[methods[id].id]]
    assert stale == [], f"run `python benchmarks/coverage_study.py {STUDIES[name]}`"


def test_the_digest_of_a_sampler_changes_with_what_it_draws_and_with_its_errors(study, monkeypatch):
    method = study.Method("banzhaf", {"samples": 300})
    digest = study.sampler_digest(method)
    assert study.sampler_digest(method) == digest
    assert study.sampler_digest(study.Method("banzhaf", {"samples": 302})) != digest
    explain = limelight.explain
    for change in ({"seed": 1}, {}):

        def change_value(*arguments, change=change, **settings):
            e = explain(*arguments, **{**settings, **change})
            return e if change else replace(e, stderr=1.1 * e.stderr)

        monkeypatch.setattr(limelight, "explain", change_value)
        assert study.sampler_digest(method) != digest
