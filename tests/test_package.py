"""The package as a user meets it: what an import loads, what is public, what is shipped."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import limelight as package
from limelight.cli import COMMANDS
from limelight.models.loading import SHIPPED

pytestmark = pytest.mark.smoke
ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "matplotlib", "scipy", "pandas", "pyarrow", "transformers", "jinja2", "duckdb")


def modules_after(program, *options):
    """Names of the modules that a fresh Python process has loaded after running ``program``."""
    listing = "\nimport sys; print('MODULES', *sys.modules)"
    done = subprocess.run(
        [sys.executable, *options, "-c", program + listing],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    return set(done.stdout.rpartition("MODULES")[2].split())


def test_nothing_is_imported_before_a_command_answers_an_interrupt():
    """Whatever is imported earlier could only be ended with Python's own traceback."""
    added = modules_after("import limelight.__main__") - modules_after("")
    assert added - {*sys.builtin_module_names} == {"limelight", "limelight.__main__"}


def command_program(*arguments):
    return (
        "from limelight.cli import main\n"
        f"try: main({list(arguments)!r})\n"
        "except SystemExit as left: assert not left.code, left.code"
    )


def test_import_loads_nothing_heavy():
    loaded = modules_after("import limelight")
    assert not loaded & {*HEAVY, "rich", "numpy", "jaxtyping"}


def test_the_check_of_imports_can_fail():
    assert "rich" in modules_after("import limelight, rich")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("train", "--help"),
        ("compare", "--help"),
        ("methods",),
        ("predict", "A film."),
        ("compare", "A good film."),
    ],
    ids=" ".join,
)
def test_a_command_that_needs_nothing_heavy_loads_nothing_heavy(arguments):
    assert not modules_after(command_program(*arguments)) & set(HEAVY)


def test_public_names_resolve_and_are_listed():
    assert dir(package) == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_the_version_is_defined_once(limelight):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert package.__version__ == project["version"]
    assert limelight("--version").out.strip() == project["version"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## {project['version']} " in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_every_command_has_its_module_and_its_help(limelight):
    page = limelight("--help").out
    for name in COMMANDS:
        assert name in page
        assert limelight(name, "--help").code == 0


def test_the_shipped_model_is_small_and_has_its_card():
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) <= 10_000_000
    assert "## What it is bad at" in (SHIPPED / "MODEL_CARD.md").read_text("utf-8")


def test_the_shipped_model_knows_good_from_bad():
    good = "A wonderful film, beautifully acted and moving from start to end. I loved it."
    bad = "A terrible waste of time: boring, badly acted and awful from start to end."
    model = package.load()
    assert model.classes == ("negative", "positive")
    chances = model.predict_proba([good, bad])[:, 1]
    assert chances[0] > 0.9
    assert chances[1] < 0.1


def test_files_that_travel_with_the_package_are_there():
    from limelight.results.codec import SCHEMAS

    home = Path(package.__file__).parent
    assert (home / "py.typed").exists()
    assert {path.name for path in SCHEMAS.glob("*.json")} == {
        "citations.schema.json",
        "comparison.schema.json",
        "counterfactual.schema.json",
        "explanation.schema.json",
        "judgment.schema.json",
    }
    assert (home / "rendering" / "elements" / "page.js").exists()
