"""Words and phrases over a run: sums by SQL, means over texts and their intervals by NumPy."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from limelight.data.columns import DataColumns
from limelight.errors import InputError, unknown_name_message
from limelight.runs.sql import MARK, Database, entries_sql, open_database, sql_literal
from limelight.runs.statistics import MIN_TEXTS, SUMS, WordMoments, greedy_cover
from limelight.shapes import Bool, Float, Int

if TYPE_CHECKING:
    from limelight.runs.run import Run

RARE = 5  # texts, below which a word is marked
_MIN_TOP_TEXTS = 10  # of a word among the strongest, or a tenth of the texts if they are few
SORTS = ("strength", "mean", "mean_abs", "total", "texts", "occurrences", "word")
WORDS_PER_TEXT = 10  # words that a text shows, if it represents others
_MAX_CANDIDATES = 5000  # texts that may represent others
_EXAMPLES, _CONTEXT = 5, 60  # texts of a word, and characters on either side of it
_TEXTS_PER_QUERY = 20_000  # texts whose phrases are looked for together, so that memory stays flat
_MIN_WORD_SHARE = 0.2  # of a phrase's score that each of its words must carry
_FUNCTION_WORD_SHARE, _FUNCTION_WORD_TEXTS = (
    0.1,
    20,
)  # the share of texts, and the texts, that have a function word
# Counts as DOUBLE, too: NumPy adds and divides all of them alike.
_SUMS = """count(*)::DOUBLE AS texts, sum(score) AS total, sum(score * score) AS square,
    sum(abs(score)) AS size, (count(*) FILTER (score > 0))::DOUBLE AS positive,
    sum(times)::DOUBLE AS occurrences"""


class RunWords:
    """Sums of word scores over the texts of a run, or of one of its methods.

    ``views`` has a row for each view, by its number in the tables: method, target and the class
    against it. Views and ``words`` are in the order of the run; a word is known by its place.
    ``slices`` has the names of the slices, and −1 is the slice of a row that is in none of them.
    ``failed`` rows take no part.
    """

    def __init__(self, tables: Database, run: "Run", method: str | None) -> None:
        if method is not None and method not in run.methods:
            raise InputError(unknown_name_message("method of this run", method, run.methods))
        self.tables, self.run = tables, run
        # Before words are unnested, so that other methods cost nothing.
        condition = "" if method is None else f"WHERE method = {sql_literal(method)}"
        self.rows = f"(SELECT * FROM rows {condition})"
        failure_count = tables.columns(
            f"SELECT count(error) AS failed FROM (FROM stored {condition})"
        )
        self.failed = int(failure_count["failed"][0])
        # In the order of the run: methods as requested, classes as they first occur.
        views = tables.table(f"""SELECT view, any_value(method) AS method,
                any_value(target) AS target, any_value(against) AS against
            FROM {self.rows} GROUP BY view ORDER BY min(n)""").to_pylist()
        self.views: dict[int, dict[str, Any]] = {view.pop("view"): view for view in views}

    def compute_sums(self, slices: pa.Table | None = None) -> None:
        """Compute the sums by view, predicted class, correctness, slice and word.

        The column ``slice`` of ``slices`` is a dictionary: its values are the names of the slices.
        """
        rows, self.slices = f"(SELECT *, -1 AS slice FROM {self.rows})", list[str]()
        if slices is not None:
            column = slices["slice"].combine_chunks()
            self.slices = column.dictionary.to_pylist()
            self.tables.add_table("slices", slices.set_column(1, "slice", column.indices))
            # Joined to rows, not to words: a hundred times fewer.
            rows = f"""(SELECT r.*, coalesce(slice, -1) AS slice
                FROM {self.rows} r LEFT JOIN slices USING ({slices.column_names[0]}))"""
        self._outcomes = self.tables.columns(f"""SELECT view, predicted, wrong, slice,
            count(*) AS texts FROM {rows} GROUP BY ALL""")
        # Words are numbered in the order of the run: of equal ones, the first is shown first.
        self.tables.execute(f"""CREATE TEMP TABLE vocabulary AS
            SELECT word, (row_number() OVER (ORDER BY min(entry)) - 1)::INTEGER AS number
            FROM ({entries_sql(self.run.record, self.rows)}) GROUP BY word""")
        vocabulary = self.tables.table("SELECT word FROM vocabulary ORDER BY number")
        self.words: list[str] = vocabulary["word"].to_pylist()
        # By small numbers: of a million texts there are millions of groups, and by the words
        # themselves they would not fit into the memory that a query may take.
        self._sums = self.tables.columns(f"""SELECT view, predicted::INTEGER AS predicted,
                wrong::INTEGER AS wrong, slice::INTEGER AS slice, number, {_SUMS}
            FROM ({entries_sql(self.run.record, rows, extra_columns=", slice")})
            JOIN vocabulary USING (word) GROUP BY ALL""")

    def moments(self, view: int, **groups: int) -> WordMoments:
        """Return the moments of a view's words: of all its texts, or of some groups."""
        selection = _find_rows(self._sums, view=view, **groups)
        number, size = self._sums["number"][selection], len(self.words)
        # For all words of the run, so that moments of two groups can be compared place by place.
        weights = (self._sums[name][selection] for name in SUMS)
        sums = (np.bincount(number, weights=w, minlength=size) for w in weights)
        # Of no rows at all, NumPy counts in whole numbers.
        return WordMoments(*(total.astype(np.float64, copy=False) for total in sums))

    def outcomes(self, view: int, **groups: int) -> Int[np.ndarray, "C 3"]:
        """Count the texts predicted as each class: right, wrong, and without a known label."""
        selection = _find_rows(self._outcomes, view=view, **groups)
        outcome_counts = np.zeros((len(self.run.classes), 3), dtype=np.int64)
        place = (
            np.clip(self._outcomes["predicted"][selection], 0, None),
            self._outcomes["wrong"][selection],
        )
        np.add.at(outcome_counts, place, self._outcomes["texts"][selection])
        return outcome_counts

    def select_strongest(
        self, view: int, moments: WordMoments, top: int, *, signed: bool
    ) -> dict[int, int]:
        """Return the words with the strongest means and their sides, 1 or −1.

        Parameters
        ----------
        view
            The number of the view.
        moments
            The moments of the words of the view.
        top
            The maximal number of words on each side.
        signed
            Whether words have the sides 1 and −1, or only 1.

        Returns
        -------
        The side of each selected word, by its number.
        """
        size, sides = moments.strength, np.sign(moments.shrunken[0]).astype(int)
        order, chosen = self.order(view, moments), dict[int, int]()
        if len(size) > top:
            texts = int(self.outcomes(view).sum())
            order = order[moments.texts[order] >= min(_MIN_TOP_TEXTS, texts / _MIN_TOP_TEXTS)]
        # Scores without signs are sizes, which have one side.
        for side in (1, -1) if signed else (1,):
            ordered = order[(sides[order] == side)] if signed else order
            # Of few words all are shown, also those that are not certain.
            chosen |= {int(i): side for i in ordered[:top] if size[i] > 0 or len(size) <= top}
        return chosen

    def order(self, view: int, moments: WordMoments) -> Int[np.ndarray, " V"]:
        """Sort the words by the distance of their intervals from 0, the largest first.

        Function words come after the others, and rare words come last.
        """
        is_function_word = function_words(moments, int(self.outcomes(view).sum()))
        rank_group = np.where(moments.texts < RARE, 2, is_function_word.astype(int))
        # The last key counts first.
        return np.lexsort((-np.abs(moments.shrunken[0]), -moments.strength, rank_group))

    def examples(self, chosen: Mapping[int, Mapping[int, int]]) -> list[dict[str, Any]]:
        """Return the texts with the strongest scores of words; ``chosen`` has their sides."""
        sides = [(v, i, side) for v, words in chosen.items() for i, side in words.items()]
        schema = pa.schema(dict.fromkeys(("view", "number", "side"), pa.int64()))
        columns = zip(*sides, strict=True) if sides else ((), (), ())
        requested = pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
        words = pa.array([self.words[i] for _, i, _ in sides], pa.string())
        self.tables.add_table("requested", requested.append_column("word", words))
        # The best of each word are kept while rows go by: sorting all rows of frequent words would
        # take gigabytes. Texts are fetched afterwards, for the few rows that are shown. Around the
        # word stands nothing where no text is stored, or where a feature is not in characters.
        rows = self.tables.table(
            f"""WITH kept AS (
                SELECT view, number, word, unnest(max(struct_pack(signed := side * score,
                    earlier := -e.row, n := e.n, place := place, score := score), {_EXAMPLES})) AS b
                FROM ({entries_sql(self.run.record, self.rows)}) e JOIN requested USING (view, word)
                GROUP BY view, number, word),
            best AS MATERIALIZED (SELECT view, number, word, b.n, -b.earlier AS row, b.place,
                b.score, b.signed FROM kept),
            places AS (SELECT best.*, id, text, starts[place][1]::BIGINT AS start,
                    ends[place][1]::BIGINT AS stop, text IS NOT NULL AND start IS NOT NULL AS there
                FROM best JOIN stored s ON s.row = best.row AND s.n = best.n)
            SELECT view, word, row, id, score,
                CASE WHEN there THEN text[greatest(start - {_CONTEXT}, 0) + 1 : start] ELSE '' END
                    AS before,
                CASE WHEN there THEN text[start + 1 : stop] ELSE word END AS match,
                CASE WHEN there THEN text[stop + 1 : stop + {_CONTEXT}] ELSE '' END AS after
            FROM places ORDER BY view, number, signed DESC, row"""
        ).to_pylist()
        return [self.views[row.pop("view")] | row for row in rows]

    def representatives(self, count: int) -> list[dict[str, Any]]:
        """Pick rows (``n``) for every view, with the share of importance covered after each.

        The candidates are evenly spread over the run. Fewer are returned if they cover all words.
        """
        # Not the first ones, which may be of one kind, nor drawn: the same ones each time.
        step = max(1, -(-self.run.total // _MAX_CANDIDATES))
        sampled_rows = f"(SELECT * FROM {self.rows} WHERE row % {step} = 0)"
        # Of equal words the first in the vocabulary counts.
        # A word that scores nothing represents nothing.
        strongest = self.tables.columns(f"""SELECT view, n, number,
                row_number() OVER (PARTITION BY n ORDER BY abs(score) DESC, number) AS rank
            FROM ({entries_sql(self.run.record, sampled_rows)}) JOIN vocabulary USING (word)
            WHERE score <> 0 QUALIFY rank <= {WORDS_PER_TEXT} ORDER BY n""")
        picked = list[dict[str, Any]]()
        for view, names in self.views.items():
            selection = _find_rows(strongest, view=view)
            texts, text_index = np.unique(strongest["n"][selection], return_inverse=True)
            words = np.full((len(texts), WORDS_PER_TEXT), -1)
            words[text_index, strongest["rank"][selection] - 1] = strongest["number"][selection]
            # As submodular pick weighs words (Ribeiro et al. 2016): the root of their summed sizes.
            weight = np.sqrt(self.moments(view).size)
            rows, covered = greedy_cover(words, weight, count)
            pairs = zip(texts[rows].tolist(), covered, strict=True)
            picked += [names | {"n": n, "covered": share} for n, share in pairs]
        return picked

    def _strong_words(self, view: int) -> pa.Table:
        """Return the words of a view that may make phrases."""
        moments = self.moments(view)
        carried = mean_contribution(moments)
        # A phrase that occurs as often as it must is made of words that do.
        words = np.flatnonzero((carried != 0) & (moments.occurrences >= MIN_TEXTS))
        return pa.table(
            {
                "view": np.full(len(words), view),
                "word": pa.array([self.words[i] for i in words], pa.string()),
                "number": words,
                "carried": carried[words],
            }
        )

    def phrases(self) -> dict[int, tuple[list[str], WordMoments]]:
        """Return, for every view, phrases of two or three words, and their moments.

        An occurrence of a word carries its score in the text over the times it occurs there; a
        phrase in a text has the sum of that over its occurrences and their words. Words are
        neighbors where at most one character stands between them, so that no phrase reaches over a
        comma and a space. A phrase is one that all its words carry: each is in the quarter of words
        that carry most, all are on one side, and none has less than a fifth of the sum. Most
        phrases would otherwise be a strong word after an article.
        """
        # Strong words alone: all pairs of neighbors would be as many rows as the run has words.
        self.tables.add_table(
            "strong", pa.concat_tables(self._strong_words(view) for view in self.views)
        )
        self.tables.execute(_PHRASES)
        shard_ranges = map(self.run.record.text_numbers, self.run.shards)
        # Only where there are shards: of a run that is not finished most parts may be missing.
        parts = {
            n
            for x in shard_ranges
            for n in range(x[0] // _TEXTS_PER_QUERY, x[-1] // _TEXTS_PER_QUERY + 1)
        }
        for first in sorted(n * _TEXTS_PER_QUERY for n in parts):
            end = first + _TEXTS_PER_QUERY
            part = f"(SELECT * FROM {self.rows} WHERE row >= {first} AND row < {end})"
            self.tables.execute(_PLACES.format(rows=part))
            self.tables.execute(_PAIRS.format(rows=part))
            self.tables.execute(_INSERT_PHRASES)
        # Of equal phrases, the one that an earlier shard has comes first.
        rows_per_shard = self.run.record.rows_per_text * self.run.record.shards.texts
        phrase_sums = self.tables.columns(f"""SELECT view, first, second, third, {_SUMS}
            FROM phrases GROUP BY view, first, second, third HAVING sum(times) >= {MIN_TEXTS}
            ORDER BY view, min(n) // {rows_per_shard}, first, second, third NULLS LAST""")
        by_view, columns = {}, self.run.record.data.columns
        for view in self.views:
            selection = _find_rows(phrase_sums, view=view)
            # A phrase of two has no third: NaN, which is not equal to itself.
            numbers = zip(
                *(phrase_sums[x][selection] for x in ("first", "second", "third")), strict=True
            )
            phrases = [
                [self.words[int(i)] for i in word_numbers if i == i] for word_numbers in numbers
            ]
            names = [_phrase_name(words, columns) for words in phrases]
            by_view[view] = names, WordMoments(*(phrase_sums[name][selection] for name in SUMS))
        return by_view


_PHRASES = """CREATE TEMP TABLE phrases (n BIGINT, view BIGINT, first BIGINT, second BIGINT,
    third BIGINT, score DOUBLE, times BIGINT)"""
_PLACES = """CREATE OR REPLACE TEMP TABLE places AS
    SELECT n, view, number, carried, score / len(starts) AS share, unnest(starts) AS start,
        unnest(ends) AS stop, coalesce(start >= second, false) AS aside
    FROM (SELECT n, view, second, unnest(named) AS word, unnest(scores)::DOUBLE AS score,
        unnest(starts) AS starts, unnest(ends) AS ends FROM {rows})
    JOIN strong USING (view, word)"""
# Where one character stands between two words, it may be a word itself, though it carry nothing.
_PAIRS = """CREATE OR REPLACE TEMP TABLE pairs AS SELECT near.* FROM (
        SELECT a.n, a.view, a.start, b.start AS next_start, a.number AS first, b.number AS second,
            a.carried AS carried, b.carried AS next_carried, a.share, b.share AS next_share,
            CASE WHEN a.stop < b.start THEN a.stop END AS between
        FROM (SELECT *, unnest([stop, stop + 1]) AS next FROM places) a
        JOIN places b ON a.n = b.n AND a.next = b.start AND a.aside = b.aside) near
    ANTI JOIN (SELECT n, unnest(flatten(starts)) AS start FROM {rows}) other
    ON near.n = other.n AND near.between = other.start"""
_INSERT_PHRASES = f"""INSERT INTO phrases
    SELECT n, view, first, second, third, sum(share), count(*) FROM (
        SELECT n, view, first, second, NULL AS third, share + next_share AS share,
            carried + next_carried AS whole, [carried, next_carried] AS each FROM pairs
        UNION ALL
        SELECT a.n, a.view, a.first, a.second, b.second, a.share + a.next_share + b.next_share,
            a.carried + a.next_carried + b.next_carried,
            [a.carried, a.next_carried, b.next_carried]
        FROM pairs a JOIN pairs b ON a.n = b.n AND a.next_start = b.start)
    WHERE whole <> 0 AND list_min(list_transform(each, lambda x: x * sign(whole)))
        >= {_MIN_WORD_SHARE} * abs(whole)
    GROUP BY n, view, first, second, third"""


def _find_rows(columns: Mapping[str, Any], **groups: int) -> Any:
    """Return the indices of the rows in which the columns have these values."""
    masks = [columns[name] == value for name, value in groups.items()]
    return np.flatnonzero(np.logical_and.reduce(masks))


def mean_contribution(words: WordMoments) -> Float[np.ndarray, " V"]:
    """Return the mean score per occurrence of each word; the smallest three quarters become 0.

    The quartile is that of the words of ``MIN_TEXTS`` texts or, without any, of all words.
    """
    contributions = words.total / np.maximum(words.occurrences, 1)
    # Chance alone makes some of the words carry much that few texts have.
    is_frequent = words.texts >= MIN_TEXTS
    sizes = np.abs(contributions[is_frequent if is_frequent.any() else words.texts > 0])
    floor = float(np.quantile(sizes, 0.75)) if len(sizes) else 0.0
    return np.where(np.abs(contributions) >= floor, contributions, 0.0)


def function_words(words: WordMoments, texts: int) -> Bool[np.ndarray, " V"]:
    """Return a mask of the words that score like function words: often, and almost alike.

    They are in every tenth of the ``texts`` at least, and their means lie within two spreads (1.48
    median deviations) of the median of such words. What all of them have, such as the small share
    that `lrp` gives to each "the" and comma, says nothing about the words, but is so certain that
    they would lead every list. Of few texts, or few such words, nothing is said.
    """
    is_frequent = words.texts >= max(_FUNCTION_WORD_SHARE * texts, _FUNCTION_WORD_TEXTS)
    if is_frequent.sum() < MIN_TEXTS:
        return np.zeros(len(is_frequent), bool)
    center = np.median(words.mean[is_frequent])
    # The median deviation, for the words that stand out must not widen what is usual.
    spread = 1.4826 * np.median(np.abs(words.mean[is_frequent] - center))
    return is_frequent & (np.abs(words.mean - center) <= 2 * spread)


def _phrase_name(words: Sequence[str], columns: DataColumns) -> str:
    """Return the words of a phrase, which stand on one side, with the name of that side once."""
    if columns.pair is None:
        return " ".join(words)
    side, *_ = words[0].partition(MARK)
    return " ".join([words[0], *(word.removeprefix(side + MARK) for word in words[1:])])


@contextlib.contextmanager
def open_words(run: "Run", method: str | None) -> Iterator[RunWords]:
    """Open the words of a run before their sums are computed; raise an error if it has none."""
    with open_database(run) as tables:
        words = RunWords(tables, run, method)
        if not words.views:
            raise InputError(
                f"'{run.path}' has no explanations: it has {len(run):,} of {run.total:,} texts, "
                f"and {words.failed:,} row{'s' * (words.failed != 1)} failed (Run.errors()). "
                "Start the run again, with retry (--retry) for failed texts."
            )
        yield words


def list_words(run: "Run", method: str, *, target: str | None, sort: str) -> pa.Table:
    """Return the table of words of a method, view after view.

    Parameters
    ----------
    run
        The run.
    method
        A method of the run.
    target
        The only class to list. None lists all classes.
    sort
        The order of the words, such as "word" or "strength".

    Returns
    -------
    A table with a row per word and class.

    Raises
    ------
    InputError
        If the method, the class or the column is unknown, or the run has no words.
    """
    if sort not in SORTS:
        raise InputError(unknown_name_message("sort order", sort, SORTS))
    with open_words(run, method) as words:
        targets = {v: view["target"] for v, view in words.views.items()}
        if target is not None and target not in targets.values():
            names = dict.fromkeys(targets.values())
            raise InputError(unknown_name_message("explained class", target, names))
        words.compute_sums()
        # Never summed over views: scores for different classes have no common meaning.
        selected_views = [v for v, name in targets.items() if target in (None, name)]
        return pa.concat_tables(_sorted_words(words, v, sort) for v in selected_views)


def _sorted_words(words: RunWords, view: int, sort: str) -> pa.Table:
    """Return a row for each word that any text has, the largest first; "word" is the alphabet."""
    moments = words.moments(view)
    table = word_table(moments, words.words, np.arange(len(words.words)))
    if sort == "word":
        order = np.array(sorted(range(len(words.words)), key=words.words.__getitem__), dtype=int)
    elif sort == "strength":
        order = words.order(view, moments)
    else:
        order = np.lexsort((-np.abs(moments.shrunken[0]), -table[sort].to_numpy()))
    # The vocabulary is that of all views: some words are not in this one.
    order = order[moments.texts[order] > 0]
    names = {
        name: pa.array([value] * len(order), pa.string())
        for name, value in words.views[view].items()
    }
    table = table.take(pa.array(order))
    return pa.table(names | dict(zip(table.column_names, table.columns, strict=True)))


def word_table(
    moments: WordMoments, words: Sequence[str], numbers: Int[np.ndarray, " k"]
) -> pa.Table:
    """Return a table of statistics; ``numbers`` are the indices of the wanted words or phrases."""
    # Words of other views have no texts here.
    n = np.maximum(moments.texts, 1)
    shrunken, low, high = moments.shrunken
    columns = {
        "texts": moments.texts.astype(np.int64),
        "occurrences": moments.occurrences.astype(np.int64),
        "mean": moments.mean,
        "mean_abs": moments.size / n,
        "positive": moments.positive / n,
        "shrunken": shrunken,
        "low": low,
        "high": high,
        "total": moments.total,
        "rare": moments.texts < RARE,
    }
    word_column = {"word": pa.array([words[i] for i in numbers.tolist()], pa.string())}
    return pa.table(word_column | {name: values[numbers] for name, values in columns.items()})
