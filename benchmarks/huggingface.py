"""Sampled LIME of a Hugging Face model, against lime, shap and captum on the same model.

python benchmarks/huggingface.py                    one review of about 100 words, 1000 samples
python benchmarks/huggingface.py --reviews 3        three of them
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import limelight
from limelight.adapters.hugging_face import HuggingFace
from measuring import on_cores, peak_memory, seconds
from results import Measure, command_line, report
from reviews import reviews

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "models" / "minilm-imdb"
BATCH = 64


def main() -> None:
    """Measure both ways of removing words, then the others, then what sizes by weight bring."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--model", type=Path, default=FOLDER, help="a Hugging Face folder")
    parser.add_argument("--reviews", type=int, default=1)
    parser.add_argument("--samples", type=int, default=1000)
    arguments = parser.parse_args()
    on_cores(1)
    torch.set_num_threads(1)
    model = limelight.load(arguments.model)
    assert isinstance(model, HuggingFace)
    data = reviews(limelight.load(), count=2000)
    samples = 20 if arguments.smoke else arguments.samples
    texts = sorted(data.texts, key=lambda text: abs(len(text.split()) - 100))[: arguments.reviews]
    measures = list(measured(model, [text.replace("<br />", " ") for text in texts], samples))
    report("huggingface", measures, arguments, data=f"{len(texts)} of {data.source}")


def measured(model: HuggingFace, texts: list[str], samples: int) -> Iterator[Measure]:
    """Times of everybody, sums over the texts; what is compared is done in turn."""
    works = {
        name: _over(texts, work)
        for name, work in {
            "ours_mask": lambda text: _ours(model, text, samples, "mask"),
            "lime_mask": lambda text: _lime(model, text, samples, bow=False),
            "ours_delete": lambda text: _ours(model, text, samples, "delete"),
            "lime_delete": lambda text: _lime(model, text, samples, bow=True),
            "shap": lambda text: _shap(model, text, samples),
            "captum": lambda text: _captum(model, text, samples),
        }.items()
    }
    model.logits(texts)
    taken = {name: seconds(work, repeats=1, warm=False) for name, work in works.items()}
    for name, times in taken.items():
        yield Measure(
            id=f"{name}_seconds",
            what=f"{name.replace('_', ', ')}, {samples} samples",
            value=float(times.sum()),
            unit="s",
        )
    for how, wanted in (("mask", 1.0), ("delete", 1.0)):
        yield Measure(
            id=f"{how}_speedup",
            what=f"lime over ours, same samples, {how}",
            value=float(taken[f"lime_{how}"].sum() / taken[f"ours_{how}"].sum()),
            at_least=wanted,
        )
    yield from _sizes(model, texts[0], samples)
    yield Measure(id="memory", what="peak memory of all this", value=peak_memory(), unit="MB")


def _sizes(model: HuggingFace, text: str, samples: int) -> Iterator[Measure]:
    """Fewer samples for the same standard error when sizes are drawn by their weight."""
    variance = {}
    for sizes in ("uniform", "importance"):
        e = limelight.explain(model, text, "lime", samples=samples, sizes=sizes)
        assert e.stderr is not None
        variance[sizes] = float((e.stderr**2).mean())
    yield Measure(
        id="sizes_gain",
        what="variance of uniform sizes over sizes by weight, same samples",
        value=variance["uniform"] / variance["importance"],
        at_least=1.3,
    )


def _over(texts: list[str], work: Callable[[str], Any]) -> Callable[[], list[Any]]:
    return lambda: [work(text) for text in texts]


def _ours(model: HuggingFace, text: str, samples: int, replacement: str) -> Any:
    return limelight.explain(model, text, "lime", samples=samples, replacement=replacement)


def _probabilities(model: HuggingFace, texts: list[str]) -> np.ndarray:
    """What a careful user writes for lime: batches, padded to their longest, no gradients."""
    found = []
    for start in range(0, len(texts), BATCH):
        given = model.tokenizer(
            list(texts[start : start + BATCH]),
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=model.limit,
        )
        with torch.inference_mode():
            found.append(model.network(**given).logits.softmax(-1).numpy())
    return np.concatenate(found)


def _lime(model: HuggingFace, text: str, samples: int, *, bow: bool) -> Any:
    from lime.lime_text import LimeTextExplainer

    explainer = LimeTextExplainer(
        class_names=model.classes, bow=bow, mask_string="[MASK]", random_state=0
    )
    words = len(set(re.findall(r"\w+", text)))
    return explainer.explain_instance(
        text, lambda texts: _probabilities(model, texts), num_features=words, num_samples=samples
    )


def _shap(model: HuggingFace, text: str, samples: int) -> Any:
    import shap

    masker = shap.maskers.Text(model.tokenizer)
    explainer = shap.explainers.Partition(lambda texts: _probabilities(model, list(texts)), masker)
    return explainer([text], max_evals=samples, silent=True)


def _captum(model: HuggingFace, text: str, samples: int) -> Any:
    from captum.attr import KernelShap

    pieces = model.read(text).own_pieces
    ids = torch.as_tensor(pieces.ids[pieces.inside][None])
    token = torch.as_tensor(pieces.token[pieces.inside][None])
    words = torch.where(token < 0, token.max() + 1, token)
    baseline = torch.where(token < 0, ids, model.tokenizer.mask_token_id)

    def forward(rows: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return model.network(input_ids=rows).logits[:, 1].clone()

    return KernelShap(forward).attribute(
        ids,
        baselines=baseline,
        feature_mask=words,
        n_samples=samples,
        perturbations_per_eval=BATCH,
    )


if __name__ == "__main__":
    main()
