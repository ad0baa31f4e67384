"""How many functions and files of limelight are walked through from a text to an answer.

    python benchmarks/walk.py

Comprehensions are no functions. The counts are the same on every machine; processor time is not,
and is compared with that of another version, also for whole data sets and for a network:

    git worktree add ../earlier v0.1.0    # or any commit
    python benchmarks/walk.py --earlier ../earlier/src [--network ../shared/models/minilm-imdb]

Both are then started as processes of their own, three times each in turn.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from results import Measure, command_line, report

HERE = Path(__file__).resolve().parents[1] / "src"
ROUNDS = 3
WORK = {
    "lime": "explain(model, text, 'lime')",
    "shapley": "explain(model, text, 'shapley')",
    "alpha-avg": "explain(model, text, 'alpha-avg')",
    "gxi": "explain(model, text, 'gxi')",
    "loo": "explain(model, text, 'loo')",
    "lime-sampled": "explain(model, text, 'lime-sampled')",
    "compare": "compare(model, text)",
    "lime_list": "explain(model, texts, 'lime')",
    "function": "explain(function, short, 'lime', samples=300)",
}
# Whole data sets: seldom repeated, since one time takes as long as hundreds of those above.
AT_LENGTH = {
    "evaluate": "evaluate(model, read_labeled(labeled))",
    "data": "explain_data(model, {'text': texts}, ['lime', 'shapley'], output=tempfile.mkdtemp())",
    "judge": "judge(model, texts[:8], ['lime', 'shapley', 'loo', 'gxi'])",
    "function_data": "explain_data(function, {'text': [short] * 32}, 'lime', samples=300,"
    " output=tempfile.mkdtemp())",
}
ON_NETWORK = {
    "network_lime": "explain(network, short, 'lime', samples=200)",
    "network_shapley": "explain(network, short, 'shapley', pairs=5, max_pairs=5)",
    "network_lrp": "explain(network, texts[:8], 'lrp')",
    "network_ig": "explain(network, short, 'ig')",
    "network_judge": "judge(network, [short], ['lrp', 'gxi', 'loo'])",
}
PROGRAM = """
import json, sys, tempfile, time
from pathlib import Path
from limelight import compare, evaluate, explain, explain_data, judge, load, read_labeled, wrap
given = json.load(sys.stdin)
network = given["network"] and load(given["network"])
model, text, texts, short = load(), given["text"], given["texts"], given["short"]
def answer(asked):
    return [[1 - len(t) % 7 / 9, len(t) % 7 / 9] for t in asked]
function = wrap(answer, classes=["a", "b"])
labeled = Path(tempfile.mkdtemp()) / "reviews.csv"
kinds = ",positive", ",negative"
rows = ['"' + one.replace('"', "'") + '"' + kinds[i % 2] for i, one in enumerate(texts * 30)]
labeled.write_text(chr(10).join(["text,label", *rows]))
found = {}
for name, call in given["work"].items():
    run = eval("lambda: " + call)
    run()
    times = []
    for _ in range(min(given["repeats"], 3) if name in given["seldom"] else given["repeats"]):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    found[name] = sorted(times)[len(times) // 2]
print(json.dumps(found))
"""
# Each is asked twice: the first time imports and fills caches.
ASKED = {
    "explain": "explain(model, text, 'lime')",
    "compare": "compare(model, text)",
    "judge": "judge(model, texts, ['lime', 'shapley'])",
    "explain_data": "explain_data(model, {'text': texts}, 'lime', output=tempfile.mkdtemp())",
    "serve": "request()",
}
# Calls, and files: what 0.1 walked through, or two thirds of what 0.2 did.
MOST = {
    "explain": (231, 31),
    "compare": (601, None),
    "judge": (None, 46),
    "explain_data": (None, 41),
    "serve": (None, 36),
}
COUNTING = """
import http.client, json, sys, tempfile, threading
from urllib.parse import urlsplit
from limelight import compare, explain, explain_data, judge, load, serve
given = json.load(sys.stdin)
model, text, texts = load(), given["text"], given["texts"]
counted, seen = [False], []
def profile(frame, event, _):
    if counted[0] and event == "call" and frame.f_code.co_name[0] != "<":
        _, inside, file = frame.f_code.co_filename.rpartition("/limelight/")
        # cached_property of threads.py stands in for that of functools on Python 3.11 alone.
        stands_in = (file, frame.f_code.co_name) == ("threads.py", "__get__")
        seen.extend([file] * bool(inside and not stands_in))
threading.setprofile(profile)
serving = serve(model)
def request():
    at = urlsplit(serving.url)
    connection = http.client.HTTPConnection(at.hostname, at.port)
    for panel in ("panel", "place"):  # its name in this version, and in earlier ones
        asked = {"tab": "t", panel: "p", "text": text, "methods": ["lime"]}
        connection.request("POST", at.path + "text", json.dumps(asked))
        response = connection.getresponse()
        body = response.read()
        if response.status == 200:
            return
    raise SystemExit(f"the page answers {body!r}")
sys.setprofile(profile)
found = {}
for name, call in given["asked"].items():
    run = eval("lambda: " + call)
    for counted[0] in (False, True):
        seen.clear()
        run()
    counted[0] = False
    found[name] = [len(seen), len(set(seen))]
sys.setprofile(None)
print(json.dumps(found))
serving.stop()
"""
SHORT = "The plot is predictable, but the acting is superb."
TEXT = (
    "I did not expect much of this film, and for the first half hour it gave me nothing: the plot "
    "is predictable, the jokes are old and the camera never finds its place. Then the story turns, "
    "and two actors whom nobody knew before carry it to an end that is as sad as it is funny. The "
    "music is superb, the last scene is one of the finest of the year, and I left the theatre "
    "wanting to see it again. It is too long, it is uneven, and it is still a wonderful film."
)


def main() -> None:
    """Count what this version walks through; measure it and another in turn, if one is named."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--earlier", type=Path, help="the src folder of a version to compare with")
    parser.add_argument("--network", type=Path, help="a folder of Hugging Face's, to compare by")
    arguments = parser.parse_args()
    work = WORK | AT_LENGTH | (ON_NETWORK if arguments.network else {})
    versions = {"now": HERE}
    measures = []
    if arguments.earlier is not None:
        versions = {"earlier": arguments.earlier, **versions}
        repeats = 1 if arguments.smoke else 21
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
        for _ in range(1 if arguments.smoke else ROUNDS):
            for name, source in versions.items():
                rounds[name].append(measured(source, repeats, work, arguments.network))
        measures = _measures(rounds, work)
    measures += _counts({name: counted(source) for name, source in versions.items()})
    report("walk", measures, arguments, data="a sentence; one review of 83 words, and 64 of it")


def measured(
    source: Path, repeats: int, work: dict[str, str], network: Path | None
) -> dict[str, float]:
    """Return the median processor seconds of each piece of work in a process of its own."""
    short = " ".join(TEXT.split()[:18])
    texts = [f"{TEXT} {i} {i + 1}" for i in range(64)]
    given = {"text": TEXT, "texts": texts, "short": short, "work": work, "repeats": repeats}
    given |= {"seldom": [*AT_LENGTH, *ON_NETWORK], "network": network and str(network.resolve())}
    found: dict[str, float] = _answers(PROGRAM, source, given)
    return found


def counted(source: Path) -> dict[str, tuple[int, int]]:
    """Return the calls and the files of each question."""
    texts = [f"{SHORT} {i}" for i in range(5)]
    found: dict[str, tuple[int, int]] = _answers(
        COUNTING, source, {"text": SHORT, "texts": texts, "asked": ASKED}
    )
    return found


def _answers(program: str, source: Path, given: dict[str, Any]) -> Any:
    run = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(given),
        env={**os.environ, "PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def _counts(counts: dict[str, dict[str, tuple[int, int]]]) -> list[Measure]:
    """Return calls and files as measures; what is wanted is wanted of this version."""
    return [
        Measure(
            id=f"{name}_{kind}_{who}",
            what=f"{call}: {kind}, {who}",
            value=found[name][i],
            below=MOST[name][i] if who == "now" else None,
        )
        for name, call in ASKED.items()
        for i, kind in enumerate(("calls", "files"))
        for who, found in counts.items()
    ]


def _measures(rounds: dict[str, list[dict[str, float]]], work: dict[str, str]) -> list[Measure]:
    measures = []
    for name, call in work.items():
        times = {who: [1000 * one[name] for one in found] for who, found in rounds.items()}
        for who, found in times.items():
            measures.append(
                Measure(
                    id=f"{name}_{who}",
                    what=f"{call}, {who}",
                    value=median(found),
                    best=min(found),
                    unit="ms",
                )
            )
        measures.append(
            Measure(
                id=f"{name}_ratio",
                what=f"{call}, earlier over now",
                value=min(times["earlier"]) / min(times["now"]),
                at_least=0.95 if len(times["now"]) > 1 else None,
                note="best of the rounds; above 1 is quicker than before",
            )
        )
    return measures


if __name__ == "__main__":
    main()
