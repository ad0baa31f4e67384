"""The program that measures agreement with human rationales runs on a bare machine."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"


def run(*arguments):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_tiny_run_on_a_bare_machine_writes_the_rows_of_the_tables(tmp_path):
    """NumPy, safetensors and msgspec: no pyarrow to read the reviews, nothing to draw with."""
    data, output = tmp_path / "movies.jsonl.gz", tmp_path / "found.json"
    rows = [
        {"text": "what a great , great film", "rationales": [[7, 12]], "label": "POS"},
        {"text": "a bad , bad plot and dull actors", "rationales": [[2, 5]], "label": "NEG"},
    ]
    data.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode()))
    program = ROOT / "reproduction" / "studies" / "eraser.py"
    arguments = [program, "--smoke", "--data", data, "--methods", "loo,gxi", "--output", output]
    missing = ("rich", "cyclopts", "scipy", "pyarrow", "torch")
    code = (
        f"import runpy, sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
        f"sys.path.insert(0, {str(BENCHMARKS)!r}); sys.argv = {[str(a) for a in arguments]!r}\n"
        f"runpy.run_path({str(program)!r}, run_name='__main__')"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    content = json.loads(output.read_text("utf-8"))
    assert content["benchmark"] == "eraser_shipped"
    assert content["smoke"] is True
    judged = content["judged"]
    assert {value["method"] for value in judged["faithful"]} == {"loo", "gxi"}
    assert {element["method"] for element in judged["plausible"]["references"]} == {
        "chance",
        "rationale",
    }
    assert judged["plausible"]["texts"] == 2
    values = {one["id"]: one["value"] for one in content["measures"]}
    assert values["eraser_shipped_accuracy"] == 1.0
