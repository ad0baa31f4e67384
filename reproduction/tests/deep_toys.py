"""Small deep networks on toy data, with distinct prime sizes."""

import numpy as np
import torch

from limelight.text import Vocabulary
from limelight_reproduction.deep.deep_classifier import DeepClassifier
from limelight_reproduction.deep.networks import NetworkPlan
from limelight_reproduction.deep.transformer import NetworkShape, Transformer

SHAPE = NetworkShape(layers=2, heads=3, d_e=10, d_att=5, d_hidden=11, T_max=13, position_scale=1.0)
WORDS = tuple(f"w{number}" for number in range(17))
VOCABULARY = Vocabulary(("[cls]", "UNK", *WORDS))
TOY = NetworkPlan(shape=SHAPE, epochs=8)


def network(seed=0, *, outputs=1, shape=SHAPE, words=None):
    """Return a random network whose biases and norms are not at their starting values."""
    rng = np.random.default_rng(seed)
    result = Transformer(shape, words=words or len(VOCABULARY), outputs=outputs, rng=rng)
    with torch.no_grad():
        for name, weight in result.named_parameters():
            if weight.ndim == 1:
                weight += torch.from_numpy(0.3 * rng.standard_normal(weight.shape)).float()
            elif name == "embedding":
                weight *= 50
    return result


def make_trained_network(
    seed=0, *, outputs=1, pieces=None, vocabulary=VOCABULARY, shape=SHAPE, double=True
):
    """Return a random network as if it had been trained."""
    module = network(seed, outputs=outputs, shape=shape, words=len(vocabulary))
    return DeepClassifier(
        network=(module.double() if double else module).requires_grad_(False),
        vocabulary=vocabulary,
        classes=tuple(f"class {i}" for i in range(max(outputs, 2))),
        pieces=pieces,
    )
