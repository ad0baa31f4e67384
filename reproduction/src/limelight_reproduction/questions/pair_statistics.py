"""Statistics of sentence pairs: means over pairs with 95 % intervals."""

__all__ = ["COMPARED", "summarize_pairs"]

from collections.abc import Callable, Sequence

import numpy as np

from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.questions.complete_games import VARIATION
from limelight_reproduction.questions.pair_rows import METHODS, SIGNED
from limelight_reproduction.questions.resampled_rows import Row, Rows
from limelight_reproduction.setting import CLASSES
from limelight_reproduction.spread import rank_correlation

_TOP = 3
# Pairs of methods to compare: every two of the paper's families, and the two that remove words.
COMPARED = {
    "alpha-avg lime": "α-avg and LIME",
    "g-l1 lime": "G-l1 and LIME",
    "alpha-avg g-l1": "α-avg and G-l1",
    "shapley lime": "Shapley values and LIME",
}


def summarize_pairs(rows: Sequence[Row], *, share: float, seed: int) -> Numbers:
    """Return all statistics; ``share`` is the share of test pairs that are as short as these."""
    all_rows = Rows(rows, seed=seed)
    by_class = {
        name: all_rows.select(_has_decision(index)) for index, name in enumerate(CLASSES["sick"])
    }
    groups = {"all": all_rows, **by_class}
    words = [_word_count(row) for row in rows]
    return round_for_json(
        {
            "pairs": len(rows),
            "share_of_test": share,
            "words": [min(words), float(np.mean(words)), max(words)],
            "right": all_rows.mean(lambda row: row["decision"] == row["label"]),
            "classes": {name: len(group.rows) for name, group in by_class.items()},
            "linear": all_rows.mean(lambda row: row["linear"]),
            "rank": {name: all_rows.mean(_size_correlation(name, "shapley")) for name in METHODS},
            "compared": {
                names: all_rows.mean(_size_correlation(*names.split())) for names in COMPARED
            },
            "top": {name: all_rows.mean(_top_overlap(name)) for name in METHODS},
            "top_chance": all_rows.mean(lambda row: _TOP / _word_count(row)),
            "second": {name: all_rows.mean(_second_sentence_share(name)) for name in METHODS},
            "second_words": all_rows.mean(lambda row: float(np.mean(row["second"]))),
            "unshared": {label: _unshared_shares(group) for label, group in groups.items()},
            "special": _special_token_shares(all_rows, rows),
            "faithful": {name: all_rows.ratio(*_gain_and_room(name)) for name in METHODS},
            "lime_over_attention": all_rows.ratio(
                lambda row: row["areas"]["lime"] - row["areas"]["alpha-avg"],
                _gain_and_room("lime")[1],
            ),
            "faithful_by": {
                label: {name: group.ratio(*_gain_and_room(name)) for name in METHODS}
                for label, group in by_class.items()
            },
            "flips": {label: _flip_statistics(group) for label, group in groups.items()},
            "variation": {
                label: {part: group.mean(_variance_share(part)) for part in _VARIANCE_PARTS}
                for label, group in groups.items()
            },
            "across_over_within": all_rows.mean(_across_minus_within),
            **_interaction_statistics(all_rows, rows),
            "negation": _negation_statistics(all_rows),
        },
        digits=4,
    )


_VARIANCE_PARTS = (*VARIATION, "across_two")


def _has_decision(index: int) -> Callable[[Row], bool]:
    """Return a predicate: whether the model predicts the class with this index."""
    return lambda row: row["decision"] == index


def _word_count(row: Row) -> int:
    return len(row["second"])


def _size_correlation(first: str, second: str) -> Callable[[Row], float | None]:
    """Return a function of a pair: the rank correlation of the score sizes of two methods."""

    def correlation(row: Row) -> float | None:
        """Return the rank correlation for one pair."""
        return rank_correlation(*(np.abs(row["scores"][name]) for name in (first, second)))

    return correlation


def _strongest_words(scores: Sequence[float], count: int) -> set[int]:
    """Return the indices of the ``count`` words with the largest absolute scores."""
    return set(np.argsort(-np.abs(scores), kind="stable")[:count].tolist())


def _top_overlap(name: str) -> Callable[[Row], float]:
    """Return a function of a pair: the share of a method's top words that Shapley values share."""

    def overlap(row: Row) -> float:
        """Return the share for one pair."""
        top, shapley_top = (
            _strongest_words(row["scores"][method], _TOP) for method in (name, "shapley")
        )
        return len(top & shapley_top) / _TOP

    return overlap


def _second_sentence_share(name: str) -> Callable[[Row], float | None]:
    """Return a function of a pair: the share of the score sizes that is in the second sentence."""

    def share(row: Row) -> float | None:
        """Return the share for one pair."""
        size = np.abs(row["scores"][name])
        return float(size @ row["second"] / size.sum()) if size.any() else None

    return share


def _unshared_shares(rows: Rows) -> Numbers:
    """Return the shares of words and of score sizes that belong to words of one sentence only."""

    def is_unshared(row: Row) -> np.ndarray:
        """Return for every word whether it occurs in one sentence only."""
        shared = {index for indices in row["same"] for index in indices}
        return np.array([index not in shared for index in range(_word_count(row))])

    def size_share(name: str) -> Callable[[Row], float | None]:
        """Return a function of a pair: the share of the score sizes of a method."""

        def share(row: Row) -> float | None:
            """Return the share for one pair."""
            size = np.abs(row["scores"][name])
            return float(size @ is_unshared(row) / size.sum()) if size.any() else None

        return share

    return {
        **{name: rows.mean(size_share(name)) for name in METHODS},
        "words": rows.mean(lambda row: float(is_unshared(row).mean())),
    }


def _special_token_shares(all_rows: Rows, rows: Sequence[Row]) -> list[list[float] | None]:
    """Return for every layer the share of the read attention that goes to special tokens."""

    def special_share(layer: int) -> Callable[[Row], float]:
        """Return a function of a pair: the share in a layer."""
        return lambda row: 1 - float(np.sum(row["looks"][layer]))

    return [all_rows.mean(special_share(layer)) for layer in range(len(rows[0]["looks"]))]


def _gain_and_room(name: str) -> tuple[Callable[[Row], float], Callable[[Row], float]]:
    """Return two functions of a pair: the gain over chance of a method, and of the best order."""
    return (
        lambda row: row["areas"][name] - row["chance"],
        lambda row: row["ceiling"] - row["chance"],
    )


def _flip_statistics(rows: Rows) -> Numbers:
    """Return how often removing one word changes the decision, and how many words are needed."""

    def first_word_flips(name: str) -> Callable[[Row], float]:
        """Return a function of a pair: whether the first word changes the decision."""
        return lambda row: float(row["flips"][name] == 1)

    def needed_share(row: Row, steps: int | None) -> float:
        """Return the share of the words that is removed until the decision changes."""
        # If no removal changes the decision, all words count as removed.
        return (steps or _word_count(row)) / _word_count(row)

    def method_share(name: str) -> Callable[[Row], float]:
        """Return a function of a pair: the needed share in the order of a method."""
        return lambda row: needed_share(row, row["flips"][name])

    return {
        "first": {
            **{name: rows.mean(first_word_flips(name)) for name in METHODS},
            "random": rows.mean(lambda row: float(np.mean(row["single"]))),
            "best": rows.mean(lambda row: float(np.max(row["single"]))),
        },
        "needed": {
            **{name: rows.mean(method_share(name)) for name in METHODS},
            "random": rows.mean(lambda row: row["random"]),
            "best": rows.mean(lambda row: needed_share(row, row["fewest"])),
        },
    }


def _variance_share(part: str) -> Callable[[Row], float | None]:
    """Return a function of a pair: the share of the variance of the output due to ``part``."""
    return lambda row: None if row["variation"] is None else row["variation"][part]


def _across_minus_within(row: Row) -> float | None:
    """Return the variance share across the sentences minus the share within a sentence."""
    variation = row["variation"]
    return None if variation is None else variation["across"] - variation["within"]


def _interaction_statistics(all_rows: Rows, rows: Sequence[Row]) -> Numbers:
    """Return where interactions are strong, and their correlation with attention of words."""

    def layer_correlation(layer: int) -> Callable[[Row], float | None]:
        """Return a function of a pair: the correlation for the attention of a layer."""
        return lambda row: _attention_correlation(row, np.array(row["pays"][layer]))

    def mean_attention(row: Row) -> np.ndarray:
        """Return the attention between words, averaged over layers."""
        return np.mean(row["pays"], axis=0)

    return {
        "strongest_across": all_rows.mean(_strongest_pair_is_across),
        "pairs_across": all_rows.mean(_across_share),
        "size": {
            "across": all_rows.mean(lambda row: _mean_size(row, across=True)),
            "within": all_rows.mean(lambda row: _mean_size(row, across=False)),
            "same": all_rows.mean(_same_word_size),
        },
        "pays": all_rows.mean(lambda row: _attention_correlation(row, mean_attention(row))),
        "pays_other": all_rows.mean(
            lambda row: _attention_correlation(row, mean_attention(row), with_same_word=False)
        ),
        "pays_by_layer": [
            all_rows.mean(layer_correlation(layer)) for layer in range(len(rows[0]["pays"]))
        ],
    }


def _across_mask(row: Row) -> np.ndarray:
    """Return a mask of the pairs of words in different sentences, each pair once."""
    second = np.array(row["second"], bool)
    return np.triu(second[:, None] != second[None, :], k=1)


def _mean_size(row: Row, *, across: bool) -> float | None:
    """Return the mean size of the interactions across sentences, or of those within a sentence."""
    size, across_mask = np.abs(row["interactions"]), _across_mask(row)
    mask = across_mask if across else np.triu(~across_mask, k=1)
    return float(size[mask].mean()) if mask.any() else None


def _same_word_size(row: Row) -> float | None:
    """Return the mean size of the interactions of a word with itself in the other sentence."""
    size = np.abs(row["interactions"])
    return float(np.mean([size[i, j] for i, j in row["same"]])) if row["same"] else None


def _strongest_pair_is_across(row: Row) -> float:
    size = np.triu(np.abs(row["interactions"]), k=1)
    return float(_across_mask(row).reshape(-1)[size.argmax()])


def _across_share(row: Row) -> float:
    """Return the share of the pairs of words that are in different sentences."""
    return float(_across_mask(row).sum() / (_word_count(row) * (_word_count(row) - 1) / 2))


def _attention_correlation(
    row: Row, attention: np.ndarray, *, with_same_word: bool = True
) -> float | None:
    """Return the rank correlation of attention and interaction over pairs across the sentences."""
    mask = _across_mask(row)
    if not with_same_word:
        for i, j in row["same"]:
            mask[i, j] = mask[j, i] = False
    size = np.abs(row["interactions"])[mask]
    return rank_correlation(attention[mask], size) if len(size) > 2 else None


def _negation_statistics(all_rows: Rows) -> Numbers:
    """Return how often methods find the negation of a pair that is predicted a contradiction."""
    rows = all_rows.select(lambda row: row["decision"] == 0 and any(row["negation"]))
    contradictions = [row for row in all_rows.rows if row["decision"] == 0]
    return {
        "pairs": len(rows.rows),
        "contradictions": len(contradictions),
        "first": {name: rows.mean(_finds_negation(name)) for name in METHODS} if rows.rows else {},
        "chance": rows.mean(lambda row: float(np.mean(row["negation"]))) if rows.rows else None,
        "decides": rows.mean(_negation_flips) if rows.rows else None,
        "others_decide": rows.mean(_other_word_flips) if rows.rows else None,
    }


def _finds_negation(name: str) -> Callable[[Row], float]:
    """Return a function of a pair: whether the first word of a method is a negation."""

    def is_first(row: Row) -> float:
        """Return 1.0 if the first word of the pair is a negation, else 0.0."""
        scores = np.array(row["scores"][name])
        first = int((scores if name in SIGNED else np.abs(scores)).argmax())
        return float(row["negation"][first])

    return is_first


def _negation_flips(row: Row) -> float:
    """Return 1.0 if the removal of a negation changes the decision, else 0.0."""
    words = zip(row["negation"], row["single"], strict=True)
    return float(any(is_negation and flips for is_negation, flips in words))


def _other_word_flips(row: Row) -> float:
    """Return 1.0 if the removal of a word that is no negation changes the decision, else 0.0."""
    words = zip(row["negation"], row["single"], strict=True)
    return float(any(flips and not is_negation for is_negation, flips in words))
