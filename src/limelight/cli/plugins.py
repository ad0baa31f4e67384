"""Commands of other packages, found by their entry points."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

from cyclopts import App

from limelight.cli.console import print_stderr
from limelight.errors import IN_REPRODUCTION, InputError

GROUP = "limelight.commands"
_REPRODUCTION = ("plan", "reproduce")


def add_command(app: App, name: str) -> None:
    """Add the command ``name`` of another package, if it is installed."""
    for point in _installed_entry_points(app):
        if point.name == name:
            _register_command(app, point)
    if name in _REPRODUCTION and name not in app:
        raise InputError(IN_REPRODUCTION.format(f"the command {name!r}"))


def add_every_command(app: App) -> None:
    """Add the commands of all other packages; print a warning for each that cannot be used."""
    for point in _installed_entry_points(app):
        try:
            _register_command(app, point)
        except InputError as error:
            print_stderr(str(error))


def installed_commands() -> list[str]:
    """Return the names of the commands of other packages."""
    return [point.name for point in entry_points(group=GROUP)]


def _installed_entry_points(app: App) -> Iterator[EntryPoint]:
    """Yield the commands of other packages; if names repeat, only the first."""
    for point in entry_points(group=GROUP):
        if point.name not in app:
            yield point


def _register_command(app: App, point: EntryPoint) -> None:
    """Import the command of an entry point, and add it to the app."""
    try:
        app.command(point.load(), name=point.name, version_flags=())
    except (Exception, SystemExit) as error:  # another package may raise any error
        raise InputError(
            f"the command {point.name!r} from {point.value!r} cannot be used: {error!r}."
        ) from error
