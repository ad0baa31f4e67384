"""Images under the colors of their scores: pages, fragments, terminal and figures."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from limelight.rendering.images import color_opacity, outlines, pixel_features, resize_pixels
from limelight.rendering.palette import FAINTEST, full_color, mix_colors, relative_scores
from limelight.rendering.wording import format_score, format_stderr
from limelight.results import Comparison, Explanation

from browsing import watched_page
from render_samples import compared_images, explained_image, sample_image

pytest.importorskip("PIL", reason="images are read and written by Pillow (extra images)")


def ring(pixels):
    """Two discs that touch at a corner, a ring around one, and the rest: holes and parts."""
    height, width = pixels.shape[:2]
    labels = np.zeros((height, width), int)
    labels[3:12, 4:15] = 1
    labels[6:9, 7:11] = 2
    labels[12:15, 15:20] = 2
    return labels


def signed_area(loop):
    x, y = np.array([*loop, loop[0]]).T
    return float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2)


def test_outlines_enclose_as_many_pixels_as_the_features_have():
    """A hole is walked the other way, so that areas add up."""
    image = explained_image(splitter=ring).image
    labels = ring(sample_image().pixels)
    areas = [sum(map(signed_area, loops)) for loops in outlines(image)]
    assert areas == [float((labels == k).sum()) for k in range(3)]
    assert [len(loops) for loops in outlines(image)] == [3, 2, 2]
    boxes = explained_image().image
    assert [signed_area(loop) for (loop,) in outlines(boxes)] == [28.0] * 21


@pytest.mark.parametrize("splitter", [None, ring])
def test_every_pixel_belongs_to_the_feature_that_it_was_cut_into(splitter):
    e = explained_image(splitter=splitter)
    result = pixel_features(e.image, 28, 21)
    if splitter:
        assert (result == ring(sample_image().pixels)).all()
    else:
        assert (result == np.arange(21).reshape(3, 7).repeat(7, 0).repeat(4, 1)).all()
    assert np.abs(resize_pixels(e.image, 28, 21) - sample_image().pixels).max() == 0
    assert resize_pixels(e.image, 14, 7)[0, 0] == pytest.approx(
        sample_image().pixels[:3, :2].mean((0, 1))
    )


def test_every_patch_has_its_color_and_says_its_score_without_a_script():
    e = explained_image()
    html = e.to_html(fragment=True)
    paths = re.findall(
        r'<path class="w (\w?)( top)?" data-f="(\d+)" d="([^"]+)" fill="([^"]+)" '
        r'fill-opacity="([^"]+)"><title>([^<]+)</title></path>',
        html,
    )
    assert [int(value[2]) for value in paths] == list(range(21))
    for (hue, top, _, path, fill, opacity, message), size, score, error, name in zip(
        paths, relative_scores(e), e.scores, e.stderr, e.features, strict=True
    ):
        expected = "" if abs(size) < FAINTEST else "f" if size > 0 else "a"
        assert hue == expected
        if expected:
            assert fill == full_color("for" if size > 0 else "against")
        assert float(opacity) == pytest.approx(color_opacity(size), abs=1e-3)
        assert bool(top) == (abs(size) == 1)
        output, plus_minus = message.replace("−", "-").removeprefix(f"{name}: ").split(" ± ")
        assert float(output) == pytest.approx(score, abs=0.01)
        assert float(plus_minus) == pytest.approx(error, abs=0.01)
        assert path.endswith("z")
    assert "<script" not in html
    assert not re.search(r"url\(|https?://|<img", html)


@pytest.mark.parametrize("fragment", [False, True])
def test_a_page_holds_the_bytes_of_an_image_once(fragment):
    c = compared_images()
    html = c.to_html(fragment=fragment)
    assert html.count("data:image/png;base64,") == html.count(c.explanations[0].image.png) == 1
    assert html.count(f'href="#limelight-{c.explanations[0].image.digest}"') == 3


def test_the_name_of_an_image_is_never_markup():
    name = '<script>alert(1)</script>"><b>.png'
    for value in (
        explained_image(given=sample_image(name)),
        compared_images(given=sample_image(name)),
    ):
        for html in (value.to_html(), value.to_html(fragment=True)):
            assert "<script>alert" not in html
            assert "&lt;script&gt;alert(1)" in html


def test_what_was_written_is_drawn_again(tmp_path):
    for e in (explained_image(), explained_image(splitter=ring)):
        again = Explanation.from_json(e.to_json())
        assert again.to_html(fragment=True) == e.to_html(fragment=True)
    c = compared_images()
    assert Comparison.from_json(c.to_json()).to_html() == c.to_html()


@pytest.mark.parametrize("splitter", [None, ring])
def test_parts_are_walked_in_all_directions_and_say_their_numbers(browser, tmp_path, splitter):
    file = tmp_path / "page.html"
    explained_image(splitter=splitter).save_html(file)
    with watched_page(browser, file) as page:
        patch = page.locator(".reading .w").first
        assert patch.get_attribute("role") == "button"
        patch.focus()
        at = lambda: int(page.evaluate("document.activeElement.dataset.f"))  # noqa: E731
        if splitter is None:
            steps = ("ArrowDown", 7), ("ArrowRight", 8), ("ArrowUp", 1), ("End", 20), ("Home", 0)
            for key, target in steps:
                page.keyboard.press(key)
                assert at() == target
            page.keyboard.press("ArrowUp")  # there is nothing above
            assert at() == 0
        assert page.inner_text(".readout").startswith(
            explained_image(splitter=splitter).features[at()]
        )
        fill = page.locator(".reading .w.top").evaluate("node => getComputedStyle(node).fill")
        assert fill != "none"


def test_every_method_of_a_comparison_is_looked_at_closer(browser, tmp_path):
    file = tmp_path / "page.html"
    compared_images().save_html(file)
    with watched_page(browser, file, width=360) as page:
        assert page.locator(".overview svg.image").count() == 4
        page.click("[data-choose='2']")
        assert page.locator("#panel-2 .reading .w").count() == 21
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360
        sizes = page.locator("image").evaluate("node => [node.getBBox().width, node.complete]")
        assert sizes[0] == 28


def print_to_text(value, width, **options):
    arguments = {"color_system": "truecolor", "force_terminal": True} | options
    console = Console(width=width, file=io.StringIO(), **arguments)
    console.print(value)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 100, 200])
@pytest.mark.parametrize("value", [explained_image(), compared_images()], ids=["one", "several"])
def test_no_line_is_wider_than_the_terminal(value, width):
    for options in ({}, {"no_color": True, "force_terminal": False, "color_system": None}):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", print_to_text(value, width, **options))
        assert max(map(len, plain.splitlines())) <= width
        assert ("▀" in plain) == (not options)


def test_on_a_terminal_half_a_letter_is_a_pixel_under_its_color():
    e = explained_image()
    j = int(np.abs(e.scores).argmax())
    remaining, top, _, _ = e.image.boxes[j]
    letters = re.findall(
        r"\x1b\[38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m▀", print_to_text(e, 40)
    )
    _, rows = np.split(np.array(letters, dtype=int).reshape(-1, 28, 2, 3), 2)  # below the original
    output = rows.transpose(0, 2, 1, 3).reshape(-1, 28, 3)[top + 1, remaining + 1]
    y = round((top + 1.5) * 21 / (2 * len(rows)) - 0.5)
    pale = 128 + sample_image().pixels[y, remaining + 1] @ [0.299, 0.587, 0.114] / 2
    full = tuple(
        int(full_color("for" if e.scores[j] > 0 else "against")[k : k + 2], 16) for k in (1, 3, 5)
    )
    assert output == pytest.approx(
        np.array(mix_colors((pale,) * 3, full, color_opacity(1.0))), abs=3
    )


def test_without_colors_methods_are_a_table_of_their_scores():
    values = compared_images()
    plain = print_to_text(values, 100, no_color=True, color_system=None)
    first = values.explanations[0]
    j = int(np.abs(first.scores).argmax())
    (row,) = [
        line for line in plain.splitlines() if line.startswith(f"{first.feature_labels[j]}  ")
    ]
    reference = [
        message for e in values for message in (format_score(e, j), format_stderr(e, j)) if message
    ]
    assert re.findall(r"[+-]?\d\.\d+", row) == reference


def test_a_figure_has_every_part_of_every_method(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need matplotlib (extra plots)")
    from limelight.rendering.figures import colored_sentence, explanation_figure

    figure = colored_sentence(compared_images())
    samples = [len(axes.patches) for axes in figure.axes]
    assert samples == [0, 21, 21, 21]
    e = explained_image(splitter=ring)
    (_, axes) = explanation_figure(e).axes
    covers = sorted(patch.get_facecolor()[3] for patch in axes.patches)
    assert covers == pytest.approx(sorted(map(color_opacity, relative_scores(e))))
    e.save_figure(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"
