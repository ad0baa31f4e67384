"""Every command has few options, each in a group and with a text in plain sentences."""

import shlex

import pytest

from limelight.cli import COMMANDS, EXAMPLES, app, groups

MOST = {
    "explain": 35,
    "counterfactual": 32,
    "explain-data": 45,
    "compare": 34,
    "judge": 35,
}  # options
MOST_OF_OTHERS = 20


def options(command):
    """Return the options of a command, without its positional arguments."""
    arguments = app[command].assemble_argument_collection(parse_docstring=True)
    return [argument for argument in arguments if argument.name.startswith("-") and argument.show]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_command_has_few_options(command):
    assert 0 < len(options(command)) <= MOST.get(command, MOST_OF_OTHERS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_is_in_a_group_and_has_a_text(command):
    reference = {id(group) for group in vars(groups).values() if isinstance(group, groups.Group)}
    for argument in app[command].assemble_argument_collection(parse_docstring=True):
        if argument.name == "*":  # a dataclass, whose fields are options
            continue
        assert {id(group) for group in argument.parameter.group} <= reference, argument.name
        text = " ".join((argument.parameter.help or "").split())
        assert len(text) > 15, argument.name
        assert text.endswith((".", ").")), (argument.name, text)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_help_has_no_default_that_says_nothing(command, limelight):
    page = limelight(command, "--help").out
    for default in ("()", "False", "True", "None"):
        assert f"[default: {default}]" not in " ".join(page.replace("│", "").split())


@pytest.mark.parametrize("command", ["explain", "explain-data", "judge"])
def test_options_of_the_same_name_mean_the_same(command):
    shared = {argument.name: argument.parameter.help for argument in options("compare")}
    other = {"--budget", "--output", "--methods", "--target"}  # a folder; the search of orders
    for argument in options(command):
        if argument.name in shared.keys() - other:
            assert argument.parameter.help == shared[argument.name]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_ends_with_two_examples_whose_options_exist(command, limelight, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    page = " ".join(limelight(command, "--help").out.split())
    assert len(EXAMPLES[command]) == 2
    for example in EXAMPLES[command]:
        assert example in page
        program, name, *arguments = shlex.split(example)
        assert (program, name) == ("limelight", command)
        before_examples = page.partition("Examples:")[0]
        for option in (argument for argument in arguments if argument.startswith("--")):
            assert option == "--help" or f"{option} " in before_examples, option
