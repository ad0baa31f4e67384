"""What a learned method reaches, with how many texts, from which signals, and how fast.

python reproduction/studies/learning.py --pack carry  # where there is pyarrow: texts as .jsonl.gz
python reproduction/studies/learning.py --curve --model minilm-imdb --texts imdb_train.jsonl.gz \
       --held imdb_test.jsonl.gz --output OUT
    share on 110 held-out reviews by number of texts and by signals, together with one pair of
    orders, coverage of ±2 standard errors, values that were shuffled
python reproduction/studies/learning.py --speed --model minilm-imdb
       --texts imdb_train.jsonl.gz --output OUT [--explained 10000]
    so many reviews under the method in OUT/method (which --curve writes; else one is learned from
    100 of them), by the model alone, and by two pairs of orders; without a graphics card a few
    reviews will do, since what counts there is how many times as fast it is
python reproduction/studies/learning.py --others --output OUT
       [--sick FOLDER --sick-texts sick.jsonl.gz] [--gpt2 FOLDER --texts imdb_train.jsonl.gz]
       [--model minilm-imdb --sst2 sst2.jsonl.gz]
    pairs of sentences, a language model, and sentences under the method of reviews
python reproduction/studies/learning.py --families --output OUT
       [--vit FOLDER --images fashion.parquet] [--tagger FOLDER --tagged news.jsonl.gz]
       [--writer FOLDER]
    images, places of a tagger and answers of a language model. The rule, written before anything
    was found: a family is carried over to where, on what was held out, the share is not below that
    of lrp, ±2 standard errors hold 0.93 of the values of 25 pairs, and values that were shuffled
    teach nothing; where one of these fails, the page says so. The tagger is that of tags.py (a
    MobileBERT, whose weights are those of the ONNX file), the language model that of answers.py: a
    text is sixteen facts and a question about one of them, which differs from text to text
python reproduction/studies/learning.py --store --output OUT
    what is in OUT as results/learning.json, of which tables.py makes a table; other rows stay

Values that are drawn stay in OUT, and are not drawn again: fits can be repeated. Results are
written to OUT as they come. --smoke runs any of them on a few short texts, in a minute or two.
"""

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from results import STAMP, STUDIES, Measure, machine, stored_measures, versions, write_result

import limelight
from limelight.explainers import Shapley
from limelight.explainers.batch import read_batch, sum_subword_scores
from limelight.explainers.learned import SIGNALS_WITH_STATES, LearnedMethod
from limelight.models.queries import expand_texts
from limelight.progress import ProgressTracker
from limelight.request import Request, prepare_model
from limelight.text import token_strings
from limelight.training import fitting, learning

SIZES = (50, 200, 500, 1500)
ABLATED = (200, 1500)  # texts, with which signals are left out one by one
LEFT_OUT = ("embedding", "middle", "last", "head", "places", "outputs")
BEGUN = time.perf_counter()
ASKED = Request(features="words")


def main() -> None:
    """Run what was asked for."""
    asked = parsed()
    if asked.pack is not None:
        pack(asked.pack)
        return
    asked.output.mkdir(parents=True, exist_ok=True)
    for wanted, run in (
        (asked.curve, curve),
        (asked.speed, speed),
        (asked.others, others),
        (asked.families, families),
        (asked.store, store),
    ):
        if wanted:
            run(asked)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("curve", "speed", "others", "families", "brief", "store", "smoke"):
        parser.add_argument(f"--{name}", action="store_true")
    paths = ("pack", "model", "texts", "held", "sick", "sick-texts", "gpt2", "sst2")
    for name in (*paths, "vit", "images", "tagger", "tagged", "writer"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--output", type=Path, default=Path("learning"))
    parser.add_argument("--device", default=None)
    parser.add_argument("--explained", type=int, default=10_000, help="texts, for --speed")
    parser.add_argument("--reviews", type=int, default=110, help="held-out texts that are judged")
    parser.add_argument("--items", type=int, default=1000, help="to learn from, for --families")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--reference", type=int, default=25, help="pairs of the reference values")
    return parser.parse_args()


def say(sentence: str) -> None:
    """Print a sentence with the seconds since the start."""
    print(f"[{time.perf_counter() - BEGUN:6.1f} s] {sentence}", flush=True)


def write(asked: argparse.Namespace, name: str, found: Any) -> None:
    """Write what was found so far, and where."""
    import torch

    where = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "stamp": STAMP,
        "machine": machine(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "versions": versions(),
    }
    text = json.dumps({**found, "measured": where}, indent=1)
    (asked.output / f"{name}.json").write_text(text + "\n")


def read(path: Path) -> list[Any]:
    """Return the texts of a file; a pair is a tuple."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        given = [json.loads(line)["text"] for line in lines]
    return [tuple(one) if isinstance(one, list) else one for one in given]


def pack(folder: Path) -> None:
    """Write texts as a machine without pyarrow can read them, in random order."""
    import pyarrow.parquet as parquet

    data = Path(__file__).resolve().parents[3] / "shared" / "data"
    wanted = {
        "imdb_train": ("imdb/train.parquet", ["text"], 10_000),
        "imdb_test": ("imdb/test.parquet", ["text"], 2_000),
        "sick": ("sick/train.parquet", ["sentence_a", "sentence_b"], 1_000),
        "sst2": ("sst2/dev.parquet", ["text"], 200),
        "news": ("ag_news/test.parquet", ["text"], 2_000),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, (file, columns, count) in wanted.items():
        table = parquet.read_table(data / file, columns=columns).to_pydict()
        rows = list(zip(*table.values(), strict=True))
        order = np.random.default_rng(0).permutation(len(rows))[:count]
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as lines:
            for i in order:
                text = rows[i][0] if len(columns) == 1 else list(rows[i])
                lines.write(json.dumps({"text": text}) + "\n")


def usual_reviews(path: Path, count: int, *, smoke: bool) -> list[str]:
    """Return reviews of about 150 tokens, about 100 different words; of 12 tokens for a trial."""
    if smoke:
        return [" ".join(text.split()[:12]) for text in read(path)[:count]]
    found = [text for text in read(path) if 100 <= len(token_strings(text)) <= 220]
    if len(found) < count:
        say(f"There are {len(found)} such reviews only.")
    return found[:count]


def drawn(model: Any, plan: learning.SamplingPlan, asked: Any, name: str) -> list[np.ndarray]:
    """Return the values of all texts of a plan: those that are stored, else drawn now."""
    file = asked.output / f"{name}.npz"
    if not file.exists():
        found = list[Any]()
        for start in range(0, len(plan.texts), 64):
            numbers = range(start, min(start + 64, len(plan.texts)))
            found += learning.sample_values(model, plan, numbers, ASKED)
            if start % 256 == 0:
                say(f"{name}: {len(found)} of {len(plan.texts)} texts drawn")
        assert all(one is not None for one in found)
        np.savez(file, **{str(i): one for i, one in enumerate(found)})
    with np.load(file) as stored:
        return [stored[str(i)] for i in range(len(stored.files))]


def part(examples: fitting.Examples, signals: tuple[str, ...], known: tuple[str, ...]) -> Any:
    """Return the examples with some of their signals only."""
    h, x = examples.network_inputs.texts.shape[1], examples.network_inputs
    C = examples.values.shape[1]
    own = {"head": h - C, "outputs": C}
    width = (x.words.shape[1] - 5 - ("lrp" in known) * C) // 3
    sizes = {"embedding": width, "middle": width, "last": width, "places": 5, "lrp": C}
    words = [name for name in ("embedding", "middle", "last", "places", "lrp") if name in known]
    kept = [
        np.concatenate([np.full(size[name], name in signals) for name in names])
        for size, names in ((sizes, words), (own, ("head", "outputs")))
    ]
    inputs = x._replace(words=x.words[:, kept[0]], texts=x.texts[:, kept[1]])
    return replace(examples, network_inputs=inputs)


def with_lrp(model: Any, texts: list[Any], examples: fitting.Examples) -> fitting.Examples:
    """Return the examples with one more signal, which was found not to pay: the lrp scores."""
    found = []
    for start in range(0, len(texts), 32):
        batch = read_batch(model, texts[start : start + 32], ASKED)
        n, C = batch.outputs.shape
        of_outputs = [
            model.frozen_input_products(batch.inputs, np.tile(np.eye(C)[c], (n, 1))).products
            for c in range(C)
        ]
        for i, one in enumerate(batch.split()):
            found.append(sum_subword_scores(one, np.stack([each[i] for each in of_outputs])).T)
    words = np.concatenate(
        [examples.network_inputs.words, np.concatenate(found)], axis=1, dtype=np.float32
    )
    return replace(examples, network_inputs=examples.network_inputs._replace(words=words))


def curve(asked: argparse.Namespace) -> None:
    """Find the share by number of texts and by signals; everything is judged in one go."""
    sizes = (20, 40) if asked.smoke else SIZES
    ablated = (40,) if asked.smoke else ABLATED
    reviews = 3 if asked.smoke else asked.reviews
    model = limelight.load(asked.model, device=asked.device)
    texts = usual_reviews(asked.texts, max(sizes), smoke=asked.smoke)
    held = usual_reviews(asked.held, reviews, smoke=asked.smoke)
    plan = learning.SamplingPlan(texts, asked.pairs, 0)
    of_held = learning.SamplingPlan(held, 4 if asked.smoke else asked.reference, 1)
    values, reference = (
        drawn(model, plan, asked, "values"),
        drawn(model, of_held, asked, "reference"),
    )
    known = (*SIGNALS_WITH_STATES, "lrp")
    examples, others = (
        with_lrp(model, own, learning.make_examples(model, own, x, ASKED, SIGNALS_WITH_STATES))
        for own, x in ((texts, values), (held, reference))
    )
    say(f"signals of {examples.text_count} and {others.text_count} texts")
    rng = np.random.default_rng(0)
    scores: dict[str, np.ndarray] = {"25 pairs": others.values}
    for count in (1, 2, 5):
        scores[f"{count} pair{'s' * (count > 1)}"] = np.concatenate(
            [one[:count].mean(axis=0).T for one in reference]
        )
    found: dict[str, Any] = {"texts": sizes, "held_out": len(held), "fits": {}}
    shuffled = rng.permutation(len(examples.values))
    noise = replace(
        examples, values=examples.values[shuffled], draw_variance=examples.draw_variance[shuffled]
    )
    runs = [(f"{n} texts", examples, SIGNALS_WITH_STATES, n) for n in sizes]
    runs += [(f"{n} texts, with lrp", examples, known, n) for n in ablated]
    runs += [
        (
            f"{n} texts, without {name}",
            examples,
            tuple(s for s in SIGNALS_WITH_STATES if s != name),
            n,
        )
        for n in ablated
        for name in LEFT_OUT
    ]
    runs += [(f"{sizes[-2]} texts, shuffled values", noise, SIGNALS_WITH_STATES, sizes[-2])]
    for name, source, signals, n in runs:
        begun = time.perf_counter()
        some = part(source.select(np.arange(n)), signals, known)
        whole = n == sizes[-1] and signals == SIGNALS_WITH_STATES
        learned = fitting.fit_examples(
            some, learning.SamplingPlan(texts[:n], 3, 0).held_out, seed=0, curve=whole
        )
        predicted = learned.predict_scores(
            learned.standardize_inputs(part(others, signals, known).network_inputs)
        )
        scores[name] = predicted.values
        report = dict(learned.report) | coverage(predicted, others)
        report["seconds"] = time.perf_counter() - begun
        found["fits"][name] = report
        say(f"{name}: R² {report['r2_reference']:.3f}, ±2 hold {report['covered']:.3f}")
        write(asked, "curve", found)
        if name in (f"{sizes[1]} texts", f"{sizes[-1]} texts"):
            scores |= dict(together(name, predicted, others, scores))
        if whole:
            save(asked, model, learned, values)
    say(f"judging {len(scores)} kinds of scores on {len(held)} texts")
    judged = limelight.judge(
        model,
        held,
        {n: of_texts(model, held, others, x) for n, x in scores.items()},
        columns=[],
        curves=False,
    )
    found["shares"] = {
        row.method: {"share": row.share, "interval": row.interval} for row in judged.methods
    }
    found["greedy"] = judged.greedy
    write(asked, "curve", found)
    for row in judged.methods:
        say(f"share {row.share} {row.interval}  {row.method}")


def coverage(predicted: Any, truth: fitting.Examples) -> dict[str, Any]:
    """Return how often ±2 standard errors hold the reference, its own error taken into account."""
    off = (predicted.values - truth.values) ** 2
    inside = off <= 4 * (predicted.stderr**2 + truth.noise)
    order = np.argsort(np.abs(predicted.values).ravel())
    deciles = [float(inside.ravel()[own].mean()) for own in np.array_split(order, 10)]
    r2 = fitting.noise_corrected_r_squared(predicted.values, truth)
    return {"covered": float(inside.mean()), "covered_deciles": deciles, "r2_reference": r2}


def together(name: str, predicted: Any, truth: Any, scores: Any) -> Iterator[tuple[str, Any]]:
    """Yield the scores with some pairs of orders, by inverse variances; and so that they add up."""
    own = predicted.stderr**2
    for count in (1, 2):
        pairs = scores[f"{count} pair{'s' * (count > 1)}"]
        share = own / (own + predicted.draw_deviation**2 / count)
        yield f"{name} and {count} pair(s)", predicted.values + share * (pairs - predicted.values)
        yield f"{name} and {count} pair(s), half and half", (predicted.values + pairs) / 2
    missing = truth.text_means(truth.values - predicted.values)[truth.network_inputs.owner]
    yield (
        f"{name}, adding up",
        predicted.values + missing * own / truth.text_means(own)[truth.network_inputs.owner],
    )


def of_texts(model: Any, texts: list[Any], truth: fitting.Examples, scores: np.ndarray) -> Any:
    """Return a function that judge asks: the scores of a text for the class that is judged."""
    rows = {text: scores[truth.network_inputs.owner == i] for i, text in enumerate(texts)}
    names = model.classes[-scores.shape[1] :]
    one = scores.shape[1] == 1  # an output that speaks for the second class

    def scored(_: Any, text: Any, target: str) -> np.ndarray:
        if one:
            return rows[text][:, 0] * (1 if target == names[0] else -1)
        return rows[text][:, names.index(target)]

    return scored


def save(asked: Any, model: Any, learned: LearnedMethod, values: list[np.ndarray]) -> None:
    """Write the method, as ``limelight.learn`` would."""
    record = {
        "model": model.fingerprint,
        "classes": list(model.classes),
        "outputs": list(range(values[0].shape[1])),
        "features": "words",
        "signals": list(SIGNALS_WITH_STATES),
        "pairs": asked.pairs,
        "seed": 0,
        "version": limelight.__version__,
        **learned.record,
    }
    record["report"] = dict(record["report"]) | {"sentences": []}
    replace(learned, record=record).save(asked.output / "method")


def speed(asked: argparse.Namespace) -> None:
    """Explain many reviews by the method in OUT/method, and count what it takes."""
    from limelight.models.hugging_face import forward

    model = limelight.load(asked.model, device=asked.device)
    texts = read(asked.texts)[: 20 if asked.smoke else asked.explained]
    if not (asked.output / "method").exists():
        some = usual_reviews(asked.texts, 24 if asked.smoke else 100, smoke=asked.smoke)
        limelight.learn(model, some, pairs=1, judged=0, output=asked.output / "method")
        say("A method is learned.")
    learned = LearnedMethod.load(asked.output / "method")
    rows, own = list[int](), forward.network_input

    def counted(network: Any, ids: Any, **more: Any) -> Any:
        rows.append(len(ids))
        return own(network, ids, **more)

    def took(work: Callable[[], Any]) -> tuple[Any, float, float]:
        begun = time.perf_counter(), time.process_time()
        found = work()
        return found, time.perf_counter() - begun[0], time.process_time() - begun[1]

    limelight.explain(model, texts[:300], learned)  # what is set up once
    model.logits(texts[:300])
    forward.network_input = counted
    explained, seconds, processor = took(lambda: limelight.explain(model, texts, learned))
    passes = sum(rows) / len(texts)
    forward.network_input = own
    _, bare, _ = took(lambda: model.logits(texts))
    few = texts[: 2 if asked.smoke else min(32, len(texts))]
    _, *pairs = took(lambda: limelight.explain(model, few, "shapley", pairs=2, max_pairs=2))
    found = {
        "texts": len(texts),
        "words": sum(len(one.features) for one in explained),
        "seconds": seconds,
        "processor_ms_a_text": 1000 * processor / len(texts),
        "forward_passes_a_text": passes,
        "seconds_of_the_model_alone": bare,
        "ratio": seconds / bare,
        "two_pairs_seconds_a_text": pairs[0] / len(few),
        "faster_than_two_pairs": pairs[0] / len(few) / (seconds / len(texts)),
        "faster_than_two_pairs_by_processor": pairs[1] / len(few) / (processor / len(texts)),
    }
    say(json.dumps(found))
    name = "speed" if model.network.device.type == "cuda" else "speed_cpu"
    write(asked, name, found)


def others(asked: argparse.Namespace) -> None:
    """Learn other models, and explain other texts under the method of reviews."""
    file = asked.output / "others.json"  # one model may be learned after the other
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    count, judged = (24, 2) if asked.smoke else (500, 60)
    cases = list[tuple[str, Any, list[Any]]]()
    if asked.sick is not None:
        cases.append(("sick", {"path": asked.sick}, read(asked.sick_texts)[:count]))
    if asked.gpt2 is not None:
        template = {"template": "{text} this film is", "labels": {"bad": "bad", "good": "good"}}
        reviews = usual_reviews(asked.texts, count, smoke=asked.smoke)
        cases.append(("gpt2", {"path": asked.gpt2, **template}, reviews))
    for name, given, texts in cases:
        model = limelight.load(given.pop("path"), device=asked.device, **given)
        begun = time.perf_counter()
        learned = limelight.learn(model, texts, output=asked.output / name, judged=judged)
        found[name] = dict(learned.report) | {"seconds": time.perf_counter() - begun}
        say(f"{name}: {learned}")
        write(asked, "others", found)
    if asked.sst2 is not None:
        model = limelight.load(asked.model, device=asked.device)
        learned = LearnedMethod.load(asked.output / "method")
        texts = read(asked.sst2)[: 2 * judged]
        told = [
            any("differs from the training" in n for n in e.warnings)
            for e in limelight.explain(model, texts, learned)
        ]
        found["sst2"] = {"texts": len(texts), "warnings": float(np.mean(told))}
        judgment = limelight.judge(model, texts, [learned, "loo", "lrp"], columns=[], curves=False)
        for row in judgment.methods:
            found["sst2"][row.method] = {"share": row.share, "interval": row.interval}
        say(f"sst2: {found['sst2']}")
        write(asked, "others", found)


def facts(seed: int) -> str:
    """Return sixteen facts and a question about one of them, of another person in each text."""
    from answers import KINDS, NAMES, WHO, context

    rng = np.random.default_rng([seed, 7])
    request = str(rng.choice(list(KINDS)))
    text, _, _ = context(request, seed)
    name = str(rng.choice([WHO, *(one for one in NAMES.split() if one not in text)]))
    return f"{text.replace(WHO, name)} {request.format(name=name)}"


def families(asked: argparse.Namespace) -> None:
    """Learn an image classifier, a tagger and the answers of a language model."""
    count, held, longest = (24, 4, 30) if asked.smoke else (asked.items, asked.reviews, 40)
    cases: dict[str, Callable[[], tuple[Any, list[Any]]]] = {}

    def images() -> tuple[Any, list[Any]]:
        from limelight.data.images import read_labeled_images

        given = list(read_labeled_images(asked.images).texts)
        return limelight.load(asked.vit, device=asked.device), given

    def places() -> tuple[Any, list[Any]]:
        given = [text for text in read(asked.tagged) if 8 <= len(text.split()) <= longest]
        # In single precision: nothing is normalized in it, and in half precision [CLS] overflows.
        model = limelight.load(asked.tagger, device=asked.device)
        return replace(model, half=False), given

    def answers() -> tuple[Any, list[Any]]:
        template = [{"role": "user", "content": "Context: {text}"}]
        model = limelight.load(
            asked.writer, device=asked.device, template=template, max_new_tokens=24
        )
        return model, [facts(seed) for seed in range(count + held)]

    cases = {"vit": images, "tagger": places, "writer": answers}
    for name, case in cases.items():
        if getattr(asked, name) is None:
            continue
        file = asked.output / "families.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        model, given = case()
        texts = given[: min(count, len(given) - held)]
        found[name] = of_family(asked, name, model, texts, given[-held:])
        write(asked, "families", found)


def of_family(asked: Any, name: str, model: Any, texts: list[Any], held: list[Any]) -> Any:
    """Return what a method learned from ``texts`` reaches on those that are ``held`` out."""
    _, request = prepare_model(model, Request())
    if learning.has(model, "generation"):  # once for all
        texts, held = (list(chain(*expand_texts(model, some))) for some in (texts, held))
        say(f"{name}: such as {texts[0].queries[0].text!r}")
    began = time.perf_counter()
    learned = limelight.learn(
        model, texts, pairs=asked.pairs, judged=0, output=asked.output / name, progress=shown(name)
    )
    report = dict(learned.report) | {"seconds": time.perf_counter() - began}
    say(f"{name}: {learned}")
    items = learning.distinct_queries(model, held, request)
    plan = learning.SamplingPlan(items, 4 if asked.smoke else asked.reference, 1)
    values, kept = list[Any](), list[Any]()
    for start in range(0, len(items), 32):
        numbers = range(start, min(start + 32, len(items)))
        for i, one in zip(
            numbers, learning.sample_values(model, plan, numbers, request), strict=True
        ):
            if one is not None:
                values.append(one)
                kept.append(items[i])
    truth = learning.make_examples(model, kept, values, request, learned.record["signals"])
    predicted = learned.predict_scores(learned.standardize_inputs(truth.network_inputs))
    report |= coverage(predicted, truth) | {"reference": len(kept)}
    report["ablated"] = dict(ablated(asked, name, model, request, learned, truth, texts))
    say(f"{name}: R² {report['r2_reference']:.3f}, ±2 hold {report['covered']:.3f}")
    say(f"{name}: {report['ablated']}")
    pairs = [Shapley(pairs=n, max_pairs=n, sampler="orders") for n in (2, 5)]
    started = Shapley(pairs=1, max_pairs=1, sampler="orders", start=learned)
    judged = limelight.judge(
        model,
        held,
        {
            "learned": learned,
            "learned and 1 pair": started,
            "2 pairs": pairs[0],
            "5 pairs": pairs[1],
            "lrp": "lrp",
            "attention": "alpha-avg",
            "loo": "loo",
        },
        columns=[],
        curves=False,
    )
    report["shares"] = {
        row.method: {"share": row.share, "interval": row.interval, "reason": row.reason}
        for row in judged.methods
    }
    report["texts_judged"], report["greedy"] = len(judged.texts), judged.greedy
    for row in judged.methods:
        say(f"{name}: share {row.share} {row.interval} {row.method} {row.reason or ''}")
    return report


def ablated(
    asked: Any, name: str, model: Any, request: Any, learned: Any, truth: Any, texts: list[Any]
) -> Iterator[tuple[str, float]]:
    """Yield R² of fits without some of the signals, and to values that were shuffled."""
    items = learning.distinct_queries(model, texts, request)
    plan = learning.SamplingPlan(items, asked.pairs, 0)
    tracker = ProgressTracker(None, total=1)
    drawn = learning._draw_all_values(model, plan, request, asked.output / name, tracker)
    known = [i for i, one in enumerate(drawn) if one is not None]
    signals = learned.record["signals"]
    examples = learning.make_examples(
        model, [items[i] for i in known], [drawn[i] for i in known], request, signals
    )
    held = plan.held_out.select(known)

    def reached(source: Any, left: tuple[str, ...] = ()) -> float:
        def only(x: Any) -> Any:
            C, h = x.values.shape[1], x.network_inputs.texts.shape[1] - x.values.shape[1]
            places = 7 if "attention" in signals else 5
            widths = [("embedding", h), ("middle", h), ("last", h)]
            widths += [
                ("attention", x.network_inputs.words.shape[1] - 3 * h - places),
                ("places", places),
            ]
            words = np.concatenate([np.full(size, one not in left) for one, size in widths])
            own = np.concatenate(
                [np.full(h, "head" not in left), np.full(C, "outputs" not in left)]
            )
            inputs = x.network_inputs._replace(
                words=x.network_inputs.words[:, words], texts=x.network_inputs.texts[:, own]
            )
            return replace(x, network_inputs=inputs)

        fit = fitting.fit_examples(only(source), held, seed=0, curve=False)
        values = fit.predict_scores(fit.standardize_inputs(only(truth).network_inputs)).values
        return fitting.noise_corrected_r_squared(values, truth)

    yield "all", reached(examples)
    for left in [one for one in signals if one not in ("outputs", "places")]:
        if asked.brief and left != "attention":
            continue
        yield f"without {left}", reached(examples, (left,))
    order = np.random.default_rng(0).permutation(len(examples.values))
    shuffled = replace(
        examples, values=examples.values[order], draw_variance=examples.draw_variance[order]
    )
    yield "shuffled", reached(shuffled)


def shown(name: str) -> Callable[[float, int], None]:
    """Return a progress that is said every few seconds."""
    last = [0.0]

    def heard(done: float, total: int) -> None:
        if time.perf_counter() - last[0] > 10:
            last[0] = time.perf_counter()
            say(f"{name}: {done:.0f} of {total}")

    return heard


def of_families(families: Any) -> Iterator[Measure]:
    """Yield what other families reach."""
    named = {
        "vit": "ViT, images of Fashion-MNIST",
        "tagger": "MobileBERT tagger, names in AG News",
        "writer": "SmolLM2, answers about sixteen facts",
    }
    for name, what in named.items():
        if (of := families.get(name)) is None:
            continue
        if trial := of.get("trial", ""):  # how few it was tried on, where that was all
            what = f"{what} ({trial})"
        for method, one in of["shares"].items():
            if one["share"] is not None:
                yield share(f"{name}_share, {method}", f"{what}: share of {method}", one)
        yield Measure(
            id=f"{name}_r2",
            what=f"{what}: R² with many pairs, less their noise",
            value=of["r2_reference"],
            note="" if trial else f"from {of['texts']:,}, on {of['reference']:,} held out",
        )
        deciles = of.get("covered_deciles")
        yield Measure(
            id=f"{name}_covered",
            what=f"{what}: ±2 standard errors hold",
            value=of["covered"],
            at_least=0.93,
            note=f"deciles {min(deciles):.3f} to {max(deciles):.3f}" if deciles else "",
        )
        for kind, value in of["ablated"].items():
            if kind != "all":
                yield Measure(id=f"{name}_r2, {kind}", what=f"{what}: R² {kind}", value=value)


def store(asked: argparse.Namespace) -> None:
    """Write what was found in OUT as measures; what was measured before and is not there stays."""
    file = STUDIES / "learning.json"
    stored: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"measures": []}
    rows = {one.id: one for one in stored_measures(stored)}
    of_part = {
        "curve": of_curve,
        "speed": of_speed,
        "speed_cpu": of_two_cores,
        "others": of_others,
        "families": of_families,
    }
    for name, measures in of_part.items():
        if not (asked.output / f"{name}.json").exists():
            continue
        found = json.loads((asked.output / f"{name}.json").read_text())
        stamp = found["measured"]["stamp"]
        rows |= {one.id: replace(one, stamp=stamp) for one in measures(found)}
        if name == "speed_cpu":
            stored["two_cores"] = found["measured"]
        else:
            stored |= found["measured"]
        if name == "curve":
            stored["data"] = (
                f"MiniLM (minilm-imdb), {found['held_out']} reviews of IMDB's test part, of 100 to "
                "220 tokens; learned from its training part, 3 pairs of orders a text"
            )
    stored |= {
        "benchmark": "learning",
        "command": "learning.py --curve …; --speed …; --others …; --store",
        "smoke": asked.smoke,
        "measures": [row.as_row() for row in rows.values()],
    }
    write_result(file, stored)


def share(id: str, what: str, of: Any, **wanted: float) -> Measure:
    """Return a share with its interval, which fewer than ten texts do not have."""
    ends = [f"{x:.3f}".replace("-", "−") for x in of["interval"] or ()]
    note = f"[{', '.join(ends)}]" if ends else ""
    return Measure(id=id, what=what, value=of["share"], note=note, **wanted)


def of_curve(curve: Any) -> Iterator[Measure]:
    """Yield the rows of the table; what was wanted was written before anything was found."""
    wanted = {"200 texts": 0.74, "1500 texts": 0.78, "1500 texts and 1 pair(s)": 0.82}
    for name, of in curve["shares"].items():
        shown = name.replace("1 pair(s)", "1 pair").replace("2 pair(s)", "2 pairs")
        shown = shown.replace("1500", "1,500")
        limit = {"at_least": wanted[name]} if name in wanted else {}
        yield share(f"share, {name}", f"share: {shown}", of, **limit)
    fit = curve["fits"][f"{max(curve['texts'])} texts"]
    yield Measure(
        id="r2", what="1,500 texts: R² with 25 pairs, less their noise", value=fit["r2_reference"]
    )
    yield Measure(
        id="covered",
        what="1,500 texts: ±2 standard errors hold",
        value=fit["covered"],
        at_least=0.93,
        note="of the values of 25 pairs, their own error taken into account",
    )
    for i, value in enumerate(fit["covered_deciles"], 1):
        what = f"1,500 texts: of decile {i} of the scores by size"
        yield Measure(id=f"covered_{i}", what=what, value=value, at_least=0.93)
    noise = next(report for name, report in curve["fits"].items() if "shuffled" in name)
    yield Measure(
        id="r2_shuffled",
        what="shuffled values: R²",
        value=noise["r2_reference"],
        note=noise["warning"].partition(":")[0].capitalize(),
    )


def of_speed(speed: Any) -> Iterator[Measure]:
    """Yield what one graphics card takes."""
    yield Measure(
        id="seconds",
        what=f"{speed['texts']:,} reviews",
        value=speed["seconds"],
        unit="s",
        below=60,
        note=f"with {speed['words']:,} words",
    )
    yield Measure(
        id="passes",
        what="forward passes of a text",
        value=speed["forward_passes_a_text"],
        below=1.5,
    )
    yield Measure(
        id="alone",
        what="the model alone on those reviews",
        value=speed["seconds_of_the_model_alone"],
        unit="s",
    )
    yield Measure(
        id="faster",
        what="times as fast as two pairs of orders, on this GPU",
        value=speed["faster_than_two_pairs"],
    )


def of_two_cores(speed: Any) -> Iterator[Measure]:
    """Yield how many times as fast it is without one, by the processor time of one run."""
    yield Measure(
        id="faster_two_cores",
        what="times as fast as two pairs of orders, on two cores",
        value=speed["faster_than_two_pairs_by_processor"],
        at_least=12,
        note=f"{speed['texts']} reviews, processor time",
    )


def of_others(others: Any) -> Iterator[Measure]:
    """Yield what other models and other texts reach."""
    named = {"sick": "SICK, pairs of sentences", "gpt2": "GPT-2 as a classifier of reviews"}
    for name, what in named.items():
        if (of := others.get(name)) is None:
            continue
        yield share(f"{name}_share", f"{what}: share on {of['share']['texts']} texts", of["share"])
        yield Measure(id=f"{name}_r2", what=f"{what}: R²", value=of["r2"], note="from 400 texts")
        yield Measure(
            id=f"{name}_covered",
            what=f"{what}: ±2 standard errors hold",
            value=of["coverage"]["overall"],
            at_least=0.93,
        )
    if (of := others.get("sst2")) is None:
        return
    what = "SST-2 sentences under the method of reviews"
    yield Measure(
        id="sst2_warnings",
        what=f"{what}: with the warning",
        value=of["warnings"],
        note=f"{of['texts']} sentences",
    )
    for name in ("learned", "lrp", "loo"):
        yield share(f"sst2_{name}", f"{what}: share of {name}", of[name])


if __name__ == "__main__":
    main()
