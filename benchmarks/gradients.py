"""Attention and gradient methods, against captum on the same model as a torch module.

python benchmarks/gradients.py
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from captum.attr import InputXGradient, IntegratedGradients, Saliency
from torch import nn

import limelight
from limelight.explainers import Batch, prepare_batch
from limelight.explainers.registry import configure_method
from limelight.models.attention import AttentionClassifier, padded_ids
from limelight.text import UNK, ModelInput
from limelight_reproduction.one_layer.full_attention import FullAttention
from measuring import interleaved, on_cores, processes, seconds
from results import Measure, cold, command_line, report
from reviews import reviews

METHODS = ("alpha-avg", "alpha-max", "g-avg", "g-l1", "g-l2", "gxi", "ig", "loo")
LABELS = {"g-l1": "Saliency", "gxi": "InputXGradient", "ig": "IntegratedGradients"}
SHAPES = {"full": "full self-attention", "cls": "attention of [cls] only"}


def main() -> None:
    """Measure one comparison, each gradient method against captum's, and a cold start."""
    arguments = command_line(__doc__ or "").parse_args()
    on_cores(1)
    torch.set_num_threads(1)
    model = limelight.load()
    data = reviews(model, count=16 if arguments.smoke else 2000)
    text = data.of_tokens(200)
    rounds = 1 if arguments.smoke else 7
    measures = [
        *comparison(model, text, repeats=3 * rounds),
        *against_captum(model, text, rounds=rounds),
        *cold_start(text, rounds=rounds),
    ]
    report("gradients", measures, arguments, data=data.source)


def comparison(model: AttentionClassifier, text: str, *, repeats: int) -> Iterator[Measure]:
    """One ``compare`` of the eight methods of closed form, after start-up."""
    taken = 1000 * seconds(lambda: limelight.compare(model, text, methods=METHODS), repeats=repeats)
    yield Measure(
        id="compare",
        what="compare of eight methods, 200 tokens",
        value=float(np.median(taken)),
        best=float(taken.min()),
        unit="ms",
        below=20,
        note=" ".join(METHODS),
    )


class FromEmbeddings(nn.Module):
    """The classifier as a function of embeddings, which is what captum takes derivatives of.

    With ``rows`` = 1 only the attention of [cls] is computed, all that the output depends on; the
    usual way to write the module computes all rows.
    """

    def __init__(self, module: FullAttention, *, rows: int | None) -> None:
        super().__init__()
        self.module, self.rows = module, rows

    def forward(self, e: torch.Tensor) -> torch.Tensor:
        """Return f of every document."""
        module = self.module
        query, key, value = (
            part.unflatten(-1, (module.K, -1)).transpose(1, 2)
            for part in (module.query(e[:, : self.rows]), module.key(e), module.value(e))
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        heads = torch.softmax(scores, dim=-1) @ value
        return module.output(heads[:, :, 0].flatten(1)) / module.K


def captum_scores(
    model: AttentionClassifier, module: FromEmbeddings, method: str, model_input: ModelInput
) -> np.ndarray:
    """Return one number per token of the document, as a user of captum gets it."""
    inner, T = module.module, len(model_input.encoding.ids)
    ids = torch.from_numpy(padded_ids([model_input.encoding.ids], T_max=model.T_max)).long()
    with torch.no_grad():
        e = inner.embedding(ids) + inner.positions
    e.requires_grad_()
    if method == "g-l1":
        scores = Saliency(module).attribute(e, target=0)
    elif method == "gxi":
        scores = InputXGradient(module).attribute(e, target=0)
    else:
        empty = ids.clone()
        empty[:, 1:] = UNK
        with torch.no_grad():
            baseline = inner.embedding(empty) + inner.positions
        scores = IntegratedGradients(module).attribute(e, baselines=baseline, target=0)
    return scores.sum(-1)[0, 1 : 1 + T].detach().numpy()


def against_captum(model: AttentionClassifier, text: str, *, rounds: int) -> Iterator[Measure]:
    """One score per token: ours, and captum's on two torch modules in float32.

    From token ids both compute scores and nothing else. From the text, ours makes an Explanation,
    and captum is given the time to tokenise.
    """
    model_input = model.read(text)
    captum = {
        shape: partial(
            captum_scores, model, FromEmbeddings(FullAttention.from_classifier(model), rows=rows)
        )
        for shape, rows in (("full", None), ("cls", 1))
    }
    double = FromEmbeddings(FullAttention.from_classifier(model, dtype=torch.float64), rows=None)
    for method, name in LABELS.items():
        ours = partial(limelight.explain, model, text, method, features="positions")
        works: dict[str, Callable[[], Any]] = {
            "ids": partial(_scores, prepare_batch(model, [text], features="positions"), method),
            "text": ours,
        }
        for shape, scores in captum.items():
            works[shape] = partial(scores, method, model_input)
        times = _Times.of(works, rounds=rounds)
        yield times.measure("ids", f"{method}_ours", f"{method}, limelight, from token ids")
        yield times.measure("text", f"{method}_ours_text", f"{method}, limelight, from the text")
        for shape, words in SHAPES.items():
            what = f"captum {name}, {words}, from token ids"
            yield times.measure(shape, f"{method}_captum_{shape}", what)
        for shape, words in SHAPES.items():
            what = f"{method}, limelight over captum, {words}"
            wanted = 20 if shape == "full" else None
            yield times.ratio(shape, "ids", f"{method}_speedup_{shape}", what, wanted)
        theirs = captum_scores(model, double, method, model_input)
        yield Measure(
            id=f"{method}_difference",
            what=f"{method}, largest difference of a score",
            value=float(np.abs(theirs - ours().scores).max()),
            note=f"captum in float64, largest score {np.abs(theirs).max():.2g}"
            + ("; 50 steps, its default" if method == "ig" else ""),
        )
    yield from family(model, text, captum, rounds=rounds)


def _scores(batch: Batch, method: str) -> np.ndarray:
    """Return the scores of a document that is read already but of which nothing is computed."""
    chosen = configure_method(method, batch.model, {})
    fresh = replace(batch, cache=type(batch.cache)())
    return chosen.implementation.explain(chosen.settings, fresh)[0].scores


def family(
    model: AttentionClassifier,
    text: str,
    captum: dict[str, Callable[..., np.ndarray]],
    *,
    rounds: int,
) -> Iterator[Measure]:
    """The gradient methods together, from the text: one ``compare``, three methods of captum."""
    methods = ("g-avg", "g-l1", "g-l2", "gxi", "ig")
    works: dict[str, Callable[[], Any]] = {
        "ours": partial(limelight.compare, model, text, methods=methods, features="positions")
    }
    for shape, scores in captum.items():
        works[shape] = lambda scores=scores: [scores(method, model.read(text)) for method in LABELS]
    times = _Times.of(works, rounds=rounds)
    yield times.measure("ours", "family_ours", f"compare of {' '.join(methods)}, from the text")
    for shape, words in SHAPES.items():
        what = f"captum, these three, {words}, from the text"
        yield times.measure(shape, f"family_captum_{shape}", what)
    for shape, words in SHAPES.items():
        wanted = 20 if shape == "full" else None
        what = f"all together, limelight over captum, {words}"
        yield times.ratio(shape, "ours", f"family_speedup_{shape}", what, wanted)


class _Times(NamedTuple):
    """Median and best of several pieces of work done in turn, in milliseconds."""

    median: dict[str, float]
    best: dict[str, float]

    @classmethod
    def of(cls, works: dict[str, Callable[[], Any]], *, rounds: int) -> "_Times":
        short = {name: 5 for name in works if name not in SHAPES}
        taken = interleaved(works, rounds=rounds, times=short)
        return cls(
            {name: 1000 * float(np.median(values)) for name, values in taken.items()},
            {name: 1000 * float(values.min()) for name, values in taken.items()},
        )

    def measure(self, name: str, id: str, what: str) -> Measure:
        return Measure(id=id, what=what, value=self.median[name], best=self.best[name], unit="ms")

    def ratio(self, slow: str, fast: str, id: str, what: str, wanted: float | None) -> Measure:
        return Measure(
            id=id,
            what=what,
            value=self.median[slow] / self.median[fast],
            best=self.best[slow] / self.best[fast],
            unit="×",
            at_least=wanted,
        )


def cold_start(text: str, *, rounds: int) -> Iterator[Measure]:
    """``limelight compare`` from the shell and back, with the methods of this page."""
    command = [sys.executable, "-m", "limelight", "compare"]
    wanted = ["--methods", ",".join(METHODS)]
    commands = {"eight": [*command, *wanted, text], "default": [*command, text]}
    runs = processes(commands, rounds=rounds)
    labels = {"eight": "these eight", "default": "its default methods"}
    for name, words in labels.items():
        what = f"cold start: limelight compare, {words}"
        yield from cold(f"cold_compare_{name}", what, runs[name], below=1000)


if __name__ == "__main__":
    main()
