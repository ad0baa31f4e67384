"""A method learned from sampled values, against enumeration and against games of known truth."""

import dataclasses
import json
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import limelight as package
from limelight.errors import InputError
from limelight.explainers.learned import LearnedMethod, NetworkInputs, error_design
from limelight.models.protocol import reason_missing
from limelight.request import Request, prepare_model
from limelight.text import build_features
from limelight.training import fitting, learning

from hidden_files import assert_hidden_files_are_kept, write_hidden_files

pytest.importorskip("torch")
from tiny_transformers import WORDS, tiny

VOCABULARY = [f"w{number}" for number in range(40)]
WEIGHT = dict(zip(VOCABULARY, np.random.default_rng(7).standard_normal(40), strict=True))
OUTSIDE = "of words that nobody has ever seen"


def additive(texts):
    results = [sum(WEIGHT.get(word, 0.0) for word in set(text.split())) for text in texts]
    return np.array([[-x, x] for x in results]) / 4  # log-odds of half the sum


def list_texts(words, count, seed, longest=9):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words, rng.integers(3, longest))) for _ in range(count)]


@pytest.fixture(scope="module", autouse=True)
def fitted_quickly():
    """Sixteen epochs of eighty: what is learned is far above the limits below."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_EPOCHS", 16)
        yield


@pytest.fixture(scope="module")
def function():
    return package.wrap(additive, classes=["a", "b"], scale="logit")


@pytest.fixture(scope="module")
def method_for_function(function):
    return package.learn(function, list_texts(VOCABULARY, 70, seed=0), judged=3)


@pytest.fixture(scope="module")
def bert():
    network, tokenizer = tiny("bert")
    return package.wrap(network, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def gpt2():
    from test_next_token import language_model

    network, tokenizer = language_model("gpt2")
    labels = {"bad": "b", "good": "g"}
    return package.wrap(
        network, tokenizer=tokenizer, template="see: {text} so it is\n", labels=labels
    )


PLAIN = [word for word in WORDS if "#" not in word]


@pytest.fixture(scope="module")
def method_for_bert(bert):
    return package.learn(bert, list_texts(PLAIN, 100, seed=1), judged=0)


def test_an_additive_function_is_learned_exactly(function, method_for_function):
    for result in package.explain(function, list_texts(VOCABULARY, 5, seed=5), method_for_function):
        truth = [WEIGHT[word] / 2 for word in result.features]
        reference = np.isin(result.features, [w for w in VOCABULARY if WEIGHT[w] / 2 in truth])
        assert reference.all()
        np.testing.assert_allclose(result.scores, truth, atol=1e-5)
    assert method_for_function.report["r2"] > 0.999
    assert method_for_function.report["curve"][-1]["r2"] > 0.999
    assert method_for_function.report["share"]["share"] > 0.99
    assert "one weight in every context" in str(method_for_function)


def test_a_word_that_was_never_seen_has_an_error_of_the_usual_size(function, method_for_function):
    explanation = package.explain(function, "w1 w2 unheard", method_for_function)
    assert explanation.stderr[2] > 0.5 * np.std(list(WEIGHT.values())) / 2
    assert explanation.stderr[:2].max() < 1e-3


def test_every_class_is_learned_at_once(function, method_for_function):
    pair = package.explain_classes(function, "w1 w2 w3", method_for_function)
    np.testing.assert_allclose(pair["a"].scores, -pair["b"].scores, atol=1e-5)


def pieces_by_hand(kind, model):
    """Return a text, the ids of its row, and the place in the joined text of each piece."""
    if kind == "prompt":
        text, start = "a predictable plot , a film", len("see: ")
        result = model.tokenizer.tokenizer(f"see: {text} so it is\n", return_offsets_mapping=True)
        return text, result, [(a - start, b - start) for a, b in result["offset_mapping"]]
    arguments = (
        ("a bad film", "the film is good") if kind == "pair" else "a predictable plot , a film"
    )
    sides = (arguments,) if isinstance(arguments, str) else arguments
    result = model.tokenizer(*sides, return_offsets_mapping=True)
    shift = [(len(sides[0]) + 1) * (side == 1) for side in result.sequence_ids()]
    pairs = zip(result["offset_mapping"], shift, strict=True)
    return arguments, result, [(a + own_value, b + own_value) for (a, b), own_value in pairs]


@pytest.mark.parametrize("kind", ["text", "pair", "prompt"])
def test_the_states_of_a_word_are_means_over_its_pieces(bert, gpt2, kind):
    """Of a pair a word of both sides has two; what stands around a text in a prompt has none."""
    import torch

    model = gpt2 if kind == "prompt" else bert
    arguments, encoded, places = pieces_by_hand(kind, model)
    model_input, other = model.read(arguments), model.read("bad film")
    features = build_features(model_input)
    result = model.hidden_states([other, model_input], [build_features(other), features])
    with torch.no_grad():
        names = ("input_ids", "attention_mask", "token_type_ids")
        row = {name: torch.tensor(encoded[name])[None] for name in names if name in encoded}
        network = model.network.language_model if kind == "prompt" else model.network
        states = network(**row, output_hidden_states=True).hidden_states
    layers = [states[i][0].numpy() for i in (0, (len(states) - 1) // 2, -1)]
    by_hand, words = [], list(zip(encoded.sequence_ids(), encoded.word_ids(), strict=True))
    for spans in features.spans:
        output = [i for i, (a, b) in enumerate(places) if any(a < d and c < b for c, d in spans)]
        # Spaces are pieces of the byte-level tokenizer, and go with their words, the first one too.
        own_value = [
            i
            for i, (_, b) in enumerate(places)
            if b >= 0 and words[i] in {words[j] for j in output}
        ]
        by_hand.append(np.concatenate([layer[own_value].mean(0) for layer in layers]))
    np.testing.assert_allclose(result.states[1], by_hand, atol=1e-5)
    # BERT's head reads [CLS], and a language model its last piece.
    np.testing.assert_allclose(
        result.head_input[1], layers[-1][-1 if kind == "prompt" else 0], atol=1e-5
    )
    np.testing.assert_allclose(result.outputs[1], model.logits([arguments])[0], atol=1e-5)


@pytest.mark.parametrize("kind", ["pair", "prompt"])
def test_pairs_and_prompts_are_learned(bert, gpt2, kind):
    texts = list_texts(PLAIN, 70, seed=21, longest=5)
    if kind == "pair":
        other_values = list_texts(PLAIN, 70, seed=22, longest=4)
        texts = list(zip(texts, other_values, strict=True))
    model, new = gpt2 if kind == "prompt" else bert, texts[-10:]
    learned = package.learn(model, texts[:-10], judged=0)
    mine, truth = (package.explain(model, new, method) for method in (learned, "shapley"))
    off = np.concatenate([a.scores - b.scores for a, b in zip(mine, truth, strict=True)])
    assert 1 - np.mean(off**2) / np.var(np.concatenate([value.scores for value in truth])) > 0.1
    assert [element.features for element in mine] == [one.features for one in truth]


def test_errors_of_a_network_hold_against_enumeration(bert, method_for_bert):
    texts = list_texts(PLAIN, 60, seed=2)
    mine = package.explain(bert, texts, method_for_bert)
    truth = package.explain(bert, texts, "shapley")  # all masks: at most 2⁸
    off = np.concatenate([a.scores - b.scores for a, b in zip(mine, truth, strict=True)])
    stderr = np.concatenate([value.stderr for value in mine])
    values = np.concatenate([element.scores for element in truth])
    assert np.mean(np.abs(off) <= 2 * stderr) >= 0.93
    assert stderr.mean() < values.std()  # and they say something
    assert 1 - np.mean(off**2) / values.var() > 0.2 < method_for_bert.report["r2"]


def score_words(rng, texts, pairs):
    """Return true values, what two networks say of them, and noisy draws of both."""
    sizes = rng.integers(3, 9, texts)
    owner = np.repeat(np.arange(texts), sizes)
    truth, scores, distance = rng.standard_normal((3, len(owner), 1))
    scores = truth + 0.4 * np.sqrt(np.abs(truth) + 0.05) * scores
    draws = truth + 0.8 * rng.standard_normal((pairs, len(owner), 1))
    inputs = NetworkInputs(np.empty((len(owner), 0)), np.empty((texts, 0)), owner, 0 * owner)
    spread, count = draws.var(axis=0, ddof=1), np.full(len(owner), pairs)
    values = fitting.Examples(inputs, draws.mean(axis=0), spread, count, by_word=False)
    return truth, np.stack([scores + 0.1 * distance, scores - 0.1 * distance]), values


def calibrate_errors(members, examples, noise, tuned):
    """Return what errors follow from, fitted to the first texts and calibrated on the others."""
    owner = examples.network_inputs.owner
    values, other_values = np.arange(tuned), np.arange(tuned, examples.text_count)
    theta = fitting._fit_error_model(
        members[:, owner < tuned], examples.select(values), noise[owner < tuned]
    )
    coverage = fitting._calibrate(
        members[:, owner >= tuned],
        examples.select(other_values),
        theta,
        noise=noise[owner >= tuned],
        constant=0.0,
        text=other_values,
        is_independent=True,
    )
    return theta + np.array([np.log(coverage["factor"]), 0, 0, 0]), coverage


@pytest.mark.parametrize("pairs", [2, 3])
@pytest.mark.parametrize("texts", [10, 40])
def test_errors_that_rest_on_few_texts_and_noisy_draws_hold(texts, pairs):
    """Slopes that were left free held 0.90 to 0.92, 0.59 at worst, and were up to 13 times wide."""
    contained, wide = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        _, members, aside = score_words(rng, texts, pairs)
        noise = np.full(aside.values.shape, 0.8**2 / pairs)
        theta, _ = calibrate_errors(members, aside, noise, texts // 4)
        truth, members, new = score_words(rng, 100, pairs)
        off = members.mean(axis=0) - truth
        design = error_design(members, new.network_inputs.owner)
        variance = np.exp(design @ theta)
        contained.append(np.mean(off**2 <= 4 * variance))
        wide.append(np.sqrt(np.mean(variance) / np.mean(off**2)))
    assert np.mean(contained) >= 0.95
    assert max(wide) < 6 > 1.5 * np.median(wide)


def test_errors_with_long_tails_are_widened_until_they_cover():
    """One value in twelve is far off: ±2 errors of their usual size would miss it."""
    rng = np.random.default_rng(0)
    _, members, aside = score_words(rng, 80, 2)
    far = 5 * (rng.random(aside.values.shape) < 1 / 12)
    aside = dataclasses.replace(aside, values=aside.values + far)
    noise = np.full(aside.values.shape, 0.8**2 / 2)
    theta, coverage = calibrate_errors(members, aside, noise, 20)
    assert coverage["factor"] > 1.2
    assert coverage["texts"] == 60
    assert coverage["guarantee"] == 0.95
    assert 0.95 <= coverage["overall"] <= 0.98
    variance = np.exp(error_design(members, aside.network_inputs.owner) @ theta)
    inside = (members.mean(axis=0) - aside.values) ** 2 <= 4 * variance + 1.96**2 * noise
    assert np.mean(inside) >= 0.95


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=6), min_size=1, max_size=45))
def test_a_hierarchical_quantile_is_the_least_that_covers_enough_of_the_texts(bags):
    values = np.concatenate(bags).astype(float)[:, None]
    bag = np.repeat(np.arange(len(bags)), list(map(len, bags)))
    n = len(bags)
    level = Fraction(19, 20) * (Fraction(n + 1, n) if n >= 19 else 1)
    result = fitting.hierarchical_quantile(values, bag, float(level))

    def covers(q):
        return sum(Fraction(sum(x <= q for x in bag), len(bag)) for bag in bags)

    assert result == min(q for q in np.unique(values) if covers(q) >= level * n)


def test_conformal_errors_hold_for_a_word_of_a_further_text_although_words_of_a_text_are_alike():
    """Words of a text share how far off they are: counted one by one, they would hold less."""
    rng = np.random.default_rng(0)
    hierarchical, pooled = [], []
    for _ in range(1500):
        sizes = rng.integers(1, 30, 20)
        bag = np.repeat(np.arange(20), sizes)
        alike = np.exp(1.5 * rng.standard_normal(20))[bag]
        scores = np.abs(alike * rng.standard_normal(len(bag)))[:, None]
        reference, new = bag < 19, bag == 19
        limit = fitting.hierarchical_quantile(scores[reference], bag[reference], 0.95 * 20 / 19)
        hierarchical.append(np.mean(scores[new] <= limit))
        pooled.append(np.mean(scores[new] <= np.quantile(scores[reference], 0.95)))
    error = np.std(hierarchical) / np.sqrt(1500)
    assert np.mean(hierarchical) >= 0.95 - 2 * error
    assert np.mean(pooled) < 0.94


@pytest.mark.usefixtures("briefly")
def test_texts_that_calibrate_have_no_other_part_in_the_fit(function):
    """Otherwise a further text is not like them, and nothing is guaranteed."""
    texts = list_texts(VOCABULARY, 140, seed=4)
    plan = learning.SamplingPlan(list(dict.fromkeys(texts)), 2, 0)
    _, request = prepare_model(function, Request())
    numbers = range(len(plan.texts))
    samples = learning.sample_values(function, plan, numbers, request)
    calibrates = plan.held_out.calibrates
    assert 0 < calibrates.sum() < plan.held_out.is_held_out.sum()
    other = [
        element + 3 if calibrate else element
        for element, calibrate in zip(samples, calibrates, strict=True)
    ]
    value, two = (
        fitting.fit_examples(
            learning.make_examples(
                function, plan.texts, values, request, learning.SIGNALS_WITHOUT_STATES
            ),
            plan.held_out,
            seed=0,
        )
        for values in (samples, other)
    )
    factors = [np.log(fit.report["coverage"]["factor"]) for fit in (value, two)]
    assert factors[0] < factors[1]
    for name, array in value.arrays.items():
        if name != "draws":  # what one pair of orders says has no guarantee
            shift = np.array([factors[1] - factors[0], 0, 0, 0]) if name == "errors" else 0.0
            np.testing.assert_allclose(two.arrays[name], array + shift, rtol=1e-9, err_msg=name)


def test_a_guarantee_of_95_percent_needs_nineteen_texts_that_calibrate():
    for texts in (20, 50, 122, *range(123, 140), 1000):
        held_out = fitting.HeldOut.draw(np.arange(texts), 0)
        assert np.array_equal(held_out.tunes | held_out.calibrates, held_out.is_held_out)
        if texts >= fitting._GUARANTEED:
            assert np.count_nonzero(held_out.calibrates) >= fitting._CALIBRATING
            assert not (held_out.tunes & held_out.calibrates).any()
            assert held_out.tunes.any()
        else:
            assert np.array_equal(held_out.tunes, held_out.calibrates)


@pytest.mark.usefixtures("briefly")
def test_the_report_states_the_guarantee_and_few_texts_bring_a_warning(
    function, method_for_function
):
    report = method_for_function.report
    calibrating = report["coverage"]["texts"]
    assert calibrating == 14  # of 70 texts
    assert report["coverage"]["guarantee"] is None
    assert "conformal" not in str(method_for_function)
    assert report["warning"] == (
        "Its standard errors have no guarantee: they rest on 14 held-out texts, and "
        "95 % needs 19. Learn from 123 texts or more."
    )
    report = package.learn(function, list_texts(VOCABULARY, 140, seed=0), pairs=1, judged=0).report
    assert report["coverage"]["guarantee"] == 0.95
    assert "warning" not in report
    assert any(
        "at least 95%" in value and "split conformal" in value for value in report["sentences"]
    )


@pytest.mark.slow
def test_what_a_network_holds_is_more_than_a_weight_for_each_word(bert, method_for_bert):
    plan, signals = learning.SamplingPlan(list_texts(PLAIN, 100, seed=1), 3, 0), ("words", "places")
    _, request = prepare_model(bert, Request())
    samples = learning.sample_values(bert, plan, range(100), request)
    examples = learning.make_examples(bert, plan.texts, samples, request, signals)
    single = fitting.fit_examples(examples, plan.held_out, seed=0)
    assert method_for_bert.report["r2"] > single.report["r2"] + 0.02


def test_another_model_and_other_requests_raise_an_error(
    function, method_for_function, method_for_bert, bert
):
    other = package.wrap(
        lambda texts: additive(texts) + 1, classes=["a", "b"], scale="logit", name="x"
    )
    for model, learned in ((other, method_for_function), (bert, method_for_function)):
        with pytest.raises(InputError, match="learned from another model"):
            package.explain(model, "w1 w2", learned)
    # One of the same name and other classes is another all the same.
    renamed = package.wrap(
        lambda texts: [[0.0, 1.0, 2.0] for _ in texts],
        classes=["a", "b", "c"],
        scale="logit",
        name=function.fingerprint,
    )
    with pytest.raises(InputError, match=r"its classes are a \| b, not a \| b \| c"):
        package.explain(renamed, "w1 w2", method_for_function)
    for request in (
        {"features": "positions"},
        {"protect": ["a"]},
        {"window": 8},
        {"scale": "probability"},
    ):
        with pytest.raises(InputError):
            package.explain(bert, "a good film", method_for_bert, **request)


@pytest.mark.usefixtures("briefly")
def test_a_share_of_one_text_has_no_interval(function):
    learned = package.learn(function, list_texts(VOCABULARY, 40, seed=0), judged=1)
    assert sum(value.endswith("on 1 of them: 1.00.") for value in learned.report["sentences"]) == 1


def test_a_text_unlike_the_others_has_a_warning(
    function, method_for_function, method_for_bert, bert
):
    usual = package.explain(function, list_texts(VOCABULARY, 6, seed=9), method_for_function)
    assert (
        sum("differs from the training" in warning for value in usual for warning in value.warnings)
        == 0
    )
    long = " ".join(VOCABULARY)
    assert any(
        "40 different words" in n
        for n in package.explain(function, long, method_for_function).warnings
    )
    strange = package.explain(function, OUTSIDE, method_for_function).warnings
    assert any("100% unseen words" in warning for warning in strange)


def test_a_check_compares_scores_with_outputs_of_the_model(function, method_for_function):
    explanation = package.explain(function, "w1 w2 w3 w4 w5", method_for_function, check=16)
    assert explanation.diagnostics["check_explained"] == pytest.approx(1, abs=1e-6)
    assert explanation.base_value == 0
    assert any("explain 100%" in warning for warning in explanation.warnings)
    # Its only word is in every mask, and there is nothing to explain.
    single = package.explain(function, "w1", method_for_function, check=4)
    assert single.diagnostics["check_explained"] is None
    assert any(
        "could not be checked, because the outputs for 4 random masks" in warning
        for warning in single.warnings
    )


@pytest.mark.slow
def test_shuffled_values_teach_nothing(bert):
    _, request = prepare_model(bert, Request())
    plan = learning.SamplingPlan(list_texts(PLAIN, 60, seed=3), 2, 0)
    samples = learning.sample_values(bert, plan, range(60), request)
    examples = learning.make_examples(
        bert, plan.texts, samples, request, learning.SIGNALS_WITH_STATES
    )
    order = np.random.default_rng(0).permutation(len(examples.values))
    shuffled = dataclasses.replace(
        examples, values=examples.values[order], draw_variance=examples.draw_variance[order]
    )
    result = fitting.fit_examples(shuffled, plan.held_out, seed=0)
    assert result.report["r2"] < 0.1
    assert re.search(r"HAS (LEARNED NOTHING|NOT SHOWN)", result.report["warning"])


@pytest.mark.usefixtures("briefly")
def test_an_interrupted_call_goes_on_to_the_same_method(function, tmp_path):
    texts = list_texts(VOCABULARY, 70, seed=4)

    def stop(done, _):
        if done > 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as error:
        package.learn(function, texts, judged=0, progress=stop)
    assert error.value.__notes__ == [
        "Nothing is stored. Set output to a folder to be able to continue."
    ]
    with pytest.raises(KeyboardInterrupt) as error:
        package.learn(function, texts, output=tmp_path / "a", judged=0, progress=stop)
    assert error.value.__notes__ == [
        f"'{tmp_path / 'a'}' contains the sampled values. Start again with the same arguments to "
        "continue."
    ]
    part, *_ = (tmp_path / "a" / "samples").glob("part-*")
    part.write_bytes(part.read_bytes()[:-40])  # damaged: drawn again
    again = package.learn(function, texts, output=tmp_path / "a", judged=0)
    full = package.learn(function, texts, judged=0)
    stored = LearnedMethod.load(tmp_path / "a")
    for name, array in full.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name])
        np.testing.assert_array_equal(array, stored.arrays[name])
    assert json.loads(json.dumps(again.record)) == stored.record
    with pytest.raises(InputError, match="sampled with a different value of seed"):
        package.learn(function, texts, output=tmp_path / "a", judged=0, seed=1)
    begun = tmp_path / "a" / "samples" / "request.json"
    reference = json.loads(begun.read_text())
    for wrong in (
        b"{",
        b"[]",
        b"{}",
        *(json.dumps({**reference, n: "x"}).encode() for n in reference),
    ):
        begun.write_bytes(wrong)
        with pytest.raises(
            InputError, match=r"does not describe its sampled values. Delete the folder"
        ):
            package.learn(function, texts, output=tmp_path / "a", judged=0)


@pytest.mark.usefixtures("briefly")
def test_learning_into_a_folder_keeps_hidden_files_of_the_user(function, tmp_path):
    write_hidden_files(tmp_path)
    (tmp_path / ".method.json.limelight-abcdefgh.part").write_text("of a killed process")
    texts = list_texts(VOCABULARY, 60, seed=4)
    package.learn(function, texts, output=tmp_path, pairs=1, judged=0)
    assert_hidden_files_are_kept(tmp_path)
    assert not [*tmp_path.glob(".*.limelight-*")]


@pytest.mark.usefixtures("briefly")
def test_values_that_are_stored_are_learned_from(function, tmp_path):
    explanation = package.explain(function, list_texts(VOCABULARY, 60, seed=11), "shapley")
    learned = package.learn(function, explanation, judged=0)
    mine = package.explain(function, "w1 w2 w3", learned)
    np.testing.assert_allclose(mine.scores, [WEIGHT[w] / 2 for w in mine.features], atol=1e-5)
    against = package.explain(function, "w1 w2 w3", learned, target="a")
    np.testing.assert_allclose(against.scores, -mine.scores, atol=1e-6)  # of two, the same values
    with pytest.raises(InputError, match="learned for log-odds, not for the output of one class"):
        package.explain(function, "w1 w2 w3", learned, scale="score")
    # All masks were asked: how far off one pair of orders is was not seen.
    with pytest.raises(InputError, match="not sampled by pairs of orders"):
        package.explain(function, "w1 w2 w3", "shapley", start=learned, pairs=1, max_pairs=1)
    with pytest.raises(InputError, match="learn needs Shapley values of at least 20 texts"):
        package.learn(function, explanation[:5])
    run = package.explain_data(
        function,
        [value.text for value in explanation],
        "shapley",
        output=tmp_path / "run",
        progress=False,
    )
    for stored in (run, tmp_path / "run"):  # what is read of a folder by its name is learned below
        assert learning._read_explanations(stored) == list(run)
    again = package.learn(function, str(tmp_path / "run"), judged=0)  # in single precision
    again = package.explain(function, "w1 w2 w3", again)
    np.testing.assert_allclose(again.scores, mine.scores, atol=1e-5)


def test_what_two_outputs_have_in_common_is_not_learned(function):
    """Their errors are added for the log-odds, and those of the common part would be among them."""
    rng = np.random.default_rng(3)
    draws = rng.standard_normal((4, 2, 5)).astype(np.float32)
    common = 9 * rng.standard_normal((4, 1, 5)).astype(np.float32)
    keep = learning.remove_common_part(function, draws)
    moved = learning.remove_common_part(function, draws + common)
    np.testing.assert_allclose(moved, keep, atol=1e-5)
    np.testing.assert_allclose(np.diff(keep, axis=1), np.diff(draws, axis=1), rtol=1e-5)
    assert keep.dtype == draws.dtype
    labels = package.wrap(additive, classes=["a", "b"], scale="logit", multi_label=True)
    assert learning.remove_common_part(labels, draws) is draws


@pytest.mark.usefixtures("briefly")
def test_an_output_that_never_moves_counts_for_nothing():
    def some_outputs(texts):
        return np.column_stack([additive(texts), np.ones(len(texts))])

    model = package.wrap(some_outputs, classes=["a", "b", "c"], scale="logit", name="flat")
    report = package.learn(model, list_texts(VOCABULARY, 60, seed=5), judged=0).report
    assert report["r2"] > 0.9 < report["rank_correlation"]


def test_damaged_folders_raise_an_error(method_for_function, tmp_path):
    with pytest.raises(InputError, match="no learned method at"):
        LearnedMethod.load(tmp_path)
    method_for_function.save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(InputError, match=r"do not belong to its method\.json"):
        LearnedMethod.load(tmp_path)
    (tmp_path / "method.json").write_text("{}")
    with pytest.raises(InputError, match=r"must have the schema 'limelight\.learned/1', not None"):
        LearnedMethod.load(tmp_path)


@pytest.mark.usefixtures("briefly")
def test_a_budget_means_fewer_pairs_then_fewer_texts(function):
    texts = list_texts(VOCABULARY, 60, seed=6)
    messages = []
    value = package.learn(function, texts, budget="1000 calls", judged=0, estimate=messages.append)
    assert value.record["pairs"] == 1
    assert messages[0].startswith("Drawing 1 pair of orders of 60 texts takes about ")
    assert value.report["calls"] < 1000
    with pytest.raises(InputError, match="a budget of 50 calls"):
        package.learn(function, texts, budget="50 calls")


def test_judge_and_compare_take_it_as_any_method(bert, method_for_bert, tmp_path):
    texts = list_texts(PLAIN, 6, seed=8)
    judgment = package.judge(bert, texts, [method_for_bert, "loo"], columns=[])
    assert [method.method for method in judgment.methods] == ["learned", "loo"]
    compared = package.compare(bert, texts[0], methods=[method_for_bert, "shapley"])
    assert [value.method for value in compared] == ["learned", "shapley"]

    # By the name of its folder too.
    method_for_bert.save(tmp_path)
    named = f"learned:{tmp_path}"
    by_name = package.judge(bert, texts, [named, "loo"], columns=[])
    assert by_name.methods[0].share == judgment.methods[0].share
    again = package.compare(bert, texts[0], methods=[named, "shapley"])
    np.testing.assert_array_equal(again["learned"].scores, compared["learned"].scores)
    with pytest.raises(InputError, match="no learned method at"):
        package.compare(bert, texts[0], methods=["learned:nowhere"])


def test_a_window_hides_what_a_word_is_beside(bert, method_for_bert):
    assert "leave window out" in reason_missing(bert.with_windows(8), "hidden_states")
    with pytest.raises(InputError, match="leave window out"):
        package.explain(bert, "a good film " * 9, method_for_bert, window=8)


@pytest.mark.slow
def test_a_learned_start_and_one_pair_are_nearer_than_either_alone(bert, method_for_bert):
    texts = [text for text in list_texts(PLAIN, 120, seed=12) if len(set(text.split())) > 3]
    truth = np.concatenate([element.scores for element in package.explain(bert, texts, "shapley")])
    single = np.concatenate([one.scores for one in package.explain(bert, texts, method_for_bert)])
    # max_pairs keeps all masks from being asked, which are few.
    for pairs in (1, 3):
        explanation = package.explain(
            bert,
            texts,
            "shapley",
            start=method_for_bert,
            pairs=pairs,
            max_pairs=pairs,
            sampler="orders",
        )
        target = np.concatenate(
            [["unbiased" in one.diagnostics] * len(one.scores) for one in explanation]
        )
        values = [one for one in explanation if "unbiased" in one.diagnostics]
        scores, stderr, samples, spread = (
            np.concatenate(list(each))
            for each in (
                (one.scores for one in values),
                (one.stderr for one in values),
                (one.diagnostics["unbiased"] for one in values),
                (one.diagnostics["unbiased_stderr"] for one in values),
            )
        )
        off, unbiased_off = scores - truth[target], samples - truth[target]
        assert np.mean(np.abs(off) <= 2 * stderr) >= 0.93
        assert np.mean(np.abs(unbiased_off) <= 2 * spread) >= 0.93
        other_values = np.mean(unbiased_off**2), np.mean((single - truth)[target] ** 2)
        assert np.mean(off**2) < 0.95 * min(other_values)
        for value in values:  # as Shapley values do
            assert sum(value.scores) == pytest.approx(sum(value.diagnostics["unbiased"]), abs=1e-9)


def test_a_budget_on_a_learned_method_is_spent_on_pairs_of_orders(bert, method_for_bert, tmp_path):
    text, request = "a good film , the plot is predictable", {"budget": "40 calls"}
    method_for_bert.save(tmp_path)
    explanation = package.explain(bert, text, method_for_bert, **request)
    by_name = package.explain(bert, text, "shapley", start=f"learned:{tmp_path}", **request)
    assert explanation.to_json() == by_name.to_json()
    assert (
        explanation.settings["start"]
        == method_for_bert.digest
        == LearnedMethod.load(tmp_path).digest
    )
    assert explanation.method == "shapley"
    assert any("weighted means of learned scores" in warning for warning in explanation.warnings)
    again = package.Explanation.from_json(explanation.to_json())
    assert again.diagnostics["unbiased"] == explanation.diagnostics["unbiased"]


def test_a_start_that_does_not_fit_raises_an_error(
    function, method_for_function, bert, method_for_bert
):
    shapley = {"method": "shapley", "pairs": 2, "max_pairs": 2}
    for start, keywords, message in (
        (method_for_function, {}, "learned from another model"),
        (
            method_for_bert,
            {"scale": "probability"},
            "a learned start explains logits only. Use scale='logit'",
        ),
        (method_for_bert, {"replacement": "delete"}, "eave replacement out"),
        ("nowhere", {}, "no learned method at 'nowhere'"),
        (None, {"pairs": 1}, "pairs must be at least 2"),
    ):
        with pytest.raises(InputError, match=message):
            package.explain(bert, "a good film of words", start=start, **{**shapley, **keywords})


def test_a_run_resumes_with_its_learned_method_only(bert, method_for_bert, tmp_path):
    texts = list_texts(PLAIN, 24, seed=13)
    method_for_bert.save(tmp_path / "method")
    named = f"learned:{tmp_path / 'method'}"
    request = {"output": tmp_path / "run", "shard_texts": 10, "progress": False}
    run = package.explain_data(bert, texts, method_for_bert, **request)
    direct = package.explain(bert, texts, method_for_bert)
    for stored, value in zip(run, direct, strict=True):
        np.testing.assert_allclose(stored.scores, value.scores, atol=1e-5)
        assert stored.settings["fitted"] == method_for_bert.digest
    package.explain_data(bert, texts, named, **request)  # the same, by its folder
    other = dataclasses.replace(method_for_bert, record={**method_for_bert.record, "seed": 5})
    with pytest.raises(InputError, match="fitted of learned is"):
        package.explain_data(bert, texts, other, **request)
    pair = package.explain_data(
        bert, texts, ["shapley", named], start=named, **{**request, "output": tmp_path / "both"}
    )
    assert pair.methods == ("shapley", "learned")
    assert pair.failed == 0


def test_a_run_with_the_method_of_another_model_raises_an_error_before_any_call(
    method_for_function, tmp_path
):
    other = package.wrap(additive, classes=["a", "b"], scale="logit", name="other")
    with pytest.raises(InputError, match="learned from another model"):
        package.explain_data(other, ["w1 w2"], method_for_function, output=tmp_path / "other")


def test_nothing_is_drawn_before_it_is_known_that_the_result_can_be_written(tmp_path):
    (tmp_path / "file").write_text("no folder")
    request = []

    def count_call(texts):
        request.extend(texts)
        return additive(texts)

    model = package.wrap(count_call, classes=["a", "b"], scale="logit")
    request.clear()
    output = tmp_path / "file" / "below"
    with pytest.raises(InputError, match=r"cannot be written .*\. Choose another output folder"):
        package.learn(model, list_texts(VOCABULARY, 30, seed=0), output=output)
    assert request == []
