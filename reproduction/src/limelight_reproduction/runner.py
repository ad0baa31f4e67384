"""Run the experiments, reuse finished parts, and read the stored results of the other parts."""

__all__ = ["complete_results", "describe_plan", "measure_parts", "reproduce", "select_parts"]

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
from limelight_reproduction.progress import PartReporter, Progress
from limelight_reproduction.registry import EXPERIMENTS
from limelight_reproduction.report import NEED_LABELS, GrowingReport
from limelight_reproduction.results import (
    PartResult,
    Results,
    load_stored_results,
    part_path,
    read_part,
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
    image_model: str | os.PathLike[str] | None = None,
    text_model: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    on_plan: Callable[[str], None] | None = None,
) -> Path:
    """Run the experiments and return the path of the report.

    A run that was killed continues when the function is called again. If the needs of a part are
    missing (a GPU, a model or a data set), its numbers come from the results that the package
    includes, and the report says so. The report is written again after every experiment.

    Parameters
    ----------
    data
        Folder with IMDB's train and test files, or with a folder for each data set.
    output
        Folder for figures, tables, ``results.json``, ``report.html`` and trained models.
    quick
        Whether to measure fewer texts and samples.
    only
        Experiments ("figure-4") or parts of them ("figure-4.paper"). Empty means all.
    seed
        Seed of all random choices.
    device
        "cpu" or "cuda". By default a GPU is used if there is one.
    paper_model
        Folder of a model of the paper's recipe. By default the included one is used.
    pair_model
        Folder of a classifier of sentence pairs.
    image_model
        Folder of a deep classifier of images.
    text_model
        Folder of a deep classifier of film reviews.
    progress
        Function that is called with the progress of the run.
    on_plan
        Function that is called once, before the first part, with a description of the plan.

    Returns
    -------
    The path of ``report.html``.

    Raises
    ------
    InputError
        If a folder, a model, a text file or an experiment does not exist.
    """
    if not Path(data).is_dir():
        raise InputError(f"there is no data folder at '{data}'. It must contain the files of IMDB.")
    for model_folder in (paper_model, pair_model, image_model, text_model):
        if model_folder is not None and not (Path(model_folder) / "config.json").exists():
            raise InputError(f"there is no model folder at '{model_folder}'. Check the path.")
    selected, folder = select_parts(only), Path(output)
    setting = Setting(
        data=Path(data),
        models=folder / "models",
        quick=quick,
        seed=seed,
        device=usable_device(device),
        paper_model=None if paper_model is None else Path(paper_model),
        pair_model=None if pair_model is None else Path(pair_model),
        image_model=None if image_model is None else Path(image_model),
        text_model=None if text_model is None else Path(text_model),
    )
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"the output must be a folder, but '{output}' is a file. Name another folder, or move "
            "the file away."
        )
    _check_inputs(setting, selected, folder)
    folder.mkdir(parents=True, exist_ok=True)
    if on_plan is not None:
        on_plan(describe_plan(setting, selected, folder))
    report = GrowingReport(folder, model=setting.model_sentence, selected=len(selected))

    def write_report(results: Results, done: int) -> None:
        """Write the report with the results so far."""
        report.write(complete_results(setting, results, folder), done=done)

    results = measure_parts(setting, selected, folder, progress=progress, on_results=write_report)
    return report.write(complete_results(setting, results, folder), done=len(selected))


def _check_inputs(
    setting: Setting, selected: Sequence[tuple[Experiment, Part]], folder: Path
) -> None:
    """Read the user's models and the texts of all parts to measure; raise if one is missing."""
    models = {PAPER_MODEL: setting.paper_model, PAIR_MODEL: setting.pair_model}
    names = [name for name, path in models.items() if path is not None]
    if setting.pair_model is not None:
        names.append("sick test")  # a model of pairs without pairs is a mistake
    for experiment, part in selected:
        if _describe_source(setting, experiment, part, folder) == _NOW:
            names += part.reads
    for name in dict.fromkeys(names):
        setting.check_input(name)


def _describe_source(setting: Setting, experiment: Experiment, part: Part, folder: Path) -> str:
    """Describe the source of a part's numbers: an earlier run, this run, or the stored results."""
    reusable = _reusable_result(setting, experiment, part, folder) is not None
    return _KEPT if reusable else _source_without(part.missing_needs(setting))


def complete_results(setting: Setting, results: Results, output: Path) -> Results:
    """Add the results of earlier runs and the stored results, in the order of the report.

    Earlier results in ``output`` count if they were measured on the same models and texts. If an
    experiment has one result, its other parts come from the stored results. So a run of one part
    draws the complete experiment again.
    """
    complete: Results = {}
    for experiment in EXPERIMENTS:
        parts = dict(results.get(experiment.name, {}))
        for part in experiment.parts:
            if part.name not in parts and (
                earlier := _read_earlier_result(setting, experiment, part, output)
            ):
                parts[part.name] = earlier
        stored = load_stored_results().get(experiment.name, {}) if parts else {}
        names = [part.name for part in experiment.parts]
        parts = {name: result for name in names if (result := parts.get(name) or stored.get(name))}
        if parts:
            complete[experiment.name] = parts
    return complete


def measure_parts(
    setting: Setting,
    selected: Sequence[tuple[Experiment, Part]],
    folder: Path,
    *,
    progress: Progress | None = None,
    on_results: Callable[[Results, int], None] | None = None,
) -> Results:
    """Measure the selected parts that have no reusable result in ``folder``.

    Parameters
    ----------
    setting
        Data, models and size of the run.
    selected
        The parts to measure, each with its experiment.
    folder
        Output folder of the run.
    progress
        Function that is called with the progress of the run.
    on_results
        Function that is called when all selected parts of an experiment are done, with the results
        so far and the number of parts done.

    Returns
    -------
    The results of all selected parts. Nothing is drawn.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results: Results = {}
    stamp = source_stamp()  # of the loaded code, which may be edited during a long run
    with _fast_matrix_products():
        for number, (experiment, part) in enumerate(selected, start=1):
            reporter = PartReporter(
                progress,
                part=f"{experiment.name}.{part.name}",
                number=number,
                parts=len(selected),
                stages=part.stages,
            )
            result = _measure_part(setting, experiment, part, folder, reporter, stamp)
            if result is not None:
                results.setdefault(experiment.name, {})[part.name] = result
            if on_results is not None and not any(e is experiment for e, _ in selected[number:]):
                on_results(results, number)
    return results


def describe_plan(
    setting: Setting, selected: Sequence[tuple[Experiment, Part]], folder: Path
) -> str:
    """Describe for all selected parts whether they will be measured, kept or read from storage.

    For a full run, also say how many minutes the measurements took when they were stored.
    """
    by_source: dict[str, list[tuple[Experiment, Part]]] = {}
    for experiment, part in selected:
        source = _describe_source(setting, experiment, part, folder)
        by_source.setdefault(source, []).append((experiment, part))
    sources = sorted(by_source, key=lambda source: (source == _NOW, source != _KEPT))
    lines = [
        f"{source}: {len(by_source[source])} of {len(selected)} parts, "
        f"{_join_names(by_source[source])}."
        for source in sources
    ]
    results = [
        result
        for experiment, part in by_source.get(_NOW, [])
        if (result := load_stored_results().get(experiment.name, {}).get(part.name)) is not None
    ]
    seconds = sum(result.seconds for result in results)
    if not setting.quick and seconds >= 60:
        machines = dict.fromkeys(result.made_by.rpartition(", ")[2] for result in results)
        lines.append(f"They have taken {seconds / 60:.0f} minutes on {' and '.join(machines)}.")
    return "\n".join(lines)


_KEPT, _NOW = "Kept from before", "Measured now"


def _source_without(needs: Sequence[Need]) -> str:
    """Describe the source of the numbers of a part whose ``needs`` are missing."""
    if not needs:
        return _NOW
    if tuple(needs) == ("gpu",):
        return "From the stored results, since there is no GPU"
    labels = [NEED_LABELS[need] for need in needs]
    return f"From the stored results, since they need {' and '.join(labels)}"


def _join_names(parts: Sequence[tuple[Experiment, Part]]) -> str:
    """Join the names of parts by experiment: "figure-4 (shipped, paper), accuracy (shipped)"."""
    names: dict[str, list[str]] = {}
    for experiment, part in parts:
        names.setdefault(experiment.name, []).append(part.name)
    return ", ".join(f"{name} ({', '.join(part_names)})" for name, part_names in names.items())


def _reusable_result(
    setting: Setting, experiment: Experiment, part: Part, folder: Path
) -> PartResult | None:
    """Return the result of an earlier run in ``folder`` if this run may keep it."""
    earlier = _read_earlier_result(setting, experiment, part, folder)
    reusable = earlier is not None and earlier.is_reusable(
        part, quick=setting.quick, seed=setting.seed
    )
    return earlier if reusable else None


def _read_earlier_result(
    setting: Setting, experiment: Experiment, part: Part, folder: Path
) -> PartResult | None:
    """Read the result of an earlier run; None if it was measured on other models or texts."""
    earlier = read_part(part_path(folder, experiment, part))
    matches = earlier is not None and earlier.matches_inputs(setting.fingerprint)
    return earlier if matches else None


@contextlib.contextmanager
def _fast_matrix_products() -> Iterator[None]:
    """Let a GPU multiply float32 matrices with 10-bit mantissas, as is usual in training."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


def select_parts(only: Sequence[str]) -> list[tuple[Experiment, Part]]:
    """Return the parts that ``only`` names, in their order; all parts if it is empty."""
    all_parts = [(experiment, part) for experiment in EXPERIMENTS for part in experiment.parts]
    selected = {only} if isinstance(only, str) else set(only)
    names = [experiment.name for experiment in EXPERIMENTS]
    part_names = [f"{experiment.name}.{part.name}" for experiment, part in all_parts]
    for name in sorted(selected.difference(names, part_names)):
        experiment_name = name.partition(".")[0]
        choices = [part for part in part_names if part.startswith(f"{experiment_name}.")]
        raise InputError(
            unknown_name_message("part", name, choices)
            if choices
            else unknown_name_message("experiment", name, names)
        )
    return [
        (experiment, part)
        for experiment, part in all_parts
        if not selected or {experiment.name, f"{experiment.name}.{part.name}"} & selected
    ]


def _measure_part(
    setting: Setting,
    experiment: Experiment,
    part: Part,
    output: Path,
    reporter: PartReporter,
    stamp: dict[str, str],
) -> PartResult | None:
    """Measure a part, or return its reusable or stored result; None if there is none."""
    path = part_path(output, experiment, part)
    if (earlier := _reusable_result(setting, experiment, part, output)) is not None:
        reporter.end("kept")
        return earlier
    if part.missing_needs(setting):
        stored = load_stored_results().get(experiment.name, {}).get(part.name)
        reporter.end("stored" if stored else "missing")
        return stored
    setting.tick = reporter.tick
    setting.tick(0, 1)
    setting.used.clear()
    start = time.monotonic()
    numbers = part.measure(setting)
    result = PartResult(
        numbers=numbers,
        quick=setting.quick,
        seed=setting.seed,
        seconds=round(time.monotonic() - start, 1),
        limelight=stamp["limelight"],
        commit=stamp["commit"],
        made_by=_describe_machine(setting.device),
        version=part.version,
        inputs={name: setting.fingerprint(name) for name in sorted(setting.used)},
    )
    write_part(path, result)
    reporter.end("measured")
    return result


def _describe_machine(device: str) -> str:
    machine = torch.cuda.get_device_name(device) if device != "cpu" else platform.machine()
    return f"torch {torch.__version__}, {machine}"
