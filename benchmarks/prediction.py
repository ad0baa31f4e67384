"""Speed of reading and predicting, against the same model as a plain torch module.

python benchmarks/prediction.py
"""

import json
import sys
from collections.abc import Iterator
from statistics import median

import numpy as np
import torch

import limelight
from limelight.models.attention import AttentionClassifier, padded_ids
from limelight.text import token_strings, tokenize
from limelight.training import AttentionModule
from limelight_reproduction.one_layer.full_attention import FullAttention
from measuring import interleaved, on_cores, process, processes, seconds
from results import Measure, cold, command_line, report
from reviews import Reviews, reviews

TEXT = "This film is a delight from start to end, and the acting is superb."
COLD = {
    "predict": [sys.executable, "-m", "limelight", "predict", TEXT],
    "torch": [sys.executable, "-c", "import torch"],
    "numpy": [sys.executable, "-c", "import numpy"],
    "python": [sys.executable, "-c", "pass"],
}


def main() -> None:
    """Measure tokenizer, prediction, cold start and evaluation, all on one core."""
    arguments = command_line(__doc__ or "").parse_args()
    on_cores(1)
    torch.set_num_threads(1)
    model = limelight.load()
    data = reviews(model, count=16 if arguments.smoke else None)
    measures = [
        *tokenizer(data.texts[:2000], repeats=1 if arguments.smoke else 5),
        *prediction(model, data.texts[:2000], rounds=1 if arguments.smoke else 5),
        *cold_start(rounds=1 if arguments.smoke else 7),
        *(() if arguments.smoke else evaluation(data)),
    ]
    report("prediction", measures, arguments, data=data.source)


def tokenizer(texts: list[str], *, repeats: int) -> Iterator[Measure]:
    """Tokens per second, with and without their places."""
    count = sum(len(token_strings(text)) for text in texts)
    for name, work in {"strings": token_strings, "spans": tokenize}.items():
        taken = seconds(lambda work=work: [work(text) for text in texts], repeats=repeats)
        yield Measure(
            id=f"tokens_{name}",
            what=f"tokenizer, {'tokens' if name == 'strings' else 'tokens with places'}",
            value=count / float(np.median(taken)),
            best=count / float(taken.min()),
            unit="tokens/s",
        )


def prediction(model: AttentionClassifier, texts: list[str], *, rounds: int) -> Iterator[Measure]:
    """Documents per second from token ids: ours, and torch modules in their best batches."""
    rows = [model.vocabulary.encode(token_strings(text)[: model.T_max - 1]) for text in texts]
    ids = torch.from_numpy(padded_ids(rows, T_max=model.T_max)).long()
    few, batches = ids[:32], (1, 4, 32)
    full = {
        name: FullAttention.from_classifier(model, dtype=getattr(torch, name))
        for name in ("float32", "float64")
    }
    collapsed = AttentionModule.from_classifier(model)
    works = {
        "ours": lambda: model.logits_of_ids(rows),
        **{
            f"{name} {size}": lambda module=module, size=size: _in_batches(module, few, size)
            for name, module in full.items()
            for size in batches
        },
        "collapsed": lambda: _in_batches(collapsed, ids, 256),
    }
    taken = interleaved(works, rounds=rounds)
    counts = {name: len(few) if name.startswith("float") else len(rows) for name in works}
    middle = {name: counts[name] / float(np.median(taken[name])) for name in works}
    best = {name: counts[name] / float(taken[name].min()) for name in works}

    def measure(id: str, what: str, work: str, note: str = "") -> Measure:
        speed = {"value": middle[work], "best": best[work]}
        return Measure(id=id, what=what, unit="documents/s", note=note, **speed)

    yield measure("documents_ours", "prediction from token ids, limelight (float64)", "ours")
    what = "the same, torch, our training module (float32)"
    yield measure("documents_collapsed", what, "collapsed", "batches of 256")
    for name in full:
        size = max(batches, key=lambda size, name=name: best[f"{name} {size}"])
        what = f"the same, torch, full self-attention ({name})"
        fastest = f"{name} {size}"
        yield measure(f"documents_{name}", what, fastest, f"batches of {size}")
        yield Measure(
            id=f"prediction_speedup_{name}",
            what=f"limelight over full self-attention ({name})",
            value=middle["ours"] / middle[fastest],
            best=best["ours"] / best[fastest],
            unit="×",
            at_least=100,
        )
    for name, module in full.items():
        difference = model.logits_of_ids(rows[:32]) - _in_batches(module, few, 4).numpy()
        yield Measure(
            id=f"prediction_difference_{name}",
            what=f"largest difference of a logit from torch ({name})",
            value=float(np.abs(difference).max()),
            below=1e-5 if name == "float32" else 1e-12,
        )


def _in_batches(module: torch.nn.Module, ids: torch.Tensor, size: int) -> torch.Tensor:
    with torch.inference_mode():
        return torch.cat([module(batch) for batch in ids.split(size)])


def cold_start(*, rounds: int) -> Iterator[Measure]:
    """Whole processes, from the shell and back."""
    labels = {
        "predict": "cold start: limelight predict",
        "torch": 'cold start: python -c "import torch"',
        "numpy": 'cold start: python -c "import numpy"',
        "python": "cold start: python -c pass",
    }
    runs = processes(COLD, rounds=rounds)
    for name, what in labels.items():
        yield from cold(f"cold_{name}", what, runs[name])


def evaluation(data: Reviews) -> Iterator[Measure]:
    """Run ``limelight evaluate`` on all reviews as a process."""
    if data.path is None:
        print("limelight evaluate is not measured: it needs the reviews.")
        return
    command = [sys.executable, "-m", "limelight", "evaluate", "--format", "json"]
    runs = [process([*command, "--data", str(data.path)]) for _ in range(3)]
    used = min(runs, key=lambda run: run.cpu_seconds)
    found = json.loads(used.output)
    what = f"limelight evaluate, {found['texts']:,} reviews, whole process"
    clock, own = ([run[i] for run in runs] for i in (0, 1))
    yield Measure(
        id="evaluate_seconds",
        what=f"{what}, on the clock",
        value=median(clock),
        best=min(clock),
        unit="s",
        below=15,
    )
    yield Measure(
        id="evaluate_processor",
        what=f"{what}, processor",
        value=median(own),
        best=min(own),
        unit="s",
    )
    yield Measure(
        id="evaluate_memory",
        what="limelight evaluate, peak memory",
        value=used.peak_mb,
        unit="MB",
        below=1000,
    )
    yield Measure(
        id="evaluate_accuracy",
        what="limelight evaluate, accuracy",
        value=100 * found["accuracy"],
        unit="%",
        at_least=86.8,
    )


if __name__ == "__main__":
    main()
