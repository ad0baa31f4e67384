"""Language models behind a server, against the log-probabilities that are known without it."""

import itertools
import pickle
import re
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import numpy as np
import pytest
from all_subsets import shapley_by_subsets
from completions import KEY, RIGHT, WRONG, NetworkLanguageModel, completions
from scipy.stats import spearmanr
from test_next_token import language_model

import limelight
from limelight import InputError
from limelight.models import endpoint
from limelight.text import AnswerQuery

CONTEXT = "the sky is blue . mars is red . the moon is cold . it is far . a moon is dark ."
UNITS = [f"{part.strip()} ." for part in CONTEXT.split(".")[:-1]]
TEMPLATE = "{text}\nanswer :"
ANSWER = "mars is red ."


@pytest.fixture
def server():
    with completions() as value:
        yield value


def wrap_model(server, **options):
    return limelight.wrap_endpoint(
        server.url, **{"model": "tiny", "template": TEMPLATE, "estimate": None} | options
    )


def outputs_from_calls(lm, answer=ANSWER, template=TEMPLATE):
    """All masks of the sentences, and log p of the answer after what is left of the text."""
    masks = np.array(list(itertools.product([False, True], repeat=len(UNITS))))
    keep = [" ".join(itertools.compress(UNITS, mask)) for mask in masks]
    values = [lm.log_probability(template.replace("{text}", text), " " + answer) for text in keep]
    return masks, np.array(values)


@pytest.mark.parametrize("method", ["shapley", "loo"])
def test_scores_of_sentences_are_those_of_all_subsets_by_direct_calls(server, method):
    e = limelight.explain(wrap_model(server), CONTEXT, method, features="sentences", answer=ANSWER)
    masks, values = outputs_from_calls(server.lm)
    expected = values[-1] - values[[len(masks) - 1 - 2 ** (4 - j) for j in range(5)]]
    if method == "shapley":
        expected = shapley_by_subsets(masks, values)
    np.testing.assert_allclose(e.scores, expected, atol=1e-9)
    assert len(e.scores) == 5
    assert all(body["model"] == "tiny" and body["temperature"] == 0 for body in server.bodies)


@pytest.mark.parametrize("shows", ["begins", "hides the first", "no offsets", "in halves"])
def test_the_tokens_of_an_answer_are_found_however_a_server_writes_them(shows):
    with completions(shows) as server:
        model = wrap_model(server)
        result = model.outputs([model.read(CONTEXT, queries=(AnswerQuery(ANSWER),))])
        prompt = TEMPLATE.replace("{text}", CONTEXT)
        expected = server.lm.log_probability(prompt, " " + ANSWER)
        assert result[0, 0] == pytest.approx(expected, abs=1e-9)


ASKING = ("shapley", "banzhaf", "lime", "loo", "context-cite", "interactions", "owen")


@pytest.mark.parametrize(
    ("text", "answer", "per_token"),
    [
        ("Good. Bad film. Superb.", "good. bad film.", True),
        (" Good. Bad film. Superb.\n", " a film", False),  # white space of their own
    ],
)
def test_a_server_and_the_same_model_in_memory_say_the_same(server, text, answer, per_token):
    network, tokenizer = language_model("gpt2")
    server.lm = NetworkLanguageModel(network, tokenizer)
    template = "So {text}\nthe"
    target = wrap_model(server, template=template, per_token=per_token)
    index = limelight.wrap(network, tokenizer=tokenizer, template=template, per_token=per_token)
    for method in ASKING:
        e, other = (limelight.explain(lm, text, method, answer=answer) for lm in (target, index))
        np.testing.assert_allclose(e.scores, other.scores, atol=1e-5, err_msg=method)
        assert e.query.length == other.query.length > 2
        assert e.query.to_dict() == other.query.to_dict()
        assert e.prediction["answer"] == pytest.approx(other.prediction["answer"], abs=1e-5)
    value = [limelight.explain_sentences(lm, text, "loo", answer=answer) for lm in (target, index)]
    for e, other in zip(*value, strict=True):
        np.testing.assert_allclose(e.scores, other.scores, atol=1e-5)


def test_a_server_that_counts_from_the_next_token_on_is_found_out():
    with completions("one too far") as server:
        with pytest.raises(InputError, match=r"with log-probability .*, but returns .* as vLLM"):
            limelight.explain(wrap_model(server), CONTEXT, "loo", answer=ANSWER)
        with pytest.raises(InputError, match=r", but returns .* for it in a prompt"):
            limelight.explain(wrap_model(server), CONTEXT, "loo")


def ask_about(server, *, given, sure, alternatives, says, shows="plain"):
    """Explain an answer on a server that says so, which is written by it or given."""
    server.says, server.shows, server.alternatives = says, shows, alternatives
    server.lm.sureness = 30.0 if sure else 1.0
    answer = {"answer": ANSWER} if given else {}
    return limelight.explain(wrap_model(server), CONTEXT, "loo", features="sentences", **answer)


@pytest.mark.parametrize("alternatives", [True, False])
@pytest.mark.parametrize("sure", [True, False])
@pytest.mark.parametrize("arguments", [True, False])
@pytest.mark.parametrize("says", WRONG)
def test_a_server_with_wrong_log_probabilities_raises_an_error(
    server, says, arguments, sure, alternatives
):
    if says == "another temperature in prompts" and sure and not alternatives:
        pytest.skip("what it writes has log-probability 0 at any temperature")
    with pytest.raises(InputError, match=r"the server at .* as vLLM"):
        ask_about(server, given=arguments, sure=sure, alternatives=alternatives, says=says)


@pytest.mark.parametrize("alternatives", [True, False])
@pytest.mark.parametrize("sure", [True, False])
@pytest.mark.parametrize("arguments", [True, False])
@pytest.mark.parametrize("says", RIGHT)
def test_a_server_that_rounds_raises_no_error(server, says, arguments, sure, alternatives):
    e = ask_about(server, given=arguments, sure=sure, alternatives=alternatives, says=says)
    assert len(e.scores) == 5


@pytest.mark.parametrize("shows", ["begins", "hides the first", "no offsets", "in halves"])
def test_a_server_that_writes_tokens_in_another_way_raises_no_error(server, shows):
    for arguments in (True, False):
        ask_about(
            server, given=arguments, sure=False, alternatives=True, says="the truth", shows=shows
        )


def test_what_the_server_writes_is_explained_and_is_the_same_when_it_is_given(server):
    model = wrap_model(server, max_new_tokens=1)
    content, reason = server.lm.greedy(TEMPLATE.replace("{text}", CONTEXT), 1)
    e = limelight.explain(model, CONTEXT, "loo", features="sentences")
    assert reason == "length"
    assert "cut after 1 token. " in " ".join(e.warnings)
    arguments = "".join(content).removeprefix(" ")
    again = limelight.explain(model, CONTEXT, "loo", features="sentences", answer=arguments)
    np.testing.assert_array_equal(e.scores, again.scores)
    assert model.generate(CONTEXT).text == arguments


def test_a_run_goes_on_only_where_the_server_stops_alike(server, tmp_path):
    def explained(**options):
        model = wrap_model(server, max_new_tokens=2, **options)
        path = tmp_path / "run"
        return limelight.explain_data(model, [CONTEXT], "loo", output=path, progress=False)

    assert explained().record.generation == {"max_new_tokens": 2, "stop": []}
    with pytest.raises(InputError, match=r"its stop is \[\], not \['\.'\]"):
        explained(stop=["."])


def test_parts_of_an_answer_add_up_to_it_and_per_token_is_their_mean(server):
    answer = AnswerQuery("mars is red . the sky is blue .")
    model, mean = wrap_model(server), wrap_model(server, per_token=True)
    (full,) = model.outputs([model.read(CONTEXT, queries=(answer,))])
    (parts,) = model.outputs([model.read(CONTEXT, queries=answer.sentences())])
    assert parts.sum() == pytest.approx(full[0], abs=1e-9)
    assert len(parts) == 2
    prompt = TEMPLATE.replace("{text}", CONTEXT)
    assert parts[0] == pytest.approx(server.lm.log_probability(prompt, " mars is red ."))
    (value,) = mean.outputs([mean.read(CONTEXT, queries=(answer,))])
    assert value[0] == pytest.approx(full[0] / len(server.lm.tokens(" " + answer.text)))
    assert mean.fingerprint != model.fingerprint


BUSY = (429, "slow down", {"Retry-After": "7"})
BROKEN = (500, "oops", {})


@pytest.mark.parametrize(
    ("faults", "waits"),
    [
        ([BUSY], [7.0]),
        ([BROKEN, BROKEN], [0.5, 1.0]),
        (["drop"], [0.5]),
        (["garbage", "drop", (503, "", {})], [0.5, 1.0, 2.0]),
    ],
)
def test_a_temporary_failure_is_repeated(server, slept, faults, waits):
    server.faults = list(faults)
    model = wrap_model(server)
    answer = model.generate(CONTEXT)
    assert slept == waits
    assert answer.text.strip()
    assert len(server.bodies) == len(faults) + 4  # written, read, and two improbable ones read


def test_a_date_to_wait_for_is_understood(server, slept):
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    server.faults = [(429, "slow down", {"Retry-After": until})]
    wrap_model(server).generate(CONTEXT)
    assert 55 < slept[0] <= 60


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        ([BROKEN] * 5, r"answers 500: oops, 5 times\.$"),
        ([(429, "tomorrow", {"Retry-After": "9000"})], r"requests a wait of 9,000 s \(answers 429"),
        ([(400, "maximum context length is 512", {})], "answers 400: maximum context length"),
        (["garbage"] * 5, r"sends no completion, 5 times"),
        (["drop"] * 5, r"does not answer \(.*\), 5 times"),
        ([(401, "no", {})], r"Name the environment variable that holds the key: key_variable"),
        ([(307, "", {"Location": "http://example.com/"})], "limelight does not follow redirects"),
    ],
)
def test_a_permanent_failure_raises_an_error(server, slept, faults, sentence):
    server.faults = list(faults)
    with pytest.raises(InputError, match=sentence):
        limelight.explain(wrap_model(server), CONTEXT, "loo")
    assert len(server.bodies) == len(faults)


def test_a_server_that_scores_no_prompts_raises_an_error_at_once(server, slept):
    server.faults = [None, (500, "Only no echo is supported", {})]  # as llama-server says it
    with pytest.raises(InputError, match=r"no echo is supported\. The server must return .* vLLM"):
        limelight.explain(wrap_model(server), CONTEXT, "loo")
    server.faults = ["no log-probabilities"]
    with pytest.raises(
        InputError, match="does not return the log-probability of each token of the answer"
    ):
        limelight.explain(wrap_model(server), CONTEXT, "loo", answer=ANSWER)
    assert slept == []


@pytest.mark.parametrize(
    "output",
    [
        {"logprobs": {"tokens": [1, None], "token_logprobs": ["a", {}], "text_offset": [None]}},
        {"logprobs": {"tokens": [], "token_logprobs": []}},
        {"logprobs": {"content": []}},  # as chats have it
        {"logprobs": 7},
        {},
    ],
)
def test_an_impossible_reply_raises_an_error(server, output):
    content = {"choices": [{"text": " mars", "logprobs": None}], "usage": 7}
    server.faults = [content, {"choices": [{"text": "", **output}], "usage": {}}]
    with pytest.raises(
        InputError, match="does not return the log-probability of each token of the answer"
    ):
        limelight.explain(wrap_model(server), CONTEXT, "loo")


def test_a_wrong_name_and_a_slow_server(server, slept):
    with pytest.raises(InputError, match="answers 404: The model `tinny` does not exist"):
        limelight.explain(wrap_model(server, model="tinny"), CONTEXT, "loo")
    server.faults = ["slow"] * 5
    with pytest.raises(InputError, match=r"does not answer \(TimeoutError.*5 times"):
        wrap_model(server, timeout=0.05).generate(CONTEXT)


def test_an_answer_that_shares_a_token_with_the_prompt_raises_an_error(server):
    model = wrap_model(server, template="{text} answer:")
    with pytest.raises(
        InputError, match=r"each token of the answer '\) mars', but the last tokens .* ':\)'"
    ):
        model.outputs([model.read("the sky", queries=(AnswerQuery(") mars"),))])


def test_the_key_is_in_the_header_and_nowhere_else(server, slept, monkeypatch):
    monkeypatch.setenv("TINY_KEY", KEY)
    model = wrap_model(server, key_variable="TINY_KEY")
    e = limelight.explain(model, CONTEXT, "loo", features="sentences")
    assert {header["Authorization"] for header in server.headers} == {f"Bearer {KEY}"}
    keep = [repr(model), str(vars(model)), model.fingerprint, e.to_json(), e.to_html()]
    keep += [str(body) for body in server.bodies] + server.paths
    keep.append(pickle.dumps(wrap_model(server, key_variable="TINY_KEY")).decode("latin-1"))
    server.faults = [(401, f"Incorrect API key provided: {KEY}.", {})]
    with pytest.raises(InputError, match="Incorrect API key provided: …") as refused:
        model.generate(CONTEXT)
    keep += [str(refused.value), repr(refused.value.__cause__)]
    assert not any(KEY in value for value in keep)
    monkeypatch.setenv("TINY_KEY", "two\nlines")
    with pytest.raises(InputError, match="TINY_KEY contains characters that no key has") as refused:
        model.generate(CONTEXT)
    assert "two" not in str(refused.value)
    monkeypatch.delenv("TINY_KEY")
    with pytest.raises(InputError, match="TINY_KEY is not set"):
        wrap_model(server, key_variable="TINY_KEY")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"estimate": 3}, "estimate must be a function or None, not 3\\."),
        ({"per_token": "no"}, "per_token must be True or False, not 'no'\\."),
        ({"stop": ["END", 1]}, "stop must be a list of strings"),
        ({"key_variable": 7}, "key_variable must be the name of an environment variable"),
    ],
)
def test_options_of_another_type_raise_an_error(server, options, sentence):
    model = wrap_model(server)
    for name, value in options.items():  # types are checked while tests run
        object.__setattr__(model, name, value)
    with pytest.raises(InputError, match=sentence):
        model.__post_init__()


@pytest.mark.parametrize("pasted", [KEY, "skverysecret4711"])
def test_a_key_in_the_place_of_its_variable_is_not_shown(server, pasted):
    with pytest.raises(InputError, match="the name of an environment variable") as refused:
        wrap_model(server, key_variable=pasted)
    assert str(pasted) not in str(refused.value)


def test_the_tokens_of_an_answer_do_not_depend_on_what_is_left_of_the_text(server):
    text = "the moon is dark . mars is red [1]"
    model = wrap_model(server, template="a {text}")
    e = limelight.explain(model, text, "loo", features="sentences", answer="red .")
    keep = [text, "mars is red [1]", "the moon is dark ."]
    full, *without = [server.lm.log_probability(f"a {value}", " red .") for value in keep]
    np.testing.assert_allclose(e.scores, [full - element for element in without], atol=1e-9)
    echoed = [body["prompt"] for body in server.bodies if body.get("echo")]
    assert f"a {text} red ." in echoed


def test_a_template_without_words_needs_a_server_that_scores_the_first_token():
    for shows in ("plain", "hides the first"):
        with completions(shows) as server:
            model = wrap_model(server, template="{text}")
            with pytest.raises(InputError, match=r"Put words into the template before \{text"):
                limelight.explain(model, CONTEXT, "shapley", features="sentences", answer=ANSWER)
    with completions("begins") as server:
        model = wrap_model(server, template="{text}")
        e = limelight.explain(model, CONTEXT, "shapley", features="sentences", answer=ANSWER)
        masks, values = outputs_from_calls(server.lm, template="{text}")
        np.testing.assert_allclose(e.scores, shapley_by_subsets(masks, values), atol=1e-9)


def test_the_message_names_numbers_that_are_missing_or_not_finite(server):
    prompt = TEMPLATE.replace("{text}", CONTEXT)
    content = server.completion({"prompt": prompt, "max_tokens": 1})
    content["choices"][0]["logprobs"]["token_logprobs"] = [None]
    server.faults = [content]
    with pytest.raises(InputError, match=r"writes '.*' with log-probability none, .*\. The s"):
        limelight.explain(wrap_model(server), CONTEXT, "loo")
    for log in (float("-inf"), float("nan")):
        echoed = server.completion({"prompt": f"{prompt} {ANSWER}", "max_tokens": 1, "echo": True})
        logs = echoed["choices"][0]["logprobs"]["token_logprobs"]
        echoed["choices"][0]["logprobs"]["token_logprobs"] = [*logs[:-2], log, logs[-1]]
        server.faults = [echoed]
        with pytest.raises(InputError, match=rf"the logarithm {log} for ' \.', which is not fin"):
            limelight.explain(wrap_model(server), CONTEXT, "loo", answer=ANSWER)


def test_a_redirect_is_not_followed(server, monkeypatch):
    monkeypatch.setenv("TINY_KEY", KEY)
    with completions() as other:
        server.faults = [(308, "", {"Location": f"{other.url}/completions"})]
        with pytest.raises(InputError, match="Give the address to which it leads"):
            wrap_model(server, key_variable="TINY_KEY").generate(CONTEXT)
        assert other.bodies == []


@pytest.mark.parametrize(
    "url",
    [
        f"http://me:{KEY}@localhost/v1",
        f"http://localhost/v1?key={KEY}",
        f"ftp://{KEY}",
        f"http://localhost:{KEY}/v1",
        f"http://localhost/v1#{KEY}",
        KEY,
    ],
)
def test_an_address_with_a_secret_raises_an_error_without_the_secret(url):
    with pytest.raises(InputError, match="url must be") as refused:
        limelight.wrap_endpoint(url, model="tiny", template="{text}")
    assert KEY not in str(refused.value)


def test_addresses_lead_to_the_completions():
    def address(url):
        return limelight.wrap_endpoint(url, model="tiny", template="{text}").url

    expected = "https://host:8/v1/completions"
    for url in ("https://host:8", "https://host:8/v1/", "https://host:8/v1/completions"):
        assert address(url) == expected
    assert address("https://host/api/v2") == "https://host/api/v2/completions"
    with pytest.raises(InputError, match="chat interfaces do not return"):
        address("https://host/v1/chat/completions")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"template": "no place"}, "template must be a string that contains {text} once"),
        ({"model": " "}, "model must be the name of a model"),
        ({"parallel": 0}, "parallel must be a positive whole number, not 0"),
        ({"max_new_tokens": True}, "max_new_tokens must be a positive whole number, not True"),
        ({"requests_per_minute": 0}, "requests_per_minute must be a positive number"),
        ({"timeout": -1.0}, "timeout must be a positive number"),
        ({"timeout": True}, "timeout must be a positive number"),
        ({"stop": "END"}, "stop must be a list of strings, not 'END'\\."),
    ],
)
def test_impossible_options_raise_an_error(server, options, sentence):
    with pytest.raises(InputError, match=sentence):
        wrap_model(server, **options)
    assert server.bodies == []


def test_requests_are_spread_over_the_minute(server, slept, monkeypatch):
    monkeypatch.setattr(endpoint, "_now", lambda: sum(slept))
    model = wrap_model(server, requests_per_minute=30, parallel=1)
    model.outputs([model.read(CONTEXT, queries=(AnswerQuery(ANSWER),))] * 2)
    assert len(server.bodies) == 5  # equal texts are asked once; the others see whether it is right
    assert slept == pytest.approx([2.0, 2.0, 2.0, 2.0])


def test_requests_are_under_way_together(server):
    model = wrap_model(server, parallel=3)
    values = [
        model.read(f"{CONTEXT} {word}", queries=(AnswerQuery(ANSWER),))
        for word in ("a", "it", "is")
    ]
    first = model.outputs(values)  # known from reading, and asked for no more than once
    server.meeting = threading.Barrier(3)
    np.testing.assert_array_equal(model.outputs(values), first)
    assert not server.meeting.broken


def test_the_cost_is_announced_before_the_calls(server):
    output = []
    model = wrap_model(server, estimate=lambda cost: output.append((cost, len(server.bodies))))
    limelight.explain(model, CONTEXT, "shapley", features="sentences", answer=ANSWER)
    ((cost, before),) = output
    assert before <= 5
    assert cost.calls >= len(server.bodies) - before >= 28
    longest = max(len(server.lm.tokens(body["prompt"])) + 1 for body in server.bodies)
    assert cost.tokens == cost.calls * longest
    assert str(cost).startswith(f"About {cost.calls:,} calls of tiny, ")


def test_methods_are_compared_and_judged_on_a_server(server):
    model = wrap_model(server)
    comparison = limelight.compare(model, CONTEXT, methods=["shapley", "loo"], features="sentences")
    assert comparison["loo"].scores.shape == (5,)
    answer = model.generate(CONTEXT).text
    masks, values = outputs_from_calls(server.lm, answer)
    judgment = limelight.judge(model, [CONTEXT], ["shapley", "loo"], features="sentences")
    scores = shapley_by_subsets(masks, values)
    lds = spearmanr(masks @ scores, values).statistic
    assert judgment["shapley"]["lds"].value == pytest.approx(lds, abs=1e-9)
    best = np.argsort(-scores)[:3]
    without = ~np.isin(np.arange(5), best)
    remaining = values[np.flatnonzero((masks == without).all(axis=1))[0]]
    assert judgment["shapley"]["top_3_drop"].value == pytest.approx(
        values[-1] - remaining, abs=1e-9
    )


def test_a_served_page_shows_what_explain_says(server):
    pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
    from limelight.serving.app import ServedModel, model_facts
    from limelight.serving.texts import TextRequest, explain_text

    model = wrap_model(server)
    assert model_facts(ServedModel(name="tiny", model=model))["default_methods"] == ["banzhaf"]
    request = TextRequest(tab="t", panel="p", text=CONTEXT, methods=["loo"], answer=ANSWER)
    decoded = msgspec.json.decode(
        msgspec.json.encode(explain_text(model, request, lambda *_: None))
    )
    e = limelight.Explanation.from_json(msgspec.json.encode(decoded["explanations"][0]))
    assert e == limelight.explain(model, CONTEXT, "loo", answer=ANSWER)
    assert decoded["prediction"]["value"] == pytest.approx(e.prediction["answer"])


def test_the_shell_takes_an_endpoint(server, monkeypatch, request):
    run = request.getfixturevalue("limelight")
    at = ("--endpoint", server.url, "--template", TEMPLATE)
    done = run("explain", *at, "--model", "tiny", "-m", "loo", "--format", "json", CONTEXT)
    e = limelight.Explanation.from_json(done.out)
    np.testing.assert_allclose(
        e.scores, limelight.explain(wrap_model(server), CONTEXT, "loo").scores
    )
    refused = run("explain", *at, CONTEXT)
    assert refused.code == 2
    assert "--endpoint needs --model NAME and --template TEXT" in refused.err
    refused = run("explain", *at, "--model", "tinny", CONTEXT)
    assert (refused.code, "The model `tinny` does not exist" in refused.err) == (2, True)
    assert run("explain", "--key-variable", "X", CONTEXT).code == 2
    refused = run("explain", *at, "--model", "tiny", "--device", "cpu", CONTEXT)
    advice = "Leave --labels, --device and --background out"
    assert (refused.code, advice in refused.err) == (2, True)


def test_the_shell_judges_the_answers_of_a_column(server, request, tmp_path):
    file = tmp_path / "asked.csv"
    file.write_text(f"text,said\n{CONTEXT},{ANSWER}\n{CONTEXT},\n", "utf-8")
    at = ("--endpoint", server.url, "--template", TEMPLATE, "--model", "tiny", "--data", str(file))
    done = request.getfixturevalue("limelight")(
        "judge", *at, "-m", "loo,shapley", "--answer-column", "said", "--format", "json"
    )
    result = limelight.Judgment.from_json(done.out)
    expected = limelight.judge(
        wrap_model(server), [CONTEXT] * 2, ["loo", "shapley"], answer=[ANSWER, None]
    )
    for text, other in zip(result.texts, expected.texts, strict=True):  # an empty cell is no answer
        assert text.deletion.areas == other.deletion.areas
    assert result.texts[0].deletion.areas != result.texts[1].deletion.areas


def test_a_server_that_ignores_the_text_gives_a_warning(server):
    prompt = TEMPLATE.replace("{text}", CONTEXT)
    full = server.completion

    def forgetful(body):
        """Answer about the same text whatever text came."""
        _, _, after = body["prompt"].rpartition("\nanswer :")
        return full(body | {"prompt": prompt + after})

    server.completion = forgetful
    e = limelight.explain(wrap_model(server), CONTEXT, "loo", features="sentences", answer=ANSWER)
    assert (e.scores == 0).all()
    assert (
        sum(
            "log-probability of the answer is the same for every masked text" in n
            for n in e.warnings
        )
        == 1
    )
    server.completion = full
    e = limelight.explain(wrap_model(server), CONTEXT, "loo", features="sentences", answer=ANSWER)
    assert not any("every masked text" in warning for warning in e.warnings)


@pytest.mark.parametrize(
    "options",
    [{"methods": ["shapley", "loo"]}, {}, {"methods": ["shapley", "loo"], "budget": "60 calls"}],
)
def test_a_comparison_announces_the_calls_that_it_makes(server, options):
    output = []
    model = wrap_model(
        server, estimate=lambda cost: output.append((cost.calls, len(server.bodies)))
    )
    limelight.compare(model, CONTEXT, features="sentences", **options)
    ((calls, before),) = output
    assert calls == len(server.bodies) - before == 2**5


def test_a_missing_template_raises_an_error(server):
    with pytest.raises(InputError, match=r"needs a template .* such as template='(.*)'") as refused:
        limelight.wrap_endpoint(server.url, model="tiny")
    template = refused.value.args[0].partition("template='")[2].partition("'")[0]
    assert "{text}" in limelight.wrap_endpoint(server.url, model="tiny", template=template).template


HUGE = int("9" * 400)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"token_logprobs": HUGE}, "the log-probability over a million for"),
        ({"token_logprobs": -HUGE}, "the logarithm -inf for"),
        ({"text_offset": HUGE}, "does not return the log-probability of each token"),
        ({"text_offset": -HUGE}, "does not return the log-probability of each token"),
        ({"completion_tokens": HUGE}, "reports that it wrote over a million of them"),
        ({"completion_tokens": -HUGE}, "reports that it wrote under minus a million of them"),
        ({"completion_tokens": -1}, "reports that it wrote -1 of them"),
        ({"completion_tokens": 1000}, "reports that it wrote 1,000 of them"),
        ({"prompt_tokens": -HUGE}, None),  # which nobody uses
    ],
)
def test_impossible_numbers_of_a_server_raise_an_error(server, changed, sentence):
    full = server.completion

    def wrong(body):
        result = full(body)
        logprobs = result["choices"][0]["logprobs"]
        for name, number in changed.items():
            if name in logprobs and body.get("echo"):
                logprobs[name][-3] = number
            elif name in result["usage"]:
                result["usage"][name] = number
        return result

    server.completion = wrong
    if sentence is None:
        limelight.explain(wrap_model(server), CONTEXT, "loo", answer=ANSWER)
        return
    with pytest.raises(InputError, match=sentence) as refused:
        limelight.explain(wrap_model(server), CONTEXT, "loo", answer=ANSWER)
    assert len(str(refused.value)) < 500


def test_an_endless_wait_raises_an_error(server, slept):
    for header in ("9" * 300, "9" * 400, "Mon, 01 Jan 999999 00:00:00 GMT", "²", "-5"):
        server.faults = [(429, "no", {"Retry-After": header.encode().decode("latin-1")})]
        if header.startswith("9"):
            with pytest.raises(InputError, match="requests a wait of over a million s"):
                wrap_model(server).generate(CONTEXT)
        else:
            assert wrap_model(server).generate(CONTEXT).text.strip()
    assert all(seconds <= 120 for seconds in slept)


@pytest.mark.parametrize("part", ["status", "headers", "body"])
def test_a_server_that_drips_is_given_up_when_the_time_is_over(server, monkeypatch, part):
    alarms, given_up = [], threading.Event()

    class Alarm:
        """A timer that goes off when the server calls it."""

        def __init__(self, seconds, function):
            self.seconds, self.ring = seconds, function
            alarms.append(self)

        def start(self):
            pass

        cancel = start

    monkeypatch.setattr(endpoint, "_Timer", Alarm)
    monkeypatch.setattr(endpoint, "_ATTEMPTS", 1)
    model = wrap_model(server, timeout=30)
    server.drips, server.pause = part, lambda: None
    assert model.generate(CONTEXT).text.strip()  # a pause alone does no harm
    in_time, ended = [], threading.Event()

    def pause():
        alarms[-1].ring()
        in_time.append(given_up.wait(20))  # for as long as bytes come, nothing else would end it
        ended.set()

    server.pause = pause
    with pytest.raises(InputError, match=r"TimeoutError: no whole answer within 30 s\), 1 times"):
        model.generate(CONTEXT)
    given_up.set()
    assert alarms[-1].seconds == 30
    assert ended.wait(20)
    assert in_time == [True]


LONG = "x\x1b[31m\u202e" + "y" * 5000


@pytest.mark.parametrize(
    "fault",
    [
        (400, f"{KEY}{LONG}{KEY}", {}),
        (400, "y" * 60 + KEY * 200, {}),
        f"{KEY}{LONG}".encode(),  # no JSON
        ("status", f"{LONG} {KEY}"),
        ("tokens", f" {KEY}{LONG}"),
        ("tokens", f"{LONG}{KEY}"),
        ("finite", f" {KEY}{LONG}"),
        ("positive", f" {KEY}{LONG}"),
        ("alternative", f" {KEY}{LONG}"),
    ],
)
def test_messages_show_little_of_what_a_server_sent_and_never_a_key(
    server, slept, monkeypatch, fault
):
    monkeypatch.setenv("TINY_KEY", KEY)
    full = server.completion
    match fault:
        case ("status", line):
            server.status_line = line
        case (str(kind), token):

            def wrong(body):
                result = full(body)
                logprobs = result["choices"][0]["logprobs"]
                if kind == "alternative" and "top_logprobs" in logprobs:
                    logprobs["top_logprobs"][0] = {token: -0.1, " mars": -5.0}
                elif kind in ("finite", "positive") and body.get("echo"):
                    answer = body["prompt"].rpartition("answer :")[2]
                    log = {"finite": float("-inf"), "positive": 3.0}[kind]
                    logprobs |= {
                        "tokens": [*body["prompt"].removesuffix(answer), answer, "x"],
                        "token_logprobs": [
                            *[-1.0] * len(body["prompt"].removesuffix(answer)),
                            log,
                            -1,
                        ],
                        "text_offset": None,
                    }
                elif kind == "tokens" and body.get("echo"):
                    logprobs["tokens"][-2] = token
                return result

            server.completion = wrong
        case _:
            server.faults = [fault] * 5
    model = wrap_model(server, key_variable="TINY_KEY")
    with pytest.raises(InputError) as refused:
        model.outputs([model.read(CONTEXT, queries=(AnswerQuery(ANSWER),))])
    for output in (str(refused.value), str(refused.value.__cause__)):
        assert KEY not in output
        assert KEY[:12] not in output
        assert output.isprintable()
        assert max(map(len, re.findall("y+", output)), default=0) <= 80
        assert len(output) < 520
