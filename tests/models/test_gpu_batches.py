"""Batches on a GPU, with streams and pinned memory of torch replaced by ones on the host."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from limelight.errors import DomainError, InputError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from limelight.explainers.learned import _concatenate_signals  # noqa: E402
from limelight.models.hugging_face import forward  # noqa: E402
from limelight.models.hugging_face.forward import ForwardPass  # noqa: E402

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
    """A network on a GPU whose output is the sum of the ids of a row, plus that of a mask."""

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
