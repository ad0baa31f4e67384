"""Owen values of texts: sentences, words that several sentences share, totals."""

import re
from itertools import permutations, product

import numpy as np
import pytest

import limelight
from limelight.errors import InputError
from limelight.sampling.all_masks import count_owen_masks, owen_values_from_all_masks

from tiny_models import tiny_model

MODEL = tiny_model(2, outputs=3, scale=0.6)
TEXT = "w1 w5. never w5 w8! w9"


def owen_explanation(**request):
    return limelight.explain(MODEL, TEXT, "owen", target=0, tolerance=1e-9, **request)


def test_scores_and_sentence_totals_add_up():
    e = owen_explanation()
    totals = [diagnostic["score"] for diagnostic in e.diagnostics["sentences"]]
    change = e.prediction["class 0"] - e.base_value
    assert np.isclose(e.scores.sum(), change, atol=1e-7)
    assert np.isclose(sum(totals), change, atol=1e-7)
    assert [value["text"] for value in e.diagnostics["sentences"]] == [
        "w1 w5.",
        "never w5 w8!",
        "w9",
    ]
    assert [TEXT[slice(*element["span"])] for element in e.diagnostics["sentences"]] == [
        one["text"] for one in e.diagnostics["sentences"]
    ]


def test_sentence_totals_are_the_shapley_values_of_sentences():
    totals = [diagnostic["score"] for diagnostic in owen_explanation().diagnostics["sentences"]]
    full = limelight.explain(MODEL, TEXT, "shapley", features="sentences", target=0, tolerance=1e-9)
    np.testing.assert_allclose(totals, full.scores, atol=1e-7)


def test_a_word_of_several_sentences_is_the_sum_of_its_shares_and_has_a_warning():
    words, places = owen_explanation(), owen_explanation(features="positions")
    assert words.features[1] == "w5"
    at = {string: [i for i, s in enumerate(places.features) if s == string] for string in ("w5",)}
    # Inside a sentence here no word repeats, so that positions are the shares.
    assert np.isclose(words.scores[1], places.scores[at["w5"]].sum(), atol=1e-7)
    assert words.warnings[1] == (
        "1 feature occurs in several sentences (w5). Its score is a sum over these sentences."
    )
    assert not any("several sentences" in warning for warning in places.warnings)


def test_the_bound_of_a_sum_keeps_the_tolerance():
    text = ". ".join(["w1 w5 w8"] * 4)
    e = limelight.explain(MODEL, text, "owen", target=0, tolerance=1e-6)
    plain = limelight.explain(MODEL, text, "shapley", target=0, tolerance=1e-6)
    assert e.bound <= 1.5 * plain.bound  # although every word is the sum of four


def test_it_differs_from_shapley_values_of_words():
    plain = limelight.explain(
        MODEL, TEXT, "shapley", features="positions", target=0, tolerance=1e-9
    )
    assert np.abs(owen_explanation(features="positions").scores - plain.scores).max() > 1e-4


def test_one_sentence_is_shapley():
    e = limelight.explain(MODEL, "w1 w5 w8 w9", "owen", tolerance=1e-9)
    plain = limelight.explain(MODEL, "w1 w5 w8 w9", "shapley", tolerance=1e-9)
    np.testing.assert_allclose(e.scores, plain.scores, atol=1e-8)
    assert e.warnings == ()


def test_protected_words_are_no_players():
    e = owen_explanation(protect=["w9", "w5"])
    assert "w5" not in e.features
    assert len(e.diagnostics["sentences"]) == 2


def test_probabilities_are_sampled_where_logits_are_exact():
    e = limelight.explain(MODEL, "w1 w5 w8 w9", "owen", scale="probability")
    plain = limelight.explain(MODEL, "w1 w5 w8 w9", "shapley", scale="probability")
    np.testing.assert_allclose(e.scores, plain.scores, atol=1e-9)  # of one sentence, from all sets
    assert e.bound is None


def words_model(value):
    """Return a model of a function of words, each of a single letter."""
    return limelight.wrap(
        lambda texts: np.array([[value(frozenset(t.replace(".", " ").split()))] for t in texts]),
        classes=["no", "yes"],
        scale="logit",
    )


def and_of_four(left):
    return 0.5 * ("a" in left) + ("a" in left and "b" in left and "e" in left and "g" in left)


def largest(left):
    return max((ord(w) % 7 + 0.3 for w in left), default=0.0)


def gate(left):
    return ("c" in left and "f" in left) * sum(ord(w) % 5 - 2 for w in left)


NESTED = "a b c. d e.\n\nf g. h i."
UNITS = {"sentences": ["abc", "de", "fg", "hi"], "paragraphs": ["abcde", "fghi"]}


def owen_values_from_orders(value, levels):
    """Return Owen values by definition, from all orders that keep the words of units together."""
    orders, added = [], dict.fromkeys("abcdefghi", 0.0)

    def arrange_orders(members, inner):
        """Return all orders of ``members`` that keep the units of each level together."""
        if not inner:
            return [list(order) for order in permutations(members)]
        units = [[w for w in unit if w in members] for unit in inner[0]]
        inside = [arrange_orders(unit, inner[1:]) for unit in units if unit]
        return [
            [w for part in chosen for w in part]
            for order in permutations(inside)
            for chosen in product(*order)
        ]

    orders = arrange_orders(list("abcdefghi"), [UNITS[level] for level in levels])
    for order in orders:
        values = [value(frozenset(order[:k])) for k in range(len(order) + 1)]
        for word, step in zip(order, np.diff(values), strict=True):
            added[word] += step / len(orders)
    return np.array(list(added.values()))


LEVELS = {"sentences": ["sentences"], "sentences in paragraphs": ["paragraphs", "sentences"]}


@pytest.mark.parametrize("value", [and_of_four, largest, gate])
@pytest.mark.parametrize("within", LEVELS)
def test_any_model_has_the_values_of_all_orders_that_keep_units_together(value, within):
    e = limelight.explain(
        words_model(value), NESTED, "owen", within=within, protect=["."], samples=1000
    )
    assert e.stderr is None
    assert e.settings["within"] == within
    np.testing.assert_allclose(e.scores, owen_values_from_orders(value, LEVELS[within]), atol=1e-9)
    for level in LEVELS[within]:
        totals = [diagnostic["score"] for diagnostic in e.diagnostics[level]]
        sums = [sum(e.scores["abcdefghi".index(w)] for w in unit) for unit in UNITS[level]]
        np.testing.assert_allclose(totals, sums, atol=1e-9)


def test_plain_shapley_values_differ_from_owen_values():
    """Negative control: orders that keep units together have other values than all orders."""
    plain = limelight.explain(words_model(gate), NESTED, "shapley", protect=["."])
    assert np.abs(plain.scores - owen_values_from_orders(gate, ["sentences"])).max() > 0.05


@pytest.mark.parametrize("value", [and_of_four, largest, gate])
def test_sampled_values_add_up_and_two_standard_errors_hold(value):
    model, truth = words_model(value), owen_values_from_orders(value, ["sentences"])
    contained = []
    for seed in range(12):
        e = limelight.explain(model, NESTED, "owen", protect=["."], budget="100 calls", seed=seed)
        assert e.diagnostics["pairs_drawn"] == 6
        assert np.isclose(e.scores.sum(), e.prediction["yes"] - e.base_value)
        totals = [diagnostic["score"] for diagnostic in e.diagnostics["sentences"]]
        assert np.isclose(sum(totals), e.scores.sum())
        contained.append(np.abs(e.scores - truth) <= 2 * e.stderr + 1e-9)
    assert np.mean(contained) >= 0.93


@pytest.mark.parametrize("value", [and_of_four, largest, gate])
def test_zoom_has_values_of_sentences_and_owen_values_of_words_in_those_it_opens(value):
    words, contained = owen_values_from_orders(value, ["sentences"]), []
    truth = {w: words["abcdefghi".index(w)] for w in "abcdefghi"}
    truth |= {" ".join(unit): sum(truth[w] for w in unit) for unit in UNITS["sentences"]}
    for seed in range(12):
        e = limelight.explain(
            words_model(value), NESTED, "zoom", protect=["."], opened=2, samples=200, seed=seed
        )
        assert e.settings["features"] == "sentences and words"
        assert np.isclose(e.scores.sum(), e.prediction["yes"] - e.base_value)
        totals = {
            tuple(diagnostic["span"]): diagnostic["score"]
            for diagnostic in e.diagnostics["sentences"]
        }
        assert len(totals) == 4  # their sets are few, so that they are exact
        for start, end in e.diagnostics["opened"]:
            inside = [start <= spans[0][0] < end for spans in e.spans]
            assert sum(inside) > 1
            assert np.isclose(e.scores[inside].sum(), totals[start, end])
        off = e.scores - [truth[name] for name in e.features]
        errors = 0 if e.stderr is None else e.stderr
        contained.append(np.abs(off) <= 2 * errors + 1e-9)
    assert np.mean(np.concatenate(contained)) >= 0.93


def test_zoom_counts_the_sentences_that_it_opened_and_keeps_its_budget():
    calls = []

    def value(texts):
        calls.extend(texts)
        return np.array(
            [[3.0 * ("w3" in t.replace(".", " ").split()) + len(t) / 99] for t in texts]
        )

    model = limelight.wrap(value, classes=["no", "yes"], scale="logit")
    text = " ".join(f"W{i} w{i + 1} w{i + 2} w{i + 3}." for i in range(0, 100, 4))
    e = limelight.explain(model, text, "zoom", budget="400 calls", opened=1)
    assert len(calls) <= 400
    assert e.features[np.argmax(e.scores)] == "w3"
    assert len(e.features) == 24 + 5  # a full stop is a word of its own
    assert "1 of 25 sentences were opened" in e.warnings[0]
    assert "Words in other sentences have no scores of their own." in e.warnings[0]
    with pytest.raises(limelight.errors.DomainError, match="needs at least 196 samples, not 60"):
        limelight.explain(model, text, "zoom", samples=60)
    with pytest.raises(InputError, match="eave features and within out"):
        limelight.explain(model, text, "zoom", features="sentences")


@pytest.mark.parametrize("words", [1, 4, 30, 300])
def test_zoom_opens_the_only_sentence_at_once(words):
    model = words_model(lambda remaining: sum(map(len, remaining)) * (1 + 0.1 * ("x" in remaining)))
    text = " ".join(["x", *(f"w{i}" for i in range(words - 1))])
    e = limelight.explain(model, text, "zoom")
    same = limelight.explain(
        model, text, "shapley", features="positions", budget=f"{max(800, 4 * words)} calls"
    )
    assert len(e) == words
    assert e.diagnostics["opened"] == [[0, len(text)]]
    if same.stderr is None:  # few words have all subsets evaluated here too
        assert e.stderr is None
        np.testing.assert_allclose(e.scores, same.scores, atol=1e-9)
    assert np.isclose(e.scores.sum(), e.prediction["yes"] - e.base_value)
    # Zoom has no setting of this name.
    assert not any(re.search("(set|raise) pairs", w, re.IGNORECASE) for w in e.warnings)


def test_zoom_warns_about_sentences_that_it_could_not_open():
    def value(texts):
        return np.array([[t.count("x") + 0.1 * t.count("b")] for t in texts], float)

    model = limelight.wrap(value, classes=["no", "yes"], scale="logit")
    long = " ".join(f"x{i}" for i in range(300))
    e = limelight.explain(model, f"{long}. A bad one. My bib.", "zoom")
    assert "2 of 3 sentences were opened" in e.warnings[0]
    assert "Words in other sentences have no scores of their own." in e.warnings[0]
    assert "1 of the 3 strongest sentences were not opened" in e.warnings[1]
    enough = int(re.search(r"Set samples to ([\d,]+)", e.warnings[1])[1].replace(",", ""))
    opened = limelight.explain(model, e.text, "zoom", samples=enough)
    assert opened.warnings[0].startswith("3 of 3 sentences were opened")
    assert "other" not in opened.warnings[0]


def test_zoom_into_many_sentences_makes_more_calls_than_its_default():
    calls = []

    def value(texts):
        calls.extend(texts)
        return np.array([[1.0 * ("w77" in t.split())] for t in texts])

    model = limelight.wrap(value, classes=["no", "yes"], scale="logit")
    text = " ".join(f"This is w{i} ." for i in range(150))
    e = limelight.explain(model, text, "zoom", opened=1)
    assert e.features[np.argmax(e.scores)] == "w77"
    assert 800 < len(calls) <= 8 * 150
    with pytest.raises(limelight.errors.DomainError, match="within='paragraphs'"):
        limelight.explain(model, text, "zoom", samples=800)


def test_a_sentence_of_two_lines_belongs_to_each():
    levels = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]])  # lines, then sentences
    request = set()

    def game(keep):
        request.update(row.tobytes() for row in keep)
        return keep @ np.arange(6.0)[:, None]

    assert np.allclose(owen_values_from_all_masks(game, levels), np.arange(6.0))
    assert len(request) <= count_owen_masks(levels) == 16 + 8 + 8 + 16


def long_sentences(lengths):
    """Return a text with sentences of these lengths, a model, and the list of its calls."""
    sentences, calls = [], []
    for i, length in enumerate(lengths):
        sentences.append(" ".join(f"W{i}x{j}" if j else f"The{i}" for j in range(length)) + ".")

    def value(texts):
        calls.extend(texts)
        return np.array(
            [[t.count("W1x") + 0.5 * t.count("W3x") + 0.1 * t.count("W")] for t in texts]
        )

    model = limelight.wrap(value, classes=["no", "yes"], scale="logit")
    return " ".join(sentences), model, calls


@pytest.mark.parametrize("lengths", [(20,) * 10, (60, 5, 40, 8, 30), (80, 70, 60)])
@pytest.mark.parametrize("budget", [100, 200, 300, 500, 900])
@pytest.mark.parametrize("opened", [1, 2])
def test_zoom_opens_as_many_sentences_as_set_or_names_a_budget_that_does(lengths, budget, opened):
    text, model, calls = long_sentences(lengths)
    try:
        e = limelight.explain(model, text, "zoom", opened=opened, budget=f"{budget} calls")
    except InputError as error:
        assert len(calls) <= 1, "the error comes before the masks"
        enough = re.search(r"use a budget of ([\d,]+) calls", str(error))[1].replace(",", "")
        assert int(enough) > budget
        samples = re.search(r"Set samples to ([\d,]+)", str(error))[1].replace(",", "")
        for advice in ({"budget": f"{enough} calls"}, {"samples": int(samples)}):
            calls.clear()
            e = limelight.explain(model, text, "zoom", opened=opened, **advice)
            assert len(e.diagnostics["opened"]) == opened
            assert len(calls) <= int(enough)
    assert len(e.diagnostics["opened"]) == opened
    assert e.scores.sum() == pytest.approx(e.prediction["yes"] - e.base_value)


def test_zoom_names_a_budget_that_opens_more_sentences():
    text, model, _ = long_sentences((60, 5, 40, 8, 30))
    e = limelight.explain(model, text, "zoom", budget="300 calls")
    assert "strongest sentences were not opened" in e.warnings[1]
    enough = re.search(r"use a budget of ([\d,]+ calls)", e.warnings[1])[1].replace(",", "")
    e = limelight.explain(model, text, "zoom", budget=enough)
    assert len(e.diagnostics["opened"]) == 3
