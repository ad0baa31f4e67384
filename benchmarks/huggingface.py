"""Sampled LIME and Shapley values of a Hugging Face model, against lime, shap and captum on it.

python benchmarks/huggingface.py                      three reviews of about 100 words, 1000 samples
python benchmarks/huggingface.py --reviews 10 --samples 5000    as on a graphics card

Where there is a graphics card it is used, and the result is called huggingface_cuda.
"""

import argparse
import gzip
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import limelight
from limelight.explainers import Lime
from limelight.models.hugging_face.model import HuggingFace
from limelight.sampling.masks import MASK_SIZE_POWERS
from measuring import Work, on_cores, peak_memory, process, worked
from results import Measure, command_line, read_result, report, stored_measures
from transformer_references import References
from transformer_rivals import (
    Counted,
    captum_kernel_shap,
    captum_lime,
    groups,
    lime_package,
    shap_partition,
)

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "shared" / "models" / "minilm-imdb"
REFERENCES = HERE / "references" / "huggingface.json"
BATCH = {"cpu": 64, "cuda": 512}  # of the others
WORDS = 100
LONG = 25_000  # samples of a long run
VARIANCES = {"cpu": 1, "cuda": 5}  # texts whose standard errors are compared
HOWS = ("mask", "delete")
OURS = Lime().sizes
FASTER = {"mask": 1.3, "delete": 2.5}  # wanted at the same standard error


def main() -> None:
    """Measure everybody in turn, then the peak memory of a long text."""
    arguments = parsed()
    if not torch.cuda.is_available():
        on_cores(1)
        torch.set_num_threads(1)
    model = limelight.load(arguments.model)
    assert isinstance(model, HuggingFace)
    if arguments.memory_of is not None:
        print(json.dumps(long_text(model, *arguments.memory_of)))
        return
    texts, source = read(arguments)
    samples = 60 if arguments.smoke else arguments.samples
    references = References(
        model, *((None, 120) if arguments.smoke else (arguments.references, LONG))
    )
    device = model.network.device.type
    context = {"device": torch.cuda.get_device_name()} if device == "cuda" else {}
    name = "huggingface" if device == "cpu" else f"huggingface_{device}"
    measures = stored(name) if arguments.memory_only else []
    parts = [] if arguments.memory_only else [compared(model, texts, samples, references)]
    for part in (*parts, memory(arguments, device)):
        measures += part  # what was measured is written even if the rest does not end
        report(name, measures, arguments, data=f"{len(texts)} of {source}", **context)


def stored(name: str) -> list[Measure]:
    """Return the measures of an earlier run, without those of memory."""
    measures = stored_measures(read_result(name))
    return [measure for measure in measures if not measure.id.startswith("memory_")]


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--model", type=Path, default=FOLDER, help="a Hugging Face folder")
    parser.add_argument("--data", type=Path, help=".jsonl.gz with texts, the reviews themselves")
    parser.add_argument("--reviews", type=int, default=3)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument(
        "--references", type=Path, default=REFERENCES, help="JSON file of long runs, to be added to"
    )
    parser.add_argument("--memory-only", action="store_true", help="keep the rest as it is stored")
    parser.add_argument("--memory-of", type=int, nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def read(arguments: argparse.Namespace) -> tuple[list[str], str]:
    """Return the reviews nearest to 100 words, and what they are; short ones for a smoke run."""
    if arguments.data is not None:
        with gzip.open(arguments.data, "rt", encoding="utf-8") as lines:
            texts, source = [json.loads(line)["text"] for line in lines], "IMDB test reviews"
    else:
        from reviews import reviews

        found = reviews(limelight.load(), count=2000)
        texts, source = found.texts, found.source
    clean = [text.replace("<br />", " ") for text in texts]
    ordered = sorted(clean, key=lambda text: abs(len(text.split()) - WORDS))[: arguments.reviews]
    short = [" ".join(text.split()[:12]) for text in ordered[:1]]
    return short if arguments.smoke else ordered, source


def compared(
    model: HuggingFace, texts: list[str], samples: int, references: References
) -> Iterator[Measure]:
    """Time, calls, memory and distance of everybody, then what ours gains over lime."""
    ask = Counted(model, batch=BATCH[model.network.device.type])
    for work in everybody(model, ask, 60).values():
        work(" ".join(texts[0].split()[:12]))  # imports, and what is compiled on first use
    tools = everybody(model, ask, samples)
    found: dict[str, list[Work]] = {name: [] for name in tools}
    for text in texts:
        for name, work in tools.items():
            found[name].append(worked(partial(work, text), lambda: model.engine.items + ask.texts))
            print(f"{name}: {found[name][-1].seconds:.1f} s", flush=True)
    clock = model.network.device.type == "cuda"
    for name, works in found.items():
        yield from _of_tool(name, works, texts, references, clock=clock)
    seconds = {name: _seconds(works, clock=clock) for name, works in found.items()}
    for how in HOWS:
        yield from _gain(model, texts, samples, how, seconds)


def everybody(
    model: HuggingFace, ask: Counted, samples: int
) -> Mapping[str, Callable[[str], np.ndarray]]:
    """Return, by name, what returns the scores of a text."""
    tools: dict[str, Callable[[str], np.ndarray]] = {}
    for how in HOWS:
        bow = how == "delete"
        tools[f"ours_{how}"] = partial(_ours, model, samples, how)
        tools[f"lime_{how}"] = partial(_swapped, lime_package, ask, samples, bow=bow)
    tools["ours_shapley"] = partial(_our_shapley, model, samples)
    tools["captum_kernelshap"] = partial(_swapped, captum_kernel_shap, ask, samples)
    tools["captum_lime"] = partial(_swapped, captum_lime, ask, samples)
    if importlib.util.find_spec("shap"):
        tools["shap_partition"] = partial(_swapped, shap_partition, ask, samples)
    return tools


def _swapped(tool: Any, ask: Counted, samples: int, text: str, **options: Any) -> np.ndarray:
    return tool(ask, text, samples, **options)


def _ours(model: HuggingFace, samples: int, how: str, text: str, **more: Any) -> np.ndarray:
    words = groups(model, text, bow=how == "delete")
    options = {"samples": samples, "replacement": how, "features": words, **more}
    options["scale"] = "score"  # the output of the class, which the others are asked about
    return limelight.explain(model, text, "lime", **options).scores


def _our_shapley(model: HuggingFace, samples: int, text: str) -> np.ndarray:
    d = len(set(model.read(text).tokens.strings))
    pairs = max(2, samples // (2 * (d - 1)))  # as many model calls as the others have samples
    options = {"replacement": "mask", "pairs": pairs, "scale": "score"}
    return limelight.explain(model, text, "shapley", **options).scores


def _seconds(works: list[Work], *, clock: bool) -> float:
    return sum(work.seconds if clock else work.processor for work in works)


def _of_tool(
    name: str, works: list[Work], texts: list[str], references: References, *, clock: bool
) -> Iterator[Measure]:
    """Sums over the texts; distances over those that have a long run."""
    what = name.replace("_", ", ")
    yield Measure(
        id=f"{name}_seconds",
        what=f"{what}: {'time on the clock' if clock else 'processor time'}",
        value=_seconds(works, clock=clock),
        unit="s",
        note="" if clock else f"on the clock {_seconds(works, clock=True):.3g} s",
    )
    calls = float(sum(work.calls for work in works))
    yield Measure(id=f"{name}_calls", what=f"{what}: texts the model was asked", value=calls)
    peak = max(work.peak_mb for work in works)
    yield Measure(id=f"{name}_memory", what=f"{what}: peak memory", value=peak, unit="MB")
    pairs = zip(texts, works, strict=True)
    off = [references.distance(name, text, work.result) for text, work in pairs]
    known = [distance for distance in off if distance is not None]
    if known:
        yield Measure(
            id=f"{name}_distance",
            what=f"{what}: distance to its long run",
            value=float(np.sqrt(np.mean(np.square(known)))),
            note=f"root mean square over words of {len(known)} text(s), in logits",
        )


def _gain(
    model: HuggingFace, texts: list[str], samples: int, how: str, seconds: Mapping[str, float]
) -> Iterator[Measure]:
    """How much faster ours is than lime: for as many samples, and for the same standard error."""
    faster = seconds[f"lime_{how}"] / seconds[f"ours_{how}"]
    yield Measure(
        id=f"{how}_speedup", what=f"lime over ours, same samples, {how}", value=faster, at_least=1.0
    )
    variance = {
        name: _variance(model, texts, samples, how, sizes=name) for name in MASK_SIZE_POWERS
    }
    gains = {
        name: variance["uniform"] / variance[name] for name in MASK_SIZE_POWERS if name != "uniform"
    }
    for name, gain in gains.items():
        note = "ours" if name == OURS else ""
        what = f"variance of uniform sizes, which lime draws, over {name} ones, {how}"
        yield Measure(id=f"{how}_{name}_gain", what=what, value=gain, note=note)
    yield Measure(
        id=f"{how}_same_error",
        what=f"lime over ours, same standard error, {how}",
        value=faster * gains[OURS],
        at_least=FASTER[how],
        note="ratio of times by ratio of variances",
    )


def _variance(model: HuggingFace, texts: list[str], samples: int, how: str, *, sizes: str) -> float:
    """Return the mean squared standard error over the words of all texts."""
    options = {"samples": samples, "replacement": how, "sizes": sizes, "seed": 1}
    options["scale"] = "score"
    found = []
    for text in texts[: VARIANCES[model.network.device.type]]:
        words = groups(model, text, bow=how == "delete")
        e = limelight.explain(model, text, "lime", features=words, **options)
        assert e.stderr is not None
        found.append(float((e.stderr**2).mean()))
    return float(np.mean(found))


def memory(arguments: argparse.Namespace, device: str) -> Iterator[Measure]:
    """Peak memory of whole processes that explain a text of 512 tokens by LIME."""
    few, many = (1000, 5000) if device == "cuda" else (200, 600)
    runs = {"few": (few, 2), "many": (many, 2), "classes": (few, 100)}
    peaks: dict[str, float] = {}
    once = cache(process)  # a smoke run asks the same three times
    for id, (samples, classes) in runs.items():
        numbers = ("2", "2") if arguments.smoke else (str(samples), str(classes))
        place = ("--model", str(arguments.model), "--memory-of", *numbers)
        ran = once((sys.executable, str(HERE / "huggingface.py"), *place))
        said = json.loads(ran.output.splitlines()[-1])
        peaks[id] = ran.peak_mb
        note = f"{said['before_mb']:.0f} MB before explaining"
        note += f"; on the card {said['cuda_mb']:.0f} MB" if device == "cuda" else ""
        yield Measure(
            id=f"memory_{id}",
            what=f"LIME of 512 tokens, {samples} samples, {classes} classes: peak memory",
            value=ran.peak_mb,
            unit="MB",
            below=2000,
            note=note,
        )
    for id, what in (("many", f"{many} samples over {few}"), ("classes", "100 classes over 2")):
        ratio = peaks[id] / peaks["few"]
        yield Measure(
            id=f"memory_growth_{id}", what=f"peak memory of {what}", value=ratio, below=1.05
        )


def long_text(model: HuggingFace, samples: int, classes: int) -> dict[str, float]:
    """Explain as many words as the model reads, with a random head if it has too few classes."""
    network = model.network
    if classes != len(model.classes):
        torch.manual_seed(0)
        head = torch.nn.Linear(network.classifier.in_features, classes)
        network.classifier = head.to(network.device)
        network.config.id2label = {i: f"class {i}" for i in range(classes)}
    words = [f"{word}" for word in model.tokenizer.get_vocab() if word.isalpha() and len(word) > 3]
    text = " ".join(sorted(words)[: model.max_length])
    before = peak_memory()
    limelight.explain(model, text, "lime-sampled", samples=samples, target=0)
    used = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return {"cuda_mb": used / 1e6, "before_mb": before}


if __name__ == "__main__":
    main()
