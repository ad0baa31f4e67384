import importlib
import re
from pathlib import Path

import pytest

from limelight.theory.catalogue import THEOREMS

ROOT = Path(__file__).resolve().parents[2]
rows = pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.id)


@rows
def test_the_function_exists_and_is_documented(theorem):
    module, name = theorem.function.split(":")
    assert getattr(importlib.import_module(module), name).__doc__


@rows
def test_the_test_exists(theorem):
    path, name = theorem.test.split("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


@rows
def test_the_page_says_what_a_reader_needs(theorem):
    text = (ROOT / theorem.page).read_text()
    assert text.startswith(f"# {theorem.title}\n")
    for heading in ("## Statement", "## Symbols", "## Regime", "## Oracle", "## Where it fails"):
        assert heading in text
    assert theorem.function in text


def test_every_page_has_a_row_and_every_id_is_new():
    pages = {path.stem for path in (ROOT / "docs" / "theorems").glob("*.md")}
    ids = [theorem.id for theorem in THEOREMS]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= pages
