"""Wrong calls of pages and figures, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
import sys

import numpy as np
import pytest
from test_elements import modules
from test_pair_pages import make_explanation

from limelight.errors import InputError, MissingExtraError
from limelight.rendering import figures
from limelight.rendering.bundle import bundle_module
from limelight.text import Part
from messages import wrong_calls

from render_samples import explanation

pytest.importorskip("matplotlib", reason="figures are an extra")

FIRST = Part("a", "first", (0, 9), (0, 9))


def draw_without_matplotlib():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib.figure", None)
        figures.bar_chart(explanation())


def bundle(folder, one, two=""):
    """Bundle a script that imports two modules."""
    script = 'import { x } from "./one.js";\nimport "./two.js";\nx;\n'
    bundle_module(modules(folder, one=one, two=two, main=script))


INPUT_ERRORS = {
    "figures.save_figure(figures.bar_chart(explanation()), 'figure.gif')": (
        r"must end in \.png, \.svg, \.pdf, not 'figure\.gif'\."
    ),
    "figures.interaction_heatmap(explanation())": "method 'lime' has no scores of pairs",
    "figures.gradient_heatmap(np.zeros((3, 5)), ['a', 'b'])": (
        "must have the same length, not 2 and 3"
    ),
    # The content of the first part is longer than the part.
    "make_explanation(parts=(Part('a', 'first', (0, 9), (0, 10)),))": "parts must have",
    **{
        f"make_explanation(parts=(FIRST, Part({id!r}, 'second', {span}, {span})))": (
            "parts must have"
        )
        for id, span in (("b", (8, 23)), ("b", (10, 40)), ("a", (10, 23)))
    },
}
EXPORT = "export const x = 1;\\n"
VALUE_ERRORS = {
    f"bundle(folder, '{EXPORT}', 'export const x = 2;\\n')": "two modules export 'x'",
    "bundle(folder, 'export const y = 1;\\n')": "one.js does not export 'x'",
    "bundle(folder, 'export const x = \"</script>\";\\n')": "would end its script element",
    f"bundle(folder, 'export default 1;\\n{EXPORT}')": "cannot be bundled",
    f"bundle(folder, 'import \"./main.js\";\\n{EXPORT}')": "imports itself through other modules",
}
EXTRA_ERRORS = {
    "draw_without_matplotlib()": r"figures need matplotlib\. .*run: pip install .*plots"
}


@wrong_calls({InputError: INPUT_ERRORS, ValueError: VALUE_ERRORS, MissingExtraError: EXTRA_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message, tmp_path):
    with pytest.raises(error, match=message):
        eval(call, globals() | {"folder": tmp_path})
