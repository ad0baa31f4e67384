"""Every benchmark runs on tiny inputs and writes what its page documents; no times are judged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from limelight.provenance import source_stamp

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
KEYS = {
    "benchmark", "command", "date", "smoke", "stamp", "machine", "versions", "data", "measures",
}  # fmt: skip
MACHINE = {"cpu", "cores", "system", "load", "threads"}
MEASURE = {"id", "what", "value", "unit", "best", "at_least", "below", "note", "met"}
IDS = {
    "release": {
        "stale_coverage",
        "coverage_shapley_25",
        "exact_attention_shapley",
        "exact_TF-IDF_lime",
        "violations",
        "pages_numbers",
    },
    "prediction": {
        "tokens_strings",
        "tokens_spans",
        "documents_ours",
        "prediction_speedup_float32",
        "prediction_difference_float64",
        "cold_predict",
        "cold_torch",
        "cold_numpy",
    },
    "gradients": {
        "compare",
        "g-l1_speedup_full",
        "gxi_speedup_cls",
        "ig_difference",
        "family_speedup_full",
        "cold_compare_eight",
        "cold_compare_eight_processor",
    },
    "perturbation": {
        "lime_words",
        "lime_speedup_package_words",
        "lime_speedup_torch_positions",
        "lime_package_error",
        "shapley_speedup",
        "shapley_bound",
        "shapley_package_error",
        "lime_100_1e-06",
        "growth_16",
    },
    "huggingface": {
        "ours_mask_seconds",
        "lime_delete_calls",
        "captum_lime_memory",
        "captum_kernelshap_distance",
        "ours_shapley_distance",
        "shap_partition_seconds",
        "mask_balanced_gain",
        "mask_speedup",
        "delete_same_error",
        "memory_many",
        "memory_growth_classes",
    },
    "judging": {"judging_seconds", "judging_memory", "judging_greedy"},
    "coverage": {"lime_100_balanced_smooth", "shapley_2_rare", "shapley_5_zero_one"},
    "coverage_held_out": {"cells", "lime-sampled_and_20", "shapley_heavy_40"},
    "coverage_triples": {"and_20_128", "parity_20_1000", "least", "warnings"},
    "coverage_context_cite": {"and_64_0.001", "least", "zero_errors"},
    "extreme_games": {"violations", "refused", "lime", "lime_intercept", "shapley_mean_field"},
    "judging_deep": {"judging_seconds", "judging_memory", "judging_greedy"},
    "faithfulness_per_second_deep": {
        "lrp",
        "lrp seconds",
        "shapley, pairs=2 seconds",
        "lime package, samples=100 seconds",
        "shap Partition, samples=100",
        "captum LIME, samples=100",
    },
    "samplers": {"synthetic_16_10", "synthetic_6_4", "rule_False", "held_False"},
    "sampled_answers": {"coverage_loo", "masks_shapley", "ranking_pair_changes"},
    "certain_ranks": {"orders_25_AND_of_3", "until_3_ties", "cells", "reviews_top3_10"},
    "linear": {"imdb_lime", "imdb_shapley", "ag_news_sampled_ratio", "imdb_sampled_lime"},
    "linear_coefficients": {
        "imdb_ratio",
        "ag_news_off_mean_field",
        "sst2_top_five",
        "imdb_share_u",
    },
    "live": {"live_size", "shapley_tokens_shown", "lime_distinct_words_ratio"},
    "overhead": {
        "pipelines_run_lime_calls",
        "interactions_memory",
        "growth_memory",
        "cold_compare",
    },
    "gpu_overhead": {"lime_ratio", "lime_alone_ratio", "learned_ratio", "exact_seconds"},
    "threads": {"quiet_regression_ratio", "beside_loops_regression_default_wall"},
    "walk": {"lime_now", "lime_earlier", "compare_ratio", "explain_calls_now", "serve_files_now"},
    "datasets": {
        "datasets_bare_speed",
        "datasets_pool_bare",
        "datasets_here_pool",
        "datasets_pool_memory",
        "datasets_four_size",
    },
    "serving": {"serving_start", "serving_errors", "serving_answer", "serving_growth"},
    "corpus": {"corpus_seconds", "corpus_memory", "corpus_bound"},
    "corpus_cpu": {
        "corpus_reading",
        "corpus_seconds_1e-09",
        "corpus_difference_1e-09",
        "corpus_explain_seconds",
    },
}
NEEDS = {
    "release": ("sklearn", "mpmath"),
    "prediction": ("torch",),
    "gradients": ("torch", "captum"),
    "perturbation": ("torch", "lime", "shap"),
    "corpus_cpu": ("torch",),
    "datasets": ("pyarrow",),
    "serving": ("starlette", "uvicorn"),
    "overhead": ("sklearn", "pyarrow", "duckdb"),
    "gpu_overhead": ("torch", "transformers", "pyarrow"),
    "threads": ("torch", "transformers"),
    "walk": ("starlette", "uvicorn", "pyarrow"),
    "linear": ("sklearn", "pyarrow"),
    "linear_coefficients": ("sklearn", "pyarrow"),
    "live": ("playwright",),
    "extreme_games": ("mpmath",),
    "huggingface": ("torch", "transformers", "captum", "lime", "shap"),
    "judging_deep": ("torch", "transformers"),
    "faithfulness_per_second_deep": ("torch", "transformers", "captum", "lime", "shap"),
}
SCRIPTS = {
    "coverage": "coverage_study",
    "coverage_held_out": "coverage_study",
    "coverage_triples": "coverage_study",
    "coverage_context_cite": "coverage_study",
    "extreme_games": "extreme_games",
    "faithfulness_per_second_deep": "faithfulness_per_second",
    "gpu_overhead": "gpu_overhead",
}

# Quick ones, and one that starts processes; what the others measure has tests of its own.
# BENCHMARKS=all runs every one, which takes minutes, most of them in other packages.
USUAL = {"corpus_cpu", "extreme_games", "walk"}
CHOSEN = [name for name in IDS if name in USUAL or os.environ.get("BENCHMARKS") == "all"]


def run(program, *arguments):
    command = [sys.executable, str(BENCHMARKS / program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_benchmark_finds_what_it_imports():
    """In one process: most of their time goes into importing other packages."""
    for package in {package for packages in NEEDS.values() for package in packages}:
        pytest.importorskip(package)
    programs = [str(path) for path in sorted(BENCHMARKS.glob("*.py"))]
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
        f"for one in {programs!r}: runpy.run_path(one, run_name='imported')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_a_tiny_run_writes_the_documented_keys(name, tmp_path):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    if name == "live" and not Path("/usr/bin/chromium").exists():
        pytest.skip("chromium is not installed")
    output = tmp_path / "found.json"
    own_value = {
        "corpus_cpu": ["--device", "cpu"],
        "linear_coefficients": ["--coefficients"],
        "walk": ["--earlier", BENCHMARKS.parent / "src"],
        "coverage_triples": ["--triples"],
        "coverage_context_cite": ["--context-cite"],
    }
    more = own_value.get(name, [])
    if name in ("huggingface", "judging_deep", "faithfulness_per_second_deep", "gpu_overhead"):
        from tiny_transformers import tiny

        for element in tiny("bert", labels=2):
            element.save_pretrained(tmp_path / "model")
        more = ["--model", tmp_path / "model"]
    if name == "coverage_held_out":
        more = ["--held-out"]
    if name.startswith("faithfulness"):
        more += ["--judge", "--timed", 1, "--figure", tmp_path / "figure.svg"]
    script = SCRIPTS.get(name, name.split("_")[0])
    done = run(f"{script}.py", "--smoke", "--output", output, *more)
    assert done.returncode == 0, done.stderr
    content = json.loads(output.read_text(encoding="utf-8"))
    assert content.keys() - {"device"} == KEYS
    assert content["benchmark"] == name
    assert content["smoke"] is True
    assert content["machine"].keys() == MACHINE
    assert all(measure.keys() - {"sampler"} == MEASURE for measure in content["measures"])
    assert content["stamp"] == source_stamp()
    ids = [measure["id"] for measure in content["measures"]]
    assert len(set(ids)) == len(ids)
    assert IDS[name] <= set(ids)
    values = {measure["id"]: measure["value"] for measure in content["measures"]}
    # A share may be worse than chance; R² of noise is negative, and so may be a difference of two.
    signed = ("",) if name.startswith(("faithfulness", "linear_")) else ("r2_", "gain_", "said_")
    assert all(value >= 0 for id, value in values.items() if not id.startswith(signed))
    exact = {
        "prediction": {"prediction_difference_float64": 1e-12},
        "gradients": {"g-l1_difference": 1e-12, "gxi_difference": 1e-12},
        "corpus_cpu": {"corpus_difference_1e-09": 1},
    }
    for id, most in exact.get(name, {}).items():
        assert values[id] <= most, id


def test_the_tables_of_the_page_are_those_of_the_result_files():
    done = run("tables.py", "--check")
    assert done.returncode == 0, done.stderr


def test_the_stored_results_are_of_whole_runs():
    stored = list((BENCHMARKS / "results").glob("*.json"))
    assert stored
    for path in stored:
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["smoke"] is False
        assert content["benchmark"] == path.stem


@pytest.mark.slow
def test_the_path_for_a_bare_machine_imports_nothing_else(tmp_path):
    """torch, numpy, safetensors and array_api_compat; rich is only asked for."""
    pytest.importorskip("torch")
    missing = ("rich", "cyclopts", "msgspec", "scipy", "pyarrow")
    blocked = f"import sys; sys.modules.update(dict.fromkeys({missing!r})); "
    data = tmp_path / "texts.jsonl"
    texts = ["a great film and a good story .", "what a bad , bad , boring film it was"]
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    subprocess.run(["gzip", str(data)], check=True)
    output = tmp_path / "found.json"
    program = str(BENCHMARKS / "corpus.py")
    arguments = [program, "--device", "cpu", "--data", f"{data}.gz", "--output", str(output)]
    started = f"runpy.run_path({program!r}, run_name='__main__')"
    code = f"{blocked}sys.argv = {arguments!r}; import runpy; {started}"
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(output.read_text(encoding="utf-8"))["data"] == "2 reviews"


def test_a_stored_command_names_no_folder_of_a_machine():
    arguments = ["b.py", "--output", "/a/out.json", "--data=/a/b.gz", "--model", "../m", "/a/c"]
    code = "import json, sys, results; print(json.dumps([*results.stored_arguments(sys.argv[1:])]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == ["b.py", "--data=b.gz", "--model", "../m", "c"]
