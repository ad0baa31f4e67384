import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import limelight
from limelight.rendering.html import attention_data, explanation_fragment, max_pool
from limelight.rendering.markup import data_block, table_html
from limelight.rendering.text_parts import replace_surrogates
from limelight.rendering.wording import least_similar_pairs, pair_agreement, reference_index
from limelight.results import Comparison, Explanation
from limelight.results.table import plain_table
from limelight.text import tokenize

from render_samples import HOSTILE, REVIEW, SENTENCE, comparison, explanation


class Read(HTMLParser):
    """What a browser would see: the tags, the attributes, the text of chosen elements."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.inside, self.scripts, self.text = [], [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data):
        (self.scripts if self.inside[-1:] == ["script"] else self.text).append(data)


def read_data(page):
    return re.search(r'id="limelight-data">(.*?)</script>', page, re.DOTALL).group(1)


@pytest.mark.parametrize("text", [SENTENCE, HOSTILE, REVIEW])
def test_the_data_in_a_page_parse_back(text):
    c, e = comparison(text), explanation(text)
    again = Comparison.from_json(read_data(c.as_html()))
    assert again.text == c.text
    np.testing.assert_array_equal(again["lime"].scores, c["lime"].scores)
    assert Explanation.from_json(read_data(e.as_html())).features == e.features


def test_the_text_of_the_user_adds_no_element_and_no_attribute():
    harmless = re.sub(r"[<>&\"'\x1b]", "x", HOSTILE)
    for make in (lambda t: explanation(t).as_html(), lambda t: explanation(t)._repr_html_()):
        hostile, plain = Read(make(HOSTILE)), Read(make(harmless))
        assert hostile.tags.count("script") == plain.tags.count("script")
        assert {name for name, _ in hostile.attributes} == {name for name, _ in plain.attributes}
        assert "alert(1)" in "".join(hostile.text)


def test_hostile_settings_warnings_targets_and_labels_are_escaped():
    evil = "</script><img src=x onerror=alert(1)>"
    fields = {
        "target": evil,
        "prediction": {evil: 1.0},
        "warnings": (evil,),
        "label": evil,
        "classes": ("a", evil),
        "settings": {evil: evil},
        "diagnostics": {evil: evil},
    }
    for value in (explanation(**fields), Comparison(explanations=(explanation(**fields),) * 2)):
        for page in (value.as_html(), value._repr_html_()):
            assert "<img src=x" not in page
            assert "onerror" not in {name for name, _ in Read(page).attributes}


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_can_be_written_and_read_back(text):
    table = Read(table_html(plain_table([text], [[text]]), label=text, kind=text))
    assert set(table.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td"}
    if not len(tokenize(text)):
        return
    page = explanation(
        replace_surrogates(text)
    ).as_html()  # an explanation refuses half a character
    page.encode()
    assert json.loads(read_data(page))["schema"] == "limelight.explanation/2"
    assert Explanation.from_json(read_data(page)).text == replace_surrogates(text)


def test_nothing_in_data_can_end_its_script():
    block = data_block("x", json.dumps("</script><!--<script>"))
    assert block.count("<") == 2
    assert json.loads(block[block.index(">") + 1 : block.rindex("<")]) == "</script><!--<script>"


@pytest.mark.parametrize("make", [comparison, explanation])
def test_the_page_asks_for_nothing_and_its_policy_allows_only_its_own_parts(make):
    page = make().as_html()
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "url(" not in page
    assert "@import" not in page
    assert " style=" not in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("<style>", '<script type="module">'):
        content = page.split(tag, 1)[1].split("</", 1)[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_a_fragment_needs_no_script_and_styles_only_itself():
    for value in (explanation(), comparison()):
        fragment = value._repr_html_()
        assert "<script" not in fragment
        css = re.search(r"<style>(.*?)</style>", fragment, re.DOTALL).group(1)
        flat = re.sub(r"/\*.*?\*/|@media[^{]*\{", "", css, flags=re.DOTALL)
        selectors = [rule.split("{")[0] for rule in flat.split("}") if "{" in rule]
        element = [one for rule in selectors for one in re.split(r",(?![^()]*\))", rule)]
        assert all(".limelight" in selector for selector in element)


def test_a_fragment_tells_scores_on_hover():
    e = explanation("good bad", scores=np.array([0.812, -0.4]))
    assert 'class="w s e f10 top" data-f="0" title="+0.812" ' in explanation_fragment(e)
    assert 'class="w s e a5" data-f="1" title="-0.400" ' in explanation_fragment(e)


def test_methods_without_sign_are_never_green_or_red():
    page = explanation_fragment(explanation(method="g-l1"))
    assert re.search(r'class="w s e n\d', page)
    assert not re.search(r'class="w[ se]* [fa]\d', page)


def test_text_past_the_window_is_marked_greyed_and_folded():
    page = explanation(REVIEW, T_max=5).as_html()
    legend, start = re.findall(r'class="cut"[^>]*>([^<]*)<', page)
    assert legend == "gray"
    assert "not read by the model" in page
    (before,) = re.findall(r'>([^<>]*)</span><span class="stop">not read from here<', page)
    assert before == "expect"
    remaining = REVIEW.removeprefix("I did not expect")
    assert unescape(start) == f"{remaining[:60]}… ({len(remaining):,} characters)"
    (folded,) = re.findall(
        r'<details><summary>What the model did not read</summary><p class="words cut"[^>]*>'
        r"([^<]*)</p></details>",
        page,
    )
    assert unescape(folded) == remaining
    assert "did not read" not in explanation(REVIEW, T_max=400).as_html()


def test_a_long_unread_rest_is_not_repeated_for_every_method():
    text = "a good film " + "endless " * 50_000
    page = comparison(text, T_max=5).as_html()
    output = page.partition('<script type="application/json"')[0]
    assert len(output) < 200_000 + len(text)
    assert re.search(r"… \(399,\d{3} characters\)", output)


def test_a_tint_reaches_out_only_where_there_is_a_space():
    page = explanation_fragment(explanation("an act, (so)", scores=np.full(6, 0.5)))
    matches = re.findall(r'<span class="w([ se]*) f10[^>]*>([^<]*)</span>', page)
    assert [(word, kind.strip()) for kind, word in matches] == [
        ("an", "s e"), ("act", "s"), (",", "e"), ("(", "s"), ("so", ""), (")", "e"),
    ]  # fmt: skip


def test_error_bars_appear_where_there_are_standard_errors():
    arguments = {"scores": np.array([0.8, -0.4]), "stderr": np.array([0.2, 0.1])}
    page = explanation("good bad", **arguments).as_html()
    row = '<tr data-f="0"><th scope="row"><bdi>good</bdi></th><td>+0.800</td><td class="note">0.200'
    assert row in page
    assert '<rect x="50.00" y="3" width="40.00" height="6" class="bar-f">' in page  # to 0.8 of 1
    assert '<path d="M80.00 6H100.00M80.00 4v4M100.00 4v4" class="whisker">' in page
    assert '<path d="M25.00 6H35.00M25.00 4v4M35.00 4v4" class="whisker">' in page
    assert 'class="whisker"' not in explanation(method="lime").as_html()


def test_a_long_review_makes_a_small_page():
    assert len(comparison(REVIEW).as_html()) < 600_000


def test_a_comparison_without_attention_has_no_heads():
    assert "What the heads attend to" not in comparison(attention=False).as_html()
    assert comparison().as_html().count('"cells"') == 6


def test_pooling_keeps_the_largest_value_of_each_square():
    matrix = np.arange(25.0).reshape(5, 5)
    assert max_pool(matrix, 2).tolist() == [[6, 8, 9], [16, 18, 19], [21, 23, 24]]
    np.testing.assert_array_equal(max_pool(matrix, 1), matrix)


def test_cells_are_the_roots_of_the_weights():
    c = comparison()
    result = attention_data(c)
    assert result["block"] == 1
    for matrix, head in zip(c.attention, result["heads"], strict=True):
        cells = np.frombuffer(base64.b64decode(head["cells"]), np.uint8).reshape(matrix.shape)
        np.testing.assert_allclose((cells / 255) ** 2 * head["peak"], matrix, atol=0.005)
        assert (head["strongest"], head["weight"]) == (matrix[0].argmax(), matrix[0].max())


def test_heads_have_a_table_of_their_own():
    heads = np.array([[0.5, -0.25], [0.1, 0.0]])
    page = explanation("good bad", scores=heads.mean(axis=0), heads=heads).as_html()
    assert '<td class="f10">+0.500</td><td class="f2">+0.100</td>' in page
    assert '<td class="a5">−0.250</td><td>+0.000</td>' in page
    assert "Head by head" not in explanation().as_html()


def test_no_probability_is_rounded_to_certainty():
    page = explanation(prediction={"positive": 12.0}).as_html()
    assert "&gt;99.9%" in page
    assert "&lt;0.1%" in page
    assert "100.0%" not in page


def test_pairs_and_anchors_are_on_the_page():
    e = limelight.explain(limelight.load(), "a <b>dull</b> start, a superb end", "interactions")
    page = e.as_html()
    assert "What two words do together beyond what each does alone" in page
    listed = re.findall(r'<th scope="row"><bdi>([^<]*)</bdi> × <bdi>([^<]*)</bdi></th>', page)
    strongest = [tuple(e.features[j] for j in pair) for pair in e.pairs.features[:12]]
    assert [tuple(map(unescape, pair)) for pair in listed] == strongest
    assert any("<b>dull</b>" in pair for pair in strongest)
    assert "<b>dull" not in page
    text = "a dull start, a superb end"
    anchored = limelight.explain(limelight.load(), text, "anchors", threshold=0.95)
    assert "<p>Anchor: dull. The prediction stays whatever else is removed." in anchored.as_html()
    proven = limelight.explain(limelight.load(), text, "anchors").as_html()
    assert "whatever else is removed, and no smaller anchor exists. 50.0% of all" in proven


def test_methods_that_a_comparison_leaves_out_are_named_on_page_and_terminal():
    c = limelight.compare(limelight.load(), "superb")
    c = replace(c, warnings=("LIME is left out: it is not defined here.",))
    output, _, _ = c.as_html().partition('<script type="application/json"')  # data hold it, too
    assert "LIME is left out" in output
    assert "LIME is left out" in c._repr_html_()
    console = Console(width=200, file=io.StringIO())
    console.print(c)
    assert "LIME is left out" in console.file.getvalue()


@pytest.mark.parametrize("output", ["logit", "probability"])
def test_the_page_says_on_which_scale_the_scores_are(output):
    page = limelight.explain(limelight.load(), "a good film", "gxi", scale=output).as_html()
    assert f"Scores are for “positive”, the predicted class ({output} " in page


def test_every_score_and_setting_stands_on_the_page():
    c = comparison()
    page = c.as_html()
    _, _, every = page.partition("Every score, in the order of the text")
    for j, word in enumerate(SENTENCE.split()):
        row = re.search(rf"<bdi>{word}</bdi></th>(.*?)</tr>", every).group(1)
        cells = re.findall(r"<td[^>]*>([^<]*)</td>", row)
        reference = [
            element[j] for e in c for element in (e.scores, e.stderr) if element is not None
        ]
        output = [float(cell.replace("−", "-")) for cell in cells]
        np.testing.assert_allclose(output, reference, atol=6e-4)
    for name, value in (("seed", "0"), ("output", "logit"), ("classes", "[&#34;negative&#34;")):
        assert f"<dt>{name}</dt><dd>{value}" in page


def test_the_page_says_where_methods_disagree():
    c = comparison()
    table, _, remainder = c.as_html().partition("Compared with lime")[2].partition("</table>")
    matches = re.findall(r'<th scope="row">(.*?)</th><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>', table)
    chosen = reference_index(c)
    expected = [
        (e.label, *pair_agreement(c, i, chosen)[:2]) for i, e in enumerate(c) if i != chosen
    ]
    assert matches == [
        (name, f"{ranks:+.2f}".replace("-", "−"), "–" if signs is None else str(signs))
        for name, ranks, signs in expected
    ]
    worst, _ = least_similar_pairs(c)[0]
    assert f"<b>{worst}</b>: rank correlation −0.64, opposite signs 5, " in remainder


def test_captions_name_the_units():
    model, texts = (
        limelight.load(),
        ["A dull plot. Superb acting! I left.", "It is good. It is bad. Fine."],
    )
    page = limelight.judge(model, texts, ["loo", "shapley"], features="sentences").to_html()
    assert 'data-units="sentences"' in page
    assert "its output falls as sentences are removed." in page
    pairs = limelight.explain(model, texts[0], "interactions", features="sentences").to_html()
    assert "What two sentences do together" in pairs
