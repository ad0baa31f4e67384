"""The two model classes of ``docs/how-to/model-class.md`` run and match reference values."""

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
    """Return the names that the page defines, and its models by the name of their class."""
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


def test_the_first_class_has_at_most_forty_lines():
    (family,) = (block for block in BLOCKS if "class NearestCentroid" in block)
    assert len(family.splitlines()) <= 40


def test_the_blocks_print_the_output_that_the_page_shows(capsys):
    names = {}
    for block in BLOCKS:
        exec(compile(block, PAGE.name, "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"^# (.*)$", "\n".join(BLOCKS), re.M)
    assert len(printed) == len(promised) == 7
    for line, comment in zip(printed, promised, strict=True):
        assert re.fullmatch(re.escape(comment).replace(r"\.\.\.", r"\d*"), line), (line, comment)


def test_both_classes_are_models(centroid, bag):
    assert isinstance(centroid, package.Model)
    assert isinstance(bag, package.Model)
    checked = package.models.check_model(bag)  # all that its capabilities bring is there
    assert checked is bag


def test_capabilities_decide_which_methods_are_available(centroid, bag):
    perturbation, gradients = set(known.BY_ASKING), {"g-avg", "g-l1", "g-l2", "gxi", "ig"}
    usable = [
        {row.id for row in package.methods(m) if row.reason_unavailable is None}
        for m in (centroid, bag)
    ]
    assert usable == [perturbation, perturbation | gradients]


def test_a_method_without_its_capability_raises_an_error(centroid):
    message = "method 'ig' needs gradients, but NearestCentroid does not support this"
    with pytest.raises(package.InputError, match=message):
        package.explain(centroid, EIGHT, "ig")


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
    """Return the logit of "positive" for a text of these tokens."""
    words = [token for token in tokens if token in NEGATIVE + POSITIVE]

    def distance(centroid):
        share = {w: words.count(w) / max(len(words), 1) for w in NEGATIVE + POSITIVE}
        return sum((share[w] - centroid.count(w) / len(centroid)) ** 2 for w in share)

    return 20 * (distance(NEGATIVE) - distance(POSITIVE))


def bag_logit(embedded):
    """Return the logit of "positive" for a text of these embedded words."""
    sums = [math.fsum(math.tanh(e[k]) for e in embedded) for k in range(2)]
    return sum(w * math.tanh(s) for w, s in zip(WEIGHTS, sums, strict=True))


def split_tokens(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


def vectors(tokens):
    return [EMBEDDING.get(token, UNKNOWN) for token in tokens]


def centroid_value(text, removed):
    return centroid_logit([token for token in split_tokens(text) if token not in removed])


def bag_value(text, removed):
    return bag_logit(vectors(["?" if token in removed else token for token in split_tokens(text)]))


families = pytest.mark.parametrize(
    ("family", "value"), [("centroid", centroid_value), ("bag", bag_value)]
)
texts = pytest.mark.parametrize("text", [EIGHT, REPEATED])


def enumerate_shapley(text, value):
    """Return Shapley values by their definition: the mean contribution of a word to all masks."""
    words = list(dict.fromkeys(split_tokens(text)))
    d = len(words)
    scores = []
    for word in words:
        other_values = [w for w in words if w != word]
        total = 0.0
        for size in range(d):
            weight = 1 / (d * math.comb(d - 1, size))
            for gone in itertools.combinations(other_values, size):
                total += weight * (value(text, gone) - value(text, (*gone, word)))
        scores.append(total)
    return words, scores


@families
@texts
def test_shapley_equals_the_mean_over_all_masks(family, value, text, request):
    model = request.getfixturevalue(family)
    words, scores = enumerate_shapley(text, value)
    e = package.explain(model, text, "shapley")
    assert e.features == tuple(words)
    assert e.stderr is None
    np.testing.assert_allclose(e.scores, scores, rtol=1e-9, atol=1e-12)
    assert e.base_value == pytest.approx(value(text, words), rel=1e-12)


@families
def test_the_comparison_fails_with_another_replacement(family, value, request):
    other_value = {centroid_value: bag_value, bag_value: centroid_value}[value]
    e = package.explain(request.getfixturevalue(family), EIGHT, "shapley")
    assert np.abs(e.scores - enumerate_shapley(EIGHT, other_value)[1]).max() > 0.1


@families
@texts
def test_leave_one_out_is_the_difference_of_two_outputs(family, value, text, request):
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
def test_the_precision_of_an_anchor_is_its_share_of_all_masks(family, value, request):
    e = package.explain(request.getfixturevalue(family), EIGHT, "anchors")
    anchor = [e.features[j] for j in e.anchor.features]
    other_values = [word for word in e.features if word not in anchor]
    subsets = [
        gone
        for n in range(len(other_values) + 1)
        for gone in itertools.combinations(other_values, n)
    ]
    prediction = value(EIGHT, ()) > 0
    same_prediction = [(value(EIGHT, removed) > 0) == prediction for removed in subsets]
    assert e.anchor.precision == np.mean(same_prediction)


@families
def test_a_protected_word_stays_and_has_no_score(family, value, request):
    e = package.explain(request.getfixturevalue(family), EIGHT, "loo", protect=["Superb"])
    assert "superb" not in e.features
    differences = [value(EIGHT, ()) - value(EIGHT, (word,)) for word in e.features]
    np.testing.assert_allclose(e.scores, differences, rtol=1e-9, atol=1e-12)


def explained_output(embedded, scale):
    f = bag_logit(embedded)
    return f if scale == "logit" else 1 / (1 + math.exp(-f))


def slopes(embedded, directions, scale, h=1e-6):
    """Return the derivative of the explained output at each position along its direction."""
    derivatives = []
    for t, direction in enumerate(directions):
        outputs = []
        for step in (h, -h):
            moved = [np.array(e) for e in embedded]
            moved[t] = moved[t] + step * np.array(direction)
            outputs.append(explained_output(moved, scale))
        derivatives.append((outputs[0] - outputs[1]) / (2 * h))
    return np.array(derivatives)


def sum_by_word(text, position_scores):
    """Return the sum over the positions of each word, in the order of the text."""
    scores = dict.fromkeys(split_tokens(text), 0.0)
    for token, score in zip(split_tokens(text), position_scores, strict=True):
        scores[token] += score
    return list(scores.values())


@texts
@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_gradient_times_input_is_a_finite_difference(bag, text, scale):
    e = package.explain(bag, text, "gxi", scale=scale)
    embedded = vectors(split_tokens(text))
    np.testing.assert_allclose(
        e.scores, sum_by_word(text, slopes(embedded, embedded, scale)), rtol=1e-6, atol=1e-9
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
    embedded = vectors(split_tokens(text))
    axes = [slopes(embedded, [axis] * len(embedded), "logit") for axis in ((1, 0), (0, 1))]
    expected = sum_by_word(text, summary(np.stack(axes, axis=1)))
    e = package.explain(bag, text, method)
    np.testing.assert_allclose(e.scores, expected, rtol=1e-6, atol=1e-9)


@texts
@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_integrated_gradients_are_the_integral_of_the_slopes(bag, text, scale):
    end = np.array(vectors(split_tokens(text)))
    start = np.array([UNKNOWN] * len(end))
    steps = 500
    total = np.zeros(len(end))
    for i in range(steps):  # the midpoint rule
        total += slopes(start + (i + 0.5) / steps * (end - start), end - start, scale) / steps
    e = package.explain(bag, text, "ig", scale=scale)
    np.testing.assert_allclose(e.scores, sum_by_word(text, total), rtol=1e-4, atol=1e-6)
    change = explained_output(end, scale) - explained_output(start, scale)
    assert e.scores.sum() == pytest.approx(change, rel=1e-9)


def test_the_comparison_fails_with_a_wrong_gradient(page):
    class Wrong(page["BagOfEmbeddings"]):
        def gradients(self, model_input, points, weigh):
            gradients = super().gradients(model_input, points, weigh)
            return gradients._replace(gradient=1.02 * gradients.gradient)

    wrong = Wrong(EMBEDDING, unknown=UNKNOWN, weights=WEIGHTS)
    embedded = vectors(split_tokens(EIGHT))
    expected = sum_by_word(EIGHT, slopes(embedded, embedded, "logit"))
    assert np.abs(package.explain(wrong, EIGHT, "gxi").scores - expected).max() > 0.01
    (warning,) = package.explain(wrong, EIGHT, "ig").warnings
    assert "did not converge to 1.0%" in warning


def test_a_text_without_words_raises_an_error(centroid, bag):
    for model in (centroid, bag):
        with pytest.raises(package.InputError, match="has no words"):
            package.explain(model, " ", "loo")
