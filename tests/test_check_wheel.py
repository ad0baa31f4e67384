"""scripts/check_wheel.py: the parts of it that decide what is a fault."""

import sys
from pathlib import Path

import pytest
from check_wheel import (
    demo_command,
    size,
    wrongly_bundled,
    wrongly_installed,
    wrongly_run,
    wrongly_shipped,
)

ROOT = Path(__file__).resolve().parents[1]
PROJECT = {
    "name": "zoo",
    "dependencies": ["numpy>=2", "scipy>=1.13"],
    "optional-dependencies": {"hf": ["torch>=2.6"], "dev": ["PyTest_xdist>=3", "numpy", "zoo[hf]"]},
}


def test_the_command_is_the_one_of_the_demo():
    words = demo_command((ROOT / "scripts" / "demo").read_text("utf-8"))
    assert words[:2] == ["limelight", "explain"]
    assert len(words) == 3
    assert demo_command('set -e\nlimelight one "two words"\n') == ["limelight", "one", "two words"]


def test_a_demo_without_a_command_is_an_error():
    with pytest.raises(SystemExit, match="scripts/demo must explain a sentence"):
        demo_command("pip install .\n")


def test_a_wheel_of_one_package_has_no_fault():
    assert not list(wrongly_shipped(["zoo/__init__.py", "zoo/cats/tests.py", "zoo.dist-info/x"]))


def test_every_script_of_a_wheel_is_in_one_piece():
    assert list(wrongly_bundled({"a.js": "f();\n"})) == []
    assert list(wrongly_bundled({"a.js": '\nimport "./b.js";\n'})) == ["a.js is not bundled."]
    assert list(wrongly_bundled({})) == ["the wheel has no scripts."]


def test_a_wheel_with_tests_or_a_second_package_has_faults():
    names = ["zoo/__init__.py", "zoo/tests/cats/test_lion.py", "zoo/tests/x.py", "farm/cow.py"]
    assert list(wrongly_shipped(names)) == [
        "the wheel must hold one package; it holds farm, zoo.",
        "the wheel contains zoo/tests.",
    ]


def test_what_the_core_needs_may_be_installed():
    assert not list(wrongly_installed(["numpy", "zoo", "rich"], PROJECT))


def test_what_is_heavy_or_for_an_extra_may_not_even_if_the_core_asks_for_it():
    installed = ["numpy", "SciPy", "pytest.xdist", "torch"]
    assert list(wrongly_installed(installed, PROJECT)) == [
        "pytest-xdist is installed without any extra.",
        "scipy is installed without any extra.",
        "torch is installed without any extra.",
    ]


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("print('fine')", None),
        ("print('fine'); raise SystemExit(2)", "it left with 2:\nfine\n"),
        ("print('Traceback (most recent call last):')", "it left with 0:\nTraceback"),
        ("", "it printed nothing."),
    ],
)
def test_a_command_must_succeed_and_say_something_without_a_traceback(program, fault, tmp_path):
    result = list(wrongly_run("it", [sys.executable, "-c", program], tmp_path))
    assert len(result) == (fault is not None)
    assert not fault or result[0].startswith(fault)


def test_linked_files_do_not_count_as_size(tmp_path):
    (tmp_path / "outside").write_bytes(b"x" * 10_000)
    inside = tmp_path / "inside" / "deep"
    inside.mkdir(parents=True)
    (inside / "file").write_bytes(b"x" * 100)
    (inside / "link").symlink_to(tmp_path / "outside")
    assert 100 <= size(tmp_path / "inside") < 1000
