"""What others do with the same transformer: lime, shap and captum, as a careful user calls them."""

__all__ = [
    "Counted",
    "LogOdds",
    "captum_kernel_shap",
    "captum_lime",
    "groups",
    "lime_package",
    "rivals",
    "shap_partition",
]

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from limelight.models.hugging_face.model import HuggingFace

WORD = re.compile(r"\w+")  # what the lime package takes for a word
MASK = "[MASK]"


class Counted:
    """The model as a function of texts that returns logits: batches padded to their longest.

    On a graphics card in half precision, as ours is there. ``texts`` counts what was asked.
    """

    def __init__(self, model: HuggingFace, *, batch: int) -> None:
        self.model, self.batch, self.texts = model, batch, 0
        self.device = model.network.device

    def __call__(self, texts: Any) -> np.ndarray:
        """Return the logits of every text."""
        found, texts = [], list(texts)
        for start in range(0, len(texts), self.batch):
            given = self.model.tokenizer(
                texts[start : start + self.batch],
                return_tensors="pt",
                padding=True,
                truncation=True,
                max_length=self.model.max_length,
            ).to(self.device)
            found.append(self.forward(**given).cpu().numpy())
        return np.concatenate(found)

    def forward(self, **given: Any) -> Any:
        """Return the logits of one batch, and count it."""
        self.texts += len(given["input_ids"])
        half = torch.autocast("cuda", dtype=torch.float16, enabled=self.device.type == "cuda")
        with torch.inference_mode(), half:
            return self.model.network(**given).logits.float()


class LogOdds(Counted):
    """The model of two classes as a function that returns their log-odds, which are opposites."""

    def forward(self, **given: Any) -> Any:
        """Return the log-odds of one batch, and count it."""
        first, second = super().forward(**given).unbind(dim=1)
        return torch.stack([first - second, second - first], dim=1)


def rivals() -> dict[str, Callable[[Counted, int, str], np.ndarray]]:
    """Return, by name, what scores every word of ours for the last class with so many samples."""
    return {
        "captum LIME": lambda ask, samples, text: captum_lime(ask, text, samples),
        "captum KernelSHAP": lambda ask, samples, text: captum_kernel_shap(ask, text, samples),
        "lime package": _lime_of_words,
        "shap Partition": _shap_of_words,
        "shapiq KernelSHAP": _shapiq_of_words,
    }


def _lime_of_words(ask: Counted, samples: int, text: str) -> np.ndarray:
    """Add up the lime package's scores of all places of each word; punctuation has none."""
    scores = np.append(lime_package(ask, text, samples, bow=False), 0.0)
    tokens = ask.model.read(text).tokens.strings
    found = dict.fromkeys(tokens, 0.0)
    for token, group in zip(tokens, groups(ask.model, text, bow=False), strict=True):
        found[token] += scores[group]
    return np.array(list(found.values()))


def _shap_of_words(ask: Counted, samples: int, text: str) -> np.ndarray:
    """Add up shap's scores of the pieces of each word, wherever it stands."""
    import shap

    tokens = ask.model.read(text).tokens
    found = dict.fromkeys(tokens.strings, 0.0)
    owner: list[str | None] = [None] * len(text)
    for string, (first, end) in zip(tokens.strings, tokens.spans, strict=True):
        owner[first:end] = [string] * (end - first)
    segments, _ = shap.maskers.Text(ask.model.tokenizer).token_segments(text)
    start = 0
    for segment, score in zip(segments, shap_partition(ask, text, samples), strict=True):
        words = [word for word in owner[start : start + len(segment)] if word is not None]
        if words:
            found[words[0]] += float(score)
        start += len(segment)
    return np.array(list(found.values()))


def _shapiq_of_words(ask: Counted, samples: int, text: str) -> np.ndarray:
    """Let shapiq ask the same game as we do."""
    import shapiq

    import limelight

    game = limelight.game(ask.model, text, replacement="mask")
    approximator = shapiq.KernelSHAP(n=len(game), random_state=0)
    found = approximator.approximate(
        samples, lambda masks: np.diff(game(np.asarray(masks, bool)), axis=1)[:, 0]
    )
    return np.array(found.get_n_order_values(1))


def groups(model: HuggingFace, text: str, *, bow: bool) -> list[int]:
    """Return the lime package's words as groups of ours: all places together if ``bow``."""
    number: dict[Any, int] = {}
    places = [(m.start(), m.end(), m.group() if bow else m.start()) for m in WORD.finditer(text)]
    found = []
    for start, _ in model.read(text).tokens.spans:
        inside = [name for a, b, name in places if a <= start < b]
        found.append(number.setdefault(inside[0], len(number)) if inside else -1)
    return found


def lime_package(ask: Counted, text: str, samples: int, *, bow: bool, seed: int = 0) -> np.ndarray:
    """Return the scores of all words of the last class, in order of first occurrence."""
    from lime.lime_text import LimeTextExplainer

    names = ask.model.classes
    explainer = LimeTextExplainer(class_names=names, bow=bow, mask_string=MASK, random_state=seed)
    strings = WORD.findall(text)
    count = len(set(strings)) if bow else len(strings)
    last = len(names) - 1
    found = explainer.explain_instance(
        text, ask, labels=(last,), num_features=count, num_samples=samples
    )
    scores = np.zeros(count)
    for word, score in found.local_exp[last]:
        scores[word] = score
    return scores


def shap_partition(ask: Counted, text: str, samples: int) -> np.ndarray:
    """Return shap's scores of all tokens, by its default explainer for texts."""
    import shap

    masker = shap.maskers.Text(ask.model.tokenizer)
    explainer = shap.explainers.Partition(ask, masker)
    return np.asarray(explainer([text], max_evals=samples, silent=True).values[0])[:, -1]


def captum_lime(ask: Counted, text: str, samples: int, seed: int = 0) -> np.ndarray:
    """Return captum's LIME of all words, with its own kernel and Lasso."""
    from captum.attr import Lime

    return _captum(Lime, ask, text, samples, seed)


def captum_kernel_shap(ask: Counted, text: str, samples: int, seed: int = 0) -> np.ndarray:
    """Return captum's KernelSHAP of all words."""
    from captum.attr import KernelShap

    return _captum(KernelShap, ask, text, samples, seed)


def _captum(
    kind: Callable[[Any], Any], ask: Counted, text: str, samples: int, seed: int
) -> np.ndarray:
    """The model's words at all their places are the features, a mask token stands for each."""
    torch.manual_seed(seed)
    model = ask.model
    model_input = model.read(text)
    pieces = model_input.encoding
    strings = list(dict.fromkeys(model_input.tokens.strings))
    feature = np.array([strings.index(s) for s in model_input.tokens.strings] + [len(strings)])
    word = torch.as_tensor(feature[pieces.token[pieces.read_indices]][None], device=ask.device)
    ids = torch.as_tensor(pieces.ids[pieces.read_indices][None], device=ask.device)
    baseline = torch.where(word == len(strings), ids, model.tokenizer.mask_token_id)
    found = kind(lambda rows: ask.forward(input_ids=rows)[:, -1].clone()).attribute(
        ids,
        baselines=baseline,
        feature_mask=word,
        n_samples=samples,
        perturbations_per_eval=ask.batch,
    )
    by_piece = found[0].double().cpu().numpy()
    first = [int(np.flatnonzero(word[0].cpu().numpy() == j)[0]) for j in range(len(strings))]
    return by_piece[first]
