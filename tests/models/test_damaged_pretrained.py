"""Hugging Face folders that cannot be loaded, and installs without torch: one sentence each."""

import json
import subprocess
import sys

import pytest

from limelight.errors import InputError
from limelight.models import load

LIGHT = """\
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
from limelight.cli import main
main(["explain", "a text", "--model", sys.argv[1]])
"""


def written(tmp_path, **config):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"} | config))
    return tmp_path


def complaint(folder):
    with pytest.raises(InputError) as error:
        load(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_weights_that_are_none(tmp_path):
    folder = written(tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"no weights at all")
    assert complaint(folder) == (
        f"the Hugging Face model '{folder}' cannot be loaded: its .bin file is damaged, or holds "
        "more than weights; save it as .safetensors."
    )


@pytest.mark.parametrize("size", ["x", -1, 0, None, 1e300, [1]])
def test_sizes_that_are_none(tmp_path, size):
    folder = written(tmp_path, hidden_size=size)
    (folder / "pytorch_model.bin").write_bytes(b"")
    assert "cannot be loaded" in complaint(folder)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"vocab_size": 10**9}, "'vocab_size' is above 100,000,000 there."),
        ({"hidden_size": 10**400}, "'hidden_size' is above 100,000,000 there."),
        ({"text_config": {"num_hidden_layers": 10**6}}, "'num_hidden_layers' is above 10,000 the"),
    ],
)
def test_sizes_that_no_memory_holds(tmp_path, sizes, sentence):
    said = complaint(written(tmp_path, **sizes))
    assert said.startswith(f"'{tmp_path / 'config.json'}' must be that of a model; ")
    assert sentence in said


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "/nowhere"])
def test_files_that_never_end(tmp_path, target):
    folder = written(tmp_path)
    (folder / "model.safetensors").symlink_to(target)
    assert complaint(folder) == (
        f"'{folder / 'model.safetensors'}' must be a file; it is a device, a pipe or a link that "
        "leads nowhere."
    )


def test_files_of_a_gigabyte_of_json(tmp_path):
    folder = written(tmp_path)
    with (folder / "tokenizer.json").open("wb") as file:
        file.truncate(1 << 30)  # it takes no room
    assert complaint(folder).endswith("must have at most 268,435,456 bytes; it has more.")


def test_foreign_code_is_not_run(tmp_path):
    classes = {"AutoConfig": "own.Config", "AutoModelForSequenceClassification": "own.Model"}
    folder = written(tmp_path, model_type="own", auto_map=classes)
    (folder / "own.py").write_text("raise SystemExit('foreign code was run')")
    assert "cannot be loaded" in complaint(folder)


def test_the_light_install_names_the_extra(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", LIGHT, str(written(tmp_path))], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert run.stderr == (
        f"Error: the Hugging Face model '{tmp_path}' needs torch and transformers; "
        'run: pip install "limelight[hf]".\n'
    )
