"""How a transformers network is asked: rows of ids in, outputs out, and the network as it was."""

import contextlib
import copy
import hashlib
import inspect
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import DomainError, InputError
from limelight.models.engine import Engine, answers_of
from limelight.models.protocol import Capability, Property
from limelight.shapes import Bool, Float, Int
from limelight.threads import ForkSafeLock

# A segment travels in the upper half of its id, and above it the mark of a piece that is asked
# about: a row stays one array of integers, so that masks, batches, cache keys and paddings need not
# know that there are segments and places. Segment k + 1 is the token type k of the tokenizer, and 0
# says that it names none: XLM and GPT-2 answer otherwise to tokens of type 0 than without types.
_BITS, _MARK_BITS = 32, 40
_TOKEN, _SEGMENT = (1 << _BITS) - 1, (1 << (_MARK_BITS - _BITS)) - 1
MASKED_OUT = -1  # stands for a piece that attention does not see
# Where torch keeps what runs after a module.
_HOOKS = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
_INSTALLED = "_output_capturing_hooks_installed"  # how transformers remembers its recorders
_HALF = 1e-2  # how far half precision may be off, of the outputs' size, before it is not used


@final
@dataclass(frozen=True, eq=False)
class Pixels:
    """An image as a network reads it, in the place of a row of ids: ``len`` counts positions.

    Before those of its ``patches`` stand ``special`` ones, such as [CLS]; ``frame`` is the part of
    the image that is seen. It costs as much as a text of ``size`` pieces.
    """

    values: Float[np.ndarray, "C h w"]
    patches: int = 0
    special: int = 0
    frame: tuple[int, int, int, int] = (0, 0, 0, 0)
    size: int = 1

    def __len__(self) -> int:
        return self.special + self.patches

    def __getitem__(self, axis: None) -> Float[np.ndarray, "1 C h w"]:
        return self.values[axis]  # as ids[None] is a batch of one row

    def tobytes(self) -> bytes:
        """Return what tells this image from another."""
        # Two shapes may have the same bytes.
        return repr(self.values.shape).encode() + self.values.tobytes()


Row = Int[np.ndarray, " T"] | Pixels
Rows = Any  # ids (n, T) of texts, or pixels (n, C, h, w), which may be on a device
Ask = Callable[[Any, Rows], tuple[np.ndarray, ...]]  # a network about rows


def with_segments(
    ids: Int[np.ndarray, "*n L"],
    segment: Int[np.ndarray, "*n L"] | Literal[0],
    mark: Int[np.ndarray, "*n L"] | Literal[0],
) -> Int[np.ndarray, "*n L"]:
    """Return ids, segments and marks as one row."""
    return ids + (segment << _BITS) + (mark << _MARK_BITS)


def plain_ids(rows: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
    """Return the ids of rows; what is negative stands for no token and stays."""
    return np.where(rows < 0, rows, rows & _TOKEN)


def is_marked(row: Int[np.ndarray, "*n L"], least: int = 1) -> Bool[np.ndarray, "*n L"]:
    """Which pieces of the row are asked about: their mark is ``least`` or more."""
    found: np.ndarray = row >= least << _MARK_BITS
    return found


def network_input(network: Any, rows: Rows, *, filler: int | None = None) -> dict[str, Any]:
    """Return what the network is called with; a negative id is ``filler``, and is not attended to.

    Token types are passed to networks that read them, and marks only where a piece has one.
    """
    given = torch.as_tensor(rows).to(network.device)
    if given.dim() == 4:
        return {"pixel_values": given.to(network.dtype)}
    there = given >= 0
    padding = (network.config.pad_token_id or 0) if filler is None else filler
    inputs = {
        "input_ids": (given & _TOKEN).masked_fill(~there, padding),
        "attention_mask": there.long(),
    }
    most = int(rows.max(initial=0)) >> _BITS  # on the host: a GPU would have to be waited for
    if most >> (_MARK_BITS - _BITS):
        inputs["marks"] = (given >> _MARK_BITS).masked_fill(~there, 0)
        most = int(((rows[rows >= 0] >> _BITS) & _SEGMENT).max())
    if 0 < most <= token_type_count(network):
        types = ((given >> _BITS) & _SEGMENT) - 1
        inputs["token_type_ids"] = types.clamp(min=0).masked_fill(~there, 0)
    return inputs


_TYPE_COUNTS: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def token_type_count(network: Any) -> int:
    """Return how many token types the network knows, 0 if it reads none; RoBERTa's table has 1."""
    if (count := _TYPE_COUNTS.get(network)) is None:
        inner = getattr(network, network.held) if isinstance(network, AnotherHead) else network
        # The table itself where there is one, rather than what a configuration says of it.
        tables = [
            len(weight)
            for name, weight in inner.named_parameters()
            if name.endswith("token_type_embeddings.weight")
        ]
        count = min(tables, default=getattr(inner.config, "type_vocab_size", None))
        if not tables and "token_type_ids" not in inspect.signature(inner.forward).parameters:
            count = 0
        # GPT-2 and XLM look token types up among their words, and XLNet compares them.
        _TYPE_COUNTS[network] = count = _SEGMENT if count is None else count
    return count


def input_table(network: Any) -> Any:
    """Return the input embedding; not every network has a single one."""
    try:
        table = network.get_input_embeddings()
    except NotImplementedError:
        table = None
    if not hasattr(table, "projection") and getattr(table, "weight", None) is None:
        raise DomainError(
            f"{network_name(network)} shows nothing that embeds its tokens by get_input_embeddings."
        )
    return table


def embedding_rows(network: Any) -> int | None:
    """Return how many tokens the input embedding knows; None where there is not one table."""
    try:
        table = input_table(network)
    except DomainError:
        return None
    return len(table.weight) if hasattr(table, "weight") else None  # pixels are no tokens


def takes_batches(network: Any, rows: Iterable[Any] = ()) -> bool:
    """Whether it may be asked about several ``rows`` at once."""
    # A processor that cuts nothing leaves images of different sizes, of which nothing is padded.
    images = {row.values.shape for row in rows if isinstance(row, Pixels)}
    # Heads that look for the last piece refuse batches if they do not know the padding.
    return len(images) < 2 and getattr(network.config, "pad_token_id", 0) is not None


# Weak: a lock must not keep a network in memory.
_LOCKS: WeakKeyDictionary[Any, ForkSafeLock] = WeakKeyDictionary()
_MAKING = ForkSafeLock()
_KERNELS = ForkSafeLock()
_FORKED = (
    "this process was forked while another thread was using the model; load the model again in "
    "this process, or fork when no thread uses it."
)


def alone_with(part: Any) -> ForkSafeLock:
    """Return the lock of a network, or of what is behind a tokenizer, whoever has wrapped it.

    Whoever changes one for a moment must be alone with it, and so must whoever asks it meanwhile:
    modes, hooks and ways to compute attention belong to the object, not to the thread.
    """
    # By the body: two heads, or two templates around a language model, may share it.
    with _MAKING:
        body = getattr(part, "base_model", part)
        lock = _LOCKS.get(body)
        if lock is None:
            lock = _LOCKS[body] = ForkSafeLock(forked_message=_FORKED)
        return lock


@contextlib.contextmanager
def restoring(
    model: Any, *, eager: bool = False, hook: Any = None, ours: bool = False
) -> Iterator[None]:
    """Run a block in evaluation mode, then restore every mode, whatever happened.

    ``eager`` computes attention in the one way that shows it; ``hook`` takes the place of the
    embedded input. A network that is ``ours`` stays in evaluation mode, and nothing of it is
    restored. Other threads wait until the block ends.
    """
    # Alone with ours too, for heads hook into its layers; and before the choice of kernels: two
    # threads that took these two locks in turn would wait for each other.
    with alone_with(model), _without_plans(model.device.type):
        if ours:
            yield
            return
        # Module by module: somebody may train the head of a network whose body is evaluated. And
        # recorders of transformers would stay on it for good once its attention was asked for.
        before = [
            (module, module.training, set(module._forward_hooks), _INSTALLED in vars(module))
            for module in model.modules()
        ]
        usual = model.config._attn_implementation
        try:
            model.eval()
            if eager and usual != "eager":
                model.set_attn_implementation("eager")
            if hook is not None:
                table = input_table(model)
                weight = getattr(table, "weight", None)
                for one in model.modules():
                    # An encoder and its decoder may embed by two layers that share a weight.
                    shared = isinstance(one, torch.nn.Embedding) and one.weight is weight
                    if shared or one is table:
                        one.register_forward_hook(hook)
            yield
        finally:
            if eager and usual != "eager":
                model.set_attn_implementation(usual)
            # Also after a failure: a hook left behind would answer for every text to come.
            for module, training, hooks, installed in before:
                module.training = training
                for number in module._forward_hooks.keys() - hooks:
                    for name in _HOOKS:
                        getattr(module, name).pop(number, None)
                if not installed:
                    vars(module).pop(_INSTALLED, None)


@contextlib.contextmanager
def restoring_tokenizer(tokenizer: Any) -> Iterator[None]:
    """Run a block, then cut and pad texts as before: every call of a tokenizer sets it anew.

    Other threads wait until the block ends.
    """
    backend = tokenizer.backend_tokenizer
    with alone_with(backend):
        # A call that asks for neither takes them off, for whoever lent the tokenizer too.
        truncation, padding = backend.truncation, backend.padding
        try:
            yield
        finally:
            if truncation is not None and backend.truncation != truncation:
                backend.enable_truncation(**truncation)
            if padding is not None and backend.padding != padding:
                backend.enable_padding(**padding)


def rectangle(rows: Sequence[Any]) -> Rows:
    """Return rows of ids, each at least one long, as one array, padded; or pixels of images."""
    if isinstance(rows[0], Pixels):
        return np.stack([row.values for row in rows])
    ids = np.full((len(rows), max(map(len, rows))), MASKED_OUT)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    return ids


def found_by_row(
    engine: Engine, sizes: Sequence[int], ask: Callable[[Int[np.ndarray, " _"]], tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], Float[np.ndarray, "n C"]]:
    """Return what ``ask`` finds of each row of those sizes, and the outputs, which it gives last.

    It is asked about the places of a few rows at a time, as many as the engine takes.
    """
    found: list[tuple[Any, ...]] = [()] * len(sizes)

    def answer(places: Int[np.ndarray, " _"]) -> Float[np.ndarray, "_ C"]:
        *others, outputs = ask(places)
        for i, *own in zip(places, *others, strict=True):
            found[i] = tuple(own)
        return outputs

    return found, engine.rows(np.array(sizes), answer)


def network_outputs(
    network: Any, ids: Rows, *, filler: int | None = None, ours: bool = False
) -> Float[np.ndarray, "n C"]:
    """Return the outputs for rows of ids, in the precision of the network.

    ``filler`` is the token at places that attention does not see, by default the padding.
    """
    given = network_input(network, ids, filler=filler)
    with restoring(network, ours=ours), torch.inference_mode():
        found: np.ndarray = network(**given).logits.double().cpu().numpy()
    return found


@contextlib.contextmanager
def _without_plans(device: str) -> Iterator[None]:
    """Compute attention by kernels that take any shape: cuDNN's makes a plan for each new one."""
    if device != "cuda":
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    any_shape = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with _KERNELS, sdpa_kernel(any_shape):  # the choice is that of the whole process
        yield


class AnotherHead(torch.nn.Module):  # type: ignore[misc]
    """A network under another head, held as the attribute that ``held`` names.

    Its configuration is a copy of the network's, with other classes. What is ``told`` there is part
    of what the model is, and so of its fingerprint.
    """

    held = "network"
    # What differs by head, here as a classifier without another one has it: its capabilities, why
    # it lacks properties, what is said where nothing is asked of one that needs it, at which
    # positions it says what is asked (see layers), what is said of a text that is cut, and what may
    # stand for a removed word, the best first.
    capabilities: Mapping[Capability, str | None] = {}
    limitations: Mapping[Property, str] = {}
    unasked = ""
    reads = ""
    if_cut = "; window='auto' (--window auto) explains all"
    removals = ("mask", "unk", "delete", "pad")

    def __init__(self, network: Any, classes: Sequence[str], **told: Any) -> None:
        super().__init__()
        setattr(self, self.held, network)
        self.training = network.training
        self.config = copy.deepcopy(network.config)  # somebody else's, which stays as it is
        self.config.id2label = dict(enumerate(classes))
        self.config.label2id = {name: i for i, name in self.config.id2label.items()}
        for name, value in {"problem_type": "single_label_classification", **told}.items():
            setattr(self.config, name, value)

    def __getattr__(self, name: str) -> Any:
        """Device, precision, embedding and ways to compute attention are the network's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            # Else what is not there yet would be looked for without end.
            if name.startswith("__") or name == self.held:  # while it is being copied
                raise
            return getattr(getattr(self, self.held), name)

    @staticmethod
    def said(out: Any, logits: Any) -> SequenceClassifierOutput:
        """Return the outputs of the head, with what ``out`` shows of the network's layers."""
        shown = {name: getattr(out, name, None) for name in ("hidden_states", "attentions")}
        return SequenceClassifierOutput(logits=logits, **shown)


def is_kind(network: Any, *kinds: str) -> bool:
    """Whether a network is one of these, by its classes: somebody's own may stand on one."""
    names = [one.__name__ for one in type(network).__mro__]
    return any(kind in name for name in names for kind in kinds)


def network_name(network: Any) -> str:
    """Return the name of a network's class, as its user knows it: that under another head."""
    own = getattr(network, network.held) if isinstance(network, AnotherHead) else network
    return type(own).__name__


# What a library writes into a configuration about itself, and where the weights lay; precision is
# that of the weights.
_OF_THE_LIBRARY = frozenset(
    (
        "transformers_version",
        "_name_or_path",
        "dtype",
        "torch_dtype",
        "truncation",
        "padding",
        "image_processor_type",
    )  # of which there is one with torchvision and one without
)


@final
class NetworkFingerprint:
    """SHA-256 of weights, configuration and tokenizer, whatever version of a library reads them.

    Weights are read again when torch has counted a change of them. What is written through
    ``.data`` it does not count. A tokenizer is read once; every call sets its padding anew.
    """

    def __init__(self, network: Any, tokenizer: Any) -> None:
        self._network, self._tokenizer = network, tokenizer
        self._stamp: tuple[Any, ...] = ()
        self._weights = self._words = b""

    def __call__(self) -> str:
        """Return the fingerprint."""
        if (stamp := changes(self._network)) != self._stamp:
            # By name: in which order layers were made is no part of a model.
            tensors = sorted(self._network.state_dict().items())
            self._weights, self._stamp = _weights_digest(tensors), stamp
        if not self._words:
            backend = getattr(self._tokenizer, "backend_tokenizer", None)
            written = self._tokenizer.to_dict() if backend is None else json.loads(backend.to_str())
            self._words = json.dumps(_set(written), sort_keys=True).encode()
        # A network that was never saved does not name its class; one that was read does.
        saved = {"architectures": [network_name(self._network)]}
        written = self._network.config.to_diff_dict()
        config = {**saved, **_set(written), **_switched_off(self._network.config, written)}
        said = json.dumps([type(self._network).__name__, config], sort_keys=True, default=str)
        return hashlib.sha256(said.encode() + self._words + self._weights).hexdigest()


def _set(value: Any) -> Any:
    """Return what is set in a configuration: an option that is off is as good as an unknown one.

    A newer version of a library knows more options than the one that wrote the file.
    """
    if isinstance(value, dict):
        known = ((str(k), _set(v)) for k, v in value.items() if k not in _OF_THE_LIBRARY)
        off: tuple[Any, ...] = ({}, [], "")  # 0 is a number of something
        return {
            k: v
            for k, v in known
            # Of accents alone False is not None, which leaves them to the letters' case.
            if v is not None and (v is not False or k == "strip_accents") and v not in off
        }
    return [_set(one) for one in value] if isinstance(value, list | tuple) else value


def _switched_off(config: Any, written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are off in a configuration, and on by default in its class."""
    with contextlib.suppress(Exception):  # not every class can be made without arguments
        usual = type(config)().to_dict()
        off = (name for name, value in written.items() if not value and usual.get(name))
        return {f"{name} off": repr(written[name]) for name in off if name not in _OF_THE_LIBRARY}
    return {}


def changes(network: Any) -> tuple[Any, ...]:
    """Return what differs after a weight was replaced or written to."""
    # Not of state_dict, which takes as long as a tenth of a call. Tensors of inference mode have no
    # count, and are read every time.
    tensors = itertools.chain(network.parameters(), network.buffers())
    return tuple(
        (one.data_ptr(), one.dtype, object() if one.is_inference() else one._version)
        for one in tensors
    )


def _weights_digest(tensors: list[tuple[str, Any]]) -> bytes:
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        # As bytes: NumPy has no bfloat16, and a cast would make two precisions one.
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.digest()


@final
class ForwardPass:
    """Calls a network on rows of ids, with ``half`` in half precision on a graphics card.

    There the weights are cast once, into a copy of the network: casting them in every call took
    longer than the call. A text that is read afterwards meets the weights as they are then. A row
    on which the network fails is named as the text that ``shown`` makes of it.
    """

    def __init__(
        self,
        network: Any,
        *,
        half: bool,
        shown: Callable[[Int[np.ndarray, " _"]], str],
        example: Callable[[], Rows],
    ) -> None:
        self.network, self._shown, self._example = network, shown, example
        self._halves = half and network.device.type == "cuda"
        self._half: Any = None  # the copy, None where it does not do
        self._stamp: tuple[Any, ...] = ()

    def renew(self) -> None:
        """Cast the weights again if they have changed."""
        if not self._halves:
            return
        stamp = changes(self.network)
        with alone_with(self.network):
            if stamp != self._stamp:
                self._half, self._stamp = _halved(self.network, self._example()), stamp

    def __call__(self, ids: Rows) -> Float[np.ndarray, "n C"]:
        """Return the outputs; what is masked out is not attended to."""
        (found,) = self.apart(
            ids, lambda network, ids: (network_outputs(network, ids, ours=network is self._half),)
        )
        return found

    def apart(self, ids: Rows, ask: Ask) -> tuple[np.ndarray, ...]:
        """Return the arrays that ``ask`` gets from the network, or from its copy where it can."""

        def asked(some: Rows) -> tuple[np.ndarray, ...]:
            if self._half is not None and _finite(found := ask(self._half, some)):
                return found  # else too large for half precision
            return ask(self.network, some)

        found: tuple[np.ndarray, ...] = answers_of(
            asked,
            ids,
            who=network_name(self.network),
            shown=lambda row: self._shown(row[row != MASKED_OUT]),
        )
        if not _finite(found):
            raise InputError("the model returns numbers that are not finite; check its weights.")
        return found


def _finite(arrays: tuple[np.ndarray, ...]) -> bool:
    # A sum needs no array of its own; it may overflow where no number does, hence the second look.
    return all(bool(np.isfinite(one.sum()) or np.isfinite(one).all()) for one in arrays)


def _halved(network: Any, ids: Rows) -> Any:
    """Return a copy in half precision, or None where that is not the same function."""
    try:
        half = copy.deepcopy(network).half().eval()
        found = network_outputs(half, ids, ours=True)
    except (RuntimeError, TypeError, NotImplementedError):
        return None  # a layer that knows no such numbers
    true = network_outputs(network, ids)
    off = float(np.abs(found - true).max())
    return half if off <= _HALF * max(1.0, float(np.abs(true).max())) else None
