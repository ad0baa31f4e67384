"""What a message advises works: the call after the advice, beside the call that brings it.

A row is a message, the call that raises it (or whose result has it as a warning), and the calls
that follow its advice. Those calls may take numbers from the message: ``{1}`` is its first.
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import limelight as lime_light
from limelight import InputError, explain
from limelight.explainers import Banzhaf, Lime

SOURCE = Path(lime_light.__file__).parent
WORDS = [f"w{i}" for i in range(1, 41)]
TEXT, LONG = " ".join(WORDS[:15]), " ".join(WORDS)
SENTENCES = " ".join(f"Here w{i} is, and w{i + 1} goes on with w{i + 2}." for i in range(12))
TWICE = "The plot is good. The cast is good too. The end is dull, and dull it stays."


def scores(texts):
    sets = [{int(word) for word in re.findall(r"w(\d+)", text)} for text in texts]
    return np.array([[0.0, sum(s) / 30 + 2.0 * ({1, 3, 5} <= s) - ({2, 3} <= s)] for s in sets])


def probabilities(texts):
    good = 1 / (1 + np.exp(-scores(texts)[:, 1] / 10))
    return np.column_stack([1 - good, good])


FUNCTION = lime_light.wrap(scores, classes=["bad", "good"], scale="logit")
PRICES = lime_light.wrap(lambda texts: scores(texts)[:, 1:], classes=["price"], scale="score")
SHIPPED = lime_light.load()


class Row(NamedTuple):
    """A message, the call that brings it, and calls that follow what it advises."""

    message: str
    wrong: tuple
    right: list


def row(message, wrong, *right):
    return Row(message, wrong, list(right))


def of(text, method=None, model=FUNCTION, verb=explain, **keywords):
    return (verb, (model, text, *([] if method is None else [method])), keywords)


def compare_call(**keywords):
    return (lime_light.compare, (FUNCTION, TEXT), keywords)


def judge_call(*texts, **keywords):
    methods = keywords.pop("methods", ["loo"])
    return (lime_light.judge, (FUNCTION, list(texts), methods), keywords)


def wrap_call(function, **keywords):
    def explain_with(function, **keywords):
        return explain(lime_light.wrap(function, **keywords), "w1 w2 w3")

    return (explain_with, (function,), keywords)


RAISED = [
    row(
        "give budget or 'samples', not both",
        of(TEXT, "lime", samples=50, budget="99 calls"),
        of(TEXT, "lime", samples=50),
        of(TEXT, "lime", budget="99 calls"),
    ),
    row(
        "Leave budget out, and set its numbers of samples instead",
        of("A dull script.", "anchors", SHIPPED, budget="99 calls"),
        of("A dull script.", "anchors", SHIPPED, threshold=0.95, samples=50, max_samples=100),
    ),
    row(
        "Pass threshold=0.95 too, or leave max_size out",
        of("A dull script.", "anchors", SHIPPED, max_size=2),
        of("A dull script.", "anchors", SHIPPED, max_size=2, threshold=0.95),
        of("A dull script.", "anchors", SHIPPED),
    ),
    row(
        "Pass threshold=0.95 too, or leave seed out",
        of("A dull script.", "anchors", SHIPPED, seed=4),
        of("A dull script.", "anchors", SHIPPED, seed=4, threshold=0.95),
        of("A dull script.", "anchors", SHIPPED),
    ),
    row(
        "a precision below 1 is measured. Leave nodes or threshold out",
        of("A dull script.", "anchors", SHIPPED, nodes=9, threshold=0.95),
        of("A dull script.", "anchors", SHIPPED, threshold=0.95),
        of("A dull script.", "anchors", SHIPPED, nodes=9),
    ),
    row(
        "Leave until out, or use 'shapley'",
        of("w1 w2 w3", "anchors", until="top 1"),
        of("w1 w2 w3", "anchors"),
        of("w1 w2 w3", "shapley", until="top 1"),
    ),
    row(
        r"Use a budget of ([\d,]+) calls, or use '(\w+)' \(\d+ calls\)",
        of(LONG, "lime", budget="43 calls"),
        of(LONG, "lime", budget="{1} calls"),
        of(LONG, "{2}", budget="43 calls"),
    ),
    row(
        r"Use a budget of ([\d,]+) calls, or ([\d,]+) calls and '(\w+)'",
        of(LONG, "lime", budget="41 calls"),
        of(LONG, "lime", budget="{1} calls"),
        of(LONG, "{3}", budget="{2} calls"),
    ),
    row(
        "For more orders, set pairs instead",
        of(LONG, "shapley", orders=3),
        of(LONG, "shapley", pairs=3),
        of(LONG, "shapley", orders=2),
    ),
    row(
        "Leave few_calls out",
        of(LONG, "banzhaf", few_calls=60, samples=200),
        of(LONG, "banzhaf", samples=200),
    ),
    row(
        r"no method is left to compare.* Shapley needs .*? Use a budget of ([\d,]+) calls",
        compare_call(methods=None, budget="3 calls"),
        compare_call(methods=None, budget="{1} calls"),
    ),
    row(
        r"Shapley needs .*? Use a budget of ([\d,]+) calls",
        compare_call(methods=["shapley", "loo", "banzhaf"], budget="20 calls"),
        compare_call(methods=["shapley", "loo"], budget="{1} calls"),
    ),
    row(
        r"use '(\w+)', which needs no calls",
        of("A dull script.", "lime-sampled", SHIPPED, budget="1 call"),
        of("A dull script.", "{1}", SHIPPED, budget="1 call"),
    ),
    row(
        r'budget must be a time \(30, "30s", "2min"\) or a number of model calls \("400 calls"\)',
        of(TEXT, budget="3 days"),
        *(of("w1 w2 w3 w4", budget=inputs) for inputs in (30, "30s", "2min", "200 calls")),
    ),
    row(
        "Leave sampler out, or set pairs instead of tolerance",
        of(TEXT, "shapley", sampler="regression", tolerance=1.0),
        of(TEXT, "shapley", tolerance=1.0),
        of(TEXT, "shapley", sampler="regression", pairs=30),
    ),
    row(
        r"a regression on .* Set pairs to (\d+) or more, or leave sampler out",
        of(TEXT, "shapley", sampler="regression", pairs=3),
        of(TEXT, "shapley", sampler="regression", pairs="{1}"),
        of(TEXT, "shapley", pairs=3),
    ),
    row(
        r"pairs must be at least (\d+), not 1, because one pair has no standard error",
        of(TEXT, "shapley", pairs=1),
        of(TEXT, "shapley", pairs="{1}"),
    ),
    row(
        r"max_pairs must be at least (\d+) with tolerance",
        of(TEXT, "shapley", max_pairs=5, tolerance=1.0),
        of(TEXT, "shapley", max_pairs="{1}", tolerance=1.0),
    ),
    row(
        r"max_samples must be at least samples \((\d+)\)",
        of(TEXT, "lime", samples=50, max_samples=20),
        of(TEXT, "lime", samples=50, max_samples="{1}"),
    ),
    row(
        r"Banzhaf values of 40 features need at least (\d+) samples",
        of(LONG, "banzhaf", samples=10, max_samples=10),
        of(LONG, "banzhaf", samples="{1}"),
    ),
    row(
        r"interactions of 40 features need at least (\d+) samples",
        of(LONG, "interactions", samples=10, max_samples=10),
        of(LONG, "interactions", samples="{1}"),
    ),
    row(
        r"samples do not determine LIME's scores .*\. Set samples to (\d+) or more",
        of(LONG, "lime", samples=10, max_samples=10),
        of(LONG, "lime", samples="{1}"),
    ),
    row(
        r"Owen values of .* Set samples to ([\d,]+), or use a budget of ([\d,]+) calls",
        of(SENTENCES, "owen", samples=20),
        of(SENTENCES, "owen", samples="{1}"),
        of(SENTENCES, "owen", budget="{2} calls"),
    ),
    row(
        "Use 'lime', 'shapley' or 'loo'",
        of(TEXT, "anchors", PRICES),
        *(of(TEXT, method, PRICES) for method in ("lime", "shapley", "loo")),
    ),
    row(
        r"method 'lrp' needs .*\. Use 'shapley', 'lime' or 'loo'",
        of(TEXT, "lrp"),
        *(of(TEXT, method) for method in ("shapley", "lime", "loo")),
    ),
    row(
        "Use within='paragraphs' or within='sentences'",
        of(TWICE, "owen", SHIPPED, within="sentences in paragraphs"),
        of(TWICE, "owen", SHIPPED, within="sentences"),
        of(TWICE, "owen", SHIPPED, within="paragraphs"),
    ),
    row(
        r"method 'zoom' cannot score sentences and sentences\. Leave features and within out",
        of(SENTENCES, "zoom", features="sentences"),
        of(SENTENCES, "zoom"),
    ),
    row(
        r"zoom into .* Set samples to ([\d,]+), use a budget of ([\d,]+) calls, or use "
        "within='paragraphs'",
        of(SENTENCES, "zoom", samples=20),
        of(SENTENCES, "zoom", samples="{1}"),
        of(SENTENCES, "zoom", budget="{2} calls"),
        of(SENTENCES, "zoom", samples=20, within="paragraphs"),
    ),
    row(
        r"unknown replacement: 'gone'\. Choose from: \w+, (\w+)",
        of(TEXT, "lime", replacement="gone"),
        of(TEXT, "lime", replacement="{1}"),
    ),
    row(
        "has no effect for this model. Leave samples out, or use 'bandwidth'",
        of("A dull script.", "lime", SHIPPED, samples=30),
        of("A dull script.", "lime", SHIPPED, bandwidth=0.5),
    ),
    row(
        r"Did you mean '(\w+)'\? Choose from",
        of(TEXT, "lime", bandwith=0.5),
        of(TEXT, "lime", bandwidth=0.5),
    ),
    row(
        r"settings must be an object, not a class. Write Lime\(\)", of(TEXT, Lime), of(TEXT, Lime())
    ),
    row(
        r"give settings by name or in Banzhaf\(…\), not both",
        of(TEXT, Banzhaf(seed=1), seed=2),
        of(TEXT, Banzhaf(seed=1)),
        of(TEXT, "banzhaf", seed=2),
    ),
    row(
        "compare needs at least one method", compare_call(methods=[]), compare_call(methods=["loo"])
    ),
    row(
        "side='first' needs a pair of texts, but this is a single text. Leave side out",
        of(TEXT, "loo", side="first"),
        of(TEXT, "loo"),
    ),
    row(
        "Write several texts as a list",
        of(("w1 w2", "w3", "w4"), "loo"),
        of(["w1 w2", "w3", "w4"], "loo"),
    ),
    row("Write limelight.wrap", (explain, (scores, TEXT), {}), of(TEXT, "loo")),
    row(
        "probabilities must be between 0 and 1.* Pass scale='logit'",
        wrap_call(scores, classes=["bad", "good"]),
        wrap_call(scores, classes=["bad", "good"], scale="logit"),
    ),
    row(
        "must sum to 1.* Pass multi_label=True",
        wrap_call(lambda texts: 0.9 * probabilities(texts), classes=["bad", "good"]),
        wrap_call(
            lambda texts: 0.9 * probabilities(texts), classes=["bad", "good"], multi_label=True
        ),
    ),
    row(
        "Name as many classes as there are columns",
        wrap_call(scores, classes=["bad", "good", "fine"], scale="logit"),
        wrap_call(scores, classes=["bad", "good"], scale="logit"),
    ),
    row("Write \\[text\\]", (FUNCTION.logits, ("w1",), {}), (FUNCTION.logits, (["w1"],), {})),
    row(
        "For a path or a name, use limelight.load",
        (lime_light.wrap, ("model",), {}),
        (lime_light.load, (), {}),
    ),
    row(
        "is exact, of|Shapley values of this model are exact .* Use method 'shapley'",
        (lime_light.learn, (SHIPPED, ["A dull script."]), {}),
        of("A dull script.", "shapley", SHIPPED),
    ),
    row(
        "judge needs at least one method",
        judge_call("w1 w2 w3", methods=[]),
        judge_call("w1 w2 w3"),
    ),
    row("judge needs at least one text", judge_call(), judge_call("w1 w2 w3")),
    row(
        r"needs pairs of texts, but these are single texts\. Leave side out",
        judge_call("w1 w2 w3", side="first"),
        judge_call("w1 w2 w3"),
    ),
]

NOTICED = [
    row(
        r"For reliable scores, use a budget of ([\d,]+) calls \((\d+) pairs\)",
        of(LONG, "shapley"),
        of(LONG, "shapley", pairs="{2}"),
        of(LONG, "shapley", budget="{1} calls"),
    ),
    row(
        r"above the tolerance .*\. Raise max_samples",
        of(LONG, "lime", tolerance=0.1, samples=100, max_samples=120),
        of(LONG, "lime", tolerance=0.1, samples=100),
    ),
    row(
        r"above the tolerance .*, or max_pairs for 'shapley'",
        of(LONG, "shapley", tolerance=0.1, pairs=5, max_pairs=10),
        of(LONG, "shapley", tolerance=0.1, pairs=5),
    ),
    row(
        r"were not opened.* Set samples to ([\d,]+) or more, or use a budget of ([\d,]+) calls",
        of(f"{LONG} {LONG}. A bad w3. My w5 bib.", "zoom", samples=200),
        of(f"{LONG} {LONG}. A bad w3. My w5 bib.", "zoom", samples="{1}"),
        of(f"{LONG} {LONG}. A bad w3. My w5 bib.", "zoom", budget="{2} calls"),
    ),
    row(
        "For reliable sizes, raise samples or lower opened",
        of(SENTENCES, "zoom"),
        of(SENTENCES, "zoom", samples=8000),
    ),
    row(
        "Raise samples, use a larger bandwidth, or use a smaller ridge",
        of(LONG, "lime-sampled", samples=60, ridge=1.0),
        of(LONG, "lime-sampled", samples=5000, ridge=1.0),
        of(LONG, "lime-sampled", samples=60, ridge=1.0, bandwidth=50.0),
        of(LONG, "lime-sampled", samples=60, ridge=1e-6),
    ),
]

PAIRED = ("--model", "paired:model")
SHELL = [
    row(
        "a counterfactual has no figure, so it cannot be png. Use html",
        ("counterfactual", "A dull script.", "--output", "made.png"),
        ("counterfactual", "A dull script.", "--output", "made.html"),
    ),
    row(
        'a text with spaces needs quotes.*Write "A dull script."',
        ("explain", "A", "dull", "script."),
        ("explain", "A dull script."),
        ("explain", "--file", "lines.txt", "--lines"),
    ),
    row(
        "a figure needs a file. Add --output NAME.png",
        ("explain", "A dull script.", "--format", "png"),
        ("explain", "A dull script.", "--format", "png", "--output", "made.png"),
    ),
    row(
        "Change it, or add --format",
        ("explain", "A dull script.", "--output", "made.xyz"),
        ("explain", "A dull script.", "--output", "made.json"),
        ("explain", "A dull script.", "--output", "made.xyz", "--format", "json"),
    ),
    row(
        "shows one result, but there are several. Use --format json",
        ("explain", "--file", "lines.txt", "--lines", "--output", "made.html"),
        ("explain", "--file", "lines.txt", "--lines", "--format", "json"),
    ),
    row(
        "'target' is an option of the command. See --help",
        ("explain", "A dull script.", "--set", "target=positive"),
        ("explain", "A dull script.", "--target", "positive"),
    ),
    row(
        "a setting must be written as name=value",
        ("explain", "A dull script.", "--set", "bandwidth"),
        ("explain", "A dull script.", "--set", "bandwidth=0.5"),
    ),
    row(
        "--limit needs a data set. Use limelight explain-data FILE --output DIR",
        ("explain", "A dull script.", "--limit", "1"),
        ("explain-data", "data.csv", "--output", "run1", "--limit", "1", "--engine", "here"),
    ),
    row(
        "--data needs a data set. Use limelight (explain-data) FILE --output DIR",
        ("explain", "--data", "data.csv", "--engine", "here", "--output", "run2"),
        ("{1}", "data.csv", "--output", "run2", "--engine", "here"),
    ),
    row(
        "--engine here has one worker",
        ("explain-data", "data.csv", "--engine", "here", "--workers", "2", "--output", "run4"),
        ("explain-data", "data.csv", "--engine", "here", "--workers", "1", "--output", "run4"),
    ),
    row(
        'budget must be a number of model calls, such as "(400 calls)"',
        (
            "explain-data",
            "data.csv",
            "-m",
            "lime-sampled",
            "--budget",
            "30s",
            "--engine",
            "here",
            "--output",
            "run5",
        ),
        (
            "explain-data",
            "data.csv",
            "-m",
            "lime-sampled",
            "--budget",
            "{1}",
            "--engine",
            "here",
            "--output",
            "run5",
        ),
    ),
    row(
        "explain uses one method, not .*Use limelight compare, or limelight explain-data",
        ("explain", "A dull script.", "-m", "lime,loo"),
        ("compare", "A dull script.", "-m", "lime,loo"),
        ("explain-data", "data.csv", "-m", "lime,loo", "--engine", "here", "--output", "run6"),
    ),
    row(
        "--key-variable needs a server. Add --endpoint URL",
        ("explain", "A dull script.", "--key-variable", "KEY"),
    ),
    row(
        "--tokenizer needs a server. Add --endpoint URL",
        ("explain", "A dull script.", "--tokenizer", "folder"),
    ),
    row(
        "--labels needs a language model. Add --template",
        ("explain", "A dull script.", "--labels", "a=b,c=d"),
    ),
    row(
        "give --target or --each class, not both",
        ("explain", "A dull script.", "--each", "class", "--target", "positive"),
        ("explain", "A dull script.", "--each", "class"),
        ("explain", "A dull script.", "--target", "positive"),
    ),
    row(
        "--features module:function needs a function, but limelight:__version__ is none",
        ("explain", "A dull script.", "--features", "limelight:__version__"),
        ("explain", "A dull script.", "--features", "halving:halves"),
    ),
    row(
        "is the name of a file. Use --file lines.txt",
        ("explain", "lines.txt"),
        ("explain", "--file", "lines.txt"),
    ),
    row(
        "give the text as an argument or with --file, not both",
        ("explain", "A dull script.", "--file", "lines.txt"),
        ("explain", "A dull script."),
        ("explain", "--file", "lines.txt"),
    ),
    row(
        "--tabs .*Add --lines",
        ("explain", "--file", "pairs.txt", "--tabs", "-m", "shapley", *PAIRED),
        ("explain", "--file", "pairs.txt", "--tabs", "--lines", "-m", "shapley", *PAIRED),
    ),
    row(
        "Choose from",
        ("explain", "A dull script.", "-m", "lame"),
        ("explain", "A dull script.", "-m", "lime"),
    ),
    row(
        r"Use a budget of (\d+) calls",
        ("explain", "A dull script.", "-m", "lime-sampled", "--budget", "1 call"),
        ("explain", "A dull script.", "-m", "lime-sampled", "--budget", "{1} calls"),
    ),
]


def run(call):
    function, arguments, keywords = call
    return function(*arguments, **keywords)


def follow_advice(call, message, pattern):
    """Return the call with the numbers and names that the message has in the pattern's groups."""
    groups = re.search(pattern, message, re.DOTALL).groups()

    def fill_value(value):
        if not isinstance(value, str) or not (number := re.search(r"\{(\d)\}", value)):
            return value
        target = groups[int(number[1]) - 1].replace(",", "")
        value = value.replace(number[0], target)
        return int(value) if value.isdigit() else value

    function, arguments, keywords = call
    return (
        function,
        tuple(map(fill_value, arguments)),
        {k: fill_value(v) for k, v in keywords.items()},
    )


@pytest.mark.parametrize("row", RAISED, ids=lambda row: row.message[:40])
def test_the_advice_of_an_error_works(row):
    with pytest.raises(InputError) as error:
        run(row.wrong)
    assert re.search(row.message, str(error.value), re.DOTALL), str(error.value)
    for call in row.right:
        run(follow_advice(call, str(error.value), row.message))


@pytest.mark.parametrize("row", NOTICED, ids=lambda row: row.message[:40])
def test_a_warning_disappears_if_its_advice_is_followed(row):
    warnings = " ".join(run(row.wrong).warnings)
    assert re.search(row.message, warnings), warnings
    for call in row.right:
        again = " ".join(run(follow_advice(call, warnings, row.message)).warnings)
        assert not re.search(row.message, again), again


def write_files(monkeypatch):
    """Write what the commands read to the current folder, from which modules are imported too."""
    monkeypatch.syspath_prepend(Path.cwd())
    Path("lines.txt").write_text("A dull script.\nA fine cast.\n")
    rows = [f"A dull script number {i},negative" for i in range(12)]
    Path("data.csv").write_text("\n".join(["text,label", *rows, "A fine cast,positive"]) + "\n")
    Path("pairs.txt").write_text("A cat\tA dog\nA cow\tA fly\n")
    Path("paired.py").write_text(
        "import limelight\n"
        "def score(pairs):\n    return [[len(a) - len(b)] for a, b in pairs]\n"
        "model = limelight.wrap(score, classes=['no', 'yes'], scale='logit', pairs=True)\n"
    )
    Path("halving.py").write_text("def halves(text):\n    return [(0, 6), (7, len(text))]\n")


@pytest.mark.parametrize("row", SHELL, ids=lambda row: row.message[:40])
def test_the_advice_of_a_command_works(row, limelight, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(monkeypatch)
    outcome = limelight(*row.wrong)
    message = " ".join(outcome.err.split())
    assert outcome.code == 2
    assert re.search(row.message, message), message
    for call in row.right:
        _, arguments, _ = follow_advice((None, call, {}), message, row.message)
        outcome = limelight(*arguments)
        assert outcome.code == 0, outcome.err


# How a clause begins that says what to do.
_IMPERATIVE = re.compile(
    r"(?:[;.,] (?:or )?|: |^)(add|allow|ask|change|choose|cut|define|draw|explain|extend|give|"
    r"leave|learn|make|name|open|pass|put|raise|run|save|score|serve|set|start|use|wrap|write) ",
    re.IGNORECASE,
)


def advising_messages():
    """Yield the file, and the literal parts, of every error of methods and shell that advises."""
    for file in sorted([*(SOURCE / "explainers").glob("*.py"), *(SOURCE / "cli").glob("*.py")]):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args and "Error" in ast.unparse(node.func):
                parts = [
                    part.value
                    for part in ast.walk(node.args[0])
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ]
                if _IMPERATIVE.search(" … ".join(parts)):
                    yield f"{file.parent.name}/{file.name}", parts


# Messages that no row raises, by a part of the message, with the reason.
LEARNED = "needs a learned method of a transformer: tests/training/test_learning.py"
AUTHOR = "is for authors of methods: tests/explainers"
CHATS = "needs a language model: tests/cli/test_conversations.py"
NOT_TRIED = {
    "the weights in": LEARNED,
    "there is no learned method at": LEARNED,
    "has changed since it was written": LEARNED,
    "the learned method in": LEARNED,
    "is not a valid learned method": LEARNED,
    "the scores of this learned method are not finite": LEARNED,
    "this method was learned f": LEARNED,
    "a learned start": LEARNED,
    "learned methods do not support": LEARNED,
    "has no implementation": AUTHOR,
    "has the name of a keyword of public functions": AUTHOR,
    "belongs to another method": AUTHOR,
    "have the same settings class": AUTHOR,
    "LRP does not work for this model": "needs a network whose gradients fail the check",
    "have changed since it was wrapped": "needs a network that changes",
    "rationales need single texts": "needs pairs with rationales",
    "averages logits, not probabilities": "needs a background: tests/explainers/test_refilling.py",
    "explains logits only": "needs a method of the reproduction, whose tests try it",
    "is in limelight-reproduction": "needs an environment without that package",
    "no text was given": "needs a terminal as standard input",
    "standard output is closed": "needs a closed stream: tests/cli/test_closed_streams.py",
    "standard input is closed": "needs a closed stream: tests/cli/test_closed_streams.py",
    "has no effect on a sampled text": "sampled texts: tests/models/test_checked_pipelines.py",
    "does not apply to --against": "needs a run: tests/cli/test_summarize.py",
    "train needs a file of texts": "training takes seconds: tests/cli/test_train.py",
    " or --against, not both": "needs a run: tests/cli/test_summarize.py",
    "--endpoint needs --model NAME": "needs a server: tests/models/test_endpoint.py",
    "--max-new-tokens need a language model": "tests/serving/test_serve_command.py tries it",
    "Give --documents or --messages without it": CHATS,
    "--messages is one conversation": CHATS,
    "--tabs is for pairs of texts": CHATS,
    "give a text or --messages, not both": CHATS,
    "is empty. Leave it out": CHATS,
    "needs outputs that are not random": "needs a chat API: tests/models/test_chat_servers.py",
    "Owen values need features inside units": "tests/models/test_conversations.py tries it",
    "--pair is the second text of one pair": "needs a model of pairs: tests/cli/test_lines.py",
}


def test_every_advice_of_methods_and_commands_is_tried_or_has_a_reason(
    limelight, tmp_path, monkeypatch
):
    messages = []
    for value in RAISED:
        with pytest.raises(InputError) as error:
            run(value.wrong)
        messages.append(str(error.value))
    monkeypatch.chdir(tmp_path)
    write_files(monkeypatch)
    messages += [" ".join(limelight(*element.wrong).err.split()) for element in SHELL]
    untried = []
    for file, parts in advising_messages():
        longest = max(parts, key=len).strip()
        tried = any(longest[:25] in message or longest[-25:] in message for message in messages)
        full = " ".join(parts)
        if not tried and not any(reason in full for reason in NOT_TRIED):
            untried.append(f"{file}: {full}")
    assert untried == [], "\n".join(untried)
