"""Commands of other packages, such as ``limelight plan`` of the reproduction."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Annotated

import pytest
from cyclopts import Parameter

from limelight.cli import COMMANDS, app, plugins

MISSING = (
    "the command {!r} is in limelight-reproduction, which is not installed. In a checkout of "
    "limelight, run: pip install ./reproduction."
)


NAMES = ("plan", "reproduce", "other")


@pytest.fixture
def install(monkeypatch):
    """Let a command be installed under a name, or nothing at all."""

    def install(**commands):
        module = ModuleType("commands_of_a_package")
        vars(module).update(commands)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        points = [
            EntryPoint(name, f"{module.__name__}:{name}", "limelight.commands") for name in commands
        ]
        groups = {plugins.GROUP: points}
        monkeypatch.setattr(plugins, "entry_points", lambda *, group: groups[group])
        ours = {name: value for name, value in app._commands.items() if name not in NAMES}
        monkeypatch.setattr(app, "_commands", ours)
        return module

    return install


@pytest.mark.parametrize("name", ["plan", "reproduce"])
@pytest.mark.parametrize("arguments", [(), ("--data", "x", "-o", "y"), ("--help",), ("a", "-")])
def test_without_the_package_a_message_says_what_to_install(limelight, install, name, arguments):
    install(other=pytest.fail)
    assert limelight(name, *arguments) == (2, "", f"Error: {MISSING.format(name)}\n")


def test_without_the_package_the_help_does_not_mention_its_commands(limelight, install):
    install()
    page = limelight("--help").out
    assert "plan" not in page.split()
    assert "reproduce" not in page.split()


def test_the_help_lists_the_commands_of_the_package(limelight, install):
    def command() -> None:
        """Do what the package does."""

    install(other=command)
    assert "Do what the package does." in limelight("--help").out
    assert "Do what the package does." in limelight().out


def test_a_command_that_cannot_be_loaded_hides_no_other(limelight, install):
    del install(other=None).other
    page = limelight("--help")
    assert (page.code, page.err.count("\n")) == (0, 1)
    assert "'other' from 'commands_of_a_package:other' cannot be used: Attribute" in page.err
    assert all(name in page.out for name in COMMANDS)
    assert limelight("other") == (2, "", f"Error: {page.err}")


def test_a_command_that_is_no_function_hides_no_other(limelight, install):
    install(other=3)
    page = limelight("--help")
    assert (page.code, page.err.count("\n")) == (0, 1)
    assert "'other' from 'commands_of_a_package:other' cannot be used: " in page.err
    assert all(name in page.out for name in COMMANDS)


def test_our_commands_look_for_no_others(limelight, install, monkeypatch):
    install()
    monkeypatch.setattr(plugins, "entry_points", pytest.fail)
    assert limelight("methods", "loo").code == 0
    assert limelight("--version").code == 0


def test_a_mistyped_command_of_the_package_is_suggested(limelight, install):
    install(reproduce=lambda: None)
    assert "Did you mean 'reproduce'?" in limelight("reproduc").err


def test_the_package_gets_the_arguments_and_its_code_is_ours(limelight, install):
    received_signals = []

    def command(*, data: str, output: Annotated[str, Parameter(name=["--output", "-o"])]) -> int:
        received_signals.append((data, output))
        return 3

    install(reproduce=command)
    assert limelight("reproduce", "--data", "x", "-o", "y") == (3, "", "")
    assert received_signals == [("x", "y")]


def test_the_help_is_that_of_the_package(limelight, install):
    def command(*, depth: int = 7) -> None:
        """Do what the package does.

        Parameters
        ----------
        depth
            How deep.
        """

    install(reproduce=command)
    output = limelight("reproduce", "--help").out
    assert "Usage: limelight reproduce [OPTIONS]" in output
    assert "Do what the package does." in output
    assert "--depth" in output
    assert "How deep. [default: 7]" in output
    assert "not installed" not in output


def test_a_mistake_in_the_options_of_a_package_is_one_message(limelight, install):
    install(reproduce=lambda *, depth: None)  # noqa: ARG005
    outcome = limelight("reproduce", "--dept", "3")
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")
    assert "--depth" in outcome.err
    assert outcome.err.count("\n") == 1
