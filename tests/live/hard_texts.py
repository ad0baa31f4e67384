"""Texts to read as Python does: short, long, repeated, unknown words, emoji, right to left."""

import numpy as np

SIGNS = (
    "great",
    "Great, GREAT great!",
    "not good , not bad",
    "zzqx qqzx zzqx",
    "I'm not sure... isn't it? (No!)",
    'He said "wonderful" and "aw"ful"; then: nothing',
    "a film<br /><br />about <BR /> nothing<br/>",
    "😀 good 👩‍👩‍👧 film 😀😀 bad",
    "👍🏽",
    "סרט נהדר good סרט רע, bad",
    "فيلم رائع great؟ ممل",
    "İstanbul'da GÜZEL bir İİ film",
    "ΟΔΥΣΣΕΥΣ ΣΑΣ Σ ΑΣ. ὈΔΥΣΣΕΎΣ",
    "ﬁne ẞtraße ǅ Ŀ ŉ good",
    "good\x1cbad\x85fine\u2028great\u3000film\ufeffbad\u200bgood\u00a0plot",
    "<script>alert(1)</script> &amp; <b>good</b>",
    "電影很好 great 電影 𝕓𝕒𝕕 𝟙𝟘",
    "\u202egood\u202c bad\x07 \x1b[31m",
    "10/10 7.75 3,5 1:2",
    "'",
    "𐐀𐐁 𐐨 good",
    "good " * 40,
    "x" * 500 + " good",
)
_RIGHT_TO_LEFT = ("סרט", "נהדר", "فيلم", "ممل")
_EMOJI = ("😀", "👩‍👩‍👧", "👍🏽", "🎬")
_UNKNOWN = ("zzqx", "qqzx", "Ünknøwn", "wörd")


def hard_texts(model, count, *, longest=300, seed=0):
    """Return ``SIGNS`` and ``count`` texts of the model's words, frequent ones most often."""
    rng = np.random.default_rng(seed)
    words = np.array(model.vocabulary.words[2:], dtype=object)
    chance = 1 / np.arange(10, 10 + len(words))
    chance /= chance.sum()
    texts = list(SIGNS)
    for i in range(count):
        # Mostly sentences; one text in twenty is a review, some of them past the window.
        size = int(rng.integers(40, longest)) if i % 20 == 5 else int(rng.integers(2, 40))
        samples = rng.choice(words, size, p=chance).tolist()
        if i % 3 == 0:
            samples = rng.choice(samples[: 1 + size // 3], size).tolist()
        for other_values in (_RIGHT_TO_LEFT, _EMOJI, _UNKNOWN):
            if rng.random() < 0.3:
                samples[int(rng.integers(size))] = str(rng.choice(other_values))
        if i % 7 == 0:
            samples = [word.upper() for word in samples]
        texts.append(" ".join(samples))
    return texts
