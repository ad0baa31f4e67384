"""What stands around a text when a language model is asked about it, and what may come next."""

__all__ = ["Prompt", "label_tokens", "prompt_of"]

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from limelight.errors import InputError
from limelight.text import one_line

TEXT = "{text}"
_ANY = "A film."  # what stands in the place of the text while a template is looked at


class Prompt(NamedTuple):
    """The strings before and after a text; ``special`` if the tokenizer adds its own tokens.

    ``gap`` is what belongs between the prompt and the word that comes next: tokenizers count the
    space before a word as part of it, so a prompt never ends in one.
    """

    before: str
    after: str
    gap: str
    special: bool

    def encoded(self, tokenizer: Any, text: str, next_word: str = "") -> Any:
        """Return the tokenizer's encoding of the whole prompt, whatever its length."""
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
