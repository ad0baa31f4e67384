"""Programs whose output must not depend on the order of a set."""

import subprocess
import sys


def outputs_under_hash_seeds(program, *paths):
    """Return what a program prints in processes with two hash seeds; ``paths`` come first."""
    places = ":".join([*map(str, paths), *sys.path])
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": places},
        ).stdout
        for seed in ("1", "2")
    }
