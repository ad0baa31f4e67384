"""Language models that write an answer: what they write after a text, and how probable that is.

The tokens of an answer follow those of the prompt in one row and carry a mark, which travels with
their ids through masks, batches and deletions: 1 at a token that is given, 2 + s at one whose
log-probability counts to the part s that is asked about.
"""

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import InputError
from limelight.models.hugging_face.forward import (
    AnotherHead,
    changes,
    network_input,
    restoring,
    without_plans,
)
from limelight.models.hugging_face.pieces import pieces_in
from limelight.models.hugging_face.prompt import (
    PromptTokenizer,
    keeps_logits,
    logits_at,
    prompt_of,
    prompted_config,
)
from limelight.models.protocol import (
    NOTHING_WRITTEN,
    OTHER_TOKENS,
    check_writing,
    cut_after,
    no_token,
    notes_of_one,
)
from limelight.shapes import Int
from limelight.text import Answer, Document, Span, one_line

_SHARED = 8  # tokens that all rows of a batch begin with, from which on they are computed once
_SAME = 1e-4  # by which log-probabilities may differ when they are
_ASIDE, COUNTS = 1, 2  # marks
MAX_NEW_TOKENS = 64
# Where a configuration says how far back a layer reads, and which layers do.
_WINDOWS = ("sliding_window", "window_size", "attention_window_size", "attention_chunk_size")
_LAYERS = ("layer_types", "attention_layers", "attention_types")


def writing(
    language_model: Any,
    tokenizer: Any,
    template: Any,
    *,
    per_token: Any = False,
    max_new_tokens: Any = MAX_NEW_TOKENS,
) -> "tuple[AnswerForSequenceClassification, PromptTokenizer]":
    """Return network and tokenizer of a language model whose answers are explained."""
    if not getattr(language_model, "can_generate", lambda: False)():
        raise InputError(
            "a template without labels is for language models that write (…ForCausalLM, "
            f"…ForConditionalGeneration); got {type(language_model).__name__}."
        )
    check_writing(max_new_tokens, per_token)
    encodes = bool(getattr(language_model.config, "is_encoder_decoder", False))
    prompt = prompt_of(tokenizer, template)._replace(closed=encodes)
    config = prompted_config(language_model, tokenizer, ["answer"])
    config.problem_type = "regression"  # a number, of which there are no probabilities
    config.answer = {"template": [prompt.before, prompt.after], "per_token": per_token}
    head = AnswerForSequenceClassification(
        language_model, config, per_token=per_token, max_new_tokens=max_new_tokens
    )
    return head, PromptTokenizer(tokenizer, prompt)


@final
class AnswerForSequenceClassification(AnotherHead):
    r"""A language model with another head: :math:`\sum_t \log p(y_t \mid x, y_{<t})` of an answer.

    The outputs are (n, S), the sum over the tokens of each part of the answer that is asked about,
    or with ``per_token`` their mean. A causal model reads prompt and answer in one row; of an
    encoder with a decoder, the encoder reads the prompt and the decoder the answer.
    """

    held = "language_model"

    def __init__(
        self, language_model: Any, config: Any, *, per_token: bool, max_new_tokens: int
    ) -> None:
        super().__init__()
        self.language_model, self.config = language_model, config
        self.per_token, self.max_new_tokens = per_token, max_new_tokens
        self.encodes = bool(getattr(config, "is_encoder_decoder", False))
        given = inspect.signature(language_model.forward).parameters
        self._keeps, self.training = keeps_logits(language_model), language_model.training
        self._prefix: tuple[Any, Any] = (None, None)
        able = not self.encodes and "position_ids" in given and not _has_window(config.to_dict())
        self.shares = able and self._shares_rightly()

    def longest(self, limit: int) -> int:
        """Return how many tokens the model may write, a quarter of what it reads at most."""
        return min(self.max_new_tokens, limit if self.encodes else max(1, limit // 4))

    def room(self, limit: int, answer: int) -> int:
        """Return how many pieces of prompt and text are read of ``limit``, beside an answer.

        Room for the longest that the model may write is kept whatever it does write.
        """
        if self.encodes:
            return limit
        left = limit - max(answer, self.longest(limit))
        if left < 1:
            raise InputError(
                f"the answer has {answer} tokens, and the model reads {limit}, prompt and answer "
                "together; explain a shorter answer."
            )
        return left

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
            hidden = attention_mask * (marks == 0)
        if self.encodes:
            out, logits = self._decoded(input_ids, hidden, tokens, asked)
        elif self.shares and not asked and torch.is_inference_mode_enabled():
            out, logits = None, self._aligned(input_ids, attention_mask, end - 1)
        else:
            out, logits = logits_at(self, input_ids, attention_mask, end - 1, asked)
        chance = _log_probability(logits, tokens)
        own = part[:, None] == torch.arange(int(part.max()) + 1, device=part.device)[:, None]
        own = own.to(chance.dtype)
        found = (own * chance[:, None]).sum(-1)
        if self.per_token:
            found = found / own.sum(-1).clamp(min=1)
        return SequenceClassifierOutput(
            logits=found,
            hidden_states=getattr(out, "hidden_states", None),
            attentions=getattr(out, "attentions", None),
        )

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

    def _aligned(self, ids: Any, mask: Any, places: Any) -> Any:
        """Return the same logits: what all rows begin with is computed once, and all end together.

        Rows that end at one place need logits at as many places as the answer has tokens: 50,000 of
        them at each place of a prompt would be most of the work, and of the memory.
        """
        (n, T), device = ids.shape, ids.device
        same = ((ids == ids[:1]) & (mask > 0)).all(dim=0).long().cumprod(dim=0)
        shared = min(int(same.sum()), int(places.min())) if n > 1 else 0
        shared = shared if shared >= _SHARED else 0
        shift = mask.flip(1).argmax(dim=1)[:, None]  # places of padding at the end of a row
        there = torch.arange(T - shared, device=device)
        source = (there - shift) % (T - shared)
        rest, seen = ids[:, shared:].gather(1, source), mask[:, shared:].gather(1, source)
        given: dict[str, Any] = {"use_cache": False}
        if shared:
            cache = copy.deepcopy(self._begun(ids[:1, :shared]))
            cache.batch_repeat_interleave(n)
            given = {"past_key_values": cache, "use_cache": True}
            seen = torch.cat([mask[:, :shared], seen], dim=1)
        first = int((places + shift).min())
        if self._keeps:
            given["logits_to_keep"] = T - first
        out = self.language_model(
            input_ids=rest,
            attention_mask=seen,
            position_ids=shared + (there - shift).clamp(min=0),
            **given,
        )
        rows = torch.arange(n, device=device)[:, None]
        return out.logits[rows, places + shift - (first if self._keeps else shared)]

    def _begun(self, ids: Any) -> Any:
        """Return the keys and values of what rows begin with, kept from one batch to the next."""
        weights = tuple(changes(one) for one in self.language_model.parameters())
        key = (ids.cpu().numpy().tobytes(), weights)
        if self._prefix[0] != key:
            mask = torch.ones_like(ids)
            options = {"logits_to_keep": 1} if self._keeps else {}
            out = self.language_model(input_ids=ids, attention_mask=mask, use_cache=True, **options)
            self._prefix = (key, out.past_key_values)
        return self._prefix[1]

    def _shares_rightly(self) -> bool:
        """Whether rows computed together from what they share are what each is by itself."""
        size = min(self.config.vocab_size, 61)
        rows = np.arange(3 * _SHARED) % size + (np.arange(3)[:, None] * (np.arange(24) > 11))
        rows[1:, -4:-2] = rows[1:, -2:]
        rows[1:, -2:] = -1
        marks = np.zeros(rows.shape, dtype=np.int64)
        marks[0, -3:] = marks[1:, -5:-2] = COUNTS
        rows = np.where(rows < 0, rows, rows % size + (marks << 40))
        self.shares = True
        try:
            with restoring(self), torch.inference_mode(), without_plans(self.device.type):
                together = self(**network_input(self, rows)).logits
                self.shares = False
                alone = self(**network_input(self, rows)).logits
            return bool((together - alone).abs().max() <= _SAME * (1 + alone.abs().max()))
        except Exception:  # a cache of its own kind: each row is then computed whole
            return False
        finally:
            self._prefix = (None, None)


def _has_window(config: Any) -> bool:
    """Whether a layer reads only so many places back, in a configuration or a part of it.

    Places are counted in the row, whatever its position_ids: padding in the middle would use up the
    window. A short trial does not show that.
    """
    if isinstance(config, str):
        return any(kind in config for kind in ("sliding", "local", "chunked"))
    if isinstance(config, Mapping):
        return any(
            bool(value) if name in _WINDOWS else _has_window(value)
            for name, value in config.items()
            if name in (*_WINDOWS, *_LAYERS) or isinstance(value, Mapping)
        )
    return isinstance(config, list | tuple) and any(map(_has_window, config))


def _log_probability(logits: Any, tokens: Any) -> Any:
    """Return log p of each token, in single precision at least."""
    z = logits if logits.dtype == torch.float64 else logits.float()
    if torch.is_inference_mode_enabled():  # the softmax of all words need not be held
        return z.gather(-1, tokens[..., None])[..., 0] - z.logsumexp(-1)
    return torch.log_softmax(z, -1).gather(-1, tokens[..., None])[..., 0]


def answering(
    document: Document,
    asked: Sequence[Answer],
    tokenizer: PromptTokenizer,
    ids: Sequence[int],
    spans: Sequence[Span],
    *,
    per_token: bool,
) -> Document:
    """Return ``document`` with the tokens of an answer after it, marked by what is asked of them.

    A token belongs to the part in which the first of its letters stands.
    """
    answer, pieces, notes = asked[0].text, pieces_in(document), notes_of_one(asked)
    mark, lengths = np.full(len(ids), _ASIDE), list[int]()
    for number, one in enumerate(asked):
        own = [one.start <= _letter(answer, span) < one.end for span in spans]
        if not any(own):
            raise no_token(one)
        if (mark[own] != _ASIDE).any():
            raise InputError("parts of an answer that are asked about together must not overlap.")
        mark[own] = COUNTS + number
        lengths.append(sum(own))
    none = np.full(len(ids), -1)
    marked = replace(
        pieces,
        ids=np.concatenate([pieces.ids, np.array(ids, dtype=np.int64)]),
        token=np.concatenate([pieces.token, none]),
        after=pieces.after + len(ids),
        mark=np.concatenate([np.zeros_like(pieces.ids), mark]),
    )
    unknown = [
        repr(answer[max(start, 0) : end].strip())
        for i, (start, end), counts in zip(ids, spans, mark, strict=True)
        if i == tokenizer.unk_token_id and counts != _ASIDE
    ]
    if unknown:
        words = one_line(", ".join(dict.fromkeys(unknown)), 60)
        notes += (
            f"The tokenizer does not know {words}; in that place of the answer, what is explained "
            f"is the log-probability of {tokenizer.unk_token}.",
        )
    return replace(
        document,
        input=marked,
        asked=tuple(
            replace(one, length=length, per_token=per_token)
            for one, length in zip(asked, lengths, strict=True)
        ),
        notices=document.notices + notes,
    )


def _letter(answer: str, span: Span) -> int:
    start, end = span
    inner = answer[max(start, 0) : end]
    return max(start, 0) + len(inner) - len(inner.lstrip()) if inner.strip() else max(start, 0)


def written_answer(
    head: AnswerForSequenceClassification,
    tokenizer: PromptTokenizer,
    row: Int[np.ndarray, " T"],
    limit: int,
) -> Answer:
    """Return what the model writes after a prompt, the likeliest token each time."""
    given = network_input(head, row[None])
    own = head.language_model.generation_config
    # Somebody's settings for generation (penalties, sampling, beams) are not the model's answer.
    plain = GenerationConfig(
        max_new_tokens=head.longest(limit),
        do_sample=False,
        num_beams=1,
        pad_token_id=head.config.pad_token_id,
        bos_token_id=own.bos_token_id,
        eos_token_id=own.eos_token_id,
        decoder_start_token_id=own.decoder_start_token_id,
    )
    with restoring(head), torch.inference_mode(), without_plans(head.device.type):
        found = head.language_model.generate(**given, generation_config=plain)[0].tolist()
    new = found[1:] if head.encodes else found[len(row) :]
    ends = np.atleast_1d([] if own.eos_token_id is None else own.eos_token_id).tolist()
    finished = bool(new) and new[-1] in ends
    new = new[:-1] if finished else new
    text = tokenizer.decode(new, skip_special_tokens=True)
    while new and text.endswith("\ufffd"):  # an answer that is cut inside a character
        new = new[:-1]
        text = tokenizer.decode(new, skip_special_tokens=True)
    text = text.removeprefix(tokenizer.prompt.gap)
    if not text.strip():
        raise InputError(NOTHING_WRITTEN)
    notes = []
    if not finished:
        notes.append(cut_after(len(new), "max_new_tokens (--max-new-tokens)"))
    if tokenizer.answer_pieces(text)[0] != new:
        notes.append(OTHER_TOKENS)
    return Answer(text, written=True, note=" ".join(notes))
