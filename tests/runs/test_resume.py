"""A run goes on where it was left, whatever ended it, and refuses to mix two questions."""

import errno
import functools
import inspect
import json
import operator
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import limelight
from limelight.errors import InputError, check_count

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import pyarrow.parquet as pq
from kill_runs import contents

from limelight.data.columns import DataSet, open_data
from limelight.runs import Run
from limelight.runs.job import shards_to_do
from limelight.runs.record import ShardPlan
from limelight.runs.run import RunFolder

from tiny_models import random_texts, tiny_model

TEXTS = [text for text in random_texts(40, seed=5) if len(set(text.split())) > 2][:23]
DATA = {"text": TEXTS, "label": ["class 1"] * 23, "year": list(range(23))}


@pytest.fixture(scope="module")
def model():
    return tiny_model(outputs=3)


def explain_run(model, output, data=DATA, method=("lime", "gxi"), **options):
    method = list(method) if isinstance(method, tuple) else method
    return limelight.explain_data(
        model, data, method, output=output, **{"shard_texts": 5, **options}
    )


@pytest.fixture(scope="module")
def finished_run(model, tmp_path_factory):
    """A run that nobody disturbed."""
    return explain_run(model, tmp_path_factory.mktemp("whole") / "run").path


def shard_rows(folder):
    """Return the rows of every shard: its bytes also say to which run it belongs."""
    return {path.name: pq.read_table(path) for path in (folder / "shards").iterdir()}


class StopError(Exception):
    pass


def stop_after(count):
    """A callback that ends the run when so many shards are stored."""
    store_run = []

    def report_progress(progress):
        store_run.extend([progress.shard] if progress.shard else [])
        if len(store_run) == count:
            raise StopError

    return report_progress


@pytest.mark.parametrize("stops", [(1,), (2, 1), (1, 1, 1, 1)])
def test_a_run_that_was_stopped_ends_up_equal(model, finished_run, tmp_path, stops):
    for count in stops:
        with pytest.raises(StopError):
            explain_run(model, tmp_path / "run", progress=stop_after(count))
    store_run = sum(stops)
    partial = Run(tmp_path / "run")
    assert (len(partial), partial.total, partial.finished) == (5 * store_run, 23, False)
    assert repr(partial) == f"<Run '{tmp_path / 'run'}': {5 * store_run} of 23 texts, lime, gxi>"
    with pytest.raises(InputError, match=r"text 22 is not explained yet\. Start the run again"):
        partial.explanation(22)
    assert len(list(partial)) == 2 * 5 * store_run
    explain_run(model, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(finished_run)


def test_what_is_there_is_not_done_again(model, finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "run")
    heard = []
    (tmp_path / "run" / "shards" / "00002.parquet").unlink()
    explain_run(model, tmp_path / "run", progress=heard.append)
    assert [event.shard.number for event in heard if event.shard] == [2]
    assert (heard[0].done, heard[-1].done, heard[-1].total) == (23, 23, 23)  # 18 there, 5 heard of
    assert contents(tmp_path / "run") == contents(finished_run)
    heard.clear()
    explain_run(model, tmp_path / "run", progress=heard.append)
    assert heard == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "foreign"])
def test_a_damaged_shard_is_named_and_computed_again(model, finished_run, tmp_path, damage):
    shutil.copytree(finished_run, tmp_path / "run")
    path = tmp_path / "run" / "shards" / "00001.parquet"
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[len(content) // 4] ^= 0xFF
    other = (finished_run / "shards" / "00004.parquet").read_bytes()  # it has fewer rows
    path.write_bytes({"cut": content[:-40], "emptied": b"", "foreign": other}.get(damage, content))
    reasons = {
        "cut": "it does not end like a Parquet file",
        "flipped": "its contents changed after it was written",
        "emptied": "it has 0 bytes",
    }
    if damage in reasons:
        message = rf"00001\.parquet' is damaged \({reasons[damage]}\)\. Start the run again to comp"
        with pytest.raises(InputError, match=message):
            list(Run(tmp_path / "run"))
    heard = []
    explain_run(model, tmp_path / "run", progress=heard.append)
    assert "00001.parquet" in heard[0].warning
    assert contents(tmp_path / "run") == contents(finished_run)


CHANGES = {
    "its model (by fingerprint) is ": {"model": tiny_model(1, outputs=3)},
    "its list of methods is 'lime, gxi', not 'gxi'": {"method": "gxi"},
    "its bandwidth of lime is 0.25, not 0.5": {"bandwidth": 0.5},
    "its target is None, not 'class 1'": {"target": "class 1"},
    "its scale is 'logit', not 'probability'": {"scale": "probability"},
    "its file 0 (by SHA-256) is ": {"data": {**DATA, "year": [0] * 23}},
    "its column for label is 'label', not 'year'": {"label_column": "year"},
    "its shard_texts is 5, not 6": {"shard_texts": 6},
    "its store_texts is True, not False": {"store_texts": False},
}


@pytest.mark.parametrize("clause", CHANGES)
def test_another_request_in_the_same_folder_raises_an_error(model, finished_run, tmp_path, clause):
    shutil.copytree(finished_run, tmp_path / "run")
    options = dict(CHANGES[clause])
    with pytest.raises(InputError) as error:
        explain_run(options.pop("model", model), tmp_path / "run", **options)
    assert str(error.value).startswith(f"'{tmp_path / 'run'}' contains another run: {clause}")
    assert str(error.value).endswith(
        " Choose another folder, or use the version, model, data and options of that run."
    )
    assert contents(tmp_path / "run") == contents(finished_run)


@pytest.mark.parametrize(
    ("version", "more"), [("0.1.9", {}), ("0.2.0", {}), ("0.3.0", {}), ("0.4.9", {"seed": 0})]
)
def test_another_version_raises_an_error_if_its_numbers_may_differ(
    model, finished_run, tmp_path, version, more
):
    shutil.copytree(finished_run, tmp_path / "run")
    plan = tmp_path / "run" / "run.json"
    record = json.loads(plan.read_text()) | {"version": version, "sha256": None}
    record["methods"][0]["settings"] |= more
    plan.write_text(json.dumps(record))
    with pytest.raises(InputError, match=rf"its version of limelight is {version}, not \d"):
        explain_run(model, tmp_path / "run")


def test_a_run_without_samples_continues_under_a_version_with_the_same_scores(
    model, finished_run, tmp_path
):
    shutil.copytree(finished_run, tmp_path / "run")
    plan = tmp_path / "run" / "run.json"
    record = json.loads(plan.read_text()) | {"version": "0.4.0.dev0"}
    del record["sha256"]  # the digest covers the version
    plan.write_text(json.dumps(record))
    (tmp_path / "run" / "shards" / "00002.parquet").unlink()
    assert explain_run(model, tmp_path / "run").finished
    shards = {name for name in contents(finished_run) if "shards" in str(name)}
    assert shards
    for name in shards:
        assert contents(tmp_path / "run")[name] == contents(finished_run)[name]


@pytest.mark.parametrize(
    ("part", "place"),
    [
        (["request"], "request"),
        (["data", "files", 0], r"data\.files\[0\]"),
        (["model"], "model"),
    ],
)
def test_a_plan_with_an_unknown_field_raises_an_error(model, finished_run, tmp_path, part, place):
    shutil.copytree(finished_run, tmp_path / "run")
    plan = tmp_path / "run" / "run.json"
    record = json.loads(plan.read_text())
    functools.reduce(operator.getitem, part, record)["mood"] = "good"
    plan.write_text(json.dumps(record))
    with pytest.raises(InputError, match=rf"unknown field `mood` - at `\$\.{place}`"):
        explain_run(model, tmp_path / "run")


def test_a_field_that_an_older_plan_lacks_has_its_default(model, finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "run")
    plan = tmp_path / "run" / "run.json"
    record = json.loads(plan.read_text())
    del record["sha256"], record["request"]["protect_span"]
    plan.write_text(json.dumps(record))
    (tmp_path / "run" / "shards" / "00002.parquet").unlink()
    explain_run(model, tmp_path / "run")
    assert shard_rows(tmp_path / "run") == shard_rows(finished_run)
    with pytest.raises(InputError, match="its protect_span is True, not False"):
        explain_run(model, tmp_path / "run", protect_span=False)


def test_a_folder_with_other_files_is_not_changed(model, tmp_path):
    (tmp_path / "thesis.tex").write_text("dear")
    with pytest.raises(InputError, match=r"contains other files\. Choose a new or empty folder\."):
        explain_run(model, tmp_path)
    (tmp_path / "thesis.tex").unlink()
    (tmp_path / "run.json").write_text('{"schema": "limelight.run/1"}')
    with pytest.raises(
        InputError,
        match=r"Its schema is 'limelight.run/1', not 'limelight.run/2'",
    ):
        explain_run(model, tmp_path)


def test_a_process_that_was_killed_before_the_plan_was_whole_leaves_no_trace(
    model, finished_run, tmp_path
):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.limelight-abcdefgh.part").write_text("{")
    explain_run(model, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(finished_run)


def test_two_processes_cannot_write_to_a_run_at_once(model, finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "run")
    program = (
        "import sys, time; from limelight.runs.run import RunFolder\n"
        "with RunFolder(sys.argv[1]).lock_folder(): print('locked', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        message = rf"another process \(process {other.pid}\) is writing to '.*run'\. Wait until it"
        try:
            with pytest.raises(InputError, match=message):
                explain_run(model, tmp_path / "run")
        finally:  # otherwise a failing test waits until the other process ends
            other.kill()
    explain_run(model, tmp_path / "run")  # a killed process holds nothing
    assert contents(tmp_path / "run") == contents(finished_run)


def test_a_full_disk_loses_nothing_that_is_finished(model, finished_run, tmp_path, monkeypatch):
    def full(self, number, content, write=RunFolder.write):
        if number == 2:
            place = str(self.path / "shards" / f"{number:05d}.parquet")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
        write(self, number, content)

    monkeypatch.setattr(RunFolder, "write", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*00002\.parquet'"):
        explain_run(model, tmp_path / "run")
    assert Run(tmp_path / "run").shards == [0, 1]
    monkeypatch.undo()
    leftover = tmp_path / "run" / "shards" / ".00002.parquet.limelight-abcdefgh.part"
    leftover.write_bytes(b"left by a killed process")
    explain_run(model, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(finished_run)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write")
def test_a_folder_that_cannot_be_written_is_an_error(limelight, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("text\na good film\n")
    done = limelight("explain-data", data, "--output", "/proc/self/run")
    assert done.code == 2
    assert done.err.startswith("Error: '/proc/self/run")
    assert done.err.count("\n") == 1


def test_a_removed_data_file_is_named_and_finished_shards_stay(model, tmp_path):
    first, second = (tmp_path / f"{name}.parquet" for name in "ab")
    for path in (first, second):
        pq.write_table(limelight_table(), path)

    def report_progress(progress):
        if progress.shard:
            second.unlink(missing_ok=True)

    with pytest.raises(InputError, match=r"b\.parquet' was removed during the run\. Put it back"):
        explain_run(model, tmp_path / "run", [first, second], progress=report_progress)
    assert len(Run(tmp_path / "run")) == 20
    with pytest.raises(InputError, match=r"there is no data at '.*b\.parquet'"):
        explain_run(model, tmp_path / "run", [first, second])


def limelight_table():
    import pyarrow as pa

    return pa.table(DATA)


class Moody:
    """A function that fails on some texts until it is well."""

    well = False

    def __call__(self, texts):
        if not self.well and any("w3" in text for text in texts):
            raise RuntimeError("not today")
        return [[0.5 + 0.01 * len(text), 0.5 - 0.01 * len(text)] for text in texts]


def test_failed_texts_are_tried_again_on_request_and_only_those(tmp_path):
    def wrap_model():
        return limelight.wrap(Moody(), classes=["no", "yes"], name="moody")

    texts = [text[:30] for text in TEXTS]
    data = {"text": texts}
    ill, well = wrap_model(), wrap_model()
    well.function.well = True
    complete = explain_run(well, tmp_path / "whole", data, "loo")
    run = explain_run(ill, tmp_path / "run", data, "loo")
    bad = {row["row"] for row in run.errors().to_pylist()}
    assert bad == {i for i, text in enumerate(texts) if "w3" in text}
    assert 0 < len(bad) < len(texts)
    assert "not today" in run.errors().column("error")[0].as_py()
    ill.function.well = True
    heard = []
    explain_run(ill, run.path, data, "loo", progress=heard.append)
    assert heard == []  # nobody asked to try again
    explain_run(ill, run.path, data, "loo", progress=heard.append, retry=True)
    assert sum(event.shard.texts for event in heard if event.shard) == len(bad)
    assert heard[-1].failed == 0
    assert contents(run.path) == contents(complete.path)


def test_a_wrong_option_raises_an_error_before_any_shard_is_written(model, tmp_path):
    cases = [
        ({"target": "class 9"}, r"unknown class: 'class 9'\."),
        ({"features": "letters"}, "unknown features: 'letters'"),
        ({"method": "lyme"}, r"unknown method: 'lyme'\. Did you mean 'lime'"),
        ({"target": 1, "all_classes": True}, "give target or all_classes, not both"),
        ({"protect": "not"}, "protect must be a list of words, not 'not'"),
        ({"workers": 0}, r"workers must be a positive whole number, not 0\."),
        ({"workers": 2}, r"it is only in memory\. Load it with limelight\.load, or leave"),
        ({"shard_texts": 0}, r"shard_texts must be a positive whole number, not 0\."),
        ({"bandwith": 1}, "unknown setting of these methods: 'bandwith'"),
    ]
    for i, (options, message) in enumerate(cases):
        with pytest.raises(InputError, match=message):
            explain_run(model, tmp_path / str(i), **options)
        assert not list((tmp_path / str(i)).glob("shards/*.parquet"))


def test_a_count_of_numpy_is_a_count():
    numbers = check_count("workers", np.int64(2))
    assert (numbers, type(numbers)) == (2, int)
    for count in (np.int64(0), np.bool_(True), True, 2.0, "2", None):
        message = f"workers must be a positive whole number, not {count!r}."
        with pytest.raises(InputError, match=re.escape(message)):
            check_count("workers", count)


class Heard:
    """A model that has to be asked, and counts how often it is asked about each text."""

    def __init__(self):
        self.count = 0

    def __call__(self, texts):
        self.count += len(texts)
        lengths = np.array([[len(set(text.split())), len(text)] for text in texts])
        return np.sin(lengths)

    @property
    def wrapped(self):
        return limelight.wrap(self, classes=["bad", "good"], scale="logit")


def test_a_budget_of_calls_is_kept_on_every_text_and_is_part_of_the_question(tmp_path):
    heard, methods, budget = Heard(), ["shapley", "lime", "loo"], "200 calls"
    data = {"text": TEXTS[:6]}
    run = explain_run(heard.wrapped, tmp_path / "run", data, methods, budget=budget, shard_texts=2)
    assert run.record.budget == "200 calls"
    assert "pairs" not in run.record.methods[0].settings
    calls = heard.count
    assert calls <= 201 * len(data["text"])  # to which the first text is read once more, to check
    for row, text in enumerate(data["text"]):
        comparison = limelight.compare(heard.wrapped, text, methods=methods, budget=budget)
        for e in comparison:
            store_run = run.explanation(row, e.method)
            assert store_run.settings == e.settings
            np.testing.assert_allclose(store_run.scores, e.scores, rtol=1e-6, atol=1e-6)
    with pytest.raises(InputError, match="its budget is '200 calls', not '199 calls'"):
        explain_run(heard.wrapped, run.path, data, methods, budget="199 calls", shard_texts=2)
    with pytest.raises(StopError):
        explain_run(
            heard.wrapped,
            tmp_path / "stopped",
            data,
            methods,
            budget=budget,
            shard_texts=2,
            progress=stop_after(1),
        )
    again = explain_run(
        heard.wrapped, tmp_path / "stopped", data, methods, budget=budget, shard_texts=2
    )
    assert contents(again.path / "shards") == contents(run.path / "shards")


def test_a_text_that_a_budget_is_too_small_for_is_a_row_with_its_reason(tmp_path):
    data = {"text": ["a fine film", "a b c d e f g h i j k l m n o p q r s t u v w x y z"]}
    run = explain_run(Heard().wrapped, tmp_path / "run", data, "loo", budget="12 calls")
    assert run.errors().column("row").to_pylist() == [1]
    (error,) = run.errors().column("error").to_pylist()
    assert error.startswith("text 1 (counting from 0): LOO needs at least 28 model calls for 26 ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"budget": "30s"},
            r'number of model calls, such as "400 calls", not "30s"\. A run must have the same res',
        ),
        ({"budget": 2}, 'must be a number of model calls, such as "400 calls", not "2s"'),
        ({"budget": "200 calls", "pairs": 3}, "give budget or 'pairs', not both"),
        ({"budget": "much"}, r'a number of model calls \("400 calls"\), of at least 0, not .much.'),
    ],
)
def test_a_wrong_budget_raises_an_error_before_any_model_call(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        explain_run(Heard().wrapped, tmp_path / "run", method="shapley", **options)
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("limit", [1, 5, 7])
def test_a_limit_takes_the_first_rows_as_a_run_of_them_alone_would(model, tmp_path, limit):
    limited = explain_run(model, tmp_path / "few", limit=limit)
    first_rows = {name: column[:limit] for name, column in DATA.items()}
    same = explain_run(model, tmp_path / "alone", first_rows)
    assert shard_rows(limited.path) == shard_rows(same.path) != {}
    assert len(limited) == limit
    with pytest.raises(InputError, match=f"its number of rows is {limit}, not 23"):
        explain_run(model, limited.path)
    again = explain_run(model, limited.path, limit=limit)
    assert contents(again.path) == contents(limited.path)


def test_a_limit_beyond_the_last_row_is_no_limit(model, finished_run, tmp_path):
    run = explain_run(model, tmp_path / "run", limit=10**6)
    assert run.record == Run(finished_run).record
    for limit in (0, -3):
        with pytest.raises(InputError, match=f"limit must be a positive whole number, not {limit}"):
            explain_run(model, tmp_path / "none", limit=limit)
    unchecked = inspect.unwrap(DataSet.record)
    with pytest.raises(InputError, match=r"limit must be a positive whole number, not 2\.5"):
        unchecked(open_data(DATA), store_texts=True, limit=2.5)
    assert type(unchecked(open_data(DATA), store_texts=True, limit=np.int64(2)).limit) is int


def test_the_list_of_what_is_to_do_does_not_grow_with_the_texts(finished_run):
    record = Run(finished_run).record
    sizes = []
    for rows in (10_000, 10_000_000):  # in as many shards
        file = replace(record.data.files[0], rows=rows)
        data = replace(record.data, files=[file])
        plan = replace(record, data=data, shards=ShardPlan(texts=rows // 100, count=100))
        tracemalloc.start()
        assert sum(map(len, shards_to_do(plan, {}, retry=False).values())) == rows
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert sizes[1] < 2 * sizes[0]


def test_the_plan_contains_the_request_and_no_time(model, finished_run):
    plan = json.loads((finished_run / "run.json").read_text())
    assert plan["schema"] == "limelight.run/2"
    assert [method["id"] for method in plan["methods"]] == ["lime", "gxi"]
    assert plan["methods"][0]["settings"]["bandwidth"] == 0.25
    assert plan["data"]["columns"]["carried"] == ["year"]
    assert plan["shards"] == {"texts": 5, "count": 5}
    assert Run(finished_run).texts().column("year").to_pylist() == DATA["year"]
