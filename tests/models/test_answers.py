"""What a language model writes after a text, explained by its log-probability."""

import re
from functools import cache
from itertools import permutations, product
from math import comb, factorial

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler
from test_lrp import Tape, on_tape
from test_next_token import CHAT, TEMPLATE, language_model, prompt_ids
from transformers import (
    GPTNeoConfig,
    GPTNeoForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import limelight
from limelight.errors import InputError
from limelight.explainers import METHODS
from limelight.explainers.batch import read_batch
from limelight.models import has
from limelight.models.hugging_face.forward import network_input
from limelight.request import Request, prepare_model
from limelight.sampling.masks import draw_coin_masks, text_rng
from limelight.sampling.regression import fit_cross_validated_lasso
from limelight.text import AnswerQuery, QueriedText

from tiny_transformers import word_pieces

TEXT = "A superb film. The plot is bad. Good film."
ANSWER = "good . bad film ."
FAMILIES = ("llama", "gpt2", "t5")
# Two paragraphs of three and four sentences, which the smallest of the models reads whole.
SEVEN = "Good. Bad film. Superb.\n\nThe plot. Bad. A film. Good plot."
PARAGRAPHS = ((0, 1, 2), (3, 4, 5, 6))
SHORT = {"template": "the {text} is"}


def encoder_decoder():
    """Return a random T5 with 2 layers and 3 heads, and its tokenizer."""
    torch.manual_seed(3)
    tokenizer = word_pieces()
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=12,
        d_kv=4,
        d_ff=17,
        num_layers=2,
        num_heads=3,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config).eval(), tokenizer


@cache
def writer(family="llama", template=TEMPLATE, **options):
    """Shared: wrapping checks a network, and a test that changes it puts it back."""
    network, tokenizer = encoder_decoder() if family == "t5" else language_model(family)
    return limelight.wrap(network, tokenizer=tokenizer, template=template, **options)


def reference_outputs(model, prompt, answer):
    """Oracle: log p of every token of ``answer`` after the ids of a prompt, by transformers."""
    network = model.network.language_model
    with torch.no_grad():
        if model.network.has_encoder:
            start = [network.config.decoder_start_token_id, *answer[:-1]]
            out = network(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([start]))
            logits = out.logits[0]
        else:
            logits = network(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
    chances = torch.log_softmax(logits.double(), -1)
    return chances[torch.arange(len(answer)), torch.tensor(answer)].numpy()


def token_ids(model, text=TEXT, answer=ANSWER):
    """Return the ids of the prompt, those of each sentence's pieces in it, and of the answer."""
    model_input = model.read(text, queries=(AnswerQuery(answer),))
    pieces = model_input.encoding
    read, count = pieces.read_indices, int((pieces.mark > 0).sum())
    prompt, answer = read[:-count], read[-count:]
    return pieces.ids[prompt], pieces.token[prompt], model_input.tokens.spans, pieces.ids[answer]


def unit_indices(model, text=TEXT, answer=ANSWER):
    """Oracle: the sentence to which each piece of the prompt belongs, -1 for the template."""
    _, token, spans, _ = token_ids(model, text, answer)
    starts = [result.end() for result in re.finditer(r"\.\s+", text)]
    return [sum(spans[t][0] >= start for start in starts) if t >= 0 else -1 for t in token]


def subsets(model, text=TEXT, answer=ANSWER):
    """Oracle: the log-probability under all masks of sentences, each by a call of its own."""
    ids, *_, content = token_ids(model, text, answer)
    unit, values = unit_indices(model, text, answer), {}
    for keep in product([False, True], repeat=max(unit) + 1):
        remaining = [i for i, u in zip(ids, unit, strict=True) if u < 0 or keep[u]]
        values[keep] = float(reference_outputs(model, remaining, content.tolist()).sum())
    return values


@cache
def all_ablations(family):
    """Return a model and its log-probability under all 128 masks of seven sentences."""
    model = writer(family, **SHORT)
    return model, subsets(model, SEVEN)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_game_is_the_log_probability_after_every_ablated_prompt(family):
    model, reference = all_ablations(family)
    assert model.classes == ("answer",)
    assert model.link == "none"
    game = limelight.game(model, SEVEN, answer=ANSWER)
    masks = np.array(list(reference))
    assert masks.shape == (128, 7)
    np.testing.assert_allclose(game(masks)[:, 0], list(reference.values()), rtol=1e-4, atol=1e-4)
    assert np.ptp(list(reference.values())) > 0.01  # else a game that ignores its masks would pass


def test_the_prompt_is_what_the_template_says():
    model = writer()
    ids, *_, answer = token_ids(model, "a superb film .")
    tokenizer = model.tokenizer.tokenizer
    assert ids.tolist() == prompt_ids(tokenizer, TEMPLATE, "a superb film .")
    assert answer.tolist() == tokenizer(ANSWER, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("family", FAMILIES)
def test_sentences_are_given_what_came_before_and_add_up(family):
    model = writer(family)
    answer = AnswerQuery("Good film. The plot is bad. Bad.")
    sentences = answer.sentences()
    assert [sentence.part for sentence in sentences] == ["Good film.", "The plot is bad.", "Bad."]
    model_input = model.read(TEXT, queries=sentences)
    result = model.outputs([model_input])
    assert result.shape == (1, 3)
    ids, *_, content = token_ids(model, answer=answer.text)
    value = reference_outputs(model, ids.tolist(), content.tolist())
    np.testing.assert_allclose(result.sum(), value.sum(), rtol=1e-5)
    first = int((model_input.encoding.mark == 2).sum())
    np.testing.assert_allclose(result[0, 0], value[:first].sum(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_answer_is_what_the_model_writes_token_by_token(family):
    model = writer(family, max_new_tokens=5)
    answer = model.generate(TEXT)
    pieces = model.read(TEXT).encoding
    ids = pieces.ids[pieces.read_indices].tolist()
    network, ends = model.network.language_model, {model.network.config.eos_token_id}
    new = []
    while len(new) < 5:
        with torch.no_grad():
            if model.network.has_encoder:
                out = network(torch.tensor([ids]), decoder_input_ids=torch.tensor([[0, *new]]))
            else:
                out = network(torch.tensor([[*ids, *new]]))
        new.append(int(out.logits[0, -1].argmax()))
        if new[-1] in ends:
            break
    own_value = model.tokenizer.decode(new, skip_special_tokens=True)
    assert answer.text.strip() == own_value.strip().rstrip("\ufffd")  # a character that was cut
    assert answer.is_generated
    explanation = limelight.explain(model, TEXT)
    assert explanation.query == answer
    assert explanation.target == "answer"
    again = limelight.explain(model, TEXT, answer=answer.text)
    np.testing.assert_array_equal(explanation.scores, again.scores)


@pytest.mark.parametrize(
    ("family", "template"),
    [
        ("llama", "the plot is predictable but the film is good : {text} it is"),
        ("gpt2", "the film is good: {text} the"),
    ],
)
def test_what_rows_share_is_computed_once_and_changes_nothing(family, template):
    model = writer(family, template=template)
    head = model.network
    assert head.shares_prefix
    game = limelight.game(model, TEXT, answer=ANSWER)
    masks = np.array(list(product([False, True], repeat=3)))
    calls = []
    forward = head.language_model.forward

    def count_call(**given):
        calls.append(given["input_ids"].shape)
        return forward(**given)

    head.language_model.forward = count_call
    head._prefix = (None, None)  # which the whole text has left behind
    try:
        shared = game(masks)
    finally:
        head.language_model.forward = forward
    head.shares_prefix = False
    single = limelight.game(model, TEXT, answer=ANSWER)(masks)
    np.testing.assert_allclose(shared, single, rtol=1e-4, atol=1e-4)
    assert any(n == 1 and width >= 8 for n, width in calls)  # the beginning, once
    assert any(n > 1 for n, _ in calls)


@pytest.mark.parametrize("family", ["mistral", "gpt_neo"])
def test_a_window_of_attention_holds_no_padding(family):
    size = {"vocab_size": len(word_pieces()), "hidden_size": 12, "initializer_range": 0.7}
    heads = {"num_attention_heads": 3, "num_key_value_heads": 3, "num_hidden_layers": 2}
    torch.manual_seed(3)
    network = {
        "mistral": lambda: MistralForCausalLM(
            MistralConfig(intermediate_size=17, sliding_window=32, **heads, **size)
        ),
        "gpt_neo": lambda: GPTNeoForCausalLM(
            GPTNeoConfig(
                num_layers=2,
                attention_types=[[["global", "local"], 1]],
                num_heads=3,
                window_size=32,
                **size,
            )
        ),
    }[family]()
    template = "the plot is predictable but the film is good : {text} it is"
    model = limelight.wrap(network.eval(), tokenizer=word_pieces(), template=template)
    texts = ["The plot is bad and the film is good. A superb film. " * n for n in (3, 4)]
    ids = [token_ids(model, text) for text in texts]
    reference = [
        reference_outputs(model, value[0].tolist(), value[-1].tolist()).sum() for value in ids
    ]
    rows = np.full((2, len(ids[1][0]) + len(ids[1][-1])), -1)  # the shorter one is padded
    for row, (prompt, *_, answer) in zip(rows, ids, strict=True):
        row[: len(prompt) + len(answer)] = [*prompt, *(answer + (2 << 40))]
    with torch.inference_mode():
        result = model.network(**network_input(model.network, rows)).logits[:, 0]
    np.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-4)


def test_angles_that_depend_on_the_length_of_a_row_are_not_shared():
    factors = {"short_factor": [1.0, 1.0], "long_factor": [3.0, 5.0], "factor": 3.0}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 29}
    size = {"vocab_size": len(word_pieces()), "hidden_size": 12, "initializer_range": 0.7}
    heads = {"num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 17}
    torch.manual_seed(3)
    config = LlamaConfig(
        max_position_embeddings=87, rope_parameters=rope | factors, **size, **heads
    )
    template = "the plot is predictable but the film is good : {text} it is"
    network = LlamaForCausalLM(config).eval()
    model = limelight.wrap(network, tokenizer=word_pieces(), template=template)
    prompt, _, _, answer = token_ids(model)
    assert (
        len(prompt) - 1 < 29 < len(prompt) + len(answer)
    )  # the rows are long, their beginning not
    prompts = [[*prompt[:-1], last] for last in (6, 7)]
    rows = np.array([[*value, *(answer + (2 << 40))] for value in prompts])
    with torch.inference_mode():
        result = model.network(**network_input(model.network, rows)).logits[:, 0]
    reference = [reference_outputs(model, element, answer.tolist()).sum() for element in prompts]
    np.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-4)


def test_per_token_is_the_mean():
    model, mean = writer(), writer(per_token=True)
    count = len(token_ids(model)[-1])
    value, other = (limelight.explain(m, TEXT, answer=ANSWER) for m in (model, mean))
    np.testing.assert_allclose(value.scores / count, other.scores, rtol=1e-4, atol=1e-6)
    assert model.fingerprint != mean.fingerprint
    again = limelight.Explanation.from_json(other.to_json())
    for e, message in ((value, False), (other, True), (again, True)):  # wherever it is shown
        assert e.query.per_token == message
        assert ("mean log-probability per token" in e.as_html()) == message


def test_a_prompt_of_nothing_begins_with_a_token_of_its_own():
    model = writer("gpt2", template="{text}")
    game = limelight.game(model, "film good", features="words", answer="the film")
    *_, answer = token_ids(model, "film good", "the film")
    begin = model.tokenizer.bos_token_id
    begin = model.network.config.bos_token_id if begin is None else begin
    wanted = reference_outputs(model, [begin], answer.tolist()).sum()
    np.testing.assert_allclose(game(np.zeros((1, 2), bool))[0, 0], wanted, rtol=1e-5)


def test_a_result_keeps_the_answer():
    model = writer()
    explanation = limelight.explain(model, TEXT, answer=ANSWER)
    again = type(explanation).from_json(explanation.to_json())
    assert again == explanation
    assert again.query == AnswerQuery(ANSWER)
    sentence = AnswerQuery("Good film. Bad.", 11, 15, is_generated=True)
    assert sentence.to_dict() == {"answer": "Good film. Bad.", "span": [11, 15], "written": True}
    assert has(model, "generation")
    model_input = model.read(TEXT, queries=(AnswerQuery(ANSWER),))
    assert model_input.queried_text == QueriedText(TEXT, (AnswerQuery(ANSWER),))


def test_a_chat_is_written_out_by_its_template():
    network, tokenizer = language_model()
    tokenizer.chat_template = CHAT
    messages = [{"role": "the", "content": "film : {text}"}]
    model = limelight.wrap(network, tokenizer=tokenizer, template=messages)
    assert limelight.explain(model, TEXT, answer="good").prediction.keys() == {"answer"}


def unit_gains(orders, known, d):
    """Return what each unit adds when it joins those before it, the mean over ``orders``."""
    result = np.zeros(d)
    for order in orders:
        keep = [False] * d
        for j in order:
            before = known[tuple(keep)]
            keep[j] = True
            result[j] += known[tuple(keep)] - before
    return result / len(orders)


def all_subset_values(known):
    """Oracle: the values of seven sentences by their definitions, from all 128 ablations."""
    masks, f = np.array(list(known)), np.array(list(known.values()))
    d, size = masks.shape[1], masks.sum(axis=1)
    shapley, banzhaf, loo = np.zeros((3, d))
    for j in range(d):
        without = ~masks[:, j]
        joined = masks[without] | (np.arange(d) == j)
        gain = np.array([known[tuple(row)] for row in joined.tolist()]) - f[without]
        s = size[without]
        weight = np.array([factorial(k) * factorial(d - k - 1) / factorial(d) for k in s])
        shapley[j], banzhaf[j], loo[j] = gain @ weight, gain.mean(), gain[s == d - 1][0]
    # Removed sentences are 1 to d alike, and a text weighs exp(-(1 - cosine)² / 2ν²).
    removed = d - size
    weight = np.exp(-((1 - np.sqrt(1 - removed / d)) ** 2) / (2 * 0.25**2))
    weight = np.where(removed > 0, weight / [comb(d, k) for k in removed], 0)
    x, root = np.column_stack([np.ones(len(f)), masks]), np.sqrt(weight)
    lime = np.linalg.lstsq(root[:, None] * x, root * f, rcond=None)[0][1:]
    inner = [list(permutations(value)) for value in PARAGRAPHS]
    together = [first + second for first, second in product(*inner)]
    together += [second + first for first, second in product(*inner)]
    owen = unit_gains(together, known, d)
    return {"shapley": shapley, "lime": lime, "banzhaf": banzhaf, "loo": loo, "owen": owen}


@pytest.mark.parametrize("family", FAMILIES)
def test_values_by_asking_are_those_of_all_ablations(family):
    model, reference = all_ablations(family)
    wanted = all_subset_values(reference)
    for method, values in wanted.items():
        settings = {"within": "paragraphs"} if method == "owen" else {}
        explanation = limelight.explain(model, SEVEN, method, answer=ANSWER, **settings)
        np.testing.assert_allclose(explanation.scores, values, rtol=1e-3, atol=2e-4)
        assert explanation.feature_kind == "sentences"
        assert explanation.stderr is None
    assert np.abs(wanted["owen"] - wanted["shapley"]).max() > 1e-3  # else one passed for the other


def test_two_standard_errors_hold_the_limit_of_what_was_sampled():
    model, reference = all_ablations("llama")
    log_odds = np.array(list(reference.values()))
    log_odds -= np.log(-np.expm1(log_odds))
    scaler = StandardScaler()
    z = scaler.fit_transform(np.array(list(reference), float))
    count = len(token_ids(model, SEVEN)[-1])
    lasso = Lasso(alpha=0.01 * count, tol=1e-12).fit(z, log_odds)
    limits = {
        "shapley": all_subset_values(reference)["shapley"],
        "context-cite": lasso.coef_ / scaler.scale_,
    }
    for method, limit in limits.items():
        seeds = [{"seed": seed, "budget": "66 calls"} for seed in range(40)]
        results = [
            limelight.explain(model, SEVEN, method, answer=ANSWER, **value) for value in seeds
        ]
        off = np.abs([e.scores - limit for e in results])
        assert np.mean(off <= 2 * np.array([e.stderr for e in results]) + 1e-4) >= 0.93
        assert off.max() > 0.01  # they are sampled


def test_gradients_and_relevance_are_those_of_autograd():
    model = writer()
    network = model.network.language_model
    ids, *_, answer = token_ids(model)
    row = torch.tensor([[*ids, *answer]])
    embedded = network.get_input_embeddings()(row).detach().requires_grad_()
    logits = network(inputs_embeds=embedded).logits[0, len(ids) - 1 : -1]
    chance = torch.log_softmax(logits, -1)[torch.arange(len(answer)), row[0, len(ids) :]].sum()
    (gradient,) = torch.autograd.grad(chance, embedded)
    products = (gradient * embedded).sum(-1)[0].detach().numpy()
    unit = np.array(unit_indices(model))
    wanted = [products[: len(unit)][unit == j].sum() for j in range(3)]
    explanation = limelight.explain(model, TEXT, "gxi", answer=ANSWER)
    np.testing.assert_allclose(explanation.scores, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_relevance_is_what_a_sentence_adds_when_every_weight_is_replayed(family, monkeypatch):
    """With its weights frozen the network is affine: f − f with a sentence's embeddings at 0."""
    (network, tokenizer), (own_value, _) = (
        encoder_decoder() if family == "t5" else language_model(family) for _ in range(2)
    )
    model = limelight.wrap(network.double(), tokenizer=tokenizer, **SHORT)
    own_value.double().set_attn_implementation("eager")
    ids, *_, answer = (torch.tensor(value) for value in token_ids(model, SEVEN))
    unit = torch.tensor(unit_indices(model, SEVEN))
    encodes, tape = model.network.has_encoder, Tape()
    row = ids if encodes else torch.cat([ids, answer])
    arguments = {}
    if encodes:
        arguments["decoder_input_ids"] = torch.cat([torch.zeros_like(answer[:1]), answer[:-1]])[
            None
        ]
    embedded = own_value.get_input_embeddings()(row[None]).detach()

    def logits(point):
        result = own_value(inputs_embeds=point, **arguments).logits[0]
        return result if encodes else result[len(ids) - 1 : -1]

    wanted = []
    with torch.no_grad(), on_tape(own_value, tape, monkeypatch):
        full = logits(embedded)
        # The slope of log softmax, which is affine with its probabilities frozen.
        slope = torch.nn.functional.one_hot(answer, full.shape[-1]) - full.exp() / full.exp().sum(
            -1, keepdim=True
        )
        for j in range(7):
            tape.rewind()
            point = embedded.clone()
            point[0, : len(ids)][unit == j] = 0
            wanted.append(float((slope * (full - logits(point))).sum()))
    assert len(tape.kept) > 6
    explanation = limelight.explain(model, SEVEN, "lrp", answer=ANSWER)
    np.testing.assert_allclose(explanation.scores, wanted, rtol=1e-5, atol=1e-6)
    model_input = model.read(SEVEN, queries=(AnswerQuery(ANSWER),))
    frozen = model.frozen_gradient(model_input, model.embed(model_input)[None], np.ones((1, 1)))
    np.testing.assert_allclose(frozen.outputs, model.outputs([model_input]), rtol=1e-4)


def test_attention_is_read_at_the_places_that_predict_the_answer():
    model = writer()
    model_input = model.read(TEXT, queries=(AnswerQuery(ANSWER),))
    (result,) = model.attention(model_input)
    count = len(token_ids(model)[-1])
    wanted = np.zeros(len(result.readout_weights))
    wanted[-count - 1 : -1] = 1 / count
    np.testing.assert_allclose(result.readout_weights, wanted)


def test_attention_of_a_sentence_is_read_at_its_own_places():
    model = writer()
    value = limelight.explain_sentences(model, TEXT, "alpha-avg", answer="Good film. The plot.")
    request = Request(features="sentences")
    for e in value:  # by another road: the sentence alone
        element = read_batch(
            model, [QueriedText(TEXT, (e.query,))], prepare_model(model, request)[1]
        )
        chosen = METHODS["alpha-avg"]
        (single,) = chosen.implementations[-1].explain(chosen.settings(), element)
        np.testing.assert_allclose(e.scores, single.scores, rtol=1e-5)
    assert not np.allclose(value[0].scores, value[1].scores)


def test_sentences_share_their_masks():
    model = writer()
    answer = "Good film. The plot is bad."
    result = limelight.explain_sentences(model, TEXT, "shapley", answer=answer)
    assert [e.query.part for e in result] == ["Good film.", "The plot is bad."]
    assert result.answer.text == answer
    full = limelight.explain(model, TEXT, "shapley", answer=answer)
    total = sum(e.scores for e in result)
    np.testing.assert_allclose(total, full.scores, rtol=1e-3, atol=1e-4)  # values are linear
    assert "2 sentences of the answer" in str(result.to_html())
    values = limelight.explain_sentences(model, [TEXT, TEXT], answer=[answer, "Bad."])
    assert [len(value) for value in values] == [2, 1]


def test_context_cite_of_a_mean_is_that_of_the_sum_shared_by_the_tokens():
    arguments = {"answer": ANSWER, "penalty": 0.05, "seed": 3}
    full = limelight.explain(writer(), TEXT, "context-cite", **arguments)
    mean = limelight.explain(writer(per_token=True), TEXT, "context-cite", **arguments)
    count = full.query.length
    assert count > 2
    assert np.count_nonzero(full.scores)
    for name in ("scores", "stderr", "intercept"):
        expected = np.asarray(getattr(full, name)) / count
        np.testing.assert_allclose(getattr(mean, name), expected, rtol=1e-3, atol=1e-5)


def test_context_cite_is_the_lasso_of_log_odds():
    model = writer()
    explanation = limelight.explain(
        model, TEXT, "context-cite", answer="good", penalty=0.02, seed=3
    )
    reference = subsets(model, answer="good")
    keep = draw_coin_masks(3, 64, text_rng(3, TEXT))
    chance = np.exp([reference[tuple(row)] for row in keep])
    scaler = StandardScaler()
    z = scaler.fit_transform(keep.astype(float))
    lasso = Lasso(alpha=0.02 * explanation.query.length, tol=1e-12).fit(
        z, np.log(chance / (1 - chance))
    )
    np.testing.assert_allclose(
        explanation.scores, lasso.coef_ / scaler.scale_, rtol=1e-3, atol=1e-4
    )


def test_banzhaf_values_of_few_calls_are_the_cross_validated_lasso():
    model, text = writer(), " ".join(TEXT.split() * 4)
    arguments = {"answer": "good", "features": "positions"}
    has_zeros = set()
    for seed in range(8):
        e = limelight.explain(model, text, "banzhaf", budget="24 calls", seed=seed, **arguments)
        keep = draw_coin_masks(len(e), 20, text_rng(seed, text))
        log_p = limelight.game(model, text, **arguments)(keep)[:, 0]
        np.testing.assert_allclose(e.scores, fit_cross_validated_lasso(keep, log_p), atol=1e-4)
        assert e.stderr is None
        assert any("a LASSO of 20 random masks" in warning for warning in e.warnings)
        is_zero = not e.scores.any()
        assert is_zero == any("Every score is 0" in warning for warning in e.warnings)
        has_zeros.add(is_zero)
    assert has_zeros == {True, False}


def test_predict_says_what_the_model_writes():
    for per_token in (False, True):  # a log-probability is a sum, whatever is explained
        model = writer(max_new_tokens=4, per_token=per_token)
        row = limelight.predict(model, TEXT)
        assert row["answer"] == model.generate(TEXT).text
        ids, *_, answer = token_ids(model, TEXT, row["answer"])
        expected = reference_outputs(model, ids.tolist(), answer.tolist()).sum()
        assert row["log_probability"] == pytest.approx(expected, rel=1e-4)


def test_several_texts_have_an_answer_each(tmp_path):
    model, texts = writer(), [TEXT, "The plot is bad. A superb film."]
    answers = ["good film", "bad"]
    explanation = limelight.explain(model, texts, "loo", answer=answers)
    assert [e.query.text for e in explanation] == answers
    with pytest.raises(InputError, match="not 1 answer for 2 texts"):
        limelight.explain(model, texts, "loo", answer=["good"])
    table = {"text": texts, "said": answers}
    run = limelight.explain_data(
        model, table, "loo", output=tmp_path / "run", answer_column="said", progress=False
    )
    stored = list(run)
    assert [e.query.text for e in stored] == answers
    for value, other in zip(stored, explanation, strict=True):
        np.testing.assert_allclose(value.scores, other.scores, rtol=1e-5)
    with pytest.raises(InputError, match="answer_column needs a language model"):
        limelight.explain_data(
            limelight.load(), table, "loo", output=tmp_path / "no", answer_column="said"
        )
    for other in ("answer", "at_column"):
        with pytest.raises(InputError, match=f"give {other} or answer_column, not both"):
            limelight.explain_data(
                model, table, output=tmp_path / "no", answer_column="said", **{other: "text"}
            )
    assert not (tmp_path / "no").exists()


def test_a_run_keeps_a_row_for_every_sentence(tmp_path):
    model, texts = writer(max_new_tokens=5), [TEXT, "The plot is bad. A superb film."]
    table = {"text": texts, "said": ["Good film. Bad plot.", None]}
    columns = {"answer_column": "said", "sentences": True}
    for _ in range(2):  # called again, it goes on with the same rows
        run = limelight.explain_data(
            model, table, "loo", output=tmp_path / "run", progress=False, **columns
        )
    stored = list(run)
    single = [
        e
        for element in zip(texts, table["said"], strict=True)
        for e in explain_sentences(model, *element)
    ]
    assert [e.query.part for e in stored] == [e.query.part for e in single]
    assert [e.query.is_generated for e in stored[:3]] == [False, False, True]
    assert [set(e.warnings) for e in stored] == [set(e.warnings) for e in single]
    for value, other in zip(stored, single, strict=True):
        np.testing.assert_allclose(value.scores, other.scores, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="sentences needs a language model"):
        limelight.explain_data(
            limelight.load(), table, "loo", output=tmp_path / "no", sentences=True
        )


def explain_sentences(model, text, answer):
    return limelight.explain_sentences(model, text, "loo", answer=answer)


def test_a_long_context_is_cut_with_a_warning():
    explanation = limelight.explain(writer(), "The plot is bad. " * 40, "loo", answer="good")
    assert any(warning.endswith("were cut off.") for warning in explanation.warnings)
    assert not any("window" in warning for warning in explanation.warnings)


def test_an_answer_that_is_cut_inside_a_character_ends_before_it(monkeypatch):
    network, tokenizer = language_model("gpt2")
    model = limelight.wrap(network, tokenizer=tokenizer, template=TEMPLATE)
    full = tokenizer("good film é", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(full[:-1]).endswith("\ufffd")  # é is two bytes, and two tokens

    def written(input_ids, **_):
        return torch.cat([input_ids, torch.tensor([full[:-1]])], dim=1)

    monkeypatch.setattr(network, "generate", written)
    assert "\ufffd" not in model.generate(TEXT).text
    assert model.generate(TEXT).text.split() == ["good", "film"]


def test_a_run_goes_on_only_with_answers_that_are_written_alike(tmp_path):
    def explain_text(name, length, **options):
        model = writer(max_new_tokens=length)
        path = tmp_path / name
        return limelight.explain_data(model, [TEXT], "loo", output=path, progress=False, **options)

    assert explain_text("run", 2).record.generation == {"max_new_tokens": 2}
    explain_text("run", 2)
    with pytest.raises(InputError, match=r"its max_new_tokens is 2, not 5"):
        explain_text("run", 5)
    explain_text("given", 2, answer="good")  # with room for as many tokens beside a long text
    with pytest.raises(InputError, match=r"its max_new_tokens is 2, not 5"):
        explain_text("given", 5, answer="good")
    with pytest.raises(
        InputError, match=r"generated with max_new_tokens=2, but of .* with 5\. Compare"
    ):
        explain_text("run", 2).compare(explain_text("longer", 5))


def test_a_stored_explanation_of_another_answer_is_not_judged():
    model = writer(max_new_tokens=3)
    stored = limelight.explain(model, TEXT, "loo", answer="bad film .")
    judgment = limelight.judge(model, [TEXT], {"stored": [stored]}, columns=[])
    assert judgment.texts[0].reasons == {"stored": "there is no stored explanation of this answer."}


def test_an_unknown_word_of_an_answer_gives_a_warning():
    explanation = limelight.explain(writer(), TEXT, "loo", answer="good zyx film .")
    (message,) = [warning for warning in explanation.warnings if "[UNK]" in warning]
    assert message.startswith("The tokenizer does not know 'zyx'. ")
    reference = limelight.explain(writer(), TEXT, "loo", answer=ANSWER)
    assert not any("[UNK]" in warning for warning in reference.warnings)


@pytest.mark.parametrize(
    ("calls", "instead"),
    [
        (8, r"or use 'context-cite' \(6 calls\) or 'lrp' \(3 calls\)\."),
        (7, r"or use 'context-cite' \(6 calls\) or 'lrp' \(3 calls\)\."),
        (6, r"or use 'lrp' \(3 calls\)\."),
        (2, "or 4 calls and 'lrp'"),
    ],
)
def test_the_message_about_a_small_budget_names_methods_that_fit(calls, instead):
    with pytest.raises(
        InputError, match=rf"Shapley needs at least 8 model calls for 7 features, .* {instead}"
    ):
        limelight.explain(writer(**SHORT), SEVEN, "shapley", answer=ANSWER, budget=f"{calls} calls")


def test_banzhaf_values_explain_answers_unless_another_method_is_named():
    model, reference = all_ablations("llama")
    e = limelight.explain(model, SEVEN, answer=ANSWER)
    assert e.method == "banzhaf"
    keep = np.array(list(reference))
    values = np.array(list(reference.values()))
    expected = [values[keep[:, j]].mean() - values[~keep[:, j]].mean() for j in range(7)]
    np.testing.assert_allclose(e.scores, expected, atol=1e-4)
    compared = [value.method for value in limelight.compare(model, SEVEN, answer=ANSWER)]
    assert compared == ["banzhaf", "shapley", "context-cite", "lime", "lrp", "loo"]


def test_a_model_is_called_what_its_user_calls_it():
    assert repr(writer("t5")) == "<HuggingFace T5ForConditionalGeneration of answer on cpu>"
    with pytest.raises(InputError, match="T5ForConditionalGeneration"):
        limelight.explain(writer("t5"), TEXT, "alpha-avg", answer=ANSWER)


DOCUMENTS = ["The film is good.", "The plot is bad. A film.", "Superb."]


@pytest.mark.parametrize(
    ("ask", "warnings"),
    [
        (limelight.explain, lambda e: e.warnings),
        (limelight.compare, lambda c: c.explanations[0].warnings),
        (limelight.explain_sentences, lambda s: s[0].warnings),
        (limelight.explain_classes, lambda by_class: by_class["answer"].warnings),
    ],
)
def test_a_list_of_texts_is_reported_once_where_documents_may_be_meant(ask, warnings):
    model = writer()
    options = {"methods": ["loo"]} if ask is limelight.compare else {"method": "loo"}
    results = ask(model, DOCUMENTS, answer="good film.", **options)
    warned = [
        [n for n in warnings(value) if "3 texts with an answer each" in n] for value in results
    ]
    assert [len(actual) for actual in warned] == [1, 0, 0]
    for single in (DOCUMENTS[0], [DOCUMENTS[0]]):
        result = ask(model, single, answer="good film.", **options)
        result = result[0] if isinstance(single, list) else result
        assert not any("texts with an answer" in n for n in warnings(result))
    results = ask(model, DOCUMENTS, answer=["good film."] * 3, **options)
    assert not any("texts with an answer" in n for element in results for n in warnings(element))


def test_the_advice_about_a_list_of_documents_works():
    model = writer()
    first, *_ = limelight.explain(model, DOCUMENTS, "loo", answer="good film.")
    (advice,) = (warning for warning in first.warnings if "documents" in warning)
    text, unit = re.search(r"pass (.*) as the text, with features='(\w+)'\.", advice).groups()
    text = eval(text, {"documents": DOCUMENTS})
    e = limelight.explain(model, text, "loo", features=unit, answer="good film.")
    assert e.features == tuple(DOCUMENTS)


def test_a_list_of_texts_for_a_classifier_has_no_such_warning():
    model = limelight.wrap(lambda texts: [[0.2, 0.8]] * len(texts), classes=["a", "b"])
    results = limelight.explain(model, DOCUMENTS, "loo")
    assert not any("texts with an answer" in n for e in results for n in e.warnings)
