"""Attention, gradients and sampled LIME of a deep model on one text, per distinct word."""

__all__ = ["Seen", "attention_scores", "gradient_scores", "lime_scores", "outputs", "seen"]

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
import torch.nn.functional as F

from limelight_reproduction.deep.networks import Trained
from limelight.models.attention import padded_ids
from limelight.models.attention.masked_windows import deleted_windows, replaced_windows
from limelight.sampling import LimeDraws, LimeFit, Sample, lime_fit
from limelight.shapes import Array, Bool, Float, Int
from limelight.text import token_strings

_CHUNK = 1024  # masked texts at a time


@final
@dataclass(frozen=True, kw_only=True)
class Seen:
    """A text as a deep model sees it: tokens, and the distinct word each belongs to.

    Words that lie wholly beyond the window are no features (-1).
    """

    words: tuple[str, ...]
    ids: Int[np.ndarray, " L"]
    of_token: Int[np.ndarray, " L"]
    T_max: int

    @property
    def padded_ids(self) -> Int[np.ndarray, "1 T_max"]:
        """What the model reads of the whole text."""
        return padded_ids([self.ids[: self.T_max - 1]], T_max=self.T_max)

    @property
    def of_position(self) -> Int[np.ndarray, " T_max"]:
        """The word at every place of the window; -1 at [cls] and padding."""
        places = np.full(self.T_max, -1)
        inside = self.of_token[: self.T_max - 1]
        places[1 : 1 + len(inside)] = inside
        return places

    def summed(self, x: Float[np.ndarray, "*n T_max"]) -> Float[np.ndarray, "*n d"]:
        """Return scores of places summed over the places of each word."""
        of_word = self.of_position[:, None] == np.arange(len(self.words))
        return x @ of_word.astype(float)


def seen(model: Trained, text: str) -> Seen:
    """Return ``text`` as ``model`` sees it."""
    T_max = model.network.shape.T_max
    number: dict[str, int] = {}
    tokens: list[str] = []
    of_token: list[int] = []
    for word in token_strings(text):
        if len(tokens) < T_max - 1:
            number.setdefault(word, len(number))
        for piece in model.pieces_of(word):
            tokens.append(piece)
            of_token.append(number.get(word, -1))
    ids = model.vocabulary.encode(tokens)
    return Seen(words=tuple(number), ids=ids, of_token=np.array(of_token, int), T_max=T_max)


@torch.no_grad()  # type: ignore[untyped-decorator]
def outputs(model: Trained, windows: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
    """Return the logits of every class; a single output f speaks for the second: (−f, f)."""
    device = model.network.embedding.device
    parts = [
        model.network(torch.from_numpy(windows[i : i + _CHUNK]).to(device)).double().cpu()
        for i in range(0, len(windows), _CHUNK)
    ]
    f = torch.cat(parts).numpy()
    return np.concatenate([-f, f], axis=1) if f.shape[1] == 1 else f


def attention_scores(model: Trained, text: Seen) -> Float[np.ndarray, "layers d"]:
    """Return α-avg of every layer: the attention of [cls], mean over heads."""
    device = model.network.embedding.device
    with torch.no_grad():
        alpha = model.network.attention(torch.from_numpy(text.window).to(device))
    return text.summed(alpha[:, 0].double().mean(dim=1).cpu().numpy())


def gradient_scores(
    model: Trained, text: Seen, target: int
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return G-l1 and G×I of the target's logit, by autograd at the embedded tokens."""
    network = model.network
    ids = torch.from_numpy(text.window).to(network.embedding.device)
    e = (F.embedding(ids, network.embedding) + network.positions).detach().requires_grad_()
    f = network.of_embedded(e)
    value = f[0, target] if f.shape[1] > 1 else (2 * target - 1) * f[0, 0]
    (gradient,) = torch.autograd.grad(value, e)
    return _summed(text, gradient.abs().sum(-1)), _summed(text, (gradient * e.detach()).sum(-1))


def _summed(text: Seen, x: Float[Array, "1 T_max"]) -> Float[np.ndarray, " d"]:
    return text.summed(x[0].double().cpu().numpy())


def lime_scores(
    model: Trained,
    text: Seen,
    target: int,
    *,
    samples: int,
    delete: bool,
    rng: np.random.Generator,
) -> LimeFit:
    """Return LIME as the `lime` package computes it, for the target's logit."""

    def game(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        if delete:
            windows = deleted_windows(keep, text.ids, text.of_token, T_max=text.T_max)
        else:
            windows = replaced_windows(keep, text.window[0], text.of_position).astype(np.int32)
        return outputs(model, windows)[:, [target]]

    sample = Sample(game, LimeDraws(d=len(text.words)), rng, row0=True)
    sample.grow(samples)
    return lime_fit(sample)
