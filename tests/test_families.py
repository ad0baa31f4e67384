"""The two families of ``docs/how-to/model-class.md`` run as shown and match references."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

import limelight as package

import known

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "model-class.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
REPEATED = "Superb acting, superb plot!"
EIGHT = "A predictable plot, but superb acting."


@pytest.fixture(scope="module")
def page():
    """Every name that the page defines, and its models by the name of their class."""
    names, models = {"print": lambda *_: None}, {}
    for block in BLOCKS:
        exec(compile(block, PAGE.name, "exec"), names)
        if "model" in names:
            models[type(names["model"]).__name__] = names["model"]
    return names | {"models": models}


@pytest.fixture(scope="module")
def centroid(page):
    return page["models"]["NearestCentroid"]


@pytest.fixture(scope="module")
def bag(page):
    return page["models"]["BagOfEmbeddings"]


def test_the_first_family_takes_at_most_forty_lines():
    (family,) = (block for block in BLOCKS if "class NearestCentroid" in block)
    assert len(family.splitlines()) <= 40


def test_what_the_page_says_is_printed_is_printed(capsys):
    names = {}
    for block in BLOCKS:
        exec(compile(block, PAGE.name, "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"^# (.*)$", "\n".join(BLOCKS), re.M)
    assert len(printed) == len(promised) == 9
    for line, comment in zip(printed, promised, strict=True):
        assert re.fullmatch(re.escape(comment).replace(r"\.\.\.", r"\d*"), line), (line, comment)


def test_both_families_are_models(centroid, bag):
    assert isinstance(centroid, package.Model)
    assert isinstance(bag, package.Model)
    checked = package.models.check_model(bag)  # all that its capabilities bring is there
    assert checked is bag


def test_capabilities_decide_which_methods_there_are(centroid, bag):
    asking, gradients = set(known.BY_ASKING), {"g-avg", "g-l1", "g-l2", "gxi", "ig"}
    usable = [
        {row.id for row in package.methods(m) if row.reason_unavailable is None}
        for m in (centroid, bag)
    ]
    assert usable == [asking, asking | gradients]


def test_a_method_that_a_family_does_not_offer_is_refused_in_a_sentence(centroid):
    with pytest.raises(package.InputError) as refused:
        package.explain(centroid, EIGHT, "ig")
    assert str(refused.value) == (
        "method 'ig' needs the gradients of the model, and NearestCentroid does not offer that; "
        "use 'shapley', 'lime' or 'loo'."
    )


# Both models once more, word by word and without limelight.

NEGATIVE = ["predictable", "dull", "plot", "and", "wooden", "acting"]
POSITIVE = ["superb", "acting", "moving", "plot", "and", "superb", "film"]
EMBEDDING = {
    "superb": (1.5, 0.2),
    "predictable": (-0.9, 0.6),
    "acting": (0.1, 0.3),
    "plot": (-0.1, 0.4),
    "but": (0.3, -0.8),
}
UNKNOWN, WEIGHTS = (0.05, -0.1), (3.0, -1.0)


def centroid_logit(tokens):
    """The logit of "positive" for a text of these tokens."""
    found = [token for token in tokens if token in NEGATIVE + POSITIVE]

    def distance(words):
        share = {w: found.count(w) / max(len(found), 1) for w in NEGATIVE + POSITIVE}
        return sum((share[w] - words.count(w) / len(words)) ** 2 for w in share)

    return 20 * (distance(NEGATIVE) - distance(POSITIVE))


def bag_logit(embedded):
    """The logit of "positive" for a text of these embedded words."""
    sums = [math.fsum(math.tanh(e[k]) for e in embedded) for k in range(2)]
    return sum(w * math.tanh(s) for w, s in zip(WEIGHTS, sums, strict=True))


def tokens_of(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


def vectors(tokens):
    return [EMBEDDING.get(token, UNKNOWN) for token in tokens]


def without_deleted(text, gone):
    return centroid_logit([token for token in tokens_of(text) if token not in gone])


def without_replaced(text, gone):
    return bag_logit(vectors(["?" if token in gone else token for token in tokens_of(text)]))


families = pytest.mark.parametrize(
    ("family", "value"), [("centroid", without_deleted), ("bag", without_replaced)]
)
texts = pytest.mark.parametrize("text", [EIGHT, REPEATED])


def by_enumeration(text, value):
    """Shapley values from their definition: the mean of what a word adds over all orders."""
    words = list(dict.fromkeys(tokens_of(text)))
    d = len(words)
    scores = []
    for word in words:
        others = [w for w in words if w != word]
        total = 0.0
        for size in range(d):
            weight = 1 / (d * math.comb(d - 1, size))
            for gone in itertools.combinations(others, size):
                total += weight * (value(text, gone) - value(text, (*gone, word)))
        scores.append(total)
    return words, scores


@families
@texts
def test_shapley_is_what_all_masks_say(family, value, text, request):
    model = request.getfixturevalue(family)
    words, scores = by_enumeration(text, value)
    e = package.explain(model, text, "shapley")
    assert e.features == tuple(words)
    assert e.stderr is None
    np.testing.assert_allclose(e.scores, scores, rtol=1e-9, atol=1e-12)
    assert e.base_value == pytest.approx(value(text, words), rel=1e-12)


@families
def test_another_way_to_remove_a_word_would_be_noticed(family, value, request):
    other = {without_deleted: without_replaced, without_replaced: without_deleted}[value]
    e = package.explain(request.getfixturevalue(family), EIGHT, "shapley")
    assert np.abs(e.scores - by_enumeration(EIGHT, other)[1]).max() > 0.1


@families
@texts
def test_leave_one_out_is_the_difference_of_two_answers(family, value, text, request):
    e = package.explain(request.getfixturevalue(family), text, "loo")
    differences = [value(text, ()) - value(text, (word,)) for word in e.features]
    np.testing.assert_allclose(e.scores, differences, rtol=1e-9, atol=1e-12)


@families
@texts
def test_lime_is_least_squares_on_all_masks(family, value, text, request):
    """Sizes are uniform on 1..d; a mask of s removed words weighs exp(−(1 − √(1 − s/d))²/2ν²)."""
    e = package.explain(request.getfixturevalue(family), text, "lime")
    d = len(e)
    rows, roots, outputs = [], [], []
    for size in range(1, d + 1):
        kernel = math.exp(-((1 - math.sqrt(1 - size / d)) ** 2) / (2 * 0.25**2))
        for gone in itertools.combinations(range(d), size):
            rows.append([1.0, *(float(j not in gone) for j in range(d))])
            roots.append(math.sqrt(kernel / math.comb(d, size)))
            outputs.append(value(text, [e.features[j] for j in gone]))
    root = np.array(roots)
    fit, *_ = np.linalg.lstsq(np.array(rows) * root[:, None], np.array(outputs) * root, rcond=None)
    np.testing.assert_allclose([e.intercept, *e.scores], fit, rtol=1e-9, atol=1e-9)


@families
def test_an_anchor_holds_as_often_as_all_masks_say(family, value, request):
    e = package.explain(request.getfixturevalue(family), EIGHT, "anchors")
    held = [e.features[j] for j in e.anchor.features]
    free = [word for word in e.features if word not in held]
    sets = [gone for n in range(len(free) + 1) for gone in itertools.combinations(free, n)]
    whole = value(EIGHT, ()) > 0
    assert e.anchor.precision == np.mean([(value(EIGHT, gone) > 0) == whole for gone in sets])


@families
def test_a_protected_word_stays_and_has_no_score(family, value, request):
    e = package.explain(request.getfixturevalue(family), EIGHT, "loo", protect=["Superb"])
    assert "superb" not in e.features
    differences = [value(EIGHT, ()) - value(EIGHT, (word,)) for word in e.features]
    np.testing.assert_allclose(e.scores, differences, rtol=1e-9, atol=1e-12)


def explained(embedded, scale):
    f = bag_logit(embedded)
    return f if scale == "logit" else 1 / (1 + math.exp(-f))


def slopes(embedded, directions, scale, h=1e-6):
    """The derivative of the explained number at each position along a direction there."""
    found = []
    for t, direction in enumerate(directions):
        ends = []
        for step in (h, -h):
            moved = [np.array(e) for e in embedded]
            moved[t] = moved[t] + step * np.array(direction)
            ends.append(explained(moved, scale))
        found.append((ends[0] - ends[1]) / (2 * h))
    return np.array(found)


def added_up(text, of_position):
    """Positions of the same word together, in the order of the text."""
    scores = dict.fromkeys(tokens_of(text), 0.0)
    for token, score in zip(tokens_of(text), of_position, strict=True):
        scores[token] += score
    return list(scores.values())


@texts
@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_gradient_times_input_is_a_finite_difference(bag, text, scale):
    e = package.explain(bag, text, "gxi", scale=scale)
    embedded = vectors(tokens_of(text))
    np.testing.assert_allclose(
        e.scores, added_up(text, slopes(embedded, embedded, scale)), rtol=1e-6, atol=1e-9
    )


@texts
@pytest.mark.parametrize(
    ("method", "summary"),
    [
        ("g-avg", lambda g: g.mean(axis=1)),
        ("g-l1", lambda g: np.abs(g).sum(axis=1)),
        ("g-l2", lambda g: np.sqrt((g**2).sum(axis=1))),
    ],
)
def test_gradients_are_finite_differences(bag, text, method, summary):
    embedded = vectors(tokens_of(text))
    axes = [slopes(embedded, [axis] * len(embedded), "logit") for axis in ((1, 0), (0, 1))]
    expected = added_up(text, summary(np.stack(axes, axis=1)))
    e = package.explain(bag, text, method)
    np.testing.assert_allclose(e.scores, expected, rtol=1e-6, atol=1e-9)


@texts
@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_integrated_gradients_are_slopes_added_up_on_the_way(bag, text, scale):
    end = np.array(vectors(tokens_of(text)))
    start = np.array([UNKNOWN] * len(end))
    steps = 500
    total = np.zeros(len(end))
    for i in range(steps):  # the midpoint rule
        total += slopes(start + (i + 0.5) / steps * (end - start), end - start, scale) / steps
    e = package.explain(bag, text, "ig", scale=scale)
    np.testing.assert_allclose(e.scores, added_up(text, total), rtol=1e-4, atol=1e-6)
    change = explained(end, scale) - explained(start, scale)
    assert e.scores.sum() == pytest.approx(change, rel=1e-9)


def test_a_wrong_gradient_would_be_noticed(page):
    class Wrong(page["BagOfEmbeddings"]):
        def gradients(self, model_input, points, weigh):
            found = super().gradients(model_input, points, weigh)
            return found._replace(gradient=1.02 * found.gradient)

    wrong = Wrong(EMBEDDING, unknown=UNKNOWN, weights=WEIGHTS)
    embedded = vectors(tokens_of(EIGHT))
    expected = added_up(EIGHT, slopes(embedded, embedded, "logit"))
    assert np.abs(package.explain(wrong, EIGHT, "gxi").scores - expected).max() > 0.01
    (warning,) = package.explain(wrong, EIGHT, "ig").warnings
    assert "both were to be within 1.0%" in warning


def test_a_text_without_words_is_refused(centroid, bag):
    for model in (centroid, bag):
        with pytest.raises(package.InputError, match="has no words"):
            package.explain(model, " ", "loo")
