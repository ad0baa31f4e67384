"""Pairs of words as a shaded matrix and a list; an anchor as a sentence."""

__all__ = ["anchor_note", "pair_section"]

import numpy as np

from limelight.render.html_tables import headed_table, scrolling
from limelight.render.markup import Html, element, raw
from limelight.render.palette import level
from limelight.render.wording import anchor_sentence, minus, written
from limelight.results import Explanation, Pairs

SHOWN_WORDS = 12
SHOWN_PAIRS = 12


def pair_section(e: Explanation) -> Html:
    """Return the words that take part in the strongest pairs against each other, then the pairs."""
    if e.pairs is None or not len(e.pairs.scores):
        return raw()
    return raw(_matrix(e, e.pairs), _list(e, e.pairs))


def anchor_note(e: Explanation) -> Html:
    """Say which words hold the prediction, if the method says so."""
    return raw() if e.anchor is None else element("p", anchor_sentence(e, e.anchor))


def _matrix(e: Explanation, pairs: Pairs) -> Html:
    order = np.argsort(-np.abs(pairs.scores), kind="stable")
    strongest = dict.fromkeys(pairs.features[order].ravel().tolist())
    shown = sorted(list(strongest)[:SHOWN_WORDS])
    scores = {frozenset(p): s for p, s in zip(pairs.features.tolist(), pairs.scores, strict=True)}
    peak = float(np.abs(pairs.scores).max())
    head = ["", *(element("bdi", e.names[j]) for j in shown)]
    rows = [
        element(
            "tr",
            element("th", element("bdi", e.names[i]), scope="row"),
            *(_cell(scores.get(frozenset((i, j))) if i != j else None, peak) for j in shown),
        )
        for i in shown
    ]
    caption = "What two words do together beyond what each does alone"
    return scrolling(headed_table(head, rows, caption=caption, class_="numbers matrix"), "Pairs")


def _cell(score: float | None, peak: float) -> Html:
    if score is None:
        return element("td", "")
    step = level(score / peak) if peak else 0
    shade = f"{'f' if score >= 0 else 'a'}{step}" if step else None
    return element("td", minus(written(float(score), peak=peak)), class_=shade)


def _list(e: Explanation, pairs: Pairs) -> Html:
    order = np.argsort(-np.abs(pairs.scores), kind="stable")[:SHOWN_PAIRS].tolist()
    peak = float(np.abs(pairs.scores).max())
    rows = [
        element(
            "tr",
            element("th", *_names(e, pairs.features[k].tolist()), scope="row"),
            element("td", minus(written(float(pairs.scores[k]), peak=peak))),
            *_error(pairs, k, peak),
        )
        for k in order
    ]
    columns = ("pair", "score") if pairs.stderr is None else ("pair", "score", "standard error")
    return headed_table(columns, rows, caption=f"The strongest pairs, {e.label}")


def _error(pairs: Pairs, k: int, peak: float) -> list[Html]:
    if pairs.stderr is None:
        return []
    return [element("td", written(float(pairs.stderr[k]), peak=peak, signed=False))]


def _names(e: Explanation, pair: list[int]) -> list[object]:
    first, second = (element("bdi", e.names[j]) for j in pair)
    return [first, " × ", second]
