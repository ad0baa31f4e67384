"""``limelight explain --data``: a whole data set, into a folder."""

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from limelight.cli.console import output_console, parsed_settings, run_shown, tell
from limelight.cli.options import (
    AnswerColumn,
    Asking,
    PairColumn,
    QuestionOptions,
    TextColumn,
    WholeNumberOrNone,
    names_in,
)
from limelight.errors import InputError, nearest

if TYPE_CHECKING:
    from limelight.runs import Run

ENGINES = ("pool", "here", "ray")
_SAME = (  # options that are keywords of ``explain_data``
    "text_column", "pair_column", "id_column", "label_column", "at_column", "answer_column",
    "limit", "shard_texts", "retry",
)  # fmt: skip


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DataRun:
    """A whole data set.

    Parameters
    ----------
    data
        Explain every row of this file (.parquet, .csv, .tsv, .jsonl, the last three also .gz) or of
        the files of this folder; --output then names the folder of the run. May be repeated. The
        same command goes on where an earlier one was interrupted.
    id_column
        Column of the ids; by default one of a usual name, else the number of the row.
    label_column
        Column of the labels; by default one of a usual name, else there are none.
    at_column
        With a model that finds spans: column of the place that each text is asked about, its
        words or START:END; by default every span that is found has a row.
    limit
        Explain so many rows, the first ones; by default all.
    engine
        "pool": processes of this machine; "here": this process; "ray": a Ray cluster. By default
        the pool, and this process where there is one GPU.
    workers
        Processes or actors; by default one per core, or as many as the cluster has room for.
    gpus_per_worker
        GPUs that a worker on a Ray cluster needs; parts of one are possible.
    address
        Address of the Ray cluster, or "auto"; by default one is started on this machine.
    retry
        Try the texts again that failed before.
    no_texts
        Store no texts, only their hashes and explanations.
    shard_texts
        Texts in a shard, the part that is lost if a worker is; by default 1,000 or fewer.
    log
        "json": a line of JSON on standard error for every shard, instead of a bar.
    """

    data: Annotated[
        tuple[Path, ...], Parameter(name=["--data", "-d"], negative=(), consume_multiple=True)
    ] = ()
    text_column: TextColumn = None
    pair_column: PairColumn = None
    id_column: str | None = None
    label_column: str | None = None
    at_column: str | None = None
    answer_column: AnswerColumn = None
    limit: WholeNumberOrNone = None
    engine: str | None = None
    workers: WholeNumberOrNone = None
    gpus_per_worker: float = 0.0
    address: str | None = None
    retry: Annotated[bool, Parameter(negative=())] = False
    no_texts: Annotated[bool, Parameter(negative=())] = False
    shard_texts: WholeNumberOrNone = None
    log: str | None = None

    def given(self, text: tuple[str, ...], asking: Asking) -> bool:
        """Return whether a data set is to be explained; refuse options that mean nothing then."""
        if not self.data:
            for field in fields(self):
                if getattr(self, field.name) != field.default:
                    option = field.name.replace("_", "-")
                    raise InputError(f"--{option} is about a data set; add --data.")
            return False
        for name, there in (
            ("a text", bool(text)),
            ("--file", asking.texts.one.file is not None),
            ("--lines", asking.texts.lines),
            ("--tabs", asking.texts.tabs),
            ("--pair", asking.texts.one.pair is not None),
            ("--format", asking.out.format is not None),
        ):
            if there:
                raise InputError(f"give --data or {name}, not both.")
        if asking.out.output is None:
            raise InputError("--data needs a folder for the run; add --output FOLDER.")
        if self.engine not in (None, *ENGINES):
            raise InputError(nearest("engine", self.engine, ENGINES))
        if self.log not in (None, "json"):
            raise InputError(nearest("log", self.log, ["json"]))
        return True

    def explain(
        self,
        methods: str | None,
        question: QuestionOptions,
        asking: Asking,
        *,
        all_classes: bool,
        sentences: bool,
    ) -> None:
        """Explain the data set, show how far it is, and say at the end where it lies."""
        from limelight import explain_data

        model = asking.model.load(labelled=True)
        names = names_in(methods)
        output = Path(asking.out.output or "")
        with run_shown(output, self.log) as shown:
            run = explain_data(
                model,
                list(self.data),
                names if names is None or len(names) > 1 else names[0],
                output=output,
                all_classes=all_classes,
                sentences=sentences,
                **question.keywords(),
                **{name: getattr(self, name) for name in _SAME},
                labels=asking.model.data_labels,
                budget=asking.budget,
                texts_kept=not self.no_texts,
                progress=shown,
                **self._where(asking.model.device),
                **parsed_settings(asking.set, explain_data),
            )
        _say_end(run)

    def _where(self, device: str | None) -> dict[str, Any]:
        """Return executor and workers."""
        engine = self.engine or ("here" if _on_gpu(device) else "pool")
        if engine != "ray" and (self.gpus_per_worker or self.address is not None):
            raise InputError("--address and --gpus-per-worker are for --engine ray.")
        if engine == "here":
            if self.workers not in (None, 1):
                raise InputError(f"--engine here has one worker; got {self.workers}.")
            return {}
        if engine == "ray":
            from limelight.runs import RayActors

            gpus = self.gpus_per_worker
            return {"executor": RayActors(self.workers, address=self.address, gpus_per_worker=gpus)}
        from limelight.runs.engines import usable_cores

        return {"workers": usable_cores() if self.workers is None else self.workers}


def _on_gpu(device: str | None) -> bool:
    """Return whether the model that was just loaded is on a GPU, which one process uses best."""
    if device is not None:
        return not device.startswith("cpu")
    torch = sys.modules.get("torch")  # our own classifier does without, unless a device is named
    return torch is not None and bool(torch.cuda.is_available())


def _say_end(run: "Run") -> None:
    failed, rows = run.failed, len(run) * run.record.rows_per_text
    if failed:
        (first, *_) = run.errors().column("error").to_pylist()
        if failed == rows:
            raise InputError(f"none of the {len(run):,} texts could be explained: {first}")
        tell(
            f"{failed:,} of {rows:,} rows {'has' if failed == 1 else 'have'} an error instead of "
            f"scores, the first: {first} --retry tries them again."
        )
    said = f"{len(run):,} texts, {', '.join(run.methods)}: '{run.path}'"
    output_console().print(said, soft_wrap=True)
