"""The summary of a run: what drives the model, method by method and class by class."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from limelight.data.labels import below_chance_warning
from limelight.errors import check_count
from limelight.results import Explanation
from limelight.results.summary import COLUMNS, RIGHT, VIEW, RunSummary, build_table
from limelight.runs.slices import slice_texts
from limelight.runs.statistics import (
    MIN_TEXTS,
    WordMoments,
    compare_words,
    differing_words,
    share_interval,
)
from limelight.runs.words import RunWords, open_words, word_table
from limelight.shapes import Int
from limelight.text import feature_kind

if TYPE_CHECKING:
    from limelight.runs.run import Run

Records = list[dict[str, Any]]  # rows of a table of the summary, by the names of its columns
_MAX_DIFFERING = 12  # words between right and wrong texts; of a slice, those that differ most
_MAX_DIFFERING_IN_SLICE = 3
_WORDS_OF_MISTAKE = 5  # words of a mistake
# The types of the tables of Arrow that :class:`limelight.Run` returns.
_SHARE = {"": pa.int64(), "_low": pa.float64(), "_high": pa.float64()}
_TEXT = dict.fromkeys(VIEW, pa.string()) | {"row": pa.int64(), "id": pa.string()}
_MISTAKES = _TEXT | {
    "predicted": pa.string(),
    "label": pa.string(),
    "confidence": pa.float64(),
    "words": pa.list_(pa.string()),
}
_REPRESENTATIVES = _TEXT | {"covered": pa.float64(), "text": pa.string()}
_SLICES = (
    dict.fromkeys((*VIEW, "slice"), pa.string())
    | {"texts": pa.int64()}
    | {f"predicted{end}": kind for end, kind in _SHARE.items()}
    | {"right": pa.int64(), "labeled": pa.int64()}
    | {f"right{end}": kind for end, kind in _SHARE.items()}
    | {"differing": pa.list_(pa.string())}
)


def summarize_run(
    run: "Run", *, method: str | None, by: str | None, top: int, representatives: int
) -> RunSummary:
    """Return the summary of a run.

    Parameters
    ----------
    run
        The run, finished or not.
    method
        The only method to have views; None for all.
    by
        What the run is sliced by, as :meth:`Run.summary` takes it; None for no slices.
    top
        How many words on either side, phrases and mistakes each view has at most.
    representatives
        How many representative texts each view has at most.

    Returns
    -------
    The summary with one view per method and class.

    Raises
    ------
    InputError
        If a count is no whole number from 1, a name is not in the run, or no text was explained.
    """
    # Before a database is opened, which may take a while to read.
    check_count("top", top)
    check_count("representatives", representatives)
    with open_words(run, method) as words:
        # Before the sums, which are made for each slice.
        words.compute_sums(slice_texts(words, by))
        tables = _make_word_tables(words, top) | _make_slice_tables(words)
        tables["mistakes"] = _find_misclassified_texts(words, top)
        tables["representatives"] = _find_representatives(words, representatives)
        tables["decisions"] = _count_decisions(words)
        warnings = tuple(_list_warnings(words))
    return RunSummary(
        name=str(run.path),
        texts=len(run),
        total=run.total,
        failed=words.failed,
        classes=run.classes,
        scale=run.scale,
        sliced_by=by,
        **{name: build_table(columns, tables[name]) for name, columns in COLUMNS.items()},
        warnings=warnings,
        model=run.record.model.fingerprint,
        version=run.record.version,
        feature_kind=feature_kind(run.record.request.features),
    )


def _list_warnings(words: RunWords) -> Iterator[str]:
    """Yield warnings about missing texts, errors, labels and few texts."""
    run, failed = words.run, words.failed
    if not run.finished:
        yield (
            f"The run is not finished: it has {len(run):,} of {run.total:,} texts. Start it again "
            "to continue."
        )
    if failed:
        rows = "1 row has" if failed == 1 else f"{failed:,} rows have"
        yield f"{rows} an error instead of scores. Start the run again with retry (--retry)."
    # A warning names eight labels. If the column has ids, a million would be read for that.
    labels = words.tables.table("SELECT DISTINCT label FROM stored LIMIT 1000")["label"]
    consequence = " Mistakes exclude these texts."
    yield from run.labels.warnings(labels.to_pylist(), consequence)
    if run.record.counterfactual:
        errors = words.tables.columns("""SELECT counterfactual.error AS error
            FROM rows WHERE counterfactual.error IS NOT NULL ORDER BY n""")["error"]
        if len(errors):
            rows = "1 row has" if len(errors) == 1 else f"{len(errors):,} rows have"
            yield f"{rows} no counterfactual. The first error: {errors[0]}"
    # Each text once: methods and classes of it share one prediction.
    outcomes = words.tables.columns("""SELECT
        count(*) FILTER (wrong = 0) AS right, count(*) AS texts
        FROM (SELECT any_value(wrong) AS wrong FROM rows WHERE wrong < 2 GROUP BY row)""")
    right, texts = (int(outcomes[name][0]) for name in ("right", "texts"))
    if (warning := below_chance_warning(right, texts, len(run.classes))) is not None:
        yield warning


def _make_word_tables(words: RunWords, top: int) -> dict[str, Records]:
    """Return the views, their strongest words with examples, and the words that differ."""
    methods = {record.id: record for record in words.run.record.methods}
    tables: dict[str, Records] = {name: [] for name in ("views", "words", "differing_words")}
    chosen, phrases = dict[int, dict[int, int]](), words.phrases()
    for v, view in words.views.items():
        method, moments, outcomes = methods[view["method"]], words.moments(v), words.outcomes(v)
        chosen[v] = words.select_strongest(v, moments, top, signed=method.signed)
        tests = _test_right_and_wrong(words, v)
        tables["views"].append(
            view
            | _right_columns(outcomes)
            | {
                "label": method.label,
                "signed": method.signed,
                "texts": int(outcomes.sum()),
                "vocabulary": int((moments.texts > 0).sum()),
                "compared": sum(len(test) for _, test in tests),
            }
        )
        kinds = {1: "for" if method.signed else "size", -1: "against"}
        strongest = word_table(moments, words.words, np.array([*chosen[v]], dtype=np.int64))
        for record, side in zip(strongest.to_pylist(), chosen[v].values(), strict=True):
            tables["words"].append(view | {"kind": kinds[side]} | record)
        for record in _phrase_records(*phrases[v], top):
            tables["words"].append(view | {"kind": "phrase"} | record)
        differing = differing_words(words.words, tests).slice(0, _MAX_DIFFERING)
        tables["differing_words"] += [view | record for record in differing.to_pylist()]
    return tables | {"examples": words.examples(chosen)}


def _phrase_records(names: list[str], moments: WordMoments, top: int) -> Records:
    """Return the phrases of enough texts, the strongest first."""
    # Phrases are a population of their own: their means are not drawn towards those of words.
    size = moments.strength
    candidates = np.flatnonzero((moments.texts >= MIN_TEXTS) & (size > 0))
    strongest = candidates[np.argsort(-size[candidates], kind="stable")][:top]
    records: Records = word_table(moments, names, strongest).to_pylist()
    return records


def _right_columns(outcomes: Int[np.ndarray, "C 3"]) -> dict[str, Any]:
    """Return the number of right predictions, of known labels, and the interval of the share."""
    # Texts without a known label are neither.
    right, wrong = (int(outcomes[:, k].sum()) for k in (0, 1))
    if not right + wrong:
        return dict.fromkeys(RIGHT)
    low, high = share_interval(right, right + wrong)
    return dict(zip(RIGHT, (right, right + wrong, low, high), strict=True))


def _test_right_and_wrong(words: RunWords, v: int) -> list[tuple[str, pa.Table]]:
    """Return the tests of words between right and wrong texts, by their predicted class.

    Texts of one predicted class are compared with one another: each strong word would differ
    otherwise, since the mistakes of one class are texts of another.
    """
    return [
        (name, compare_words(*(words.moments(v, predicted=c, wrong=k) for k in (0, 1))))
        for c, name in enumerate(words.run.classes)
    ]


def _find_misclassified_texts(words: RunWords, count: int) -> Records:
    """Return the wrongly predicted texts of highest confidence, at most ``count`` for each view."""
    # Of equal confidence the first in the data: the list is the same every time.
    rows = words.tables.table(f"""SELECT n, view, predicted, labeled, confidence
        FROM {words.rows} WHERE wrong = 1
        QUALIFY row_number() OVER (PARTITION BY view ORDER BY confidence DESC, row) <= {count}
        ORDER BY confidence DESC, row""").to_pylist()
    classes, margin = words.run.classes, words.run.record.model.link == "none"
    views = list(words.views)
    records = _add_explanations(words, sorted(rows, key=lambda row: views.index(row["view"])))
    for record in records:
        predicted, explanation = classes[record["predicted"]], record["explanation"]
        record |= words.views[record["view"]] | {
            "predicted": predicted,
            "label": classes[record["labeled"]],
            "margin": margin,
            "words": [] if explanation is None else _supporting_words(explanation, predicted),
        }
    return records


def _supporting_words(e: Explanation, predicted: str) -> list[str]:
    """Return the words with the strongest scores for the predicted, wrong class.

    For a method without signs they are the words with the largest scores. Scores against one of
    several classes support no other class, and then there are no words.
    """
    if not e.signed:
        return [word for word, _ in e.top(_WORDS_OF_MISTAKE)]
    other = (e.against is None and len(e.classes or ()) == 2) or e.against == predicted
    side = 1 if e.target == predicted else -1 if other else 0
    order = np.argsort(-side * e.scores, kind="stable")[:_WORDS_OF_MISTAKE]
    return [e.features[j] for j in order if side * e.scores[j] > 0]


def _find_representatives(words: RunWords, count: int) -> Records:
    """Pick representative texts for every view, in the order of the choice."""
    return _add_explanations(words, words.representatives(count))


def _count_decisions(words: RunWords) -> Records:
    """Count the texts of each view that depend on a single feature, and the robust texts."""
    if not words.run.record.counterfactual:
        return []
    counts = words.tables.table(f"""SELECT view, count(c.lower_bound) AS texts,
            count(*) FILTER (c.size = 1) AS single,
            count(*) FILTER (c.is_robust) AS robust,
            count(*) FILTER (NOT c.is_robust AND (c.size IS NULL OR c.size > c.lower_bound))
                AS unsettled,
            median(c.size) AS median_size
        FROM (SELECT view, counterfactual AS c FROM {words.rows}) GROUP BY view""").to_pylist()
    by_view = {row.pop("view"): row for row in counts}
    records = []
    for v, view in words.views.items():
        row = by_view[v]
        if row["texts"]:
            low, high = share_interval(row["single"], row["texts"])
            records.append(view | row | {"single_low": low, "single_high": high})
    return records


def _add_explanations(words: RunWords, records: Records) -> Records:
    """Add row number, id, text and explanation to records that refer to a stored row ``n``.

    ``text`` and ``explanation`` are None if the run stores no texts.
    """
    run = words.run
    n = np.array([record["n"] for record in records], dtype=np.int64)
    words.tables.add_table("requested", pa.table({"n": n, "row": n // run.record.rows_per_text}))
    # By the number of the text whole shards are passed over; that of the row is computed.
    rows = words.tables.table("""SELECT r.* REPLACE (named AS features)
        FROM rows r JOIN requested a ON r.row = a.row AND r.n = a.n""").to_pylist()
    stored = {
        row["n"]: {
            "row": row["row"],
            "id": row["id"],
            "text": row["text"],
            "explanation": None
            if row["text"] is None
            else run.explanation_of_row(row, row["text"]),
        }
        for row in rows
    }
    return [record | stored[record["n"]] for record in records]


def _make_slice_tables(words: RunWords) -> dict[str, Records]:
    """Return the slices with texts and the words whose scores differ from the other texts."""
    tables: dict[str, Records] = {"slices": [], "slice_words": []}
    classes = words.run.classes
    for v, view in words.views.items() if words.slices else ():
        all_moments, tests = words.moments(v), list[tuple[str, pa.Table]]()
        for s, name in enumerate(words.slices):
            inside = words.moments(v, slice=s)
            # Sums are additive: what the other texts have is the rest.
            outside = [a - b for a, b in zip(all_moments.sums, inside.sums, strict=True)]
            tests.append((name, compare_words(WordMoments(*outside), inside)))
        # Corrected over all slices, of which the reader sees all.
        differing: Records = differing_words(words.words, tests).to_pylist()
        for s, name in enumerate(words.slices):
            outcomes = words.outcomes(v, slice=s)
            # A slice may have texts that this method could not explain.
            if not (texts := int(outcomes.sum())):
                continue
            target = view["target"]
            predicted = int(outcomes[classes.index(target)].sum()) if target in classes else 0
            low, high = share_interval(predicted, texts)
            record: dict[str, Any] = {"slice": name, "texts": texts, "predicted": predicted}
            record |= {"predicted_low": low, "predicted_high": high}
            strongest = [word for word in differing if word["group"] == name][
                :_MAX_DIFFERING_IN_SLICE
            ]
            record["differing"] = [word["word"] for word in strongest]
            tables["slices"].append(view | _right_columns(outcomes) | record)
            tables["slice_words"] += [view | word for word in strongest]
    return tables


def list_mistakes(run: "Run", method: str, *, count: int) -> pa.Table:
    """Return the wrongly predicted texts of highest confidence, at most ``count`` for each view."""
    check_count("count", count)
    with open_words(run, method) as words:
        records = _find_misclassified_texts(words, count)
    return _arrow_table(_MISTAKES, records)


def list_representatives(run: "Run", method: str, *, count: int) -> pa.Table:
    """Pick representative texts for every view, in the order of the choice."""
    check_count("count", count)
    with open_words(run, method) as words:
        words.compute_sums()
        records = _find_representatives(words, count)
    return _arrow_table(_REPRESENTATIVES, records)


def list_slices(run: "Run", by: str, method: str) -> pa.Table:
    """Return one row per view and slice, shares with Wilson's intervals."""
    with open_words(run, method) as words:
        words.compute_sums(slice_texts(words, by))
        tables = _make_slice_tables(words)
    return _arrow_table(_SLICES, tables["slices"])


def _arrow_table(types: Mapping[str, pa.DataType], records: Records) -> pa.Table:
    """Build an Arrow table with the columns ``types`` from the records."""
    return pa.Table.from_pylist(records, pa.schema(types))
