"""How much of a transformer's own speed is left to the methods that ask it thousands of times.

python benchmarks/model_speed.py                                     three reviews, one core
python benchmarks/model_speed.py --reviews 10 --samples 5000         as on a graphics card

The bare model answers the same masked texts in one loop over ready-made tensors, on a graphics card
in half precision; the result is then called model_speed_cuda.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import limelight
from huggingface import FOLDER, read
from limelight.models.hugging_face.model import HuggingFace
from measuring import on_cores
from results import Measure, command_line, report

BATCH = {"cpu": 8, "cuda": 1024}  # texts of the bare model, about 130 tokens each
WANTED = {"cpu": 0.9, "cuda": 0.6}  # of the bare model's speed


def main() -> None:
    """Measure the bare model and every method in turn, the best of two rounds."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--model", default=FOLDER, help="a Hugging Face folder")
    parser.add_argument("--data", help=".jsonl.gz with texts, the reviews themselves")
    parser.add_argument("--reviews", type=int, default=3)
    parser.add_argument("--samples", type=int, default=500)
    arguments = parser.parse_args()
    cuda = torch.cuda.is_available()
    if not cuda:
        on_cores(1)
        torch.set_num_threads(1)
    model = limelight.load(str(arguments.model))
    assert isinstance(model, HuggingFace)
    texts, source = read(arguments)
    samples = 60 if arguments.smoke else arguments.samples
    measures = list(compared(model, texts, samples))
    if cuda:
        measures += precision(model, texts, samples)
    report(
        "model_speed_cuda" if cuda else "model_speed",
        measures,
        arguments,
        data=f"{len(texts)} of {source}, {samples} masks each",
        **({"device": torch.cuda.get_device_name()} if cuda else {}),
    )


def compared(model: HuggingFace, texts: list[str], samples: int) -> Iterator[Measure]:
    """Texts per second of the bare model and of each method, and their ratios."""
    device = model.network.device.type
    asked = [masked(model, text, samples) for text in texts]
    bare = max(rate(partial(bare_model, model, asked)) for _ in range(2))
    yield Measure(id="bare", what="bare model", value=bare, unit="texts/s")
    for name, settings in methods(texts, samples).items():
        for text in texts[:1]:
            limelight.explain(model, text, name, **settings)  # what is made on first use
        speed = max(rate(partial(explained, model, texts, name, settings)) for _ in range(2))
        yield Measure(id=name, what=f"{name}, masked", value=speed, unit="texts/s")
        yield Measure(
            id=f"{name}_ratio",
            what=f"{name} over the bare model",
            value=speed / bare,
            at_least=WANTED[device],
        )


def methods(texts: list[str], samples: int) -> dict[str, dict[str, Any]]:
    """Settings with which every method asks about ``samples`` masks of a text."""
    words = max(len(set(text.lower().split())) for text in texts)
    return {"lime": {"samples": samples}, "shapley": {"pairs": max(2, samples // (2 * words))}}


def masked(model: HuggingFace, text: str, samples: int) -> np.ndarray:
    """Return ids (samples, T) of a text whose pieces are masked at random."""
    ids = np.array(model.tokenizer(text, truncation=True)["input_ids"])
    keep = np.random.default_rng(0).random((samples, len(ids))) < 0.5
    keep[:, [0, -1]] = True
    return np.where(keep, ids, model.tokenizer.mask_token_id)


def bare_model(model: HuggingFace, asked: list[np.ndarray]) -> int:
    """Ask the model in batches of tensors on its device; return how many texts."""
    network = model.network
    if network.device.type == "cuda":
        network = _half(network)
    done = 0
    with torch.inference_mode():
        for rows in asked:
            for batch in torch.as_tensor(rows, device=network.device).split(
                BATCH[network.device.type]
            ):
                network(input_ids=batch, attention_mask=torch.ones_like(batch)).logits.cpu()
                done += len(batch)
    return done


def _half(network: Any, made: dict[int, Any] = {}) -> Any:  # noqa: B006 (one copy for all rounds)
    import copy

    if id(network) not in made:
        made[id(network)] = copy.deepcopy(network).half().eval()
    return made[id(network)]


def explained(model: HuggingFace, texts: list[str], name: str, settings: dict[str, Any]) -> int:
    """Explain every text; return how many texts the model was asked."""
    before = model.engine.items
    for text in texts:
        limelight.explain(model, text, name, **settings)
    return model.engine.items - before


def explained_together(
    model: HuggingFace, texts: list[str], name: str, settings: dict[str, Any]
) -> int:
    """Explain the texts in one call; return how many texts the model was asked."""
    before = model.engine.items
    limelight.explain(model, texts, name, **settings)
    return model.engine.items - before


def rate(work: Callable[[], int]) -> float:
    """Return how many texts a second were answered."""
    start = time.perf_counter()
    done = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return done / (time.perf_counter() - start)


def precision(model: HuggingFace, texts: list[str], samples: int) -> Iterator[Measure]:
    """How far half precision moves scores, in standard errors: the same masks in single."""
    single = HuggingFace(network=model.network, tokenizer=model.tokenizer, half=False)
    for name, settings in methods(texts, samples).items():
        off = []
        for text in texts:
            ours, exact = (limelight.explain(m, text, name, **settings) for m in (model, single))
            assert ours.stderr is not None
            off.append(np.abs(ours.scores - exact.scores) / ours.stderr)
        yield Measure(
            id=f"{name}_half",
            what=f"{name}: largest change by half precision",
            value=float(np.concatenate(off).max()),
            unit="standard errors",
            below=1.0,
            note=f"median {np.median(np.concatenate(off)):.2g}",
        )


if __name__ == "__main__":
    main()
