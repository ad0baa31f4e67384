"""Words against pieces of words, on one model that reads pieces."""

__all__ = ["EXPERIMENT", "words_of_pieces"]

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from limelight import AttentionClassifier, evaluate, explain
from limelight.shapes import Int
from limelight.text import token_strings
from limelight_reproduction.document import strings
from limelight_reproduction.drawing import canvas, plain, quartile_lines
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
    compact,
)
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import correlation, quartiles, rank_correlation

METHODS = {"lime": "LIME", "shapley": "Shapley values", "loo": "leave-one-out", "gxi": "G×I"}
TRAINING, QUICK_TRAINING = 25_000, 6_000
TEXTS, QUICK_TEXTS = 200, 30


def words_of_pieces(text: str, pieces: Any) -> tuple[str, list[int]]:
    """Return the pieces of a text, separated by spaces, and the number of the word of each.

    Equal words have one number, as features that are words do.
    """
    rows: dict[str, int] = {}
    cut, words = [], []
    for word in token_strings(text):
        row = rows.setdefault(word, len(rows))
        for piece in pieces.of_word(word):
            cut.append(piece)
            words.append(row)
    return " ".join(cut), words


def _measure(setting: Setting) -> Numbers:
    from limelight import train
    from limelight.training import RECIPES
    from limelight_reproduction.deep.pieces import Pieces

    count = QUICK_TRAINING if setting.quick else TRAINING
    data = setting.some_texts("imdb", "train", count)
    pieces = Pieces.learnt(strings(data), size=4000)
    settings = replace(
        RECIPES["paper"],
        embedding_std=0.1,
        position_scale=0.1,
        batch=64,
        learning_rate=5e-3,
        epochs=3,
    )
    model = train(
        pieces.spelled(data), recipe=settings, seed=setting.seed, device="cpu",
        progress=lambda at: setting.tick(at.step, at.steps),
    )  # fmt: skip
    test = setting.some_texts("imdb", "test", 2_000)
    texts = strings(test)[: QUICK_TEXTS if setting.quick else TEXTS]
    found = {method: _agreement(model, texts, pieces, method) for method in METHODS}
    cut = [len(pieces.of_word(word)) for text in texts for word in token_strings(text)]
    return compact(
        {
            "texts": len(texts),
            "training": count,
            "vocabulary": model.sizes["V"],
            "accuracy": evaluate(model, pieces.spelled(test)).accuracy,
            "cut": float(np.mean(np.array(cut) > 1)),
            "methods": found,
        },
        digits=4,
    )


def _agreement(
    model: AttentionClassifier, texts: Sequence[str], pieces: Any, method: str
) -> dict[str, Any]:
    """Return how scores of words agree with the sums of the scores of their pieces' places."""
    ranks, pearson, size = [], [], []
    for text in texts:
        spelt, words = words_of_pieces(text, pieces)
        inside = np.array(words[: model.T_max - 1])
        target = model.classes[-1]
        whole = explain(model, spelt, method, target=target, features=inside.tolist()).scores
        places = explain(model, spelt, method, target=target, features="positions").scores
        summed = np.bincount(_first_seen(inside), weights=places, minlength=len(whole))
        split = _split(inside, len(whole))
        ranks.append(rank_correlation(whole, summed))
        pearson.append(correlation(whole, summed))
        if split.any():
            gap = np.abs(whole - summed)[split].sum()
            size.append(float(gap / np.abs(whole)[split].sum()))
    return {
        "spearman": quartiles(ranks),
        "pearson": quartiles(pearson),
        "gap": float(np.median(size)),
    }


def _first_seen(groups: Int[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
    """Return groups numbered in the order in which they first occur, as features are."""
    row: dict[int, int] = {}
    return np.array([row.setdefault(int(one), len(row)) for one in groups])


def _split(groups: Int[np.ndarray, " T"], d: int) -> np.ndarray:
    """Return which words stand at more than one place: cut into pieces, or repeated."""
    return np.bincount(_first_seen(groups), minlength=d) > 1


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    of = numbers["trained"]["methods"]
    figure, axes = canvas(6.0, 2.4)
    quartile_lines(axes, [of[name]["spearman"] for name in METHODS], list(METHODS.values()))
    axes.set_xlim(0, 1.02)
    plain(axes, x="rank correlation of words with sums over their pieces")
    yield "pieces", "Words against their pieces on one model: median and quartiles.", figure


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    of = numbers["trained"]
    lime, shapley = (of["methods"][name] for name in ("lime", "shapley"))
    return Findings(
        headline=(
            f"LIME by words and LIME by pieces, added up, have rank correlation "
            f"{lime['spearman'][1]:.2f} in the median review; Shapley values "
            f"{shapley['spearman'][1]:.2f}."
        ),
        verdicts=[
            Verdict(
                claim="It matters whether words or the tokenizer's pieces are removed (Section 7)",
                holds="little" if lime["spearman"][1] > 0.9 else "it does",
                number=f"rank correlation {lime['spearman'][1]:.2f} (LIME), "
                f"{shapley['spearman'][1]:.2f} (Shapley values)",
            )
        ],
        measured=[
            f"The one-layer classifier on {of['vocabulary']:,} pieces, trained on "
            f"{of['training']:,} reviews, reaches {of['accuracy']:.1%}; {of['cut']:.0%} of the "
            f"words of {of['texts']} test reviews are cut. All values are exact, with UNK in place "
            "of what is removed.",
            "Rank correlation of the words' scores with the sums over the places of their pieces: "
            + ", ".join(
                f"{said} {of['methods'][name]['spearman'][1]:.2f}" for name, said in METHODS.items()
            )
            + ". For words that stand at more than one place the sums differ from the words' "
            "scores by "
            + ", ".join(
                f"{of['methods'][name]['gap']:.0%} ({said})" for name, said in METHODS.items()
            )
            + " of their size.",
        ],
        meaning=(
            "A gradient adds up over pieces by its definition. Removing a word takes all of its "
            "pieces at once, removing a piece leaves the others, so that scores by removal need "
            "not add up; with one layer the game is nearly additive and they nearly do."
        ),
        table=Table(
            columns=("method", "rank correlation", "correlation", "difference of split words"),
            rows=[
                [said, one["spearman"][1], one["pearson"][1], one["gap"]]
                for said, one in ((said, of["methods"][name]) for name, said in METHODS.items())
            ],
        ),
    )


EXPERIMENT = Experiment(
    name="pieces",
    title="Words against pieces of words, on the same model",
    paper=(
        "“There is some interplay between the sampling mechanism (often replacing at the word "
        "level) and the tokenizer (tokens are often subwords) which we would like to understand "
        "better” (Section 7)."
    ),
    parts=(Part(name="trained", measure=_measure, reads=("imdb train", "imdb test")),),
    findings=_findings,
    figures=_figures,
)
