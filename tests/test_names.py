"""Names and docstrings stay plain: counts of unclear names do not grow beyond what was reached."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

# ruff: noqa: SIM905 (lists of words are read more easily as text)

ROOT = Path(__file__).parents[1]
PRONOUNS = set(
    "one own found known said several given left kept whole both there rest some here such others "
    "another asked told shown held written meant called made drawn everything nothing something "
    "either neither each alone apart many few".split()
)
EMPTY_NOUNS = set(
    "item items thing things stuff obj objs val vals res ret tmp temp foo it them this that ones "
    "elem entry".split()
)
BARE_WORDS = set(
    "told said put made shown drawn held given found kept cut written known left begun met seen "
    "meant spread hidden chosen taken thought built sent spoken gone few apart within flat alone "
    "together until where each own whole both there rest some here alike even".split()
)
NOUNS = set(  # they look like participles
    "string padding embedding reading setting spacing heading embed seed speed need string ring "
    "warning encoding wording ending training testing rating ranking sampling masking pooling "
    "serving timing meaning mapping building rendering indexing matching loading scaling "
    "smoothing parsing batching rounding ceiling binding weighting closed remaining".split()
)
DETERMINER = re.compile(r"^(the|this|that|an?|each|every)_|_+$|\d+$")
PREPOSITION = re.compile(
    r"^(of|by|in|at|about|around|beside|without|until|where|what|how|why|whether)_"
    r"|(?<!group)(?<!order)(?<!index)_(of|by|in|at|with|on|to|for|from)$"
)
COMMON_PHRASES = {"at_least", "at_most", "in_place", "wait_for", "depends_on", "restrict_to"}
RIDDLE = re.compile(r"\b(what|whatever|such a|so many|of which)\b", re.IGNORECASE)
# The counts that are allowed for each hundred functions, docstrings or classes of limelight.
LIMITS = {
    "pronoun variables": 2.0,
    "pronoun parameters": 1.0,
    "pronoun fields": 0.0,
    "empty nouns": 1.5,
    "bare participles": 1.0,
    "prepositions": 1.0,
    "riddles": 2.0,
    "shared class names": 0.0,
}
BASES = {"riddles": "docstrings", "shared class names": "classes"}


def unclear_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of everything in a module that a stranger cannot understand."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {getattr(line, "target", None) for node in classes for line in node.body}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = node.name.strip("_")
            participle = re.fullmatch(r"[a-z]{3,}(ed|ing)", name) and name not in NOUNS
            if not node.name.startswith("__") and (name in BARE_WORDS or participle):
                yield "bare participles", node.name
            elif name not in COMMON_PHRASES and PREPOSITION.search(name):
                yield "prepositions", node.name
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            name = DETERMINER.sub("", node.id)
            if name in PRONOUNS or name in EMPTY_NOUNS:
                yield "pronoun variables" if name in PRONOUNS else "empty nouns", node.id
        if isinstance(node, ast.arg) and DETERMINER.sub("", node.arg) in PRONOUNS:
            yield "pronoun parameters", node.arg
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first_sentence = re.split(r"(?<=\.)\s", ast.get_docstring(node) or "", maxsplit=1)[0]
            if RIDDLE.search(first_sentence):
                yield "riddles", f"{node.name}: {first_sentence}"
    for field in fields:
        if isinstance(field, ast.Name) and field.id.lstrip("_") in PRONOUNS:
            yield "pronoun fields", field.id


@cache
def count_names(folder: Path) -> tuple[Counter[str], dict[str, list[str]]]:
    """Count functions, docstrings and classes, and list the unclear names of each kind."""
    totals, unclear = Counter[str](), dict[str, list[str]]()
    homes: dict[str, set[Path]] = {}
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for kind, name in unclear_names(tree):
            unclear.setdefault(kind, []).append(f"{path.relative_to(folder)}: {name}")
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                totals["functions"] += 1
            elif isinstance(node, ast.ClassDef):
                totals["classes"] += 1
                homes.setdefault(node.name.lstrip("_"), set()).add(path)
            else:
                continue
            totals["docstrings"] += ast.get_docstring(node) is not None
    unclear["shared class names"] = [name for name, paths in homes.items() if len(paths) > 1]
    return totals, unclear


@pytest.mark.parametrize(
    ("folder", "factor"),
    [("src/limelight", 1), ("reproduction/src", 2)],
    ids=["limelight", "paper"],
)
@pytest.mark.parametrize("kind", LIMITS)
def test_few_names_are_unclear(folder, factor, kind):
    totals, unclear = count_names(ROOT / folder)
    names = unclear.get(kind, [])
    allowed = LIMITS[kind] * factor * totals[BASES.get(kind, "functions")] / 100
    assert len(names) <= allowed, "\n".join(names)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("def listed(value): ...", "bare participles"),
        ("def of_one_part(self): ...", "prepositions"),
        ("for one in methods: ...", "pronoun variables"),
        ("lambda said: said", "pronoun parameters"),
        ("class Row:\n    whole: str", "pronoun fields"),
        ("res = explain(text)", "empty nouns"),
        ('def read():\n    "Return what is read."', "riddles"),
    ],
)
def test_the_count_finds_an_unclear_name(code, kind):
    assert [found for found, _ in unclear_names(ast.parse(code))] == [kind]


def test_the_count_accepts_plain_names():
    code = 'def allocate_budget(budget, methods):\n    "Split a budget."\n    remaining = 1'
    assert list(unclear_names(ast.parse(code))) == []
