"""Random small models whose sizes are distinct primes: a swapped axis cannot pass unseen."""

import hashlib
import json

import numpy as np

from limelight.models.attention import AttentionClassifier
from limelight.text import Vocabulary

SIZES = {"V": 23, "d_e": 7, "K": 3, "d_att": 5, "d_out": 11, "T_max": 13}
WORDS = tuple(f"w{number}" for number in range(SIZES["V"] - 2))


def tiny_model(
    seed: int = 0, *, outputs: int = 1, dtype: str = "float64", scale: float = 1.0, **changes
) -> AttentionClassifier:
    """Return a model with random weights; ``changes`` replace sizes (``d_e=17``) or settings."""
    size = SIZES | {name: changes.pop(name) for name in tuple(changes) if name in SIZES}
    V, d_e, K, d_att, d_out, T_max = (size[name] for name in SIZES)
    rng = np.random.default_rng(seed)

    def random(*shape: int) -> np.ndarray:
        return (scale * rng.standard_normal(shape)).astype(dtype)

    return AttentionClassifier(
        embedding=random(V, d_e),
        W_q=random(K, d_att, d_e),
        W_k=random(K, d_att, d_e),
        W_v=random(K, d_out, d_e),
        W_l=random(K, outputs, d_out),
        vocabulary=Vocabulary(("[cls]", "UNK", *(f"w{i}" for i in range(V - 2)))),
        classes=tuple(f"class {i}" for i in range(max(outputs, 2))),
        T_max=T_max,
        **{"position_base": 10000.0, **changes},
    )


def random_texts(count: int, seed: int = 0, *, longest: int = 17) -> list[str]:
    """Return texts of known and unknown words, some longer than the window of ``tiny_model``."""
    rng = np.random.default_rng(seed)
    words = (*WORDS, "never", "seen")
    return [" ".join(rng.choice(words, rng.integers(1, longest + 1))) for _ in range(count)]


def update_digests(folder):
    """Write the digests of the files of a model folder into its config.json.

    A test that damages a file calls this to reach the checks behind that of the digests.
    """
    config = json.loads((folder / "config.json").read_text())
    for name in config["sha256"]:
        config["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "config.json").write_text(json.dumps(config))
