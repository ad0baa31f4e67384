"""Token classifiers and extractive answers: the number that they say of a place, and their spans.

A piece that is asked about carries a mark, which travels with its id through masks, batches and
deletions. The mark says to which place the piece belongs, and whether its word is the only one
there, the first, one inside, or the last: a type such as ORG is read as B-ORG at the first word of
a place and as I-ORG after it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import InputError
from limelight.models.hugging_face.forward import AnotherHead, is_kind, network_input, restoring
from limelight.models.hugging_face.pieces import pieces_of
from limelight.models.protocol import NO_PLACE
from limelight.shapes import Bool, Float, Int
from limelight.text import ModelInput, Place, one_line

_OUTSIDE = ("O", "0", "NONE", "NULL", "OUTSIDE", "_")  # how taggers spell "no tag"
_TAG = re.compile(r"([BILUESM])[-_](.+)")
# What the word of a type may be called: alone, first, inside and last; BIO, BILOU, BIOES, BMES.
_ROLES = ("USBI", "BIUS", "IMB", "LEIMB")
_ALONE, _FIRST, _INSIDE, _LAST = range(4)
_BEGINS, _ENDS = set("BUS"), set("LEUSO")
_LONGEST_ANSWER = 64  # pieces


@final
class PlaceForSequenceClassification(AnotherHead):
    r"""A tagger or a model of extractive answers with another head: what it says of marked pieces.

    Of a tagger, the logit of each tag or type, averaged over the pieces of the place. Of answers,
    one output, the log-odds of :math:`p = p_{start}(s)\,p_{end}(e)`, s and e being the first and
    the last piece of the place. With S places the outputs are (n, S · C).
    """

    reads = "marked"
    unasked = NO_PLACE
    if_cut = "; a span that the cut goes through is left out"

    def __init__(self, network: Any, *, types: bool = True) -> None:
        known = network.config.id2label
        tags = tuple(str(known[i]) for i in sorted(known))
        answers = is_kind(network, "QuestionAnswering")
        read = _types(tags) if types else {tag: (tag,) * 4 for tag in tags}
        classes = ["answer"] if answers else [*read]
        told = {"other_label": "another answer"} if answers else {}
        super().__init__(network, classes, place=classes, **told)
        self.tags, self.types = tags, {} if answers else read
        self.capabilities = {"spans": None}
        self.limitations = {
            "max_tokens": "this one is asked about a place in what it reads of a text",
            **({} if answers else {"reads_pairs": "a tagger reads one text"}),
        }

    def forward(
        self, input_ids: Any, attention_mask: Any, marks: Any = None, **asked: Any
    ) -> SequenceClassifierOutput:
        """Return the outputs at the marked pieces; of a row without marks, at its second piece."""
        out = self.network(input_ids=input_ids, attention_mask=attention_mask, **asked)
        if marks is None:  # a few ids, by which the network is looked at
            marks = torch.zeros_like(input_ids)
            marks[:, min(1, input_ids.shape[1] - 1)] = 1
        places, role = (marks - 1) // 4, (marks - 1) % 4
        count = int(places.max()) + 1
        own = places[:, None] == torch.arange(count, device=places.device)[:, None]
        if self.types:
            return self.said(out, self._tagged(out, own, role).flatten(1))
        return self.said(out, self._answered(out, attention_mask, own, role).flatten(1))

    def _tagged(self, out: Any, own: Any, role: Any) -> Any:
        """Return (n, S, C): the tag that is read at each piece, averaged over those of a place."""
        share = own.to(out.logits.dtype) / own.sum(-1, keepdim=True).clamp(min=1)
        by_role = zip(*self.types.values(), strict=True)
        paths = [[self.tags.index(tag) for tag in tags] for tags in by_role]
        return sum(
            (share * (role == number)[:, None]) @ out.logits[:, :, path]
            for number, path in enumerate(paths)
        )

    def _answered(self, out: Any, attention_mask: Any, own: Any, role: Any) -> Any:
        """Return (n, S, 1): log p − log(1 − p), in single precision at least."""
        hidden, exact = attention_mask == 0, out.start_logits.dtype == torch.float64
        own = own.double() if exact else own.float()
        # A padded place has no chance; and then 0, for the products below would make NaN of −∞.
        first, last = (
            torch.log_softmax(one.to(own.dtype).masked_fill(hidden, -torch.inf), -1).masked_fill(
                hidden, 0
            )
            for one in (out.start_logits, out.end_logits)
        )
        starts, ends = (role == _ALONE) | (role == _FIRST), (role == _ALONE) | (role == _LAST)
        log_p = ((own * starts[:, None]) @ first[..., None])[..., 0]
        log_p = log_p + ((own * ends[:, None]) @ last[..., None])[..., 0]
        # 1 − p of a sure answer is rounding: no more than 1/ε stands for its odds.
        log_p = log_p.clamp(max=-torch.finfo(log_p.dtype).eps)
        return log_p - torch.log(-torch.expm1(log_p))

    def token_logits(self, row: Int[np.ndarray, " T"]) -> Float[np.ndarray, "T C"]:
        """Return what the network itself says of every piece: its tags, or start and end."""
        given = network_input(self, row[None])
        with restoring(self), torch.inference_mode():
            out = self.network(**given)
            both = () if self.types else (out.start_logits, out.end_logits)
            found = torch.stack(both, -1) if both else out.logits
            numbers: np.ndarray = found[0].double().cpu().numpy()
        return numbers

    def asking(
        self, model_input: ModelInput, asked: Sequence[Place], tokenizer: Any, limit: int
    ) -> ModelInput:
        """Return ``document`` with a mark at every piece that is asked about.

        Of tags every piece of a place has one, of answers its first and its last.
        """
        # Places are made of words, whatever is removed later.
        words, spans = pieces_of(tokenizer, model_input.given, limit=limit)
        pieces, inside = model_input.input, set(words.inside.tolist())
        mark = np.zeros(len(pieces.ids), dtype=np.int64)
        for number, place in enumerate(asked):
            here = [
                np.flatnonzero(words.token == word).tolist()
                for word in place.tokens(spans, model_input.text)
            ]
            if not inside.issuperset(i for own in here for i in own):
                words_there = place.named(model_input.text).removeprefix("at ")
                raise InputError(
                    f"{words_there} lies beyond the part of the text that the model "
                    f"reads, its first {pieces.room} tokens; explain a shorter text around it."
                )
            if place.first_pieces and self.types:
                here = [own[:1] for own in here]
            if not self.types:
                here = [[i] for own in here for i in own]
            for word, own in enumerate(here):
                if mark[own].any():
                    raise InputError("places that are asked about together must not overlap.")
                # Place and role are one number: a row has room for one mark at each piece.
                mark[own] = 1 + 4 * number + _role(word, len(here))
        return replace(model_input, input=replace(pieces, mark=mark), asked=tuple(asked))

    def spans(self, model_input: ModelInput, *, first_pieces: bool) -> tuple[Place, ...]:
        """Return the spans of a tagger, or the answer in the passage of a pair.

        One with a word of which the model does not read all pieces is left out.
        """
        words, token = model_input.input, model_input.input.token
        counts = [np.bincount(some[some >= 0]) for some in (token[words.inside], token)]
        whole = counts[0] == counts[1][: len(counts[0])]
        if self.types:
            return self._tagged_spans(model_input, whole, first_pieces=first_pieces)
        if not model_input.parts:
            raise InputError(
                "an answer is looked for in a passage; give a pair, (question, passage)."
            )
        return self._answer_spans(model_input, whole)

    def _tagged_spans(
        self, model_input: ModelInput, whole: Bool[np.ndarray, " words"], *, first_pieces: bool
    ) -> tuple[Place, ...]:
        """Return the spans of a tagger: a word has the tag of the largest mean over its pieces."""
        words, spans, text = model_input.input, model_input.tokens.spans, model_input.text
        token = words.token[words.inside]
        logits = self.token_logits(words.row[words.inside])
        rows = [np.flatnonzero(token == word) for word in range(1 + int(token.max(initial=-1)))]
        # Of logits and not of chances: that mean is the number that is explained.
        means = np.array([logits[own[:1] if first_pieces else own].mean(axis=0) for own in rows])
        tags = [self.tags[i] for i in means.argmax(axis=1)]
        chances = np.exp(means - np.logaddexp.reduce(means, axis=1, keepdims=True)).max(axis=1)
        found = list[Place]()
        for first, last, name in decoded(tags, self.tags):
            here = slice(first, last + 1)
            if not whole[here].all():
                continue
            (start, _), (_, end), own, note = spans[first], spans[last], tags[here], ""
            path = [
                self.types[name][_role(i, len(own))] for i in range(len(own)) if name in self.types
            ]
            if path and path != own:
                said, read = (" ".join(some[:6]) + " …" * (len(some) > 6) for some in (own, path))
                note = (
                    f"The model tags “{one_line(text[start:end], 40)}” as {said}, and what is "
                    f"explained of {name!r} is {read}; target={own[0]!r} reads that one tag at "
                    "every piece."
                )
            found.append(Place(start, end, first_pieces, name, float(chances[here].mean()), note))
        return tuple(found)

    def _answer_spans(
        self, model_input: ModelInput, whole: Bool[np.ndarray, " words"]
    ) -> tuple[Place, ...]:
        """Return the most probable answer in the passage; none where "no answer" is more so."""
        words, spans = model_input.input, model_input.tokens.spans
        inside = words.inside
        chances = self.token_logits(words.row[inside])
        chances -= np.logaddexp.reduce(chances, axis=0)
        token = words.token[inside]
        # In words of which all pieces are read: what a cut goes through is no answer.
        passage = (words.side[inside] == 1) & (token >= 0) & np.append(whole, False)[token]
        begins = passage & (np.append(-1, token[:-1]) != token)
        ends = passage & (np.append(token[1:], -1) != token)
        both = chances[:, None, 0] + chances[None, :, 1]
        apart = np.arange(len(inside))[None] - np.arange(len(inside))[:, None]
        both[~(begins[:, None] & ends & (apart >= 0) & (apart < _LONGEST_ANSWER))] = -np.inf
        first, last = np.unravel_index(both.argmax(), both.shape)
        # Models of SQuAD 2 say that there is none by the first piece, as start and end.
        if not both[first, last] > chances[0].sum():
            return ()
        start, end, score = spans[token[first]][0], spans[token[last]][1], np.exp(both[first, last])
        return (Place(start, end, tag="answer", score=float(score)),)


def _types(tags: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tag that stands for each type at a word alone, first, inside and last."""
    known, found = scheme(tags), dict[str, tuple[str, ...]]()
    for tag, (_, name) in known.items():
        own = {letter: one for one, (letter, other) in known.items() if other == name}
        found[name] = tuple(
            next((own[letter] for letter in letters if letter in own), tag) for letters in _ROLES
        )
    return found


def scheme(tags: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the letter and the type of every tag: "O" outside, "" where it is a type itself."""
    cut = {tag: match.groups() for tag in tags if (match := _TAG.fullmatch(tag))}
    # An E-MAIL is no end of a MAIL that never begins, and a lone S-BAR may be what it is called.
    begun = {name for letter, name in cut.values() if letter in "BI"}
    begun |= {name for letter, name in cut.values() if letter in "US" and begun}
    found = {tag: (cut[tag][0], cut[tag][1]) for tag in cut if cut[tag][1] in begun}
    outside = {tag for tag in tags if tag.upper() in _OUTSIDE and not (tag == "0" and "1" in tags)}
    return {tag: found.get(tag, ("O" if tag in outside else "", tag)) for tag in tags}


def decoded(words: Sequence[str], tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the first and last word of every span, and its type, from the tag of each word.

    Words that go on without a beginning begin a span. Tags without a letter join their neighbors
    of the same tag where some tag means "no tag"; else, as parts of speech, each is for itself.
    """
    known, found = scheme(tags), list[tuple[int, int, str]]()
    ending = _ENDS if any(letter == "O" for letter, _ in known.values()) else {*_ENDS, ""}
    before = "O"
    for i, (letter, name) in enumerate(known[tag] for tag in words):
        if letter != "O" and (before in ending or letter in _BEGINS or found[-1][2] != name):
            found.append((i, i, name))
        elif letter != "O":
            found[-1] = (found[-1][0], i, name)
        before = letter
    return found


def _role(word: int, count: int) -> int:
    if count == 1:
        return _ALONE
    return _FIRST if not word else _LAST if word == count - 1 else _INSIDE
