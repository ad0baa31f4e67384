"""Where a Hugging Face model comes from: somebody's objects, a folder, or the hub."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedConfig,
)
from transformers.utils import find_adapter_config_file, logging

from limelight.errors import InputError
from limelight.files import bounded_bytes, bounded_json
from limelight.models.hugging_face.forward import is_kind
from limelight.models.hugging_face.images import HuggingFaceImages
from limelight.models.hugging_face.language_models import asked_language_model
from limelight.models.hugging_face.model import HuggingFace
from limelight.models.hugging_face.tags import PlaceForSequenceClassification
from limelight.text import one_line
from limelight.threads import ForkSafeLock

_IMAGE_CLASSIFIER = "ForImageClassification"
_MOST_JSON = 1 << 28  # bytes: the largest tokenizers have a tenth of that
_MOST, _MOST_LAYERS = 10**8, 10**4  # of anything; of layers, each of which is built by itself
# Ways to compute that transformers has itself. Other names are looked for on the hub, as
# "owner/repo" or as a kernel that stands for the name, and the code that is found there is run.
_BUILT_IN = {
    "attn_implementation": ("eager", "sdpa", "flex_attention"),
    "experts_implementation": ("eager", "batched_mm", "grouped_mm"),
}
_LOADING = ForkSafeLock()  # how much transformers reports is set for the whole process
# How a language model is asked, by name: a template around the text; to classify, labels, a word
# per class; else what is told of its answers.
Asked = Mapping[str, Any]


def from_objects(network: Any, tokenizer: Any, asked: Asked | None = None) -> HuggingFace:
    """Return somebody's loaded model; it stays on its device and in its precision.

    Of what torch.compile returned, the model inside is asked, and stays as it was.
    """
    if tokenizer is None:
        own = "processor" if is_kind(network, _IMAGE_CLASSIFIER) else "tokenizer"
        raise InputError(f"a Hugging Face model comes with its {own}: wrap(model, {own}=…).")
    return _classifier(getattr(network, "_orig_mod", network), tokenizer, asked)


def _classifier(network: Any, tokenizer: Any, asked: Asked | None) -> HuggingFace:
    """Return the model, which can answer: else it is refused here and not in a long run."""
    if asked is not None:
        network, tokenizer = asked_language_model(network, tokenizer, **asked)
    elif is_kind(network, "TokenClassification", "QuestionAnswering"):
        network = PlaceForSequenceClassification(network)
    # Heads of ours are sequence classifiers by name, so that what follows knows one kind.
    kind = HuggingFaceImages if is_kind(network, _IMAGE_CLASSIFIER) else HuggingFace
    model = kind(network=network, tokenizer=tokenizer)
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
            _check_fetched(name, local_files_only=not network)
            kind = _kind(name, asked=asked, **options)
            # In single precision, whatever was saved: half has three digits, and a word may move
            # the fourth.
            model, found = kind.from_pretrained(
                name, dtype=torch.float32, output_loading_info=True, **options
            )
            reads = AutoImageProcessor if is_kind(model, _IMAGE_CLASSIFIER) else AutoTokenizer
            tokenizer = reads.from_pretrained(name, **options)
    except (KeyboardInterrupt, SystemExit, MemoryError, InputError):
        raise
    # A damaged file may raise anything in there, and the tokenizers panic outside of Exception.
    except BaseException as error:
        raise InputError(
            f"the Hugging Face model '{name}' cannot be loaded: {_reason(error)}"
        ) from None
    # transformers fills them with random numbers, and only warns.
    if missing := sorted(found["missing_keys"]):
        head = "classification head" if asked is None else "head of words"
        raise InputError(
            f"the Hugging Face model '{name}' has no trained {head} (it lacks "
            f"{', '.join(missing[:3])}); fine-tune it first, or choose another"
            + ("." if asked else ", or give a language model a template (--template).")
        )
    images = is_kind(model, _IMAGE_CLASSIFIER)
    if not images and set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        # transformers makes an empty one where the files are missing: every word is unknown to it
        raise InputError(
            f"the Hugging Face model '{name}' has no tokenizer (tokenizer.json or a vocabulary); "
            "put its files next to the model, with tokenizer.save_pretrained(…)."
        )
    return _classifier(_moved(model, device).eval(), tokenizer, asked)


def _kind(name: str, asked: Asked | None, **options: Any) -> Any:
    """Return what loads the model: its configuration names the classes that it was saved from."""
    config = AutoConfig.from_pretrained(name, **options)
    if asked is not None:
        return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    saved = config.architectures or []
    for ending, kind in (
        ("ForTokenClassification", AutoModelForTokenClassification),
        ("ForQuestionAnswering", AutoModelForQuestionAnswering),
        (_IMAGE_CLASSIFIER, AutoModelForImageClassification),
    ):
        # Some go on: DeiTForImageClassificationWithTeacher.
        if any(ending in one for one in saved):
            return kind
    return AutoModelForSequenceClassification


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
    found = bounded_json(bounded_bytes(config, _MOST_JSON), f"'{config}'")
    for name, number in _entries(found):
        most = _MOST_LAYERS if "layer" in name else _MOST
        if isinstance(number, int) and not isinstance(number, bool) and number > most:
            raise InputError(
                f"'{config}' must be that of a model; {one_line(name)!r} is above {most:,} there."
            )


def _check_fetched(name: str, **options: Any) -> None:
    """Refuse what would let transformers fetch more than this model, and run or read it.

    Code of a model's own (auto_map, in either configuration) is refused by trust_remote_code.
    """
    advice = "Load it with transformers if you trust that, and give it to limelight.wrap."
    config, _ = PreTrainedConfig.get_config_dict(name, **options)
    for key, value in _entries(config):
        if (usable := _BUILT_IN.get(key.removeprefix("_"))) is not None:
            asked = value.values() if isinstance(value, dict) else [value]  # or one for each part
            if strange := [one for one in asked if one is not None and one not in usable]:
                raise InputError(
                    f"the Hugging Face model '{name}' must compute with what transformers has "
                    f"({', '.join(usable)}); its config.json asks for "
                    f"{one_line(repr(strange[0]))}, which would be fetched and run. {advice}"
                )
        if key == "quantization_config" and value is not None:
            raise InputError(
                f"the Hugging Face model '{name}' is quantized, and transformers would fetch what "
                f"computes that. {advice}"
            )
    if find_adapter_config_file(name, **options) is not None:
        raise InputError(
            f"the Hugging Face model '{name}' is an adapter of another (adapter_config.json); save "
            "the two as one model: model.merge_and_unload().save_pretrained(…)."
        )


def _entries(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield everything that a configuration holds, wherever it stands, with its name."""
    yield name, value
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _entries(one, str(key))
    elif isinstance(value, list):
        for one in value:
            yield from _entries(one, name)


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
        if torch.device(device or "cpu").type == "meta":
            raise RuntimeError("tensors of the device 'meta' have no values")
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    # A torch without CUDA raises the second.
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
