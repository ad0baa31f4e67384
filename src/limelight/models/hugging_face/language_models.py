"""Language models with another head: as classifiers by the next token, or to score an answer.

A template puts a prompt around the text. The tokens of an answer follow those of the prompt in the
same row. They have a mark, which is packed with their ids and so kept in masks, batches and
deletions. The mark is 1 for a token that is only context, and 2 + s for a token whose
log-probability counts for part s of the query.
"""

import contextlib
import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import InputError
from limelight.models.engine import describe_error
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import MASKED_OUT, CustomHead
from limelight.models.hugging_face.subwords import max_input_length
from limelight.models.protocol import (
    EMPTY_ANSWER_ERROR,
    TOKENIZATION_WARNING,
    Capability,
    Property,
    answer_warnings,
    attaches_to_prompt,
    check_generation_options,
    part_token_indices,
    truncation_warning,
)
from limelight.shapes import Int
from limelight.text import AnswerQuery, Conversation, Message, ModelInput, Span, truncate_line
from limelight.text.conversations import DEFAULT_PROMPT, DOCUMENTS, ends_reasoning
from limelight.text.prompts import (
    NO_CHAT_TEMPLATE_WARNING,
    Prompt,
    check_document_prompt,
    write_plain_chat,
    write_prompt,
)
from limelight.threads import cached_property

TEXT = "{text}"
_SAMPLE_TEXT = "A film."  # takes the place of the text in checks of a template
_MIN_SHARED_TOKENS = 8  # shorter common prefixes of a batch are not computed separately
# Allowed difference of log-probabilities with and without a shared prefix.
_SHARING_TOLERANCE = 1e-4
_CONTEXT_MARK, FIRST_PART_MARK = 1, 2


@final
@dataclass(frozen=True, eq=False)
class PromptTokenizer:
    """A fast tokenizer for a template, which treats the prompt around a text as special subwords.

    The whole prompt is tokenized at once, as the model reads it. A subword that is partly outside
    the text belongs to the prompt and is never removed. The space before the first word is an
    exception.

    Attributes
    ----------
    tokenizer
        The tokenizer of the language model.
    before
        The prompt before the text.
    after
        The prompt after the text.
    adds_special
        Whether the tokenizer adds special tokens.
    keeps_end
        Whether special tokens at the end are kept. An encoder needs them. After the prompt of a
        causal model more tokens follow.
    sample
        A text for the prompt while answers are tokenized.
    document_prompt
        The prompt for a question with documents. None if the template has room for one text only.
    writes_chats
        Whether the chat template writes a plain text as the message of a user.
    reply_gap
        The space between a complete prompt and its answer. None to find it from the prompt.
    """

    tokenizer: Any
    before: str
    after: str
    adds_special: bool
    keeps_end: bool = False
    sample: str = _SAMPLE_TEXT
    document_prompt: str | None = None
    writes_chats: bool = False
    reply_gap: str | None = None
    is_fast = True
    # The inputs from which transformers generates.
    model_input_names = ("input_ids", "attention_mask")
    why_no_pairs = "the template has room for a single text (write both texts into one)"

    @staticmethod
    def from_template(
        tokenizer: Any, template: Any, *, keeps_end: bool = False
    ) -> "PromptTokenizer":
        """Return the tokenizer for a template, which is a string or the messages of a chat.

        Without a template, or with one for documents, it reads conversations.
        """
        has_chat_template = bool(getattr(tokenizer, "chat_template", None))
        is_document_prompt = isinstance(template, str) and DOCUMENTS in template
        if template is None or is_document_prompt:
            document_prompt = DEFAULT_PROMPT if template is None else template
            return PromptTokenizer(
                tokenizer,
                "",
                "",
                # A chat template contains the special tokens.
                adds_special=not has_chat_template,
                keeps_end=keeps_end,
                document_prompt=check_document_prompt(document_prompt),
                writes_chats=has_chat_template,
            )
        adds_special = isinstance(template, str)
        prompt = template if adds_special else _apply_chat_template(tokenizer, template)
        if (count := prompt.count(TEXT)) != 1:
            raise InputError(
                f"template must contain {TEXT} once, but {truncate_line(prompt, 80)!r} contains "
                f"it {count} times."
            )
        before, after = prompt.split(TEXT)
        return PromptTokenizer(tokenizer, before, after.rstrip(" "), adds_special, keeps_end)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the tokenizer."""
        return getattr(self.tokenizer, name)

    @property
    def settings(self) -> list[Any]:
        """The template, or the chat template with the prompt for documents, for fingerprints."""
        if self.document_prompt is None:
            return [self.before, self.after]
        return [self.document_prompt, str(getattr(self.tokenizer, "chat_template", None))]

    @cached_property
    def gap(self) -> str:
        """Return the space between the prompt and the next word, or "" if none belongs there.

        Tokenizers count the space before a word as part of the word, so a prompt never ends with
        one.
        """
        if self.reply_gap is not None:
            return self.reply_gap
        end, ids = (self.after or self.sample or self.before)[-1], self.ids(self.sample)
        starts_turn = bool(ids) and ids[-1] in set(self.all_special_ids)  # a turn of a chat begins
        return "" if end.isspace() or starts_turn else " "

    def ids(self, text: str, next_word: str = "") -> list[int]:
        """Return the tokens of the whole prompt, without special tokens at the end."""
        encoding = self._encode(self.before, text, self.after, next_word)
        return list(encoding["input_ids"][: _length_without_end(encoding)])

    @cached_property
    def digest(self) -> str:
        """A digest of the tokenizer, the chat template and the prompt, for fingerprints."""
        settings = repr([self.settings, self.adds_special, self.tokenizer.bos_token]).encode()
        return sha256(settings + forward.encode_tokenizer(self.tokenizer)).hexdigest()

    def count_tokens(self, text: str, adds_special: bool) -> int:
        """Return the number of tokens of a complete prompt."""
        return len(self._encode(text, adds_special=adds_special)["input_ids"])

    def _encode(self, *parts: str, adds_special: bool | None = None) -> Any:
        """Tokenize the joined parts, without truncation."""
        with forward.preserve_tokenizer(self.tokenizer):
            return self.tokenizer(
                "".join(parts),
                add_special_tokens=self.adds_special if adds_special is None else adds_special,
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
                truncation=False,
                verbose=False,
            )

    def label_tokens(self, labels: Mapping[str, str]) -> dict[str, int]:
        """Return the token of each class, which is that of its word directly after the prompt."""
        prompt = self.ids(_SAMPLE_TEXT)
        tokens: dict[str, int] = {}
        for name, word in labels.items():
            gap = "" if word[:1].isspace() else self.gap
            continued = self.ids(_SAMPLE_TEXT, gap + word)
            label_ids = continued[len(prompt) :]
            # The word must not change the tokens before it.
            is_one_token = continued[: len(prompt)] == prompt and len(label_ids) == 1
            if not is_one_token or label_ids[0] in (self.unk_token_id, *tokens.values()):
                label_subwords = ", ".join(repr(self.decode([token])) for token in label_ids)
                raise InputError(
                    f"each label must be a different known token after the template, but {word!r} "
                    f"is read as {label_subwords}. Choose another word for {name!r}."
                )
            tokens[name] = label_ids[0]
        return tokens

    def __call__(self, texts: Sequence[str], **_: Any) -> SimpleNamespace:
        """Tokenize prompts with each of the texts. Words and spans are those of the texts."""
        return SimpleNamespace(encodings=[self._encode_text(text) for text in texts])

    def _encode_text(self, text: str) -> SimpleNamespace:
        """Tokenize the prompt with one text, and return ids, words and spans."""
        # White space around a text would stay if its words are removed, so it is stripped. Spans
        # refer to the whole text.
        leading_spaces, text = len(text) - len(text.lstrip()), text.strip()
        encoded = self._encode(self.before, text, self.after)
        length = len(encoded["input_ids"]) if self.keeps_end else _length_without_end(encoded)
        text_start, words, spans = len(self.before), list[int | None](), list[Span]()
        for word, (start, end) in zip(encoded.word_ids(), encoded["offset_mapping"], strict=True):
            # A space before the first word belongs to the word, even if it is a separate subword.
            is_inside = start < end and text_start <= end <= text_start + len(text)
            is_word = is_inside and not self.before[start:].strip(" ")
            words.append(word if is_word else None)
            spans.append(
                (max(start - text_start, 0) + leading_spaces, end - text_start + leading_spaces)
                if is_word
                else (0, 0)
            )
        ids = list(encoded["input_ids"])
        return SimpleNamespace(ids=ids[:length], word_ids=words[:length], offsets=spans[:length])

    def fill(self, text: str) -> str:
        """Return the prompt with a text in its place."""
        return f"{self.before}{text.strip()}{self.after}"

    def for_prompt(self, text: str) -> "PromptTokenizer":
        """Return the tokenizer for a complete prompt, which answers follow."""
        prompt = text.rstrip(" ")
        gap = text[len(prompt) :] or ("" if ends_reasoning(prompt) else None)
        return replace(self, before=prompt, after="", sample="", reply_gap=gap)

    def encode_prompt(self, text: str) -> Any:
        """Tokenize a complete prompt, and return ids, words and spans.

        Spaces at its end belong to the answer, because tokenizers count them as part of a word.
        """
        encoded = self._encode(text.rstrip(" "))
        length = len(encoded["input_ids"]) if self.keeps_end else _length_without_end(encoded)
        return SimpleNamespace(
            ids=list(encoded["input_ids"])[:length],
            word_ids=encoded.word_ids()[:length],
            offsets=list(encoded["offset_mapping"])[:length],
        )

    def write_conversation(self, conversation: Conversation) -> Prompt:
        """Write a conversation with the chat template of the tokenizer.

        Raises
        ------
        InputError
            If the template of the model has room for one text only.
        """
        if self.document_prompt is None:
            raise InputError(
                "this model has a template for one text, and reads no messages and documents. "
                "Load or wrap it without template."
            )
        has_template = bool(getattr(self.tokenizer, "chat_template", None))
        prompt = write_prompt(
            conversation,
            self._write_chat if has_template else write_plain_chat,
            document_prompt=self.document_prompt,
            find_marks=self._find_marks,
        )
        if has_template:
            return prompt
        return prompt._replace(warnings=(NO_CHAT_TEMPLATE_WARNING, *prompt.warnings))

    def _write_chat(self, messages: Sequence[Message], starts_reply: bool) -> str:
        """Return messages as the chat template writes them."""
        write = partial(
            self.tokenizer.apply_chat_template,
            [message.to_dict() for message in messages],
            tokenize=False,
            add_generation_prompt=starts_reply,
        )
        try:
            with contextlib.suppress(TypeError):  # some templates need a list of tools
                return str(write())
            return str(write(tools=[]))
        # An error of jinja, or of the template, for example about the order of roles.
        except Exception as error:
            raise InputError(
                f"the chat template rejects these messages ({describe_error(error)}). Change their "
                "roles or their order."
            ) from error

    def _find_marks(self, content: str) -> list[str]:
        """Return the special tokens whose names occur in a text."""
        return [mark for mark in self.tokenizer.all_special_tokens if mark in content]

    def encode_answer(self, answer: str) -> tuple[list[int], list[Span]]:
        """Return the tokens of an answer after the prompt, and their spans in the answer.

        Prompt and answer are tokenized together. If they share a token, the answer is tokenized
        separately.
        """
        gap = "" if self.keeps_end or attaches_to_prompt(answer) else self.gap
        prompt = self.ids(self.sample)
        encoding = self._encode(self.before, self.sample, self.after, gap, answer)
        start, answer_start = len(prompt), len(f"{self.before}{self.sample}{self.after}{gap}")
        if self.keeps_end or list(encoding["input_ids"][:start]) != prompt:
            encoding = self._encode(gap, answer, adds_special=False)
            start, answer_start = 0, len(gap)
        answer_slice = slice(start, _length_without_end(encoding))
        spans = [
            (begin - answer_start, end - answer_start)
            for begin, end in encoding["offset_mapping"][answer_slice]
        ]
        return list(encoding["input_ids"][answer_slice]), spans


def _length_without_end(encoded: Any) -> int:
    """Return the number of tokens before the special tokens at the end."""
    mask = list(encoded["special_tokens_mask"])
    while mask and mask[-1]:
        mask.pop()
    return len(mask)


def _apply_chat_template(tokenizer: Any, messages: Any) -> str:
    """Return the messages as one string, written by the tokenizer's chat template."""
    try:
        # If the last message is the assistant's, the model continues it.
        is_continued = messages[-1]["role"] == "assistant"
        return str(
            tokenizer.apply_chat_template(
                [{"role": message["role"], "content": message["content"]} for message in messages],
                tokenize=False,
                add_generation_prompt=not is_continued,
                continue_final_message=is_continued,
            )
        )
    # An error of jinja, or of the template, for example about the order of roles.
    except Exception as error:
        raise InputError(
            f"the chat template rejects the messages of template ({describe_error(error)}). "
            f'Write them like {{"role": "user", "content": "… {TEXT} …"}}, or give a string '
            f"with {TEXT} in it."
        ) from error


class PromptedLanguageModel(CustomHead):
    """The network of a language model with another head, which reads a prompt."""

    network_attribute = "language_model"

    def __init__(
        self, language_model: Any, prompt: PromptTokenizer, classes: Sequence[str], **settings: Any
    ) -> None:
        super().__init__(language_model, classes, **settings)
        if self.config.pad_token_id is None:  # padding is masked out, so any token works
            tokens = (prompt.pad_token_id, prompt.eos_token_id)
            self.config.pad_token_id = next((int(token) for token in tokens if token), 0)

    def logits_at_positions(
        self, ids: Any, mask: Any, positions: Any, options: dict[str, Any]
    ) -> Any:
        """Call the network and return its output and its logits at ``positions`` (n, k).

        Parameters
        ----------
        ids
            Token ids of a batch of rows.
        mask
            The attention mask of the batch.
        positions
            The positions in each row for which logits are needed.
        options
            Further arguments of the network.
        """
        rows, thread = torch.arange(len(ids), device=ids.device)[:, None], threading.get_ident()

        def select_states(_module: Any, args: Any) -> Any:
            """Select the hidden states at the positions, before logits are computed from them."""
            # The user may call the network in another thread at the same time, without our lock.
            is_own_call = threading.get_ident() == thread and args[0].dim() == 3  # states, not ids
            return (args[0][rows, positions],) if is_own_call else None

        # States are selected before logits are computed, because 50,000 logits at each of 500
        # positions would be most of the work. The option logits_to_keep would keep every position
        # that is needed in any row.
        output_layer = self.language_model.get_output_embeddings()
        with contextlib.ExitStack() as stack:
            if output_layer is not None:
                stack.callback(output_layer.register_forward_pre_hook(select_states).remove)
            out = self.language_model(
                **{"input_ids": ids, "attention_mask": mask, "use_cache": False, **options}
            )
        # A network without an output layer returns logits at all positions. An answer has fewer
        # positions than its row.
        is_selected = out.logits.shape[1] == positions.shape[1]
        return out, out.logits if is_selected else out.logits[rows, positions]


@final
class NextTokenForSequenceClassification(PromptedLanguageModel):
    """A language model as a classifier: each label is one token, which may be the next token.

    The next token follows the last subword that attention sees. With two labels, the one output is
    the log-odds of the second, which is the difference of their logits. With more labels, each
    output is a logit minus the mean of the logits, since a constant shift says nothing about the
    classes. The softmax of the outputs is the probability of each token, given that it is one of
    them.
    """

    def __init__(
        self, language_model: Any, prompt: PromptTokenizer, tokens: Mapping[str, int]
    ) -> None:
        first_label, *other_labels = tokens
        # Two classes have one output.
        two_classes = {"other_label": first_label} if len(other_labels) == 1 else {}
        settings = {"template": [prompt.before, prompt.after], "tokens": tokens}
        classes = other_labels if two_classes else [*tokens]
        super().__init__(language_model, prompt, classes, next_token=settings, **two_classes)
        self.tokens = list(tokens.values())

    def forward(
        self, input_ids: Any, attention_mask: Any, **options: Any
    ) -> SequenceClassifierOutput:
        """Return the logits of the label tokens for every row, which is padded on the right."""
        last_position = attention_mask.shape[1] - 1 - attention_mask.flip(1).argmax(dim=1)
        out, all_logits = self.logits_at_positions(
            input_ids, attention_mask, last_position[:, None], options
        )
        logits = all_logits[:, 0, self.tokens]
        if len(self.tokens) == 2:
            return self.make_output(out, logits[:, 1:] - logits[:, :1])
        return self.make_output(out, logits - logits.mean(dim=1, keepdim=True))


@final
class AnswerForSequenceClassification(PromptedLanguageModel):
    r"""A language model whose output is the log-probability of an answer.

    The outputs are (n, S). Each is the sum :math:`\sum_t \log p(y_t \mid x, y_{<t})` over the
    tokens of one part of the answer, or with ``per_token`` the mean. A causal model reads prompt
    and answer in one row. In an encoder-decoder, the encoder reads the prompt and the decoder the
    answer.
    """

    capabilities: Mapping[Capability, str | None] = {
        "generation": None,
        "spans": "this model writes an answer",
    }
    limitations: Mapping[Property, str] = {
        "max_tokens": "an answer belongs to the whole text",
    }
    read_position = "before"
    missing_query_error = (
        "a language model has outputs for an answer, not for a text. Get an answer from "
        "limelight.predict, or explain with answer (--answer)."
    )
    truncation_advice = ""
    # Unknown tokens come late, since prompts in the training data do not contain them.
    replacement_order = ("delete", "mask", "unk", "pad")

    def __init__(
        self,
        language_model: Any,
        prompt: PromptTokenizer,
        *,
        per_token: Any = False,
        max_new_tokens: Any = 64,
    ) -> None:
        check_generation_options(max_new_tokens, per_token)
        answer_settings = {"template": prompt.settings, "per_token": per_token}
        # A regression has no probabilities.
        settings = {"problem_type": "regression", "answer": answer_settings}
        super().__init__(language_model, prompt, ["answer"], **settings)
        self.per_token, self.max_new_tokens = per_token, max_new_tokens
        self.has_encoder = prompt.keeps_end
        self._prefix: tuple[Any, Any] = (None, None)
        self._shares_prefix: bool | None = None

    @property
    def shares_prefix(self) -> bool:
        """Whether the common beginning of a batch is computed once, which a trial has confirmed."""
        if self._shares_prefix is None:
            # Beyond some length, longrope changes the rotation of all positions, also of cached
            # ones.
            rope_types = (
                str(getattr(module, "rope_type", "")) for module in self.language_model.modules()
            )
            can_share = not self.has_encoder and not any("longrope" in name for name in rope_types)
            self._shares_prefix = can_share  # for the trial
            self._shares_prefix = can_share and self._is_sharing_exact()
        return self._shares_prefix

    @shares_prefix.setter
    def shares_prefix(self, value: bool) -> None:
        self._shares_prefix = value

    def max_answer_length(self, limit: int) -> int:
        """Return the maximum number of generated tokens, at most a quarter of ``limit``."""
        return min(self.max_new_tokens, limit if self.has_encoder else max(1, limit // 4))

    def max_prompt_length(
        self, limit: int, queries: Sequence[AnswerQuery], prompt: PromptTokenizer
    ) -> int:
        """Return how many subwords of prompt and text fit into ``limit`` next to the answer.

        There is always room for the longest answer that the model may generate.
        """
        if self.has_encoder:
            return limit
        answer_length = len(prompt.encode_answer(queries[0].text)[0]) if queries else 0
        room = limit - max(answer_length, self.max_answer_length(limit))
        if room < 1:
            raise InputError(
                f"the answer has {answer_length} tokens, but the model reads {limit} of prompt "
                "and answer together. Explain a shorter answer."
            )
        return room

    def attach_queries(
        self,
        model_input: ModelInput,
        queries: Sequence[AnswerQuery],
        prompt: PromptTokenizer,
        _limit: int,
    ) -> ModelInput:
        """Append an answer to a model input, and mark the tokens that belong to the queries.

        A token belongs to the part of the answer that contains its first letter.

        Parameters
        ----------
        model_input
            The text that the model has read.
        queries
            Parts of one answer.
        prompt
            The tokenizer of the template.
        _limit
            Not used. Other heads need it.

        Returns
        -------
        The input with the answer and its marks.

        Raises
        ------
        InputError
            If the parts overlap.
        """
        answer, subwords = queries[0].text, model_input.encoding
        new_warnings = answer_warnings(queries)
        ids, spans = prompt.encode_answer(answer)
        # Before its first letter, a token may contain a space or characters of the prompt.
        token_texts = [answer[max(start, 0) : end] for start, end in spans]
        first_letters = [
            max(start, 0)
            + (len(token_text) - len(token_text.lstrip()) if token_text.strip() else 0)
            for (start, _), token_text in zip(spans, token_texts, strict=True)
        ]
        mark, new_queries = np.full(len(ids), _CONTEXT_MARK), list[AnswerQuery]()
        for number, query in enumerate(queries):
            token_indices = part_token_indices(query, first_letters)
            if (mark[token_indices] != _CONTEXT_MARK).any():
                raise InputError("parts of an answer that are explained together must not overlap.")
            mark[token_indices] = FIRST_PART_MARK + number
            new_queries.append(
                replace(
                    query,
                    length=len(token_indices),
                    per_token=self.per_token,
                    # The text of a conversation is its prompt.
                    prompt="" if model_input.source is not None else prompt.fill(model_input.text),
                )
            )
        no_index = np.full(len(ids), -1)
        marked = replace(
            subwords,
            ids=np.concatenate([subwords.ids, np.array(ids, dtype=np.int64)]),
            token=np.concatenate([subwords.token, no_index]),
            side=np.concatenate([subwords.side, no_index]),
            mark=np.concatenate([np.zeros_like(subwords.ids), mark]),
        )
        unknown_tokens = [
            repr(token_text.strip())
            for i, token_text, token_mark in zip(ids, token_texts, mark, strict=True)
            if i == prompt.unk_token_id and token_mark != _CONTEXT_MARK
        ]
        if unknown_tokens:
            names = truncate_line(", ".join(dict.fromkeys(unknown_tokens)), 60)
            new_warnings += (
                f"The tokenizer does not know {names}. In their positions, the log-probability of "
                f"{prompt.unk_token} is explained.",
            )
        warnings = model_input.warnings + new_warnings
        return replace(model_input, encoding=marked, queries=tuple(new_queries), warnings=warnings)

    def generate_answer(
        self, row: Int[np.ndarray, " T"], prompt: PromptTokenizer, limit: int
    ) -> AnswerQuery:
        """Generate an answer after a prompt, with the likeliest token each time."""
        inputs = forward.network_input(self, row[None])
        model_config = self.language_model.generation_config
        # Settings such as penalties, sampling and beams are ignored.
        greedy_config = GenerationConfig(
            max_new_tokens=self.max_answer_length(limit),
            do_sample=False,
            num_beams=1,
            pad_token_id=self.config.pad_token_id,
            bos_token_id=model_config.bos_token_id,
            eos_token_id=model_config.eos_token_id,
            decoder_start_token_id=model_config.decoder_start_token_id,
        )
        with forward.evaluation_mode(self), torch.inference_mode():
            generated = self.language_model.generate(**inputs, generation_config=greedy_config)
            ids = generated[0].tolist()
        # A decoder begins with its start token, and a causal model repeats the prompt.
        answer_ids = ids[1:] if self.has_encoder else ids[len(row) :]
        end_ids = np.atleast_1d(
            [] if model_config.eos_token_id is None else model_config.eos_token_id
        ).tolist()
        is_finished = bool(answer_ids) and answer_ids[-1] in end_ids
        answer_ids = answer_ids[:-1] if is_finished else answer_ids
        text = prompt.decode(answer_ids, skip_special_tokens=True)
        while answer_ids and text.endswith("\ufffd"):  # the answer ends inside a character
            answer_ids = answer_ids[:-1]
            text = prompt.decode(answer_ids, skip_special_tokens=True)
        text = text.removeprefix(prompt.gap)
        if not text.strip():
            raise InputError(EMPTY_ANSWER_ERROR)
        notes = []
        if not is_finished:
            notes.append(truncation_warning(len(answer_ids), "max_new_tokens (--max-new-tokens)"))
        if prompt.encode_answer(text)[0] != answer_ids:
            notes.append(TOKENIZATION_WARNING)
        return AnswerQuery(text, is_generated=True, note=" ".join(notes))

    def forward(
        self, input_ids: Any, attention_mask: Any, marks: Any = None, **options: Any
    ) -> SequenceClassifierOutput:
        """Return the log-probability of each part of the answers. Rows are padded on the right.

        In the check of a network, rows have no answer. Then the answer is one further token.

        Parameters
        ----------
        input_ids
            Token ids of the prompts with their answers.
        attention_mask
            1 at tokens, 0 at padding.
        marks
            The number of the part to which each token of an answer belongs.
        options
            Further keywords of the network.

        Returns
        -------
        The log-probabilities as ``logits``.
        """
        if marks is None:
            positions = input_ids.shape[1] - attention_mask.flip(1).argmax(dim=1)[:, None]
            tokens, part = torch.zeros_like(positions), torch.zeros_like(positions)
            encoder_mask = attention_mask
        else:
            max_count = int((marks > 0).sum(dim=1).max())
            positions = (marks == 0).to(torch.uint8).argsort(dim=1, stable=True)[:, :max_count]
            token_marks = marks.gather(1, positions)
            # A shorter answer is filled up with its first token, which then does not count.
            positions = torch.where(token_marks > 0, positions, positions[:, :1])
            tokens, part = input_ids.gather(1, positions), token_marks - FIRST_PART_MARK
            # The encoder must not read the explained answer.
            encoder_mask = attention_mask * (marks == 0)
        if self.has_encoder:
            out, logits = self._decoder_logits(input_ids, encoder_mask, tokens, options)
        elif (
            len(input_ids) > 1
            and not options
            and torch.is_inference_mode_enabled()
            and self.shares_prefix
        ):
            out, logits = self._shared_prefix_logits(input_ids, attention_mask, positions - 1)
        else:
            out, logits = self.logits_at_positions(
                input_ids, attention_mask, positions - 1, options
            )
        log_p = _log_probabilities(logits, tokens)
        token_marks = (
            part[:, None] == torch.arange(int(part.max()) + 1, device=part.device)[:, None]
        )
        # Single precision would round the −100 of a long answer to 1e-5.
        token_marks = token_marks.double()
        outputs = (token_marks * log_p[:, None]).sum(-1)
        if self.per_token:
            outputs = outputs / token_marks.sum(-1).clamp(min=1)
        return self.make_output(out, outputs)

    def _decoder_logits(
        self, ids: Any, attention_mask: Any, tokens: Any, options: dict[str, Any]
    ) -> Any:
        """Return the decoder's logits at each token of the answer, given earlier tokens."""
        if torch.is_inference_mode_enabled():  # gradients need all positions
            width = attention_mask.shape[1] - int(attention_mask.flip(1).argmax(dim=1).min())
            ids, attention_mask = ids[:, :width], attention_mask[:, :width]
        start_id = self.config.decoder_start_token_id
        start = torch.full_like(
            tokens[:, :1], self.config.pad_token_id if start_id is None else start_id
        )
        out = self.language_model(
            input_ids=ids,
            attention_mask=attention_mask,
            decoder_input_ids=torch.cat([start, tokens[:, :-1]], dim=1),
            use_cache=False,
            **options,
        )
        return out, out.logits

    def _shared_prefix_logits(self, ids: Any, mask: Any, positions: Any) -> Any:
        """Return the logits at ``positions``, computing the common beginning only once."""
        is_shared = ((ids == ids[:1]) & (mask > 0)).all(dim=0).long().cumprod(dim=0)
        shared_count = min(int(is_shared.sum()), int(positions.min()))
        if shared_count < _MIN_SHARED_TOKENS:
            return self.logits_at_positions(ids, mask, positions, {})
        # A copy, because a batch changes its cache.
        cache = copy.deepcopy(self._compute_prefix(ids[:1, :shared_count]))
        cache.batch_repeat_interleave(len(ids))
        options = {"past_key_values": cache, "use_cache": True}
        return self.logits_at_positions(
            ids[:, shared_count:], mask, positions - shared_count, options
        )

    def _compute_prefix(self, ids: Any) -> Any:
        """Return the keys and values of a common beginning, which are cached for the next batch."""
        # The user may train the network between two calls with the same beginning.
        weights = forward.weights_stamp(self.language_model)
        key, (cached_key, cache) = (ids.cpu().numpy().tobytes(), weights), self._prefix
        if cached_key != key:
            last_position = torch.full_like(ids[:, :1], ids.shape[1] - 1)
            out, _ = self.logits_at_positions(
                ids, torch.ones_like(ids), last_position, {"use_cache": True}
            )
            cache = out.past_key_values
            self._prefix = (key, cache)
        return cache

    def _is_sharing_exact(self) -> bool:
        """Tell whether rows with a shared prefix have the same outputs as separate rows."""
        try:
            # The three rows differ in their second half, and two are shorter than the first.
            rows = np.arange(24) + np.arange(3)[:, None] * (np.arange(24) > 11)
            marks = np.zeros_like(rows)
            marks[:, -5:-2] = FIRST_PART_MARK
            rows = forward.pack_rows(rows % min(self.config.vocab_size, 61), 0, marks)
            rows[1:, -2:] = MASKED_OUT
            with forward.evaluation_mode(self), torch.inference_mode():
                batch_outputs, *row_outputs = (
                    self(**forward.network_input(self, ids)).logits
                    for ids in (rows, *rows[:, None])
                )
            outputs = torch.cat(row_outputs)
            # This trial is too short to find a layer that forgets distant tokens.
            keeps_all = all(type(layer) is DynamicLayer for layer in self._prefix[1].layers)
            return keeps_all and bool(
                (batch_outputs - outputs).abs().max()
                <= _SHARING_TOLERANCE * (1 + outputs.abs().max())
            )
        except Exception:  # an unknown kind of cache, so rows are computed separately
            return False
        finally:
            self._prefix = (None, None)


def _log_probabilities(logits: Any, tokens: Any) -> Any:
    """Return log p of each token, in single precision at least."""
    z = logits if logits.dtype == torch.float64 else logits.float()
    if torch.is_inference_mode_enabled():  # this needs no memory for the softmax
        return z.gather(-1, tokens[..., None])[..., 0] - z.logsumexp(-1)
    return torch.log_softmax(z, -1).gather(-1, tokens[..., None])[..., 0]


def prompt_language_model(
    language_model: Any,
    tokenizer: Any,
    *,
    template: Any = None,
    labels: Any = None,
    **settings: Any,
) -> tuple[PromptedLanguageModel, PromptTokenizer]:
    """Return the network with another head, and its tokenizer, for a language model.

    Parameters
    ----------
    language_model
        The network of the user.
    tokenizer
        Its tokenizer.
    template
        A string or the messages of a chat, with {text} in it once, or a prompt for documents with
        {documents} and {question}. Without a template, the model reads chats.
    labels
        A word for each class. Without labels, answers are explained.
    settings
        Options of answers: ``per_token`` and ``max_new_tokens``.

    Returns
    -------
    The network with the new head, and the tokenizer for prompts.

    Raises
    ------
    InputError
        If the model does not fit the options, or if an option is not valid.
    """
    has_encoder = bool(getattr(language_model.config, "is_encoder_decoder", False))
    can_generate = getattr(language_model, "can_generate", lambda: False)()
    if not can_generate or (has_encoder and labels is not None):
        raise InputError(
            "template, max_new_tokens and per_token need a language model (…ForCausalLM or "
            "…LMHeadModel, without labels also …ForConditionalGeneration), not "
            f"{type(language_model).__name__}."
        )
    if labels is None:
        prompt = PromptTokenizer.from_template(tokenizer, template, keeps_end=has_encoder)
        return AnswerForSequenceClassification(language_model, prompt, **settings), prompt
    for name in sorted(settings):
        raise InputError(
            f"{name} is for written answers, but labels choose between classes. Leave {name} out."
        )
    prompt = PromptTokenizer.from_template(tokenizer, template)
    words = list(labels.items()) if isinstance(labels, Mapping) else []
    if len(words) < 2 or not all(
        isinstance(text, str) and text.strip() for pair in words for text in pair
    ):
        raise InputError(
            'labels must have a word for each of at least two classes, like {"negative": '
            f'"bad", "positive": "good"}}, not {labels!r}.'
        )
    tokens = prompt.label_tokens(dict(words))
    head = NextTokenForSequenceClassification(language_model, prompt, tokens)
    # Otherwise every text would be cut to nothing.
    prompt_length, limit = len(prompt.ids("")), max_input_length(head, tokenizer)
    if prompt_length >= limit:
        raise InputError(
            f"template must leave room for the text, but it has {prompt_length} tokens and the "
            f"model reads {limit}. Shorten it."
        )
    return head, prompt
