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


def write_model(tmp_path, **config):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"} | config))
    return tmp_path


def complaint(folder):
    with pytest.raises(InputError) as error:
        load(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_weights_that_are_none(tmp_path):
    folder = write_model(tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"no weights at all")
    assert complaint(folder) == (
        f"the Hugging Face model '{folder}' cannot be loaded: its .bin file is damaged, or "
        "contains "
        "more than weights. Save it as .safetensors."
    )


@pytest.mark.parametrize("size", ["x", -1, 0, None, 1e300, [1]])
def test_sizes_that_are_none(tmp_path, size):
    folder = write_model(tmp_path, hidden_size=size)
    (folder / "pytorch_model.bin").write_bytes(b"")
    assert "cannot be loaded" in complaint(folder)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"vocab_size": 10**9}, "'vocab_size' is above 100,000,000."),
        ({"hidden_size": 10**400}, "'hidden_size' is above 100,000,000."),
        ({"text_config": {"num_hidden_layers": 10**6}}, "'num_hidden_layers' is above 10,000"),
    ],
)
def test_sizes_that_no_memory_holds(tmp_path, sizes, sentence):
    message = complaint(write_model(tmp_path, **sizes))
    assert message.startswith(
        f"'{tmp_path / 'config.json'}' must be the configuration of a model, but "
    )
    assert sentence in message


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "/nowhere"])
def test_files_that_never_end(tmp_path, target):
    folder = write_model(tmp_path)
    (folder / "model.safetensors").symlink_to(target)
    assert complaint(folder) == (
        f"'{folder / 'model.safetensors'}' must be a file, not a device, a pipe or a broken link."
    )


def test_files_of_a_gigabyte_of_json(tmp_path):
    folder = write_model(tmp_path)
    with (folder / "tokenizer.json").open("wb") as file:
        file.truncate(1 << 30)  # it takes no room
    assert complaint(folder).endswith("must have at most 268,435,456 bytes, but it has more.")


def test_foreign_code_is_not_run(tmp_path):
    classes = {"AutoConfig": "own.Config", "AutoModelForSequenceClassification": "own.Model"}
    folder = write_model(tmp_path, model_type="own", auto_map=classes)
    (folder / "own.py").write_text("raise SystemExit('foreign code was run')")
    assert "cannot be loaded" in complaint(folder)


@pytest.mark.parametrize(
    "keys",
    [
        {"_attn_implementation": "owner/repo"},
        {"attn_implementation": "owner/repo@main:name"},
        {"attn_implementation": {"": "sdpa", "text_config": "owner/repo"}},
        {"text_config": {"_attn_implementation": "owner/repo"}},
        {"_attn_implementation": "flash_attention_2"},  # fetched where it is not installed
        {"_attn_implementation": ["owner/repo"]},
        {"experts_implementation": "sonicmoe"},
    ],
)
def test_kernels_are_not_fetched(tmp_path, keys, monkeypatch):
    from transformers import AutoModelForSequenceClassification

    def reach_network(*_, **__):
        raise SystemExit("transformers has seen the configuration")

    monkeypatch.setattr(AutoModelForSequenceClassification, "from_pretrained", reach_network)
    folder = write_model(tmp_path, **keys)
    assert complaint(folder).startswith(f"the Hugging Face model '{folder}' must use eager, ")


@pytest.mark.parametrize("name", ["eager", "sdpa", None])
def test_ways_of_transformers_own_are_taken(tmp_path, name):
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"_attn_implementation": name}))
    assert load(tmp_path).network.config._attn_implementation == (name or "sdpa")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"config.json": {"quantization_config": {"quant_method": "mxfp4"}}}, "is quantized, so"),
        (
            {"adapter_config.json": {"base_model_name_or_path": "o/r"}},
            "is an adapter of another model (",
        ),
    ],
)
def test_parts_of_other_places_are_not_fetched(tmp_path, files, sentence):
    folder = write_model(tmp_path, **files.pop("config.json", {}))
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    assert complaint(folder).startswith(f"the Hugging Face model '{folder}' {sentence}")


def test_the_light_install_names_the_extra(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", LIGHT, str(write_model(tmp_path))], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert run.stderr == (
        f"Error: the Hugging Face model '{tmp_path}' needs torch and transformers. "
        'In a checkout of limelight, run: pip install ".[hf]". Without a '
        "GPU, add --extra-index-url https://download.pytorch.org/whl/cpu, because torch for GPUs "
        "takes 6 GB.\n"
    )
