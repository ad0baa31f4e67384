"""Write the page of the documentation that has the results of benchmarks and studies.

python benchmarks/tables.py            write
python benchmarks/tables.py --check    fail if the page differs from the files
"""

import argparse
import sys
from pathlib import Path

from results_page import results_page

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "results.md"
ORDER = (
    "release",
    "prediction",
    "gradients",
    "perturbation",
    "corpus",
    "corpus_cuda",
    "datasets",
    "summaries",
    "walk",
    "transformer_corpus_cuda",
    "serving",
    "judging",
    "judging_every",
    "judging_deep",
    "judging_cuda",
    "judging_cuda_every",
    "faithfulness_per_second_deep",
    "faithfulness_per_second_cuda",
    "ceilings",
    "beam_search_ceilings",
    "linear",
    "linear_coefficients",
    "live",
    "huggingface",
    "huggingface_cuda",
    "model_speed",
    "model_speed_cuda",
    "overhead",
    "gpu_overhead",
    "threads",
    "coverage",
    "coverage_held_out",
    "coverage_pairs",
    "coverage_triples",
    "coverage_context_cite",
    "coverage_owen",
    "coverage_owen_cuda",
    "sampled_answers",
    "verdicts",
    "interval_candidates",
    "patches",
    "images",
    "extreme_games",
    "samplers",
    "samplers_cuda",
    "samplers_few",
    "shapley_baselines",
    "shapley_baselines_long",
    "shapley_baselines_slow",
    "answers",
    "answers_rivals",
    "long_documents_cuda",
    "lime_law",
    "stabilized_lime",
    "learning",
    "learned_errors",
    "tags",
    "decisions",
    "anchor_search",
    "counterfactual_search_80_cuda",
    "counterfactual_search_cuda",
    "certain_ranks_minilm",
)


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    text = results_page(ORDER)
    if not is_check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE.name} differs from the stored results. Run benchmarks/tables.py.")


if __name__ == "__main__":
    main()
