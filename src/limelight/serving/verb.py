"""``limelight.serve``: models, a run, a judgement, and the page that shows them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limelight.errors import InputError
from limelight.models import Model, checked_model, load
from limelight.models.loading import source_of
from limelight.results.judgement import Judgement
from limelight.serving.served import Served, ServedModel
from limelight.serving.server import LOOPBACK, Serving, started

if TYPE_CHECKING:
    from limelight.runs import Run


_MOST_MODELS = 2


def serve(
    model: Model | Sequence[Model] | None = None,
    *,
    run: "Run | str | os.PathLike[str] | None" = None,
    judgement: "Judgement | str | os.PathLike[str] | None" = None,
    host: str = LOOPBACK,
    port: int | None = None,
    seconds: int | float = 120,
) -> Serving:
    """Serve a page on this machine and return it: ``url`` is its address, ``stop()`` its end.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns, or a list of two to be
        compared. By default the one that comes with limelight, unless the run or the judgement is
        about another: then texts cannot be typed.
    run
        A run, or its folder: the page shows its texts, words, mistakes and slices.
    judgement
        A judgement, or its JSON file.
    host
        The address to serve on. Only this machine can open the page unless another is named.
    port
        By default one that is free.
    seconds
        What a question may take before it is given up.
    """
    _check(host=host, port=port, seconds=seconds)
    models, opened, judged = _models(model), _run(run), _judgement(judgement)
    if not models:
        models = _usual(opened, judged)
    named = tuple(ServedModel(name=_name(m, i, models), model=m) for i, m in enumerate(models))
    served = Served(models=named, run=opened, judgement=judged, seconds=float(seconds))
    return started(served, host=host, port=port)


def _check(*, host: Any, port: Any, seconds: Any) -> None:
    if not isinstance(host, str):
        raise InputError(f"host must be a name or an address, as text; got {host!r}.")
    if isinstance(port, bool) or not isinstance(port, int | None):
        raise InputError(f"a port is a number from 0 to 65535; got {port!r}.")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InputError(f"seconds must be a number above 0; got {seconds!r}.")


def _models(given: Any) -> list[Model]:
    if given is None:
        return []
    several = list(given) if isinstance(given, list | tuple) else [given]
    if len(several) > _MOST_MODELS:
        raise InputError(f"a page compares at most {_MOST_MODELS} models; got {len(several)}.")
    return [checked_model(one) for one in several]


def _usual(run: "Run | None", judgement: Judgement | None) -> list[Model]:
    """Return the shipped model, unless a run or a judgement is about another one."""
    about = {
        one for one in (run and run.record.model.fingerprint, judgement and judgement.model) if one
    }
    shipped = load()
    return [shipped] if about <= {shipped.fingerprint} else []


def _name(model: Model, number: int, models: list[Model]) -> str:
    source = source_of(model)
    if source is None:
        own = type(model).__name__
    else:
        own = "the IMDB model of limelight" if source.path is None else Path(source.path).name
    return own if len(models) == 1 else f"{'AB'[number]}: {own}"


def _run(given: Any) -> "Run | None":
    if given is None:
        return None
    from limelight.runs import Run

    return given if isinstance(given, Run) else Run(_path(given, "run"))


def _judgement(given: Any) -> Judgement | None:
    if given is None or isinstance(given, Judgement):
        return given
    from limelight.files import bounded_bytes

    return Judgement.from_json(bounded_bytes(_path(given, "judgement"), 1 << 30))


def _path(given: Any, name: str) -> Path:
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{name} must be a {name.capitalize()} or its path; got {given!r}.")
    return Path(given)
