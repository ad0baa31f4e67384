"""The article says what is stored: every number by a key, every quotation in the authors' words."""

import importlib.util
import json
import re
import statistics
import subprocess
import tomllib
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARTICLE = ROOT / "reproduction" / "article"
PAPER = ROOT.parent / "shared" / "paper"
TEXT = (ARTICLE / "article.typ").read_text("utf-8")
REFERENCE = re.compile(
    r"(Theorems?|Sections?|Appendix|Lemma|Figures?|Eqs?\.|claims?)[ ~](\d+(\.\d+)*|[A-F]\.\d)"
)
LAYOUT = re.compile(
    r"\d+(\.\d+)?(pt|em|cm|fr)\b|(width|widow|orphan): \d+%|#\w+\([^()]*rgb[^()]*\)+"
)


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("build_article", ARTICLE / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def article_numbers(build):
    return build.numbers()


def test_every_key_of_the_text_is_found_and_every_number_is_used(build, article_numbers):
    assert list(build.problems(article_numbers, build.used_keys())) == []
    assert len(article_numbers) > 150


def test_a_key_that_is_missing_is_named(build, article_numbers):
    (wrong,) = build.problems(
        {key: article_numbers[key] for key in list(article_numbers)[1:]}, build.used_keys()
    )
    assert repr(next(iter(article_numbers))) in wrong


def find_numbers(text):
    """Numbers of two digits or with a point that stand in the text itself."""
    for pattern in (r'n\("[^"]*"\)', r"//.*", r"`[^`]*`", r"@[\w-]+", r"<[\w-]+>", r'"[\w./#-]+"'):
        text = re.sub(pattern, " ", text)
    text = LAYOUT.sub(" ", REFERENCE.sub(" ", text)).replace("95 %", " ")
    return re.findall(r"(?<![\w#])\d+\.\d+|(?<![\w#.])\d\d+|(?<![\w#])\d+ ?%", text)


def test_no_number_is_typed_in_the_text():
    assert find_numbers(TEXT) == []


@pytest.mark.parametrize("wrong", ["is 0.824 away", "of 500 reviews", "in 3% of", "$beta = 0.5$"])
def test_a_typed_number_would_be_found(wrong):
    assert len(find_numbers(f"{TEXT}\n{wrong}")) == 1


def test_every_measured_number_has_a_command(build, article_numbers):
    quoted = build.tomllib.loads(build.NUMBERS.read_text("utf-8"))
    for key, source in article_numbers.items():
        if "paper" not in quoted[key] and key != "version":
            assert source.command.startswith(("limelight ", "python ")), key
    listed = build.typst_numbers(article_numbers, build.used_keys())
    assert all(text in listed for text in ("0.824", "surrogate_rivals.py", "--only error"))


def test_every_number_that_is_read_from_a_stored_result_shows_its_version(build, article_numbers):
    quoted = build.tomllib.loads(build.NUMBERS.read_text("utf-8"))
    read = {
        key: article_numbers[key]
        for key in article_numbers
        if {"measured", "benchmark"} & quoted[key].keys()
    }
    assert len(read) > 50
    assert [key for key, source in read.items() if not source.stamps] == []
    listed = build.typst_numbers(article_numbers, build.used_keys())
    rows = re.findall(r'^  \("limelight reproduce.*--only.*, "([^"]*)"\),$', listed, re.M)
    assert len(rows) > 20
    assert [row for row in rows if not re.match(r"0\.\d+\.\d+\S*, commit \w+", row)] == []


def test_numbers_are_written_as_people_write_them(build):
    content = build._format_number
    assert content(2.8e-16, {"as": ".0e"}) == "3·10⁻¹⁶"
    assert content(-0.5, {"as": ".2f"}) == "−0.50"
    assert content([1.0, 2.0, 6.0], {"of": "mean", "as": ".1f"}) == "3.0"
    assert content([0.5, -0.25, 1.0], {"of": "interval", "as": ".2f"}) == "0.50 (−0.25, 1.00)"
    with pytest.raises(ValueError, match="no number"):
        content(float("nan"), {})


def test_verdicts_on_local_models_are_those_of_the_rule():
    """The sentence below the table, which names better, as good and worse in words."""
    place = ROOT / "reproduction" / "studies" / "results" / "surrogate_rivals_cuda.json"
    notes = {load["id"]: load["note"] for load in json.loads(place.read_text("utf-8"))["measures"]}

    def verdict(kind, n, rival):
        return notes[f"gain_{kind}_{n}_{rival}"].split("; ")[1]

    rows = [("reviews_mask", 200), ("reviews_mask", 1000), ("reviews_delete", 1000)]
    rows += [(kind.replace("reviews", "sentences"), n) for kind, n in rows]
    assert {verdict(*row, rival) for row in rows for rival in ("line", "slalom")} == {"better"}
    pairs = {row: verdict(*row, "pairs") for row in rows if row[1] == 1000}
    assert {pairs["reviews_mask", 1000], pairs["reviews_delete", 1000]} == {"better"}
    assert {pairs["sentences_mask", 1000], pairs["sentences_delete", 1000]} == {"as good"}
    boosting = [verdict(*row, "boosting") for row in rows]
    assert boosting == ["undecided", *["worse"] * 5]
    subset = [("reviews_delete", 200), ("sentences_delete", 200)]
    assert [verdict(*row, "boosting") for row in subset] == ["worse", "worse"]
    assert {verdict(*row, rival) for row in subset for rival in ("line", "slalom")} == {"better"}
    assert [verdict(*row, "pairs") for row in subset] == ["undecided", "worse"]


def test_failures_of_coverage_are_those_that_the_text_names(build):
    """The list below the table, which names the rows with failing cells."""
    failing = {row.error: row.judged - row.met for row in build.coverage_rows()}
    assert {error: count for error, count in failing.items() if count} == {
        "LIME and Shapley values by sampling": 4,
        "The same, Banzhaf values and interactions": 1,
        "Differences of shares, all at once": 1,
    }
    hidden = json.loads((ROOT / "benchmarks/results/coverage.json").read_text("utf-8"))
    held = {
        cell["id"]: float(re.search(r"held ([\d.]+)", cell["note"])[1])
        for cell in hidden["measures"]
        if re.fullmatch(r"(lime_(300|1000)_(balanced|uniform)|shapley_(10|25))_\w+", cell["id"])
    }
    below = {id for id, coverage in held.items() if coverage < 0.93}
    assert len(below) == 4
    assert all(id.endswith("smooth_rare") for id in below)
    assert min(held, key=held.__getitem__) == "shapley_10_smooth_rare"
    assert [row.first for row in build.coverage_rows()].count("one commit") == 2


def test_every_text_is_settled_and_every_sufficient_set_is_minimal():
    """The sentences beside the table of decisions."""
    path = ROOT / "reproduction" / "studies" / "results" / "decisions.json"
    values = {m["id"]: m["value"] for m in json.loads(path.read_text("utf-8"))["measures"]}
    names = [id for id in values if re.fullmatch(r"\w+_(imdb|sst2|news)_(settled|minimal)", id)]
    assert len(names) == 12
    assert {values[name] for name in names} == {1.0}
    smallest = {id: value for id, value in values.items() if id.endswith("_smallest")}
    assert min(smallest, key=smallest.__getitem__) == "tfidf_imdb_smallest"
    assert max(smallest.values()) == smallest["shipped_sst2_smallest"]


def test_a_cell_that_misses_its_rule_does_not_pass(build):
    rows = tomllib.loads(build.COVERAGE.read_text("utf-8"))["row"]
    row = next(row for row in rows if row["file"] == "learned_errors")
    assert build._coverage_row({**row, "at_least": 0.99}).met == 0
    summary = next(row for row in rows if "count" in row)
    with pytest.raises(ValueError, match="misses the rule"):
        build._coverage_row({**summary, "at_least": 0.99})


def run_git(*arguments):
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(run_git("cat-file", "-e", "0aa3976c").returncode != 0, reason="short history")
def test_every_rule_of_coverage_is_in_the_history(build):
    """The commit of a rule has its words, and comes before the commit of the first results."""
    for row in tomllib.loads(build.COVERAGE.read_text("utf-8"))["row"]:
        program = run_git("show", f"{row['rule']}:{row['source']}").stdout
        assert row["phrase"] in program, row["error"]
        file = f"benchmarks/results/{row['file']}.json"
        added = run_git("log", "--diff-filter=A", "--format=%H", row["results"], "--", file).stdout
        result = run_git("rev-parse", row["results"]).stdout
        if row["first"] == "yes":
            ancestor = run_git("merge-base", "--is-ancestor", row["rule"], row["results"])
            assert ancestor.returncode == 0, row["error"]
            if row["file"] != "verdicts":  # its shares came after its differences
                assert run_git("cat-file", "-e", f"{row['rule']}:{file}").returncode != 0
                assert added == result, row["error"]


def read_verdicts(name):
    """Return the sets of cells of each verdict, by model and measure."""
    path = ROOT / "reproduction" / "studies" / "results" / f"{name}.json"
    verdicts = {}
    for measure in json.loads(path.read_text("utf-8"))["measures"]:
        if measure["id"].endswith("_better"):
            groups = (group.split(": ") for group in measure["note"].split("; ") if ": " in group)
            cells = {verdict: set(names.split(", ")) for verdict, names in groups}
            verdicts[measure["id"].removesuffix("_better")] = cells
    return verdicts


def test_verdicts_on_estimators_are_those_that_the_text_names():
    """The list below the figure of estimators."""
    verdicts = read_verdicts("shapley_baselines")
    better = {key: cells.get("better", set()) for key, cells in verdicts.items()}
    assert better == {
        "minilm_error": {"regression 30", "regression 50", "odd 400"},
        "gpt2_error": {"odd 400"},
        "nli_error": {"regression 30", "regression 50", "interpreto 30", "interpreto 50"},
        "minilm_share": set(),
        "gpt2_share": set(),
        "nli_share": set(),
    }
    for model in ("minilm", "gpt2", "nli"):
        alike = {
            f"{name} {calls}" for name in ("leverage", "shapiq_kernel") for calls in (100, 200, 400)
        }
        assert alike <= verdicts[f"{model}_error"]["not distinguished"]
    worse = [verdicts[f"{model}_share"].get("worse", set()) for model in ("minilm", "gpt2", "nli")]
    assert worse == [{"odd 30"}, {"odd 30"}, set()]
    path = ROOT / "reproduction" / "studies" / "results" / "shapley_baselines.json"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    shares = {
        cell["method"]: cell for cell in cells if (cell["source"], cell["calls"]) == ("nli", 30)
    }
    for method in ("regression", "interpreto"):
        low, high = shares[method]["share_difference_interval"]
        assert low < 0 < shares[method]["share_difference"] < high
        assert shares[method]["share"] > shares["default"]["share"] + 0.1
    slow = read_verdicts("shapley_baselines_slow")["minilm_error"]
    assert {"proxyspex 400", "spex 400"} <= slow["worse"]
    long = read_verdicts("shapley_baselines_long")["paper_long_error"]
    assert {"leverage 100", "shapiq_kernel 100"} <= long["worse"]
    assert "odd 1600" in long["better"]


def test_verdicts_on_s_lime_and_beams_are_those_that_the_text_names():
    studies = ROOT / "reproduction" / "studies" / "results"
    values = {}
    for name in ("stabilized_lime", "beam_search_ceilings"):
        measures = json.loads((studies / f"{name}.json").read_text("utf-8"))["measures"]
        values |= {measure["id"]: measure["value"] for measure in measures}
    stable = {id for id in values if id.endswith("_agreement") and values[id] >= 0.95}
    assert {"paper_slime_agreement", "paper_plan_agreement", "shipped_plan_agreement"} <= stable
    assert "shipped_slime_agreement" not in stable
    assert "shipped_control_agreement" in stable  # the control that fails
    assert "paper_control_agreement" not in stable
    tight = {id for id, value in values.items() if id.endswith("_short_best") and value >= 0.95}
    assert tight == {"shipped_short_best", "random_1_short_best"}
    assert min(value for id, value in values.items() if id.endswith("beam_5_attained")) >= 0.95


def test_no_methods_change_places_with_the_seed_and_its_spread_exceeds_the_error():
    """The sentences below the table of seeds."""
    path = ROOT / "reproduction/src/limelight_reproduction/results.json"
    parts = json.loads(path.read_text("utf-8"))["experiments"]["seeds"]
    methods = ("alpha-avg", "gxi", "lime", "shapley", "greedy")
    for recipe in ("paper", "shipped"):
        names = [name for name in parts if name.startswith(f"{recipe}-")]
        assert len(names) == 7
        values = [parts[name]["numbers"]["values"] for name in names]
        for i, method in enumerate(methods):
            for rival in methods[:i]:
                assert len({v[method][0] > v[rival][0] for v in values}) == 1
            deviation = statistics.stdev(v[method][0] for v in values)
            error = statistics.mean((v[method][2] - v[method][1]) / 3.92 for v in values)
            assert (deviation > error) == ((recipe, method) != ("shipped", "alpha-avg"))


def test_every_work_that_is_cited_is_listed_and_the_other_way_round():
    listed = set(
        re.findall(r"^@\w+\{([^,]+),", (ARTICLE / "references.bib").read_text("utf-8"), re.M)
    )
    labels = set(re.findall(r"<([\w-]+)>", TEXT))
    assert set(re.findall(r"(?<!\w)@([a-z][\w-]*)", TEXT)) - labels == listed


def test_every_page_that_is_called_a_proof_has_one():
    named = {
        name
        for values in re.findall(r"proven[^:()]*: ((?:#raw\(\"[\w-]+\"\),? ?)+)", TEXT)
        for name in re.findall(r'"([\w-]+)"', values)
    }
    assert len(named) >= 8
    for name in named:
        assert "Proof" in (ROOT / f"docs/theorems/{name}.md").read_text("utf-8"), name


def letters(text):
    text = re.sub(r"\\\w+|\$[^$]*\$", " ", text)
    plain = unicodedata.normalize("NFKD", text).lower()
    return re.sub(r"[^a-z]", "", plain)


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text is not in this checkout")
def test_quotations_are_in_the_words_of_the_paper():
    pages = " ".join(page.read_text("utf-8") for page in sorted(PAPER.glob("*.md")))
    message = letters(pages.replace("G-I", "G-l"))  # as the scan reads G-l1 and G-l2
    prose = re.sub(
        r'n\("[^"]*"\)|raw\("[^"]*"\)|#set .*|#show .*|#let .*|image\(.*|\$[^$]*\$', " ", TEXT
    )
    prose = prose[prose.index("*Scope.*") : prose.index("#bibliography")]
    quotations = [value for value in re.findall(r'"([^"]+)"', prose) if len(value) > 20]
    assert len(quotations) >= 9
    for quotation in quotations:
        for part in quotation.split("[…]"):
            assert letters(part) in message, part
    table = (ARTICLE / "numbers.toml").read_text("utf-8")
    quoted = re.findall(r'paper = "([^"]+)", where = "(?:Sec|App)', table)
    paper = (PAPER / "paper.md").read_text("utf-8")
    assert all(element.strip("%").replace("−", "-") in paper for element in quoted)
    assert len(quoted) == 5


@pytest.mark.slow
def test_the_article_is_built(build, tmp_path, monkeypatch):
    pytest.importorskip("typst")
    monkeypatch.setattr("sys.argv", ["build.py", "--output", str(tmp_path), "--pages"])
    build.main()
    assert (tmp_path / "article.pdf").read_bytes().startswith(b"%PDF")
    assert 12 <= len(list(tmp_path.glob("page-*.png"))) <= 24
