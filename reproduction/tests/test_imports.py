"""What the reproduction takes from the library: public names, theory, and a list of exceptions.

Public are the names of ``limelight`` and of ``limelight.explainers``.
"""

import ast
from collections import Counter
from pathlib import Path

import pytest

import limelight
import limelight_reproduction
from limelight import explainers

HOME = Path(limelight_reproduction.__file__).parent
# All of it, since its modules are the theorems by name.
THEORY = "limelight.theory."
# What has no public name, and why it is needed all the same.
EXCEPTIONS = {
    # sentences for mistakes, files that are never half written, markup that is escaped: as there
    "limelight.errors": {"unknown_name_message"},
    # the keywords of a call, and whether its output has an exact game
    "limelight.request": {"Request"},
    "limelight.models.protocol": {"has_exact_game"},
    # scores of subword tokens become scores of features as in the library's attention methods
    "limelight.explainers.batch": {"sum_subword_scores"},
    # a command with the options of the library's commands
    "limelight.cli.console": {"write_result"},
    "limelight.cli.options": {"ModelOptions", "RequestOptions", "Seed", "WholeNumber"},
    "limelight.cli.texts": {"TextSource"},
    # a result that prints itself, becomes a table and a file as the library's results do
    "limelight.rendering.terminal": {
        "FULL_WIDTH",
        "SHOWN_FEATURES",
        "Look",
        "table_text",
        "terminal_view",
    },
    "limelight.results.codec": {"decode_record", "encode_record"},
    "limelight.results.mixins": {"TableMixin"},
    "limelight.results.table": {"Column", "Table", "plain_table"},
    "limelight.results.values": {"EqualByFields", "frozen_array"},
    # the version and the commit of a run
    "limelight.provenance": {"describe_stamps", "source_stamp"},
    "limelight.files": {"atomic_folder", "write_atomically"},
    "limelight.rendering.markup": {"render_template"},
    # figures that look like the library's
    "limelight.rendering.figures": {
        "DOTS_PER_INCH",
        "attention_figure",
        "canvas",
        "color_map",
        "colored_sentence",
        "save_figure",
    },
    # what a family of models is made of
    "limelight.models": {
        "Attention",
        "Capability",
        "Gradients",
        "Link",
        "Property",
        "OutputGradient",
        "reason_missing",
        "require",
    },
    "limelight.shapes": {"Array", "Bool", "Float", "Int", "Rng"},
    "limelight.text": {
        "CLS",
        "SIDES",
        "UNK",
        "Features",
        "Pair",
        "ImageInput",
        "ModelInput",
        "Tokens",
        "UserInput",
        "Vocabulary",
        "build_features",
        "truncate_line",
        "part_names",
        "token_strings",
        "tokenize",
        "append_parts",
    },
    # the paper's classifier over patches, and pictures with labels
    "limelight.models.attention": {"PatchClassifier"},
    "limelight.data.images": {"read_labeled_images"},
    # positions and removed words as in the paper's classifier, of which the networks are deeper kin
    "limelight.models.attention.masked": {"deleted_windows", "replaced_windows"},
    "limelight.models.attention.tables": {"sinusoidal_positions"},
    # the same training and the same draws as those of the stored results
    "limelight.training": {"RECIPES", "Recipe", "fit", "prepare", "usable_device"},
    "limelight.training.texts": {"EncodedTexts", "encode_texts"},
    "limelight.training.loop": {"learning_rate"},
    "limelight.training.module": {"dropout_mask", "keep_probability"},
    # and what is exact where every set of words was asked
    # how the study of fitted games draws masks, and what it says of its standard errors
    "limelight.explainers.target_game": {"rare_effect_warning"},
    "limelight.sampling.masks": {"Indicators", "Masks", "PerMask", "draw_masks_by_size"},
    "limelight.sampling.pairs": {
        "PerPair",
        "PerSize",
        "pair_standard_error",
        "pair_influence_sums",
        "shapley_pair_coefficients",
    },
    "limelight.sampling.spread": {
        "PowerSums",
        "RARE_EFFECT_SHARE",
        "ROUNDING",
        "r_squared",
        "unseen_effect_error",
    },
    "limelight.sampling.all_masks": {
        "lime_from_all_masks",
        "pair_interactions_from_all_masks",
        "shapley_values_from_all_masks",
    },
    "limelight.sampling.regression": {"LimeFit", "fit_sampled_lime"},
    "limelight.sampling.sample": {"Game", "Sample", "make_lime_sampler"},
}


def find_imports(source):
    """Yield (module, name) of every import from the library, name None for a whole module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                yield node.module or "." * node.level, name.name
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, None


SETTINGS = [method.settings.__name__ for method in explainers.METHODS.values()]


def library_imports(source):
    return {(m, n) for m, n in find_imports(source) if m.partition(".")[0] == "limelight"}


def forbidden_imports(found):
    """The imports that are neither public nor theory nor on the list."""
    return {
        (module, name)
        for module, name in found
        if not (
            (module == "limelight" and name in limelight.__all__)
            or (module == "limelight.explainers" and name in {*explainers.__all__, *SETTINGS})
            or (module.startswith(THEORY) and name is not None and not name.startswith("_"))
            or name in EXCEPTIONS.get(module, ())
        )
    }


def every_import():
    return set().union(*(library_imports(path.read_text("utf-8")) for path in HOME.rglob("*.py")))


def test_nothing_is_imported_but_public_names_theory_and_the_exceptions():
    assert forbidden_imports(every_import()) == set()


def test_methods_need_no_exception():
    for path in (HOME / "methods").glob("*.py"):
        result = library_imports(path.read_text("utf-8"))
        assert {module for module, _ in result} <= {"limelight", "limelight.explainers"}
        assert forbidden_imports(result) == set()


def test_every_exception_is_needed():
    listed = {(module, name) for module, names in EXCEPTIONS.items() for name in names}
    assert listed - every_import() == set()


@pytest.mark.parametrize(
    "line",
    [
        "from limelight.explainers.batch import read",
        "from limelight.theory.lime import _private",
        "from limelight import nothing",
        "from limelight import explainers",
        "import limelight.api",
        "def f():\n    from limelight.sampling.masks import text_rng",
        "from limelight.models import *",
    ],
)
def test_an_import_from_elsewhere_is_noticed(line):
    assert forbidden_imports(library_imports(line))


def test_no_module_has_the_name_of_another():
    names = Counter(path.stem for path in HOME.rglob("*.py") if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_nothing_is_imported_by_a_relative_path():
    for path in HOME.rglob("*.py"):
        assert all(not m.startswith(".") for m, _ in find_imports(path.read_text("utf-8"))), path
