"""TF-IDF pipelines of scikit-learn: exact values against samplers, and against coefficients.

python benchmarks/linear.py                 times of a median text of IMDB and of AG News,
                                            and of a run of 10,000 texts of the latter
python benchmarks/linear.py --coefficients  coefficient × value beside exact Shapley values of 200
                                            texts each of IMDB, AG News, SST-2; no times, so that a
                                            busy machine will do (result: linear_coefficients)
"""

import importlib.util
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

import limelight
from limelight import Explanation, Model
from measuring import interleaved, on_cores, seconds
from results import Measure, command_line, report

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = {
    "imdb": ("imdb/train.parquet", "imdb/test.parquet"),
    "ag_news": ("ag_news/train_10k.parquet", "ag_news/test.parquet"),
    "sst2": ("sst2/train.parquet", "sst2/test.parquet"),
}
TITLES = {"imdb": "IMDB", "ag_news": "AG News", "sst2": "SST-2"}
TIMED = ("imdb", "ag_news")
MOST = 10_000  # texts to train with


class Fitted(NamedTuple):
    """A pipeline, the texts that it has not seen, and what share of them it gets right."""

    name: str
    pipeline: Pipeline
    texts: list[str]
    accuracy: float
    source: str

    @property
    def model(self) -> Model:
        """The pipeline as limelight takes it."""
        return limelight.wrap(self.pipeline)

    def median(self) -> str:
        """Return the first text whose number of distinct words is the median of all."""
        analyze = self.pipeline[0].build_analyzer()
        d = np.array([len(set(analyze(text))) for text in self.texts])
        return self.texts[int(np.flatnonzero(d == np.sort(d)[len(d) // 2])[0])]


def main() -> None:
    """Measure times against other packages, and what coefficients say."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--texts", type=int, default=200, help="of each data set, for coefficients")
    parser.add_argument("--coefficients", action="store_true", help="no times")
    arguments = parser.parse_args()
    on_cores(1)
    smoke = arguments.smoke
    names = FILES if arguments.coefficients else TIMED
    data = [fitted(name, most=300 if smoke else MOST) for name in names]
    if arguments.coefficients:
        count = 4 if smoke else arguments.texts
        measures = [row for one in data for row in compared(one, count=count)]
    else:
        samples, rounds = (50, 1) if smoke else (5000, 3)
        measures = [row for one in data for row in times(one, samples=samples, rounds=rounds)]
        measures += atomic_file(data[-1], limit=20 if smoke else None)
    name = "linear_coefficients" if arguments.coefficients else "linear"
    report(name, measures, arguments, data="; ".join(one.source for one in data))


def fitted(name: str, *, most: int) -> Fitted:
    """Fit TF-IDF and a logistic regression; without the data to random words, and say so."""
    train, test = (_read(DATA / file) for file in FILES[name])
    made = "" if train and test else ", random words"
    (texts, labels), (unseen, truth) = (train, test) if train and test else _invented()
    chosen = np.random.default_rng(0).permutation(len(texts))[:most]
    pipeline = make_pipeline(
        TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=1000)
    ).fit([texts[i] for i in chosen], [labels[i] for i in chosen])
    order = np.random.default_rng(1).permutation(len(unseen))[:2000]
    unseen, truth = [unseen[i] for i in order], [truth[i] for i in order]
    accuracy = float(pipeline.score(unseen, truth))
    source = f"{TITLES[name]}{made}: {len(chosen):,} texts to train, {100 * accuracy:.1f} % right"
    return Fitted(name, pipeline, unseen, accuracy, source)


_Labelled = tuple[list[str], list[str]]


def _read(path: Path) -> _Labelled | None:
    if not path.exists():
        return None
    from pyarrow import parquet

    table = parquet.read_table(path, columns=["text", "label"]).to_pydict()
    return table["text"], [str(label) for label in table["label"]]


def _invented() -> tuple[_Labelled, _Labelled]:
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(400)])
    texts = [" ".join(words[rng.zipf(1.3, size=30) % 400]) for _ in range(600)]
    labels = [str(int("word3 " in text)) for text in texts]
    return (texts[:400], labels[:400]), (texts[400:], labels[400:])


def times(data: Fitted, *, samples: int, rounds: int) -> Iterator[Measure]:
    """Exact LIME and Shapley values of a median text, and what others take for estimates."""
    model, text, pipeline = data.model, data.median(), data.pipeline
    class_ = str(pipeline.predict([text])[0])
    exact = {
        name: partial(limelight.explain, model, text, name, target=class_)
        for name in ("lime", "shapley")
    }
    taken = interleaved(exact, rounds=5 * rounds)
    d, title = len(exact["lime"]().features), TITLES[data.name]
    for name, values in taken.items():
        ms = 1000 * values
        yield Measure(
            id=f"{data.name}_{name}",
            what=f"{title}: exact {name}, {d} words",
            value=float(np.median(ms)),
            best=float(ms.min()),
            unit="ms",
            below=10,
            note=f"bound {exact[name]().bound:.1g}",
        )
    for id, what, ours, work in rivals(pipeline, text, class_, samples=samples):
        if work is None:
            print(f"{what}: not installed, skipped.")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (took,) = seconds(work, repeats=1, warm=False)
        yield Measure(
            id=f"{data.name}_{id}", what=f"{title}: {what}", value=1000 * float(took), unit="ms"
        )
        yield Measure(
            id=f"{data.name}_{id}_ratio",
            what=f"{title}: {what}, over exact {ours}",
            value=float(took) / float(np.median(taken[ours])),
            unit="×",
        )


def atomic_file(data: Fitted, *, limit: int | None) -> Iterator[Measure]:
    """Explain every text of the file that the pipeline was fitted to, on the clock."""
    file = DATA / FILES[data.name][0]
    if not file.exists():
        print(f"There is no data at '{file}'; no run of it.")
        return
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run = limelight.explain_data(
            data.model, str(file), "shapley", output=f"{folder}/run", workers=2, limit=limit
        )
        took = time.perf_counter() - start
        yield Measure(
            id=f"{data.name}_run",
            what=f"{TITLES[data.name]}: exact shapley of {len(run):,} texts, from file to run",
            value=took,
            unit="s",
            below=60,
            note="two processes",
        )


_Rival = tuple[str, str, str, Callable[[], Any] | None]


def rivals(pipeline: Pipeline, text: str, class_: str, *, samples: int) -> Iterator[_Rival]:
    """Yield an id, a name, the exact method beside it and the work, None where not installed."""
    classes = [str(name) for name in pipeline.classes_]
    asked = limelight.wrap(pipeline.predict_proba, classes=classes, scale="probability")
    few = {} if samples > 100 else {"max_pairs": 10}  # a smoke run
    yield (
        "sampled",
        "our own sampling to 0.01, shapley",
        "shapley",
        partial(
            limelight.explain,
            asked,
            text,
            "shapley",
            target=class_,
            tolerance=0.01,
            pairs=10,
            **few,
        ),
    )
    yield (
        "sampled_lime",
        "our own sampling to 0.01, lime",
        "lime",
        partial(
            limelight.explain, asked, text, "lime", target=class_, tolerance=0.01,
            **({} if samples > 100 else {"samples": 50, "max_samples": 200}),
        ),
    )  # fmt: skip
    there = {name: importlib.util.find_spec(name) is not None for name in ("shap", "lime")}
    for name in ("permutation", "partition"):
        work = partial(by_shap, pipeline, text, name) if there["shap"] else None
        yield f"shap_{name}", f"shap, {name} explainer", "shapley", work
    work = partial(by_lime, pipeline, text, samples) if there["lime"] else None
    yield "lime_package", f"lime package, {samples} samples", "lime", work


def by_shap(pipeline: Pipeline, text: str, algorithm: str) -> Any:
    """Explain all classes with shap: ten pairs of orders, or 500 evaluations."""
    import shap

    masker = shap.maskers.Text(r"\W+")  # "..." stands for a word, which the vectorizer skips
    places = len(masker.data_transform(text)[0])
    explainer = shap.Explainer(
        lambda texts: pipeline.decision_function(list(texts)), masker, algorithm=algorithm
    )
    most = 10 * (2 * places + 1) if algorithm == "permutation" else 500
    return explainer([text], max_evals=most, silent=True).values


def by_lime(pipeline: Pipeline, text: str, samples: int) -> Any:
    """Explain the predicted class with the `lime` package, as most people call it."""
    from lime.lime_text import LimeTextExplainer

    explainer = LimeTextExplainer(random_state=0)
    found = explainer.explain_instance(
        text, pipeline.predict_proba, top_labels=1, num_features=10, num_samples=samples
    )
    return found.as_map()


class Row(NamedTuple):
    """What coefficient × value says of one text, beside exact Shapley values."""

    u: np.ndarray
    q: np.ndarray
    exact: np.ndarray

    @property
    def mean_field(self) -> np.ndarray:
        """2u − qf."""
        return 2 * self.u - self.q * self.u.sum()

    def distance(self, found: np.ndarray) -> float:
        """Return the L2 distance of ``found`` to the exact values, relative to their length."""
        return float(np.linalg.norm(found - self.exact) / np.linalg.norm(self.exact))

    @property
    def turned(self) -> float:
        """The share of the words that has gone, the largest u first, when Σu turns against them."""
        left = self.u.sum() - np.cumsum(np.sort(self.u)[::-1])[:-1]
        return float(np.argmax(left < 0) + 1) / len(self.u) if (left < 0).any() else 1.0

    def same_top(self, count: int = 5) -> bool:
        """Whether the largest words are the same, in the same order."""
        first, other = (np.argsort(-np.abs(x), kind="stable")[:count] for x in (self.u, self.exact))
        return bool(np.array_equal(first, other))


def row_of(pipeline: Pipeline, e: Explanation) -> Row:
    """Return coefficient × value, share of the squared norm and Shapley value of known words."""
    vector = pipeline[0].transform([e.text])
    known = pipeline[0].vocabulary_
    kept = [i for i, word in enumerate(e.features) if word in known]
    column = [known[e.features[i]] for i in kept]
    x = vector.toarray()[0, column]
    u = x * coefficients(pipeline, e.target)[column]
    return Row(u, x * x, e.scores[kept])


def coefficients(pipeline: Pipeline, target: str) -> np.ndarray:
    """Return the coefficients for one class; of two classes one has those of the other, negated."""
    found = pipeline[1].coef_
    number = [str(name) for name in pipeline.classes_].index(target)
    return found[number] if len(found) > 1 else found[0] * (1 if number else -1)


def by_coefficient(
    pipeline: Pipeline, share: float, model: Model, text: str, target: str
) -> np.ndarray:
    """Return u + ``share`` · qf of every word that a judge removes."""
    features = limelight.explain(model, text, "loo", target=target).features
    vector, known = pipeline[0].transform([text]).toarray()[0], pipeline[0].vocabulary_
    weights = coefficients(pipeline, target)
    column = [known.get(word) for word in features]
    x, w = (np.array([0.0 if i is None else one[i] for i in column]) for one in (vector, weights))
    return w * x + share * x**2 * (w @ x)


def compared(data: Fitted, *, count: int) -> Iterator[Measure]:
    """Compare coefficient × value with exact Shapley values of the predicted class."""
    model, pipeline, title = data.model, data.pipeline, TITLES[data.name]
    texts = data.texts[:count]
    classes = pipeline.predict(texts)
    rows = [
        row_of(pipeline, limelight.explain(model, text, "shapley", target=str(class_)))
        for text, class_ in zip(texts, classes, strict=True)
    ]
    rows = [row for row in rows if len(row.u) > 1]
    u, exact = (np.concatenate([getattr(row, name) for row in rows]) for name in ("u", "exact"))
    low, middle, high = np.percentile(u / exact, [5, 50, 95])
    note = f"{len(rows)} of {np.median([len(row.u) for row in rows]):.0f} words (median)"
    longer = [row for row in rows if len(row.u) >= 5]

    def judged() -> Iterator[tuple[str, str, float]]:
        shares = {"coefficient × value": 0.0, "2u − qf": -0.5, "2u + qf": 0.5}
        scored: dict[str, Any] = {"Shapley values": "shapley"}
        scored |= {name: partial(by_coefficient, pipeline, t) for name, t in shares.items()}
        found = limelight.judge(model, texts, scored, columns=[])
        for id, name in zip(("shapley", "u", "mean_field", "other_sign"), scored, strict=True):
            yield f"share_{id}", f"share of the order by {name}", found[name].share
        yield "share_greedy", "share of the greedy order", found.greedy

    numbers = [
        ("ratio", "coefficient × value over Shapley value, median", middle),
        ("ratio_low", "the same, 5th percentile", low),
        ("ratio_high", "the same, 95th percentile", high),
        ("off_u", "coefficient × value, relative distance, median", _off(rows, lambda r: r.u)),
        (
            "off_mean_field",
            "2u − qf, relative distance, median",
            _off(rows, lambda r: r.mean_field),
        ),
        ("off_half", "twice coefficient × value, the same", _off(rows, lambda r: 2 * r.u)),
        ("top_five", "texts whose five largest words differ, or their order", _differ(longer)),
        (
            "turned",
            "words gone, the largest u first, when the output turns, median",
            float(np.median([row.turned for row in rows])),
        ),
        ("signs", "words whose sign differs", float(np.mean(np.sign(u) != np.sign(exact)))),
        *judged(),
    ]
    for id, what, value in numbers:
        yield Measure(
            id=f"{data.name}_{id}", what=f"{title}: {what}", value=float(value), note=note
        )


def _off(rows: list[Row], formula: Callable[[Row], np.ndarray]) -> float:
    return float(np.median([row.distance(formula(row)) for row in rows]))


def _differ(rows: list[Row]) -> float:
    return float(np.mean([not row.same_top() for row in rows])) if rows else 0.0


if __name__ == "__main__":
    main()
