"""Check files are read with their defaults, and mistakes are named with file, case and key."""

import pytest

from limelight.cases.case_file import (
    WordRank,
    read_case_file,
)

CASE = '[[case]]\nname = "first"\ntext = "a superb film"\nprediction = "positive"\n'


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
