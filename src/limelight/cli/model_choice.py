"""The model that a command is about, as its options say."""

__all__ = ["chosen_model"]

from pathlib import Path
from typing import Any

from limelight.errors import InputError
from limelight.files import bounded_json
from limelight.models import Model, load


def chosen_model(
    model: Path | None, device: str | None, template: str | None = None, labels: str | None = None
) -> Model:
    """Return the model; with ``template`` and ``labels`` it is a language model that is asked.

    A template that begins with a bracket is a list of chat messages as JSON.
    """
    if template is None and labels is None:
        return load(model, device=device)
    if model is None:
        raise InputError("--template and --labels are about a language model; add --model FOLDER.")
    if template is None or labels is None:
        raise InputError(
            "--template and --labels go together: one asks, the other has the answers."
        )
    return load(model, device=device, template=_template(template), labels=_labels(labels))


def _template(written: str) -> Any:
    if not written.lstrip().startswith("["):
        return written
    return bounded_json(written.encode(), "--template")


def _labels(written: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in written.split(","):
        name, sign, word = part.partition("=")
        if not sign or not name.strip() or not word.strip() or name.strip() in found:
            raise InputError(
                "--labels gives each class a word, as in negative=bad,positive=good; got "
                f"{written!r}."
            )
        found[name.strip()] = word.strip()
    return found
