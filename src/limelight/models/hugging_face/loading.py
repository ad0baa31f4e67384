"""Where a Hugging Face model comes from: somebody's objects, a folder, or the hub."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from limelight.errors import InputError
from limelight.files import bounded_bytes, bounded_json
from limelight.models.hugging_face.model import HuggingFace
from limelight.text import one_line

_MOST_JSON = 1 << 28  # bytes: the largest tokenizers have a tenth of that
_MOST, _MOST_LAYERS = 10**8, 10**4  # of anything; of layers, each of which is built by itself
_LOADING = threading.Lock()  # how much transformers reports is set for the whole process
# How a language model is asked to classify: a template around the text, and a word per class.
Asked = tuple[Any, Any]


def from_objects(network: Any, tokenizer: Any, asked: Asked | None = None) -> HuggingFace:
    """Return somebody's loaded model; it stays on its device and in its precision.

    Of what torch.compile returned, the model inside is asked, and stays as it was.
    """
    if tokenizer is None:
        raise InputError("a Hugging Face model comes with its tokenizer: wrap(model, tokenizer=…).")
    return _classifier(getattr(network, "_orig_mod", network), tokenizer, asked)


def _classifier(network: Any, tokenizer: Any, asked: Asked | None) -> HuggingFace:
    """Return the model, which can answer: else it is refused here and not in a long run."""
    if asked is not None:
        from limelight.models.hugging_face.prompt import next_token_classifier

        network, tokenizer = next_token_classifier(network, tokenizer, *asked)
    model = HuggingFace(network=network, tokenizer=tokenizer)
    _ = model.check
    return model


def from_pretrained(
    name: str, *, network: bool, device: str | None = None, asked: Asked | None = None
) -> HuggingFace:
    """Return the model in a folder, or with ``network`` one on the hub; its code is never run."""
    if not network:
        check_folder(Path(name))
    options: dict[str, Any] = {"local_files_only": not network, "trust_remote_code": False}
    try:
        with _quiet():
            kind = AutoModelForSequenceClassification if asked is None else AutoModelForCausalLM
            model, found = kind.from_pretrained(
                name, dtype=torch.float32, output_loading_info=True, **options
            )
            tokenizer = AutoTokenizer.from_pretrained(name, **options)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    # A damaged file may raise anything in there, and the tokenizers panic outside of Exception.
    except BaseException as error:
        raise InputError(
            f"the Hugging Face model '{name}' cannot be loaded: {_reason(error)}"
        ) from None
    if missing := sorted(found["missing_keys"]):
        head = "classification head" if asked is None else "head of words"
        raise InputError(
            f"the Hugging Face model '{name}' has no trained {head} (it lacks "
            f"{', '.join(missing[:3])}); fine-tune it first, or choose another"
            + ("." if asked else ", or ask a language model with template and labels.")
        )
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        # transformers makes an empty one where the files are missing: every word is unknown to it
        raise InputError(
            f"the Hugging Face model '{name}' has no tokenizer (tokenizer.json or a vocabulary); "
            "put its files next to the model, with tokenizer.save_pretrained(…)."
        )
    return _classifier(_moved(model, device).eval(), tokenizer, asked)


def check_folder(folder: Path) -> None:
    """Refuse files that never end, and sizes that no memory holds."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            continue
        if not path.is_file():
            raise InputError(
                f"'{path}' must be a file; it is a device, a pipe or a link that leads nowhere."
            )
        if path.suffix in (".json", ".txt", ".model") and path.stat().st_size > _MOST_JSON:
            raise InputError(f"'{path}' must have at most {_MOST_JSON:,} bytes; it has more.")
    config = folder / "config.json"
    for name, number in _numbers(bounded_json(bounded_bytes(config, _MOST_JSON), f"'{config}'")):
        most = _MOST_LAYERS if "layer" in name else _MOST
        if number > most:
            raise InputError(
                f"'{config}' must be that of a model; {one_line(name)!r} is above {most:,} there."
            )


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield the whole numbers of a configuration, wherever they stand, with their names."""
    inside: list[Any] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = [(name, one) for one in value]
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value
    for key, one in inside:
        yield from _numbers(one, str(key))


def _reason(error: BaseException) -> str:
    reason = one_line(str(error), 400)
    if "ignore_mismatched_sizes" in str(error):
        return "the shapes of its weights are not those of its config.json."
    if "weights_only" in str(error):
        # torch's own words advise to load it without that check, which runs what the file holds.
        return "its .bin file is damaged, or holds more than weights; save it as .safetensors."
    if isinstance(error, OSError | ValueError | RuntimeError | ImportError) and reason:
        return reason
    return f"its files are damaged ({type(error).__name__}: {reason.rstrip('.')})."


def _moved(model: Any, device: str | None) -> Any:
    """Return the model on ``device``, by default on a GPU if there is one."""
    try:
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, AssertionError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(f"device {device!r} cannot be used here ({reason.rstrip('.')}).") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Load without the progress bar and the report of transformers, one thread at a time."""
    with _LOADING:
        shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
        logging.disable_progress_bar()
        logging.set_verbosity_error()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if shown:
                logging.enable_progress_bar()
