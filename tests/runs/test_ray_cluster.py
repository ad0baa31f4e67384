"""A real Ray cluster of two nodes, one of which is killed in the middle of a run."""

import faulthandler
import os
import signal
import sys

import pytest

import limelight

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")
pytest.importorskip("ray", reason="needs Ray (extra cluster)")

import kill_runs

from limelight.runs import RayActors

from tiny_models import random_texts, tiny_model

DATA = {"text": random_texts(120, seed=7)}
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}
PATIENCE = 600  # seconds after which something will never come; a busy machine is slow, not broken


@pytest.fixture
def _never_for_ever():
    """Fail where somebody waits for ever; where Ray hears no signal, say where and end."""

    def give_up(*_):
        pytest.fail(f"nothing has come for {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    faulthandler.dump_traceback_later(PATIENCE + 120, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def cluster(_never_for_ever, monkeypatch):
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    nodes = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_nothing_is_lost_and_nothing_done_twice_when_a_node_is_killed(cluster, tmp_path):
    import ray

    limelight.save_folder(tiny_model(outputs=3), tmp_path / "model")
    model = limelight.load(tmp_path / "model")
    second = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    assert ray.cluster_resources()["CPU"] == 2
    stored = []

    def kill_a_node(progress):
        if progress.shard:
            stored.append(progress.shard.number)
            if len(stored) == 4:
                cluster.remove_node(second, allow_graceful=False)

    options = {"method": ["lime", "shapley"], "shard_texts": 3}
    actors = RayActors()
    assert actors.workers == 2
    run = limelight.explain_data(
        model, DATA, output=tmp_path / "run", executor=actors, progress=kill_a_node, **options
    )
    assert sorted(stored) == list(range(40))
    complete = limelight.explain_data(model, DATA, output=tmp_path / "whole", **options)
    assert kill_runs.contents(run.path) == kill_runs.contents(complete.path)
    assert os.environ.get("RAY_ADDRESS") is None
    full = RayActors(gpus_per_worker=0.5, workers=1)  # nobody has room, and nobody asks yet
    assert full.workers == 1
    with pytest.raises(
        limelight.InputError,
        match=r"the Ray cluster is too small for a worker \(CPUs: 1, GPUs: 0\.5\)\. Lower cpus",
    ):
        RayActors(gpus_per_worker=0.5)
