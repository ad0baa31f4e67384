"""Check files are read with their defaults, and mistakes are named with file, case and key."""

import pytest

from limelight.cases.case_file import (
    MODEL_KEYS,
    OPTION_KEYS,
    REQUIREMENTS,
    WordRank,
    read_case_file,
)
from limelight.errors import InputError

CASE = '[[case]]\nname = "first"\ntext = "a superb film"\nprediction = "positive"\n'
AT_TOP = f"{', '.join([*MODEL_KEYS, *OPTION_KEYS, *REQUIREMENTS, 'case'])}."
INPUTS = ["name", "text", "file", "pair", "documents", "messages"]
IN_CASE = f"{', '.join([*INPUTS, *REQUIREMENTS, *OPTION_KEYS])}."


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read a check file with this content; its messages name it "checks.toml"."""
    monkeypatch.chdir(tmp_path)

    def read(content):
        (tmp_path / "checks.toml").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
        return read_case_file(type(tmp_path)("checks.toml"))

    return read


def test_a_case_has_the_defaults_of_the_file(read):
    file = read(
        'model = "m"\nseed = 3\nbudget = "400 calls"\nnever_decisive = ["he"]\n'
        + CASE
        + 'budget = 30\ncertain_top = [{word = "superb", k = 1}, {word = "film", k = 2}]\n'
        + '[[case]]\ntext = "one"\npair = "two"\nfeatures = [[0, 1], [2, 3]]\n'
        + "certified_radius = 2\n"
    )
    first, second = file.cases
    assert file.model_options == {"model": "m"}
    assert (first.name, first.text) == ("first", "a superb film")
    assert first.options == {"seed": 3, "budget": 30}
    assert first.requirements == {
        "prediction": "positive",
        "certain_top": (WordRank("superb", 1), WordRank("film", 2)),
        "never_decisive": ("he",),
    }
    assert first.inherited == {"never_decisive"}
    assert (second.name, second.text) == ("case 2", ("one", "two"))
    assert second.options == {"seed": 3, "budget": "400 calls", "features": [(0, 1), (2, 3)]}
    assert second.requirements == {"certified_radius": 2, "never_decisive": ("he",)}


def test_a_text_may_be_in_a_file_beside_the_check_file(read, tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffA superb\r\nfilm".encode())
    (tmp_path / "b.png").write_bytes(b"")
    case = '[[case]]\nfile = "{}"\nprediction = "x"\n'
    text, image = read(case.format("a.txt") + case.format("b.png")).cases
    assert text.text == "A superb\nfilm"
    assert image.text.name == "b.png"


MESSAGES = [
    ("x =", "'checks.toml' is not valid TOML: Invalid value (at end of document)."),
    (b"\xff", "'checks.toml' must be UTF-8 text, but byte 0 is not. Convert it first."),
    ("", "'checks.toml' has no case. Add one below [[case]]."),
    ('case = "x"', "'checks.toml': begin each case with [[case]]."),
    (
        "[[cases]]\nx = 1",
        f"'checks.toml': unknown key: 'cases'. Did you mean 'case'? Choose from: {AT_TOP}",
    ),
    (
        'text = "x"\n' + CASE,
        "'checks.toml', key 'text': it belongs to a case. Put it below [[case]].",
    ),
    (
        "seed = -1\n" + CASE,
        "'checks.toml', key 'seed': it needs a whole number of at least 0, not -1.",
    ),
    (
        CASE + "certfied_radius = 1",
        "'checks.toml', case 'first': unknown key: 'certfied_radius'. Did you mean "
        f"'certified_radius'? Choose from: {IN_CASE}",
    ),
    (
        CASE + 'model = "x"',
        "'checks.toml', case 'first', key 'model': all cases have the same model. Put it at the "
        "top of the file.",
    ),
    (
        CASE + "certified_radius = 0",
        "'checks.toml', case 'first', key 'certified_radius': it needs a positive whole number, "
        "not 0.",
    ),
    (
        CASE + "certified_radius = true",
        "'checks.toml', case 'first', key 'certified_radius': it needs a positive whole number, "
        "not True.",
    ),
    (
        CASE + 'never_decisive = "he"',
        "'checks.toml', case 'first', key 'never_decisive': it needs a list of words, such as "
        '["he", "she"], not \'he\'.',
    ),
    (
        CASE + 'certain_top = {word = "superb"}',
        "'checks.toml', case 'first', key 'certain_top': it needs a word and a number, such as "
        "{word = \"superb\", k = 3}, not {'word': 'superb'}.",
    ),
    (
        CASE + 'certain_top = {wrd = "superb", k = 1}',
        "'checks.toml', case 'first', key 'certain_top': unknown key: 'wrd'. Did you mean 'word'? "
        "Choose from: word, k.",
    ),
    (
        CASE + "budget = [1]",
        "'checks.toml', case 'first', key 'budget': it needs a time or a number of calls, such as "
        '"30s" or "400 calls", not [1].',
    ),
    (CASE + CASE, "'checks.toml', case 'first', key 'name': two cases have this name. Change one."),
    (
        '[[case]]\ntext = "x"',
        "'checks.toml', case 'case 1' requires nothing. Add one of prediction, certain_top, "
        "certified_radius, never_decisive.",
    ),
    (
        '[[case]]\nprediction = "x"',
        "'checks.toml', case 'case 1': the text is missing. Give text or file.",
    ),
    (
        CASE + 'file = "x"',
        "'checks.toml', case 'first': text and file exclude each other. Give text or file.",
    ),
    (
        '[[case]]\nfile = "none.txt"\nprediction = "x"',
        "'checks.toml', case 'case 1', key 'file': there is no file 'none.txt'. Change the path.",
    ),
    (
        '[[case]]\nname = 3\ntext = "x"\nprediction = "x"',
        "'checks.toml', case 'case 1', key 'name': it needs a text, such as \"negative\", not 3.",
    ),
]


@pytest.mark.parametrize(("content", "message"), MESSAGES)
def test_a_mistake_is_named_with_file_case_and_key(read, content, message):
    with pytest.raises(InputError) as raised:
        read(content)
    assert str(raised.value) == message


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_case_file(tmp_path / "none.toml")
