"""How the code is cut: names that mean one thing, methods that ask what a model can do."""

import ast
import importlib.util
import io
import re
import subprocess
import sys
import tokenize
from dataclasses import fields
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import pytest

import limelight
from limelight.explainers import METHODS
from limelight.models import Capability
from limelight.models.protocol import MEMBER_DEFAULTS
from limelight.setting_keywords import MethodSettings

HOME = Path(limelight.__file__).parent
MODULES = sorted(HOME.rglob("*.py"))
VERBS = [name for name in limelight.__all__ if name[0].islower()]
# What chooses behavior by what a model is: its class, or whether it collapses into tables. Readings
# ask the latter once for everybody.
FORK = re.compile(
    r"(hasattr|isinstance|getattr)\((\w+\.)*model\b|"
    r"\b(has|reason_missing)\(.*[\"']tables"
)
ALLOWED_FORK = '        return has(self.model, "tables")'
# Functions and members that say what a model can do, and how many places outside
# limelight.models ask that. The number may only fall.
QUESTION_FUNCTIONS = {
    "has", "reason_missing", "require", "get_property", "query_kind", "has_exact_game",
}  # fmt: skip
# Properties that pass the answer on are counted wherever they are used.
PASSED_ON = {"has_tables", "has_exact_game", "remembers"}
QUESTION_MEMBERS = {"capabilities", *PASSED_ON, *MEMBER_DEFAULTS}
QUESTION_MEMBERS -= {"inputs_per_batch", "parallel_batches"}  # they only change the speed
MOST_QUESTIONS = 33
SEARCHED = ("explainers", "cli", "verification", "judging", "runs", "serving", "live", "rendering")


MOST = {"theory": 34}  # one result, one module
MODULES_OF = {
    package: [path for path in MODULES if path.parent == package and path.stem[:2] != "__"]
    for package in {path.parent for path in MODULES}
}
IMPORT = re.compile(r"^\s*(?:from|import) (limelight[\w.]*)(?: import \(?(\w+))?", re.MULTILINE)


def test_a_package_can_be_seen_at_a_glance():
    sizes = {package.name: len(paths) for package, paths in MODULES_OF.items()}
    assert len(sizes) > 15
    assert {name: n for name, n in sizes.items() if n > MOST.get(name, 15)} == {}


def module_name(path):
    parts = path.relative_to(HOME.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers():
    """Modules that import each module, at whatever depth the import stands."""
    results = {module_name(path): set() for path in MODULES}
    for path in MODULES:
        for module, name in IMPORT.findall(path.read_text("utf-8")):
            full = f"{module}.{name}"
            results[full if full in results else module].add(module_name(path))
    return results


def test_no_small_module_serves_a_single_neighbor():
    by = importers()
    lonely = []
    for paths in MODULES_OF.values():
        for path in paths:
            users = by[module_name(path)]
            neighbors = {user.rpartition(".")[0] for user in users}
            small = len(path.read_text("utf-8").splitlines()) < 60
            if small and len(users) == 1 and neighbors == {module_name(path).rpartition(".")[0]}:
                lonely.append(module_name(path))
    assert lonely == []


def test_no_top_level_module_or_package_bears_the_name_of_a_verb():
    taken = {path.relative_to(HOME).parts[0].removesuffix(".py") for path in MODULES}
    assert len(VERBS) > 8
    assert not taken & set(VERBS)


def forks(source):
    """Lines that ask what a model is, but for those that refuse what it is not."""
    lines = source.splitlines()
    after = [*(line.strip() for line in lines[1:]), ""]
    return [
        line
        for line, following in zip(lines, after, strict=True)
        if FORK.search(line)
        and line != ALLOWED_FORK
        and not following.startswith("raise InputError")
    ]


@pytest.mark.parametrize("package", [*SEARCHED, "api.py", "request.py"])
def test_nothing_asks_what_family_a_model_is_of(package):
    paths = [p for p in MODULES if p.relative_to(HOME).parts[0] == package]
    assert paths
    assert {p.name: result for p in paths if (result := forks(p.read_text("utf-8")))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "if isinstance(model, AttentionClassifier):",
        'x = getattr(self.model, "link", None)',
        'exact = has(self.model, "tables")',
    ],
)
def test_the_search_for_forks_can_find_one(line):
    assert forks(f"{line}\n    pass") == [line]
    assert forks(f"{line}\n    raise InputError(why)") == []


def questions_about_models(source):
    """Lines that ask what a model can do; naming a capability as data asks nothing."""
    asking = []
    for node in ast.walk(ast.parse(source)):
        function = node.func if isinstance(node, ast.Call) else None
        name = getattr(function, "id", getattr(function, "attr", None))
        is_call = name in QUESTION_FUNCTIONS
        is_member = isinstance(node, ast.Attribute) and node.attr in QUESTION_MEMBERS
        if is_call or is_member:
            asking.append(node.lineno)
    return asking


def test_few_places_outside_models_ask_what_a_model_can_do():
    places = [
        f"{path.relative_to(HOME)}:{line}"
        for path in MODULES
        if path.relative_to(HOME).parts[0] != "models"
        for line in questions_about_models(path.read_text("utf-8"))
    ]
    assert len(places) == MOST_QUESTIONS, places


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ('if has(model, "spans"): pass', 1),
        ("why = reason_missing(self.model, needs)", 1),
        ("tables = reading.collapsed if reading.has_tables else None", 1),
        ('images = model.reads_images or model.capabilities["spans"]', 2),
        ('kept = method.needs == "spans"', 0),
    ],
)
def test_the_count_of_questions_about_models_finds_them(line, count):
    assert len(questions_about_models(line)) == count


# What images are is in `text`, how models read them in `models`, how they are drawn in `pages`.
# Data sets and training have one module each. These modules beside them only pass images on.
IMAGE_PACKAGES = ("text", "models", "rendering")
IMAGE_MODULES = {"data/images.py", "training/images.py"}
MODULES_PASSING_IMAGES = {
    "cases/case_file.py",  # the file of a case
    "cli/texts.py",  # a path to an image
    "cli/train.py",  # the option --images
    "data/files.py",  # image cells and files among others
    "data/labeled.py",
    "request.py",  # patches as features
    "results/codec.py",  # the stored image of an explanation
    "results/counterfactual.py",
    "results/explanation.py",
    "runs/rows.py",  # the same, in a shard
    "serving/app.py",  # a page of images, and the size of its requests
    "serving/texts.py",
    "training/learning.py",  # the images to learn from
    "training/train_classifier.py",  # the keyword images=
    "training/state.py",
    "training/texts.py",
}
IMAGE_NAME = re.compile(r"pictur|image|(?<!dis)patch|pixel", re.IGNORECASE)


def names_about_images(source):
    """Return the names in code that speak of images; words in strings do not count."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        token.string
        for token in tokens
        if token.type == tokenize.NAME and IMAGE_NAME.search(token.string)
    ]


def test_code_about_images_is_in_few_places():
    modules = {path.relative_to(HOME).as_posix(): path for path in MODULES}
    elsewhere = {
        name
        for name, path in modules.items()
        if name.split("/")[0] not in IMAGE_PACKAGES
        and name not in IMAGE_MODULES
        and names_about_images(path.read_text("utf-8"))
    }
    assert elsewhere == MODULES_PASSING_IMAGES


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("if document.image is not None: pass", 1),
        ("rows = read_images(path)", 1),
        ('raise InputError("give an image")', 0),
        ("dispatch(text)  # not an image", 0),
    ],
)
def test_the_search_for_names_about_images_finds_them(line, count):
    assert len(names_about_images(line)) == count


def test_type_checkers_know_the_settings_of_the_registry():
    """If this fails, run ``python docs/methods/settings.py``."""
    place = HOME.parents[1] / "docs" / "methods" / "settings.py"
    spec = importlib.util.spec_from_file_location("method_settings", place)
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert maker.keywords_module() == maker.KEYWORDS.read_text("utf-8")
    assert set(get_type_hints(MethodSettings)) == {
        setting.name
        for method in METHODS.values()
        if method.settings.__module__.startswith("limelight.explainers.")
        for setting in method.settings.setting_fields
    } - {"replacement", "seed"}  # keywords of the functions


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_has_a_meaning_in_an_implementation(method):
    row = METHODS[method]
    own_value = {field.name for field in fields(row.settings)}
    assert own_value == {name for used in row.implementations for name in used.settings}
    for implementation in row.implementations:
        assert set(implementation.defaults) <= set(implementation.settings)
        assert all(len(meaning) > 8 for meaning in implementation.settings.values())


def test_settings_classes_belong_to_one_method_each():
    classes = [row.settings for row in METHODS.values()]
    assert len(set(classes)) == len(classes)


def test_implementations_need_capabilities_that_there_are():
    needed = {used.needs for row in METHODS.values() for used in row.implementations}
    assert needed - {None} <= set(get_args(Capability))
    assert Capability is not Literal


PROGRAM = """\
from limelight import Comparison, Explanation, Judgment, compare, explain, explain_classes, judge
from limelight import load
from limelight.explainers import Lime

model = load()
one: Explanation = explain(model, "a text", "lime", bandwidth=0.5, scale="logit")
same: Explanation = explain(model, "a text", Lime(bandwidth=0.5), target="positive")
several: list[Explanation] = explain(model, ["a text"], "shapley", tolerance=1e-9)
classes: dict[str, Explanation] = explain_classes(model, "a text")
both: Comparison = compare(model, "a text", methods=["lime", "gxi"], budget="30s")
found: Judgment = judge(model, ["a text"], ["lime"], bandwidth=0.5, seed=3, budget=2.5)
mine: Judgment = judge(model, ["a text"], {"mine": lambda model, text: [1.0]}, columns="all")
"""
WRONG = {
    'explain(model, "a text", tarket="positive")': 'Unexpected keyword argument "tarket"',
    'explain(model, "a text", bandwidth="wide")': "incompatible type",
    'compare(model, "a text", output="logit")': 'Unexpected keyword argument "output"',
    "explain(model, 3)": "incompatible type",
    'judge(model, ["a text"], bandwidt=0.5)': 'Unexpected keyword argument "bandwidt"',
    'judge(model, ["a text"], budget=["long"])': "incompatible type",
}


@pytest.mark.slow
def test_a_mistyped_keyword_fails_in_mypy(tmp_path):
    """With the project's settings and cache, which .ci/run needs anyway."""
    script = tmp_path / "script.py"
    script.write_text(PROGRAM + "\n".join(WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(script)]
    ran = subprocess.run(command, cwd=HOME.parents[1], capture_output=True, text=True, check=False)
    result = ran.stdout
    first = PROGRAM.count("\n") + 1
    for number, (call, sentence) in enumerate(WRONG.items(), start=first):
        lines = [line for line in result.splitlines() if f"script.py:{number}:" in line]
        assert any("error" in line for line in lines), (call, result)
        assert any(sentence in line or "No overload variant" in line for line in lines), result
    wrong = {int(m[1]) for m in re.finditer(r"script\.py:(\d+): error", result)}
    assert wrong == set(range(first, first + len(WRONG)))  # and nothing above is
