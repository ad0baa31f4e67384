"""The runner: what is finished stays, what cannot run here comes from stored results."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight import InputError, save_folder
from limelight_reproduction import registry, report, runner
from limelight_reproduction.progress import PartReporter
from limelight_reproduction.spread import quartiles

from toy_experiments import CARRIED, Counted, experiment, stored


def read_numbers(output):
    """The numbers in results.json, by experiment and part."""
    content = json.loads((output / "results.json").read_text("utf-8"))
    assert content["format"] == "limelight.reproduction/1"
    return {
        name: {part: value["numbers"]["value"] for part, value in parts.items()}
        for name, parts in content["experiments"].items()
    }


# --------------------------------------------------------------- what is kept


def test_a_killed_run_keeps_what_was_finished_and_redoes_only_the_rest(run):
    first, second, third = Counted(1), Counted(2, fails=KeyboardInterrupt()), Counted(3)
    value = experiment("one", {"a": first, "b": second, "c": third})
    with pytest.raises(KeyboardInterrupt):
        run(value)
    assert [p.name for p in (run.output / "parts").iterdir()] == ["one.a.json"]
    second.fails = None
    run(value)
    assert [len(m.seeds) for m in (first, second, third)] == [1, 2, 1]
    assert read_numbers(run.output) == {"one": {"a": 1, "b": 2, "c": 3}}


def test_the_plan_of_a_run_is_printed_first(run):
    value = experiment("one", {"a": Counted(1), "b": Counted(2)})
    messages = []
    for _ in range(2):
        run(value, on_plan=messages.append)
    assert messages == [
        "Measured now: 2 of 2 parts, one (a, b).",
        "Kept from before: 2 of 2 parts, one (a, b).",
    ]


def test_stored_and_measured_parts_are_listed_first(run):
    value = experiment("one", {"a": Counted(1), "b": Counted(2)}, needs={"b": ("gpu",)})
    two = experiment("two", {"c": Counted(3)})
    messages = []
    run(value, two, quick=True, carried={"one": {"b": stored(CARRIED)}}, on_plan=messages.append)
    assert messages == [
        "From the stored results, since there is no GPU: 1 of 3 parts, one (b).\n"
        "Measured now: 2 of 3 parts, one (a), two (c)."
    ]


def test_the_report_grows_with_every_experiment(run, monkeypatch):
    value, last = experiment("one", {"a": Counted(1)}), Counted(2, fails=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(value, experiment("two", {"b": Counted(3), "c": last}))
    page = (run.output / "report.html").read_text("utf-8")
    assert "About one" in page
    assert "About two" not in page
    assert "Not on this page: two." in page
    assert "This run is not finished: 1 of 3 parts so far." in page
    last.fails = None
    assert "not finished" not in run(
        value, experiment("two", {"b": Counted(3), "c": last})
    ).read_text("utf-8")


def test_an_experiment_is_drawn_again_only_for_new_numbers(run, monkeypatch):
    value, two = experiment("one", {"a": Counted(1)}), experiment("two", {"b": Counted(2)})
    samples = []
    draw = report.build_row
    monkeypatch.setattr(
        report,
        "build_row",
        lambda e, *remainder, **more: samples.append(e.name) or draw(e, *remainder, **more),
    )
    run(value, two)
    assert samples == ["one", "two"]


def test_the_table_of_verdicts_marks_what_is_stored(run):
    value = experiment("one", {"a": Counted(1)}, needs={"a": ("gpu",)})
    two = experiment("two", {"b": Counted(2)})
    three = experiment("three", {"c": Counted(3), "d": Counted(4)}, needs={"d": ("gpu",)})
    carried = {"one": {"a": stored(CARRIED)}, "three": {"d": stored(CARRIED)}}
    text = run(value, two, three, quick=True, carried=carried).read_text("utf-8")
    head = text.partition("<main")[0]
    marks = re.findall(r"href=\"#(\w+)\".*?<td>1 of 1</td><td>(.*?)</td>", head)
    assert marks == [
        ("one", "stored"),
        ("two", "measured here"),
        ("three", "measured here: c; stored: d"),
    ]
    assert (
        "Parts measured here: 2 of 4. The other 2 are those of a stored full run: in one, " in head
    )


@pytest.mark.parametrize(("decided", "mark"), [(("a",), "measured here"), (("b", "c"), "stored")])
def test_the_mark_of_a_verdict_is_that_of_the_parts_that_decide_it(run, decided, mark):
    parts = {name: Counted(1) for name in "abc"}
    value = experiment("one", parts, needs={"b": ("gpu",), "c": ("gpu",)}, decided=decided)
    carried = {"one": {name: stored(CARRIED) for name in "bc"}}
    head = run(value, carried=carried).read_text("utf-8").partition("<main")[0]
    assert f"<td>1 of 1</td><td>{mark}</td>" in head


def test_the_report_names_the_papers_model_that_it_is_about(run, tmp_path, toy_model):
    save_folder(toy_model(5), tmp_path / "mine & yours")
    value = experiment("one", {"a": Counted(1)})
    carried, arguments = (
        run(value, paper_model=folder).read_text("utf-8").partition("<nav")[0]
        for folder in (None, tmp_path / "mine & yours")
    )
    assert "is the model that travels with the package (`limelight train" in carried
    assert "mine &amp; yours" in arguments
    assert "the model that was given" in arguments
    assert "(seed 5)" in arguments


def test_what_fails_in_the_middle_leaves_no_file_of_its_own(run):
    bad = Counted(1, fails=InputError("no such review."))
    with pytest.raises(InputError, match="no such review"):
        run(experiment("one", {"a": bad}))
    assert not (run.output / "parts").exists()


@pytest.mark.parametrize(
    ("before", "after", "measured"),
    [(True, False, 2), (False, True, 1), (True, True, 1), (False, False, 1)],
    ids=["quick then full", "full then quick", "quick twice", "full twice"],
)
def test_quick_numbers_do_not_serve_a_full_run_but_full_ones_serve_any(
    run, before, after, measured
):
    count = Counted(1)
    value = experiment("one", {"a": count})
    run(value, quick=before)
    run(value, quick=after)
    assert len(count.seeds) == measured


def test_another_seed_measures_again(run):
    count = Counted(1)
    value = experiment("one", {"a": count})
    for seed in (0, 5, 5):
        run(value, seed=seed)
    assert count.seeds == [0, 5]


def test_another_version_of_a_part_measures_again(run):
    count = Counted(1)
    value = experiment("one", {"a": count})
    run(value)
    newer = replace(value, parts=(replace(value.parts[0], version=2),))
    run(newer)
    run(newer)
    assert len(count.seeds) == 2


def test_another_papers_model_measures_again_what_looks_at_it_and_nothing_else(
    run, tmp_path, toy_model
):
    for seed in (1, 2):
        save_folder(toy_model(seed), tmp_path / f"model-{seed}")
    looking, other = Counted(1, asks=lambda s: s.recipe_model), Counted(2)
    value = experiment("one", {"looking": looking, "other": other})
    for folder in ("model-1", "model-1", "model-2", "model-2"):
        run(value, quick=True, paper_model=tmp_path / folder)
    assert (len(looking.seeds), len(other.seeds)) == (2, 1)
    run(value, quick=True)  # the model that is carried is another one, too
    assert (len(looking.seeds), len(other.seeds)) == (3, 1)


def test_other_data_measure_again_what_reads_them_and_nothing_else(run, tmp_path):
    file = tmp_path / "data" / "test.jsonl"
    batch, other = Counted(1, asks=lambda s: s.texts("imdb", "test")), Counted(2)
    value = experiment("one", {"reading": batch, "other": other})
    for text in ("fine", "fine", "bad"):
        file.write_text(json.dumps({"text": text, "label": 1}))
        run(value)
    assert (len(batch.seeds), len(other.seeds)) == (2, 1)


def test_a_report_shows_no_earlier_numbers_of_another_model(run, tmp_path, toy_model):
    save_folder(toy_model(1), tmp_path / "model")
    value = experiment("one", {"a": Counted(1, asks=lambda s: s.recipe_model)})
    two = experiment("two", {"b": Counted(2)})
    run(value, two)
    text = run(value, two, only=["two"], paper_model=tmp_path / "model").read_text("utf-8")
    assert read_numbers(run.output) == {"two": {"b": 2}}
    assert "About one" not in text
    run(value, two, only=["two"])
    assert read_numbers(run.output) == {"one": {"a": 1}, "two": {"b": 2}}


def test_numbers_whose_inputs_nobody_noted_are_measured_again(run):
    count = Counted(1)
    value = experiment("one", {"a": count})
    run(value)
    path = run.output / "parts" / "one.a.json"
    plain = json.loads(path.read_text("utf-8"))
    del plain["inputs"]
    path.write_text(json.dumps(plain))
    run(value)
    assert len(count.seeds) == 2


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", '{"numbers": {}}', "\xff", '{"numbers": 3, "quick": true, "seed": 0}'],
)
def test_a_damaged_part_raises_an_error(run, content):
    value = experiment("one", {"a": Counted(1)})
    path = run.output / "parts" / "one.a.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        run(value)
    assert str(caught.value) == (
        f"'{path}' has no results of this version. Delete it to measure again."
    )


# ------------------------------------------------- what is stored, what is missing


def test_parts_that_cannot_run_come_from_stored_results_with_a_note(run):
    index, target = Counted(1), Counted(2)
    value = experiment("one", {"here": index, "there": target}, needs={"there": ("gpu",)})
    page = run(value, quick=True, carried={"one": {"there": stored(CARRIED)}})
    assert target.seeds == []
    assert read_numbers(run.output) == {"one": {"here": 1, "there": 100}}
    text = page.read_text("utf-8")
    assert "Measured here: here (quick run, seed 0)." in text
    assert "From the stored results of a full run: there (needs a GPU; M)" in text
    assert "101 measured" in text


def test_an_experiment_with_a_part_that_is_nowhere_is_left_out_and_named(run):
    full = experiment("whole", {"a": Counted(1)})
    part = experiment("part", {"a": Counted(2), "b": Counted(3)}, needs={"b": ("gpu",)})
    text = run(full, part).read_text("utf-8")
    assert "About whole" in text
    assert "About part" not in text
    assert "Not on this page: part." in text
    assert read_numbers(run.output) == {"whole": {"a": 1}, "part": {"a": 2}}
    assert not (run.output / "tables" / "part.csv").exists()


def test_a_whole_report_names_nothing_as_left_out(run):
    assert "Not on this page" not in run(experiment("one", {"a": Counted(1)})).read_text("utf-8")


def test_the_papers_model_is_used_where_it_is(run, tmp_path, toy_model):
    save_folder(toy_model(), tmp_path / "model")
    count = Counted(2)
    value = experiment("one", {"paper": count})
    run(value, quick=True, paper_model=tmp_path / "model")
    assert len(count.seeds) == 1


def test_missing_texts_raise_an_error_before_any_measurement(run, tmp_path):
    first, second = Counted(1), Counted(2)
    value = experiment("one", {"a": first})
    two = experiment("two", {"b": second}, reads=("imdb train",))
    with pytest.raises(InputError, match=r"^the train texts of imdb are not in"):
        run(value, two)
    assert not run.output.exists()
    run(value, two, only=["one"])  # what is not measured may be missing
    (tmp_path / "data" / "train.jsonl").write_text(json.dumps({"text": "fine", "label": 1}))
    run(value, two)
    assert (len(first.seeds), len(second.seeds)) == (1, 1)


def test_another_kind_of_paper_model_raises_an_error_before_any_measurement(
    run, tmp_path, toy_model
):
    count = Counted(1)
    save_folder(replace(toy_model(), classes=("ham", "spam")), tmp_path / "model")
    with pytest.raises(InputError, match=r"^the paper's model must have IMDB's classes"):
        run(experiment("one", {"a": count}), paper_model=tmp_path / "model")
    assert count.seeds == []


def test_a_missing_paper_model_raises_an_error_before_any_measurement(run, tmp_path):
    count = Counted(1)
    with pytest.raises(InputError, match=r"^there is no model folder at '.*gone'\. Check the path"):
        run(experiment("one", {"a": count}), paper_model=tmp_path / "gone")
    assert count.seeds == []


# -------------------------------------------------------------------- choosing


def names(only):
    return [f"{experiment.name}.{part.name}" for experiment, part in runner.select_parts(only)]


def test_experiments_and_parts_are_chosen_by_name_in_the_order_of_the_paper():
    assert names(["figure-2.paper", "figure-1"]) == [
        "figure-1.shipped", "figure-1.paper", "figure-2.paper",
    ]  # fmt: skip
    assert names("figure-2") == ["figure-2.shipped", "figure-2.paper"]
    assert len(names([])) == sum(len(e.parts) for e in registry.EXPERIMENTS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "figure-44",
            "unknown experiment: 'figure-44'. Did you mean 'figure-4'? Choose from: figure-1",
        ),
        (
            "figure-4.papr",
            "unknown part: 'figure-4.papr'. Did you mean 'figure-4.paper'? Choose from: ",
        ),
        ("zzz", "unknown experiment: 'zzz'. Choose from: figure-1, figure-2,"),
    ],
)
def test_the_message_about_an_unknown_name_has_the_nearest_name(name, message):
    with pytest.raises(InputError) as caught:
        names(["figure-1", name])
    assert str(caught.value).startswith(message)


def test_names_of_experiments_and_parts_are_their_own():
    every = names([])
    assert len(set(every)) == len(every)
    assert all(re.fullmatch(r"[\w-]+\.[\w-]+", name) for name in every)


def test_running_one_part_redraws_its_experiment_and_loses_no_other_result(run):
    value = experiment("one", {"a": Counted(1), "b": Counted(2)})
    other = experiment("other", {"a": Counted(3)})
    run(value, other)
    (run.output / "figures" / "one-drawing.png").unlink()
    changed = experiment("one", {"a": Counted(10), "b": Counted(20)})
    text = run(changed, other, only=["one.b"], seed=1).read_text("utf-8")
    assert read_numbers(run.output) == {"one": {"a": 1, "b": 20}, "other": {"a": 3}}
    assert (run.output / "figures" / "one-drawing.png").exists()
    assert "21 measured" in text
    assert "About other" in text


def test_one_part_in_a_new_folder_is_completed_from_stored_results(run):
    value = experiment("one", {"a": Counted(1), "b": Counted(2)})
    other = experiment("other", {"a": Counted(3)})
    carried = {name: {"a": stored(CARRIED), "b": stored(CARRIED)} for name in ("one", "other")}
    run(value, other, only=["one.b"], carried=carried)
    assert read_numbers(run.output) == {"one": {"a": 100, "b": 2}}


def test_an_output_that_is_a_file_raises_an_error_before_any_measurement(run):
    count = Counted(1)
    run.output.write_text("not a folder")
    with pytest.raises(
        InputError, match=r"^the output must be a folder, but '.*' is a file\. Name"
    ):
        run(experiment("one", {"a": count}))
    assert count.seeds == []


# -------------------------------------------------------------------- progress


def test_progress_goes_part_by_part_and_ends_each_once(run):
    heard = []
    long = Counted(1, ticks=[(5, 10), (10, 10), (1, 2), (2, 2)])
    parts = {"a": long, "b": Counted(2), "c": Counted(3)}
    value = experiment("one", parts, needs={"c": ("gpu",)}, stages=2)
    run(value, only=["one.b"])
    run(value, progress=heard.append)
    assert [(at.part, at.number, at.parts, at.source) for at in heard if at.is_finished] == [
        ("one.a", 1, 3, "measured"), ("one.b", 2, 3, "kept"), ("one.c", 3, 3, "missing"),
    ]  # fmt: skip
    output = [(at.share, at.is_finished) for at in heard if at.part == "one.a"]
    assert output == [(0, False), (0.25, False), (0.5, False), (0.75, False), (1, False), (1, True)]
    assert [at.number for at in heard] == sorted(at.number for at in heard)


@given(
    st.lists(st.integers(1, 5).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))),
    st.integers(1, 4),
)
def test_progress_never_goes_back_whatever_a_part_ticks(ticks, stages):
    heard = []
    teller = PartReporter(heard.append, part="a", number=1, parts=1, stages=stages)
    for tick in ticks:
        teller.tick(*tick)
    teller.end("measured")
    shares = [at.share for at in heard]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)


def test_the_arithmetic_of_the_process_is_left_as_it_was(run):
    import torch

    torch.set_float32_matmul_precision("highest")
    within = []
    part = Counted(1)
    value = experiment(
        "one", {"a": lambda s: within.append(torch.get_float32_matmul_precision()) or part(s)}
    )
    run(value)
    assert within == ["high"]
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cpuu", "unknown device: 'cpuu'. Did you mean 'cpu'? Choose from: cpu, cuda."),
        ("tpu", "unknown device: 'tpu'."),
    ],
)
def test_an_unknown_device_raises_an_error(run, device, message):
    with pytest.raises(InputError) as caught:
        run(experiment("one", {"a": Counted(1)}), device=device)
    assert str(caught.value).startswith(message)


def test_a_missing_gpu_raises_an_error(run, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="torch finds no CUDA device"):
        run(experiment("one", {"a": Counted(1)}), device="cuda")


def test_quartiles_pass_over_what_is_not_defined():
    assert quartiles([None, 1.0, 2.0, 3.0, None, 4.0, 5.0]) == (2.0, 3.0, 4.0)
