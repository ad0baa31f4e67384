#!/usr/bin/env python3
"""Kill runs over a data set at random moments, go on, and compare with a run that nobody disturbed.

python scripts/kill_runs.py                        ten kills in every engine, on texts of its own
python scripts/kill_runs.py --engine pool --kills 3 --data reviews.parquet
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ENGINES = ("here", "pool", "executor", "dask", "ray")
_PROGRAM = """
import sys
import limelight

def main(kind, data, output, shard):
    options = {"output": output, "shard_texts": int(shard)}
    model = limelight.load()
    if kind == "executor":
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            limelight.explain_data(model, data, ["lime", "gxi"], executor=pool, **options)
    else:
        from dask.distributed import Client, LocalCluster

        with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
            with Client(cluster) as client, client.get_executor() as executor:
                limelight.explain_data(model, data, ["lime", "gxi"], executor=executor, **options)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def main() -> None:
    """Kill, go on, compare; exit with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--shard-texts", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        data = given.data or synthetic(place / "texts.csv", 1500)
        whole = place / "undisturbed"
        run(command("here", data, whole, given.shard_texts))
        same = True
        for engine in given.engine or ENGINES:
            with cluster(engine) as address:
                asked = command(engine, data, place / engine, given.shard_texts, address=address)
                moments = killed(asked, place / engine, kills=given.kills, seed=given.seed)
            equal = contents(place / engine) == contents(whole)
            same &= equal
            stored = ", ".join(str(count) for _, count in moments)
            print(
                f"{engine}: {len(moments)} kills, shards stored at each: {stored}; "
                f"{'equal' if equal else 'DIFFERENT'}",
                flush=True,
            )
    sys.exit(0 if same else 1)


def synthetic(path: Path, count: int, *, words: int = 120) -> Path:
    """Write texts of words that the shipped model knows."""
    rng = random.Random(0)
    known = ("good", "bad", "film", "story", "plot", "boring", "great", "it", "was", "the", "not")
    rows = (" ".join(rng.choices(known, k=rng.randint(3, words))) for _ in range(count))
    path.write_text("id,text\n" + "".join(f"{i},{row}\n" for i, row in enumerate(rows)))
    return path


def command(
    engine: str, data: Path, output: Path, shard: int, *, address: str | None = None
) -> list[str]:
    """Return the command line of a run."""
    if engine in ("executor", "dask"):
        return [sys.executable, "-c", _PROGRAM, engine, str(data), str(output), str(shard)]
    there = [] if address is None else ["--address", address]
    asked = ["explain-data", data, "--output", output, "--engine", engine]
    workers = [] if engine == "here" else ["--workers", "2"]
    return [
        sys.executable,
        "-m",
        "limelight",
        *map(str, asked),
        "--method",
        "lime,gxi",
        "--shard-texts",
        str(shard),
        *there,
        *workers,
    ]


def run(command: list[str]) -> None:
    """Run to the end."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:8])} … failed:\n{done.stderr}")


def killed(command: list[str], output: Path, *, kills: int, seed: int) -> list[tuple[float, int]]:
    """Start and kill a run ``kills`` times, then let it finish.

    A kill comes at a random moment after the start, or after another shard is stored, so that some
    fall into the beginning and most into the work; one that comes after the end shows nothing, and
    is an error. Returns when, and how many shards were there.
    """
    rng, moments, groups = random.Random(seed), [], []
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for number in range(kills):
        before, start = shards(output), time.monotonic()
        process = subprocess.Popen(command, start_new_session=True, **quiet)
        groups.append(process.pid)
        if number % 3:
            while shards(output) <= before and process.poll() is None:
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.2))
        else:
            time.sleep(rng.uniform(0, 1))  # while it begins
        if process.poll() is not None:
            raise SystemExit("a run had ended before it was killed: give it more texts to do.")
        process.send_signal(signal.SIGKILL)
        process.wait()
        moments.append((time.monotonic() - start, shards(output)))
    run(command)
    for group in groups:  # executors of others may leave their workers behind
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    return moments


def shards(output: Path) -> int:
    """Return how many shards are stored."""
    return len(list(output.glob("shards/[0-9]*.parquet")))


def contents(output: Path) -> dict[str, str]:
    """Return the digest of every file; the plan's without the place of the data."""
    found = {}
    for path in sorted(path for path in output.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.name == "run.json":
            plan = json.loads(content)
            for file in plan["data"]["files"]:
                file["path"] = Path(file["path"]).name
            content = json.dumps(plan).encode()
        found[str(path.relative_to(output))] = hashlib.sha256(content).hexdigest()
    return found


@contextmanager
def cluster(engine: str) -> Iterator[str | None]:
    """Yield the address of a Ray cluster of two nodes, for the engine that needs one."""
    if engine != "ray":
        yield None
        return
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    memory = {"num_cpus": 1, "object_store_memory": 80_000_000}
    nodes = Cluster(initialize_head=True, head_node_args={**memory, "include_dashboard": False})
    try:
        nodes.add_node(**memory)
        yield nodes.address
    finally:
        nodes.shutdown()


if __name__ == "__main__":
    main()
