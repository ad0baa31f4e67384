"""The paper's classifier trained with something held: its attention, its last layer, or others."""

__all__ = ["HELD", "adversary", "classifier_of", "controlled", "prepared_texts"]

from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from limelight import AttentionClassifier
from limelight.models.attention.positions import sinusoidal_positions
from limelight.shapes import Array, Float, Int
from limelight.training import RECIPES, Recipe, fit, prepare
from limelight_reproduction.setting import Setting

HELD = ("free", "uniform", "fixed")
TRAINING = 6_000  # reviews: enough for 85 %, and a minute for each network
# The paper's, shortened: fewer words, smaller embeddings, and a rate that needs fewer epochs.
RECIPE = replace(
    RECIPES["paper"],
    vocabulary_size=10_000,
    embedding_std=0.1,
    position_scale=0.1,
    batch=64,
    learning_rate=5e-3,
    epochs=3,
)
_STREAM = 77  # of what is drawn here


def prepared_texts(setting: Setting) -> Any:
    """Return encoded reviews to fit and to validate on, the same for every control."""
    return prepare(setting.some_texts("imdb", "train", TRAINING), RECIPE, seed=setting.seed)


@final
class ControlledAttention(nn.Module):  # type: ignore[misc]
    """The paper's classifier, in which ``held`` is "uniform", "fixed" or "free" (nothing is).

    Weights that are held are buffers, so that no optimiser sees them.
    """

    def __init__(self, settings: Recipe, *, words: int, held: str, seed: int) -> None:
        super().__init__()
        rng, s = np.random.default_rng([seed, _STREAM]), settings
        shapes = {
            "W_q": (s.heads, s.d_att, s.d_e),
            "W_k": (s.heads, s.d_att, s.d_e),
            "W_v": (s.heads, s.d_out, s.d_e),
            "W_l": (s.heads, 2, s.d_out),
        }
        kept = {"uniform": ("W_q", "W_k"), "fixed": ("W_l",), "free": ()}[held]
        table = s.embedding_std * rng.standard_normal((words, s.d_e))
        self.embedding = nn.Parameter(torch.from_numpy(table).float())
        for name, shape in shapes.items():
            drawn = torch.from_numpy(rng.uniform(-0.1, 0.1, shape)).float()
            weight = drawn * 0 if held == "uniform" and name in kept else drawn
            if name in kept:
                self.register_buffer(name, weight)
            else:
                setattr(self, name, nn.Parameter(weight))
        places = sinusoidal_positions(s.T_max, s.d_e, base=s.position_base, scale=s.position_scale)
        self.register_buffer("positions", torch.from_numpy(places).float())

    def forward(self, ids: Int[Array, "B T"], **_unused: Any) -> Float[Array, "B C"]:
        """Return the two outputs of every document."""
        return self.parts(ids)[0]

    def parts(self, ids: Int[Array, "B T"]) -> tuple[Float[Array, "B C"], Float[Array, "B K T"]]:
        """Return the outputs and the attention of [cls]."""
        e = F.embedding(ids, self.embedding) + self.positions[: ids.shape[1]]
        q = self.W_q @ e[0, 0]
        key = torch.einsum("kae,ka->ke", self.W_k, q) / q.shape[-1] ** 0.5
        alpha = torch.softmax(torch.einsum("bte,ke->bkt", e, key), dim=-1)
        value = self.W_l @ self.W_v
        return torch.einsum("bkt,bte,kce->bc", alpha, e, value) / len(key), alpha


def controlled(setting: Setting, prepared: Any, held: str) -> ControlledAttention:
    """Return the network trained with ``held`` held, at its best epoch."""
    network = ControlledAttention(
        RECIPE, words=len(prepared.vocabulary), held=held, seed=setting.seed
    )
    state = fit(
        prepared, RECIPE, seed=setting.seed, module=network,
        progress=lambda at: setting.tick(at.step, at.steps),
    )  # fmt: skip
    network.load_state_dict(dict(network.named_buffers()) | (state.best or state.kept))
    return network


def adversary(
    setting: Setting, prepared: Any, free: ControlledAttention, weight: float
) -> ControlledAttention:
    """Return a network that predicts as ``free`` does and attends elsewhere.

    Its loss is TVD(p, p_free) − ``weight`` · JSD(α, α_free), the JSD a mean over heads (Wiegreffe
    and Pinter, 2019); it starts from weights of its own.
    """
    network = ControlledAttention(
        RECIPE, words=len(prepared.vocabulary), held="free", seed=setting.seed + 1
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=RECIPE.learning_rate)
    ids = torch.from_numpy(prepared.training.ids)
    rng = np.random.default_rng([setting.seed, _STREAM, 1])
    steps = RECIPE.epochs * len(ids) // RECIPE.batch
    for step in range(steps):
        setting.tick(step, steps)
        rows = ids[torch.from_numpy(rng.choice(len(ids), RECIPE.batch, replace=False))]
        with torch.no_grad():
            wanted, attended = free.parts(rows)
        outputs, alpha = network.parts(rows)
        apart = (outputs.softmax(-1) - wanted.softmax(-1)).abs().sum(-1).mean() / 2
        loss = apart - weight * divergence(alpha, attended).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return network


def divergence(p: Float[Array, "*n T"], q: Float[Array, "*n T"]) -> Float[Array, "*n"]:
    """Return the Jensen–Shannon divergence of two distributions, ln 2 at most."""
    middle = torch.log((p + q) / 2)
    one, other = (x * (torch.log(x.clamp_min(1e-30)) - middle) for x in (p, q))
    return (one + other).sum(-1) / 2


def classifier_of(network: ControlledAttention, prepared: Any) -> AttentionClassifier:
    """Return the network as a model that every exact method explains."""
    names = ("embedding", "W_q", "W_k", "W_v", "W_l")
    return AttentionClassifier(
        **{name: getattr(network, name).detach().numpy() for name in names},
        vocabulary=prepared.vocabulary,
        classes=prepared.classes,
        T_max=RECIPE.T_max,
        position_base=RECIPE.position_base,
        position_scale=RECIPE.position_scale,
    )
