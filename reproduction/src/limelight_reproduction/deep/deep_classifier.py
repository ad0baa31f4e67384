"""The deep networks as models that limelight explains: they attend, and they differentiate."""

__all__ = ["DeepClassifier"]

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch

from limelight import InputError
from limelight.models import Attention, Capability, Gradients, Link, OutputGradient, Property
from limelight.models.attention.masked import deleted_windows, replaced_windows
from limelight.shapes import Array, Bool, Float, Int
from limelight.text import CLS, UNK, Features, ModelInput, Tokens, Vocabulary, tokenize
from limelight_reproduction.deep.subwords import SubwordSplitter
from limelight_reproduction.deep.transformer import Transformer

_CHUNK = 1024  # masked texts at a time
_WORDS = "the deep networks are explained word by word, whatever they read of a word"
_CAPABILITIES: Mapping[Capability, str | None] = MappingProxyType(
    {
        "attention": None,
        "attention_only": None,
        "gradients": None,
        "lrp": "the deep networks are explained by the paper's methods",
        "tables": "what follows the attention of a deep network is not linear",
        "exact_game": "the layers of a deep network mix its words",
        "spans": "it classifies whole texts",
        "hidden_states": "its states are not shown",
        "generation": "it is a classifier",
    }
)
_LIMITATIONS: Mapping[Property, str] = MappingProxyType(
    {
        "has_subwords": _WORDS,
        "max_tokens": "the deep networks are explained on the window they were trained for",
        "shuffle_weights": "the deep networks are explained as they were trained",
        "reads_pairs": "the deep networks of the paper read one text",
        "reads_images": "it reads texts",
    }
)


class EncodedText(NamedTuple):
    """A whole text as a network could read it: rows of its words or pieces, and whose they are.

    ``word`` counts the words of the text; those ``beyond`` the window come last, and move into it
    where words before them are deleted.
    """

    ids: Int[np.ndarray, " L"]
    word: Int[np.ndarray, " L"]
    beyond: tuple[str, ...]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class DeepClassifier:
    """A trained network with all that reading a text needs: a ``limelight.Model``.

    A word that begins inside the window is a token, although its last pieces may lie beyond. A
    text without words has an answer, too, that to [cls] and padding. With one output there are two
    classes, and f > 0 is the second.
    """

    network: Transformer
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    pieces: SubwordSplitter | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<DeepClassifier {', '.join(self.classes)}: {self.network.shape.layers} layers>"

    @property
    def link(self) -> Link:
        """How outputs become probabilities: by the softmax."""
        return "softmax"

    @property
    def replacements(self) -> tuple[str, ...]:
        """What may stand for a removed word: UNK in the place of each piece, or nothing."""
        return "unk", "delete"

    capabilities: ClassVar[Mapping[Capability, str | None]] = _CAPABILITIES
    is_exclusive: ClassVar[bool] = True
    limitations: ClassVar[Mapping[Property, str]] = _LIMITATIONS

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of shape, words, pieces and weights."""
        spelling = "" if self.pieces is None else self.pieces.tokenizer_json
        told = [asdict(self.network.shape), self.vocabulary.words, self.classes, spelling]
        digest = hashlib.sha256(repr(told).encode())
        for name, weight in self.network.state_dict().items():
            digest.update(name.encode() + weight.cpu().numpy().tobytes())
        return digest.hexdigest()

    def read(self, text: str, *, subwords: bool = False) -> ModelInput:
        """Return the words of ``text`` that begin inside the window."""
        if subwords:
            raise InputError(f"{_WORDS}; read words.")
        tokens = tokenize(text)
        spelt = [self._pieces_of(word) for word in tokens.strings]
        begins = np.cumsum([0, *map(len, spelt)])
        count = int(np.searchsorted(begins[:-1], self._T_max - 1))
        inside = Tokens(tokens.strings[:count], tokens.spans[:count])
        beyond = tokens.strings[len(inside) :]
        return ModelInput(
            text,
            inside,
            cutoff=inside.spans[-1][1] if beyond else None,
            encoding=EncodedText(
                ids=self.vocabulary.encode(piece for word in spelt for piece in word),
                word=np.repeat(np.arange(len(spelt)), np.diff(begins)),
                beyond=beyond,
            ),
        )

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return what the network answers to texts that it has read."""
        return self._answers(np.stack([self._window(model_input) for model_input in inputs]))

    def game(
        self, model_input: ModelInput, features: Features, replacement: str
    ) -> Callable[[Bool[np.ndarray, "n d"]], Float[np.ndarray, "n C"]]:
        """Return the outputs as a function of which features stay."""
        of_piece = _features_of_pieces(model_input, features)
        if replacement == "delete":
            ids, T_max = _spelled(model_input).ids, self._T_max
            return lambda keep: self._answers(deleted_windows(keep, ids, of_piece, T_max=T_max))
        window, of_place = self._window(model_input), self._placed(of_piece)
        return lambda keep: self._answers(replaced_windows(keep, window, of_place))

    def token_positions(self, model_input: ModelInput) -> Int[np.ndarray, " T"]:
        """Return the word at every place of the window, -1 at [cls] and padding."""
        return self._placed(_spelled(model_input).word)

    def attention(
        self, model_input: ModelInput, output_gradient: OutputGradient | None = None
    ) -> Iterator[Attention]:
        """Yield the attention of all layers, and with ``output_gradient`` the gradient with respect to it."""
        e = self.network.embedded(self._sent(self._window(model_input)[None])).detach()
        layers: list[Any] = []
        with torch.enable_grad():
            # A graph begins where something wants a gradient: the weights do not.
            f = self.network.of_embedded(e.requires_grad_(output_gradient is not None), layers)
            gradients = (
                None
                if output_gradient is None
                else torch.autograd.grad(_aimed(f, output_gradient), layers)
            )
        alpha = _stacked(layers)
        yield Attention(
            alpha=alpha,
            readout_weights=np.eye(alpha.shape[-1])[
                0
            ],  # the linear map after the last layer reads [cls]
            gradient=np.broadcast_to(np.nan, alpha.shape)
            if gradients is None
            else _stacked(gradients),
        )

    def embed(
        self, model_input: ModelInput, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return words and positions as they are embedded; UNK for the words of ``features``."""
        window = self._window(model_input)
        if features is not None:
            if replacement != "unk":
                raise InputError(
                    "integrated gradients move every word to a token in its own place; use "
                    "replacement 'unk'."
                )
            of_place = self._placed(_features_of_pieces(model_input, features))
            (window,) = replaced_windows(np.zeros((1, len(features)), bool), window, of_place)
        return _numbers(self.network.embedded(self._sent(window[None]))[0])

    def gradients(
        self,
        model_input: ModelInput,  # noqa: ARG002  (a window is all that the points need)
        points: Float[np.ndarray, "n T d_e"],
        output_gradient: OutputGradient | Float[np.ndarray, "n C"],
    ) -> Gradients:
        """Return the gradient of the explained number at embedded ``points``."""
        with torch.enable_grad():
            e = self._sent(points).to(self.network.embedding.dtype).requires_grad_()
            f = self.network.of_embedded(e)
            (gradient,) = torch.autograd.grad(_aimed(f, output_gradient), e)
        return Gradients(gradient=_numbers(gradient), outputs=_numbers(f))

    @property
    def _T_max(self) -> int:
        return self.network.shape.T_max

    def _pieces_of(self, word: str) -> Sequence[str]:
        return [word] if self.pieces is None else self.pieces.split_word(word)

    def _window(self, model_input: ModelInput) -> Int[np.ndarray, " T_max"]:
        """Return what the network reads: [cls], the text, and UNK as padding."""
        return self._placed(_spelled(model_input).ids, cls=CLS, padding=UNK)

    def _placed(
        self, of_piece: Int[np.ndarray, " L"], *, cls: int = -1, padding: int = -1
    ) -> Int[np.ndarray, " T_max"]:
        """Return ``of_piece`` as far as it fits the window, after the place of [cls]."""
        places = np.full(self._T_max, padding, dtype=of_piece.dtype)
        inside = of_piece[: self._T_max - 1]
        places[0], places[1 : 1 + len(inside)] = cls, inside
        return places

    def _answers(self, windows: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
        with torch.no_grad():
            parts = [
                self.network(self._sent(windows[i : i + _CHUNK]))
                for i in range(0, len(windows), _CHUNK)
            ]
            return _numbers(torch.cat(parts))

    def _sent(self, array: np.ndarray) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.network.embedding.device)


def _spelled(model_input: ModelInput) -> EncodedText:
    found: EncodedText = model_input.encoding
    return found


def _features_of_pieces(model_input: ModelInput, features: Features) -> Int[np.ndarray, " L"]:
    """Return the feature of every piece, -1 where it belongs to none.

    A word beyond the window goes with the feature of its string, if features are words.
    """
    number = {string: j for j, string in enumerate(features.strings)}
    spelled = _spelled(model_input)
    later = [number.get(word, -1) if features.kind == "words" else -1 for word in spelled.beyond]
    return np.array([*features.feature_index, *later])[spelled.word]


def _aimed(
    f: Float[Array, "n C"], output_gradient: OutputGradient | Float[np.ndarray, "n C"]
) -> Any:
    """Return a number whose gradient is that of F: Σ ∂F/∂f_c f_c with the weights held fixed."""
    weights = output_gradient(_numbers(f)) if callable(output_gradient) else output_gradient
    return (f * torch.from_numpy(np.array(weights)).to(f)).sum()


def _stacked(layers: Sequence[Any]) -> Float[np.ndarray, "L H T T"]:
    return np.stack([_numbers(layer[0]) for layer in layers])


def _numbers(tensor: Any) -> np.ndarray:
    return tensor.detach().double().cpu().numpy()
