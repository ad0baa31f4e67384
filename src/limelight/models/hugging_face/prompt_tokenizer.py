"""A tokenizer that reads every text inside a prompt, of which only the text has words."""

__all__ = ["PromptTokenizer"]

from typing import Any, final

from limelight.models.hugging_face.prompt import Prompt, continued
from limelight.text import Span


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

    def __call__(self, text: str, **_: Any) -> "Inside":
        """Return the pieces of the whole prompt; places and words are those of ``text``."""
        encoded = self.prompt.encoded(self.own, text)
        length = continued(encoded)
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
        found = [place or (0, 0) for place in places]
        return Inside(list(encoded["input_ids"][:length]), found, words)

    def _place(self, text: str, span: Span) -> Span | None:
        """Return where in ``text`` a piece shows, None if it is the prompt's."""
        start, end = (place - len(self.prompt.before) for place in span)
        outside = self.prompt.before[start:] if start < 0 else ""
        if not 0 < end <= len(text) or start == end or outside.strip(" "):
            return None
        inner = text[max(start, 0) : end]
        if not inner.strip():
            return end, end
        return end - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


@final
class Inside:
    """What a tokenizer returns, as far as it is looked at."""

    def __init__(self, ids: list[int], places: list[Span], words: list[int | None]) -> None:
        self._found = {"input_ids": ids, "offset_mapping": places}
        self._words = words

    def __getitem__(self, name: str) -> Any:
        return self._found[name]

    def word_ids(self) -> list[int | None]:
        """Return the word of every piece; None for those of the prompt."""
        return self._words
