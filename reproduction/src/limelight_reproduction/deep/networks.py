"""The deep models of the reproduction: which there are, and their training."""

__all__ = ["MODELS", "DeepModel", "Trained", "accuracy", "trained"]

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from safetensors.torch import load_file, save

from limelight.datasets import LabelledTexts
from limelight_reproduction.deep.pieces import Pieces
from limelight_reproduction.deep.transformer import Shape, Transformer
from limelight_reproduction.setting import Setting
from limelight.files import whole_folder
from limelight.text import Vocabulary, token_strings
from limelight.training import RECIPES, Recipe, fit, prepare
from limelight.training.encoding import encode_texts
from limelight.training.loop import share_right
from limelight.training.preparing import WEIGHTS, random_numbers


@final
@dataclass(frozen=True, kw_only=True)
class DeepModel:
    """A network and the texts it learns from; ``pieces`` cuts words by byte-pair encoding."""

    data: str = "imdb"
    shape: Shape = Shape()  # noqa: RUF009
    pieces: bool = False
    epochs: int = 6
    repeat: int = 0
    """Trainings that differ in this alone start from other weights and see another order."""

    @property
    def recipe(self) -> Recipe:
        """The default recipe with the rates that suit layers on layers."""
        return replace(
            RECIPES["default"],
            heads=self.shape.heads,
            T_max=self.shape.T_max,
            dropout=0.5,
            weight_decay=0.05,
            embedding_decay=0.1,
            batch=64,
            learning_rate=3e-4,
            epochs=self.epochs,
            tails=False,
        )


MODELS = {
    **{f"imdb-{n}": DeepModel(shape=Shape(layers=n)) for n in (1, 2, 4, 6)},
    **{
        f"imdb-{n}-again-{repeat}": DeepModel(shape=Shape(layers=n), repeat=repeat)
        for n in (1, 2, 4, 6)
        for repeat in (1, 2)
    },
    **{
        f"imdb-2-{activation}": DeepModel(shape=Shape(layers=2, activation=activation))
        for activation in ("relu", "identity")
    },
    "imdb-2-pieces": DeepModel(shape=Shape(layers=2), pieces=True),
    **{
        f"{data}-{n}": DeepModel(data=data, shape=Shape(layers=n, T_max=T_max), epochs=12)
        for data, T_max in (("sst2", 64), ("ag_news", 128))
        for n in (1, 6)
    },
}


@final
@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained network with all that reading a text needs."""

    network: Transformer
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    pieces: Pieces | None
    record: dict[str, Any]

    def pieces_of(self, word: str) -> list[str]:
        """Return what the network reads for a word."""
        return [word] if self.pieces is None else list(self.pieces.of_word(word))

    def spelled(self, data: LabelledTexts) -> LabelledTexts:
        """Return ``data`` in the words of the vocabulary."""
        return data if self.pieces is None else self.pieces.spelled(data)


def trained(setting: Setting, name: str) -> Trained:
    """Return the model called ``name``, from the folder of an earlier run or trained now."""
    seed = f"-seed-{setting.seed}" if setting.seed else ""
    model, folder = MODELS[name], setting.models / f"deep-{name}{seed}"
    if not folder.exists():
        _train(setting, model, folder)
    return _loaded(model, folder, setting.device)


def _train(setting: Setting, model: DeepModel, folder: Path) -> None:
    data, seed = setting.texts(model.data, "train"), setting.seed + model.repeat
    pieces = Pieces.learnt(data.texts) if model.pieces else None
    prepared = prepare(pieces.spelled(data) if pieces else data, model.recipe, seed=seed)
    network = Transformer(
        model.shape,
        words=len(prepared.vocabulary),
        outputs=prepared.outputs(model.recipe),
        rng=random_numbers(seed, WEIGHTS),
    )
    state = fit(
        prepared,
        model.recipe,
        seed=seed,
        device=setting.device,
        progress=lambda at: setting.tick(at.step, at.steps),
        module=network,
    )
    weights = dict(network.named_buffers()) | (state.best or state.kept)
    record = {"classes": prepared.classes, "history": state.history, **prepared.record}
    with whole_folder(folder) as part:
        (part / "model.safetensors").write_bytes(
            save({name: tensor.cpu().contiguous() for name, tensor in weights.items()})
        )
        (part / "vocab.txt").write_text("\n".join(prepared.vocabulary.words), "utf-8")
        (part / "record.json").write_text(json.dumps(record), "utf-8")
        if pieces:
            (part / "pieces.json").write_text(pieces.saved, "utf-8")


def _loaded(model: DeepModel, folder: Path, device: str) -> Trained:
    record = json.loads((folder / "record.json").read_text("utf-8"))
    vocabulary = Vocabulary(tuple((folder / "vocab.txt").read_text("utf-8").split("\n")))
    weights = load_file(folder / "model.safetensors")
    network = Transformer(
        model.shape,
        words=len(vocabulary),
        outputs=len(weights["head.bias"]),
        rng=np.random.default_rng(0),
    )
    network.load_state_dict(weights)
    pieces = Pieces((folder / "pieces.json").read_text("utf-8")) if model.pieces else None
    return Trained(
        network=network.to(device).requires_grad_(False),
        vocabulary=vocabulary,
        classes=tuple(record["classes"]),
        pieces=pieces,
        record=record,
    )


def accuracy(model: Trained, data: LabelledTexts) -> float:
    """Return the share of texts that get their own class."""
    usable = [i for i, text in enumerate(data.texts) if token_strings(text)]
    data = LabelledTexts([data.texts[i] for i in usable], data.labels[usable], data.classes)
    texts = encode_texts(model.spelled(data), model.vocabulary, T_max=model.network.shape.T_max)
    return share_right(model.network, texts, model.network.embedding.device)
