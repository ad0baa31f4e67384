"""What limelight adds to a model: pipelines, interactions, loading, cold starts, growth, memory.

python benchmarks/overhead.py                          this version alone
python benchmarks/overhead.py --base ../old/src        and an earlier version beside it

Each part runs in processes of its own, in turn with those of the earlier version and of what a user
would run instead, and the best of several rounds counts. Times are processor time of one thread.
Rules, written before the first run: a text of a run costs at most 0.9 calls of the pipeline with a
single text, and 1,000 news texts take at most a second; interactions of 800 distinct words take at
most 0.4 s and 1 GB; ``limelight compare`` takes at most 4 times as long as ``import numpy``; a
second load calls the network once. A number is worse than that of the earlier version from a ratio
of 1.05 on.
"""

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from measuring import on_cores, peak_memory
from results import Measure, command_line, report

SHARED = Path(__file__).resolve().parents[2] / "shared"
GROWTH = (25, 50, 100, 200, 400, 800, 1600, 3200)
TEXT = "A superb film, but the plot is dull."
PARTS = ("pipelines", "interactions", "growth", "loading")


def main() -> None:
    """Measure every part, or run one of them in this process."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--base", type=Path, help="the folder src of an earlier version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", choices=PARTS, help="run one part here, and print its numbers")
    arguments = parser.parse_args()
    on_cores(1)
    if arguments.part:
        print(json.dumps(globals()[f"measure_{arguments.part}"](smoke=arguments.smoke)))
        return
    measures = [
        measure for part in PARTS for measure in compared(arguments, part, RULES.get(part, {}))
    ]
    measures += cold_starts(arguments)
    base = "" if arguments.base is None else f", beside {version_of(arguments.base)}"
    report("overhead", measures, arguments, data=f"AG News, IMDB{base}")


# The measures with a rule, and the largest value.
RULES: dict[str, dict[str, float]] = {
    "pipelines": {"run_shapley_calls": 0.9, "run_lime_calls": 0.9, "run_shapley": 1.0},
    "interactions": {"seconds_800": 0.4, "memory": 1000},
    "loading": {"calls_again": 1.5},
}
UNITS = {"calls": "calls", "memory": "MB", "milliseconds": "ms", "seconds": "s"}


def version_of(source: Path) -> str:
    """Return the commit of a worktree whose folder src this is."""
    command = ["git", "-C", str(source), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def compared(arguments: Namespace, part: str, rules: dict[str, float]) -> Iterator[Measure]:
    """Run a part in turn with both versions, and yield the best numbers and their ratios."""
    sources = {"new": None, **({} if arguments.base is None else {"base": arguments.base})}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for _ in range(1 if arguments.smoke else arguments.rounds):
        for name, source in sources.items():
            runs[name].append(in_process(part, source, smoke=arguments.smoke))
    for key, first in runs["new"][0].items():
        values = [run[key] for run in runs["new"]]
        unit = next((unit for word, unit in UNITS.items() if word in key), "ms")
        below = None if arguments.smoke else rules.get(key)
        what = f"{part}: {key.replace('_', ' ')}"
        value = min(values)
        yield Measure(id=f"{part}_{key}", what=what, value=value, unit=unit, below=below)
        if "base" in runs and key in runs["base"][0] and first:
            before = min(run[key] for run in runs["base"])
            yield Measure(
                id=f"{part}_{key}_ratio",
                what=f"{what}, over the earlier version",
                value=value / before,
                unit="×",
                note=f"before: {before:.4g} {unit}",
            )


def in_process(
    part: str,
    source: Path | None,
    *,
    smoke: bool,
    program: str = __file__,
    options: Sequence[str] = (),
) -> dict[str, float]:
    """Run a part of a program in a process, perhaps with another version of limelight."""
    command = [sys.executable, program, "--part", part, *options, *["--smoke"] * smoke]
    environment = dict(os.environ)
    if source is not None:
        path = [str(source), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    numbers: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return numbers


def best(work: Callable[[], Any], repeats: int) -> float:
    """Return the least processor time of several calls, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measure_pipelines(*, smoke: bool) -> dict[str, float]:
    """Milliseconds per text: single calls of the pipeline, a call with all, lists and runs."""
    import limelight
    from linear import fitted

    data = fitted("ag_news", most=300 if smoke else 10_000)
    pipeline, texts = data.pipeline, data.texts[: 40 if smoke else 2000]
    model, few, repeats = limelight.wrap(pipeline), texts[:300], 1 if smoke else 4
    alone = few[:60]

    def explain_list(method: str) -> None:
        limelight.explain(model, few, method)

    def explain_alone(method: str) -> None:
        for text in alone:
            limelight.explain(model, text, method)

    def run(method: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            limelight.explain_data(
                model, {"text": texts}, method, output=f"{folder}/run", workers=1
            )

    def call_alone() -> None:
        for text in few:
            pipeline.predict_proba([text])

    single = best(call_alone, 5) / len(few)
    numbers = {  # the single calls are measured again at the end, and the best counts
        "single_call": single,
        "call_with_all": best(lambda: pipeline.predict_proba(few), 5) / len(few),
    }
    for method in ("shapley", "lime"):
        numbers[f"run_{method}"] = best(partial(run, method), repeats) / len(texts)
        numbers[f"list_{method}"] = best(partial(explain_list, method), repeats) / len(few)
        numbers[f"text_alone_{method}"] = best(partial(explain_alone, method), repeats) / len(alone)
    single = min(single, best(call_alone, 5) / len(few))
    numbers["single_call"] = single
    calls = {f"{name}_calls": value / single for name, value in numbers.items() if "_" in name}
    return {name: 1000 * value for name, value in numbers.items()} | calls


def distinct_words(count: int) -> str:
    """Return a text of distinct words of IMDB's reviews."""
    import re

    from linear import DATA, FILES, _read

    table = _read(DATA / FILES["imdb"][1])
    words: dict[str, None] = {}
    for text in table[0] if table else [" ".join(f"word{i}" for i in range(4000))]:
        words |= dict.fromkeys(re.findall(r"[a-z]{3,}|word\d+", text.lower()))
        if len(words) >= count:
            break
    return " ".join([*words][:count])


def imdb_pipeline(*, smoke: bool) -> Any:
    """Return a pipeline of TF-IDF and a logistic regression, as a model."""
    import limelight
    from linear import fitted

    return limelight.wrap(fitted("imdb", most=300 if smoke else 3000).pipeline)


def measure_interactions(*, smoke: bool) -> dict[str, float]:
    """Seconds of all pairs of the words of a text, and the peak memory."""
    import limelight

    model, numbers = imdb_pipeline(smoke=smoke), {}
    for count in (25, 50) if smoke else GROWTH[:6]:
        work = partial(limelight.explain, model, distinct_words(count), "interactions")
        numbers[f"seconds_{count}"] = best(work, 1 if smoke else 3)
    return numbers | {"memory": peak_memory()}


def measure_growth(*, smoke: bool) -> dict[str, float]:
    """Milliseconds of exact LIME and Shapley values by the number of words, and peak memory."""
    import limelight

    model, numbers = imdb_pipeline(smoke=smoke), {}
    for count in (25, 50) if smoke else GROWTH:
        text = distinct_words(count)
        for method in ("lime", "shapley"):
            work = partial(limelight.explain, model, text, method)
            numbers[f"{method}_{count}"] = 1000 * best(work, 1 if smoke else 3)
    return numbers | {"memory": peak_memory()}


def measure_loading(*, smoke: bool) -> dict[str, float]:
    """Calls of the network and milliseconds for a language model and its first explanation."""
    import torch

    import limelight
    from limelight.models.hugging_face import forward

    torch.set_num_threads(1)
    path = SHARED / "models" / "gpt2-mini-imdb"
    if not path.exists():
        return {}
    calls, make_input = [0], forward.network_input

    def counted(*arguments: Any, **keywords: Any) -> Any:
        calls[0] += 1
        return make_input(*arguments, **keywords)

    forward.network_input = counted
    numbers = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("LIMELIGHT_CACHE", None)
        os.environ["XDG_CACHE_HOME"] = folder
        limelight.load(path, template="{text} This film is")  # imports
        for round_name in ("first", "again"):
            gc.collect()  # otherwise a collection of 200 ms is in one of the numbers by chance
            start, calls[0] = time.process_time(), 0
            model = limelight.load(path, template="{text} This film is")
            numbers[f"milliseconds_{round_name}"] = 1000 * (time.process_time() - start)
            numbers[f"calls_{round_name}"] = calls[0]
            gc.collect()
            start, calls[0] = time.process_time(), 0
            limelight.explain(model, TEXT, "lime", answer="dull", samples=60 if smoke else 200)
            numbers[f"explain_{round_name}"] = 1000 * (time.process_time() - start)
            numbers[f"explain_calls_{round_name}"] = calls[0]
    return numbers


def processor_seconds(command: list[str], environment: dict[str, str]) -> float:
    """Return the processor time of a command, which must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"'{' '.join(command)}' failed.")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cold_starts(arguments: Namespace) -> Iterator[Measure]:
    """Measure the processor time of ``import numpy`` and of ``limelight compare``, in turn."""
    compare = [sys.executable, "-m", "limelight", "compare", TEXT]
    commands: dict[str, tuple[list[str], Path | None]] = {
        "numpy": ([sys.executable, "-c", "import numpy"], None),
        "compare": (compare, None),
    }
    if arguments.base is not None:
        commands["compare_base"] = (compare, arguments.base)
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        # As after an installation, modules are compiled once. The first round compiles them.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(1 if arguments.smoke else 10):
            for name, (command, source) in commands.items():
                path = {} if source is None else {"PYTHONPATH": str(source)}
                times[name].append(processor_seconds(command, environment | path))
    least = {name: min(values) for name, values in times.items()}
    for name, value in least.items():
        yield Measure(id=f"cold_{name}", what=f"cold start: {name}", value=1000 * value, unit="ms")
    for name in list(least)[1:]:
        yield Measure(
            id=f"cold_{name}_ratio",
            what=f"cold start: {name} over import numpy",
            value=least[name] / least["numpy"],
            unit="×",
            below=None if arguments.smoke or name != "compare" else 4,
        )


if __name__ == "__main__":
    main()
