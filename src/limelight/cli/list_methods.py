"""``limelight methods``."""

__all__ = ["methods"]

import json
from pathlib import Path
from typing import Literal

from limelight.cli.console import output_console
from limelight.explainers.registry import method_table
from limelight.models import load


def methods(
    *names: str,
    model: Path | None = None,
    format: Literal["terminal", "json"] = "terminal",
) -> None:
    """List the methods: what each computes, what it sees and what it cannot see.

    Parameters
    ----------
    names
        Show only these.
    model
        Say how each is computed for this model, with the settings that hold there: a folder, ours
        or a Hugging Face classifier, or "hub:owner/name".
    format
        A list for people, or one JSON object per line for programs.
    """
    table = method_table(None if model is None else load(model), *names)
    if format == "json":
        for row in table:
            print(json.dumps(row.to_dict(), ensure_ascii=False))
        return
    output_console().print(table)
