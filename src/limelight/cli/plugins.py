"""Commands of other packages, which are found by their entry points."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

from cyclopts import App

from limelight.cli.console import tell
from limelight.errors import IN_REPRODUCTION, InputError

GROUP = "limelight.commands"
_REPRODUCTION = ("plan", "reproduce")


def add_command(app: App, name: str) -> None:
    """Add the command ``name`` of another package, if one is installed that has it."""
    for point in _entry_points(app):
        if point.name == name:
            _register(app, point)
    if name in _REPRODUCTION and name not in app:
        raise InputError(IN_REPRODUCTION.format(f"the command {name!r}"))


def add_every_command(app: App) -> None:
    """Add the commands of all other packages; print a warning for each that cannot be used."""
    for point in _entry_points(app):
        try:
            _register(app, point)
        except InputError as error:
            tell(f"{error}")


def installed_commands() -> list[str]:
    """Return the names of the commands that other packages bring."""
    return [point.name for point in entry_points(group=GROUP)]


def _entry_points(app: App) -> Iterator[EntryPoint]:
    """Yield the commands of other packages; of several with one name, the first."""
    for point in entry_points(group=GROUP):
        if point.name not in app:
            yield point


def _register(app: App, point: EntryPoint) -> None:
    try:
        app.command(point.load(), name=point.name, version_flags=())
    except (Exception, SystemExit) as error:  # of a package that may do anything
        raise InputError(
            f"the command {point.name!r} from {point.value!r} cannot be used: {error!r}."
        ) from error
