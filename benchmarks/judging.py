"""Judging on the shipped model: how long 1,000 reviews take, and what is found.

python benchmarks/judging.py
"""

import time
from collections.abc import Iterator

import limelight
from limelight import Judgement
from limelight.models import load
from measuring import peak_memory
from results import Measure, command_line, report
from reviews import reviews

METHODS = ("ig", "shapley", "lime", "loo", "gxi", "alpha-avg", "g-l1", "g-avg")


def main() -> None:
    """Judge reviews, print the shares and report the time."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--limit", type=int, default=1000, help="judge so many reviews")
    arguments = parser.parse_args()
    model = load()
    texts = reviews(model).texts
    count = 8 if arguments.smoke else min(arguments.limit, len(texts))
    texts = texts[:: len(texts) // count][:count]  # spread: the file is sorted by class
    start, used = time.perf_counter(), time.process_time()
    found = limelight.judge(model, texts, METHODS)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    for line in shares(found):
        print(line)
    measures = [
        Measure(
            id="judging_seconds",
            what=f"{len(texts):,} reviews, {len(METHODS)} methods, chance and ceiling",
            value=seconds,
            unit="s",
            below=60 * len(texts) / 1000,
            note=f"on the clock, one process; processor time {used:.0f} s",
        ),
        Measure(id="judging_memory", what="peak memory", value=peak_memory(), unit="MB"),
        Measure(
            id="judging_greedy",
            what="share of the greedy order: how tight the proven ceiling is",
            value=found.greedy or 0.0,
        ),
    ]
    report("judging", measures, arguments, data=f"{len(texts)} reviews")


def shares(found: Judgement) -> Iterator[str]:
    """Yield the rows of the table in ``docs/judging.md``."""
    for m in found.ranked():
        if m.share is None or m.interval is None or m.insertion is None or m.won is None:
            continue
        low, high = m.interval
        share = f"{m.share:.3f} [{low:.3f}, {high:.3f}]"
        yield f"| {m.method} | {share} | {m.insertion:.3f} | {m.won:.0%} |"
    yield found.verdict


if __name__ == "__main__":
    main()
