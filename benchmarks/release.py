"""Check before a release that stored numbers still hold. The exit status is 1 if one does not.

python benchmarks/release.py            about a minute
python benchmarks/release.py --smoke    a part of each check, writes nothing

- No sampler has changed since its coverage was stored (`coverage_study.sampler_digest`).
- Coverage of ±2 standard errors on new games, for each method that promises it. Three standard
  errors of the mean over games are allowed below the target.
- Exact methods, compared with all subsets and other references by `limelight.verify`.
- Bounds of random games, compared with arithmetic of 60 digits.
- Numbers in the docs, compared with stored results by the tests of the pages.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import limelight
from coverage_study import (
    FAMILIES,
    METHODS,
    WANTED,
    Method,
    coverage,
    method_of_cell,
    sampler_digest,
    stored_cells,
)
from extreme_games import Tally, tried
from results import Measure, command_line, report

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ("coverage", "coverage_held_out", "coverage_pairs", "coverage_triples",
           "coverage_context_cite", "coverage_owen", "coverage_owen_cuda")  # fmt: skip
FIRST_GAME, GAMES, SEEDS = 1000, 4, 4  # games that the study does not have
TEXTS = (
    "A superb film and a fine plot.",
    "The actors are good. The story is long, slow and never surprising, and the music is awful.",
    "Not bad at all, but not the best of them.",
)
DOC_TESTS = ("tests/test_doc_numbers.py", "tests/test_stored_results.py",
             "tests/test_docs_statements.py", "reproduction/tests/test_article.py")  # fmt: skip


def stale_cells(studies: tuple[str, ...]) -> Iterator[Measure]:
    """Count the stored cells of each study whose sampler has another digest today."""
    for study in studies:
        digests: dict[str, str] = {}
        stale = []
        cells = {id: cell for id, cell in stored_cells(study).items() if cell.sampler}
        for id, cell in cells.items():
            method = method_of_cell(study, id)
            if method.id not in digests:
                digests[method.id] = sampler_digest(method)
            if cell.sampler != digests[method.id]:
                stale.append(id)
        yield Measure(
            id=f"stale_{study}",
            what=f"{study}: cells whose sampler changed since they were measured",
            value=len(stale),
            below=1,
            note=" ".join(stale) or f"{len(cells)} cells",
        )


def new_coverage(methods: list[Method], games: int) -> Iterator[Measure]:
    """Measure the coverage of methods that promise it, on games that the study does not have."""
    families = [family for family in FAMILIES.values() if not family.hidden]
    for method in methods:
        means = np.array(
            [
                np.mean(
                    [
                        coverage(method, family, 1, SEEDS, first=number).held_or_noticed
                        for family in families
                    ]
                )
                for number in range(FIRST_GAME, FIRST_GAME + games)
            ]
        )
        error = means.std(ddof=1) / len(means) ** 0.5
        yield Measure(
            id=f"coverage_{method.id}",
            what=f"{method.id}: coverage on new games, and three standard errors",
            value=round(float(means.mean() + 3 * error), 3),
            at_least=WANTED,
            note=f"coverage {means.mean():.3f}, standard error {error:.3f}",
            sampler=sampler_digest(method),
        )


def exactness(texts: tuple[str, ...]) -> Iterator[Measure]:
    """Compare the exact methods of two kinds of models with their references."""
    training = ["a superb film", "a fine plot", "an awful story", "long and slow"]
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(C=30))
    models = {
        "attention": limelight.load(),
        "TF-IDF": limelight.wrap(pipeline.fit(training, [1, 1, 0, 0])),
    }
    for kind, model in models.items():
        checks = sorted(
            (check for text in texts for check in limelight.verify(model, text)),
            key=lambda check: check.method,
        )
        for method, rows in groupby(checks, lambda check: check.method):
            shares = {check.against: check.error / check.allowed for check in rows}
            worst = max(shares, key=shares.__getitem__)
            yield Measure(
                id=f"exact_{kind}_{method}",
                what=f"{method}, {kind}: largest error over what is allowed",
                value=shares[worst],
                below=1.0,
                note=f"{len(shares)} comparisons, worst: {worst}",
            )


def bounds(games: int) -> Measure:
    """Count the numbers of random games that lie outside their bounds."""
    tally = Tally(Counter(), {}, [])
    tried(range(FIRST_GAME, FIRST_GAME + games), tally)
    total = sum(count for (_, outcome), count in tally.held.items() if outcome == "violated")
    held = sum(count for (_, outcome), count in tally.held.items() if outcome == "held")
    what = "numbers outside their bounds, in arithmetic of 60 digits"
    note = f"{held:,} numbers of {games} games are inside"
    return Measure(id="violations", what=what, value=total, below=1, note=note)


def page_faults(tests: tuple[str, ...]) -> Iterator[Measure]:
    """Compare the numbers in the docs with the stored results."""
    python = sys.executable
    commands = {
        "tables": [python, "benchmarks/tables.py", "--check"],
        "numbers": [python, "-m", "pytest", "-q", "-n", "0", "-m", "not slow", *tests],
    }
    for name, command in commands.items():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        yield Measure(
            id=f"pages_{name}",
            what=f"numbers in the docs ({name}) that are not those of stored results",
            value=len(failed) or int(done.returncode != 0),
            below=1,
            note=" ".join(failed) or done.stderr.strip()[-200:],
        )


def main() -> int:
    """Run all checks and return the exit status."""
    arguments = command_line(__doc__ or "").parse_args()
    smoke = arguments.smoke
    promised = [method for method in METHODS if method.promised]
    measures = [
        *stale_cells(STUDIES[:1] if smoke else STUDIES),
        *new_coverage(promised[-1:] if smoke else promised, 2 if smoke else GAMES),
        *exactness(TEXTS[:1] if smoke else TEXTS),
        bounds(2 if smoke else 200),
        *page_faults(DOC_TESTS[:1] if smoke else DOC_TESTS),
    ]
    report("release", measures, arguments, data=f"{GAMES} new games, {len(TEXTS)} texts")
    failed = [measure.id for measure in measures if measure.met is False]
    print(f"The release check failed: {', '.join(failed)}." if failed else "All checks passed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
