"""``limelight explain``, of texts or of a whole data set, and ``compare``."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from limelight import verbs
from limelight.cli.console import (
    noted,
    output_console,
    parsed_settings,
    put,
    run_shown,
    tell,
)
from limelight.cli.options import (
    AnswerColumn,
    Argument,
    Asking,
    PairColumn,
    QuestionOptions,
    TextColumn,
    WholeNumberOrNone,
    explanations_in,
    names_in,
)
from limelight.cli.texts import Answers
from limelight.errors import InputError
from limelight.question import FIELDS
from limelight.results import Comparison, SpanExplanations
from limelight.results.explanation import explanations_csv

if TYPE_CHECKING:
    from limelight.runs import Run

_EACH: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {  # and what it is not asked then
    "all_classes": (verbs.explain_classes, ("target", "against")),
    "spans": (verbs.explain_spans, ("at", "answer")),
    "sentences": (verbs.explain_sentences, ("at", "target", "against", "scale")),
}
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
    engine: Literal["pool", "here", "ray"] | None = None
    workers: WholeNumberOrNone = None
    gpus_per_worker: float = 0.0
    address: str | None = None
    retry: Annotated[bool, Parameter(negative=())] = False
    no_texts: Annotated[bool, Parameter(negative=())] = False
    shard_texts: WholeNumberOrNone = None
    log: Literal["json"] | None = None

    def given(self, text: tuple[str, ...], asking: Asking) -> bool:
        """Return whether a data set is to be explained; refuse options that mean nothing then."""
        if not self.data:
            for field in fields(self):
                if getattr(self, field.name) != field.default:
                    option = field.name.replace("_", "-")
                    raise InputError(f"--{option} is about a data set; add --data.")
            return False
        texts, one, form = asking.texts, asking.texts.one, asking.out.format
        beside: dict[str, Any] = {"a text": text, "--file": one.file, "--lines": texts.lines}
        beside |= {"--tabs": texts.tabs, "--pair": one.pair, "--format": form}
        for name, there in beside.items():
            if there not in (None, (), False):
                raise InputError(f"give --data or {name}, not both.")
        if asking.out.output is None:
            raise InputError("--data needs a folder for the run; add --output FOLDER.")
        return True

    def explain(self, methods: str | None, asking: Asking, **asked: Any) -> None:
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
                **asked,
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
            f"scores, the first: {first} Try again with --retry."
        )
    said = f"{len(run):,} texts, {', '.join(run.methods)}: '{run.path}'"
    output_console().print(said, soft_wrap=True)


def explain(
    *text: Argument,
    method: Annotated[str | None, Parameter(name=["--method", "-m"])] = None,
    all_classes: Annotated[bool, Parameter(negative=())] = False,
    spans: Annotated[bool, Parameter(negative=())] = False,
    sentences: Annotated[bool, Parameter(negative=())] = False,
    question: QuestionOptions = QuestionOptions(),  # noqa: B008  (it is frozen)
    asking: Asking = Asking(),  # noqa: B008
    data_run: DataRun = DataRun(),  # noqa: B008
) -> None:
    """Show which words of a text move the model, by one method; or of a whole data set, by several.

    Parameters
    ----------
    method
        A name from "limelight methods"; by default lime on models for which it is exact, banzhaf
        where an answer is explained, else shapley. With --data several, separated by commas.
    all_classes
        Explain every class of the model, one after another, instead of the target.
    spans
        With a model that finds spans: explain each of them. With --data that is the default.
    sentences
        With a language model: explain each sentence of its answer, given those before it. With
        --data each has a row.
    """
    each = {"all_classes": all_classes, "spans": spans, "sentences": sentences}
    chosen = [name for name, there in each.items() if there]
    verb, without = _EACH[chosen[0]] if chosen else (verbs.explain, ())
    asked = question.keywords()
    beside = [one.name for one in FIELDS if one.name in without and asked[one.name] != one.default]
    for other in (*chosen[1:], *beside):
        raise InputError(f"give --{other} or --{chosen[0]}, not both.".replace("_", "-"))
    asked = {name: value for name, value in asked.items() if name not in without}
    if data_run.given(text, asking):
        more = {"all_classes": all_classes, "sentences": sentences}
        data_run.explain(method, asking, **asked, **more)
        return
    form = asking.out.form  # refused before any work is done
    if method is not None and "," in method:
        raise InputError(
            f"a text is explained by one method; got {method}. Use limelight compare, or --data "
            "for a whole data set."
        )
    answers = asking.asked(verb, text, method, **asked)
    _show(answers, form, asking.out.output)


def _show(answers: Answers[Any], form: str, output: Path | None) -> None:
    """Write answers as they come: every class by itself, and spans unless people read them."""
    whole: Any = (Comparison, SpanExplanations) if form in ("terminal", "html") else Comparison
    results: Iterable[Any] = (
        one
        for _, found in answers
        for one in ([found] if isinstance(found, whole) else explanations_in(found))
    )
    if form == "csv":
        results = explanations_csv((i, e) for i, found in answers for e in explanations_in(found))
    with noted(answers.how_to_go_on, OSError):  # a disk may be full
        put(results, form, output)
    answers.finish(said=form in ("terminal", "json", "html"))


def compare(
    *text: Argument,
    methods: Annotated[str | None, Parameter(name=["--methods", "-m"])] = None,
    question: QuestionOptions = QuestionOptions(),  # noqa: B008  (it is frozen)
    asking: Asking = Asking(),  # noqa: B008
) -> None:
    """Show what several methods say about the same text, and where they disagree.

    Parameters
    ----------
    methods
        Names from "limelight methods", separated by commas; by default the paper's seven and
        shapley on the paper's classifier, of answers banzhaf, shapley, context-cite, lime, lrp and
        loo, else shapley, lime, lrp, ig, loo and alpha-avg, as far as the model allows them.
    """
    form = asking.out.form
    asked = question.keywords() | {"methods": names_in(methods), "attention": form == "html"}
    answers = asking.asked(verbs.compare, text, **asked)
    _show(answers, form, asking.out.output)
