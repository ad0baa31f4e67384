"""The search for anchors of models that are called, beside the beam search of version 0.3.

python reproduction/studies/anchor_search.py [--minilm FOLDER]

Rule, written before the first run: the new search replaces the old one if in every cell, with as
many calls as the old one used on the same text,

* at least as many of 40 texts have an anchor that reaches the threshold, up to one text, and
* the mean size on texts where both reach it is at most 5 % larger.

An anchor reaches the threshold 0.95 if its precision on new masks is at least 0.94: the searches
decide up to 0.01. A cell is a model and a limit of masks. The shipped model and the paper's are
called on reviews, and a transformer on sentences.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from anchor_beam_search import BeamSettings, find_anchor_by_beam
from linear import fitted
from measuring import on_cores
from results import Measure, command_line, report

import limelight
from limelight import Model
from limelight.explainers import prepare_batch
from limelight.explainers.anchors import read_prediction
from limelight.sampling.anchors import AnchorSearchSettings, KeepsPrediction, find_anchor
from limelight.sampling.masks import draw_coin_masks
from limelight_reproduction.collapsed_folder import load_collapsed
from limelight_reproduction.setting import BUNDLED_MODEL

MINILM = Path(__file__).resolve().parents[3] / "shared" / "models" / "minilm-imdb"
TEXTS = 40
LIMITS = (500, 2000)
BATCH = 50
REACHED = 0.94


class Row(NamedTuple):
    """An anchor: its size, its precision on new masks, and the calls of the search."""

    size: int
    precision: float
    calls: int


def main() -> None:
    """Compare both searches on each cell."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--minilm", type=Path, default=MINILM, help="folder of a transformer")
    arguments = parser.parse_args()
    on_cores(1)
    count, fresh = (2, 50) if arguments.smoke else (TEXTS, 2000)
    most = 300
    reviews, sentences = fitted("imdb", most=most).texts, fitted("sst2", most=most).texts
    models: list[tuple[str, str, Callable[[], Model], list[str], tuple[int, ...], int]] = [
        ("shipped", "shipped model, reviews", limelight.load, reviews, LIMITS, fresh),
        ("paper", "paper's recipe, reviews", load_paper_model, reviews, LIMITS, fresh),
    ]
    if arguments.minilm.exists() and not arguments.smoke:
        load = lambda: limelight.load(arguments.minilm)  # noqa: E731
        models.append(("minilm", "MiniLM, sentences", load, sentences, LIMITS[:1], 500))
    measures: list[Measure] = []
    for id, title, load, texts, limits, masks in models:
        model = load()
        for limit in limits[:1] if arguments.smoke else limits:
            rows = [
                search(model, text, limit, masks, seed) for seed, text in enumerate(texts[:count])
            ]
            cell = list(summarize(f"{id}_{limit}", f"{title}, limit {limit:,}", rows))
            print(*(f"{row.id} {row.value:.3g}" for row in cell), sep="\n", flush=True)
            measures += cell
    report("anchor_search", measures, arguments, data=f"{count} texts for each model")


def load_paper_model() -> Model:
    """Load the model of the paper's recipe."""
    return load_collapsed(Path(BUNDLED_MODEL))


def search(model: Model, text: str, limit: int, fresh: int, seed: int) -> tuple[Row, Row]:
    """Return the anchors of both searches with the same number of calls."""
    batch = prepare_batch(model, [text], target="predicted")
    prediction, game = read_prediction(batch), batch.game()

    def keeps_prediction(masks: np.ndarray) -> np.ndarray:
        return prediction(game(masks))

    d = len(batch.features[0])
    settings = BeamSettings(batch=BATCH, max_samples=limit)
    old = find_anchor_by_beam(
        keeps_prediction, d, rng=np.random.default_rng(seed), settings=settings
    )
    new = find_anchor(
        keeps_prediction,
        d,
        rng=np.random.default_rng(seed),
        settings=AnchorSearchSettings(batch=BATCH, max_samples=old.sample_count),
    )
    old_row, new_row = (
        Row(
            len(result.features),
            measure_precision(keeps_prediction, d, result.features, fresh, seed),
            result.sample_count,
        )
        for result in (old, new)
    )
    return old_row, new_row


def measure_precision(
    keeps_prediction: KeepsPrediction, d: int, features: tuple[int, ...], count: int, seed: int
) -> float:
    """Return the precision of an anchor on masks that no search has seen."""
    rng = np.random.default_rng(1000 + seed)
    return float(keeps_prediction(draw_coin_masks(d, count, rng, fixed_features=features)).mean())


def summarize(id: str, title: str, rows: list[tuple[Row, Row]]) -> Iterator[Measure]:
    """Yield the measures of one cell, and whether the rule holds there."""
    old, new = (np.array(side, dtype=float) for side in zip(*rows, strict=True))
    old_reached, new_reached = old[:, 1] >= REACHED, new[:, 1] >= REACHED
    both = old_reached & new_reached
    sizes = [table[both, 0].mean() if both.any() else 0.0 for table in (old, new)]
    for name, table, reached, size in (
        ("old", old, old_reached, sizes[0]),
        ("new", new, new_reached, sizes[1]),
    ):
        numbers = {
            "reached": (reached.mean(), "share of texts that reach the threshold", "share"),
            "size": (size, "words of an anchor, texts where both reach it", "words"),
            "precision": (table[:, 1].mean(), "mean precision", "share"),
            "calls": (table[:, 2].mean(), "calls of the search", "calls"),
        }
        for key, (number, what, unit) in numbers.items():
            yield Measure(
                id=f"{id}_{name}_{key}",
                what=f"{title}: {what}, {name} search",
                value=float(number),
                unit=unit,
            )
    holds = new_reached.sum() >= old_reached.sum() - 1 and sizes[1] <= 1.05 * sizes[0]
    yield Measure(
        id=f"{id}_rule",
        what=f"{title}: the new search is at least as good",
        value=float(holds),
        at_least=1.0,
    )


if __name__ == "__main__":
    main()
