"""scripts/test --fast: the tests of the changed packages. scripts/mutants.py: wrong lines."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mutants
import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "src/limelight/birds/owl.py": "",
    "src/limelight/cats.py": "",
    "docs/index.md": "",
    "tests/birds/test_owl.py": "def test_owl(): pass\n",
    "tests/cats/test_lion.py": "def test_lion(): pass\n",
    "tests/test_cats.py": "def test_cats(): pass\n",
    "tests/test_docs.py": "def test_docs(): pass\n",
    "tests/test_smoke.py": (
        "import pytest\npytestmark = pytest.mark.smoke\ndef test_smoke(): pass\n"
    ),
}


@pytest.fixture
def checkout(tmp_path):
    """A small checkout of one commit, with our script."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "test", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["smoke"]\n')
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    author = ["-c", "user.name=Toy", "-c", "user.email=toy@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "A park"]):
        subprocess.run(["git", *author, *command], cwd=tmp_path, check=True)
    return tmp_path


def run_fast(checkout, *arguments):
    """Return the exit status of the script and the tests that ran."""
    environment = {
        **os.environ,
        "VIRTUAL_ENV": sys.prefix,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-vv -p no:cacheprovider",
    }
    command = [checkout / "scripts" / "test", "--fast", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    names = re.findall(r"^tests/\S+::(\w+) (?:PASSED|FAILED)", done.stdout, re.M)
    return done.returncode, set(names)


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (None, set()),
        ("src/limelight/birds/owl.py", {"test_owl"}),
        ("src/limelight/birds/new_file.py", {"test_owl"}),
        ("src/limelight/cats.py", {"test_cats"}),
        ("tests/cats/test_lion.py", {"test_lion"}),
        ("docs/index.md", {"test_docs"}),
        ("scripts/test", set()),
    ],
)
def test_the_tests_of_the_changed_packages_run_and_the_smoke_tests(checkout, changed, tests):
    if changed:
        with (checkout / changed).open("a") as file:
            file.write("\n# changed\n")
    assert run_fast(checkout) == (0, tests | {"test_smoke"})


def test_a_revision_comes_before_the_arguments_of_pytest(checkout):
    (checkout / "tests/birds/test_owl.py").write_text("def test_owl(): assert False\n")
    author = ["-c", "user.name=Toy", "-c", "user.email=toy@example.org"]
    subprocess.run(["git", *author, "commit", "-qam", "A wrong test"], cwd=checkout, check=True)
    assert run_fast(checkout) == (0, {"test_smoke"})
    assert run_fast(checkout, "HEAD~1") == (1, {"test_owl", "test_smoke"})
    assert run_fast(checkout, "HEAD~1", "-k", "smoke") == (0, {"test_smoke"})


def test_each_package_has_a_folder_of_tests():
    """``scripts/test --fast`` looks for tests there."""
    packages = {path.parent.name for path in (ROOT / "src/limelight").glob("*/__init__.py")}
    assert packages - {path.name for path in (ROOT / "tests").iterdir()} == set()


def test_mutants_change_operators_names_and_numbers_but_no_messages_or_annotations():
    code = (
        'def f(é: "n + 1", x=2) -> "a < b":\n    """A + b."""\n'
        "    if not x <= é and -x: raise ValueError(f'{x + 1} and 2')\n"
        "    x += np.sum(x)  # 1 + 1\n    return True\n"
    )
    found = mutants.list_mutants("file.py", code)
    changes = sorted((mutant.right, mutant.wrong) for mutant in found)
    assert changes == [
        ("+", "-"),
        ("-", " "),
        ("2", "3"),
        ("<=", "<"),
        ("True", "False"),
        ("and", "or"),
        ("not", "   "),
        ("sum", "mean"),
    ]
    results = {mutant.apply(code) for mutant in found}
    assert len(results - {code}) == len(found)
    for result in results:
        ast.parse(result)


def test_random_mutants_repeat_with_their_seed_and_change_different_lines():
    first, again, other = (mutants.draw_mutants(ROOT, 20, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert {mutant.file.partition("/")[0] for mutant in first} <= set(mutants.PACKAGES)
    for mutant in first:
        code = (ROOT / "src/limelight" / mutant.file).read_text("utf-8")
        assert mutant.apply(code) != code


def test_a_known_mutant_stands_in_its_file_once():
    for mutant in mutants.MUTANTS:
        code = (ROOT / "src/limelight" / mutant.file).read_text("utf-8")
        assert mutant.apply(code) != code
    with pytest.raises(SystemExit, match="must contain 'a' once"):
        mutants.Mutant("x.py", "a", "b").apply("a = a")
