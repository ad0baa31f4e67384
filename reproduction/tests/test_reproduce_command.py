"""``limelight reproduce``: its errors, its help, and a run from data to report."""

import json

import pytest


def refusal(outcome):
    assert (outcome.code, outcome.out) == (2, "")
    lines = [
        splitline
        for splitline in outcome.err.splitlines()
        if not splitline.startswith("Measured now: ")
    ]
    assert len(lines) == 1
    return lines[0]


def test_help_names_every_option(limelight):
    outcome = limelight("reproduce", "--help")
    assert outcome.code == 0
    for option in ("--data", "--output", "-o", "--quick", "--only", "--seed", "--device"):
        assert option in outcome.out
    assert "--paper-model" in outcome.out
    assert "--no-only" not in outcome.out


def test_a_missing_option_is_named(limelight, tmp_path):
    assert "--output" in refusal(limelight("reproduce", "--data", tmp_path))
    assert "--data" in refusal(limelight("reproduce", "--output", tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--data", "gone"),
            "Error: there is no data folder at 'gone'. It must contain the files of IMDB.",
        ),
        (
            ("--data", ".", "--only", "figure-1", "figur-2"),
            "Error: unknown experiment: 'figur-2'. Did you mean 'figure-2'? Choose from: figure-1,",
        ),
        (("--data", ".", "--seed", "-3"), "Error: seed must be at least 0, not -3."),
        (
            ("--data", ".", "--paper-model", "gone"),
            "Error: there is no model folder at 'gone'. Check the path.",
        ),
        (("--data", ".", "--device", "gpu"), "Error: unknown device: 'gpu'."),
        (
            ("--data", ".", "--only", "figure-4.shipped"),
            "Error: the test texts of imdb are not in '.'. Add imdb/test.parquet",
        ),
    ],
)
def test_bad_input_is_an_error_of_one_line(limelight, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    outcome = limelight("reproduce", *arguments, "--output", "out")
    assert refusal(outcome).startswith(message)
    assert not (tmp_path / "out" / "parts").exists()


def test_an_impossible_output_folder_is_an_error_of_one_line(limelight, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = limelight("reproduce", "--data", tmp_path, "--output", tmp_path / "file")
    assert refusal(outcome) == (
        f"Error: the output must be a folder, but '{tmp_path / 'file'}' is a file. Name "
        "another folder, or move the file away."
    )


@pytest.mark.slow
def test_two_figures_from_data_to_report_and_again(limelight, toy_setting, tmp_path):
    arguments = (
        "reproduce", "--quick", "--data", toy_setting.data, "--output", tmp_path / "out",
        "--device", "cpu", "--paper-model", toy_setting.paper_model,
        "--only", "figure-1", "figure-2",
    )  # fmt: skip
    parts = ["figure-1.shipped", "figure-1.paper", "figure-2.shipped", "figure-2.paper"]
    for message, planned in (
        ("measured", "Measured now"),
        ("kept from before", "Kept from before"),
    ):
        outcome = limelight(*arguments)
        assert (outcome.code, outcome.out) == (0, f"{tmp_path / 'out' / 'report.html'}\n")
        assert outcome.err.splitlines() == [
            f"{planned}: 4 of 4 parts, figure-1 (shipped, paper), figure-2 (shipped, paper).",
            *(f"{number}/4 {part}: {message}" for number, part in enumerate(parts, start=1)),
        ]
    output = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))["experiments"]
    assert [f"{name}.{part}" for name, result in output.items() for part in result] == parts
    assert output["figure-2"]["paper"]["numbers"] != output["figure-2"]["shipped"]["numbers"]
    for suffix in ("png", "svg"):
        assert (tmp_path / "out" / "figures" / f"figure-1-paper.{suffix}").exists()
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "Measured here: shipped, paper (quick run, seed 0)." in page
    assert "Not on this page: figure-3," in page


@pytest.mark.slow
def test_a_part_that_ends_twice_is_reported_once(limelight, toy_setting, tmp_path):
    outcome = limelight(
        "reproduce", "--quick", "--data", toy_setting.data, "--output", tmp_path / "out",
        "--device", "cpu", "--paper-model", toy_setting.paper_model, "--only", "comments.paper",
    )  # fmt: skip
    assert outcome.code == 0
    assert outcome.err.splitlines() == [
        "Measured now: 1 of 1 parts, comments (paper).",
        "1/1 comments.paper: measured",
    ]


def test_the_entry_point_is_the_command():
    from importlib.metadata import EntryPoint

    from limelight_reproduction import command

    point = EntryPoint(
        "reproduce", "limelight_reproduction.command:reproduce", "limelight.commands"
    )
    assert point.load() is command.reproduce
