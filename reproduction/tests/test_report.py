"""What a run leaves: figures, tables, numbers, and a page that is safe to open anywhere."""

import base64
import hashlib
import json
import re

from limelight_reproduction import report, results
from limelight_reproduction.results import PartResult

from toy_experiments import CARRIED, Counted, experiment, stored


def test_figures_tables_and_numbers_are_written(run):
    run(experiment("one", {"a": Counted(0.123456), "b": Counted(2.5)}, cell="a, b"))
    png, svg = (run.output / "figures" / f"one-drawing.{suffix}" for suffix in ("png", "svg"))
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text("utf-8")
    assert (run.output / "tables" / "one.csv").read_text("utf-8").splitlines() == [
        "part,value,word", 'a,0.123456,"a, b"', 'b,2.5,"a, b"',
    ]  # fmt: skip


def test_the_report_is_one_file_that_asks_for_nothing(run):
    text = run(experiment("one", {"a": Counted(1)})).read_text("utf-8")
    assert re.search(r'<meta http-equiv="Content-Security-Policy" content="default-src', text)
    assert "default-src 'none'" in text
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert sources
    assert all(source.startswith(("data:image/svg+xml;base64,", "#")) for source in sources)
    assert "<script" not in text
    assert "url(" not in text
    assert "@import" not in text


def test_the_style_is_the_one_that_the_policy_allows(run):
    text = run(experiment("one", {"a": Counted(1)})).read_text("utf-8")
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in text
    assert " style=" not in text


def test_words_of_a_text_are_escaped(run):
    nasty = '<script>alert(1)</script> & "quotes"'
    text = run(experiment("one", {"a": Counted(1)}, said=nasty, cell=nasty)).read_text("utf-8")
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#34;quotes&#34;") == 2


def test_results_survive_their_file(tmp_path):
    odd = PartResult(**CARRIED.to_dict() | {"numbers": {"word": "naïve “x”\u2028", "a": [1, None]}})
    full = {"one": {"a": odd, "b": stored(CARRIED)}, "two": {"c": CARRIED}}
    output = json.loads(results.results_to_json(full))["experiments"]
    again = {
        n: {p: PartResult(**value) for p, value in parts.items()} for n, parts in output.items()
    }
    assert again == full
    assert json.loads(results.results_to_json({}))["experiments"] == {}
    path = tmp_path / "parts" / "x.json"
    results.write_part(path, odd)
    assert results.read_part(path) == odd
    assert results.read_part(tmp_path / "none.json") is None


def test_stored_results_are_marked_as_such(tmp_path, monkeypatch):
    file = tmp_path / "results.json"
    file.write_text(results.results_to_json({"one": {"a": CARRIED}}))
    monkeypatch.setattr(results, "STORED", file)
    results.load_stored_results.cache_clear()
    try:
        assert results.load_stored_results() == {"one": {"a": stored(CARRIED)}}
        results.load_stored_results.cache_clear()
        monkeypatch.setattr(results, "STORED", tmp_path / "none.json")
        assert results.load_stored_results() == {}
    finally:
        results.load_stored_results.cache_clear()


def test_sources_name_every_run_by_its_own_size_and_seed():
    parts = {name: Counted(1) for name in "abc"}
    value = experiment("one", parts)
    quick, other = (
        PartResult(**CARRIED.to_dict() | change) for change in ({"quick": True}, {"seed": 7})
    )
    message = report.source_sentence(value, {"a": CARRIED, "b": quick, "c": other})
    assert message == (
        "Measured here: a (full run, seed 0); b (quick run, seed 0); c (full run, seed 7)."
    )
    message = report.source_sentence(value, {"a": stored(CARRIED), "b": quick, "c": quick})
    assert message == (
        "Measured here: b, c (quick run, seed 0). From the stored results of a full run: a (not "
        "asked for here; M); `limelight reproduce --only one` makes them again where these needs "
        "are met."
    )
