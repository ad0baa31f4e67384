"""Call a transformers network with rows of token ids, and leave the network as it was."""

import contextlib
import copy
import hashlib
import inspect
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import DomainError, InputError
from limelight.fork_locks import ForkSafeLock
from limelight.models.engine import (
    Engine,
    PendingRows,
    call_function,
    describe_error,
    is_device_shared,
    is_out_of_memory,
)
from limelight.models.protocol import Capability, Property
from limelight.shapes import Bool, Float, Int

# The upper half of an id holds its segment, and above it the mark of a subword of the query. So a
# row is one array of integers, and masks, batches, cache keys and paddings need not know about
# segments and marks. Segment k + 1 is the token type k of the tokenizer. Segment 0 means that the
# tokenizer gives no types, because XLM and GPT-2 distinguish type 0 from no types.
_SEGMENT_SHIFT, _MARK_SHIFT = 32, 40
_TOKEN_MASK, _SEGMENT_MASK = (1 << _SEGMENT_SHIFT) - 1, (1 << (_MARK_SHIFT - _SEGMENT_SHIFT)) - 1
MASKED_OUT = -1  # the id of a subword that attention does not see
# The attributes in which torch stores the hooks that run after a module.
_HOOKS = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
_RECORDERS_INSTALLED = "_output_capturing_hooks_installed"  # set on modules by transformers
_HALF_TOLERANCE = 1e-2  # largest error of half precision, relative to the size of the outputs
_MASK_TOLERANCE = 1e-4  # rounding of single precision, relative to the size of the outputs


@final
@dataclass(frozen=True, eq=False)
class Pixels:
    """An image as a network reads it, which takes the place of a row of ids.

    ``len`` counts the positions of the network: first ``special`` ones, such as [CLS], then those
    of its ``patches``. ``frame`` is the part of the image that the network sees. Computing the
    image costs as much as computing a text of ``size`` subwords.
    """

    values: Float[np.ndarray, "C h w"]
    patches: int = 0
    special: int = 0
    frame: tuple[int, int, int, int] = (0, 0, 0, 0)
    size: int = 1

    def __len__(self) -> int:
        return self.special + self.patches

    def __getitem__(self, axis: None) -> Float[np.ndarray, "1 C h w"]:
        return self.values[axis]  # like ids[None], a batch of one row

    def tobytes(self) -> bytes:
        """Return bytes that differ for different images."""
        # Two shapes may have the same bytes.
        return repr(self.values.shape).encode() + self.values.tobytes()


Row = Int[np.ndarray, " T"] | Pixels
Rows = Any  # ids (n, T) of texts or pixels (n, C, h, w), perhaps on a device
# Calls a network on rows and returns tensors on its device. The last one has the outputs.
NetworkCall = Callable[[Any, Rows], tuple[Any, ...]]
# Arrays on the device of the network, NumPy's on a CPU. The last one has the outputs, in NumPy.
NetworkArrays = tuple[Any, ...]


def pack_rows(
    ids: Int[np.ndarray, "*n L"],
    segment: Int[np.ndarray, "*n L"] | Literal[0],
    mark: Int[np.ndarray, "*n L"] | Literal[0],
) -> Int[np.ndarray, "*n L"]:
    """Pack ids, segments and marks into one array of integers."""
    return ids + (segment << _SEGMENT_SHIFT) + (mark << _MARK_SHIFT)


def unpack_ids(rows: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
    """Return the token ids of packed rows. Negative entries stand for no token and stay."""
    return np.where(rows < 0, rows, rows & _TOKEN_MASK)


def is_marked(row: Int[np.ndarray, "*n L"], min_mark: int = 1) -> Bool[np.ndarray, "*n L"]:
    """Return which subwords of packed rows have a mark of at least ``min_mark``."""
    is_at_least: np.ndarray = row >= min_mark << _MARK_SHIFT
    return is_at_least


def network_input(
    network: Any, rows: Rows, *, filler: int | None = None, with_mask: bool = True
) -> dict[str, Any]:
    """Return the keyword arguments with which a network is called.

    A negative id becomes ``filler``, by default the padding, and is not attended to. Token types
    are passed to networks that read them. Marks are passed if a subword has one. ``with_mask`` says
    whether the attention mask is passed, which rows without negative ids may not need.
    """
    ids = _move_rows(rows, network.device)
    if ids.dim() == 4:
        return {"pixel_values": ids.to(network.dtype)}
    is_token = ids >= 0
    filler_id = (network.config.pad_token_id or 0) if filler is None else filler
    inputs = {"input_ids": (ids & _TOKEN_MASK).masked_fill(~is_token, filler_id)}
    if with_mask:
        inputs["attention_mask"] = is_token.long()
    # On the host, to avoid waiting for a GPU.
    max_segment = int(rows.max(initial=0)) >> _SEGMENT_SHIFT
    if max_segment >> (_MARK_SHIFT - _SEGMENT_SHIFT):
        inputs["marks"] = (ids >> _MARK_SHIFT).masked_fill(~is_token, 0)
        max_segment = int(((rows[rows >= 0] >> _SEGMENT_SHIFT) & _SEGMENT_MASK).max())
    if 0 < max_segment <= token_type_count(network):
        types = ((ids >> _SEGMENT_SHIFT) & _SEGMENT_MASK) - 1
        inputs["token_type_ids"] = types.clamp(min=0).masked_fill(~is_token, 0)
    return inputs


def _move_rows(rows: Rows, device: Any) -> Any:
    """Return rows as a tensor on a device."""
    tensor = torch.as_tensor(rows)
    # Images would take gigabytes of pinned memory.
    if device.type != "cuda" or tensor.device.type != "cpu" or tensor.dim() == 4:
        return tensor.to(device)
    if not is_device_shared():
        return tensor.to(device)
    # From other memory than pinned, a copy would wait for all earlier batches of its stream.
    return tensor.pin_memory().to(device, non_blocking=True)


_TYPE_COUNTS: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def token_type_count(network: Any) -> int:
    """Return the number of token types that the network knows, 0 if it reads none.

    RoBERTa's table has one row.
    """
    if (count := _TYPE_COUNTS.get(network)) is None:
        has_head = isinstance(network, CustomHead)
        inner = getattr(network, network.network_attribute) if has_head else network
        # The size of the table counts. The configuration may say something else.
        tables = [
            len(weight)
            for name, weight in inner.named_parameters()
            if name.endswith("token_type_embeddings.weight")
        ]
        count = min(tables, default=getattr(inner.config, "type_vocab_size", None))
        if not tables and "token_type_ids" not in inspect.signature(inner.forward).parameters:
            count = 0
        # GPT-2 and XLM look token types up in their table of words, and XLNet compares them. So
        # they take any number of types.
        _TYPE_COUNTS[network] = count = _SEGMENT_MASK if count is None else count
    return count


def input_embedding(network: Any) -> Any:
    """Return the layer that embeds the input.

    Raises
    ------
    DomainError
        If the network has no single such layer.
    """
    try:
        table = network.get_input_embeddings()
    except NotImplementedError:
        table = None
    if not hasattr(table, "projection") and getattr(table, "weight", None) is None:
        raise DomainError(
            f"get_input_embeddings of {network_name(network)} does not return an embedding."
        )
    return table


def embedding_row_count(network: Any) -> int | None:
    """Return how many tokens the input embedding knows, or None if it is not one table."""
    try:
        table = input_embedding(network)
    except DomainError:
        return None
    return len(table.weight) if hasattr(table, "weight") else None  # pixels have no table


def takes_batches(network: Any, rows: Iterable[Any] = ()) -> bool:
    """Tell whether the network can be called on several ``rows`` at once."""
    # Some processors keep the sizes of images, and images are not padded.
    shapes = {row.values.shape for row in rows if isinstance(row, Pixels)}
    # Heads that look for the last subword fail on batches if they do not know the padding.
    return len(shapes) < 2 and getattr(network.config, "pad_token_id", 0) is not None


# The references are weak, since a lock must not keep a network in memory.
_LOCKS: WeakKeyDictionary[Any, ForkSafeLock] = WeakKeyDictionary()
_LOCK_CREATION = ForkSafeLock()
_KERNEL_CHOICE = ForkSafeLock()
_FORK_ERROR = (
    "this process was forked while another thread was using the model. Load the model again in "
    "this process, or fork when no thread uses it."
)


def network_lock(owner: Any) -> ForkSafeLock:
    """Return the lock of a network, or of the backend of a tokenizer.

    Modes, hooks and attention implementations belong to the object, not to the thread. So a thread
    must hold the lock while it changes the object for a moment, and also while it calls it.
    Wrappers of the same network share one lock.
    """
    # The key is the body, which two heads or two templates of a language model may share.
    with _LOCK_CREATION:
        body = getattr(owner, "base_model", owner)
        lock = _LOCKS.get(body)
        if lock is None:
            lock = _LOCKS[body] = ForkSafeLock(forked_message=_FORK_ERROR)
        return lock


@contextlib.contextmanager
def evaluation_mode(
    model: Any, *, eager: bool = False, hook: Any = None, is_copy: bool = False
) -> Iterator[None]:
    """Run a block with a network in evaluation mode, then restore the network.

    Other threads wait until the block ends.

    Parameters
    ----------
    model
        The network.
    eager
        Compute attention in the one implementation that returns it.
    hook
        A forward hook that replaces the embedded input.
    is_copy
        Whether the network is a copy that belongs to Limelight. It stays in evaluation mode, and
        nothing of it is restored.
    """
    # A copy is locked too, since heads hook into its layers. The lock of the network comes before
    # the choice of kernels. Otherwise two threads could wait for each other.
    with network_lock(model), _any_shape_kernels(model.device.type):
        if is_copy:
            yield
            return
        # Modes are stored for each module, since a user may train the head of a network whose body
        # is in evaluation mode. Transformers installs recorders when attention is requested, and
        # does not remove them.
        states = [
            (
                module,
                module.training,
                set(module._forward_hooks),
                _RECORDERS_INSTALLED in vars(module),
            )
            for module in model.modules()
        ]
        implementation = model.config._attn_implementation
        try:
            model.eval()
            if eager and implementation != "eager":
                model.set_attn_implementation("eager")
            if hook is not None:
                table = input_embedding(model)
                weight = getattr(table, "weight", None)
                for module in model.modules():
                    # An encoder and its decoder may have two embeddings that share a weight.
                    is_shared = isinstance(module, torch.nn.Embedding) and module.weight is weight
                    if is_shared or module is table:
                        module.register_forward_hook(hook)
            yield
        finally:
            if eager and implementation != "eager":
                model.set_attn_implementation(implementation)
            # Also after a failure, since a remaining hook would change the outputs for every later
            # text.
            for module, training, hooks, installed in states:
                module.training = training
                for number in module._forward_hooks.keys() - hooks:
                    for name in _HOOKS:
                        getattr(module, name).pop(number, None)
                if not installed:
                    vars(module).pop(_RECORDERS_INSTALLED, None)


@contextlib.contextmanager
def preserve_tokenizer(tokenizer: Any) -> Iterator[None]:
    """Run a block, then restore the truncation and the padding of a tokenizer.

    Every call of a tokenizer sets both anew. Other threads wait until the block ends.
    """
    backend = tokenizer.backend_tokenizer
    with network_lock(backend):
        # A call without truncation or padding switches them off, also for the user's own calls.
        truncation, padding = backend.truncation, backend.padding
        try:
            yield
        finally:
            if truncation is not None and backend.truncation != truncation:
                backend.enable_truncation(**truncation)
            if padding is not None and backend.padding != padding:
                backend.enable_padding(**padding)


def stack_rows(rows: Sequence[Any]) -> Rows:
    """Return rows of ids as one padded array, or the pixels of images as one array.

    Each row of ids must have at least one entry.
    """
    if isinstance(rows[0], Pixels):
        return np.stack([row.values for row in rows])
    ids = np.full((len(rows), max(map(len, rows))), MASKED_OUT)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    return ids


def collect_by_row(
    engine: Engine,
    sizes: Sequence[int],
    compute: Callable[[Int[np.ndarray, " _"]], NetworkArrays | Callable[[], NetworkArrays]],
) -> tuple[list[tuple[Any, ...]], Float[np.ndarray, "n C"]]:
    """Compute several arrays for every row, a few rows at a time.

    Parameters
    ----------
    engine
        Engine that decides how many rows are computed at a time.
    sizes
        Cost of each row, in subwords.
    compute
        Function from the indices of some rows to arrays over these rows, or to a function that
        waits for them. The last array holds the outputs.

    Returns
    -------
    A tuple of values for each row, without the outputs, and the outputs of all rows.
    """
    results: list[tuple[Any, ...]] = [()] * len(sizes)

    def store_arrays(
        rows: Int[np.ndarray, " _"], arrays: NetworkArrays
    ) -> Float[np.ndarray, "_ C"]:
        """Store the values of some rows and return their outputs."""
        *columns, outputs = arrays
        for i, *row_values in zip(rows, *columns, strict=True):
            results[i] = tuple(row_values)
        return outputs

    def start_batch(rows: Int[np.ndarray, " _"]) -> PendingRows:
        """Start to compute some rows."""
        arrays = compute(rows)
        if callable(arrays):
            return lambda: store_arrays(rows, arrays())
        return store_arrays(rows, arrays)

    return results, engine.compute_rows(np.array(sizes), start_batch)


def network_outputs(
    network: Any, ids: Rows, *, filler: int | None = None, is_copy: bool = False
) -> Float[np.ndarray, "n C"]:
    """Call a network on rows of ids and return its outputs, in the precision of the network.

    Parameters
    ----------
    network
        The network.
    ids
        Packed rows of ids, or pixels.
    filler
        Token at positions that attention does not see, by default the padding.
    is_copy
        Whether the network is a copy that belongs to Limelight (see :func:`evaluation_mode`).

    Returns
    -------
    The outputs, one row for each row of ids.
    """
    outputs: np.ndarray = (
        _network_logits(network, ids, filler=filler, is_copy=is_copy).cpu().numpy()
    )
    return outputs


def _network_logits(
    network: Any,
    ids: Rows,
    *,
    filler: int | None = None,
    is_copy: bool = False,
    with_mask: bool = True,
) -> Any:
    """Call a network on rows of ids and return its outputs as a tensor in double precision."""
    inputs = network_input(network, ids, filler=filler, with_mask=with_mask)
    with evaluation_mode(network, is_copy=is_copy), torch.inference_mode():
        return network(**inputs).logits.double()


@contextlib.contextmanager
def _any_shape_kernels(device: str) -> Iterator[None]:
    """Compute attention by kernels that take any shape.

    cuDNN's kernel makes a plan for each new shape.
    """
    if device != "cuda":
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    any_shape = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with _KERNEL_CHOICE, sdpa_kernel(any_shape):  # the choice holds for the whole process
        yield


class CustomHead(torch.nn.Module):  # type: ignore[misc]
    """A network with another head than its own.

    The attribute that ``network_attribute`` names holds the network. The configuration is a copy
    of the network's, with other classes. Further ``settings`` are written into it. They are part
    of the model, so they change its fingerprint.
    """

    network_attribute = "network"
    # These class attributes differ by head. The values here are those of a classifier with its own
    # head: capabilities, reasons for missing properties, the error if a required query is missing,
    # the positions at which the head reads (see layers), the end of the warning about a truncated
    # text, and replacements, the best first.
    capabilities: Mapping[Capability, str | None] = {}
    limitations: Mapping[Property, str] = {}
    missing_query_error = ""
    read_position = ""
    truncation_advice = " Use window='auto' (--window auto) to explain all."
    replacement_order = ("mask", "unk", "delete", "pad")

    def __init__(self, network: Any, classes: Sequence[str], **settings: Any) -> None:
        super().__init__()
        setattr(self, self.network_attribute, network)
        self.training = network.training
        self.config = copy.deepcopy(network.config)  # the user's stays unchanged
        self.config.id2label = dict(enumerate(classes))
        self.config.label2id = {name: i for i, name in self.config.id2label.items()}
        for name, value in {"problem_type": "single_label_classification", **settings}.items():
            setattr(self.config, name, value)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the network, such as its device or its embedding."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            # Otherwise an attribute that is not set yet would be searched for without end.
            if name.startswith("__") or name == self.network_attribute:  # while it is being copied
                raise
            return getattr(getattr(self, self.network_attribute), name)

    @staticmethod
    def make_output(out: Any, logits: Any) -> SequenceClassifierOutput:
        """Return the logits of the head with the states and the attention of the network."""
        layers = {name: getattr(out, name, None) for name in ("hidden_states", "attentions")}
        return SequenceClassifierOutput(logits=logits, **layers)


def is_kind(network: Any, *kinds: str) -> bool:
    """Tell whether the name of a network's class, or of a base class, contains one of ``kinds``.

    A user's own class may be derived from a class of transformers.
    """
    names = [base.__name__ for base in type(network).__mro__]
    return any(kind in name for name in names for kind in kinds)


def network_name(network: Any) -> str:
    """Return the name of a network's class as its user knows it, without a custom head."""
    has_head = isinstance(network, CustomHead)
    inner = getattr(network, network.network_attribute) if has_head else network
    return type(inner).__name__


# Keys of a configuration that describe a library or a location, not the model. The precision is
# that of the weights.
_LIBRARY_KEYS = frozenset(
    (
        "transformers_version",
        "_name_or_path",
        "dtype",
        "torch_dtype",
        "truncation",
        "padding",
        "image_processor_type",  # one with torchvision and one without
    )
)


@final
class NetworkFingerprint:
    """SHA-256 of the weights, configuration and tokenizer of a network.

    It does not depend on the version of the library that reads them. Weights are read again if
    torch has counted a change. Writing through ``.data`` is not counted. A tokenizer is read once,
    since every call sets its padding anew.
    """

    def __init__(self, network: Any, tokenizer: Any) -> None:
        self._network, self._tokenizer = network, tokenizer
        self._stamp: tuple[Any, ...] = ()
        self._weights = self._tokenizer_json = b""
        self._config_text, self._config_state = "", dict[str, Any]()

    def __call__(self) -> str:
        """Return the fingerprint."""
        if (stamp := weights_stamp(self._network)) != self._stamp:
            # Sorted by name, since the order in which layers were made is not part of a model.
            tensors = sorted(self._network.state_dict().items())
            self._weights, self._stamp = _weights_digest(tensors), stamp
        if not self._tokenizer_json:
            self._tokenizer_json = encode_tokenizer(self._tokenizer)
        # Transformers takes milliseconds to write a configuration, which seldom changes.
        state = vars(self._network.config)
        if state != self._config_state:
            self._config_text, self._config_state = self._describe_config(), copy.deepcopy(state)
        text = self._config_text
        return hashlib.sha256(text.encode() + self._tokenizer_json + self._weights).hexdigest()

    def _describe_config(self) -> str:
        """Return the configuration of the network as JSON, with the name of its class."""
        # The configuration names the class only if the network was saved before.
        saved = {"architectures": [network_name(self._network)]}
        settings = self._network.config.to_diff_dict()
        config = {
            **saved,
            **_drop_unset(settings),
            **_disabled_defaults(self._network.config, settings),
        }
        name = getattr(self._network, "fingerprint_name", type(self._network).__name__)
        return json.dumps([name, config], sort_keys=True, default=str)


def encode_tokenizer(tokenizer: Any) -> bytes:
    """Return the vocabulary and the rules of a tokenizer or an image processor as JSON."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    settings = tokenizer.to_dict() if backend is None else json.loads(backend.to_str())
    return json.dumps(_drop_unset(settings), sort_keys=True).encode()


def _drop_unset(value: Any) -> Any:
    """Return a configuration without the options that are off.

    A newer version of a library knows more options than the version that wrote the file.
    """
    if isinstance(value, dict):
        settings = ((str(k), _drop_unset(v)) for k, v in value.items() if k not in _LIBRARY_KEYS)
        empty_values: tuple[Any, ...] = ({}, [], "")  # 0 may be a count
        return {
            k: v
            for k, v in settings
            # For strip_accents, None means that lowercasing decides, so it differs from False.
            if v is not None and (v is not False or k == "strip_accents") and v not in empty_values
        }
    return [_drop_unset(element) for element in value] if isinstance(value, list | tuple) else value


def _disabled_defaults(config: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are off in ``settings`` but on by default."""
    with contextlib.suppress(Exception):  # some classes need arguments
        defaults = type(config)().to_dict()
        names = (name for name, value in settings.items() if not value and defaults.get(name))
        return {f"{name} off": repr(settings[name]) for name in names if name not in _LIBRARY_KEYS}
    return {}


def weights_stamp(network: Any) -> tuple[Any, ...]:
    """Return a tuple that changes if a weight is replaced or written to."""
    # state_dict would take as long as a tenth of a call. Tensors of inference mode have no count of
    # changes, so they are read every time.
    tensors = itertools.chain(network.parameters(), network.buffers())
    return tuple(
        (tensor.data_ptr(), tensor.dtype, object() if tensor.is_inference() else tensor._version)
        for tensor in tensors
    )


def _weights_digest(tensors: list[tuple[str, Any]]) -> bytes:
    """Return the SHA-256 of names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        # Bytes are hashed, because NumPy has no bfloat16. A cast would make two precisions equal.
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.digest()


@final
class ForwardPass:
    """Calls a network on rows of ids, on a GPU in half precision if ``half`` is true.

    The weights are cast once, into a copy of the network, since casting in every call took longer
    than the call. ``refresh`` casts them again if they have changed. If the network fails on a
    row, the error contains the text that ``describe`` makes of the row.
    """

    def __init__(
        self,
        network: Any,
        *,
        half: bool,
        describe: Callable[[Int[np.ndarray, " _"]], str],
        example: Callable[[], Rows],
    ) -> None:
        self.network, self._describe, self._example = network, describe, example
        self._uses_half = half and network.device.type == "cuda"
        self._half_network: Any = None  # the copy, or None if it is not usable
        self._needs_mask = True  # also for rows without padding
        self._streams: deque[Any] = deque()  # of the GPU, for batches in turn
        self._stamp: tuple[Any, ...] = ()

    def refresh(self) -> None:
        """Cast the weights again if the network has changed, and check whether it needs masks."""
        on_gpu = self.network.device.type == "cuda"
        if not (on_gpu or self._uses_half):
            return
        attention = getattr(self.network.config, "_attn_implementation", None)
        stamp = (*weights_stamp(self.network), attention, self.network.forward)
        with network_lock(self.network):
            if stamp != self._stamp:
                example = self._example()
                if self._uses_half:
                    self._half_network = _half_precision_copy(self.network, example)
                if on_gpu:  # images have no masks
                    is_text = example.ndim == 2
                    self._needs_mask = not (is_text and _is_mask_optional(self.network, example))
                self._stamp = stamp

    def __call__(self, ids: Rows) -> Float[np.ndarray, "n C"]:
        """Return the outputs for rows. Masked-out positions are not attended to."""
        (outputs,) = self.run(ids, self._logits)
        return outputs

    def start(self, ids: Rows) -> PendingRows:
        """Return the outputs for rows, or on a GPU a function that waits for them.

        While the GPU computes them, the next rows can be prepared.
        """
        is_unmasked = ids.ndim == 2 and not self._needs_mask and not _has_padding(self.network, ids)
        call = self._unmasked_logits if is_unmasked else self._logits
        started = self.start_call(ids, call, in_order=is_unmasked and is_device_shared())
        return (lambda: started()[0]) if callable(started) else started[0]

    def start_call(
        self, ids: Rows, call: NetworkCall, *, in_order: bool = False
    ) -> NetworkArrays | Callable[[], NetworkArrays]:
        """Run ``call`` as :meth:`run` does, and on a GPU return a function that waits for it.

        Batches ``in_order`` run one after another. Their ``call`` must not wait for the GPU.
        """
        if self.network.device.type != "cuda":
            return self.run(ids, call)
        network = self.network if self._half_network is None else self._half_network
        main_stream = torch.cuda.current_stream(self.network.device)
        stream = self._choose_stream(in_order=in_order)
        stream.wait_stream(main_stream)
        if isinstance(ids, torch.Tensor):
            ids.record_stream(stream)  # its memory is used again only after this stream has read it
        wait_for_copies, tensors = None, list[Any]()
        try:
            with torch.cuda.stream(stream):
                *tensors, outputs = call(network, ids)
                wait_for_copies = _start_copies(outputs, _are_finite((*tensors, outputs)))
        except Exception as error:
            if isinstance(error, InputError) or is_out_of_memory(error):
                raise
        # After the block, when the error no longer keeps arrays in memory.
        if wait_for_copies is None:
            return self.run(ids, call)  # it names the text at fault
        finish_copies = wait_for_copies

        def wait() -> NetworkArrays:
            """Wait for the arrays, and compute them again if a number is not finite."""
            try:
                host_outputs, is_finite = finish_copies()
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                raise InputError(
                    f"the GPU fails in a batch of {network_name(self.network)} "
                    f"({describe_error(error)})."
                ) from error
            for tensor in tensors:
                # Its memory is used again only after the main stream has read it.
                tensor.record_stream(main_stream)
            return (*tensors, host_outputs) if is_finite else self.run(ids, call)

        return wait

    def _choose_stream(self, *, in_order: bool) -> Any:
        """Return the stream of the GPU for the next batch.

        Batches ``in_order`` run one after another in one stream, and the next one is queued while
        one runs. Others take turns in two streams, because a call that waits for results of the GPU
        would also wait for all earlier batches of its stream.
        """
        # On an H200, one stream was faster by a tenth for two texts at the same time, because each
        # was finished sooner, and two streams by 2 % for a single text.
        with network_lock(self.network):
            if not self._streams:
                self._streams.extend(torch.cuda.Stream(self.network.device) for _ in range(2))
            if not in_order:
                self._streams.rotate()
            return self._streams[0]

    def run(self, ids: Rows, call: NetworkCall) -> NetworkArrays:
        """Run ``call`` on the network, or on its copy in half precision, and return its arrays.

        The copy is not used for rows whose numbers are too large for half precision.
        """

        def run_rows(rows: Rows) -> tuple[bool, NetworkArrays]:
            """Call the copy, then the network if a number is not finite."""
            is_usable = self._half_network is not None
            if is_usable and _are_finite(tensors := call(self._half_network, rows)):
                return True, _as_arrays(tensors)
            tensors = call(self.network, rows)
            return bool(_are_finite(tensors)), _as_arrays(tensors)

        is_finite, arrays = call_function(
            run_rows,
            ids,
            who=network_name(self.network),
            item_text=lambda row: self._describe(row[row != MASKED_OUT]),
        )
        if not is_finite:
            raise InputError("the model returns numbers that are not finite. Check its weights.")
        return arrays

    def _logits(self, network: Any, ids: Rows) -> tuple[Any]:
        """Return the outputs of the network or of its copy for rows."""
        return (_network_logits(network, ids, is_copy=network is self._half_network),)

    def _unmasked_logits(self, network: Any, ids: Rows) -> tuple[Any]:
        """Return the outputs as :meth:`_logits` does, for rows without padding."""
        # With a mask, transformers waits until the GPU has found that nothing is masked.
        is_copy = network is self._half_network
        return (_network_logits(network, ids, is_copy=is_copy, with_mask=False),)


def _as_arrays(tensors: tuple[Any, ...]) -> NetworkArrays:
    """Return tensors as arrays on their device, NumPy's on a CPU, and the last one in NumPy."""
    *states, outputs = tensors
    on_cpu = outputs.device.type == "cpu"
    return (*(state.numpy() if on_cpu else state for state in states), outputs.cpu().numpy())


def _start_copies(*tensors: Any) -> Callable[[], list[np.ndarray]]:
    """Start to copy tensors from a GPU, and return a function that waits for the arrays.

    Later calls on the same GPU do not delay them.
    """
    copies = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True) for x in tensors]
    for host_tensor, tensor in zip(copies, tensors, strict=True):
        host_tensor.copy_(tensor, non_blocking=True)
    copied = torch.cuda.current_stream(tensors[0].device).record_event()

    def wait() -> list[np.ndarray]:
        """Return the arrays after the GPU has computed and copied them."""
        copied.synchronize()
        return [host_tensor.numpy() for host_tensor in copies]

    return wait


def _are_finite(tensors: tuple[Any, ...]) -> Any:
    """Return a tensor with a single truth value: whether all numbers of all tensors are finite."""
    return torch.stack([torch.isfinite(tensor).all() for tensor in tensors]).all()


def _has_padding(network: Any, rows: Int[np.ndarray, "n T"]) -> bool:
    """Tell whether rows of ids have padding, or a subword that a network may take for padding."""
    padding_id = network.config.pad_token_id
    is_padding = rows < 0 if padding_id is None else (rows < 0) | (rows & _TOKEN_MASK == padding_id)
    return bool(is_padding.any())


def _is_mask_optional(network: Any, ids: Rows) -> bool:
    """Tell whether a network gives rows without padding the same outputs without their mask."""
    try:
        unmasked = _network_logits(network, ids, with_mask=False).cpu().numpy()
    except Exception:  # a head that reads the mask may fail in any way
        return False
    masked = network_outputs(network, ids)
    # Outputs of 0 show nothing.
    largest = float(np.abs(masked).max())
    return largest > 0 and float(np.abs(unmasked - masked).max()) <= _MASK_TOLERANCE * largest


def _half_precision_copy(network: Any, ids: Rows) -> Any:
    """Return a copy in half precision, or None if its outputs are too different."""
    try:
        half = copy.deepcopy(network).half().eval()
        outputs = network_outputs(half, ids, is_copy=True)
    except (RuntimeError, TypeError, NotImplementedError):
        return None  # a layer does not support half precision
    exact = network_outputs(network, ids)
    error = float(np.abs(outputs - exact).max())
    return half if error <= _HALF_TOLERANCE * max(1.0, float(np.abs(exact).max())) else None
