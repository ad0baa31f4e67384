"""``limelight check``: formats, files and exit codes."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

CASES = """
[[case]]
name = "good"
text = "A superb film."
prediction = "positive"

[[case]]
name = "{name}"
text = "A superb film."
prediction = "{prediction}"
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a check file with two cases."""
    monkeypatch.chdir(tmp_path)

    def write(prediction="positive", name="other", more=""):
        content = CASES.format(prediction=prediction, name=name) + more
        (tmp_path / "a.limelight.toml").write_text(content, "utf-8")
        return "a.limelight.toml"

    return write


def test_the_table_states_measured_and_required(limelight, write):
    run = limelight("check", write())
    assert (run.code, run.err) == (0, "")
    assert "passed  good   prediction  prediction positive (72.7%), required" in run.out
    assert "\n2 passed in 2 cases\n" in run.out
    run = limelight("check", write("negative"))
    assert (run.code, run.err) == (1, "")
    assert "failed  other  prediction" in run.out
    assert "\n1 passed, 1 failed in 2 cases\n" in run.out


def test_lines_of_json_have_the_results(limelight, write):
    run = limelight("check", write("negative"), "--format", "json")
    good, other = map(json.loads, run.out.splitlines())
    assert (run.code, good["outcome"], other["outcome"]) == (1, "passed", "failed")
    assert other.keys() == {"case", "key", "outcome", "sentence", "seconds"}
    assert other["sentence"] == "prediction positive (72.7%), required negative."


def attributes(element, *names):
    return [element.attrib[name] for name in names]


def test_junit_is_read_back(limelight, write, tmp_path):
    name = 'a <b> & \\"c\\" \\u0001 \\uFFFE ü'
    # A score has no error, so that no certificate is needed to see one.
    more = '[[case]]\nname = "wrong"\ntext = "a"\nfeatures = "tokens"\ncertified_radius = 1\n'
    file = write("negative", name, more)
    run = limelight("check", file, "--output", "x.xml")
    assert run.code == 2
    assert "1 passed, 1 failed, 1 error in 3 cases" in run.out  # the table is printed too
    root = ElementTree.parse(tmp_path / "x.xml").getroot()
    assert root.tag == "testsuites"
    (suite,) = root
    counts = ("tests", "failures", "errors", "skipped")
    for element in (root, suite):
        assert attributes(element, *counts) == ["3", "1", "1", "0"]
        assert float(element.attrib["time"]) >= 0
    assert suite.attrib["name"] == "a.limelight.toml"
    assert {case.tag for case in suite} == {"testcase"}
    good, other, wrong = suite
    assert attributes(good, "classname", "name") == ["a.limelight.good", "prediction"]
    assert float(good.attrib["time"]) >= 0
    assert [child.tag for child in good] == ["system-out"]
    assert other.attrib["classname"] == 'a.limelight.a <b> & "c" \\x01 \\ufffe ü'
    (failure,) = other
    assert (failure.tag, failure.attrib["type"]) == ("failure", "prediction")
    assert failure.text == failure.attrib["message"]
    assert failure.text == "prediction positive (72.7%), required negative."
    assert [child.tag for child in wrong] == ["error"]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("name", "first"), [("x.json", "{"), ("x.jsonl", "{"), ("x.txt", "result"), ("x.xml", "<?xml")]
)
def test_the_ending_selects_the_format(limelight, write, tmp_path, name, first):
    assert limelight("check", write(), "-o", name).code == 0
    assert (tmp_path / name).read_text("utf-8").startswith(first)


def test_another_model_can_be_checked(limelight, write, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "always_negative.py").write_text(
        "import limelight, numpy as np\n"
        "def predict(texts):\n    return np.full(len(texts), 0.1)\n"
        "model = limelight.wrap(predict, classes=['negative', 'positive'])\n"
    )
    run = limelight("check", write("negative"), "--model", "always_negative:model")
    assert "failed  good " in run.out
    assert "passed  other " in run.out


@pytest.mark.parametrize(("prediction", "code"), [("positive", 0), ("negative", 1), ("postive", 2)])
def test_a_process_ends_with_the_exit_code(write, prediction, code):
    command = [sys.executable, "-m", "limelight", "check", write(prediction)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == code
