"""Rows of sentence pairs, taken together: means over pairs with 95 % intervals."""

__all__ = ["COMPARED", "summarised"]

from collections.abc import Callable, Sequence

import numpy as np

from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.questions.complete_games import VARIATION
from limelight_reproduction.questions.pair_rows import METHODS, SIGNED
from limelight_reproduction.questions.resampled_rows import Row, Rows
from limelight_reproduction.setting import CLASSES
from limelight_reproduction.spread import rank_correlation

_TOP = 3
# The three families of the paper, every two of them; and the two that remove words.
COMPARED = {
    "alpha-avg lime": "α-avg and LIME",
    "g-l1 lime": "G-l1 and LIME",
    "alpha-avg g-l1": "α-avg and G-l1",
    "shapley lime": "Shapley values and LIME",
}


def summarised(rows: Sequence[Row], *, share: float, seed: int) -> Numbers:
    """Return all numbers that are shown; ``share`` is that of test pairs as short as these."""
    every = Rows(rows, seed=seed)
    by_class = {name: every.select(_decided_as(k)) for k, name in enumerate(CLASSES["sick"])}
    return round_for_json(
        {
            "pairs": len(rows),
            "share_of_test": share,
            "words": [min(map(_d, rows)), float(np.mean([*map(_d, rows)])), max(map(_d, rows))],
            "right": every.mean(lambda row: row["decision"] == row["label"]),
            "classes": {name: len(of.rows) for name, of in by_class.items()},
            "linear": every.mean(lambda row: row["linear"]),
            "rank": {name: every.mean(_ranked(name, "shapley")) for name in METHODS},
            "compared": {both: every.mean(_ranked(*both.split())) for both in COMPARED},
            "top": {name: every.mean(_shared(name)) for name in METHODS},
            "top_chance": every.mean(lambda row: _TOP / _d(row)),
            "second": {name: every.mean(_second(name)) for name in METHODS},
            "second_words": every.mean(lambda row: float(np.mean(row["second"]))),
            "unshared": {said: _unshared(of) for said, of in {"all": every, **by_class}.items()},
            "special": _layers(every, rows),
            "faithful": {name: every.ratio(*_gained(name)) for name in METHODS},
            "lime_over_attention": every.ratio(
                lambda row: row["areas"]["lime"] - row["areas"]["alpha-avg"], _gained("lime")[1]
            ),
            "faithful_by": {
                said: {name: of.ratio(*_gained(name)) for name in METHODS}
                for said, of in by_class.items()
            },
            "flips": {said: _flips(of) for said, of in {"all": every, **by_class}.items()},
            "variation": {
                said: {part: of.mean(_varied(part)) for part in (*VARIATION, "across_two")}
                for said, of in {"all": every, **by_class}.items()
            },
            "across_over_within": every.mean(_difference),
            **_interacting(every, rows),
            "negation": _negation(every),
        },
        digits=4,
    )


def _decided_as(number: int) -> Callable[[Row], bool]:
    return lambda row: row["decision"] == number


def _d(row: Row) -> int:
    return len(row["second"])


def _ranked(a: str, b: str) -> Callable[[Row], float | None]:
    """Return a function: the rank correlation of the sizes of two explanations of a pair."""

    def found(row: Row) -> float | None:
        return rank_correlation(*(np.abs(row["scores"][name]) for name in (a, b)))

    return found


def _strongest(scores: Sequence[float], count: int) -> set[int]:
    return set(np.argsort(-np.abs(scores), kind="stable")[:count].tolist())


def _shared(name: str) -> Callable[[Row], float]:
    """Return a function: which part of the strongest words are those of Shapley values."""

    def found(row: Row) -> float:
        own, true = (_strongest(row["scores"][one], _TOP) for one in (name, "shapley"))
        return len(own & true) / _TOP

    return found


def _second(name: str) -> Callable[[Row], float | None]:
    """Return a function: the share of the sizes of scores that lies in the second sentence."""

    def found(row: Row) -> float | None:
        size = np.abs(row["scores"][name])
        return float(size @ row["second"] / size.sum()) if size.any() else None

    return found


def _unshared(of: Rows) -> Numbers:
    """Return how much of the words, and of the scores, is of words in one sentence only."""

    def alone(row: Row) -> np.ndarray:
        shared = {place for both in row["same"] for place in both}
        return np.array([place not in shared for place in range(_d(row))])

    def mass(name: str) -> Callable[[Row], float | None]:
        def found(row: Row) -> float | None:
            size = np.abs(row["scores"][name])
            return float(size @ alone(row) / size.sum()) if size.any() else None

        return found

    return {
        **{name: of.mean(mass(name)) for name in METHODS},
        "words": of.mean(lambda row: float(alone(row).mean())),
    }


def _layers(every: Rows, rows: Sequence[Row]) -> list[list[float] | None]:
    """Return for every layer how much of the attention that is read goes to special tokens."""

    def special(layer: int) -> Callable[[Row], float]:
        return lambda row: 1 - float(np.sum(row["looks"][layer]))

    return [every.mean(special(layer)) for layer in range(len(rows[0]["looks"]))]


def _gained(name: str) -> tuple[Callable[[Row], float], Callable[[Row], float]]:
    """Return how far an order goes from guessing, and how far the best order does."""
    return (
        lambda row: row["areas"][name] - row["chance"],
        lambda row: row["ceiling"] - row["chance"],
    )


def _flips(of: Rows) -> Numbers:
    """Return how often the decision changes when one word goes, and after how many it does."""

    def at_once(name: str) -> Callable[[Row], float]:
        return lambda row: float(row["flips"][name] == 1)

    def needed(row: Row, steps: int | None) -> float:
        # Where no removal changes the decision, all words are not enough.
        return (steps or _d(row)) / _d(row)

    def in_its_order(name: str) -> Callable[[Row], float]:
        return lambda row: needed(row, row["flips"][name])

    return {
        "first": {
            **{name: of.mean(at_once(name)) for name in METHODS},
            "random": of.mean(lambda row: float(np.mean(row["single"]))),
            "best": of.mean(lambda row: float(np.max(row["single"]))),
        },
        "needed": {
            **{name: of.mean(in_its_order(name)) for name in METHODS},
            "random": of.mean(lambda row: row["random"]),
            "best": of.mean(lambda row: needed(row, row["fewest"])),
        },
    }


def _varied(part: str) -> Callable[[Row], float | None]:
    return lambda row: None if row["variation"] is None else row["variation"][part]


def _difference(row: Row) -> float | None:
    of = row["variation"]
    return None if of is None else of["across"] - of["within"]


def _interacting(every: Rows, rows: Sequence[Row]) -> Numbers:
    """Return where interactions are strong, and whether attention between words tells."""

    def of_layer(layer: int) -> Callable[[Row], float | None]:
        return lambda row: _paid(row, np.array(row["pays"][layer]))

    return {
        "strongest_across": every.mean(_strongest_pair_is_across),
        "pairs_across": every.mean(_cross_share),
        "size": {
            "across": every.mean(lambda row: _sizes(row, across=True)),
            "within": every.mean(lambda row: _sizes(row, across=False)),
            "same": every.mean(_same_size),
        },
        "pays": every.mean(lambda row: _paid(row, np.mean(row["pays"], axis=0))),
        "pays_other": every.mean(lambda row: _paid(row, np.mean(row["pays"], axis=0), same=False)),
        "pays_by_layer": [every.mean(of_layer(layer)) for layer in range(len(rows[0]["pays"]))],
    }


def _crossing(row: Row) -> np.ndarray:
    """Return which pairs of words, each once, stand in different sentences."""
    second = np.array(row["second"], bool)
    return np.triu(second[:, None] != second[None, :], k=1)


def _sizes(row: Row, *, across: bool) -> float | None:
    size, crossing = np.abs(row["interactions"]), _crossing(row)
    chosen = crossing if across else np.triu(~crossing, k=1)
    return float(size[chosen].mean()) if chosen.any() else None


def _same_size(row: Row) -> float | None:
    size = np.abs(row["interactions"])
    return float(np.mean([size[i, j] for i, j in row["same"]])) if row["same"] else None


def _strongest_pair_is_across(row: Row) -> float:
    size = np.triu(np.abs(row["interactions"]), k=1)
    return float(_crossing(row).reshape(-1)[size.argmax()])


def _cross_share(row: Row) -> float:
    return float(_crossing(row).sum() / (_d(row) * (_d(row) - 1) / 2))


def _paid(row: Row, pays: np.ndarray, *, same: bool = True) -> float | None:
    """Return the rank correlation of attention and interaction, over pairs across the sentences."""
    crossing = _crossing(row)
    if not same:
        for i, j in row["same"]:
            crossing[i, j] = crossing[j, i] = False
    size = np.abs(row["interactions"])[crossing]
    return rank_correlation(pays[crossing], size) if len(size) > 2 else None


def _negation(every: Rows) -> Numbers:
    """Return who finds the negation of a pair that the model calls a contradiction."""
    of = every.select(lambda row: row["decision"] == 0 and any(row["negation"]))
    contradictions = [row for row in every.rows if row["decision"] == 0]
    return {
        "pairs": len(of.rows),
        "contradictions": len(contradictions),
        "first": {name: of.mean(_finds(name)) for name in METHODS} if of.rows else {},
        "chance": of.mean(lambda row: float(np.mean(row["negation"]))) if of.rows else None,
        "decides": of.mean(_decided) if of.rows else None,
        "others_decide": of.mean(_decided_by_others) if of.rows else None,
    }


def _finds(name: str) -> Callable[[Row], float]:
    def found(row: Row) -> float:
        own = np.array(row["scores"][name])
        first = int((own if name in SIGNED else np.abs(own)).argmax())
        return float(row["negation"][first])

    return found


def _decided(row: Row) -> float:
    return float(any(a and b for a, b in zip(row["negation"], row["single"], strict=True)))


def _decided_by_others(row: Row) -> float:
    return float(any(b and not a for a, b in zip(row["negation"], row["single"], strict=True)))
