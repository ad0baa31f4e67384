"""Where Hugging Face models come from: loaded objects, a folder, or the Hugging Face hub."""

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
from limelight.files import parse_json, read_bounded_bytes
from limelight.fork_locks import ForkSafeLock
from limelight.models.hugging_face.check_memory import CheckMemory
from limelight.models.hugging_face.forward import is_kind
from limelight.models.hugging_face.images import HuggingFaceImages
from limelight.models.hugging_face.language_models import prompt_language_model
from limelight.models.hugging_face.model import HuggingFace
from limelight.models.hugging_face.selfcheck import find_output_kind
from limelight.models.hugging_face.tags import SpanForSequenceClassification
from limelight.text import truncate_line

_IMAGE_CLASSIFIER = "ForImageClassification"
_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForSeq2SeqLM")
_MAX_JSON_BYTES = 1 << 28  # the largest tokenizers have a tenth of it
_MAX_NUMBER, _MAX_LAYERS = 10**8, 10**4  # layers are built one by one, so fewer are allowed
# Implementations that are part of transformers. It would download other names from the hub, as
# "owner/repo" or as a kernel of that name, and run their code.
_BUILT_IN_IMPLEMENTATIONS = {
    "attn_implementation": ("eager", "sdpa", "flex_attention"),
    "experts_implementation": ("eager", "batched_mm", "grouped_mm"),
}
_LOADING = ForkSafeLock()  # the verbosity of transformers belongs to the whole process
# Options of a language model, by name: the template around the text, and either the words of the
# labels or options of answers.
PromptOptions = Mapping[str, Any]


def from_objects(
    network: Any, tokenizer: Any, prompt_options: PromptOptions | None = None
) -> HuggingFace:
    """Return the model of a loaded network, which stays on its device and in its precision.

    If torch.compile returned the network, the original one inside is used and not changed.

    Raises
    ------
    InputError
        If there is no tokenizer or processor, or if the network cannot be used.
    """
    if tokenizer is None:
        kind = "processor" if is_kind(network, _IMAGE_CLASSIFIER) else "tokenizer"
        raise InputError(f"a Hugging Face model needs its {kind}. Write wrap(model, {kind}=…).")
    return _make_model(getattr(network, "_orig_mod", network), tokenizer, prompt_options)


def _make_model(
    network: Any,
    tokenizer: Any,
    prompt_options: PromptOptions | None,
    *,
    is_unchanged: bool = False,
) -> HuggingFace:
    """Return the model after a call, so that errors occur now and not in a long run.

    ``is_unchanged`` means that the network comes from files. Then its check is remembered.
    """
    _check_weights(network)
    reads_images = is_kind(network, _IMAGE_CLASSIFIER) or _processes_images(tokenizer)
    if prompt_options is None and _writes_text(network):
        prompt_options = {}  # it reads the messages of a chat
    if prompt_options is not None:
        network, tokenizer = prompt_language_model(network, tokenizer, **prompt_options)
    # Other tokenizers raise an error below.
    elif not reads_images and getattr(tokenizer, "is_fast", False):
        kind = find_output_kind(network, tokenizer)
        if kind != "classes":
            network = SpanForSequenceClassification(network, is_extractive=kind == "answer")
    # A custom head classifies sequences, so one family is enough.
    family = HuggingFaceImages if reads_images else HuggingFace
    model = family(network=network, tokenizer=tokenizer)
    if is_unchanged:
        model.remember_check(CheckMemory(network, lambda: model.fingerprint))
    model.check.check_call()
    return model


def _writes_text(network: Any) -> bool:
    """Return whether a network is a language model that generates text."""
    can_generate = getattr(network, "can_generate", None)
    return is_kind(network, *_LANGUAGE_MODELS) and can_generate is not None and can_generate()


def _check_weights(network: Any) -> None:
    """Raise an error if torch has quantized the weights.

    Their outputs for a text depend on the other texts of a batch, because the range of activations
    is that of the batch. So differences between masked texts would be wrong.
    """
    weights = network.state_dict().values()
    if any(not isinstance(weight, torch.Tensor) or weight.is_quantized for weight in weights):
        raise InputError(
            f"{type(network).__name__} has weights that torch has quantized, so its outputs depend "
            "on the batch. Wrap the model before quantization."
        )


def _processes_images(processor: Any) -> bool:
    """Return whether a processor reads images only."""
    return list(getattr(processor, "model_input_names", ())) == ["pixel_values"]


def from_pretrained(
    name: str,
    *,
    allow_download: bool,
    device: str | None = None,
    prompt_options: PromptOptions | None = None,
) -> HuggingFace:
    """Return the model in a folder, or one from the hub. Code of the model is never run.

    Parameters
    ----------
    name
        A folder, or the name of a model on the hub.
    allow_download
        Whether the model may be downloaded.
    device
        The device, by default a GPU if there is one.
    prompt_options
        Options of a language model.

    Returns
    -------
    The loaded model.

    Raises
    ------
    InputError
        If the model cannot be loaded or is not usable.
    """
    if not allow_download:
        check_folder(Path(name))
    options: dict[str, Any] = {"local_files_only": not allow_download, "trust_remote_code": False}
    try:
        with _silence_transformers():
            _check_downloads(name, local_files_only=not allow_download)
            model_class = _auto_class(name, prompt_options=prompt_options, **options)
            # The model is loaded in single precision, also if half was saved. Half precision has
            # three digits, and the effect of a word may be in the fourth.
            model, loading_info = model_class.from_pretrained(
                name, dtype=torch.float32, output_loading_info=True, **options
            )
            reader = AutoImageProcessor if is_kind(model, _IMAGE_CLASSIFIER) else AutoTokenizer
            tokenizer = reader.from_pretrained(name, **options)
    except (KeyboardInterrupt, SystemExit, MemoryError, InputError):
        raise
    # A damaged file may raise any error. A panic of the tokenizers library is not an Exception.
    except BaseException as error:
        raise InputError(
            f"the Hugging Face model '{name}' cannot be loaded: {_loading_failure(error)}"
        ) from None
    # Transformers fills missing weights with random numbers and only warns.
    if missing := sorted(loading_info["missing_keys"]):
        head = "classification head" if prompt_options is None else "head of words"
        raise InputError(
            f"the Hugging Face model '{name}' has no trained {head} (it lacks "
            f"{', '.join(missing[:3])}). Fine-tune it first, or choose another"
            + ("." if prompt_options else ", or use a language model.")
        )
    reads_images = is_kind(model, _IMAGE_CLASSIFIER)
    if not reads_images and _is_empty(tokenizer):
        raise InputError(
            f"the Hugging Face model '{name}' has no tokenizer (tokenizer.json or a vocabulary). "
            "Put its files next to the model with tokenizer.save_pretrained(…)."
        )
    return _make_model(
        _move_model(model, device).eval(), tokenizer, prompt_options, is_unchanged=True
    )


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer in a local folder. Nothing is downloaded, and no code of it is run.

    Raises
    ------
    InputError
        If the folder does not exist, or contains no usable tokenizer.
    """
    if not folder.is_dir():
        raise InputError(
            "tokenizer must be a local folder with the files of a tokenizer, but there is none at "
            f"'{folder}'. Save it there with tokenizer.save_pretrained(…)."
        )
    check_files(folder)
    if (folder / "config.json").exists():
        check_config(folder / "config.json")
    try:
        with _silence_transformers():
            tokenizer = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False
            )
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    # A damaged file may raise any error. A panic of the tokenizers library is not an Exception.
    except BaseException as error:
        raise InputError(
            f"the tokenizer in '{folder}' cannot be loaded: {_loading_failure(error)}"
        ) from None
    if _is_empty(tokenizer) or not getattr(tokenizer, "is_fast", False):
        raise InputError(
            f"the folder '{folder}' has no fast tokenizer (tokenizer.json). Save it there with "
            "tokenizer.save_pretrained(…)."
        )
    return tokenizer


def _is_empty(tokenizer: Any) -> bool:
    """Return whether a tokenizer knows no word, as transformers makes it if files are missing."""
    return set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens)


def _auto_class(name: str, prompt_options: PromptOptions | None, **options: Any) -> Any:
    """Return the class of transformers that loads the model, according to its configuration."""
    config = AutoConfig.from_pretrained(name, **options)
    architectures = config.architectures or []
    writes_text = any(ending in name for ending in _LANGUAGE_MODELS for name in architectures)
    if prompt_options is not None or writes_text:
        return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    for ending, auto_class in (
        ("ForTokenClassification", AutoModelForTokenClassification),
        ("ForQuestionAnswering", AutoModelForQuestionAnswering),
        (_IMAGE_CLASSIFIER, AutoModelForImageClassification),
    ):
        # Some names are longer, such as DeiTForImageClassificationWithTeacher.
        if any(ending in architecture for architecture in architectures):
            return auto_class
    return AutoModelForSequenceClassification


def check_folder(folder: Path) -> None:
    """Check the folder of a model before transformers reads it.

    Raises
    ------
    InputError
        If a file is a device, a pipe or a broken link, or if a size is too large for memory.
    """
    check_files(folder)
    check_config(folder / "config.json")


def check_files(folder: Path) -> None:
    """Raise `InputError` if a file in a folder is no regular file, or too large for memory."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            continue
        if not path.is_file():
            raise InputError(f"'{path}' must be a file, not a device, a pipe or a broken link.")
        is_text = path.suffix in (".json", ".txt", ".model", ".jinja")
        if is_text and path.stat().st_size > _MAX_JSON_BYTES:
            raise InputError(
                f"'{path}' must have at most {_MAX_JSON_BYTES:,} bytes, but it has more."
            )


def check_config(config: Path) -> None:
    """Raise `InputError` if a number in a configuration is too large for memory."""
    content = parse_json(read_bounded_bytes(config, _MAX_JSON_BYTES), f"'{config}'")
    for name, number in _walk_config(content):
        maximum = _MAX_LAYERS if "layer" in name else _MAX_NUMBER
        if isinstance(number, int) and not isinstance(number, bool) and number > maximum:
            raise InputError(
                f"'{config}' must be the configuration of a model, but its "
                f"{truncate_line(name)!r} is above {maximum:,}."
            )


def _check_downloads(name: str, **options: Any) -> None:
    """Raise an error if loading the model would download further code or models.

    trust_remote_code already prevents that the model's own code is run (auto_map in a
    configuration).
    """
    advice = "If you trust it, load it with transformers, and give it to limelight.wrap."
    config, _ = PreTrainedConfig.get_config_dict(name, **options)
    for key, value in _walk_config(config):
        if (built_in := _BUILT_IN_IMPLEMENTATIONS.get(key.removeprefix("_"))) is not None:
            # A dictionary has a value for each part of the network.
            values = value.values() if isinstance(value, dict) else [value]
            if unknown := [
                implementation
                for implementation in values
                if implementation is not None and implementation not in built_in
            ]:
                raise InputError(
                    f"the Hugging Face model '{name}' must use {', '.join(built_in)}, but its "
                    f"config.json names {truncate_line(repr(unknown[0]))}, which transformers "
                    f"would download and run. {advice}"
                )
        if key == "quantization_config" and value is not None:
            raise InputError(
                f"the Hugging Face model '{name}' is quantized, so transformers would download "
                f"code for it. {advice}"
            )
    if find_adapter_config_file(name, **options) is not None:
        raise InputError(
            f"the Hugging Face model '{name}' is an adapter of another model "
            "(adapter_config.json). Save both as one: "
            "model.merge_and_unload().save_pretrained(…)."
        )


def _walk_config(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every name and value in a configuration, at every depth."""
    yield name, value
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _walk_config(member, str(key))
    elif isinstance(value, list):
        for element in value:
            yield from _walk_config(element, name)


def _loading_failure(error: BaseException) -> str:
    """Return a sentence that says why a model could not be loaded."""
    reason = truncate_line(str(error), 400)
    if "ignore_mismatched_sizes" in str(error):
        return "the shapes of its weights are not those of its config.json."
    if "weights_only" in str(error):
        # torch's message recommends loading without this check, which would run code in the file.
        return "its .bin file is damaged, or contains more than weights. Save it as .safetensors."
    if isinstance(error, OSError | ValueError | RuntimeError | ImportError) and reason:
        return reason
    return f"its files are damaged ({type(error).__name__}: {reason.rstrip('.')})."


def _move_model(model: Any, device: str | None) -> Any:
    """Return the model on ``device``, by default on a GPU if there is one."""
    try:
        if torch.device(device or "cpu").type == "meta":
            raise RuntimeError("tensors of the device 'meta' have no values")
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    # torch without CUDA raises an AssertionError.
    except (RuntimeError, AssertionError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(f"device {device!r} cannot be used here ({reason.rstrip('.')}).") from None


@contextlib.contextmanager
def _silence_transformers() -> Iterator[None]:
    """Switch off progress bars and reports of transformers in a block, for one thread at a time."""
    with _LOADING:
        has_progress_bar, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
        logging.disable_progress_bar()
        logging.set_verbosity_error()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if has_progress_bar:
                logging.enable_progress_bar()
