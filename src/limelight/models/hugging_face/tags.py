"""Token classifiers and models of extractive answers: their spans, and the output at given spans.

A subword of a span has a mark, which is packed with its id and so kept in masks, batches and
deletions. The mark contains the number of the span and the role of the subword's word: the only
word of the span, the first, one inside, or the last. A type such as ORG is read as B-ORG at the
first word of a span and as I-ORG after it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import InputError
from limelight.models.hugging_face.forward import (
    CustomHead,
    evaluation_mode,
    is_kind,
    network_input,
)
from limelight.models.hugging_face.subwords import read_subwords
from limelight.models.protocol import NO_SPAN_ERROR
from limelight.shapes import Bool, Float, Int
from limelight.text import ModelInput, SpanQuery, truncate_line

_OUTSIDE_TAGS = ("O", "0", "NONE", "NULL", "OUTSIDE", "_")  # the tags that mean "no tag"
_TAG_PATTERN = re.compile(r"([BILUESM])[-_](.+)")
# Letters of the only word of a span, the first, one inside and the last, in the schemes BIO, BILOU,
# BIOES and BMES. The best letter comes first.
_ROLE_LETTERS = ("USBI", "BIUS", "IMB", "LEIMB")
_SINGLE, _FIRST, _INSIDE, _LAST = range(4)
_BEGIN_LETTERS, _END_LETTERS = set("BUS"), set("LEUSO")
_MAX_ANSWER_LENGTH = 64  # subwords


@final
class SpanForSequenceClassification(CustomHead):
    r"""A tagger or a model of extractive answers whose outputs belong to marked spans.

    The outputs of a tagger are the logits of its tags or types, averaged over the subwords of the
    span. A model of answers has one output, the log-odds of :math:`p = p_{start}(s)\,p_{end}(e)`
    for the first subword s and the last subword e of the span. With S spans the outputs are (n, S ·
    C).
    """

    # Stored runs and learned methods contain fingerprints, so the name in them does not change.
    fingerprint_name = "PlaceForSequenceClassification"
    read_position = "marked"
    missing_query_error = NO_SPAN_ERROR
    truncation_advice = " Spans that are cut through are left out."

    def __init__(self, network: Any, *, types: bool = True) -> None:
        labels = network.config.id2label
        tags = tuple(str(labels[i]) for i in sorted(labels))
        is_extractive = is_kind(network, "QuestionAnswering")
        tags_of_type = _tags_by_role(tags) if types else {tag: (tag,) * 4 for tag in tags}
        classes = ["answer"] if is_extractive else [*tags_of_type]
        settings = {"other_label": "another answer"} if is_extractive else {}
        # The key is part of the fingerprint.
        super().__init__(network, classes, place=classes, **settings)
        self.tags, self.types = tags, {} if is_extractive else tags_of_type
        self.capabilities = {"spans": None}
        self.limitations = {
            "max_tokens": "spans are explained without windows",
            **({} if is_extractive else {"reads_pairs": "a tagger reads single texts"}),
        }

    def forward(
        self, input_ids: Any, attention_mask: Any, marks: Any = None, **options: Any
    ) -> SequenceClassifierOutput:
        """Return the outputs at the marked subwords of each row.

        If no row has marks, the second subword counts as the span.

        Parameters
        ----------
        input_ids
            Token ids of the texts.
        attention_mask
            1 at tokens, 0 at padding.
        marks
            A number at each subword of a queried span.
        options
            Further keywords of the network.

        Returns
        -------
        The outputs as ``logits``.
        """
        out = self.network(input_ids=input_ids, attention_mask=attention_mask, **options)
        if marks is None:  # the network is being checked
            marks = torch.zeros_like(input_ids)
            marks[:, min(1, input_ids.shape[1] - 1)] = 1
        spans, role = (marks - 1) // 4, (marks - 1) % 4
        span_count = int(spans.max()) + 1
        is_in_span = spans[:, None] == torch.arange(span_count, device=spans.device)[:, None]
        if self.types:
            return self.make_output(out, self._tag_logits(out, is_in_span, role).flatten(1))
        return self.make_output(
            out, self._answer_log_odds(out, attention_mask, is_in_span, role).flatten(1)
        )

    def _tag_logits(self, out: Any, is_in_span: Any, role: Any) -> Any:
        """Return (n, S, C) logits of the tags at each span, averaged over its subwords."""
        weight = is_in_span.to(out.logits.dtype) / is_in_span.sum(-1, keepdim=True).clamp(min=1)
        tags_of_roles = zip(*self.types.values(), strict=True)
        columns_of_roles = [[self.tags.index(tag) for tag in tags] for tags in tags_of_roles]
        return sum(
            (weight * (role == number)[:, None]) @ out.logits[:, :, columns]
            for number, columns in enumerate(columns_of_roles)
        )

    def _answer_log_odds(self, out: Any, attention_mask: Any, is_in_span: Any, role: Any) -> Any:
        """Return (n, S, 1) log-odds log p − log(1 − p), in single precision at least."""
        is_padding, is_double = attention_mask == 0, out.start_logits.dtype == torch.float64
        is_in_span = is_in_span.double() if is_double else is_in_span.float()
        # Padding has probability 0. Afterwards its logarithm is set to 0, since the products below
        # would turn −∞ into NaN.
        log_p_start, log_p_end = (
            torch.log_softmax(
                logits.to(is_in_span.dtype).masked_fill(is_padding, -torch.inf), -1
            ).masked_fill(is_padding, 0)
            for logits in (out.start_logits, out.end_logits)
        )
        is_start, is_end = (role == _SINGLE) | (role == _FIRST), (role == _SINGLE) | (role == _LAST)
        log_p = ((is_in_span * is_start[:, None]) @ log_p_start[..., None])[..., 0]
        log_p = log_p + ((is_in_span * is_end[:, None]) @ log_p_end[..., None])[..., 0]
        # If the model is certain, 1 − p is rounding error, so the odds are at most 1/ε.
        log_p = log_p.clamp(max=-torch.finfo(log_p.dtype).eps)
        return log_p - torch.log(-torch.expm1(log_p))

    def token_logits(self, row: Int[np.ndarray, " T"]) -> Float[np.ndarray, "T C"]:
        """Return the network's own logits at every subword: of tags, or of start and end."""
        inputs = network_input(self, row[None])
        with evaluation_mode(self), torch.inference_mode():
            out = self.network(**inputs)
            start_and_end = () if self.types else (out.start_logits, out.end_logits)
            logits = torch.stack(start_and_end, -1) if start_and_end else out.logits
            array: np.ndarray = logits[0].double().cpu().numpy()
        return array

    def attach_queries(
        self, model_input: ModelInput, queries: Sequence[SpanQuery], tokenizer: Any, limit: int
    ) -> ModelInput:
        """Mark the subwords of the spans in a model input.

        In a tagger every subword of a span has a mark. In a model of answers only the first and the
        last subword count.

        Parameters
        ----------
        model_input
            The text that the model has read.
        queries
            The spans.
        tokenizer
            The tokenizer of the model.
        limit
            Maximum number of subwords that the model reads.

        Returns
        -------
        The input with the marks of the spans.

        Raises
        ------
        InputError
            If a span is beyond the maximum length, or if spans overlap.
        """
        # Spans consist of words, also if the tokens are subwords.
        word_subwords, spans = read_subwords(tokenizer, model_input.user_input, limit=limit)
        subwords, readable = model_input.encoding, set(word_subwords.read_indices.tolist())
        mark = np.zeros(len(subwords.ids), dtype=np.int64)
        for number, query in enumerate(queries):
            groups = [
                np.flatnonzero(word_subwords.token == word).tolist()
                for word in query.token_indices(spans, model_input.text)
            ]
            if not readable.issuperset(i for group in groups for i in group):
                description = query.describe(model_input.text).removeprefix("at ")
                raise InputError(
                    f"{description} is beyond the first {subwords.room} tokens, which are all "
                    "that the model reads. Explain a shorter text around it."
                )
            if query.first_subwords and self.types:
                groups = [group[:1] for group in groups]
            if not self.types:
                groups = [[i] for group in groups for i in group]
            for word, group in enumerate(groups):
                if mark[group].any():
                    raise InputError("spans that are explained together must not overlap.")
                # Span and role are one number, since a subword has only one mark.
                mark[group] = 1 + 4 * number + _word_role(word, len(groups))
        return replace(model_input, encoding=replace(subwords, mark=mark), queries=tuple(queries))

    def spans(self, model_input: ModelInput, *, first_subwords: bool) -> tuple[SpanQuery, ...]:
        """Return the spans of a tagger, or the answer in the passage of a pair.

        A span is left out if the model does not read all subwords of its words.
        """
        subwords, token = model_input.encoding, model_input.encoding.token
        counts = [
            np.bincount(word_indices[word_indices >= 0])
            for word_indices in (token[subwords.read_indices], token)
        ]
        is_complete = counts[0] == counts[1][: len(counts[0])]
        if self.types:
            return self._tagged_spans(model_input, is_complete, first_subwords=first_subwords)
        if not model_input.parts:
            raise InputError("an answer needs a passage. Give a pair, (question, passage).")
        return self._answer_spans(model_input, is_complete)

    def _tagged_spans(
        self,
        model_input: ModelInput,
        is_complete: Bool[np.ndarray, " words"],
        *,
        first_subwords: bool,
    ) -> tuple[SpanQuery, ...]:
        """Return the spans of a tagger. Each word has the tag with the largest mean logit."""
        subwords, spans, text = model_input.encoding, model_input.tokens.spans, model_input.text
        token = subwords.token[subwords.read_indices]
        logits = self.token_logits(subwords.row[subwords.read_indices])
        word_rows = [
            np.flatnonzero(token == word) for word in range(1 + int(token.max(initial=-1)))
        ]
        # Logits are averaged instead of probabilities, because their mean is what is explained.
        means = np.array(
            [
                logits[word_row[:1] if first_subwords else word_row].mean(axis=0)
                for word_row in word_rows
            ]
        )
        tags = [self.tags[i] for i in means.argmax(axis=1)]
        probabilities = np.exp(means - np.logaddexp.reduce(means, axis=1, keepdims=True)).max(
            axis=1
        )
        queries = list[SpanQuery]()
        for first, last, name in decode_tags(tags, self.tags):
            word_slice = slice(first, last + 1)
            if not is_complete[word_slice].all():
                continue
            (start, _), (_, end), word_tags, note = spans[first], spans[last], tags[word_slice], ""
            expected_tags = [
                self.types[name][_word_role(i, len(word_tags))]
                for i in range(len(word_tags))
                if name in self.types
            ]
            if expected_tags and expected_tags != word_tags:
                predicted, expected = (
                    " ".join(sequence[:6]) + " …" * (len(sequence) > 6)
                    for sequence in (word_tags, expected_tags)
                )
                note = (
                    f"The model tags “{truncate_line(text[start:end], 40)}” as {predicted}, but "
                    f"for {name!r} the tags {expected} are explained. Use target={word_tags[0]!r} "
                    "to explain that tag at every subword token."
                )
            queries.append(
                SpanQuery(
                    start, end, first_subwords, name, float(probabilities[word_slice].mean()), note
                )
            )
        return tuple(queries)

    def _answer_spans(
        self, model_input: ModelInput, is_complete: Bool[np.ndarray, " words"]
    ) -> tuple[SpanQuery, ...]:
        """Return the most probable answer in the passage, unless "no answer" is more probable."""
        subwords, spans = model_input.encoding, model_input.tokens.spans
        indices = subwords.read_indices
        log_p = self.token_logits(subwords.row[indices])
        log_p -= np.logaddexp.reduce(log_p, axis=0)
        token = subwords.token[indices]
        # Words of which a subword is cut off are not part of an answer.
        is_passage = (
            (subwords.side[indices] == 1) & (token >= 0) & np.append(is_complete, False)[token]
        )
        is_start = is_passage & (np.append(-1, token[:-1]) != token)
        is_end = is_passage & (np.append(token[1:], -1) != token)
        log_p_answer = log_p[:, None, 0] + log_p[None, :, 1]
        length = np.arange(len(indices))[None] - np.arange(len(indices))[:, None]
        log_p_answer[
            ~(is_start[:, None] & is_end & (length >= 0) & (length < _MAX_ANSWER_LENGTH))
        ] = -np.inf
        first, last = np.unravel_index(log_p_answer.argmax(), log_p_answer.shape)
        # In models of SQuAD 2, the first subword as start and end means that there is no answer.
        if not log_p_answer[first, last] > log_p[0].sum():
            return ()
        start, end = spans[token[first]][0], spans[token[last]][1]
        score = np.exp(log_p_answer[first, last])
        return (SpanQuery(start, end, tag="answer", score=float(score)),)


def _tags_by_role(tags: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return for each type its tags at the only word, the first, one inside and the last."""
    letters_and_types, tags_of_type = parse_tags(tags), dict[str, tuple[str, ...]]()
    for tag, (_, name) in letters_and_types.items():
        tag_of_letter = {
            letter: other_tag
            for other_tag, (letter, other_name) in letters_and_types.items()
            if other_name == name
        }
        tags_of_type[name] = tuple(
            next((tag_of_letter[letter] for letter in letters if letter in tag_of_letter), tag)
            for letters in _ROLE_LETTERS
        )
    return tags_of_type


def parse_tags(tags: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Split every tag into a letter and a type.

    The letter is "O" for a tag that means "no tag", and "" for a tag that is itself a type.
    """
    split_tags = {tag: match.groups() for tag in tags if (match := _TAG_PATTERN.fullmatch(tag))}
    # E-MAIL is a type, not the end of MAIL, if no tag begins MAIL. S-BAR is a similar case.
    types = {name for letter, name in split_tags.values() if letter in "BI"}
    types |= {name for letter, name in split_tags.values() if letter in "US" and types}
    parsed = {
        tag: (split_tags[tag][0], split_tags[tag][1])
        for tag in split_tags
        if split_tags[tag][1] in types
    }
    outside = {
        tag for tag in tags if tag.upper() in _OUTSIDE_TAGS and not (tag == "0" and "1" in tags)
    }
    return {tag: parsed.get(tag, ("O" if tag in outside else "", tag)) for tag in tags}


def decode_tags(words: Sequence[str], tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the first word, the last word and the type of every span, given the tag of each word.

    A span that has no beginning starts at its first word. If there is a tag for "no tag", neighbors
    with the same tag without a letter form one span. Otherwise, as for parts of speech, each word
    is a span.
    """
    letters_and_types, spans = parse_tags(tags), list[tuple[int, int, str]]()
    end_letters = (
        _END_LETTERS
        if any(letter == "O" for letter, _ in letters_and_types.values())
        else {*_END_LETTERS, ""}
    )
    previous_letter = "O"
    for i, (letter, name) in enumerate(letters_and_types[tag] for tag in words):
        if letter != "O" and (
            previous_letter in end_letters or letter in _BEGIN_LETTERS or spans[-1][2] != name
        ):
            spans.append((i, i, name))
        elif letter != "O":
            spans[-1] = (spans[-1][0], i, name)
        previous_letter = letter
    return spans


def _word_role(word: int, count: int) -> int:
    """Return the role of a word in a span of ``count`` words."""
    if count == 1:
        return _SINGLE
    return _FIRST if not word else _LAST if word == count - 1 else _INSIDE
