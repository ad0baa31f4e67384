"""Check files with mistakes, each with what the message says."""

from pathlib import Path

import pytest

from limelight import load
from limelight.cases.case_file import (
    MODEL_KEYS,
    OPTION_KEYS,
    REQUIREMENTS,
    read_case_file,
)
from limelight.cases.check_cases import check_cases
from limelight.errors import InputError
from messages import exactly, wrong_calls

CASE = '[[case]]\nname = "first"\ntext = "a superb film"\nprediction = "positive"\n'
AT_TOP = f"{', '.join([*MODEL_KEYS, *OPTION_KEYS, *REQUIREMENTS, 'case'])}."
INPUTS = ["name", "text", "file", "pair", "documents", "messages"]
IN_CASE = f"{', '.join([*INPUTS, *REQUIREMENTS, *OPTION_KEYS])}."


def read(content):
    """Read a check file with this content in the folder of the test."""
    Path("a.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_case_file(Path("a.toml"))


def check(lines):
    """Check a good case and a case with these lines. The bad case is found before any result."""
    second = '[[case]]\nname = "bad"\ntext = "a superb film"\n'
    return check_cases(read(f"{CASE}{second}{lines}\n"), load())


CONTENTS = [
    ("x =", "'a.toml' is not valid TOML: Invalid value (at end of document)."),
    (b"\xff", "'a.toml' must be UTF-8 text, but byte 0 is not. Convert it first."),
    ("", "'a.toml' has no case. Add one below [[case]]."),
    ('case = "x"', "'a.toml': begin each case with [[case]]."),
    (
        "[[cases]]\nx = 1",
        f"'a.toml': unknown key: 'cases'. Did you mean 'case'? Choose from: {AT_TOP}",
    ),
    (
        'text = "x"\n' + CASE,
        "'a.toml', key 'text': it belongs to a case. Put it below [[case]].",
    ),
    (
        "seed = -1\n" + CASE,
        "'a.toml', key 'seed': it needs a whole number of at least 0, not -1.",
    ),
    (
        CASE + "certfied_radius = 1",
        "'a.toml', case 'first': unknown key: 'certfied_radius'. Did you mean "
        f"'certified_radius'? Choose from: {IN_CASE}",
    ),
    (
        CASE + 'model = "x"',
        "'a.toml', case 'first', key 'model': all cases have the same model. Put it at the "
        "top of the file.",
    ),
    (
        CASE + "certified_radius = 0",
        "'a.toml', case 'first', key 'certified_radius': it needs a positive whole number, not 0.",
    ),
    (
        CASE + "certified_radius = true",
        "'a.toml', case 'first', key 'certified_radius': it needs a positive whole number, "
        "not True.",
    ),
    (
        CASE + 'never_decisive = "he"',
        "'a.toml', case 'first', key 'never_decisive': it needs a list of words, such as "
        '["he", "she"], not \'he\'.',
    ),
    (
        CASE + 'certain_top = {word = "superb"}',
        "'a.toml', case 'first', key 'certain_top': it needs a word and a number, such as "
        "{word = \"superb\", k = 3}, not {'word': 'superb'}.",
    ),
    (
        CASE + 'certain_top = {wrd = "superb", k = 1}',
        "'a.toml', case 'first', key 'certain_top': unknown key: 'wrd'. Did you mean 'word'? "
        "Choose from: word, k.",
    ),
    (
        CASE + "budget = [1]",
        "'a.toml', case 'first', key 'budget': it needs a time or a number of calls, such as "
        '"30s" or "400 calls", not [1].',
    ),
    (CASE + CASE, "'a.toml', case 'first', key 'name': two cases have this name. Change one."),
    (
        '[[case]]\ntext = "x"',
        "'a.toml', case 'case 1' requires nothing. Add one of prediction, certain_top, "
        "certified_radius, never_decisive.",
    ),
    (
        '[[case]]\nprediction = "x"',
        "'a.toml', case 'case 1': the text is missing. Give text or file.",
    ),
    (
        CASE + 'file = "x"',
        "'a.toml', case 'first': text and file exclude each other. Give text or file.",
    ),
    (
        '[[case]]\nfile = "none.txt"\nprediction = "x"',
        "'a.toml', case 'case 1', key 'file': there is no file 'none.txt'. Change the path.",
    ),
    (
        '[[case]]\nname = 3\ntext = "x"\nprediction = "x"',
        "'a.toml', case 'case 1', key 'name': it needs a text, such as \"negative\", not 3.",
    ),
]
CHAT_CONTENTS = [  # cases with documents and messages
    ('text = "a"\ndocuments = []', "key 'documents': it needs a list of texts"),
    ('text = "a"\ndocuments = [{id = 1}]', "key 'documents': document 0 must be a text"),
    ("messages = []", "key 'messages': it needs a list of messages"),
    ('messages = [{role = "user"}]', r"key 'messages': message 0 \(user\) must have a content"),
    (
        'text = "a"\nmessages = [{role = "user", content = "a"}]',
        "key 'messages': messages exclude text and file",
    ),
    ('text = "a"\npair = "b"\ndocuments = ["c"]', "key 'pair': a pair has no documents"),
    ('documents = ["c"]', "the text is missing"),
]
INPUT_ERRORS = {
    "read_case_file(Path('none.toml'))": "there is no such file",
    "check('certain_top = {word = \"superp\", k = 3}')": (
        "^'a.toml', case 'bad', key 'certain_top': the text has no word 'superp'. Did you mean "
        "'superb'"
    ),
    "check('prediction = \"good\"')": (
        "^'a.toml', case 'bad', key 'prediction': unknown class: 'good'. Choose from: negative, "
        "positive."
    ),
    'check(\'never_decisive = ["she"]\\nfeatures = "sentnces"\')': (
        "^'a.toml', case 'bad', key 'never_decisive': "
    ),
    **{f"read({content!r})": exactly(message) for content, message in CONTENTS},
    **{
        f"read({f'[[case]]{chr(10)}{lines}{chr(10)}certified_radius = 1'!r})": message
        for lines, message in CHAT_CONTENTS
    },
}


@wrong_calls({InputError: INPUT_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        eval(call)
