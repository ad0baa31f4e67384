"""``limelight serve``."""

__all__ = ["serve"]

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from limelight.cli.console import error_console, output_console
from limelight.errors import MissingExtraError
from limelight.models import load

if TYPE_CHECKING:
    from limelight.serving import Serving


def serve(
    *,
    model: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    run: Path | None = None,
    judgement: Path | None = None,
    port: int | None = None,
    host: str = "127.0.0.1",
    seconds: float = 120,
    open: Annotated[bool, Parameter(negative=())] = False,
    device: str | None = None,
) -> None:
    """Open a page on this machine: type a text and see, or look through a data set.

    Ctrl-C ends it.

    Parameters
    ----------
    model
        Folder of the model, or "hub:owner/name"; the IMDB model of the package if none is given.
        Given twice, two models are compared.
    run
        Folder of a run, which "limelight explain --data … --output FOLDER" wrote.
    judgement
        JSON file of a judgement, which "limelight judge --output FILE.json" wrote.
    port
        By default one that is free.
    host
        Address to serve on; by default only this machine can open the page.
    seconds
        What a question may take before it is given up.
    open
        Open the page in the browser.
    device
        Where to compute, as torch names it, such as "cuda".
    """
    try:
        from limelight import serving
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in ("starlette", "uvicorn"):
            raise
        raise MissingExtraError(f"limelight serve needs {package}", "serve") from None

    with serving.serve(
        [load(place, device=device) for place in model] or None,
        run=run,
        judgement=judgement,
        host=host,
        port=port,
        seconds=seconds,
    ) as page:
        try:
            _announce(page, host)
            if open:
                _open(page.url)
            page.wait()
        except KeyboardInterrupt as stop:
            if type(stop) is not KeyboardInterrupt:  # somebody else ends the process
                raise
            error_console().print("Stopped.", markup=False)


def _open(url: str) -> None:
    import webbrowser

    webbrowser.open(url)


def _announce(page: "Serving", host: str) -> None:
    output_console().print(page.url, markup=False, soft_wrap=True)
    said = "Open this address in a browser; Ctrl-C ends it."
    if not page.is_local:
        said += f" Whoever reaches {host} and has the address can use the model."
    error_console().print(said, markup=False)
