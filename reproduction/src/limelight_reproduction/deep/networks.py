"""The deep networks of the reproduction and their training."""

__all__ = ["PLAIN", "PLANS", "NetworkPlan", "load_or_train"]

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, final

import numpy as np
from safetensors.torch import load_file, save

from limelight.files import atomic_folder
from limelight.text import Vocabulary
from limelight.training import RECIPES, Recipe, fit, prepare
from limelight_reproduction.deep.deep_classifier import DeepClassifier
from limelight_reproduction.deep.subwords import SubwordSplitter
from limelight_reproduction.deep.transformer import NetworkShape, Transformer
from limelight_reproduction.document import list_texts
from limelight_reproduction.setting import Setting

# These numbers follow the seed in the generator of the first weights. They are repeated here,
# although the library has them, because stored results must stay reproducible from a seed.
_WEIGHTS = (1, 0)


@final
@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """A network and its training texts. With ``pieces``, words are split into subword tokens."""

    data: str = "imdb"
    shape: NetworkShape = NetworkShape()  # noqa: RUF009
    pieces: bool = False
    epochs: int = 6
    repeat: int = 0
    """Trainings that differ only in this number have other first weights and another order."""
    appendix: bool = False
    """Whether to train as in the paper's Appendix F, not with settings for many layers."""

    @property
    def recipe(self) -> Recipe:
        """The recipe of the paper, or of the shipped model with rates that suit many layers."""
        if self.appendix:
            return replace(RECIPES["paper"], heads=self.shape.heads, T_max=self.shape.T_max)
        return replace(
            RECIPES["shipped"],
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


PLAIN: tuple[Literal["plain", "skip"], ...] = ("plain", "skip")
PLANS = {
    **{f"imdb-{n}": NetworkPlan(shape=NetworkShape(layers=n)) for n in (1, 2, 4, 6)},
    **{
        f"imdb-{n}-again-{repeat}": NetworkPlan(shape=NetworkShape(layers=n), repeat=repeat)
        for n in (1, 2, 4, 6)
        for repeat in (1, 2)
    },
    **{
        f"imdb-2-{activation}": NetworkPlan(shape=NetworkShape(layers=2, activation=activation))
        for activation in ("relu", "identity")
    },
    **{
        f"imdb-6-{layer}": NetworkPlan(
            shape=NetworkShape(layer=layer, embedding_std=1.0, position_scale=1.0), appendix=True
        )
        for layer in PLAIN
    },
    "imdb-2-pieces": NetworkPlan(shape=NetworkShape(layers=2), pieces=True),
    **{
        f"{data}-{n}": NetworkPlan(data=data, shape=NetworkShape(layers=n, T_max=T_max), epochs=12)
        for data, T_max in (("sst2", 64), ("ag_news", 128))
        for n in (1, 6)
    },
}


def load_or_train(setting: Setting, name: str) -> DeepClassifier:
    """Load the network ``name`` from the folder of the run, or train it first."""
    seed = f"-seed-{setting.seed}" if setting.seed else ""
    plan, folder = PLANS[name], setting.models / f"deep-{name}{seed}"
    if not folder.exists():
        _train(setting, plan, folder)
    return _load(plan, folder, setting.device)


def _train(setting: Setting, plan: NetworkPlan, folder: Path) -> None:
    """Train the network of ``plan`` and save it in ``folder``."""
    data, seed = setting.texts(plan.data, "train"), setting.seed + plan.repeat
    pieces = SubwordSplitter.train(list_texts(data)) if plan.pieces else None
    prepared = prepare(pieces.split_texts(data) if pieces else data, plan.recipe, seed=seed)
    network = Transformer(
        plan.shape,
        words=len(prepared.vocabulary),
        outputs=prepared.outputs(plan.recipe),
        rng=np.random.default_rng([seed, *_WEIGHTS]),
    )
    state = fit(
        prepared,
        plan.recipe,
        seed=seed,
        device=setting.device,
        progress=lambda progress: setting.tick(progress.step, progress.steps),
        module=network,
    )
    weights = dict(network.named_buffers()) | (state.best or state.validated_weights)
    record = {"classes": prepared.classes, "history": state.history, **prepared.record}
    with atomic_folder(folder) as part:
        (part / "model.safetensors").write_bytes(
            save({name: tensor.cpu().contiguous() for name, tensor in weights.items()})
        )
        (part / "vocab.txt").write_text("\n".join(prepared.vocabulary.words), "utf-8")
        (part / "record.json").write_text(json.dumps(record), "utf-8")
        if pieces:
            (part / "pieces.json").write_text(pieces.tokenizer_json, "utf-8")


def _load(plan: NetworkPlan, folder: Path, device: str) -> DeepClassifier:
    record = json.loads((folder / "record.json").read_text("utf-8"))
    vocabulary = Vocabulary(tuple((folder / "vocab.txt").read_text("utf-8").split("\n")))
    weights = load_file(folder / "model.safetensors")
    network = Transformer(
        plan.shape,
        words=len(vocabulary),
        outputs=len(weights["head.bias"]),
        rng=np.random.default_rng(0),
    )
    network.load_state_dict(weights)
    pieces = SubwordSplitter((folder / "pieces.json").read_text("utf-8")) if plan.pieces else None
    return DeepClassifier(
        network=network.to(device).requires_grad_(False),
        vocabulary=vocabulary,
        classes=tuple(record["classes"]),
        pieces=pieces,
        record=record,
    )
