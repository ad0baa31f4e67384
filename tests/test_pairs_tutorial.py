"""The tutorial about pairs of texts runs, and prints what it says."""

import re
import shlex
from pathlib import Path

import pytest

from test_docs import check_options, lines, read_blocks, read_commands

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "how-to" / "pairs.md"
SHARED = ROOT.parent / "shared"
needs_model = pytest.mark.skipif(
    not (SHARED / "models" / "minilm-sick-nli").is_dir(),
    reason="the model of SICK is not at ../shared/models/minilm-sick-nli",
)


@pytest.fixture
def folder_near_shared(tmp_path, monkeypatch):
    """A folder from which ../shared is found, and which may be written to."""
    (tmp_path / "shared").symlink_to(SHARED, target_is_directory=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "work"


@needs_model
@pytest.mark.slow
def test_python_blocks_run_and_print_what_their_comments_say(folder_near_shared, capsys):
    pytest.importorskip("transformers")
    names = {}
    for block in read_blocks(PAGE, "python"):
        exec(compile(block, PAGE.name, "exec"), names)
        printed = iter(capsys.readouterr().out.splitlines())
        for promised in re.findall(r"^# (.*)$", block, re.M):
            pattern = re.escape(promised).replace(r"\.\.\.", r"\d*")
            assert any(re.fullmatch(pattern, line) for line in printed), promised
    page = (folder_near_shared / "pair.html").read_text("utf-8")
    assert '<span class="side">second</span>' in page


@needs_model
@pytest.mark.slow
def test_commands_run_and_print_what_is_shown(folder_near_shared, limelight):
    pytest.importorskip("transformers")
    (folder_near_shared / "pairs.tsv").write_text("A dog runs\tA dog sleeps\nNo dog\tA dog\n")
    for command, output in read_commands(PAGE):
        program, *arguments = shlex.split(command)
        assert program == "limelight"
        if arguments[0] in ("explain-data", "judge", "summarize"):  # minutes each
            check_options(limelight, arguments)
            continue
        outcome = limelight(*arguments)
        assert outcome.code == 0, (command, outcome.err)
        if output.strip():
            assert lines(outcome.out) == lines(output), command


def test_links_lead_somewhere_and_nothing_is_left_to_fill_in():
    text = PAGE.read_text("utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert "://" in target or (PAGE.parent / target).exists(), target
    assert not re.search(r"^[A-Z_]{6,}$", text, re.M)
