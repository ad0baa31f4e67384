"""Batches on a GPU, with streams and pinned memory of torch replaced by ones on the host."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

import limelight
from limelight.errors import DomainError, InputError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from limelight.explainers.learned import _concatenate_signals  # noqa: E402
from limelight.models.engine import share_device  # noqa: E402
from limelight.models.hugging_face import forward  # noqa: E402
from limelight.models.hugging_face.forward import ForwardPass  # noqa: E402

from tiny_transformers import FAMILIES, tiny  # noqa: E402

IDS = np.arange(6).reshape(2, 3)


class Stream:
    """A stream that computes at once, and whose events may fail."""

    failure: Exception | None = None

    def __init__(self, *_):
        self.earlier_streams = []

    def wait_stream(self, stream):
        self.earlier_streams.append(stream)

    def record_event(self):
        return SimpleNamespace(synchronize=self.synchronize)

    def synchronize(self):
        if Stream.failure is not None:
            raise Stream.failure


class Network:
    """A network on a GPU."""

    device = SimpleNamespace(type="cuda")
    config = SimpleNamespace(pad_token_id=0)


@pytest.fixture
def gpu(monkeypatch):
    """A forward pass whose network is on a GPU, and a list of its calls."""
    calls, main_stream, current = [], Stream(), []

    @contextlib.contextmanager
    def use(stream):
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(Stream, "failure", None)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", use)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda _: current[-1] if current else main_stream
    )
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    empty = torch.empty
    monkeypatch.setattr(
        forward.torch, "empty", lambda *shape, **options: empty(*shape, dtype=options["dtype"])
    )
    network = Network()
    forward_pass = ForwardPass(network, half=False, describe=str, example=lambda: IDS)
    return SimpleNamespace(forward_pass=forward_pass, calls=calls, current=current)


def states_and_outputs(gpu, *, finite=True):
    def call(network, ids):
        gpu.calls.append((network, gpu.current[-1] if gpu.current else None))
        outputs = torch.as_tensor(ids).double()
        return outputs.float(), outputs if finite else outputs / 0

    return call


def test_batches_run_on_two_streams_in_turn_and_states_stay_on_the_device(gpu):
    call = states_and_outputs(gpu)
    waits = [gpu.forward_pass.start_call(IDS + i, call) for i in range(3)]
    for i, wait in enumerate(waits):
        states, outputs = wait()
        assert isinstance(states, torch.Tensor)
        np.testing.assert_array_equal(outputs, IDS + i)
    streams = [stream for _, stream in gpu.calls]
    assert streams[0] is not streams[1]
    assert streams[0] is streams[2]
    assert all(stream.earlier_streams for stream in streams)


def test_numbers_that_are_not_finite_are_computed_again_in_full_precision(gpu):
    copy = object()
    gpu.forward_pass._half_network = copy

    def call(network, ids):
        gpu.calls.append(network)
        return (torch.as_tensor(ids).double() / (network is not copy),)

    (outputs,) = gpu.forward_pass.start_call(IDS, call)()
    np.testing.assert_array_equal(outputs, IDS)
    assert gpu.calls[-1] is gpu.forward_pass.network
    with pytest.raises(InputError, match="not finite"):
        gpu.forward_pass.start_call(IDS, states_and_outputs(gpu, finite=False))()


def test_errors_of_the_gpu_name_the_network_and_memory_errors_stay(gpu):
    Stream.failure = RuntimeError("CUDA error: illegal address")
    wait = gpu.forward_pass.start_call(IDS, states_and_outputs(gpu))
    with pytest.raises(InputError, match=r"the GPU fails in a batch of .*illegal address"):
        wait()
    Stream.failure = RuntimeError("CUDA out of memory")
    with pytest.raises(RuntimeError, match="out of memory"):
        gpu.forward_pass.start_call(IDS, states_and_outputs(gpu))()


def test_an_error_of_a_text_is_named_and_errors_of_limelight_are_not_repeated(gpu):
    def fail_on_large_ids(_network, ids):
        if torch.as_tensor(ids).max() > 3:
            raise ValueError("index out of range")
        return (torch.as_tensor(ids).double(),)

    with pytest.raises(InputError, match=r"fails on the text '\[3 4 5\]'"):
        gpu.forward_pass.start_call(IDS, fail_on_large_ids)

    def reject(network, _ids):
        gpu.calls.append(network)
        raise DomainError("no states")

    with pytest.raises(DomainError, match="no states"):
        gpu.forward_pass.start_call(IDS, reject)
    assert len(gpu.calls) == 1


class DeviceTensor(torch.Tensor):
    """A tensor that NumPy cannot read, as those on a GPU."""

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


def test_signals_of_a_learned_method_stay_on_the_device():
    states = torch.arange(6.0).reshape(2, 3).as_subclass(DeviceTensor)
    with pytest.raises(TypeError, match="device type tensor"):  # the class does what it should
        np.array(states)
    signals = _concatenate_signals([states, np.full((2, 1), 7)], 2, states)
    assert isinstance(signals, DeviceTensor)
    assert signals.tolist() == [[0, 1, 2, 7], [3, 4, 5, 7]]


def record_masks(gpu, monkeypatch):
    """Let the forward pass compute sums of ids; return a list of whether each call had a mask."""
    masks = []

    def sum_ids(_network, ids, *, is_copy, with_mask=True):
        assert not is_copy
        masks.append(with_mask)
        gpu.calls.append((None, gpu.current[-1] if gpu.current else None))
        return torch.as_tensor(ids).double().sum(dim=1, keepdim=True)

    monkeypatch.setattr(forward, "_network_logits", sum_ids)
    gpu.forward_pass._needs_mask = False
    return masks


def test_batches_without_padding_need_no_mask_and_follow_each_other_in_one_stream(gpu, monkeypatch):
    masks, ids = record_masks(gpu, monkeypatch), IDS + 1
    with share_device():  # as while two texts are explained at the same time
        waits = [gpu.forward_pass.start(ids + i) for i in range(3)]
    for i, wait in enumerate(waits):
        np.testing.assert_array_equal(wait(), (ids + i).sum(axis=1, keepdims=True))
    assert masks == [False] * 3
    assert len({stream for _, stream in gpu.calls}) == 1


def test_batches_of_a_single_text_take_turns_in_two_streams(gpu, monkeypatch):
    masks = record_masks(gpu, monkeypatch)
    for i in range(3):
        gpu.forward_pass.start(IDS + 1 + i)()
    assert masks == [False] * 3
    assert len({stream for _, stream in gpu.calls}) == 2


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(np.array([[1, 2, 3], [4, 5, forward.MASKED_OUT]]), id="masked out"),
        pytest.param(IDS, id="the id of the padding"),
        pytest.param(
            forward.pack_rows(IDS, np.ones_like(IDS), 0), id="the id of the padding in a segment"
        ),
    ],
)
def test_rows_that_may_have_padding_get_a_mask(gpu, monkeypatch, ids):
    masks = record_masks(gpu, monkeypatch)
    with share_device():
        for _ in range(2):
            gpu.forward_pass.start(ids)()
    assert masks == [True] * 2
    assert len({stream for _, stream in gpu.calls}) == 2
    gpu.forward_pass._needs_mask = True
    gpu.forward_pass.start(IDS + 1)()
    assert masks[-1] is True


@pytest.mark.parametrize("family", FAMILIES)
def test_networks_of_transformers_need_no_mask_without_padding(family):
    network, _ = tiny(family)
    assert forward._is_mask_optional(network.eval(), np.array([[5, 6, 7, 8]]))


def test_a_network_that_reads_its_mask_keeps_it():
    network, _ = tiny("bert")
    compute = network.forward

    def count_tokens(attention_mask, **inputs):
        out = compute(attention_mask=attention_mask, **inputs)
        return type(out)(logits=out.logits * attention_mask.sum())

    def default_to_one(attention_mask=None, **inputs):
        mask = torch.ones(1, 1) if attention_mask is None else attention_mask
        return count_tokens(mask, **inputs)

    def add_small_part(attention_mask=None, **inputs):
        weight = 1e-6 if attention_mask is None else 1e-6 * attention_mask.sum()
        return type(out := compute(**inputs))(logits=out.logits * weight)

    for forward_method in (count_tokens, default_to_one, add_small_part):
        network.forward = forward_method
        assert not forward._is_mask_optional(network.eval(), np.array([[5, 6, 7, 8]]))


@pytest.mark.parametrize("half", [False, True])
def test_a_change_of_the_network_decides_again_whether_masks_are_needed(monkeypatch, half):
    network, _ = tiny("bert")
    decisions = iter([True, False, True])
    seen = []

    def decide(checked, ids):
        seen.append((checked, ids.shape))
        return next(decisions)

    class OnGpu(type(network)):
        device = property(lambda _: SimpleNamespace(type="cuda"))

    network.__class__ = OnGpu
    monkeypatch.setattr(forward, "_is_mask_optional", decide)
    monkeypatch.setattr(forward, "_half_precision_copy", lambda *_: None)
    forward_pass = ForwardPass(network, half=half, describe=str, example=lambda: IDS + 5)
    assert forward_pass._needs_mask  # before anything is known
    needed = []
    for change in (
        lambda: None,
        lambda: None,
        lambda: network.config._attn_implementation,
        lambda: setattr(network.config, "_attn_implementation", "eager"),
        lambda: setattr(network, "forward", lambda **_: None),
    ):
        change()
        forward_pass.refresh()
        needed.append(forward_pass._needs_mask)
    assert needed == [False, False, False, True, False]
    assert seen == [(network, IDS.shape)] * 3


def test_a_list_is_explained_in_threads_only_on_a_gpu_and_without_autocast(monkeypatch):
    network, tokenizer = tiny("bert")
    model = limelight.wrap(network, tokenizer=tokenizer)
    assert model.parallel_batches == 1

    class OnGpu(type(network)):
        device = property(lambda _: SimpleNamespace(type="cuda"))

    network.__class__ = OnGpu
    streams = {"current": "main", "default": "main"}
    for name in streams:
        monkeypatch.setattr(torch.cuda, f"{name}_stream", lambda _, name=name: streams[name])
    autocast = []
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: bool(autocast))
    assert model.parallel_batches == 2
    autocast.append("bfloat16")
    assert model.parallel_batches == 1
    autocast.clear()
    streams["current"] = "side"
    assert model.parallel_batches == 1
