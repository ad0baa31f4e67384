"""The page about ERASER says what was measured, and the program that measures runs anywhere."""

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


def test_the_tables_of_the_page_are_those_of_the_result_files():
    done = run(BENCHMARKS / "eraser_page.py", "--check")
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "judging.md").read_text("utf-8")
    found = json.loads((BENCHMARKS / "results" / "eraser_shipped.json").read_text("utf-8"))
    best = found["judged"]["faithful"][0]
    assert f"| {best['method']} | {best['share']:.3f} [" in page


def test_the_numbers_in_its_sentences_are_those_of_the_result_file():
    page = (ROOT / "docs" / "judging.md").read_text("utf-8")
    found = json.loads((BENCHMARKS / "results" / "eraser_shipped.json").read_text("utf-8"))
    plausible = found["judged"]["plausible"]
    rows = {one["method"]: one for one in (*plausible["methods"], *plausible["references"])}
    shares = {one["method"]: one["share"] for one in found["judged"]["faithful"]}
    top, chance, own = (rows[name]["precision"] for name in ("loo", "chance", "rationale"))
    wrong, right = (plausible[f"above_where_{kind}"]["loo"] for kind in ("wrong", "right"))
    for said in (
        f"{top:.2f}, where guessing has {chance:.2f} and the rationale itself would reach",
        f"would reach {own:.2f}.",
        f"the most faithful methods go {(top - chance) / (own - chance):.0%}".replace("%", " %"),
        f"(−{-wrong:.3f}, against +{right:.3f}",
        f"({shares['gxi']:.2f} against {shares['shapley']:.2f})",
        f"their average precision of {rows['alpha-avg']['precision']:.2f}",
        f"has {rows['rationale']['iou_f1']:.2f}.",
        f"and {199 - plausible['texts']} reviews in which nothing was marked",
    ):
        assert said in page, said


@pytest.mark.slow
def test_a_tiny_run_on_a_bare_machine_writes_the_rows_of_the_tables(tmp_path):
    """NumPy, safetensors and msgspec: no pyarrow to read the reviews, nothing to draw with."""
    data, output = tmp_path / "movies.jsonl.gz", tmp_path / "found.json"
    rows = [
        {"text": "what a great , great film", "rationales": [[7, 12]], "label": "POS"},
        {"text": "a bad , bad plot and dull actors", "rationales": [[2, 5]], "label": "NEG"},
    ]
    data.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode()))
    program = BENCHMARKS / "eraser.py"
    arguments = [program, "--smoke", "--data", data, "--methods", "loo,gxi", "--output", output]
    missing = ("rich", "cyclopts", "scipy", "pyarrow", "torch")
    code = (
        f"import runpy, sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
        f"sys.path.insert(0, {str(BENCHMARKS)!r}); sys.argv = {[str(a) for a in arguments]!r}\n"
        f"runpy.run_path({str(program)!r}, run_name='__main__')"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text("utf-8"))
    assert found["benchmark"] == "eraser_shipped"
    assert found["smoke"] is True
    judged = found["judged"]
    assert {one["method"] for one in judged["faithful"]} == {"loo", "gxi"}
    assert {one["method"] for one in judged["plausible"]["references"]} == {"chance", "rationale"}
    assert judged["plausible"]["texts"] == 2
    values = {one["id"]: one["value"] for one in found["measures"]}
    assert values["eraser_shipped_accuracy"] == 1.0
