import importlib
import re
from pathlib import Path

import pytest

from limelight.theory.catalogue import THEOREMS

ROOT = Path(__file__).resolve().parents[2]
rows = pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.id)
HEADINGS = (
    "Statement",
    "Hypotheses",
    "Symbols",
    "Regime",
    "Figure",
    "Oracle",
    "Where it fails",
)


def sections(page):
    """What a page says below each of its headings."""
    _, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return {heading: text.strip() for heading, _, text in (part.partition("\n") for part in parts)}


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
    text = (ROOT / theorem.page).read_text("utf-8")
    assert text.startswith(f"# {theorem.title}\n")
    assert tuple(sections(text)) == HEADINGS
    assert all(sections(text).values())
    assert theorem.function in text


@rows
def test_the_figure_is_there_in_words_too(theorem):
    page = ROOT / theorem.page
    shown = sections(page.read_text("utf-8"))["Figure"]
    alt, target, caption = re.fullmatch(r"!\[(.+)\]\((\S+)\)\n\n(.+)", shown).groups()
    assert target == f"images/{theorem.id}.svg"
    assert b"<svg" in (page.parent / target).read_bytes()
    assert min(len(alt), len(caption)) > 40


def test_every_page_has_a_row_and_every_id_is_new():
    pages = {path.stem for path in (ROOT / "docs" / "theorems").glob("*.md")}
    ids = [theorem.id for theorem in THEOREMS]
    assert len(set(ids)) == len(ids)
    assert set(ids) == pages - {"misprints"}  # which is about the paper, not a result


LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "theorems").glob("*.md")), ids=str)
def test_links_between_the_pages_lead_somewhere(page):
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_a_page_that_says_proof_elsewhere_has_one():
    methods = ROOT / "docs" / "methods"
    for page in methods.glob("*.md"):
        for target in re.findall(r"\[[^\]]*proof[^\]]*\]\(([^)]+)\)", page.read_text("utf-8")):
            assert "Proof." in (page.parent / target).read_text("utf-8"), (page, target)


@pytest.mark.parametrize(
    "name",
    [
        "shapley",
        "certificate",
        "lime-first-order",
        "mean-field",
        "second-order",
        "faithfulness-ceiling",
        "owen",
    ],
)
def test_the_proofs_that_the_readme_promises_are_whole(name):
    text = (ROOT / "docs" / "theorems" / f"{name}.md").read_text("utf-8")
    proof = text.partition("*Proof.*")[2].partition("∎")[0]
    assert len(proof.split()) > 60
