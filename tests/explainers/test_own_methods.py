"""Custom methods: registered in a process, or installed with another package."""

import importlib
import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import limelight
from limelight import InputError
from limelight.explainers import (
    METHODS,
    Cost,
    Lime,
    Method,
    exact_implementation,
    registry,
    settings_class,
)

from tiny_models import tiny_model

ROOT = Path(__file__).resolve().parents[2]
OURS = [
    name
    for name, method in METHODS.items()
    if method.settings.__module__.startswith("limelight.explainers.")
]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def guide_block(language):
    """Return the first block of a language in the guide."""
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)[0]


@pytest.fixture
def methods(monkeypatch):
    """Return a registry with the methods of limelight only."""
    fresh = registry.Registry()
    for name in OURS:
        fresh.add_unchecked(METHODS[name])
    fresh._has_searched_packages = True
    monkeypatch.setattr(registry, "METHODS", fresh)
    monkeypatch.setattr("limelight.api.METHODS", fresh)
    return fresh


@pytest.fixture
def alone(methods, tmp_path, monkeypatch):
    """Register the method of the guide by its import."""
    (tmp_path / "limelight_alone.py").write_text(guide_block("python"), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "limelight_alone", raising=False)
    import_module("limelight_alone")
    monkeypatch.delitem(sys.modules, "limelight_alone")
    return methods["alone"]


@pytest.mark.parametrize(
    "name", ["lime-theorem", "lime-first-order", "lime-mean-field", "shapley-mean-field"]
)
def test_without_the_reproduction_the_message_says_how_to_get_its_methods(methods, name):
    for ask in (
        lambda: limelight.explain(tiny_model(), "w1 w2", name),
        lambda: limelight.compare(tiny_model(), "w1 w2", methods=["loo", name]),
        lambda: limelight.judge(tiny_model(), ["w1 w2"], [name]),
    ):
        with pytest.raises(InputError) as caught:
            ask()
        assert str(caught.value) == (
            f"the method {name!r} is in limelight-reproduction, which is not installed. In a "
            "checkout of limelight, run: pip install ./reproduction."
        )
    assert name not in limelight.methods().to_csv()


def test_a_registered_method_explains(methods, alone):
    limelight.register(alone)
    model = tiny_model()
    e = limelight.explain(model, "w1 w2 w3", "alone")
    unknown = ["xx", "yy", "zz"]  # not in the vocabulary of the model
    texts = [" ".join((*unknown[:i], f"w{i + 1}", *unknown[i + 1 :])) for i in range(3)]
    gained = (model.logits(texts) - model.logits([" ".join(unknown)]))[:, 0]
    np.testing.assert_allclose(e.scores, gained, rtol=1e-9)
    assert (e.label, e.settings["replacement"]) == ("Alone", "unk")
    assert limelight.explain(model, "w1 w2 w3", alone.settings(replacement="unk")) == e
    comparison = limelight.compare(model, "w1 w2", methods=["loo", "alone"])
    assert [e.method for e in comparison] == ["loo", "alone"]
    assert [row.id for row in limelight.methods()][-1] == "alone"
    with pytest.raises(
        InputError, match=r"unknown setting of method 'alone': 'seed'\. Choose from: replacement"
    ):
        limelight.explain(model, "w1 w2 w3", "alone", seed=1)


def test_a_method_can_be_registered_again_but_its_id_is_unique(methods, alone):
    limelight.register(alone)
    changed = replace(
        alone, label="Alone, corrected", settings=settings_class(copy_settings_class(alone))
    )
    limelight.register(changed)  # as a notebook does if a cell runs twice
    assert list(methods)[-2:] == ["anchors", "alone"]
    assert methods["alone"] is changed
    changed.settings.__module__ = "elsewhere"
    with pytest.raises(
        InputError, match=r"the id 'alone' belongs to another method\. Choose another id\."
    ):
        limelight.register(alone)


def with_implementation(method, **changes):
    """Return the method with another implementation."""
    return replace(method, implementations=(replace(method.implementations[0], **changes),))


def copy_settings_class(method, *, default=True):
    """Return the class of the method's settings as a user writes it."""
    old = method.settings
    own_value = {"__module__": old.__module__, "__qualname__": old.__qualname__}
    own_value |= {"replacement": "auto"} if default else {}
    return type(old.__name__, (), own_value | {"__annotations__": {"replacement": str}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: replace(m, id="Alone!"),
            "must be lower-case words with dashes, such as 'my-method', not 'Alone!'.",
        ),
        (lambda m: replace(m, id="lime"), "the id 'lime' belongs to another method."),
        (
            lambda m: replace(m, settings=dict),
            "'alone' must be a class that limelight.explainers.settings_class decorates, not",
        ),
        (
            lambda m: replace(m, settings=Lime),
            "the setting 'answers' of method 'alone' must be in its settings class and, with a "
            "meaning, in an implementation.",
        ),
        (lambda m: replace(m, implementations=()), "method 'alone' has no implementation"),
        (
            lambda m: replace(
                m, implementations=(replace(m.implementations[0], settings={"scale": "a scale"}),)
            ),
            "the setting 'replacement' of method 'alone' must be in its settings class and, with "
            "a meaning, in an implementation.",
        ),
        (
            lambda m: with_implementation(m, exactness="exakt"),
            "unknown exactness: 'exakt'. Did you mean 'exact'?",
        ),
        (
            lambda m: with_implementation(m, hidden_settings=("seed",)),
            "unknown setting of an implementation of method 'alone': 'seed'.",
        ),
        (
            lambda m: with_implementation(m, cost=Cost(settings=("sample",))),
            "unknown setting of an implementation of method 'alone': 'sample'.",
        ),
        (
            lambda m: replace(m, settings=settings_class(copy_settings_class(m, default=False))),
            "the setting 'replacement' of method 'alone' needs a default",
        ),
        (
            lambda m: type("Inherited", (m.settings,), {}),
            "a limelight.explainers.Method, or a class that register_method decorates, not",
        ),
    ],
)
def test_a_wrong_method_raises_an_error(methods, alone, change, message):
    with pytest.raises(InputError, match=re.escape(message)):
        limelight.register(change(alone))
    assert methods["alone"] is alone


def test_a_method_that_is_only_exact_names_its_replacement(methods, alone):
    exact = exact_implementation(lambda *_: [], ("tolerance", "replacement"))
    own_value = {"__module__": __name__, "tolerance": None, "replacement": "auto"}
    hints = {"__annotations__": {"tolerance": float | None, "replacement": str}}
    settings = settings_class(type("Exactly", (), own_value | hints))
    limelight.register(replace(alone, id="exactly", settings=settings, implementations=(exact,)))
    with pytest.raises(InputError) as error:
        limelight.explain(limelight.load(), "A dull script.", "exactly", replacement="delete")
    assert str(error.value) == (
        "method 'exactly' supports only replacement='unk' for this model. Leave replacement out, "
        "or use 'lime'."
    )


def test_settings_belong_to_one_method(methods, alone):
    limelight.register(alone)
    with pytest.raises(
        InputError, match=r"methods 'alone' and 'other' have the same settings class\. Give each"
    ):
        limelight.register(replace(alone, id="other"))


def install(folder, name, point):
    """Write the files of an installed package that name its entry point."""
    info = folder / f"{name.replace('-', '_')}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[limelight.methods]\n{point}\n")


def test_packages_are_read_once_and_the_message_names_a_broken_one(methods, tmp_path, monkeypatch):
    (tmp_path / "limelight_alone.py").write_text(guide_block("python"), "utf-8")
    (tmp_path / "limelight_torn.py").write_text("import no_such_module_at_all\n", "utf-8")
    install(tmp_path, "limelight-alone", "alone = limelight_alone:Alone")
    install(tmp_path, "limelight-torn", "torn = limelight_torn:TORN")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "limelight_alone", raising=False)
    methods._has_searched_packages = False
    assert methods["lime"].label == "LIME"
    assert not methods._has_searched_packages  # methods of limelight need no search
    assert isinstance(methods["alone"], Method)
    message = "the method 'torn' of the package 'limelight-torn' cannot be used: "
    assert methods.load_errors["torn"].startswith(f"{message}ModuleNotFoundError(")
    with pytest.raises(InputError, match=re.escape(message)):
        registry.find_method("torn")
    with pytest.warns(UserWarning, match=re.escape(message)):
        assert "alone" in [row.id for row in limelight.methods()]
    monkeypatch.delitem(sys.modules, "limelight_alone")


def test_methods_are_listed_in_the_order_of_their_modules():
    homes = [METHODS[name].settings.__module__.rpartition(".")[2] for name in OURS]
    assert list(dict.fromkeys(homes)) == list(registry.MODULES)
    assert list(METHODS)[: len(OURS)] == OURS


@pytest.mark.parametrize("name", ["lime", "lime-sampled", "shapley", "banzhaf", "anchors"])
def test_a_method_is_found_without_the_modules_of_the_others(name):
    program = f"""
import sys
from limelight.explainers import METHODS

METHODS[{name!r}]
homes = {{module: f"limelight.explainers.{{module}}" for module in {registry.MODULES}}}
print(*[module for module, home in homes.items() if home in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [name.partition("-")[0]]


COMMANDS = """\
import contextlib, json, pathlib, sys
from limelight.cli import main

pathlib.Path("texts.csv").write_text("text\\na superb film\\nthe plot is bad and so is the end\\n")
for command in (
    ["methods", "alone"],
    ["explain", "-m", "alone", "--set", "replacement=unk", "a superb film"],
    ["compare", "-m", "alone,loo", "--format", "json", "a superb film"],
    ["judge", "-d", "texts.csv", "-m", "alone,loo"],
):
    try:
        main(command)
    except SystemExit as left:
        assert not left.code, command
from limelight import load
from limelight.serving.app import ServedModel, model_facts
from limelight.serving.texts import TextRequest, explain_text

served = ServedModel(name="ours", model=load())
assert "alone" in [row["id"] for row in model_facts(served)["methods"]]
request = TextRequest(tab="t", panel="p", text="a superb film", methods=["alone"])
print(explain_text(served.model, request, lambda *_: None)["errors"])
"""


@pytest.mark.slow
def test_a_package_of_one_file_is_installed_and_every_command_knows_its_method(tmp_path):
    package, target = tmp_path / "package", tmp_path / "site"
    package.mkdir()
    (package / "limelight_alone.py").write_text(guide_block("python"), "utf-8")
    (package / "pyproject.toml").write_text(guide_block("toml"), "utf-8")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", target, package],
        check=True,
    )
    sources = f"{target}:{Path(limelight.__file__).parents[1]}"
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        cwd=tmp_path,
        env={"PYTHONPATH": sources, "HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "f(the word alone) − f(no word)" in done.stdout
    assert done.stdout.count("Alone") >= 3
    assert done.stdout.endswith("{}\n")


def test_a_module_with_two_methods_may_be_imported_before_the_packages_are_searched(
    methods, tmp_path, monkeypatch
):
    code = guide_block("python").replace("limelight_alone", "limelight_twins")
    second = code[code.index("@register_method") :]
    second = second.replace('id="alone"', 'id="second"').replace("class Alone", "class Second")
    (tmp_path / "limelight_twins.py").write_text(f"{code}\n\n{second}", "utf-8")
    install(
        tmp_path,
        "limelight-twins",
        "alone = limelight_twins:Alone\nsecond = limelight_twins:Second",
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "limelight_twins", raising=False)
    methods._has_searched_packages = False
    importlib.import_module("limelight_twins")
    assert {"alone", "second"} <= set(methods)
    assert not methods.load_errors
