"""Store what limelight returns for many models and methods, and compare two versions.

    python scripts/outputs.py store before.json           # with the version that is installed
    python scripts/outputs.py compare before.json after.json

Use it before a change that must not change any number. Sampled methods use their default seed, so
their scores must be identical too. `compare` lists every difference above 1e-12 and exits with 1.
"""

import argparse
import itertools
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# The last digits of float32 networks depend on the number of threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
TOLERANCE = 1e-12
REVIEW = "The plot is predictable and a bit long, but the acting is superb and the music is good."
SHORT = "A superb film, but the plot is bad."
PAIR = ("A superb film.", "The plot is good.")
WORDS = ["a", "superb", "film", "but", "the", "plot", "is", "predict", "##able", ".", "good", "bad"]
REVIEWS = [
    REVIEW,
    SHORT,
    "I did not like it. The jokes are old, the camera is restless and the end is sad.",
    "A wonderful film with two great actors.",
    "Boring, too long, and badly written from the first scene to the last.",
    "One of the best films of the year: funny, sad and true.",
    "The book was better.",
    "Good music, bad film.",
    "Not bad at all! I would see it again.",
    "It is a film about a house.",
]
# Fewer samples than the defaults: a difference shows in few as well as in many.
FEW_SAMPLES = {
    "lime": {"samples": 60},
    "lime-sampled": {"samples": 60},
    "shapley": {"pairs": 3, "max_pairs": 6},
    "banzhaf": {"samples": 40},
    "context-cite": {"samples": 32},
    "anchors": {"samples": 20, "max_samples": 60, "batch": 5},
    "interactions": {},
    "ig": {"tolerance": 1e-3},
}
# Methods that left the package, or moved to the package of the paper.
MOVED = ("surrogate",)


# --- models -------------------------------------------------------------------------------------


def word_tokenizer() -> Any:
    """Return a lower-casing WordPiece tokenizer of a dozen words, with the tokens of BERT."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    numbers = {word: number for number, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": token for name, token in names.items()}
    )


def random_bert(kind: str, labels: int, **settings: Any) -> Any:
    """Return a random BERT with two layers; ``kind`` names the head as transformers does."""
    import torch
    import transformers

    torch.manual_seed(5)
    config = transformers.BertConfig(
        vocab_size=17,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=17,
        max_position_embeddings=31,
        initializer_range=0.7,
        num_labels=labels,
        pad_token_id=0,
        **settings,
    )
    return getattr(transformers, f"BertFor{kind}")(config).eval()


def make_attention_classifier(outputs: int = 1, dtype: str = "float64") -> Any:
    """Return a random classifier of the paper's kind whose sizes are distinct primes."""
    from limelight.models.attention import AttentionClassifier
    from limelight.text import Vocabulary

    rng = np.random.default_rng(3)
    words = (
        "[cls]",
        "UNK",
        *[
            "a",
            "superb",
            "film",
            "but",
            "the",
            "plot",
            "is",
            "bad",
            "good",
            "and",
            "music",
            "acting",
            "long",
        ],
    )

    def random(*shape: int) -> Any:
        return (0.5 * rng.standard_normal(shape)).astype(dtype)

    return AttentionClassifier(
        embedding=random(len(words), 7),
        W_q=random(3, 5, 7),
        W_k=random(3, 5, 7),
        W_v=random(3, 11, 7),
        W_l=random(3, outputs, 11),
        vocabulary=Vocabulary(words),
        classes=tuple(f"class {number}" for number in range(max(outputs, 2))),
        T_max=13,
        position_base=10000.0,
    )


def make_function(scale: str, classes: int) -> Any:
    """Return a wrapped function of texts: log-odds, probabilities or a score."""
    import limelight

    def outputs(texts: list[str]) -> Any:
        rows = []
        for text in texts:
            words = text.lower().replace(",", "").replace(".", "").split()
            counts = [words.count(word) for word in ("superb", "bad", "plot", "the", "good")]
            superb, bad, plot, the, good = counts
            rows.append([0.4 + bad - 0.7 * plot * bad, 1.1 + 2.3 * superb - 0.6 * the, good - 0.2])
        array = np.array(rows)[:, :classes]
        if scale == "score":
            return array[:, 0]
        if scale == "probability":
            weights = np.exp(array)
            return weights / weights.sum(1, keepdims=True)
        return array

    if scale == "score":
        return limelight.wrap(outputs, classes=["quality"], scale="score")
    return limelight.wrap(outputs, classes=["no", "yes", "maybe"][:classes], scale=scale)


def make_pipeline(classes: int, counts: bool = False) -> Any:
    """Return a wrapped scikit-learn pipeline fitted to a few texts."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import ComplementNB
    from sklearn.pipeline import make_pipeline as pipeline_of

    import limelight

    labels = [f"class {number % classes}" for number in range(len(REVIEWS))]
    if counts:
        return limelight.wrap(pipeline_of(CountVectorizer(), ComplementNB()).fit(REVIEWS, labels))
    vectorizer = TfidfVectorizer(sublinear_tf=classes > 2)
    return limelight.wrap(pipeline_of(vectorizer, LogisticRegression()).fit(REVIEWS, labels))


def make_network(kind: str, labels: int, **settings: Any) -> Any:
    """Return a wrapped random BERT."""
    import limelight

    network = random_bert(kind, labels)
    if kind == "TokenClassification":
        network.config.id2label = {0: "O", 1: "B-PER", 2: "I-PER"}
        network.config.label2id = {name: number for number, name in network.config.id2label.items()}
    return limelight.wrap(network, tokenizer=word_tokenizer(), **settings)


def make_language_model() -> Any:
    """Return a wrapped random Llama."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import limelight

    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=17,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        intermediate_size=17,
        max_position_embeddings=61,
        initializer_range=0.7,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    network = LlamaForCausalLM(config).eval()
    return limelight.wrap(network, tokenizer=word_tokenizer(), template="the {text} is")


def make_image_model() -> Any:
    """Return a wrapped random vision transformer."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    import limelight

    torch.manual_seed(3)
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = ViTConfig(
        **sizes,
        intermediate_size=17,
        image_size=12,
        patch_size=4,
        initializer_range=0.5,
        num_labels=3,
    )
    network = ViTForImageClassification(config).eval()
    half = [0.5, 0.4, 0.3]
    processor = ViTImageProcessorPil(
        size={"height": 12, "width": 12}, image_mean=half, image_std=half[::-1]
    )
    return limelight.wrap(network, processor=processor)


def make_shipped_model() -> Any:
    """Return the model that limelight ships."""
    import limelight

    return limelight.load()


def image() -> Any:
    """Return a random color image."""
    return np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)


# Each kind of model: how to make it, an input, and options of every call.
KINDS: dict[str, tuple[Callable[[], Any], Any, dict[str, Any]]] = {
    "shipped": (make_shipped_model, REVIEW, {}),
    "attention, one output": (make_attention_classifier, SHORT, {}),
    "attention, three outputs": (lambda: make_attention_classifier(3), SHORT, {}),
    "attention, float32": (lambda: make_attention_classifier(2, "float32"), SHORT, {}),
    "function, log-odds": (lambda: make_function("logit", 2), SHORT, {}),
    "function, probabilities": (lambda: make_function("probability", 3), SHORT, {}),
    "function, score": (lambda: make_function("score", 1), SHORT, {}),
    "TF-IDF, two classes": (lambda: make_pipeline(2), REVIEW, {}),
    "TF-IDF, four classes": (lambda: make_pipeline(4), REVIEW, {}),
    "counts, naive Bayes": (lambda: make_pipeline(2, counts=True), REVIEW, {}),
    "network, three classes": (lambda: make_network("SequenceClassification", 3), SHORT, {}),
    "network, two classes": (lambda: make_network("SequenceClassification", 2), SHORT, {}),
    "network, pair": (lambda: make_network("SequenceClassification", 3), PAIR, {}),
    "network, windows": (
        lambda: make_network("SequenceClassification", 3),
        " ".join([SHORT, REVIEW, SHORT, REVIEW]),
        {"window": 12, "features": "sentences"},
    ),
    "tagger": (lambda: make_network("TokenClassification", 3), SHORT, {"at": "plot"}),
    "language model": (make_language_model, SHORT, {"answer": "good film"}),
    "language model, own answer": (make_language_model, REVIEW, {}),
    "images": (make_image_model, image(), {}),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "probability": {"scale": "probability"},
    "against": {"target": 1, "against": 0},
    "positions": {"features": "positions"},
    "sentences": {"features": "sentences"},
    "protect": {"protect": ["plot", "film"]},
    "per head": {"per_head": True},
    "budget": {"budget": "150 calls"},
}


# --- outputs ------------------------------------------------------------------------------------


def to_plain(value: Any) -> Any:
    """Return a value as JSON can store it; an explanation as its own JSON."""
    if hasattr(value, "to_json"):
        return to_plain(json.loads(value.to_json()))
    if isinstance(value, dict):
        return {str(key): to_plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)) or type(value).__name__ in ("Explanations",):
        return [to_plain(part) for part in value]
    if hasattr(value, "explanations"):
        return [to_plain(part) for part in value.explanations]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):  # the folder of a run has another name each time
        return re.sub(re.escape(tempfile.gettempdir()) + r"/\w+/run", "run", value)
    return value if isinstance(value, (int, float, bool, type(None))) else str(value)


def record(call: Callable[[], Any]) -> Any:
    """Return the output of a call, or its error message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return to_plain(call())
        except Exception as error:  # errors are outputs too
            return {"error": f"{type(error).__name__}: {error}"}


def outputs_of_kind(kind: str) -> Iterator[tuple[str, Any]]:
    """Yield the outputs of every call for one kind of model."""
    import limelight
    from limelight.explainers import METHODS

    make, text, options = KINDS[kind]
    model = make()
    yield "methods", record(partial(limelight.methods, model))
    yield "predict", record(partial(limelight.predict, model, text))
    methods = [name for name in METHODS if name not in MOVED]
    for method in methods:
        few = FEW_SAMPLES.get(method, {})
        # Exact implementations take no numbers of samples.
        result = record(partial(limelight.explain, model, text, method, **options, **few))
        if isinstance(result, dict) and "error" in result:
            result = record(partial(limelight.explain, model, text, method, **options))
        yield f"explain {method}", result
    for name, changes in VARIANTS.items():
        for method in ("lime", "shapley", "loo", "gxi", "banzhaf"):
            changed = options | changes
            yield (
                f"explain {method}, {name}",
                record(partial(limelight.explain, model, text, method, **changed)),
            )
    yield "explain", record(partial(limelight.explain, model, text, **options))
    yield "compare", record(partial(limelight.compare, model, text, **options))
    chosen = ["shapley", "loo"]
    yield (
        "explain_classes",
        record(partial(limelight.explain_classes, model, text, "shapley", **options)),
    )
    yield (
        "explain_spans",
        record(partial(limelight.explain_spans, model, text, "loo", protect_span=False)),
    )
    yield "explain_sentences", record(partial(limelight.explain_sentences, model, text, "loo"))
    single = isinstance(text, str)
    texts: list[Any] = REVIEWS[:5] if single else [text] * 2
    if "at" in options:  # every span that the tagger finds, with its own words scored too
        options = {"protect_span": False}
    judged = {name: value for name, value in options.items() if name != "protect_span"}
    yield "explain a list", record(partial(limelight.explain, model, texts, "loo", **options))
    yield (
        "judge",
        record(partial(limelight.judge, model, texts, chosen, seed=3, **judged)),
    )
    if kind == "attention, three outputs":
        yield "verify", record(lambda: list(limelight.verify(model, text)))
    if kind == "function, log-odds":
        many = [
            " ".join(words) for words in itertools.permutations(["superb", "bad", "plot", "good"])
        ]
        learned = limelight.learn(model, many[:20], pairs=2, seed=1)
        yield "learn", record(partial(limelight.explain, model, text, learned))
    if single:
        yield from outputs_of_run(model, texts, options)


def outputs_of_run(model: Any, texts: list[Any], options: dict[str, Any]) -> Iterator[Any]:
    """Yield the shards and the summary of a run over a few texts."""
    import limelight

    folder = str(Path(tempfile.mkdtemp(), "run"))

    def rows() -> Any:
        import pyarrow.parquet

        limelight.explain_data(
            model,
            {"text": texts},
            ["shapley", "loo"],
            output=folder,
            shard_texts=2,
            **options,
        )
        shards = sorted(Path(folder).rglob("*.parquet"))
        return [pyarrow.parquet.read_table(shard).to_pylist() for shard in shards]

    yield "explain_data", record(rows)
    yield "summary", record(lambda: limelight.Run(folder).summary())


def store(path: Path, kinds: list[str]) -> None:
    """Write the outputs of all kinds of models to a JSON file."""
    results: dict[str, Any] = {}
    for kind in kinds:
        print(f"{kind} …", file=sys.stderr, flush=True)
        try:
            results[kind] = dict(outputs_of_kind(kind))
        except Exception as error:
            results[kind] = {"error": f"{type(error).__name__}: {error}"}
    path.write_text(json.dumps(results))


# --- comparison ---------------------------------------------------------------------------------


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Yield a line for every place where two outputs differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() | after.keys():
            if name not in before or name not in after:
                yield f"{place}/{name}: only {'after' if name in after else 'before'}"
            else:
                yield from differences(before[name], after[name], f"{place}/{name}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{place}: {len(before)} entries before, {len(after)} after"
        for number, (first, second) in enumerate(zip(before, after, strict=False)):
            yield from differences(first, second, f"{place}/{number}")
    elif isinstance(before, float) and isinstance(after, int | float):
        close = abs(before - after) <= TOLERANCE * max(1.0, abs(before))
        if not close and not (before != before and after != after):  # NaN equals NaN here
            yield f"{place}: {before!r} before, {after!r} after"
    elif before != after:
        yield f"{place}: {str(before)[:200]!r} before, {str(after)[:200]!r} after"


def main() -> None:
    """Store outputs, or compare two stored files."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    storing = commands.add_parser("store")
    storing.add_argument("file", type=Path)
    storing.add_argument("--kinds", nargs="*", default=list(KINDS))
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "store":
        store(arguments.file, arguments.kinds)
        return
    files = (arguments.before, arguments.after)
    before, after = (json.loads(path.read_text()) for path in files)
    lines = sorted(differences(before, after))
    print(*lines, f"{len(lines)} differences", sep="\n")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
