"""Which files of a checkout use which: by import, by fixture, or by a path named in the code.

Only the syntax is read and nothing is imported, so it takes a second or two and keeps no state.
grimp, which checks our layers, knows packages alone: our tests are none, and files that are not
Python take part here.
"""

import ast
import gc
import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

from fast_tests.source import Source

__all__ = ["Checkout", "uses", "ways"]

_MODULE = re.compile(r"\w+(\.\w+)+")


class Checkout:
    """The files of a working tree, given by their paths relative to ``root``.

    A file may be listed that is gone: what still uses it is found all the same.
    """

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self.root = root
        self.files = {PurePosixPath(file) for file in files}
        looks = gc.isenabled()
        gc.disable()  # none of a million nodes is garbage, and looking for some doubles the time
        self.sources = {
            file: Source(self._tree(file), self._package(file))
            for file in self.files
            if file.suffix == ".py"
        }
        if looks:
            gc.enable()
        self.modules: dict[str, set[PurePosixPath]] = {}
        for file in self.sources:
            self.modules.setdefault(self.module(file), set()).add(file)

    @cached_property
    def data(self) -> dict[PurePosixPath, set[PurePosixPath]]:
        """Files that are not Python, by every folder that they are in."""
        found: dict[PurePosixPath, set[PurePosixPath]] = {}
        for file in self.files - self.sources.keys():
            for folder in file.parents:
                found.setdefault(folder, set()).add(file)
        return found

    @cached_property
    def ends(self) -> dict[str, set[PurePosixPath]]:
        """Files by their path and by each end of it: "a/b.md" and "b.md"."""
        found: dict[str, set[PurePosixPath]] = {}
        for file in self.files:
            for start in range(len(file.parts)):
                found.setdefault("/".join(file.parts[start:]), set()).add(file)
        return found

    def _tree(self, file: PurePosixPath) -> ast.Module:
        try:
            return ast.parse((self.root / file).read_text("utf-8"))
        except (OSError, SyntaxError, ValueError):
            return ast.Module(body=[], type_ignores=[])

    def _package(self, file: PurePosixPath) -> str:
        name = self.module(file)
        return name if file.name == "__init__.py" else name.rpartition(".")[0]

    def module(self, file: PurePosixPath) -> str:
        """Return the name under which a Python file is imported."""
        top = self.top(file)
        parts = file.relative_to(top).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def top(self, file: PurePosixPath) -> PurePosixPath:
        """Return the folder that holds the outermost package of ``file``.

        A folder within may lack its ``__init__.py``: Python imports from it all the same.
        """
        packages = [folder for folder in file.parents if folder / "__init__.py" in self.files]
        return packages[-1].parent if packages else file.parent

    def where(self, module: str, name: str) -> set[PurePosixPath]:
        """Files that ``from module import name`` is about: a package's front is looked through."""
        found: set[PurePosixPath] = set()
        asked = [(module, name)]
        seen = set(asked)
        while asked:
            module, name = asked.pop()
            found |= self.modules.get(f"{module}.{name}", set())
            for file in self.modules.get(module, ()):
                found.add(file)
                onward = self.sources[file].names.get(name)
                if onward and onward not in seen:
                    seen.add(onward)
                    asked.append(onward)
        return found


@cache
def uses(checkout: Checkout) -> dict[PurePosixPath, set[PurePosixPath]]:
    """Return for each Python file the files that it uses directly."""
    return {
        file: (
            _imported(checkout, file)
            | _imported_by_name(checkout, source)
            | _named(checkout, file)
            | _fixtures(checkout, file)
        )
        - {file}
        for file, source in checkout.sources.items()
    }


def _imported(checkout: Checkout, file: PurePosixPath) -> set[PurePosixPath]:
    """Files behind the import statements.

    What a package's ``__init__`` imports only to pass it on is no use of its own; ``where`` finds
    it for those who ask the package for that name. Else each test would use the whole package. It
    is the same with a conftest and those who ask for its fixtures.
    """
    source = checkout.sources[file]
    if file.name == "conftest.py":
        return set()
    passing = source.names.keys() - source.loaded if file.name == "__init__.py" else set()
    return _bound(checkout, source, {*source.names, *source.modules} - passing)


def _bound(checkout: Checkout, source: Source, aliases: set[str]) -> set[PurePosixPath]:
    """Files behind names that import statements bind, and behind attributes of these."""
    found: set[PurePosixPath] = set()
    bound = dict(source.modules)
    for alias, (module, name) in source.names.items():
        bound[alias] = f"{module}.{name}"
        if alias in aliases:
            found |= checkout.where(module, name)
    for alias in aliases & source.modules.keys():
        found |= checkout.modules.get(source.modules[alias], set())
    for alias, attribute in source.attributes:
        if alias in aliases and bound.get(alias) in checkout.modules:
            found |= checkout.where(bound[alias], attribute)
    return found


def _imported_by_name(checkout: Checkout, source: Source) -> set[PurePosixPath]:
    """Files of modules that are named in a string, whole ("a.b:c") or its beginning (f"a.{x}")."""
    found: set[PurePosixPath] = set()
    for text in source.strings:
        module = text.partition(":")[0]
        if _MODULE.fullmatch(module):
            found |= checkout.modules.get(module, set())
    for prefix in source.prefixes:
        if prefix.endswith(".") and prefix[:-1] in checkout.modules:
            for name, files in checkout.modules.items():
                found |= files if name.startswith(prefix) else set()
    return found


def _named(checkout: Checkout, file: PurePosixPath) -> set[PurePosixPath]:
    """Files whose path is named, or the end of it; and data in a folder that is named.

    Code in a named folder is left out: a test that reads the pages in docs does not run the
    programs there, and what it imports is known already.
    """
    found: set[PurePosixPath] = set()
    for path in checkout.sources[file].paths:
        found |= checkout.ends.get(path, set())
        for folder in (PurePosixPath(path), file.parent / path):
            found |= checkout.data.get(folder, set())
    return found


def _fixtures(checkout: Checkout, file: PurePosixPath) -> set[PurePosixPath]:
    """Conftests above ``file`` whose fixtures it asks for, and what these fixtures use."""
    found: set[PurePosixPath] = set()
    asked = checkout.sources[file].arguments
    for folder in file.parents:
        source = checkout.sources.get(folder / "conftest.py")
        if source and source.fixtures & asked:
            mentioned = source.mentioned(source.fixtures & asked)
            found |= {folder / "conftest.py"} | _bound(checkout, source, mentioned)
            asked = asked | mentioned
    return found


def ways(
    used: Mapping[PurePosixPath, set[PurePosixPath]], changed: Iterable[PurePosixPath]
) -> dict[PurePosixPath, tuple[PurePosixPath, ...]]:
    """Return for each file that ``changed`` concerns the shortest way to it, the file first."""
    users: dict[PurePosixPath, list[PurePosixPath]] = {}
    for user in sorted(used):
        for file in used[user]:
            users.setdefault(file, []).append(user)
    found = {file: (file,) for file in sorted(changed)}
    ring = list(found)
    while ring:
        outer = []
        for file in ring:
            for user in users.get(file, ()):
                if user not in found:
                    found[user] = (user, *found[file])
                    outer.append(user)
        ring = outer
    return found
