"""Every theorem has a page with a proof, a function and a test."""

import importlib
import re
from pathlib import Path

import pytest
from catalogue import THEOREMS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "theorems").glob("*.md"))
HEADINGS = ("Statement", "Hypotheses", "Symbols", "Figure", "Where it fails")
DEFINITIONS = {"attention", "leave-one-out"}  # a definition needs no proof
PROOF = re.compile(r'^\?\?\? note "Proof"\n\n((?: {4}.*\n|\n)+)', re.MULTILINE)
rows = pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.id)


def sections(text):
    """Split a page at its headings: the text below each heading."""
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {heading: body.strip() for heading, _, body in (part.partition("\n") for part in parts)}


def proofs(text):
    """Find the folded proofs of a page."""
    return [proof.strip() for proof in PROOF.findall(text)]


@rows
def test_the_function_exists_and_is_documented(theorem):
    module, name = theorem.function.split(":")
    assert getattr(importlib.import_module(module), name).__doc__


@rows
def test_the_test_exists(theorem):
    path, name = theorem.test.split("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


@rows
def test_a_page_has_its_title_and_all_sections(theorem):
    text = (ROOT / theorem.page).read_text("utf-8")
    assert text.startswith(f"# {theorem.title}\n")
    assert tuple(sections(text)) == HEADINGS
    assert all(sections(text).values())


@rows
def test_a_figure_has_an_alternative_text_and_a_caption(theorem):
    page = ROOT / theorem.page
    figure = sections(page.read_text("utf-8"))["Figure"]
    alt, target, caption = re.match(r"!\[(.+)\]\((\S+)\)\n\n(.+)", figure).groups()
    assert target == f"images/{theorem.id}.svg"
    assert b"<svg" in (page.parent / target).read_bytes()
    assert len(alt) > 40
    assert caption


def test_every_page_has_a_row_and_every_id_is_unique():
    ids = [theorem.id for theorem in THEOREMS]
    assert len(set(ids)) == len(ids)
    assert set(ids) == {page.stem for page in PAGES} - {"misprints"}  # a list, not a theorem


@rows
def test_a_theorem_has_a_folded_proof(theorem):
    if theorem.id in DEFINITIONS:
        return
    longest = max(len(proof.split()) for proof in proofs((ROOT / theorem.page).read_text("utf-8")))
    assert longest > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_proof_is_folded_and_has_an_end(page):
    text = page.read_text("utf-8")
    assert [proof.count("∎") for proof in proofs(text)] == [1] * text.count("∎")
    assert len(proofs(text)) == len(re.findall(r"\bProof\b", text))
