"""Every engine writes the same folder, bit by bit, also when its workers are killed."""

import contextlib
import gc
import multiprocessing as mp
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection

import pytest

import limelight
from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import kill_runs
import pyarrow as pa

from limelight.models.loading import ModelSource
from limelight.runs import Run, RunProgress, estimate
from limelight.runs.engines import SpawnedProcess, run_on_workers
from limelight.runs.work import ShardWork, Task, explain_shard, pickle_job

from runs import make_record, texts_table
from tiny_models import random_texts, tiny_model

TEXTS = [*random_texts(30, seed=5), "", "w1"]
DATA = {"text": TEXTS}
METHODS = ["lime", "shapley", "lime-sampled"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    limelight.save_folder(tiny_model(outputs=3), path)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return limelight.load(folder)


def explain_run(model, output, **options):
    return limelight.explain_data(model, DATA, METHODS, output=output, shard_texts=4, **options)


@pytest.fixture(scope="module")
def finished_run(model, tmp_path_factory):
    return kill_runs.contents(explain_run(model, tmp_path_factory.mktemp("whole") / "run").path)


def test_threads_use_the_model_in_memory(model, finished_run, tmp_path):
    live = tiny_model(outputs=3)
    with ThreadPoolExecutor(2) as threads:
        run = explain_run(live, tmp_path / "run", executor=threads)
    store_run = kill_runs.contents(run.path)
    del store_run["run.json"]  # which says where the other model was loaded from
    assert store_run.items() <= finished_run.items()
    assert len(store_run) == len(finished_run) - 1


@pytest.mark.slow
def test_processes_write_the_same_and_a_killed_one_is_replaced(model, finished_run, tmp_path):
    killed = []

    def kill_one(progress):
        if progress.shard and not killed:
            (worker, *_) = mp.active_children()
            killed.append(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    run = explain_run(model, tmp_path / "run", workers=2, progress=kill_one)
    assert killed
    assert kill_runs.contents(run.path) == finished_run
    assert mp.active_children() == []


@pytest.mark.slow
def test_an_executor_of_processes_writes_the_same_and_says_when_it_ends(
    model, finished_run, tmp_path
):
    with ProcessPoolExecutor(2, mp_context=mp.get_context("spawn")) as pool:
        run = explain_run(model, tmp_path / "run", executor=pool)
        assert kill_runs.contents(run.path) == finished_run

        def kill_one(progress):
            if progress.shard:  # a second shard may come before the pool has noticed
                with contextlib.suppress(ProcessLookupError):
                    os.kill(next(iter(pool._processes)), signal.SIGKILL)

        with pytest.raises(
            InputError,
            match=r"the executor ProcessPoolExecutor stopped \(.*Start the run again with a",
        ):
            explain_run(model, tmp_path / "again", executor=pool, progress=kill_one)
    assert 0 < len(Run(tmp_path / "again")) < len(TEXTS)
    explain_run(model, tmp_path / "again")
    assert kill_runs.contents(tmp_path / "again") == finished_run


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # dask's own
def test_dask_writes_the_same(model, finished_run, tmp_path):
    pytest.importorskip("distributed", reason="needs dask[distributed]")
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        client.get_executor() as executor,
    ):
        run = explain_run(model, tmp_path / "run", executor=executor)
    assert kill_runs.contents(run.path) == finished_run


@pytest.mark.slow
def test_a_run_that_is_killed_at_random_moments_ends_up_equal(tmp_path):
    """In processes of its own and in one; scripts/kill_runs.py kills more, in other engines too."""
    data = kill_runs.synthetic(tmp_path / "texts.csv", 600, words=20)
    kill_runs.run(kill_runs.command("here", data, tmp_path / "whole", 4))
    for engine in ("here", "pool"):
        command = kill_runs.command(engine, data, tmp_path / engine, 4)
        moments = kill_runs.killed(command, tmp_path / engine, kills=2, seed=len(engine))
        assert len(moments) == 2
        assert kill_runs.contents(tmp_path / engine) == kill_runs.contents(tmp_path / "whole")


def test_a_worker_does_not_explain_another_model(folder, model):

    record = make_record(model, ["gxi"], TEXTS)
    task = Task(0, texts_table(TEXTS[:2]))
    source = ModelSource(str(folder), None)
    good = explain_shard(pickle_job(record, source, {}), task)
    assert (good.error, good.texts, good.failed) == (None, 2, 0)
    other = make_record(tiny_model(1, outputs=3), ["gxi"], TEXTS)
    bad = explain_shard(pickle_job(other, source, {}), task)
    assert bad.error == f"the model at '{folder}' changed after the run started. Restore it."
    gone = explain_shard(pickle_job(record, ModelSource(str(folder / "gone"), None), {}), task)
    assert gone.error.startswith(f"there is no model folder at '{folder / 'gone'}'")


def test_the_estimate_names_what_would_be_quicker(monkeypatch, model, tmp_path):
    monkeypatch.setattr("limelight.runs.estimate._LONG", 0.0)
    monkeypatch.setattr("limelight.runs.estimate._QUICK", ("gxi", "alpha-avg"))
    seconds = {"gxi": 60.0, "alpha-avg": 1.0}
    monkeypatch.setattr(
        "limelight.runs.estimate._measure_seconds_per_text",
        lambda work, _: seconds.get(work.methods[0].method.id, 300.0),
    )
    heard = []
    explain_run(model, tmp_path / "run", progress=heard.append)
    assert heard[0].estimate is None  # it has begun
    assert heard[1].estimate.sentence == (  # a fifth is not worth naming
        "About 3 hours for 32 texts with 1 worker. The method 'alpha-avg' would take about "
        "32 seconds."
    )


def test_the_estimate_of_a_slow_method_asks_about_two_texts(monkeypatch):
    calls = []
    monkeypatch.setattr(ShardWork, "__call__", lambda _, table: calls.append(len(table)))
    work = object.__new__(ShardWork)
    sample = pa.table({"text": [str(i) for i in range(5)]})
    estimate._measure_seconds_per_text(work, sample)
    monkeypatch.setattr(estimate, "_PATIENCE", -1.0)
    estimate._measure_seconds_per_text(work, sample)
    assert calls == [1, 4, 1, 1]


def test_progress_counts_texts_and_failures(model, tmp_path):
    heard = []
    explain_run(model, tmp_path / "run", progress=heard.append)
    assert [event.done for event in heard] == sorted(event.done for event in heard)
    last = heard[-1]
    assert (last.done, last.total, last.seconds_left) == (32, 32, 0)
    assert last.failed == sum(len(set(text.split())) < 2 for text in TEXTS) > 2  # no LIME of one
    assert last.per_second > 0
    assert sum(event.shard is not None for event in heard) == 8


def test_python_shows_a_line_on_a_terminal_and_warnings_everywhere(
    model, tmp_path, capsys, monkeypatch
):
    data = {"text": ["w1 w2", "w3"] * 15, "label": ["good"] * 30}
    limelight.explain_data(model, data, "gxi", output=tmp_path / "a", shard_texts=10)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("The label 'good' matches no class of the model")
    assert output.err.count("\n") == 1
    limelight.explain_data(model, data, "gxi", output=tmp_path / "b", progress=False)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    limelight.explain_data(model, data, "gxi", output=tmp_path / "c", shard_texts=10)
    lines = capsys.readouterr().err.split("\n")
    assert "for 30 texts with 1 worker." in lines[1]
    assert lines[2].split("\r")[-1].startswith("30 of 30 texts, ")
    assert lines[3] == ""


def length_scores(texts):
    return [[0.0, float(len(text))] for text in texts]


def test_functions_that_can_be_pickled_use_processes_and_others_say_why(tmp_path):
    texts = ["a good film", "a bad film", "fine"] * 4

    def explain_run(function, name, **options):
        model = limelight.wrap(function, classes=["n", "p"], scale="logit")
        result = limelight.explain_data(
            model, texts, "loo", output=tmp_path / name, shard_texts=4, **options
        )
        return [path.read_bytes() for path in result.paths]

    assert explain_run(length_scores, "two", workers=2) == explain_run(length_scores, "one")
    with pytest.raises(
        InputError, match=r"it cannot be pickled \(.*<lambda>.*Import its functions"
    ):
        explain_run(lambda texts: length_scores(texts), "none", workers=2)
    lost = explain_shard(b"cnowhere\nfound\n.", Task(0, texts_table([])))
    assert lost.error.startswith("a worker cannot unpickle its job (ModuleNotFoundError: ")


def commas(text):
    return [match.span() for match in re.finditer(r"[^,\s][^,]*", text)]


@pytest.mark.slow
def test_a_splitter_travels_to_processes_with_its_job_and_another_one_resumes_nothing(tmp_path):
    model = limelight.wrap(length_scores, classes=["n", "p"], scale="logit")
    texts = ["a good film, a bad one, fine", "no comma", "one, two, three and four"] * 4

    def explain_run(splitter, name, **options):
        return limelight.explain_data(
            model, texts, "loo", output=tmp_path / name, shard_texts=4, features=splitter, **options
        )

    two, single_worker = explain_run(commas, "two", workers=2), explain_run(commas, "one")
    assert [path.read_bytes() for path in two.paths] == [
        path.read_bytes() for path in single_worker.paths
    ]
    assert next(iter(two)).features == ("a good film", "a bad one", "fine")
    assert two.record.request.features == f"{__name__}:commas"
    with pytest.raises(
        InputError, match=r"or the splitter: it cannot be pickled \(.*Import its func"
    ):
        explain_run(lambda text: commas(text), "none", workers=2)
    with pytest.raises(InputError, match="features"):
        explain_run("sentences", "two")


@pytest.mark.slow
def test_a_splitter_that_the_program_defines_is_found_by_its_processes(tmp_path):
    (tmp_path / "lengths.py").write_text("def scores(texts): return [[0.0, len(t)] for t in texts]")
    (tmp_path / "program.py").write_text(
        "import limelight, lengths\n"
        "def halves(text):\n"
        "    return [(0, len(text) // 2), (len(text) // 2, len(text))]\n"
        "if __name__ == '__main__':\n"
        "    model = limelight.wrap(lengths.scores, classes=['n', 'p'], scale='logit')\n"
        "    run = limelight.explain_data(model, ['good film'] * 4, 'loo', output='run',\n"
        "        shard_texts=2, features=halves, workers=2)\n"
        "    print(next(iter(run)).features)\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "('good', ' film')\n", done.stderr


def test_a_splitter_of_the_same_name_that_cuts_otherwise_resumes_nothing(tmp_path):
    model = limelight.wrap(length_scores, classes=["n", "p"], scale="logit")

    def explain_run(name, stop):
        def splitter(text):
            return [match.span() for match in re.finditer(f"[^{stop}]+", text)]

        return limelight.explain_data(
            model, ["one, two; three"], "loo", output=tmp_path / name, features=splitter
        )

    commas = explain_run("run", ",")
    assert next(iter(explain_run("run", ","))).features == next(iter(commas)).features
    with pytest.raises(InputError, match=r"its splitter \(by fingerprint\) is "):
        explain_run("run", ";")
    with pytest.raises(InputError, match=r"of another splitter\. Compare runs with the same feat"):
        commas.compare(explain_run("other", ";"))


def test_a_wrong_or_stopped_executor_raises_an_error(model, tmp_path):
    options = {"output": tmp_path / "run", "progress": False, "shard_texts": 2}
    with pytest.raises(
        InputError, match=r"executor must be a concurrent\.futures\.Executor or .*, not 'ray'"
    ):
        limelight.explain_data(model, {"text": TEXTS}, "gxi", **options, executor="ray")
    assert not (tmp_path / "run").exists()
    with ThreadPoolExecutor(1) as ended:
        pass
    with pytest.raises(InputError, match=r"ThreadPoolExecutor stopped \(cannot schedule new"):
        limelight.explain_data(model, {"text": TEXTS}, "gxi", **options, executor=ended)


@pytest.mark.parametrize(
    ("rate", "message"), [(None, ""), (0.0123, ", 0.012 a second"), (1234.5, ", 1,234 a second")]
)
def test_how_far_a_run_is_says_how_quick_it_is_also_where_a_text_takes_minutes(rate, message):
    progress = RunProgress(done=1, failed=0, total=2, per_second=rate)
    assert progress.sentence == f"1 of 2 texts{message}"


def tear():
    """End this process in the middle of whatever it writes to another."""
    for candidate in gc.get_objects():
        if isinstance(candidate, Connection) and candidate.writable:
            os.write(candidate.fileno(), struct.pack("!i", 10**6) + b"the rest never comes")
    os.kill(os.getpid(), signal.SIGKILL)


class Torn:
    """What cannot be unpickled by a process that would go on."""

    def __reduce__(self):
        return tear, ()


@pytest.mark.slow
def test_a_process_that_ends_in_the_middle_of_its_answer_is_lost_and_nobody_waits_for_the_rest():
    start = partial(SpawnedProcess, pickle.dumps(Torn()), 1)
    with pytest.raises(
        InputError,
        match=r"each of 3 workers stopped at shard 0 \(exit code -9\), and finished shards",
    ):
        list(run_on_workers(start, 1, iter([Task(0, texts_table(["w1"]))])))
    assert mp.active_children() == []


@pytest.mark.slow
def test_an_error_says_where_to_put_the_code_of_a_program_that_workers_run_again(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import limelight\n"
        "def said(texts):\n"
        "    return [[0.2, 0.8] for _ in texts]\n"
        "model = limelight.wrap(said, classes=['no', 'yes'])\n"
        "limelight.explain_data(\n"
        f"    model, ['a b', 'c d'], output={str(tmp_path / 'run')!r}, workers=2, shard_texts=1)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        'Put the code that your program runs under if __name__ == "__main__":.'
    )


def test_a_daemonic_process_cannot_start_workers(tmp_path, monkeypatch):
    """Python lets no daemonic process start others. Workers of Celery and of pools are daemonic."""
    monkeypatch.setitem(mp.current_process()._config, "daemon", True)
    model = limelight.load()
    with pytest.raises(
        InputError, match=r"workers=2 cannot start processes in a daemonic .*\. Leave workers out\."
    ):
        limelight.explain_data(model, DATA, "lime", output=tmp_path / "two", workers=2)
    assert not (tmp_path / "two").exists()
    run = limelight.explain_data(model, DATA, "lime", output=tmp_path / "one")  # as the error says
    assert len(run) == len(TEXTS)
