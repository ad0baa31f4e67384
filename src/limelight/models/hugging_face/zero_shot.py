"""Zero-shot pipelines of transformers, which score a hypothesis about each label."""

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
    """Compute the logits of labels by the entailment of a hypothesis about each label.

    The hypothesis is the second text of a pair. As in transformers, labels that exclude each other
    have their logits of entailment. Independent labels have the difference between the logits of
    entailment and contradiction.
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
        """The fingerprint of the network, and a digest of the hypotheses."""
        scorer: Any = self.function
        settings = repr((scorer.hypotheses, scorer.entailment, scorer.contradiction))
        digest = sha256(settings.encode()).hexdigest()[:12]
        return f"{self.name} {scorer.network.fingerprint} asked {digest}".lstrip()

    def read(self, text: Any, *, subwords: bool = False) -> ModelInput:
        """Return the words of a text, with a warning if the network does not read all of it."""
        model_input = super().read(text, subwords=subwords)
        scorer: Any = self.function
        longest_hypothesis = max(scorer.hypotheses, key=len)
        pair_input = scorer.network.read((model_input.text, longest_hypothesis))
        return replace(model_input, warnings=(*model_input.warnings, *pair_input.warnings))


def wrap_zero_shot(pipeline: Any, options: Mapping[str, Any]) -> Function:
    """Return a zero-shot pipeline as a model of the labels in ``options["classes"]``.

    By default the labels and ``multi_label`` are those with which the pipeline was created. The
    template of the hypotheses is always that of the pipeline.

    Raises
    ------
    InputError
        If there are no labels, if an option does not apply, if the template has no place for a
        label, or if no class of the network means entailment.
    """
    for name in options:
        if name not in ("classes", "multi_label", "mask", "words", "batch_size", "name"):
            raise InputError(f"A zero-shot pipeline does not take {name}. {_ADVICE}")
    settings = getattr(pipeline, "_preprocess_params", {})
    labels = options.get("classes") or settings.get("candidate_labels")
    if not labels:
        raise InputError(f"A zero-shot pipeline needs its candidate labels. {_ADVICE}")
    template = settings.get("hypothesis_template", _TEMPLATE)
    if template == template.format("label"):
        raise InputError(
            f"hypothesis_template must have {{}} for the label in it, not {template!r}. Make the "
            "pipeline again with such a template."
        )
    default = getattr(pipeline, "_postprocess_params", {}).get("multi_label", False)
    is_multi_label = bool(options.get("multi_label", default))
    if (entailment := pipeline.entailment_id) < 0:
        raise InputError(
            "A zero-shot pipeline needs a network with a class whose name begins with 'entail', "
            f"but this one has {', '.join(map(str, pipeline.model.config.id2label.values()))}."
        )
    network = from_objects(pipeline.model, pipeline.tokenizer)
    # By its position, as in transformers: networks with two classes call it "not_entailment".
    last = len(pipeline.model.config.id2label) - 1
    contradiction = last if entailment == 0 else 0
    function = Entailment(
        network=network,
        hypotheses=tuple(template.format(label) for label in labels),
        entailment=entailment,
        contradiction=contradiction if is_multi_label else None,
    )
    function_options = {"batch_size": 256, **options}
    function_options |= {"classes": labels, "multi_label": is_multi_label}
    return wrap_function(function, ZeroShotFunction, scale="logit", **function_options)
