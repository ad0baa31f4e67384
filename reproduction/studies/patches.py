"""Exact methods over patches of an image, against one forward pass of the same model.

    python reproduction/studies/patches.py

A classifier over 7 × 7 patches with weights as large as trained ones, ten classes, 16 heads; one
core. Each method explains the same images one at a time, as a person would.
"""

import numpy as np
from measuring import on_cores, seconds
from results import Measure, command_line, report

import limelight
from limelight.models.attention import PatchClassifier
from limelight.text import Vocabulary, read_image

METHODS = ("shapley", "lime", "banzhaf", "loo", "alpha-avg", "gxi")


def model(seed: int = 0, K: int = 16, C: int = 10, d_e: int = 64, d_h: int = 64) -> PatchClassifier:
    """Return a classifier of the sizes of the recipe "images"."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape) / np.sqrt(shape[-1])

    return PatchClassifier(
        embedding=normal(2, d_e) * 4,
        W_q=normal(K, 32, d_e),
        W_k=normal(K, 32, d_e),
        W_v=normal(K, 32, d_e),
        W_l=normal(K, C, 32),
        patch_mean=np.full(16, 0.3),
        patch_in=normal(d_h, 16) * 3,
        patch_bias=normal(d_h),
        patch_out=normal(d_e, d_h) * 2,
        position_table=normal(50, d_e) * 8,
        patch_size=(4, 4),
        grid=(7, 7),
        T_max=50,
        classes=tuple(map(str, range(C))),
        vocabulary=Vocabulary(("[cls]", "UNK")),
    )


def main() -> None:
    """Measure the time of an image by each method."""
    arguments = command_line(__doc__ or "").parse_args()
    on_cores(1)
    own, rng = model(), np.random.default_rng(1)
    count = 2 if arguments.smoke else 30
    images = [read_image(x) for x in rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)]
    repeats = 1 if arguments.smoke else 3

    def each(method: str) -> float:
        def work() -> None:
            for one in images:
                limelight.explain(own, one, method)

        return 1e3 * float(seconds(work, repeats=repeats).min()) / count

    forward = 1e3 * float(seconds(lambda: own.logits(images), repeats=repeats).min()) / count
    measures = [
        Measure(id="forward", what="one forward pass of an image", value=forward, unit="ms")
    ]
    for method in METHODS:
        taken = each(method)
        measures.append(
            Measure(
                id=method,
                what=f"{method} of an image of 49 patches",
                value=taken,
                unit="ms",
                note=f"{taken / forward:.0f} forward passes",
            )
        )
    report(
        "patches",
        measures,
        arguments,
        data="random weights as large as trained ones; images of noise",
    )


if __name__ == "__main__":
    main()
