"""A language model that is asked: what stands around a text, and as a classifier, what is next."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import InputError
from limelight.models.hugging_face.forward import AnotherHead, restoring_tokenizer
from limelight.models.hugging_face.pieces import longest_input
from limelight.text import Span, one_line

TEXT = "{text}"
_CLOSING = ".,;:!?)]}…%”’"  # what stands right after a word
_ANY = "A film."  # what stands in the place of the text while a template is looked at


class AskedLanguageModel(AnotherHead):
    """The network of a language model with another head."""

    held = "language_model"

    def __init__(
        self, language_model: Any, tokenizer: Any, classes: Sequence[str], **told: Any
    ) -> None:
        super().__init__(language_model, classes, **told)
        if self.config.pad_token_id is None:  # padding is masked out, so any token will do
            choices = (tokenizer.pad_token_id, tokenizer.eos_token_id)
            self.config.pad_token_id = next((int(one) for one in choices if one), 0)
        # Whether it turns only the places that it is asked about into words.
        given = inspect.signature(language_model.forward).parameters
        self.keeps_logits = "logits_to_keep" in given

    def logits_at(self, ids: Any, mask: Any, places: Any, asked: dict[str, Any]) -> Any:
        """Return what the network says, and its logits at the ``places`` (n, k) of each row."""
        # Where the network can, only these places are turned into words: 50,000 logits at each of
        # 500 places would be most of the work.
        kept, column = torch.unique(places, return_inverse=True)
        if self.keeps_logits:
            asked["logits_to_keep"] = kept
        out = self.language_model(input_ids=ids, attention_mask=mask, use_cache=False, **asked)
        rows = torch.arange(len(ids), device=ids.device)[:, None]
        return out, out.logits[rows, column if self.keeps_logits else places]


@final
class NextTokenForSequenceClassification(AskedLanguageModel):
    """A language model as a classifier: what it says of the token of each label as the next.

    Next after the last piece that attention sees. Of two tokens the one output is the log-odds of
    the second, the difference of their logits. Of more, each output is a logit less the mean of
    them: what is common to all words says nothing about the classes. Softmax of these is the
    probability of each token given that it is one of them.
    """

    def __init__(
        self, language_model: Any, tokenizer: Any, prompt: "Prompt", tokens: Mapping[str, int]
    ) -> None:
        first, *others = tokens
        two = {"other_label": first} if len(others) == 1 else {}  # then one output stands for both
        asked = {"template": [prompt.before, prompt.after], "tokens": tokens}
        classes = others if two else [*tokens]
        super().__init__(language_model, tokenizer, classes, next_token=asked, **two)
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


def next_token_classifier(
    language_model: Any, tokenizer: Any, template: Any, labels: Any
) -> "tuple[NextTokenForSequenceClassification, PromptTokenizer]":
    """Return network and tokenizer of a classifier made of a language model."""
    generates = getattr(language_model, "can_generate", lambda: False)()
    if not generates or getattr(language_model.config, "is_encoder_decoder", False):
        raise InputError(
            "template and labels are for causal language models (…ForCausalLM, …LMHeadModel); got "
            f"{type(language_model).__name__}."
        )
    prompt = prompt_of(tokenizer, template)
    words = list(labels.items()) if isinstance(labels, Mapping) else []
    if len(words) < 2 or not all(
        isinstance(one, str) and one.strip() for pair in words for one in pair
    ):
        raise InputError(
            'labels must give at least two classes a word each, like {"negative": "bad", '
            f'"positive": "good"}}; got {labels!r}.'
        )
    tokens = label_tokens(tokenizer, prompt, dict(words))
    head = NextTokenForSequenceClassification(language_model, tokenizer, prompt, tokens)
    around, limit = len(prompt.ids(tokenizer, "")), longest_input(head, tokenizer)
    if around >= limit:
        raise InputError(
            f"template must leave room for the text; it has {around} tokens, and the model reads "
            f"{limit}."
        )
    return head, PromptTokenizer(tokenizer, prompt)


class Prompt(NamedTuple):
    """The strings before and after a text; ``special`` if the tokenizer adds its own tokens.

    ``gap`` is what belongs between the prompt and the word that comes next: tokenizers count the
    space before a word as part of it, so a prompt never ends in one. A ``closed`` prompt, that of
    an encoder, keeps what the tokenizer puts at its end: what comes next stands elsewhere.
    """

    before: str
    after: str
    gap: str
    special: bool
    closed: bool = False

    def encoded(self, tokenizer: Any, text: str, next_word: str = "") -> Any:
        """Return the tokenizer's encoding of the whole prompt, whatever its length."""
        with restoring_tokenizer(tokenizer):
            return tokenizer(
                f"{self.before}{text}{self.after}{next_word}",
                add_special_tokens=self.special,
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
                truncation=False,
                verbose=False,
            )

    def ids(self, tokenizer: Any, text: str, next_word: str = "") -> list[int]:
        """Return the tokens of the whole prompt, without what the tokenizer puts at an end."""
        found = self.encoded(tokenizer, text, next_word)
        return list(found["input_ids"][: continued(found)])


def continued(encoded: Any) -> int:
    """Return how many tokens come before the end that a tokenizer adds: more is to follow here."""
    mask = list(encoded["special_tokens_mask"])
    while mask and mask[-1]:
        mask.pop()
    return len(mask)


def prompt_of(tokenizer: Any, template: Any) -> Prompt:
    """Return the prompt that ``template`` describes: a string, or messages of a chat."""
    if isinstance(template, str):
        whole = template
    elif isinstance(template, Sequence):
        whole = _chat(tokenizer, template)
    else:
        raise InputError(
            f"template must be a string with {TEXT} in it, or a list of messages; got "
            f"{type(template).__name__}."
        )
    if (count := whole.count(TEXT)) != 1:
        raise InputError(
            f"template must have {TEXT} in it once; {one_line(whole, 80)!r} has it {count} times."
        )
    before, after = whole.split(TEXT)
    prompt = Prompt(before, after.rstrip(" "), "", isinstance(template, str))
    return prompt._replace(gap=_gap(tokenizer, prompt))


def _chat(tokenizer: Any, messages: Sequence[Any]) -> str:
    """Return the messages as the chat template of the tokenizer writes them."""
    for message in messages:
        if not isinstance(message, Mapping) or not all(
            isinstance(message.get(name), str) for name in ("role", "content")
        ):
            raise InputError(
                'the messages of a template must be like {"role": "user", "content": "… {text} …"};'
                f" got {one_line(repr(message), 80)}."
            )
    if getattr(tokenizer, "chat_template", None) is None:
        raise InputError(
            "this tokenizer has no chat template, so a template of messages cannot be written out; "
            f"give template as one string with {TEXT} in it."
        )
    # What the assistant has begun to say goes on; else it begins.
    goes_on = bool(messages) and messages[-1]["role"] == "assistant"
    try:
        return str(
            tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=not goes_on,
                continue_final_message=goes_on,
            )
        )
    except Exception as error:  # jinja's own, or what a template raises: roles in another order
        raise InputError(
            f"the chat template of this tokenizer refuses the messages: {one_line(str(error), 200)}"
        ) from error


def _gap(tokenizer: Any, prompt: Prompt) -> str:
    """Return the space that belongs before the next word, if any does."""
    end = (prompt.after or _ANY)[-1]
    ids = prompt.ids(tokenizer, _ANY)
    marked = bool(ids) and ids[-1] in set(tokenizer.all_special_ids)  # of a chat: the turn begins
    return "" if end.isspace() or marked else " "


def label_tokens(tokenizer: Any, prompt: Prompt, labels: Mapping[str, str]) -> dict[str, int]:
    """Return the token of every class: that of its word as it comes right after the prompt."""
    asked = prompt.ids(tokenizer, _ANY)
    found: dict[str, int] = {}
    for name, word in labels.items():
        gap = "" if word[:1].isspace() else prompt.gap
        going_on = prompt.ids(tokenizer, _ANY, gap + word)
        rest = going_on[len(asked) :]
        if going_on[: len(asked)] != asked or len(rest) != 1:
            pieces = ", ".join(repr(tokenizer.decode([i])) for i in rest)
            raise InputError(
                f"a label must be one token after the template; {word!r} is {len(rest)} "
                f"({pieces}). Choose another word for {name!r}."
            )
        if rest[0] in found.values() or rest[0] == tokenizer.unk_token_id:
            why = "unknown to this tokenizer" if rest[0] not in found.values() else "another's too"
            raise InputError(
                f"every label must have a token of its own; {word!r} is {why}. Choose another "
                f"word for {name!r}."
            )
        found[name] = rest[0]
    return found


@final
class PromptTokenizer:
    """A fast tokenizer whose special pieces around a text are those of a prompt.

    The whole prompt is read at once, as the model would meet it. A piece that lies partly outside
    the text is the prompt's and is never removed; only the space before the first word is not.
    """

    is_fast = True
    why_no_pairs = "a template has room for one text; write both into the template or the text"

    def __init__(self, tokenizer: Any, prompt: Prompt) -> None:
        self.own, self.prompt = tokenizer, prompt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def __call__(self, texts: Sequence[str], **_: Any) -> "PromptEncodings":
        """Return the pieces of the whole prompt; places and words are those of each text."""
        return PromptEncodings([self._encoding(text) for text in texts])

    def _encoding(self, text: str) -> "PromptEncoding":
        # White space around a text would stay when its words go; places are those in all of it.
        lead, text = len(text) - len(text.lstrip()), text.strip()
        encoded = self.prompt.encoded(self.own, text)
        length = len(encoded["input_ids"]) if self.prompt.closed else continued(encoded)
        kinds = encoded.word_ids()[:length]
        places = [self._place(text, span) for span in encoded["offset_mapping"][:length]]
        words: list[int | None] = []
        last, number = None, -1
        for i, (place, kind) in enumerate(zip(places, kinds, strict=True)):
            if place is None:
                words.append(None)
                continue
            if place[0] == place[1]:  # white space, which goes with the word that it begins
                follows = i + 1 < length and kinds[i + 1] == kind and places[i + 1]
                words.append(number + 1 if follows else None)
                continue
            # Tokenizers without a notion of words call everything one: white space tells them.
            apart = last is None or kind != last[0] or place[0] > last[1]
            number, last = number + apart, (kind, place[1])
            words.append(number)
        found = [(place[0] + lead, place[1] + lead) if place else (0, 0) for place in places]
        ids = list(encoded["input_ids"][:length])
        return PromptEncoding(ids, words, found)

    def answer_pieces(self, answer: str) -> tuple[list[int], list[Span]]:
        """Return the tokens of an ``answer`` that follows the prompt, and where each stands in it.

        They are those of the whole, prompt and answer; by itself where both share a token.
        """
        bare = self.prompt.closed or answer[0].isspace() or answer[0] in _CLOSING
        gap = "" if bare else self.prompt.gap
        asked = self.prompt.ids(self.own, _ANY)
        found = self.prompt.encoded(self.own, _ANY, gap + answer)
        start, first = len(asked), len(f"{self.prompt.before}{_ANY}{self.prompt.after}{gap}")
        if self.prompt.closed or list(found["input_ids"][:start]) != asked:
            found = Prompt("", "", "", special=False).encoded(self.own, gap + answer)
            start, first = 0, len(gap)
        here = slice(start, continued(found))
        spans = [(a - first, b - first) for a, b in found["offset_mapping"][here]]
        return list(found["input_ids"][here]), spans

    def _place(self, text: str, span: Span) -> Span | None:
        """Return where in ``text`` a piece shows, None if it is the prompt's."""
        start, end = (place - len(self.prompt.before) for place in span)
        outside = self.prompt.before[start:] if start < 0 else ""
        # A space before the first word that is a piece of its own goes with the word, too.
        if not 0 <= end <= len(text) or start == end or outside.strip(" "):
            return None
        inner = text[max(start, 0) : end]
        if not inner.strip():
            return end, end
        return end - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


class PromptEncoding(NamedTuple):
    """What a tokenizer finds in a text, as far as it is looked at; the prompt has no words."""

    ids: list[int]
    word_ids: list[int | None]
    offsets: list[Span]


class PromptEncodings(NamedTuple):
    """What a tokenizer returns."""

    encodings: list[PromptEncoding]
