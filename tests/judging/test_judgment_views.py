"""A judgment on terminals of any width, as a page, and from the command line."""

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from limelight import Judgment, judge, wrap
from limelight.data import read_texts
from limelight.errors import InputError
from limelight.progress import Estimate
from limelight.rendering.figures import judgment_figure

from tiny_models import random_texts, tiny_model

TEXTS = [text for text in random_texts(60, seed=5, longest=8) if len(set(text.split())) > 3][:12]


def nasty(model, text):
    return [float(len(word)) for word in dict.fromkeys(text.split())]


@pytest.fixture(scope="module")
def judgment():
    values = {"loo": "loo", "alpha-avg": "alpha-avg", "<script>x</script>": nasty}
    return judge(tiny_model(3, T_max=31, scale=0.4), TEXTS, values)


def print_judgment(judged, width, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    Console(file=file, width=width, no_color=True).print(judged)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_every_method_has_a_dot_on_the_axis_and_nothing_is_too_wide(judgment, width):
    text = print_judgment(judgment, width)
    assert max(map(len, text.splitlines())) <= min(width, 140)
    assert text.count("●") == 3
    rows = [line for line in text.splitlines() if "●" in line]
    places = [line.index("●") for line in rows]
    assert places == sorted(places, reverse=True)
    assert ("[" in rows[0]) == (width >= 60)


def test_a_terminal_without_unicode_gets_ascii(judgment):
    print_judgment(judgment, 80, "ascii")


def test_the_page_is_closed_and_holds_the_judgment(judgment):
    page = judgment.as_html()
    assert "<script>x" not in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "default-src 'none'" in page
    assert not re.search(r'(src|href)="http', page)
    assert page.count("<circle") == 3
    data = re.search(r'id="limelight-data">(.*?)</script>', page, re.S)[1]
    content = json.loads(data)
    result = [row["id"] for row in content["texts"]] + [
        number for number, _ in content["not_judged"]
    ]
    assert sorted(result) == [text.id for text in judgment.texts]
    for row, text in zip(content["texts"], judgment.texts, strict=True):
        result = text.deletion
        shares = (np.array(list(result.areas.values())) - result.chance) / (
            result.ceiling - result.chance
        )
        assert row["shares"] == pytest.approx(shares.tolist(), rel=1e-4)
    tables = re.findall(r'role="region" aria-label="([^"]*)"><table(.*?)</table>', page, re.S)
    assert [name for name, _ in tables][:3] == ["Methods", "Other measures", "Paired differences"]
    assert {table.count("<tr>") for _, table in tables} == {1 + 3}  # three methods, three pairs
    assert "<svg" in judgment._repr_html_()


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "reviews.csv"
    lines = [f"{'A good film' if i % 2 else 'A bad and dull'} story number {i}," for i in range(9)]
    path.write_text("body,label\n" + "\n".join(lines))
    return path


def test_the_command_writes_what_the_file_name_says(limelight, data, tmp_path):
    request = ("judge", "--data", data, "--methods", "loo,gxi", "--text-column", "body")
    for suffix, start in (("json", '{"schema"'), ("csv", "text,method"), ("html", "<!doctype")):
        path = tmp_path / f"judgment.{suffix}"
        outcome = limelight(*request, "--output", path, "--limit", "4")
        assert outcome.code == 0, outcome.err
        assert path.read_text("utf-8").startswith(start)
    content = json.loads((tmp_path / "judgment.json").read_text())
    assert [m["method"] for m in content["methods"]] == ["loo", "gxi"]
    assert len(content["texts"]) == 4
    printed = limelight(*request)
    assert printed.out.count("●") == 2
    assert "On these 9 texts" in printed.out


def test_the_command_judges_what_a_run_has_stored(limelight, data, tmp_path):
    run, request = tmp_path / "run", ("--data", data, "--text-column", "body")
    index = ("--text-column", "body", "--method", "loo", "--engine", "here", "--output", run)
    assert limelight("explain-data", data, *index).code == 0
    outcome = limelight("judge", *request, "--methods", f"loo,{run}", "--format", "json")
    assert outcome.code == 0, outcome.err
    first, second = json.loads(outcome.out)["methods"]
    assert second["method"] == "loo 2"
    assert second["share"] == pytest.approx(first["share"])
    outcome = limelight("judge", *request, "--methods", tmp_path)
    assert outcome.code == 2
    assert "there is no run at" in outcome.err


def test_rows_are_spread_evenly(tmp_path, data):
    assert [text[-1] for text in read_texts(data, limit=3)] == ["0", "4", "8"]
    assert len(read_texts(data, limit=99)) == 9
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": "x y"}\n\n{"text": "z"}\n')
    assert read_texts(lines) == ["x y", "z"]
    lines.write_text('{"text": "x y"}\n[1]\n')
    with pytest.raises(InputError, match=r"row 2 of '.*': the text is missing or not a string\."):
        read_texts(lines)
    with pytest.raises(InputError, match=r"limit must be a positive whole number, not 0\."):
        read_texts(data, limit=0)


@pytest.mark.parametrize(
    ("budget", "advice"),
    [
        ((), '. Use --budget "5000 calls" to judge fewer texts.'),
        (("--budget", "1s"), "."),
    ],
)
def test_a_terminal_hears_what_it_will_take(limelight, data, monkeypatch, budget, advice):
    def stop_at_estimate(*_, estimate, **__):
        estimate(Estimate.from_calls(613_482, 5_000.0))
        raise InputError("that is enough.")

    monkeypatch.setattr("limelight.judging.judge", stop_at_estimate)
    message = limelight("judge", "--data", data, *budget).err.splitlines()[0]
    assert message == f"About 610,000 model calls, about 83 minutes{advice}"


def test_halves_of_characters_reach_the_page_and_the_file(tmp_path):
    judgment = judge(
        tiny_model(3, T_max=31, scale=0.4), ["w1 w2 \ud800 w3 = w4", *TEXTS[:2]], ["loo"]
    )
    assert Judgment.from_json(judgment.to_json()) == judgment
    judgment.save_html(tmp_path / "page.html")
    assert judgment["loo"].share is not None


def test_the_command_holds_methods_against_rationales(limelight, tmp_path):
    path = tmp_path / "marked.csv"
    lines = [f'A good film number {i},"[[2, 6]]"' for i in range(3)]
    path.write_text("text,why\n" + "\n".join(lines) + '\nA bad one,"[[0, 99]]"\n')
    request = ("judge", "--data", path, "--methods", "loo,gxi,lime-sampled")
    printed = limelight(*request, "--rationales", "why", "--set", "samples=100")
    assert printed.code == 0, printed.err
    flat = " ".join(printed.out.split())
    assert "Plausible is not faithful: these numbers say whether people would mark" in flat
    assert "1 of 4 texts could not be judged" in flat
    assert "The diagonal compares a sampled method with itself under another seed" in flat
    output = tmp_path / "judgment.csv"
    assert limelight(*request, "--rationales", "why", "--output", output).code == 0
    assert "must satisfy 0 ≤ start ≤ end ≤ 9" in output.read_text("utf-8").splitlines()[-1]
    missing = limelight(*request, "--rationales", "marks")
    assert missing.code == 2
    assert "no column 'marks', only 'text', 'why'. Choose" in missing.err


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_plausibility_and_agreement_fit_any_terminal(width):
    model, text = tiny_model(3, T_max=31, scale=0.4), "w1 w2 w3 w4 w5 w6 w7"
    methods = {f"{'a long name ' * 3}{i}": nasty for i in range(7)} | {"loo": "loo"}
    judgment = judge(model, [text, text + " w8"], methods, rationales=[[[0, 2]], [[3, 5]]])
    text = print_judgment(judgment, width)
    assert max(map(len, text.splitlines())) <= width
    assert ("token F1" in text) == (width >= 72)
    assert bool(re.search("^ +1 .* 8 *$", text, re.M)) == (width > 60)  # of the agreement
    assert ("hidden. Use --output" in " ".join(text.split())) or width > 60
    print_judgment(judgment, width, "ascii")


def test_a_ceiling_that_is_not_proven_is_never_called_one():
    model = wrap(
        lambda texts: [[0.0, 1.0 * len(t)] for t in texts], classes=["a", "b"], scale="logit"
    )
    judgment = judge(model, TEXTS[:3], ["loo"])
    assert "best found" in print_judgment(judgment, 100)
    assert "ceiling" not in print_judgment(judgment, 100).replace("The ceiling is not proven", "")
    page = re.sub(r"<(script|style).*?</(script|style)>", "", judgment.as_html(), flags=re.S)
    page = page.replace("The ceiling is not proven", "").replace("neither chance nor ceiling", "")
    assert "ceiling" not in page


def test_two_texts_have_no_interval_and_no_best_method_in_any_view():
    spans = [[[0, 2]], [[0, 2]]]
    subset = judge(tiny_model(3, T_max=31, scale=0.4), TEXTS[:2], ["loo", "gxi"], rationales=spans)
    stored = json.loads(subset.to_json())
    assert stored["verdict"] == "Too few texts (2) to rank the methods."
    assert "Too few texts (2) to rank the methods" in stored["plausibility"]["verdict"]

    def list_tests(part):
        """Yield every interval and p-value, wherever it stands."""
        for name, value in part.items() if isinstance(part, dict) else enumerate(part):
            if isinstance(value, dict | list):
                yield from list_tests(value)
            of_a_test = str(name) in ("p", "p_holm", "p_simultaneous", "simultaneous")
            if of_a_test or str(name).endswith("interval"):
                yield value

    tests = list(list_tests({"judgment": stored}))
    assert len(tests) > 20
    assert set(map(repr, tests)) == {"None"}
    for view in (print_judgment(subset, 140), subset.to_html()):
        assert "Too few texts (2) to rank the methods." in view
        assert "Intervals are 95" not in view
        assert "most faithful" not in view
        assert not re.search(r"\d \[-?\d", view)
    label = judgment_figure(subset).axes[0].get_xlabel()
    assert label.endswith("(2 texts, too few for intervals)")
