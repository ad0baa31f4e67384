"""The pages as text for language models: ``llms.txt`` lists them, ``llms-full.txt`` has them all.

The format is that of https://llmstxt.org: a title, a summary and lists of links.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from docs_site.navigation import INDEX, Section
from docs_site.staging import placed

LIST = "llms.txt"
FULL_TEXT = "llms-full.txt"
GENERATED = "<!-- generated"  # such pages are tables of numbers: listed, and not in the full text
_OPTIONAL = "Research"  # a reader with little room leaves this section out
_DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.M)
_COMMENT = re.compile(r"^<!--.*?-->\n", re.M | re.S)
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def write_llms(site: Path, sections: Iterable[Section], index: Path = INDEX) -> None:
    """Write ``llms.txt`` and ``llms-full.txt`` into the site."""
    sections = tuple(sections)
    (site / LIST).write_text(list_links(sections, index), "utf-8")
    (site / FULL_TEXT).write_text("\n".join(_full_text(sections, index)), "utf-8")


def list_links(sections: Iterable[Section], index: Path) -> str:
    """Return the text of ``llms.txt``: a link to each page, with its first paragraph."""
    title, summary = _title(index), first_paragraph(index.read_text("utf-8"))
    lines = [
        f"# {title}",
        "",
        f"> {summary}",
        "",
        f"All pages in one file: [{FULL_TEXT}]({FULL_TEXT})",
    ]
    for section in sections:
        title = "Optional" if section.title == _OPTIONAL else section.title
        lines += ["", f"## {title}", ""]
        for name, page in _entries(section):
            address = placed(page).with_suffix(".html").as_posix()
            lines.append(f"- [{name}]({address}): {first_paragraph(page.read_text('utf-8'))}")
    return "\n".join(lines) + "\n"


def first_paragraph(text: str) -> str:
    """Return the first paragraph of prose of a page on one line, without links."""
    blocks = re.split(r"\n\s*\n", _COMMENT.sub("", text))
    prose = (block for block in blocks if re.match(r"[\w`*“\[]", block))
    return _LINK.sub(r"\1", " ".join(next(prose, "").split()))


def expand_directives(text: str) -> str:
    """Replace each directive ``::: name`` by the signature and the docstring of the name."""
    return _DIRECTIVE.sub(lambda match: _describe(match[1]), text)


def _full_text(sections: Iterable[Section], index: Path) -> Iterator[str]:
    pages = [("", index), *(entry for section in sections for entry in _entries(section))]
    for _, page in pages:
        text = page.read_text("utf-8")
        if not text.startswith(GENERATED):
            yield _COMMENT.sub("", expand_directives(text))


def _entries(section: Section) -> Iterator[tuple[str, Path]]:
    yield from section.entries
    for _, entries in section.groups:
        yield from entries


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def _describe(name: str) -> str:
    """Return the heading, the signature as it is written, and the docstring of a name."""
    module, _, member = name.rpartition(".")
    described = getattr(importlib.import_module(module), member)
    docstring = _ROLE.sub(r"`\1`", inspect.getdoc(described) or "")
    return f"## {name}\n\n```python\n{_signature(member, described)}\n```\n\n{docstring}\n"


def _signature(name: str, described: object) -> str:
    if not inspect.isfunction(described):
        return f"class {name}" if inspect.isclass(described) else name
    definition = ast.parse(textwrap.dedent(inspect.getsource(described))).body[0]
    if not isinstance(definition, ast.FunctionDef):
        return name
    result = f" -> {ast.unparse(definition.returns)}" if definition.returns else ""
    return f"{name}({ast.unparse(definition.args)}){result}"
