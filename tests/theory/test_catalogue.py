import importlib
import re
from pathlib import Path

import pytest
from catalogue import THEOREMS

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


CLAIMS = re.compile(r"exact|proven|bound|O\(")
DEFINED = {"attention", "leave-one-out"}  # computed as they are defined: nothing is to be proven


def proof(name):
    """The words of the first proof on a page; none where it has no end."""
    text = (ROOT / "docs" / "theorems" / f"{name}.md").read_text("utf-8")
    found, end, _ = text.partition("*Proof.*")[2].partition("∎")
    return found if end else ""


def is_whole(name):
    """Whether a proof is long enough to be one, or leads to one that is."""
    words = proof(name)
    links = re.findall(r"\]\(([a-z0-9-]+)\.md", words)
    return len(words.split()) > 60 or any(len(proof(link).split()) > 60 for link in links)


@pytest.mark.parametrize(
    "name", [row.id for row in THEOREMS if CLAIMS.search(row.regime) and row.id not in DEFINED]
)
def test_what_is_called_exact_or_bounded_is_proven_on_its_page(name):
    lemma = name.startswith("lemma")  # a line of counting or of calculus does for these
    assert len(proof(name).split()) > 20 if lemma else is_whole(name)


def test_nearly_every_page_claims_something_that_needs_a_proof():
    assert sum(bool(CLAIMS.search(row.regime)) for row in THEOREMS) > 0.8 * len(THEOREMS)


def test_every_proof_has_an_end():
    for page in (ROOT / "docs" / "theorems").glob("*.md"):
        text = page.read_text("utf-8")
        assert text.count("*Proof.*") == text.count("∎"), page
