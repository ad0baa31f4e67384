"""Every public name has a place in the reference, with an example; tests/test_docs.py runs it."""

import re
from pathlib import Path

import pytest

import limelight
from limelight import explainers
from limelight.explainers import METHODS
from limelight.rendering import figures

from known import OURS

PAGES = sorted((Path(__file__).resolve().parents[1] / "docs" / "api").glob("*.md"))
NOT_DRAWN = {"canvas", "color_map"}  # parts of figures, for other modules of ours


def places(pages=PAGES):
    """What stands below each ``::: name``, up to the next one."""
    results = {}
    for page in pages:
        _, *parts = re.split(r"^::: (\S+)\n", page.read_text("utf-8"), flags=re.M)
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            assert name not in results, name
            results[name] = text
    return results


def missing_reason(name, found):
    """Why a name's place will not do; None if it will."""
    if name not in found:
        return f"::: {name} is on no page of docs/api"
    blocks = re.findall(r"^```python\n(.*?)^```", found[name], re.M | re.S)
    last = name.rpartition(".")[2]
    if not any(re.search(rf"\b{last}\b", block) for block in blocks):
        return f"{name} has no example"
    return None


@pytest.mark.parametrize("name", limelight.__all__)
def test_every_public_name_has_a_place_with_an_example(name):
    assert missing_reason(f"limelight.{name}", places()) is None


@pytest.mark.parametrize("name", sorted(set(figures.__all__) - NOT_DRAWN))
def test_every_figure_has_a_place_with_an_example(name):
    assert missing_reason(f"limelight.rendering.figures.{name}", places()) is None


@pytest.mark.parametrize("method", OURS)
def test_every_settings_class_has_a_place(method):
    assert f"limelight.explainers.{METHODS[method].settings.__name__}" in places()


def test_every_place_names_something_that_is_there():
    for name in places():
        module, _, last = name.rpartition(".")
        assert hasattr(__import__(module, fromlist=[last]), last), name


def test_every_name_for_a_method_of_your_own_is_there():
    """The table in settings.md names what a package that brings a method imports."""
    (settings,) = (page for page in PAGES if page.name == "settings.md")
    _, table = settings.read_text("utf-8").split("| to | names |\n")
    table, _ = table.split("\n\n", 1)
    names = [name for row in table.split("\n") for name in re.findall(r"`(\w+)`", row)]
    assert len(names) > 20
    assert [name for name in names if not hasattr(explainers, name)] == []


def test_a_new_name_without_a_place_or_an_example_is_found(tmp_path):
    (tmp_path / "a.md").write_text("::: limelight.shine\n\n```python\nlimelight.load()\n```\n")
    result = places([tmp_path / "a.md"])
    assert missing_reason("limelight.shine", result) == "limelight.shine has no example"
    assert (
        missing_reason("limelight.glow", result) == "::: limelight.glow is on no page of docs/api"
    )
