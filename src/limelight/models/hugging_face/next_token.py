"""A causal language model as a sequence classifier: a few words that may come next."""

__all__ = ["NextTokenForSequenceClassification", "next_token_classifier"]

import copy
import inspect
from collections.abc import Mapping
from typing import Any, final

import torch
from transformers.modeling_outputs import SequenceClassifierOutput

from limelight.errors import InputError
from limelight.models.hugging_face.longest_input import longest_input
from limelight.models.hugging_face.prompt import label_tokens, prompt_of
from limelight.models.hugging_face.prompt_tokenizer import PromptTokenizer


@final
class NextTokenForSequenceClassification(torch.nn.Module):  # type: ignore[misc]
    """The network of a language model with another head: what it says of ``tokens`` as the next.

    Next after the last piece that attention sees. Of two tokens the one output is the log-odds of
    the second, the difference of their logits. Of more, each output is a logit less the mean of
    them: what is common to all words says nothing about the classes. Softmax of these is the
    probability of each token given that it is one of them.
    """

    def __init__(self, language_model: Any, config: Any, tokens: tuple[int, ...]) -> None:
        super().__init__()
        self.language_model, self.config, self.tokens = language_model, config, tokens
        given = inspect.signature(language_model.forward).parameters
        self._keeps = "logits_to_keep" in given  # else all places are turned into words

    @property
    def device(self) -> Any:
        """Where the weights are."""
        return self.language_model.device

    @property
    def dtype(self) -> Any:
        """The precision of the weights."""
        return self.language_model.dtype

    def get_input_embeddings(self) -> Any:
        """Return the table that embeds tokens."""
        return self.language_model.get_input_embeddings()

    def set_attn_implementation(self, name: str) -> None:
        """Compute attention in another way."""
        self.language_model.set_attn_implementation(name)

    def forward(
        self, input_ids: Any, attention_mask: Any, **asked: Any
    ) -> SequenceClassifierOutput:
        """Return the logits of the label tokens for every row, which is padded on the right."""
        length = attention_mask.shape[1]
        last = length - 1 - attention_mask.flip(1).argmax(dim=1)
        places, row = torch.unique(last, return_inverse=True)
        if self._keeps:
            asked["logits_to_keep"] = places
        out = self.language_model(
            input_ids=input_ids, attention_mask=attention_mask, use_cache=False, **asked
        )
        rows = torch.arange(len(input_ids), device=last.device)
        at_last = out.logits[rows, row if self._keeps else last]
        return SequenceClassifierOutput(
            logits=_compared(at_last[:, list(self.tokens)]),
            hidden_states=getattr(out, "hidden_states", None),
            attentions=getattr(out, "attentions", None),
        )


def _compared(logits: Any) -> Any:
    if logits.shape[1] == 2:
        return logits[:, 1:] - logits[:, :1]
    return logits - logits.mean(dim=1, keepdim=True)


def next_token_classifier(
    language_model: Any, tokenizer: Any, template: Any, labels: Any
) -> tuple[NextTokenForSequenceClassification, PromptTokenizer]:
    """Return network and tokenizer of a classifier made of a language model."""
    _check_causal(language_model)
    prompt = prompt_of(tokenizer, template)
    tokens = label_tokens(tokenizer, prompt, _checked_labels(labels))
    config = copy.deepcopy(language_model.config)  # somebody else's, which stays as it is
    first, *others = tokens
    two = len(others) == 1  # then one output stands for both
    config.id2label = dict(enumerate(others if two else tokens))
    if two:
        config.other_label = first
    config.label2id = {name: i for i, name in config.id2label.items()}
    config.problem_type = "single_label_classification"
    # Part of what the classifier is, and so of its fingerprint.
    config.next_token = {"template": [prompt.before, prompt.after], "tokens": tokens}
    if config.pad_token_id is None:  # padding is masked out, so any token will do
        config.pad_token_id = next(
            (int(one) for one in (tokenizer.pad_token_id, tokenizer.eos_token_id) if one), 0
        )
    head = NextTokenForSequenceClassification(language_model, config, tuple(tokens.values()))
    head.training = language_model.training
    _check_room(prompt.ids(tokenizer, ""), longest_input(head, tokenizer))
    return head, PromptTokenizer(tokenizer, prompt)


def _check_room(around: list[int], limit: int) -> None:
    if len(around) >= limit:
        raise InputError(
            f"template must leave room for the text; it has {len(around)} tokens, and the model "
            f"reads {limit}."
        )


def _check_causal(network: Any) -> None:
    generates = getattr(network, "can_generate", lambda: False)()
    if not generates or getattr(network.config, "is_encoder_decoder", False):
        raise InputError(
            "template and labels are for causal language models (…ForCausalLM, …LMHeadModel); got "
            f"{type(network).__name__}."
        )


def _checked_labels(labels: Any) -> Mapping[str, str]:
    words = list(labels.items()) if isinstance(labels, Mapping) else []
    if len(words) < 2 or not all(
        isinstance(one, str) and one.strip() for pair in words for one in pair
    ):
        raise InputError(
            'labels must give at least two classes a word each, like {"negative": "bad", '
            f'"positive": "good"}}; got {labels!r}.'
        )
    return dict(words)
