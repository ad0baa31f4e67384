"""``limelight counterfactual``: the formats, the exit codes, and the options."""

import csv
import io
import json

from limelight import Counterfactual

TEXT = "A superb and charming film."


def test_the_terminal_says_what_changes(limelight):
    outcome = limelight("counterfactual", TEXT)
    assert outcome.code == 0
    assert "Removing 2 words changes the prediction from positive to negative." in outcome.out
    assert "No single word does (proven)." in outcome.out
    assert "A [-superb-] and [-charming-] film." in outcome.out


def test_json_is_read_back(limelight):
    outcome = limelight("counterfactual", TEXT, "--format", "json")
    c = Counterfactual.from_json(outcome.out)
    assert c.removed_features == ("superb", "charming")
    assert (outcome.code, outcome.err) == (0, "")


def test_csv_has_a_row_for_each_word(limelight):
    rows = list(csv.DictReader(io.StringIO(limelight("counterfactual", TEXT, "--format=csv").out)))
    assert [row["feature"] for row in rows if row["removed"] == "True"] == ["superb", "charming"]
    assert [row["text_number"] for row in rows] == ["0"] * 6


def test_the_ending_of_the_file_selects_a_page(limelight, tmp_path):
    file = tmp_path / "page.html"
    assert limelight("counterfactual", TEXT, "--output", str(file)).code == 0
    assert file.read_text("utf-8").count("<del") == 2


def test_each_line_is_a_text(limelight, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text(f"{TEXT}\n\nbad awful\n")
    outcome = limelight("counterfactual", "--file", str(file), "--lines", "--format", "json")
    records = [json.loads(line) for line in outcome.out.splitlines()]
    assert [record["size"] for record in records] == [2, None]
    assert [record["is_robust"] for record in records] == [False, True]


def test_options_reach_the_function(limelight):
    arguments = ("counterfactual", TEXT, "--format", "json")
    options = (
        "--replacement",
        "delete",
        "--budget",
        "20 calls",
        "--seed",
        "3",
        "--protect",
        "film",
    )
    record = json.loads(limelight(*arguments, *options).out)
    assert record["replacement"] == "delete"
    assert record["settings"]["budget"] == "20 calls"
    assert record["settings"]["seed"] == 3
    assert record["diagnostics"]["calls"] <= 20 + len(record["features"])
    assert "film" not in [feature["text"] for feature in record["features"]]
    record = json.loads(limelight(*arguments, "--desired-class", "0").out)
    assert record["desired_class"] == "negative"


def test_a_data_set_and_its_summary(limelight, tmp_path):
    data = tmp_path / "reviews.csv"
    data.write_text(f'text\n"{TEXT}"\n"A superb film."\n')
    run = tmp_path / "run"
    arguments = ("explain-data", str(data), "--output", str(run), "--counterfactual")
    assert limelight(*arguments, "--engine", "here").code == 0
    outcome = limelight("summarize", str(run))
    assert "1 of 2 texts depend on a single word" in " ".join(outcome.out.split())
