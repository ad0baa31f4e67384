"""``limelight reproduce``: the command of another package, which is found by its entry point."""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated, Any

from cyclopts import App, Parameter

from limelight.errors import InputError

_GROUP = "limelight.commands"

# Help is handed over with everything else: only the other package knows its options.
reproduce = App(name="reproduce", help_flags=(), version_flags=())


@reproduce.default
def _handed_over(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> Any:
    # Markdown is set anew for the width of the terminal; plain text keeps a docstring's own lines.
    command = App(name="limelight reproduce", help_format="markdown", version_flags=())
    command.default(_installed() or _not_installed)
    command["--help"].show = False  # as for every other command
    return command(arguments, exit_on_error=False, print_error=False, result_action="return_value")


def _installed() -> Callable[..., Any] | None:
    """Return the command that an installed package offers under our name; None if none does."""
    found = [one for one in entry_points(group=_GROUP) if one.name == "reproduce"]
    return found[0].load() if found else None


def _not_installed(
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],  # noqa: ARG001
) -> None:
    """Run the paper's experiments again and write a report.

    The experiments are a package of their own, which is not installed: run pip install
    ./reproduction in a checkout of limelight.
    """
    raise InputError(
        "the paper's experiments are a package of their own, which is not installed; run pip "
        "install ./reproduction in a checkout of limelight."
    )
