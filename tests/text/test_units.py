"""Where units stand: a table of sentences, and texts in many scripts."""

import re

import numpy as np
import pytest

from limelight.models.functions import word_spans
from limelight.text import (
    ModelInput,
    build_features,
    icu_words,
    nest_features,
    tokenize,
)
from limelight.text.splitters import SPLITTERS, line_spans, paragraph_spans, sentence_spans

# "|" stands where one sentence ends and the next begins; white space around it is between the two.
SENTENCES = [
    # abbreviations
    "Mr. Smith met Mrs. Jones. | They talked.",
    "Dr. No is a film. | I saw it.",
    "She has a Ph.D. from M.I.T. and teaches. | He does not.",
    "Use a tool, e.g. a hammer. | Or two.",
    "It was late, i.e. after ten. | Nobody came.",
    "Apples, pears, etc. are fruit. | Carrots are not.",
    "We sell apples, pears, etc. | The shop is closed.",
    "He moved to the U.S. in May. | She stayed.",
    "He moved to the U.S. | He liked it.",
    "The U.S. Army came. | It left.",
    "It begins at 5 p.m. on Friday. | Be there.",
    "It begins at 5 p.m. | The doors open at four.",
    "Smith et al. found this. | We did not.",
    "Apple Inc. and Google Inc. agreed. | Nobody knows why.",
    "See Fig. 3 and Eq. 4. | They are clear.",
    "It is No. 5 on the list. | No. | I will not go.",
    "Fr. Brown vs. the thief. | Good fun.",
    "St. Paul is a city. | It is cold.",
    "On Jan. 5 we met. | On Feb. 6 we left.",
    "Das ist z.B. ein Hund. | Das ist keiner.",
    # initials
    "J. R. R. Tolkien wrote it. | I read it.",
    "George W. Bush spoke. | People listened.",
    "J.K. Rowling wrote more. | So did others.",
    "It was plan B. | The film was dull.",
    # numbers, versions, addresses
    "It costs $12.50 today. | It was $9.99.",
    "Pi is 3.14159. | E is 2.71828.",
    "Version 2.0.1 is out. | Get it.",
    "It was made in 1999. | The sequel came in 2003.",
    "I gave it .5 stars. | Generous.",
    "See https://example.org/a.b?c=d.e for more. | Or ask.",
    "Visit www.example.com. | It is free.",
    "Write to a.b@example.com. | We answer.",
    "I use Node.js and file.txt here. | Really.",
    # quotes
    '"Go!" he said. | She went.',
    '"Why?" she asked. | "Because."',
    "He said “I am here.” | She was not.",
    "'Stop.' | 'No!'",
    "“Is it?” asked Tom. | “It is.”",
    '"It is late," he said. | "Go home."',
    "She said it was “great.” | I disagree.",
    # brackets
    "The film (I saw it twice. Really!) was good. | Go.",
    "It ended. | (Nobody clapped.) | We left.",
    "This is known.[1] | That is not.[2]",
    "He (what a man!) came late. | She did not.",
    # marks in a row, ellipses
    "What?! | No way!!! | Yes.",
    "Well... maybe. | Or not.",
    "I waited… and waited. | Nothing.",
    "It was so... | The end came.",
    "Wow ! | What a film . | Great .",
    # no space, lower case
    "It was great.The plot was thin. | Fine.",
    "i liked it. | it was fun. | me too!",
    "What a film! | really great.",
    # lists and lines
    "We need:\n|- bread\n|- milk",
    "1. Open the door. | 2. Close it.",
    "Steps:\n|1) mix\n|2) bake. | Then eat.",
    "A line that\nwraps here. | Another\none.",
    "One.\n\n|two\n\n|Three",
    "It was bad.<br /><br />|really bad.<br /><br />|The end.",
    # other scripts
    "我喜欢这部电影。|他不喜欢！|为什么？",
    "「行く。」と言った。|本当だ。",
    "यह अच्छा है। | वह बुरा है।",
    "هل هذا جيد؟ | نعم. | شكرا.",
    "ฉันชอบหนังเรื่องนี้ | มันดีมาก",
    "Это хорошо. | А. С. Пушкин писал. | Да!",
    "Great! 😀 | I loved it.",
    "Great!😀 | I loved it.",
    "¿Qué? | ¡No! | Sí.",
]


@pytest.mark.parametrize("marked", SENTENCES)
def test_sentences_end_where_a_reader_ends_them(marked):
    marked = marked.replace("great.The", "great.|The")
    expected = [part.strip() for part in re.split(r"\||<br />", marked) if part.strip()]
    text = re.sub(r"(\s*)\|(\s*)", lambda m: m[1] if "\n" in m[1] else m[1][:1], marked)
    assert [text[a:b] for a, b in sentence_spans(text)] == expected


SCRIPTS = {
    "我喜欢这部电影。不好！": ["我", "喜", "欢", "这", "部", "电", "影", "。", "不", "好", "！"],
    "このカタカナは": ["こ", "の", "カタカナ", "は"],
    "กำลังดี": ["กำ", "ลั", "ง", "ดี"],
    "ខ្មែរ": ["ខ្មែ", "រ"],
    "မြန်မာ": ["မြ", "န်", "မာ"],
    "यह क्षमा है।": ["यह", "क्षमा", "है", "।"],
    "هذا رائع.": ["هذا", "رائع", "."],
    "ok 👍🏽👨‍👩‍👧🇫🇷 映画": ["ok", "👍🏽", "👨‍👩‍👧", "🇫🇷", "映", "画"],
}


@pytest.mark.parametrize("text", SCRIPTS)
def test_scripts_without_spaces_have_words_and_nothing_is_lost(text):
    assert [text[a:b] for a, b in word_spans(text)] == SCRIPTS[text]
    for cut in (word_spans, *SPLITTERS.values()):
        units = "".join(text[a:b] for a, b in cut(text))
        assert "".join(units.split()) == "".join(text.split())


def test_paragraphs_and_lines():
    text = " One\ntwo. \r\n \r\nThree <br /><br/> four<br>five"
    assert [text[a:b] for a, b in paragraph_spans(text)] == ["One\ntwo.", "Three", "four<br>five"]
    lines = ["One", "two.", "Three", "four", "five"]
    assert [text[a:b] for a, b in line_spans(text)] == lines


def test_a_word_of_two_sentences_lies_in_both():
    text = "a b. a c! d"
    model_input = ModelInput(text, tokenize(text))
    result = nest_features(
        build_features(model_input), build_features(model_input, [(0, 4), (5, 9)])
    )
    assert [(result.parts.strings[k], int(o)) for k, o in enumerate(result.outer)] == [
        ("a", 0), ("a", 1), ("b", 0), (".", 0), ("c", 1), ("!", 1), ("d", 2),
    ]  # fmt: skip
    assert result.inner.tolist() == [0, 0, 1, 2, 3, 4, 5]
    assert result.parts.spans[:2] == (((0, 1),), ((5, 6),))
    assert result.parts.feature_index.tolist() == [0, 2, 3, 1, 4, 5, 6]


def test_spans_in_an_array_are_spans():
    text = "a text of two"
    model_input = ModelInput(text, tokenize(text))
    for units in (np.array([[0, 6], [7, 13]]), np.array([0, 0, 1, 1])):
        assert build_features(model_input, units).strings == ("a text", "of two")


def test_icu_knows_words():
    pytest.importorskip("icu4py", reason="words by ICU (extra icu)")
    text = "我喜欢电影。ฉันชอบหนัง"
    assert [text[a:b] for a, b in icu_words(text)] == ["我", "喜欢", "电影", "ฉัน", "ชอบ", "หนัง"]
