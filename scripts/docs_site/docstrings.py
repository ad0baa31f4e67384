"""Docstrings as griffe, the parser of mkdocstrings, reads them correctly.

It gives all parameters of a line "seed, budget" the type and the default of the first, reads an
unindented line below "Returns" as a type, and knows no :func:`name`.
"""

import re
from typing import Any

import griffe

_PARAMETERS = re.compile(r"^(?:Other )?Parameters\n-+\n(?:(?!\w[\w ]*\n-+\n).*\n?)*", re.M)
_GROUP = re.compile(r"^(\w+(?:, \w+)+)(\n(?:[ \t]+\S.*\n?|\n(?=[ \t]))*[ \t]+\S.*)", re.M)
_RETURNS = re.compile(r"^(Returns\n-+\n)(\S.*(?:\n\S.*)*)(?=\n\n|\Z)", re.M)
_ROLE = re.compile(r":\w+:`~?((?:limelight\.)?([\w.]+))(?:\(\))?`")
_REFERENCE = r'<autoref optional identifier="limelight.\2"><code>\1</code></autoref>'


class PlainForms(griffe.Extension):
    """Rewrite each docstring into the form that griffe parses correctly."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a function, a class or a module."""
        if obj.docstring is not None:
            returns = str(obj.returns or "") if isinstance(obj, griffe.Function) else ""
            obj.docstring.value = rewrite_docstring(obj.docstring.value, returns)


def rewrite_docstring(text: str, returns: str) -> str:
    """Give each parameter an entry, the result its type, and each :func:`name` a link."""

    def split(group: re.Match[str]) -> str:
        return "\n".join(name + group[2] for name in group[1].split(", "))

    text = _PARAMETERS.sub(lambda section: _GROUP.sub(split, section[0]), text)
    if returns:
        text = _RETURNS.sub(lambda m: f"{m[1]}{returns}\n    " + m[2].replace("\n", "\n    "), text)
    return _ROLE.sub(_REFERENCE, text)
