"""The review of Figures 4 and 6."""

__all__ = ["TOKENS", "WORDS", "the_document"]

from limelight import InputError
from limelight.text import token_strings
from limelight_reproduction.setting import Setting

TOKENS, WORDS = 99, 71


def the_document(setting: Setting) -> tuple[int, str]:
    """Return number and text of the first negative test review with T = 99 tokens and d = 71 words.

    The paper gives T and d of its document and says that it is negative; in IMDB's test set one
    review fits.
    """
    data = setting.texts("imdb", "test")
    for number, (text, label) in enumerate(zip(data.texts, data.labels, strict=True)):
        strings = token_strings(text) if label == 0 else []
        if len(strings) == TOKENS and len(set(strings)) == WORDS:
            return number, text
    raise InputError(
        f"no negative test review has {TOKENS} tokens and {WORDS} distinct words, as the paper's "
        f"document does; '{setting.data}' must hold all of IMDB's test reviews."
    )
