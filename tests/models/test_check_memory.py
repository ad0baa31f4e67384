"""Results of the check of a network on disk: when they are used, and when they are not."""

import json

import numpy as np
import pytest
import torch
from test_next_token import language_model

import limelight
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.check_memory import CheckMemory, cache_folder

from tiny_transformers import tiny

TEXT = "A superb film, but the plot is PREDICTABLE."


@pytest.fixture
def folder(tmp_path):
    network, tokenizer = tiny("bert")
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def checks(tmp_path, monkeypatch):
    """The folder of remembered checks, which is empty at first."""
    monkeypatch.delenv("LIMELIGHT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "limelight" / "checks"


def count_calls(monkeypatch):
    """Count the calls of networks from now on."""
    calls, run_network = [], forward.network_input

    def counting(network, ids, *arguments, **keywords):
        calls.append(np.shape(ids))
        return run_network(network, ids, *arguments, **keywords)

    monkeypatch.setattr(forward, "network_input", counting)
    return calls


def check_results(model):
    return (
        dict(model.capabilities),
        model.replacements,
        model.warnings,
        model.check.needs_equal_lengths,
        model.check.read_position,
    )


def test_a_loaded_network_is_checked_once(folder, checks, monkeypatch):
    calls = count_calls(monkeypatch)
    first = limelight.load(folder)
    expected = check_results(first)
    assert len(calls) > 10
    calls.clear()
    again = limelight.load(folder)
    assert check_results(again) == expected
    assert len(calls) == 1  # whether it can be called at all
    assert len(list(checks.iterdir())) == 1
    a, b = (limelight.explain(model, TEXT, "lime").scores for model in (first, again))
    np.testing.assert_array_equal(a, b)


def test_loading_calls_a_network_once(folder, monkeypatch):
    limelight.load(folder)  # the shape checks of these tests look into the first result
    calls = count_calls(monkeypatch)
    limelight.load(folder)
    assert len(calls) == 1


def test_the_trial_of_shared_prefixes_is_remembered(tmp_path, checks, monkeypatch):
    network, tokenizer = language_model("gpt2")
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    counts, calls = [], count_calls(monkeypatch)
    for _ in range(2):
        model = limelight.load(tmp_path / "model", template="the film is good : {text} it is")
        calls.clear()
        assert model.check.warnings == ()
        counts.append(len(calls))
        assert model.network.shares_prefix
    assert counts[0] > 4
    assert counts[1] == 0


def test_results_are_those_without_a_memory(folder, checks, monkeypatch):
    remembered = check_results(limelight.load(folder)), check_results(limelight.load(folder))
    monkeypatch.setenv("LIMELIGHT_CACHE", "off")
    assert remembered == (check_results(limelight.load(folder)),) * 2


def test_the_memory_can_be_turned_off(folder, checks, monkeypatch):
    monkeypatch.setenv("LIMELIGHT_CACHE", "off")
    check_results(limelight.load(folder))
    assert not checks.exists()


def test_networks_in_memory_are_not_remembered(checks):
    check_results(limelight.wrap(tiny("bert")[0], tokenizer=tiny("bert")[1]))
    assert not checks.exists()


DAMAGE = {
    "empty": lambda _: "",
    "half": lambda content: content[: len(content) // 2],
    "no JSON": lambda _: "\x00\xff",
    "a list": lambda _: "[]",
    "deep": lambda _: "[" * 100_000,
    "other numbers": lambda content: content.replace("false", "true"),
    "no digest": lambda content: json.dumps({"results": json.loads(content)["results"]}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_written_again(folder, checks, damage):
    expected = check_results(limelight.load(folder))
    (file,) = checks.iterdir()
    content = file.read_text()
    file.write_text(DAMAGE[damage](content))
    assert check_results(limelight.load(folder)) == expected
    assert json.loads(file.read_text()) == json.loads(content)


@pytest.mark.parametrize(
    "results",
    [
        {"stability": {"noise": "much", "needs_equal_lengths": False}},
        {"stability": 3, "gradients": 4, "attention": {}},
        {"unusable replacements": {"mask": 1}},
        {"attention": {"attention": 1, "attention_only": None, "read_position": None}},
    ],
)
def test_results_of_another_form_are_computed_again(folder, checks, results):
    from limelight.models.hugging_face.check_memory import _digest

    expected = check_results(limelight.load(folder))
    (file,) = checks.iterdir()
    file.write_text(json.dumps({"results": results, "sha256": _digest(results)}))
    assert check_results(limelight.load(folder)) == expected


def test_a_folder_that_cannot_be_written_changes_nothing(folder, checks):
    checks.parent.parent.mkdir()
    checks.parent.write_text("no folder")
    assert check_results(limelight.load(folder)) == check_results(limelight.load(folder))


def test_other_weights_are_checked_anew(folder, checks):
    check_results(limelight.load(folder))
    network, _ = tiny("bert")
    with torch.no_grad():
        network.classifier.bias += 1
    network.save_pretrained(folder)
    check_results(limelight.load(folder))
    assert len(list(checks.iterdir())) == 2


@pytest.mark.parametrize("change", ["weights", "hook", "forward"])
def test_a_network_that_was_changed_after_loading_is_neither_remembered_nor_recalled(
    folder, checks, change, monkeypatch
):
    with monkeypatch.context() as context:
        context.setenv("LIMELIGHT_CACHE", "off")
        limelight.load(folder)  # the shape checks of these tests look into the first result
    model = limelight.load(folder)
    network = model.network
    if change == "weights":
        with torch.no_grad():
            network.classifier.weight.zero_()
    elif change == "hook":
        network.classifier.register_forward_hook(lambda _m, _g, out: out.round())
    else:
        network.classifier.forward = lambda states: 0 * states[..., :2]
    assert "is zero for every text" in model.capabilities["gradients"]
    assert not checks.exists()
    assert limelight.load(folder).capabilities["gradients"] is None
    assert "is zero for every text" in model.check.reason_missing("gradients")


def test_the_folder_follows_the_convention(monkeypatch, tmp_path):
    monkeypatch.delenv("LIMELIGHT_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/folder")
    assert cache_folder() == tmp_path / ".cache" / "limelight"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "limelight"
    monkeypatch.setenv("LIMELIGHT_CACHE", "OFF")
    assert cache_folder() is None


def test_a_memory_without_a_fingerprint_computes_each_result():
    memory, values = CheckMemory(torch.nn.Linear(1, 1)), iter([1, 2])
    assert [memory.recall("a", lambda: next(values), int) for _ in range(2)] == [1, 2]
