"""One Python file, read by its syntax: what it imports, mentions and names."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Source"]


@dataclass(frozen=True)
class Source:
    """What one Python file says, as far as its dependencies go."""

    tree: ast.Module
    package: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the syntax tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def modules(self) -> dict[str, str]:
        """Names that ``import`` binds, each with its module."""
        return {
            alias.asname or alias.name: alias.name
            for node in self.nodes
            if isinstance(node, ast.Import)
            for alias in node.names
        }

    @cached_property
    def names(self) -> dict[str, tuple[str, str]]:
        """Names that ``from ... import`` binds, each with its module and its name there."""
        return {
            alias.asname or alias.name: (self._absolute(node), alias.name)
            for node in self.nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        above = self.package.split(".")
        return ".".join([*above[: len(above) - node.level + 1], *filter(None, [node.module])])

    @cached_property
    def loaded(self) -> set[str]:
        """Names that are used, beside being imported."""
        return {node.id for node in self.nodes if isinstance(node, ast.Name)}

    @cached_property
    def attributes(self) -> set[tuple[str, str]]:
        """Pairs (name, attribute) of ``name.attribute``."""
        return {
            (node.value.id, node.attr)
            for node in self.nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }

    @cached_property
    def strings(self) -> set[str]:
        """String constants that a line of code might use as a name."""
        constants = (node.value for node in self.nodes if isinstance(node, ast.Constant))
        return {value for value in constants if isinstance(value, str) and len(value) < 200}

    @cached_property
    def prefixes(self) -> set[str]:
        """Beginnings of formatted strings, as in ``f"package.{name}"``."""
        return {
            str(node.values[0].value)
            for node in self.nodes
            if isinstance(node, ast.JoinedStr)
            and node.values
            and isinstance(node.values[0], ast.Constant)
        }

    @cached_property
    def paths(self) -> set[str]:
        """Paths that are named: ``ROOT / "docs" / "index.md"`` says "docs/index.md"."""
        chains = [n for n in self.nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
        inner = {id(node.left) for node in chains}
        joined = {"/".join(_tail(node)) for node in chains if id(node) not in inner}
        written = {text for text in self.strings if "/" in text and not re.search(r"\s", text)}
        return {path.strip("/") for path in joined | written if path.strip("/.")}

    @cached_property
    def arguments(self) -> set[str]:
        """Names of arguments and of ``usefixtures``: in a test, the fixtures it asks for."""
        named = (
            argument.value
            for node in self.nodes
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("usefixtures")
            for argument in node.args
            if isinstance(argument, ast.Constant)
        )
        return {node.arg for node in self.nodes if isinstance(node, ast.arg)} | set(named)

    @cached_property
    def fixtures(self) -> set[str]:
        """Functions that are decorated as a fixture."""
        return {
            name for name, marks in self.marked.items() if any("fixture" in mark for mark in marks)
        }

    @cached_property
    def definitions(self) -> dict[str, ast.FunctionDef | ast.ClassDef]:
        """Functions and classes of the file by name."""
        kinds = (ast.FunctionDef, ast.ClassDef)
        return {node.name: node for node in self.tree.body if isinstance(node, kinds)}

    @cached_property
    def marked(self) -> dict[str, set[str]]:
        """Marks of each function and class, as they are written after the @."""
        return {
            name: {ast.unparse(decorator) for decorator in node.decorator_list}
            for name, node in self.definitions.items()
        }

    @cached_property
    def marks(self) -> set[str]:
        """Marks of the whole file: what ``pytestmark`` is set to."""
        values = (
            node.value
            for node in self.tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        )
        return {
            ast.unparse(mark)
            for value in values
            for mark in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])
        }

    def mentioned(self, asked: set[str]) -> set[str]:
        """Names that the definitions called ``asked`` mention, and those that these mention."""
        found: set[str] = set()
        while new := asked & self.definitions.keys() - found:
            found |= new
            for node in (node for name in new for node in ast.walk(self.definitions[name])):
                if isinstance(node, ast.Name | ast.arg):
                    asked = asked | {node.id if isinstance(node, ast.Name) else node.arg}
        return asked


def _tail(node: ast.expr) -> Iterator[str]:
    """Return the constants that end a chain of ``/``, in order.

    What stands in ``tmp_path`` is none of the checkout's files.
    """
    if not isinstance(node, ast.BinOp) or ast.unparse(node).startswith("tmp_path"):
        return
    if isinstance(node.right, ast.Constant) and isinstance(node.right.value, str):
        yield from _tail(node.left)
        yield node.right.value
