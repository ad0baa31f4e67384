"""``limelight reproduce`` is the command of another package, which may not be there."""

from typing import Annotated

import pytest
from cyclopts import Parameter

from limelight.cli import reproduce as reproduce_paper

INSTALL = (
    "the paper's experiments are a package of their own, which is not installed; run pip install "
    "./reproduction in a checkout of limelight."
)


class Found:
    """An entry point as ``importlib.metadata`` gives it."""

    def __init__(self, name, command):
        self.name, self.load = name, lambda: command


@pytest.fixture
def install(monkeypatch):
    """Let a command be installed under a name, or nothing at all."""

    def install(**commands):
        found = [Found(name, command) for name, command in commands.items()]
        groups = {"limelight.commands": found}
        monkeypatch.setattr(reproduce_paper, "entry_points", lambda *, group: groups.get(group, ()))

    return install


@pytest.mark.parametrize(
    "arguments", [(), ("--data", "x", "-o", "y"), ("--quick",), ("a", "-", "b")]
)
def test_without_the_package_one_sentence_says_what_to_install(limelight, install, arguments):
    install(other=pytest.fail)
    assert limelight("reproduce", *arguments) == (2, "", f"Error: {INSTALL}\n")


def test_without_the_package_help_says_so_too(limelight, install):
    install()
    outcome = limelight("reproduce", "--help")
    assert (outcome.code, outcome.err) == (0, "")
    told = " ".join(outcome.out.split())
    assert told.startswith("Usage: limelight reproduce Run the paper's experiments again")
    assert "not installed: run pip install ./reproduction in a checkout of limelight." in told


def test_the_package_gets_the_arguments_and_its_code_is_ours(limelight, install):
    heard = []

    def command(*, data: str, output: Annotated[str, Parameter(name=["--output", "-o"])]) -> int:
        heard.append((data, output))
        return 3

    install(reproduce=command)
    assert limelight("reproduce", "--data", "x", "-o", "y") == (3, "", "")
    assert heard == [("x", "y")]


def test_the_help_is_that_of_the_package(limelight, install):
    def command(*, depth: int = 7) -> None:
        """Do what the package does.

        Parameters
        ----------
        depth
            How deep.
        """

    install(reproduce=command)
    told = limelight("reproduce", "--help").out
    assert "Usage: limelight reproduce [OPTIONS]" in told
    assert "Do what the package does." in told
    assert "--depth" in told
    assert "How deep. [default: 7]" in told
    assert "not installed" not in told


def test_a_mistake_in_the_packages_options_is_one_sentence(limelight, install):
    install(reproduce=lambda *, depth: None)  # noqa: ARG005
    outcome = limelight("reproduce", "--dept", "3")
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")
    assert "--depth" in outcome.err
    assert outcome.err.count("\n") == 1
