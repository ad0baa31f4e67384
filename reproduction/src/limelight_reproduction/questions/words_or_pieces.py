"""Words against pieces of words, on one model that reads pieces."""

__all__ = ["EXPERIMENT", "words_of_pieces"]

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from limelight import AttentionClassifier, evaluate, explain
from limelight.shapes import Int
from limelight.text import token_strings
from limelight_reproduction.document import list_texts
from limelight_reproduction.drawing import canvas, draw_quartile_lines, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
    round_for_json,
)
from limelight_reproduction.intervals import Interval, format_interval, median_interval
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import quartiles, rank_correlation

METHODS = {"lime": "LIME", "shapley": "Shapley values", "loo": "leave-one-out", "gxi": "G×I"}
TRAINING, QUICK_TRAINING = 25_000, 6_000
TEXTS, QUICK_TEXTS = 200, 20
LEAST = 5  # words of a kind in a text: fewer have no order to speak of
AGREED = 0.9  # rank correlation from which on it matters little what is removed
KINDS = {
    "all": "all words",
    "cut": "words cut into pieces, once in the text",
    "repeated": "words of one piece, repeated",
    "whole": "words of one piece, once in the text",
}


def words_of_pieces(text: str, pieces: Any) -> tuple[str, list[int]]:
    """Return the pieces of a text, separated by spaces, and the number of the word of each.

    Equal words have one number, as features that are words do.
    """
    rows: dict[str, int] = {}
    cut, words = [], []
    for word in token_strings(text):
        row = rows.setdefault(word, len(rows))
        for piece in pieces.split_word(word):
            cut.append(piece)
            words.append(row)
    return " ".join(cut), words


def _measure(setting: Setting) -> Numbers:
    from limelight import train
    from limelight.training import RECIPES
    from limelight_reproduction.deep.subwords import SubwordSplitter

    count = QUICK_TRAINING if setting.quick else TRAINING
    data = setting.sample_texts("imdb", "train", count)
    pieces = SubwordSplitter.train(list_texts(data), size=4000)
    settings = replace(
        RECIPES["paper"],
        embedding_std=0.1,
        position_scale=0.1,
        batch=64,
        learning_rate=5e-3,
        epochs=3,
    )
    model = train(
        pieces.split_texts(data), recipe=settings, seed=setting.seed, device=setting.device,
        progress=lambda at: setting.tick(at.step, at.steps),
    )  # fmt: skip
    test = setting.sample_texts("imdb", "test", 2_000)
    texts = list_texts(test)[: QUICK_TEXTS if setting.quick else TEXTS]
    rows = [row for text in texts if (row := _row(model, text, pieces)) is not None]
    cut = [len(pieces.split_word(word)) for text in texts for word in token_strings(text)]
    return round_for_json(
        {
            "texts": len(rows),
            "training": count,
            "vocabulary": model.sizes["V"],
            "accuracy": evaluate(model, pieces.split_texts(test)).accuracy,
            "cut": float(np.mean(np.array(cut) > 1)),
            "words": {kind: np.mean([row["words"][kind] for row in rows]) for kind in KINDS},
            "methods": {
                method: {kind: _over(rows, method, kind, setting.seed) for kind in KINDS}
                for method in METHODS
            },
        },
        digits=4,
    )


def _row(model: AttentionClassifier, text: str, pieces: Any) -> dict[str, Any] | None:
    """Return how scores of words agree with the sums of the scores of their pieces' places.

    Apart for the words of each kind; None for a text without two words.
    """
    spelt, words = words_of_pieces(text, pieces)
    inside = np.array(words[: model.T_max - 1])
    if len(set(words)) < 2:
        return None
    kinds = kinds_of_words(text, pieces, inside)
    found: dict[str, Any] = {"words": {kind: int(of.sum()) for kind, of in kinds.items()}}
    for method in METHODS:
        asked: dict[str, Any] = {"target": model.classes[-1], "scale": "score"}
        whole = explain(model, spelt, method, features=inside.tolist(), **asked).scores
        places = explain(model, spelt, method, features="positions", **asked).scores
        summed = np.bincount(_first_seen(inside), weights=places, minlength=len(whole))
        found[method] = {kind: _agreement(whole[of], summed[of]) for kind, of in kinds.items()}
    return found


def _agreement(whole: np.ndarray, summed: np.ndarray) -> dict[str, float | None]:
    """Return the rank correlation, and the gap as a share of the size of the words' scores."""
    if len(whole) < LEAST:
        return {"spearman": None, "gap": None}
    size = np.abs(whole).sum()
    return {
        "spearman": rank_correlation(whole, summed),
        "gap": float(np.abs(whole - summed).sum() / size) if size else None,
    }


def _over(rows: list[dict[str, Any]], method: str, kind: str, seed: int) -> dict[str, Any]:
    """Return medians over texts with enough words of the kind; nothing where there are none."""
    found: dict[str, Any] = {}
    for name in ("spearman", "gap"):
        known = [x for row in rows if (x := row[method][kind][name]) is not None]
        if known:
            found |= {name: median_interval(known, seed=seed), "texts": len(known)}
            found[f"{name} quartiles"] = quartiles(known)
    return found


def kinds_of_words(text: str, pieces: Any, inside: Int[np.ndarray, " T"]) -> dict[str, np.ndarray]:
    """Return which words, in the order in which they first occur, are of each kind.

    A word is cut if it has several pieces, and repeated if it occurs more than once in the window.
    """
    first = _first_seen(inside)
    d = int(first.max()) + 1
    spelt = list(dict.fromkeys(token_strings(text)))[:d]
    size = np.array([len(pieces.split_word(word)) for word in spelt])
    count = np.bincount(first, minlength=d)
    # The window may end within a word, which then has fewer places than pieces.
    cut, again = (size > 1) & (count > 1), count > size
    return {
        "all": np.ones(d, bool),
        "cut": cut & ~again,
        "repeated": again & ~cut,
        "whole": ~cut & ~again,
    }


def matters(cut: Interval) -> str:
    """Say whether it matters what is removed, from the rank correlation over cut words alone."""
    _, low, high = cut
    return "little" if low > AGREED else "it does" if high < AGREED else "undecided"


def _first_seen(groups: Int[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
    """Return groups numbered in the order in which they first occur, as features are."""
    row: dict[int, int] = {}
    return np.array([row.setdefault(int(one), len(row)) for one in groups])


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    of = numbers["trained"]["methods"]
    figure, grid = canvas(9.0, 2.4, columns=2)
    for axes, kind in zip(grid, ("cut", "repeated"), strict=True):
        known = [name for name in METHODS if "spearman" in of[name][kind]]
        rows = [of[name][kind]["spearman quartiles"] for name in known]
        draw_quartile_lines(axes, rows, [METHODS[name] for name in known])
        axes.set_xlim(0, 1.02)
        style_axes(axes, title=KINDS[kind], x="rank correlation of words with sums over pieces")
    yield "pieces", "Words against their pieces on one model: median and quartiles.", figure


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    of = numbers["trained"]
    cut = {name: of["methods"][name]["cut"] for name in METHODS}
    return Findings(
        headline=(
            "Over the words that are cut, LIME by words and LIME by pieces, added up, have rank "
            f"correlation {_rank(cut['lime'])} in the median review; Shapley values "
            f"{_rank(cut['shapley'])}."
        ),
        verdicts=[
            Verdict(
                claim="It matters whether words or the tokenizer's pieces are removed (Section 7)",
                holds=matters(cut["lime"]["spearman"]) if cut["lime"] else "undecided",
                number=f"rank correlation over cut words {_rank(cut['lime'])} (LIME), "
                f"{_rank(cut['shapley'])} (Shapley values); their scores differ by "
                f"{_gap(cut['lime'])} and {_gap(cut['shapley'])} of their size",
            )
        ],
        measured=[
            f"The one-layer classifier on {of['vocabulary']:,} pieces, trained on "
            f"{of['training']:,} reviews, reaches {of['accuracy']:.1%}; {of['cut']:.0%} of the "
            f"words of {of['texts']} test reviews are cut. A review has on average "
            + ", ".join(
                f"{of['words'][kind]:.0f} {said}" for kind, said in KINDS.items() if kind != "all"
            )
            + ". All values are exact, with UNK in place of what is removed; medians over reviews "
            f"with at least {LEAST} such words, and 95 % intervals.",
            *(_sentence(kind, of["methods"]) for kind in ("cut", "repeated", "all")),
        ],
        meaning=(
            "A gradient adds up over pieces by its definition. Removing a word takes all of its "
            "pieces at once, removing a piece leaves the others, so that scores by removal need "
            "not add up. With one layer the game is nearly additive and they nearly do, for words "
            "that are cut as for words that are repeated, whose places go together too and whose "
            "sums are farther off. A deeper model need not be so."
        ),
        table=Table(
            columns=("method", "words", "reviews", "rank correlation", "difference, of their size"),
            rows=[
                [said, KINDS[kind], one.get("texts", 0), _rank(one), _gap(one)]
                for name, said in METHODS.items()
                for kind in KINDS
                for one in (of["methods"][name][kind],)
            ],
        ),
    )


def _rank(of: Numbers) -> str:
    return format_interval(of["spearman"], 3) if "spearman" in of else "not known"


def _gap(of: Numbers) -> str:
    if "gap" not in of:
        return "not known"
    middle, low, high = of["gap"]
    return f"{middle:.1%} ({low:.1%} to {high:.1%})"


def _sentence(kind: str, methods: Numbers) -> str:
    return (
        f"{KINDS[kind].capitalize()}: rank correlation of the words' scores with the sums over "
        "the places of their pieces "
        + ", ".join(f"{said} {_rank(methods[name][kind])}" for name, said in METHODS.items())
        + "; the two differ by "
        + ", ".join(f"{_gap(methods[name][kind])} ({said})" for name, said in METHODS.items())
        + " of their size."
    )


EXPERIMENT = Experiment(
    name="pieces",
    title="Words against pieces of words, on the same model",
    paper=(
        "“[T]here is some interplay between the sampling mechanism of perturbation-based methods "
        "(often replacing at the word level) and the tokenizer used by the model (tokens are often "
        "subwords) which we would like to understand better” (Section 7)."
    ),
    parts=(Part(name="trained", measure=_measure, reads=("imdb train", "imdb test"), version=2),),
    findings=_findings,
    figures=_figures,
)
