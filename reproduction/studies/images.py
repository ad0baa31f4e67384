"""Which method to trust on images: a six-layer ViT on Fashion-MNIST, patches set to the mean.

    python reproduction/studies/images.py

Test images evenly spread over the file, whose 7 × 7 patches are joined to a grid (``--grid 7``
leaves them as they are, and takes ten times as long). ``judge`` removes the patches in the order of
each method; 0 is a random order and 1 the best order found.
"""

import time
from pathlib import Path

import numpy as np
from results import Measure, command_line, report

import limelight
from limelight.data.images import read_labeled_images
from limelight.explainers import Lime, Shapley

SHARED = Path(__file__).resolve().parents[3] / "shared"
MODEL, DATA = SHARED / "models/vit-mini-fashion", SHARED / "data/fashion_mnist/test.parquet"
METHODS = ("loo", "lrp", "ig", "gxi", "alpha-avg", "rollout", "generic-attention")


def interval_note(interval: tuple[float, float] | None) -> str:
    """Return an interval in words; fewer than ten images have none."""
    return "" if interval is None else f"95 % interval {interval[0]:.2f} to {interval[1]:.2f}"


def main() -> None:
    """Judge the methods on the images."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--grid", type=int, default=4, help="patches a side")
    parser.add_argument("--minutes", type=float, default=2.0, help="for searches and chance")
    parser.add_argument("--pairs", type=int, default=4, help="of orders, for Shapley values")
    parser.add_argument("--steps", type=int, default=32, help="for integrated gradients, at most")
    parser.add_argument("--samples", type=int, default=200, help="for LIME")
    arguments = parser.parse_args()
    model, found = limelight.load(MODEL), read_labeled_images(DATA)
    count = 3 if arguments.smoke else arguments.images
    rows = np.linspace(0, len(found) - 1, count).round().astype(int)
    images = [found.texts[i] for i in rows]
    right = np.mean(
        [row["class"] == model.classes[found.labels[i]]
         for i, row in zip(rows, limelight.predict(model, images), strict=True)]
    )  # fmt: skip
    sampled = [Shapley(pairs=arguments.pairs), Lime(samples=arguments.samples)]
    start = time.perf_counter()
    judgment = limelight.judge(
        model,
        images,
        methods=[*sampled, *METHODS][: 4 if arguments.smoke else None],
        features=f"{arguments.grid} × {arguments.grid} patches",
        budget=f"{6 if arguments.smoke else 60 * arguments.minutes}s",
        max_steps=arguments.steps,
        steps=min(16, arguments.steps),
        progress=lambda done, total: print(f"{done:.1f} of {total}", end="\r"),
    )
    seconds = time.perf_counter() - start
    measures = [Measure(id="right", what="images of which the class is right", value=right)]
    measures += [
        Measure(
            id=f"share_{one.method}",
            what=f"share of {one.method} between a random order and the best found",
            value=round(one.share or 0.0, 3),
            note=one.reason or interval_note(one.interval),
        )
        for one in judgment.methods
    ]
    measures.append(Measure(id="seconds", what="judging took", value=seconds, unit="s"))
    data = (
        f"{count} test images of Fashion-MNIST, evenly spread; {arguments.grid}² patches, set to "
        f"the mean color; {arguments.pairs} pairs of orders, {arguments.samples} samples"
    )
    report("images", measures, arguments, data=data, warnings=list(judgment.warnings))


if __name__ == "__main__":
    main()
