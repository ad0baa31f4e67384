"""Folders that were tampered with: one sentence each, and the run goes on where it can."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

import limelight
from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import pyarrow as pa
import pyarrow.parquet as pq

from limelight.runs import Run

DATA = {"text": ["a good film", "a bad film", "fine work"] * 4, "label": ["positive"] * 12}


def explained(folder):
    asked = {"output": folder, "shard_texts": 4}
    return limelight.explain_data(limelight.load(), DATA, ["lime", "gxi"], **asked)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return explained(tmp_path_factory.mktemp("whole") / "run").path


@pytest.fixture
def copied(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


ASKED = (
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


def renamed(shard):
    table = pq.read_table(shard)
    names = ["errxr" if name == "error" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), shard)


@pytest.mark.parametrize("harm", [loop, foreign, renamed])
def test_a_shard_that_is_none_is_named_and_made_anew(copied, whole, harm):
    harm(copied / "shards" / "00001.parquet")
    refused = []
    for ask in ASKED:  # nothing but sentences; some need nothing that is missing
        with contextlib.suppress(InputError):
            ask(Run(copied))
            continue
        refused.append(ask)
    assert len(refused) >= len(ASKED) - 1
    with pytest.raises(InputError, match=r"00001.parquet' is damaged \(.*\); start the run"):
        list(Run(copied))
    explained(copied)
    shard = copied / "shards" / "00001.parquet"
    assert shard.read_bytes() == (whole / "shards" / "00001.parquet").read_bytes()


def test_the_first_shard_lacks_what_only_an_explanation_needs(copied):
    shard = copied / "shards" / "00000.parquet"
    table = pq.read_table(shard)
    pq.write_table(
        table.rename_columns([n.replace("bound", "bouxd") for n in table.column_names]), shard
    )
    with pytest.raises(InputError, match=r"00000.parquet' is damaged \(it has no column 'bound'\)"):
        Run(copied).summary()


@pytest.mark.parametrize(
    ("at", "value", "sentence"),
    [
        (["methods"], [], "its methods must have different names; they are none"),
        (["methods", 1, "id"], "lime", "they are 'lime', 'lime'"),
        (["model", "classes", 0], "positive", "its classes must .*'positive', 'positive'"),
        (["methods", 0, "id"], "lrp", "explanations by lime, and its run.json names lrp, gxi; put"),
        (["data", "files", 0, "rows"], 11, r"00002.parquet' is damaged \(it has 8 rows\)"),
    ],
)
def test_a_plan_that_contradicts_itself_or_the_shards_is_refused(copied, at, value, sentence):
    plan = copied / "run.json"
    record = inner = json.loads(plan.read_text())
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    plan.write_text(json.dumps(record))
    with pytest.raises(InputError, match=sentence):
        Run(copied).summary()


def test_a_shard_in_the_place_of_another_is_not_taken_for_it(copied):
    first, second = (copied / "shards" / f"0000{n}.parquet" for n in (0, 1))
    shutil.copy(second, first)
    with pytest.raises(InputError, match=r"its texts are not 0 to 3"):
        Run(copied).explanation(0)


def test_every_flipped_byte_is_one_sentence(copied):
    shard = copied / "shards" / "00001.parquet"
    whole = shard.read_bytes()
    told = list(Run(copied).words().to_pylist())
    for place in range(1, 800, 23):  # the end of the file says what is where
        content = bytearray(whole)
        content[-place] ^= 0x55
        shard.write_bytes(content)
        for ask in (repr, list, lambda run: run.errors(), lambda run: run.words()):
            try:
                found = ask(Run(copied))
            except InputError:
                continue
            assert (
                not isinstance(found, pa.Table)
                or "word" not in found.column_names
                or (found.to_pylist() == told)
            )


@pytest.mark.parametrize(("count", "rows"), [(10**30, 12), (3, 10**30), (10**30, 4 * 10**30)])
def test_a_plan_of_more_shards_than_there_can_be_ends_soon(copied, count, rows):
    plan = copied / "run.json"
    record = json.loads(plan.read_text())
    record["shards"]["count"], record["data"]["files"][0]["rows"] = count, rows
    plan.write_text(json.dumps(record))
    if rows != 4 * count:
        with pytest.raises(
            InputError, match=rf"{count} shards of 4 texts are not its {rows} texts"
        ):
            Run(copied)
    else:
        assert f"12 of {rows:,} texts" in repr(Run(copied))
        assert Run(copied).summary().texts == 12


def test_a_worker_that_is_interrupted_before_it_begins_says_nothing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal\n"
        "from limelight.runs.engines import _interrupts_held\n"
        "if __name__ == '__main__':\n"
        "    with _interrupts_held():\n"
        "        pid = os.posix_spawn(os.environ['PYTHON'], ['python', '-c',\n"
        "            'import os, signal; os.kill(os.getpid(), signal.SIGINT); print(\"alive\")'],\n"
        "            os.environ)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
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
