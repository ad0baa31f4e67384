"""The pytest plug-in collects check files and prints one sentence for a failure."""

import os
import subprocess
import sys

import pytest

import limelight_pytest

GOOD = '[[case]]\nname = "a"\ntext = "A superb film."\nprediction = "positive"\n'
BAD = '[[case]]\nname = "b"\ntext = "A superb film."\nprediction = "negative"\n'
METADATA = "Metadata-Version: 2.1\nName: limelight-plugin\nVersion: 1\n"


@pytest.fixture
def run_pytest(tmp_path):
    """Run pytest in a folder, where the plug-in is installed under the name that limelight uses."""
    packages = tmp_path / "packages" / "limelight_plugin-1.dist-info"
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text(METADATA)
    (packages / "entry_points.txt").write_text(
        f"[pytest11]\nlimelight = {limelight_pytest.__name__}\n"
    )
    folder = tmp_path / "project"
    folder.mkdir()

    def run(*arguments, **files):
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_text(content)
        paths = [str(packages.parent), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        for name in ("PYTEST_ADDOPTS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
            environment.pop(name, None)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_each_requirement_is_a_test(run_pytest):
    run = run_pytest("-v", "-W", "error", x__limelight__toml=GOOD + BAD)
    assert run.returncode == 1
    assert "x.limelight.toml::a::prediction PASSED" in run.stdout
    assert "x.limelight.toml::b::prediction FAILED" in run.stdout
    assert "\nprediction positive (72.7%), required negative.\n" in run.stdout
    assert "Traceback" not in run.stdout
    assert ".py:" not in run.stdout  # no line of code
    assert "1 failed, 1 passed" in run.stdout


def test_a_test_can_be_selected(run_pytest):
    run = run_pytest("-q", "x.limelight.toml::a::prediction", x__limelight__toml=GOOD + BAD)
    assert run.returncode == 0
    assert "1 passed" in run.stdout


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (GOOD + "x = 1", "'{}', case 'a': unknown key: 'x'."),
        (
            'model = "none"\n' + GOOD,
            "'{}', key 'model': there is no model folder at",
        ),
        (GOOD + 'never_decisive = ["filn"]', "the text has no word 'filn'. Did you mean 'film'?"),
    ],
)
def test_a_wrong_file_is_one_sentence(run_pytest, tmp_path, content, sentence):
    run = run_pytest(x__limelight__toml=content)
    assert run.returncode in (1, 2)
    assert sentence.format(tmp_path / "project" / "x.limelight.toml") in run.stdout
    assert "Traceback" not in run.stdout
    assert ".py:" not in run.stdout


def test_the_setting_names_the_files(run_pytest):
    setting = "[pytest]\nlimelight_files = cases-*.toml\n"
    files = {"pytest__ini": setting, "cases-a__toml": GOOD, "x__limelight__toml": BAD}
    run = run_pytest("-q", **files)
    assert run.returncode == 0
    assert "1 passed" in run.stdout


def test_without_check_files_limelight_is_not_imported(run_pytest):
    module = (
        "import sys\n\ndef test_nothing():\n"
        "    assert 'limelight_pytest' in sys.modules\n"
        "    assert not [name for name in sys.modules if name.split('.')[0] == 'limelight']\n"
    )
    run = run_pytest("-q", test_it__py=module)
    assert run.returncode == 0, run.stdout
    run = run_pytest("-q", x__limelight__toml=GOOD)  # with a check file, it is
    assert "assert not ['limelight'" in run.stdout
