"""What the documentation says is true: pages, commands, outputs, Python."""

import importlib
import importlib.util
import io
import re
import shlex
import sys
import textwrap
import tomllib
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from limelight.cli import COMMANDS
from limelight.explainers import METHODS
from limelight.explainers.learned import LEARNED

ROOT = Path(__file__).resolve().parents[1]
_REPRODUCTION = tomllib.loads((ROOT / "reproduction" / "pyproject.toml").read_text("utf-8"))
ENTRY_POINTS = _REPRODUCTION["project"]["entry-points"]
RESEARCH_METHODS = set(ENTRY_POINTS["limelight.methods"])
KNOWN_COMMANDS = {*COMMANDS, *ENTRY_POINTS["limelight.commands"]}
DOCS = [
    ROOT / "README.md",
    *sorted(
        page
        for folder in (
            "",
            "tutorials",
            "how-to",
            "migrating",
            "explanation",
            "reference",
            "research",
            "api",
        )
        for page in (ROOT / "docs" / folder).glob("*.md")
    ),
]
METHOD_PAGES = sorted(
    set((ROOT / "docs/methods").glob("*.md")) - {ROOT / "docs/methods/overview.md"}
)
LINKED = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
HEADINGS = ("When to use it", "Formula", "What it cannot see", "Cost", "Settings", "References")
NEEDS_FILES = ("data", "explain-data", "train", "evaluate", "judge", "summarize", "serve")
pytestmark = pytest.mark.usefixtures("restored_methods")  # a page may register methods
pages = pytest.mark.parametrize("page", [*DOCS, *METHOD_PAGES], ids=lambda page: page.stem)


def read_blocks(page, language):
    """Read the code blocks of a page, also those that tabs indent."""
    matches = re.findall(rf"^( *)```{language}\n(.*?)^\1```", page.read_text("utf-8"), re.M | re.S)
    return [textwrap.dedent(block) for _, block in matches]


def read_commands(page):
    """Yield the commands of a page's console blocks, each with the output that the page shows."""
    for block in read_blocks(page, "console"):
        block = re.sub(r"\\\n *", "", block)  # a command on several lines
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def test_every_method_has_its_page_and_every_page_a_method():
    stems = {page.stem for page in METHOD_PAGES}
    assert stems == {*METHODS, LEARNED} - RESEARCH_METHODS


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_a_method_page_has_the_usual_headings(page):
    assert tuple(re.findall(r"^## (.*)$", page.read_text("utf-8"), re.M)) == HEADINGS


def load_settings_script():
    """Import ``docs/methods/settings.py``."""
    spec = importlib.util.spec_from_file_location(
        "method_settings", ROOT / "docs" / "methods" / "settings.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_a_method_page_lists_the_settings_of_the_registry(page):
    """If this fails, run ``python docs/methods/settings.py``."""
    if page.stem == LEARNED:
        return
    script, text = load_settings_script(), page.read_text("utf-8")
    assert text == script.page_with_settings(page.stem)
    assert script.section(METHODS[page.stem]) in text


def test_the_overview_names_every_method():
    text = (ROOT / "docs" / "methods" / "overview.md").read_text("utf-8")
    assert {page.stem for page in METHOD_PAGES} <= set(re.findall(r"\(([\w-]+)\.md\)", text))


def test_the_page_of_commands_has_a_row_for_each():
    text = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    assert set(re.findall(r"^\| `limelight ([\w-]+)", text, re.M)) == KNOWN_COMMANDS


def slug(heading):
    bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    bare = unicodedata.normalize("NFKD", bare).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", bare).strip().lower())


@cache
def anchors(page):
    """The places of a page that a link may name, as the site makes them of its headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    result = Counter(re.findall(r'<a id="([\w-]+)">', text))
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        result[slug(heading)] += 1
    return {f"{name}_{i}" if i else name for name, times in result.items() for i in range(times)}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target, place in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text("utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if place and file.suffix == ".md" and "api" not in file.parts:  # those are of docstrings
            assert place in anchors(file), f"{target}#{place}"


# The questions of a newcomer, the heading that answers each, and a phrase of the answer.
QUESTIONS = {
    "How do I explain my BERT?": ("tutorials/hugging-face.md", 'limelight.load("'),
    "How do I install it?": ("installing.md", "pip install ."),
    "Why is it slow?": ("how-to/faster.md", "budget="),
    "What does the score mean?": ("explanation/scores.md", "log-odds"),
    "Which method?": ("how-to/choose-method.md", "shapley"),
    "What is ±?": ("explanation/standard-errors.md", "standard error"),
    "Can I use it in a notebook?": ("faq.md", "Jupyter"),
    "Does it support multi-label models?": ("faq.md", "multi-label"),
    "I run out of memory": ("faq.md", "batch_size"),
    "LoRA, PEFT and quantized models": ("faq.md", "merge_and_unload"),
    "What is the license?": ("faq.md", "MIT"),
    "How do I explain 10,000 texts?": ("tutorials/data-set.md", "limelight explain-data"),
    "Does it explain a regression model?": ("faq.md", "regression"),
    "My labels have other names": ("how-to/data-sets.md", "labels="),
    "Chinese": ("how-to/features.md", "Chinese"),
    "GPU": ("faq.md", 'device="cuda"'),
    "cite": ("installing.md", "@software{limelight"),
}


def list_links(page):
    for target in re.findall(r"\]\(([^)#\s]*)", page.read_text("utf-8")):
        if "://" not in target:
            yield (page.parent / target).resolve() if target else page


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_two_clicks_of_the_index(question):
    name, phrase = QUESTIONS[question]
    page = ROOT / "docs" / name
    first_click = set(list_links(ROOT / "docs" / "index.md"))
    second_click = {
        link for target in first_click if target.suffix == ".md" for link in list_links(target)
    }
    assert page in first_click | second_click
    assert phrase in page.read_text("utf-8")


def test_no_example_prints_only_true_or_false():
    """A truth value shows nothing to a reader; it is a test."""
    for page in [*DOCS, *METHOD_PAGES]:
        for block in read_blocks(page, "python"):
            assert not re.findall(r"^# (?:True|False)(?: (?:True|False))*$", block, re.M), page


@pytest.mark.parametrize("page", [*DOCS, *METHOD_PAGES], ids=lambda page: page.stem)
def test_code_is_not_wider_than_the_site(page):
    """The site shows 86 characters per line at 1280 pixels. README.md is not on the site."""
    languages = re.findall(r"^ *```(\w+)", page.read_text("utf-8"), re.M)
    rows = [
        row
        for language in set(languages)
        for block in read_blocks(page, language)
        for row in block.splitlines()
    ]
    assert page.name == "README.md" or [row for row in rows if len(row) > 86] == []


def test_generated_pages_say_so():
    generated = [ROOT / "docs/reproduction.md", *(ROOT / "docs/reference").glob("[mr]e*s.md")]
    assert len(generated) == 2
    for page in generated:
        assert page.read_text("utf-8").startswith("<!-- generated -->"), page


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page.stem in ("learning", "shap") else page
        for page in (*DOCS, *METHOD_PAGES)
    ],
    ids=lambda page: page.stem,
)
@pytest.mark.filterwarnings("ignore:The set_(bad|over|under):PendingDeprecationWarning")  # of shap
def test_python_blocks_run_and_print_what_comments_say(page, tmp_path, monkeypatch, capsys):
    """In one session per page: a later block may use what an earlier one made.

    Comments that fill a line of a Python block are outputs, in order; dots stand for digits.
    Pages with blocks about ../shared have tests of their own.
    """
    if any("../shared" in block for block in read_blocks(page, "python")):
        pytest.skip("its models and data are not in this repository")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in read_blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
        printed = iter(capsys.readouterr().out.splitlines())
        for promised in re.findall(r"^# (.*)$", block, re.M):
            pattern = re.escape(promised).replace(r"\.\.\.", r"\d*")
            assert any(re.fullmatch(pattern, line) for line in printed), promised


@pytest.mark.slow
def test_the_readme_explains_ones_own_bert_within_its_first_lines():
    folder = ROOT.parent / "shared" / "models" / "minilm-imdb"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    pytest.importorskip("transformers")
    text = (ROOT / "README.md").read_text("utf-8")
    (block,) = read_blocks(ROOT / "README.md", "pycon")
    assert text[: text.index(block)].count("\n") + block.count("\n") <= 60
    lines = block.replace("path/to/my-bert", str(folder)).splitlines()
    *created, request = [line[4:] for line in lines if line.startswith(">>> ")]
    names = {}
    exec("\n".join(created), names)
    assert repr(eval(request, names)) == lines[-1]


@pages
def test_commands_run_and_print_what_is_shown(page, limelight, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for block in read_blocks(page, "toml"):
        if (name := re.match(r"# (\S+\.toml)\n", block)) is not None:
            (tmp_path / name[1]).write_text(block, "utf-8")
    for command, output in read_commands(page):
        piped, _, call = command.rpartition(" | ")
        program, *arguments = shlex.split(call)
        assert program == "limelight", command
        if arguments[0] in NEEDS_FILES or {"--model", "--data"} & set(arguments):
            check_options(limelight, arguments)
            continue
        if piped:
            monkeypatch.setattr(sys, "stdin", printf_output(piped))
        outcome = limelight(*arguments)
        # A page shows how a check fails.
        assert outcome.code == (arguments[0] == "check"), (command, outcome.err)
        if output.strip():
            assert_same_output(outcome.out, output, command)


def check_options(limelight, arguments):
    page = limelight(arguments[0], "--help").out
    for option in (name for name in arguments if name.startswith("--")):
        assert option in page, option


def printf_output(command):
    """Standard input as ``printf`` would feed it."""
    program, text = shlex.split(command)
    assert program == "printf"
    return io.TextIOWrapper(io.BytesIO(text.replace(r"\n", "\n").encode()))


NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")


def assert_same_output(output, shown, command):
    """Compare what a command prints with a page; long numbers may differ in their last digits.

    The last digits of float64 depend on the processor.
    """
    assert NUMBER.sub("#", "\n".join(lines(output))) == NUMBER.sub("#", "\n".join(lines(shown))), (
        command
    )
    for printed, expected in zip(NUMBER.findall(output), NUMBER.findall(shown), strict=True):
        if len(expected) < 12:
            assert printed == expected, command
        else:
            assert float(printed) == pytest.approx(float(expected), rel=1e-6), command


def lines(output):
    return [line.rstrip() for line in output.strip().splitlines()]


@pages
def test_named_commands_exist(page):
    for command in re.findall(r"`limelight ([a-z]+)", page.read_text("utf-8")):
        assert command in KNOWN_COMMANDS, command


def test_the_readme_is_short_and_names_the_two_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) <= 400
    for command in ("demo", "test"):
        assert f"`scripts/{command}`" in text
        assert (ROOT / "scripts" / command).stat().st_mode & 0o111


def declared_packages(folder):
    """Names of all packages that a ``pyproject.toml`` asks for."""
    import tomllib

    file = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    extras = file["project"].get("optional-dependencies", {}).values()
    wanted = [*file["project"]["dependencies"], *file["build-system"]["requires"]]
    wanted += [name for extra in extras for name in extra]
    return {re.match(r"[\w-]+", name)[0] for name in wanted}


def test_pins_agree_with_what_is_declared():
    pinned = re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.M)
    assert declared_packages(ROOT) | declared_packages(ROOT / "reproduction") - {
        "limelight"
    } == set(pinned)
