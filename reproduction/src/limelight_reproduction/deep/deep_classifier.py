"""The deep networks as models that limelight explains, with attention and gradients."""

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
_WORDS = "the deep networks have scores of words only"
_CAPABILITIES: Mapping[Capability, str | None] = MappingProxyType(
    {
        "attention": None,
        "attention_only": None,
        "gradients": None,
        "lrp": "the deep networks are explained by the paper's methods",
        "tables": "what follows the attention of a deep network is not linear",
        "exact_game": "the layers of a deep network mix its words",
        "refilling": "a deep network has no exact formula",
        "agreement": "it is a classifier",
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
    """The subword tokens of a complete text, and the word of each token.

    ``word`` counts the words of the text. The words ``beyond`` the window come last. They move into
    the window if words before them are deleted.
    """

    ids: Int[np.ndarray, " L"]
    word: Int[np.ndarray, " L"]
    beyond: tuple[str, ...]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class DeepClassifier:
    """A trained network with its vocabulary: a ``limelight.Model``.

    A word that begins inside the window is a token, even if its last subword tokens are outside.
    For a text without words, the network reads [cls] and padding. A network with one output has two
    classes, and f > 0 means the second class.
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
        """The function from outputs to probabilities, which is the softmax."""
        return "softmax"

    @property
    def replacements(self) -> tuple[str, ...]:
        """The replacements of a removed word: UNK for each subword token, or no token."""
        return "unk", "delete"

    capabilities: ClassVar[Mapping[Capability, str | None]] = _CAPABILITIES
    is_exclusive: ClassVar[bool] = True
    limitations: ClassVar[Mapping[Property, str]] = _LIMITATIONS

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of shape, vocabulary, subword tokens and weights."""
        spelling = "" if self.pieces is None else self.pieces.tokenizer_json
        settings = [asdict(self.network.shape), self.vocabulary.words, self.classes, spelling]
        digest = hashlib.sha256(repr(settings).encode())
        for name, weight in self.network.state_dict().items():
            digest.update(name.encode() + weight.cpu().numpy().tobytes())
        return digest.hexdigest()

    def read(self, text: str, *, subwords: bool = False) -> ModelInput:
        """Return the words of ``text`` that begin inside the window."""
        if subwords:
            raise InputError(f"{_WORDS}. Leave subwords out.")
        tokens = tokenize(text)
        subwords_by_word = [self._split_word(word) for word in tokens.strings]
        starts = np.cumsum([0, *map(len, subwords_by_word)])
        count = int(np.searchsorted(starts[:-1], self._T_max - 1))
        inside = Tokens(tokens.strings[:count], tokens.spans[:count])
        beyond = tokens.strings[len(inside) :]
        return ModelInput(
            text,
            inside,
            cutoff=inside.spans[-1][1] if beyond else None,
            encoding=EncodedText(
                ids=self.vocabulary.encode(
                    subword for word in subwords_by_word for subword in word
                ),
                word=np.repeat(np.arange(len(subwords_by_word)), np.diff(starts)),
                beyond=beyond,
            ),
        )

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the network for its inputs."""
        return self._compute_outputs(
            np.stack([self._window(model_input) for model_input in inputs])
        )

    def game(
        self, model_input: ModelInput, features: Features, replacement: str
    ) -> Callable[[Bool[np.ndarray, "n d"]], Float[np.ndarray, "n C"]]:
        """Return the outputs as a function of the features that are present."""
        token_feature = _token_features(model_input, features)
        if replacement == "delete":
            ids, T_max = _encoding(model_input).ids, self._T_max
            return lambda keep: self._compute_outputs(
                deleted_windows(keep, ids, token_feature, T_max=T_max)
            )
        window, window_feature = self._window(model_input), self._fit_window(token_feature)
        return lambda keep: self._compute_outputs(replaced_windows(keep, window, window_feature))

    def token_positions(self, model_input: ModelInput) -> Int[np.ndarray, " T"]:
        """Return the word index of every window position, -1 at [cls] and padding."""
        return self._fit_window(_encoding(model_input).word)

    def attention(
        self, model_input: ModelInput, output_gradient: OutputGradient | None = None
    ) -> Iterator[Attention]:
        """Yield the attention of all layers and, with ``output_gradient``, its gradient."""
        e = self.network.embed(self._to_device(self._window(model_input)[None])).detach()
        layers: list[Any] = []
        with torch.enable_grad():
            # The graph starts at the embeddings, because the weights require no gradient.
            f = self.network.embedding_outputs(
                e.requires_grad_(output_gradient is not None), layers
            )
            gradients = (
                None
                if output_gradient is None
                else torch.autograd.grad(_explained_sum(f, output_gradient), layers)
            )
        alpha = _stack_layers(layers)
        # The linear map after the last layer reads only [cls].
        readout_weights = np.eye(alpha.shape[-1])[0]
        yield Attention(
            alpha=alpha,
            readout_weights=readout_weights,
            gradient=np.broadcast_to(np.nan, alpha.shape)
            if gradients is None
            else _stack_layers(gradients),
        )

    def embed(
        self, model_input: ModelInput, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embeddings with positions. The words of ``features`` are replaced by UNK."""
        window = self._window(model_input)
        if features is not None:
            if replacement != "unk":
                raise InputError(
                    "integrated gradients replace each word by a token. Use replacement 'unk'."
                )
            window_feature = self._fit_window(_token_features(model_input, features))
            no_features = np.zeros((1, len(features)), bool)
            (window,) = replaced_windows(no_features, window, window_feature)
        return _to_numpy(self.network.embed(self._to_device(window[None]))[0])

    def gradients(
        self,
        model_input: ModelInput,  # noqa: ARG002  (the points contain the complete input)
        points: Float[np.ndarray, "n T d_e"],
        output_gradient: OutputGradient | Float[np.ndarray, "n C"],
    ) -> Gradients:
        """Return the gradient of the explained number at embedded ``points``."""
        with torch.enable_grad():
            e = self._to_device(points).to(self.network.embedding.dtype).requires_grad_()
            f = self.network.embedding_outputs(e)
            (gradient,) = torch.autograd.grad(_explained_sum(f, output_gradient), e)
        return Gradients(gradient=_to_numpy(gradient), outputs=_to_numpy(f))

    @property
    def _T_max(self) -> int:
        return self.network.shape.T_max

    def _split_word(self, word: str) -> Sequence[str]:
        return [word] if self.pieces is None else self.pieces.split_word(word)

    def _window(self, model_input: ModelInput) -> Int[np.ndarray, " T_max"]:
        """Return the input ids of the network: [cls], the text, and UNK as padding."""
        return self._fit_window(_encoding(model_input).ids, cls=CLS, padding=UNK)

    def _fit_window(
        self, values: Int[np.ndarray, " L"], *, cls: int = -1, padding: int = -1
    ) -> Int[np.ndarray, " T_max"]:
        """Cut or pad ``values``, which start after the position of [cls], to the window."""
        window = np.full(self._T_max, padding, dtype=values.dtype)
        inside = values[: self._T_max - 1]
        window[0], window[1 : 1 + len(inside)] = cls, inside
        return window

    def _compute_outputs(self, windows: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
        with torch.no_grad():
            parts = [
                self.network(self._to_device(windows[i : i + _CHUNK]))
                for i in range(0, len(windows), _CHUNK)
            ]
            return _to_numpy(torch.cat(parts))

    def _to_device(self, array: np.ndarray) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.network.embedding.device)


def _encoding(model_input: ModelInput) -> EncodedText:
    encoding: EncodedText = model_input.encoding
    return encoding


def _token_features(model_input: ModelInput, features: Features) -> Int[np.ndarray, " L"]:
    """Return the feature of every subword token, -1 if it belongs to none.

    If features are words, a word outside the window has the feature of the same string.
    """
    index_by_string = {string: j for j, string in enumerate(features.strings)}
    encoding = _encoding(model_input)
    outside_features = [
        index_by_string.get(word, -1) if features.kind == "words" else -1
        for word in encoding.beyond
    ]
    return np.array([*features.feature_index, *outside_features])[encoding.word]


def _explained_sum(
    f: Float[Array, "n C"], output_gradient: OutputGradient | Float[np.ndarray, "n C"]
) -> Any:
    """Return Σ_c ∂F/∂f_c f_c with constant weights, which has the same gradient as F."""
    weights = output_gradient(_to_numpy(f)) if callable(output_gradient) else output_gradient
    return (f * torch.from_numpy(np.array(weights)).to(f)).sum()


def _stack_layers(layers: Sequence[Any]) -> Float[np.ndarray, "L H T T"]:
    return np.stack([_to_numpy(layer[0]) for layer in layers])


def _to_numpy(tensor: Any) -> np.ndarray:
    return tensor.detach().double().cpu().numpy()
