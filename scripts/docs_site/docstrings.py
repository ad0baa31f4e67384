"""Docstrings as the site shows them: an extension of griffe, the parser of mkdocstrings.

griffe gives all parameters of a line "seed, budget" the type and the default of the first. It
reads an unindented line below "Returns" as a type. So this module rewrites both before griffe
parses them.
"""

import re
from typing import Any

import griffe

_PARAMETERS = re.compile(r"^(?:Other )?Parameters\n-+\n(?:(?!\w[\w ]*\n-+\n).*\n?)*", re.M)
_GROUP = re.compile(r"^(\w+(?:, \w+)+)\n((?:[ \t]+\S.*\n?|\n(?=[ \t]))+)", re.M)
_RETURNS = re.compile(r"^(Returns\n-+\n)(\S.*(?:\n\S.*)*)(?=\n\n|\Z)", re.M)


class PlainForms(griffe.Extension):
    """Rewrite the docstring of each function into the form that griffe parses correctly."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Rewrite the docstring of a function."""
        if func.docstring is not None:
            text = split_groups(func.docstring.value)
            func.docstring.value = add_return_type(text, str(func.returns or ""))


def split_groups(docstring: str) -> str:
    """Give each parameter of a line "seed, budget" an entry of its own."""

    def entries(group: re.Match[str]) -> str:
        description = group[2].rstrip("\n")
        after = group[2][len(description) :]
        return "\n".join(f"{name}\n{description}" for name in group[1].split(", ")) + after

    return _PARAMETERS.sub(lambda section: _GROUP.sub(entries, section[0]), docstring)


def add_return_type(docstring: str, annotation: str) -> str:
    """Put the type of the signature above the sentences below "Returns"."""

    def typed(section: re.Match[str]) -> str:
        sentences = re.sub("^", "    ", section[2], flags=re.M)
        return f"{section[1]}{annotation}\n{sentences}"

    return _RETURNS.sub(typed, docstring) if annotation else docstring
