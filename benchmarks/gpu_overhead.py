"""What limelight adds to a model on a GPU: sampled and learned methods, and exact runs.

python benchmarks/gpu_overhead.py --model MINILM --data test.jsonl.gz                 this version
python benchmarks/gpu_overhead.py --model MINILM --data test.jsonl.gz --base OLD/src  and an earlier

Each part runs in a process of its own, in turn with the earlier version, and the best of several
rounds counts. Both sides of a ratio are measured in one process. Rules, written before the first
run: sampled LIME and Shapley values of a list of texts evaluate at least .85 as many masked texts
per second as the bare model. Before lists were explained two texts at a time, this rule was for a
loop with one call for each text, which the measures "alone" still show. A learned method explains a
list of texts at .7 of the speed of the model alone, which tokenizes the texts and predicts. Exact
LIME of 25,000 reviews takes at most 5 s.
"""

import gzip
import json
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from model_speed import bare_model, explained, explained_together, masked, methods, rate
from overhead import in_process, version_of
from results import Measure, command_line, report

PARTS = ("sampled", "learned", "exact")
RULES = {
    "lime_ratio": {"at_least": 0.85},
    "shapley_ratio": {"at_least": 0.85},
    "learned_ratio": {"at_least": 0.7},
    "exact_seconds": {"below": 5.0},
}
UNITS = {"seconds": "s", "rate": "texts/s", "ratio": "", "memory": "MB"}
SAMPLES = 5000


def main() -> None:
    """Measure every part, or run one of them in this process."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--data", type=Path, help=".jsonl.gz with reviews")
    parser.add_argument("--base", type=Path, help="the folder src of an earlier version")
    parser.add_argument("--base-name", help="its commit, if the folder is no worktree")
    parser.add_argument("--learned", type=Path, help="a method that was learned for the model")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--part", choices=PARTS, help="run one part here, and print its numbers")
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(globals()[f"measure_{arguments.part}"](arguments)))
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.learned = arguments.learned or learn(arguments, Path(folder))
        measures = [measure for part in PARTS for measure in compare(arguments, part)]
    base = ""
    if arguments.base is not None:
        base = f", beside {arguments.base_name or version_of(arguments.base)}"
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    report("gpu_overhead", measures, arguments, data=f"IMDB's reviews{base}", device=device)


def compare(arguments: Namespace, part: str) -> Iterator[Measure]:
    """Run a part in turn with both versions, and yield the best numbers of each."""
    sources = {"now": None, **({} if arguments.base is None else {"before": arguments.base})}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    options = [
        f"--{name}={value}"
        for name in ("model", "data", "learned")
        if (value := getattr(arguments, name)) is not None
    ]
    for _ in range(1 if arguments.smoke else arguments.rounds):
        for name, source in sources.items():
            numbers = in_process(
                part, source, smoke=arguments.smoke, program=__file__, options=options
            )
            runs[name].append(numbers)
    for name, rounds in runs.items():
        for key in rounds[0]:
            choose = min if key.endswith(("seconds", "memory")) else max
            is_judged = name == "now" and not arguments.smoke
            yield Measure(
                id=key if name == "now" else f"{key}_before",
                what=f"{part}: {key.replace('_', ' ')}, {name}",
                value=choose(run[key] for run in rounds),
                unit=UNITS[key.rpartition("_")[2]],
                **(RULES.get(key, {}) if is_judged else {}),
            )


def read(arguments: Namespace, count: int) -> list[str]:
    """Return the first reviews of the data, by default those of IMDB in its Parquet file."""
    if arguments.data is None:
        import limelight
        from reviews import reviews

        return list(reviews(limelight.load(), count=count).texts)
    with gzip.open(arguments.data, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in islice(lines, count)]


def learn(arguments: Namespace, folder: Path) -> Path:
    """Learn a method from a hundred reviews, and return its folder."""
    import limelight

    size = 24 if arguments.smoke else 100
    texts = [
        " ".join(text.split()[: 12 if arguments.smoke else 120]) for text in read(arguments, size)
    ]
    model = limelight.load(arguments.model)
    limelight.learn(model, texts, pairs=1, judged=0, output=folder / "method")
    return folder / "method"


def device_memory() -> float:
    """Return the peak memory that torch reserved on the GPU, in megabytes."""
    return torch.cuda.max_memory_reserved() / 1e6 if torch.cuda.is_available() else 0.0


def measure_sampled(arguments: Namespace) -> dict[str, float]:
    """Measure masked texts per second of the bare model and of two methods, and their ratios."""
    import limelight

    model = limelight.load(arguments.model)
    samples = 200 if arguments.smoke else SAMPLES
    texts = [text for text in read(arguments, 400) if 90 < len(text.split()) < 200][:10]
    if arguments.smoke:
        texts = [" ".join(text.split()[:12]) for text in texts[:1]]
    rows = [masked(model, text, samples) for text in texts]
    bare_model(model, rows[:1])  # what is made at the first use
    bare = max(rate(partial(bare_model, model, rows)) for _ in range(3))
    numbers = {"bare_rate": bare}
    if torch.cuda.is_available():  # the memory of the methods, not of the bare model
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    for name, settings in methods(texts, samples).items():
        for calls, explain in (("", explained_together), ("_alone", explained)):
            explain(model, texts[:2], name, settings)
            speed = max(rate(partial(explain, model, texts, name, settings)) for _ in range(3))
            numbers |= {f"{name}{calls}_rate": speed, f"{name}{calls}_ratio": speed / bare}
    return numbers | {"sampled_memory": device_memory()}


def measure_learned(arguments: Namespace) -> dict[str, float]:
    """Measure the seconds of a learned method and of the model alone for a list of reviews."""
    import limelight

    model = limelight.load(arguments.model)
    texts = read(arguments, 40 if arguments.smoke else 10_000)
    method = limelight.LearnedMethod.load(arguments.learned)
    limelight.explain(model, texts[:300], method)
    model.logits(texts[:300])
    seconds = {}
    for name, work in {
        "model": lambda: model.logits(texts),
        "learned": lambda: limelight.explain(model, texts, method),
    }.items():
        start = time.perf_counter()
        work()
        seconds[f"{name}_seconds"] = time.perf_counter() - start
    ratio = seconds["model_seconds"] / seconds["learned_seconds"]
    return {**seconds, "learned_ratio": ratio, "learned_memory": device_memory()}


def measure_exact(arguments: Namespace) -> dict[str, float]:
    """Measure the seconds of exact LIME of all reviews, from texts to explanations."""
    import limelight

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = limelight.load(device=device)
    texts = read(arguments, 40 if arguments.smoke else 25_000)
    limelight.explain(model, texts[:600], "lime")
    start = time.perf_counter()
    limelight.explain(model, texts, "lime")
    seconds = time.perf_counter() - start
    return {"exact_seconds": seconds, "exact_memory": device_memory()}


if __name__ == "__main__":
    main()
