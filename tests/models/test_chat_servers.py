"""Chat servers without log-probabilities, against agreements that are known without them."""

import itertools
import json
import pickle
import re
from functools import partial

import numpy as np
import pytest
from all_subsets import shapley_by_subsets
from chats import Chats, chats
from hypothesis import given, settings
from hypothesis import strategies as st

import limelight
from limelight import InputError
from limelight.models import endpoint
from limelight.models.chat_servers.agreement import parse_agreement
from limelight.sampling.all_masks import values_from_repeated_outputs
from limelight.sampling.orders import shapley_values_from_orders
from limelight.sampling.spread import VarianceComponents, estimate_variance_components
from limelight.text import QueriedText
from limelight.theory.enumeration import enumerate_masks, shapley_matrix

QUESTION = "Does Clara work in Norway?"
DOCUMENTS = ["Alice likes red.", "Bob is in Bergen.", "Clara works in Oslo.", "Dora has a dog."]
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Clara works in Oslo."},
    {"role": "assistant", "content": "I see."},
    {"role": "user", "content": QUESTION},
]
KEY = "sk-very-secret-4711"


def probability(text):
    """The probability of the answer "Yes."."""
    z = -1.5 + 1.5 * ("Bergen" in text) + 2.5 * ("Oslo" in text) - ("dog" in text)
    return 1 / (1 + np.exp(-z))


def join_contents(messages):
    return " ".join(message["content"] for message in messages)


def answer_at_random(messages, temperature, rng):
    p = probability(join_contents(messages))
    if temperature == 0:
        return "Yes." if p > 0.5 else "No."
    return "Yes." if rng.random() < p else "No."


def answer_number(messages, _temperature, _rng):
    return repr(float(probability(join_contents(messages))))


def read_number(_, answer):
    return float(answer)


@pytest.fixture
def server(monkeypatch):
    """A server whose replies do not travel over a network."""
    with Chats(answer_at_random) as value:
        monkeypatch.setattr(endpoint.ServerClient, "_send", lambda _, data: value.send(data))
        yield value


@pytest.fixture
def http_server():
    with chats(answer_at_random) as value:
        yield value


def wrap_model(server, **options):
    defaults = {"model": "tiny", "agreement": ["yes", "no"], "estimate": None}
    return limelight.wrap_endpoint(server.url, **defaults | options)


def explain(model, method=None, **options):
    return limelight.explain(model, QUESTION, method, documents=DOCUMENTS, **options)


def expected_agreements():
    masks = np.array(list(itertools.product([False, True], repeat=len(DOCUMENTS))))
    values = [probability(" ".join(itertools.compress(DOCUMENTS, mask))) for mask in masks]
    return masks, np.array(values)


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "loo"])
def test_scores_of_a_deterministic_server_are_those_of_all_subsets(method):
    with chats(answer_number) as server:
        model = wrap_model(server, agreement=read_number, temperature=0)
        e = explain(model, method, answer="as before")
    masks, values = expected_agreements()
    expected = shapley_by_subsets(masks, values)
    if method == "banzhaf":
        expected = [values[masks[:, j]].mean() - values[~masks[:, j]].mean() for j in range(4)]
    if method == "loo":
        expected = values[-1] - values[[len(masks) - 1 - 2 ** (3 - j) for j in range(4)]]
    np.testing.assert_allclose(e.scores, expected, atol=1e-12)
    assert e.stderr is None
    assert e.prediction["answer"] == pytest.approx(values[-1])
    assert e.base_value == pytest.approx(values[0])


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "lime", "loo"])
def test_scores_of_a_random_server_are_within_their_errors(http_server, method):
    e = explain(wrap_model(http_server), method, budget="200 calls", answer="Yes.")
    with chats(answer_number) as exact_server:
        exact_model = wrap_model(exact_server, agreement=read_number, temperature=0)
        exact = explain(exact_model, method, budget="200 calls", answer="as before")
    assert (e.stderr > 0.005).all()
    assert (np.abs(e.scores - exact.scores) < 5 * e.stderr).all()
    assert e.query.output_name == "agreement"
    assert e.diagnostics["answer_variance"] > 0.05


# --- standard errors ---------------------------------------------------------------------------


def test_errors_of_repeated_outputs_are_those_of_many_repetitions_and_zero_without_noise():
    rng, d, k = np.random.default_rng(1), 4, 4
    p = rng.uniform(0.2, 0.8, 2**d)
    runs = [
        values_from_repeated_outputs(
            (rng.random((2**d, k)) < p[:, None]).astype(float), shapley_matrix(d), known_range=1.0
        )
        for _ in range(2000)
    ]
    values = np.array([run.values for run in runs])
    exact = shapley_matrix(d).T @ p
    true_error = np.sqrt(shapley_matrix(d).T ** 2 @ (p * (1 - p)) / k)
    np.testing.assert_allclose(values.std(axis=0), true_error, rtol=0.07)
    np.testing.assert_allclose(values.mean(axis=0), exact, atol=5 * true_error.max() / 2000**0.5)
    reported = np.sqrt(np.mean([run.stderr**2 for run in runs], axis=0))
    assert (reported >= 0.97 * true_error).all()
    assert (reported <= 1.35 * true_error).all()  # widened for the largest contribution
    covered = np.mean([np.abs(run.values - exact) <= 2 * run.stderr for run in runs])
    assert covered >= 0.93
    # Control: the spread between masks is no noise.
    constant = values_from_repeated_outputs(
        np.repeat(p[:, None], k, axis=1), shapley_matrix(d), known_range=0.0
    )
    np.testing.assert_allclose(constant.values, exact, atol=1e-12)
    assert not constant.stderr.any()


def test_errors_of_leave_one_out_hold_if_the_answers_to_one_text_agree_by_chance():
    # The texts without the last two features have random answers, which say nothing of the first.
    rng, p, k = np.random.default_rng(4), np.array([1.0, 0.85, 0.5, 0.5]), 10
    matrix = np.concatenate([np.ones((1, 3)), -np.eye(3)])
    runs = [
        values_from_repeated_outputs(
            (rng.random((4, k)) < p[:, None]).astype(float), matrix, known_range=1.0
        )
        for _ in range(1000)
    ]
    covered = [np.abs(run.values - matrix.T @ p) <= 2 * run.stderr for run in runs]
    assert (np.mean(covered, axis=0) >= 0.93).all()
    # Control: if all ten answers agree, the error is not that of the other texts.
    agreeing = [run.stderr[0] for run in runs if run.values[0] == 0]
    assert len(agreeing) > 100
    assert min(agreeing) >= 0.15


def random_game(p, rng):
    """A game whose outputs are 1 with the probabilities ``p`` of the masks, and else 0."""
    powers = 1 << np.arange(len(p).bit_length() - 1)
    return lambda keep: (rng.random(len(keep)) < p[keep @ powers]).astype(float)[:, None]


@pytest.mark.parametrize("has_random_outputs", [True, False])
def test_errors_of_orders_hold_only_if_each_pair_has_ends_of_its_own(has_random_outputs):
    d, p = 3, np.full(8, 0.5)  # all exact values are 0
    rng = np.random.default_rng(2)
    samples = [
        shapley_values_from_orders(
            random_game(p, rng),
            d,
            rng,
            pairs=60,
            known_range=1.0,
            has_random_outputs=has_random_outputs,
        )
        for _ in range(300)
    ]
    covered = np.mean([np.abs(sample.values) <= 2 * sample.stderr for sample in samples])
    assert (covered >= 0.93) == has_random_outputs
    if not has_random_outputs:  # the noise of the two shared outputs is in no draw
        assert covered < 0.6


def test_a_pair_of_two_random_features_has_an_error():
    rng = np.random.default_rng(3)
    sample = shapley_values_from_orders(
        random_game(np.full(4, 0.5), rng), 2, rng, pairs=30, has_random_outputs=True
    )
    assert (sample.stderr > 0.02).all()


@settings(max_examples=30, deadline=None)
@given(st.floats(0.0, 4.0), st.floats(0.01, 4.0), st.integers(0, 10**6))
def test_variance_components_have_the_right_means(between, within, seed):
    rng, n, k, runs = np.random.default_rng(seed), 12, 3, 400
    outputs = np.sqrt(between) * rng.standard_normal((runs, n, 1))
    outputs = outputs + np.sqrt(within) * rng.standard_normal((runs, n, k))
    raw_between = (
        outputs.mean(axis=2).var(axis=1, ddof=1) - outputs.var(axis=2, ddof=1).mean(axis=1) / k
    )
    estimates = [estimate_variance_components(rows) for rows in outputs]
    assert np.mean([e.within for e in estimates]) == pytest.approx(within, rel=0.08)
    np.testing.assert_allclose(
        [e.between for e in estimates], np.maximum(raw_between, 0), atol=1e-12
    )
    spread = (between + within / k) * np.sqrt(2 / (n - 1) / runs)
    assert abs(raw_between.mean() - between) < 6 * spread


@given(st.floats(0.01, 10.0), st.floats(0.01, 10.0), st.floats(0.0, 20.0))
def test_the_best_number_of_repeats_is_that_of_a_search(between, within, cost_ratio):
    def variance(k):  # at a cost of 1
        return (between + within / k) * (k + cost_ratio)

    best = VarianceComponents(between, within).best_repeats(cost_ratio=cost_ratio)
    counts = np.arange(1, 1000)
    # Rounding the optimum of real numbers costs little.
    assert variance(best) <= min(map(variance, counts)) * 1.07
    if cost_ratio == 0:
        assert best == 1


def test_no_answer_is_used_twice(server):
    model = wrap_model(server)
    request = limelight.explainers.batch.prepare_batch(
        model, [QueriedText("Oslo, dog.", selector="Yes.")]
    )
    game = request.game()
    server.bodies.clear()
    outputs = game(np.ones((40, len(game)), bool))[:, 0]
    assert len(server.bodies) == 40
    assert 0 < outputs.mean() < 1
    assert not np.array_equal(outputs, game(np.ones((40, len(game)), bool))[:, 0])
    # With means of answers, equal masks have equal outputs, as a search needs.
    means = request.game(answers=5)
    server.bodies.clear()
    assert len(set(means(np.ones((7, len(game)), bool))[:, 0])) == 1
    assert len(server.bodies) == 5


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "lime", "loo"])
@pytest.mark.parametrize("budget", [50, 100, 450])
def test_the_announced_calls_cover_those_that_are_made_and_obey_the_budget(server, method, budget):
    announced = []
    model = wrap_model(server, estimate=announced.append)
    explain(model, method, budget=f"{budget} calls", answer="Yes.")
    made = len(server.bodies) - 5  # five answers to the complete prompt
    assert 0.6 * budget <= made <= announced[0].calls <= budget


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "lime"])
@pytest.mark.parametrize("budget", [20, 25, 60, 150])
def test_several_answers_for_each_mask_obey_the_budget(server, method, budget):
    try:
        explain(wrap_model(server), method, answers=4, budget=f"{budget} calls", answer="Yes.")
    except limelight.DomainError:
        assert budget < 60  # too few for the method
    assert len(server.bodies) - 5 <= budget


@pytest.mark.parametrize("samples", [2, 3])
def test_lime_of_a_single_document_has_an_error(server, samples):
    e = limelight.explain(
        wrap_model(server),
        QUESTION,
        "lime",
        documents=DOCUMENTS[:1],
        answer="Yes.",
        samples=samples,
    )
    assert np.isfinite(e.scores).all()
    assert (e.stderr > 0).all()


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "lime"])
def test_a_pilot_measures_both_variances_if_masks_are_sampled(server, method):
    documents = [f"Fact {j}x." for j in range(10)] + ["In Oslo."]
    e = limelight.explain(
        wrap_model(server), QUESTION, method, documents=documents, budget="500 calls", answer="Yes."
    )
    # The variance of an answer is p (1 − p) with or without Oslo.
    p = np.array([probability("Oslo"), probability("")])
    assert e.diagnostics["answer_variance"] == pytest.approx((p * (1 - p)).mean(), abs=0.2)
    assert 0 <= e.diagnostics["mask_variance"] <= 0.25
    assert e.diagnostics["best_answers"] == 1
    assert len(server.bodies) - 5 <= 500


def test_more_answers_for_each_mask_give_no_smaller_errors_for_as_many_calls(server):
    documents = [f"Fact {j}x." for j in range(9)] + ["In Oslo."]
    errors = [
        np.median(
            [
                limelight.explain(
                    wrap_model(server),
                    QUESTION,
                    "banzhaf",
                    documents=documents,
                    answers=answers,
                    samples=samples,
                    seed=seed,
                    answer="Yes.",
                ).stderr.mean()
                for seed in range(5)
            ]
        )
        for answers, samples in ((1, 360), (4, 90))
    ]
    assert errors[0] < 1.05 * errors[1]


def test_a_limit_of_calls_raises_an_error_before_the_first_mask(server):
    model = wrap_model(server, max_calls=100)
    with pytest.raises(InputError, match=r"max_calls=100 leaves 94\. Set a budget"):
        explain(model)
    assert len(server.bodies) == 6  # the answer, and five answers to compare
    explain(model, budget="80 calls", answer="Yes.")
    for _ in range(100 - len(server.bodies)):
        model.generate(QUESTION)
    with pytest.raises(InputError, match="max_calls=100 calls have been made"):
        model.generate(QUESTION)
    assert len(server.bodies) == 100


# --- agreement ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agreement", "reference", "answer", "expected"),
    [
        ("exact", "In Oslo.", " In Oslo.\n", 1),
        ("exact", "In Oslo.", "In oslo.", 0),
        (["yes", "no"], "Yes, she does.", "I think yes.", 1),
        (["yes", "no"], "Yes, she does.", "No. Yes would be wrong.", 0),
        (["yes", "no"], "Yes.", "I cannot know.", 0),  # "know" is not "no"
        (["spam", "not spam"], "not spam", "This is NOT SPAM.", 1),
        (["spam", "not spam"], "not spam", "spam", 0),
        (r"/Answer: (\w+)/", "Answer: red", "So. Answer: red!", 1),
        (r"/Answer: (\w+)/", "Answer: red", "Answer: blue", 0),
        (re.compile(r"\d+", re.ASCII), "about 12 of them", "12", 1),
        (re.compile(r"\d+"), "about 12 of them", "none", 0),
        (["是", "不是"], "是。", "是的，她在。", 1),
        (["是", "不是"], "不是。", "是的，她在。", 0),
        (["İyi", "kötü"], "İyi.", "Bence İyi!", 1),
        (["C", "C++"], "C++", "Use C++.", 1),
        (lambda a, b: len(set(a) & set(b)) / len(set(a)), "abcd", "abxx", 0.5),
    ],
)
def test_answers_agree_by_a_rule(agreement, reference, answer, expected):
    rule = parse_agreement(agreement)
    assert rule.to_answer(reference)(answer) == expected
    # Control: each answer agrees with itself.
    assert rule.to_answer(reference)(reference) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"agreement": "same"},
            "agreement must be 'exact', a list of labels, a regular expression",
        ),
        ({"agreement": "/(/"}, "agreement is no regular expression"),
        ({"agreement": "/a{9999999999999999999999}/"}, "agreement is no regular expression"),
        ({"agreement": ["yes"]}, "must be two or more different words"),
        ({"agreement": ["yes", "YES"]}, "must be two or more different words"),
        ({"agreement": 3}, "agreement must be 'exact'"),
        ({"agreement": re.compile(b"a")}, "for texts, not for bytes"),
        (
            {"agreement": None, "template": "{text}", "temperature": 1},
            "temperature is for agreement",
        ),
        ({"tokenizer": "folder"}, "tokenizer is for log-probabilities"),
        ({"per_token": True}, "per_token is for log-probabilities"),
        ({"temperature": -1}, "temperature must be at least 0 and below 10, not -1"),
        ({"temperature": 12}, "temperature must be at least 0 and below 10, not 12"),
        ({"max_calls": 0}, "max_calls must be"),
        ({"template": "no place"}, "must be a string that contains {text} once"),
    ],
)
def test_wrong_options_raise_an_error(server, options, message):
    with pytest.raises(InputError, match=message):
        wrap_model(server, **options)


def test_the_fingerprint_differs_for_all_that_changes_an_agreement(server):
    options = [
        {},
        {"agreement": ["yes", "maybe"]},
        {"agreement": "exact"},
        {"temperature": 0.5},
        {"max_new_tokens": 5},
        {"stop": ["."]},
        {"template": "{text} Yes or no?"},
    ]
    fingerprints = [wrap_model(server, **option).fingerprint for option in options]
    assert len(set(fingerprints)) == len(options)
    # Control: the same number, written in another way.
    assert wrap_model(server, temperature=1).fingerprint == fingerprints[0]


def test_a_reference_without_a_label_raises_an_error(server):
    with pytest.raises(InputError, match=r"has nothing that agreement=labels yes, no compares"):
        explain(wrap_model(server), answer="Perhaps.")
    with pytest.raises(InputError, match="must return a finite number, not 'high'"):
        explain(wrap_model(server, agreement=lambda *_: "high"), answer="Perhaps.")
    with pytest.raises(InputError, match="must return a finite number"):
        explain(wrap_model(server, agreement=lambda *_: 10**400), answer="Perhaps.")


def test_equal_tool_calls_agree_although_their_ids_differ(server, monkeypatch):
    numbers = itertools.count()

    def send(_, data):
        server.bodies.append(json.loads(data))
        function = {"name": "find", "arguments": '{"city":"Oslo"}'}
        calls = [{"id": f"call_{next(numbers)}", "type": "function", "function": function}]
        reply = {"choices": [{"message": {"content": None, "tool_calls": calls}}]}
        return 200, {}, json.dumps(reply).encode()

    monkeypatch.setattr(endpoint.ServerClient, "_send", send)
    (row,) = limelight.predict(wrap_model(server, agreement="exact"), ["Find Oslo."])
    assert row["answer"] == '{"name": "find", "arguments": {"city": "Oslo"}}'
    assert row["agreement"] == 1


def test_answers_that_differ_at_temperature_0_count_as_random():
    with chats(lambda _messages, _temperature, rng: rng.choice(["Yes.", "No."])) as server:
        e = explain(wrap_model(server, temperature=0), budget="100 calls", answer="Yes.")
    assert any("different answers to the same prompt at temperature 0" in w for w in e.warnings)
    assert (e.stderr > 0).all()


# --- what is removed ---------------------------------------------------------------------------


def sent_prompts(server, text, features, **options):
    """Return the messages for each mask of the features of a text."""
    server.bodies.clear()
    game = limelight.game(
        wrap_model(server, agreement=lambda *_: 1.0), text, features=features, answer="a", **options
    )
    masks = enumerate_masks(len(game))
    rows = []
    for mask in masks:
        server.bodies.clear()
        game(mask[None])
        (body,) = server.bodies
        rows.append([(m["role"], m["content"]) for m in body["messages"]])
    return masks, rows


def test_messages_are_removed_from_the_list(server):
    masks, rows = sent_prompts(server, MESSAGES, "messages")
    pairs = [(message["role"], message["content"]) for message in MESSAGES]
    for mask, row in zip(masks, rows, strict=True):
        assert row == (list(itertools.compress(pairs, mask)) or [("user", "")])


def test_documents_are_removed_from_the_prompt(server):
    masks, rows = sent_prompts(server, QUESTION, "documents", documents=DOCUMENTS)
    for mask, [(role, content)] in zip(masks, rows, strict=True):
        assert role == "user"
        assert QUESTION in content
        assert [document in content for document in DOCUMENTS] == mask.tolist()


def test_sentences_are_removed_from_a_text_in_the_template(server):
    text, template = "Red moon. Blue sky. Cold mars.", "Read: {text} What is it?"
    model = wrap_model(server, template=template, agreement=lambda *_: 1.0)
    game = limelight.game(model, text, features="sentences", answer="a")
    server.bodies.clear()
    game(np.array([[True, False, True], [False, False, False]]))
    contents = {body["messages"][0]["content"] for body in server.bodies}
    assert contents == {"Read: Red moon. Cold mars. What is it?", "Read:  What is it?"}


def test_sentences_are_removed_from_messages(server):
    messages = [{"role": "user", "content": "Red moon. Blue sky."}, MESSAGES[-1]]
    masks, rows = sent_prompts(server, messages, "sentences")
    sentences = ["Red moon.", "Blue sky.", QUESTION]
    assert masks.shape[1] == 3
    for mask, row in zip(masks, rows, strict=True):
        text = " ".join(content for _, content in row)
        assert text == " ".join(itertools.compress(sentences, mask))


# --- servers that fail -------------------------------------------------------------------------

BUSY, BROKEN = (429, "slow down", {"Retry-After": "7"}), (500, "oops", {})


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        ([BROKEN] * 5, r"answers 500: oops, 5 times\.$"),
        ([(429, "tomorrow", {"Retry-After": "9000"})], r"requests a wait of 9,000 s \(answers 429"),
        ([(400, "maximum context length is 512", {})], r"maximum context .* The prompt has \d+ ch"),
        ([{"choices": [{"text": "Yes."}]}] * 5, "sends no completion, 5 times"),
        ([{"choices": [{"message": {"content": None}}]}] * 5, "sends no completion, 5 times"),
        (["drop"] * 5, r"does not answer \(.*\), 5 times"),
        ([(401, "no", {})], r"Name the environment variable that holds the key: key_variable"),
    ],
)
def test_a_failure_gives_one_message(http_server, slept, faults, sentence):
    http_server.faults = list(faults)
    with pytest.raises(InputError, match=sentence):
        wrap_model(http_server).generate(QUESTION)
    assert len(http_server.bodies) == len(faults)


def test_a_slow_server_and_one_that_is_down_give_one_message(http_server, slept):
    http_server.faults = ["slow"] * 5
    with pytest.raises(InputError, match=r"does not answer \(TimeoutError.*5 times"):
        wrap_model(http_server, timeout=0.05).generate(QUESTION)
    with chats(answer_at_random) as other:
        model = wrap_model(other)
    with pytest.raises(InputError, match=r"does not answer \(ConnectionRefusedError.*5 times"):
        model.generate(QUESTION)


def test_a_busy_server_gets_the_request_again(http_server, slept):
    http_server.faults = [BUSY, BROKEN]
    assert wrap_model(http_server).generate(QUESTION).text == "No."
    assert slept == [7.0, 1.0]
    assert http_server.bodies[0] == http_server.bodies[2]


def test_the_key_is_in_the_header_and_nowhere_else(http_server, slept, monkeypatch):
    monkeypatch.setenv("TINY_KEY", KEY)
    model = wrap_model(http_server, key_variable="TINY_KEY")
    e = explain(model, budget="60 calls")
    assert {header["Authorization"] for header in http_server.headers} == {f"Bearer {KEY}"}
    outputs = [repr(model), model.fingerprint, e.to_json(), e.to_html(), str(http_server.bodies)]
    outputs.append(pickle.dumps(model).decode("latin-1"))
    http_server.faults = [(401, f"Incorrect API key provided: {KEY}.", {})]
    with pytest.raises(InputError, match="Incorrect API key provided: …") as error:
        model.generate(QUESTION)
    assert not any(KEY in output for output in [*outputs, str(error.value)])


# --- other functions ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ig", "lrp", "context-cite", "owen", "anchors", "interactions"])
def test_other_methods_raise_an_error_that_names_the_mode(server, method):
    with pytest.raises(InputError, match=r"agreement="):
        explain(wrap_model(server), method)


def test_sentences_of_an_answer_raise_an_error_that_names_the_mode(server):
    with pytest.raises(InputError, match="agreement= compares complete answers"):
        limelight.explain_sentences(wrap_model(server), "Oslo", answer="Yes. It is.")


def test_methods_do_not_share_answers_when_they_are_compared(server):
    comparison = limelight.compare(
        wrap_model(server), QUESTION, documents=DOCUMENTS, budget="400 calls", answer="Yes."
    )
    assert [e.method for e in comparison] == ["banzhaf", "shapley", "lime", "loo"]
    assert all((e.stderr > 0).all() for e in comparison)
    assert 300 <= len(server.bodies) <= 405


def test_a_counterfactual_is_checked_with_new_answers(server):
    result = limelight.counterfactual(
        wrap_model(server), QUESTION, documents=DOCUMENTS, budget="300 calls", answer="Yes."
    )
    assert 2 in result.removed  # Clara works in Oslo.
    assert result.threshold == pytest.approx(result.prediction["answer"] / 2)
    assert len(server.bodies) - 5 <= 300
    # Means of five answers exclude no smaller set.
    assert result.lower_bound <= 1
    assert any("a smaller set may exist" in warning for warning in result.warnings)
    # Without this document, the mean of new answers is near the expected agreement.
    text = " ".join(d for i, d in enumerate(DOCUMENTS) if i not in result.removed)
    assert result.prediction_after["answer"] == pytest.approx(probability(text), abs=0.4)


def test_judging_runs_and_predictions_work(server, tmp_path):
    announced = []
    model = wrap_model(server, estimate=announced.append)
    texts = ["Clara works in Oslo. Dora has a dog. Red.", "Bergen. No."]
    judgment = limelight.judge(
        model, texts, ["banzhaf", "loo"], features="sentences", budget="60 calls"
    )
    assert len(judgment.methods) == 2
    assert len(announced) == 2  # texts
    assert 0.3 < sum(cost.calls for cost in announced) / len(server.bodies) < 3
    assert all("single random answers" in text.warnings[0] for text in judgment.texts)
    explain_data = partial(
        limelight.explain_data, features="sentences", budget="60 calls", progress=False
    )
    run = explain_data(model, texts, "banzhaf", output=tmp_path / "run")
    assert len(run) == 2
    with pytest.raises(InputError, match="model"):  # of another agreement
        explain_data(
            wrap_model(server, agreement="exact"), texts, "banzhaf", output=tmp_path / "run"
        )
    (row,) = limelight.predict(model, ["Oslo"])
    assert row["answer"] == "Yes."
    assert 0 <= row["agreement"] <= 1


def test_an_explanation_survives_json(server):
    e = explain(wrap_model(server), budget="60 calls")
    again = limelight.Explanation.from_json(e.to_json())
    assert again.query.agreement == "labels yes, no"
    assert again.query.output_name == "agreement"
    assert "log-prob" not in e.to_html()
