"""Language models that are asked: what is next, as classifiers, or how probable an answer is.

What stands around a text is a prompt. The tokens of an answer follow those of the prompt in one row
and carry a mark, which travels with their ids through masks, batches and deletions: 1 at a token
that is given, 2 + s at one whose log-probability counts to the part s that is asked about.
"""

import contextlib
import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import InputError
from limelight.models.engine import said
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import MASKED_OUT, AnotherHead
from limelight.models.hugging_face.pieces import longest_input
from limelight.models.protocol import (
    NOTHING_WRITTEN,
    OTHER_TOKENS,
    Capability,
    Property,
    adjoins,
    check_writing,
    cut_after,
    notes_of_one,
    tokens_of,
)
from limelight.shapes import Int
from limelight.text import Answer, ModelInput, Span, one_line
from limelight.threads import cached_property

TEXT = "{text}"
_ANY = "A film."  # what stands in the place of the text while a template is looked at
_SHARED = 8  # tokens that all rows of a batch begin with, from which on they are computed once
_SAME = 1e-4  # by which log-probabilities may differ when they are
_ASIDE, COUNTS = 1, 2  # marks


@final
@dataclass(frozen=True, eq=False)
class PromptTokenizer:
    """A fast tokenizer whose special pieces around a text are those of a prompt.

    The whole prompt is read at once, as the model would meet it. A piece that lies partly outside
    the text is the prompt's and is never removed; only the space before the first word is not. With
    ``special`` the tokenizer adds tokens of its own. A ``closed`` prompt, that of an encoder, keeps
    those at its end: what comes next stands elsewhere.
    """

    own: Any
    before: str
    after: str
    special: bool
    closed: bool = False
    is_fast = True
    model_input_names = ("input_ids", "attention_mask")  # all that transformers generates from
    why_no_pairs = "a template has room for one text; write both into the template or the text"

    @staticmethod
    def of(tokenizer: Any, template: Any, *, closed: bool = False) -> "PromptTokenizer":
        """Return the prompt that ``template`` describes: a string, or messages of a chat."""
        # A chat template writes the special tokens itself.
        special = isinstance(template, str)
        whole = template if special else _chat(tokenizer, template)
        if (count := whole.count(TEXT)) != 1:
            raise InputError(
                f"template must have {TEXT} in it once; {one_line(whole, 80)!r} has it {count} "
                "times."
            )
        before, after = whole.split(TEXT)
        return PromptTokenizer(tokenizer, before, after.rstrip(" "), special, closed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    @cached_property
    def gap(self) -> str:
        """The space that belongs between the prompt and the word that comes next, if any does.

        Tokenizers count the space before a word as part of it, so a prompt never ends in one.
        """
        end, ids = (self.after or _ANY)[-1], self.ids(_ANY)
        marked = bool(ids) and ids[-1] in set(self.all_special_ids)  # of a chat: the turn begins
        return "" if end.isspace() or marked else " "

    def ids(self, text: str, next_word: str = "") -> list[int]:
        """Return the tokens of the whole prompt, without what the tokenizer puts at an end."""
        found = self._encoded(self.before, text, self.after, next_word)
        return list(found["input_ids"][: _continued(found)])

    def _encoded(self, *parts: str, special: bool | None = None) -> Any:
        """Return the tokenizer's encoding of all parts together, whatever their length."""
        with forward.restoring_tokenizer(self.own):
            return self.own(
                "".join(parts),
                add_special_tokens=self.special if special is None else special,
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
                truncation=False,
                verbose=False,
            )

    def label_tokens(self, labels: Mapping[str, str]) -> dict[str, int]:
        """Return the token of every class: that of its word as it comes right after the prompt."""
        asked = self.ids(_ANY)
        found: dict[str, int] = {}
        for name, word in labels.items():
            gap = "" if word[:1].isspace() else self.gap
            going_on = self.ids(_ANY, gap + word)
            rest = going_on[len(asked) :]
            # A word that changes the tokens before it does not come after this prompt.
            follows = going_on[: len(asked)] == asked and len(rest) == 1
            if not follows or rest[0] in (self.unk_token_id, *found.values()):
                pieces = ", ".join(repr(self.decode([i])) for i in rest)
                raise InputError(
                    "a label must be one token after the template, which the tokenizer knows and "
                    f"no other label has; {word!r} is read as {pieces}. Choose another word for "
                    f"{name!r}."
                )
            found[name] = rest[0]
        return found

    def __call__(self, texts: Sequence[str], **_: Any) -> SimpleNamespace:
        """Return the pieces of the whole prompt; places and words are those of each text."""
        return SimpleNamespace(encodings=[self._encoding(text) for text in texts])

    def _encoding(self, text: str) -> SimpleNamespace:
        # White space around a text would stay when its words go; places are those in all of it.
        lead, text = len(text) - len(text.lstrip()), text.strip()
        encoded = self._encoded(self.before, text, self.after)
        length = len(encoded["input_ids"]) if self.closed else _continued(encoded)
        first, words, places = len(self.before), list[int | None](), list[Span]()
        for word, (start, end) in zip(encoded.word_ids(), encoded["offset_mapping"], strict=True):
            # A space before the first word that is a piece of its own goes with the word, too.
            inside = start < end and first <= end <= first + len(text)
            own = inside and not self.before[start:].strip(" ")
            words.append(word if own else None)
            places.append((max(start - first, 0) + lead, end - first + lead) if own else (0, 0))
        ids = list(encoded["input_ids"])
        return SimpleNamespace(ids=ids[:length], word_ids=words[:length], offsets=places[:length])

    def answer_pieces(self, answer: str) -> tuple[list[int], list[Span]]:
        """Return the tokens of an ``answer`` that follows the prompt, and where each stands in it.

        They are those of the whole, prompt and answer; by itself where both share a token.
        """
        gap, asked = "" if self.closed or adjoins(answer) else self.gap, self.ids(_ANY)
        found = self._encoded(self.before, _ANY, self.after, gap, answer)
        start, first = len(asked), len(f"{self.before}{_ANY}{self.after}{gap}")
        if self.closed or list(found["input_ids"][:start]) != asked:
            found = self._encoded(gap, answer, special=False)
            start, first = 0, len(gap)
        here = slice(start, _continued(found))
        spans = [(a - first, b - first) for a, b in found["offset_mapping"][here]]
        return list(found["input_ids"][here]), spans


def _continued(encoded: Any) -> int:
    """Return how many tokens come before the end that a tokenizer adds: more is to follow here."""
    mask = list(encoded["special_tokens_mask"])
    while mask and mask[-1]:
        mask.pop()
    return len(mask)


def _chat(tokenizer: Any, messages: Any) -> str:
    """Return the messages as the chat template of the tokenizer writes them."""
    try:
        # What the assistant has begun to say goes on; else it begins.
        goes_on = messages[-1]["role"] == "assistant"
        return str(
            tokenizer.apply_chat_template(
                [{"role": one["role"], "content": one["content"]} for one in messages],
                tokenize=False,
                add_generation_prompt=not goes_on,
                continue_final_message=goes_on,
            )
        )
    except Exception as error:  # jinja's own, or what a template raises: roles in another order
        raise InputError(
            "the messages of a template must be as the chat template of the tokenizer takes them, "
            f'like {{"role": "user", "content": "… {TEXT} …"}} ({said(error)}); or give template '
            f"as one string with {TEXT} in it."
        ) from error


class AskedLanguageModel(AnotherHead):
    """The network of a language model with another head."""

    held = "language_model"

    def __init__(
        self, language_model: Any, prompt: PromptTokenizer, classes: Sequence[str], **told: Any
    ) -> None:
        super().__init__(language_model, classes, **told)
        if self.config.pad_token_id is None:  # padding is masked out, so any token will do
            choices = (prompt.pad_token_id, prompt.eos_token_id)
            self.config.pad_token_id = next((int(one) for one in choices if one), 0)

    def logits_at(self, ids: Any, mask: Any, places: Any, asked: dict[str, Any]) -> Any:
        """Return what the network says, and its logits at the ``places`` (n, k) of each row."""
        rows, own = torch.arange(len(ids), device=ids.device)[:, None], threading.get_ident()

        def picked(_module: Any, given: Any) -> Any:
            # Whoever lent the network may ask it meanwhile, in a thread that knows no lock of ours.
            here = threading.get_ident() == own and given[0].dim() == 3  # states, not ids
            return (given[0][rows, places],) if here else None

        # Before states are turned into words: 50,000 logits at each of 500 places would be most of
        # the work, and logits_to_keep would keep every place that any row is asked about.
        words = self.language_model.get_output_embeddings()
        with contextlib.ExitStack() as after:
            if words is not None:
                after.callback(words.register_forward_pre_hook(picked).remove)
            out = self.language_model(
                **{"input_ids": ids, "attention_mask": mask, "use_cache": False, **asked}
            )
        # A network without such a layer answers at all places; an answer has fewer than its row.
        known = out.logits.shape[1] == places.shape[1]
        return out, out.logits if known else out.logits[rows, places]


@final
class NextTokenForSequenceClassification(AskedLanguageModel):
    """A language model as a classifier: what it says of the token of each label as the next.

    Next after the last piece that attention sees. Of two tokens the one output is the log-odds of
    the second, the difference of their logits. Of more, each output is a logit less the mean of
    them: what is common to all words says nothing about the classes. Softmax of these is the
    probability of each token given that it is one of them.
    """

    def __init__(
        self, language_model: Any, prompt: PromptTokenizer, tokens: Mapping[str, int]
    ) -> None:
        first, *others = tokens
        two = {"other_label": first} if len(others) == 1 else {}  # then one output stands for both
        asked = {"template": [prompt.before, prompt.after], "tokens": tokens}
        classes = others if two else [*tokens]
        super().__init__(language_model, prompt, classes, next_token=asked, **two)
        self.tokens = list(tokens.values())

    def forward(
        self, input_ids: Any, attention_mask: Any, **asked: Any
    ) -> SequenceClassifierOutput:
        """Return the logits of the label tokens for every row, which is padded on the right."""
        last = attention_mask.shape[1] - 1 - attention_mask.flip(1).argmax(dim=1)
        out, found = self.logits_at(input_ids, attention_mask, last[:, None], asked)
        logits = found[:, 0, self.tokens]
        if len(self.tokens) == 2:
            return self.said(out, logits[:, 1:] - logits[:, :1])
        return self.said(out, logits - logits.mean(dim=1, keepdim=True))


@final
class AnswerForSequenceClassification(AskedLanguageModel):
    r"""A language model with another head: :math:`\sum_t \log p(y_t \mid x, y_{<t})` of an answer.

    The outputs are (n, S), the sum over the tokens of each part of the answer that is asked about,
    or with ``per_token`` their mean. A causal model reads prompt and answer in one row; of an
    encoder with a decoder, the encoder reads the prompt and the decoder the answer.
    """

    capabilities: Mapping[Capability, str | None] = {
        "generation": None,
        "spans": "this one writes an answer",
    }
    limitations: Mapping[Property, str] = {
        "max_tokens": "an answer is written after one text, not after the windows of one",
    }
    reads = "before"
    unasked = (
        "a model that writes has outputs for an answer, not of a text; ask limelight.predict for "
        "its answer, or explain with answer (--answer)."
    )
    if_cut = ""
    removals = ("delete", "mask", "unk", "pad")  # unknown words are no prompt that it has seen

    def __init__(
        self,
        language_model: Any,
        prompt: PromptTokenizer,
        *,
        per_token: Any = False,
        max_new_tokens: Any = 64,
    ) -> None:
        check_writing(max_new_tokens, per_token)
        asked = {"template": [prompt.before, prompt.after], "per_token": per_token}
        # A regression: a number, of which there are no probabilities.
        told = {"problem_type": "regression", "answer": asked}
        super().__init__(language_model, prompt, ["answer"], **told)
        self.per_token, self.max_new_tokens = per_token, max_new_tokens
        self.encodes = prompt.closed
        self._prefix: tuple[Any, Any] = (None, None)
        # Longrope turns positions by other angles from some length on, also those that are kept.
        kinds = (str(getattr(one, "rope_type", "")) for one in language_model.modules())
        self.shares = not self.encodes and not any("longrope" in kind for kind in kinds)
        self.shares = self.shares and self._shares_rightly()

    def longest(self, limit: int) -> int:
        """Return how many tokens the model may write, a quarter of what it reads at most."""
        return min(self.max_new_tokens, limit if self.encodes else max(1, limit // 4))

    def room(self, limit: int, asked: Sequence[Answer], prompt: PromptTokenizer) -> int:
        """Return how many pieces of prompt and text are read of ``limit``, beside an answer.

        Room for the longest that the model may write is kept whatever it does write.
        """
        if self.encodes:
            return limit
        answer = len(prompt.answer_pieces(asked[0].text)[0]) if asked else 0
        left = limit - max(answer, self.longest(limit))
        if left < 1:
            raise InputError(
                f"the answer has {answer} tokens, and the model reads {limit}, prompt and answer "
                "together; explain a shorter answer."
            )
        return left

    def asking(
        self, model_input: ModelInput, asked: Sequence[Answer], prompt: PromptTokenizer, _limit: int
    ) -> ModelInput:
        """Return ``document`` with an answer after it, marked by what is asked of its tokens.

        A token belongs to the part in which the first of its letters stands.
        """
        answer, pieces, notes = asked[0].text, model_input.input, notes_of_one(asked)
        ids, spans = prompt.answer_pieces(answer)
        # What a piece has before its first letter is space, or the prompt's.
        inner = [answer[max(start, 0) : end] for start, end in spans]
        letters = [
            max(start, 0) + (len(one) - len(one.lstrip()) if one.strip() else 0)
            for (start, _), one in zip(spans, inner, strict=True)
        ]
        mark, parts = np.full(len(ids), _ASIDE), list[Answer]()
        for number, one in enumerate(asked):
            own = tokens_of(one, letters)
            if (mark[own] != _ASIDE).any():
                raise InputError(
                    "parts of an answer that are asked about together must not overlap."
                )
            mark[own] = COUNTS + number
            parts.append(replace(one, length=len(own), per_token=self.per_token))
        none = np.full(len(ids), -1)
        marked = replace(
            pieces,
            ids=np.concatenate([pieces.ids, np.array(ids, dtype=np.int64)]),
            token=np.concatenate([pieces.token, none]),
            side=np.concatenate([pieces.side, none]),
            mark=np.concatenate([np.zeros_like(pieces.ids), mark]),
        )
        unknown = [
            repr(one.strip())
            for i, one, counts in zip(ids, inner, mark, strict=True)
            if i == prompt.unk_token_id and counts != _ASIDE
        ]
        if unknown:
            words = one_line(", ".join(dict.fromkeys(unknown)), 60)
            notes += (
                f"The tokenizer does not know {words}; in that place of the answer, what is "
                f"explained is the log-probability of {prompt.unk_token}.",
            )
        notices = model_input.notices + notes
        return replace(model_input, input=marked, asked=tuple(parts), notices=notices)

    def written(self, row: Int[np.ndarray, " T"], prompt: PromptTokenizer, limit: int) -> Answer:
        """Return what the model writes after a prompt, the likeliest token each time."""
        given = forward.network_input(self, row[None])
        own = self.language_model.generation_config
        # Somebody's settings (penalties, sampling, beams) are not the model's own answer.
        plain = GenerationConfig(
            max_new_tokens=self.longest(limit),
            do_sample=False,
            num_beams=1,
            pad_token_id=self.config.pad_token_id,
            bos_token_id=own.bos_token_id,
            eos_token_id=own.eos_token_id,
            decoder_start_token_id=own.decoder_start_token_id,
        )
        with forward.restoring(self), torch.inference_mode():
            found = self.language_model.generate(**given, generation_config=plain)[0].tolist()
        # A decoder begins with its start token, and a causal model repeats the prompt.
        new = found[1:] if self.encodes else found[len(row) :]
        ends = np.atleast_1d([] if own.eos_token_id is None else own.eos_token_id).tolist()
        finished = bool(new) and new[-1] in ends
        new = new[:-1] if finished else new
        text = prompt.decode(new, skip_special_tokens=True)
        while new and text.endswith("\ufffd"):  # an answer that is cut inside a character
            new = new[:-1]
            text = prompt.decode(new, skip_special_tokens=True)
        text = text.removeprefix(prompt.gap)
        if not text.strip():
            raise InputError(NOTHING_WRITTEN)
        notes = []
        if not finished:
            notes.append(cut_after(len(new), "max_new_tokens (--max-new-tokens)"))
        if prompt.answer_pieces(text)[0] != new:
            notes.append(OTHER_TOKENS)
        return Answer(text, written=True, note=" ".join(notes))

    def forward(
        self, input_ids: Any, attention_mask: Any, marks: Any = None, **asked: Any
    ) -> SequenceClassifierOutput:
        """Return the log-probability of each part of the answers in rows, padded on the right.

        Of rows without an answer, by which the network is looked at, that of one token more.
        """
        if marks is None:
            end = input_ids.shape[1] - attention_mask.flip(1).argmax(dim=1)[:, None]
            tokens, part = torch.zeros_like(end), torch.zeros_like(end)
            hidden = attention_mask
        else:
            most = int((marks > 0).sum(dim=1).max())
            end = (marks == 0).to(torch.uint8).argsort(dim=1, stable=True)[:, :most]
            own = marks.gather(1, end)
            # Of a shorter answer, its first token stands for what is missing, and does not count.
            end = torch.where(own > 0, end, end[:, :1])
            tokens, part = input_ids.gather(1, end), own - COUNTS
            # An encoder must not read the answer that is asked about.
            hidden = attention_mask * (marks == 0)
        if self.encodes:
            out, logits = self._decoded(input_ids, hidden, tokens, asked)
        elif self.shares and not asked and torch.is_inference_mode_enabled():
            out, logits = self._going_on(input_ids, attention_mask, end - 1)
        else:
            out, logits = self.logits_at(input_ids, attention_mask, end - 1, asked)
        chance = _log_probability(logits, tokens)
        own = part[:, None] == torch.arange(int(part.max()) + 1, device=part.device)[:, None]
        # In double precision: single rounds the −100 of a long answer to 1e-5.
        own = own.double()
        found = (own * chance[:, None]).sum(-1)
        if self.per_token:
            found = found / own.sum(-1).clamp(min=1)
        return self.said(out, found)

    def _decoded(self, ids: Any, hidden: Any, tokens: Any, asked: dict[str, Any]) -> Any:
        """Return the logits of a decoder at each of ``tokens``, given those before it."""
        if torch.is_inference_mode_enabled():  # a gradient is taken at the answer's places too
            width = hidden.shape[1] - int(hidden.flip(1).argmax(dim=1).min())
            ids, hidden = ids[:, :width], hidden[:, :width]
        first = self.config.decoder_start_token_id
        start = torch.full_like(tokens[:, :1], self.config.pad_token_id if first is None else first)
        out = self.language_model(
            input_ids=ids,
            attention_mask=hidden,
            decoder_input_ids=torch.cat([start, tokens[:, :-1]], dim=1),
            use_cache=False,
            **asked,
        )
        return out, out.logits

    def _going_on(self, ids: Any, mask: Any, places: Any) -> Any:
        """Return the same logits, what all rows begin with being computed once."""
        same = ((ids == ids[:1]) & (mask > 0)).all(dim=0).long().cumprod(dim=0)
        shared = min(int(same.sum()), int(places.min())) if len(ids) > 1 else 0
        if shared < _SHARED:
            return self.logits_at(ids, mask, places, {})
        cache = copy.deepcopy(self._begun(ids[:1, :shared]))  # each batch writes into its own
        cache.batch_repeat_interleave(len(ids))
        asked = {"past_key_values": cache, "use_cache": True}
        return self.logits_at(ids[:, shared:], mask, places - shared, asked)

    def _begun(self, ids: Any) -> Any:
        """Return the keys and values of what rows begin with, kept from one batch to the next."""
        # Somebody may train the network between two questions, which begin alike.
        weights = forward.changes(self.language_model)
        key, (known, cache) = (ids.cpu().numpy().tobytes(), weights), self._prefix
        if known != key:
            last = torch.full_like(ids[:, :1], ids.shape[1] - 1)
            out, _ = self.logits_at(ids, torch.ones_like(ids), last, {"use_cache": True})
            cache = out.past_key_values
            self._prefix = (key, cache)
        return cache

    def _shares_rightly(self) -> bool:
        """Whether rows computed together from what they share are what each is by itself."""
        try:
            # Three rows that differ from the middle on, two of them shorter than the first.
            rows = np.arange(24) + np.arange(3)[:, None] * (np.arange(24) > 11)
            mark = np.zeros_like(rows)
            mark[:, -5:-2] = COUNTS
            rows = forward.with_segments(rows % min(self.config.vocab_size, 61), 0, mark)
            rows[1:, -2:] = MASKED_OUT
            with forward.restoring(self), torch.inference_mode():
                together, *alone = (
                    self(**forward.network_input(self, some)).logits
                    for some in (rows, *rows[:, None])
                )
            each = torch.cat(alone)
            # A trial as short as this does not show a layer that forgets what lies far back.
            keeps = all(type(layer) is DynamicLayer for layer in self._prefix[1].layers)
            return keeps and bool((together - each).abs().max() <= _SAME * (1 + each.abs().max()))
        except Exception:  # a cache of its own kind: each row is then computed whole
            return False
        finally:
            self._prefix = (None, None)


def _log_probability(logits: Any, tokens: Any) -> Any:
    """Return log p of each token, in single precision at least."""
    z = logits if logits.dtype == torch.float64 else logits.float()
    if torch.is_inference_mode_enabled():  # the softmax of all words need not be held
        return z.gather(-1, tokens[..., None])[..., 0] - z.logsumexp(-1)
    return torch.log_softmax(z, -1).gather(-1, tokens[..., None])[..., 0]


def asked_language_model(
    language_model: Any, tokenizer: Any, *, template: Any = None, labels: Any = None, **told: Any
) -> tuple[AskedLanguageModel, PromptTokenizer]:
    """Return network and tokenizer of a language model; with ``labels``, of a classifier.

    Without them its answers are explained, of which more may be ``told``.
    """
    encodes = bool(getattr(language_model.config, "is_encoder_decoder", False))
    generates = getattr(language_model, "can_generate", lambda: False)()
    if not generates or (encodes and labels is not None):
        raise InputError(
            "template is for language models that write: with labels causal ones (…ForCausalLM, "
            "…LMHeadModel), without them …ForConditionalGeneration too; got "
            f"{type(language_model).__name__}."
        )
    if labels is None:
        prompt = PromptTokenizer.of(tokenizer, template, closed=encodes)
        return AnswerForSequenceClassification(language_model, prompt, **told), prompt
    for name in sorted(told):
        raise InputError(f"{name} is about an answer, and labels ask for none; leave it out.")
    prompt = PromptTokenizer.of(tokenizer, template)
    words = list(labels.items()) if isinstance(labels, Mapping) else []
    if len(words) < 2 or not all(
        isinstance(one, str) and one.strip() for pair in words for one in pair
    ):
        raise InputError(
            'labels must give at least two classes a word each, like {"negative": "bad", '
            f'"positive": "good"}}; got {labels!r}.'
        )
    tokens = prompt.label_tokens(dict(words))
    head = NextTokenForSequenceClassification(language_model, prompt, tokens)
    # Refused here, or every text would be cut to nothing.
    around, limit = len(prompt.ids("")), longest_input(head, tokenizer)
    if around >= limit:
        raise InputError(
            f"template must leave room for the text; it has {around} tokens, and the model reads "
            f"{limit}."
        )
    return head, prompt
