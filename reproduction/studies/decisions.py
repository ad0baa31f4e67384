"""Certified decisions: how many texts are settled, how large the sets are, and how long it takes.

python reproduction/studies/decisions.py                       500 texts of each data set, one core
python reproduction/studies/decisions.py --texts 200 --only paper_imdb
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from linear import FILES, fitted
from measuring import on_cores
from results import Measure, command_line, report

import limelight
from limelight import Model
from limelight.errors import DomainError
from limelight.explainers import prepare_batch
from limelight.explainers.anchors import prediction_margins, read_prediction
from limelight.theory.decisions import certify_removals, find_sufficient_set
from limelight.theory.ratio_game import RatioGame
from limelight_reproduction.collapsed_folder import load_collapsed
from limelight_reproduction.setting import BUNDLED_MODEL

SEED = 43
SECONDS = 1.0  # for a counterfactual
NODES = 3000  # for an anchor, as in the method ``anchors``
REVIEWS = 200  # of the paper's model, for which a share is wanted
WANTED = 0.97


class Kind(NamedTuple):
    """A model and texts that it has not seen."""

    id: str
    title: str
    model: Model
    texts: Sequence[str]


class Decision(NamedTuple):
    """What was found about one text."""

    d: int
    is_settled: bool
    is_robust: bool
    size: int  # of the counterfactual, or 0
    seconds: float
    nodes: int


class ProvenAnchor(NamedTuple):
    """The sufficient set of one text."""

    words: int
    is_subset_minimal: bool
    is_smallest: bool
    seconds: float


def main() -> None:
    """Certify the decisions of six pairs of models and data sets."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--texts", type=int, default=500, help="of each data set")
    parser.add_argument("--anchors", type=int, default=100, help="texts with an anchor")
    parser.add_argument("--only", nargs="*", help="ids of pairs of a model and a data set")
    arguments = parser.parse_args()
    on_cores(1)
    count = 3 if arguments.smoke else arguments.texts
    anchors = min(count, arguments.anchors)
    most = 300 if arguments.smoke else 10_000
    measures: list[Measure] = []
    for make_kind in kinds(most):
        kind = make_kind()
        if arguments.only and kind.id not in arguments.only:
            continue
        measures += measure(kind, count, anchors)
    report(
        "decisions",
        measures,
        arguments,
        data=f"{count} texts of each data set, {anchors} of them with an anchor, seed {SEED}",
    )


def kinds(most: int) -> Iterator[Callable[[], Kind]]:
    """Yield functions that load a model and its texts."""
    models = {
        "shipped": ("shipped model", limelight.load),
        "paper": ("the paper's recipe", lambda: load_collapsed(Path(BUNDLED_MODEL))),
    }
    # The texts that a pipeline has not seen, for every model.
    data = {name: fitted(name, most=most) for name in ("imdb", "ag_news")}
    texts = {name: data[name].texts for name in data} | {"sst2": fitted("sst2", most=300).texts}
    assert set(texts) == set(FILES)
    titles = {"imdb": "IMDB", "sst2": "SST-2"}
    for id, (title, load) in models.items():
        for name, data_title in titles.items():
            yield lambda id=id, name=name, title=title, data_title=data_title, load=load: Kind(
                f"{id}_{name}", f"{title}, {data_title}", load(), texts[name]
            )
    yield lambda: Kind("tfidf_imdb", "TF-IDF, two classes, IMDB", data["imdb"].model, texts["imdb"])
    yield lambda: Kind(
        "tfidf_ag_news", "TF-IDF, four classes, AG News", data["ag_news"].model, texts["ag_news"]
    )


def measure(kind: Kind, count: int, anchors: int) -> Iterator[Measure]:
    """Certify ``count`` texts in a random order and ``anchors`` of them twice, and summarize."""
    order = np.random.default_rng(SEED).permutation(len(kind.texts))
    decisions: list[Decision] = []
    proven_anchors: list[ProvenAnchor] = []
    skipped = 0
    for i in order:
        if len(decisions) == count:
            break
        margins = text_margins(kind.model, kind.texts[i])
        try:
            decisions.append(decide(margins))
        except DomainError:  # the margin of the complete text is 0
            skipped += 1
            continue
        if len(proven_anchors) < anchors:
            proven_anchors.append(find_anchor(margins))
    yield from summarize_decisions(kind, decisions, skipped)
    yield from summarize_anchors(kind, proven_anchors)


def text_margins(model: Model, text: str) -> list[RatioGame]:
    """Return the margins of the predicted class of a text."""
    batch = prepare_batch(model, [text], target="predicted")
    return prediction_margins(batch, read_prediction(batch))


def decide(margins: list[RatioGame]) -> Decision:
    """Find the smallest removal that changes the prediction of one text."""
    start = time.perf_counter()
    certificate = certify_removals(margins, seconds=SECONDS)
    return Decision(
        d=margins[0].d,
        is_settled=certificate.is_settled,
        is_robust=certificate.is_robust,
        size=len(certificate.removed or ()),
        seconds=time.perf_counter() - start,
        nodes=certificate.node_count,
    )


def find_anchor(margins: list[RatioGame]) -> ProvenAnchor:
    """Find words of one text that are enough to keep the prediction."""
    start = time.perf_counter()
    words = find_sufficient_set(margins, seconds=math.inf, nodes=NODES)
    return ProvenAnchor(
        words=len(words.features),
        is_subset_minimal=words.is_subset_minimal,
        is_smallest=words.is_smallest,
        seconds=time.perf_counter() - start,
    )


def as_columns(rows: Sequence[Decision] | Sequence[ProvenAnchor]) -> dict[str, np.ndarray]:
    """Return one array for each field."""
    return {name: np.array([getattr(row, name) for row in rows]) for name in rows[0]._fields}


def summarize_anchors(kind: Kind, anchors: list[ProvenAnchor]) -> Iterator[Measure]:
    """Yield the measures of the anchors of one model on one data set."""
    table = as_columns(anchors)
    rows = [
        ("words", "words of an anchor, median", np.median(table["words"]), "words"),
        ("minimal", "anchor subset-minimal", table["is_subset_minimal"].mean(), "share"),
        ("smallest", "anchor smallest", table["is_smallest"].mean(), "share"),
        ("words_ms", "time of an anchor, median", 1000 * np.median(table["seconds"]), "ms"),
    ]
    for id, what, number, unit in rows:
        yield Measure(
            id=f"{kind.id}_{id}", what=f"{kind.title}: {what}", value=float(number), unit=unit
        )


def summarize_decisions(kind: Kind, decisions: list[Decision], skipped: int) -> Iterator[Measure]:
    """Yield the measures of the counterfactuals of one model on one data set."""
    table = as_columns(decisions)
    changed = table["size"] > 0
    ms = 1000 * table["seconds"]
    rows = [
        ("settled", "settled", table["is_settled"].mean(), "share"),
        ("robust", "no removal changes the prediction", table["is_robust"].mean(), "share"),
        ("size", "words of a counterfactual, median", _median(table["size"][changed]), "words"),
        ("ms", "time of a counterfactual, median", np.median(ms), "ms"),
        ("ms_slow", "time of a counterfactual, 95 % of texts", np.quantile(ms, 0.95), "ms"),
        ("nodes", "nodes, mean", table["nodes"].mean(), ""),
        ("d", "words of a text, median", np.median(table["d"]), "words"),
    ]
    note = f"{skipped} texts with a margin of 0 left out" if skipped else ""
    for id, what, number, unit in rows:
        yield Measure(
            id=f"{kind.id}_{id}",
            what=f"{kind.title}: {what}",
            value=float(number),
            unit=unit,
            note=note if id == "settled" else "",
        )
    if kind.id == "paper_imdb":
        first = table["is_settled"][:REVIEWS]
        yield Measure(
            id="paper_imdb_first_settled",
            what=f"{kind.title}: settled, first {len(first)} reviews",
            value=float(first.mean()),
            unit="share",
            at_least=WANTED,
        )


def _median(sizes: np.ndarray) -> float:
    return float(np.median(sizes)) if len(sizes) else math.nan


if __name__ == "__main__":
    main()
