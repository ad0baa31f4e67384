"""Folders that were tampered with: one sentence each, and the run goes on where it can."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import limelight
from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import pyarrow as pa
import pyarrow.parquet as pq

from limelight.runs import Run

DATA = {"text": ["a good film", "a bad film", "fine work"] * 4, "label": ["positive"] * 12}


def explain_run(folder):
    options = {"output": folder, "shard_texts": 4}
    return limelight.explain_data(limelight.load(), DATA, ["lime", "gxi"], **options)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    return explain_run(tmp_path_factory.mktemp("whole") / "run").path


@pytest.fixture
def copied_run(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "run")


READ_FUNCTIONS = (
    repr,
    lambda run: run.summary(),
    list,
    lambda run: run.errors(),
    lambda run: run.texts(),
    lambda run: run.explanation(5),
    lambda run: run.words(),
    lambda run: run.mistakes(),
)


def loop(shard):
    shard.unlink()
    shard.symlink_to(shard)


def foreign(shard):
    pq.write_table(pa.table({"x": [1]}), shard)


def renamed_shard(shard):
    table = pq.read_table(shard)
    names = ["errxr" if name == "error" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), shard)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (loop, "it is a link, a pipe, a device or a folder, not a file"),
        (foreign, "it has no column 'row'"),
        (renamed_shard, "it has no column 'error'"),
    ],
)
def test_a_file_that_is_no_shard_is_named_and_computed_again(
    copied_run, finished_run, harm, reason
):
    harm(copied_run / "shards" / "00001.parquet")
    failing = []
    for read in READ_FUNCTIONS:  # no other errors; a few need no column that is missing
        with contextlib.suppress(InputError):
            read(Run(copied_run))
            continue
        failing.append(read)
    assert len(failing) >= len(READ_FUNCTIONS) - 1
    message = rf"00001\.parquet' is damaged \({reason}\)\. Start the run again to compute only this"
    with pytest.raises(InputError, match=message):
        list(Run(copied_run))
    explain_run(copied_run)
    shard = copied_run / "shards" / "00001.parquet"
    assert shard.read_bytes() == (finished_run / "shards" / "00001.parquet").read_bytes()


def test_the_first_shard_lacks_what_only_an_explanation_needs(copied_run):
    shard = copied_run / "shards" / "00000.parquet"
    table = pq.read_table(shard)
    pq.write_table(
        table.rename_columns([n.replace("bound", "bouxd") for n in table.column_names]), shard
    )
    with pytest.raises(InputError, match=r"00000.parquet' is damaged \(it has no column 'bound'\)"):
        Run(copied_run).summary()


@pytest.mark.parametrize(
    ("at", "value", "sentence"),
    [
        (["methods"], [], "its methods must have different names, not none"),
        (["methods", 1, "id"], "lime", "its methods must have different names, not 'lime', 'lime'"),
        (["model", "classes", 0], "positive", "its classes must .*, not 'positive', 'positive'"),
        (
            ["methods", 0, "id"],
            "lrp",
            r"explanations by lime, but its run\.json names lrp, gxi\. Restore the original run",
        ),
        (["data", "files", 0, "rows"], 11, r"00002.parquet' is damaged \(it has 8 rows\)"),
    ],
)
def test_a_plan_that_contradicts_itself_or_the_shards_is_refused(copied_run, at, value, sentence):
    plan = copied_run / "run.json"
    record = inner = json.loads(plan.read_text())
    del record["sha256"]  # whoever changes a plan by hand is asked to
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    plan.write_text(json.dumps(record))
    with pytest.raises(InputError, match=sentence):
        Run(copied_run).summary()


def test_a_shard_in_the_place_of_another_is_not_taken_for_it(copied_run):
    first, second = (copied_run / "shards" / f"0000{n}.parquet" for n in (0, 1))
    shutil.copy(second, first)
    with pytest.raises(InputError, match=r"00000.parquet' is damaged \(it is a copy of shard 1\)"):
        Run(copied_run).explanation(0)


def collect_outputs(folder):
    """Return all that a run is asked for."""
    run = Run(folder)
    tables = (run.errors(), run.texts(), run.words(), run.mistakes(), run.dataset.to_table())
    views = (run.sql(f"SELECT * FROM {name} ORDER BY ALL") for name in ("texts", "words"))
    outputs = [repr(run), run.summary(by="label").to_json(), *(value.to_json() for value in run)]
    return outputs + [repr(value.to_pylist()) for value in (*tables, *views)]


def test_every_flipped_bit_of_a_run_is_an_error_or_changes_nothing(copied_run):
    """FLIPS=200 tries so many; where numbers stand uncompressed, a wrong one looks like others."""
    files = [file for file in copied_run.rglob("*") if file.is_file()]
    rng, outputs = random.Random(23), collect_outputs(copied_run)
    sizes = [file.stat().st_size for file in files]
    for _ in range(int(os.environ.get("FLIPS", "40"))):
        (file,) = rng.choices(files, sizes)
        finished_run = file.read_bytes()
        content = bytearray(finished_run)
        content[place := rng.randrange(len(finished_run))] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
        with contextlib.suppress(InputError):
            assert collect_outputs(copied_run) == outputs, (file.name, place)
        file.write_bytes(finished_run)
    assert collect_outputs(copied_run) == outputs


def test_a_number_that_rotted_is_named_though_it_can_be_read(copied_run):
    shard = copied_run / "shards" / "00001.parquet"
    content, number = (
        bytearray(shard.read_bytes()),
        np.float32(Run(copied_run).explanation(4).bound),
    )
    place = content.find(number.tobytes())
    assert place > 0  # in the footer, which no page covers
    content[place] ^= 1
    shard.write_bytes(content)
    pq.read_table(shard, page_checksum_verification=True)  # nothing is noticed by these
    for ask in READ_FUNCTIONS:
        with pytest.raises(
            InputError, match=r"00001\.parquet' is damaged \(its contents changed after it was wr"
        ):
            ask(Run(copied_run))


def test_runs_without_digests_are_read_as_before(copied_run):
    outputs = collect_outputs(copied_run)
    plan = copied_run / "run.json"
    record = json.loads(plan.read_text())
    assert len(record.pop("sha256")) == 64
    plan.write_text(json.dumps(record))
    for shard in (copied_run / "shards").iterdir():
        pq.write_table(pq.read_table(shard).replace_schema_metadata(None), shard)
    assert collect_outputs(copied_run) == outputs
    record["model"]["classes"][0] = "nice"  # a change by hand, which no digest contradicts
    plan.write_text(json.dumps(record | {"sha256": "0" * 64}))
    with pytest.raises(
        InputError,
        match=r"run\.json' is not a .*do not match its sha256\. Restore the file, or rem",
    ):
        Run(copied_run)


@pytest.mark.parametrize(("count", "rows"), [(10**30, 12), (3, 10**30), (10**30, 4 * 10**30)])
def test_a_plan_of_more_shards_than_there_can_be_ends_soon(copied_run, count, rows):
    plan = copied_run / "run.json"
    record = json.loads(plan.read_text())
    del record["sha256"]
    record["shards"]["count"], record["data"]["files"][0]["rows"] = count, rows
    plan.write_text(json.dumps(record))
    if rows != 4 * count:
        with pytest.raises(
            InputError, match=rf"{count} shards of 4 texts do not fit its {rows} texts"
        ):
            Run(copied_run)
    else:
        assert f"12 of {rows:,} texts" in repr(Run(copied_run))
        assert Run(copied_run).summary().texts == 12


@pytest.mark.slow
def test_a_worker_that_is_interrupted_before_it_starts_prints_nothing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, os, signal\n"
        "from limelight.runs.engines import _worker_environment\n"
        "if __name__ == '__main__':\n"
        "    spawned = multiprocessing.get_context('spawn').Process(\n"
        "        target=signal.raise_signal, args=(signal.SIGINT,))\n"
        "    with _worker_environment(1, program=True):\n"
        "        spawned.start()  # the first one, with which Python starts its tracker\n"
        "        pid = os.posix_spawn(os.environ['PYTHON'], ['python', '-c',\n"
        "            'import os, signal; os.kill(os.getpid(), signal.SIGINT); print(\"alive\")'],\n"
        "            os.environ)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
        "    spawned.join()\n"
        "    assert spawned.exitcode == 0\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHON": sys.executable},
    )
    assert done.stdout == "alive\n"
    assert done.returncode == -signal.SIGINT  # who starts workers still hears it
