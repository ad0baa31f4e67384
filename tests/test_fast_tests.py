"""scripts/test --fast: which tests a change concerns, and that the time is kept."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path, PurePosixPath

import pytest
from fast_tests.checkout import Checkout, uses
from fast_tests.selection import (
    Chosen,
    Project,
    chosen,
    nearest,
    nearest_to_each,
    projects_of,
    reaching_every_test,
    smoke,
)

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "scripts"
# Other plugins do nothing here, and take two thirds of the time.
ENVIRONMENT = os.environ | {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p xdist.plugin",
}

TOY = {
    "pyproject.toml": """
        [tool.pytest.ini_options]
        testpaths = ["tests"]
        markers = ["smoke", "slow"]
        [tool.hatch.build.targets.wheel]
        packages = ["src/park"]
        """,
    "src/park/__init__.py": "from park.cats import Lion\nfrom park.birds.owl import hoot\n",
    "src/park/cats.py": "from park.claws import sharp\nclass Lion: pass\n",
    "src/park/claws.py": "sharp = True\n",
    "src/park/birds/__init__.py": "from park.birds.owl import hoot\n",
    "src/park/birds/owl.py": "def hoot(): return 'hoo'\n",
    "src/park/birds/songs/thrush.txt": "tirili",
    "src/park/birds/singing.py": """
        from pathlib import Path
        SONGS = Path(__file__).parent / "songs"
        """,
    "src/park/keeper.py": """
        from importlib import import_module
        class Keeper: tool = import_module("park.claws")
        """,
    "src/park/guide.py": """
        from importlib import import_module
        birds = [import_module(f"park.birds.{name}") for name in ["owl"]]
        """,
    "tests/conftest.py": """
        import pytest
        from park.keeper import Keeper
        from park.claws import sharp
        def hired(): return Keeper()
        @pytest.fixture
        def keeper(): return hired()
        @pytest.fixture
        def knife(): return sharp
        """,
    "tests/test_cats.py": "from park import Lion\n\n\ndef test_a_lion():\n    assert Lion()\n",
    "tests/test_keeper.py": "def test_keeper(keeper): pass\n",
    "tests/test_guide.py": "import park.guide\n",
    "tests/test_everything.py": """
        import pytest
        import park
        @pytest.mark.smoke
        def test_it_stands(): pass
        def test_it_hoots(): assert park.hoot() == "hoo"
        """,
    "tests/test_claws.py": "from park import claws, cats\n\n\ndef test_claws(): pass\n",
    "tests/birds/test_nests.py": "def test_nests(): pass\n",
    "tests/birds/test_singing.py": "from park.birds.singing import SONGS\n",
}


# A second project in a folder of the first, as reproduction is one of ours.
FARM = {
    "farm/pyproject.toml": TOY["pyproject.toml"].replace("park", "farm"),
    "farm/src/farm/__init__.py": "",
    "farm/src/farm/guard.py": "from park.keeper import Keeper\nguard = Keeper()\n",
    "farm/tests/test_guard.py": """
        from farm.guard import guard
        def test_guard(): assert guard
        """,
}


@pytest.fixture
def toy(tmp_path):
    """A small checkout: packages, tests and data."""
    return write_files(tmp_path, TOY)


def write_files(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), "utf-8")
    return folder


def choices(root, *changed, files=TOY):
    checkout = Checkout(root, files)
    return chosen(checkout, [PurePosixPath(file) for file in changed], projects_of(checkout))


def names(found):
    return [choice.test.name for choice in found]


def test_the_nearest_test_comes_first_and_says_why(toy):
    result = choices(toy, "src/park/claws.py")
    assert [(choice.test.name, choice.why) for choice in result] == [
        ("test_claws.py", "uses src/park/claws.py"),
        ("test_cats.py", "reaches src/park/claws.py in 2 steps, by src/park/cats.py"),
        ("test_keeper.py", "reaches src/park/claws.py in 2 steps, by src/park/keeper.py"),
    ]


def test_tests_that_do_not_use_the_change_are_not_chosen(toy):
    assert names(choices(toy, "src/park/keeper.py")) == ["test_keeper.py"]


def test_the_front_of_a_package_is_looked_through(toy):
    assert "test_everything.py" in names(choices(toy, "src/park/birds/owl.py"))
    assert "test_cats.py" not in names(choices(toy, "src/park/birds/owl.py"))
    assert {"test_cats.py", "test_everything.py"} <= set(
        names(choices(toy, "src/park/__init__.py"))
    )


def test_a_fixture_brings_what_it_mentions_and_nothing_else_of_its_file(toy):
    (toy / "tests/test_guide.py").write_text("def test_knife(knife): pass\n")
    assert "test_guide.py" in names(choices(toy, "src/park/claws.py"))
    assert "test_guide.py" not in names(choices(toy, "src/park/keeper.py"))


def test_modules_that_are_imported_by_a_string_are_followed(toy):
    assert "test_guide.py" in names(choices(toy, "src/park/birds/owl.py"))
    (toy / "src/park/guide.py").write_text("f'park.cats.{name}'\n")
    assert "test_guide.py" not in names(choices(toy, "src/park/birds/owl.py"))


def test_tests_in_the_folder_of_the_change_are_near_if_they_reach_it_and_far_if_not(toy):
    result = choices(toy, "src/park/birds/songs/thrush.txt")
    assert [(choice.test.name, choice.steps) for choice in result] == [
        ("test_singing.py", 1),
        ("test_nests.py", 3),
        ("test_guide.py", 3),
    ]
    assert result[1].why == "is in the folder for src/park/birds/songs/thrush.txt"


def test_tests_of_a_project_within_are_chosen_too(toy):
    result = choices(write_files(toy, FARM), "src/park/keeper.py", files={**TOY, **FARM})
    assert [(str(choice.project.folder), choice.test.name) for choice in result] == [
        (".", "test_keeper.py"),
        ("farm", "test_guard.py"),
    ]


def test_a_folder_without_its_init_is_still_part_of_the_package(toy):
    (toy / "tests/test_guide.py").write_text("from park.fish.eel import Eel\n")
    fish = {"src/park/fish/eel.py": "class Eel: pass\n"}
    result = choices(write_files(toy, fish), *fish, files={**TOY, **fish})
    assert names(result) == ["test_guide.py"]


def test_a_file_that_is_gone_still_concerns_those_who_import_it(toy):
    (toy / "src/park/claws.py").unlink()
    assert names(choices(toy, "src/park/claws.py"))[0] == "test_claws.py"


def test_a_file_that_cannot_be_parsed_still_concerns_those_who_import_it(toy):
    (toy / "src/park/claws.py").write_text("def (")
    assert names(choices(toy, "src/park/claws.py"))[0] == "test_claws.py"


def test_a_test_that_has_changed_comes_before_all_others(toy):
    result = choices(toy, "src/park/claws.py", "tests/test_guide.py")
    assert (result[0].test.name, result[0].why) == ("test_guide.py", "has changed")


def test_files_that_reach_every_test_are_named(toy):
    checkout = Checkout(toy, TOY)
    files = [PurePosixPath(file) for file in TOY]
    assert reaching_every_test(files, projects_of(checkout)) == [
        PurePosixPath("pyproject.toml"),
        PurePosixPath("tests/conftest.py"),
    ]


def test_near_ones_are_kept_and_far_ones_fill_up():
    def count_selected(*steps):
        project = Project(PurePosixPath(), (), ())
        return len(nearest([Chosen(project, PurePosixPath("test_x.py"), n, "") for n in steps]))

    assert count_selected(*[1] * 3) == 3
    assert count_selected(*[1] * 3, *[3] * 50) == 12
    assert count_selected(*[1] * 20, *[3] * 50) == 20
    assert count_selected(*[2] * 50) == 30


def test_each_changed_file_has_its_nearest_test_that_is_not_all_slow(toy):
    def always(*changed):
        checkout = Checkout(toy, TOY)
        files = [PurePosixPath(file) for file in changed]
        return names(nearest_to_each(checkout, files, projects_of(checkout)))

    assert always("src/park/claws.py", "src/park/keeper.py") == ["test_claws.py", "test_keeper.py"]
    slow = "import pytest\nfrom park import claws\n@pytest.mark.slow\ndef test_claws(): pass\n"
    (toy / "tests/test_claws.py").write_text(slow)
    assert always("src/park/claws.py") == ["test_cats.py"]
    assert always("README.md") == []


def test_smoke_tests_are_marked_singly_or_by_the_file(toy):
    (toy / "tests/test_guide.py").write_text("pytestmark = [pytest.mark.smoke]\n")
    checkout = Checkout(toy, TOY)
    (project,) = projects_of(checkout)
    assert smoke(checkout, project) == [
        "tests/test_everything.py::test_it_stands",
        "tests/test_guide.py",
    ]


@pytest.mark.slow
def test_every_module_of_this_checkout_concerns_some_test_and_has_smoke_tests():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("needs a git checkout")
    checkout = Checkout(ROOT, filter(None, listed.stdout.split("\0")))
    projects = projects_of(checkout)
    assert smoke(checkout, projects[0])
    code = [folder for project in projects for folder in project.code]
    assert code
    used = uses(checkout)
    reached = set()
    ring = [file for file in checkout.sources if file.name.startswith("test_")]
    while ring:
        reached |= set(ring)
        ring = [file for user in ring for file in used.get(user, ()) if file not in reached]
    single = [
        str(file)
        for file in checkout.sources
        if any(folder in file.parents for folder in code)
        and file.name not in ("__init__.py", "__main__.py")
        and file not in reached
    ]
    assert single == []


def pytest_until(toy, *moment):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "fast_tests.deadline", *moment],
        cwd=toy,
        env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(SCRIPTS), str(toy / "src")])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_after_the_deadline_only_smoke_tests_run_and_the_others_are_counted(toy):
    late = pytest_until(toy, "--until=1")
    assert "1 passed" in late
    assert "5 of 6 chosen tests were not started, from tests/birds/test_nests.py on." in late


@pytest.mark.parametrize("moment", [["--until=99999999999"], ["--until=1", "--least=1000"]])
def test_before_the_deadline_and_in_the_time_that_is_granted_all_tests_run(toy, moment):
    early = pytest_until(toy, *moment)
    assert "6 passed" in early
    assert "not started" not in early


def test_the_nearest_test_runs_after_the_deadline_too(toy):
    late = pytest_until(toy, "--until=1", "--always=tests/test_keeper.py")
    assert "2 passed" in late
    assert "4 of 6 chosen tests were not started" in late


def git(folder, *arguments):
    author = ["-c", "user.name=Toy", "-c", "user.email=toy@example.org"]
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


def fast(folder, *arguments):
    """Run the toy's own copy of the script."""
    return subprocess.run(
        [sys.executable, "-m", "fast_tests", *arguments],
        env={**ENVIRONMENT, "PYTHONPATH": str(folder / "scripts")},
        capture_output=True,
        text=True,
    )


def test_the_command_asks_git_what_has_changed_and_runs_the_tests_that_it_concerns(toy):
    shutil.copytree(SCRIPTS / "fast_tests", write_files(toy, FARM) / "scripts" / "fast_tests")
    (toy / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
    git(toy, "init")
    git(toy, "add", ".")
    git(toy, "commit", "--message", "A park")
    quiet = fast(toy)
    assert "changed since HEAD: 0 files" in quiet.stdout
    assert "1 passed" in quiet.stdout
    assert quiet.returncode == 0

    with (toy / "src/park/cats.py").open("a") as cats:
        cats.write("assert False\n")
    broken = fast(toy)
    assert "uses src/park/cats.py" in broken.stdout
    assert broken.returncode != 0

    (toy / "src/park/cats.py").write_text(TOY["src/park/cats.py"])
    with (toy / "src/park/keeper.py").open("a") as keeper:
        keeper.write("# older and wiser\n")
    pair = fast(toy)
    assert pair.returncode == 0
    assert "2 passed" in pair.stdout  # the smoke test, and the one that asks for the keeper
    assert "1 passed" in pair.stdout  # the farm's

    git(toy, "commit", "--all", "--message", "The keeper has a birthday")
    assert "changed since HEAD: 0 files" in fast(toy).stdout
    assert "changed since HEAD~1: 1 file\n" in fast(toy, "HEAD~1", "--collect-only").stdout
    (toy / "tests/test_new.py").write_text("def test_new(): pass\n")
    assert "tests/test_new.py  has changed" in fast(toy, "-k", "new").stdout
