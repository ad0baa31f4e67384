"""``--at`` and ``--each span``, and the spans that ``predict`` shows."""

import json

import pytest

RULE = """
def found(texts):
    return [
        [
            (t.index(name), t.index(name) + len(name), "ORG", 0.5 + 0.4 * ("Inc" in t))
            for name in ("Acme", "Jordan")
            if name in t
        ]
        for t in texts
    ]

import limelight
tagger = limelight.wrap(found, tags=["ORG", "LOC"])
"""
TEXT = "Jordan sued Acme Inc <xyz>"


@pytest.fixture
def tagger(tmp_path, monkeypatch):
    (tmp_path / "rule_tagger.py").write_text(RULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "rule_tagger:tagger"


def test_predict_lists_the_spans(limelight, tagger):
    code, out, _ = limelight("predict", "--model", tagger, TEXT, "nothing here")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[1][:5] == ["0", "0:6", "ORG", "0.900", "Jordan"]
    assert lines[2][:5] == ["1", "12:16", "ORG", "0.900", "Acme"]
    assert lines[3][:2] == ["no", "span"]
    _, out, _ = limelight("predict", "--model", tagger, "--format", "json", TEXT)
    assert json.loads(out)["spans"][1]["text"] == "Acme"


def test_one_place_or_all_spans_are_explained(limelight, tagger, tmp_path):
    request = ("explain", "--model", tagger, "-m", "loo")
    code, out, _ = limelight(*request, "--at", "Acme", TEXT)
    assert (code, "for “ORG” at “Acme”" in out) == (0, True)
    code, out, _ = limelight(*request, "--at", "1", "--format", "json", TEXT)
    assert json.loads(out)["query"] == {"span": [12, 16]}
    code, out, _ = limelight(*request, "--each", "span", TEXT)
    assert "[Jordan] ORG sued [Acme] ORG Inc <xyz>" in out
    (line,) = [line.split() for line in out.splitlines() if line.startswith("Inc")]
    assert line[1] == line[2] == "+2.20"  # log-odds of 0.9, less those of 0.5
    _, out, _ = limelight(*request, "--each", "span", "--format", "json", TEXT)
    assert [json.loads(splitline)["query"]["span"] for splitline in out.splitlines()] == [
        [0, 6],
        [12, 16],
    ]
    page = tmp_path / "spans.html"
    assert limelight(*request, "--each", "span", "-o", page, TEXT).code == 0
    assert page.read_text().count('class="span"') == 2
    assert "<xyz>" not in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "the model finds 2 spans here (ORG 'Jordan', ORG 'Acme')"),
        (("--at", "Smith"), "the text does not contain 'Smith'"),
        (("--each", "span", "--at", "Acme"), "give --at or --each span, not both"),
        (("--at", "Acme", "--no-protect-span"), "Wrap the function with mask="),
    ],
)
def test_an_impossible_query_is_an_error(limelight, tagger, arguments, sentence):
    code, _, err = limelight("explain", "--model", tagger, *arguments, TEXT)
    assert code == 2
    assert sentence in " ".join(err.split())


def test_words_stay_beside_their_scores_on_a_narrow_terminal(limelight, tagger, monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    _, out, _ = limelight("explain", "--model", tagger, "-m", "loo", "--each", "span", TEXT)
    rows = [line.split() for line in out.splitlines() if "+2.20" in line]
    assert rows == [["Inc", "+2.20"]] * 2  # a table for each span
