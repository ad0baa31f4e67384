"""What the documentation says is true: pages, commands, outputs, Python."""

import importlib
import importlib.util
import io
import json
import re
import shlex
import sys
import tomllib
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from limelight.cli import COMMANDS
from limelight.explainers import METHODS
from limelight.explainers.learned import LEARNED

from known import OURS

ROOT = Path(__file__).resolve().parents[1]
_REPRODUCTION = tomllib.loads((ROOT / "reproduction" / "pyproject.toml").read_text("utf-8"))
BROUGHT = _REPRODUCTION["project"]["entry-points"]  # commands and methods of the reproduction
RESEARCH = set(BROUGHT["limelight.methods"])
KNOWN_COMMANDS = {*COMMANDS, *BROUGHT["limelight.commands"]}
DOCS = [
    ROOT / "README.md",
    *sorted(
        page
        for folder in ("", "tutorials", "how-to", "migrating", "explanation", "reference", "api")
        for page in (ROOT / "docs" / folder).glob("*.md")
    ),
]
METHOD_PAGES = sorted((ROOT / "docs" / "methods").glob("*.md"))
LINKED = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
HEADINGS = (
    "Formula",
    "What it sees",
    "What it cannot see",
    "Cost",
    "Settings",
    "How far to trust it",
    "Oracle",
    "How to read its scores",
)
NEEDS_FILES = ("data", "explain-data", "train", "evaluate", "judge", "summarize", "serve")
pages = pytest.mark.parametrize("page", [*DOCS, *METHOD_PAGES], ids=lambda page: page.stem)


@pytest.fixture(autouse=True)
def only_our_methods(monkeypatch):
    """Forget what a page registers."""
    for known in ("_known", "_by_settings"):
        monkeypatch.setattr(METHODS, known, dict(getattr(METHODS, known)))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def captures(page):
    """Commands in a page's console blocks, each with the output that is shown for it."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def test_every_method_has_its_page_and_every_page_a_method():
    stems = {page.stem for page in METHOD_PAGES}
    # One that is learned is a row of its own for every model.
    assert set(METHODS) <= stems <= {*METHODS, LEARNED} | RESEARCH
    assert {LEARNED, *RESEARCH} <= stems


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_a_method_page_says_what_a_reader_needs(page):
    assert tuple(re.findall(r"^## (.*)$", page.read_text("utf-8"), re.M)) == HEADINGS


def maker_of(name):
    place = ROOT / "docs" / "methods" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"method_{name}", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", METHODS)
def test_a_method_page_lists_the_settings_of_the_registry(name):
    """Where this fails, ``python docs/methods/settings.py`` mends it."""
    maker, text = (
        maker_of("settings"),
        (ROOT / "docs" / "methods" / f"{name}.md").read_text("utf-8"),
    )
    assert text == maker.page_with_settings(name)
    assert maker.section(METHODS[name]) in text


@pytest.mark.parametrize("name", METHODS)
def test_a_method_page_says_how_faithful_the_method_was_found_to_be(name):
    """Where this fails, ``python docs/methods/shares.py`` mends it."""
    maker, text = maker_of("shares"), (ROOT / "docs" / "methods" / f"{name}.md").read_text("utf-8")
    assert text == maker.page_with_shares(name)
    assert maker.block(METHODS[name]) in text


def test_shares_on_the_pages_are_those_that_were_stored():
    """By another road: two numbers, read from the files by hand."""
    for result, page, method in (
        ("judging_every", "gxi", "gxi"),
        ("judging_cuda_every", "shapley", "shapley, pairs=5"),
    ):
        found = json.loads((ROOT / "benchmarks/results" / f"{result}.json").read_text("utf-8"))
        (share,) = [one["value"] for one in found["measures"] if one["id"] == method]
        assert f"{share:.3f} [" in (ROOT / "docs/methods" / f"{page}.md").read_text("utf-8")


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_an_oracle_that_a_page_names_is_there(page):
    (section,) = re.findall(r"^## Oracle\n(.*?)^## ", page.read_text("utf-8"), re.M | re.S)
    if same := re.search(r"The same as for \[.*\]\((.*)\)", section):
        section = (page.parent / same[1]).read_text("utf-8")
    named = re.findall(r"`((?:reproduction/)?tests/[\w/.]+)`", section)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_two_pages_name_every_registered_method():
    for page in (ROOT / "docs" / "how-to" / "choose-method.md", ROOT / "docs" / "index.md"):
        named = set(re.findall(r"methods/([\w-]+)\.md\)", page.read_text("utf-8")))
        assert set(OURS) <= named, page
        assert (named >= RESEARCH) == (page.stem == "index"), page


def test_the_page_of_commands_has_a_row_for_each():
    text = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    assert set(re.findall(r"^\| `limelight ([\w-]+)", text, re.M)) == KNOWN_COMMANDS


def test_readme_counts_the_methods_right():
    tens = {
        20 + i: f"twenty-{one}"
        for i, one in enumerate(("one", "two", "three", "four", "five", "six", "seven"), 1)
    }
    words = {18: "eighteen", 19: "nineteen", 20: "twenty", **tens}
    assert f"with {words[len(OURS)]} methods" in (ROOT / "README.md").read_text("utf-8")


def slug(heading):
    bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    bare = unicodedata.normalize("NFKD", bare).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", bare).strip().lower())


@cache
def anchors(page):
    """The places of a page that a link may name, as the site makes them of its headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    found = Counter(re.findall(r'<a id="([\w-]+)">', text))
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        found[slug(heading)] += 1
    return {f"{name}_{i}" if i else name for name, times in found.items() for i in range(times)}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target, place in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text("utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if place and file.suffix == ".md" and "api" not in file.parts:  # those are of docstrings
            assert place in anchors(file), f"{target}#{place}"


# What a newcomer asks, the place that answers it, and a phrase of the answer.
QUESTIONS = {
    "how do I explain my model": ("tutorials/hugging-face.md", 'limelight.load("path/to/my-bert")'),
    "why is it slow": ("quickstart.md#a-budget", 'budget="300 calls"'),
    "which method": ("how-to/choose-method.md#all-methods", "shapley"),
    "what is ±": ("explanation/standard-errors.md", "within two of them in about 95 of 100 cases"),
    "what does the score mean": (
        "how-to/choose-method.md#what-a-score-means",
        "+0.7 doubles the odds",
    ),
    "my labels": ("how-to/data-sets.md#the-data", "matched with classes by name"),
    "Chinese": ("how-to/features.md#scripts-without-spaces", "Chinese, Japanese, Thai"),
    "GPU": ("how-to/own-model.md#the-papers-classifier-on-a-gpu", 'device="cuda"'),
    "10,000 texts": ("tutorials/data-set.md", "limelight explain-data"),
    "cite": ("installing.md#citing", "@software{limelight"),
}


def links_of(page):
    for target, place in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text("utf-8")):
        if "://" not in target:
            yield (page.parent / target).resolve() if target else page, place


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_two_clicks_of_the_index(question):
    answer, phrase = QUESTIONS[question]
    name, _, place = answer.partition("#")
    page, index = ROOT / "docs" / name, ROOT / "docs" / "index.md"
    first = {file for file, _ in links_of(index)}
    second = {link for one in first if one.suffix == ".md" for link in links_of(one)}
    if place:  # a click that lands in the right place, or on the page of which it is a part
        assert (page, place) in second or page in first
    else:
        assert page in first | {file for file, _ in second}
    text = page.read_text("utf-8")
    if place:
        (heading,) = [one for one in re.findall(r"^#+ .*$", text, re.M) if slug(one) == place]
        text = text.partition(f"{heading}\n")[2]
    assert phrase in text
    questions = (ROOT / "docs" / "faq.md").read_text("utf-8")
    assert f"]({answer}" in questions or f"]({name}" in questions


def test_a_guide_begins_with_what_its_reader_can_do_afterwards():
    from docs_site.navigation import sections

    guides = [page for section in sections() if section.title == "Guides" for page in section.pages]
    assert len(guides) >= 10
    for page in guides:
        _, first, *_ = page.read_text("utf-8").split("\n\n")
        assert first.startswith("After reading this you "), page.name


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
    if any("../shared" in block for block in blocks(page, "python")):
        pytest.skip("its models and data are not in this repository")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
        printed = iter(capsys.readouterr().out.splitlines())
        for promised in re.findall(r"^# (.*)$", block, re.M):
            pattern = re.escape(promised).replace(r"\.\.\.", r"\d*")
            assert any(re.fullmatch(pattern, line) for line in printed), promised


def test_numbers_in_the_readme_block_are_the_printed_ones(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(ROOT / "README.md", "python")
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"^print.*?# (.*?)(?:: .*)?$", block, re.M)
    assert len(printed) == len(promised) == 3
    for line, comment in zip(printed, promised, strict=True):
        pattern = re.escape(comment).replace(r"\.\.\.", r"\d*")
        if comment == "9.9e-07":
            line = f"{float(line):.1e}"
        assert re.fullmatch(pattern, line), (line, comment)


@pytest.mark.slow
def test_the_readme_explains_ones_own_bert_within_its_first_lines():
    folder = ROOT.parent / "shared" / "models" / "minilm-imdb"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    pytest.importorskip("transformers")
    text = (ROOT / "README.md").read_text("utf-8")
    (block,) = blocks(ROOT / "README.md", "pycon")
    assert blocks(ROOT / "docs" / "quickstart.md", "pycon") == [block]
    assert text[: text.index(block)].count("\n") + block.count("\n") <= 45
    lines = block.replace("path/to/my-bert", str(folder)).splitlines()
    *made, asked = [line[4:] for line in lines if line.startswith(">>> ")]
    names = {}
    exec("\n".join(made), names)
    assert repr(eval(asked, names)) == lines[-1]


@pages
def test_commands_run_and_print_what_is_shown(page, limelight, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for command, shown in captures(page):
        piped, _, call = command.rpartition(" | ")
        program, *arguments = shlex.split(call)
        assert program == "limelight", command
        if arguments[0] in NEEDS_FILES or {"--model", "--data"} & set(arguments):
            check_options(limelight, arguments)
            continue
        if piped:
            monkeypatch.setattr(sys, "stdin", printed_by(piped))
        outcome = limelight(*arguments)
        assert outcome.code == 0, (command, outcome.err)
        if shown.strip():
            assert_same_output(outcome.out, shown, command)


def check_options(limelight, arguments):
    page = limelight(arguments[0], "--help").out
    for option in (name for name in arguments if name.startswith("--")):
        assert option in page, option


def printed_by(command):
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


def test_the_readme_answers_in_the_order_of_its_readers_questions():
    text = (ROOT / "README.md").read_text("utf-8")
    wanted = ("![", "## Your own BERT, in two lines", "## Two commands", "| you want to | read |",
              "## Speed", "## The paper, reproduced", "## Limits")  # fmt: skip
    places = [text.index(one) for one in wanted]
    assert places == sorted(places)


def test_readme_has_the_two_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    environment = 'test -n "$VIRTUAL_ENV" || { python3 -m venv .venv && . .venv/bin/activate; }'
    assert f'\n{environment} && pip install . && limelight compare "' in text
    assert "\nscripts/test\n" in text
    assert (ROOT / "scripts" / "test").stat().st_mode & 0o111
    for page in ("quickstart.md", "installing.md"):
        text = (ROOT / "docs" / page).read_text("utf-8")
        assert f"\n{environment} && pip install .\n" in text


def declared(folder):
    """Names of all packages that a ``pyproject.toml`` asks for."""
    import tomllib

    file = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    extras = file["project"].get("optional-dependencies", {}).values()
    wanted = [*file["project"]["dependencies"], *file["build-system"]["requires"]]
    wanted += [name for extra in extras for name in extra]
    return {re.match(r"[\w-]+", name)[0] for name in wanted}


def test_pins_agree_with_what_is_declared():
    pinned = re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.M)
    assert declared(ROOT) | declared(ROOT / "reproduction") - {"limelight"} == set(pinned)
