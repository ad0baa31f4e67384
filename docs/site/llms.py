"""The pages as text for language models: a list and one file, in the format of llmstxt.org."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_COMMENT = re.compile(r"^<!--.*?-->\n", re.M | re.S)


def list_pages(navigation: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the title and the path of each page of the navigation, or of a part of it."""
    for entry in navigation:
        for title, page in entry.items():
            yield from list_pages(page) if isinstance(page, list) else [(title, page)]


def write_llms(pages: Path, site: Path, navigation: list[dict[str, Any]]) -> None:
    """Write ``llms.txt``, which lists the pages, and ``llms-full.txt`` into the site."""
    home, *sections = navigation
    texts = {page: (pages / page).read_text("utf-8") for _, page in list_pages([home, *sections])}
    lines = [f"# limelight\n\n> {first_paragraph(texts['index.md'])}\n\n[All pages](llms-full.txt)"]
    for section in sections:
        (name,) = section  # a reader with little room leaves out what is optional
        lines.append(f"\n## {'Optional' if name == 'Research' else name}\n")
        for title, page in list_pages([section]):
            lines.append(f"- [{title}]({page[:-3]}.html): {first_paragraph(texts[page])}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    prose = (text for text in texts.values() if not text.startswith("<!-- generated"))  # no tables
    full = "\n".join(_COMMENT.sub("", expand_directives(text)) for text in prose)
    (site / "llms-full.txt").write_text(full, "utf-8")


def first_paragraph(text: str) -> str:
    """Return the first paragraph of prose of a page on one line, without links."""
    blocks = re.split(r"\n\s*\n", _COMMENT.sub("", text))
    prose = (block for block in blocks if re.match(r"[\w`*“\[]", block))
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(next(prose, "").split()))


def expand_directives(text: str) -> str:
    """Replace each directive ``::: name`` by the definition and the docstring of the name."""

    def describe(match: re.Match[str]) -> str:
        module, _, name = match[1].rpartition(".")
        member, definition = getattr(importlib.import_module(module), name), name
        if inspect.isfunction(member):
            tree = ast.parse(textwrap.dedent(inspect.getsource(member))).body[0]
            definition = ast.unparse(tree).partition(":\n")[0]
        docstring = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", inspect.getdoc(member) or "")
        return f"## {match[1]}\n\n```python\n{definition}\n```\n\n{docstring}\n"

    return re.sub(r"^::: ([\w.]+)$", describe, text, flags=re.M)
