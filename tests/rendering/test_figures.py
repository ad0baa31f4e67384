import numpy as np
import pytest

from limelight.rendering import figures
from limelight.rendering.figures import SOFT
from limelight.rendering.text_parts import model_tokens, visible_text

from render_samples import HOSTILE, REVIEW, comparison, explanation, with_pairs

pytest.importorskip("matplotlib", reason="figures are an extra")

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def draw_figures():
    c = comparison()
    tokens = model_tokens(c.explanations[0])
    gradient = np.random.default_rng(0).normal(size=(len(tokens), 11))
    return {
        "sentence": figures.colored_sentence(c),
        "review": figures.colored_sentence(explanation(REVIEW, T_max=40)),
        "bars": figures.bar_chart(explanation(REVIEW, "lime-sampled"), k=7),
        "attention": figures.attention_figure(c.attention, tokens),
        "gradient": figures.gradient_heatmap(gradient, tokens),
        "two gradients": figures.gradient_heatmap(
            {"theory": gradient, "practice": gradient}, tokens
        ),
        "pairs": figures.interaction_heatmap(with_pairs()),
    }


def test_every_figure_is_saved_and_one_in_every_format(tmp_path):
    # What is drawn does not depend on the format: each in turn, and the smallest in all.
    values, suffixes = draw_figures(), [*STARTS]
    saved = [(name, suffixes[i % len(STARTS)]) for i, name in enumerate(values)]
    for name, suffix in {*saved, *(("pairs", suffix) for suffix in STARTS)}:
        path = tmp_path / f"{name}{suffix}"
        figures.save_figure(values[name], path)
        assert path.read_bytes().startswith(STARTS[suffix])


def test_bars_have_error_bars_where_there_are_standard_errors():
    with_errors = figures.bar_chart(explanation(method="lime-sampled"))
    without = figures.bar_chart(explanation(method="lime"))
    assert len(with_errors.axes[0].collections) > len(without.axes[0].collections)
    assert len(figures.bar_chart(explanation(), k=3).axes[0].patches) == 3


def list_texts(drawn):
    """What is written, without the notes about the figure itself."""
    return [text.get_text() for text in drawn if text.get_color() != SOFT]


def test_a_figure_says_class_method_and_scale():
    c = comparison()
    figure = figures.colored_sentence(c)
    messages = [
        value.get_text() for value in (*figure.axes[0].texts, *figure.legends[0].get_texts())
    ]
    assert "the logit of “positive”" in messages
    for e in c:
        peak = np.abs(e.scores).max()
        number = f"{peak:.{2 - int(np.floor(np.log10(peak)))}f}"
        assert {e.label, f"up to {number}" if e.signed else f"0 to {number}"} <= {*messages}
    assert {"for positive", "against positive", "size only, no sign", "full color"} <= {*messages}
    e = explanation(scale="probability", target="a $target$")
    bars = figures.bar_chart(e).axes[0]
    assert bars.get_xlabel() == "lime: the probability of “a $target$”"
    assert figures.interaction_heatmap(with_pairs()).axes[0].get_title().endswith(
        ": the logit of “positive”"
    )  # fmt: skip


def test_a_figure_shows_where_a_text_is_cut():
    full, cut = (
        "".join(list_texts(figures.colored_sentence(explanation(REVIEW, T_max=n)).axes[0].texts))
        for n in (400, 5)
    )
    assert "not read" not in full
    assert cut.startswith("limeI did not expect [not read from here]")
    assert cut.endswith(f"… ({len(REVIEW) - len('I did not expect'):,} characters)")


def test_dollar_signs_hostile_text_and_missing_letters_are_drawn_as_they_are(tmp_path):
    for text in (r"costs $5$ or $\foo$ \$6_x$", HOSTILE, "שלום 😀 日本語", "x" * 300):
        e = explanation(text)
        sentence = figures.colored_sentence(e, tmp_path / "a.svg")
        bars = figures.bar_chart(e)
        figures.save_figure(bars, tmp_path / "b.png")
        words = sentence.axes[0].texts
        assert "".join(list_texts(words)) == f"lime{visible_text(text)}"
        labels = bars.axes[0].get_yticklabels()
        strongest = [visible_text(name) for name, _ in e.as_list()]
        assert [name.get_text()[:23] for name in labels] == [name[:23] for name in strongest]
        assert not any(name.get_parse_math() for name in [*words, *labels])


def test_the_words_of_a_sentence_are_all_drawn_inside_the_page():
    figure = figures.colored_sentence(explanation(REVIEW, T_max=400))
    axes = figure.axes[0]
    samples = "".join(list_texts(axes.texts))
    assert "".join(samples.split()) == "".join(f"lime{REVIEW}".split())
    page = figure.bbox
    for mark in (*axes.texts, *axes.patches):
        box = mark.get_window_extent()
        assert page.x0 <= box.x0 <= box.x1 <= page.x1
        assert page.y0 <= box.y0 <= box.y1 <= page.y1
