"""The examples in the docstrings of public functions print what the docstrings show."""

import doctest
import inspect
from pathlib import Path

import pytest

import limelight

SHARED_MODELS = Path(__file__).parents[2] / "shared" / "models"
FUNCTIONS = [name for name in limelight.__all__ if inspect.isfunction(getattr(limelight, name))]
pytestmark = pytest.mark.usefixtures("restored_methods")  # the example of `register`
NEEDS_SHARED_MODEL = {"explain_sentences"}


def list_examples(function):
    """Parse the examples in the docstring of a function."""
    test = doctest.DocTestParser().get_doctest(
        inspect.getdoc(function) or "", {}, function.__name__, None, 0
    )
    return test if test.examples else None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_has_an_example_with_output(name):
    test = list_examples(getattr(limelight, name))
    assert test is not None
    assert any(example.want for example in test.examples)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_examples_print_what_the_docstring_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in NEEDS_SHARED_MODEL:
        if not SHARED_MODELS.is_dir():
            pytest.skip("the models of ../shared are not here")
        for folder in SHARED_MODELS.iterdir():
            (tmp_path / folder.name).symlink_to(folder)
    messages = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(list_examples(getattr(limelight, name)), out=messages.append)
    assert not runner.failures, "".join(messages)


def test_the_check_of_examples_can_fail():
    def wrong():
        """Add.

        >>> 1 + 1
        3
        """

    runner = doctest.DocTestRunner()
    runner.run(list_examples(wrong), out=lambda _: None)
    assert runner.failures == 1
