"""Each kind of check holds and fails, for exact and for sampled models."""

import itertools
import sys

import numpy as np
import pytest

import limelight
from limelight.cases.case_file import Case, CaseFile, WordRank
from limelight.cases.check_cases import CaseText, load_case_model
from limelight.errors import InputError

POSITIVE = "A superb film, and she is great in it."
WORDS = ("he", "she", "plot", "film")


def case(text, options=None, inherited=(), **requirements):
    return Case(
        name="case",
        text=text,
        options=options or {},
        requirements=requirements,
        inherited=frozenset(inherited),
    )


def check(model, text, options=None, inherited=(), **requirement):
    (key,) = requirement
    result = CaseText(model, case(text, options, inherited, **requirement)).check(key)
    return result.outcome, result.sentence


def table_model(values):
    """Return a function model whose log-odds depend on which of WORDS a text has."""

    def predict(texts):
        rows = [sum(2**i for i, word in enumerate(WORDS) if word in text.split()) for text in texts]
        odds = np.asarray(values)[rows]
        return np.stack([-odds / 2, odds / 2], axis=1)

    return limelight.wrap(predict, classes=["no", "yes"], scale="logit")


def additive_model(**weights):
    """Return a function model whose log-odds are sums of the weights of the words in a text."""

    def predict(texts):
        odds = np.array([sum(weights.get(word, 0) for word in text.split()) for text in texts])
        return np.stack([0 * odds, odds + 0.5], axis=1)

    return limelight.wrap(predict, classes=["no", "yes"], scale="logit")


SAMPLED = additive_model(superb=3.0, dull=-1.0, film=-1.0)


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        ("positive", ("passed", "prediction positive (92.0%), required positive.")),
        ("negative", ("failed", "prediction positive (92.0%), required negative.")),
        ("postive", ("error", "unknown class: 'postive'. Did you mean 'positive'?")),
    ],
)
def test_the_prediction_is_compared(shipped, required, expected):
    outcome, sentence = check(shipped, POSITIVE, prediction=required)
    assert (outcome, sentence[: len(expected[1])]) == expected


def test_a_model_of_a_score_has_no_prediction():
    model = limelight.wrap(lambda texts: np.ones(len(texts)), classes=["rating"], scale="score")
    for requirement in ({"prediction": "x"}, {"never_decisive": ("a",)}):
        outcome, sentence = check(model, "a b", **requirement)
        assert outcome == "error"
        assert sentence.startswith("the model predicts no class.")


def smallest_changes(values):
    """Return the smallest sets of WORDS whose removal changes the sign of the table's value."""
    full = len(values) - 1
    for size in range(1, len(WORDS) + 1):
        changes = [
            set(removed)
            for removed in itertools.combinations(WORDS, size)
            if (values[full] > 0)
            != (values[full - sum(2 ** WORDS.index(word) for word in removed)] > 0)
        ]
        if changes:
            return changes
    return []


@pytest.mark.parametrize("seed", range(30))
def test_words_decide_exactly_if_some_set_of_them_changes_the_prediction(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=16) + rng.choice([0, 2.5])
    changes = smallest_changes(values)
    outcome, sentence = check(table_model(values), " ".join(WORDS), never_decisive=WORDS)
    assert outcome == ("failed" if changes else "passed")
    if changes:
        named = sentence.partition(" without ")[2].partition(", required")[0]
        assert set(named.split(", ")) in changes


@pytest.mark.parametrize("seed", range(30))
def test_the_certified_radius_is_below_the_smallest_set_that_changes_the_prediction(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=16) + rng.choice([0, 2.5])
    changes, model = smallest_changes(values), table_model(values)
    radius = len(changes[0]) - 1 if changes else len(WORDS)
    for required in range(1, len(WORDS) + 2):
        outcome, _ = check(model, " ".join(WORDS), certified_radius=required)
        assert outcome == ("passed" if not changes or required <= radius else "failed")


def test_random_tables_have_both_outcomes():
    counts = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        counts.append(bool(smallest_changes(rng.normal(size=16) + rng.choice([0, 2.5]))))
    assert 5 < sum(counts) < 28


def test_words_that_decide_only_together_are_found():
    values = [1.0 if row & 3 else -1.0 for row in range(16)]  # he or she
    model, text = table_model(values), "he she plot film"
    assert check(model, text, never_decisive=("he",)) == (
        "passed",
        "prediction yes stays without he, 1 set evaluated.",
    )
    assert check(model, text, never_decisive=("He", "SHE")) == (
        "failed",
        "prediction yes becomes no without he, she, required to stay without any of he, she.",
    )


def test_a_tie_does_not_keep_the_prediction():
    model = table_model([0.0 if row in (14, 0) else 1.0 for row in range(16)])
    outcome, sentence = check(model, "he she plot film", never_decisive=("he",))
    assert outcome == "failed"
    assert "without he" in sentence


def test_a_list_that_is_too_long_to_evaluate_is_proven_for_an_exact_model(shipped):
    calls = {"budget": "3 calls"}
    text = "A superb, wonderful, moving film, and she is great in it."
    contained = check(shipped, text, calls, never_decisive=("she", "it", "in"))
    assert contained == (
        "passed",
        "prediction positive stays without any of she, in, it, proven.",
    )
    mixed = "The plot is bad, but the acting is superb and wonderful and great and she is moving"
    listed = ("she", "superb", "wonderful", "great")
    outcome, sentence = check(shipped, mixed, calls, never_decisive=listed)
    assert outcome == "failed"
    assert sentence.startswith(
        "prediction positive becomes negative without superb, wonderful, great, required to stay"
    )
    assert check(shipped, mixed, never_decisive=listed) == (outcome, sentence)  # all sets


def test_a_list_that_is_too_long_for_the_budget_fails_with_advice():
    model = additive_model(superb=30.0)
    outcome, sentence = check(
        model, "a b c d e f g superb", {"budget": "20 calls"}, never_decisive=tuple("abcdefg")
    )
    assert outcome == "failed"
    assert sentence.endswith("Give a shorter list or a larger budget.")
    assert "larger sets are unknown" in sentence


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"features": "sentences"}, "she"),
        ({"protect": ("she",)}, "She"),
        ({}, "great  in"),
        ({"features": "positions", "protect": ("she", "her")}, "she"),
    ],
)
def test_a_listed_word_that_cannot_be_removed_is_an_error(shipped, options, word):
    listed = {"never_decisive": ("he", word)}
    text = "A superb film. She is great in it."
    outcome, sentence = check(shipped, text, options, inherited=listed, **listed)
    assert outcome == "error"
    assert "but no such feature to remove" in sentence
    assert check(shipped, "A superb film.", options, inherited=listed, **listed)[0] == "passed"


def test_a_list_of_the_file_may_have_words_that_a_text_lacks(shipped):
    listed = {"never_decisive": ("he", "she")}
    assert check(shipped, POSITIVE, inherited=listed, **listed)[0] == "passed"
    assert check(shipped, "A film.", inherited=listed, **listed) == (
        "passed",
        "none of the 2 listed words is in the text.",
    )
    assert check(shipped, POSITIVE, **listed) == (
        "error",
        "the text has no word 'he'. Did you mean 'she'?",
    )


def test_the_certified_radius_of_an_exact_model_is_compared(shipped):
    assert check(shipped, "Superb, wonderful, moving.", certified_radius=1)[0] == "passed"
    outcome, sentence = check(shipped, POSITIVE, certified_radius=9)
    c = limelight.counterfactual(shipped, POSITIVE)
    assert c.is_minimal
    assert outcome == "failed"
    assert sentence == (
        f"certified radius {c.size - 1} (positive becomes negative without "
        f"{', '.join(c.removed_features)}), required at least 9."
    )


def test_no_removal_changes_the_prediction_of_a_robust_text():
    assert check(additive_model(a=1.0, b=2.0), "a b", certified_radius=50) == (
        "passed",
        "no removal changes prediction yes (evaluated), required certified radius at least 50.",
    )


def test_the_certified_radius_of_a_sampled_model_is_what_was_evaluated():
    text, words = "superb dull film", ("superb",)
    assert limelight.counterfactual(SAMPLED, text).removed_features == words
    assert check(SAMPLED, text, certified_radius=1) == (
        "failed",
        "certified radius 0 (yes becomes no without superb), required at least 1.",
    )
    large_sample = additive_model(**dict.fromkeys("abcdefghijklmnopqrst", 1.0))
    text = " ".join("abcdefghijklmnopqrst")
    assert check(large_sample, text, certified_radius=1)[0] == "passed"
    outcome, sentence = check(large_sample, text, {"budget": "40 calls"}, certified_radius=4)
    assert outcome == "failed"
    assert sentence.endswith("required at least 4. Use a larger budget.")


def test_a_folder_of_the_file_is_relative_to_it(tmp_path, monkeypatch, shipped):
    monkeypatch.setattr(sys, "path", [*sys.path])
    limelight.save_folder(shipped, tmp_path / "model")
    (tmp_path / "modelbeside.py").write_text(
        "import limelight, numpy as np\n"
        "def predict(texts):\n    return np.full(len(texts), 0.7)\n"
        "model = limelight.wrap(predict, classes=['no', 'yes'])\n"
    )
    for name, classes in (("model", shipped.classes), ("modelbeside:model", ("no", "yes"))):
        file = CaseFile(path=tmp_path / "x.toml", model_options={"model": name}, cases=())
        assert load_case_model(file).classes == classes
    file = CaseFile(path=tmp_path / "x.toml", model_options={"model": "nothing"}, cases=())
    with pytest.raises(InputError, match=r"x.toml', key 'model': .*nothing"):
        load_case_model(file)
    assert load_case_model(file, model=tmp_path / "model").classes == shipped.classes


TOP_TEXT = "superb dull film " + " ".join("abcdefghijklmnopqrstuvwxyz")


def check_top(model, text, word, k, **options):
    return check(model, text, options, certain_top=(WordRank(word, k),))


@pytest.mark.parametrize(
    ("word", "k", "outcome", "sentence"),
    [
        ("superb", 1, "passed", "'superb' has rank 1 of 10, and the top 1 is certain, "),
        ("Superb", 3, "passed", "'Superb' has rank 1 of 10, and the top 1 is certain, "),
        ("great", 3, "passed", "'great' has rank 2 of 10, and the top 2 is certain, "),
        ("film", 10, "passed", "'film' has rank "),
        ("film", 2, "failed", "'film' has rank "),
    ],
)
def test_a_word_is_in_the_certain_top_of_an_exact_model(shipped, word, k, outcome, sentence):
    text = "A superb film, and great acting in it."
    result = check_top(shipped, text, word, k)
    assert result[0] == outcome
    assert result[1].startswith(sentence)
    assert result[1].endswith(f"required in the certain top {k}.")


def test_equal_scores_are_not_certain():
    outcome, sentence = check_top(additive_model(a=1.0, b=1.0), "a b c", "a", 1, method="loo")
    assert (outcome, sentence) == (
        "failed",
        "'a' has rank 1 of 3 without a certificate, required in the certain top 1.",
    )
    # The two words together are certain.
    assert check_top(additive_model(a=1.0, b=1.0), "a b c", "a", 2, method="loo")[0] == "passed"


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "lime", "loo"])
def test_sampling_goes_on_until_the_top_is_certain(method):
    weighted = additive_model(superb=3.0, dull=-1.0, film=-2.0)
    outcome, sentence = check_top(weighted, TOP_TEXT, "film", 2, method=method)
    assert outcome == "passed"
    assert "'film' has rank 2 of 29, and the top 2 is certain" in sentence
    outcome, sentence = check_top(weighted, TOP_TEXT, "dull", 2, method=method)
    assert (outcome, sentence) == (
        "failed",
        "'dull' has rank 3 of 29, required in the certain top 2.",
    )


def test_a_certificate_that_the_budget_does_not_reach_is_a_failure_with_advice():
    outcome, sentence = check_top(
        additive_model(superb=3.0, film=-2.0), TOP_TEXT, "superb", 1, budget="200 calls"
    )
    assert (outcome, sentence) == (
        "failed",
        "'superb' has rank 1 of 29 without a certificate, required in the certain top 1. Use a "
        "larger budget.",
    )


def test_a_method_without_errors_has_no_certain_top():
    outcome, sentence = check_top(SAMPLED, TOP_TEXT, "superb", 1, method="anchors")
    assert (outcome, sentence) == (
        "error",
        "anchors has no errors, so that no rank is certain. Use another method.",
    )


def test_every_word_of_several_must_be_in_its_top(shipped):
    text = "A superb film, and great acting in it."
    required = (WordRank("superb", 1), WordRank("great", 2))
    assert check(shipped, text, certain_top=required)[0] == "passed"
    outcome, sentence = check(shipped, text, certain_top=(*required, WordRank("film", 1)))
    assert outcome == "failed"
    assert sentence.startswith("'film' has rank ")
