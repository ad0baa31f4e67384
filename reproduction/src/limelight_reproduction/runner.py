"""Runs the experiments: what is finished stays, what cannot run here comes from stored results."""

__all__ = ["chosen", "completed", "measure", "plan", "reproduce"]

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from limelight import InputError
from limelight.errors import unknown_name_message
from limelight.provenance import source_stamp
from limelight.training import usable_device
from limelight_reproduction.experiment import Experiment, Part
from limelight_reproduction.progress import Progress, Teller
from limelight_reproduction.registry import EXPERIMENTS
from limelight_reproduction.report import WANTS, GrowingReport
from limelight_reproduction.results import (
    Measured,
    Results,
    part_file,
    read_part,
    stored,
    write_part,
)
from limelight_reproduction.setting import PAIR_MODEL, PAPER_MODEL, Need, Setting


def reproduce(
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    seed: int = 0,
    device: str | None = None,
    paper_model: str | os.PathLike[str] | None = None,
    pair_model: str | os.PathLike[str] | None = None,
    picture_model: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    planned: Callable[[str], None] | None = None,
) -> Path:
    """Run the experiments and return the report.

    ``output`` receives figures, tables, ``results.json`` and ``report.html``; a run that was killed
    continues when it is called again. ``only`` names experiments ("figure-4") or parts of them
    ("figure-4.paper"). Parts that need a graphics card, a ``pair_model`` and SICK, or a
    ``picture_model`` and Fashion-MNIST, are taken from the results that the package carries where
    there is none, and the report says so; ``planned`` hears beforehand which those are, and how
    long the others took before. The report is written anew after every experiment.
    """
    if not Path(data).is_dir():
        raise InputError(f"there is no data folder at '{data}'; it must hold IMDB's files.")
    for folder in (paper_model, pair_model, picture_model):
        if folder is not None and not (Path(folder) / "config.json").exists():
            raise InputError(f"there is no model folder at '{folder}'; check the path.")
    wanted, place = chosen(only), Path(output)
    setting = Setting(
        data=Path(data),
        models=place / "models",
        quick=quick,
        seed=seed,
        device=usable_device(device),
        paper_model=None if paper_model is None else Path(paper_model),
        pair_model=None if pair_model is None else Path(pair_model),
        picture_model=None if picture_model is None else Path(picture_model),
    )
    if place.exists() and not place.is_dir():
        raise InputError(
            f"the output must be a folder, and '{output}' is a file; name another folder, or move "
            "the file away."
        )
    _look_for_inputs(setting, wanted, place)
    place.mkdir(parents=True, exist_ok=True)
    if planned is not None:
        planned(plan(setting, wanted, place))
    report = GrowingReport(place, model=setting.papers_model, wanted=len(wanted))

    def grown(results: Results, done: int) -> None:
        report.write(completed(setting, results, place), done=done)

    measured = measure(setting, wanted, place, progress=progress, grown=grown)
    return report.write(completed(setting, measured, place), done=len(wanted))


def _look_for_inputs(
    setting: Setting, wanted: Sequence[tuple[Experiment, Part]], place: Path
) -> None:
    """Read the models that were given and the texts of what will be measured, or say what lacks."""
    given = {PAPER_MODEL: setting.paper_model, PAIR_MODEL: setting.pair_model}
    names = [name for name, folder in given.items() if folder is not None]
    if setting.pair_model is not None:
        names.append("sick test")  # a model of pairs without pairs is a mistake
    for experiment, part in wanted:
        if _source(setting, experiment, part, place) == _NOW:
            names += part.reads
    for name in dict.fromkeys(names):
        setting.find(name)


def _source(setting: Setting, experiment: Experiment, part: Part, place: Path) -> str:
    """Say where the numbers of a part will come from."""
    kept = _kept(setting, experiment, part, place) is not None
    return _KEPT if kept else _since(part.lacks(setting))


def completed(setting: Setting, results: Results, output: Path) -> Results:
    """Return ``results`` with what earlier runs left in ``output``, in the order of the report.

    What they measured on other models or other texts is left out. Other parts of an experiment that
    is there come from the stored results, so that running one part again redraws the whole
    experiment and loses no other.
    """
    whole: Results = {}
    for experiment in EXPERIMENTS:
        parts = dict(results.get(experiment.name, {}))
        for part in experiment.parts:
            if part.name not in parts and (found := _earlier(setting, experiment, part, output)):
                parts[part.name] = found
        rest = stored().get(experiment.name, {}) if parts else {}
        names = [part.name for part in experiment.parts]
        parts = {name: one for name in names if (one := parts.get(name) or rest.get(name))}
        if parts:
            whole[experiment.name] = parts
    return whole


def measure(
    setting: Setting,
    wanted: Sequence[tuple[Experiment, Part]],
    place: Path,
    *,
    progress: Progress | None = None,
    grown: Callable[[Results, int], None] | None = None,
) -> Results:
    """Measure the parts that are ``wanted`` and not in ``place`` already; nothing is drawn.

    ``grown`` is given what there is, and after how many parts, whenever an experiment has all that
    is wanted of it.
    """
    place.mkdir(parents=True, exist_ok=True)
    results: Results = {}
    stamp = source_stamp()  # of the code that was loaded: it may be edited during a long run
    with _fast_products():
        for number, (experiment, part) in enumerate(wanted, start=1):
            teller = Teller(
                progress,
                part=f"{experiment.name}.{part.name}",
                number=number,
                parts=len(wanted),
                stages=part.stages,
            )
            found = _part(setting, experiment, part, place, teller, stamp)
            if found is not None:
                results.setdefault(experiment.name, {})[part.name] = found
            if grown is not None and not any(e is experiment for e, _ in wanted[number:]):
                grown(results, number)
    return results


def plan(setting: Setting, wanted: Sequence[tuple[Experiment, Part]], place: Path) -> str:
    """Say which of the parts that are ``wanted`` will be measured, and which come from elsewhere.

    A full run also hears how long the measurements took when they were stored.
    """
    here: dict[str, list[tuple[Experiment, Part]]] = {}
    for experiment, part in wanted:
        source = _source(setting, experiment, part, place)
        here.setdefault(source, []).append((experiment, part))
    sources = sorted(here, key=lambda source: (source == _NOW, source != _KEPT))
    lines = [
        f"{source}: {len(here[source])} of {len(wanted)} parts, {_named(here[source])}."
        for source in sources
    ]
    before = [stored().get(e.name, {}).get(part.name) for e, part in here.get(_NOW, [])]
    seconds = sum(found.seconds for found in before if found is not None)
    if not setting.quick and seconds >= 60:
        machines = dict.fromkeys(found.made_by.rpartition(", ")[2] for found in before if found)
        lines.append(f"They have taken {seconds / 60:.0f} minutes on {' and '.join(machines)}.")
    return "\n".join(lines)


_KEPT, _NOW = "Kept from before", "Measured now"


def _since(lacks: Sequence[Need]) -> str:
    """Say where the numbers of a part come from that ``lacks`` so much."""
    if not lacks:
        return _NOW
    if tuple(lacks) == ("gpu",):
        return "From the stored results, since there is no graphics card"
    return f"From the stored results, since they need {' and '.join(WANTS[n] for n in lacks)}"


def _named(parts: Sequence[tuple[Experiment, Part]]) -> str:
    """Return the parts by experiment: "figure-4 (shipped, paper), accuracy (shipped)"."""
    names: dict[str, list[str]] = {}
    for experiment, part in parts:
        names.setdefault(experiment.name, []).append(part.name)
    return ", ".join(f"{name} ({', '.join(inside)})" for name, inside in names.items())


def _kept(setting: Setting, experiment: Experiment, part: Part, place: Path) -> Measured | None:
    """Return what an earlier run left in ``place``, where it still serves."""
    earlier = _earlier(setting, experiment, part, place)
    serves = earlier is not None and earlier.serves(part, quick=setting.quick, seed=setting.seed)
    return earlier if serves else None


def _earlier(setting: Setting, experiment: Experiment, part: Part, place: Path) -> Measured | None:
    """Return what an earlier run measured on the same models and texts."""
    earlier = read_part(part_file(place, experiment, part))
    return earlier if earlier is not None and earlier.is_of(setting.fingerprint) else None


@contextlib.contextmanager
def _fast_products() -> Iterator[None]:
    """Let a graphics card multiply float32 matrices with 10-bit mantissas, as most trainings do."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def chosen(only: Sequence[str]) -> list[tuple[Experiment, Part]]:
    """Return the parts that ``only`` names, all if it names none, in their order."""
    every = [(experiment, part) for experiment in EXPERIMENTS for part in experiment.parts]
    wanted = {only} if isinstance(only, str) else set(only)
    names = [experiment.name for experiment in EXPERIMENTS]
    parts = [f"{experiment.name}.{part.name}" for experiment, part in every]
    for name in sorted(wanted.difference(names, parts)):
        whole = name.partition(".")[0]
        inside = [part for part in parts if part.startswith(f"{whole}.")]
        raise InputError(
            unknown_name_message("part", name, inside)
            if inside
            else unknown_name_message("experiment", name, names)
        )
    return [
        (experiment, part)
        for experiment, part in every
        if not wanted or {experiment.name, f"{experiment.name}.{part.name}"} & wanted
    ]


def _part(
    setting: Setting,
    experiment: Experiment,
    part: Part,
    output: Path,
    teller: Teller,
    stamp: dict[str, str],
) -> Measured | None:
    path = part_file(output, experiment, part)
    if (earlier := _kept(setting, experiment, part, output)) is not None:
        teller.end("kept")
        return earlier
    if part.lacks(setting):
        found = stored().get(experiment.name, {}).get(part.name)
        teller.end("stored" if found else "missing")
        return found
    setting.tick = teller.tick
    setting.tick(0, 1)
    setting.used.clear()
    start = time.monotonic()
    numbers = part.measure(setting)
    measured = Measured(
        numbers=numbers,
        quick=setting.quick,
        seed=setting.seed,
        seconds=round(time.monotonic() - start, 1),
        limelight=stamp["limelight"],
        commit=stamp["commit"],
        made_by=_made_by(setting.device),
        version=part.version,
        inputs={name: setting.fingerprint(name) for name in sorted(setting.used)},
    )
    write_part(path, measured)
    teller.end("measured")
    return measured


def _made_by(device: str) -> str:
    machine = torch.cuda.get_device_name(device) if device != "cpu" else platform.machine()
    return f"torch {torch.__version__}, {machine}"
