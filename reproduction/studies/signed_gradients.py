"""How often α-avg is correlated with the gradient scores, review by review (comment (i) on Eq. 14).

python reproduction/studies/signed_gradients.py --data TEST.parquet [--model FOLDER] [--texts 500]
"""

import argparse
from pathlib import Path

import numpy as np

import limelight
from limelight.data import read_labeled

METHODS = ("g-l1", "g-l2", "g-avg")


def main() -> None:
    """Print for each method how many correlations are above 1/2, above 0, and not above 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--texts", type=int, default=500)
    options = parser.parse_args()
    model = limelight.load(options.model)
    labeled = read_labeled(options.data, part="test", labels=model.classes)
    chosen = np.random.default_rng(0).choice(len(labeled.texts), options.texts, replace=False)
    texts = [labeled.texts[i] for i in sorted(chosen.tolist())]
    attention = limelight.explain(model, texts, "alpha-avg", features="positions")
    for method in METHODS:
        scores = limelight.explain(model, texts, method, features="positions", scale="score")
        pairs = zip(attention, scores, strict=True)
        found = np.array([np.corrcoef(a.scores, e.scores)[0, 1] for a, e in pairs])
        print(
            f"{method}: median {np.median(found):+.2f}, above 0.5 in {np.sum(found > 0.5)}, above "
            f"0 in {np.sum(found > 0)}, not above 0 in {np.sum(found <= 0)} of {len(found)}"
        )


if __name__ == "__main__":
    main()
