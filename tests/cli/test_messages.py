"""Commands that cannot work: one message, exit code 2, no output and no file."""

import json
import re
import shlex
import sys

import pytest

from messages import exactly

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import limelight as library

from tiny_models import random_texts, tiny_model

IMAGE = [{"type": "image_url", "image_url": {"url": "x"}}]
FILES = {
    "data.csv": "text\nA dull script.\n",
    "empty.csv": "text,n\n,1\n ,2\n",
    "columns.csv": "body,label\nA dull script.,bad\n",
    "lines.txt": "good film\nbad film\n",
    "my texts.txt": "A dull script.",
    "empty.txt": " \n",
    "check.toml": '[[case]]\nname = "other"\ntext = "A superb film."\nprediction = "postive"\n',
    "cut.json": "{",
    "object.json": '{"role": "user"}',
    "mapping.json": "{}",
    "none.json": "[]",
    "text.json": '["a"]',
    "robot.json": '[{"role": "robot", "content": "a"}]',
    "image.json": json.dumps([{"role": "user", "content": IMAGE}]),
    "document.json": '[{"text": "a", "url": "b"}]',
    "raising.py": "raise ValueError('no luck')",
    "exiting.py": "import sys; sys.exit(3)",
    "broken.py": "def f(:",
    "chat.json": '[{"role": "user", "content": "a film"}]',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with files that commands read, a run and a language model."""
    chat_models = pytest.importorskip("chat_models", reason="language models need torch")
    folder = tmp_path_factory.mktemp("messages")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    chat_models.save_chat_model(folder / "lm")
    data = {"text": random_texts(5, seed=2), "shop": list("abcab")}
    methods = ["gxi", "alpha-avg"]
    library.explain_data(tiny_model(outputs=2), data, methods, output=folder / "run")
    return folder


NO_OUTPUT = (
    "the name of an output file must end in .txt, .jsonl, .json, .html, .csv, .png, .svg, .pdf, "
    "not '{}'. Change it, or add --format."
)
NO_QUOTES = (
    "a text with spaces needs quotes, but these are 4 texts of one word. Write "
    '"The plot is bad", or give several texts one per line, with --file and --lines.'
)
NO_LIST = "--messages must be a JSON list of messages"
FILE_NAME = (
    "'my texts.txt' is the name of a file. Use --file 'my texts.txt', or pass such a text on "
    "standard input with '-'."
)
# Commands with a pattern of their message.
COMMANDS = {
    **{
        f"{command} 'The plot' --model none --output {name}": exactly(NO_OUTPUT.format(name))
        for command in ("explain", "compare")
        for name in ("x.docx", "x", "x.json.bak", ".json")
    },
    **{f"{command} The plot is bad": exactly(NO_QUOTES) for command in ("explain", "compare")},
    **{
        f"{command} 'my texts.txt'": exactly(FILE_NAME)
        for command in ("explain", "compare", "predict", "predict --lines")
    },
    **{
        f"explain 'The plot' --model none --each {each} --{name} {value}": exactly(
            f"give --{name} or --each {each}, not both."
        )
        for each, name, value in (
            ("sentence", "target", "bad"),
            ("sentence", "against", "bad"),
            ("sentence", "scale", "probability"),
            ("sentence", "at", "0:3"),
            ("span", "answer", "bad"),
        )
    },
    **{
        f"{command} --set {name}=1": exactly(
            f"--set is for settings of methods, but '{name}' is an option of the command. See "
            "--help."
        )
        for command, name in (
            ("explain 'The plot'", "features"),
            ("explain 'The plot'", "method"),
            ("explain 'The plot' --each class", "scale"),
            ("compare 'The plot'", "model"),
            ("judge --data data.csv --methods loo", "seed"),
            ("explain-data data.csv --output new", "target"),
        )
    },
    **{
        f"{command} x {name} y": f"^Unknown option: {name}. Did you mean --"
        for command in ("explain", "explain-data")
        for name in ("--methd", "--ouput", "--fetures")
    },
    "explain 'The plot' -m :cat:[b]": r"^unknown method: ':cat:\[b\]'. Choose from: ",  # no markup
    "predict x --endpoint http://127.0.0.1:9/v1 --model m --template {text} --max-new-tokens 0": (
        exactly("max_new_tokens must be a positive whole number, not 0.")
    ),
    "predict '-5 stars, awful'": exactly(
        "Unknown option: -5 stars, awful. -5 is not a recognized option. Put a text that starts "
        "with a dash last, after --."
    ),
    "predict good ''": exactly(
        "text 1 (counting from 0): the text has no words. Give at least one word."
    ),
    "predict ' ' --model lm": exactly("the text has no words. Give at least one word."),
    "explain x --output lm": exactly("'lm': is a directory."),
    "explain -m gxi --lines --file lines.txt --format html": exactly(
        "html output shows one result, but there are several. Use --format json."
    ),
    "explain x --model raising:model": (r"failed while it was imported \(ValueError: no luck\)"),
    "explain x --model exiting:model": r"failed while it was imported \(SystemExit: 3\)",
    "explain x --model broken:model": r"failed while it was imported \(SyntaxError",
    "explain x --features raising:cut": (r"failed while it was imported \(ValueError: no luck\)"),
    "explain 'a film' -m lime-sampled --set samples=-3": "samples must be at least 2",
    "explain 'a film' --device meta": "tensors of the device 'meta' have no values",
    "explain 'a film' --device gpu": "device 'gpu' cannot be used here",
    f"explain 'a film' -m lime --set rows={'7' * 400}": r"the setting 'rows' must .*digits\.",
    "explain 'a film' -m lime --set rows=1e400": "the setting 'rows' must .*not inf",
    "compare 'a film' --budget '3 days'": (
        r"or a number of model calls \(\"400 calls\"\), of at least 0, not '3 days'\."
    ),
    "compare --data reviews.csv": exactly(
        "compare explains one text. For a data set, use limelight explain-data FILE --output DIR."
    ),
    "judge --data columns.csv --text-column text": "has no column 'text', only 'body', 'label'.",
    "judge --data nowhere.csv": "nowhere.csv",
    "data imbd --output new": "imdb",
    "explain 'a film' 'a plot' --pair bad": (
        "--pair is the second text of one pair, but there are 2 texts."
    ),
    "explain 'a film' --tabs": "--tabs splits each line into two texts. Add --lines.",
    "explain 'a film' --pair bad --lines": (
        "--pair is the second text of one pair. For lines with two texts, use --tabs."
    ),
    "explain 'a film' --pair bad": (
        "a pair of texts needs a model that reads pairs of texts, but "
    ),
    "explain 'a film' --side first": "this is a single text",
    "counterfactual 'a film' --desired-class nice": "unknown desired_class: 'nice'.",
    "counterfactual 'a film' --threshold 1": "threshold is for scores and answers",
    "counterfactual 'a film' --output page.png": "a counterfactual has no figure",
    "counterfactual 'a film' --budget soon": "budget must be a time",
    "counterfactual 'a film' --replacement blue": "unknown replacement: 'blue'.",
    "counterfactual 'a film' --target positive": "Unknown option: --target",
    "predict x --template {text}": (r"need a language model\. Give its path \(--model\)\."),
    "predict x --per-token": r"need a language model\. Give its path \(--model\)\.",
    "predict x --model x --labels a=b,c=d": "--labels needs a language model",
    "predict x --model x --template {text} --labels good": (
        "must give each class a word, as in negative=bad,positive=good, not 'good'"
    ),
    "predict x --model x --template '[{' --labels a=b,c=d": (
        r"--template is not valid JSON \(Expecting property name"
    ),
    "check none.toml": "^'none.toml': there is no such file. Check the path.",
    "check check.toml -o x.html": (
        "^the name of an output file must end in .xml, .json, .jsonl, .txt, not 'x.html'. Change "
        "it, or add --format."
    ),
    "check check.toml": (
        "^'check.toml', case 'other', key 'prediction': unknown class: 'postive'. Did you mean "
        "'positive'[?] Choose from: negative, positive."
    ),
    "check check.toml --model none": (
        "^'check.toml', key 'model': there is no model folder at 'none'"
    ),
    "summarize .": r"there is no run at '\.' \(it has no run\.json\)\. Check the path\.",
    "summarize run --by shp": "Did you mean 'shop'",
    "summarize run --method lime": "unknown method of this run: 'lime'. Choose from: ",
    "summarize run --top 0": "top must be a positive whole number, not 0.",
    "summarize run --output x.png": "a summary can be terminal, json, csv or html",
    "summarize run --against run --by shop": "give --by or --against, not both.",
    "summarize run --against run --top 3": "give --top or --against, not both.",
    "summarize run --against run --representatives 2": (
        "give --representatives or --against, not both."
    ),
    "explain x --documents empty.txt --model lm": exactly(
        "the document 'empty.txt' is empty. Leave it out."
    ),
    "explain --messages chat.json": "^a conversation needs a language model",
    "explain x --documents data.csv": "^a conversation needs a language model",
    **{
        f"{command} {options} --model lm": message
        for command in ("explain", "predict", "counterfactual")
        for options, message in (
            ("--messages cut.json", r"--messages is not valid JSON \("),
            (
                "--messages object.json",
                f"{NO_LIST} with a role and a content, not {{'role': ",
            ),
            ("--messages none.json", NO_LIST),
            ("--messages text.json", NO_LIST),
            ("--messages robot.json", r"message 0 must have a role \(system, developer, user,"),
            (
                "--messages image.json",
                "message 0 must contain text only, but it has a content part of type 'image_url'.",
            ),
            ("x --messages none.json", "give a text or --messages, not both."),
            (
                "--messages none.json --file none.json",
                "give a text or --messages, not both.",
            ),
            (
                "--messages none.json --lines",
                "--messages is one conversation. Leave --lines out.",
            ),
            (
                "x --pair b --documents none.json",
                "--pair is the second text of a pair. Give --documents or --messages without it.",
            ),
            ("x --documents none.json", "documents must contain at least one document."),
            (
                "x --documents mapping.json",
                "'mapping.json' must be a JSON list of documents, not {}",
            ),
            ("x --documents document.json", "document 0: unknown key: 'url'."),
            ("--documents text.json --file none.txt", "no such file or directory"),
        )
    },
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_wrong_command_says_what_is_wrong_and_writes_nothing(
    limelight, folder, monkeypatch, line
):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = sorted(folder.rglob("*"))
    outcome = limelight(*shlex.split(line))
    assert (outcome.code, outcome.out) == (2, "")
    message = outcome.err.removeprefix("Error: ").removesuffix("\n")
    assert len(outcome.err) == len(message) + len("Error: \n")
    assert "\n" not in message
    assert re.search(COMMANDS[line], message), message
    assert sorted(folder.rglob("*")) == before
