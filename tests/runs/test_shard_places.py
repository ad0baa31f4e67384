"""A shard belongs to one place of one run, and every reader refuses it anywhere else."""

import contextlib
import os
import shutil
import signal

import pytest

import limelight
from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import pyarrow as pa
import pyarrow.parquet as pq

from limelight.runs import Run
from limelight.runs.columns import find_texts, text_columns
from limelight.runs.record import plan_identity
from limelight.runs.rows import shard_bytes, stamp_shard

DATA = {"text": ["a good film", "a bad film", "fine work"] * 4, "label": ["positive"] * 12}
OTHER = {"text": ["an awful film", "so boring", "good good"] * 4, "label": ["negative"] * 12}
READERS = {
    "words": lambda run: run.words(),
    "summary": lambda run: run.summary(),
    "sql": lambda run: run.sql("SELECT count(*) FROM texts"),
    "mistakes": lambda run: run.mistakes(),
    "representative": lambda run: run.representative(),
    "slices": lambda run: run.slices(),
    "slices by label": lambda run: run.slices("label"),
    "compare": lambda run: run.compare(Run(run.path)),
    "rows": list,
    "texts": lambda run: run.texts(),
    "errors": lambda run: run.errors(),
    "dataset": lambda run: run.dataset,
    "columns of the page": text_columns,
    "texts with a word": lambda run: find_texts(run, "good"),
    "explanation": lambda run: run.explanation(5),
    "repr": repr,
}


def explain_run(folder, data=DATA):
    options = {"output": folder, "shard_texts": 4, "progress": False}
    return limelight.explain_data(limelight.load(), data, ["lime", "gxi"], **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    return {name: explain_run(place / name, data).path for name, data in
            (("first", DATA), ("second", OTHER))}  # fmt: skip


@pytest.fixture
def shard(runs, tmp_path):
    """The second shard of a copy of the first run."""
    folder = shutil.copytree(runs["first"], tmp_path / "run")
    return folder / "shards" / "00001.parquet"


@contextlib.contextmanager
def write_at_once():
    """Fail where a pipe or a device is waited for."""

    def late(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def assert_damaged(shard, reason, readers=tuple(READERS)):
    for name in readers:
        with (
            write_at_once(),
            pytest.raises(InputError, match=rf"00001.parquet' is damaged \({reason}"),
        ):
            READERS[name](Run(shard.parents[1]))


def test_every_reader_rejects_a_shard_of_another_run(runs, shard):
    shutil.copy(runs["second"] / "shards" / shard.name, shard)
    assert_damaged(shard, "it belongs to another run")


def test_every_reader_rejects_a_shard_that_was_copied_over_another(shard):
    shutil.copy(shard.with_name("00000.parquet"), shard)
    assert_damaged(shard, "it is a copy of shard 0")


def test_a_shard_that_does_not_name_its_run_is_damaged(shard):
    table = pq.read_table(shard)
    pq.write_table(table, shard)
    assert_damaged(shard, "it does not name its run", ["sql", "rows"])


def test_the_digest_covers_the_plan_and_the_place(runs, shard):
    """The bytes that name them cannot be changed alone."""
    content = shard.read_bytes()
    own_identity, other = (plan_identity(path / "run.json").encode() for path in runs.values())
    assert content.count(own_identity) == 1
    shard.write_bytes(content.replace(own_identity, other))
    assert_damaged(shard, "its contents changed after it was written", ["sql", "rows"])
    place = b" " + b"1".rjust(18, b"0") + b" "
    assert content.count(place) == 1
    shard.write_bytes(content.replace(place, b" " + b"2".rjust(18, b"0") + b" "))
    assert_damaged(shard, "its contents changed after it was written", ["sql", "rows"])


KINDS = {
    "pipe": lambda shard: os.mkfifo(shard),
    "endless device": lambda shard: shard.symlink_to("/dev/zero"),
    "empty device": lambda shard: shard.symlink_to("/dev/null"),
    "link to a shard": lambda shard: shard.symlink_to(shard.with_name("00000.parquet")),
    "link to nothing": lambda shard: shard.symlink_to("nothing"),
    "link to itself": lambda shard: shard.symlink_to(shard),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in folders")
@pytest.mark.parametrize("kind", KINDS)
def test_a_link_or_a_device_is_never_opened_and_is_computed_again(runs, shard, kind):
    content = shard.read_bytes()
    shard.unlink()
    KINDS[kind](shard)
    assert_damaged(shard, "it is a link, a pipe, a device or a folder", ["words", "rows", "repr"])
    with write_at_once():
        explain_run(shard.parents[1])
    assert shard.is_file()
    assert not shard.is_symlink()
    assert shard.read_bytes() == content
    assert (runs["first"] / "shards" / "00000.parquet").read_bytes() == (
        shard.with_name("00000.parquet").read_bytes()  # nothing was written through a link
    )


def test_a_folder_with_the_name_of_a_shard_raises_an_error(shard):
    shard.unlink()
    shard.mkdir()
    assert_damaged(shard, "it is a link, a pipe, a device or a folder", ["words", "rows"])
    with pytest.raises(
        InputError, match=r"00001\.parquet' must be a file, not a folder\. Remove it\."
    ):
        explain_run(shard.parents[1])


def test_a_file_larger_than_its_footer_says_is_not_read(shard):
    content = shard.read_bytes()
    with shard.open("r+b") as file:
        file.truncate(1 << 36)  # 64 GB without a byte on disk
    assert_damaged(shard, "it does not end like a Parquet file", ["words", "rows"])
    with shard.open("r+b") as file:  # with a footer at its end
        file.seek((1 << 36) - len(content))
        file.write(content)
    assert_damaged(shard, "it has 68,719,476,736 bytes, but its footer says ", ["words", "rows"])


def change_column(table, name, value):
    cells = table[name].to_pylist()
    cells[3] = value(cells[3])
    return table.set_column(
        table.column_names.index(name), name, pa.array(cells, table.schema.field(name).type)
    )


REWRITTEN = {
    "fewer scores": lambda t: change_column(t, "scores", lambda x: x[:-1]),
    "no scores": lambda t: change_column(t, "scores", lambda _: None),
    "NaN": lambda t: change_column(t, "scores", lambda x: [float("nan"), *x[1:]]),
    "null score": lambda t: change_column(t, "scores", lambda x: [None, *x[1:]]),
    "null feature": lambda t: change_column(t, "features", lambda x: [None, *x[1:]]),
    "fewer places": lambda t: change_column(t, "starts", lambda x: x[1:]),
    "places without ends": lambda t: change_column(t, "ends", lambda x: [[], *x[1:]]),
    "infinite output": lambda t: change_column(t, "prediction", lambda x: [float("inf"), *x[1:]]),
    "too many outputs": lambda t: change_column(t, "prediction", lambda x: x * 3),
    "unknown method": lambda t: change_column(t, "method", lambda _: "shapley"),
    "other order of methods": lambda t: change_column(t, "method", lambda _: "lime"),
    "another text": lambda t: change_column(t, "row", lambda x: x + 1),
    "settings that are no JSON": lambda t: change_column(t, "settings", lambda _: "{"),
    "no settings": lambda t: change_column(t, "settings", lambda _: None),
    "no class": lambda t: change_column(t, "target", lambda _: None),
    "no column": lambda t: t.drop_columns(["bound"]),
    "another name": lambda t: t.rename_columns(["x" if n == "id" else n for n in t.column_names]),
    "another type": lambda t: t.set_column(
        t.column_names.index("base_value"), "base_value", t["base_value"].cast(pa.string())
    ),
    "one column more": lambda t: t.append_column("more", t["row"]),
    "fewer rows": lambda t: t.slice(2),
    "no rows": lambda t: t.slice(0, 0),
}


@pytest.mark.parametrize("how", REWRITTEN)
def test_a_rewritten_shard_with_a_right_digest_is_an_error(shard, how):
    run = Run(shard.parents[1])
    table = REWRITTEN[how](pq.read_table(shard))
    shard.write_bytes(stamp_shard(shard_bytes(table), plan_identity(run.path / "run.json"), 1))
    refused = 0
    for name in ("words", "sql", "rows", "texts", "dataset", "summary"):
        try:
            READERS[name](Run(run.path))
        except InputError as error:
            assert "00001.parquet" in str(error) or "run.json" in str(error)  # noqa: PT017
            refused += 1
    # What only an explanation reads is refused where explanations are made.
    assert refused == 6 if how != "settings that are no JSON" else refused >= 1
