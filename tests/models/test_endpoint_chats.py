"""Messages and documents to a server, against all subsets by direct calls and a model in memory."""

import contextlib
import itertools
import json
import pickle
import sys

import numpy as np
import pytest
import torch
from all_subsets import shapley_by_subsets
from completions import MARKS, ChatLanguageModel, NetworkLanguageModel, completions
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import limelight
from limelight import InputError
from limelight.errors import MissingExtraError
from limelight.models.functions import word_spans
from limelight.text import Conversation, build_features
from limelight.text.prompts import (
    prompt_writer,
    split_prompt,
    write_plain_chat,
    write_prompt,
)

CHAT = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MESSAGES = [
    {"role": "system", "content": "the answer is dark ."},
    {"role": "user", "content": "the sky is blue . the moon is far ."},
    {"role": "assistant", "content": "it is cold ."},
    {"role": "user", "content": "a sky is red"},
]
DOCUMENTS = ["mars is red .", {"id": "b", "title": "the moon", "text": "it is cold ."}, "a sky ."]
QUESTION, ANSWER = "is mars red", "mars is red ."


def word_tokenizer(folder, chat_template=CHAT, bos=MARKS[0]):
    """Save a tokenizer with the tokens of `ChatLanguageModel`, and return its folder."""
    vocabulary = {token: i for i, token in enumerate(ChatLanguageModel().vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    pattern = Regex(r":\)| ?\w+| ?[^\w\s]|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(pattern, "removed", invert=True)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token=bos,
        additional_special_tokens=list(MARKS),
    )
    fast.chat_template = chat_template
    fast.save_pretrained(folder)
    return folder


def chat_network(*, adds_start=False):
    """Return a random Llama, and a tokenizer of bytes with the marks of a chat."""
    torch.manual_seed(7)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "t"), ("Ġ", "s"), ("Ġ", "i"), ("Ġi", "s"), ("Ġ", "m"), ("a", "r"), ("s", "k")]
    tokens = [*MARKS, "<pad>", *letters, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in MARKS])
    if adds_start:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        pad_token="<pad>",
        additional_special_tokens=list(MARKS[1:]),
    )
    fast.chat_template = CHAT
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=17,
        max_position_embeddings=512,
        initializer_range=0.4,
        pad_token_id=3,
        bos_token_id=0,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config).eval(), fast


@pytest.fixture
def server():
    with completions() as value:
        value.lm = ChatLanguageModel()
        yield value


@pytest.fixture
def folder(tmp_path):
    return word_tokenizer(tmp_path / "tokenizer")


def wrap_model(server, folder, **options):
    options = {"model": "tiny", "estimate": None, "tokenizer": folder} | options
    return limelight.wrap_endpoint(server.url, **options)


def write_chat(messages, bos="<s>"):
    """The reference implementation of the chat template."""
    turns = (f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return bos + "".join(turns) + "<|im_start|>assistant\n"


def outputs_of_subsets(lm, d, write_prompt, answer=ANSWER):
    """All masks, and log p of the answer after the prompt with the parts that stay."""
    masks = np.array(list(itertools.product([False, True], repeat=d)))
    values = [lm.log_probability(write_prompt(mask), answer) for mask in masks]
    return masks, np.array(values)


def loo_by_subsets(masks, values):
    d = masks.shape[1]
    return values[-1] - values[[len(masks) - 1 - 2 ** (d - 1 - j) for j in range(d)]]


REFERENCE = {"shapley": shapley_by_subsets, "loo": loo_by_subsets}


@pytest.mark.parametrize("method", REFERENCE)
def test_scores_of_messages_are_those_of_all_subsets_by_direct_calls(server, folder, method):
    e = limelight.explain(wrap_model(server, folder), MESSAGES, method, answer=ANSWER)
    subsets = outputs_of_subsets(
        server.lm, 4, lambda mask: write_chat(itertools.compress(MESSAGES, mask))
    )
    np.testing.assert_allclose(e.scores, REFERENCE[method](*subsets), atol=1e-9)
    assert np.abs(e.scores).max() > 0.05
    assert e.feature_kind == "messages"
    assert e.text == write_chat(MESSAGES)
    assert e.query.question == MESSAGES[-1]["content"]


def write_documents(mask, before="Answer the question with the documents.\n\n"):
    blocks = ["mars is red .\n\n", "the moon\nit is cold .\n\n", "a sky .\n\n"]
    content = "".join(itertools.compress(blocks, mask))
    return write_chat([{"role": "user", "content": f"{before}{content}Question: {QUESTION}"}])


@pytest.mark.parametrize("method", REFERENCE)
def test_scores_of_documents_are_those_of_all_subsets_by_direct_calls(server, folder, method):
    model = wrap_model(server, folder)
    e = limelight.explain(model, QUESTION, method, documents=DOCUMENTS, answer=ANSWER)
    subsets = outputs_of_subsets(server.lm, 3, write_documents)
    np.testing.assert_allclose(e.scores, REFERENCE[method](*subsets), atol=1e-9)
    assert e.features == ("document 0", "b", "document 2")
    # The prompt for documents is an option, and changes the scores.
    prompt = "dark {documents}\n\nQuestion: {question}"
    model = wrap_model(server, folder, template=prompt)
    e = limelight.explain(model, QUESTION, method, documents=DOCUMENTS, answer=ANSWER)
    subsets = outputs_of_subsets(server.lm, 3, lambda mask: write_documents(mask, "dark "))
    np.testing.assert_allclose(e.scores, REFERENCE[method](*subsets), atol=1e-9)


def test_a_removed_part_leaves_the_prompt_without_the_characters_of_its_span(server, folder):
    model = wrap_model(server, folder)
    for text in (MESSAGES, limelight.text.Conversation.from_documents(QUESTION, DOCUMENTS)):
        conversation = limelight.text.parse_input(text)
        model_input = model.read(conversation, queries=(limelight.text.AnswerQuery(ANSWER),))
        write = prompt_writer(model_input, build_features(model_input, "auto"))
        for mask in itertools.product([False, True], repeat=len(model_input.parts)):
            removed = {
                i
                for part, stays in zip(model_input.parts, mask, strict=True)
                for i in range(*part.span)
                if not stays
            }
            expected = "".join(c for i, c in enumerate(model_input.text) if i not in removed)
            assert write(np.array(mask)) == expected


ODD = [
    "a \u0301",
    "e\u0301 x\u00a0y",
    "\u200b",
    "\U0001f44d\U0001f3fd \U0001f44d",
    "ไทย",
    "\u0301a",
    "x\x1cy",
    "a\r\nb",
]


@given(st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=6)), min_size=1, max_size=4))
def test_any_characters_of_a_removed_document_are_removed(texts):
    documents = [f"{text}." for text in texts]
    conversation = Conversation.from_documents(
        "is it?", [{"text": t, "id": str(i)} for i, t in enumerate(documents)]
    )
    prompt = write_prompt(conversation, write_plain_chat)
    model_input = split_prompt(prompt, conversation, word_spans)
    write = prompt_writer(model_input, build_features(model_input, "documents"))
    for mask in itertools.product([False, True], repeat=len(texts)):
        stays = dict(zip(prompt.parts, mask, strict=True))
        removed = {i for part in prompt.parts if not stays[part] for i in range(*part.span)}
        expected = "".join(c for i, c in enumerate(prompt.text) if i not in removed)
        assert write(np.array(mask)) == expected


@pytest.mark.parametrize(
    ("features", "removed", "expected"),
    [
        ("sentences", ["the sky is blue ."], "the moon is far ."),
        ("sentences", ["the moon is far ."], "the sky is blue ."),
        ("sentences", ["the sky is blue .", "the moon is far ."], ""),
        ("words", ["is"], "the sky blue . the moon far ."),
        ("words", ["the", "blue", "."], "sky is moon is far"),
    ],
)
def test_white_space_around_removed_words_stays_once(server, folder, features, removed, expected):
    model = wrap_model(server, folder)
    text = MESSAGES[1]["content"]
    model_input = model.read(text, queries=(limelight.text.AnswerQuery(ANSWER),))
    split = build_features(model_input, features)
    keep = np.array([string.strip() not in removed for string in split.strings])
    assert prompt_writer(model_input, split)(keep) == write_chat(
        [{"role": "user", "content": expected}]
    )


def test_sentences_and_words_of_documents_have_scores_of_all_subsets(server, folder):
    model = wrap_model(server, folder)
    documents = ["the sky is blue . a moon is dark .", "mars is red ."]
    e = limelight.explain(
        model, QUESTION, "shapley", documents=documents, features="sentences", answer=ANSWER
    )
    assert e.part_names == ("document 0", "document 0", "document 1")

    def write_prompt(mask):
        first = " ".join(itertools.compress(["the sky is blue .", "a moon is dark ."], mask))
        content = f"{first}\n\n{documents[1] * bool(mask[2])}"
        start = "Answer the question with the documents.\n\n"
        content = f"{start}{content}\n\nQuestion: {QUESTION}"
        return write_chat([{"role": "user", "content": content}])

    subsets = outputs_of_subsets(server.lm, 3, write_prompt)
    np.testing.assert_allclose(e.scores, shapley_by_subsets(*subsets), atol=1e-9)
    e = limelight.explain(
        model, QUESTION, "loo", documents=documents, features="words", answer=ANSWER
    )
    assert "mars" in e.features
    assert "\n" not in e.features


def test_steps_are_removed_from_the_reasoning_of_the_last_message(server, folder):
    reasoning = "<think>\nmars is far . it is cold . a sky is red .\n</think>\n\n"
    messages = [MESSAGES[1], {"role": "assistant", "content": f"{reasoning}{ANSWER}"}]
    e = limelight.explain(wrap_model(server, folder), messages, "shapley", features="steps")
    steps = ["mars is far .", "it is cold .", "a sky is red ."]

    def write_prompt(mask):
        thought = " ".join(itertools.compress(steps, mask))
        return write_chat(messages[:1]) + f"<think>\n{thought}\n</think>\n\n"

    subsets = outputs_of_subsets(server.lm, 3, write_prompt)
    np.testing.assert_allclose(e.scores, shapley_by_subsets(*subsets), atol=1e-9)


def test_a_text_is_the_message_of_a_user_and_a_reply_is_explained(server, folder):
    model = wrap_model(server, folder, max_new_tokens=3)
    text = MESSAGES[1]["content"]
    prompt = write_chat([MESSAGES[1]])
    written = "".join(server.lm.greedy(prompt, 3)[0])
    assert model.generate(text).text == written
    e = limelight.explain(model, text, "loo", features="sentences")
    other = limelight.explain(model, [MESSAGES[1]], "loo", features="sentences")
    assert e.query.text == written
    assert e.text == prompt
    np.testing.assert_array_equal(e.scores, other.scores)
    e = limelight.explain(model, [*MESSAGES, {"role": "assistant", "content": ANSWER}], "loo")
    assert e.query.text == ANSWER
    assert limelight.predict(model, [MESSAGES])[0]["answer"]


def test_a_tokenizer_without_chat_template_writes_roles_and_says_so(server, tmp_path):
    folder = word_tokenizer(tmp_path / "base", chat_template=None, bos=None)
    model = wrap_model(server, folder)
    e = limelight.explain(model, MESSAGES, "shapley", answer=ANSWER)
    assert "no chat template" in " ".join(e.warnings)

    def write_prompt(mask):
        lines = (f"{m['role']}: {m['content']}\n" for m in itertools.compress(MESSAGES, mask))
        return "".join(lines) + "assistant:"

    subsets = outputs_of_subsets(server.lm, 4, write_prompt, " " + ANSWER)
    np.testing.assert_allclose(e.scores, shapley_by_subsets(*subsets), atol=1e-9)
    text = MESSAGES[1]["content"]  # no message
    model_input = model.read(text, queries=(limelight.text.AnswerQuery(ANSWER),))
    assert model_input.text == model_input.queries[0].prompt == text


def test_a_template_of_messages_is_written_with_the_chat_template(server, folder):
    template = [MESSAGES[0], {"role": "user", "content": "{text} is it far"}]
    model = wrap_model(server, folder, template=template)
    e = limelight.explain(model, "mars is red", "loo", answer=ANSWER)
    assert e.query.prompt == write_chat(
        [MESSAGES[0], {"role": "user", "content": "mars is red is it far"}]
    )
    with pytest.raises(InputError, match="has a template for one text"):
        limelight.explain(model, MESSAGES, "loo", answer=ANSWER)


# --- the same model in memory ---------------------------------------------------------------------


@pytest.mark.parametrize("adds_start", [False, True])
@pytest.mark.parametrize("per_token", [False, True])
def test_a_server_and_the_same_network_in_memory_agree(tmp_path, adds_start, per_token):
    network, tokenizer = chat_network(adds_start=adds_start)
    tokenizer.save_pretrained(tmp_path)
    with completions() as server:
        server.lm = NetworkLanguageModel(network, tokenizer)
        model = wrap_model(server, tmp_path, per_token=per_token)
        local = limelight.wrap(network, tokenizer=tokenizer, per_token=per_token)
        messages = [*MESSAGES, {"role": "assistant", "content": "Sky is red."}]
        for method in ("shapley", "loo", "banzhaf"):
            e, other = (limelight.explain(lm, messages, method) for lm in (model, local))
            np.testing.assert_allclose(e.scores, other.scores, atol=1e-3, err_msg=method)
            assert np.abs(e.scores).max() > 0.01
            assert e.prediction["answer"] == pytest.approx(other.prediction["answer"], abs=1e-3)
            assert (e.features, e.spans, e.text) == (other.features, other.spans, other.text)
            assert e.query.to_dict() == other.query.to_dict()
            assert e.query.length == other.query.length
        # The token that begins a text is sent by one of both only.
        sent = [body["prompt"] for body in server.bodies[1 + adds_start :]]
        assert {prompt.startswith("<s>") for prompt in sent} == {not adds_start}


def test_a_removed_document_has_the_same_effect_on_the_server_as_in_memory(tmp_path):
    network, tokenizer = chat_network()
    tokenizer.save_pretrained(tmp_path)
    with completions() as server:
        server.lm = NetworkLanguageModel(network, tokenizer)
        pair = wrap_model(server, tmp_path), limelight.wrap(network, tokenizer=tokenizer)
        # A title before the question, since a line break next to another is one token in memory.
        e, other = (
            limelight.explain(lm, QUESTION, "shapley", documents=DOCUMENTS, answer="Red.")
            for lm in pair
        )
        np.testing.assert_allclose(e.scores, other.scores, atol=1e-3)
        assert np.abs(e.scores).max() > 0.01


# --- negative controls ------------------------------------------------------------------------


def test_a_server_that_adds_the_first_token_again_gets_the_prompt_without_it(server, folder):
    expected = limelight.explain(wrap_model(server, folder), MESSAGES, "shapley", answer=ANSWER)
    server.start = "<s>"
    server.bodies.clear()
    e = limelight.explain(wrap_model(server, folder), MESSAGES, "shapley", answer=ANSWER)
    np.testing.assert_allclose(e.scores, expected.scores, atol=1e-9)
    doubled = [body for body in server.bodies if body["prompt"].startswith("<s>")]
    assert doubled == server.bodies[:1]  # the one that counts
    # Another process does not know yet that the server adds the token.
    model = wrap_model(server, folder)
    query = limelight.text.AnswerQuery(ANSWER)
    model_input = model.read(limelight.text.parse_input(MESSAGES), queries=(query,))
    features, keep = build_features(model_input, "messages"), np.eye(4, dtype=bool)
    outputs = [
        lm.game(model_input, features, "delete")(keep)
        for lm in (model, pickle.loads(pickle.dumps(model)))
    ]
    np.testing.assert_array_equal(*outputs)
    # A server that adds two tokens cannot be corrected.
    server.start = "<s><s>"
    with pytest.raises(InputError, match=r"reads \d+ tokens in the prompt, but .* reads \d+"):
        limelight.explain(wrap_model(server, folder), MESSAGES, "shapley", answer=ANSWER)


def test_a_server_that_adds_a_token_that_no_chat_template_writes_raises_an_error(server, tmp_path):
    folder = word_tokenizer(tmp_path, chat_template=CHAT.removeprefix("{{ bos_token }}"))
    e = limelight.explain(wrap_model(server, folder), MESSAGES, "loo", answer=ANSWER)
    count = len(server.lm.tokens(e.text))
    server.start = "<s>"
    with pytest.raises(InputError, match=f"reads {count + 1} tokens .* reads {count}\\."):
        limelight.explain(wrap_model(server, folder), MESSAGES, "loo", answer=ANSWER)


def test_a_server_with_another_tokenizer_raises_an_error_that_names_both_numbers(server, tmp_path):
    _, tokenizer = chat_network()
    tokenizer.save_pretrained(tmp_path)
    model = wrap_model(server, tmp_path)
    words = len(server.lm.tokens(write_chat(MESSAGES)))
    count = len(tokenizer(write_chat(MESSAGES), add_special_tokens=False)["input_ids"])
    assert words != count
    for answer in ({"answer": ANSWER}, {}):
        with pytest.raises(InputError, match=f"reads {words} tokens .* reads {count}\\."):
            limelight.explain(model, MESSAGES, "loo", **answer)
    # A template with {text} is checked too.
    model = wrap_model(server, tmp_path, template="{text} answer :")
    with pytest.raises(InputError, match=r"reads \d+ tokens in the prompt, but"):
        limelight.explain(model, MESSAGES[1]["content"], "loo", answer=ANSWER)


@pytest.mark.parametrize("count", [None, "17"])
def test_a_server_that_does_not_count_tokens_adds_a_warning(server, folder, count):
    server.counted = lambda _: count
    e = limelight.explain(wrap_model(server, folder), MESSAGES, "loo", answer=ANSWER)
    assert sum("does not return the number of tokens" in text for text in e.warnings) == 1


def test_a_prompt_that_is_too_long_raises_an_error_about_this_prompt(server, folder):
    count = server.limit = len(server.lm.tokens(write_chat(MESSAGES)))
    with pytest.raises(InputError) as caught:
        limelight.explain(wrap_model(server, folder), MESSAGES, "loo", answer=ANSWER)
    message = str(caught.value)
    assert f"maximum context length is {count} tokens" in message
    assert f"The prompt has {count} tokens. Shorten the text" in message
    assert caught.value.__cause__ is None  # other texts may be short enough


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ({"tokenizer": None, "template": "{text}"}, MESSAGES, r"tokenizer='…' \(--tokenizer\)"),
        ({"tokenizer": None}, None, "or tokenizer= for chats"),
        ({"tokenizer": None, "template": "{documents} {question}"}, None, "tokenizer='…'"),
        ({"tokenizer": None, "template": MESSAGES}, None, "tokenizer='…'"),
        ({"tokenizer": None, "template": 5}, None, r"string that contains \{text\} once"),
        ({"template": "{documents} only"}, None, r"\{question\} once"),
        ({"template": "no place"}, None, r"template must contain \{text\} once"),
        ({"tokenizer": "no/such/folder"}, None, "there is none at 'no/such/folder'"),
        ({"tokenizer": 5}, None, "tokenizer must be a folder .*, not int"),
        ({}, " \n", "the text has no words"),
    ],
)
def test_mistakes_are_named(server, folder, options, text, message):
    with pytest.raises(InputError, match=message):
        limelight.explain(
            wrap_model(server, folder, **options), text or MESSAGES, "loo", answer="a"
        )
    assert not server.bodies


def test_without_transformers_the_missing_extra_is_named(server, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "limelight.models.hugging_face.loading", None)
    with pytest.raises(MissingExtraError, match="hf"):
        wrap_model(server, folder)


def test_a_folder_without_a_tokenizer_raises_an_error(server, folder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"the tokenizer in '.*empty' cannot be loaded|no fast"):
        wrap_model(server, empty)
    (folder / "tokenizer.json").write_text("{damaged")
    with pytest.raises(InputError, match="cannot be loaded"):
        wrap_model(server, folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="must be a file, not a device"):
        wrap_model(server, folder)


def test_a_folder_whose_configuration_is_too_large_raises_an_error(server, folder):
    config = {"model_type": "llama", "num_hidden_layers": 10**9}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="'num_hidden_layers' is above"):
        wrap_model(server, folder)


def test_code_of_a_folder_is_not_run(server, folder, tmp_path):
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config |= {"auto_map": {"AutoTokenizer": ["code.Mine", None]}, "tokenizer_class": "Mine"}
    path.write_text(json.dumps(config))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\nclass Mine: pass\n")
    with contextlib.suppress(InputError):  # or the tokenizer is read by a class of transformers
        wrap_model(server, folder)
    assert not (tmp_path / "run").exists()


def test_the_fingerprint_depends_on_tokenizer_chat_template_and_prompt(server, folder, tmp_path):
    model = wrap_model(server, folder)
    other_chat = word_tokenizer(tmp_path / "other", CHAT.replace("\n", " "))
    _, tokenizer = chat_network()
    tokenizer.save_pretrained(tmp_path / "bytes")
    copy = word_tokenizer(tmp_path / "copy")
    prompt = {"template": "{documents} {question}"}
    different = [
        model,
        wrap_model(server, other_chat),
        wrap_model(server, tmp_path / "bytes"),
        wrap_model(server, folder, **prompt),
        wrap_model(server, folder, template="{text}"),
        wrap_model(server, None, template="{text}"),
        wrap_model(server, folder, per_token=True),
    ]
    assert len({lm.fingerprint for lm in different}) == len(different)
    assert wrap_model(server, copy).fingerprint == model.fingerprint  # the path is not part of it
    restored = pickle.loads(pickle.dumps(model))
    assert restored.fingerprint == model.fingerprint
    e, again = (limelight.explain(lm, MESSAGES, "loo", answer=ANSWER) for lm in (model, restored))
    np.testing.assert_array_equal(e.scores, again.scores)


def test_protected_roles_and_words_need_no_answers_of_the_server(server, folder):
    model = wrap_model(server, folder)
    e = limelight.explain(model, MESSAGES, "loo", answer=ANSWER, protect=["system", 2])
    assert e.features == ("1 user", "3 user")
    # Every request is about this conversation, and none about the name of a role.
    assert all("the answer is dark ." in body["prompt"] for body in server.bodies)


def test_the_shell_takes_a_tokenizer(server, folder, request):
    run = request.getfixturevalue("limelight")
    options = ("--endpoint", server.url, "--model", "tiny", "--tokenizer", str(folder))
    text = MESSAGES[1]["content"]
    arguments = ("-m", "loo", "--answer", ANSWER, "--format", "json", text)
    template = [{"role": "user", "content": "{text} red"}]
    for extra_options, keywords in (
        ((), {}),
        (("--template", json.dumps(template)), {"template": template}),
    ):
        output = run("explain", *options, *extra_options, *arguments)
        e = limelight.Explanation.from_json(output.out)
        other = limelight.explain(
            wrap_model(server, folder, **keywords), text, "loo", answer=ANSWER
        )
        assert e.query.question == other.query.question == ("" if keywords else text)
        np.testing.assert_array_equal(e.scores, other.scores)
    output = run("predict", *options, text)
    assert output.code == 0
    output = run("explain", "--endpoint", server.url, "--model", "tiny", *arguments)
    assert (output.code, "--template TEXT or --tokenizer FOLDER" in output.err) == (2, True)
