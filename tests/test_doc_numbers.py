"""Numbers in the documentation are those that were measured and stored.

Those of the paper's experiments are held by the tests of the reproduction.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

SPEED = (
    "| {lime_words:.1f} ms, error at most",
    "our fast predictions: {lime_package_s:.1f} s, error {lime_package_error:.3f} | "
    "{lime_speedup_package_words:,.0f} |",
    "as a torch module: {lime_torch_s:.0f} s | {lime_speedup_torch_words:,.0f} |",
    "| {shapley_positions:.1f} ms, error at most {shapley_bound:.0e} |",
    "our fast predictions: {shapley_package_s:.2f} s, error {shapley_package_error:.2f} | "
    "{shapley_speedup:.0f} |",
    "| {ig_ours:.1f} ms | `captum`, 50 steps, torch module: {ig_captum_full_s:.2f} s | "
    "{ig_speedup_full:.0f} |",
    "| {gl1_ours:.2f} ms | `captum` Saliency, torch module: {gl1_captum_full:.1f} ms | "
    "{gl1_speedup_full:.0f} |",
    "| {gxi_ours:.2f} ms | `captum` InputXGradient, torch module: {gxi_captum_full:.1f} ms | "
    "{gxi_speedup_full:.0f} |",
    "| {documents_ours:,.0f} documents/s | the model as a torch module: "
    "{documents_float32:.0f} documents/s | {prediction_speedup_float32:.0f} |",
    "A cold `limelight compare` takes {cold_compare_default_s:.2f} s",
    "exact LIME in {corpus_seconds:.0f} s on two cores and in {corpus_seconds_1e06:.1f} s",
)


@pytest.mark.parametrize("line", SPEED)
def test_speeds_are_those_of_the_benchmarks(line):
    value = {}
    for name in ("prediction", "gradients", "perturbation", "corpus", "corpus_cuda"):
        found = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text("utf-8"))
        for measure in found["measures"]:
            key = measure["id"].replace("-", "")
            value |= {key: measure["value"], f"{key}_s": measure["value"] / 1000}
    text = " ".join((ROOT / "docs" / "speed.md").read_text("utf-8").split())
    assert line.format(**value) in text


def test_speeds_in_the_readme_are_some_of_those():
    table = r"^\|.*\|$"
    told = re.findall(table, (ROOT / "README.md").read_text("utf-8").split("## Speed")[1], re.M)
    known = re.findall(table, (ROOT / "docs" / "speed.md").read_text("utf-8"), re.M)
    assert len(told) == 6
    assert set(told) <= set(known)


@pytest.mark.parametrize(
    "place",
    ["src/limelight/explainers/gradients.py", "docs/methods/gxi.md", "docs/models.md"],
)
def test_chance_on_deep_models_has_the_numbers_that_were_measured(place):
    """One measurement stands in a notice and on two pages."""
    found = json.loads((ROOT / "benchmarks/results/judging_cuda_every.json").read_text("utf-8"))
    value = {measure["id"]: measure["value"] for measure in found["measures"]}
    text = (ROOT / place).read_text("utf-8").replace("−", "-")
    for method in ("gxi", "lrp", "shapley, pairs=25"):
        assert f"{value[method]:.2f}" in text, method


QUOTED = {
    "docs/models.md": "Gradient × input has {gxi} there, `lrp`, for the same price, {lrp}, and "
    "Shapley values of 25 pairs {shapley}.",
    "docs/choosing.md": "`shapley` {shapley}, `lime` {lime}, `lrp` {lrp} with a single backward "
    "pass, attention {attention},",
    "docs/tutorials/bert.md": "Shapley values reach {shapley} of what the best order of the words "
    "found can do, one backward pass of `lrp` {lrp}, attention {attention},",
    "docs/tutorials/pairs.md": "reviews, where `lrp` reaches {lrp}.",
}


@pytest.mark.parametrize("place", QUOTED)
def test_shares_on_a_transformer_are_quoted_as_they_were_measured(place):
    """The whole sentence: a number alone may stand somewhere else on the page."""
    found = json.loads((ROOT / "benchmarks/results/judging_cuda_every.json").read_text("utf-8"))
    share = {one["id"]: f"{one['value']:.2f}".replace("-", "−") for one in found["measures"]}
    told = {"gxi": share["gxi"], "lrp": share["lrp"], "attention": share["alpha-avg"]}
    told |= {"shapley": share["shapley, pairs=25"], "lime": share["lime, samples=1000"]}
    text = " ".join((ROOT / place).read_text("utf-8").split())
    assert QUOTED[place].format(**told) in text


CEILINGS = (
    "| sentences of reviews, shipped model | {shipped_best:.3f} | {shipped_worst:.3f} |",
    "| random games, one head | {random_1_best:.3f} | {random_1_worst:.3f} |",
    "| random games, two heads | {random_2_best:.3f} | {random_2_worst:.3f} |",
    "| random games, six heads | {random_6_best:.3f} | {random_6_worst:.3f} |",
)


@pytest.mark.parametrize("line", CEILINGS)
def test_how_tight_ceilings_are_is_what_was_measured(line):
    found = json.loads((ROOT / "benchmarks/results/ceilings.json").read_text("utf-8"))
    value = {measure["id"]: measure["value"] for measure in found["measures"]}
    page = (ROOT / "docs/theorems/faithfulness-ceiling.md").read_text("utf-8")
    assert line.format(**value) in page


def test_how_long_ten_thousand_texts_take_is_what_was_measured():
    found = json.loads((ROOT / "benchmarks/results/datasets.json").read_text("utf-8"))
    speed = {measure["id"]: measure["value"] for measure in found["measures"]}[
        "datasets_pool_speed"
    ]
    text = " ".join((ROOT / "docs/tutorials/thousands.md").read_text("utf-8").split())
    seconds = f"{10_000 / speed:.0f} seconds on two cores"
    assert f"10,000 reviews of typical length take {seconds}" in text
    assert f"measured at {speed:.0f} a second, `python benchmarks/datasets.py`" in text


SPOKEN = {
    "shipped": (
        "*seagal* ({seagal}, {seagal_texts} texts)",
        "*edie* speaks for",
    ),
    "minilm": (
        "*7* has {7} in {7_texts} texts, *1* only {1} in {1_texts}",
        "*edie* has no effect ({edie})",
        "*seagal* {seagal} instead of {shipped_seagal}",
        "*mst3k* {mst3k} instead of {shipped_mst3k}",
        "*vampire* ({vampire}, {vampire_texts} texts)",
        "*vampires* ({vampires}, {vampires_texts})",
    ),
}


@pytest.mark.parametrize(("model", "line"), [(m, x) for m, lines in SPOKEN.items() for x in lines])
def test_words_that_the_page_of_data_sets_speaks_of_are_those_stored(model, line):
    """Its tables are held by `benchmarks/tables.py --check`."""
    value = {}
    for name in ("shipped", "minilm"):
        found = json.loads((ROOT / f"benchmarks/results/drives_{name}.json").read_text("utf-8"))
        start = "" if name == model else f"{name}_"
        for word, one in found["spoken"].items():
            value[f"{start}{word}"] = f"{one['mean']:+.2f}".replace("-", "−")
            value[f"{start}{word}_texts"] = f"{one['texts']:,}"
    text = (ROOT / "docs/datasets.md").read_text("utf-8")
    for key, told in value.items():  # names of words may be numbers, which format() would count
        line = line.replace("{" + key + "}", told)
    assert "{" not in line
    assert line in text


LEARNED = {
    "docs/tutorials/learning.md": (
        "| learned from 50 texts | 1 | {share, 50 texts:.3f} |",
        "| learned from 200 texts | 1 | {share, 200 texts:.3f} |",
        "| learned from 500 texts | 1 | {share, 500 texts:.3f} |",
        "| learned from 1,500 texts | 1 | {share, 1500 texts:.3f} |",
        "| one pair of orders | about 200 | {share, 1 pair:.3f} |",
        "| two pairs of orders | about 400 | {share, 2 pairs:.3f} |",
        "and one pair | about 200 | {share, 1500 texts and 1 pair(s):.3f} |",
        "| 25 pairs of orders | about 5,000 | {share, 25 pairs:.3f} |",
        "hold {covered:.1%} of the values of 25 pairs",
        "10,000 reviews take {seconds:.0f} seconds, of which the model alone needs {alone:.0f}.",
    ),
    "docs/methods/learned.md": ("the share is {share, 1500 texts:.3f}: [the tutorial]",),
    "benchmarks/README.md": (
        "| learned from 50 texts | | {share, 50 texts:.3f} |",
        "| learned from 200 texts | 0.76 | {share, 200 texts:.3f} |",
        "| learned from 1,500 texts | 0.80 | {share, 1500 texts:.3f} |",
        "one pair of orders | 0.84 | {share, 1500 texts and 1 pair(s):.3f} |",
        "10,000 reviews took {seconds:.0f} s,",
        "the share is {sst2_learned:.2f}, against {sst2_lrp:.2f} of `lrp`",
    ),
}


@pytest.mark.parametrize(("place", "line"), [(p, x) for p, lines in LEARNED.items() for x in lines])
def test_what_a_learned_method_reaches_is_what_was_measured(place, line):
    found = json.loads((ROOT / "benchmarks/results/learning.json").read_text("utf-8"))
    value = {one["id"]: one["value"] for one in found["measures"]}
    told = re.sub(r"{([^:]*):(.*?)}", lambda m: format(value[m[1]], m[2]).replace("%", " %"), line)
    assert told in " ".join((ROOT / place).read_text("utf-8").split())


def test_zoom_has_the_calls_and_shares_that_were_measured():
    stored = (ROOT / "benchmarks/results/long_documents_cuda.json").read_text("utf-8")
    rows = {one["id"]: one for one in json.loads(stored)["measures"]}
    page = (ROOT / "docs/methods/zoom.md").read_text("utf-8")
    for name in ("zoom", "shapley", "lime on sentences", "loo"):
        found = [rows[f"{kind}_{name}"] for kind in ("reviews", "3,000 words")]
        cells = [f"{one['note'].split(' calls')[0]} | {one['value']:.3f}" for one in found]
        assert f"| {' | '.join(cells)} |" in page
    reviews, inputs = (rows[f"{kind}_calls"]["value"] for kind in ("reviews", "3,000 words"))
    assert f"asked {reviews:.3f} of" in page
    assert f"and {inputs:.3f} on the documents" in page


def test_owen_values_hold_as_often_as_was_measured():
    page = (ROOT / "docs/methods/owen.md").read_text("utf-8")
    stored = [
        json.loads((ROOT / f"benchmarks/results/coverage_owen{name}.json").read_text("utf-8"))
        for name in ("", "_cuda")
    ]
    held = [
        {one["id"]: one["value"] for one in found["measures"] if "owen_5_" not in one["id"]}
        for found in stored
    ]
    assert min(held[0].values()) >= 0.93
    assert f"of seven kinds hold {min(held[0].values()):.2f} to {max(held[0].values()):.2f}" in page
    reviews = [held[1][f"owen_{pairs}_reviews"] for pairs in (10, 25)]
    assert "{:.2f} with 10 pairs and {:.2f} with 25".format(*reviews) in page
