"""Citations: limits that hold together, sources, files, and text that Markdown and HTML escape."""

import io
import json
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy import stats

import limelight
from limelight.rendering.citations import escape_markdown
from limelight.rendering.text_parts import visible_text
from limelight.results import Citations, Explanation, SpanExplanations
from limelight.results.citations import UNKNOWN_ERRORS
from limelight.sampling.all_masks import (
    banzhaf_values_from_all_masks,
    shapley_values_from_all_masks,
)
from limelight.sampling.orders import shapley_values_from_orders
from limelight.sampling.ranks import MIN_DRAWS, lower_limits
from limelight.sampling.regression import fit_sampled_lime
from limelight.sampling.sample import Sample, make_coin_sampler
from limelight.text import AnswerQuery, Part

from schema_files import schema_file

SENTENCES = ("It rained.", "The *plot* is <b>thin</b>.", "I left.")
TEXT = " ".join(SENTENCES)
STARTS = (0, 11, 38)
PARTS = (
    Part("first|doc", "document", (0, 38), (0, 37)),
    Part("second", "document", (38, 45), (38, 45)),
)
ANSWER = "It was wet. # Dull <i>plot</i>!\n\nBye."
QUERIES = AnswerQuery(ANSWER, prompt=f"{TEXT} Why?", question="Why?").sentences()


def explain_answer(scores, *, parts=PARTS, **fields):
    """Return explanations of the three sentences of an answer with these scores."""
    spans = tuple(((s, s + len(t)),) for s, t in zip(STARTS, SENTENCES, strict=True))
    arguments = {
        "text": TEXT,
        "features": SENTENCES,
        "spans": spans,
        "parts": parts,
        "method": "banzhaf",
        "target": "answer",
        "prediction": {"answer": -4.0},
        "bound": 0.25,
        "settings": {"features": "sentences", "replacement": "delete"},
        "version": "0",
    } | fields
    explanations = [
        Explanation(scores=np.array(row), query=query, **arguments)
        for row, query in zip(scores, QUERIES, strict=True)
    ]
    return SpanExplanations(TEXT, tuple(explanations))


SCORES = ([1.0, 0.5, -1.0], [0.25, 2.0, 0.2500001], [0.0, -3.0, 0.1])
EXACT = explain_answer(SCORES)
C = EXACT.citations()


def test_exact_scores_above_their_bound_are_cited():
    assert C.features == ((0, 1), (1, 2), ())
    assert C.sources == (("first|doc",), ("first|doc", "second"), ())
    np.testing.assert_allclose(C.limits, np.array(SCORES) - 0.25)
    assert C.statements == ("It was wet.", "# Dull <i>plot</i>!", "Bye.")
    assert C.answer == ANSWER
    assert not C.warnings
    assert explain_answer(SCORES, parts=()).citations().sources[0] == SENTENCES[:2]


def test_a_threshold_must_be_exceeded_by_the_limit():
    assert EXACT.citations(threshold=0.5).features == ((0,), (1,), ())
    assert EXACT.citations(threshold=-0.2).features == ((0, 1), (1, 2, 0), (2,))


def test_values_of_a_definition_may_differ_by_rounding():
    scores = ([3.9e-6, 4.1e-6, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0])  # of outputs of 4
    exact = explain_answer(scores, bound=None, certain_tops=(1, 2))
    assert exact.citations().features[0] == (2, 1)


def test_unknown_errors_give_no_citation_and_say_so():
    for fields in ({"certain_tops": None}, {"stderr": np.full(3, 1e-9)}):
        c = explain_answer(SCORES, bound=None, **fields).citations()
        assert c.sources == ((), (), ())
        assert c.warnings == (UNKNOWN_ERRORS,)
        assert Citations.from_json(c.to_json()) == c
    few_draws = explain_answer(
        SCORES, bound=None, stderr=np.full(3, 1e-9), draws=np.ones((MIN_DRAWS - 1, 3))
    )
    assert few_draws.citations().warnings == (UNKNOWN_ERRORS,)


def test_learned_scores_use_normal_errors():
    c = explain_answer(
        SCORES, bound=None, method="learned", stderr=np.full(3, 0.3), certain_tops=()
    ).citations(confidence=0.9)
    expected = np.array(SCORES) - stats.norm.isf(0.1 / 9) * 0.3
    np.testing.assert_allclose(c.limits, expected)


def test_limits_of_draws_are_those_of_a_one_sided_t_test_with_the_correction():
    """The reference implementation has the rules of the theorem on certain sets, with scipy's t."""
    rng = np.random.default_rng(4)
    draws = rng.normal(size=(40, 3)) + np.array([1.0, 0.2, -0.5])
    c = explain_answer(
        [draws.mean(axis=0)] * 3, bound=None, stderr=np.full(3, 1e-9), draws=draws
    ).citations()
    for j in range(3):
        u = (draws[:, j] - draws[:, j].mean()) / 40
        degrees = min(2 * ((u**2).sum() ** 2 / (u**4).sum() + 1), 39)
        error = math.sqrt((u**2).sum() * 40 / 39 + (u**2).max())
        expected = draws[:, j].mean() - stats.t.isf(0.05 / 9, degrees) * error
        # Quantiles between whole numbers of degrees are interpolated, on the safe side.
        assert expected - 0.02 < c.limits[0, j] < expected
    assert c.features == ((0,),) * 3


def test_a_larger_reported_error_widens_the_limits():
    draws = np.random.default_rng(4).normal(size=(40, 3)) + 1.0
    scores = [draws.mean(axis=0)] * 3
    narrow, wide = (
        explain_answer(scores, bound=None, stderr=np.full(3, e), draws=draws).citations().limits
        for e in (1e-9, 1.0)
    )
    assert (wide < narrow - 1).all()


def test_draws_that_agree_allow_for_effects_that_no_draw_has_seen():
    draws = np.column_stack([np.ones(20), np.full(20, 5.0), np.tile([0.0, 2.0], 10)])
    limits = lower_limits(draws, draws.mean(axis=0), np.zeros(3), level=0.01)
    unseen = math.log(100) / 20 * 1.0  # the farthest draw of the third feature is off by 1
    np.testing.assert_allclose(limits[:2], np.array([1.0, 5.0]) - unseen, atol=1e-5)


# Games with linear effects, pairs of sources and an AND of three. In centered pairs, a source has
# draws that vary and a value of 0.
D, STATEMENTS = 8, 3


def make_game(number):
    """Return a game of masks in which several sources have no mean effect."""
    rng = np.random.default_rng(number)
    linear = np.where(rng.random(D) < 0.5, 0.0, rng.normal(size=D))
    pairs = [(i, j, rng.normal()) for i, j in combinations(range(D), 2)]
    triple = rng.choice(D, 3, replace=False)

    def play(keep):
        """Return the output for each mask."""
        x = keep - 0.5
        outputs = x @ linear + sum(w * x[:, i] * x[:, j] for i, j, w in pairs)
        return (outputs + (number == 2) * 2 * keep[:, triple].prod(axis=1))[:, None]

    return play


GAMES = [make_game(number) for number in range(STATEMENTS)]


def sample_shapley(game, seed):
    """Return sampled Shapley values, their errors and their draws."""
    sample = shapley_values_from_orders(game, D, np.random.default_rng(seed), pairs=60)
    return sample.values[0], sample.stderr[0], sample.draws


def sample_banzhaf(game, seed):
    """Return sampled Banzhaf values, their errors and their draws, as the method does."""

    def half_difference(keep):
        return (game(keep) - game(~keep)) / 2

    rng = np.random.default_rng(seed)
    sample = Sample(half_difference, make_coin_sampler(D), rng, d=D, row0=False)
    sample.grow(64)
    fit = fit_sampled_lime(sample, ridge=0.0)
    return fit.scores[0], fit.stderr[0], fit.draws


@pytest.mark.parametrize(
    ("sample", "exact"),
    [
        (sample_shapley, shapley_values_from_all_masks),
        (sample_banzhaf, banzhaf_values_from_all_masks),
    ],
)
def test_all_limits_hold_together_in_95_percent_of_runs_and_not_without_the_correction(
    sample, exact
):
    """The true values come from all subsets. All statements share their masks, as in a result."""
    values = [exact(game, D)[0] for game in GAMES]
    assert sum((np.abs(row) < 1e-9).sum() for row in values) >= 8  # sources without an effect
    runs, certain, single, cited = 120, 0, 0, 0
    for seed in range(runs):
        hold = {}
        for level in (0.05 / (STATEMENTS * D), 0.05):
            limits = [
                lower_limits(draws, scores, stderr, level=level)
                for scores, stderr, draws in (sample(game, seed) for game in GAMES)
            ]
            hold[level] = all(
                (row <= true + 1e-9).all() for row, true in zip(limits, values, strict=True)
            )
            cited += (level < 0.05) * sum((row > 0).sum() for row in limits)
        certain, single = certain + hold[0.05 / (STATEMENTS * D)], single + hold[0.05]
    assert certain >= 0.95 * runs
    assert single < 0.92 * runs
    assert cited > 3 * runs  # the correction leaves the clear effects


def test_json_brings_everything_back():
    assert Citations.from_json(C.to_json()) == C
    record = json.loads(C.to_json())
    assert record["schema"] == "limelight.citations/1"
    assert record["statements"][1]["sources"] == [
        {"source": "first|doc", "feature": 1},
        {"source": "second", "feature": 2},
    ]
    query = record["explanations"][0]["query"]
    assert (query["question"], query["prompt"]) == ("Why?", f"{TEXT} Why?")
    assert record["explanations"][0]["settings"]["replacement"] == "delete"


def test_the_shipped_schema_describes_the_files():
    jsonschema = pytest.importorskip("jsonschema")
    from limelight.results import codec

    shipped = (codec.SCHEMAS / "citations.schema.json").read_bytes()
    assert shipped == schema_file(codec.CitationRecord)
    jsonschema.validate(json.loads(C.to_json()), json.loads(shipped))


def test_the_table_has_a_row_per_citation_and_one_for_a_statement_without_a_source():
    frame = C.to_frame()
    assert frame.statement.tolist() == [0, 0, 1, 1, 2]
    assert frame.source[:4].tolist() == ["first|doc", "first|doc", "first|doc", "second"]
    assert frame.source.isna().tolist() == [False] * 4 + [True]
    assert frame.limit[:2].tolist() == [0.75, 0.25]
    assert C.to_csv().startswith("statement,text,source,feature,score,stderr,limit\n")


def test_markdown_has_a_footnote_for_each_cited_feature():
    assert C.to_markdown() == (
        "It was wet.[^1][^2] \\# Dull \\<i\\>plot\\</i\\>\\![^2][^3]\n\n"
        "Bye.[^none]\n\n"
        "[^1]: first\\|doc: “It rained.”\n"
        "[^2]: first\\|doc: “The \\*plot\\* is \\<b\\>thin\\</b\\>.”\n"
        "[^3]: second: “I left.”\n"
        "[^none]: No source is certain.\n"
    )


def test_another_markdown_program_finds_every_footnote():
    markdown = pytest.importorskip("markdown")
    page = markdown.markdown(C.to_markdown(), extensions=["footnotes", "tables"])
    assert page.count('class="footnote-ref"') == 5
    assert page.count('class="footnote-backref"') == 5
    for tag in ("<b>", "<i>", "<em>", "<h1>", "<script"):
        assert tag not in page


@given(st.text(alphabet="ab1 \n\t#*_`<>[]()!&;~^$|\\-+=.:/@{}\"'\x1b\u202ewW", max_size=40))
def test_escaped_markdown_shows_the_same_letters(text):
    """markdown-it reads the Markdown. The visible letters are those of the text, in paragraphs."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("gfm-like", {"linkify": False, "typographer": False}).parse(
        escape_markdown(text)
    )
    assert {token.type for token in tokens} <= {"paragraph_open", "inline", "paragraph_close"}
    children = [child for token in tokens for child in token.children or []]
    assert {child.type for child in children} <= {"text", "softbreak", "text_special"}
    shown = "".join(child.content for child in children)
    assert "".join(shown.split()) == "".join(visible_text(text).split())


def test_text_that_is_not_escaped_is_read_as_markdown():
    from markdown_it import MarkdownIt

    for text in ("# a", "*a*", "<b>a</b>", "1. a", "- a", "[a](b)"):
        tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
        types = {t.type for t in tokens} | {c.type for t in tokens for c in t.children or []}
        assert types - {"paragraph_open", "inline", "paragraph_close", "text"}, text


def test_pages_escape_the_texts_and_show_question_prompt_and_replacement():
    page, fragment = C.to_html(), C.to_html(fragment=True)
    body = page.split("</style>", 1)[1].split("<script", 1)[0]
    for html in (body, fragment):
        assert "<b>thin" not in html
        assert "<i>plot" not in html
        assert "&lt;i&gt;plot&lt;/i&gt;" in html
        assert "(no source)" in html
        assert "Why?" in html
    for words in ("Why?", "Prompt and settings", "delete", "+2.000"):
        assert words in body


def test_a_terminal_shows_marks_sources_and_missing_sources():
    file = io.StringIO()
    Console(file=file, width=90).print(C)
    printed = " ".join(file.getvalue().split())
    for words in (
        "sentences whose scores are certainly above 0.",
        "It was wet. [1][2]",
        "Bye. (no source)",
        "[3] second: I left.",
        "The question is “Why?”.",
        "Removed sentences are deleted.",
    ):
        assert words in printed


def test_views_name_the_confidence_of_sampled_scores_and_unknown_errors():
    draws = np.random.default_rng(4).normal(size=(40, 3)) + 1.0
    fields = {"bound": None, "stderr": np.full(3, 0.1), "draws": draws}
    sampled = explain_answer([draws.mean(axis=0)] * 3, **fields).citations(confidence=0.9)
    assert "(90 % confidence for all 9 scores together)" in sampled.to_html()
    unknown = explain_answer(SCORES, bound=None).citations()
    assert UNKNOWN_ERRORS.split("'")[0] in unknown.to_html(fragment=True)
    assert limelight.Citations is Citations
