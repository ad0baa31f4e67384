"""Tiny classifiers with options: biases, skip connections, own embeddings, additive attention."""

import numpy as np

from limelight.models.attention import AttentionClassifier

from tiny_models import SIZES, tiny_model

KINDS = {
    "biases": {"biases": True},
    "skip of the mean": {"skip": "mean"},
    "skip of [cls]": {"skip": "cls"},
    "own embeddings": {"apart": True},
    "all": {"biases": True, "skip": "mean", "apart": True},
    "all, [cls]": {"biases": True, "skip": "cls", "apart": True},
    "additive": {"additive": True},
    "additive, all": {"additive": True, "biases": True, "skip": "mean", "apart": True},
    "additive, [cls]": {"additive": True, "biases": True, "skip": "cls"},
}


def make_model(kind, *, seed=3, outputs=2):
    """A tiny model with the options of ``kind``."""
    request = KINDS[kind]
    plain = tiny_model(seed, outputs=outputs, scale=0.6)
    rng = np.random.default_rng(seed + 1)
    size = SIZES | {"C": outputs}
    K, wide = size["K"], size["d_e"] * (size["K"] if request.get("apart") else 1)
    changes = {name: getattr(plain, name) for name in ("W_q", "W_k", "W_v", "W_l")}
    changes["embedding"] = 0.6 * rng.standard_normal((size["V"], wide))
    if request.get("biases"):
        changes |= {name: rng.standard_normal((K, size["d_att"])) for name in ("b_q", "b_k")}
        changes["b_v"] = rng.standard_normal((K, size["d_out"]))
    if "skip" in request:
        changes |= {"skip": request["skip"], "W_s": rng.standard_normal((outputs, wide))}
    if request.get("additive"):
        changes |= {"attention": "additive", "w_a": rng.standard_normal((K, size["d_att"]))}
    return AttentionClassifier(
        **changes,
        head_embeddings=bool(request.get("apart")),
        vocabulary=plain.vocabulary,
        classes=plain.classes,
        T_max=plain.T_max,
    )
