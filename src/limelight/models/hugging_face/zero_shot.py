"""Zero-shot pipelines of transformers: how much a text entails a hypothesis about each label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, final

import numpy as np

from limelight.errors import InputError
from limelight.models.functions import Function, wrap_function
from limelight.models.hugging_face.loading import from_objects
from limelight.models.hugging_face.model import HuggingFace
from limelight.shapes import Float
from limelight.text import ModelInput

_TEMPLATE = "This example is {}."  # the default of transformers
_ADVICE = "Write limelight.wrap(pipeline, classes=['sports', 'politics'])."


@final
@dataclass(frozen=True, kw_only=True)
class Entailment:
    """Compute the logits of labels: each label's hypothesis is the second text of a pair.

    As transformers does, labels that exclude each other are compared by their logits of entailment,
    and each of several independent labels by entailment against contradiction.
    """

    network: HuggingFace
    hypotheses: tuple[str, ...]
    entailment: int
    contradiction: int | None  # None if labels exclude each other

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "n labels"]:
        """Return one logit per text and label."""
        pairs = [(text, hypothesis) for text in texts for hypothesis in self.hypotheses]
        logits = self.network.logits(pairs).reshape(len(texts), len(self.hypotheses), -1)
        if self.contradiction is None:
            return logits[:, :, self.entailment]
        return logits[:, :, self.entailment] - logits[:, :, self.contradiction]


class ZeroShotFunction(Function):
    """A classifier of texts whose labels are named when it is wrapped; see ``Entailment``."""

    @property
    def fingerprint(self) -> str:
        """The weights of the network, and what it is asked about a text."""
        asked: Any = self.function
        words = repr((asked.hypotheses, asked.entailment, asked.contradiction))
        digest = sha256(words.encode()).hexdigest()[:12]
        return f"{self.name} {asked.network.fingerprint} asked {digest}".lstrip()

    def read(self, text: Any, *, subwords: bool = False) -> ModelInput:
        """Return the words of a text, with a warning if the network does not read all of it."""
        model_input = super().read(text, subwords=subwords)
        asked: Any = self.function
        longest = max(asked.hypotheses, key=len)
        read = asked.network.read((model_input.text, longest))
        return replace(model_input, warnings=(*model_input.warnings, *read.warnings))


def wrap_zero_shot(pipeline: Any, options: Mapping[str, Any]) -> Function:
    """Return a zero-shot pipeline as a model of the labels in ``options["classes"]``.

    The labels, the template of the hypothesis and ``multi_label`` may also have been given to the
    pipeline when it was made.

    Raises
    ------
    InputError
        If there are no labels, if an option does not apply, if the template has no place for a
        label, or if no class of the network means entailment.
    """
    for name in options:
        if name not in ("classes", "multi_label", "mask", "words", "batch_size", "name"):
            raise InputError(f"A zero-shot pipeline does not take {name}. {_ADVICE}")
    made_with = getattr(pipeline, "_preprocess_params", {})
    labels = options.get("classes") or made_with.get("candidate_labels")
    if not labels:
        raise InputError(f"A zero-shot pipeline needs its candidate labels. {_ADVICE}")
    template = made_with.get("hypothesis_template", _TEMPLATE)
    if template == template.format("label"):
        raise InputError(
            f"hypothesis_template must have {{}} for the label in it, not {template!r}. Make the "
            "pipeline again with such a template."
        )
    independent = getattr(pipeline, "_postprocess_params", {}).get("multi_label", False)
    independent = bool(options.get("multi_label", independent))
    if (entailment := pipeline.entailment_id) < 0:
        raise InputError(
            "A zero-shot pipeline needs a network with a class whose name begins with 'entail'; "
            f"this one has {', '.join(map(str, pipeline.model.config.id2label.values()))}."
        )
    network = from_objects(pipeline.model, pipeline.tokenizer)
    # By position, as transformers has it: two-class networks call it "not_entailment".
    last = len(pipeline.model.config.id2label) - 1
    contradiction = last if entailment == 0 else 0
    function = Entailment(
        network=network,
        hypotheses=tuple(template.format(label) for label in labels),
        entailment=entailment,
        contradiction=contradiction if independent else None,
    )
    settings = {"batch_size": 256, **options, "classes": labels, "multi_label": independent}
    return wrap_function(function, ZeroShotFunction, scale="logit", **settings)
