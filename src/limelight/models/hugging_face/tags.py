"""Token classifiers and extractive answers: the number that they say of a place, and their spans.

A piece that is asked about carries a mark, which travels with its id through masks, batches and
deletions. The mark says to which place the piece belongs, and whether its word is the only one
there, the first, one inside, or the last: a type such as ORG is read as B-ORG at the first word of
a place and as I-ORG after it.
"""

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import InputError
from limelight.models.hugging_face.forward import AnotherHead, network_input, restoring
from limelight.models.hugging_face.pieces import Pieces, pieces_in
from limelight.shapes import Float, Int
from limelight.text import Document, FoundSpan, Place, Span, one_line

_OUTSIDE = "O"
_TAG = re.compile(r"([BILUESM])[-_](.+)")
# What the word of a type may be called: alone, first, inside and last; BIO, BILOU, BIOES, BMES.
_ROLES = ("USBI", "BIUS", "IMB", "LEIMB")
_ALONE, _FIRST, _INSIDE, _LAST = range(4)
_BEGINS, _ENDS = "BUS", "LEUS"
_LONGEST_ANSWER = 64  # pieces


def finds_spans(network: Any) -> bool:
    """Whether a network tags tokens, or answers questions by a stretch of the text."""
    names = [kind.__name__ for kind in type(network).__mro__]
    return any(
        kind in name for name in names for kind in ("TokenClassification", "QuestionAnswering")
    )


@final
class PlaceForSequenceClassification(AnotherHead):
    r"""A tagger or a model of extractive answers with another head: what it says of marked pieces.

    Of a tagger, the logit of each tag or type, averaged over the pieces of the place. Of answers,
    one output, the log-odds of :math:`p = p_{start}(s)\,p_{end}(e)`, s and e being the first and
    the last piece of the place. With S places the outputs are (n, S · C).
    """

    def __init__(self, network: Any, *, types: bool = True) -> None:
        super().__init__()
        self.network, self.config = network, copy.deepcopy(network.config)
        self.tags = tuple(str(network.config.id2label[i]) for i in sorted(network.config.id2label))
        self.paths: Any = None
        if not any("QuestionAnswering" in kind.__name__ for kind in type(network).__mro__):
            names = _types(self.tags) if types else {tag: (tag,) * 4 for tag in self.tags}
            numbers = [
                [self.tags.index(path[role]) for path in names.values()] for role in range(4)
            ]
            self.paths = torch.tensor(numbers)
            self.config.id2label = dict(enumerate(names))
        else:
            self.config.id2label, self.config.other_label = {0: "answer"}, "another answer"
        self.config.label2id = {name: i for i, name in self.config.id2label.items()}
        self.config.problem_type = "single_label_classification"
        self.config.place = list(self.config.id2label.values())  # part of the fingerprint
        self.training = network.training

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
        found = (
            self._tagged(out, own, role)
            if self.paths is not None
            else self._answered(out, attention_mask, own, role)
        )
        return SequenceClassifierOutput(
            logits=found.flatten(1),
            hidden_states=getattr(out, "hidden_states", None),
            attentions=getattr(out, "attentions", None),
        )

    def _tagged(self, out: Any, own: Any, role: Any) -> Any:
        """Return (n, S, C): the tag that is read at each piece, averaged over those of a place."""
        share = own.to(out.logits.dtype) / own.sum(-1, keepdim=True).clamp(min=1)
        rows = [
            (share * (role == r)[:, None]) @ out.logits[:, :, self.paths[r].to(out.logits.device)]
            for r in range(4)
        ]
        return rows[0] + rows[1] + rows[2] + rows[3]

    def _answered(self, out: Any, attention_mask: Any, own: Any, role: Any) -> Any:
        """Return (n, S, 1): log p − log(1 − p), in single precision at least."""
        hidden, exact = attention_mask == 0, out.start_logits.dtype == torch.float64
        own = own.double() if exact else own.float()
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
            both = (out.start_logits, out.end_logits) if self.paths is None else ()
            found = torch.stack(both, -1) if both else out.logits
            numbers: np.ndarray = found[0].double().cpu().numpy()
        return numbers


def _types(tags: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tag that stands for each type at a word alone, first, inside and last.

    Tags without a scheme are types themselves.
    """
    known = scheme(tags)
    if known is None:
        return {tag: (tag,) * 4 for tag in tags}
    found: dict[str, tuple[str, ...]] = {}
    for tag in tags:
        name = known[tag][1]
        own = {known[one][0]: one for one in tags if known[one][1] == name}
        found[name] = tuple(
            next((own[letter] for letter in letters if letter in own), tag) for letters in _ROLES
        )
    return found


def scheme(tags: Sequence[str]) -> dict[str, tuple[str, str]] | None:
    """Return the letter and the type of every tag, None where they do not follow a scheme."""
    found = {tag: ("", tag) for tag in tags if tag == _OUTSIDE}
    for tag in tags:
        if tag != _OUTSIDE:
            if not (match := _TAG.fullmatch(tag)):
                return None
            found[tag] = (match[1], match[2])
    return found


def decoded(words: Sequence[str], tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the first and last word of every span, and its type, from the tag of each word.

    Words that go on without a beginning begin a span. Tags without a scheme join their neighbours
    of the same tag where there is an "O"; else, as parts of speech, each stands for itself.
    """
    known, found = scheme(tags), list[tuple[int, int, str]]()
    closed = True  # whether the next word begins anew
    for i, tag in enumerate(words):
        letter, name = ("", tag) if known is None else known[tag]
        if tag == _OUTSIDE:
            closed = True
            continue
        alone = known is None and _OUTSIDE not in tags
        begins = bool(letter) and letter in _BEGINS
        if closed or alone or begins or found[-1][2] != name:
            found.append((i, i, name))
        else:
            found[-1] = (found[-1][0], i, name)
        closed = bool(letter) and letter in _ENDS
    return found


def marked(
    document: Document, asked: Sequence[Place], words: Pieces, spans: Sequence[Span], *, tags: bool
) -> Document:
    """Return ``document`` with a mark at every piece that is asked about.

    ``words`` are its pieces by words, which stand at ``spans``, whatever is removed later. Of
    ``tags`` every piece of a place has one, of answers its first and its last.
    """
    pieces, inside = pieces_in(document), set(words.inside.tolist())
    mark = np.zeros(len(pieces.ids), dtype=np.int64)
    for number, place in enumerate(asked):
        here = [
            np.flatnonzero(words.token == word).tolist()
            for word in place.tokens(spans, document.text)
        ]
        if not inside.issuperset(i for own in here for i in own):
            words_there = place.named(document.text).removeprefix("at ")
            raise InputError(
                f"{words_there} lies beyond the part of the text that the model "
                f"reads, its first {pieces.room} tokens; explain a shorter text around it."
            )
        if place.first_pieces and tags:
            here = [own[:1] for own in here]
        if not tags:
            here = [[i] for own in here for i in own]
        for word, own in enumerate(here):
            if mark[own].any():
                raise InputError("places that are asked about together must not overlap.")
            mark[own] = 1 + 4 * number + _role(word, len(here))
    return replace(document, input=replace(pieces, mark=mark), asked=tuple(asked))


def tagged_spans(
    head: PlaceForSequenceClassification,
    words: Pieces,
    spans: Sequence[Span],
    text: str,
    *,
    first_pieces: bool,
) -> tuple[FoundSpan, ...]:
    """Return the spans of a tagger: each word has the tag of the largest mean over its pieces."""
    token = words.token[words.inside]
    logits, count = head.token_logits(words.row[words.inside]), 1 + int(token.max(initial=-1))
    rows = [np.flatnonzero(token == word) for word in range(count)]
    means = np.array([logits[own[:1] if first_pieces else own].mean(axis=0) for own in rows])
    best = means.argmax(axis=1)
    chances = np.exp(means - np.logaddexp.reduce(means, axis=1, keepdims=True)).max(axis=1)
    classes, found = list(head.config.id2label.values()), list[FoundSpan]()
    for first, last, name in decoded([head.tags[i] for i in best], head.tags):
        own = [head.tags[i] for i in best[first : last + 1]]
        note = ""
        if name in classes:
            path = [
                head.tags[int(head.paths[_role(i, len(own)), classes.index(name)])]
                for i in range(len(own))
            ]
            note = _note(text[spans[first][0] : spans[last][1]], name, own, path)
        score = float(chances[first : last + 1].mean())
        found.append(FoundSpan(spans[first][0], spans[last][1], name, score, note))
    return tuple(found)


def _role(word: int, count: int) -> int:
    if count == 1:
        return _ALONE
    return _FIRST if not word else _LAST if word == count - 1 else _INSIDE


def _note(words: str, name: str, own: Sequence[str], path: Sequence[str]) -> str:
    """Say that a model has tagged a span otherwise than its type is read."""
    if list(own) == list(path):
        return ""
    said, read = (" ".join(tags[:6]) + " …" * (len(tags) > 6) for tags in (own, path))
    return (
        f"The model tags “{one_line(words, 40)}” as {said}, and what is explained of {name!r} is "
        f"{read}; "
        f"target={own[0]!r} reads that one tag at every piece."
    )


def answer_spans(
    head: PlaceForSequenceClassification, words: Pieces, spans: Sequence[Span]
) -> tuple[FoundSpan, ...]:
    """Return the most probable answer in the passage; none where "no answer" is more so."""
    inside = words.inside
    chances = head.token_logits(words.row[inside])
    chances -= np.logaddexp.reduce(chances, axis=0)
    token, side = words.token[inside], words.side[inside] if words.side is not None else inside * 0
    passage = (side == 1) & (token >= 0)
    begins = passage & (np.append(-1, token[:-1]) != token)
    ends = passage & (np.append(token[1:], -1) != token)
    both = chances[:, None, 0] + chances[None, :, 1]
    apart = np.arange(len(inside))[None] - np.arange(len(inside))[:, None]
    both[~(begins[:, None] & ends & (apart >= 0) & (apart < _LONGEST_ANSWER))] = -np.inf
    first, last = np.unravel_index(both.argmax(), both.shape)
    if not both[first, last] > chances[0].sum():
        return ()
    place = spans[token[first]][0], spans[token[last]][1]
    return (FoundSpan(*place, "answer", float(np.exp(both[first, last]))),)
