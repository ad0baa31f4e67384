"""Results of the check of a network, remembered on disk for the next time it is loaded.

Only networks that limelight has loaded itself from files are remembered, because the code of other
networks may change. The file of a network is ``limelight/checks/DIGEST.json`` in the cache folder
of the XDG convention. Its name is a digest of all that the results depend on. A file that cannot
be read or written, or that is damaged, counts as missing.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
import transformers

from limelight.errors import InputError
from limelight.files import parse_json, read_bounded_bytes, write_atomically
from limelight.models.hugging_face.forward import network_name, weights_stamp
from limelight.threads import cached_property

_VARIABLE = "LIMELIGHT_CACHE"  # "off" turns the memory off
_FORMAT = 1
_MAX_BYTES = 1 << 20


class CheckMemory:
    """The results of the check of one network, by name.

    Parameters
    ----------
    network
        The network as it was loaded. If it has changed since, results are computed and not
        remembered.
    fingerprint
        Returns the digest of weights, configuration and tokenizer. Without it no result is
        remembered. It is called for the first result, because it reads all weights.
    """

    def __init__(self, network: Any, fingerprint: Callable[[], str] | None = None) -> None:
        self._network, self._fingerprint = network, fingerprint
        self._folder = None if fingerprint is None else cache_folder()
        self._stamp = () if self._folder is None else _structure_stamp(network)

    def recall(self, name: str, compute: Callable[[], Any], kind: Any) -> Any:
        """Return the result with this name from the file, or compute it and add it to the file.

        A result in the file that is not of ``kind`` is computed again.
        """
        if self._folder is None or _structure_stamp(self._network) != self._stamp:
            return compute()
        if name not in self._results or not _is_of_kind(self._results[name], kind):
            self._results[name] = compute()
            _write_results(self._path, self._results)
        return self._results[name]

    @cached_property
    def _results(self) -> dict[str, Any]:
        """The results in the file, and new ones."""
        return _read_results(self._path)

    @cached_property
    def _path(self) -> Path:
        """The file, whose name is a digest of all that the results depend on."""
        device = torch.device(self._network.device)
        is_cuda = device.type == "cuda"
        origin = {
            "format": _FORMAT,
            "code": _code_digest(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "device": torch.cuda.get_device_name(device) if is_cuda else device.type,
            "dtype": str(self._network.dtype),
            "network": network_name(self._network),
            "fingerprint": cast(Callable[[], str], self._fingerprint)(),
        }
        digest = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()
        return cast(Path, self._folder) / "checks" / f"{digest}.json"


def cache_folder() -> Path | None:
    """Return limelight's folder for files that can be computed again, or None if it is off."""
    if os.environ.get(_VARIABLE, "").strip().lower() == "off":
        return None
    # By the XDG convention a relative path is ignored.
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if root.is_absolute():
        return root / "limelight"
    try:
        return Path.home() / ".cache" / "limelight"
    except RuntimeError:  # there is no home
        return None


@cache
def _code_digest() -> str:
    """Return the SHA-256 of the modules beside this one, which check networks."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _structure_stamp(network: Any) -> tuple[Any, ...]:
    """Return a tuple that changes if weights, modules or hooks of a network change."""
    modules = tuple(
        (
            id(module),
            type(module).forward,
            vars(module).get("forward"),
            tuple(module._forward_hooks),
            tuple(module._forward_pre_hooks),
        )
        for module in network.modules()
    )
    hooks = torch.nn.modules.module
    return (
        weights_stamp(network),
        modules,
        tuple(hooks._global_forward_hooks),
        tuple(hooks._global_forward_pre_hooks),
    )


def _read_results(path: Path) -> dict[str, Any]:
    """Return the results in a file, or nothing if it is missing or damaged."""
    try:
        content = parse_json(read_bounded_bytes(path, _MAX_BYTES), f"'{path}'")
        results, digest = content["results"], content["sha256"]
    except (OSError, InputError, TypeError, KeyError):
        return {}
    return results if isinstance(results, dict) and digest == _digest(results) else {}


def _write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write results to a file; do nothing if that is not possible."""
    content = json.dumps({"results": results, "sha256": _digest(results)}, indent=1)
    with contextlib.suppress(OSError):  # such as a home that is read-only
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def _digest(results: Mapping[str, Any]) -> str:
    """Return the SHA-256 of results, which shows damage to their file."""
    return hashlib.sha256(json.dumps(results, sort_keys=True).encode()).hexdigest()


def _is_of_kind(value: Any, kind: Any) -> bool:
    """Tell whether a value of JSON is of a type, a union, or a dictionary of such values."""
    if isinstance(kind, Mapping):
        return (
            isinstance(value, dict)
            and value.keys() == kind.keys()
            and all(_is_of_kind(value[name], member) for name, member in kind.items())
        )
    if kind is dict:
        return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    return isinstance(value, kind)
