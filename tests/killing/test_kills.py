"""Commands that are killed before any change of a file give the same result when run again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from limelight.models.attention import save_folder

from tiny_models import tiny_model

DRIVER = Path(__file__).with_name("kill_at_write.py")
MODEL = """
import numpy as np
import limelight

def score(texts):
    words = [text.split() for text in texts]
    logits = np.array([len(set(w)) + 3.0 * ("good" in w) - 2.0 * ("bad" in w) for w in words])
    return 1 / (1 + np.exp(-np.stack([-logits, logits], axis=1) / 9))

model = limelight.wrap(score, classes=["a", "b"])
"""
TRAIN = (
    "train data.csv --output out --epochs 1 --validation 0.2 --set heads=2 --set d_e=8 "
    "--set d_att=4 --set d_out=4 --set T_max=16"
)
LEARN = "learn --model scorer:model --data data.csv --output out --texts 20 --pairs 1 --judged 1"
EXPLAIN = "explain-data data.csv --model tiny --output out --method lime,gxi --shard-texts 15"
JUDGE = "judge --model tiny --data data.csv --limit 4 --methods lime,gxi --columns none"
COMMANDS = {
    "train": TRAIN,
    "train over an older model": f"{TRAIN} --fresh",
    "learn": LEARN,
    "explain-data": EXPLAIN,
    "judge": f"{JUDGE} --output out/judged.json",
    "judge as a page": f"{JUDGE} --output out/judged.html",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_gives_the_same_files_when_it_is_run_again(tmp_path, name):
    pytest.importorskip("torch")
    words = ("good", "bad", "film", "plot", "story", "dull", "fine")
    rows = [
        f'"{" ".join(words[(i * k) % 7] for k in range(1, 5))} {i}",{"ab"[i % 2]}'
        for i in range(30)
    ]
    (tmp_path / "data.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (tmp_path / "scorer.py").write_text(MODEL)
    save_folder(tiny_model(), tmp_path / "tiny")
    if "older model" in name:
        save_folder(tiny_model(), tmp_path / "before")
    command = [sys.executable, str(DRIVER), str(tmp_path), *COMMANDS[name].split()]
    places = os.pathsep.join([str(tmp_path), *sys.path])
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": places},
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["kills"] >= 2, report
    assert report["differences"] == {}
